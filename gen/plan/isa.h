/* SPDX-License-Identifier: MIT */
/* The table of instruction sets: what the plan and the templates need to know of each.
 *
 * Left out on purpose: asking the machine. These are constants, so that the emitted file is the same on
 * every host; which set is used is decided by the emitted file when it packs its weights.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/nearest.h"

struct diag;
struct layer;

/* Where the emitted file looks for a need: registers of x86's CPUID, and XCR0, in whose bits the operating system says
 * which vector registers it saves. */
enum isa_register { ISA_LEAF_1_ECX, ISA_LEAF_7_EBX, ISA_LEAF_7_ECX, ISA_LEAF_7_EDX, ISA_LEAF_7_1_EAX, ISA_XCR0 };

/* Bits that all have to be set. */
struct isa_need {
    const char *name; /* as the emitted file names them; NULL ends a row's list */
    enum isa_register where;
    uint32_t bits;
};
#define ISA_NEEDS 16

/* What numbers of a type ask of compiler and machine besides what the set does; NULL: nothing */
struct isa_extra {
    const char *target, *guard; /* target attribute and preprocessor condition */
    const char *runs_on;        /* in place of the set's */
    struct isa_need need;
};
#define ISA_EXTRAS 3

struct isa {
    const char *name;       /* as in --isa, and as NAME_isa_name() gives it */
    const char *theirs;     /* what others call it, or a machine that has it; blanks between; NULL: nothing else */
    int id;                 /* NAME_ISA_… of the emitted interface; part of it, never renumbered; below 32 */
    int lanes;              /* floats in one vector */
    int registers;          /* vector registers that a compiler may use */
    bool prefetches;        /* has a prefetch instruction */
    int wide_values;        /* features of a value from which tokens along the lanes are faster: measured; 0: none */
    bool lone_tiles;        /* TILE: gcc leaves a tile as a function of its own */
    bool fma_rows;          /* vec_row_1 … vec_row_4: a row of a tile as one statement, whose sums no compiler moves */
    int held_rows;          /* rows of a tile, at most, that take vec_hold: gcc would load a vector a row; 0: none */
    bool mixes_loads;       /* gcc takes those of unrolled steps out of the order of memory, which costs where hardware
                             * is to read ahead: low tiles have vec_in_order */
    bool ends_iterations;   /* vec_end_iteration: keeps compilers from vectorising across iterations of a loop */
    int fma_ports;          /* fused multiply-adds of one vector that start each cycle */
    size_t l1d_bytes;       /* of the core that the plan assumes */
    size_t l2_bytes;
    struct isa_extra f16, dot, bf16; /* what f16 numbers ask, sums of products of whole numbers, those of bf16 */
    bool sums_bf16;         /* which precision = bf16 wants */
    const char *half_target; /* of half_load … half_fma, half a vector; NULL: there are none. On Zen 4 what
                              * lies beyond L2 comes up to a tenth faster by loads of 256 bits than of 512 */
    bool dots_bytes;        /* an instruction adds products of four unsigned and four signed bytes: with weights of i8
                             * digits pay there alone */
    bool sums_pairs;        /* dot products of bytes add two products in 16 bits first, which must not overflow */
    bool unsigned_rows;     /* broadcast bytes of dot products are unsigned: the number plus 128 */
    bool paired_rows;       /* may have dot products of bytes of two rows and two columns: two steps at a time */
    int word_registers[2];  /* registers that a row of words takes beyond one of f32: words of two numbers; of i8 */
    const char *target;     /* text of __attribute__((target("…"))), NULL: no attribute */
    const char *guard;      /* preprocessor condition under which the code can be compiled, NULL: always */
    const char *header;     /* of the compiler's intrinsics, NULL: none */
    const char *runs_on;    /* for the reader of the emitted file */
    struct isa_need needs[ISA_NEEDS]; /* of the machine; none: what can be compiled (guard) can be run. Not for
                             * templates, which see what the layer needs besides, too */
    bool optional;          /* emitted only where --isa asks for it */
    bool dots_only;         /* only in pairs with sums of products of whole numbers: others would have another's code */
    int tile_rows;          /* rows of a tile register, whose products are of bytes; 0: there are none. Programs ask the
                             * operating system for these registers (templates/interface/machine.in) */
    int tile_words;         /* words of 32 bits in such a row */
    const char *vocabulary; /* template that spells the SIMD words */
};

#define ISAS 16 /* rows that isa_table has room for */

/* Scalar first, then rising: a later row is preferred where the machine has it. */
extern const struct isa isa_table[];
extern const size_t isa_count;

/* NULL for a name that is not in the table. */
const struct isa *isa_find(const char *name);

/* The one whose name was perhaps meant. */
struct nearest isa_nearest(const char *name, size_t length);

/* "scalar, avx2, …", with `separator` between them; of the rows in `isas`. */
void isa_list_names(char *text, size_t size, unsigned isas, const char *separator);
/* Of struct option_program: 'a' lists every set, 'd' those that are emitted by default. */
void isa_list_in_help(char which, char *text, size_t size);

/* Sets of rows as bits: bit i is row i of isa_table. */
unsigned isa_all(void);
unsigned isa_default(void);
unsigned isa_with_bf16(void);
/* What a layer asks of a set besides, their number; `digits`: products with weights read digits of rows */
int isa_extras(const struct isa *isa, const struct layer *layer, bool digits, const struct isa_extra *of[ISA_EXTRAS]);
unsigned isa_of_dots_only(void);
unsigned isa_of_tiles(void);
/* Of the set with this id: sums_pairs. */
bool isa_sums_pairs(int id);

/* "avx2,avx512" → the rows; scalar is always in, "all" is every row. An empty, unknown or repeated name is
 * an error at "--isa"; the set is then of the names that were understood. */
unsigned isa_parse_list(const char *text, struct diag *diag);
