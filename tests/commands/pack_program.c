/* SPDX-License-Identifier: MIT */
/* A program that has a layer's weights packed at build time, and packs them again: blocks and y must be the same.
 *
 *     pack_program IN.safetensors       x, or q, k and v, and the layer's tensors under attngen's names
 *
 * Compiled with -DNAME=…, -DPREFIX=… (NAME in capitals), -DHEADER='"NAME.h"', -DBLOCK='"NAME_packed.h"',
 * -DSYMBOL=NAME_packed, -DWEIGHTS='.w_q = floats("w_q"), …' and -DARGUMENTS='.x = floats("x"), .y = y, …', initialisers
 * of the fields that the layer has, and, of a layer with tables, -DTABLES='"first","second"'. Prints the instruction set of the block
 * that is taken; where this machine has none of those that the blocks are for, it checks that every call says so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include HEADER
#include BLOCK
#include "base/tensors.h"

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

enum { BLOCKS = sizeof SYMBOL / sizeof *SYMBOL, HEAD = sizeof SYMBOL->header };
static _Alignas(64) unsigned char packed[JOIN(PREFIX, _PACKED_BYTES)], scratch[JOIN(PREFIX, _SCRATCH_BYTES)];

/* Packs for each block's set that this machine has: numbers and what tells the layer must be the block's. `packed` is then of
 * the last such, the best; AUTO if there is none. False after a message. */
static int check_blocks(const JOIN(NAME, _weights) *weights, JOIN(NAME, _isa_id) *best)
{
    *best = JOIN(PREFIX, _ISA_AUTO);
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct JOIN(SYMBOL, _block) *block = &SYMBOL[i];
        const JOIN(NAME, _isa_id) isa = (JOIN(NAME, _isa_id))block->header[0].isa;
        const int error = JOIN(NAME, _pack)(packed, weights, isa);
        if (error == JOIN(PREFIX, _ERROR_ISA))
            continue;
        if (error)
            return !fail(JOIN(NAME, _strerror)(error));
        const size_t numbers = sizeof packed < sizeof *block ? sizeof packed - HEAD : sizeof block->numbers;
        if (memcmp(packed + HEAD, block->numbers, numbers) != 0)
            return !fail("the block is another one than NAME_pack makes");
        const size_t magic = sizeof block->header[1].magic; /* each has one of its own */
        const char *second = (const char *)&block->header[1];
        if (memcmp(packed + magic, second + magic, sizeof block->header[1] - magic) != 0)
            return !fail("the block's second header is not that of NAME_pack");
        if (memcmp(packed, &block->header[0], sizeof block->header[0]) == 0)
            return !fail("the block's first header is trusted");
        if (block->header[0].next != (i + 1 < BLOCKS ? sizeof *block : 0))
            return !fail("the blocks are not chained");
        *best = isa;
    }
    return 1;
}

static int walk(const void *block, const JOIN(NAME, _args) *args)
{
    const size_t phases = JOIN(NAME, _phases)(block, args);
    for (size_t phase = 0; phase < phases; phase++) {
        const size_t parts = JOIN(NAME, _parts)(block, args, phase);
        for (size_t part = 0; part < parts; part++)
            if (JOIN(NAME, _run)(block, args, scratch, phase, part, 0))
                return 1;
    }
    return phases == 0;
}

/* Every call with blocks for other machines. */
static int check_refused(const JOIN(NAME, _args) *args, size_t numbers)
{
    const int wanted = JOIN(PREFIX, _ERROR_ISA);
    const void *opened = packed;
    if (JOIN(NAME, _open)(SYMBOL, sizeof SYMBOL, &opened) != wanted || opened != NULL)
        return fail("NAME_open takes a block for another machine");
    if (JOIN(NAME, _forward)(SYMBOL, args, scratch) != wanted)
        return fail("NAME_forward takes a block for another machine");
    if (JOIN(NAME, _run)(SYMBOL, args, scratch, 0, 0, 0) != wanted || JOIN(NAME, _phases)(SYMBOL, args) != 0 ||
        JOIN(NAME, _parts)(SYMBOL, args, 0) != 0 || JOIN(NAME, _isa)(SYMBOL) != JOIN(PREFIX, _ISA_AUTO))
        return fail("a call takes a block for another machine");
    for (size_t i = 0; i < numbers; i++)
        if (args->y[i] != 0)
            return fail("a refused call wrote y");
    printf("refused: %s\n", JOIN(NAME, _strerror)(wanted));
    return 0;
}

/* What is no block, cut off or off its boundary. */
static int check_bad(const void *opened)
{
    const char *bytes = (const char *)SYMBOL;
    const void *none = opened;
    if (JOIN(NAME, _open)(NULL, 64, &none) != JOIN(PREFIX, _ERROR_NULL) ||
        JOIN(NAME, _open)(SYMBOL, sizeof SYMBOL, NULL) != JOIN(PREFIX, _ERROR_NULL))
        return fail("NULL is opened");
    if (JOIN(NAME, _open)(bytes + 4, 64, &none) != JOIN(PREFIX, _ERROR_ALIGNMENT) || none != NULL ||
        JOIN(NAME, _open)(opened, 64, &none) != ((uintptr_t)opened % 64 ? JOIN(PREFIX, _ERROR_ALIGNMENT) : JOIN(PREFIX, _OK)) ||
        JOIN(NAME, _forward)((const char *)opened + 4, &(JOIN(NAME, _args)){0}, scratch) != JOIN(PREFIX, _ERROR_ALIGNMENT) ||
        JOIN(NAME, _forward)(packed + 32, &(JOIN(NAME, _args)){0}, scratch) != JOIN(PREFIX, _ERROR_ALIGNMENT))
        return fail("a block off its boundary is taken");
    for (size_t cut = 0; cut <= 128 && cut < sizeof *SYMBOL; cut += cut < 32 ? 31 : 1)
        if (JOIN(NAME, _open)(SYMBOL, cut, &none) == JOIN(PREFIX, _OK) || none != NULL)
            return fail("a block of few bytes is opened");
    memset(scratch, 0, sizeof scratch);
    return JOIN(NAME, _open)(scratch, sizeof scratch, &none) != JOIN(PREFIX, _ERROR_PACKED) ? fail("zeros are opened") : 0;
}

int main(int argc, char **argv)
{
    struct diag diag = {0};
    if (argc != 2 || !tensors_read(&file, argv[1], &diag))
        return fail("IN.safetensors is needed");
#ifdef TABLES
    static const char *const names[] = {TABLES};
    const float *tables[sizeof names / sizeof *names];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        tables[i] = floats(names[i]);
#endif
    const JOIN(NAME, _weights) weights = {WEIGHTS};
    const struct tensor *k = tensors_find(&file, "k"), *x = tensors_find(&file, k != NULL ? "q" : "x");
    const size_t batch = (size_t)x->shape[0], n = (size_t)x->shape[1], numbers = batch * n * JOIN(PREFIX, _D_OUT);
    static float *y, *attn; /* reachable to the end, however it ends */
    y = calloc(2 * numbers, sizeof *y);
    const size_t m = k != NULL ? (size_t)k->shape[1] : n;
    attn = calloc(batch * n * m * JOIN(PREFIX, _H), sizeof *attn);
    JOIN(NAME, _args) args = {ARGUMENTS, .batch = batch, .n = n, .m = k != NULL ? m : 0};
    JOIN(NAME, _isa_id) best;
    if (!check_blocks(&weights, &best))
        return 1;
    if (best == JOIN(PREFIX, _ISA_AUTO))
        return check_refused(&args, numbers);
    const void *opened, *ways[3] = {SYMBOL, NULL, packed};
    if (JOIN(NAME, _pack)(packed, &weights, best) || JOIN(NAME, _forward)(packed, &args, scratch))
        return fail("NAME_forward refuses its own block");
    if (JOIN(NAME, _open)(SYMBOL, sizeof SYMBOL, &opened) || JOIN(NAME, _isa)(opened) != best ||
        (const char *)opened < (const char *)SYMBOL || (const char *)opened >= (const char *)(SYMBOL + BLOCKS))
        return fail("NAME_open does not take the best block");
    ways[1] = opened;
    args.y = y + numbers;
    for (int way = 0; way < 6; way++) {
        memset(args.y, 0, numbers * sizeof *y);
        if (way < 3 ? JOIN(NAME, _forward)(ways[way], &args, scratch) : walk(ways[way - 3], &args))
            return fail("a call refuses the block");
        if (memcmp(y, args.y, numbers * sizeof *y) != 0 || JOIN(NAME, _isa)(ways[way % 3]) != best)
            return fail("y differs");
    }
    if (check_bad(opened))
        return 1;
    printf("%s: the same bits\n", JOIN(NAME, _isa_name)(best));
    tensors_free(&file);
    free(y);
    free(attn);
    return 0;
}
