/* SPDX-License-Identifier: MIT */
/* A user's program with three emitted pairs in it: `first` and `second` are the same layer, `third` has other heads
 * (see emitted_program.layer). Left out on purpose: right and wrong numbers; bits that should be the same are compared.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "first.h"
#include "second.h"
#include "third.h"

enum { BATCH = 3, N = 37, THREADS = 4, WEIGHTS = FIRST_H * 3 * FIRST_D_K * FIRST_D_MODEL * FIRST_D_MODEL };

static float x[BATCH * N * FIRST_D_MODEL], weights[8][WEIGHTS];
static float y[3][BATCH * N * FIRST_D_MODEL], attn[3][BATCH * FIRST_H * N * N];
static const int32_t lengths[BATCH] = {N, 0, 20};
static _Alignas(64) unsigned char packed_first[FIRST_PACKED_BYTES], packed_second[SECOND_PACKED_BYTES];
static _Alignas(64) unsigned char packed_third[THIRD_PACKED_BYTES];
static _Alignas(64) unsigned char scratch[FIRST_SCRATCH_BYTES_FOR(THREADS)], scratch_third[THIRD_SCRATCH_BYTES];

static void fill(float *values, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / 16777216.0f - 0.5f;
    }
}

static int expect(int condition, const char *what, const char *isa)
{
    if (!condition)
        printf("%s: %s\n", isa, what);
    return condition;
}

static first_weights all_weights(void)
{
    return (first_weights){.w_q = weights[0], .b_q = weights[1], .w_k = weights[2], .b_k = weights[3],
                           .w_v = weights[4], .b_v = weights[5], .w_o = weights[6], .b_o = weights[7]};
}

/* ---- a phase at a time, its parts dealt out to threads ---- */

struct share {
    const first_args *args;
    size_t phase, worker;
    int error;
};

static void *do_share(void *of)
{
    struct share *share = of;
    const size_t parts = first_parts(packed_first, share->args, share->phase);
    for (size_t part = share->worker; part < parts && !share->error; part += THREADS)
        share->error = first_run(packed_first, share->args, scratch, share->phase, part, share->worker);
    return NULL;
}

static int forward_with_threads(const first_args *args)
{
    const size_t phases = first_phases(packed_first, args);
    for (size_t phase = 0; phase < phases; phase++) {
        pthread_t thread[THREADS];
        struct share share[THREADS];
        for (size_t t = 0; t < THREADS; t++) {
            share[t] = (struct share){args, phase, t, FIRST_OK};
            if (pthread_create(&thread[t], NULL, do_share, &share[t]) != 0)
                return -1;
        }
        for (size_t t = 0; t < THREADS; t++)
            if (pthread_join(thread[t], NULL) != 0 || share[t].error)
                return share[t].error ? share[t].error : -1;
    }
    return phases > 0 ? FIRST_OK : -1;
}

/* ---- one instruction set ---- */

static int good_with(int isa, const char *name)
{
    const first_weights w1 = all_weights();
    const second_weights w2 = {.w_q = w1.w_q, .b_q = w1.b_q, .w_k = w1.w_k, .b_k = w1.b_k,
                               .w_v = w1.w_v, .b_v = w1.b_v, .w_o = w1.w_o, .b_o = w1.b_o};
    const third_weights w3 = {.w_q = w1.w_q, .b_q = w1.b_q, .w_k = w1.w_k, .b_k = w1.b_k,
                              .w_v = w1.w_v, .b_v = w1.b_v, .w_o = w1.w_o, .b_o = w1.b_o};
    const first_args a1 = {.x = x, .lengths = lengths, .y = y[0], .attn = attn[0], .batch = BATCH, .n = N};
    const second_args a2 = {.x = x, .lengths = lengths, .y = y[1], .attn = attn[1], .batch = BATCH, .n = N};
    const third_args a3 = {.x = x, .lengths = lengths, .y = y[2], .attn = attn[2], .batch = BATCH, .n = N};
    first_args threaded = a1;
    threaded.y = y[2];
    threaded.attn = attn[2];
    memset(y, 0xff, sizeof y);
    memset(attn, 0xff, sizeof attn);
    return expect(first_pack(packed_first, &w1, (first_isa_id)isa) == FIRST_OK, "first packs", name) &&
           expect(second_pack(packed_second, &w2, (second_isa_id)isa) == SECOND_OK, "second packs", name) &&
           expect(third_pack(packed_third, &w3, (third_isa_id)isa) == THIRD_OK, "third packs", name) &&
           expect(third_forward(packed_third, &a3, scratch_third) == THIRD_OK, "third runs", name) &&
           expect(third_forward(packed_first, &a3, scratch_third) == THIRD_ERROR_PACKED,
                  "third refuses a block of first's", name) &&
           expect(first_forward(packed_first, &a1, scratch) == FIRST_OK, "first runs", name) &&
           expect(second_forward(packed_second, &a2, scratch) == SECOND_OK, "second runs", name) &&
           expect(memcmp(y[0], y[1], sizeof y[0]) == 0 && memcmp(attn[0], attn[1], sizeof attn[0]) == 0,
                  "first and second give the same bits", name) &&
           expect(forward_with_threads(&threaded) == FIRST_OK, "first runs on threads", name) &&
           expect(memcmp(y[0], y[2], sizeof y[0]) == 0 && memcmp(attn[0], attn[2], sizeof attn[0]) == 0,
                  "threads give the same bits", name);
}

int main(void)
{
    fill(x, sizeof x / sizeof *x, 1);
    for (uint32_t i = 0; i < 8; i++)
        fill(weights[i], WEIGHTS, 100 + i);
    int good = 1, ran = 0;
    for (int isa = 0; isa < 32; isa++) { /* AUTO, then each that there may be */
        const first_weights w = all_weights();
        if (first_pack(packed_first, &w, (first_isa_id)isa) == FIRST_ERROR_ISA)
            continue; /* not on this machine */
        const char *name = first_isa_name(first_isa(packed_first));
        good = good_with(isa, name != NULL ? name : "no name") && good;
        ran++;
    }
    return good && ran >= 2 ? 0 : 1; /* whatever is best, and scalar */
}
