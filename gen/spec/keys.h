/* SPDX-License-Identifier: MIT */
/* The table of keys: all that is known of a key by itself. Each row of key_rows.h is a line of it.
 *
 * Reading values, steering, filling a layer, plan files, --keys, what templates see and the tests walk this table.
 * Left out on purpose: rules between keys (spec_rules.c) and sizes that are computed from others (read.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/nearest.h"
#include "spec/layer.h"

struct spec;

#define KEY(id, ...) KEY_##id,
enum key {
#include "spec/key_rows.h"
    KEY_COUNT
};
#undef KEY

enum key_kind {
    KIND_NAME, KIND_SIZE, KIND_REACH, KIND_COUNT, KIND_MASK, KIND_WORD, KIND_SWITCH, KIND_EXPRESSION, KIND_LIST,
    KIND_FACTOR, KIND_CAP, KIND_POSITIVE, KIND_SHARE /* real numbers */
};
static inline bool kind_is_real(enum key_kind kind) { return kind >= KIND_FACTOR; }

/* What the line of a plan file that tells a layer has of a key. */
enum key_steers {
    STEERS,         /* its value, where it is not the default */
    STEERS_IF_ANY,  /* "true", where it is not the default */
    STEERS_ALWAYS,  /* the field's value, with defaults that are other keys' */
    STEERS_MEANT,   /* the field's value, where the layer's other keys give the key a meaning */
    STEERS_NOTHING  /* no plan depends on it */
};

/* The type of a field of struct layer, with which `offset` stands in a row */
enum field_type { FIELD_NONE, FIELD_SWITCH, FIELD_WHOLE, FIELD_REAL, FIELD_WORD };

struct key_word {
    const char *word;
    int value;          /* of the field: the enumeration's constant */
    const char *theirs; /* what others call it, blanks between; NULL: nothing known */
};

#define OF_ATTENTION (1u << LAYER_ATTENTION)
#define OF_FFN (1u << LAYER_FFN)
#define OF_LINEAR (1u << LAYER_LINEAR)
#define OF_RECURRENT (1u << LAYER_RECURRENT)
#define OF_CONV (1u << LAYER_CONV)
#define OF_STATES (OF_RECURRENT | OF_CONV)
#define OF_HEADS (OF_ATTENTION | OF_RECURRENT)
#define OF_WEIGHTS (OF_ATTENTION | OF_FFN | OF_LINEAR)
#define OF_ROWS (OF_HEADS | OF_FFN | OF_LINEAR) /* what may have norms and matrices */
#define OF_ALL (OF_ROWS | OF_CONV)

#define KEY_IS_BROUGHT "input = projected brings q, k and v as they are; leave it out"

struct key_row {
    const char *name;
    enum key_kind kind;
    size_t offset;        /* FIELD(…): of the field with the value; FIELD_NONE: read.c makes what follows from it */
    enum field_type type;
    double absent;        /* the value where the key is not given */
    enum key from[2];     /* then it has the value of the first of these keys that has a meaning; KEY_NAME: none */
    const char *example;  /* the key must be given where it has a meaning: a value for the message; NULL: it need not */
    bool (*needed)(struct spec *spec); /* that is so only here; NULL: wherever it has a meaning */
    struct key_word words[17]; /* of a WORD; a word of NULL ends them */
    enum key_steers steers;
    const char *context;  /* the name of the field in templates; NULL: none. A word is "" where its constant is 0 */
    unsigned of;          /* kinds of layers that have the key; 0: attention alone */
    const char *elsewhere; /* why the other kinds do not have it; NULL: they have no attention */
    bool (*has_meaning)(struct spec *spec); /* by the values of other keys; NULL: always */
    const char *idle;     /* why the key has no meaning, and what would be right */
    bool restated;        /* the default may be written all the same */
    unsigned scalings;    /* of rope_scaling that use the key; 0: it is none of theirs */
    const char *untrained; /* it has no gradient: what to write under train = true */
    /* theirs: a key of config.json (docs/spec.md), or an argument of PyTorch or ONNX, with this meaning; hint: the text
     * that a message adds after the key's name */
    struct { const char *theirs, *hint; } nicknames[3];
};
extern const struct key_row key_rows[KEY_COUNT];

/* The words that the key may have */
const struct key_word *key_words(enum key key);
/* The first word with this value */
const char *key_word(enum key key, int64_t value);
/* The word; NULL: the key has no such word. */
const struct key_word *key_find_word(enum key key, const char *text);
/* The word that others call `text`; NULL: none is known. */
const char *key_our_word(enum key key, const char *text);
/* "narrow or wide", "a, b or c" */
void key_list_words(enum key key, char *text, size_t size);
/* The word that was perhaps meant */
struct nearest key_nearest_word(enum key key, const char *text, size_t length);

/* The value of the key's field; of a FIELD_REAL the second one. key_set: whichever of the two the key's kind has */
int64_t key_whole(const struct layer *layer, enum key key);
double key_real(const struct layer *layer, enum key key);
void key_set(struct layer *layer, enum key key, int64_t whole, double real);

/* The key of this name; KEY_COUNT: there is none. */
enum key key_find(const char *name);
/* The key whose row has this foreign name, and the text that a message adds after the key's name; KEY_COUNT: none. */
enum key key_nickname(const char *theirs, const char **hint);
