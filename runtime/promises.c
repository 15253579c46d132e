/* SPDX-License-Identifier: MIT */
/* One kernel, one set of inputs, run in many ways; each way is a function of its own. */
#include "promises.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guarded.h"
#include "reference.h"

#define WORKERS 3

struct trial {
    const struct kernel_table *call;
    const struct layer *layer;
    const struct inputs *in;
    const void *packed;
    struct guarded y, attn, scratch; /* of the run at hand */
    float *base_y, *base_attn;       /* of the first run */
    uint64_t seed;
    char *why;
    struct diag *diag;
};

static bool broken(struct trial *t, const char *format, ...) DIAG_PRINTF(2, 3);
static bool broken(struct trial *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(t->why, 300, format, args);
    va_end(args);
    return false;
}

static size_t y_count(const struct trial *t)
{
    return inputs_count(t->layer, t->in, TENSOR_Y);
}

static size_t attn_count(const struct trial *t)
{
    return inputs_count(t->layer, t->in, TENSOR_ATTN);
}

static void release(struct trial *t)
{
    guarded_free(&t->y);
    guarded_free(&t->attn);
    guarded_free(&t->scratch);
}

/* Fresh outputs `offset` bytes off a boundary, and scratch for so many workers. */
static bool prepare(struct trial *t, size_t offset, size_t workers)
{
    release(t);
    bool good = guarded_make(&t->y, y_count(t) * sizeof(float), offset) &&
                guarded_make(&t->attn, attn_count(t) * sizeof(float), offset) &&
                guarded_make(&t->scratch, t->call->scratch_bytes_for(workers), 0);
    if (!good)
        diag_environment(t->diag, NULL, "out of memory");
    return good;
}

static struct kernel_args args_of(const struct trial *t, const struct inputs *in)
{
    return kernel_args_of(t->layer, in, t->y.data, t->attn.data);
}

static bool zones_intact(struct trial *t, const char *what)
{
    if (!guarded_zones_intact(&t->y))
        return broken(t, "%s: wrote outside y", what);
    if (!guarded_zones_intact(&t->attn))
        return broken(t, "%s: wrote outside attn", what);
    return guarded_zones_intact(&t->scratch) || broken(t, "%s: wrote outside scratch", what);
}

static bool forward(struct trial *t, const struct inputs *in, const char *what)
{
    const struct kernel_args args = args_of(t, in);
    int error = t->call->forward(t->packed, &args, t->scratch.data);
    if (error != KERNEL_OK)
        return broken(t, "%s: forward returns \"%s\"", what, t->call->strerror(error));
    return zones_intact(t, what);
}

static bool same_bits(struct trial *t, const char *what)
{
    if (memcmp(t->y.data, t->base_y, y_count(t) * sizeof(float)) != 0)
        return broken(t, "%s: y has other bits", what);
    return memcmp(t->attn.data, t->base_attn, attn_count(t) * sizeof(float)) == 0 ||
           broken(t, "%s: attn has other bits", what);
}

/* ---- the same call again, whole and in parts ------------------------------------------------------------------- */

/* A row of attn lies in [0, 1] and sums to one, or is zero where nothing is seen. */
static bool sums_to_one(struct trial *t)
{
    const size_t m = t->in->m, n = t->in->n, h = (size_t)t->layer->h;
    const double tolerance = (double)(m + m / 8 + 16) * 0x1p-24;
    const float *attn = t->attn.data;
    for (size_t row = 0; attn_count(t) > 0 && row < t->in->batch * h * n; row++) {
        double sum = 0;
        bool sees = false, good = true;
        for (size_t j = 0; j < m; j++) {
            const double weight = attn[row * m + j];
            sum += weight;
            good = good && weight >= 0 && weight <= 1;
            sees = sees || reference_visible(t->layer, t->in, row / n / h, row / n % h, row % n, j);
        }
        if (!(good && (sees ? fabs(sum - 1) <= tolerance : sum == 0)))
            return broken(t, "attn[%zu][%zu][%zu] sums to %.9g, or has a weight outside 0 to 1", row / n / h,
                          row / n % h, row % n, sum);
    }
    return true;
}

static bool first_run(struct trial *t)
{
    if (!prepare(t, 0, 1) || !forward(t, t->in, "first run") || !sums_to_one(t))
        return false;
    memcpy(t->base_y, t->y.data, y_count(t) * sizeof(float));
    memcpy(t->base_attn, t->attn.data, attn_count(t) * sizeof(float));
    return true;
}

static bool second_run(struct trial *t)
{
    return prepare(t, 20, 1) && forward(t, t->in, "second run, other alignment") &&
           same_bits(t, "second run, other alignment");
}

/* All parts of a good call, the last of each phase first. */
static bool run_parts(struct trial *t, const struct kernel_args *args)
{
    const size_t phases = t->call->phases(t->packed, args);
    if (phases == 0 && args->n > 0 && args->batch > 0)
        return broken(t, "a good call has no phases");
    for (size_t phase = 0; phase < phases; phase++)
        for (size_t part = t->call->parts(t->packed, args, phase); part-- > 0;) {
            int error = t->call->run(t->packed, args, t->scratch.data, phase, part, part % WORKERS);
            if (error != KERNEL_OK)
                return broken(t, "phase %zu part %zu: run returns \"%s\"", phase, part, t->call->strerror(error));
        }
    return true;
}

static bool parts_in_reverse(struct trial *t)
{
    static const char what[] = "parts in reverse order";
    if (!prepare(t, 4, WORKERS))
        return false;
    const struct kernel_args args = args_of(t, t->in);
    return run_parts(t, &args) && zones_intact(t, what) && same_bits(t, what);
}

/* The arguments of sequence b alone */
static struct kernel_args args_of_sequence(const struct trial *t, size_t b)
{
    const struct inputs *in = t->in;
    struct kernel_args args = args_of(t, in);
    const size_t x = in->n * (size_t)t->layer->d_model, source = in->m * (size_t)t->layer->d_source;
    args.batch = 1;
    args.x += b * x;
    args.y += b * (y_count(t) / in->batch);
    if (args.source != NULL)
        args.source += b * source;
    if (args.attn != NULL)
        args.attn += b * (attn_count(t) / in->batch);
    if (args.lengths != NULL)
        args.lengths += b;
    if (args.mask_bool != NULL && args.mask_bool_batch > 1) {
        args.mask_bool += b * args.mask_bool_h * in->n * in->m;
        args.mask_bool_batch = 1;
    }
    if (args.mask_add != NULL && args.mask_add_batch > 1) {
        args.mask_add += b * args.mask_add_h * in->n * in->m;
        args.mask_add_batch = 1;
    }
    return args;
}

static bool each_sequence_alone(struct trial *t)
{
    static const char what[] = "each sequence in a call of its own";
    if (!prepare(t, 8, 1))
        return false;
    for (size_t b = 0; t->in->n > 0 && b < t->in->batch; b++) {
        const struct kernel_args args = args_of_sequence(t, b);
        const int error = t->call->forward(t->packed, &args, t->scratch.data);
        if (error != KERNEL_OK)
            return broken(t, "%s: forward returns \"%s\"", what, t->call->strerror(error));
    }
    return zones_intact(t, what) && same_bits(t, what);
}

/* ---- hidden and visible poison --------------------------------------------------------------------------------- */

/* What rows that see the poison must become: with infinite values a score may be -infinity, which makes the weight 0
 * and leaves attn finite; 0 times the value is NaN all the same, and an infinite query has no finite score to divide
 * by. A value that is finite but huge promises nothing. */
enum demand { DEMAND_NOTHING, DEMAND_OF_INFINITY, DEMAND_OF_NAN };

struct poison {
    struct inputs in;
    unsigned char *key, *query; /* [batch][m], [batch][n]: poisoned rows; in self-attention the same */
    unsigned char *tainted;     /* [batch][h][n]: rows of Z that see a poisoned row */
};

static void poison_free(struct poison *p)
{
    inputs_free(&p->in);
    free(p->key);
    free(p->query);
    free(p->tainted);
}

/* Later rows and those past lengths[b], by chance: under causal, padding or a window some queries see none of them. */
static void choose_poison(struct poison *p, const struct trial *t)
{
    const struct inputs *in = t->in;
    struct random random = {t->seed ^ 0x706F69736F6E};
    for (size_t b = 0; b < in->batch; b++) {
        for (size_t j = 0; j < in->m; j++) {
            const double chance = j >= inputs_keys(in, b) ? 0.7 : j >= in->m / 2 ? 0.15 : j + 1 == in->m ? 0.5 : 0.02;
            p->key[b * in->m + j] = random_uniform(&random) < chance;
        }
        for (size_t q = 0; q < in->n; q++)
            p->query[b * in->n + q] = t->layer->cross ? random_uniform(&random) < 0.1 : p->key[b * in->m + q];
    }
}

static void spread_taint(struct poison *p, const struct trial *t)
{
    const struct inputs *in = t->in;
    const size_t h = (size_t)t->layer->h;
    for (size_t b = 0; b < in->batch; b++)
        for (size_t i = 0; i < h; i++)
            for (size_t q = 0; q < in->n; q++) {
                bool tainted = false;
                for (size_t j = 0; j < in->m && !tainted; j++)
                    tainted = (p->key[b * in->m + j] || p->query[b * in->n + q]) &&
                              reference_visible(t->layer, in, b, i, q, j);
                p->tainted[(b * h + i) * in->n + q] = tainted;
            }
}

static void write_poison(struct poison *p, const struct trial *t, enum layer_tensor tensor, const unsigned char *rows,
                         size_t count, size_t width, const float values[3])
{
    float *data = p->in.tensor[tensor];
    for (size_t r = 0; r < t->in->batch * count; r++)
        for (size_t c = 0; rows[r] && c < width; c++)
            data[r * width + c] = values[(r + c) % 3];
}

static bool make_poison(struct poison *p, struct trial *t, const float values[3])
{
    const struct inputs *in = t->in;
    const struct layer *layer = t->layer;
    *p = (struct poison){0};
    if (!inputs_copy(&p->in, layer, in, t->diag))
        return false;
    p->key = calloc(in->batch * in->m + 1, 1);
    p->query = calloc(in->batch * in->n + 1, 1);
    p->tainted = calloc(in->batch * (size_t)layer->h * in->n + 1, 1);
    if (p->key == NULL || p->query == NULL || p->tainted == NULL) {
        diag_environment(t->diag, NULL, "out of memory");
        return false;
    }
    choose_poison(p, t);
    spread_taint(p, t);
    write_poison(p, t, TENSOR_X, p->query, in->n, (size_t)layer->d_model, values);
    if (layer->cross)
        write_poison(p, t, TENSOR_SOURCE, p->key, in->m, (size_t)layer->d_source, values);
    return true;
}

/* Whether an element of y is made of a tainted row of Z. */
static bool y_is_tainted(const struct poison *p, const struct trial *t, size_t b, size_t row, size_t column)
{
    const struct layer *layer = t->layer;
    const size_t h = (size_t)layer->h, block = (size_t)layer->d_out / h;
    size_t first, end;
    reference_taps(layer, t->in, b, row, &first, &end);
    for (size_t i = 0; i < h; i++)
        for (size_t z = first; z < end; z++)
            if ((layer->w_o == W_O_DENSE || column / block == i) && p->tainted[(b * h + i) * t->in->n + z])
                return true;
    return false;
}

static bool check_poisoned_y(const struct poison *p, struct trial *t, enum demand demand, const char *what)
{
    const size_t d_out = (size_t)t->layer->d_out, n = t->in->n, h = (size_t)t->layer->h;
    const size_t step = t->layer->w_o == W_O_DENSE ? d_out : d_out / h; /* columns that share their fate */
    const float *y = t->y.data;
    for (size_t row = 0; row < t->in->batch * n; row++)
        for (size_t first = 0; first < d_out; first += step) {
            const bool tainted = y_is_tainted(p, t, row / n, row % n, first);
            for (size_t c = first; c < first + step; c++) {
                const size_t at = row * d_out + c;
                if (!tainted && !(y[at] == t->base_y[at]))
                    return broken(t, "%s in rows that nobody there sees changed y[%zu][%zu][%zu] from %.9g to %.9g",
                                  what, row / n, row % n, c, t->base_y[at], y[at]);
                if (tainted && demand != DEMAND_NOTHING && isfinite(y[at]))
                    return broken(t, "%s in a row that is seen left y[%zu][%zu][%zu] finite: %.9g", what, row / n,
                                  row % n, c, y[at]);
            }
        }
    return true;
}

static bool check_poisoned_attn(const struct poison *p, struct trial *t, enum demand demand, const char *what)
{
    const size_t m = t->in->m, n = t->in->n, h = (size_t)t->layer->h;
    const float *attn = t->attn.data;
    for (size_t row = 0; attn_count(t) > 0 && row < t->in->batch * h * n; row++) {
        const bool query = p->query[row / n / h * n + row % n];
        bool finite = true;
        for (size_t j = 0; j < m; j++) {
            const size_t at = row * m + j;
            finite = finite && isfinite(attn[at]);
            if (!p->tainted[row] && !(attn[at] == t->base_attn[at]))
                return broken(t, "%s in rows that nobody there sees changed attn[%zu][%zu][%zu][%zu]", what,
                              row / n / h, row / n % h, row % n, j);
        }
        if (p->tainted[row] && finite && (demand == DEMAND_OF_NAN || (demand == DEMAND_OF_INFINITY && query)))
            return broken(t, "%s in a row that is seen left attn[%zu][%zu][%zu] finite", what, row / n / h, row / n % h,
                          row % n);
    }
    return true;
}

static bool with_poison(struct trial *t, const float values[3], enum demand demand, const char *what)
{
    struct poison p;
    bool good = make_poison(&p, t, values) && prepare(t, 12, 1) && forward(t, &p.in, what) &&
                check_poisoned_y(&p, t, demand, what) && check_poisoned_attn(&p, t, demand, what);
    poison_free(&p);
    return good;
}

static bool with_nan(struct trial *t)
{
    return with_poison(t, (const float[]){NAN, NAN, NAN}, DEMAND_OF_NAN, "NaN");
}

static bool with_infinity(struct trial *t)
{
    return with_poison(t, (const float[]){INFINITY, -INFINITY, INFINITY}, DEMAND_OF_INFINITY, "infinity");
}

static bool with_huge_values(struct trial *t)
{
    return with_poison(t, (const float[]){INFINITY, -INFINITY, 3e38f}, DEMAND_NOTHING, "infinity or 3e38");
}

/* ---- wrong calls ----------------------------------------------------------------------------------------------- */

/* A call about to be spoiled. */
struct attempt {
    const struct trial *trial;
    struct kernel_args args;
    const void *packed;
    char *scratch;
    int32_t *lengths; /* a copy that may be changed; NULL without padding */
    const void *zeroed;
};

static bool has(const struct attempt *a, enum layer_tensor tensor)
{
    return layer_has_tensor(a->trial->layer, tensor);
}

/* Each returns false where it does not apply. */
static bool null_x(struct attempt *a) { a->args.x = NULL; return true; }
static bool null_y(struct attempt *a) { a->args.y = NULL; return true; }
static bool null_packed(struct attempt *a) { a->packed = NULL; return true; }
static bool null_scratch(struct attempt *a) { a->scratch = NULL; return a->trial->call->scratch_bytes > 0; }
static bool null_source(struct attempt *a) { a->args.source = NULL; return has(a, TENSOR_SOURCE); }
static bool null_lengths(struct attempt *a) { a->args.lengths = NULL; return has(a, TENSOR_LENGTHS); }
static bool null_mask_bool(struct attempt *a) { a->args.mask_bool = NULL; return has(a, TENSOR_MASK_BOOL); }
static bool null_mask_add(struct attempt *a) { a->args.mask_add = NULL; return has(a, TENSOR_MASK_ADD); }
static bool null_attn(struct attempt *a) { a->args.attn = NULL; return has(a, TENSOR_ATTN); }
static bool unused_source(struct attempt *a) { a->args.source = a->args.x; return !has(a, TENSOR_SOURCE); }
static bool unused_lengths(struct attempt *a) { a->args.lengths = a->zeroed; return !has(a, TENSOR_LENGTHS); }
static bool unused_attn(struct attempt *a) { a->args.attn = a->args.y; return !has(a, TENSOR_ATTN); }
static bool unused_mask_bool(struct attempt *a)
{
    a->args.mask_bool = a->zeroed;
    a->args.mask_bool_batch = a->args.mask_bool_h = 1;
    return !has(a, TENSOR_MASK_BOOL);
}
static bool unused_mask_add(struct attempt *a)
{
    a->args.mask_add = a->zeroed;
    a->args.mask_add_batch = a->args.mask_add_h = 1;
    return !has(a, TENSOR_MASK_ADD);
}
static bool too_many_queries(struct attempt *a)
{
    a->args.n = (size_t)a->trial->layer->seq_len + 1;
    a->args.m = a->trial->layer->cross ? a->args.m : a->args.n;
    return true;
}
static bool too_many_keys(struct attempt *a)
{
    a->args.m = (size_t)a->trial->layer->source_len + 1;
    return a->trial->layer->cross;
}
static bool other_m(struct attempt *a)
{
    a->args.m = a->args.n + 1;
    return !a->trial->layer->cross;
}
static bool huge_n(struct attempt *a) { a->args.n = a->args.m = SIZE_MAX; return true; }
static void set_batch(struct attempt *a, size_t batch)
{
    a->args.batch = batch;
    a->args.mask_bool_batch = has(a, TENSOR_MASK_BOOL);
    a->args.mask_add_batch = has(a, TENSOR_MASK_ADD);
}
static bool huge_batch(struct attempt *a) { set_batch(a, SIZE_MAX); return true; }
/* The bytes of x, modulo 2^64, are few. */
static bool wrapping_batch(struct attempt *a)
{
    set_batch(a, SIZE_MAX / sizeof(float) / a->args.n / (size_t)a->trial->layer->d_model + 1);
    return true;
}
static bool length_above_m(struct attempt *a)
{
    if (a->lengths != NULL)
        a->lengths[a->args.batch - 1] = (int32_t)a->args.m + 1;
    return a->lengths != NULL;
}
static bool length_below_zero(struct attempt *a)
{
    if (a->lengths != NULL)
        a->lengths[a->args.batch - 1] = -1;
    return a->lengths != NULL;
}
static bool bool_batch(struct attempt *a)
{
    a->args.mask_bool_batch = a->args.batch + 2;
    return has(a, TENSOR_MASK_BOOL);
}
static bool bool_heads(struct attempt *a) { a->args.mask_bool_h = 0; return has(a, TENSOR_MASK_BOOL); }
static bool add_batch(struct attempt *a)
{
    a->args.mask_add_batch = a->args.batch + 2;
    return has(a, TENSOR_MASK_ADD);
}
static bool add_heads(struct attempt *a)
{
    a->args.mask_add_h = (size_t)a->trial->layer->h + 1;
    return has(a, TENSOR_MASK_ADD);
}
static bool scratch_off(struct attempt *a) { a->scratch += 4; return a->trial->call->scratch_bytes > 0; }
static bool packed_off(struct attempt *a) { a->packed = (const char *)a->packed + 4; return true; }
static bool x_off(struct attempt *a)
{
    a->args.x = (const float *)(const void *)((const char *)a->args.x + 1);
    return true;
}
static bool y_off(struct attempt *a)
{
    a->args.y = (float *)(void *)((char *)a->args.y + 2);
    return true;
}
/* NULL stays NULL. */
static void *off(const void *tensor)
{
    return (char *)(uintptr_t)tensor + (tensor != NULL ? 2 : 0);
}
static bool source_off(struct attempt *a) { a->args.source = off(a->args.source); return has(a, TENSOR_SOURCE); }
static bool mask_add_off(struct attempt *a)
{
    a->args.mask_add = off(a->args.mask_add);
    return has(a, TENSOR_MASK_ADD);
}
static bool attn_off(struct attempt *a) { a->args.attn = off(a->args.attn); return has(a, TENSOR_ATTN); }
static bool lengths_off(struct attempt *a) { a->args.lengths = off(a->args.lengths); return has(a, TENSOR_LENGTHS); }
static bool not_packed(struct attempt *a) { a->packed = a->zeroed; return true; }

static const struct wrong {
    const char *what;
    int expected;
    bool (*spoil)(struct attempt *attempt);
} wrongs[] = {
    {"x = NULL", KERNEL_NULL, null_x},
    {"y = NULL", KERNEL_NULL, null_y},
    {"packed = NULL", KERNEL_NULL, null_packed},
    {"scratch = NULL", KERNEL_NULL, null_scratch},
    {"source = NULL", KERNEL_NULL, null_source},
    {"lengths = NULL", KERNEL_NULL, null_lengths},
    {"mask_bool = NULL", KERNEL_NULL, null_mask_bool},
    {"mask_add = NULL", KERNEL_NULL, null_mask_add},
    {"attn = NULL", KERNEL_NULL, null_attn},
    {"source without cross-attention", KERNEL_UNUSED, unused_source},
    {"lengths without padding", KERNEL_UNUSED, unused_lengths},
    {"attn without scores", KERNEL_UNUSED, unused_attn},
    {"mask_bool without the mask", KERNEL_UNUSED, unused_mask_bool},
    {"mask_add without the mask", KERNEL_UNUSED, unused_mask_add},
    {"n = seq_len + 1", KERNEL_SIZE, too_many_queries},
    {"m = source_len + 1", KERNEL_SIZE, too_many_keys},
    {"m = n + 1 in self-attention", KERNEL_SIZE, other_m},
    {"n = m = SIZE_MAX", KERNEL_SIZE, huge_n},
    {"batch = SIZE_MAX", KERNEL_SIZE, huge_batch},
    {"a batch whose bytes wrap around", KERNEL_SIZE, wrapping_batch},
    {"a length of m + 1", KERNEL_LENGTH, length_above_m},
    {"a length of -1", KERNEL_LENGTH, length_below_zero},
    {"mask_bool_batch = batch + 2", KERNEL_BROADCAST, bool_batch},
    {"mask_bool_h = 0", KERNEL_BROADCAST, bool_heads},
    {"mask_add_batch = batch + 2", KERNEL_BROADCAST, add_batch},
    {"mask_add_h = h + 1", KERNEL_BROADCAST, add_heads},
    {"scratch off its boundary", KERNEL_ALIGN, scratch_off},
    {"packed off its boundary", KERNEL_ALIGN, packed_off},
    {"x off its boundary", KERNEL_ALIGN, x_off},
    {"y off its boundary", KERNEL_ALIGN, y_off},
    {"source off its boundary", KERNEL_ALIGN, source_off},
    {"mask_add off its boundary", KERNEL_ALIGN, mask_add_off},
    {"attn off its boundary", KERNEL_ALIGN, attn_off},
    {"lengths off their boundary", KERNEL_ALIGN, lengths_off},
    {"a packed block of zeros", KERNEL_PACKED, not_packed},
};

static bool untouched(struct trial *t, const char *what)
{
    return (guarded_untouched(&t->y) && guarded_untouched(&t->attn) && guarded_untouched(&t->scratch)) ||
           broken(t, "%s: refused, but something was written", what);
}

static const char *error_text(const struct trial *t, int error)
{
    const char *text = t->call->strerror(error);
    return text != NULL ? text : "(no text)";
}

/* By each of the four functions that take a call. Phases and parts see no scratch. */
static bool refused(struct trial *t, const void *packed, const struct kernel_args *args, void *scratch, int expected,
                    const char *what)
{
    const struct kernel_table *call = t->call;
    int error = call->forward(packed, args, scratch);
    if (error != expected)
        return broken(t, "%s: forward returns %d (%s), not %d", what, error, error_text(t, error), expected);
    error = call->run(packed, args, scratch, 0, 0, 0);
    if (error != expected)
        return broken(t, "%s: run returns %d (%s), not %d", what, error, error_text(t, error), expected);
    if (scratch == t->scratch.data && (call->phases(packed, args) != 0 || call->parts(packed, args, 0) != 0))
        return broken(t, "%s: the call is refused, but has phases or parts", what);
    return untouched(t, what);
}

static bool one_wrong_call(struct trial *t, const struct wrong *wrong, int32_t *lengths, const void *zeroed)
{
    struct attempt a = {t, args_of(t, t->in), t->packed, t->scratch.data, NULL, zeroed};
    if (t->in->tensor[TENSOR_LENGTHS] != NULL) {
        memcpy(lengths, t->in->tensor[TENSOR_LENGTHS], t->in->batch * sizeof *lengths);
        a.lengths = lengths;
        a.args.lengths = lengths;
    }
    return !wrong->spoil(&a) || refused(t, a.packed, &a.args, a.scratch, wrong->expected, wrong->what);
}

static bool wrong_parts(struct trial *t)
{
    const struct kernel_args args = args_of(t, t->in);
    const size_t phases = t->call->phases(t->packed, &args), parts = t->call->parts(t->packed, &args, 0);
    const size_t wrong[][2] = {{phases, 0}, {SIZE_MAX, 0}, {0, parts}, {0, SIZE_MAX}};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        int error = t->call->run(t->packed, &args, t->scratch.data, wrong[w][0], wrong[w][1], 0);
        if (error != KERNEL_PART)
            return broken(t, "phase %zu part %zu of a call that has %zu phases, %zu parts in the first: run returns %d "
                             "(%s), not %d", wrong[w][0], wrong[w][1], phases, parts, error, error_text(t, error),
                          KERNEL_PART);
    }
    return (t->call->parts(t->packed, &args, phases) == 0 && t->call->parts(t->packed, &args, SIZE_MAX) == 0)
               ? untouched(t, "a part past the last")
               : broken(t, "a phase past the last has parts");
}

static bool null_args(struct trial *t)
{
    return refused(t, t->packed, NULL, t->scratch.data, KERNEL_NULL, "args = NULL");
}

/* Nothing to do: no error, no phases, no parts, and nothing is written. */
static bool empty_call(struct trial *t, const struct kernel_args *args, const char *what)
{
    const struct kernel_table *call = t->call;
    int error = call->forward(t->packed, args, t->scratch.data);
    if (error != KERNEL_OK)
        return broken(t, "%s: forward returns %d (%s)", what, error, error_text(t, error));
    if (call->phases(t->packed, args) != 0 || call->parts(t->packed, args, 0) != 0)
        return broken(t, "%s: has phases or parts", what);
    error = call->run(t->packed, args, t->scratch.data, 0, 0, 0);
    if (error != KERNEL_PART)
        return broken(t, "%s: run returns %d (%s), not %d", what, error, error_text(t, error), KERNEL_PART);
    return (guarded_untouched(&t->y) && guarded_untouched(&t->attn)) || broken(t, "%s: something was written", what);
}

/* Tensors without an element need no memory. */
static bool empty_calls(struct trial *t, const int32_t *zeros)
{
    struct inputs none = *t->in;
    none.n = 0;
    none.m = t->layer->cross ? none.m : 0;
    struct kernel_args args = args_of(t, &none);
    if (args.lengths != NULL)
        args.lengths = zeros;
    if (!empty_call(t, &args, "n = 0"))
        return false;
    args.x = args.mask_add = args.y = args.attn = NULL;
    args.mask_bool = NULL;
    if (!empty_call(t, &args, "n = 0, and NULL for what has no elements"))
        return false;
    args = args_of(t, t->in);
    args.batch = 0;
    args.mask_bool_batch = args.mask_bool != NULL;
    args.mask_add_batch = args.mask_add != NULL;
    return empty_call(t, &args, "batch = 0");
}

static bool is_b_o(struct trial *t, const char *what)
{
    const float *b_o = t->in->tensor[TENSOR_B_O], *y = t->y.data;
    const size_t d_out = (size_t)t->layer->d_out;
    for (size_t at = 0; at < y_count(t); at++)
        if (!(y[at] == (b_o != NULL ? b_o[at % d_out] : 0)))
            return broken(t, "%s: y[%zu][%zu][%zu] is %.9g, not b_o's", what, at / d_out / t->in->n,
                          at / d_out % t->in->n, at % d_out, y[at]);
    return true;
}

/* Cross-attention to an empty source: what has no elements may be NULL, and every row is b_O. */
static bool without_keys(struct trial *t)
{
    static const char what[] = "m = 0, and NULL for what has no elements";
    if (!t->layer->cross || t->in->n == 0 || t->in->batch == 0)
        return true;
    if (!prepare(t, 8, WORKERS))
        return false;
    int32_t *zeros = calloc(t->in->batch, sizeof *zeros);
    if (zeros == NULL) {
        diag_environment(t->diag, NULL, "out of memory");
        return false;
    }
    struct kernel_args args = args_of(t, t->in);
    args.m = 0;
    args.source = args.mask_add = args.attn = NULL;
    args.mask_bool = NULL;
    args.lengths = args.lengths != NULL ? zeros : NULL;
    int error = t->call->forward(t->packed, &args, t->scratch.data);
    bool good = error == KERNEL_OK || broken(t, "%s: forward returns %d (%s)", what, error, error_text(t, error));
    good = good && zones_intact(t, what) && is_b_o(t, what);
    if (good)
        guarded_fill(&t->y);
    good = good && run_parts(t, &args) && zones_intact(t, what) && is_b_o(t, "m = 0, in parts");
    good = good && (guarded_untouched(&t->attn) || broken(t, "%s: attn was written", what));
    free(zeros);
    return good;
}

static bool wrong_calls(struct trial *t)
{
    if (t->in->batch == 0 || t->in->n == 0 || t->in->m == 0)
        return true;
    if (!prepare(t, 0, 1))
        return false;
    int32_t *lengths = malloc(t->in->batch * sizeof *lengths);
    size_t zero_bytes = (t->call->packed_bytes + 127) / 64 * 64;
    void *zeroed = aligned_alloc(64, zero_bytes); /* as large as anything it stands for: it is never read past that */
    bool good = lengths != NULL && zeroed != NULL;
    if (good)
        memset(zeroed, 0, zero_bytes);
    else
        diag_environment(t->diag, NULL, "out of memory");
    for (size_t w = 0; good && w < sizeof wrongs / sizeof *wrongs; w++)
        good = one_wrong_call(t, &wrongs[w], lengths, zeroed);
    good = good && wrong_parts(t) && null_args(t);
    if (good)
        memset(lengths, 0, t->in->batch * sizeof *lengths);
    good = good && empty_calls(t, lengths);
    free(lengths);
    free(zeroed);
    return good;
}

/* ---- wrong packing --------------------------------------------------------------------------------------------- */

static bool pack_refuses(struct trial *t, struct guarded *packed, const struct kernel_weights *weights, size_t offset,
                         int isa, int expected, const char *what)
{
    int error = t->call->pack((char *)packed->data + offset, weights, isa);
    if (error != expected)
        return broken(t, "pack with %s returns %d (%s), not %d", what, error, error_text(t, error), expected);
    return guarded_zones_intact(packed) || broken(t, "pack with %s wrote outside packed", what);
}

/* Every weight in turn NULL (given, if the layer has none), off its boundary, and holding a NaN. */
static bool wrong_weights(struct trial *t, struct guarded *packed, int isa)
{
    static const enum layer_tensor tensors[] = {TENSOR_W_Q, TENSOR_B_Q, TENSOR_W_K, TENSOR_B_K,
                                                TENSOR_W_V, TENSOR_B_V, TENSOR_W_O, TENSOR_B_O};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        struct kernel_weights weights = kernel_weights_of(t->in);
        const float **members[] = {&weights.w_q, &weights.b_q, &weights.w_k, &weights.b_k,
                                   &weights.w_v, &weights.b_v, &weights.w_o, &weights.b_o};
        const bool used = *members[i] != NULL;
        float *values = t->in->tensor[tensors[i]];
        float *last = used ? values + inputs_count(t->layer, t->in, tensors[i]) - 1 : NULL;
        char what[40];
        snprintf(what, sizeof what, "%s %s", used ? "no" : "an unused", layer_tensor_name(tensors[i]));
        *members[i] = used ? NULL : weights.w_q;
        if (!pack_refuses(t, packed, &weights, 0, isa, used ? KERNEL_NULL : KERNEL_UNUSED, what))
            return false;
        if (!used)
            continue;
        snprintf(what, sizeof what, "%s off its boundary", layer_tensor_name(tensors[i]));
        *members[i] = off(values);
        if (!pack_refuses(t, packed, &weights, 0, isa, KERNEL_ALIGN, what))
            return false;
        const float kept = *last;
        *members[i] = values;
        *last = i % 2 == 0 ? NAN : -INFINITY;
        snprintf(what, sizeof what, "non-finite %s", layer_tensor_name(tensors[i]));
        bool good = pack_refuses(t, packed, &weights, 0, isa, KERNEL_NONFINITE, what);
        *last = kept;
        if (!good)
            return false;
    }
    return true;
}

static bool wrong_packing(struct trial *t)
{
    const struct kernel_weights weights = kernel_weights_of(t->in);
    const int isa = t->call->isa(t->packed);
    struct guarded packed;
    if (!guarded_make(&packed, t->call->packed_bytes, 0)) {
        diag_environment(t->diag, NULL, "out of memory");
        return false;
    }
    bool good = pack_refuses(t, &packed, &weights, 0, 99, KERNEL_ISA, "isa 99") &&
                pack_refuses(t, &packed, &weights, 4, isa, KERNEL_ALIGN, "packed off its boundary") &&
                pack_refuses(t, &packed, NULL, 0, isa, KERNEL_NULL, "weights = NULL") &&
                wrong_weights(t, &packed, isa);
    guarded_free(&packed);
    return good;
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

static uint64_t hash_inputs(const struct trial *t)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (int tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        const unsigned char *bytes = t->in->tensor[tensor];
        size_t count = bytes != NULL ? inputs_count(t->layer, t->in, tensor) * inputs_element_size(tensor) : 0;
        for (size_t i = 0; i < count; i++)
            hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

bool promises_hold(const struct kernel *kernel, const struct layer *layer, const struct inputs *inputs,
                   const void *packed, uint64_t seed, char why[300], struct diag *diag)
{
    static bool (*const promises[])(struct trial *) = {
        first_run, second_run, parts_in_reverse, each_sequence_alone, with_nan, with_infinity, with_huge_values,
        without_keys, wrong_calls,
        wrong_packing};
    struct trial t = {.call = kernel->call, .layer = layer, .in = inputs, .packed = packed, .seed = seed, .why = why,
                      .diag = diag};
    const uint64_t hash = hash_inputs(&t);
    t.base_y = malloc(y_count(&t) * sizeof(float) + 1);
    t.base_attn = malloc(attn_count(&t) * sizeof(float) + 1);
    bool good = t.base_y != NULL && t.base_attn != NULL;
    why[0] = '\0';
    if (!good)
        diag_environment(diag, NULL, "out of memory");
    for (size_t p = 0; good && p < sizeof promises / sizeof *promises; p++)
        good = promises[p](&t);
    if (good && hash_inputs(&t) != hash)
        good = broken(&t, "an input was written to");
    release(&t);
    free(t.base_y);
    free(t.base_attn);
    return good;
}
