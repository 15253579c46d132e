/* SPDX-License-Identifier: MIT */
/* The terms of a score: one table for all that may happen to q·k before the softmax.
 *
 *   s = q·k, then each term that the layer has, in the table's order, then what the masks among them hide: -infinity
 *
 * A new term is a row of score_rows.h, its hook templates/score/score_NAME.in where tiles of scores see it, its key or
 * word in key_rows.h, and its row in runtime/reference/terms.c: its value in double and its error. A tensor that it has
 * is a row of tensor.c.
 *
 * Left out on purpose: which keys a mask of position leaves (visible.h).
 */
#pragma once

#include "spec/layer.h"

enum score_place {
    SCORE_PACKED,     /* in the packed weights: no tile of scores sees it */
    SCORE_COUNTED,    /* what it hides is never scored: keys are counted exactly */
    SCORE_TILES,      /* hides nothing: the hook is applied where a register tile of scores ends */
    SCORE_EDGES,      /* the hook is for tiles that a rule of visible.h cuts */
    SCORE_EVERYWHERE  /* every tile of scores goes through the hook, in a pass of its own */
};

/* How backward makes a term's derivative by the score that it is given. A term whose row does not say is refused with
 * train = true. */
enum score_gradient {
    GRADIENT_NONE,
    GRADIENT_ONE,   /* it is added, or packed with the queries */
    GRADIENT_ZERO,  /* where it hides; else 1 */
    GRADIENT_SLOPE  /* it bends: its hook's part "slope", and `sloped` of runtime/reference/gradient.c */
};

struct score_term {
    const char *name;     /* "mask_add": of its hook */
    unsigned mask;        /* bit of struct layer's mask, a word of the key `mask` (key_rows.h); 0: none */
    enum score_place place;
    const char *operand;  /* [key][lane] of a worker's scratch that the hook fills from the tensor; NULL: none */
    const char *equation; /* the score: '@' is what it was, '#' the number, '$' the indices; NULL: it stays */
    const char *sees;     /* "j < lengths[b]": when a key is seen; NULL: always, or visible.h says */
    bool reaches;         /* its rules in visible.h have offsets from the spec */
    bool lifts;           /* later scores of a row may be far larger than earlier ones */
    bool placed;          /* its hook needs the positions of query and key */
    bool falls;           /* with |p - j|, without end: of near keys scores may be far larger than of those before */
    bool bends;           /* not linear: what is added to all scores of a row before it changes the weights */
    enum score_gradient gradient;
    double operations;    /* vector operations for each vector of scores, beyond those of every hook (expect.c) */
};
extern const struct score_term score_terms[SCORE_TERMS];

/* The reference asks it of every term of every pair. */
static inline bool score_has(const struct layer *layer, enum score_name term)
{
    const struct score_term *of = &score_terms[term];
    return of->mask != 0 ? (layer->mask & of->mask) != 0 : of->place == SCORE_PACKED || layer->number[term] != 0;
}
/* The tensor that a mask brings; TENSOR_COUNT: none. */
enum layer_tensor score_tensor(enum score_name term);
/* Terms with an operand. */
int score_operands(const struct layer *layer);
/* Whether the weights, or what else a call writes, change where a number is added to all of a row's q·k. */
bool score_is_absolute(const struct layer *layer);
/* The first term of the layer that has no gradient; SCORE_TERMS: all have. */
enum score_name score_untrained(const struct layer *layer);
/* Whether some term is SCORE_EVERYWHERE; whether a tile of scores may go through a mask's hook; whether some term
 * lifts or falls: m may have to follow the scores. */
bool score_everywhere(const struct layer *layer);
bool score_hooked(const struct layer *layer);
bool score_lifts(const struct layer *layer);
/* Whether some term of register tiles is placed; some mask; whether some term falls. */
bool score_placed(const struct layer *layer);
bool score_masks_placed(const struct layer *layer);
bool score_falls(const struct layer *layer);
/* Powers of 2 by which a score must exceed the one that others are relative to, to take its place, where terms lift. */
int score_lift(const struct layer *layer);
/* SCORE_ALIBI: the slope of a head. */
double score_slope(const struct layer *layer, int64_t head);

/* The equation from `scaled` on, an expression for scale q·k: with "[t][j]" for indices "… + mask_add[t][j]". */
#define SCORE_TEXT 200
void score_equation(const struct layer *layer, const char *scaled, const char *indices, char text[SCORE_TEXT]);
