/* SPDX-License-Identifier: MIT */
/* The table of score terms, and what is read off it. */
#include "spec/score.h"

#include "expression/expression.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TERM(id, of_hook, of_place, ...) [SCORE_##id] = {.name = #of_hook, .place = SCORE_##of_place, __VA_ARGS__},
const struct score_term score_terms[SCORE_TERMS] = {
#include "spec/score_rows.h"
};

enum layer_tensor score_tensor(enum score_name term)
{
    return score_terms[term].mask != 0 ? layer_mask_tensor(score_terms[term].mask) : TENSOR_COUNT;
}

int score_operands(const struct layer *layer)
{
    int count = 0;
    for (enum score_name term = 0; term < SCORE_TERMS; term++)
        count += score_terms[term].operand != NULL && score_has(layer, term);
    return count;
}

/* Whether the layer has a term of places `first` to `last` with this flag: offsetof() a bool of its row, or 0. */
static bool any(const struct layer *layer, enum score_place first, enum score_place last, size_t flag)
{
    bool any = false;
    for (enum score_name t = 0; t < SCORE_TERMS; t++)
        any = any || (score_has(layer, t) && score_terms[t].place >= first && score_terms[t].place <= last &&
                      (flag == 0 || *((const bool *)(const void *)&score_terms[t] + flag)));
    return any;
}
#define FLAG(name) (offsetof(struct score_term, name) / sizeof(bool))

bool score_is_absolute(const struct layer *layer)
{
    return layer->sink || layer->lse || layer->scores > SCORES_WEIGHTS ||
           any(layer, SCORE_PACKED, SCORE_EVERYWHERE, FLAG(bends)) ||
           (layer->score != NULL && !expression_adds(layer->score));
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
    return any(layer, SCORE_EVERYWHERE, SCORE_EVERYWHERE, 0);
}

bool score_hooked(const struct layer *layer)
{
    return any(layer, SCORE_EDGES, SCORE_EVERYWHERE, 0);
}

bool score_lifts(const struct layer *layer)
{
    return score_falls(layer) || any(layer, SCORE_PACKED, SCORE_EVERYWHERE, FLAG(lifts));
}

bool score_placed(const struct layer *layer)
{
    return any(layer, SCORE_TILES, SCORE_TILES, FLAG(placed));
}

bool score_masks_placed(const struct layer *layer)
{
    return any(layer, SCORE_EVERYWHERE, SCORE_EVERYWHERE, FLAG(placed));
}

bool score_falls(const struct layer *layer)
{
    const struct expression *e = layer->score; /* may do anything with positions */
    return any(layer, SCORE_PACKED, SCORE_EVERYWHERE, FLAG(falls)) ||
           (score_has(layer, SCORE_EXPRESSION) &&
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
