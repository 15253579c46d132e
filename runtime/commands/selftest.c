/* SPDX-License-Identifier: MIT */
/* attnrun selftest: writes a program that checks a pair where there is neither attnrun nor a reference.
 *
 * The program's text is selftest.in: tables of this file say what its words become, and which layers have which lines.
 * Both programs draw inputs by the same code, draw.h. Left out on purpose: running it, and the statistics and the
 * promises of attnrun check.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/embedded.h"
#include "base/text.h"
#include "base/version.h"
#include "commands.h"
#include "inputs/draw.h"
#include "inputs/elements.h"
#include "plan/isa.h"
#include "reference/compare.h"
#include "reference/likely.h"
#include "reference/portable.h"
#include "base/memory.h"

#define SAMPLE 4096           /* maximum of numbers of an output that are compared: 100 KB of text */
#define POSITIONS 37          /* queries: more than the query block of most plans, and odd */
#define KEYS_MORE 6
#define WORK 1e8              /* approximate multiply-adds of the call: a second or two in an emulator */
#define FEW_POSITIONS 7
#define NOT_PROMISED (FLT_MAX / 2) /* a bound past this is none */

/* y, attn, lse, or a cache after the call; compared are its numbers 0, step, 2 step … */
struct output {
    const char *name;
    enum tensor_element element;
    size_t count, step, samples;
    int64_t extent[4];
    int axes;
    enum layer_tensor tensor;
    int part;               /* of a cache: inputs_cache_of() */
    int compared;           /* which of the reference's outputs has its numbers; scales have those of their rows */
    bool scales;            /* of rows of these */
    const size_t *new_rows; /* of a cache: inputs_new_rows(); else NULL */
    size_t width;           /* of a cache: numbers of a row */
};

/* What the reference expects, for sets that pack columns of i8 by numbers, or by pairs */
struct expectation {
    struct reference reference;
    struct bounds bounds;
};

/* A self-test that is being written */
struct selftest {
    const struct options *options;
    const char *spec;
    struct layer *layer;
    struct inputs inputs;
    struct draw draws[TENSOR_COUNT]; /* .rows = 0: not drawn */
    struct folds folds;
    struct expectation expected[2]; /* the second: precision = i8, for sets that sum pairs */
    size_t *new_rows[2];            /* of a cache: inputs_new_rows() */
    struct output outputs[9];
    size_t output_count;
    struct diag diag;
    FILE *out;
};

#define has(s, tensor) layer_has_tensor((s)->layer, tensor)

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

static bool is_of_pairs(enum layer_tensor t) { return layer_tensor_row(t)->kind == TENSOR_OF_PAIRS; }

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
    if (!inputs_fit(s->layer, &(struct inputs_draw){.n = n, .m = s->inputs.m}, false, s->spec, &s->diag))
        return false;
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
 * scale. Of a state's keys that of norm 1, with which a state does not grow from token to token. */
static float limit_of(const struct selftest *s, enum layer_tensor t)
{
    int64_t shape[4];
    const int rank = layer_weight_shape(s->layer, t, shape);
    if (layer_is_recurrent(s->layer) && t == TENSOR_K)
        return (float)exp2(round(log2(sqrt(3 / (double)s->layer->d_k))));
    if (t == TENSOR_DECAY || t == TENSOR_BETA)
        return 0.5f;
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

static bool is_of_integers(enum layer_tensor t) { return layer_tensor_row(t)->type == TENSOR_I32; }

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
    inputs_allocate(&s->inputs, s->layer);
    s->inputs.pairs = inputs_pairs(s->layer, isa_table[0].id);
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
    for (int values = 0; layer_has_cache(s->layer) && values < inputs_compared(s->layer); values++)
        s->new_rows[values] = inputs_new_rows(s->layer, &s->inputs, values);
    return true;
}

static bool is_cache(enum layer_tensor t) { return layer_tensor_row(t)->kind == TENSOR_CACHE; }

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

static void list_outputs(struct selftest *s)
{
    const int compared = inputs_compared(s->layer);
    for (int i = 0; i < inputs_outputs(s->layer); i++) {
        const enum layer_tensor t = inputs_output(s->layer, i);
        const int part = i - OUTPUT_CACHE;
        if (!has(s, t))
            continue;
        struct output *o = &s->outputs[s->output_count++];
        *o = (struct output){.name = layer_tensor_name(t), .element = layer_tensor_element(s->layer, t), .tensor = t,
                             .count = inputs_count(s->layer, &s->inputs, t), .compared = i};
        o->axes = inputs_shape(s->layer, &s->inputs, t, o->extent);
        if (part >= 0) {
            o->part = part;
            o->scales = part >= compared;
            o->compared = OUTPUT_CACHE + part % compared;
            o->new_rows = s->new_rows[part % compared];
            o->width = inputs_cache_width(s->layer, part);
        }
        sample(o);
    }
}

/* An output's numbers in a reference and its bounds; a cache's are those of its new rows. */
static struct numbers {
    const double *value, *worst, *likely, *open; /* likely: NULL where it is not measured */
} numbers_of(const struct expectation *e, const struct output *o)
{
    const struct bound_of *const bound = &e->bounds.of[o->compared];
    return (struct numbers){e->reference.of[o->compared], bound->worst,
                            o->tensor == TENSOR_Y ? e->bounds.y_likely : NULL, bound->open};
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
static bool is_free(const struct output *o, size_t at) { return o->scales && expected_at(o, at) != SIZE_MAX; }

static double value_of(const struct selftest *s, const struct output *o, const struct numbers *numbers, size_t at)
{
    const size_t from = expected_at(o, at);
    const void *before[CACHE_PARTS];
    if (is_free(o, at))
        return 0;
    if (from != SIZE_MAX)
        return numbers->value[from];
    inputs_caches(s->layer, &s->inputs, before);
    return !o->scales ? inputs_cached_number(s->layer, before, o->part, at)
                       : element_number(o->element, before[o->part], at);
}

/* The narrower gate, plus the rounding of the expected number to f32; large enough for an f32. Negative if nothing is
 * promised. */
static double bound_of(const struct selftest *s, const struct output *o, const struct numbers *numbers, size_t number)
{
    const size_t at = expected_at(o, number);
    if (at == SIZE_MAX && o->element != TENSOR_I8)
        return 0;
    if (at == SIZE_MAX) /* a byte times its scale, whose product x87 does not round to f32 */
        return fmax(FLT_MIN, 127 * 0x1p-23 * (double)limit_of(s, TENSOR_K_SCALE));
    if (is_free(o, number))
        return -1;
    const double value = numbers->value[at], worst = numbers->worst[at];
    const double likely = numbers->likely != NULL && numbers->likely[at] > 0 ? numbers->likely[at] : INFINITY;
    const double bound = fmin(worst, likely) + fabs(value - (double)(float)value);
    if (!isfinite(value) || !isfinite(worst) || numbers->open[at] != 0 || bound >= NOT_PROMISED)
        return -1;
    return bound > 0 ? fmax(FLT_MIN, 1.001 * bound) : 0; /* 1.001: three digits are printed */
}

/* ---- the text ---- */

static void print_upper(struct selftest *s)
{
    HEAP char *capitals = text_capitals(s->layer->name, strlen(s->layer->name));
    fputs(capitals, s->out);
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
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (is_cache(t) && s->draws[t].data != NULL) {
            print_draw_of(s, t, " + GUARD");
            print_draw_of(s, t, "_again + GUARD");
        }
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
    for (size_t i = 0; i < s->output_count; i++)
        fprintf(s->out, "%s.%s = %s + GUARD,", i == 0 ? "\n    " : " ", s->outputs[i].name, s->outputs[i].name);
    fprintf(s->out, " .batch = %zu, .n = %zu", in->batch, in->n);
    if (!layer_is_square(s->layer) || layer_has_cache(s->layer))
        fprintf(s->out, ", .m = %zu", in->m);
    if (s->layer->cache == CACHE_PAGED)
        fprintf(s->out, ", .pages = %zu", in->pages);
    fputs("\n", s->out);
}

/* Whether sets differ in how they pack columns of i8, and so in their results */
static bool has_pairs(const struct selftest *s) { return s->layer->precision == PRECISION_I8 && !s->layer->portable; }

static void print_expected(struct selftest *s)
{
    for (size_t i = 0; i < s->output_count * (has_pairs(s) ? 2 : 1); i++) {
        const struct output *o = &s->outputs[i % s->output_count];
        const bool pairs = i >= s->output_count;
        const struct numbers numbers = numbers_of(&s->expected[pairs], o);
        fprintf(s->out, "static const struct expected %s_expected%s[%zu] = {", o->name, pairs ? "_of_pairs" : "",
                o->samples > 0 ? o->samples : 1);
        for (size_t k = 0; k < o->samples; k++) {
            fputs(k % 4 == 0 ? "\n    {" : " {", s->out);
            const double value = value_of(s, o, &numbers, k * o->step);
            print_float(s, isfinite(value) ? (float)value : 0);
            const double bound = bound_of(s, o, &numbers, k * o->step);
            fprintf(s->out, bound > 0 ? ", %.3ef}," : ", %.0f}," , bound);
        }
        fputs(o->samples > 0 ? "\n};\n\n" : "{0, 0}};\n\n", s->out);
    }
}

/* "isa == 4 || isa == 6" */
static void print_pairs(struct selftest *s)
{
    const char *separator = "";
    for (size_t row = 0; row < isa_count; row++)
        if (isa_table[row].sums_pairs) {
            fprintf(s->out, "%sisa == %d", separator, isa_table[row].id);
            separator = " || ";
        }
}

/* Whether a call reads what an output held */
static bool has_cache(const struct selftest *s) { return inputs_cache_parts(s->layer) > 0; }

static void print_outputs(struct selftest *s)
{
    for (size_t i = 0; i < s->output_count; i++) {
        const struct output *o = &s->outputs[i];
        fprintf(s->out, "    {\"%s\", %s, %s_again, sizeof %s[0], %zu, %zu, {", o->name, o->name, o->name, o->name,
                o->count, o->step);
        for (int axis = 0; axis < o->axes; axis++)
            fprintf(s->out, "%s%lld", axis > 0 ? ", " : "", (long long)o->extent[axis]);
        fprintf(s->out, "}, %d, %s%s_expected", o->axes, has_pairs(s) ? "{" : "", o->name);
        if (has_pairs(s))
            fprintf(s->out, ", %s_expected_of_pairs}", o->name);
        if (has_cache(s))
            fprintf(s->out, ", %d", is_cache(o->tensor));
        if (layer_scales_cache(s->layer) && o->element == TENSOR_I8) {
            const char *scales = layer_tensor_name(inputs_cache_of(s->layer, inputs_scales_of(s->layer, o->part)));
            fprintf(s->out, ", %s, %s_again, %zu", scales, scales, o->width);
        } else if (layer_scales_cache(s->layer)) {
            fputs(", NULL, NULL, 0", s->out);
        }
        fputs("},\n", s->out);
    }
}

static void print_again(struct selftest *s)
{
    for (size_t i = 0; i < s->output_count; i++)
        fprintf(s->out, "    again.%s = %s_again + GUARD;\n", s->outputs[i].name, s->outputs[i].name);
}

/* ---- the first comment ---- */

static void print_sizes(struct selftest *s)
{
    fprintf(s->out, "batch %zu, %zu queries", s->inputs.batch, s->inputs.n);
    if (!layer_is_square(s->layer))
        fprintf(s->out, " on %zu keys", s->inputs.m);
}

static void print_sampling(struct selftest *s)
{
    for (const struct output *o = s->outputs; o < s->outputs + s->output_count; o++) {
        fprintf(s->out, "\n *   %-4s %zu numbers, ", o->name, o->count);
        if (o->step == 1)
            fputs("all compared", s->out);
        else
            fprintf(s->out, "every %zuth compared: %zu", o->step, o->samples);
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
        fputs(" --set", s->out);
        text_print_word(s->out, o->compile.set[i]);
    }
    text_print_word(s->out, slash != NULL ? slash + 1 : s->spec);
}

/* ---- what the text names ---- */

static void print_name(struct selftest *s) { fputs(s->layer->name, s->out); }
static void print_version(struct selftest *s) { fputs(ATTNGEN_VERSION, s->out); }
static void print_cache_type(struct selftest *s) { fputs(element_name(s->layer->cache_type), s->out); }

/* The first tensor of this kind that the layer has; TENSOR_COUNT: none */
static enum layer_tensor first_of(const struct selftest *s, enum tensor_kind kind)
{
    enum layer_tensor t = 0;
    while (t < TENSOR_COUNT && !(has(s, t) && layer_tensor_row(t)->kind == kind))
        t++;
    return t;
}

static void print_first(struct selftest *s) { fputs(layer_tensor_name(first_of(s, TENSOR_OF_CALL)), s->out); }
static void print_weight(struct selftest *s) { fputs(layer_tensor_name(first_of(s, TENSOR_WEIGHT)), s->out); }
static void print_cache(struct selftest *s) { fputs(layer_tensor_name(inputs_cache_of(s->layer, 0)), s->out); }

static bool outputs_have(const struct selftest *s, enum tensor_element element)
{
    bool found = false;
    for (size_t i = 0; i < s->output_count; i++)
        found = found || s->outputs[i].element == element;
    return found;
}

static bool has_f16(const struct selftest *s) { return outputs_have(s, TENSOR_F16); }
static bool has_bf16(const struct selftest *s) { return outputs_have(s, TENSOR_BF16); }
static bool has_both(const struct selftest *s) { return has_f16(s) && has_bf16(s); }
static bool has_short(const struct selftest *s) { return has_f16(s) || has_bf16(s); }
static bool is_plain(const struct selftest *s) { return !has_short(s) && !layer_scales_cache(s->layer); }
static bool has_past(const struct selftest *s) { return layer_has_cache(s->layer); }
static bool has_scales(const struct selftest *s) { return layer_scales_cache(s->layer); }
static bool has_weight(const struct selftest *s) { return first_of(s, TENSOR_WEIGHT) < TENSOR_COUNT; }
static bool is_portable(const struct selftest *s) { return s->layer->portable; }
static bool is_trained(const struct selftest *s) { return s->layer->portable && s->layer->train; }
static bool has_lengths(const struct selftest *s) { return has(s, TENSOR_LENGTHS); }

/* The type of two bytes of outputs that are no cache, or of all of them */
static void print_short_type(struct selftest *s)
{
    fputs(has_both(s) ? element_name(s->layer->tensor_type) : has_f16(s) ? "f16" : "bf16", s->out);
}

/* NaN's word in outputs of two bytes */
static void print_nan(struct selftest *s)
{
    if (has_both(s))
        fprintf(s->out, "outputs[o].is_cache ? 0x%x : 0x%x", element_nan(s->layer->cache_type),
                element_nan(s->layer->tensor_type));
    else
        fprintf(s->out, "0x%x", element_nan(has_f16(s) ? TENSOR_F16 : TENSOR_BF16));
}

static void print_digest_of(struct selftest *s, const struct portable *portable)
{
    const struct kernel_args args = kernel_args_of(s->layer, &s->inputs, portable->of);
    struct kernel_grads grads = {0};
    memcpy(grads.tensor, portable->gradient, sizeof grads.tensor);
    fprintf(s->out, "%016llx",
            (unsigned long long)kernel_digest(DIGEST_OF_NOTHING, s->layer, &s->inputs, &args,
                                              portable->gradient[TENSOR_X] != NULL ? &grads : NULL));
}

/* exact = portable: of all outputs, as the order of docs/portable.md gives them */
static void print_digest(struct selftest *s)
{
    OWNED(portable_free) struct portable portable;
    portable_compute(&portable, s->layer, &s->inputs, NULL);
    print_digest_of(s, &portable);
}

#define TRAINED_SEED UINT64_C(0x243f6a8885a308d3) /* of dropout: pi's first bits, both words are something */

/* The same of a call that trains, and of its gradients; dy: multiples of 1/64 from -25/32 up to 25/32 */
static void print_trained_digest(struct selftest *s)
{
    const size_t count = inputs_count(s->layer, &s->inputs, TENSOR_Y);
    HEAP float *const dy = memory_get(count, sizeof *dy);
    for (size_t i = 0; i < count; i++)
        dy[i] = (float)((int)(i * 37 % 101) - 50) / 64;
    s->inputs.seed = TRAINED_SEED;
    OWNED(portable_free) struct portable portable;
    portable_compute(&portable, s->layer, &s->inputs, dy);
    print_digest_of(s, &portable);
}

static void print_gradients(struct selftest *s)
{
    const size_t tokens = s->inputs.batch * s->inputs.n;
    fprintf(s->out, "static float dy[%zu], saved[%zu * ", inputs_count(s->layer, &s->inputs, TENSOR_Y) + 1, tokens + 1);
    print_upper(s);
    fputs("_SAVED_FLOATS];\n", s->out);
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (layer_has_gradient(s->layer, t))
            fprintf(s->out, "static float d%s[%zu];\n", layer_tensor_name(t),
                    inputs_count(s->layer, &s->inputs, t) + 1);
    fputs("static const struct gradient {\n    float *data;\n    size_t count;\n} gradients[] = {\n", s->out);
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (layer_has_gradient(s->layer, t))
            fprintf(s->out, "    {d%s, %zu},\n", layer_tensor_name(t), inputs_count(s->layer, &s->inputs, t));
    fputs("};\nstatic const ", s->out);
    print_name(s);
    fputs("_grads grads = {\n    .dy = dy,\n", s->out);
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (layer_has_gradient(s->layer, t))
            fprintf(s->out, "    .d%s = d%s,\n", layer_tensor_name(t), layer_tensor_name(t));
    fputs("};\n", s->out);
}

static void print_seed(struct selftest *s)
{
    if (s->layer->dropout > 0)
        fprintf(s->out, "    training.seed = UINT64_C(0x%llx);\n", (unsigned long long)TRAINED_SEED);
}

/* What becomes of "@x", of "@@word", whose lines a printer ends itself, and of a line "@?word …" or "@?!word …". */
static const struct filler {
    const char *word;
    void (*print)(struct selftest *s);
} letters[] = {
    {"n", print_name},     {"N", print_upper}, {"V", print_version}, {"C", print_command},    {"S", print_sizes},
    {"E", print_sampling}, {"X", print_first}, {"M", print_memory},  {"W", print_weight},     {"Y", print_cache},
    {"K", print_cache_type}, {"T", print_short_type}, {"Q", print_nan},
    {"D", print_digest}, {"G", print_trained_digest},
}, fillers[] = {
    {"asserts", print_asserts}, {"draw", print_draw}, {"tensors", print_tensors},   {"draws", print_draws},
    {"weights", print_weights}, {"args", print_args}, {"expected", print_expected}, {"outputs", print_outputs},
    {"caches", print_caches},   {"again", print_again}, {"pairs", print_pairs},
    {"gradients", print_gradients}, {"seed", print_seed},
};

static const struct condition {
    const char *word;
    bool (*holds)(const struct selftest *s);
} conditions[] = {
    {"pairs", has_pairs}, {"f16", has_f16},     {"bf16", has_bf16},     {"both", has_both},
    {"short", has_short}, {"plain", is_plain},  {"cache", has_cache},   {"scales", has_scales},
    {"weight", has_weight}, {"past", has_past}, {"lengths", has_lengths},
    {"portable", is_portable}, {"trains", is_trained},
};

#define WORD_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789"
#define is_word(row, at, length) (strlen((row).word) == (length) && memcmp((row).word, at, length) == 0)

/* Prints what a word becomes; returns the text after it. */
static const char *fill_in(struct selftest *s, const struct filler *rows, size_t count, const char *at, size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (is_word(rows[i], at, length))
            rows[i].print(s);
    return at + length;
}

/* The text after the condition of a line where it holds, else the next line */
static const char *skip_unless(const struct selftest *s, const char *at)
{
    const bool wanted = *at != '!';
    at += !wanted;
    const size_t length = strspn(at, WORD_CHARACTERS);
    bool holds = false;
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
        holds = holds || (is_word(conditions[i], at, length) && conditions[i].holds(s));
    at += length;
    return holds != wanted ? strchr(at, '\n') + 1 : at + (*at == ' ');
}

static void print_program(struct selftest *s)
{
    const char *at = (const char *)embedded_find(runtime_files, runtime_files_count, "commands/selftest.in")->data;
    while (*at != '\0')
        if (strncmp(at, "@@-", 3) == 0) {
            at = strchr(at, '\n') + 1; /* a comment of the text itself */
        } else if (strncmp(at, "@@", 2) == 0) {
            const size_t length = strspn(at + 2, WORD_CHARACTERS);
            at = fill_in(s, fillers, sizeof fillers / sizeof *fillers, at + 2, length);
            at += *at == '\n';
        } else if (strncmp(at, "@?", 2) == 0) {
            at = skip_unless(s, at + 2);
        } else if (*at == '@') {
            at = fill_in(s, letters, sizeof letters / sizeof *letters, at + 1, 1);
        } else {
            putc(*at++, s->out);
        }
}

/* ---- the command ---- */

/* Expected numbers, those of y in its own order */
static void compute(struct selftest *s, bool pairs)
{
    struct expectation *e = &s->expected[pairs];
    struct inputs inputs = s->inputs;
    inputs.pairs = pairs || s->inputs.pairs;
    bounds_compute(&e->reference, &e->bounds, s->layer, &inputs, s->folds, false);
    likely_measure(&e->reference, &e->bounds, s->layer, &inputs, false);
    double *const numbers[] = {e->reference.y, e->bounds.y_worst, e->bounds.y_likely, e->bounds.y_open};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] != NULL)
            inputs_order_y(s->layer, &s->inputs, numbers[i]);
}

static void write_program(struct selftest *s)
{
    struct text text;
    HEAP char *path = text_join("%s_test.c", s->layer->name);
    s->out = text_begin(&text);
    print_program(s);
    text_write(&text, s->options->out != NULL ? s->options->out : path, &s->diag);
}

int command_selftest(const struct options *options)
{
    struct selftest s = {.options = options, .spec = options->specs[0]};
    const struct compile_options *compile = &options->compile;
    s.layer = layer_read(s.spec, compile->set, compile->set_count, &s.diag);
    if (s.layer != NULL && options_fit(options, s.layer, s.spec, &s.diag) && choose_sizes(&s) && draw_inputs(&s) &&
        compile_folds(&s.folds, s.spec, s.layer->name, compile, &s.diag)) {
        for (int pairs = 0; pairs <= has_pairs(&s); pairs++)
            compute(&s, pairs);
        list_outputs(&s);
        write_program(&s);
    }
    inputs_free(&s.inputs);
    for (int i = 0; i < 2; i++) {
        reference_free(&s.expected[i].reference);
        free(s.new_rows[i]);
    }
    layer_free(s.layer);
    return command_end(&s.diag, false);
}
