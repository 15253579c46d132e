/* SPDX-License-Identifier: MIT */
#include "rounding.h"

#include <math.h>
#include <string.h>

/* A layer, and a call of it. */
struct side {
    const struct kernel *kernel;
    const struct layer *layer;
    struct inputs in;
    struct guarded packed, scratch;
    struct outputs out;
};

struct pair {
    struct side typed, plain;
    int isa;
    char *why;
};

static void free_side(struct side *side)
{
    guarded_free(&side->packed);
    guarded_free(&side->scratch);
    outputs_free(&side->out);
    inputs_free(&side->in);
}

static void make_side(struct side *side, const struct kernel *kernel, const struct layer *layer)
{
    *side = (struct side){.kernel = kernel, .layer = layer, .in = side->in};
    guarded_make(&side->packed, kernel->call->packed_bytes, 0);
    guarded_make(&side->scratch, kernel->call->scratch_bytes, 0);
    outputs_make(&side->out, layer, &side->in, 0);
}

/* Inputs of the calls: random ones; with NaN and infinity among them; for layer = linear also small integers, whose
 * sums are halfway between two numbers of the type, and the same times powers of two, so that operands and sums are
 * subnormal in f16. */
enum numbers { DRAWN, NOT_FINITE, WHOLE, SMALL, NUMBERS };

static void make_whole(const struct side *side, enum numbers numbers)
{
    const double small = numbers == SMALL ? 0x1p-24 : 1;
    const struct { enum layer_tensor tensor; double unit; } all[] = {
        {TENSOR_X, small}, {TENSOR_W, numbers == SMALL ? 0x1p-6 : 1}, {TENSOR_B, small}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t at = 0, count = inputs_count(side->layer, &side->in, all[i].tensor);
             side->in.tensor[all[i].tensor] != NULL && at < count; at++)
            inputs_put(side->layer, &side->in, all[i].tensor, at,
                       all[i].unit * (1 + (double)((at * 2654435761u >> 7) % 31)));
}

static void make_numbers(const struct side *side, enum numbers numbers)
{
    const enum layer_tensor x = side->layer->projected ? TENSOR_Q : TENSOR_X;
    const size_t count = inputs_count(side->layer, &side->in, x);
    if (numbers >= WHOLE)
        make_whole(side, numbers);
    if (numbers == NOT_FINITE && count > 0) {
        inputs_put(side->layer, &side->in, x, count / 3, NAN);
        inputs_put(side->layer, &side->in, x, count - 1, -INFINITY);
    }
}

/* Both layers have the same tensors; some differ in type, but not in their numbers. */
static void widen(struct side *plain, const struct side *typed, const struct layer *layer)
{
    plain->in = typed->in;
    plain->in.borrows_weights = false;
    inputs_allocate(&plain->in, layer);
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        const bool same = layer_tensor_element(layer, t) == layer_tensor_element(typed->layer, t);
        const size_t count = inputs_count(layer, &plain->in, t);
        if (plain->in.tensor[t] != NULL && same)
            memcpy(plain->in.tensor[t], typed->in.tensor[t], inputs_bytes(layer, &plain->in, t));
        for (size_t at = 0; plain->in.tensor[t] != NULL && !same && at < count; at++)
            inputs_put(layer, &plain->in, t, at, inputs_number(typed->layer, &typed->in, t, at));
    }
}

static const char *plain_of(const struct pair *p)
{
    return layer_types_tensors(p->typed.layer) ? "in f32" : "with classical products";
}

static bool run(struct pair *p, struct side *side)
{
    const struct kernel_table *call = side->kernel->call;
    const struct kernel_weights weights = kernel_weights_of(&side->in);
    const struct kernel_args args = outputs_args(&side->out, side->layer, &side->in);
    int error = call->pack(side->packed.data, &weights, p->isa);
    error = error != KERNEL_OK ? error : call->forward(side->packed.data, &args, side->scratch.data);
    return promise_returned(p->why, call, error, KERNEL_OK, "beside the layer %s: a call", plain_of(p));
}

/* Compares the bits of each number, except NaN. */
static bool is_rounded(struct pair *p, enum layer_tensor tensor, const void *typed, const void *plain)
{
    const enum tensor_element type = p->typed.layer->tensor_type;
    const size_t count = inputs_count(p->typed.layer, &p->typed.in, tensor);
    const bool all = p->typed.layer->scores != SCORES_RAW && p->typed.layer->scores != SCORES_CAPPED;
    for (size_t at = 0; (tensor == TENSOR_Y || all) && at < count; at++) {
        const double number = element_number(TENSOR_F32, plain, at), is = element_number(type, typed, at);
        unsigned char expected[4];
        element_put(type, expected, 0, number);
        if (memcmp((const char *)typed + at * element_size(type), expected, element_size(type)) != 0 &&
            !(isnan(is) && isnan(number)))
            return violated(p, "number %zu of %s is %.9g, but %s %.9g, which is rounded to %.9g", at,
                            layer_tensor_name(tensor), is, plain_of(p), number, element_number(type, expected, 0));
    }
    return true;
}

static bool same_lse(struct pair *p)
{
    const struct guarded *const typed = &p->typed.out.lse, *const plain = &p->plain.out.lse;
    return memcmp(typed->data, plain->data, plain->bytes) == 0 ||
           violated(p, "lse has other bits than %s", plain_of(p));
}

static bool holds(struct pair *p, const struct trial *t, const struct kernel *plain, const struct layer *plain_layer,
                  const struct inputs *in, enum numbers numbers)
{
    inputs_copy(&p->typed.in, t->layer, in);
    p->typed.layer = t->layer;
    make_numbers(&p->typed, numbers);
    widen(&p->plain, &p->typed, plain_layer);
    make_side(&p->typed, t->kernel, t->layer);
    make_side(&p->plain, plain, plain_layer);
    const bool good = run(p, &p->typed) && run(p, &p->plain) &&
                      is_rounded(p, TENSOR_Y, p->typed.out.y.data, p->plain.out.y.data) &&
                      is_rounded(p, TENSOR_ATTN, p->typed.out.attn.data, p->plain.out.attn.data) && same_lse(p);
    free_side(&p->typed);
    free_side(&p->plain);
    return good;
}

bool rounding_holds(const struct trial *t, const struct kernel *plain, const struct layer *plain_layer,
                    const struct inputs *in, int isa)
{
    bool good = true;
    for (enum numbers numbers = 0; good && numbers < (layer_is_linear(t->layer) ? NUMBERS : WHOLE); numbers++) {
        struct pair p = {.isa = isa, .why = t->why};
        good = holds(&p, t, plain, plain_layer, in, numbers);
    }
    return good;
}
