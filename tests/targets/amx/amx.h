/* SPDX-License-Identifier: MIT */
/* For machines without AMX: include this before an emitted pair (cc -include amx.h), and the CPU and Linux seem to have it.
 * Tile registers are arrays of each thread. AVX-512 with VNNI is the machine's own.
 *
 * What is asked of them is checked as the CPU does: a use without a shape, a shape that a register cannot have, and shapes
 * that do not fit each other end the program. Semantics: Intel SDM volume 2, the instruction named beside each.
 */
#ifndef AMX_H
#define AMX_H

#include <cpuid.h>
#include <immintrin.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline void amx_cpuid(unsigned leaf, unsigned sub, unsigned *a, unsigned *b, unsigned *c, unsigned *d)
{
    __cpuid_count(leaf, sub, *a, *b, *c, *d);
    if (leaf == 7 && sub == 0)
        *d |= 1u << 24 | 1u << 25;
}

__attribute__((target("xsave"))) static inline unsigned long long amx_xgetbv(unsigned which)
{
    return (unsigned long long)_xgetbv(which) | 0x60000;
}

struct amx_tile {
    uint8_t rows, bytes[16][64];
    uint16_t row_bytes;
};
static _Thread_local struct amx_tile amx_tiles[8];

static inline struct amx_tile *amx_tile(int t)
{
    struct amx_tile *const tile = &amx_tiles[t];
    if (tile->rows == 0 || tile->row_bytes == 0)
        abort();
    return tile;
}

/* LDTILECFG: registers are 0 then */
static inline void amx_loadconfig(const void *p)
{
    uint8_t bytes[64];
    uint16_t row_bytes[8];
    memcpy(bytes, p, sizeof bytes);
    memcpy(row_bytes, bytes + 16, sizeof row_bytes);
    if (bytes[0] != 1 || bytes[1] != 0)
        abort();
    memset(amx_tiles, 0, sizeof amx_tiles);
    for (int t = 0; t < 8; t++) {
        amx_tiles[t].rows = bytes[48 + t];
        amx_tiles[t].row_bytes = row_bytes[t];
        if (amx_tiles[t].rows > 16 || row_bytes[t] > 64)
            abort();
    }
}

static inline void amx_release(void)
{
    memset(amx_tiles, 0, sizeof amx_tiles);
}

static inline void amx_zero(int t)
{
    memset(amx_tile(t)->bytes, 0, sizeof amx_tiles[t].bytes);
}

/* TILELOADD, TILESTORED */
static inline void amx_load(int t, const void *p, size_t stride)
{
    struct amx_tile *const tile = amx_tile(t);
    memset(tile->bytes, 0, sizeof tile->bytes);
    for (int row = 0; row < tile->rows; row++)
        memcpy(tile->bytes[row], (const char *)p + (size_t)row * stride, tile->row_bytes);
}

static inline void amx_store(int t, void *p, size_t stride)
{
    const struct amx_tile *const tile = amx_tile(t);
    for (int row = 0; row < tile->rows; row++)
        memcpy((char *)p + (size_t)row * stride, tile->bytes[row], tile->row_bytes);
}

/* TDPBUSD: unsigned bytes of a, signed ones of b */
static inline void amx_dot(int to, int of, int with)
{
    struct amx_tile *const c = amx_tile(to);
    const struct amx_tile *const a = amx_tile(of), *const b = amx_tile(with);
    if (to == of || to == with || of == with || c->rows != a->rows || c->row_bytes != b->row_bytes ||
        a->row_bytes != 4 * b->rows)
        abort();
    for (int m = 0; m < c->rows; m++)
        for (int n = 0; n < c->row_bytes / 4; n++) {
            uint32_t sum;
            memcpy(&sum, &c->bytes[m][4 * n], 4);
            for (int k = 0; k < a->row_bytes; k++)
                sum += (uint32_t)(a->bytes[m][k] * (int8_t)b->bytes[k / 4][4 * n + k % 4]);
            memcpy(&c->bytes[m][4 * n], &sum, 4);
        }
}

#undef __cpuid_count
#define __cpuid_count(leaf, sub, a, b, c, d) amx_cpuid(leaf, sub, &(a), &(b), &(c), &(d))
#undef _xgetbv
#define _xgetbv(which) amx_xgetbv(which)
/* arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA), which this Linux may not know; under another name */
__attribute__((unused)) static long amx_syscall(long number, ...)
{
    va_list list;
    va_start(list, number);
    const long what = va_arg(list, long), which = va_arg(list, long);
    va_end(list);
    return number == 158 && what == 0x1023 && which == 18 ? 0 : -1;
}
#define syscall amx_syscall
#undef _tile_loadconfig
#define _tile_loadconfig(p) amx_loadconfig(p)
#undef _tile_release
#define _tile_release() amx_release()
#undef _tile_zero
#define _tile_zero(t) amx_zero(t)
#undef _tile_loadd
#define _tile_loadd(t, p, stride) amx_load(t, p, stride)
#undef _tile_stored
#define _tile_stored(t, p, stride) amx_store(t, p, stride)
#undef _tile_dpbusd
#define _tile_dpbusd(c, a, b) amx_dot(c, a, b)

#endif
