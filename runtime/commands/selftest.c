/* SPDX-License-Identifier: MIT */
/* attnrun selftest: writes a program that checks a pair where there is neither attnrun nor a reference.
 *
 * The program's text is selftest.in, with @n, @N and other single letters replaced and each line "@@word" filled in by
 * a function of this file. Both programs draw inputs by the same code, draw.h. Left out on purpose: running it, and the
 * statistics and the promises of attnrun check.
 */
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/embedded.h"
#include "base/replace.h"
#include "base/version.h"
#include "commands.h"
#include "inputs/draw.h"
#include "plan/isa.h"
#include "reference/compare.h"
#include "system/process.h"

#define SAMPLE 4096           /* maximum of numbers of an output that are compared: 100 KB of text */
#define POSITIONS 37          /* queries: more than the query block of most plans, and odd */
#define KEYS_MORE 6
#define WORK 1e8              /* approximate multiply-adds of the call: a second or two in an emulator */
#define FEW_POSITIONS 7
#define NOT_PROMISED (FLT_MAX / 2) /* a bound past this is none */

/* A self-test that is being written */
struct selftest {
    const struct options *options;
    const char *spec;
    struct layer *layer;
    struct inputs inputs;
    struct draw draws[TENSOR_COUNT]; /* .rows = 0: not drawn */
    struct folds folds;
    struct reference reference, of_pairs; /* the second: precision = i8, for sets that sum pairs */
    struct bounds bounds, bounds_of_pairs;
    size_t *new_rows[2]; /* of a cache: inputs_new_rows() */
    struct diag diag;
    FILE *out;
};

/* y, attn, lse, or a cache after the call; compared are its numbers 0, step, 2 step … */
struct output {
    const char *name;
    enum tensor_element element;
    size_t count, step, samples;
    int64_t extent[4];
    int axes;
    enum layer_tensor tensor;
    const double *value, *worst, *drawn, *open; /* of a cache: of its new rows */
    int part;                                   /* of a cache: 0 keys, 1 values, 2 and 3 the scales of their rows */
    const size_t *new_rows;                     /* likewise; else NULL */
    size_t width;
};

/* ---- sizes and inputs ---- */

static size_t keys_for(const struct selftest *s, size_t n)
{
    const size_t given = s->options->m;
    if (layer_is_square(s->layer))
        return n;
    return given != UNSET ? given : min_size((size_t)s->layer->source_len, n + KEYS_MORE);
}

#define CACHED 45 /* maximum of positions in a cache before the call */

/* The first sequence continues, the others begin; a ring has already wrapped once. */
static int64_t past_for(const struct selftest *s, size_t b, size_t n)
{
    const struct layer *layer = s->layer;
    const int64_t most = layer->cache == CACHE_RING ? layer->cache_len + 3 : layer->cache_len - (int64_t)n;
    const int64_t wanted = layer->cache == CACHE_RING && layer->cache_len <= (int64_t)4 * CACHED ? most : CACHED;
    return !layer_has_cache(layer) || b % 2 == 1 ? 0 : most < wanted ? most : wanted;
}

static double work_of(const struct selftest *s, size_t n)
{
    return layer_multiply_adds(s->layer, (int64_t)n, past_for(s, 0, n) + (int64_t)keys_for(s, n)).total;
}

static bool is_of_pairs(enum layer_tensor t)
{
    return layer_tensor_row(t)->kind == TENSOR_OF_PAIRS;
}

/* As many positions as the work allows; then one sequence in place of two. */
static bool choose_sizes(struct selftest *s)
{
    const struct options *o = s->options;
    const size_t limit = (size_t)s->layer->seq_len;
    size_t batch = o->batch != UNSET ? o->batch : 2, n = o->n != UNSET ? o->n : min_size(limit, POSITIONS);
    while (o->n == UNSET && n > FEW_POSITIONS && (double)batch * work_of(s, n) > WORK)
        n--;
    if (o->batch == UNSET && 2 * work_of(s, n) > WORK)
        batch = 1;
    s->inputs = (struct inputs){.batch = batch, .n = n, .m = keys_for(s, n)};
    if (n > limit || s->inputs.m > (size_t)s->layer->source_len)
        return diag_error(&s->diag, s->spec, "n = %zu, m = %zu; at most %zu and %lld fit the layer", n, s->inputs.m,
                          limit, (long long)s->layer->source_len);
    for (size_t b = 0; s->layer->cache == CACHE_PAGED && b < batch; b++)
        s->inputs.pages += (size_t)((past_for(s, b, n) + (int64_t)n + s->layer->page_len - 1) / s->layer->page_len);
    s->inputs.pages += s->layer->cache == CACHE_PAGED; /* one that nobody uses */
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (is_of_pairs(t)) {
            s->inputs.mask_batch[t] = batch;
            s->inputs.mask_h[t] = (size_t)s->layer->h;
        }
    return true;
}

/* The power of two nearest to Xavier's limit for a weight, 1/4 for a bias, 2 for inputs; less for queries with a large
 * scale */
static float limit_of(const struct selftest *s, enum layer_tensor t)
{
    int64_t shape[4];
    const int rank = layer_weight_shape(s->layer, t, shape);
    if (rank == 0) /* 127 times the scale of a cache's row is 2 as well */
        return t == TENSOR_K_SCALE || t == TENSOR_V_SCALE ? 1.0f / 64 : 2;
    const double large = rank == 1 ? 0.25 : sqrt(6.0 / (double)(shape[rank - 1] + shape[rank - 2]));
    return (float)exp2(round(log2(large * inputs_query_factor(s->layer, t))));
}

static void plan_draw(struct selftest *s, enum layer_tensor t)
{
    const size_t columns = is_of_pairs(t) ? inputs_columns(s->layer, &s->inputs) : 1;
    const size_t count = inputs_count(s->layer, &s->inputs, t);
    uint64_t seed = s->options->seed * (TENSOR_V_PAGES + 1) + (uint64_t)t; /* each tensor a stream of its own */
    const enum tensor_element element = layer_tensor_element(s->layer, t);
    s->draws[t] = (struct draw){
        .kind = t == TENSOR_MASK_BOOL ? DRAW_MASK_BOOL : t == TENSOR_MASK_ADD ? DRAW_MASK_ADD
                : element == TENSOR_BF16 ? DRAW_BF16 : element == TENSOR_F16 ? DRAW_F16
                : element == TENSOR_I8 ? DRAW_I8 : DRAW_NUMBERS,
        .data = s->inputs.tensor[t],
        .rows = columns > 0 ? count / columns : 0,
        .columns = columns,
        .limit = limit_of(s, t),
        .seed = draw_bits(&seed),
    };
}

static bool is_of_integers(enum layer_tensor t)
{
    return layer_tensor_row(t)->type == TENSOR_I32;
}

/* The first sequence has all its keys. */
static void draw_lengths(struct selftest *s)
{
    int32_t *lengths = s->inputs.tensor[TENSOR_LENGTHS];
    uint64_t state = s->options->seed;
    for (size_t b = 0; b < s->inputs.batch; b++)
        lengths[b] = (int32_t)(b == 0 ? s->inputs.m : draw_bits(&state) % (s->inputs.m + 1));
}

static void draw_past(struct selftest *s)
{
    int32_t *past = s->inputs.tensor[TENSOR_PAST];
    for (size_t b = 0; b < s->inputs.batch; b++)
        past[b] = (int32_t)past_for(s, b, s->inputs.n);
}

/* The last pages first; page 0 is unused. */
static void draw_pages(struct selftest *s)
{
    int32_t *table = s->inputs.tensor[TENSOR_PAGE_TABLE];
    size_t next = s->inputs.pages;
    for (size_t b = 0; b < s->inputs.batch; b++)
        for (int64_t page = 0; page < s->layer->page_count; page++) {
            const bool used = page * s->layer->page_len < past_for(s, b, s->inputs.n) + (int64_t)s->inputs.n;
            *table++ = used ? (int32_t)--next : -1;
        }
}

static bool draw_inputs(struct selftest *s)
{
    const char *lengths = s->options->lengths;
    if (!inputs_allocate(&s->inputs, s->layer, &s->diag))
        return false;
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (s->inputs.tensor[t] != NULL && !is_of_integers(t)) {
            plan_draw(s, t);
            draw_fill(&s->draws[t]);
        } else if (t == TENSOR_PAST && layer_has_cache(s->layer)) {
            draw_past(s);
        } else if (t == TENSOR_PAGE_TABLE && s->inputs.tensor[t] != NULL) {
            draw_pages(s);
        } else if (s->inputs.tensor[t] != NULL && t != TENSOR_LENGTHS) {
            inputs_draw_tensor(&s->inputs, s->layer, t, s->options->seed);
        }
    if (s->inputs.tensor[TENSOR_LENGTHS] != NULL)
        draw_lengths(s);
    if (lengths != NULL && !inputs_set_lengths(&s->inputs, s->layer, lengths, &s->diag))
        return false;
    for (int values = 0; values < 2 && layer_has_cache(s->layer); values++) {
        s->new_rows[values] = inputs_new_rows(s->layer, &s->inputs, values);
        if (s->new_rows[values] == NULL)
            diag_environment(&s->diag, NULL, "out of memory");
    }
    return s->diag.errors == 0;
}

static bool is_cache(enum layer_tensor t)
{
    return layer_tensor_row(t)->kind == TENSOR_CACHE;
}

/* ---- what is compared ---- */

/* Every number, or every step-th; the step is coprime to the last axis, so that all columns occur. */
static void sample(struct output *o)
{
    const size_t last = (size_t)o->extent[o->axes - 1];
    o->step = o->count > SAMPLE ? (o->count + SAMPLE - 1) / SAMPLE : 1;
    while (o->step > 1 && divisor_of(o->step, last) != 1)
        o->step++;
    o->samples = (o->count + o->step - 1) / o->step;
}

static struct output output_of(const struct selftest *s, enum layer_tensor t)
{
    const bool y = t == TENSOR_Y, lse = t == TENSOR_LSE;
    struct output o = {.name = layer_tensor_name(t), .element = layer_tensor_element(s->layer, t), .tensor = t,
                       .count = inputs_count(s->layer, &s->inputs, t)};
    o.axes = inputs_shape(s->layer, &s->inputs, t, o.extent);
    o.value = y ? s->reference.y : lse ? s->reference.lse : s->reference.attn;
    o.worst = y ? s->bounds.y_worst : lse ? s->bounds.lse_worst : s->bounds.attn_worst;
    o.drawn = y ? s->bounds.y_drawn : lse ? s->bounds.lse_drawn : s->bounds.attn_drawn;
    o.open = y ? s->bounds.y_open : lse ? s->bounds.lse_open : s->bounds.attn_open;
    if (is_cache(t)) {
        while (inputs_cache_of(s->layer, o.part) != t)
            o.part++;
        const int values = o.part % 2;
        o.value = s->reference.cache[values];
        o.worst = s->bounds.cache[values].worst;
        o.drawn = s->bounds.cache[values].drawn;
        o.open = s->bounds.cache[values].open;
        o.new_rows = s->new_rows[values];
        o.width = inputs_cache_width(s->layer, o.part);
    }
    sample(&o);
    return o;
}

/* Index of the expected value of number `at`; SIZE_MAX: it must not change */
static size_t expected_at(const struct output *o, size_t at)
{
    if (o->new_rows == NULL)
        return at;
    const size_t row = o->new_rows[at / o->width];
    return row == 0 ? SIZE_MAX : (row - 1) * o->width + at % o->width;
}

/* A new row's scale itself is not compared: its numbers are, each times the scale. */
static bool is_free(const struct output *o, size_t at)
{
    return o->part >= 2 && expected_at(o, at) != SIZE_MAX;
}

static double value_of(const struct selftest *s, const struct output *o, size_t at)
{
    const size_t from = expected_at(o, at);
    const void *before[CACHE_PARTS];
    if (is_free(o, at))
        return 0;
    if (from != SIZE_MAX)
        return o->value[from];
    inputs_caches(s->layer, &s->inputs, before);
    return o->part < 2 ? inputs_cached_number(s->layer, before, o->part, at)
                       : element_number(o->element, before[o->part], at);
}

/* The narrower gate, plus the rounding of the expected number to f32; large enough for an f32. Negative if nothing is
 * promised. */
static double bound_of(const struct selftest *s, const struct output *o, size_t number)
{
    const size_t at = expected_at(o, number);
    if (at == SIZE_MAX && o->element != TENSOR_I8)
        return 0;
    if (at == SIZE_MAX) /* a byte times its scale, whose product x87 does not round to f32 */
        return fmax(FLT_MIN, 127 * 0x1p-23 * (double)limit_of(s, TENSOR_K_SCALE));
    if (is_free(o, number))
        return -1;
    const double bound = fmin(o->worst[at], o->drawn[at]), rounding = fabs(o->value[at] - (double)(float)o->value[at]);
    if (!isfinite(o->value[at]) || !isfinite(o->worst[at]) || o->open[at] != 0 || bound + rounding >= NOT_PROMISED)
        return -1;
    return bound + rounding > 0 ? fmax(FLT_MIN, 1.001 * (bound + rounding)) : 0; /* 1.001: three digits are printed */
}

/* ---- the text ---- */

static const enum layer_tensor output_tensors[] = {
    TENSOR_Y,       TENSOR_ATTN,    TENSOR_LSE,     TENSOR_K_CACHE, TENSOR_V_CACHE,
    TENSOR_K_PAGES, TENSOR_V_PAGES, TENSOR_K_SCALE, TENSOR_V_SCALE,
};

#define OUTPUTS (sizeof output_tensors / sizeof *output_tensors)
#define has(s, tensor) layer_has_tensor((s)->layer, tensor)

static void print_upper(struct selftest *s)
{
    for (const char *c = s->layer->name; *c != '\0'; c++)
        putc(toupper((unsigned char)*c), s->out);
}

/* A literal with exactly this f32 value */
static void print_float(struct selftest *s, float value)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", value);
    fprintf(s->out, "%s%sf", text, strpbrk(text, ".e") != NULL ? "" : ".0");
}

static void print_asserts(struct selftest *s)
{
    const struct layer *l = s->layer;
    const struct { const char *name; int64_t value; } facts[] = {
        {"INTERFACE_VERSION", KERNEL_INTERFACE_VERSION}, {"D_MODEL", l->d_model}, {"D_OUT", l->d_out},
        {"SEQ_LEN", l->seq_len}, {"FOLDS_SCORES", s->folds.scores}, {"FOLDS_VALUES", s->folds.values},
        {"H", l->h}, {"H_KV", l->h_kv}, {"D_K", l->d_k}, {"D_V", l->d_v}, /* of attention alone */
    };
    const size_t count = sizeof facts / sizeof *facts - (layer_attends(l) ? 0 : 4);
    for (size_t i = 0; i < count; i++) {
        fputs(i == 0 ? "_Static_assert(" : " &&\n               ", s->out);
        print_upper(s);
        fprintf(s->out, "_%s == %lld", facts[i].name, (long long)facts[i].value);
    }
    fprintf(s->out, ",\n               \"this test was written for another %s.h; write it again\");\n", l->name);
}

/* draw.h without its guard and includes. */
static void print_draw(struct selftest *s)
{
    static const char from[] = "/* splitmix64 */", to[] = "\n#endif";
    const struct embedded_file *file = embedded_find(runtime_files, runtime_files_count, "inputs/draw.h");
    const char *begin = strstr((const char *)file->data, from), *end = begin;
    for (const char *at = begin; (at = strstr(at, to)) != NULL; at++)
        end = at;
    fwrite(begin, 1, (size_t)(end - begin), s->out);
}

/* "{37, 20}"; NULL: `count` times `bad` */
static void print_integers(struct selftest *s, const char *name, const int32_t *numbers, size_t count, long long bad)
{
    fprintf(s->out, "static const int32_t %s[%zu] = {", name, count > 0 ? count : 1);
    for (size_t i = 0; i < (count > 0 ? count : 1); i++)
        fprintf(s->out, "%s%lld", i == 0 ? "" : i % 16 == 0 ? ",\n    " : ", ",
                count == 0 ? 0 : numbers == NULL ? bad : (long long)numbers[i]);
    fputs("};\n", s->out);
}

static const char *word_of(enum tensor_element element)
{
    return element == TENSOR_BOOL ? "unsigned char" : element == TENSOR_I8 ? "signed char"
           : element_size(element) == 2 ? "uint16_t" : "float";
}

static void print_tensors(struct selftest *s)
{
    for (int t = 0; t < TENSOR_COUNT; t++) {
        const char *name = layer_tensor_name(t);
        const size_t count = inputs_count(s->layer, &s->inputs, t);
        if (!has(s, t) || is_of_integers(t))
            continue;
        const char *word = word_of(layer_tensor_element(s->layer, t));
        if (layer_tensor_row(t)->kind == TENSOR_OUTPUT || is_cache(t))
            fprintf(s->out, "static %s %s[%zu + 2 * GUARD], %s_again[%zu + 2 * GUARD];\n", word, name, count, name,
                    count);
        else
            fprintf(s->out, "static %s %s[%zu];\n", word, name, count > 0 ? count : 1);
    }
    for (size_t i = 0; i < s->layer->table_count; i++)
        fprintf(s->out, "%s%s", i == 0 ? "static const float *const tables[] = {" : ", ",
                layer_tensor_name(TENSOR_TABLE + i));
    fputs(s->layer->table_count > 0 ? "};\n" : "", s->out);
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (has(s, t) && is_of_integers(t))
            print_integers(s, layer_tensor_name(t), s->inputs.tensor[t], inputs_count(s->layer, &s->inputs, t), 0);
    if (has(s, TENSOR_LENGTHS))
        print_integers(s, "lengths_past", NULL, s->inputs.batch, (long long)s->inputs.m + 1);
    if (layer_has_cache(s->layer))
        print_integers(s, "past_far", NULL, s->inputs.batch, INT32_MAX);
}

/* `behind`: "", or a suffix of the tensor's name */
static void print_draw_of(struct selftest *s, enum layer_tensor t, const char *behind)
{
    static const char *const kinds[] = {
        [DRAW_NUMBERS] = "NUMBERS", [DRAW_MASK_BOOL] = "MASK_BOOL", [DRAW_MASK_ADD] = "MASK_ADD",
        [DRAW_BF16] = "BF16",       [DRAW_F16] = "F16",             [DRAW_I8] = "I8",
    };
    const struct draw *draw = &s->draws[t];
    fprintf(s->out, "    {DRAW_%s, %s%s, %zu, %zu, ", kinds[draw->kind], layer_tensor_name(t), behind, draw->rows,
            draw->columns);
    print_float(s, draw->limit);
    fprintf(s->out, ", UINT64_C(0x%016llx)},\n", (unsigned long long)draw->seed);
}

static void print_draws(struct selftest *s)
{
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (s->draws[t].data != NULL && !is_cache(t))
            print_draw_of(s, t, "");
}

/* A cache's content before a call, which changes it */
static void print_caches(struct selftest *s)
{
    if (!layer_has_cache(s->layer))
        return;
    fputs("/* What a cache holds before a call, which puts new rows into it. */\n"
          "static const struct draw caches[] = {\n", s->out);
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (is_cache(t) && s->draws[t].data != NULL) {
            print_draw_of(s, t, " + GUARD");
            print_draw_of(s, t, "_again + GUARD");
        }
    fputs("};\n", s->out);
}

static void print_refill(struct selftest *s)
{
    if (layer_has_cache(s->layer))
        fputs("    for (size_t i = 0; i < sizeof caches / sizeof caches[0]; i++)\n"
              "        draw_fill(&caches[i]);\n", s->out);
}

static void print_weights(struct selftest *s)
{
    const char *separator = "";
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (has(s, t) && tensor_is_packed(layer_tensor_row(t)->kind) && layer_tensor_row(t)->kind != TENSOR_NAMED) {
            fprintf(s->out, "%s.%s = %s", separator, layer_tensor_name(t), layer_tensor_name(t));
            separator = ", ";
        }
    if (s->layer->table_count > 0)
        fprintf(s->out, "%s.tables = tables", separator);
    else if (*separator == '\0')
        putc('0', s->out);
}

static void print_args(struct selftest *s)
{
    const struct inputs *in = &s->inputs;
    const char *separator = "\n    ";
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (has(s, t) && layer_tensor_row(t)->kind == TENSOR_OF_CALL) {
            fprintf(s->out, "%s.%s = %s,", separator, layer_tensor_name(t), layer_tensor_name(t));
            separator = " ";
        }
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (has(s, t) && is_of_pairs(t)) {
            const char *name = layer_tensor_name(t);
            fprintf(s->out, "\n    .%s = %s, .%s_batch = %zu, .%s_h = %zu,", name, name, name, in->mask_batch[t], name,
                    in->mask_h[t]);
        }
    separator = "\n    ";
    for (size_t i = 0; i < OUTPUTS; i++)
        if (has(s, output_tensors[i])) {
            const char *name = layer_tensor_name(output_tensors[i]);
            fprintf(s->out, "%s.%s = %s + GUARD,", separator, name, name);
            separator = " ";
        }
    fprintf(s->out, " .batch = %zu, .n = %zu", in->batch, in->n);
    if (!layer_is_square(s->layer) || layer_has_cache(s->layer))
        fprintf(s->out, ", .m = %zu", in->m);
    if (s->layer->cache == CACHE_PAGED)
        fprintf(s->out, ", .pages = %zu", in->pages);
    fputs("\n", s->out);
}

/* Whether sets differ in how they pack columns of i8, and so in their results */
static bool has_pairs(const struct selftest *s)
{
    return s->layer->precision == PRECISION_I8;
}

static void print_expected_of(struct selftest *s, const char *which)
{
    for (size_t i = 0; i < OUTPUTS; i++) {
        if (!has(s, output_tensors[i]))
            continue;
        const struct output o = output_of(s, output_tensors[i]);
        fprintf(s->out, "static const struct expected %s_expected%s[%zu] = {", o.name, which,
                o.samples > 0 ? o.samples : 1);
        for (size_t k = 0; k < o.samples; k++) {
            fputs(k % 4 == 0 ? "\n    {" : " {", s->out);
            const double value = value_of(s, &o, k * o.step);
            print_float(s, isfinite(value) ? (float)value : 0);
            const double bound = bound_of(s, &o, k * o.step);
            fprintf(s->out, bound > 0 ? ", %.3ef}," : ", %.0f}," , bound);
        }
        fputs(o.samples > 0 ? "\n};\n\n" : "{0, 0}};\n\n", s->out);
    }
}

static void print_expected(struct selftest *s)
{
    struct selftest of = *s;
    print_expected_of(s, "");
    of.reference = s->of_pairs;
    of.bounds = s->bounds_of_pairs;
    if (has_pairs(s))
        print_expected_of(&of, "_of_pairs");
}

static void print_rules(struct selftest *s)
{
    fputs(has_pairs(s) ? "[2]" : "", s->out);
}

static void print_rule(struct selftest *s)
{
    fputs(has_pairs(s) ? "[sums_pairs()]" : "", s->out);
}

static void print_pairs(struct selftest *s)
{
    const char *separator = "";
    if (!has_pairs(s))
        return;
    fprintf(s->out, "/* Whether the packed set sums two products of i8 in 16 bits: columns have larger units then. */\n"
            "static int sums_pairs(void)\n{\n    const int isa = (int)%s_isa(packed);\n    return ", s->layer->name);
    for (size_t row = 0; row < isa_count; row++)
        if (isa_table[row].sums_pairs) {
            fprintf(s->out, "%sisa == %d", separator, isa_table[row].id);
            separator = " || ";
        }
    fputs(";\n}\n\n", s->out);
}

static void print_outputs(struct selftest *s)
{
    for (size_t i = 0; i < OUTPUTS; i++) {
        if (!has(s, output_tensors[i]))
            continue;
        const struct output o = output_of(s, output_tensors[i]);
        fprintf(s->out, "    {\"%s\", %s, %s_again, sizeof %s[0], %zu, %zu, {", o.name, o.name, o.name, o.name, o.count,
                o.step);
        for (int axis = 0; axis < o.axes; axis++)
            fprintf(s->out, "%s%lld", axis > 0 ? ", " : "", (long long)o.extent[axis]);
        fprintf(s->out, "}, %d, %s%s_expected", o.axes, has_pairs(s) ? "{" : "", o.name);
        if (has_pairs(s))
            fprintf(s->out, ", %s_expected_of_pairs}", o.name);
        if (layer_has_cache(s->layer))
            fprintf(s->out, ", %d", is_cache(o.tensor));
        if (layer_scales_cache(s->layer) && o.element == TENSOR_I8) {
            const char *scales = layer_tensor_name(inputs_cache_of(s->layer, 2 + o.part));
            fprintf(s->out, ", %s, %s_again, %zu", scales, scales, o.width);
        } else if (layer_scales_cache(s->layer)) {
            fputs(", NULL, NULL, 0", s->out);
        }
        fputs("},\n", s->out);
    }
}

static bool outputs_have(const struct selftest *s, enum tensor_element element)
{
    bool found = false;
    for (size_t i = 0; i < OUTPUTS; i++)
        found = found || (has(s, output_tensors[i]) && layer_tensor_element(s->layer, output_tensors[i]) == element);
    return found;
}

/* The function that reads a number of an output, in the types that this layer's outputs have. */
static void print_number(struct selftest *s)
{
    const bool f16 = outputs_have(s, TENSOR_F16), bf16 = outputs_have(s, TENSOR_BF16), i8 = outputs_have(s, TENSOR_I8);
    if (f16)
        fputs("static float of_f16(uint16_t bits)\n"
              "{\n"
              "    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, size = bits & 0x7fff;\n"
              "    const union { uint32_t bits; float number; } wide = {\n"
              "        sign | ((size << 13) + (size >= 0x7c00 ? UINT32_C(224) << 23 : UINT32_C(112) << 23))};\n"
              "    return size >= 0x400 ? wide.number : (sign != 0 ? -1.0f : 1.0f) * (float)size / 16777216.0f;\n"
              "}\n\n", s->out);
    if (bf16)
        fputs("static float of_bf16(uint16_t bits)\n"
              "{\n"
              "    const union { uint32_t bits; float number; } wide = {(uint32_t)bits << 16};\n"
              "    return wide.number;\n"
              "}\n\n", s->out);
    fputs("/* Number `at` of an output's data, or of what parts write */\n"
          "static float number(const struct output *output, const void *data, size_t at)\n"
          "{\n", s->out);
    if (i8)
        fputs("    const float *scales = data == output->data ? output->scales : output->scales_again;\n"
              "    if (scales != NULL)\n"
              "        return scales[GUARD + at / output->width] * (float)((const signed char *)data)[GUARD + at];\n",
              s->out);
    if (f16 && bf16)
        fprintf(s->out, "    if (output->size == sizeof(uint16_t) && output->is_cache)\n"
                "        return of_%s(((const uint16_t *)data)[GUARD + at]);\n", element_name(s->layer->cache_type));
    if (f16 || bf16)
        fprintf(s->out, "    if (output->size == sizeof(uint16_t))\n"
                "        return of_%s(((const uint16_t *)data)[GUARD + at]);\n",
                f16 && bf16 ? element_name(s->layer->tensor_type) : f16 ? "f16" : "bf16");
    fputs(i8 || f16 || bf16 ? "" : "    (void)output;\n", s->out);
    fputs("    return ((const float *)data)[GUARD + at];\n"
          "}\n", s->out);
}

static void print_again(struct selftest *s)
{
    for (size_t i = 0; i < OUTPUTS; i++)
        if (has(s, output_tensors[i])) {
            const char *name = layer_tensor_name(output_tensors[i]);
            fprintf(s->out, "    again.%s = %s_again + GUARD;\n", name, name);
        }
}

/* With a cache: a field of outputs that says which ones are caches */
static void print_field(struct selftest *s)
{
    if (layer_has_cache(s->layer))
        fputs("    int is_cache; /* it holds something before the call */\n", s->out);
    if (layer_scales_cache(s->layer))
        fputs("    const float *scales, *scales_again; /* of a cache's rows of `width` numbers; NULL: none */\n"
              "    size_t width;\n", s->out);
}

/* Refused calls leave what prepare() wrote: in a cache that is the content of its copy, which no call gets. */
static void print_unwritten(struct selftest *s)
{
    if (layer_has_cache(s->layer))
        fputs("        if (outputs[o].is_cache ? !same_bits(&outputs[o]) || !guards_intact()\n"
              "                                : !untouched(&outputs[o]))\n", s->out);
    else
        fputs("        if (!untouched(&outputs[o]))\n", s->out);
}

/* The first tensor of this kind that the layer has; TENSOR_COUNT: none. */
static enum layer_tensor first_of(const struct selftest *s, enum tensor_kind kind)
{
    enum layer_tensor t = 0;
    while (t < TENSOR_COUNT && !(has(s, t) && layer_tensor_row(t)->kind == kind))
        t++;
    return t;
}

/* Wrong calls that only some layers have */
static void print_bad(struct selftest *s)
{
    const char *weight = layer_tensor_name(first_of(s, TENSOR_WEIGHT));
    if (weight != NULL)
        fprintf(s->out, "    %s_weights no_%s = weights;\n    no_%s.%s = NULL;\n", s->layer->name, weight, weight,
                weight);
    if (has(s, TENSOR_LENGTHS))
        fprintf(s->out, "    %s_args longer = args;\n    longer.lengths = lengths_past;\n", s->layer->name);
    if (layer_has_cache(s->layer))
        fprintf(s->out, "    %s_args far = args, no_cache = args;\n    far.past = past_far;\n    no_cache.%s = NULL;\n",
                s->layer->name, layer_tensor_name(inputs_cache_of(s->layer, false)));
}

static void print_errors(struct selftest *s)
{
    const char *weight = layer_tensor_name(first_of(s, TENSOR_WEIGHT));
    if (weight != NULL) {
        fprintf(s->out, "          returns(\"the code of packing without %s\", %s_pack(scratch, &no_%s, ", weight,
                s->layer->name, weight);
        print_upper(s);
        fputs("_ISA_AUTO), ", s->out);
        print_upper(s);
        fputs("_ERROR_NULL) &&\n", s->out);
    }
    if (layer_has_cache(s->layer)) {
        fprintf(s->out, "          returns(\"the code of no cache\", %s_forward(packed, &no_cache, scratch),\n"
                "                  args.batch > 0 ? ", s->layer->name);
        print_upper(s);
        fputs("_ERROR_NULL : ", s->out);
        print_upper(s);
        fprintf(s->out, "_OK) &&\n"
                "          returns(\"the code of a past that leaves no room\", %s_forward(packed, &far, scratch),\n"
                "                  args.batch > 0 && args.n > 0 ? ", s->layer->name);
        print_upper(s);
        fputs("_ERROR_LENGTH : ", s->out);
        print_upper(s);
        fputs("_OK) &&\n", s->out);
    }
    if (!has(s, TENSOR_LENGTHS))
        return;
    fprintf(s->out, "          returns(\"the code for a length past the keys\", %s_forward(packed, &longer, scratch),\n"
            "                  args.batch > 0 ? ", s->layer->name);
    print_upper(s);
    fputs("_ERROR_LENGTH : ", s->out);
    print_upper(s);
    fputs("_OK) &&\n", s->out);
}

/* The lines "@@word" of the program's text, and "@@word" within a line. */
static const struct filler {
    const char *word;
    void (*print)(struct selftest *s);
} fillers[] = {
    {"asserts", print_asserts}, {"draw", print_draw},       {"tensors", print_tensors}, {"draws", print_draws},
    {"weights", print_weights}, {"args", print_args},       {"expected", print_expected}, {"outputs", print_outputs},
    {"caches", print_caches}, {"refill", print_refill},   {"field", print_field},     {"unwritten", print_unwritten},
    {"again", print_again},     {"bad", print_bad},         {"errors", print_errors},       {"number", print_number},
    {"rules", print_rules},     {"rule", print_rule},       {"pairs", print_pairs},
};

/* ---- the first comment ---- */

static void print_sizes(struct selftest *s)
{
    fprintf(s->out, "batch %zu, %zu queries", s->inputs.batch, s->inputs.n);
    if (!layer_is_square(s->layer))
        fprintf(s->out, " on %zu keys", s->inputs.m);
}

static void print_sampling(struct selftest *s)
{
    for (size_t i = 0; i < OUTPUTS; i++) {
        if (!has(s, output_tensors[i]))
            continue;
        const struct output o = output_of(s, output_tensors[i]);
        fprintf(s->out, "\n *   %-4s %zu numbers, ", o.name, o.count);
        if (o.step == 1)
            fputs("all compared", s->out);
        else
            fprintf(s->out, "every %zuth compared: %zu", o.step, o.samples);
    }
}

static void print_memory(struct selftest *s)
{
    double bytes = 0;
    for (int t = 0; t < TENSOR_COUNT; t++)
        bytes += (double)(inputs_count(s->layer, &s->inputs, t) * layer_tensor_size(s->layer, t)) *
                 (layer_tensor_row(t)->kind == TENSOR_OUTPUT || is_cache(t) ? 2 : 1);
    fprintf(s->out, "%.3g", bytes);
}

/* Prints text inside a comment, which it must not end. */
static void print_in_comment(struct selftest *s, const char *text)
{
    for (; *text != '\0'; text++)
        fprintf(s->out, strncmp(text, "*/", 2) == 0 || strncmp(text, "/*", 2) == 0 ? "%c " : "%c",
                *text == '\n' ? ' ' : *text);
}

/* The options that this file depends on; a path would make it depend on where it was written. */
static void print_command(struct selftest *s)
{
    const struct options *o = s->options;
    const char *slash = strrchr(s->spec, '/');
    fprintf(s->out, "attnrun selftest --seed %llu --batch %zu --n %zu", (unsigned long long)o->seed, s->inputs.batch,
            s->inputs.n);
    if (!layer_is_square(s->layer))
        fprintf(s->out, " --m %zu", s->inputs.m);
    if (o->lengths != NULL)
        fprintf(s->out, " --lengths %s", o->lengths);
    for (size_t i = 0; i < o->compile.set_count; i++) {
        fputs(" --set '", s->out);
        print_in_comment(s, o->compile.set[i]);
        putc('\'', s->out);
    }
    putc(' ', s->out);
    print_in_comment(s, slash != NULL ? slash + 1 : s->spec);
}

static void print_letter(struct selftest *s, char letter)
{
    switch (letter) {
    case 'n':
        fputs(s->layer->name, s->out);
        break;
    case 'N':
        print_upper(s);
        break;
    case 'V':
        fputs(ATTNGEN_VERSION, s->out);
        break;
    case 'C':
        print_command(s);
        break;
    case 'S':
        print_sizes(s);
        break;
    case 'E':
        print_sampling(s);
        break;
    case 'X':
        fputs(layer_tensor_name(first_of(s, TENSOR_OF_CALL)), s->out);
        break;
    case 'M':
        print_memory(s);
        break;
    }
}

/* Prints the replacement of the word at `at`, nothing for a comment "-- …"; returns the text after it. */
static const char *fill_in(struct selftest *s, const char *at)
{
    if (*at == '-')
        return strchr(at, '\n') + 1;
    const size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz");
    for (size_t i = 0; i < sizeof fillers / sizeof *fillers; i++)
        if (strlen(fillers[i].word) == length && memcmp(fillers[i].word, at, length) == 0)
            fillers[i].print(s);
    at += length;
    return *at == '\n' ? at + 1 : at; /* a filler ends its own lines */
}

static void print_program(struct selftest *s)
{
    const char *at = (const char *)embedded_find(runtime_files, runtime_files_count, "commands/selftest.in")->data;
    while (*at != '\0') {
        if (at[0] == '@' && at[1] == '@') {
            at = fill_in(s, at + 2);
        } else if (at[0] == '@') {
            print_letter(s, at[1]);
            at += 2;
        } else {
            putc(*at++, s->out);
        }
    }
}

/* ---- the command ---- */

/* Expected numbers of y, in y's own order */
static bool order_y(struct selftest *s, const struct reference *reference, const struct bounds *bounds)
{
    double *const numbers[] = {reference->y, bounds->y_worst, bounds->y_drawn, bounds->y_open};
    bool good = true;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        good = good && (numbers[i] == NULL || inputs_order_y(s->layer, &s->inputs, numbers[i]));
    return good || diag_environment(&s->diag, NULL, "out of memory");
}

static bool compute_expected(struct selftest *s)
{
    struct inputs pairs = s->inputs;
    pairs.pairs = true;
    return bounds_compute(&s->reference, &s->bounds, s->layer, &s->inputs, s->folds, false, &s->diag) &&
           order_y(s, &s->reference, &s->bounds) &&
           (!has_pairs(s) ||
            (bounds_compute(&s->of_pairs, &s->bounds_of_pairs, s->layer, &pairs, s->folds, false, &s->diag) &&
             order_y(s, &s->of_pairs, &s->bounds_of_pairs)));
}

static void write_program(struct selftest *s)
{
    struct piece text = {NULL, 0};
    char *bytes = NULL, *path = NULL;
    s->out = open_memstream(&bytes, &text.bytes);
    if (s->out != NULL) {
        print_program(s);
        if (fclose(s->out) != 0) {
            free(bytes);
            bytes = NULL;
        }
    }
    if (s->options->out == NULL && asprintf(&path, "%s_test.c", s->layer->name) < 0)
        path = NULL;
    text.data = bytes;
    if (bytes == NULL || (path == NULL && s->options->out == NULL))
        diag_environment(&s->diag, NULL, "out of memory");
    else
        file_replace(path != NULL ? path : s->options->out, &text, 1, &s->diag);
    free(bytes);
    free(path);
}

int command_selftest(const struct options *options)
{
    struct selftest s = {.options = options, .spec = options->specs[0]};
    const struct compile_options *compile = &options->compile;
    s.layer = layer_read(s.spec, compile->set, compile->set_count, &s.diag);
    if (s.layer != NULL && choose_sizes(&s) && draw_inputs(&s) &&
        compile_folds(&s.folds, s.spec, s.layer->name, compile, &s.diag) && compute_expected(&s))
        write_program(&s);
    const int code = diag_report(&s.diag, stderr);
    diag_free(&s.diag);
    inputs_free(&s.inputs);
    reference_free(&s.reference);
    bounds_free(&s.bounds);
    reference_free(&s.of_pairs);
    bounds_free(&s.bounds_of_pairs);
    free(s.new_rows[0]);
    free(s.new_rows[1]);
    layer_free(s.layer);
    return code;
}
