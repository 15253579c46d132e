/* SPDX-License-Identifier: MIT */
/* An emitted layer beside the same arithmetic in plain C, in one run: what does generating buy over a compiler's own
 * vectorization? Built by `make bench-plain` for each of a few layers, everything with -O3 -march=native.
 *
 * The plain layer is what a careful programmer writes first: constant dimensions, loops in the order that lets the
 * compiler vectorize every inner one, weights as they come, the exact softmax by expf. Left out on purpose: masks,
 * cross-attention (the layers measured have none), and anything that would make it a second kernel library.
 *
 * -DNAME=tiny -DPREFIX=TINY -DHEADER='"tiny.h"' -DBIAS=0
 */
#include HEADER

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define DIM(name) JOIN(PREFIX, name)
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

enum { D = DIM(D_MODEL), H = DIM(H), D_K = DIM(D_K), D_V = DIM(D_V), N = DIM(SEQ_LEN), E_K = H * D_K, E_V = H * D_V };
enum { ROUNDS = 201 };

static float x[N][D], w_q[D][E_K], w_k[D][E_K], w_v[D][E_V], w_o[E_V][D], y[N][D], y_plain[N][D];
static float b_q[E_K], b_k[E_K], b_v[E_V], b_o[D]; /* zeros without bias */
static float q[N][E_K], k[N][E_K], v[N][E_V], z[N][E_V];

/* c[rows][columns] = bias[columns] + a[rows][depth] b[depth][columns], the columns innermost: vectorizes without -ffast-math */
static inline void multiply(const float *restrict a, const float *restrict b, const float *restrict bias,
                            float *restrict c, size_t rows, size_t depth, size_t columns)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < columns; j++)
            c[r * columns + j] = bias[j];
        for (size_t i = 0; i < depth; i++)
            for (size_t j = 0; j < columns; j++)
                c[r * columns + j] += a[r * depth + i] * b[i * columns + j];
    }
}

static void plain_layer(void)
{
    static float keys[D_K][N], weights[N]; /* keys of one head, transposed so that the score loop runs along them */
    multiply(&x[0][0], &w_q[0][0], b_q, &q[0][0], N, D, E_K);
    multiply(&x[0][0], &w_k[0][0], b_k, &k[0][0], N, D, E_K);
    multiply(&x[0][0], &w_v[0][0], b_v, &v[0][0], N, D, E_V);
    const float scale = 1 / sqrtf(D_K);
    for (size_t h = 0; h < H; h++) {
        for (size_t j = 0; j < N; j++)
            for (size_t d = 0; d < D_K; d++)
                keys[d][j] = k[j][h * D_K + d];
        for (size_t t = 0; t < N; t++) {
            for (size_t j = 0; j < N; j++)
                weights[j] = 0;
            for (size_t d = 0; d < D_K; d++)
                for (size_t j = 0; j < N; j++)
                    weights[j] += scale * q[t][h * D_K + d] * keys[d][j];
            float maximum = weights[0], sum = 0;
            for (size_t j = 1; j < N; j++)
                maximum = weights[j] > maximum ? weights[j] : maximum;
            for (size_t j = 0; j < N; j++)
                sum += weights[j] = expf(weights[j] - maximum);
            for (size_t d = 0; d < D_V; d++)
                z[t][h * D_V + d] = 0;
            for (size_t j = 0; j < N; j++)
                for (size_t d = 0; d < D_V; d++)
                    z[t][h * D_V + d] += weights[j] / sum * v[j][h * D_V + d];
        }
    }
    multiply(&z[0][0], &w_o[0][0], b_o, &y_plain[0][0], N, E_V, D);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double *p = a, *r = b;
    return (*p > *r) - (*p < *r);
}

static void draw(float *p, size_t count, float size)
{
    static unsigned state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        p[i] = size * ((float)(state >> 8) / (float)(1 << 23) - 1);
    }
}

int main(void)
{
    const float size = 2 / sqrtf(D);
    draw(&x[0][0], N * D, 1);
    draw(&w_q[0][0], D * E_K, size);
    draw(&w_k[0][0], D * E_K, size);
    draw(&w_v[0][0], D * E_V, size);
    draw(&w_o[0][0], E_V * D, size);
    JOIN(NAME, weights) weights = {.w_q = &w_q[0][0], .w_k = &w_k[0][0], .w_v = &w_v[0][0], .w_o = &w_o[0][0]};
    if (BIAS) {
        draw(b_q, E_K, 1);
        draw(b_k, E_K, 1);
        draw(b_v, E_V, 1);
        draw(b_o, D, 1);
        weights.b_q = b_q;
        weights.b_k = b_k;
        weights.b_v = b_v;
        weights.b_o = b_o;
    }
    JOIN(NAME, args) args = {.x = &x[0][0], .y = &y[0][0], .batch = 1, .n = N};
    void *packed = aligned_alloc(64, (DIM(PACKED_BYTES) + 63) / 64 * 64);
    void *scratch = aligned_alloc(64, (DIM(SCRATCH_BYTES) + 63) / 64 * 64);
    int error = packed == NULL || scratch == NULL ? DIM(ERROR_NULL) : JOIN(NAME, pack)(packed, &weights, DIM(ISA_AUTO));
    if (error == 0)
        error = JOIN(NAME, forward)(packed, &args, scratch);
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", TEXT(NAME), JOIN(NAME, strerror)(error));
        return 3;
    }
    plain_layer();
    double largest = 0;
    for (size_t i = 0; i < N * D; i++)
        largest = fmax(largest, fabs((double)(&y[0][0])[i] - (double)(&y_plain[0][0])[i]));

    double kernel[ROUNDS], plain[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) { /* interleaved; everything warm */
        const double start = now();
        JOIN(NAME, forward)(packed, &args, scratch);
        const double middle = now();
        plain_layer();
        plain[r] = now() - middle;
        kernel[r] = middle - start;
    }
    qsort(kernel, ROUNDS, sizeof *kernel, by_size);
    qsort(plain, ROUNDS, sizeof *plain, by_size);
    printf("%-18s %-7s %9.1f us   plain C %9.1f us   %5.1f times   (medians of %d; largest difference %.1e)\n", TEXT(NAME),
           JOIN(NAME, isa_name)(JOIN(NAME, isa)(packed)), 1e6 * kernel[ROUNDS / 2], 1e6 * plain[ROUNDS / 2],
           plain[ROUNDS / 2] / kernel[ROUNDS / 2], ROUNDS, largest);
    return largest < 1e-3 ? 0 : 1;
}
