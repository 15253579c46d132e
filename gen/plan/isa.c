/* SPDX-License-Identifier: MIT */
/* The table of instruction sets; a new one is a new row here and a vocabulary template.
 *
 * Left out on purpose: anything measured on the host (see isa.h).
 */
#include "plan/isa.h"

#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "spec/layer.h"

#define KIB ((size_t)1024)

#define X86 "defined(__x86_64__) && defined(__GNUC__) && !defined(__TINYC__)"
/* gcc for Windows spills wide registers as if the stack were aligned for them, where the ABI aligns it to 16 bytes:
 * gcc.gnu.org/PR54412. Cygwin does not define _WIN32. */
#define X86_WIDE X86 " && (defined(__clang__) || !(defined(_WIN32) || defined(__CYGWIN__)))"
/* Target attribute avxvnni: since gcc 11, clang 12, Apple's clang 13, which cannot be told from 12 */
#define X86_AVXVNNI X86_WIDE " && (defined(__clang__) ? __clang_major__ >= 13 : __GNUC__ >= 11)"

/* Target attributes amx-tile, amx-int8: since gcc 11, clang 12. Only Linux is asked for the registers. */
#define X86_AMX X86 " && defined(__linux__) && defined(__LP64__) && " \
                    "(defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)"

/* Bits: Intel SDM volume 2A, CPUID, and volume 1, 13.1 (XCR0). AVX-512's state: opmask, upper halves of zmm0-15,
 * zmm16-31; AMX's: the shape of tiles, and what is in them. */
#define SSE3     {"SSE3", ISA_LEAF_1_ECX, 1u << 0}
#define SSSE3    {"SSSE3", ISA_LEAF_1_ECX, 1u << 9}
#define FMA      {"FMA", ISA_LEAF_1_ECX, 1u << 12}
#define SSE4_1   {"SSE4_1", ISA_LEAF_1_ECX, 1u << 19}
#define OSXSAVE  {"OSXSAVE", ISA_LEAF_1_ECX, 1u << 27}
#define AVX      {"AVX", ISA_LEAF_1_ECX, 1u << 28}
#define F16C     {"F16C", ISA_LEAF_1_ECX, 1u << 29}
#define AVX2     {"AVX2", ISA_LEAF_7_EBX, 1u << 5}
#define AVX512F  {"AVX512F", ISA_LEAF_7_EBX, 1u << 16}
#define AVX512DQ {"AVX512DQ", ISA_LEAF_7_EBX, 1u << 17}
#define AVX512BW {"AVX512BW", ISA_LEAF_7_EBX, 1u << 30}
#define AVX512VL {"AVX512VL", ISA_LEAF_7_EBX, 1u << 31}
#define AVX512_VNNI {"AVX512_VNNI", ISA_LEAF_7_ECX, 1u << 11}
#define AVX_VNNI {"AVX_VNNI", ISA_LEAF_7_1_EAX, 1u << 4}
#define AVX512_BF16 {"AVX512_BF16", ISA_LEAF_7_1_EAX, 1u << 5}
#define AMX_TILE {"AMX_TILE", ISA_LEAF_7_EDX, 1u << 24}
#define AMX_INT8 {"AMX_INT8", ISA_LEAF_7_EDX, 1u << 25}
#define YMM      {"YMM", ISA_XCR0, 0x6}
#define ZMM      {"ZMM", ISA_XCR0, 0xe0}
#define TILES    {"TILES", ISA_XCR0, 0x60000}

/* Cache sizes are the smaller ones of the cores that have the set: 32 KiB + 512 KiB covers Zen 2..4 and is
 * exceeded by Intel clients; AVX-512 servers since Ice Lake have 48 KiB + 1 MiB or more; sse4: Nehalem to Ivy Bridge;
 * neon: Cortex-A76, Neoverse N1; rvv: SpacemiT X60; wasm_simd128: whatever the engine runs on.
 * Registers are those that tiles may fill before compilers spill in the inner loops; seen in their assembly. "scalar"
 * is a struct of four floats, so that a compiler can put it into the baseline's 16 vector registers (SSE2, NEON has
 * 32): 14, by gcc 12. sse4: of 16, each product takes one and each copy for it another; 12, and no loops long enough to
 * prefetch in, by gcc 12. neon: of 32, gcc 12 loads early; 26. rvv: of 31 without the mask's, clang 19; 28. */
const struct isa isa_table[] = {
    {.name = "scalar", .theirs = "generic portable c",
     .id = 1, .lanes = 4, .registers = 14, .ends_iterations = true, .fma_ports = 2,
     .l1d_bytes = 32 * KIB, .l2_bytes = 512 * KIB,
     .sums_bf16 = true, .word_registers = {2, 2},
     .runs_on = "every machine",
     .vocabulary = "sets/simd_scalar.in"},
    {.name = "sse4", .theirs = "sse4_1 x86-64-v2",
     .id = 4, .lanes = 4, .registers = 12, .fma_ports = 1, .optional = true,
     .l1d_bytes = 32 * KIB, .l2_bytes = 256 * KIB,
     .unsigned_rows = true, .sums_pairs = true, .word_registers = {1, 2},
     .target = "sse4.1", .guard = X86, .header = "immintrin.h",
     .runs_on = "x86-64 with SSE4.1",
     .needs = {SSE3, SSSE3, SSE4_1},
     .vocabulary = "sets/simd_sse4.in"},
    {.name = "avx2", .theirs = "x86_64 x86-64 amd64 x86-64-v3 haswell",
     .id = 2, .lanes = 8, .registers = 16, .lone_tiles = true, .fma_rows = true, .fma_ports = 2,
     .prefetches = true, .l1d_bytes = 32 * KIB, .l2_bytes = 512 * KIB,
     .f16 = {"f16c", .need = F16C}, .unsigned_rows = true, .sums_pairs = true, .word_registers = {1, 2},
     .target = "avx2,fma", .guard = X86_WIDE, .header = "immintrin.h",
     .runs_on = "x86-64 with AVX2 and FMA",
     .needs = {FMA, OSXSAVE, AVX, AVX2, YMM},
     .vocabulary = "sets/simd_avx2.in"},
    {.name = "avxvnni", .id = 8, .lanes = 8, .registers = 16, .lone_tiles = true, .fma_rows = true, .fma_ports = 2,
     .prefetches = true, .l1d_bytes = 32 * KIB, .l2_bytes = 512 * KIB,
     .f16 = {"f16c", .need = F16C}, .unsigned_rows = true, .dots_bytes = true, .dots_only = true,
     .target = "avx2,fma,avxvnni", .guard = X86_AVXVNNI, .header = "immintrin.h",
     .runs_on = "x86-64 with AVX2, FMA and AVX-VNNI",
     .needs = {FMA, OSXSAVE, AVX, AVX2, AVX_VNNI, YMM},
     .vocabulary = "sets/simd_avx2.in"},
    {.name = "avx512", .theirs = "avx512f x86-64-v4",
     .id = 3, .lanes = 16, .registers = 32, .lone_tiles = true, .held_rows = 4, .mixes_loads = true,
     .fma_ports = 2, .prefetches = true, .wide_values = 256, .l1d_bytes = 48 * KIB, .l2_bytes = 1024 * KIB,
     .half_target = "fma", .dot = {"avx512vnni", .need = AVX512_VNNI}, .unsigned_rows = true, .dots_bytes = true,
     .sums_bf16 = true, .bf16 = {"avx512bf16", .need = AVX512_BF16},
     .target = "avx512f,avx512dq,avx512bw,avx512vl", .guard = X86_WIDE, .header = "immintrin.h",
     .runs_on = "x86-64 with AVX-512 F, DQ, BW and VL",
     .needs = {FMA, OSXSAVE, AVX, AVX2, AVX512F, AVX512DQ, AVX512BW, AVX512VL, YMM, ZMM},
     .vocabulary = "sets/simd_avx512.in"},
    {.name = "amx", .id = 9, .lanes = 16, .registers = 32, .lone_tiles = true, .held_rows = 4, .mixes_loads = true,
     .fma_ports = 2, .prefetches = true, .wide_values = 256, .l1d_bytes = 48 * KIB, .l2_bytes = 2048 * KIB,
     .half_target = "fma", .unsigned_rows = true, .dots_bytes = true, .tile_rows = 16, .tile_words = 16,
     .target = "avx512f,avx512dq,avx512bw,avx512vl,avx512vnni,amx-tile,amx-int8", .guard = X86_AMX,
     .header = "immintrin.h", .optional = true, .dots_only = true,
     .runs_on = "x86-64 with AMX and AVX-512, under Linux",
     .needs = {FMA, OSXSAVE, AVX, AVX2, AVX512F, AVX512DQ, AVX512BW, AVX512VL, AVX512_VNNI, AMX_TILE, AMX_INT8, YMM,
               ZMM, TILES},
     .vocabulary = "sets/simd_avx512.in"},
    {.name = "neon", .theirs = "aarch64 arm64 arm asimd",
     .id = 5, .lanes = 4, .registers = 26, .fma_ports = 2, .prefetches = true,
     .l1d_bytes = 64 * KIB, .l2_bytes = 512 * KIB,
     .guard = "defined(__AARCH64EL__) && defined(__ARM_NEON)", .header = "arm_neon.h",
     .sums_bf16 = true,
     .bf16 = {.guard = "defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)",
              .runs_on = "AArch64 with BF16, compiled for it"},
     .paired_rows = true, .word_registers = {2, 2},
     .runs_on = "every AArch64",
     .vocabulary = "sets/simd_neon.in"},
    {.name = "wasm_simd128", .theirs = "wasm wasm32 simd128",
     .id = 6, .lanes = 4, .registers = 14, .fma_ports = 2, .optional = true,
     .l1d_bytes = 32 * KIB, .l2_bytes = 256 * KIB,
     .guard = "defined(__wasm_simd128__)", .header = "wasm_simd128.h",
     .word_registers = {2, 2},
     .runs_on = "WebAssembly with SIMD, compiled with -msimd128",
     .vocabulary = "sets/simd_wasm_simd128.in"},
    {.name = "rvv", .theirs = "riscv64 riscv",
     .id = 7, .lanes = 4, .registers = 28, .fma_ports = 1, .optional = true,
     .l1d_bytes = 32 * KIB, .l2_bytes = 512 * KIB,
     .guard = "defined(__riscv_v) && defined(__riscv_v_intrinsic) && __riscv_v_intrinsic >= 11000",
     .header = "riscv_vector.h",
     .word_registers = {2, 2},
     .runs_on = "RISC-V with V 1.0, compiled for it",
     .vocabulary = "sets/simd_rvv.in"},
};
const size_t isa_count = sizeof isa_table / sizeof isa_table[0];
_Static_assert(sizeof isa_table / sizeof isa_table[0] <= ISAS, "what is kept for each set has room for every row");

/* The row whose name is the `length` bytes at `name`; isa_count if there is none. */
static size_t row_of(const char *name, size_t length)
{
    size_t row = 0;
    while (row < isa_count &&
           (strlen(isa_table[row].name) != length || memcmp(isa_table[row].name, name, length) != 0))
        row++;
    return row;
}

const struct isa *isa_find(const char *name)
{
    const size_t row = row_of(name, strlen(name));
    return row < isa_count ? &isa_table[row] : NULL;
}

void isa_list_names(char *text, size_t size, unsigned isas, const char *separator)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t row = 0; row < isa_count && used < size; row++)
        if ((isas >> row & 1u) != 0)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? separator : "", isa_table[row].name);
}

void isa_list_in_help(char which, char *text, size_t size)
{
    isa_list_names(text, size, which == 'a' ? isa_all() : isa_default(), ", ");
}

unsigned isa_all(void)
{
    return (1u << isa_count) - 1;
}

#define ROWS_THAT(function, holds) \
    unsigned function(void) \
    { \
        unsigned isas = 0; \
        for (const struct isa *isa = isa_table; isa < isa_table + isa_count; isa++) \
            isas |= (holds) ? 1u << (isa - isa_table) : 0; \
        return isas; \
    }
ROWS_THAT(isa_default, !isa->optional)
ROWS_THAT(isa_with_bf16, isa->sums_bf16)
ROWS_THAT(isa_of_dots_only, isa->dots_only)
ROWS_THAT(isa_of_tiles, isa->tile_rows > 0)

int isa_extras(const struct isa *isa, const struct layer *layer, bool digits, const struct isa_extra *of[ISA_EXTRAS])
{
    const bool f16 = layer->weight_type == TENSOR_F16 || layer->cache_type == TENSOR_F16 ||
                     layer->tensor_type == TENSOR_F16;
    int count = 0;
    if (f16)
        of[count++] = &isa->f16;
    if (layer_sums_whole(layer) || digits)
        of[count++] = &isa->dot;
    if (layer->precision == PRECISION_BF16)
        of[count++] = &isa->bf16;
    return count;
}

bool isa_sums_pairs(int id)
{
    bool sums = false;
    for (size_t row = 0; row < isa_count; row++)
        sums = sums || (isa_table[row].id == id && isa_table[row].sums_pairs);
    return sums;
}

struct nearest isa_nearest(const char *name, size_t length)
{
    struct nearest nearest = nearest_to(name, length);
    for (size_t row = 0; row < isa_count; row++)
        nearest_offer(&nearest, isa_table[row].name);
    for (size_t row = 0; row < isa_count; row++)
        nearest_offer_theirs(&nearest, isa_table[row].theirs, isa_table[row].name);
    return nearest;
}

unsigned isa_parse_list(const char *text, struct diag *diag)
{
    char known[200], meant[NEAREST_TEXT];
    isa_list_names(known, sizeof known, isa_all(), ", ");
    if (strcmp(text, "all") == 0)
        return isa_all();

    const unsigned scalar = 1u << row_of("scalar", strlen("scalar"));
    unsigned asked = 0;
    bool more = true;
    while (more) {
        const size_t length = strcspn(text, ",");
        const int shown = length < 60 ? (int)length : 60;
        const size_t row = row_of(text, length);
        const struct nearest nearest = isa_nearest(text, length);
        if (length == 0)
            diag_error(diag, "--isa", "an empty name in the list; write all, or any of %s, joined by commas", known);
        else if (row == isa_count)
            diag_error(diag, "--isa", "unknown instruction set '%.*s'; known are %s; all alone means every one%s",
                       shown, text, known, nearest_add(&nearest, meant));
        else if ((asked >> row & 1u) != 0)
            diag_error(diag, "--isa", "'%.*s' is given twice; write each of %s at most once", shown, text, known);
        else
            asked |= 1u << row;
        more = text[length] == ',';
        text += length + (more ? 1 : 0);
    }
    return asked | scalar;
}
