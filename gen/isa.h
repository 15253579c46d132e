/* The table of instruction sets: what the plan and the templates need to know of each.
 *
 * Left out on purpose: asking the machine. These are constants, so that the emitted file is the same on
 * every host; which set is used is decided by the emitted file when it packs its weights.
 */
#ifndef ATTNGEN_ISA_H
#define ATTNGEN_ISA_H

#include <stdbool.h>
#include <stddef.h>

struct diag;

struct isa {
    const char *name;       /* as in --isa, and as NAME_isa_name() gives it */
    int id;                 /* NAME_ISA_… of the emitted interface; part of it, never renumbered */
    int lanes;              /* floats in one vector */
    int registers;          /* vector registers that a compiler may use */
    bool prefetches;        /* has an instruction that asks for a cache line ahead of its use */
    int fma_ports;          /* fused multiply-adds of one vector that start each cycle */
    size_t l1d_bytes;       /* of the core that the plan has in mind */
    size_t l2_bytes;
    const char *target;     /* text of __attribute__((target("…"))), NULL: no attribute */
    const char *guard;      /* preprocessor condition under which the code can be compiled, NULL: always */
    const char *vocabulary; /* template that spells the SIMD words */
};

/* Scalar first, then rising: a later row is preferred where the machine has it. */
extern const struct isa isa_table[];
extern const size_t isa_count;

/* NULL for a name that is not in the table. */
const struct isa *isa_find(const char *name);

/* "avx2,avx512" → bit i is row i of isa_table; scalar is always in. An empty, unknown or repeated name is
 * an error at "--isa"; the mask is then of the names that were understood. */
unsigned isa_parse_list(const char *text, struct diag *diag);

#endif
