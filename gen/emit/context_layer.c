/* SPDX-License-Identifier: MIT */
#include "emit/emit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arith.h"
#include "base/memory.h"
#include "expression/expression.h"
#include "plan/rule.h"
#include "spec/finish.h"
#include "spec/keys.h"
#include "spec/layer.h"
#include "spec/relative.h"
#include "spec/rope.h"
#include "spec/score.h"
#include "spec/visible.h"

/* The fields of keys, and those that follow from them */
static void push_keys(struct emit *emit, const struct layer *layer)
{
    emit_set_integers(emit, EMITTED(
        {"PAGE_COUNT", layer->page_count}, {"CACHE_APART", layer->cache_apart}, {"D_IN_Q", layer->d_in_q},
        {"H_OUT", layer->h_out}));
    const int64_t state = layer_state_numbers(layer), of_conv = layer->conv_channels * layer->conv_history;
    emit_set_integers(emit, EMITTED(
        {"STATE_SIZE", state}, /* numbers of a sequence */
        {"STATES_SIZE", max(state, of_conv)}, /* of the larger one */
        {"CONV_HISTORY", layer->conv_history}, {"CONV_STATE_SIZE", of_conv}, {"D_IN_KV", layer->d_in_kv}));
    for (enum key key = 0; key < KEY_COUNT; key++) {
        const char *name = key_rows[key].context;
        const enum field_type type = name != NULL ? key_rows[key].type : FIELD_NONE;
        const int64_t whole = key_whole(layer, key);
        if (type == FIELD_SWITCH)
            emit_set_boolean(emit, name, whole != 0);
        else if (type == FIELD_WHOLE)
            emit_set_integer(emit, name, whole);
        else if (type == FIELD_REAL)
            emit_set_number(emit, name, key_real(layer, key));
        else if (type == FIELD_WORD)
            emit_set_string(emit, name, whole != 0 ? key_word(key, whole) : "");
    }
}

/* The rules by which kernels test positions. */
static void push_rules(struct emit *emit, const struct layer *layer)
{
    static const char *const kinds[] = {[VISIBLE_TO] = "to", [VISIBLE_FROM] = "from", [VISIBLE_NOT] = "not"};
    struct visible_rule rules[VISIBLE_RULES];
    const int count = visible_rules(layer, rules);
    emit_begin_table(emit, "position_rules");
    for (int i = 0; i < count; i++) {
        emit_begin_item(emit);
        emit_set_string(emit, "kind", kinds[rules[i].kind]);
        emit_set_integer(emit, "offset", rules[i].offset);
        emit_set_integer(emit, "cut", rules[i].cut);
        emit_set_boolean(emit, "lifted", rules[i].lifted);
        emit_end(emit);
    }
    emit_end(emit);
}

static const char *text_or_empty(const char *text) { return text != NULL ? text : ""; }

/* "window (3 back, 2 ahead)", as the banner says it */
static void push_words(struct emit *emit, const struct layer *layer, const struct score_term *term)
{
    struct visible_rule rules[VISIBLE_RULES];
    struct layer alone = *layer;
    char text[100];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", term->mask != 0 ? key_word(KEY_MASK, term->mask) : "");
    alone.mask = term->mask;
    const int count = term->reaches ? visible_rules(&alone, rules) : 0;
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld %s", i == 0 ? " (" : ", ",
                                 llabs((long long)rules[i].offset), rules[i].kind == VISIBLE_FROM ? "back" : "ahead");
    snprintf(text + used, sizeof text - used, "%s", count > 0 ? ")" : "");
    emit_set_string(emit, "words", text);
}

/* The terms that the layer has. */
static void push_terms(struct emit *emit, const struct layer *layer)
{
    static const char *const places[] = {[SCORE_PACKED] = "packed", [SCORE_COUNTED] = "counted",
                                         [SCORE_TILES] = "tiles", [SCORE_EDGES] = "edges",
                                         [SCORE_EVERYWHERE] = "everywhere"};
    int64_t operands = 0;
    emit_begin_table(emit, "score_terms");
    for (enum score_name i = 0; i < SCORE_TERMS; i++) {
        const struct score_term *term = &score_terms[i];
        if (!score_has(layer, i))
            continue;
        emit_begin_item(emit);
        emit_set_string(emit, "name", term->name);
        push_words(emit, layer, term);
        emit_set_string(emit, "kind", places[term->place]);
        emit_set_string(emit, "sees", text_or_empty(term->sees));
        emit_set_string(emit, "operand", text_or_empty(term->operand));
        emit_set_string(emit, "tensor", score_tensor(i) < TENSOR_COUNT ? layer_tensor_name(score_tensor(i)) : "");
        emit_set_integer(emit, "operand_at", operands);
        emit_set_number(emit, "number", layer->number[i]);
        emit_set_boolean(emit, "placed", term->placed);
        emit_set_boolean(emit, "slopes", term->gradient == GRADIENT_SLOPE);
        emit_end(emit);
        operands += term->operand != NULL;
    }
    emit_end(emit);
}

static void push_slopes(struct emit *emit, const struct layer *layer)
{
    emit_begin_table(emit, "alibi_slopes");
    for (int64_t i = 0; score_has(layer, SCORE_ALIBI) && i < layer->h; i++) {
        emit_begin_item(emit);
        emit_set_number(emit, "slope", score_slope(layer, i));
        emit_end(emit);
    }
    emit_end(emit);
}

/* How often an operation of an expression is evaluated: once a head, key or query, or once for each pair. */
static const char *class_of(unsigned reads)
{
    const bool of_query = (reads & READS_P) != 0, of_key = (reads & READS_J) != 0;
    return (reads & READS_S) != 0 || (of_query && of_key) ? "pair" : of_query ? "query" : of_key ? "key" : "head";
}

/* With a cache keys lie along the lanes, and p and j are exchanged. */
static void exchange(struct expression_node *n)
{
    const unsigned others = n->reads & ~(unsigned)(READS_P | READS_J);
    n->op = n->op == NODE_P ? NODE_J : n->op == NODE_J ? NODE_P : n->op;
    n->reads = others | ((n->reads & READS_P) != 0 ? READS_J : 0) | ((n->reads & READS_J) != 0 ? READS_P : 0);
}

#define EXACT (INT64_C(1) << 23) /* integers below it, and sums of two, are exact in f32 */

/* The nodes of an expression, in order. Integers that depend on the query are kept as floats in lanes where these are
 * exact. `wide` ones are not exact; they, and integers and conditions made of them, are computed lane by lane. */
static void push_expression(struct emit *emit, const char *name, const struct expression *e, const struct layer *layer)
{
    static const char *const types[] = {
        [EXPRESSION_INTEGER] = "integer", [EXPRESSION_FLOAT] = "float", [EXPRESSION_CONDITION] = "condition"};
    static const struct { const char *name; unsigned bit; } reads[] = {
        {"s", READS_S}, {"i", READS_I}, {"p", READS_P}, {"j", READS_J}, {"table", READS_TABLE}};
    const struct expression_box box = visible_box(layer);
    const size_t count = e != NULL ? (size_t)e->count : 0;
    HEAP struct expression_range *ranges = memory_get(count, sizeof *ranges);
    HEAP bool *wide = memory_get(2 * count, sizeof *wide);
    bool *chosen = wide + count; /* by floats, which are in lanes */
    int overflows;
    if (e != NULL)
        (void)expression_ranges(e, &box, ranges, &overflows); /* they fit: the spec was checked */
    emit_begin_table(emit, name);
    for (size_t i = 0; i < count; i++) {
        struct expression_node node = e->nodes[i], *n = &node;
        const int of[] = {n->a, n->b, n->c}, operands = expression_operands(n->op);
        if (layer_has_cache(layer))
            exchange(n);
        wide[i] = n->type == EXPRESSION_INTEGER && (ranges[i].low < -EXACT || ranges[i].high > EXACT);
        for (int k = 0; k < operands && n->type != EXPRESSION_FLOAT; k++) {
            wide[i] = wide[i] || (wide[of[k]] && e->nodes[of[k]].type == EXPRESSION_INTEGER);
            chosen[i] = chosen[i] || chosen[of[k]] || e->nodes[of[k]].type == EXPRESSION_FLOAT;
        }
        const bool lanes = chosen[i] || (n->reads & (READS_S | READS_P)) != 0;
        emit_begin_item(emit);
        emit_set_string(emit, "op", expression_op_name(n->op));
        emit_set_string(emit, "type", types[n->type]);
        emit_set_string(emit, "class", class_of(n->reads));
        emit_set_boolean(emit, "wide", lanes && wide[i]);
        emit_set_boolean(emit, "chosen", chosen[i]);
        emit_set_boolean(emit, "may_be_zero", n->type == EXPRESSION_FLOAT ? ranges[i].least <= 0 && ranges[i].most >= 0
                                                                          : ranges[i].low <= 0 && ranges[i].high >= 0);
        emit_set_integer(emit, "operands", operands);
        for (int k = 0; k < 3; k++)
            emit_set_integer(emit, k == 0 ? "a" : k == 1 ? "b" : "c", of[k] + 1);
        emit_set_integer(emit, "table", n->table + 1);
        emit_set_integer(emit, "integer", n->integer);
        emit_set_number(emit, "number", n->number);
        for (size_t k = 0; k < sizeof reads / sizeof *reads; k++) {
            char key[20];
            snprintf(key, sizeof key, "reads_%s", reads[k].name);
            emit_set_boolean(emit, key, (n->reads & reads[k].bit) != 0);
        }
        emit_end(emit);
    }
    emit_end(emit);
}

/* The smallest distance of each of `count` wider buckets, as far as calls reach */
static void push_wider(struct emit *emit, const struct layer *layer, int64_t count,
                       int64_t (*first)(const struct layer *, int64_t), int64_t reach)
{
    emit_begin_table(emit, "first");
    for (int64_t k = 0; k < count && first(layer, k) <= reach; k++) {
        emit_begin_item(emit);
        emit_set_integer(emit, "distance", first(layer, k));
        emit_end(emit);
    }
    emit_end(emit);
}

/* The range of distances with numbers of their own, and within it the smallest distance of each wider T5 bucket. */
static void push_relative(struct emit *emit, const struct layer *layer)
{
    int64_t left = 0, right = 0;
    const bool t5 = layer->relative == RELATIVE_T5;
    if (layer->relative == RELATIVE_NONE)
        return;
    relative_reach(layer, &left, &right);
    emit_begin_table(emit, "relative");
    emit_set_integers(emit, EMITTED(
        {"left", left}, {"right", right}, {"side", t5 ? relative_side(layer) : 0}, {"rel_left", layer->rel_left},
        {"width", layer->rel_width}, {"numbers", layer->h * (t5 ? layer->rel_buckets : layer->rel_width)}));
    emit_set_boolean(emit, "t5", t5);
    emit_set_boolean(emit, "both", relative_both(layer));
    push_wider(emit, layer, t5 ? relative_side(layer) / 2 : 0, relative_first, max(left, right));
    emit_end(emit);
}

/* The vectors of distances: from where on they are the same, and the smallest distance of each wider bucket */
static void push_vectors(struct emit *emit, const struct layer *layer)
{
    const bool log = layer->rel_rows == ROWS_LOG;
    int64_t left = 0, right = 0;
    if (!layer_has_vectors(layer))
        return;
    relative_reach(layer, &left, &right);
    emit_begin_table(emit, "vectors");
    emit_set_integers(emit, EMITTED(
        {"left", left}, {"right", right}, {"rel_right", layer->rel_right}, {"rows", layer->rel_width},
        {"buckets", layer->rel_buckets}));
    emit_set_boolean(emit, "log", log);
    push_wider(emit, layer, log ? ceil_div(layer->rel_buckets, 2) : 0, relative_wider, max(left, right));
    emit_end(emit);
}

/* The tensors of the layer */
static void push_tensors(struct emit *emit, const struct layer *layer)
{
    static const char *const kinds[] = {[TENSOR_OF_CALL] = "call", [TENSOR_OF_PAIRS] = "pairs",
                                        [TENSOR_WEIGHT] = "weight", [TENSOR_BIAS] = "bias",
                                        [TENSOR_LEARNED] = "learned", [TENSOR_NAMED] = "table",
                                        [TENSOR_OUTPUT] = "output", [TENSOR_CACHE] = "cache"};
    emit_begin_table(emit, "tensors");
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        const struct layer_tensor_row *row = layer_tensor_row(t);
        char shape[LAYER_SHAPE_TEXT];
        if (!layer_has_tensor(layer, t))
            continue;
        layer_tensor_text(layer, t, shape);
        emit_begin_item(emit);
        emit_set_integer(emit, "number", t); /* of enum layer_tensor */
        emit_set_string(emit, "name", layer_tensor_called(layer, t));
        emit_set_string(emit, "kind", kinds[row->kind]);
        emit_set_string(emit, "element", element_name(layer_tensor_element(layer, t)));
        emit_set_string(emit, "type", element_rows[layer_tensor_element(layer, t)].word);
        emit_set_string(emit, "shape", shape);
        emit_set_string(emit, "note", text_or_empty(row->note));
        emit_set_boolean(emit, "has_gradient", layer_has_gradient(layer, t));
        emit_set_boolean(emit, "of_queries", layer_tensor_has_axis(layer, t, "n"));
        emit_set_boolean(emit, "of_keys", layer_tensor_has_axis(layer, t, "m"));
        emit_end(emit);
    }
    emit_end(emit);
}

/* Norm and rotation of queries and keys. */
static void push_finish(struct emit *emit, const struct layer *layer)
{
    const bool turns = layer->rope.kind != ROPE_NONE;
    emit_set_boolean(emit, "FINISHES", layer_finishes(layer));
    emit_set_boolean(emit, "FINISH_COPIES", layer->projected); /* from the caller's rows */
    emit_set_boolean(emit, "NORM_GAINS", layer_has_tensor(layer, TENSOR_G_Q));
    emit_set_integer(emit, "ROPE_DIMS", turns || layer_is_latent(layer) ? layer->rope.dims : 0);
    /* the packed block may lack a row's cosines and sines: a phase of their own makes them */
    emit_set_boolean(emit, "ROPE_MADE", layer_makes_turns(layer));
    emit_set_integer(emit, "ROPE_AXES", turns ? layer->rope.axes : 1); /* positions of a token */
    char text[FINISH_TEXT];
    norm_text(layer, 'q', text);
    emit_set_string(emit, "NORM_TEXT", text);
    rope_text(layer, text);
    emit_set_string(emit, "ROPE_TEXT", text);
    emit_begin_table(emit, "rope_steps");
    for (int64_t c = 0; turns && c < layer->rope.dims / 2; c++) {
        const struct rope_step step = rope_step(layer, c);
        emit_begin_item(emit);
        emit_set_integer(emit, "high", (int64_t)step.high);
        emit_set_integer(emit, "low", step.low);
        emit_set_number(emit, "radians", step.radians);
        emit_set_integer(emit, "axis", layer->rope.axes > 1 ? layer_axis_of(layer, c) : 0);
        emit_end(emit);
    }
    emit_end(emit);
}

void context_layer(const struct layer *layer, struct emit *emit)
{
    emit_set_string(emit, "NAME", layer->name);
    push_keys(emit, layer);
    emit_set_booleans(emit, EMITTED(
        {"SPLIT", layer->split}, {"SCORES", layer->scores},
        {"DENSE", layer->w_o == W_O_DENSE}, {"CONV", layer->w_o == W_O_CONV}, {"CONCAT", layer->w_o == W_O_NONE},
        {"PADDING", (layer->mask & MASK_PADDING) != 0}, {"EVERYWHERE", score_everywhere(layer)},
        {"HOOKED", score_hooked(layer)}, {"LIFTS", score_lifts(layer)}, {"OFFSET", layer->offset != OFFSET_NONE},
        {"PREFIX", (layer->mask & MASK_PREFIX) != 0},
        {"SEGMENTS", (layer->mask & MASK_SEGMENTS) != 0},
        {"PAST", layer->offset == OFFSET_PAST}, {"CACHED", layer_has_cache(layer)},
        {"RING", layer->cache == CACHE_RING}, {"PAGED", layer->cache == CACHE_PAGED},
        {"SELF", layer->self}, {"PROJECTED", layer->projected},
        {"PLACED", score_placed(layer)},
        {"FALLS", score_falls(layer)}, {"RELATIVE", layer->relative != RELATIVE_NONE},
        {"VECTORS", layer_has_vectors(layer)},
        {"DROPOUT", layer_dropped(layer) > 0},
        {"WEIGHTS", layer->scores == SCORES_WEIGHTS}, {"MERGES", layer->lse && layer->w_o == W_O_NONE},
        {"VISIBLE_BLOCKS", !layer_has_cache(layer) && visible_by_blocks(layer)},
        {"VISIBLE_RANGES", layer_has_cache(layer) && visible_by_blocks(layer) && !layer->scores},
        {"MASKS_PLACED", score_masks_placed(layer)},
        {"SCORES_FALL_TO_LOWEST", layer->score != NULL || score_has(layer, SCORE_MASK_ADD)},
        {"EXPRESSED", layer->score != NULL || layer->visible != NULL},
        {"BLOCK_RMS", layer->block_rms}, {"NORMS_FIRST", layer_norms_first(layer)},
        {"GATED", layer_ffn_gated(layer)},
        {"ATTENDS", layer_attends(layer)}, {"LINEAR", layer_is_linear(layer)},
        {"RECURRENT", layer_is_recurrent(layer)}, {"DECAYS", layer_decays(layer)},
        {"CORRECTS", layer_corrects(layer)}, {"HAS_BETA", layer_has_beta(layer)},
        {"CONVOLVES", layer_is_convolution(layer)},
        {"STATEFUL", layer_has_tensor(layer, TENSOR_STATE) || layer_has_tensor(layer, TENSOR_CONV_STATE)},
        {"IN_CHUNKS", rule_chunk(layer, NULL) > 1},
        {"DECAY_COLUMN", layer_decays(layer) && layer->decay == DECAY_COLUMN},
        {"FFN", layer_has_ffn(layer)},
        {"NORMS", layer_norms(layer) > 0}, {"PADS", !layer_attends(layer) && layer->pad_skipped},
        {"STORED", layer_stores_weights(layer)},
        {"WHOLE", layer_sums_whole(layer)},
        {"SCALED", layer_stores_weights(layer) && layer->weight_type != TENSOR_I4},
        {"CACHE_STORED", layer_stores_cache(layer)}, {"TYPED", layer_types_tensors(layer)},
        {"CACHE_SCALED", layer_scales_cache(layer)}, {"IDENTITY", layer->identity}, {"SHARES", layer->shares},
        {"LATENT", layer_is_latent(layer)}));
    const enum layer_activation activation = layer_activation(layer);
    emit_set_string(emit, "ACTIVATION", activation != ACTIVATION_NONE ? key_word(KEY_ACTIVATION, activation) : "");
    emit_set_string(emit, "ACTIVATION_TEXT", text_or_empty(layer_activation_rows[activation].equation));
    emit_set_string(emit, "BLOCK_EQUATION", layer_block_equation(layer));
    emit_set_number(emit, "ALPHA", layer_alpha(layer));
    emit_set_number(emit, "CAP", layer->cap); /* of y; 0: there is none */
    emit_set_boolean(emit, "SHORT_WEIGHTS", layer_shortens_weights(layer)); /* their exponentials */
    emit_set_boolean(emit, "ROUNDS_SCORES", layer_rounds_scores(layer, false));
    emit_set_boolean(emit, "ROUNDS_VALUES", layer_rounds_values(layer, false));
    emit_set_boolean(emit, "PAIRS_ROUND_SCORES", layer_rounds_scores(layer, true)); /* on sets that sum pairs first */
    emit_set_boolean(emit, "PAIRS_ROUND_VALUES", layer_rounds_values(layer, true));
    /* element of packed weights: its name, bytes, C type */
    emit_set_string(emit, "WEIGHT_TYPE", element_name(layer->weight_type));
    emit_set_integer(emit, "WEIGHT_BYTES", (int64_t)element_size(layer->weight_type));
    emit_set_string(emit, "WEIGHT", layer_rounds(layer) ? "int32_t" : element_rows[layer->weight_type].word);
    emit_set_integer(emit, "WEIGHT_INFINITE", element_rows[layer->weight_type].infinite);
    emit_set_string(emit, "WEIGHT_TOO_LARGE", text_or_empty(element_rows[layer->weight_type].too_large));
    emit_set_integer(emit, "WEIGHT_GROUP", layer->weight_type == TENSOR_I4 ? WEIGHT_GROUP : 0);
    /* element of the caller's activations: its name, C type */
    emit_set_string(emit, "TENSOR_TYPE", element_name(layer->tensor_type));
    emit_set_string(emit, "TENSOR_TOO_LARGE", text_or_empty(element_rows[layer->tensor_type].too_large));
    emit_set_string(emit, "TENSOR_WORD", element_rows[layer->tensor_type].word);
    /* element of a cache: its name, bytes, C type */
    emit_set_string(emit, "CACHE_TYPE", element_name(layer->cache_type));
    emit_set_integer(emit, "CACHE_ELEMENT_BYTES", (int64_t)element_size(layer->cache_type));
    emit_set_string(emit, "CACHE_ELEMENT", element_rows[layer->cache_type].word);
    /* where values are cached, and numbers from row to row there */
    emit_set_string(emit, "V_CACHE", layer->shares ? "k_cache" : "v_cache");
    emit_set_string(emit, "V_CACHE_ROW", layer->shares ? "D_K" : "D_V");
    emit_set_integers(emit, EMITTED(
        {"D_NOPE", layer->latent.d_nope}, {"D_HEAD", layer->latent.d_head}, {"D_UP", layer_z_width(layer)},
        {"CACHED_NUMBERS", layer_cached_numbers(layer)}));
    /* scores that attn has in place of weights */
    emit_set_string(emit, "SHOWN", layer->scores > SCORES_WEIGHTS ? key_word(KEY_SCORES, layer->scores) : "");
    emit_set_integer(emit, "DROPPED", layer_dropped(layer));
    emit_set_number(emit, "KEPT_FACTOR", 1 / (1 - layer->dropout));
    char equation[SCORE_TEXT];
    char products[SCORE_TEXT];
    snprintf(products, sizeof products, "scale %s%s%s%s%s", layer_has_vectors(layer) ? "(" : "",
             layer->rel_biases ? "(Q_i + rel_u_i) K_i^T" : "Q_i K_i^T",
             layer->rel_keys == VECTORS_NONE ? "" : layer->rel_biases ? " + (Q_i + rel_v_i) rel_k(p - j)"
                                                                      : " + Q_i rel_k(p - j)",
             layer->rel_queries == VECTORS_NONE ? "" : " + K_i rel_q(p - j)", layer_has_vectors(layer) ? ")" : "");
    score_equation(layer, products, "", equation);
    emit_set_string(emit, "EQUATION", equation);
    push_finish(emit, layer);
    push_rules(emit, layer);
    push_terms(emit, layer);
    push_expression(emit, "score_nodes", layer->score_kernel, layer);
    push_expression(emit, "visible_nodes", layer->visible_kernel, layer);
    emit_set_string(emit, "SCORE_TEXT", layer->score != NULL ? layer->score->text : "");
    emit_set_string(emit, "VISIBLE_TEXT", layer->visible != NULL ? layer->visible->text : "");
    emit_set_integer(emit, "LIFT", score_lift(layer));
    push_slopes(emit, layer);
    push_relative(emit, layer);
    push_vectors(emit, layer);
    push_tensors(emit, layer);
    emit_set_integer(emit, "CONV_PAD", layer_conv_pad(layer));
    const struct layer_cost cost = layer_multiply_adds(layer, layer->seq_len, layer->source_len);
    emit_set_number(emit, "MULTIPLY_ADDS", cost.total);
    emit_set_integer(emit, "PARAMETERS", layer_parameters(layer).total);
}
