/* SPDX-License-Identifier: MIT */
/* source_kept: a call without a source has the bits of one with it, and what does not fit is refused.
 *
 * Left out on purpose: what a call with a source computes (compare.h).
 */
#include "trials.h"

#include <stdlib.h>
#include <string.h>

#include "misuse.h"

#define WORKERS 3

struct keeping {
    struct trial t;            /* now: the current call's outputs; base: those of a call that keeps nothing */
    struct guarded kept, copy; /* copy: of what is kept */
    int32_t *other;            /* [batch]: the blocks in the opposite order */
};

static struct kernel_args args_of(const struct keeping *k, const struct inputs *in, const struct outputs *out,
                                  bool source, const int32_t *kept_of)
{
    struct kernel_args args = outputs_args(out, k->t.layer, in);
    args.kept = k->kept.data;
    args.kept_of = kept_of;
    args.kept_blocks = in->batch;
    if (!source)
        args.tensor[TENSOR_SOURCE] = NULL;
    return args;
}

static bool returns(struct keeping *k, const struct kernel_args *args, int expected, const char *what)
{
    guarded_fill(&k->t.scratch);
    return returned(&k->t, k->t.call->forward(k->t.packed, args, k->t.scratch.data), expected, "kept: %s: forward",
                    what);
}

static bool same_bits(struct keeping *k, const char *what)
{
    return trial_same_bits(&k->t, what) && trial_zones_intact(&k->t, what) &&
           (guarded_zones_intact(&k->kept) || violated(&k->t, "%s: wrote outside what is kept", what));
}

/* Results of a call of `in` that keeps nothing */
static bool expect_of(struct keeping *k, const struct inputs *in)
{
    struct kernel_args args = args_of(k, in, &k->t.base, true, NULL);
    args.kept = NULL;
    args.kept_blocks = 0;
    return returns(k, &args, KERNEL_OK, "a call that keeps nothing");
}

/* Fresh outputs, and a copy of what is kept */
static void prepare(struct keeping *k)
{
    outputs_fill(&k->t.now, k->t.layer, k->t.in);
    memcpy(k->copy.data, k->kept.data, k->kept.bytes);
}

static bool stays_kept(struct keeping *k, const char *what)
{
    return memcmp(k->copy.data, k->kept.data, k->kept.bytes) == 0 ||
           violated(&k->t, "kept: %s: wrote what is kept", what);
}

static bool call_has_them(struct keeping *k, const struct inputs *in, bool source, const int32_t *kept_of,
                          const char *what)
{
    prepare(k);
    const struct kernel_args args = args_of(k, in, &k->t.now, source, kept_of);
    return returns(k, &args, KERNEL_OK, what) && same_bits(k, what) && (source || stays_kept(k, what));
}

static bool parts_have_them(struct keeping *k, bool source, const char *what)
{
    const struct kernel_args args = args_of(k, k->t.in, &k->t.now, source, NULL);
    prepare(k);
    guarded_fill(&k->t.scratch);
    return returned(&k->t, outputs_run_parts(k->t.call, k->t.packed, &args, k->t.scratch.data, WORKERS), KERNEL_OK,
                    "kept: %s: run", what) && same_bits(k, what);
}

/* Each sequence by itself, from its block */
static bool alone(struct keeping *k)
{
    const struct kernel_args all = args_of(k, k->t.in, &k->t.now, false, NULL);
    outputs_fill(&k->t.now, k->t.layer, k->t.in);
    for (size_t b = 0; b < k->t.in->batch; b++) {
        const int32_t block = (int32_t)b;
        struct kernel_args one = kernel_args_of_sequence(k->t.layer, k->t.in, all, b);
        one.kept_of = &block;
        if (!returns(k, &one, KERNEL_OK, "a sequence alone without its source"))
            return false;
    }
    return same_bits(k, "sequences alone without their sources");
}

/* Reverses the rows and changes their signs. */
static void turn_round(const struct layer *layer, const struct inputs *in, enum layer_tensor tensor, size_t count,
                       size_t width)
{
    for (size_t i = 0; i < (count + 1) / 2; i++)
        for (size_t d = 0; d < width; d++) {
            const size_t at = i * width + d, from = (count - 1 - i) * width + d;
            const double one = inputs_number(layer, in, tensor, at), other = inputs_number(layer, in, tensor, from);
            inputs_put(layer, in, tensor, at, -other);
            inputs_put(layer, in, tensor, from, -one);
        }
}

/* Later calls bring other queries; a new source replaces the old one. */
static bool other_rows(struct keeping *k, enum layer_tensor tensor, size_t rows, size_t width, const char *what)
{
    OWNED(inputs_free) struct inputs in;
    inputs_copy(&in, k->t.layer, k->t.in);
    turn_round(k->t.layer, &in, tensor, rows, width);
    return expect_of(k, &in) &&
           (tensor == TENSOR_X || call_has_them(k, &in, true, NULL, "another source in the same blocks")) &&
           call_has_them(k, &in, false, NULL, what);
}

/* A call that ends before its keys are complete leaves no valid block. */
static bool half_done(struct keeping *k)
{
    const struct kernel_args args = args_of(k, k->t.in, &k->t.now, true, NULL);
    const struct kernel_args later = args_of(k, k->t.in, &k->t.now, false, NULL);
    for (size_t phase = 0; strcmp(k->t.call->phase_name(phase), "attend") != 0; phase++)
        for (size_t part = 0; part < k->t.call->parts(k->t.packed, &args, phase); part++)
            k->t.call->run(k->t.packed, &args, k->t.scratch.data, phase, part, 0);
    return returns(k, &later, KERNEL_KEPT, "no source, after a call that ended early");
}

/* One wrong call */
static bool one_refused(struct keeping *k, const struct kernel_args *args, int expected, const char *what)
{
    const struct kernel_table *const call = k->t.call;
    prepare(k);
    if (!returns(k, args, expected, what) || !stays_kept(k, what))
        return false;
    if (outputs_written(&k->t.now, k->t.layer, k->t.in) != NULL)
        return violated(&k->t, "kept: %s: refused, but wrote", what);
    return (call->phases(k->t.packed, args) == 0 && call->parts(k->t.packed, args, 0) == 0 &&
            call->run(k->t.packed, args, k->t.scratch.data, 0, 0, 0) == expected) ||
           violated(&k->t, "kept: %s: has phases or parts, or a part runs", what);
}

static bool wrong_lengths(struct keeping *k)
{
    struct kernel_args args = args_of(k, k->t.in, &k->t.now, false, NULL);
    int32_t *const lengths = k->t.in->tensor[TENSOR_LENGTHS]; /* put back below */
    if (lengths == NULL) {
        args.m = args.m > 1 ? args.m - 1 : args.m + 1;
        return args.m > (size_t)k->t.layer->source_len ||
               one_refused(k, &args, KERNEL_KEPT, "no source, and another m than was kept");
    }
    const int32_t length = lengths[args.batch - 1];
    lengths[args.batch - 1] += length > 0 ? -1 : 1;
    const bool good = one_refused(k, &args, KERNEL_KEPT, "no source, and another length than was kept");
    lengths[args.batch - 1] = length;
    return good;
}

/* A block begins with its kind, its owner and its number of keys: if a bit there changes, it is not valid. */
static bool other_headers(struct keeping *k)
{
    enum { HEADER = 3 * sizeof(uint64_t) };
    const struct kernel_args args = args_of(k, k->t.in, &k->t.now, false, NULL);
    unsigned char *const last = (unsigned char *)k->kept.data + (args.batch - 1) * k->t.call->kept_bytes;
    bool good = true;
    for (size_t bit = 0; good && bit < (size_t)8 * HEADER; bit += 5) {
        last[bit / 8] ^= (unsigned char)(1 << bit % 8);
        good = one_refused(k, &args, KERNEL_KEPT, "no source, and a block of another kind");
        last[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    return good;
}

struct kept_call {
    struct keeping *keeping;
    const struct kernel_args *args;
};

static bool kept_refused(void *context, int expected, const char *what)
{
    const struct kept_call *c = context;
    return one_refused(c->keeping, c->args, expected, what);
}

static bool refuses(struct keeping *k)
{
    const struct kernel_args good_args = args_of(k, k->t.in, &k->t.now, false, k->other);
    struct kernel_args args = good_args;
    const size_t last = args.batch - 1;
    const int32_t block = k->other[last];
    bool good = true;
    for (int high = 0; good && high < 2; high++) {
        k->other[last] = high ? (int32_t)args.batch : -1;
        good = one_refused(k, &args, KERNEL_LENGTH, "a block that there is not");
    }
    k->other[last] = block;
    args.kept_of = NULL;
    args.kept_blocks = last;
    good = good && one_refused(k, &args, KERNEL_SIZE, "fewer blocks than sequences");
    args.kept_blocks = SIZE_MAX;
    good = good && one_refused(k, &args, KERNEL_SIZE, "blocks beyond all memory");
    args = good_args;
    struct kept_call call = {k, &args};
    const struct misuse pointers[] = {{"kept", &args.kept, KERNEL_ALIGNMENT, MISUSE_NEEDED},
                                      {"kept_of", &args.kept_of, sizeof(int32_t), MISUSE_OPTIONAL}};
    good = good && misuse_refused(pointers, 2, kept_refused, &call);
    args.kept = NULL;
    args.tensor[TENSOR_SOURCE] = args_of(k, k->t.in, &k->t.now, true, NULL).tensor[TENSOR_SOURCE];
    args.kept_blocks = 0;
    good = good && one_refused(k, &args, KERNEL_NULL, "kept_of without kept, beside a source");
    args.kept_of = NULL;
    args.kept_blocks = 1;
    good = good && one_refused(k, &args, KERNEL_NULL, "kept_blocks without kept, beside a source");
    args.tensor[TENSOR_SOURCE] = NULL;
    args.kept_blocks = 0;
    return good && one_refused(k, &args, KERNEL_NULL, "neither source nor kept") && wrong_lengths(k) &&
           other_headers(k);
}

/* Memory in which no call has kept anything */
static bool nothing_there(struct keeping *k)
{
    const struct kernel_args args = args_of(k, k->t.in, &k->t.now, false, NULL);
    guarded_fill(&k->kept);
    if (!one_refused(k, &args, KERNEL_KEPT, "no source, and memory that was never written"))
        return false;
    memset(k->kept.data, 0, k->kept.bytes);
    return one_refused(k, &args, KERNEL_KEPT, "no source, and zeros");
}

static bool keeps(struct keeping *k)
{
    const size_t rows = k->t.in->batch * k->t.in->n, keys = k->t.in->batch * k->t.in->m;
    return nothing_there(k) && expect_of(k, k->t.in) && call_has_them(k, k->t.in, true, NULL, "a call that keeps") &&
           call_has_them(k, k->t.in, false, NULL, "a call without a source") && refuses(k) &&
           parts_have_them(k, true, "parts that keep") && parts_have_them(k, false, "parts without a source") &&
           alone(k) && call_has_them(k, k->t.in, true, k->other, "blocks the other way round") &&
           call_has_them(k, k->t.in, false, k->other, "blocks the other way round, without a source") &&
           call_has_them(k, k->t.in, true, NULL, "a call that keeps again") &&
           other_rows(k, TENSOR_X, rows, (size_t)k->t.layer->d_model, "other queries without a source") &&
           other_rows(k, TENSOR_SOURCE, keys, (size_t)k->t.layer->d_source, "no source, after another source") &&
           half_done(k);
}

bool keeping_holds(struct trial *t)
{
    const struct inputs *in = t->in;
    struct keeping k = {.t = *t};
    if (t->call->kept_bytes == 0 || in->batch == 0 || in->n == 0 || in->m == 0)
        return true;
    k.t.now = k.t.base = (struct outputs){.y = {0}};
    k.t.scratch = (struct guarded){0};
    trial_prepare(&k.t, 4, WORKERS);
    outputs_make(&k.t.base, t->layer, in, 4);
    k.other = memory_get(in->batch, sizeof *k.other);
    guarded_make(&k.kept, in->batch * t->call->kept_bytes, KERNEL_ALIGNMENT);
    guarded_make(&k.copy, in->batch * t->call->kept_bytes, 0);
    for (size_t b = 0; b < in->batch; b++)
        k.other[b] = (int32_t)(in->batch - 1 - b);
    const bool good = keeps(&k);
    trial_release(&k.t);
    outputs_free(&k.t.base);
    guarded_free(&k.kept);
    guarded_free(&k.copy);
    free(k.other);
    return good;
}
