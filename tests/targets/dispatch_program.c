/* SPDX-License-Identifier: MIT */
/* Which instruction set a pair chooses on machines that nobody here has: the emitted file is included with CPUID and XCR0
 * replaced by those of a table. It chooses when it packs, and among blocks that were packed elsewhere. Left out on purpose:
 * running the kernels; packing is plain C, and the calls here have nothing to compute.
 *
 * -DPAIR='"NAME.c"' -DNAME=name -DPREFIX=NAME: a pair of scalar, sse4, avx2 and avx512 that has only w_q, w_k, w_v, w_o.
 * With -DDOTS it has products of whole numbers, and avxvnni besides; with -DTILES too, of bytes, and amx.
 */
#include <cpuid.h>
#include <immintrin.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct fake {
    unsigned max_leaf, ecx_1, ebx_7, xcr0, ecx_7, max_7, eax_7_1, edx_7, refuses; /* refuses: tile registers */
} fake;
static int faults; /* xgetbv where it is an illegal instruction */
static int asked;  /* questions to the CPU */

static void fake_cpuid(unsigned leaf, unsigned subleaf, unsigned *eax, unsigned *ebx, unsigned *ecx, unsigned *edx)
{
    asked++;
    *eax = *ebx = *ecx = *edx = 0xffffffffu; /* nothing that dispatch should look at, nor at a leaf that is not there */
    if (leaf == 0)
        *eax = fake.max_leaf;
    else if (leaf == 1 && leaf <= fake.max_leaf)
        *ecx = fake.ecx_1;
    else if (leaf == 7 && subleaf == 0 && leaf <= fake.max_leaf)
        *ebx = fake.ebx_7, *ecx = fake.ecx_7, *edx = fake.edx_7, *eax = fake.max_7;
    else if (leaf == 7 && subleaf == 1 && leaf <= fake.max_leaf && fake.max_7 >= 1)
        *eax = fake.eax_7_1;
}

static unsigned long long fake_xgetbv(unsigned which)
{
    faults += which != 0 || (fake.ecx_1 & 1u << 27) == 0;
    return fake.xcr0;
}

/* arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA) of Linux, documentation x86/xstate */
__attribute__((unused)) static long fake_syscall(long number, ...)
{
    va_list list;
    va_start(list, number);
    const long what = va_arg(list, long), which = va_arg(list, long);
    va_end(list);
    asked++;
    faults += number != 158 || what != 0x1023 || which != 18 || (fake.xcr0 & 0x60000) != 0x60000;
    return fake.refuses ? -1 : 0;
}

#undef __cpuid_count
#define __cpuid_count(leaf, subleaf, a, b, c, d) fake_cpuid(leaf, subleaf, &(a), &(b), &(c), &(d))
#undef _xgetbv
#define _xgetbv(which) fake_xgetbv(which)
#define syscall fake_syscall
#include PAIR

/* Intel SDM volume 2A, CPUID, tables 3-10 and 3-8; volume 1, figure 13-1. */
#define SSE3 (1u << 0)
#define SSSE3 (1u << 9)
#define FMA3 (1u << 12)
#define SSE41 (1u << 19)
#define OSXSAVE (1u << 27)
#define AVX (1u << 28)
#define AVX2 (1u << 5)
#define F (1u << 16)
#define DQ (1u << 17)
#define BW (1u << 30)
#define VL (1u << 31)
#define VNNI (1u << 11)
#define AVX_VNNI (1u << 4)
#define AMX_TILE (1u << 24)
#define AMX_INT8 (1u << 25)
#define AMX (AMX_TILE | AMX_INT8)
#define X87 1u
#define XMM 2u
#define YMM 4u
#define ZMM 0xe0u
#define TILES_SAVED 0x60000u

#define PENRYN (SSE3 | SSSE3 | SSE41)
#define SANDY_BRIDGE (PENRYN | OSXSAVE | AVX)
#define HASWELL (SANDY_BRIDGE | FMA3)
#define SKYLAKE_X (AVX2 | F | DQ | BW | VL)
#define SAVED (X87 | XMM | YMM)
#define ALL (SAVED | ZMM | TILES_SAVED)

static const struct {
    const char *what;
    struct fake machine;
    const char *best, *best_whole, *best_bytes; /* NULL: the same */
} machines[] = {
    {"no CPUID leaf 1", {0, 0, 0, 0}, "scalar"},
    {"all bits but no leaf 1", {0, HASWELL, SKYLAKE_X, SAVED | ZMM}, "scalar"},
    {"Prescott", {5, SSE3, 0, 0}, "scalar"},
    {"Merom: SSSE3", {10, SSE3 | SSSE3, 0, 0}, "scalar"},
    {"SSE4.1 without SSSE3", {10, SSE3 | SSE41, 0, 0}, "scalar"},
    {"Penryn", {10, PENRYN, 0, 0}, "sse4"},
    {"AVX without OSXSAVE: an old system", {13, PENRYN | AVX, 0, 0}, "sse4"},
    {"Sandy Bridge", {13, SANDY_BRIDGE, 0, SAVED}, "sse4"},
    {"Haswell", {13, HASWELL, AVX2, SAVED}, "avx2"},
    {"Haswell under a system without OSXSAVE", {13, HASWELL & ~OSXSAVE, AVX2, SAVED}, "sse4"},
    {"Haswell, YMM not saved", {13, HASWELL, AVX2, X87 | XMM}, "sse4"},
    {"Haswell, XMM not saved", {13, HASWELL, AVX2, X87 | YMM}, "sse4"},
    {"Haswell, nothing saved", {13, HASWELL, AVX2, 0}, "sse4"},
    {"AVX2 without FMA", {13, SANDY_BRIDGE, AVX2, SAVED}, "sse4"},
    {"FMA without AVX2: Piledriver", {13, HASWELL, 0, SAVED}, "sse4"},
    {"AVX2 and FMA without AVX", {13, HASWELL & ~AVX, AVX2, SAVED}, "sse4"},
    {"Haswell limited to leaf 6", {6, HASWELL, AVX2, SAVED}, "sse4"},
    {"Skylake-X", {22, HASWELL, SKYLAKE_X, SAVED | ZMM}, "avx512", "avx2"},
    {"Skylake-X under a system without OSXSAVE", {22, HASWELL & ~OSXSAVE, SKYLAKE_X, SAVED | ZMM}, "sse4"},
    {"Skylake-X, ZMM not saved", {22, HASWELL, SKYLAKE_X, SAVED}, "avx2"},
    {"Skylake-X, opmasks not saved", {22, HASWELL, SKYLAKE_X, SAVED | 0xc0}, "avx2"},
    {"Skylake-X, upper halves not saved", {22, HASWELL, SKYLAKE_X, SAVED | 0xa0}, "avx2"},
    {"Skylake-X, zmm16 ... zmm31 not saved", {22, HASWELL, SKYLAKE_X, SAVED | 0x60}, "avx2"},
    {"Skylake-X, ZMM saved but YMM not", {22, HASWELL, SKYLAKE_X, X87 | XMM | ZMM}, "sse4"},
    {"Skylake-X without F", {22, HASWELL, SKYLAKE_X & ~F, SAVED | ZMM}, "avx2"},
    {"Knights Landing: F without DQ, BW, VL", {22, HASWELL, AVX2 | F, SAVED | ZMM}, "avx2"},
    {"Skylake-X without DQ", {22, HASWELL, SKYLAKE_X & ~DQ, SAVED | ZMM}, "avx2"},
    {"Skylake-X without BW", {22, HASWELL, SKYLAKE_X & ~BW, SAVED | ZMM}, "avx2"},
    {"Skylake-X without VL", {22, HASWELL, SKYLAKE_X & ~VL, SAVED | ZMM}, "avx2"},
    {"Skylake-X without AVX2", {22, HASWELL, SKYLAKE_X & ~AVX2, SAVED | ZMM}, "sse4"},
    {"Skylake-X without FMA", {22, HASWELL & ~FMA3, SKYLAKE_X, SAVED | ZMM}, "sse4"},
    {"Cascade Lake: VNNI", {22, HASWELL, SKYLAKE_X, SAVED | ZMM, VNNI, 0, 0}, "avx512"},
    {"Alder Lake: AVX-VNNI", {32, HASWELL, AVX2, SAVED, 0, 1, AVX_VNNI}, "avx2", "avxvnni"},
    {"Alder Lake, leaf 7.1 not told of", {32, HASWELL, AVX2, SAVED, 0, 0, AVX_VNNI}, "avx2"},
    {"Alder Lake without AVX-VNNI", {32, HASWELL, AVX2, SAVED, 0, 1, ~AVX_VNNI}, "avx2"},
    {"Alder Lake limited to leaf 6", {6, HASWELL, AVX2, SAVED, 0, 1, AVX_VNNI}, "sse4"},
    {"Alder Lake under a system without OSXSAVE", {32, HASWELL & ~OSXSAVE, AVX2, SAVED, 0, 1, AVX_VNNI}, "sse4"},
    {"Alder Lake, YMM not saved", {32, HASWELL, AVX2, X87 | XMM, 0, 1, AVX_VNNI}, "sse4"},
    {"Alder Lake, XMM not saved", {32, HASWELL, AVX2, X87 | YMM, 0, 1, AVX_VNNI}, "sse4"},
    {"AVX-VNNI without FMA", {32, SANDY_BRIDGE, AVX2, SAVED, 0, 1, AVX_VNNI}, "sse4"},
    {"AVX-VNNI without AVX2", {32, HASWELL, 0, SAVED, 0, 1, AVX_VNNI}, "sse4"},
    {"Sapphire Rapids: both", {32, HASWELL, SKYLAKE_X, SAVED | ZMM, VNNI, 1, AVX_VNNI}, "avx512"},
    {"Sapphire Rapids, ZMM not saved", {32, HASWELL, SKYLAKE_X, SAVED, VNNI, 1, AVX_VNNI}, "avx2", "avxvnni"},
    {"AVX-512 without VNNI, AVX-VNNI", {32, HASWELL, SKYLAKE_X, SAVED | ZMM, 0, 1, AVX_VNNI}, "avx512", "avxvnni"},
    {"Sapphire Rapids: AMX", {32, HASWELL, SKYLAKE_X, ALL, VNNI, 1, AVX_VNNI, AMX}, "avx512", NULL, "amx"},
    {"AMX, tiles not saved", {32, HASWELL, SKYLAKE_X, SAVED | ZMM, VNNI, 1, AVX_VNNI, AMX}, "avx512"},
    {"AMX, contents of tiles not saved", {32, HASWELL, SKYLAKE_X, SAVED | ZMM | 0x20000, VNNI, 1, AVX_VNNI, AMX}, "avx512"},
    {"AMX, shapes of tiles not saved", {32, HASWELL, SKYLAKE_X, SAVED | ZMM | 0x40000, VNNI, 1, AVX_VNNI, AMX}, "avx512"},
    {"AMX, tiles not granted", {32, HASWELL, SKYLAKE_X, ALL, VNNI, 1, AVX_VNNI, AMX, 1}, "avx512"},
    {"AMX without bytes", {32, HASWELL, SKYLAKE_X, ALL, VNNI, 1, AVX_VNNI, AMX_TILE}, "avx512"},
    {"bytes without tiles", {32, HASWELL, SKYLAKE_X, ALL, VNNI, 1, AVX_VNNI, AMX_INT8}, "avx512"},
    {"AMX without VNNI", {32, HASWELL, SKYLAKE_X, ALL, 0, 1, AVX_VNNI, AMX}, "avx512", "avxvnni"},
    {"AMX, ZMM not saved", {32, HASWELL, SKYLAKE_X, SAVED | TILES_SAVED, VNNI, 1, AVX_VNNI, AMX}, "avx2", "avxvnni"},
};

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define FUNCTION(name) PASTE(NAME, name)
#define CONSTANT(name) PASTE(PREFIX, name)

enum { WEIGHTS = CONSTANT(D_MODEL) * CONSTANT(D_MODEL) };
static float weights_of_all[WEIGHTS];
static _Alignas(64) unsigned char packed[CONSTANT(PACKED_BYTES)];

/* The name of what `isa` comes to on this machine, "" for none. */
static const char *chosen(FUNCTION(isa_id) isa)
{
    const float *w = weights_of_all;
    const FUNCTION(weights) weights = {.w_q = w, .w_k = w, .w_v = w, .w_o = w};
    const int error = FUNCTION(pack)(packed, &weights, isa);
    return error == CONSTANT(OK) ? FUNCTION(isa_name)(FUNCTION(isa)(packed)) : error == CONSTANT(ERROR_ISA) ? "" : "error";
}

static const FUNCTION(isa_id) rising[] = {
    CONSTANT(ISA_SCALAR), CONSTANT(ISA_SSE4), CONSTANT(ISA_AVX2),
#if defined(DOTS)
    CONSTANT(ISA_AVXVNNI),
#endif
    CONSTANT(ISA_AVX512),
#if defined(TILES)
    CONSTANT(ISA_AMX)
#endif
};
enum { SETS = sizeof rising / sizeof rising[0] };
static _Alignas(64) unsigned char blocks[SETS][CONSTANT(PACKED_BYTES)]; /* as if packed elsewhere */
static _Alignas(64) unsigned char scratch[CONSTANT(SCRATCH_BYTES)];

/* Whether a machine whose best set is `best` has the set: those up to that one, but for AVX-VNNI some with AVX-512 lack. */
static int has(const struct fake *machine, size_t set, const char *best)
{
    size_t last = 0;
    while (strcmp(FUNCTION(isa_name)(rising[last]), best) != 0)
        last++;
    const int vnni = machine->max_7 >= 1 && (machine->eax_7_1 & AVX_VNNI) != 0;
    return set <= last && (vnni || strcmp(FUNCTION(isa_name)(rising[set]), "avxvnni") != 0);
}

/* One for each set, packed on a machine that has them all; on `chained` ones another follows. */
static int make_blocks(int chained)
{
    fake = (struct fake){32, HASWELL, SKYLAKE_X, ALL, VNNI, 1, AVX_VNNI, AMX};
    for (size_t i = 0; i < SETS; i++) {
        struct packed_header header[2];
        if (strcmp(chosen(rising[i]), FUNCTION(isa_name)(rising[i])) != 0)
            return 0;
        memcpy(blocks[i], packed, sizeof packed);
        memcpy(header, packed, sizeof header);
        header[1] = header[0];
        header[0].magic = ELSEWHERE_MAGIC;
        header[1].magic = OPENED_MAGIC;
        header[0].next = chained && i + 1 < SETS ? sizeof blocks[i] : 0;
        memcpy(blocks[i], header, sizeof header);
    }
    return 1;
}

/* Every call with blocks[first] … agrees on the set `best`, and an error where it is "". */
static int calls_take(size_t first, const char *best)
{
    const FUNCTION(args) args = {0};
    const void *opened = packed, *foreign = blocks[first];
    const int wanted = *best ? CONSTANT(OK) : CONSTANT(ERROR_ISA);
    const int none = *best ? CONSTANT(ERROR_PART) : CONSTANT(ERROR_ISA); /* there is no part 0 of nothing */
    if (FUNCTION(open)(foreign, sizeof blocks - first * sizeof blocks[0], &opened) != wanted || (opened == NULL) == (*best != 0))
        return 0;
    if (FUNCTION(forward)(foreign, &args, scratch) != wanted || FUNCTION(run)(foreign, &args, scratch, 0, 0, 0) != none)
        return 0;
    if (!*best)
        return FUNCTION(isa)(foreign) == CONSTANT(ISA_AUTO);
    asked = 0;
    return strcmp(FUNCTION(isa_name)(FUNCTION(isa)(opened)), best) == 0 &&
           FUNCTION(forward)(opened, &args, scratch) == CONSTANT(OK) && asked == 0 && /* that is what opening is for */
           strcmp(FUNCTION(isa_name)(FUNCTION(isa)(foreign)), best) == 0 && asked > 0;
}

/* Blocks that were packed elsewhere: each alone, where the machine has its set and where not, and all of them. */
static int good_blocks(const struct fake *machine, const char *what, const char *best)
{
    int good = 1;
    for (int chained = 0; chained < 2; chained++) {
        good = make_blocks(chained) && good;
        fake = *machine;
        for (size_t i = 0; i < SETS; i++) {
            const char *name = FUNCTION(isa_name)(rising[i]);
            const int takes = chained ? i > 0 || calls_take(0, best) : calls_take(i, has(machine, i, best) ? name : "");
            if (!takes)
                printf("FAILED: %s: calls with %s of %s\n", what, chained ? "all blocks" : "a block", name);
            good = good && takes;
        }
    }
    return good;
}

/* Each set asked for by itself: there or refused. */
static int good_machine(const struct fake *machine, const char *what, const char *best)
{
    const char *found = chosen(CONSTANT(ISA_AUTO));
    int good = strcmp(found, best) == 0;
    if (!good)
        printf("FAILED: %s: chose '%s', not '%s'\n", what, found, best);
    for (size_t i = 0; i < SETS; i++) {
        const char *name = FUNCTION(isa_name)(rising[i]);
        found = chosen(rising[i]);
        if (strcmp(found, has(machine, i, best) ? name : "") != 0) {
            printf("FAILED: %s: asked for %s: '%s'\n", what, name, found);
            good = 0;
        }
    }
    return good;
}

int main(void)
{
    int passed = 0, failed = 0;
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        const char *best = machines[i].best;
#if defined(DOTS)
        best = machines[i].best_whole != NULL ? machines[i].best_whole : best;
#endif
#if defined(TILES)
        best = machines[i].best_bytes != NULL ? machines[i].best_bytes : best;
#endif
        fake = machines[i].machine;
        faults = 0;
        int good = good_machine(&machines[i].machine, machines[i].what, best);
        if (faults > 0)
            printf("FAILED: %s: xgetbv was executed, or Linux asked for tiles that it does not save\n", machines[i].what);
        good = good && faults == 0;
        good = good_blocks(&machines[i].machine, machines[i].what, best) && good;
        passed += good;
        failed += !good;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
