/* SPDX-License-Identifier: MIT */
/* A program that has a layer's weights packed at build time, and packs them again: the block and y must be the same.
 *
 *     pack_program IN.safetensors       x and the layer's tensors under attngen's names
 *
 * Compiled with -DNAME=…, -DPREFIX=… (NAME in capitals), -DHEADER='"NAME.h"', -DBLOCK='"NAME_packed.h"' and
 * -DSYMBOL=NAME_packed. Prints the block's instruction set; where this machine lacks it, it checks only that the block
 * is known as one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include HEADER
#include BLOCK
#include "../runtime/tensors.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

static struct tensors file;

static float *floats(const char *name)
{
    const struct tensor *tensor = tensors_find(&file, name);
    return tensor != NULL ? tensor->data : NULL;
}

static int fail(const char *what)
{
    printf("pack_program: %s\n", what);
    return 1;
}

int main(int argc, char **argv)
{
    struct diag diag = {0};
    static _Alignas(64) unsigned char packed[JOIN(PREFIX, _PACKED_BYTES)], scratch[JOIN(PREFIX, _SCRATCH_BYTES)];
    if (argc != 2 || !tensors_read(&file, argv[1], &diag))
        return fail("IN.safetensors is needed");
    const JOIN(NAME, _weights) weights = {
        .w_q = floats("w_q"), .b_q = floats("b_q"), .w_k = floats("w_k"), .b_k = floats("b_k"),
        .w_v = floats("w_v"), .b_v = floats("b_v"), .w_o = floats("w_o"), .b_o = floats("b_o"),
    };
    const struct tensor *x = tensors_find(&file, "x");
    const size_t batch = (size_t)x->shape[0], n = (size_t)x->shape[1], numbers = batch * n * JOIN(PREFIX, _D_OUT);
    static float *y, *attn; /* reachable to the end, however it ends */
    y = calloc(2 * numbers, sizeof *y);
    attn = calloc(batch * n * n * JOIN(PREFIX, _H), sizeof *attn);
    JOIN(NAME, _args) args = {.x = x->data, .y = y, .attn = attn, .batch = batch, .n = n};
    if (JOIN(NAME, _isa_name)((JOIN(NAME, _isa_id))SYMBOL->isa) == NULL) {
        printf("not compiled for this target\n");
        return 0;
    }
    const JOIN(NAME, _isa_id) isa = JOIN(NAME, _isa)(SYMBOL);
    if (isa == JOIN(PREFIX, _ISA_AUTO))
        return fail("the block is not known as one of this pair");
    if (sizeof SYMBOL > sizeof packed)
        return fail("the block is too large");
    const int error = JOIN(NAME, _pack)(packed, &weights, isa);
    if (error == JOIN(PREFIX, _ERROR_ISA)) {
        printf("%s: accepted, not run\n", JOIN(NAME, _isa_name)(isa));
        return 0;
    }
    if (error || memcmp(packed, SYMBOL, sizeof SYMBOL) != 0)
        return fail(error ? JOIN(NAME, _strerror)(error) : "the block is another one than NAME_pack makes");
    if (JOIN(NAME, _forward)(packed, &args, scratch))
        return fail("NAME_forward refuses its own block");
    args.y = y + numbers;
    if (JOIN(NAME, _forward)(SYMBOL, &args, scratch))
        return fail("NAME_forward refuses the block");
    if (memcmp(y, y + numbers, numbers * sizeof *y) != 0)
        return fail("y differs");
    printf("%s: the same bits\n", JOIN(NAME, _isa_name)(isa));
    tensors_free(&file);
    free(y);
    free(attn);
    return 0;
}
