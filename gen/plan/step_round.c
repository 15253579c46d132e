/* SPDX-License-Identifier: MIT */
/* Rows as words of whole numbers or of bf16, under precision, and as digits: what products of such numbers read. A row
 * of whole numbers is followed by its scale.
 *
 * Left out on purpose: the products (step_panels.c).
 */
#include "plan/planning.h"

/* Whether products with weights read other rows than floats */
bool reads_rounded(const struct plan_isa *p)
{
    return p->word > 1 || p->digits;
}

/* The rows that a step rounds: numbers of a head, or of all heads as one; 0: the layer does not have the step */
static int64_t rounded_rows(const struct plan_isa *p, const struct layer *layer, const struct step *g,
                            enum layout_name *from)
{
    const bool attends = layer_attends(layer), conv = layer->w_o == W_O_CONV;
    *from = g->reads[0];
    switch (g->id) {
    case STEP_ROUND_X:
        *from = attends ? input_read(layer, true) : rows_read(p, layer);
        return layer->projected ? 0 : attends ? layer->d_in_q : layer->d_model;
    case STEP_ROUND_SOURCE: return layer->cross ? layer->d_in_kv : 0;
    case STEP_ROUND_KEYS: return attends && !layer_has_cache(layer) && p->rounds_scores ? layer->d_k : 0;
    case STEP_ROUND_Z: return !attends || layer->w_o == W_O_NONE ? 0
                            : p->layouts[LAYOUT_Z].shape[AXIS_FEATURE] * (conv ? 1 : layer->h);
    case STEP_ROUND_STREAM:
        *from = rows_read(p, layer);
        return attends && layer_has_ffn(layer) ? layer->d_model : 0;
    default: return layer->d_ff;
    }
}

bool plan_round(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    enum layout_name from;
    const int64_t numbers = reads_rounded(p) ? rounded_rows(p, layer, g, &from) : 0;
    if (numbers == 0)
        return false;
    const struct layout *const l = &p->layouts[from];
    const int64_t tokens = max(l->shape[AXIS_TOKEN], max(p->batch_rows, p->batch_sources));
    const int64_t heads = l->stride[AXIS_HEAD] * l->shape[AXIS_HEAD] == numbers ? 1 : l->shape[AXIS_HEAD];
    const bool keys = g->id == STEP_ROUND_KEYS;
    const int64_t word = keys ? p->core_word : p->word;
    const int64_t room = p->digits ? round_up(numbers, WEIGHT_GROUP)
                                   : round_up(numbers, max(p->lanes, word)) / word; /* whole vectors are written */
    const int64_t head = room + (p->whole ? 1 : 0);
    const int64_t bytes = heads * numbers * (int64_t)element_size(TENSOR_F32);
    g->reads[0] = from;
    g->round = (struct plan_round){
        .heads = heads, .numbers = numbers, .head = l->stride[AXIS_HEAD], .row = l->stride[AXIS_TOKEN],
        .word = word, .room = room,
        .levels = keys ? p->score_levels : p->word > 1 ? layer_levels(layer, numbers) : 0,
        .once = min(ROUND_ROWS, max(1, (int64_t)p->isa->l1d_bytes / 2 / bytes)),
        .part_rows = ceil_div(PART_NUMBERS, heads * numbers)};
    const bool tiled = !keys && takes_registers(p, word, ceil_div(numbers, word)); /* rows begin with a cache line */
    p->layouts[g->writes] = rows_of(g->name, OWNER_SCRATCH, heads, tokens, ceil_div(numbers, word),
                                          heads > 1 ? head : 0,
                                          row_stride(p, tiled ? round_up(heads * head, LINE_FLOATS) : heads * head));
    p->layouts[g->writes].element = TENSOR_I32;
    if (keys)
        p->words_room = room;
    g->over = keys && layer->projected && !layer_finishes(layer) ? OVER_SEQUENCE_BLOCKS : OVER_ROWS;
    g->size = g->over == OVER_ROWS ? g->round.part_rows : p->block;
    g->more = g->id == STEP_ROUND_Z ? p->z_front + p->z_back : 0;
    return true;
}

/* Values as the weighted sums of whole numbers read them: words of the same feature of core_word keys of a sequence,
 * the first a multiple of that, then the scales of all. */
bool plan_round_values(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    if (!layer_attends(layer) || layer_has_cache(layer) || !p->rounds_values)
        return false;
    /* without padding sequences may begin at any token, and each at the word of that number */
    const int64_t own = layer->pad_skipped ? layer->source_len : ceil_div(layer->source_len, p->core_word);
    const int64_t several = max(own, p->batch_sources);
    p->values_room = round_up(layer->d_v, p->lanes);
    const int64_t row = row_stride(p, p->values_room + p->core_word);
    p->layouts[LAYOUT_ROUNDED_VALUES] = rows_of(g->name, OWNER_SCRATCH, layer->h_kv, several, layer->d_v,
                                                several * row, row);
    p->layouts[LAYOUT_ROUNDED_VALUES].element = TENSOR_I32;
    g->reads[0] = values_read(layer);
    g->over = layer->source_kept ? OVER_BLOCKS : OVER_SEQUENCE_BLOCKS; /* a kept source is one sequence, or none */
    g->of_keys = layer->cross || layer->projected;
    return true;
}

/* Fields of a product that reads words */
void reads_words(const struct plan_isa *p, const struct step *step, struct plan_panels *g)
{
    for (const struct step *of = p->steps; reads_rounded(p) && of < p->steps + p->step_count; of++)
        if (of->kind == KIND_ROUND && of->writes == step->reads[0]) {
            g->word = p->word;
            g->depth = ceil_div(of->round.numbers, p->word);
            g->inputs = of->round.numbers;
            g->a_scale = of->round.room;
            g->levels = of->round.levels;
        }
}
