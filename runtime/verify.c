/* SPDX-License-Identifier: MIT */
/* See verify.h. */
#include "verify.h"

#include "guarded.h"
#include "promises.h"

#define SMALL_RUN_FROM 1e9 /* multiply-adds; the promises of larger layers are checked on fewer positions */
#define SMALL_RUN 96

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

bool subject_make(struct subject *s, const struct layer *layer, const struct kernel *kernel,
                  const struct inputs_draw *draw, struct diag *diag)
{
    struct inputs_draw small = *draw;
    *s = (struct subject){.layer = layer, .kernel = kernel, .seed = draw->seed};
    if (layer_multiply_adds(layer, layer->seq_len, layer->source_len).total > SMALL_RUN_FROM) {
        small.n = smaller(small.n, SMALL_RUN);
        small.m = smaller(small.m, SMALL_RUN + 20);
    }
    return inputs_draw(&s->inputs, layer, draw, diag) && inputs_draw(&s->small, layer, &small, diag) &&
           bounds_compute(&s->reference, &s->bounds, layer, &s->inputs, kernel_folds(kernel), true, diag);
}

void subject_free(struct subject *s)
{
    inputs_free(&s->inputs);
    inputs_free(&s->small);
    reference_free(&s->reference);
    bounds_free(&s->bounds);
}

void comparison_print_miss(const struct comparison *c, FILE *out)
{
    fputs(layer_tensor_name(c->tensor), out);
    for (int i = 0; i < (c->tensor == TENSOR_Y ? 3 : 4); i++)
        fprintf(out, "[%zu]", c->index[i]);
    fprintf(out, " is %.9g; the reference has %.9g; %zu of %zu elements miss", c->actual, c->expected, c->misses,
            c->elements);
}

/* Memory of one run, with guard zones around each block. */
struct blocks {
    struct guarded packed, scratch, y, attn;
};

static bool make_blocks(struct blocks *b, const struct subject *s)
{
    const struct kernel_table *call = s->kernel->call;
    *b = (struct blocks){0};
    return guarded_make(&b->packed, call->packed_bytes, 0) && guarded_make(&b->scratch, call->scratch_bytes, 0) &&
           guarded_make(&b->y, inputs_count(s->layer, &s->inputs, TENSOR_Y) * sizeof(float), 4) &&
           guarded_make(&b->attn, inputs_count(s->layer, &s->inputs, TENSOR_ATTN) * sizeof(float), 4);
}

static void free_blocks(struct blocks *b)
{
    guarded_free(&b->packed);
    guarded_free(&b->scratch);
    guarded_free(&b->y);
    guarded_free(&b->attn);
}

/* Runs once what is packed. */
static bool run_once(const struct subject *s, struct blocks *b, struct findings *f)
{
    const struct kernel_table *call = s->kernel->call;
    const struct kernel_args args = kernel_args_of(s->layer, &s->inputs, b->y.data, b->attn.data);
    int error = call->forward(b->packed.data, &args, b->scratch.data);
    if (error != KERNEL_OK)
        snprintf(f->why, sizeof f->why, "forward returns \"%s\"", call->strerror(error));
    else if (!(guarded_zones_intact(&b->packed) && guarded_zones_intact(&b->scratch) && guarded_zones_intact(&b->y) &&
               guarded_zones_intact(&b->attn)))
        snprintf(f->why, sizeof f->why, "something was written outside packed, scratch, y and attn");
    return f->why[0] == '\0';
}

/* Accuracy, then promises. */
static bool verify_packed(const struct subject *s, struct blocks *b, struct findings *f, struct diag *diag)
{
    const unsigned gates = GATE_WORST | GATE_DRAWN;
    f->ran = run_once(s, b, f);
    if (!f->ran)
        return false;
    compare_y(&f->y, s->layer, &s->inputs, &s->reference, &s->bounds, b->y.data, gates);
    if (s->layer->scores)
        compare_attn(&f->attn, s->layer, &s->inputs, &s->reference, &s->bounds, b->attn.data, gates);
    return f->y.misses == 0 && f->attn.misses == 0 &&
           promises_hold(s->kernel, s->layer, &s->small, b->packed.data, s->seed, f->why, diag);
}

struct findings subject_verify(const struct subject *s, int isa, struct diag *diag)
{
    const struct kernel_table *call = s->kernel->call;
    const struct kernel_weights weights = kernel_weights_of(&s->inputs);
    struct findings f = {.verdict = VERDICT_NONE};
    struct blocks b;
    if (!make_blocks(&b, s)) {
        diag_environment(diag, NULL, "out of memory");
        free_blocks(&b);
        return f;
    }
    int error = call->pack(b.packed.data, &weights, isa);
    if (error == KERNEL_ISA) {
        f.verdict = VERDICT_LACKING;
    } else if (error != KERNEL_OK || call->isa(b.packed.data) != isa) {
        snprintf(f.why, sizeof f.why, "pack returns \"%s\"", call->strerror(error));
        f.verdict = VERDICT_FAILED;
    } else {
        f.verdict = verify_packed(s, &b, &f, diag) ? VERDICT_GOOD : VERDICT_FAILED;
    }
    free_blocks(&b);
    return f;
}
