/* SPDX-License-Identifier: MIT */
/* The table of promises; and those about bits, memory and wrong calls. */
#include "promises.h"

#include <link.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expression/expression.h"
#include "fenced.h"
#include "inputs/elements.h"
#include "misuse.h"
#include "spec/score.h"
#include "trials.h"

#define PAGE 4096
#define WATCHED ((size_t)4 << 20) /* maximum size of scratch or an output that is checked part by part */

/* ---- the same call again, whole and in parts ------------------------------------------------------------------- */

/* A row of attn is within [0, 1] and sums to 1, with a sink to at most 1; it is zero where the query sees nothing. */
static bool sums_to_one(struct trial *t)
{
    const size_t m = inputs_columns(t->layer, t->in), n = t->in->n, h = (size_t)t->layer->h;
    /* the sum's own rounding, and each weight's */
    const struct element *const of = &element_rows[t->layer->tensor_type];
    const double rounding = t->layer->tensor_type == TENSOR_F32 ? 0
                            : ldexp(1, -of->bits) + (double)m * ldexp(1, of->lowest - 1);
    const double tolerance = (double)(m + m / 8 + 16) * 0x1p-24 + 1.001 * rounding;
    const bool weights = trial_count(t, TENSOR_ATTN) > 0 && t->layer->scores == SCORES_WEIGHTS;
    const size_t rows = weights ? t->in->batch * h * n : 0;
    for (size_t row = 0; row < rows; row++) {
        double sum = 0;
        bool sees = false, good = true;
        for (size_t j = 0; j < m; j++) {
            const double weight = trial_number(t, t->now.attn.data, row * m + j);
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
    trial_prepare(t, 0, 1);
    if (!trial_forward(t, t->in, "first run") || !sums_to_one(t))
        return false;
    outputs_copy(&t->base, &t->now);
    return true;
}

/* Copies a block or a tensor to where it is no more aligned than it must be. */
static void *move(struct guarded *to, const void *from, size_t bytes, size_t alignment)
{
    guarded_make(to, bytes, alignment);
    return memcpy(to->data, from, bytes);
}

/* Whether a call brings the tensor and only reads it */
static bool is_brought(enum layer_tensor tensor)
{
    const enum tensor_kind kind = layer_tensor_row(tensor)->kind;
    return kind == TENSOR_OF_CALL || kind == TENSOR_OF_PAIRS;
}

/* A call whose inputs are elsewhere, and no more aligned than they must be. In self-attention m may be 0 instead of
 * n. */
static bool second_run(struct trial *t)
{
    static const char what[] = "second run, other alignment, and m = 0 for n in self-attention";
    const void *packed = t->packed;
    struct guarded moved[TENSOR_COUNT + 1] = {{0}};
    struct inputs in = *t->in;
    in.m = !t->layer->self ? in.m : 0;
    for (int tensor = 0; tensor < TENSOR_COUNT; tensor++)
        if (in.tensor[tensor] != NULL && is_brought(tensor))
            in.tensor[tensor] = move(&moved[tensor], in.tensor[tensor], trial_bytes(t, tensor),
                                     layer_tensor_size(t->layer, tensor));
    t->packed = move(&moved[TENSOR_COUNT], packed, t->call->packed_bytes, KERNEL_ALIGNMENT);
    trial_prepare(t, 20, 1);
    const bool good = trial_forward(t, &in, what) && trial_same_bits(t, what);
    t->packed = packed;
    for (int tensor = 0; tensor <= TENSOR_COUNT; tensor++)
        guarded_free(&moved[tensor]);
    return good;
}

static bool last_run(struct trial *t)
{
    static const char what[] = "the first run once more";
    trial_prepare(t, 0, 1);
    return trial_forward(t, t->in, what) && trial_same_bits(t, what);
}

static bool parts_in_reverse(struct trial *t)
{
    static const char what[] = "parts in reverse order";
    trial_prepare(t, 4, TRIAL_WORKERS);
    const struct kernel_args args = trial_args(t, t->in);
    return trial_run_parts(t, &args) && trial_zones_intact(t, what) && trial_same_bits(t, what);
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

#define SHARED (1 + OUTPUTS) /* scratch, and what a call writes */

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
        if (s->bytes == 0)
            continue;
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
            if (!returned(t, t->call->run(t->packed, args, t->scratch.data, phase, part, TRIAL_WORKERS - 1), KERNEL_OK,
                          "phase %zu part %zu: run", phase, part))
                return false;
            for (size_t s = 0; s < SHARED; s++)
                if (part_overlaps(t, &shared[s], phase, part))
                    return false;
        }
        end_phase(shared);
    }
    return true;
}

/* Memory that is too large to be checked part by part is not checked. */
static struct shared make_shared(struct pool *pool, const char *name, void *now, size_t bytes)
{
    struct shared s = {.name = name, .now = now, .bytes = bytes <= WATCHED ? bytes : 0};
    s.before = pool_get(pool, s.bytes, 1);
    s.after = pool_get(pool, s.bytes, 1);
    s.by = pool_get(pool, s.bytes, sizeof *s.by);
    return s;
}

/* Parts that run at the same time do not interfere: a part writes to shared memory only where no other part of the
 * phase does, and otherwise to its worker's own part of scratch, which follows that of the previous worker. */
static bool memory_is_own(struct trial *t)
{
    static const char what[] = "parts by the last of several workers";
    trial_prepare(t, 0, TRIAL_WORKERS);
    const struct kernel_args args = trial_args(t, t->in);
    const size_t own = t->call->scratch_bytes_for(2) - t->call->scratch_bytes_for(1);
    const size_t bytes = t->call->scratch_bytes_for(1) - own;
    OWNED(pool_free) struct pool pool = {0};
    struct shared shared[SHARED] = {make_shared(&pool, "scratch", t->scratch.data, bytes)};
    for (int i = 0; i < inputs_outputs(t->layer); i++)
        shared[1 + i] = make_shared(&pool, layer_tensor_name(inputs_output(t->layer, i)), t->now.of[i].data,
                                    t->now.of[i].bytes);
    OWNED(guarded_free) struct guarded fresh;
    guarded_make(&fresh, (TRIAL_WORKERS - 1) * own, 0);
    bool good = run_watched(t, shared, &args) && trial_zones_intact(t, what) && trial_same_bits(t, what);
    if (good && own > 0 && memcmp((char *)t->scratch.data + bytes, fresh.data, fresh.bytes) != 0)
        good = violated(t, "%s: it wrote to the scratch of another worker", what);
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

static void see_no_keys(const struct trial *t, struct kernel_args *args)
{
    if (args->tensor[TENSOR_LENGTHS] != NULL)
        args->tensor[TENSOR_LENGTHS] = t->zeros;
}

/* A call of the first query only, so with other groups and parts; without a key if the layer has lengths */
static struct kernel_args args_of_query(const struct trial *t)
{
    struct kernel_args args = trial_args(t, t->in);
    args.n = args.n > 0;
    args.m = !layer_is_square(t->layer) ? args.m : args.n;
    see_no_keys(t, &args);
    return args;
}

static bool run_single(struct trial *t)
{
    const struct kernel_args args = args_of_query(t);
    return trial_run_parts(t, &args) &&
           returned(t, t->call->forward(t->packed, &args, t->scratch.data), KERNEL_OK, "n = 1: forward");
}

/* No state: a call leaves the library's own memory unchanged. Not under AddressSanitizer, which forbids reading the
 * gaps between variables. */
static bool nothing_remembered(struct trial *t)
{
    if (dlsym(RTLD_DEFAULT, "__asan_init") != NULL)
        return true;
    struct image image = {.inside = (const void *)(uintptr_t)t->call->forward};
    dl_iterate_phdr(see_image, &image);
    image.copy = memory_get(image.bytes, 1);
    dl_iterate_phdr(see_image, &image);
    image.compare = true;
    trial_prepare(t, 0, TRIAL_WORKERS);
    bool good = trial_forward(t, t->in, "another run");
    const struct kernel_args args = trial_args(t, t->in);
    good = good && trial_run_parts(t, &args) && run_single(t);
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
    const size_t rows = in->m - inputs_keys(in, b), heads = layer->heads_first ? 1 : inputs_heads(layer, tensor);
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
    if (layer_keeps_states(layer))
        return inputs_cache_bytes(layer, in, part);
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
    return kernel_args_of_sequence(t->layer, t->in, trial_args(t, t->in), b);
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
    for (int tensor = 0; tensor < TENSOR_COUNT; tensor++)
        if (in.tensor[tensor] != NULL && is_brought(tensor))
            in.tensor[tensor] = fenced_copy(from->tensor[tensor], readable(t->layer, from, tensor), fence);
    for (int i = 0; i < inputs_outputs(t->layer); i++) {
        const enum layer_tensor tensor = inputs_output(t->layer, i);
        const size_t bytes = i < OUTPUT_CACHE ? trial_bytes(t, tensor) : touchable(t->layer, from, i - OUTPUT_CACHE);
        t->now.of[i].data = fenced_copy(NULL, bytes, fence);
        if (i >= OUTPUT_CACHE && t->now.of[i].data != NULL)
            memcpy(t->now.of[i].data, from->tensor[tensor], bytes);
    }
    forward_between(t, trial_args(t, &in), fence);
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

bool promises_read_within(const struct trial *trial, const struct inputs *const *calls, size_t count)
{
    struct trial t = *trial;
    return fenced_calls_live(&t, calls, count, FENCE_BEHIND);
}

/* ---- the batch around a sequence -------------------------------------------------------------------------------- */

static bool each_sequence_alone(struct trial *t)
{
    static const char what[] = "each sequence in a call of its own";
    trial_prepare(t, 8, 1);
    for (size_t b = 0; t->in->n > 0 && b < t->in->batch; b++) {
        const struct kernel_args args = args_of_sequence(t, b);
        if (!returned(t, t->call->forward(t->packed, &args, t->scratch.data), KERNEL_OK, "%s: forward", what))
            return false;
    }
    return trial_zones_intact(t, what) && trial_same_bits(t, what);
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

static bool has(const struct attempt *a, enum layer_tensor tensor) { return layer_has_tensor(a->trial->layer, tensor); }

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
    const char *what; /* follows the tensor's name, where it is spoiled */
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

/* Each of the four functions that take a call must refuse it. Phases and parts do not get the scratch. */
static bool refused(struct trial *t, const void *packed, const struct kernel_args *args, void *scratch, int expected,
                    const char *what)
{
    const struct kernel_table *call = t->call;
    if (!returned(t, call->forward(packed, args, scratch), expected, "%s: forward", what) ||
        !returned(t, call->run(packed, args, scratch, 0, 0, 0), expected, "%s: run", what))
        return false;
    if (scratch == t->scratch.data && (call->phases(packed, args) != 0 || call->parts(packed, args, 0) != 0))
        return violated(t, "%s: the call is refused, but has phases or parts", what);
    return trial_untouched(t, what);
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
    struct attempt a = {.trial = t, .args = trial_args(t, t->in), .packed = t->packed, .scratch = t->scratch.data,
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
    return returned(t, t->call->run(t->packed, args, t->scratch.data, phase, part, 0), KERNEL_PART,
                    "phase %zu part %zu is past the last, but run", phase, part);
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
               ? trial_untouched(t, "a part past the last")
               : violated(t, "a phase past the last has parts");
}

/* Address of a tensor of a call; NULL: the layer has none, or it is no argument of a call */
static const void *tensor_of_call(const struct trial *t, enum layer_tensor tensor)
{
    for (int i = 0; i < inputs_outputs(t->layer); i++)
        if (tensor == inputs_output(t->layer, i))
            return trial_count(t, tensor) > 0 ? t->now.of[i].data : NULL;
    return tensor_is_packed(layer_tensor_row(tensor)->kind) ? NULL : t->in->tensor[tensor];
}

/* A cache that begins where another tensor of the call begins, or at its last element, or that ends there. It is
 * aligned to its own elements. */
static bool overlaps(struct trial *t, int part, enum layer_tensor tensor)
{
    const uintptr_t at = (uintptr_t)tensor_of_call(t, tensor);
    const size_t bytes = inputs_count(t->layer, t->in, tensor) * layer_tensor_size(t->layer, tensor);
    const size_t own = trial_cache_bytes(t, part), size = layer_tensor_size(t->layer, inputs_cache_of(t->layer, part));
    if (at == 0 || bytes == 0 || own == 0)
        return true;
    const uintptr_t begins[] = {at, at + bytes - 1, at + size - own};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        void *const on = (void *)(begins[i] - begins[i] % size);
        struct kernel_args args = trial_args(t, t->in);
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
    if (!returned(t, call->forward(t->packed, args, t->scratch.data), KERNEL_OK, "%s: forward", what))
        return false;
    if (call->phases(t->packed, args) != 0 || call->parts(t->packed, args, 0) != 0)
        return violated(t, "%s: has phases or parts", what);
    if (!returned(t, call->run(t->packed, args, t->scratch.data, 0, 0, 0), KERNEL_PART, "%s: run", what))
        return false;
    const char *written = outputs_written(&t->now, t->layer, t->in);
    return written == NULL || violated(t, "%s: %s was written", what, written);
}

/* Tensors without an element need no memory. */
static bool empty_calls(struct trial *t)
{
    struct inputs none = *t->in;
    none.n = 0;
    none.m = !layer_is_square(t->layer) ? none.m : 0;
    struct kernel_args args = trial_args(t, &none);
    see_no_keys(t, &args);
    if (!empty_call(t, &args, "n = 0"))
        return false;
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++)
        if (layer_tensor_row(tensor)->kind != TENSOR_CACHE && layer_tensor_has_axis(t->layer, tensor, "n"))
            args.tensor[tensor] = NULL;
    if (!empty_call(t, &args, "n = 0, and NULL for what has no elements"))
        return false;
    args = trial_args(t, t->in);
    args.batch = 0;
    args.mask_batch[TENSOR_MASK_BOOL] = args.tensor[TENSOR_MASK_BOOL] != NULL;
    args.mask_batch[TENSOR_MASK_ADD] = args.tensor[TENSOR_MASK_ADD] != NULL;
    if (!empty_call(t, &args, "batch = 0"))
        return false;
    args = (struct kernel_args){.n = args.n, .m = args.m, .pages = args.pages};
    return empty_call(t, &args, "batch = 0, and NULL for what has no elements");
}

static bool is_b_o(struct trial *t, const char *what)
{
    struct inputs in = *t->in;
    in.m = 0;
    in.tensor[TENSOR_LENGTHS] = in.tensor[TENSOR_LENGTHS] != NULL ? t->zeros : NULL;
    if (layer_has_block(t->layer)) /* which makes it of x too */
        return trial_compare(t, &in, OUTPUT_Y, OUTPUT_ATTN, what);
    const float *b_o = t->in->tensor[TENSOR_B_O];
    const enum tensor_element type = t->layer->tensor_type;
    const size_t d_out = (size_t)t->layer->d_out;
    for (size_t at = 0; at < trial_count(t, TENSOR_Y); at++)
        if (!(trial_number(t, t->now.y.data, at) == (b_o != NULL ? element_rounded(type, (double)b_o[at % d_out]) : 0)))
            return violated(t, "%s: y[%zu][%zu][%zu] is %.9g, not b_o's", what, at / d_out / t->in->n,
                            at / d_out % t->in->n, at % d_out, trial_number(t, t->now.y.data, at));
    return true;
}

/* Whether lse is that of rows that see nothing */
static bool is_of_sinks(struct trial *t, const char *what)
{
    const float *sink = t->in->tensor[TENSOR_SINK], *lse = t->now.lse.data;
    const size_t n = t->in->n, h = (size_t)t->layer->h;
    for (size_t at = 0; at < trial_count(t, TENSOR_LSE); at++) {
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
    trial_prepare(t, 8, TRIAL_WORKERS);
    struct kernel_args args = trial_args(t, t->in);
    args.m = 0;
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++)
        if (layer_tensor_has_axis(t->layer, tensor, "m"))
            args.tensor[tensor] = NULL;
    see_no_keys(t, &args);
    bool good = returned(t, t->call->forward(t->packed, &args, t->scratch.data), KERNEL_OK, "%s: forward", what) &&
                trial_zones_intact(t, what) && is_b_o(t, what) && is_of_sinks(t, what);
    if (good) {
        guarded_fill(&t->now.y);
        guarded_fill(&t->now.lse);
    }
    good = good && trial_run_parts(t, &args) && trial_zones_intact(t, what) && is_b_o(t, "m = 0, in parts") &&
           is_of_sinks(t, "m = 0, in parts");
    return good && (guarded_untouched(&t->now.attn) || violated(t, "%s: attn was written", what));
}

/* The phases have the names of the steps' rows, in their order, and begin anew with each group of sequences. */
static bool phases_are_named(struct trial *t)
{
    static const char *const rows[] = {
#define STEP(ID, label, KIND, PHASE, phase, name, ...) phase,
#include "plan/step_rows.h"
#undef STEP
    };
    const size_t count = sizeof rows / sizeof *rows;
    size_t row = 0, period = 0;
    for (size_t phase = 0; phase < 2 * count; phase++) {
        const char *const name = t->call->phase_name(phase);
        const char *const before = phase > 0 ? t->call->phase_name(phase - 1) : "";
        period = period == 0 && phase > 0 && strcmp(name, t->call->phase_name(0)) == 0 ? phase : period;
        while (period == 0 && row < count && (rows[row] == NULL || strcmp(name, rows[row]) != 0))
            row++;
        if (period > 0 ? strcmp(name, t->call->phase_name(phase % period)) != 0
                       : row == count || strcmp(name, before) == 0)
            return violated(t, "phase %zu is named \"%s\", after \"%s\"", phase, name, before);
    }
    return true;
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
               layer_has_tensor(layer, TENSOR_PREFIX) || layer->source_kept || inputs_compared(layer) > 0;
    case KERNEL_BROADCAST:
        return pairs;
    case KERNEL_NONFINITE:
        return packed;
    case KERNEL_OVERLAP:
        return inputs_cache_parts(layer) > 0;
    case KERNEL_KEPT:
        return layer->source_kept;
    case KERNEL_OK: case KERNEL_NULL: case KERNEL_SIZE: case KERNEL_ALIGN: case KERNEL_ISA: case KERNEL_PACKED:
    case KERNEL_PART:
        return true;
    default:
        return false; /* 2 was a tensor without use */
    }
}

/* Each error that the layer can return has a text of its own, and other numbers share one. */
static bool texts_are_right(struct trial *t)
{
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
    trial_prepare(t, 0, 1);
    HEAP int32_t *lengths = memory_get((3 + (size_t)t->layer->page_count) * lengths_bytes(t), 1);
    const size_t zero_bytes = (t->call->packed_bytes + 127) / 64 * 64;
    HEAP void *zeroed = memory_there(aligned_alloc(64, zero_bytes)); /* as large as anything that it replaces, so that
                                                                      * it is never read past its end */
    bool good = true;
    memset(zeroed, 0, zero_bytes);
    for (size_t w = 0; good && w < sizeof wrongs / sizeof *wrongs; w++)
        good = one_wrong(t, &wrongs[w], lengths, zeroed);
    good = good && wrong_parts(t, trial_args(t, t->in)) && wrong_pointers(t, trial_args(t, t->in)) &&
           overlapping_calls(t) && phases_are_named(t) && texts_are_right(t);
    return good && wrong_parts(t, args_of_query(t)) && wrong_pointers(t, args_of_query(t)) && empty_calls(t);
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
    return returned(c->trial, c->trial->call->column(c->packed, c->column, c->to), expected, "column, %s:", what);
}

static bool columns_come_back(struct trial *t)
{
    const size_t in = (size_t)t->layer->d_model;
    if (!layer_is_linear(t->layer))
        return true;
    if (!columns_are_right(t))
        return false;
    OWNED(guarded_free) struct guarded row;
    guarded_make(&row, in * sizeof(float), sizeof(float));
    struct column_call call = {t, t->packed, row.data, 0};
    const struct misuse pointers[] = {{"packed", &call.packed, KERNEL_ALIGNMENT, MISUSE_NEEDED},
                                      {"out", &call.to, sizeof(float), MISUSE_NEEDED}};
    bool good = misuse_refused(pointers, 2, column_refused, &call);
    for (int i = 0; good && i < 2; i++) {
        call.column = i == 0 ? (size_t)t->layer->d_out : SIZE_MAX;
        good = column_refused(&call, KERNEL_SIZE, "a column after the last");
    }
    return good && (guarded_untouched(&row) || violated(t, "column: refused, but it wrote its numbers"));
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

bool promises_hold(const struct trial *trial, const struct inputs *inputs, enum promises which)
{
    static const struct {
        bool (*holds)(struct trial *);
        enum promises of;
    } promises[] = {
        {first_run, PROMISES_OF_VALUES}, {second_run, PROMISES_ALL}, {parts_in_reverse, PROMISES_OF_VALUES},
        {memory_is_own, PROMISES_ALL}, {reads_within, PROMISES_OF_VALUES},
        {each_sequence_alone, PROMISES_OF_VALUES}, {with_nan, PROMISES_OF_VALUES}, {with_one_nan, PROMISES_ALL},
        {with_nan_in_values, PROMISES_OF_VALUES},
        {states_hold, PROMISES_OF_VALUES}, {with_infinity, PROMISES_OF_VALUES}, {with_masks, PROMISES_OF_VALUES},
        {with_huge_values, PROMISES_ALL}, {rows_at_the_ends, PROMISES_ALL}, {stores_all_kinds, PROMISES_ALL},
        {packs_columns_of_all_kinds, PROMISES_ALL},
        {nothing_remembered, PROMISES_ALL},
        {without_keys, PROMISES_ALL},
        {wrong_calls, PROMISES_ALL},
        {columns_come_back, PROMISES_OF_VALUES},
        {merging_holds, PROMISES_OF_VALUES}, {keeping_holds, PROMISES_OF_VALUES},
        {moving_holds, PROMISES_ALL}, {packing_holds, PROMISES_ALL},
        {last_run, PROMISES_ALL},
    };
    struct trial t = {.kernel = trial->kernel, .call = trial->call, .layer = trial->layer, .in = inputs,
                      .packed = trial->packed, .zeros = memory_get(inputs->batch, sizeof(int32_t)),
                      .seed = trial->seed, .why = trial->why, .diag = trial->diag};
    const bool all = which == PROMISES_ALL;
    const uint64_t hash = all ? hash_inputs(&t) : 0;
    bool good = true;
    outputs_make(&t.base, t.layer, inputs, 0);
    for (size_t p = 0; good && p < sizeof promises / sizeof *promises; p++)
        good = promises[p].of > which || promises[p].holds(&t);
    if (good && all && hash_inputs(&t) != hash)
        good = violated(&t, "an input or the packed block was written to");
    trial_release(&t);
    outputs_free(&t.base);
    free(t.zeros);
    return good;
}
