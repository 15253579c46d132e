/* SPDX-License-Identifier: MIT */
/* The points of a sweep: what is varied, whether a point is legal, how it is called, and what identifies it.
 *
 * Left out on purpose: the product of the axes and how shards share it (vary.h).
 */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/number.h"
#include "kernels/call.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "sweep.h"
#include "system/cpu.h"
#include "base/memory.h"
#include "system/sha256.h"

/* Keys of a call, not of the spec. */
static bool is_call_key(const char *key)
{
    static const char *const keys[] = {"isa", "n", "m", "batch", "past"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

/* --set and --n, --m, --batch fix what --vary varies? */
static void check_axis(const struct options *o, const struct axis *axis, struct diag *diag)
{
    const struct {
        const char *key;
        bool given;
    } fixed[] = {{"n", o->n != UNSET}, {"m", o->m != UNSET}, {"batch", o->batch != UNSET}, {"isa", o->each_isa}};
    const size_t length = strlen(axis->key);
    const struct nearest nearest = layer_nearest_key(axis->key);
    char place[100], meant[NEAREST_TEXT];
    snprintf(place, sizeof place, "--vary %s", axis->key);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (fixed[i].given && strcmp(fixed[i].key, axis->key) == 0)
            diag_error(diag, place, "--%s fixes it; give one of the two", axis->key);
    for (size_t i = 0; i < o->compile.set_count; i++)
        if (strncmp(o->compile.set[i], axis->key, length) == 0 && o->compile.set[i][length] == '=')
            diag_error(diag, place, "--set %s fixes it; give one of the two", o->compile.set[i]);
    for (size_t i = 0; strcmp(axis->key, "isa") == 0 && i < axis->count; i++)
        if (isa_find(axis->value[i]) == NULL)
            diag_error(diag, place, "unknown instruction set '%s'; attngen --help lists them", axis->value[i]);
    if (!is_call_key(axis->key) && (!layer_knows_key(axis->key) || strcmp(axis->key, "name") == 0))
        diag_error(diag, place, "no key that can be varied; write a key of the spec, plan.…, isa, n, m, batch, past%s",
                   nearest_add(&nearest, meant));
}

/* Several instruction sets of --isa are an axis like any other, the last one: "isa=avx2,avx512"; free() it. */
static char *isa_axis(const struct options *o)
{
    char names[200];
    isa_list_names(names, sizeof names, isa_all(), ",");
    return text_join("isa=%s", o->isa != NULL ? o->isa : names);
}

bool sweep_read_request(struct sweep *s, struct diag *diag)
{
    const struct options *o = s->options;
    HEAP const char **vary = memory_get(o->vary.count + 1, sizeof *vary);
    HEAP char *isa = isa_axis(o);
    const bool several = o->each_isa && (o->isa == NULL || strchr(o->isa, ',') != NULL);
    memcpy(vary, o->vary.text, o->vary.count * sizeof *vary);
    vary[o->vary.count] = isa;
    if (axes_parse(&s->axes, vary, o->vary.count + several, diag))
        for (size_t i = 0; i < o->vary.count; i++)
            check_axis(o, &s->axes.axis[i], diag);
    if (o->isa != NULL)
        isa_parse_list(o->isa, diag);
    if (o->shard != NULL)
        shard_parse(o->shard, &s->shard, &s->shards, diag);
    if (o->resume && (o->json_lines == NULL || strcmp(o->json_lines, "-") == 0))
        diag_error(diag, "command line", "--resume needs --json FILE, the file that an earlier run wrote");
    return diag->errors == 0;
}

void sweep_point_sets(struct words *sets, const struct sweep *s, size_t number)
{
    for (size_t i = 0; i < s->options->compile.set_count; i++)
        words_add(sets, s->options->compile.set[i]);
    for (size_t i = 0; i < s->axes.count; i++)
        if (!is_call_key(s->axes.axis[i].key)) {
            HEAP char *text = text_join("%s=%s", s->axes.axis[i].key, axes_value(&s->axes, number - 1, i));
            words_add(sets, text);
        }
}

struct inputs_draw sweep_draw(const struct sweep *s, const struct point *p, bool full)
{
    return (struct inputs_draw){.seed = s->options->seed, .init = s->options->init, .batch = p->batch, .n = p->n,
                                .m = p->m, .full_lengths = full, .past_given = full, .past = p->past};
}

struct layer *sweep_point_layer(const struct sweep *s, size_t number, struct diag *diag)
{
    OWNED(words_free) struct words sets = {0};
    sweep_point_sets(&sets, s, number);
    return layer_read(s->spec, (const char *const *)sets.word, sets.count, diag);
}

/* A varied number of the call, at least `min`, else `otherwise` */
static int64_t call_number(const struct sweep *s, size_t number, const char *key, int min, int64_t otherwise,
                           struct diag *diag)
{
    for (size_t i = 0; i < s->axes.count; i++) {
        const char *text = axes_value(&s->axes, number - 1, i);
        uint64_t value = 0;
        if (strcmp(s->axes.axis[i].key, key) != 0)
            continue;
        if (!number_whole(text, strlen(text), (uint64_t)min, INT32_MAX, &value))
            diag_error(diag, key, min > 0 ? "%s = %s is not a size; write a whole number, 1 or more"
                                          : "%s = %s is not a number of positions; write a whole number", key, text);
        return (int64_t)value;
    }
    return otherwise;
}

/* A varied size, else the option's, else the layer's */
static size_t call_size(const struct sweep *s, size_t number, const char *key, size_t given, int64_t otherwise,
                        struct diag *diag)
{
    return (size_t)call_number(s, number, key, 1, (int64_t)given_or(given, otherwise), diag);
}

/* Whether y is compared with that of the layer in f32. */
static bool has_types(const struct sweep *s, const struct layer *layer)
{
    return layer_stores_weights(layer) || layer_stores_cache(layer) || layer->tensor_type != TENSOR_F32 ||
           axes_find(&s->axes, "precision") != NULL || axes_find(&s->axes, "weight_type") != NULL ||
           axes_find(&s->axes, "cache_type") != NULL || axes_find(&s->axes, "tensor_type") != NULL;
}

/* The sizes of a point's call */
static void choose_call(struct point *p, const struct sweep *s, const struct layer *layer, struct diag *diag)
{
    const struct options *o = s->options;
    const bool varies_m = axes_find(&s->axes, "m") != NULL;
    p->batch = call_size(s, p->number, "batch", o->batch, 1, diag);
    p->n = call_size(s, p->number, "n", o->n, layer_has_cache(layer) ? 1 : layer->seq_len, diag);
    p->m = !layer_is_square(layer) ? call_size(s, p->number, "m", o->m, layer->source_len, diag) : p->n;
    if (layer_has_cache(layer)) { /* a step at the end of the cache, unless sizes are given */
        p->past = call_number(s, p->number, "past", 0, max(0, layer->cache_len - (int64_t)p->n), diag);
        p->m = (size_t)p->past + p->n;
    } else if (axes_find(&s->axes, "past") != NULL) {
        diag_error(diag, "past", "past is for a layer with a cache; this one has none");
    }
    p->costs = has_types(s, layer);
    if (varies_m && layer_is_square(layer))
        diag_error(diag, "m", "m is for attention = cross; in self-attention it is n");
    const struct inputs_draw draw = sweep_draw(s, p, true);
    inputs_fit(layer, &draw, true, "call", diag);
}

static bool is_possible(const struct layer *layer, size_t row)
{
    return (plan_isas(layer, 1u << row) != 0) && cpu_may_have(&isa_table[row]);
}

/* The set of a point: what is given or varied, else the best, as far as the layer's types leave it. */
static void choose_isa(struct point *p, const struct sweep *s, const struct layer *layer)
{
    const bool given = s->options->isa != NULL || axes_find(&s->axes, "isa") != NULL;
    size_t row;
    p->isa = s->best;
    for (size_t i = 0; i < s->axes.count; i++)
        if (strcmp(s->axes.axis[i].key, "isa") == 0)
            p->isa = axes_value(&s->axes, p->number - 1, i);
    row = (size_t)(isa_find(p->isa) - isa_table);
    while (!given && row > 0 && (isa_table[row].optional || !is_possible(layer, row)))
        row--;
    p->isa = isa_table[row].name;
    p->lacks = is_possible(layer, row) ? NULL : call_why_skipped(layer, row);
}

/* One line: "d_model = 64; h = 4" */
static char *one_line(const char *text)
{
    struct text line;
    for (FILE *out = text_begin(&line); *text != '\0'; text++)
        if (*text != '\n')
            putc(*text, out);
        else if (text[1] != '\0')
            fputs("; ", out);
    return text_end(&line);
}

static void hash_text(struct sha256 *hash, const char *text)
{
    sha256_add(hash, text, strlen(text) + 1);
}

static void end_id(struct sha256 *hash, char id[ID + 1])
{
    char digits[65];
    sha256_end(hash, digits);
    memcpy(id, digits, ID);
    id[ID] = '\0';
}

/* Hashes everything that a result of this point depends on, except the machine. */
static void hash_point(struct sha256 *hash, const struct sweep *s, const struct point *p)
{
    const struct options *o = s->options;
    char call[300];
    snprintf(call, sizeof call, "%s %zu %zu %zu %zu %s %llu %d %zu %.17g", s->version, p->number, p->n, p->m,
             p->batch, p->isa != NULL ? p->isa : "", (unsigned long long)o->seed, (int)o->init, o->rounds, o->seconds);
    hash_text(hash, call);
    hash_text(hash, p->settings != NULL ? p->settings : "");
    for (size_t i = 0; i < s->axes.count; i++) {
        hash_text(hash, s->axes.axis[i].key);
        hash_text(hash, axes_value(&s->axes, p->number - 1, i));
    }
}

/* Whether it is legal, and its sizes; false without a spec */
static bool make_point(struct point *p, const struct sweep *s, struct diag *diag)
{
    OWNED(diag_free) struct diag own = {0};
    struct sha256 hash;
    struct layer *layer = sweep_point_layer(s, p->number, &own);
    if (layer != NULL)
        choose_call(p, s, layer, &own);
    const bool good = !own.environment;
    if (!good)
        diag_environment(diag, s->spec, "%s", diag_first(&own));
    if (layer == NULL || own.errors > 0) {
        p->reason = text_copy(diag_first(&own));
    } else {
        choose_isa(p, s, layer);
        p->parameters = layer_parameters(layer);
        p->multiply_adds = layer_multiply_adds(layer, (int64_t)p->n, (int64_t)p->m).total * (double)p->batch;
        p->settings = one_line(layer->text);
        p->weight = 0.1 + p->multiply_adds / 6e8;
    }
    sha256_start(&hash);
    hash_point(&hash, s, p);
    hash_text(&hash, s->machine.cpu);
    hash_text(&hash, s->machine.compiler);
    hash_text(&hash, s->machine.flags);
    end_id(&hash, p->id);
    layer_free(layer);
    return good;
}

static void free_point(struct point *p)
{
    free(p->reason);
    free(p->settings);
}

bool sweep_make_points(struct sweep *s, struct diag *diag)
{
    HEAP size_t *shard = shard_deal(s->axes.points, s->shards);
    struct sha256 hash;
    s->point = memory_get(s->axes.points, sizeof *s->point);
    bool good = true;
    sha256_start(&hash);
    for (size_t i = 0; good && i < s->axes.points; i++) {
        struct point point = {.number = i + 1};
        good = make_point(&point, s, diag);
        hash_point(&hash, s, &point);
        s->legal += point.reason == NULL;
        if (good && shard[i] == s->shard)
            s->point[s->count++] = point;
        else
            free_point(&point);
    }
    end_id(&hash, s->id);
    return good;
}

void sweep_free_points(struct sweep *s)
{
    for (size_t i = 0; i < s->count; i++)
        free_point(&s->point[i]);
    free(s->point);
    axes_free(&s->axes);
}
