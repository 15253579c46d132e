/* SPDX-License-Identifier: MIT */
#include "stored.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "inputs/elements.h"

/* A scale: an f32 rounded up to `bits` significant bits, at least 2^-132 */
static double unit_above(double wanted, int bits)
{
    int exponent;
    (void)frexp(wanted, &exponent);
    const int last = 24 - bits - 149; /* an f32's last place is 2^-149 at least */
    const int place = exponent - bits > last ? exponent - bits : last;
    return wanted > 0 ? fmax(ldexp(ceil(ldexp(wanted, -place)), place), 0x1p-132) : 0;
}

/* The scale of a column of i8, or a group of i4: the largest over `parts`, as an f32, with 16 significant bits */
static double unit_of(double largest, double parts)
{
    return largest > 0 ? fmax(unit_above((double)(float)(largest / parts), 16), 0x1p-132) : 0;
}

/* Whole multiples of a unit, at most `most`; zeros without one */
static void to_multiples(const float *from, float *to, size_t count, double unit, double most)
{
    for (size_t k = 0; k < count; k++) {
        const double parts = unit != 0 ? (double)(float)((double)from[k] / unit) : 0;
        to[k] = isfinite(from[k]) ? (float)(unit * fmin(nearbyint(parts), most) + 0.0) : NAN; /* no -0 */
    }
}

static double i8_column(const float *from, float *to, size_t count)
{
    double largest = 0;
    for (size_t k = 0; k < count; k++)
        largest = isfinite(from[k]) ? fmax(largest, fabs((double)from[k])) : NAN;
    const double unit = unit_of(largest, 127);
    to_multiples(from, to, count, unit, INFINITY);
    return unit;
}

/* A group of i4. Its scale has the opposite sign of the largest number, of two equally large ones the first, which
 * becomes -8 scales; 8 become 7. */
static double i4_group(const float *from, float *to, size_t count)
{
    double largest = 0;
    for (size_t k = 0; k < count; k++)
        if (!isfinite(from[k]))
            largest = NAN;
        else if (fabs((double)from[k]) > fabs(largest))
            largest = (double)from[k];
    const double unit = copysign(unit_of(fabs(largest), 8), -largest);
    to_multiples(from, to, count, unit, 7);
    return fabs(unit);
}

/* Returns the smallest nonzero scale of a group. */
static double i4_column(const float *from, float *to, size_t count, size_t tap)
{
    double least = 0;
    for (size_t k = 0; k < count; k += tap)
        for (size_t group = 0; group < tap; group += WEIGHT_GROUP) {
            const size_t rows = tap - group < WEIGHT_GROUP ? tap - group : WEIGHT_GROUP;
            const double unit = i4_group(from + k + group, to + k + group, rows);
            least = unit > 0 && (least == 0 || unit < least) ? unit : least;
        }
    return least;
}

/* Under precision: the scale of a column. With i8 a number, or with `pairs` two neighbours of a tap, are at most 127
 * scales. With i16 a number is at most 32767 scales, or 8191 of a long column, and the sum of a tap with a row's
 * numbers of at most `levels` stays below 2^31, with half a scale more for each number. */
static double whole_unit(const struct layer *layer, bool pairs, const float *from, size_t count, size_t tap)
{
    const bool i8 = layer->precision == PRECISION_I8;
    const double levels = (double)layer_levels(layer, (int64_t)tap);
    const double room = 0.99 * (2147483647.0 / levels - 0.5 * (double)tap);
    const double most = (double)layer_column_levels(layer, (int64_t)tap);
    float wanted = 0;
    for (size_t first = 0; first < count; first += tap) {
        double sum = 0, largest = 0;
        for (size_t k = 0; k < tap; k++) {
            const float size = fabsf(from[first + k]), next = pairs && k + 1 < tap ? fabsf(from[first + k + 1]) : 0;
            const float part = (size + next) * 0x1.020408p-7f;
            if (i8 && !(pairs && k % 2 > 0) && part > wanted)
                wanted = part;
            sum += (double)size;
            largest = fmax(largest, (double)size);
        }
        if (!i8)
            wanted = fmaxf(wanted, fmaxf((float)(largest / most), (float)(sum / room)));
    }
    return unit_above((double)wanted, i8 ? 16 : 9);
}

double stored_bf16(double number)
{
    return fabs(number) < 0x1p-126 ? copysign(0, number) : element_rounded(TENSOR_BF16, number);
}

static double bf16_column(const float *from, float *to, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const double number = stored_bf16((double)from[k]);
        to[k] = isfinite(number) ? (float)(number + 0.0) : NAN; /* no -0 */
    }
    return 0;
}

double stored_whole_column(const struct layer *layer, bool pairs, const float *from, float *to, size_t count,
                           size_t tap)
{
    bool finite = true;
    if (!layer_sums_whole(layer))
        return bf16_column(from, to, count);
    for (size_t k = 0; k < count; k++)
        finite = finite && isfinite(from[k]);
    const double unit = finite ? whole_unit(layer, pairs, from, count, tap) : 0;
    for (size_t k = 0; k < count; k++) {
        const double parts = unit > 0 ? (double)(float)((double)from[k] / unit) : 0;
        to[k] = finite ? (float)(unit * nearbyint(parts) + 0.0) : NAN; /* no -0 */
    }
    return unit;
}

static double whole_row(float levels, const double *from, double *to, size_t count)
{
    float largest = 0x1p-100f;
    double check = 0;
    for (size_t k = 0; k < count; k++) {
        largest = fmaxf(largest, (float)fabs(from[k]));
        check += from[k] * 0; /* NaN once one is not finite */
    }
    const float unit = check == 0 ? largest / levels : NAN, by = levels / largest;
    for (size_t k = 0; k < count; k++)
        to[k] = (double)unit * (double)nearbyintf((float)from[k] * by);
    return (double)unit;
}

double stored_whole_row(const struct layer *layer, const double *from, double *to, size_t count)
{
    for (size_t k = 0; !layer_sums_whole(layer) && k < count; k++)
        to[k] = stored_bf16(from[k]);
    if (!layer_sums_whole(layer))
        return 1;
    return whole_row((float)layer_levels(layer, (int64_t)count), from, to, count);
}

void stored_score_rows(const struct layer *layer, const struct inputs *in, double factor, double *rows, size_t count)
{
    const size_t d = (size_t)layer->d_k;
    for (size_t r = 0; inputs_round_scores(layer, in) && factor > 0 && in->packed == NULL && r < count; r++) {
        double *const row = rows + r * d;
        for (size_t c = 0; c < d; c++)
            row[c] *= factor;
        (void)whole_row((float)layer_score_levels(layer, in->pairs), row, row, d);
        for (size_t c = 0; c < d; c++)
            row[c] /= factor;
    }
}

void stored_value_rows(const struct layer *layer, const struct inputs *in, double *rows, size_t count)
{
    const size_t d = (size_t)layer->d_v;
    for (size_t r = 0; inputs_round_values(layer, in) && in->packed == NULL && r < count; r++)
        (void)whole_row((float)layer_value_levels(layer, in->pairs), rows + r * d, rows + r * d, d);
}

void stored_rows(const struct layer *layer, const struct inputs *in, double *rows, size_t count, size_t columns)
{
    for (size_t r = 0; layer_rounds(layer) && in->packed == NULL && r < count; r++)
        (void)stored_whole_row(layer, rows + r * columns, rows + r * columns, columns);
}

double stored_column(enum tensor_element type, const float *from, float *to, size_t count, size_t tap)
{
    if (type == TENSOR_I8)
        return i8_column(from, to, count);
    if (type == TENSOR_I4)
        return i4_column(from, to, count, tap);
    for (size_t k = 0; k < count; k++) {
        const double number = element_rounded(type, from[k]);
        to[k] = isfinite(number) ? (float)number : NAN;
    }
    return 0;
}

/* Rounds columns of a tensor [...][rows][columns], or with out_in [...][columns][rows]. A convolution's tensor has an
 * axis of heads and one of taps before these; a column includes all taps. */
static void store(const struct layer *layer, bool pairs, enum layer_tensor tensor, const float *from, float *to,
                  double *least)
{
    int64_t shape[4];
    const int axes = layer_weight_shape(layer, tensor, shape);
    const size_t taps = axes == 4 ? (size_t)shape[1] : 1, groups = axes > 2 ? (size_t)shape[0] : 1;
    const size_t last = (size_t)shape[axes - 1], before = (size_t)shape[axes - 2], tap = last * before;
    const size_t rows = layer->out_in ? last : before, columns = layer->out_in ? before : last;
    const size_t row = layer->out_in ? 1 : columns, column = layer->out_in ? rows : 1;
    HEAP float *work = memory_get(taps * rows, sizeof *work);
    for (size_t at = 0; at < groups * columns; at++) {
        const size_t first = at / columns * taps * tap + at % columns * column;
        for (size_t k = 0; k < taps * rows; k++)
            work[k] = from[first + k / rows * tap + k % rows * row];
        const double unit = layer_rounds(layer) ? stored_whole_column(layer, pairs, work, work, taps * rows, rows)
                                                : stored_column(layer->weight_type, work, work, taps * rows, rows);
        if (unit > 0 && (*least == 0 || unit < *least))
            *least = unit;
        for (size_t k = 0; k < taps * rows; k++)
            to[first + k / rows * tap + k % rows * row] = work[k];
    }
}

struct inputs stored_make(struct pool *pool, const struct layer *layer, const struct inputs *from)
{
    struct inputs to = *from;
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (layer_stores_weights(layer) && layer_tensor_row(t)->kind == TENSOR_WEIGHT && from->tensor[t] != NULL) {
            to.tensor[t] = pool_get(pool, inputs_count(layer, from, t), sizeof(float));
            store(layer, from->pairs, t, inputs_floats(from, t), to.tensor[t], &to.unit[t]);
        }
    return to;
}

double stored_scale(double largest)
{
    return !isfinite(largest) ? NAN : largest > 0 ? fmax((double)(float)(largest / 127), 0x1p-126) : 0;
}

/* NaN of a row that is not finite. An error that is NaN bounds nothing. */
static double largest_of(const double *row, const double *error, double sign, size_t count)
{
    double largest = 0;
    for (size_t c = 0; c < count; c++) {
        const double off = error == NULL ? 0 : isnan(error[c]) ? INFINITY : sign * error[c];
        largest = isfinite(row[c]) && !isnan(largest) ? fmax(largest, fabs(row[c]) + off) : NAN;
    }
    return largest;
}

double stored_row(enum tensor_element type, const double *from, double *to, size_t count)
{
    const double scale = type == TENSOR_I8 ? stored_scale(largest_of(from, NULL, 0, count)) : 1;
    for (size_t c = 0; c < count; c++)
        to[c] = isnan(scale) ? NAN : scale == 0 ? 0 : scale * element_rounded(type, from[c] / scale);
    return scale;
}

void stored_put_row(const struct layer *layer, void *const cache[CACHE_PARTS], bool values, const double *row,
                    size_t at)
{
    const size_t width = inputs_cache_width(layer, values);
    const double scale = layer_scales_cache(layer) ? stored_scale(largest_of(row, NULL, 0, width)) : 1;
    for (size_t c = 0; c < width; c++)
        element_put(layer->cache_type, cache[values], at + c, scale > 0 ? row[c] / scale : row[c]);
    if (layer_scales_cache(layer))
        ((float *)cache[inputs_scales_of(layer, values)])[at / width] = (float)scale;
}

/* 0 between equal infinities */
static double distance(double a, double b) { return a == b ? 0 : fabs(a - b); }

/* With i8 the scale may be off too, and a kernel rounds the quotient to f32 before it rounds it to an integer. */
static void multiples_error(const double *from, const double *error, double *to, size_t count)
{
    const double least = largest_of(from, error, -1, count), most = largest_of(from, error, 1, count);
    const double scale = stored_scale(largest_of(from, NULL, 0, count));
    const double low = stored_scale(least), high = stored_scale(most);
    for (size_t c = 0; c < count; c++) {
        const double is = scale > 0 ? scale * element_rounded(TENSOR_I8, from[c] / scale) : 0;
        double off = 0;
        for (int ends = 0; ends < 8 && low > 0; ends++) {
            const double number = from[c] + (ends & 1 ? error[c] : -error[c]), by = ends & 2 ? low : high;
            const double parts = number / by, whole = element_rounded(TENSOR_I8, parts + (ends & 1 ? 1 : -1) *
                                                                                        0x1p-23 * fabs(parts));
            off = fmax(off, fabs((ends & 4 ? low : high) * whole - is));
        }
        to[c] = isnan(most) ? 0 : !(most <= FLT_MAX) ? INFINITY : low > 0 ? off : fabs(is) + 127 * high;
    }
}

/* Rounding is monotonic: a number between two others is stored between them. */
void stored_row_error(enum tensor_element type, const double *from, const double *error, double *to, size_t count)
{
    if (type == TENSOR_I8) {
        multiples_error(from, error, to, count);
        return;
    }
    for (size_t c = 0; c < count; c++) {
        const double is = element_rounded(type, from[c]), low = element_rounded(type, from[c] - error[c]);
        to[c] = !isfinite(error[c]) ? INFINITY
                                    : fmax(distance(element_rounded(type, from[c] + error[c]), is), distance(is, low));
    }
}
