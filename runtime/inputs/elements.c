/* SPDX-License-Identifier: MIT */
/* See elements.h. */
#include "elements.h"

#include <math.h>
#include <string.h>

double element_nearest(double number, int bits, int lowest)
{
    int exponent;
    (void)frexp(number, &exponent); /* number = m 2^exponent, 1/2 <= |m| < 1 */
    const int place = exponent - bits > lowest ? exponent - bits : lowest;
    return ldexp(nearbyint(ldexp(number, -place)), place);
}

double element_rounded(enum tensor_element type, double number)
{
    const bool f16 = type == TENSOR_F16;
    if (type == TENSOR_I8)
        return isnan(number) ? 0 : fmax(-127, fmin(127, nearbyint(number)));
    if (type == TENSOR_F32 || !isfinite(number))
        return number;
    const double nearest = f16 ? element_nearest(number, 11, -24) : element_nearest(number, 8, -133);
    return fabs(nearest) <= (f16 ? 65504 : 0x1.fep127) ? nearest : copysign(INFINITY, number);
}

double element_number(enum tensor_element type, const void *data, size_t at)
{
    if (type == TENSOR_F32)
        return ((const float *)data)[at];
    if (type == TENSOR_I8)
        return ((const signed char *)data)[at];
    const uint16_t bits = ((const uint16_t *)data)[at];
    if (type == TENSOR_BF16) {
        const uint32_t wide = (uint32_t)bits << 16;
        float number;
        memcpy(&number, &wide, sizeof number);
        return number;
    }
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                      : exponent == 0  ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000) != 0 ? -size : size;
}

/* The bits of a number that bf16 or f16 represents exactly */
static uint16_t bits_of(enum tensor_element type, double number)
{
    const uint16_t sign = signbit(number) ? 0x8000 : 0;
    const double size = fabs(number);
    if (type == TENSOR_BF16) {
        const float f32 = (float)size;
        uint32_t bits;
        memcpy(&bits, &f32, sizeof bits);
        return isnan(number) ? 0x7fc0 : (uint16_t)(sign | bits >> 16);
    }
    if (!isfinite(number))
        return isnan(number) ? 0x7e00 : (uint16_t)(sign | 0x7c00);
    if (size < 0x1p-14)
        return (uint16_t)(sign | (uint16_t)ldexp(size, 24));
    int exponent;
    (void)frexp(size, &exponent); /* size = (1024 + fraction) 2^(exponent - 11) */
    return (uint16_t)(sign | ((exponent + 14) << 10) | ((uint16_t)ldexp(size, 11 - exponent) - 1024));
}

void element_put(enum tensor_element type, void *data, size_t at, double number)
{
    const double nearest = element_rounded(type, number);
    if (type == TENSOR_F32)
        ((float *)data)[at] = (float)number;
    else if (type == TENSOR_I8)
        ((signed char *)data)[at] = (signed char)nearest;
    else
        ((uint16_t *)data)[at] = bits_of(type, nearest);
}

uint64_t element_digest(uint64_t digest, enum tensor_element type, const void *data, size_t count)
{
    static const uint32_t nan[] = {[TENSOR_F32] = 0x7fc00000, [TENSOR_BF16] = 0x7fc0, [TENSOR_F16] = 0x7e00};
    const size_t size = element_size(type);
    for (size_t i = 0; i < count; i++) {
        uint32_t word = size == 4 ? ((const uint32_t *)data)[i]
                      : size == 2 ? ((const uint16_t *)data)[i] : ((const unsigned char *)data)[i];
        if (size > 1 && isnan(element_number(type, data, i)))
            word = nan[type];
        for (size_t byte = 0; byte < size; byte++, word >>= 8)
            digest = (digest ^ (word & 0xff)) * UINT64_C(0x100000001b3);
    }
    return digest;
}
