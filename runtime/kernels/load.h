/* SPDX-License-Identifier: MIT */
/* An emitted pair as a loaded kernel.
 *
 * A pair's functions carry the layer's name, and its structs have the fields of that layer alone. attngen --shim
 * writes a table of both, NAME_table, that is alike for every layer; tensors have the numbers of enum layer_tensor
 * there. Left out on purpose: compiling.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "interface/table.h.in"
#include "base/diag.h"
#include "inputs/inputs.h"
#include "reference/fold.h"

#define KERNEL_INTERFACE_VERSION 4
#define KERNEL_ALIGNMENT 64
_Static_assert(TENSOR_COUNT <= KERNEL_TENSORS, "a tensor is given by its number");

/* NAME_error of the emitted header; a layer has those that it can return. */
enum kernel_error {
    KERNEL_OK, KERNEL_NULL, KERNEL_SIZE = 3, KERNEL_LENGTH, KERNEL_BROADCAST, KERNEL_ALIGN, KERNEL_ISA,
    KERNEL_NONFINITE, KERNEL_PACKED, KERNEL_PART, KERNEL_OVERLAP, KERNEL_KEPT
};

/* A packed block is two of these and then floats: the emitted struct packed_header. */
struct kernel_header {
    uint32_t magic, isa;
    uint64_t layer, next, zero;
};
#define KERNEL_HEADERS 2
#define KERNEL_ELSEWHERE 0x65747461u /* magic number of the first header if the second one is a header too */
#define KERNEL_OPENED 0x6f747461u    /* and of that second one */

struct kernel {
    void *library;
    int file; /* the library, open, as its path may be gone by now; -1: none */
    const struct kernel_table *call;
    double compile_us; /* CPU time of the compiler; 0 if unknown */
    bool crashed;      /* not loaded, as it ended the process that tried to */
    bool refused;      /* not compiled: the compiler ended with an error */
};

/* `name`: the layer's. False with the reason in `diag`. */
bool kernel_load(struct kernel *kernel, const char *path, const char *name, struct diag *diag);
void kernel_unload(struct kernel *kernel);

/* code.c: bytes of the functions of one instruction set, those of its name ("keys_avx2"), folded copies counted once; 0
 * where the library does not say, as a file that is not ELF of this machine's word size. */
size_t code_bytes(const struct kernel *kernel, const char *isa);

/* The number of an instruction set of the pair; 0 if it has none of this name. */
int kernel_isa(const struct kernel_table *call, const char *name);
/* None without a kernel. */
struct folds kernel_folds(const struct kernel *kernel);
struct kernel_weights kernel_weights_of(const struct inputs *inputs);
/* Outputs by enum call_output; of a cache NULL: that of the inputs, which a call changes. */
struct kernel_args kernel_args_of(const struct layer *layer, const struct inputs *inputs, void *const outputs[OUTPUTS]);
/* A digest continued by what a call has left in the outputs of `args`, and in gradients, if not NULL */
uint64_t kernel_digest(uint64_t digest, const struct layer *layer, const struct inputs *inputs,
                       const struct kernel_args *args, const struct kernel_grads *grads);
/* Those of sequence b alone. */
struct kernel_args kernel_args_of_sequence(const struct layer *layer, const struct inputs *inputs,
                                           struct kernel_args args, size_t b);
