/* SPDX-License-Identifier: MIT */
/* An emitted pair as a loaded kernel.
 *
 * The emitted functions carry the layer's name. A shim of ours, compiled together with the pair, gathers them into
 * one table under one name; the structs have the same layout for every layer. Left out on purpose: compiling.
 */
#ifndef ATTNRUN_LOAD_H
#define ATTNRUN_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "inputs/inputs.h"
#include "reference/fold.h"

#define KERNEL_INTERFACE_VERSION 3
#define KERNEL_ALIGNMENT 64

/* NAME_error of the emitted header. */
enum kernel_error {
    KERNEL_OK, KERNEL_NULL, KERNEL_UNUSED, KERNEL_SIZE, KERNEL_LENGTH, KERNEL_BROADCAST, KERNEL_ALIGN, KERNEL_ISA,
    KERNEL_NONFINITE, KERNEL_PACKED, KERNEL_PART, KERNEL_OVERLAP, KERNEL_KEPT
};

/* NAME_weights and NAME_args of the emitted header. */
struct kernel_weights {
    const float *w_q, *b_q, *w_k, *b_k, *w_v, *b_v, *w_o, *b_o;
    const float *w_1, *b_1, *w_g, *b_g, *w_2, *b_2;
    const float *g_q, *c_q, *g_k, *c_k;
    const float *n1_g, *n1_b, *n2_g, *n2_b, *n3_g, *n3_b, *n4_g, *n4_b;
    const float *rel_bias, *sink;
    const float *const *tables;
    const float *w, *b; /* the last two fields, of layer = linear only */
};

struct kernel_args {
    const float *x;
    const float *source;
    const float *q, *k, *v;
    const int32_t *lengths, *past, *positions, *page_table, *prefix, *segment, *segment_q, *segment_k;
    const unsigned char *mask_bool;
    size_t mask_bool_batch, mask_bool_h;
    const float *mask_add;
    size_t mask_add_batch, mask_add_h;
    float *y;
    float *attn;
    float *lse;
    void *k_cache, *v_cache, *k_pages, *v_pages;
    size_t batch, n, m, pages;
    union { /* no layer has two of them */
        struct {
            float *saved;  /* of a layer that trains alone */
            uint64_t seed; /* of one with dropout alone */
        };
        struct {
            void *k_scale, *v_scale; /* of a cache of i8 alone */
        };
        struct { /* of a layer with source_kept alone */
            void *kept;
            const int32_t *kept_of;
            size_t kept_blocks;
        };
    };
};

/* NAME_grads of the emitted header. */
#define KERNEL_LEARNED 6
struct kernel_grads {
    const float *dy;
    float *dx, *dsource;
    float *dw_q, *db_q, *dw_k, *db_k, *dw_v, *db_v, *dw_o, *db_o;
    float *dw_1, *db_1, *dw_g, *db_g, *dw_2, *db_2;
    float *learned[KERNEL_LEARNED]; /* gradients of the tensors that the layer has, in the order of enum
                                     * layer_tensor; a pair's struct has no others */
};

/* NAME_cache of the emitted header. */
struct kernel_cache {
    void *k, *v;
    int32_t *past;
    int32_t *page_table;
    size_t batch, pages;
    const int32_t *free_pages;
    size_t free_count;
    void *k_scale, *v_scale; /* of a cache of i8 alone */
};

/* A packed block is two of these and then floats: the emitted struct packed_header. */
struct kernel_header {
    uint32_t magic, isa;
    uint64_t layer, next, zero;
};
#define KERNEL_HEADERS 2
#define KERNEL_ELSEWHERE 0x65747461u /* magic number of the first header if the second one is a header too */
#define KERNEL_OPENED 0x6f747461u    /* and of that second one */

/* What the shim exports. */
struct kernel_table {
    size_t version, packed_bytes, scratch_bytes;
    size_t weights_size, args_size; /* of the pair's structs, to verify the layout */
    size_t (*scratch_bytes_for)(size_t workers);
    int (*pack)(void *packed, const void *weights, int isa);
    int (*forward)(const void *packed, const void *args, void *scratch);
    size_t (*phases)(const void *packed, const void *args);
    size_t (*parts)(const void *packed, const void *args, size_t phase);
    int (*run)(const void *packed, const void *args, void *scratch, size_t phase, size_t part, size_t worker);
    const char *(*phase_name)(size_t phase);
    int (*isa)(const void *packed);
    int (*open)(const void *blocks, size_t bytes, const void **packed);
    const char *(*isa_name)(int isa);
    const char *(*strerror)(int error);
    /* in a pair compiled only for packing, the functions from forward to phase_name are NULL */
    int folds_scores, folds_values; /* which weights are multiplied with each other when packed: fold.h */
    int (*merge)(const void *packed, const void *y_a, const float *lse_a, const void *y_b, const float *lse_b,
                 void *y, float *lse, size_t batch, size_t n); /* NULL: the layer has none */
    size_t few_queries; /* with a cache: calls of at most so many queries take a path of their own; 0: there is none */
    /* with a cache, for a struct kernel_cache; else NULL */
    int (*cache_reset)(const void *cache);
    int (*cache_move)(void *cache, int32_t *from);
    int (*column)(const void *packed, size_t column, float *out); /* of layer = linear; else NULL */
    /* for a layer that trains; else 0 and NULL */
    size_t saved_floats, grads_size; /* for each token; size of the pair's struct */
    size_t (*back_scratch_bytes_for)(size_t workers);
    int (*backward)(const void *packed, const void *args, const void *grads, void *scratch);
    size_t (*back_phases)(const void *packed, const void *args);
    size_t (*back_parts)(const void *packed, const void *args, size_t phase);
    int (*back_run)(const void *packed, const void *args, const void *grads, void *scratch, size_t phase, size_t part,
                    size_t worker);
    const char *(*back_phase_name)(size_t phase);
    int (*pack_part)(void *packed, const void *weights, size_t part, size_t parts);
    size_t kept_bytes; /* with source_kept; else 0 */
};

struct kernel {
    void *library;
    int file; /* the library, open, as its path may be gone by now; -1: none */
    const struct kernel_table *call;
    double compile_us; /* CPU time of the compiler; 0 if unknown */
    bool crashed;      /* not loaded, as it ended the process that tried to */
    bool refused;      /* not compiled: the compiler ended with an error */
};

/* The shim's source for a layer of this name, malloc'd. */
char *kernel_shim(const char *name);
/* False with the reason in `diag`. */
bool kernel_load(struct kernel *kernel, const char *path, struct diag *diag);
void kernel_unload(struct kernel *kernel);

/* The number of an instruction set of the pair; 0 if it has none of this name. */
int kernel_isa(const struct kernel_table *call, const char *name);
/* None without a kernel. */
struct folds kernel_folds(const struct kernel *kernel);
struct kernel_weights kernel_weights_of(const struct inputs *inputs);
/* Weights of the caller; those that the layer lacks are left out. */
struct kernel_outputs {
    void *y, *attn; /* of the layer's tensor_type */
    float *lse;
    void *cache[CACHE_PARTS]; /* a cache's parts; NULL: those of the inputs, which a call changes */
};
struct kernel_args kernel_args_of(const struct layer *layer, const struct inputs *inputs,
                                  struct kernel_outputs outputs);
/* The field of a tensor of a call; for K_SCALE and V_SCALE only where the layer has them, as others have other fields
 * there. Of a weight; NULL: no weight, or a table, or the layer's struct lacks it. */
void *kernel_place(struct kernel_args *args, enum layer_tensor tensor);
const float **kernel_weight(const struct layer *layer, struct kernel_weights *weights, enum layer_tensor tensor);
void kernel_set_argument(struct kernel_args *args, enum layer_tensor tensor, const void *at);
/* The extents of a mask over pairs; no other tensor has them. */
void kernel_set_extents(struct kernel_args *args, enum layer_tensor tensor, size_t batch, size_t h);
/* Where the gradient of a tensor stands; NULL: it has none in that struct. */
float **kernel_gradient(const struct layer *layer, struct kernel_grads *grads, enum layer_tensor tensor);
/* Those of sequence b alone. */
struct kernel_args kernel_args_of_sequence(const struct layer *layer, const struct inputs *inputs,
                                           struct kernel_args args, size_t b);

#endif
