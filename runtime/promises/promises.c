/* SPDX-License-Identifier: MIT */
/* Runs one kernel on one set of inputs in many ways; each way is a function of its own. */
#include "promises.h"

#include "expression/expression.h"

#include <link.h>
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fenced.h"
#include "guarded.h"
#include "inputs/elements.h"
#include "keeping.h"
#include "merging.h"
#include "misuse.h"
#include "moving.h"
#include "packing.h"
#include "reference/compare.h"
#include "reference/stored.h"
#include "spec/score.h"

#define WORKERS 5
#define PAGE 4096
#define WATCHED ((size_t)4 << 20) /* maximum size of scratch or an output that is checked part by part */

struct trial {
    const struct kernel *kernel;
    const struct kernel_table *call;
    const struct layer *layer;
    const struct inputs *in;
    const void *packed;
    struct guarded y, attn, lse, scratch; /* of the run at hand */
    struct guarded cache[CACHE_PARTS];    /* likewise: what the inputs have, and then what the run leaves */
    void *base_y, *base_attn; /* of the first run */
    float *base_lse;
    void *base_cache[CACHE_PARTS];
    uint64_t seed;
    char *why;
    struct diag *diag;
};

bool promise_violated(char why[300], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, 300, format, args);
    va_end(args);
    return false;
}

static const char *error_text(const struct trial *t, int error)
{
    const char *text = t->call->strerror(error);
    return text != NULL ? text : "(no text)";
}

static size_t y_count(const struct trial *t)
{
    return inputs_count(t->layer, t->in, TENSOR_Y);
}

static size_t attn_count(const struct trial *t)
{
    return inputs_count(t->layer, t->in, TENSOR_ATTN);
}

static size_t y_bytes(const struct trial *t)
{
    return inputs_bytes(t->layer, t->in, TENSOR_Y);
}

static size_t attn_bytes(const struct trial *t)
{
    return inputs_bytes(t->layer, t->in, TENSOR_ATTN);
}

/* An element of y or attn, of any run */
static double number_of(const struct trial *t, const void *output, size_t at)
{
    return element_number(t->layer->tensor_type, output, at);
}

static size_t lse_count(const struct trial *t)
{
    return inputs_count(t->layer, t->in, TENSOR_LSE);
}

/* Size of a part of a cache; 0 if there is none */
static size_t cache_bytes(const struct trial *t, int part)
{
    return inputs_cache_bytes(t->layer, t->in, part);
}

/* Sets the cache to what `in` holds, as before a call. */
static void load_cache(struct trial *t, const struct inputs *in)
{
    for (int part = 0; part < inputs_cache_parts(t->layer); part++)
        memcpy(t->cache[part].data, in->tensor[inputs_cache_of(t->layer, part)], cache_bytes(t, part));
}

static void release(struct trial *t)
{
    for (int part = 0; part < CACHE_PARTS; part++)
        guarded_free(&t->cache[part]);
    guarded_free(&t->y);
    guarded_free(&t->attn);
    guarded_free(&t->lse);
    guarded_free(&t->scratch);
}

/* Fresh outputs, and scratch for so many workers. With an offset outputs are `offset` bytes off a boundary, and nothing
 * is more aligned than it must be. */
static bool prepare(struct trial *t, size_t offset, size_t workers)
{
    release(t);
    const size_t less = offset > 0 && layer_types_tensors(t->layer) ? 2 : 0; /* no more aligned than its numbers */
    bool good = guarded_make(&t->y, y_bytes(t), offset - less) &&
                guarded_make(&t->attn, attn_bytes(t), offset - less) &&
                guarded_make(&t->lse, lse_count(t) * sizeof(float), offset) &&
                guarded_make(&t->scratch, t->call->scratch_bytes_for(workers), offset > 0 ? KERNEL_ALIGNMENT : 0);
    for (int part = 0; part < CACHE_PARTS; part++)
        good = good && guarded_make(&t->cache[part], cache_bytes(t, part), offset);
    if (!good)
        diag_environment(t->diag, NULL, "out of memory");
    else
        load_cache(t, t->in);
    return good;
}

static struct kernel_args args_of(const struct trial *t, const struct inputs *in)
{
    struct kernel_outputs outputs = {.y = t->y.data, .attn = t->attn.data, .lse = t->lse.data};
    for (int part = 0; part < CACHE_PARTS; part++)
        outputs.cache[part] = t->cache[part].data;
    return kernel_args_of(t->layer, in, outputs);
}

static bool zones_intact(struct trial *t, const char *what)
{
    if (!guarded_zones_intact(&t->y))
        return violated(t, "%s: wrote outside y", what);
    if (!guarded_zones_intact(&t->attn))
        return violated(t, "%s: wrote outside attn", what);
    if (!guarded_zones_intact(&t->lse))
        return violated(t, "%s: wrote outside lse", what);
    for (int part = 0; part < inputs_cache_parts(t->layer); part++)
        if (!guarded_zones_intact(&t->cache[part]))
            return violated(t, "%s: wrote outside %s", what, layer_tensor_name(inputs_cache_of(t->layer, part)));
    return guarded_zones_intact(&t->scratch) || violated(t, "%s: wrote outside scratch", what);
}

/* Whether a call left the cache of `in` unchanged, but for the rows of its own tokens */
static bool cache_kept(struct trial *t, const struct inputs *in, const char *what)
{
    for (int part = 0; part < inputs_cache_parts(t->layer); part++) {
        const enum layer_tensor tensor = inputs_cache_of(t->layer, part);
        const size_t size = layer_tensor_size(t->layer, tensor), bytes = cache_bytes(t, part);
        const unsigned char *now = t->cache[part].data;
        unsigned char *kept = malloc(bytes + 1);
        if (kept == NULL)
            return diag_environment(t->diag, NULL, "out of memory");
        memcpy(kept, in->tensor[tensor], bytes);
        for (size_t b = 0; b < t->in->batch; b++)
            for (size_t row = 0; row < inputs_keys(t->in, b); row++)
                for (size_t i = 0; i < (size_t)t->layer->h_kv; i++) {
                    const size_t at = size * inputs_cache_row(t->layer, t->in, part, b, i,
                                                              inputs_position(t->layer, t->in, b, row));
                    memcpy(kept + at, now + at, inputs_cache_width(t->layer, part) * size);
                }
        size_t at = 0;
        while (at < bytes && kept[at] == now[at])
            at++;
        free(kept);
        if (at < bytes)
            return violated(t, "%s: number %zu of %s changed, which is no token's of the call", what, at / size,
                            layer_tensor_name(tensor));
    }
    return true;
}

static bool forward(struct trial *t, const struct inputs *in, const char *what)
{
    const struct kernel_args args = args_of(t, in);
    load_cache(t, in);
    int error = t->call->forward(t->packed, &args, t->scratch.data);
    if (error != KERNEL_OK)
        return violated(t, "%s: forward returns \"%s\"", what, t->call->strerror(error));
    return zones_intact(t, what) && cache_kept(t, in, what);
}

static bool same_bits(struct trial *t, const char *what)
{
    if (memcmp(t->y.data, t->base_y, y_bytes(t)) != 0)
        return violated(t, "%s: y has other bits", what);
    if (memcmp(t->lse.data, t->base_lse, lse_count(t) * sizeof(float)) != 0)
        return violated(t, "%s: lse has other bits", what);
    for (int part = 0; part < inputs_cache_parts(t->layer); part++)
        if (memcmp(t->cache[part].data, t->base_cache[part], cache_bytes(t, part)) != 0)
            return violated(t, "%s: %s has other bits", what, layer_tensor_name(inputs_cache_of(t->layer, part)));
    return memcmp(t->attn.data, t->base_attn, attn_bytes(t)) == 0 ||
           violated(t, "%s: attn has other bits", what);
}

/* ---- the same call again, whole and in parts ------------------------------------------------------------------- */

/* A row of attn is within [0, 1] and sums to 1, with a sink to at most 1; it is zero where the query sees nothing. */
static bool sums_to_one(struct trial *t)
{
    const size_t m = inputs_columns(t->layer, t->in), n = t->in->n, h = (size_t)t->layer->h;
    /* the sum's own rounding, and each weight's */
    const double rounding = t->layer->tensor_type == TENSOR_BF16  ? 0x1p-8
                            : t->layer->tensor_type == TENSOR_F16 ? 0x1p-11 + (double)m * 0x1p-25 : 0;
    const double tolerance = (double)(m + m / 8 + 16) * 0x1p-24 + 1.001 * rounding;
    const size_t rows = attn_count(t) > 0 && t->layer->scores == SCORES_WEIGHTS ? t->in->batch * h * n : 0;
    for (size_t row = 0; row < rows; row++) {
        double sum = 0;
        bool sees = false, good = true;
        for (size_t j = 0; j < m; j++) {
            const double weight = number_of(t, t->attn.data, row * m + j);
            sum += weight;
            good = good && weight >= 0 && weight <= 1;
            sees = sees || reference_visible(t->layer, t->in, row / n / h, row / n % h, row % n, j);
        }
        /* the score itself may hide a key, as s / abs(p - j) does: the bounds decide which keys a row sees */
        const bool free = t->layer->score != NULL &&
                          (expression_decides(t->layer->score) || score_has(t->layer, SCORE_HIDING));
        if ((free && good && sum == 0) || (promise_overflows(t->layer) && isnan(sum)))
            continue; /* a row of NaN is judged by the bounds */
        const bool whole = t->layer->sink ? sum <= 1 + tolerance : fabs(sum - 1) <= tolerance;
        if (!(good && (sees ? whole : sum == 0)))
            return violated(t, "attn[%zu][%zu][%zu] sums to %.9g, or has a weight outside 0 to 1", row / n / h,
                            row / n % h, row % n, sum);
    }
    return true;
}

static bool first_run(struct trial *t)
{
    if (!prepare(t, 0, 1) || !forward(t, t->in, "first run") || !sums_to_one(t))
        return false;
    memcpy(t->base_y, t->y.data, y_bytes(t));
    memcpy(t->base_attn, t->attn.data, attn_bytes(t));
    memcpy(t->base_lse, t->lse.data, lse_count(t) * sizeof(float));
    for (int part = 0; part < inputs_cache_parts(t->layer); part++)
        memcpy(t->base_cache[part], t->cache[part].data, cache_bytes(t, part));
    return true;
}

/* Copies a block or a tensor to where it is no more aligned than it must be. */
static bool move(struct guarded *to, const void *from, size_t bytes, size_t alignment)
{
    if (!guarded_make(to, bytes, alignment))
        return false;
    memcpy(to->data, from, bytes);
    return true;
}

/* A call whose inputs are elsewhere, and no more aligned than they must be. In self-attention m may be 0 instead of
 * n. */
static bool second_run(struct trial *t)
{
    static const char what[] = "second run, other alignment, and m = 0 for n in self-attention";
    const void *packed = t->packed;
    struct guarded moved[TENSOR_W_Q + 1] = {{0}};
    struct inputs in = *t->in;
    in.m = !t->layer->self ? in.m : 0;
    bool good = move(&moved[TENSOR_W_Q], packed, t->call->packed_bytes, KERNEL_ALIGNMENT);
    for (int tensor = 0; good && tensor < TENSOR_W_Q; tensor++)
        if (in.tensor[tensor] != NULL) {
            const size_t each = layer_tensor_size(t->layer, tensor);
            good = move(&moved[tensor], in.tensor[tensor], inputs_count(t->layer, t->in, tensor) * each, each);
            in.tensor[tensor] = moved[tensor].data;
        }
    if (!good)
        diag_environment(t->diag, NULL, "out of memory");
    t->packed = moved[TENSOR_W_Q].data;
    good = good && prepare(t, 20, 1) && forward(t, &in, what) && same_bits(t, what);
    t->packed = packed;
    for (int tensor = 0; tensor <= TENSOR_W_Q; tensor++)
        guarded_free(&moved[tensor]);
    return good;
}

static bool last_run(struct trial *t)
{
    return prepare(t, 0, 1) && forward(t, t->in, "the first run once more") && same_bits(t, "the first run once more");
}

/* Runs all parts of a good call, the last of each phase first. */
static bool run_parts(struct trial *t, const struct kernel_args *args)
{
    const size_t phases = t->call->phases(t->packed, args);
    if (phases == 0 && args->n > 0 && args->batch > 0)
        return violated(t, "a good call has no phases");
    for (size_t phase = 0; phase < phases; phase++)
        for (size_t part = t->call->parts(t->packed, args, phase); part-- > 0;) {
            int error = t->call->run(t->packed, args, t->scratch.data, phase, part, part % WORKERS);
            if (error != KERNEL_OK)
                return violated(t, "phase %zu part %zu: run returns \"%s\"", phase, part, t->call->strerror(error));
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

/* ---- whose memory is whose -------------------------------------------------------------------------------------- */

/* Memory that the workers of a phase share: `before` is its content before the phase, `after` what parts left there,
 * `by` the part that wrote a byte. */
struct shared {
    const char *name;
    unsigned char *now, *before, *after;
    unsigned *by; /* 0: none; else its number + 1 */
    size_t bytes;
};

enum { SHARED_SCRATCH, SHARED_Y, SHARED_ATTN, SHARED_LSE, SHARED_KEYS, SHARED_VALUES, SHARED };

static bool page_overlaps(struct trial *t, struct shared *s, size_t from, size_t end, size_t phase, size_t part)
{
    for (size_t i = from; i < end; i++) {
        if (s->now[i] == s->before[i])
            continue;
        if (s->by[i] != 0)
            return !violated(t, "phase %zu: parts %u and %zu write to the same byte of %s", phase, s->by[i] - 1, part,
                             s->name);
        s->by[i] = (unsigned)part + 1;
        s->after[i] = s->now[i];
        s->now[i] = s->before[i]; /* so that it shows if the next part writes the same byte */
    }
    return false;
}

/* Page by page, as a part writes to few of them */
static bool part_overlaps(struct trial *t, struct shared *s, size_t phase, size_t part)
{
    for (size_t page = 0; page < s->bytes; page += PAGE) {
        const size_t end = s->bytes - page < PAGE ? s->bytes : page + PAGE;
        if (memcmp(s->now + page, s->before + page, end - page) != 0 && page_overlaps(t, s, page, end, phase, part))
            return true;
    }
    return false;
}

static void begin_phase(struct shared shared[SHARED])
{
    for (struct shared *s = shared; s < shared + SHARED; s++) {
        memcpy(s->before, s->now, s->bytes);
        memset(s->by, 0, s->bytes * sizeof *s->by);
    }
}

static void end_phase(struct shared shared[SHARED])
{
    for (struct shared *s = shared; s < shared + SHARED; s++)
        for (size_t i = 0; i < s->bytes; i++)
            if (s->by[i] != 0)
                s->now[i] = s->after[i];
}

/* Runs all parts as the last worker. After each part, checks what it wrote, and hides that from the next parts. */
static bool run_watched(struct trial *t, struct shared shared[SHARED], const struct kernel_args *args)
{
    const size_t phases = t->call->phases(t->packed, args);
    for (size_t phase = 0; phase < phases; phase++) {
        begin_phase(shared);
        for (size_t part = 0; part < t->call->parts(t->packed, args, phase); part++) {
            const int error = t->call->run(t->packed, args, t->scratch.data, phase, part, WORKERS - 1);
            if (error != KERNEL_OK)
                return violated(t, "phase %zu part %zu: run returns \"%s\"", phase, part, t->call->strerror(error));
            for (size_t s = 0; s < SHARED; s++)
                if (part_overlaps(t, &shared[s], phase, part))
                    return false;
        }
        end_phase(shared);
    }
    return true;
}

/* Memory that is too large to be checked part by part is not checked. */
static bool make_shared(struct shared *s, const char *name, void *now, size_t bytes)
{
    *s = (struct shared){.name = name, .now = now, .bytes = bytes <= WATCHED ? bytes : 0};
    s->before = malloc(s->bytes + 1);
    s->after = malloc(s->bytes + 1);
    s->by = malloc((s->bytes + 1) * sizeof *s->by);
    return s->before != NULL && s->after != NULL && s->by != NULL;
}

/* Parts that run at the same time do not interfere: a part writes to shared memory only where no other part of the
 * phase does, and otherwise to its worker's own part of scratch, which follows that of the previous worker. */
static bool memory_is_own(struct trial *t)
{
    static const char what[] = "parts by the last of several workers";
    if (!prepare(t, 0, WORKERS))
        return false;
    const struct kernel_args args = args_of(t, t->in);
    const size_t own = t->call->scratch_bytes_for(2) - t->call->scratch_bytes_for(1);
    const size_t bytes = t->call->scratch_bytes_for(1) - own;
    struct shared shared[SHARED] = {{0}};
    struct guarded fresh = {0};
    bool good = make_shared(&shared[SHARED_SCRATCH], "scratch", t->scratch.data, bytes) &&
                make_shared(&shared[SHARED_Y], "y", t->y.data, t->y.bytes) &&
                make_shared(&shared[SHARED_ATTN], "attn", t->attn.data, t->attn.bytes) &&
                make_shared(&shared[SHARED_LSE], "lse", t->lse.data, t->lse.bytes) &&
                make_shared(&shared[SHARED_KEYS], "a cache's keys", t->cache[0].data, t->cache[0].bytes) &&
                make_shared(&shared[SHARED_VALUES], "a cache's values", t->cache[1].data, t->cache[1].bytes) &&
                guarded_make(&fresh, (WORKERS - 1) * own, 0);
    if (!good)
        diag_environment(t->diag, NULL, "out of memory");
    good = good && run_watched(t, shared, &args) && zones_intact(t, what) && same_bits(t, what);
    if (good && own > 0 && memcmp((char *)t->scratch.data + bytes, fresh.data, fresh.bytes) != 0)
        good = violated(t, "%s: it wrote to the scratch of another worker", what);
    guarded_free(&fresh);
    for (struct shared *s = shared; s < shared + SHARED; s++) {
        free(s->before);
        free(s->after);
        free(s->by);
    }
    return good;
}

/* The kernel's library in memory: the segments that it may write to. */
struct image {
    const void *inside; /* an address of the library */
    unsigned char *copy;
    size_t bytes;
    bool compare, changed;
};

static int see_image(struct dl_phdr_info *info, size_t size, void *context)
{
    struct image *image = context;
    const uintptr_t inside = (uintptr_t)image->inside;
    bool here = false;
    size_t at = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t begin = (uintptr_t)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        here = here || (info->dlpi_phdr[i].p_type == PT_LOAD && inside - begin < info->dlpi_phdr[i].p_memsz);
    }
    for (int i = 0; here && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W))
            continue;
        const void *data = (const void *)(uintptr_t)(info->dlpi_addr + segment->p_vaddr);
        if (image->compare)
            image->changed = image->changed || memcmp(image->copy + at, data, segment->p_memsz) != 0;
        else if (image->copy != NULL)
            memcpy(image->copy + at, data, segment->p_memsz);
        at += segment->p_memsz;
    }
    image->bytes = here ? at : image->bytes;
    return here;
}

/* A call of the first query only, so with other groups and parts; without a key if the layer has lengths */
static struct kernel_args args_of_query(const struct trial *t, int32_t *zeros)
{
    struct kernel_args args = args_of(t, t->in);
    args.n = args.n > 0;
    args.m = !layer_is_square(t->layer) ? args.m : args.n;
    args.tensor[TENSOR_LENGTHS] = args.tensor[TENSOR_LENGTHS] != NULL ? zeros : NULL;
    return args;
}

static bool run_single(struct trial *t)
{
    int32_t *zeros = calloc(t->in->batch + 1, sizeof *zeros);
    const struct kernel_args args = args_of_query(t, zeros);
    const bool good = zeros != NULL && run_parts(t, &args);
    const int error = good ? t->call->forward(t->packed, &args, t->scratch.data) : KERNEL_OK;
    if (zeros == NULL)
        diag_environment(t->diag, NULL, "out of memory");
    free(zeros);
    return good && (error == KERNEL_OK || violated(t, "n = 1: forward returns \"%s\"", t->call->strerror(error)));
}

/* No state: a call leaves the library's own memory unchanged. Not under AddressSanitizer, which forbids reading the
 * gaps between variables. */
static bool nothing_remembered(struct trial *t)
{
    if (dlsym(RTLD_DEFAULT, "__asan_init") != NULL)
        return true;
    struct image image = {.inside = (const void *)(uintptr_t)t->call->forward};
    dl_iterate_phdr(see_image, &image);
    image.copy = malloc(image.bytes + 1);
    if (image.copy == NULL)
        return diag_environment(t->diag, NULL, "out of memory");
    dl_iterate_phdr(see_image, &image);
    image.compare = true;
    bool good = prepare(t, 0, WORKERS) && forward(t, t->in, "another run");
    const struct kernel_args args = args_of(t, t->in);
    good = good && run_parts(t, &args) && run_single(t);
    dl_iterate_phdr(see_image, &image);
    free(image.copy);
    return good && (!image.changed || violated(t, "a call changed memory of the kernel's own: a variable that is not "
                                                "in scratch (counters of --coverage are such variables)"));
}

/* Tensors that keys and values come from, other than x */
static const enum layer_tensor of_keys[] = {TENSOR_SOURCE, TENSOR_K, TENSOR_V};
#define OF_KEYS (sizeof of_keys / sizeof *of_keys)

/* Number of floats at the end of sequence b of such a tensor that are past its length; 0 for other tensors */
static size_t past_length(const struct layer *layer, const struct inputs *in, enum layer_tensor tensor, size_t b)
{
    const size_t rows = in->m - inputs_keys(in, b), heads = layer->heads_first ? 1 : (size_t)layer->h_kv;
    switch (tensor) {
    case TENSOR_SOURCE: return rows * (size_t)layer->d_source;
    case TENSOR_K: return rows * heads * (size_t)layer->d_k;
    case TENSOR_V: return rows * heads * (size_t)layer->d_v;
    default: return 0;
    }
}

/* Bytes up to the last row of a cache that the call may read or write: the rows of all tokens so far (in a ring the
 * latest) and of the new ones. */
static size_t touchable(const struct layer *layer, const struct inputs *in, int part)
{
    size_t end = 0;
    for (size_t b = 0; b < in->batch; b++)
        for (int64_t back = 1; back <= inputs_first(layer, in, b) + (int64_t)inputs_rows(layer, in, b) &&
                               back <= layer->cache_len; back++)
            for (size_t i = 0; i < (size_t)layer->h_kv; i++) {
                const int64_t position = inputs_first(layer, in, b) + (int64_t)inputs_rows(layer, in, b) - back;
                const size_t at = inputs_cache_row(layer, in, part, b, i, position);
                end = at + 1 > end ? at + 1 : end;
            }
    const size_t size = layer_tensor_size(layer, inputs_cache_of(layer, part));
    return end > 0 ? (end - 1 + inputs_cache_width(layer, part)) * size : 0;
}

/* Bytes of an input that may be read: not keys past the last sequence's length, unless they are queries too; nor page
 * numbers after its last used page. */
static size_t readable(const struct layer *layer, const struct inputs *in, enum layer_tensor tensor)
{
    size_t count = inputs_count(layer, in, tensor);
    if (in->batch > 0)
        count -= past_length(layer, in, tensor, in->batch - 1);
    if (in->batch > 0 && tensor == TENSOR_PAGE_TABLE) {
        const size_t b = in->batch - 1, used = inputs_cached(layer, in, b) + inputs_keys(in, b);
        count -= (size_t)layer->page_count - (used + (size_t)layer->page_len - 1) / (size_t)layer->page_len;
    }
    return count * layer_tensor_size(layer, tensor);
}

/* Arguments for sequence b only */
static struct kernel_args args_of_sequence(const struct trial *t, size_t b)
{
    return kernel_args_of_sequence(t->layer, t->in, args_of(t, t->in), b);
}

/* In a process of its own, which does not free: a copy of what a call may read; if `from` is NULL, memory to write
 * to */
static void *fenced_copy(const void *from, size_t bytes, enum fence fence)
{
    struct fenced memory;
    return fenced_make(&memory, from, bytes, fence) ? memory.data : NULL;
}

static void forward_between(const struct trial *t, struct kernel_args args, enum fence fence)
{
    const struct kernel_args *own = fenced_copy(&args, sizeof args, fence);
    if (own != NULL)
        t->call->forward(t->packed, own, t->scratch.data);
}

/* One call whose tensors are between fences. With padding, unless keys are queries, also each sequence by itself, whose
 * source, or k and v, end with its keys. */
static void forward_fenced(struct trial *t, const struct inputs *from, enum fence fence)
{
    struct inputs in = *from;
    t->in = &in;
    for (int tensor = 0; tensor < TENSOR_W_Q; tensor++)
        if (in.tensor[tensor] != NULL)
            in.tensor[tensor] = fenced_copy(from->tensor[tensor], readable(t->layer, from, tensor), fence);
    t->y.data = fenced_copy(NULL, y_bytes(t), fence);
    t->attn.data = fenced_copy(NULL, attn_bytes(t), fence);
    t->lse.data = fenced_copy(NULL, lse_count(t) * sizeof(float), fence);
    for (int part = 0; part < inputs_cache_parts(t->layer); part++) {
        const size_t bytes = touchable(t->layer, from, part);
        t->cache[part].data = fenced_copy(NULL, bytes, fence);
        if (t->cache[part].data != NULL)
            memcpy(t->cache[part].data, from->tensor[inputs_cache_of(t->layer, part)], bytes);
    }
    forward_between(t, args_of(t, &in), fence);
    for (size_t i = 0; i < OF_KEYS; i++)
        in.tensor[of_keys[i]] = from->tensor[of_keys[i]];
    for (size_t b = 0; !t->layer->self && layer_has_tensor(t->layer, TENSOR_LENGTHS) && b < in.batch; b++) {
        struct kernel_args args = args_of_sequence(t, b);
        for (size_t i = 0; i < OF_KEYS; i++)
            if (args.tensor[of_keys[i]] != NULL) {
                const size_t count = inputs_count(t->layer, from, of_keys[i]) / from->batch;
                const size_t bytes = (count - past_length(t->layer, from, of_keys[i], b)) *
                                     layer_tensor_size(t->layer, of_keys[i]);
                args.tensor[of_keys[i]] = fenced_copy(args.tensor[of_keys[i]], bytes, fence);
            }
        forward_between(t, args, fence);
    }
}

/* Several calls, run one after the other in that process */
struct fenced_calls {
    struct trial *trial;
    const struct inputs *const *calls;
    size_t count;
    enum fence fence;
};

/* Lack of memory is not the kernel's fault, and error codes are checked elsewhere. */
static void forward_all_fenced(void *context)
{
    const struct fenced_calls *c = context;
    struct trial *t = c->trial;
    t->packed = fenced_copy(t->packed, t->call->packed_bytes, c->fence);
    t->scratch.data = fenced_copy(NULL, t->call->scratch_bytes, c->fence);
    for (size_t i = 0; t->packed != NULL && t->scratch.data != NULL && i < c->count; i++)
        forward_fenced(t, c->calls[i], c->fence);
}

static bool fenced_calls_live(struct trial *t, const struct inputs *const *calls, size_t count, enum fence fence)
{
    struct fenced_calls fenced = {t, calls, count, fence};
    bool lived;
    return fenced_call(forward_all_fenced, &fenced, &lived, t->diag) &&
           (lived || violated(t, "forward reads %s, writes to what is only read, or crashes",
                              fence == FENCE_BEHIND ? "past the end of a tensor" : "what precedes a tensor"));
}

static bool reads_within(struct trial *t)
{
    return fenced_calls_live(t, &t->in, 1, FENCE_BEHIND) && fenced_calls_live(t, &t->in, 1, FENCE_IN_FRONT);
}

bool promises_read_within(const struct kernel *kernel, const struct layer *layer, const struct inputs *const *calls,
                          size_t count, const void *packed, char why[300], struct diag *diag)
{
    struct trial t = {.kernel = kernel, .call = kernel->call, .layer = layer, .packed = packed, .why = why,
                      .diag = diag};
    return fenced_calls_live(&t, calls, count, FENCE_BEHIND);
}

/* ---- the batch around a sequence -------------------------------------------------------------------------------- */

static bool each_sequence_alone(struct trial *t)
{
    static const char what[] = "each sequence in a call of its own";
    if (!prepare(t, 8, 1))
        return false;
    for (size_t b = 0; t->in->n > 0 && b < t->in->batch; b++) {
        const struct kernel_args args = args_of_sequence(t, b);
        const int error = t->call->forward(t->packed, &args, t->scratch.data);
        if (error != KERNEL_OK)
            return violated(t, "%s: forward returns \"%s\"", what, t->call->strerror(error));
    }
    return zones_intact(t, what) && same_bits(t, what);
}

/* ---- hidden and visible poison --------------------------------------------------------------------------------- */

/* What must become of rows that see poison. With infinite values a score may be -infinity, which makes the weight 0 and
 * leaves attn finite; but 0 times the value is NaN, and an infinite query has no finite score to divide by, except a
 * sink, or one that a softcap makes finite. With finite but huge values nothing is promised. */
enum demand { DEMAND_NOTHING, DEMAND_OF_INFINITY, DEMAND_OF_NAN };

/* nothing; only the query itself, if scores do not read it; the query itself; a key and its value; the row of x that a
 * block adds */
enum taint { TAINT_NONE, TAINT_UNREAD, TAINT_OF_QUERY, TAINT_OF_KEY, TAINT_OF_X };

/* Whether infinite scores always make weights non-finite: not with a sink in the divisor, nor with a softcap */
static bool always_divides(const struct layer *layer)
{
    return !layer->sink && !score_has(layer, SCORE_SOFTCAP);
}

/* What of a chosen row is poisoned: all of it, one column, or with given values those alone */
enum extent { EXTENT_ROW, EXTENT_COLUMN, EXTENT_VALUES };

struct poison {
    struct inputs in;
    size_t rows;                /* rows of a sequence: those of a cache, then m new ones */
    unsigned char *key, *query; /* [batch][rows], [batch][n]: poisoned rows; in self-attention the same for the
                                 * call's own */
    unsigned char *tainted;     /* [batch][h][n]: the poison that each row of Z sees */
    unsigned char *read;        /* [batch][h][n]: whether a score of the row becomes NaN */
    enum extent extent;
};

static void poison_free(struct poison *p)
{
    inputs_free(&p->in);
    free(p->key);
    free(p->query);
    free(p->tainted);
    free(p->read);
}

/* Number of rows, of a cache and of a call, that may be poisoned: the maximum over the sequences */
static size_t poison_rows(const struct trial *t)
{
    size_t most = 0;
    for (size_t b = 0; layer_has_cache(t->layer) && b < t->in->batch; b++) /* a batch of nothing may have 2^31 */
        most = inputs_cached(t->layer, t->in, b) > most ? inputs_cached(t->layer, t->in, b) : most;
    return most + t->in->m;
}

/* Cached rows that sequences share are poisoned for all of them, or for none. */
static void share_poison(struct poison *p, const struct trial *t)
{
    const struct inputs *in = t->in;
    unsigned char *poisoned = calloc(cache_bytes(t, 0) + 1, 1);
    for (int turn = 0; poisoned != NULL && turn < 2; turn++)
        for (size_t b = 0; b < in->batch; b++)
            for (size_t j = 0; j < inputs_cached(t->layer, in, b); j++) {
                const int64_t position = inputs_first(t->layer, in, b) + (int64_t)j;
                unsigned char *row = &poisoned[inputs_cache_row(t->layer, in, false, b, 0, position)];
                unsigned char *key = &p->key[b * p->rows + j];
                *row |= *key;
                *key = *row;
            }
    free(poisoned);
}

/* Random rows among the later ones and those past lengths[b]: under causal, padding or a window some queries see none
 * of them. */
static void choose_poison(struct poison *p, const struct trial *t)
{
    const struct inputs *in = t->in;
    struct random random = {t->seed ^ 0x706F69736F6E};
    const size_t batch = in->n + in->m > 0 ? in->batch : 0; /* sequences that have a row, of which memory holds few */
    for (size_t b = 0; b < batch; b++) {
        const size_t cached = inputs_cached(t->layer, in, b), m = cached + in->m;
        for (size_t j = 0; j < m; j++) {
            const double chance = j >= cached + inputs_keys(in, b) ? 0.7 : j >= m / 2 ? 0.15 : j + 1 == m ? 0.5 : 0.02;
            p->key[b * p->rows + j] = random_uniform(&random) < chance;
        }
        for (size_t q = 0; q < in->n; q++)
            p->query[b * in->n + q] =
                !t->layer->self ? random_uniform(&random) < 0.1 : p->key[b * p->rows + cached + q];
    }
    if (t->layer->cache == CACHE_PAGED)
        share_poison(p, t);
}

static void spread_taint(struct poison *p, const struct trial *t)
{
    const struct inputs *in = t->in;
    const size_t h = (size_t)t->layer->h, batch = in->n > 0 ? in->batch : 0;
    for (size_t b = 0; b < batch; b++)
        for (size_t i = 0; i < h; i++)
            for (size_t q = 0; q < in->n; q++) {
                enum taint taint = TAINT_NONE;
                bool read = false;
                const size_t rows = inputs_cached(t->layer, in, b) + in->m;
                for (size_t j = 0; j < rows && !(taint == TAINT_OF_KEY && read); j++) {
                    const bool key = p->key[b * p->rows + j];
                    if (!(key || p->query[b * in->n + q]) || !reference_visible(t->layer, in, b, i, q, j))
                        continue;
                    const bool shows =
                        isnan(expressions_score(t->layer, in, reference_pair(t->layer, in, b, i, q, j), NAN));
                    const enum taint one = key ? TAINT_OF_KEY : shows ? TAINT_OF_QUERY : TAINT_UNREAD;
                    taint = one > taint ? one : taint;
                    read = read || shows;
                }
                p->read[(b * h + i) * in->n + q] = read;
                p->tainted[(b * h + i) * in->n + q] = (unsigned char)taint;
            }
}

/* Whether row r of all queries, or of all keys and values that the call brings, is poisoned. */
static bool is_poisoned(const struct poison *p, const struct trial *t, enum layer_tensor tensor, size_t r)
{
    const size_t m = t->in->m;
    if (tensor == TENSOR_Q || tensor == TENSOR_X)
        return p->query[r];
    return p->key[r / m * p->rows + inputs_cached(t->layer, t->in, r / m) + r % m];
}

/* Writes to whole rows, or to one column of what each head reads. */
static void write_poison(struct poison *p, const struct trial *t, enum layer_tensor tensor, size_t count, size_t width,
                         size_t head_width, const float values[3])
{
    for (size_t r = 0; r < t->in->batch * count; r++)
        for (size_t c = 0; is_poisoned(p, t, tensor, r) && c < width; c++)
            if (p->extent != EXTENT_COLUMN || c % head_width == r % head_width)
                element_put(t->layer->tensor_type, p->in.tensor[tensor], r * width + c, (double)values[(r + c) % 3]);
}

/* Writes to rows of a cache. */
static void poison_cache(struct poison *p, const struct trial *t, const float values[3])
{
    const struct layer *layer = t->layer;
    for (int of_values = p->extent == EXTENT_VALUES; of_values < 2; of_values++) {
        const int part = layer_scales_cache(layer) ? 2 + of_values : of_values; /* whole numbers are never NaN */
        const enum layer_tensor tensor = inputs_cache_of(layer, part);
        const size_t width = inputs_cache_width(layer, part);
        for (size_t b = 0; b < t->in->batch; b++)
            for (size_t j = 0; j < inputs_cached(layer, t->in, b); j++)
                for (size_t i = 0; p->key[b * p->rows + j] && i < (size_t)layer->h_kv; i++) {
                    const int64_t position = inputs_first(layer, t->in, b) + (int64_t)j;
                    const size_t row = inputs_cache_row(layer, t->in, part, b, i, position);
                    for (size_t c = 0; c < width; c++)
                        if (p->extent != EXTENT_COLUMN || c == j % width)
                            element_put(layer_tensor_element(layer, tensor), p->in.tensor[tensor], row + c,
                                        (double)values[(j + c) % 3]);
                }
    }
}

/* Writes to each head's row of q, k or v, or to one column of it. */
static void poison_given(struct poison *p, const struct trial *t, enum layer_tensor tensor, const float values[3])
{
    const struct layer *layer = t->layer;
    const size_t count = tensor == TENSOR_Q ? t->in->n : t->in->m;
    const size_t heads = (size_t)(tensor == TENSOR_Q ? layer->h : layer->h_kv);
    const size_t width = (size_t)(tensor == TENSOR_V ? layer->d_v : layer->d_k);
    for (size_t r = 0; r < t->in->batch * count; r++)
        for (size_t i = 0; is_poisoned(p, t, tensor, r) && i < heads; i++) {
            const size_t row = inputs_head_row(layer, t->in, tensor, r / count, r % count, i);
            for (size_t c = 0; c < width; c++)
                if (p->extent != EXTENT_COLUMN || c == r % width)
                    element_put(layer->tensor_type, p->in.tensor[tensor], row + c, (double)values[(r + c) % 3]);
        }
}

static bool make_poison(struct poison *p, struct trial *t, const float values[3], enum extent extent)
{
    const struct inputs *in = t->in;
    const struct layer *layer = t->layer;
    *p = (struct poison){.extent = extent};
    if (!inputs_copy(&p->in, layer, in, t->diag))
        return false;
    p->rows = poison_rows(t);
    p->key = calloc(in->batch * p->rows + 1, 1);
    p->query = calloc(in->batch * in->n + 1, 1);
    p->tainted = calloc(in->batch * (size_t)layer->h * in->n + 1, 1);
    p->read = calloc(in->batch * (size_t)layer->h * in->n + 1, 1);
    if (p->key == NULL || p->query == NULL || p->tainted == NULL || p->read == NULL)
        return diag_environment(t->diag, NULL, "out of memory");
    choose_poison(p, t);
    if (extent == EXTENT_VALUES)
        memset(p->query, 0, in->batch * in->n);
    for (size_t b = 0; extent == EXTENT_VALUES && !layer->projected && b < in->batch; b++)
        memset(p->key + b * p->rows + inputs_cached(layer, in, b), 0, in->m); /* x makes keys too */
    if (layer_attends(layer))
        spread_taint(p, t);
    if (extent == EXTENT_VALUES) /* no score shows them */
        memset(p->read, 0, in->batch * (size_t)layer->h * in->n);
    if (layer_has_cache(layer))
        poison_cache(p, t, values);
    if (layer->projected) {
        if (extent != EXTENT_VALUES) {
            poison_given(p, t, TENSOR_Q, values);
            poison_given(p, t, TENSOR_K, values);
        }
        poison_given(p, t, TENSOR_V, values);
    }
    if (layer->projected || extent == EXTENT_VALUES)
        return true;
    write_poison(p, t, TENSOR_X, in->n, (size_t)layer->d_model, (size_t)layer->d_in_q, values);
    if (layer->cross)
        write_poison(p, t, TENSOR_SOURCE, in->m, (size_t)layer->d_source, (size_t)layer->d_in_kv, values);
    return true;
}

/* Whether a column of attention reaches all columns of y: through a norm, or the feed-forward. */
static bool spreads(const struct layer *layer)
{
    const bool norms = layer->block == BLOCK_POST || layer->block == BLOCK_SANDWICH;
    return layer->w_o == W_O_DENSE || norms || (layer->block == BLOCK_PRE && layer_has_ffn(layer));
}

/* The worst taint among the rows of Z that an element of y depends on */
static enum taint taint_of_y(const struct poison *p, const struct trial *t, size_t b, size_t row, size_t column)
{
    const struct layer *layer = t->layer;
    const size_t h = (size_t)layer->h, block = (size_t)layer->d_out / h;
    size_t first, end;
    enum taint taint = TAINT_NONE;
    if (layer->pad_skipped && row >= inputs_keys(t->in, b))
        return TAINT_NONE;
    if (!layer_attends(layer))
        return p->query[b * t->in->n + row] ? TAINT_OF_X : TAINT_NONE;
    if (layer_has_block(layer) && p->query[b * t->in->n + row])
        return TAINT_OF_X;
    reference_taps(layer, t->in, b, row, &first, &end);
    for (size_t i = 0; i < h; i++)
        for (size_t z = first; z < end; z++)
            if ((spreads(layer) || column / block == i) && p->tainted[(b * h + i) * t->in->n + z] > taint)
                taint = p->tainted[(b * h + i) * t->in->n + z];
    return taint;
}

/* An expression may turn an infinite score into a finite one, and if it compares scores, also NaN; it may hide such a
 * pair, or not read the score at all. */
static enum demand demand_of(const struct layer *layer, enum demand demand)
{
    const bool bends = layer->score != NULL && (!expression_adds(layer->score) || score_has(layer, SCORE_HIDING));
    const bool ignores = layer->score != NULL && (layer->score->nodes[layer->score->root].reads & READS_S) == 0;
    const bool decides = ignores || (layer->score != NULL && expression_decides(layer->score));
    return decides || (bends && demand == DEMAND_OF_INFINITY) ? DEMAND_NOTHING : demand;
}

/* If an expression overflows on the way, or a key in an f16 cache, a row may be non-finite before it is poisoned. */
static bool overflowed(const struct trial *t, double base)
{
    return promise_overflows(t->layer) && !isfinite(base);
}

static bool check_poisoned_y(const struct poison *p, struct trial *t, enum demand demand, const char *what)
{
    const bool of_x = demand != DEMAND_NOTHING; /* whatever becomes of scores */
    demand = demand_of(t->layer, demand);
    const size_t d_out = (size_t)t->layer->d_out, n = t->in->n, h = (size_t)t->layer->h;
    const size_t step = spreads(t->layer) ? d_out : d_out / h; /* columns that share their fate */
    const enum taint least =
        demand == DEMAND_OF_INFINITY && !always_divides(t->layer) ? TAINT_OF_KEY : TAINT_OF_QUERY;
    for (size_t row = 0; row < t->in->batch * n; row++)
        for (size_t first = 0; first < d_out; first += step) {
            const enum taint taint = taint_of_y(p, t, row / n, row % n, first);
            for (size_t c = first; c < first + step; c++) {
                const size_t at = inputs_y_at(t->layer, t->in, row / n, row % n, c);
                const double y = number_of(t, t->y.data, at), base = number_of(t, t->base_y, at);
                if (taint == TAINT_NONE && !(y == base || overflowed(t, base)))
                    return violated(t, "%s in rows that nobody there sees changed y[%zu][%zu][%zu] from %.9g to %.9g",
                                    what, row / n, row % n, c, base, y);
                if (isfinite(y) && (taint == TAINT_OF_X ? of_x : taint >= least && demand != DEMAND_NOTHING))
                    return violated(t, "%s in a row that is seen left y[%zu][%zu][%zu] finite: %.9g", what, row / n,
                                    row % n, c, y);
            }
        }
    return true;
}

static bool check_poisoned_attn(const struct poison *p, struct trial *t, enum demand demand, const char *what)
{
    demand = demand_of(t->layer, demand);
    const size_t m = inputs_columns(t->layer, t->in), n = t->in->n, h = (size_t)t->layer->h;
    const bool divides = always_divides(t->layer);
    for (size_t row = 0; attn_count(t) > 0 && row < t->in->batch * h * n; row++) {
        const bool query = p->query[row / n / h * n + row % n];
        bool finite = true;
        for (size_t j = 0; j < m; j++) {
            const size_t at = row * m + j;
            const double attn = number_of(t, t->attn.data, at), base = number_of(t, t->base_attn, at);
            const bool seen = reference_visible(t->layer, &p->in, row / n / h, row / n % h, row % n, j);
            if (!seen && (t->layer->scores == SCORES_RAW || t->layer->scores == SCORES_CAPPED))
                continue; /* anything */
            finite = finite && (isfinite(attn) || !seen);
            const bool skipped = t->layer->pad_skipped && row % n >= inputs_keys(&p->in, row / n / h);
            if (!seen && attn != (t->layer->scores == SCORES_BIASED && !skipped ? -INFINITY : 0))
                return violated(t, "%s in a row that is seen made attn[%zu][%zu][%zu][%zu] %.9g, of a hidden key", what,
                                row / n / h, row / n % h, row % n, j, attn);
            if (!p->tainted[row] && !(attn == base || overflowed(t, base)))
                return violated(t, "%s in rows that nobody there sees changed attn[%zu][%zu][%zu][%zu]", what,
                                row / n / h, row / n % h, row % n, j);
        }
        if (p->read[row] && finite && (demand == DEMAND_OF_NAN || (demand == DEMAND_OF_INFINITY && query && divides)))
            return violated(t, "%s in a row that is seen left attn[%zu][%zu][%zu] finite", what, row / n / h,
                            row / n % h, row % n);
    }
    return true;
}

static bool check_poisoned_lse(const struct poison *p, struct trial *t, enum demand demand, const char *what)
{
    demand = demand_of(t->layer, demand);
    const size_t n = t->in->n, h = (size_t)t->layer->h;
    float *const lse = t->lse.data;
    for (size_t row = 0; row < lse_count(t); row++) {
        if (!p->tainted[row] && !(lse[row] == t->base_lse[row] || overflowed(t, t->base_lse[row])))
            return violated(t, "%s in rows that nobody there sees changed lse[%zu][%zu][%zu] from %.9g to %.9g", what,
                            row / n / h, row / n % h, row % n, t->base_lse[row], lse[row]);
        if (p->read[row] && demand == DEMAND_OF_NAN && isfinite(lse[row]))
            return violated(t, "%s in a row that is seen left lse[%zu][%zu][%zu] finite", what, row / n / h,
                            row / n % h, row % n);
    }
    return true;
}

static bool with_poison(struct trial *t, const float values[3], enum extent extent, enum demand demand,
                        const char *what)
{
    struct poison p;
    bool good = make_poison(&p, t, values, extent) && prepare(t, 12, 1) && forward(t, &p.in, what) &&
                check_poisoned_y(&p, t, demand, what) && check_poisoned_attn(&p, t, demand, what) &&
                check_poisoned_lse(&p, t, demand, what);
    poison_free(&p);
    return good;
}

static bool with_nan(struct trial *t)
{
    return with_poison(t, (const float[]){NAN, NAN, NAN}, EXTENT_ROW, DEMAND_OF_NAN, "NaN");
}

/* One NaN: with attention other columns may hide what a single one would show; without attention it must reach all
 * columns. */
static bool with_one_nan(struct trial *t)
{
    const enum demand demand = layer_attends(t->layer) ? DEMAND_NOTHING : DEMAND_OF_NAN;
    return with_poison(t, (const float[]){NAN, NAN, NAN}, EXTENT_COLUMN, demand, "NaN in one column");
}

/* Given ones, or those that a cache holds. Scores do not show it then; where they hide keys, they still do. */
static bool with_nan_in_values(struct trial *t)
{
    const enum demand demand = score_has(t->layer, SCORE_HIDING) ? DEMAND_NOTHING : DEMAND_OF_NAN;
    return (!t->layer->projected && !layer_has_cache(t->layer)) ||
           with_poison(t, (const float[]){NAN, NAN, NAN}, EXTENT_VALUES, demand, "NaN in values");
}

static bool with_infinity(struct trial *t)
{
    const bool shows = layer_attends(t->layer) || layer_norms_first(t->layer) || layer_has_block(t->layer);
    const enum demand demand = shows ? DEMAND_OF_INFINITY : DEMAND_NOTHING; /* activations of infinities are finite */
    return with_poison(t, (const float[]){INFINITY, -INFINITY, INFINITY}, EXTENT_ROW, demand, "infinity");
}

/* Poisons some numbers of mask_add; rows that see one of these keys are tainted. */
static void poison_mask(struct poison *p, const struct trial *t, float value)
{
    const size_t batch = p->in.mask_batch[TENSOR_MASK_ADD], heads = p->in.mask_h[TENSOR_MASK_ADD];
    const size_t n = t->in->n, m = inputs_columns(t->layer, t->in), h = (size_t)t->layer->h;
    float *mask = p->in.tensor[TENSOR_MASK_ADD];
    struct random random = {t->seed ^ 0x6D61736B};
    unsigned char *chosen = calloc(batch * heads * n * m + 1, 1);
    for (size_t at = 0; chosen != NULL && at < batch * heads * n * m; at++)
        if (random_uniform(&random) < 0.5 / (double)m) {
            mask[at] = value;
            chosen[at] = 1;
        }
    for (size_t row = 0; chosen != NULL && row < t->in->batch * h * n; row++) {
        const size_t b = row / n / h, i = row / n % h, q = row % n;
        const size_t at = (((batch > 1 ? b : 0) * heads + (heads > 1 ? i : 0)) * n + q) * m;
        for (size_t j = 0; j < m; j++)
            if (chosen[at + j] && reference_visible(t->layer, &p->in, b, i, q, j)) {
                p->tainted[row] = TAINT_OF_KEY;
                p->read[row] = 1;
            }
    }
    free(chosen);
}

static bool with_masks_of(struct trial *t, float value, const char *what)
{
    /* attn shows scores before the mask is added */
    const bool before = t->layer->scores == SCORES_RAW || t->layer->scores == SCORES_CAPPED;
    const enum demand of_attn = before ? DEMAND_NOTHING : DEMAND_OF_NAN;
    struct poison p = {0};
    bool good = inputs_copy(&p.in, t->layer, t->in, t->diag);
    p.key = calloc(t->in->batch * poison_rows(t) + 1, 1);
    p.query = calloc(t->in->batch * t->in->n + 1, 1);
    p.tainted = calloc(t->in->batch * (size_t)t->layer->h * t->in->n + 1, 1);
    p.read = calloc(t->in->batch * (size_t)t->layer->h * t->in->n + 1, 1);
    good = good && p.key != NULL && p.query != NULL && p.tainted != NULL && p.read != NULL;
    if (good)
        poison_mask(&p, t, value);
    good = good && prepare(t, 12, 1) && forward(t, &p.in, what) && check_poisoned_y(&p, t, DEMAND_OF_NAN, what) &&
           check_poisoned_attn(&p, t, of_attn, what) && check_poisoned_lse(&p, t, DEMAND_OF_NAN, what);
    poison_free(&p);
    return good;
}

static bool with_masks(struct trial *t)
{
    return !layer_has_tensor(t->layer, TENSOR_MASK_ADD) ||
           (with_masks_of(t, NAN, "NaN in mask_add") && with_masks_of(t, INFINITY, "infinity in mask_add"));
}

static bool with_huge_values(struct trial *t)
{
    return with_poison(t, (const float[]){INFINITY, -INFINITY, 3e38f}, EXTENT_ROW, DEMAND_NOTHING, "infinity or 3e38");
}

/* ---- rows of a block at the ends of what f32 holds --------------------------------------------------------------- */

#define KINDS_AT_THE_ENDS 15
/* Rows of x: the same number in all columns; all zeros; numbers whose squares exceed f32, or are subnormal; one number
 * far from all others. */
static float number_at_the_ends(size_t kind, float drawn, size_t column, size_t row)
{
    switch (kind) {
    case 0: return row % 3 == 0 ? 0.3f : -1e4f;
    case 1: return 0;
    case 2: return drawn * 1e30f;
    case 3: return column % 2 == row % 2 ? 3.4e38f : -3.4e38f;
    case 4: return drawn * 1e-30f;
    case 5: return drawn * 1e-44f;
    case 8: return drawn * 1e-35f;
    case 6: return column == row % 5 ? drawn * 1e6f : drawn;
    case 7: return drawn + 1e5f;
    case 9: return drawn * 8; /* on both sides of what tanh, gelu and exponentials of activations are cut at */
    case 14: return drawn * 60;
    case 10: return drawn * 0x1p65f; /* squares just above f32: eps is a part of their mean on the smaller scale */
    case 11: return drawn * 0x1p70f;
    case 12: return drawn * 0x1p-36f; /* between the least size of whole numbers' rows and f32's spacing near 1 */
    case 13: return drawn * 0x1p-66f;
    default: return drawn;
    }
}

/* Whether y is within these gates of the reference */
static bool near_reference(struct trial *t, const struct inputs *in, const struct reference *reference,
                           const struct bounds *bounds, unsigned gates, const char *what)
{
    struct comparison c = {0};
    compare_y(&c, t->layer, in, reference, bounds, t->y.data, gates);
    return c.misses == 0 ||
           violated(t, "%s: y[%zu][%zu][%zu] is %.9g; the reference has %.9g; %zu elements miss", what, c.index[0],
                    c.index[1], c.index[2], c.actual, c.expected, c.misses);
}

/* Within the worst case; and finite where nothing overflows on the way. `alone`: small rows without those at the ends,
 * beside which the bound of whole numbers allows for subnormal scales. */
static bool rows_of_kinds(struct trial *t, bool alone)
{
    static const char what[] = "rows of x of one number, of zeros, of huge and of tiny numbers";
    const size_t d = (size_t)t->layer->d_model, rows = t->in->batch * t->in->n;
    struct inputs in;
    struct reference reference = {.y = NULL};
    struct bounds bounds = {.y_worst = NULL};
    if (!layer_has_block(t->layer) && layer_attends(t->layer))
        return true;
    if (!inputs_copy(&in, t->layer, t->in, t->diag))
        return false;
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < d; column++) {
            const size_t at = row * d + column;
            const float drawn = (float)inputs_number(t->layer, &in, TENSOR_X, at);
            const bool last = row % t->in->n % 16 == 15; /* huge in the last lane of a group */
            const size_t kind = alone ? 12 + row % 2 : last ? 2 : (row + t->seed) % KINDS_AT_THE_ENDS;
            const float number = number_at_the_ends(kind, drawn, column, row);
            inputs_put(t->layer, &in, TENSOR_X, at, (double)number);
        }
    const bool made = bounds_compute(&reference, &bounds, t->layer, &in, kernel_folds(t->kernel), false, t->diag);
    bool good = made && prepare(t, 8, 1) && forward(t, &in, what);
    good = good && near_reference(t, &in, &reference, &bounds, GATE_WORST, what);
    reference_free(&reference);
    bounds_free(&bounds);
    inputs_free(&in);
    return good;
}

/* layer = linear of rows with an infinite number: limits of its activation and softcap, where the reference has any */
static bool limits_at_infinity(struct trial *t)
{
    static const char what[] = "rows of x with an infinite number";
    const size_t d = (size_t)t->layer->d_model, d_out = (size_t)t->layer->d_out, rows = t->in->batch * t->in->n;
    struct inputs in;
    struct reference reference = {.y = NULL};
    struct bounds bounds = {.y_worst = NULL};
    if (!layer_is_linear(t->layer) || layer_sums_whole(t->layer) || layer_stores_weights(t->layer))
        return true; /* a weight that is stored as 0 makes NaN of infinity */
    if (!inputs_copy(&in, t->layer, t->in, t->diag))
        return false;
    for (size_t row = 0; row < rows; row++)
        inputs_put(t->layer, &in, TENSOR_X, row * d + row % d, row % 2 == 0 ? INFINITY : -INFINITY);
    bool good = bounds_compute(&reference, &bounds, t->layer, &in, kernel_folds(t->kernel), false, t->diag) &&
                prepare(t, 8, 1) && forward(t, &in, what);
    for (size_t at = 0; good && at < rows * d_out; at++) {
        const double number = number_of(t, t->y.data, at), limit = reference.y[at];
        good = isnan(limit) || number == limit || (isfinite(limit) && fabs(number - limit) <= 0x1p-7 * fabs(limit)) ||
               violated(t, "%s: y[%zu] is %.9g; the reference has %.9g", what, at, number, limit);
    }
    reference_free(&reference);
    bounds_free(&bounds);
    inputs_free(&in);
    return good;
}

static bool rows_at_the_ends(struct trial *t)
{
    return rows_of_kinds(t, false) && (!layer_sums_whole(t->layer) || rows_of_kinds(t, true)) && limits_at_infinity(t);
}

/* ---- keys and values of all kinds in a cache --------------------------------------------------------------------- */

/* Halfway between neighbours of bf16, of f16, and of its subnormals; where f16 ends */
static const struct { float odd, unit; } halfway[] = {{257, 1}, {2049, 1}, {1, 0x1p-25f}, {4095, 16}};

#define KINDS_STORED 6
/* Rows that a cache stores beside those at the ends: non-finite ones; numbers of all sizes in one row; halfway between
 * whole numbers, and between neighbours of bf16 and f16, the last of them where f16 ends. */
static float number_to_store(size_t kind, float drawn, size_t column, size_t row)
{
    switch (kind) {
    case 0: return column == row % 7 ? nanf("0x3fffff") : drawn; /* which a carry would turn into a zero */
    case 1: return column == row % 5 ? -INFINITY : drawn;
    case 2: return ldexpf(drawn, (int)(column * 13 % 60) - 30);
    case 3: return column == 0 ? 127 : nearbyintf(drawn * 16) / 2;
    case 4: return drawn * 1e-36f; /* on both sides of the least scale of i8 */
    case 5: return copysignf((halfway[column % 4].odd + 2 * (float)(column / 4)) * halfway[column % 4].unit, drawn);
    default: return number_at_the_ends(kind - KINDS_STORED, drawn, column, row);
    }
}

/* Numbers and scales in the cache are those of the reference, within the worst case. */
static bool stores_all_kinds(struct trial *t)
{
    static const char what[] = "keys and values of zeros, tiny, huge, non-finite and halfway numbers";
    static const enum layer_tensor sources[] = {TENSOR_X, TENSOR_K, TENSOR_V};
    const struct layer *layer = t->layer;
    const void *after[CACHE_PARTS];
    struct inputs in;
    struct reference reference = {.y = NULL};
    struct bounds bounds = {.y_worst = NULL};
    if (!layer_has_cache(layer))
        return true;
    if (!inputs_copy(&in, layer, t->in, t->diag))
        return false;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        const enum layer_tensor tensor = sources[i];
        const int64_t columns = tensor == TENSOR_X ? layer->d_model : tensor == TENSOR_K ? layer->d_k : layer->d_v;
        const size_t width = (size_t)columns;
        for (size_t at = 0; at < inputs_count(layer, &in, tensor); at++) {
            const float drawn = (float)inputs_number(layer, &in, tensor, at);
            const size_t row = at / width, kind = (row + t->seed) % (KINDS_STORED + KINDS_AT_THE_ENDS);
            inputs_put(layer, &in, tensor, at, (double)number_to_store(kind, drawn, at % width, row));
        }
    }
    bool good = bounds_compute(&reference, &bounds, layer, &in, kernel_folds(t->kernel), false, t->diag) &&
                prepare(t, 8, 1) && forward(t, &in, what);
    for (int part = 0; part < CACHE_PARTS; part++)
        after[part] = t->cache[part].data;
    for (int values = 0; good && values < 2; values++) {
        struct comparison c = {0};
        good = compare_cache(&c, layer, &in, &reference, &bounds, values, after, GATE_WORST) ||
               diag_environment(t->diag, NULL, "out of memory");
        good = good && (c.misses == 0 ||
                        violated(t, "%s: %s[%zu][%zu][%zu][%zu] is %.9g; the reference has %.9g, or the row's scale "
                                 "differs", what, layer_tensor_name(c.tensor), c.index[0], c.index[1], c.index[2],
                                 c.index[3], c.actual, c.expected));
    }
    reference_free(&reference);
    bounds_free(&bounds);
    inputs_free(&in);
    return good;
}

/* ---- columns of weights that packing rounds ---------------------------------------------------------------------- */

/* layer = linear returns columns as they were given, or as weight_type rounds them: those at the edges of panels, and
 * random ones. */
static bool columns_are_right(struct trial *t)
{
    const struct layer *layer = t->layer;
    const size_t in = (size_t)layer->d_model, out = (size_t)layer->d_out;
    struct random random = {t->seed ^ 0x636F6C};
    struct guarded row;
    struct inputs stored;
    if (!stored_make(&stored, layer, t->in))
        return diag_environment(t->diag, NULL, "out of memory");
    if (!guarded_make(&row, in * sizeof(float), sizeof(float))) {
        stored_free(&stored, layer);
        return diag_environment(t->diag, NULL, "out of memory");
    }
    const float *w = inputs_floats(&stored, TENSOR_W);
    bool good = true;
    for (size_t i = 0; good && i < 64; i++) {
        const size_t column = (i < 17 ? i : i < 34 ? out + 16 - i : random_bits(&random)) % out;
        guarded_fill(&row);
        const int error = t->call->column(t->packed, column, row.data);
        good = error == KERNEL_OK || violated(t, "column %zu returns %d (%s)", column, error, error_text(t, error));
        for (size_t k = 0; good && k < in; k++) {
            const float *given = &w[layer->out_in ? column * in + k : k * out + column];
            good = memcmp((const float *)row.data + k, given, sizeof *given) == 0 ||
                   violated(t, "column %zu has %.9g in row %zu, which was given as %.9g", column,
                            ((const float *)row.data)[k], k, *given);
        }
        good = good && (guarded_zones_intact(&row) || violated(t, "column %zu wrote outside its numbers", column));
    }
    guarded_free(&row);
    stored_free(&stored, layer);
    return good;
}

#define KINDS_OF_COLUMNS 9
/* Zeros; numbers below the least scale; one far larger than the others; halfway between whole numbers of i8, and of i4,
 * with largest ones of both signs; halfway between neighbours of bf16 and f16; subnormals of f16. */
static float number_of_column(size_t kind, float drawn, size_t row)
{
    switch (kind) {
    case 0: return 0;
    case 1: return drawn * 0x1p-130f;
    case 2: return row % 37 == 5 ? 300 * drawn : drawn;
    case 3: return 0x1p-8f * (row == 0 ? 127 : fmaxf(-126.5f, fminf(126.5f, nearbyintf(256 * drawn) / 2)));
    case 4: return 0x1p-5f * (row % 32 > 1 ? fmaxf(-7.5f, fminf(7.5f, nearbyintf(32 * drawn) / 2))
                                           : row % 2 == row / 32 % 2 ? 8 : -8);
    case 5: return copysignf(halfway[row % 3].odd + 2 * (float)(row / 3 % 16), drawn) *
                   (row % 3 < 2 ? 0x1p-12f : halfway[2].unit);
    case 6: return ldexpf(drawn, -8 - (int)(row % 16));
    default: return drawn;
    }
}

static bool packs_columns_of_all_kinds(struct trial *t)
{
    static const char what[] = "columns of weights of zeros, tiny, uneven and halfway numbers";
    const struct layer *layer = t->layer;
    const struct trial own = *t;
    struct guarded packed = {0};
    struct reference reference = {.y = NULL};
    struct bounds bounds = {.y_worst = NULL};
    struct inputs in;
    if (!layer_stores_weights(layer))
        return true;
    if (!inputs_copy(&in, layer, t->in, t->diag))
        return false;
    for (enum layer_tensor w = 0; w < TENSOR_COUNT; w++) {
        int64_t shape[4];
        const int axes = layer_tensor_row(w)->kind == TENSOR_WEIGHT ? layer_weight_shape(layer, w, shape) : 0;
        for (size_t at = 0; axes > 1 && at < inputs_count(layer, &in, w); at++) {
            const size_t last = at % (size_t)shape[axes - 1], before = at / (size_t)shape[axes - 1];
            const size_t row = (layer->out_in ? last : before) % (size_t)shape[axes - 2 + layer->out_in];
            const size_t column = layer->out_in ? before : last;
            float *const number = (float *)in.tensor[w] + at;
            *number = number_of_column((column + t->seed) % KINDS_OF_COLUMNS, *number, row);
        }
    }
    const struct kernel_weights weights = kernel_weights_of(&in);
    bool good = bounds_compute(&reference, &bounds, layer, &in, kernel_folds(t->kernel), true, t->diag) &&
                guarded_make(&packed, t->call->packed_bytes, KERNEL_ALIGNMENT) && prepare(t, 8, 1);
    if (good && t->call->pack(packed.data, &weights, t->call->isa(t->packed)) != KERNEL_OK)
        good = violated(t, "%s: pack refuses them", what);
    t->packed = packed.data;
    t->in = &in;
    good = good && (!layer_is_linear(layer) || columns_are_right(t)) && forward(t, &in, what) &&
           near_reference(t, &in, &reference, &bounds, GATE_WORST, what);
    t->packed = own.packed;
    t->in = own.in;
    guarded_free(&packed);
    reference_free(&reference);
    bounds_free(&bounds);
    inputs_free(&in);
    return good;
}

/* ---- wrong calls ----------------------------------------------------------------------------------------------- */

#define SEVERAL 7 /* sequences of calls that must be refused before any of them is read */

/* Tensors of numbers that a call checks */
enum { LENGTHS, PAST, PREFIX, PAGES, NUMBERS };
static const enum layer_tensor number_tensors[NUMBERS] = {TENSOR_LENGTHS, TENSOR_PAST, TENSOR_PREFIX,
                                                          TENSOR_PAGE_TABLE};

/* A call that is about to be spoiled */
struct attempt {
    const struct trial *trial;
    struct kernel_args args;
    const void *packed;
    char *scratch;
    int32_t *numbers[NUMBERS]; /* of SEVERAL sequences, which may be changed, the call's own first; NULL: none */
    const void *zeroed;
    size_t turn; /* from 1 on: which wrong extents, or numbers */
};

static bool has(const struct attempt *a, enum layer_tensor tensor)
{
    return layer_has_tensor(a->trial->layer, tensor);
}

/* Each spoils one thing; false if it does not apply to the layer. */
static bool null_tensor(struct attempt *a, enum layer_tensor tensor)
{
    a->args.tensor[tensor] = NULL;
    return has(a, tensor);
}

static void set_batch(struct attempt *a, size_t batch)
{
    a->args.batch = batch;
    a->args.mask_batch[TENSOR_MASK_BOOL] = has(a, TENSOR_MASK_BOOL);
    a->args.mask_batch[TENSOR_MASK_ADD] = has(a, TENSOR_MASK_ADD);
}
/* A batch for which this tensor is a little too large, and others need not be */
static bool large_batch(struct attempt *a, enum layer_tensor tensor)
{
    const struct inputs *in = a->trial->in;
    struct inputs one = *in;
    one.n = a->args.n;
    one.m = a->args.m;
    one.batch = one.mask_batch[tensor] = 1;
    one.mask_h[tensor] = (size_t)a->trial->layer->h;
    const bool of_pages = tensor == TENSOR_K_PAGES || tensor == TENSOR_V_PAGES || tensor == TENSOR_PAGE_TABLE ||
                          (a->trial->layer->cache == CACHE_PAGED &&
                           (tensor == TENSOR_K_SCALE || tensor == TENSOR_V_SCALE));
    if (!has(a, tensor) || of_pages) /* which are shared */
        return false;
    set_batch(a, PTRDIFF_MAX / layer_tensor_size(a->trial->layer, tensor) /
                     inputs_count(a->trial->layer, &one, tensor) + 1);
    a->args.mask_batch[tensor] = a->args.batch;
    a->args.mask_h[tensor] = one.mask_h[tensor];
    return true;
}
/* Extents of a mask that are neither 1 nor the full ones */
#define WRONG_EXTENTS 8
static bool wrong_extents(struct attempt *a, enum layer_tensor tensor)
{
    const size_t h = (size_t)a->trial->layer->h, heads = a->trial->in->mask_h[tensor], batch = a->args.batch;
    const struct { size_t batch, h, sequences; } wrong[WRONG_EXTENTS] = {
        {batch + 2, heads, batch}, {0, 1, batch}, {1, 0, batch}, {1, h + 1, batch},
        {1, h > 2 ? h - 1 : 0, batch}, {1, h > 2 ? 2 : 0, batch}, {2, h, SEVERAL}, {SEVERAL - 1, h, SEVERAL}};
    set_batch(a, wrong[a->turn - 1].sequences);
    a->args.mask_batch[tensor] = wrong[a->turn - 1].batch;
    a->args.mask_h[tensor] = wrong[a->turn - 1].h;
    return has(a, tensor) && layer_tensor_row(tensor)->kind == TENSOR_OF_PAIRS;
}

static void single_query(struct attempt *a)
{
    a->args.n = 1;
    a->args.m = !layer_is_square(a->trial->layer) ? a->args.m : 1;
    if (a->numbers[LENGTHS] != NULL && layer_is_square(a->trial->layer))
        memset(a->numbers[LENGTHS], 0, a->args.batch * sizeof(int32_t));
}
static bool null_y_no_keys(struct attempt *a)
{
    a->args.m = 0;
    if (a->numbers[LENGTHS] != NULL)
        memset(a->numbers[LENGTHS], 0, a->args.batch * sizeof(int32_t));
    return !layer_is_square(a->trial->layer) && null_tensor(a, TENSOR_Y);
}
/* Sizes beyond the limits; sizes that look legal if they are truncated to fewer bits, or taken as signed, or whose
 * bytes wrap to a small number: of x or q, and of pages, unless a page is a byte */
#define TOP_BIT (SIZE_MAX / 2 + 1)
#define WRONG_SIZES 12
static bool wrong_size(struct attempt *a)
{
    const struct layer *layer = a->trial->layer;
    struct kernel_args *const args = &a->args;
    const bool square = layer_is_square(layer), paged = has(a, TENSOR_K_PAGES);
    const size_t x = (size_t)(layer->projected ? layer->h * layer->d_k : layer->d_model);
    const size_t page = paged ? (size_t)(layer->page_len * layer->h_kv * layer->d_k) *
                                    layer_tensor_size(layer, TENSOR_K_PAGES) : 1;
    const struct { size_t *of, wrong; bool exists; } sizes[WRONG_SIZES] = {
        {&args->n, (size_t)layer->seq_len + 1, true}, {&args->n, SIZE_MAX, true}, {&args->n, args->n + TOP_BIT, true},
        {&args->n, args->n + (SIZE_MAX > UINT32_MAX ? (size_t)UINT32_MAX + 1 : TOP_BIT), true},
        {&args->m, square ? args->n + 1 : (size_t)layer->source_len + 1, true},
        {&args->m, args->n - 1, square && args->n > 1}, {&args->m, args->m + TOP_BIT, true},
        {&args->batch, SIZE_MAX, true}, {&args->batch, args->batch + TOP_BIT, true},
        {&args->batch, SIZE_MAX / sizeof(float) / args->n / x + 1, true}, {&args->pages, SIZE_MAX, paged},
        {&args->pages, SIZE_MAX / page + 2, page > 1}};
    const size_t i = a->turn - 1;
    *sizes[i].of = sizes[i].wrong;
    if (sizes[i].of == &args->n && square)
        args->m = args->n;
    set_batch(a, args->batch);
    return sizes[i].exists;
}
static bool set_length(struct attempt *a, size_t b, int32_t length)
{
    if (a->numbers[LENGTHS] != NULL)
        a->numbers[LENGTHS][b] = length;
    return a->numbers[LENGTHS] != NULL;
}
/* Number of new tokens of sequence b */
static int32_t fresh_of(const struct attempt *a, size_t b)
{
    return a->numbers[LENGTHS] != NULL ? a->numbers[LENGTHS][b] : (int32_t)a->args.n;
}
/* Below 0, or above the most that there may be, of the first sequence, the last, or one among good ones; the first page
 * number that is used, or the last. */
#define WRONG_NUMBERS 24
static bool wrong_number(struct attempt *a, enum layer_tensor tensor)
{
    const struct layer *layer = a->trial->layer;
    const size_t turn = a->turn - 1, place = turn % 3;
    size_t number = 0;
    while (number < NUMBERS && (number_tensors[number] != tensor || a->numbers[number] == NULL))
        number++;
    if (number == NUMBERS)
        return false;
    if (place == 2)
        set_batch(a, SEVERAL);
    const size_t b = place == 0 ? 0 : place == 1 ? a->args.batch - 1 : SEVERAL / 2;
    const int64_t most[NUMBERS] = {(int64_t)a->args.m,
                                   layer_has_cache(layer) ? inputs_positions(layer) - fresh_of(a, b) : INT32_MAX,
                                   INT32_MAX, (int64_t)a->args.pages - 1};
    const int64_t wrong[] = {-1, INT32_MIN, most[number] + 1, INT32_MAX}, is = wrong[turn / 3 % 4];
    const int64_t used = number == PAGES ? (int64_t)a->numbers[PAST][b] + fresh_of(a, b) : 1;
    const int64_t page = number == PAGES && turn >= 12 ? (used - 1) / layer->page_len : 0;
    a->numbers[number][(number == PAGES ? (int64_t)b * layer->page_count : (int64_t)b) + page] = (int32_t)is;
    return used > 0 && (is < 0 || (is > most[number] && is <= INT32_MAX)) && (number == PAGES || turn < 12);
}
static bool length_of_no_queries(struct attempt *a)
{
    a->args.n = 0;
    a->args.m = !layer_is_square(a->trial->layer) ? a->args.m : 0;
    return set_length(a, 0, (int32_t)a->args.m + 1);
}
static bool length_of_no_keys(struct attempt *a)
{
    a->args.m = 0;
    if (a->numbers[LENGTHS] != NULL)
        memset(a->numbers[LENGTHS], 0, a->args.batch * sizeof(int32_t));
    return !layer_is_square(a->trial->layer) && set_length(a, 0, 1);
}
static bool null_lengths_no_queries(struct attempt *a)
{
    length_of_no_queries(a);
    return null_tensor(a, TENSOR_LENGTHS);
}
/* A length above this call's keys, but not above the layer's limit */
static bool length_above_shorter_m(struct attempt *a)
{
    if (a->numbers[LENGTHS] == NULL || a->args.n < 2 || a->args.m < 2)
        return false;
    memset(a->numbers[LENGTHS], 0, a->args.batch * sizeof(int32_t));
    a->numbers[LENGTHS][a->args.batch - 1] = (int32_t)a->args.m;
    a->args.n--;
    a->args.m--;
    return true;
}
static bool no_pages(struct attempt *a)
{
    a->args.pages = 0;
    return a->numbers[PAGES] != NULL && a->numbers[PAST][a->args.batch - 1] + fresh_of(a, a->args.batch - 1) > 0;
}
static bool not_packed(struct attempt *a) { a->packed = a->zeroed; return true; }

static const struct wrong {
    const char *what; /* behind the tensor's name, where it is spoiled */
    int expected;
    bool (*of_call)(struct attempt *attempt);
    bool (*of_tensor)(struct attempt *attempt, enum layer_tensor tensor);
    int turns; /* ways to spoil it, 0: one */
} wrongs[] = {
    {" of PTRDIFF_MAX bytes or more", KERNEL_SIZE, .of_tensor = large_batch},
    {" with wrong extents", KERNEL_BROADCAST, .of_tensor = wrong_extents, .turns = WRONG_EXTENTS},
    {" with a wrong number", KERNEL_LENGTH, .of_tensor = wrong_number, .turns = WRONG_NUMBERS},
    {"y = NULL, m = 0", KERNEL_NULL, .of_call = null_y_no_keys},
    {"a size beyond the limits", KERNEL_SIZE, .of_call = wrong_size, .turns = WRONG_SIZES},
    {"a length of m + 1, of fewer keys", KERNEL_LENGTH, .of_call = length_above_shorter_m},
    {"a length of m + 1, n = 0", KERNEL_LENGTH, .of_call = length_of_no_queries},
    {"a length of 1, m = 0", KERNEL_LENGTH, .of_call = length_of_no_keys},
    {"lengths = NULL, n = 0", KERNEL_NULL, .of_call = null_lengths_no_queries},
    {"pages = 0", KERNEL_LENGTH, .of_call = no_pages},
    {"a packed block of zeros", KERNEL_PACKED, .of_call = not_packed},
};

/* Whether the cache still is what the inputs hold */
static bool cache_untouched(struct trial *t, const char *what)
{
    for (int part = 0; part < inputs_cache_parts(t->layer); part++) {
        const enum layer_tensor tensor = inputs_cache_of(t->layer, part);
        if (memcmp(t->cache[part].data, t->in->tensor[tensor], cache_bytes(t, part)) != 0)
            return violated(t, "%s: %s was written", what, layer_tensor_name(tensor));
    }
    return true;
}

static bool untouched(struct trial *t, const char *what)
{
    if (!cache_untouched(t, what))
        return false;
    return (guarded_untouched(&t->y) && guarded_untouched(&t->attn) && guarded_untouched(&t->lse) &&
            guarded_untouched(&t->scratch)) ||
           violated(t, "%s: refused, but something was written", what);
}

/* Each of the four functions that take a call must refuse it. Phases and parts do not get the scratch. */
static bool refused(struct trial *t, const void *packed, const struct kernel_args *args, void *scratch, int expected,
                    const char *what)
{
    const struct kernel_table *call = t->call;
    int error = call->forward(packed, args, scratch);
    if (error != expected)
        return violated(t, "%s: forward returns %d (%s), not %d", what, error, error_text(t, error), expected);
    error = call->run(packed, args, scratch, 0, 0, 0);
    if (error != expected)
        return violated(t, "%s: run returns %d (%s), not %d", what, error, error_text(t, error), expected);
    if (scratch == t->scratch.data && (call->phases(packed, args) != 0 || call->parts(packed, args, 0) != 0))
        return violated(t, "%s: the call is refused, but has phases or parts", what);
    return untouched(t, what);
}

static size_t lengths_bytes(const struct trial *t)
{
    return (t->in->batch > SEVERAL ? t->in->batch : SEVERAL) * sizeof(int32_t);
}

static size_t numbers_of(const struct trial *t, size_t number)
{
    return number == PAGES ? (size_t)t->layer->page_count : 1;
}

/* A wrong call with the call's queries, or with one query. `numbers`: room for the tensors that
 * NUMBERS counts. */
static bool one_wrong_call(struct trial *t, const struct wrong *wrong, enum layer_tensor tensor, size_t turn,
                           int32_t *numbers, const void *zeroed, bool single)
{
    struct attempt a = {.trial = t, .args = args_of(t, t->in), .packed = t->packed, .scratch = t->scratch.data,
                        .zeroed = zeroed, .turn = turn};
    char what[80], way[24] = "";
    for (size_t i = 0; i < NUMBERS; i++) {
        const size_t count = numbers_of(t, i), room = count * lengths_bytes(t);
        const void *own = t->in->tensor[number_tensors[i]];
        if (own == NULL)
            continue;
        a.numbers[i] = memset(numbers, 0, room);
        memcpy(numbers, own, t->in->batch * count * sizeof *numbers);
        a.args.tensor[number_tensors[i]] = numbers;
        numbers += room / sizeof *numbers;
    }
    if (single)
        single_query(&a);
    if (!(wrong->of_tensor != NULL ? wrong->of_tensor(&a, tensor) : wrong->of_call(&a)))
        return true;
    if (wrong->turns > 0)
        snprintf(way, sizeof way, ", way %zu", turn);
    snprintf(what, sizeof what, "%s%s%s", wrong->of_tensor != NULL ? layer_tensor_name(tensor) : "", wrong->what, way);
    return refused(t, a.packed, &a.args, a.scratch, wrong->expected, what);
}

static bool one_wrong(struct trial *t, const struct wrong *wrong, int32_t *numbers, const void *zeroed)
{
    const enum layer_tensor end = wrong->of_tensor != NULL ? TENSOR_COUNT : 1;
    const size_t turns = wrong->turns > 0 ? (size_t)wrong->turns : 1;
    for (enum layer_tensor tensor = 0; tensor < end; tensor++)
        for (size_t turn = 1; turn <= turns && !tensor_is_packed(layer_tensor_row(tensor)->kind); turn++)
            if (!one_wrong_call(t, wrong, tensor, turn, numbers, zeroed, false) ||
                !one_wrong_call(t, wrong, tensor, turn, numbers, zeroed, true))
                return false;
    return true;
}

static bool wrong_part(struct trial *t, const struct kernel_args *args, size_t phase, size_t part)
{
    const int error = t->call->run(t->packed, args, t->scratch.data, phase, part, 0);
    return error == KERNEL_PART || violated(t, "phase %zu part %zu is past the last, but run returns %d (%s), not %d",
                                            phase, part, error, error_text(t, error), KERNEL_PART);
}

static bool wrong_parts(struct trial *t, struct kernel_args args)
{
    const size_t phases = t->call->phases(t->packed, &args);
    const size_t wrong[] = {phases, phases + 1, phases + 2, 2 * phases + 1, 2 * phases + 2, SIZE_MAX / 2, SIZE_MAX};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++)
        if (!wrong_part(t, &args, wrong[w], 0))
            return false;
    for (size_t phase = 0; phase < phases; phase++) {
        const size_t parts = t->call->parts(t->packed, &args, phase);
        if (!wrong_part(t, &args, phase, parts) || !wrong_part(t, &args, phase, parts + 1) ||
            !wrong_part(t, &args, phase, SIZE_MAX))
            return false;
    }
    return (t->call->parts(t->packed, &args, phases) == 0 && t->call->parts(t->packed, &args, SIZE_MAX) == 0)
               ? untouched(t, "a part past the last")
               : violated(t, "a phase past the last has parts");
}

/* Address of a tensor of a call; NULL: the layer has none, or it is no argument of a call */
static const void *tensor_of_call(const struct trial *t, enum layer_tensor tensor)
{
    switch (tensor) {
    case TENSOR_Y: return t->y.data;
    case TENSOR_ATTN: return attn_count(t) > 0 ? t->attn.data : NULL;
    case TENSOR_LSE: return lse_count(t) > 0 ? t->lse.data : NULL;
    default: break;
    }
    for (int part = 0; part < inputs_cache_parts(t->layer); part++)
        if (tensor == inputs_cache_of(t->layer, part))
            return t->cache[part].data;
    return tensor_is_packed(layer_tensor_row(tensor)->kind) ? NULL : t->in->tensor[tensor];
}

/* A cache that begins where another tensor of the call begins, or at its last element, or that ends there. It is
 * aligned to its own elements. */
static bool overlaps(struct trial *t, int part, enum layer_tensor tensor)
{
    const uintptr_t at = (uintptr_t)tensor_of_call(t, tensor);
    const size_t bytes = inputs_count(t->layer, t->in, tensor) * layer_tensor_size(t->layer, tensor);
    const size_t own = cache_bytes(t, part), size = layer_tensor_size(t->layer, inputs_cache_of(t->layer, part));
    if (at == 0 || bytes == 0 || own == 0)
        return true;
    const uintptr_t begins[] = {at, at + bytes - 1, at + size - own};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        void *const on = (void *)(begins[i] - begins[i] % size);
        struct kernel_args args = args_of(t, t->in);
        char what[80];
        args.tensor[inputs_cache_of(t->layer, part)] = on;
        snprintf(what, sizeof what, "%s on %s", layer_tensor_name(inputs_cache_of(t->layer, part)),
                 layer_tensor_name(tensor));
        if (!refused(t, t->packed, &args, t->scratch.data, KERNEL_OVERLAP, what))
            return false;
    }
    return true;
}

static bool overlapping_calls(struct trial *t)
{
    for (int part = 0; part < inputs_cache_parts(t->layer) && t->in->batch * t->in->n > 0; part++)
        for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++)
            if (tensor != inputs_cache_of(t->layer, part) && !overlaps(t, part, tensor))
                return false;
    return true;
}

struct call {
    struct trial *trial;
    const void *packed, *args;
    void *scratch;
};

static bool call_refused(void *context, int expected, const char *what)
{
    const struct call *c = context;
    return refused(c->trial, c->packed, c->args, c->scratch, expected, what);
}

static bool wrong_pointers(struct trial *t, struct kernel_args args)
{
    struct misuse rows[MISUSE_ROWS];
    struct call call = {t, t->packed, &args, t->scratch.data};
    size_t count = misuse_of_args(t->layer, &args, rows);
    rows[count++] = (struct misuse){"packed", &call.packed, KERNEL_ALIGNMENT, MISUSE_NEEDED};
    rows[count++] = (struct misuse){"args", &call.args, 1, MISUSE_NEEDED};
    rows[count++] = (struct misuse){"scratch", &call.scratch, KERNEL_ALIGNMENT, MISUSE_NEEDED};
    return misuse_refused(rows, count - (t->call->scratch_bytes == 0), call_refused, &call);
}

/* A call with nothing to do: no error, no phases, no parts, and nothing is written */
static bool empty_call(struct trial *t, const struct kernel_args *args, const char *what)
{
    const struct kernel_table *call = t->call;
    int error = call->forward(t->packed, args, t->scratch.data);
    if (error != KERNEL_OK)
        return violated(t, "%s: forward returns %d (%s)", what, error, error_text(t, error));
    if (call->phases(t->packed, args) != 0 || call->parts(t->packed, args, 0) != 0)
        return violated(t, "%s: has phases or parts", what);
    error = call->run(t->packed, args, t->scratch.data, 0, 0, 0);
    if (error != KERNEL_PART)
        return violated(t, "%s: run returns %d (%s), not %d", what, error, error_text(t, error), KERNEL_PART);
    if (!cache_untouched(t, what))
        return false;
    return (guarded_untouched(&t->y) && guarded_untouched(&t->attn) && guarded_untouched(&t->lse)) ||
           violated(t, "%s: something was written", what);
}

/* Tensors without an element need no memory. */
static bool empty_calls(struct trial *t, int32_t *zeros)
{
    struct inputs none = *t->in;
    none.n = 0;
    none.m = !layer_is_square(t->layer) ? none.m : 0;
    struct kernel_args args = args_of(t, &none);
    if (args.tensor[TENSOR_LENGTHS] != NULL)
        args.tensor[TENSOR_LENGTHS] = zeros;
    if (!empty_call(t, &args, "n = 0"))
        return false;
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++)
        if (layer_tensor_row(tensor)->kind != TENSOR_CACHE && layer_tensor_has_axis(t->layer, tensor, "n"))
            args.tensor[tensor] = NULL;
    if (!empty_call(t, &args, "n = 0, and NULL for what has no elements"))
        return false;
    args = args_of(t, t->in);
    args.batch = 0;
    args.mask_batch[TENSOR_MASK_BOOL] = args.tensor[TENSOR_MASK_BOOL] != NULL;
    args.mask_batch[TENSOR_MASK_ADD] = args.tensor[TENSOR_MASK_ADD] != NULL;
    if (!empty_call(t, &args, "batch = 0"))
        return false;
    args = (struct kernel_args){.n = args.n, .m = args.m, .pages = args.pages};
    return empty_call(t, &args, "batch = 0, and NULL for what has no elements");
}

/* Whether y is what a block makes of x and b_O, within the bound */
static bool is_block_of_b_o(struct trial *t, const char *what)
{
    struct inputs in = *t->in;
    int32_t *zeros = calloc(in.batch + 1, sizeof *zeros);
    struct reference reference = {.y = NULL};
    struct bounds bounds = {.y_worst = NULL};
    struct comparison c = {0};
    in.m = 0;
    in.tensor[TENSOR_LENGTHS] = in.tensor[TENSOR_LENGTHS] != NULL ? zeros : NULL;
    const struct folds folds = kernel_folds(t->kernel);
    const bool good = zeros != NULL && bounds_compute(&reference, &bounds, t->layer, &in, folds, false, t->diag);
    if (good)
        compare_y(&c, t->layer, &in, &reference, &bounds, t->y.data, GATE_WORST);
    reference_free(&reference);
    bounds_free(&bounds);
    free(zeros);
    return good && (c.misses == 0 || violated(t, "%s: y[%zu][%zu][%zu] is %.9g, not the %.9g that x and b_o alone give",
                                              what, c.index[0], c.index[1], c.index[2], c.actual, c.expected));
}

static bool is_b_o(struct trial *t, const char *what)
{
    if (layer_has_block(t->layer))
        return is_block_of_b_o(t, what);
    const float *b_o = t->in->tensor[TENSOR_B_O];
    const enum tensor_element type = t->layer->tensor_type;
    const size_t d_out = (size_t)t->layer->d_out;
    for (size_t at = 0; at < y_count(t); at++)
        if (!(number_of(t, t->y.data, at) == (b_o != NULL ? element_rounded(type, (double)b_o[at % d_out]) : 0)))
            return violated(t, "%s: y[%zu][%zu][%zu] is %.9g, not b_o's", what, at / d_out / t->in->n,
                            at / d_out % t->in->n, at % d_out, number_of(t, t->y.data, at));
    return true;
}

/* Whether lse is that of rows that see nothing */
static bool is_of_sinks(struct trial *t, const char *what)
{
    const float *sink = t->in->tensor[TENSOR_SINK], *lse = t->lse.data;
    const size_t n = t->in->n, h = (size_t)t->layer->h;
    for (size_t at = 0; at < lse_count(t); at++) {
        const double expected = sink != NULL ? (double)sink[at / n % h] : -INFINITY;
        if (!(lse[at] == expected || fabs(lse[at] - expected) <= 4e-7 * (1 + fabs(expected))))
            return violated(t, "%s: lse[%zu][%zu][%zu] is %.9g, not %.9g", what, at / n / h, at / n % h, at % n,
                            lse[at], expected);
    }
    return true;
}

/* An empty source, or no keys and values: tensors without elements may be NULL, and every row is b_O, or what a block
 * makes of it. */
static bool without_keys(struct trial *t)
{
    static const char what[] = "m = 0, and NULL for what has no elements";
    if (layer_is_square(t->layer) || t->in->n == 0 || t->in->batch == 0)
        return true;
    if (!prepare(t, 8, WORKERS))
        return false;
    int32_t *zeros = calloc(t->in->batch, sizeof *zeros);
    if (zeros == NULL)
        return diag_environment(t->diag, NULL, "out of memory");
    struct kernel_args args = args_of(t, t->in);
    args.m = 0;
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++)
        if (layer_tensor_has_axis(t->layer, tensor, "m"))
            args.tensor[tensor] = NULL;
    args.tensor[TENSOR_LENGTHS] = args.tensor[TENSOR_LENGTHS] != NULL ? zeros : NULL;
    int error = t->call->forward(t->packed, &args, t->scratch.data);
    bool good = error == KERNEL_OK || violated(t, "%s: forward returns %d (%s)", what, error, error_text(t, error));
    good = good && zones_intact(t, what) && is_b_o(t, what) && is_of_sinks(t, what);
    if (good) {
        guarded_fill(&t->y);
        guarded_fill(&t->lse);
    }
    good = good && run_parts(t, &args) && zones_intact(t, what) && is_b_o(t, "m = 0, in parts") &&
           is_of_sinks(t, "m = 0, in parts");
    good = good && (guarded_untouched(&t->attn) || violated(t, "%s: attn was written", what));
    free(zeros);
    return good;
}

static bool is_of_rounding(const char *phase)
{
    return strncmp(phase, "round ", strlen("round ")) == 0;
}

/* Whether a function of the layer's pair may return this number */
static bool can_return(const struct layer *layer, int error)
{
    bool packed = false, pairs = false;
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        const bool has = layer_has_tensor(layer, tensor);
        packed = packed || (has && tensor_is_packed(layer_tensor_row(tensor)->kind));
        pairs = pairs || (has && layer_tensor_row(tensor)->kind == TENSOR_OF_PAIRS);
    }
    switch (error) {
    case KERNEL_LENGTH:
        return layer_has_tensor(layer, TENSOR_LENGTHS) || layer_has_tensor(layer, TENSOR_PAST) ||
               layer_has_tensor(layer, TENSOR_PREFIX) || layer->source_kept;
    case KERNEL_BROADCAST:
        return pairs;
    case KERNEL_NONFINITE:
        return packed;
    case KERNEL_OVERLAP:
        return layer_has_cache(layer);
    case KERNEL_KEPT:
        return layer->source_kept;
    case KERNEL_OK: case KERNEL_NULL: case KERNEL_SIZE: case KERNEL_ALIGN: case KERNEL_ISA: case KERNEL_PACKED:
    case KERNEL_PART:
        return true;
    default:
        return false; /* 2 was a tensor without use */
    }
}

/* Each error that the layer can return has a text of its own, and other numbers share one; the phases have the names
 * that bench knows. Where digits are of some sets alone, all phases that write them are there, or none is. */
static bool texts_are_right(struct trial *t)
{
    const enum layer_block block = t->layer->block;
    const bool caches = layer_has_cache(t->layer), ffn = layer_has_ffn(t->layer), attends = layer_attends(t->layer);
    const bool ahead = layer_rounds_ahead(t->layer, false), output = attends && t->layer->w_o != W_O_NONE;
    const struct { const char *name; bool has; } all[] = {
        {"padding", !attends && t->layer->pad_skipped},
        {"widen", layer_types_tensors(t->layer) && (!layer_norms_first(t->layer) || t->layer->cross)},
        {"norm x", layer_norms_first(t->layer)}, {"round x", !t->layer->projected},
        {"round source", t->layer->cross},
        {"transpose", attends}, {"project", attends}, {"append", caches},
        {"round keys", ahead}, {"round values", ahead && layer_rounds_values(t->layer, false)},
        {"attend", attends}, {"join", caches}, {"round z", output}, {"output", output},
        {"linear", layer_is_linear(t->layer)}, {"norm", attends && ffn && block != BLOCK_PARALLEL},
        {"round rows", attends && ffn}, {"hidden", ffn}, {"round hidden", ffn}, {"down", ffn},
        {"norm y", block == BLOCK_POST || block == BLOCK_SANDWICH}};
    const size_t names = sizeof all / sizeof *all;
    bool rounds = layer_rounds(t->layer);
    for (size_t phase = 0; phase < names && layer_reads_digits(t->layer); phase++)
        rounds = rounds || is_of_rounding(t->call->phase_name(phase));
    const char *phases[sizeof all / sizeof *all];
    size_t count = 0;
    for (size_t i = 0; i < names; i++)
        if (all[i].has && (rounds || !is_of_rounding(all[i].name)))
            phases[count++] = all[i].name;
    for (size_t phase = 0; phase < 2 * count; phase++)
        if (strcmp(t->call->phase_name(phase), phases[phase % count]) != 0)
            return violated(t, "phase %zu is named \"%s\", not \"%s\"", phase, t->call->phase_name(phase),
                            phases[phase % count]);
    const char *unknown = t->call->strerror(-1);
    for (int error = KERNEL_OK; error <= KERNEL_KEPT + 1; error++) {
        const char *text = t->call->strerror(error);
        if (text == NULL || *text == '\0')
            return violated(t, "strerror(%d) has no text", error);
        if ((strcmp(text, unknown) != 0) != can_return(t->layer, error))
            return violated(t, "strerror(%d) is \"%s\", which the layer %s return", error, text,
                            can_return(t->layer, error) ? "can" : "cannot");
        for (int other = KERNEL_OK; other < error && can_return(t->layer, error); other++)
            if (strcmp(text, t->call->strerror(other)) == 0)
                return violated(t, "strerror(%d) is that of %d: \"%s\"", error, other, text);
    }
    return true;
}

static bool wrong_calls(struct trial *t)
{
    if (t->in->batch == 0 || t->in->n == 0 || t->in->m == 0)
        return true;
    if (!prepare(t, 0, 1))
        return false;
    int32_t *lengths = malloc((3 + (size_t)t->layer->page_count) * lengths_bytes(t));
    size_t zero_bytes = (t->call->packed_bytes + 127) / 64 * 64;
    void *zeroed = aligned_alloc(64, zero_bytes); /* as large as anything it replaces, so it is never read past its
                                                   * end */
    bool good = lengths != NULL && zeroed != NULL;
    if (good)
        memset(zeroed, 0, zero_bytes);
    else
        diag_environment(t->diag, NULL, "out of memory");
    for (size_t w = 0; good && w < sizeof wrongs / sizeof *wrongs; w++)
        good = one_wrong(t, &wrongs[w], lengths, zeroed);
    good = good && wrong_parts(t, args_of(t, t->in)) && wrong_pointers(t, args_of(t, t->in)) &&
           overlapping_calls(t) && texts_are_right(t);
    if (good)
        memset(lengths, 0, t->in->batch * sizeof *lengths);
    good = good && wrong_parts(t, args_of_query(t, lengths)) && wrong_pointers(t, args_of_query(t, lengths)) &&
           empty_calls(t, lengths);
    free(lengths);
    free(zeroed);
    return good;
}

/* ---- packing --------------------------------------------------------------------------------------------------- */

static bool good_and_bad_packing(struct trial *t)
{
    return packing_holds(t->kernel, t->layer, t->in, t->packed, t->why, t->diag);
}

/* ---- columns of packed weights ---------------------------------------------------------------------------------- */

struct column_call {
    struct trial *trial;
    const void *packed;
    float *to;
    size_t column;
};

static bool column_refused(void *context, int expected, const char *what)
{
    const struct column_call *c = context;
    const int error = c->trial->call->column(c->packed, c->column, c->to);
    return error == expected || violated(c->trial, "column, %s: returns %d (%s), not %d", what, error,
                                         error_text(c->trial, error), expected);
}

static bool columns_come_back(struct trial *t)
{
    const size_t in = (size_t)t->layer->d_model;
    struct guarded row;
    if (!layer_is_linear(t->layer))
        return true;
    if (!columns_are_right(t))
        return false;
    if (!guarded_make(&row, in * sizeof(float), sizeof(float)))
        return diag_environment(t->diag, NULL, "out of memory");
    struct column_call call = {t, t->packed, row.data, 0};
    const struct misuse pointers[] = {{"packed", &call.packed, KERNEL_ALIGNMENT, MISUSE_NEEDED},
                                      {"out", &call.to, sizeof(float), MISUSE_NEEDED}};
    bool good = misuse_refused(pointers, 2, column_refused, &call);
    for (int i = 0; good && i < 2; i++) {
        call.column = i == 0 ? (size_t)t->layer->d_out : SIZE_MAX;
        good = column_refused(&call, KERNEL_SIZE, "a column after the last");
    }
    good = good && (guarded_untouched(&row) || violated(t, "column: refused, but it wrote its numbers"));
    guarded_free(&row);
    return good;
}

/* ---- two results of one call ------------------------------------------------------------------------------------ */

static bool merges(struct trial *t)
{
    return merging_holds(t->kernel, t->layer, t->in, t->packed, t->base_y, t->base_lse, t->why, t->diag);
}

static bool keeps_sources(struct trial *t)
{
    return keeping_holds(t->kernel, t->layer, t->in, t->packed, t->why, t->diag);
}

static bool moves_sequences(struct trial *t)
{
    return moving_holds(t->kernel, t->layer, t->in, t->seed, t->why, t->diag);
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

static uint64_t hash_of(uint64_t hash, const unsigned char *bytes, size_t count) /* FNV-1a */
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* Hash of everything that a call only reads */
static uint64_t hash_inputs(const struct trial *t)
{
    uint64_t hash = hash_of(0xcbf29ce484222325u, t->packed, t->call->packed_bytes);
    for (int tensor = 0; tensor < TENSOR_COUNT; tensor++)
        if (t->in->tensor[tensor] != NULL)
            hash = hash_of(hash, t->in->tensor[tensor],
                           inputs_count(t->layer, t->in, tensor) * layer_tensor_size(t->layer, tensor));
    return hash;
}

bool promises_hold(const struct kernel *kernel, const struct layer *layer, const struct inputs *inputs,
                   const void *packed, uint64_t seed, enum promises which, char why[300], struct diag *diag)
{
    static const struct {
        bool (*holds)(struct trial *);
        enum promises of;
    } promises[] = {
        {first_run, PROMISES_OF_VALUES}, {second_run, PROMISES_ALL}, {parts_in_reverse, PROMISES_OF_VALUES},
        {memory_is_own, PROMISES_ALL}, {reads_within, PROMISES_OF_VALUES},
        {each_sequence_alone, PROMISES_OF_VALUES}, {with_nan, PROMISES_OF_VALUES}, {with_one_nan, PROMISES_ALL},
        {with_nan_in_values, PROMISES_OF_VALUES},
        {with_infinity, PROMISES_OF_VALUES}, {with_masks, PROMISES_OF_VALUES},
        {with_huge_values, PROMISES_ALL}, {rows_at_the_ends, PROMISES_ALL}, {stores_all_kinds, PROMISES_ALL},
        {packs_columns_of_all_kinds, PROMISES_ALL},
        {nothing_remembered, PROMISES_ALL},
        {without_keys, PROMISES_ALL},
        {wrong_calls, PROMISES_ALL},
        {columns_come_back, PROMISES_OF_VALUES},
        {merges, PROMISES_OF_VALUES}, {keeps_sources, PROMISES_OF_VALUES},
        {moves_sequences, PROMISES_ALL}, {good_and_bad_packing, PROMISES_ALL},
        {last_run, PROMISES_ALL},
    };
    struct trial t = {.kernel = kernel, .call = kernel->call, .layer = layer, .in = inputs, .packed = packed,
                      .seed = seed, .why = why, .diag = diag};
    const bool all = which == PROMISES_ALL;
    const uint64_t hash = all ? hash_inputs(&t) : 0;
    t.base_y = malloc(y_count(&t) * sizeof(float) + 1);
    t.base_attn = malloc(attn_count(&t) * sizeof(float) + 1);
    t.base_lse = malloc(lse_count(&t) * sizeof(float) + 1);
    bool good = t.base_y != NULL && t.base_attn != NULL && t.base_lse != NULL;
    for (int part = 0; part < CACHE_PARTS; part++) {
        t.base_cache[part] = malloc(cache_bytes(&t, part) + 1);
        good = good && t.base_cache[part] != NULL;
    }
    why[0] = '\0';
    if (!good)
        diag_environment(diag, NULL, "out of memory");
    for (size_t p = 0; good && p < sizeof promises / sizeof *promises; p++)
        good = promises[p].of > which || promises[p].holds(&t);
    if (good && all && hash_inputs(&t) != hash)
        good = violated(&t, "an input or the packed block was written to");
    release(&t);
    free(t.base_y);
    free(t.base_attn);
    free(t.base_lse);
    for (int part = 0; part < CACHE_PARTS; part++)
        free(t.base_cache[part]);
    return good;
}
