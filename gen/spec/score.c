/* SPDX-License-Identifier: MIT */
/* The table of score terms, and what is read off it. */
#include "spec/score.h"

#include "expression/expression.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct score_term score_terms[SCORE_TERMS] = {
    [SCORE_SCALE] = {"scale", .place = SCORE_PACKED, .tensor = TENSOR_COUNT, .gradient = GRADIENT_ONE},
    [SCORE_SOFTCAP] = {"softcap", .place = SCORE_TILES, .tensor = TENSOR_COUNT,
                       .equation = "# tanh(@ / #)", .bends = true, .operations = 22, .gradient = GRADIENT_SLOPE},
    [SCORE_ALIBI] = {"alibi", .place = SCORE_TILES, .tensor = TENSOR_COUNT, .equation = "@ - slope_i |p - j|",
                     .falls = true, .placed = true, .operations = 3, .gradient = GRADIENT_ONE},
    [SCORE_RELATIVE] = {"relative", .place = SCORE_TILES, .tensor = TENSOR_COUNT, .equation = "@ + rel_bias_i(j - p)",
                        .placed = true, .operations = 2, .gradient = GRADIENT_ONE},
    [SCORE_EXPRESSION] = {"expression", .place = SCORE_TILES, .tensor = TENSOR_COUNT, .equation = "score(@)",
                          .placed = true},
    [SCORE_HIDING] = {"hiding", .place = SCORE_EVERYWHERE, .tensor = TENSOR_COUNT, .equation = "score(@)",
                      .sees = "its score is not -infinity", .lifts = true, .placed = true},
    [SCORE_CAUSAL] = {"causal", .mask = MASK_CAUSAL, .place = SCORE_EDGES, .tensor = TENSOR_COUNT,
                      .gradient = GRADIENT_ZERO},
    [SCORE_PADDING] = {"padding", .mask = MASK_PADDING, .place = SCORE_COUNTED,
                       .tensor = TENSOR_LENGTHS, .sees = "j < lengths[b]", .gradient = GRADIENT_ZERO},
    [SCORE_NO_SELF] = {"no_self", .mask = MASK_NO_SELF, .place = SCORE_EDGES,
                       .tensor = TENSOR_COUNT, .gradient = GRADIENT_ZERO},
    [SCORE_WINDOW] = {"window", .mask = MASK_WINDOW, .place = SCORE_EDGES, .tensor = TENSOR_COUNT,
                      .reaches = true, .gradient = GRADIENT_ZERO},
    [SCORE_MASK_BOOL] = {"mask_bool", .mask = MASK_BOOL, .place = SCORE_EVERYWHERE,
                         .tensor = TENSOR_MASK_BOOL, .sees = "mask_bool is not 0", .gradient = GRADIENT_ZERO},
    [SCORE_MASK_ADD] = {"mask_add", .mask = MASK_ADDITIVE, .place = SCORE_EVERYWHERE,
                        .tensor = TENSOR_MASK_ADD, .operand = "added", .equation = "@ + mask_add$",
                        .sees = "mask_add is not -infinity", .lifts = true, .gradient = GRADIENT_ZERO},
    [SCORE_PREFIX] = {"prefix", .mask = MASK_PREFIX, .place = SCORE_EDGES,
                      .tensor = TENSOR_PREFIX, .gradient = GRADIENT_ZERO},
    [SCORE_SEGMENTS] = {"segments", .mask = MASK_SEGMENTS, .place = SCORE_EDGES,
                        .tensor = TENSOR_COUNT, .sees = "both are of one segment", .gradient = GRADIENT_ZERO},
    [SCORE_VISIBLE] = {"visible", .place = SCORE_EVERYWHERE, .tensor = TENSOR_COUNT, .sees = "visible is true",
                       .placed = true, .gradient = GRADIENT_ZERO},
};

int score_operands(const struct layer *layer)
{
    int count = 0;
    for (enum score_name term = 0; term < SCORE_TERMS; term++)
        count += score_terms[term].operand != NULL && score_has(layer, term);
    return count;
}

bool score_is_absolute(const struct layer *layer)
{
    bool any = layer->sink || layer->lse || layer->scores > SCORES_WEIGHTS;
    for (enum score_name term = 0; term < SCORE_TERMS; term++)
        any = any || (score_terms[term].bends && score_has(layer, term));
    return any || (layer->score != NULL && !expression_adds(layer->score));
}

enum score_name score_untrained(const struct layer *layer)
{
    enum score_name term = 0;
    while (term < SCORE_TERMS && (!score_has(layer, term) || score_terms[term].gradient != GRADIENT_NONE))
        term++;
    return term;
}

bool score_everywhere(const struct layer *layer)
{
    bool any = false;
    for (enum score_name term = 0; term < SCORE_TERMS; term++)
        any = any || (score_terms[term].place == SCORE_EVERYWHERE && score_has(layer, term));
    return any;
}

bool score_hooked(const struct layer *layer)
{
    bool any = false;
    for (enum score_name term = 0; term < SCORE_TERMS; term++)
        any = any || (score_terms[term].place >= SCORE_EDGES && score_has(layer, term));
    return any;
}

bool score_lifts(const struct layer *layer)
{
    bool any = score_falls(layer);
    for (enum score_name term = 0; term < SCORE_TERMS; term++)
        any = any || (score_terms[term].lifts && score_has(layer, term));
    return any;
}

bool score_placed(const struct layer *layer)
{
    bool any = false;
    for (enum score_name term = 0; term < SCORE_TERMS; term++)
        any = any || (score_terms[term].placed && score_terms[term].place == SCORE_TILES && score_has(layer, term));
    return any;
}

bool score_masks_placed(const struct layer *layer)
{
    bool any = false;
    for (enum score_name term = 0; term < SCORE_TERMS; term++)
        any = any || (score_terms[term].placed && score_terms[term].place == SCORE_EVERYWHERE &&
                      score_has(layer, term));
    return any;
}

bool score_falls(const struct layer *layer)
{
    bool any = false;
    for (enum score_name term = 0; term < SCORE_TERMS; term++)
        any = any || (score_terms[term].falls && score_has(layer, term));
    const struct expression *e = layer->score; /* may do anything with positions */
    return any || (score_has(layer, SCORE_EXPRESSION) &&
                   (e->nodes[e->root].reads & (READS_P | READS_J | READS_TABLE)) != 0);
}

int score_lift(const struct layer *layer)
{
    return score_falls(layer) ? 32 : 64;
}

/* Press et al.: with h a power of two 2^(-8 (i + 1) / h). Else those of the next lower power of two, then every other
 * one of twice as many heads. */
double score_slope(const struct layer *layer, int64_t head)
{
    int64_t power = 1;
    while (2 * power <= layer->h)
        power *= 2;
    return head < power ? exp2(-8 * (double)(head + 1) / (double)power)
                        : exp2(-4 * (double)(2 * (head - power) + 1) / (double)power);
}

/* `pattern` with its marks replaced. */
static void replace(const char *pattern, const char *score, const char *number, const char *indices,
                    char text[SCORE_TEXT])
{
    size_t used = 0;
    for (const char *c = pattern; *c != '\0' && used < SCORE_TEXT; c++) {
        const char one[2] = {*c, '\0'};
        const char *part = *c == '@' ? score : *c == '#' ? number : *c == '$' ? indices : one;
        used += (size_t)snprintf(text + used, SCORE_TEXT - used, "%s", part);
    }
}

void score_equation(const struct layer *layer, const char *scaled, const char *indices, char text[SCORE_TEXT])
{
    snprintf(text, SCORE_TEXT, "%s", scaled);
    for (enum score_name term = 0; term < SCORE_TERMS; term++) {
        char before[SCORE_TEXT], number[32];
        if (score_terms[term].equation == NULL || !score_has(layer, term))
            continue;
        memcpy(before, text, sizeof before);
        snprintf(number, sizeof number, "%.9g", layer->number[term]);
        replace(score_terms[term].equation, before, number, indices, text);
    }
}
