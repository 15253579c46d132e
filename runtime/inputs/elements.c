/* SPDX-License-Identifier: MIT */
#include "elements.h"

#include <math.h>

double element_nearest(double number, int bits, int lowest)
{
    int exponent;
    (void)frexp(number, &exponent); /* number = m 2^exponent, 1/2 <= |m| < 1 */
    const int place = exponent - bits > lowest ? exponent - bits : lowest;
    return ldexp(nearbyint(ldexp(number, -place)), place);
}

double element_rounded(enum tensor_element type, double number)
{
    const struct element *const of = &element_rows[type];
    if (type == TENSOR_I8)
        return isnan(number) ? 0 : fmax(-127, fmin(127, nearbyint(number)));
    if (type == TENSOR_F32 || !isfinite(number))
        return number;
    const double nearest = element_nearest(number, of->bits, of->lowest);
    return fabs(nearest) <= of->most ? nearest : copysign(INFINITY, number);
}

double element_number(enum tensor_element type, const void *data, size_t at)
{
    if (type == TENSOR_F32)
        return ((const float *)data)[at];
    if (type == TENSOR_I8)
        return ((const signed char *)data)[at];
    const struct element *const of = &element_rows[type];
    const unsigned bits = ((const uint16_t *)data)[at], size = bits & 0x7fff, exponent = size >> (of->bits - 1);
    const unsigned steps = exponent > 1 ? exponent - 1 : 0; /* of the place, from the lowest one up */
    const double places = size - (steps << (of->bits - 1));
    const double number = size > of->infinite ? NAN : size == of->infinite ? INFINITY
                        : ldexp(places, (int)steps + of->lowest);
    return (bits & 0x8000) != 0 ? -number : number;
}

uint32_t element_nan(enum tensor_element type)
{
    return element_rows[type].infinite + (UINT32_C(1) << (element_rows[type].bits - 2));
}

/* The bits of a number that a type of two bytes represents exactly */
static uint16_t bits_of(enum tensor_element type, double number)
{
    const uint16_t sign = signbit(number) ? 0x8000 : 0;
    const struct element *const of = &element_rows[type];
    if (!isfinite(number))
        return (uint16_t)(isnan(number) ? element_nan(type) : sign | of->infinite);
    int exponent; /* the number is a multiple of 2^(exponent - bits), and of 2^lowest */
    (void)frexp(number, &exponent);
    const int place = number != 0 && exponent - of->bits > of->lowest ? exponent - of->bits : of->lowest;
    const unsigned steps = (unsigned)(place - of->lowest);
    return (uint16_t)(sign | ((unsigned)ldexp(fabs(number), -place) + (steps << (of->bits - 1))));
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
    const size_t size = element_size(type);
    for (size_t i = 0; i < count; i++) {
        uint32_t word = size == 4 ? ((const uint32_t *)data)[i]
                      : size == 2 ? ((const uint16_t *)data)[i] : ((const unsigned char *)data)[i];
        if (size > 1 && isnan(element_number(type, data, i)))
            word = element_nan(type);
        for (size_t byte = 0; byte < size; byte++, word >>= 8)
            digest = (digest ^ (word & 0xff)) * UINT64_C(0x100000001b3);
    }
    return digest;
}
