/* SPDX-License-Identifier: MIT */
/* A spec as it was written: the value of each key and where it stood.
 *
 * The files that read specs share this: spec.c reads text into values by the rows of key_rows.h, spec_rules.c checks
 * what keys may not say together, read.c makes the layer. Left out on purpose: the meaning of "plan.*" keys (plan.h),
 * includes, variables, quoting, any state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "spec/keys.h"
#include "spec/layer.h"

#define MAX_PLAN_KEYS 256
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* One "key = value", wherever it stood. */
struct entry {
    char *key; /* NULL: not given */
    char *value;
    char *place;  /* "file:line" or "--set key=value" */
    size_t line;  /* 0: of a --set */
    size_t column; /* in which the value begins, from 1 on */
};

struct spec {
    const char *path;
    const char *text; /* in place of the file's; NULL: the file is read */
    struct diag *diag;
    struct pool memory; /* of the entries' texts */
    bool failed; /* no text: stop */
    struct entry given[KEY_COUNT];
    struct entry plan[MAX_PLAN_KEYS];
    size_t plan_count;
    struct entry tables[LAYER_TABLES]; /* "table.NAME", in the order of the file */
    size_t table_count;

    bool bad[KEY_COUNT];      /* required and missing, or its value is wrong and has been reported */
    int64_t value[KEY_COUNT]; /* what was written or, without that, the default; valid unless bad */
    bool differs[KEY_COUNT];  /* from its default */
    double real[KEY_COUNT];   /* the same of keys that are real numbers */
    bool bad_read;            /* value_of() was asked for a bad value */
};

/* spec.c */
/* The file, or the text in its place, then --set texts over it. `failed` where there is nothing more to say. */
void spec_read(struct spec *spec, const char *const *set, size_t set_count);
/* Every value that is given, and every default. */
void spec_values(struct spec *spec);
void spec_check_name(struct spec *spec);
/* "key=value" for each key that a plan depends on (enum key_steers), blanks between; of expressions and tables
 * fingerprints, as they have blanks. NULL without memory. */
char *spec_steering(struct spec *spec, const struct layer *layer);
void spec_fingerprint(const char *text, char fingerprint[17]);
/* The file's stem: what stands between the last slash and the last dot. */
char *spec_stem(const char *path);

static inline bool is_given(const struct spec *spec, enum key key) { return spec->given[key].key != NULL; }

/* Where an error about this key belongs: its line, or the file if it is not written. */
static inline const char *place_of(const struct spec *spec, enum key key)
{
    return is_given(spec, key) ? spec->given[key].place : spec->path;
}
/* Reports an error at the key's place; false. */
#define wrong(spec, key, ...) diag_error((spec)->diag, place_of(spec, key), __VA_ARGS__)

/* The key's value; of a bad one -1, and `bad_read` is set, so that what is asked knows that it has no answer. */
static inline int64_t value_of(struct spec *spec, enum key key)
{
    spec->bad_read = spec->bad_read || spec->bad[key];
    return spec->bad[key] ? -1 : spec->value[key];
}

static inline bool is_attention(struct spec *spec) { return value_of(spec, KEY_LAYER) == LAYER_ATTENTION; }
static inline bool is_linear(struct spec *spec) { return value_of(spec, KEY_LAYER) == LAYER_LINEAR; }
static inline bool is_recurrent(struct spec *spec) { return value_of(spec, KEY_LAYER) == LAYER_RECURRENT; }
static inline bool is_convolution(struct spec *spec) { return value_of(spec, KEY_LAYER) == LAYER_CONV; }
/* Of layer = linear, which has none unless it is asked for. */
static inline bool has_row_norm(struct spec *spec)
{
    return is_linear(spec) && is_given(spec, KEY_NORM) && value_of(spec, KEY_NORM) != NORM_NONE;
}
static inline bool is_split(struct spec *spec) { return value_of(spec, KEY_INPUT) == INPUT_SPLIT; }
static inline bool is_projected(struct spec *spec) { return value_of(spec, KEY_INPUT) == INPUT_PROJECTED; }
static inline bool is_cached(struct spec *spec) { return value_of(spec, KEY_CACHE) != CACHE_NONE; }
static inline bool is_conv(struct spec *spec) { return value_of(spec, KEY_W_O) == W_O_CONV; }
static inline bool is_block(struct spec *spec) { return value_of(spec, KEY_BLOCK) != BLOCK_NONE; }
static inline bool is_ffn(struct spec *spec) { return value_of(spec, KEY_FFN) != FFN_NONE; }
/* Of a layer with projections; without them these keys are refused. */
static inline bool is_cross(struct spec *spec) { return !is_projected(spec) && value_of(spec, KEY_ATTENTION) == 1; }
static inline bool is_tied(struct spec *spec) { return !is_projected(spec) && value_of(spec, KEY_W_K) == 1; }
static inline bool is_identity(struct spec *spec)
{
    return !is_projected(spec) && value_of(spec, KEY_W_V) == W_V_IDENTITY;
}
static inline bool shares_keys(struct spec *spec) { return value_of(spec, KEY_W_V) == W_V_KEYS; }
static inline bool is_wide(struct spec *spec) { return !is_projected(spec) && value_of(spec, KEY_WIDTH) == WIDTH_WIDE; }

static inline bool has_mask(struct spec *spec, enum layer_mask mask)
{
    return (value_of(spec, KEY_MASK) & (int64_t)mask) != 0;
}
static inline bool has_window(struct spec *spec) { return has_mask(spec, MASK_WINDOW); }
static inline bool has_rope(struct spec *spec) { return value_of(spec, KEY_ROPE) != ROPE_NONE; }
static inline bool has_vectors(struct spec *spec)
{
    return value_of(spec, KEY_REL_KEYS) != VECTORS_NONE || value_of(spec, KEY_REL_QUERIES) != VECTORS_NONE;
}
static inline bool has_log_rows(struct spec *spec)
{
    return has_vectors(spec) && value_of(spec, KEY_REL_ROWS) == ROWS_LOG;
}
static inline bool has_t5(struct spec *spec) { return value_of(spec, KEY_RELATIVE) == RELATIVE_T5; }
static inline bool has_buckets(struct spec *spec) { return has_t5(spec) || has_log_rows(spec); }
static inline bool has_table(struct spec *spec)
{
    return value_of(spec, KEY_RELATIVE) == RELATIVE_TABLE || (has_vectors(spec) && !has_log_rows(spec));
}
/* Whether the layer's kind has the key; where the kind is not known, whether all kinds have it. */
static inline bool key_is_of(const struct spec *spec, enum key key)
{
    const unsigned of = key_rows[key].of != 0 ? key_rows[key].of : OF_ATTENTION;
    return spec->bad[KEY_LAYER] ? of == OF_ALL : (of >> spec->value[KEY_LAYER] & 1u) != 0;
}
/* Whether the layer's other keys give this key a meaning; true where that is not known, as one of them is bad. */
static inline bool has_meaning(struct spec *spec, enum key key)
{
    spec->bad_read = false;
    return key_rows[key].has_meaning == NULL || key_rows[key].has_meaning(spec) || spec->bad_read;
}

/* The next number of a list; `at` is after it then, NULL after the last. False: it is none above 0 in f32. */
bool spec_next(const char **at, double *number);

/* spec_rules.c */
void spec_rules(struct spec *spec);

/* spec_expressions.c */
/* Fills the layer's tables and expressions, whose sizes are known by now; what is wrong is in diag. */
void spec_expressions(struct spec *spec, struct layer *layer);
