/* SPDX-License-Identifier: MIT */
/* A head's share of matrices and rows of all heads.
 *
 * Left out on purpose: what is computed with them (equations.c).
 */
#include "reference.h"

#include <string.h>

/* Element [r][c] of a matrix of R rows and C columns in the order in_out, whatever its layout */
static double matrix_at(const struct layer *layer, const float *matrix, size_t R, size_t C, size_t r, size_t c)
{
    return layer->out_in ? matrix[c * R + r] : matrix[r * C + c];
}

/* The head's columns of one matrix, or under split its own matrix */
void reference_projection(double *out, const struct layer *layer, const float *w, size_t in, size_t d, size_t i,
                          size_t heads)
{
    const float *matrix = layer->split ? w + i * in * d : w;
    size_t columns = layer->split ? d : heads * d, first = layer->split ? 0 : i * d;
    for (size_t r = 0; r < in; r++)
        for (size_t c = 0; c < d; c++)
            out[r * d + c] = matrix_at(layer, matrix, in, columns, r, first + c);
}

void reference_output(double *out, const struct layer *layer, const float *w, size_t i)
{
    const size_t h = (size_t)layer->h, d_v = (size_t)layer_z_width(layer), d_model = (size_t)layer->d_model;
    if (layer->w_o == W_O_DENSE) {
        for (size_t r = 0; r < d_v; r++)
            for (size_t c = 0; c < d_model; c++)
                out[r * d_model + c] = matrix_at(layer, w, h * d_v, d_model, i * d_v + r, c);
    } else if (layer->w_o == W_O_CONV) {
        const size_t taps = (size_t)layer->conv_width, width = d_model / h, size = d_v * width;
        for (size_t tap = 0; tap < taps; tap++)
            for (size_t r = 0; r < d_v; r++)
                for (size_t c = 0; c < width; c++)
                    out[tap * size + r * width + c] = matrix_at(layer, w + (i * taps + tap) * size, d_v, width, r, c);
    }
}

void reference_take_head(double *to, const double *all, const struct layer *layer, size_t i, size_t rows)
{
    const size_t d_v = (size_t)layer->d_v, row = (size_t)layer->h * d_v;
    for (size_t r = 0; r < rows; r++)
        memcpy(to + r * d_v, all + r * row + i * d_v, d_v * sizeof *to);
}

void reference_keep_head(double *all, const double *from, const struct layer *layer, size_t i, size_t rows)
{
    const size_t d_v = (size_t)layer->d_v, row = (size_t)layer->h * d_v;
    for (size_t r = 0; r < rows; r++)
        memcpy(all + r * row + i * d_v, from + r * d_v, d_v * sizeof *all);
}
