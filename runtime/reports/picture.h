/* SPDX-License-Identifier: MIT */
/* Attention weights as a picture in SVG: a panel for each head, a colour for each weight, and what the colours mean.
 *
 * Left out on purpose: computing the weights (commands/heatmap.c), averages, and any number that is no attention
 * weight.
 */
#pragma once

#include "inputs/inputs.h"
#include "labels.h"

#define HIDDEN (-1.0f) /* in place of a weight */

enum scale { LINEAR, SQRT, LOG, SCALES };

struct picture {
    const struct layer *layer;
    const struct inputs *inputs;
    const char *isa;
    size_t sequence, first_head, heads;
    size_t m;             /* keys: those of the call, and of a cache */
    enum scale scale;
    struct labels queries, keys;
    size_t block;         /* weights along the side of a pixel, which shows their maximum */
    size_t rows, columns; /* pixels of a panel */
    float *weights;       /* [heads][rows][columns] */
    float top;            /* the largest weight, at the end of the colour bar */
    bool any_hidden, any_nonfinite;
};

/* Writes it to `path`, whole or not at all. */
bool picture_draw(const struct picture *picture, const char *path, struct diag *diag);
