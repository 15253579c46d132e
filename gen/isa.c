/* The table of instruction sets; a new one is a new row here and a vocabulary template.
 *
 * Left out on purpose: anything measured on the host (see isa.h).
 */
#include "isa.h"

#include <stdio.h>
#include <string.h>

#include "diag.h"

#define KIB 1024u

/* Cache sizes are the smaller ones of the cores that have the set: 32 KiB + 512 KiB covers Zen 2..4 and is
 * exceeded by Intel clients; AVX-512 servers since Ice Lake have 48 KiB + 1 MiB or more. "scalar" is a struct
 * of four floats, so that a compiler can put it into the baseline's 16 vector registers (SSE2, NEON has 32). Of
 * those, scalar plans for 14: gcc 12 spills with more. */
const struct isa isa_table[] = {
    {.name = "scalar", .id = 1, .lanes = 4, .registers = 14, .fma_ports = 2,
     .l1d_bytes = 32 * KIB, .l2_bytes = 512 * KIB,
     .target = NULL, .guard = NULL,
     .vocabulary = "simd_scalar.in"},
    {.name = "avx2", .id = 2, .lanes = 8, .registers = 16, .fma_ports = 2, .prefetches = true,
     .l1d_bytes = 32 * KIB, .l2_bytes = 512 * KIB,
     .target = "avx2,fma", .guard = "defined(__x86_64__)",
     .vocabulary = "simd_avx2.in"},
    {.name = "avx512", .id = 3, .lanes = 16, .registers = 32, .fma_ports = 2, .prefetches = true,
     .l1d_bytes = 48 * KIB, .l2_bytes = 1024 * KIB,
     .target = "avx512f,avx512dq,avx512bw,avx512vl", .guard = "defined(__x86_64__)",
     .vocabulary = "simd_avx512.in"},
};
const size_t isa_count = sizeof isa_table / sizeof isa_table[0];

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

/* "scalar, avx2, avx512" */
static void list_names(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t row = 0; row < isa_count && used < size; row++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", row > 0 ? ", " : "", isa_table[row].name);
}

unsigned isa_parse_list(const char *text, struct diag *diag)
{
    char known[200];
    list_names(known, sizeof known);

    const unsigned scalar = 1u << row_of("scalar", strlen("scalar"));
    unsigned asked = 0;
    bool more = true;
    while (more) {
        const size_t length = strcspn(text, ",");
        const int shown = length < 60 ? (int)length : 60;
        const size_t row = row_of(text, length);
        if (length == 0)
            diag_error(diag, "--isa", "an empty name in the list; write any of %s, joined by commas", known);
        else if (row == isa_count)
            diag_error(diag, "--isa", "unknown instruction set '%.*s'; known are %s", shown, text, known);
        else if ((asked >> row & 1u) != 0)
            diag_error(diag, "--isa", "'%.*s' is given twice; write each of %s at most once", shown, text, known);
        else
            asked |= 1u << row;
        more = text[length] == ',';
        text += length + (more ? 1 : 0);
    }
    return asked | scalar;
}
