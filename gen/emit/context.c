/* SPDX-License-Identifier: MIT */
/* What templates read: layer and plan as a table, field by field.
 *
 * Left out on purpose: decisions (plan*.c), so that attnrun can plan without templates and Lua.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emit/emit.h"
#include "expression/expression.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "spec/fast.h"
#include "spec/finish.h"
#include "spec/keys.h"
#include "spec/layer.h"
#include "spec/relative.h"
#include "spec/rope.h"
#include "spec/score.h"
#include "spec/visible.h"

struct field {
    const char *name;
    size_t offset;
};
#define FIELD(type, name) {#name, offsetof(struct type, name)}

static void push_fields(struct emit *emit, const void *base, const struct field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value;
        memcpy(&value, (const char *)base + fields[i].offset, sizeof value);
        emit_set_integer(emit, fields[i].name, value);
    }
}
#define PUSH_FIELDS(emit, base, fields) push_fields(emit, base, fields, sizeof fields / sizeof fields[0])

static const struct field panels_fields[] = {
    FIELD(plan_panels, depth), FIELD(plan_panels, inputs), FIELD(plan_panels, word),
    FIELD(plan_panels, a_scale), FIELD(plan_panels, levels),
    FIELD(plan_panels, packed_depth), FIELD(plan_panels, matrices),
    FIELD(plan_panels, k_block), FIELD(plan_panels, taps), FIELD(plan_panels, groups),
    FIELD(plan_panels, columns), FIELD(plan_panels, vecs), FIELD(plan_panels, rows),
    FIELD(plan_panels, tall_vecs), FIELD(plan_panels, low_rows), FIELD(plan_panels, rest), FIELD(plan_panels, slabs),
    FIELD(plan_panels, last_slab), FIELD(plan_panels, panels), FIELD(plan_panels, whole), FIELD(plan_panels, last_vecs),
    FIELD(plan_panels, tail_lanes), FIELD(plan_panels, panel_size), FIELD(plan_panels, group_size),
    FIELD(plan_panels, a_row), FIELD(plan_panels, a_k), FIELD(plan_panels, a_group), FIELD(plan_panels, a_tap),
    FIELD(plan_panels, a_block), FIELD(plan_panels, c_row), FIELD(plan_panels, c_group), FIELD(plan_panels, c_split),
    FIELD(plan_panels, tile_row), FIELD(plan_panels, parts_split),
    FIELD(plan_panels, group_rows), FIELD(plan_panels, prefetch), FIELD(plan_panels, prefetch_tile),
    FIELD(plan_panels, prefetch_after), FIELD(plan_panels, in_order), FIELD(plan_panels, halves),
    FIELD(plan_panels, finish), FIELD(plan_panels, part_panels), FIELD(plan_panels, parts),
    FIELD(plan_panels, behind), FIELD(plan_panels, fast), FIELD(plan_panels, fast_pairs),
    FIELD(plan_panels, fast_prefetch), FIELD(plan_panels, floats),
    FIELD(plan_panels, floats_rows),
};

static const struct field lanes_fields[] = {
    FIELD(plan_lanes, depth), FIELD(plan_lanes, groups), FIELD(plan_lanes, a_group), FIELD(plan_lanes, columns),
    FIELD(plan_lanes, unroll), FIELD(plan_lanes, unroll_rest),
    {"height_0", offsetof(struct plan_lanes, height[0])}, {"height_1", offsetof(struct plan_lanes, height[1])},
    {"count_0", offsetof(struct plan_lanes, count[0])}, {"count_1", offsetof(struct plan_lanes, count[1])},
    FIELD(plan_lanes, tiles), FIELD(plan_lanes, group_rows), FIELD(plan_lanes, pair),
    FIELD(plan_lanes, prefetch), FIELD(plan_lanes, prefetch_tile), FIELD(plan_lanes, prefetch_end),
    FIELD(plan_lanes, part_tiles), FIELD(plan_lanes, parts),
};

static const struct field isa_fields[] = {
    FIELD(plan_isa, lanes), FIELD(plan_isa, tile_rows), FIELD(plan_isa, tile_words),
    FIELD(plan_isa, vecs), FIELD(plan_isa, block), FIELD(plan_isa, rows),
    FIELD(plan_isa, rows_single), FIELD(plan_isa, key_block), FIELD(plan_isa, words_room),
    FIELD(plan_isa, values_room), FIELD(plan_isa, core_word), FIELD(plan_isa, score_levels),
    FIELD(plan_isa, value_levels), FIELD(plan_isa, weight_levels),
    FIELD(plan_isa, word), FIELD(plan_isa, corrections), FIELD(plan_isa, neighbours),
    FIELD(plan_isa, prefetch_keys), FIELD(plan_isa, prefetch_queries),
    FIELD(plan_isa, unroll_scores), FIELD(plan_isa, unroll_values),
    FIELD(plan_isa, part_blocks), FIELD(plan_isa, score_slabs), FIELD(plan_isa, last_slab),
    FIELD(plan_isa, depth_slab), FIELD(plan_isa, z_front), FIELD(plan_isa, z_back),
    FIELD(plan_isa, batch_rows), FIELD(plan_isa, batch_sources), FIELD(plan_isa, turn_width),
    {"held_q_all", offsetof(struct plan_isa, held.queries)}, {"held_keys", offsetof(struct plan_isa, held.keys)},
    {"held_values", offsetof(struct plan_isa, held.values)},
    {"held_raw_q", offsetof(struct plan_isa, held.raw_queries)},
    {"held_raw_k", offsetof(struct plan_isa, held.raw_keys)},
    FIELD(plan_isa, turn_rows), FIELD(plan_isa, stack), FIELD(plan_isa, stack_plain),
    {"packed_bytes", offsetof(struct plan_isa, bytes[OWNER_PACKED])},
    {"cached_block", offsetof(struct plan_isa, cached.key_block)},
    {"few_block", offsetof(struct plan_isa, cached.few_block)}, {"s_row", offsetof(struct plan_isa, cached.s_row)},
    {"segment", offsetof(struct plan_isa, cached.segment)}, {"segments", offsetof(struct plan_isa, cached.segments)},
    {"row_queries", offsetof(struct plan_isa, cached.queries)}, {"row_count", offsetof(struct plan_isa, cached.rows)},
    {"split", offsetof(struct plan_isa, cached.split)}, {"few_rows", offsetof(struct plan_isa, cached.few_rows)},
    {"few_queries", offsetof(struct plan_isa, cached.few_queries)}, {"ahead", offsetof(struct plan_isa, cached.ahead)},
    {"few_keys", offsetof(struct plan_isa, few.keys)}, {"few_rows_once", offsetof(struct plan_isa, few.rows)},
    {"few_values", offsetof(struct plan_isa, few.values)}, {"many_rows", offsetof(struct plan_isa, cached.many_rows)},
    {"ahead_keys", offsetof(struct plan_isa, cached.ahead_keys)},
    {"early", offsetof(struct plan_isa, cached.early)}, {"shared_rows", offsetof(struct plan_isa, cached.shared_rows)},
    {"lone_vecs", offsetof(struct plan_isa, cached.lone_vecs)},
    {"half_vecs", offsetof(struct plan_isa, cached.half_vecs)},
    {"query_vecs", offsetof(struct plan_isa, cached.query_vecs)}, FIELD(plan_isa, norm_sums),
    {"value_keys", offsetof(struct plan_isa, cached.value_keys)},
    {"value_keys_of_many", offsetof(struct plan_isa, cached.value_keys_of_many)},
    {"sweep_keys", offsetof(struct plan_isa, cached.sweep_keys)},
    {"swept_keys", offsetof(struct plan_isa, cached.swept_keys)},
    {"early_floats", offsetof(struct plan_isa, cached.early_floats)},
    {"row_vecs", offsetof(struct plan_isa, cached.vecs)}, {"low_vecs", offsetof(struct plan_isa, cached.low_vecs)},
    {"q_rows_row", offsetof(struct plan_isa, cached.q_row)}, {"o_row", offsetof(struct plan_isa, cached.o_row)},
    {"q_words_row", offsetof(struct plan_isa, cached.words_row)},
    {"back_rows", offsetof(struct plan_isa, back.rows)}, {"back_strip", offsetof(struct plan_isa, back.strip)},
    {"back_vecs", offsetof(struct plan_isa, back.vecs)},
    {"back_width", offsetof(struct plan_isa, back.width)}, {"back_unroll", offsetof(struct plan_isa, back.unroll)},
    {"back_k_row", offsetof(struct plan_isa, back.k_row)}, {"back_v_row", offsetof(struct plan_isa, back.v_row)},
    {"back_queries", offsetof(struct plan_isa, back.queries)}, {"back_keys", offsetof(struct plan_isa, back.keys)},
    {"back_key_row", offsetof(struct plan_isa, back.key_row)},
    {"back_part_rows", offsetof(struct plan_isa, back.part_rows)},
    {"back_tokens", offsetof(struct plan_isa, back.tokens)}, {"back_once", offsetof(struct plan_isa, back.once)},
    {"back_ahead", offsetof(struct plan_isa, back.ahead)}, {"back_prefetch", offsetof(struct plan_isa, back.prefetch)},
    {"chunk_rows", offsetof(struct plan_isa, back.chunk_rows)},
    {"chunk_columns", offsetof(struct plan_isa, back.chunk_columns)},
    {"relative_row", offsetof(struct plan_isa, relative.row)},
    {"relative_zero", offsetof(struct plan_isa, relative.zero)},
    {"relative_low", offsetof(struct plan_isa, relative.low)},
    {"relative_high", offsetof(struct plan_isa, relative.high)},
    {"relative_back_row", offsetof(struct plan_isa, relative.back_row)},
    {"relative_back_zero", offsetof(struct plan_isa, relative.back_zero)},
    {"relative_back_high", offsetof(struct plan_isa, relative.back_high)},
};

static const struct field height_fields[] = {
    FIELD(tile_height, rows), FIELD(tile_height, count), {"stop_0", offsetof(struct tile_height, stop[0])},
    {"stop_1", offsetof(struct tile_height, stop[1])}, FIELD(tile_height, unroll), FIELD(tile_height, prefetch),
    FIELD(tile_height, registers),
};

static void push_heights(struct emit *emit, const char *name, const struct tile_heights *heights)
{
    emit_begin_table(emit, name);
    for (int64_t i = 0; i < heights->count; i++) {
        emit_begin_item(emit);
        PUSH_FIELDS(emit, &heights->at[i], height_fields);
        emit_end(emit);
    }
    emit_end(emit);
}

/* Places in elements, and strides, as templates call them: 0 of what the plan does not have. */
static const struct { const char *name; enum layout_name of; } places[] = {
    {"q_all", LAYOUT_QUERIES}, {"keys", LAYOUT_KEYS}, {"values", LAYOUT_VALUES}, {"z", LAYOUT_Z},
    {"raw_q", LAYOUT_RAW_QUERIES}, {"raw_k", LAYOUT_RAW_KEYS}, {"d_norm_q", LAYOUT_D_NORM_Q},
    {"d_norm_k", LAYOUT_D_NORM_K},
    {"kept", LAYOUT_KEPT}, {"kept_source", LAYOUT_KEPT_SOURCE},
    {"ranges", LAYOUT_RANGES}, {"turned", LAYOUT_TURNED}, {"turned_keys", LAYOUT_TURNED_KEYS},
    {"scores", LAYOUT_SCORES}, {"visible", LAYOUT_VISIBLE}, {"operands", LAYOUT_OPERANDS}, {"tile", LAYOUT_TILE},
    {"queries", LAYOUT_Q_T}, {"words_at", LAYOUT_ROUNDED_KEYS},
    {"value_words", LAYOUT_ROUNDED_VALUES},
    {"relative", LAYOUT_RELATIVE}, {"relative_back", LAYOUT_RELATIVE_BACK},
    {"sink", LAYOUT_SINK}, {"g_q", LAYOUT_G_Q},
    {"q_rows", LAYOUT_Q_ROWS}, {"k_t", LAYOUT_K_T},
    {"dots", LAYOUT_DOTS}, {"totals", LAYOUT_TOTALS}, {"state", LAYOUT_STATE},
    {"row_scales", LAYOUT_ROW_SCALES},
    {"attn_rows", LAYOUT_ATTN_ROWS}, {"attn_split", LAYOUT_ATTN_SPLIT}, {"y", LAYOUT_Y},
    {"given_q", LAYOUT_X}, {"given_k", LAYOUT_SOURCE},
    {"partials", LAYOUT_PARTIALS}, {"c_q", LAYOUT_C_Q}, {"g_k", LAYOUT_G_K}, {"c_k", LAYOUT_C_K},
    {"turns", LAYOUT_TURNS}, {"hidden", LAYOUT_HIDDEN}, {"gates", LAYOUT_GATES},
    {"panel", LAYOUT_PANEL}, {"row_sums", LAYOUT_ROW_SUMS}, {"seven", LAYOUT_SEVEN},
    {"back_w_q", LAYOUT_BACK_W_Q}, {"back_w_k", LAYOUT_BACK_W_K}, {"back_w_v", LAYOUT_BACK_W_V},
    {"back_w_o", LAYOUT_BACK_W_O}, {"d_queries", LAYOUT_D_QUERIES}, {"d_keys", LAYOUT_D_KEYS},
    {"d_values", LAYOUT_D_VALUES}, {"d_z", LAYOUT_D_Z}, {"d_distances", LAYOUT_D_DISTANCES}, {"d_sink", LAYOUT_D_SINK},
    {"k_panels", LAYOUT_K_PANELS}, {"v_panels", LAYOUT_V_PANELS},
    {"k_blocks", LAYOUT_K_BLOCKS}, {"q_strips", LAYOUT_Q_STRIPS}, {"dz_strips", LAYOUT_DZ_STRIPS},
    {"q_panels", LAYOUT_Q_PANELS}, {"dz_panels", LAYOUT_DZ_PANELS}, {"back_p", LAYOUT_BACK_P},
    {"back_ds", LAYOUT_BACK_DS}, {"back_strips", LAYOUT_BACK_STRIPS}, {"strips", LAYOUT_STRIPS},
    {"back_sees", LAYOUT_BACK_SEES}, {"panels_of", LAYOUT_PANELS}, {"spare", LAYOUT_SPARE},
};
static const struct { const char *name; enum layout_name of; enum layout_axis axis; } steps[] = {
    {"d_distances_row", LAYOUT_D_DISTANCES, AXIS_TOKEN},
    {"q_row", LAYOUT_QUERIES, AXIS_TOKEN}, {"q_head", LAYOUT_QUERIES, AXIS_HEAD}, {"k_row", LAYOUT_KEYS, AXIS_TOKEN},
    {"k_head", LAYOUT_KEYS, AXIS_HEAD}, {"words_row", LAYOUT_ROUNDED_KEYS, AXIS_TOKEN},
    {"words_head", LAYOUT_ROUNDED_KEYS, AXIS_HEAD},
    {"value_words_head", LAYOUT_ROUNDED_VALUES, AXIS_HEAD}, {"value_words_row", LAYOUT_ROUNDED_VALUES, AXIS_TOKEN},
    {"z_row", LAYOUT_Z, AXIS_TOKEN}, {"v_row", LAYOUT_VALUES, AXIS_TOKEN},
    {"v_head", LAYOUT_VALUES, AXIS_HEAD}, {"v_feature", LAYOUT_VALUES, AXIS_FEATURE},
    {"v_block", LAYOUT_VALUES, AXIS_BLOCK},
};

static void push_layouts(struct emit *emit, const struct plan_isa *p)
{
    const struct product *transpose = plan_product(p, PRODUCT_TRANSPOSE);
    emit_set_integer(emit, "s_t", transpose != NULL ? layout_at(p, transpose->writes) : 0);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        emit_set_integer(emit, places[i].name, layout_at(p, places[i].of));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        emit_set_integer(emit, steps[i].name, p->layouts[steps[i].of].stride[steps[i].axis]);
}

/* A matrix of rows: its owner, its offset there and its row stride, in elements; false: the plan has none. */
static void push_stream(struct emit *emit, const struct plan_isa *p, const char *name, enum layout_name of)
{
    if (p->layouts[of].name == NULL) {
        emit_set_boolean(emit, name, false);
        return;
    }
    emit_begin_table(emit, name);
    const bool callers = p->layouts[of].owner == OWNER_CALLER;
    emit_set_string(emit, "caller", !callers ? "" : of == LAYOUT_X ? "x" : of == LAYOUT_Y ? "y" : "source");
    emit_set_boolean(emit, "of_keys", of == LAYOUT_SOURCE);
    emit_set_boolean(emit, "of_worker", p->layouts[of].owner == OWNER_WORKER);
    emit_set_boolean(emit, "words", p->layouts[of].element == TENSOR_I32);
    emit_set_integer(emit, "at", layout_at(p, of));
    emit_set_integer(emit, "row", p->layouts[of].stride[AXIS_TOKEN]);
    emit_end(emit);
}

/* Norms of a block's rows, in order; `label` is the prefix of their functions' names. */
static void push_rows(struct emit *emit, const struct plan_isa *p)
{
    emit_begin_table(emit, "rows_of");
    for (const struct product *g = p->products; g < p->products + p->product_count; g++) {
        if (g->kind != PRODUCT_ROWS)
            continue;
        emit_begin_item(emit);
        emit_set_string(emit, "label", g->label);
        emit_set_boolean(emit, "widens", g->rows.widens);
        emit_set_boolean(emit, "narrows", g->rows.narrows);
        emit_set_integer(emit, "once", g->rows.once);
        emit_set_integer(emit, "part_rows", g->rows.part_rows);
        emit_begin_table(emit, "steps");
        for (int64_t i = 0; i < g->rows.steps; i++) {
            const int64_t gain = LAYOUT_NORMS + 2 * (g->rows.step[i].norm - 1);
            emit_begin_item(emit);
            emit_set_integer(emit, "norm", g->rows.step[i].norm);
            emit_set_integer(emit, "gain", layout_at(p, (enum layout_name)gain));
            emit_set_integer(emit, "shift", layout_at(p, (enum layout_name)(gain + 1)));
            push_stream(emit, p, "from", g->rows.step[i].from);
            push_stream(emit, p, "residual", g->rows.step[i].residual);
            push_stream(emit, p, "to", g->rows.step[i].to);
            emit_end(emit);
        }
        emit_end(emit);
        emit_end(emit);
    }
    emit_end(emit);
}

static const struct field round_fields[] = {
    FIELD(plan_round, heads), FIELD(plan_round, numbers), FIELD(plan_round, head), FIELD(plan_round, row),
    FIELD(plan_round, word), FIELD(plan_round, room), FIELD(plan_round, levels), FIELD(plan_round, once),
    FIELD(plan_round, part_rows),
};

static const struct field operand_fields[] = {
    FIELD(sum_operand, head), FIELD(sum_operand, row), FIELD(sum_operand, numbers),
};

static const struct field through_fields[] = {
    FIELD(plan_through, heads), FIELD(plan_through, d_row), FIELD(plan_through, columns), FIELD(plan_through, c_row),
};

static const struct field sum_fields[] = {
    FIELD(plan_sum, zero), FIELD(plan_sum, heads), FIELD(plan_sum, taps), FIELD(plan_sum, c_head),
    FIELD(plan_sum, c_row), FIELD(plan_sum, part_rows), FIELD(plan_sum, chunks), FIELD(plan_sum, parts),
    FIELD(plan_sum, bias_heads),
};

/* Rows that become words, in order */
static void push_rounds(struct emit *emit, const struct plan_isa *p)
{
    emit_begin_table(emit, "rounds");
    for (const struct product *g = p->products; g < p->products + p->product_count; g++) {
        if (g->kind != PRODUCT_ROUND)
            continue;
        emit_begin_item(emit);
        emit_set_string(emit, "label", g->label);
        PUSH_FIELDS(emit, &g->round, round_fields);
        push_stream(emit, p, "from", g->reads[0]);
        push_stream(emit, p, "to", g->writes);
        emit_end(emit);
    }
    emit_end(emit);
}

/* One of the two operands of a sum over tokens: whose it is ("": backward's own), where it begins, how it lies */
static void push_operand(struct emit *emit, const struct plan_isa *p, const char *name, enum layout_name layout,
                         const struct sum_operand *of)
{
    emit_begin_table(emit, name);
    emit_set_string(emit, "caller", p->layouts[layout].owner == OWNER_CALLER ? p->layouts[layout].name : "");
    emit_set_integer(emit, "at", layout_at(p, layout));
    PUSH_FIELDS(emit, of, operand_fields);
    emit_end(emit);
}

/* Gradients of weights, in order */
static void push_sums(struct emit *emit, const struct plan_isa *p)
{
    emit_begin_table(emit, "sums");
    for (const struct product *g = p->products; g < p->products + p->product_count; g++) {
        if (g->kind != PRODUCT_SUM)
            continue;
        emit_begin_item(emit);
        emit_set_string(emit, "name", g->label);
        PUSH_FIELDS(emit, &g->sum, sum_fields);
        emit_set_boolean(emit, "of_source", g->sum.of_source);
        emit_set_boolean(emit, "joins", g->sum.joins);
        push_operand(emit, p, "a", g->reads[0], &g->sum.of[0]);
        push_operand(emit, p, "b", g->reads[1], &g->sum.of[1]);
        push_operand(emit, p, "bias", g->reads[g->sum.zero], &g->sum.bias);
        emit_end(emit);
    }
    emit_end(emit);
}

/* First operands of backward's tiles, which operand serves each reader, and the products that form dx and dsource */
static void push_back(struct emit *emit, const struct plan_isa *p)
{
    static const char *const reads[BACK_READS] = {"strips", "turned", "block", "dy", "dq", "dk", "dv"};
    emit_begin_table(emit, "back_operands");
    for (const struct back_operand *of = p->back.operands; of < p->back.operands + p->back.operand_count; of++) {
        emit_begin_item(emit);
        emit_set_string(emit, "name", of->name);
        emit_set_integer(emit, "row", of->row);
        emit_set_integer(emit, "step", of->step);
        emit_set_boolean(emit, "ranged", of->ranged);
        emit_set_boolean(emit, "apart", of->apart);
        emit_end(emit);
    }
    emit_end(emit);
    emit_begin_table(emit, "back_reads");
    for (int i = 0; i < BACK_READS && p->back.operand_count > 0; i++)
        if (p->back.read[i] >= 0)
            emit_set_integer(emit, reads[i], p->back.read[i] + 1);
    emit_end(emit);
    emit_begin_table(emit, "through");
    for (const struct product *g = p->products; g < p->products + p->product_count; g++) {
        if (g->id < PRODUCT_THROUGH_Q || g->id > PRODUCT_THROUGH_V)
            continue;
        emit_begin_item(emit);
        emit_set_string(emit, "to", p->layouts[g->writes].name);
        emit_set_string(emit, "read", reads[g->through.read]);
        emit_set_integer(emit, "d", layout_at(p, g->reads[0]));
        emit_set_boolean(emit, "weights", g->reads[1] != LAYOUT_NONE);
        emit_set_integer(emit, "w", layout_at(p, g->reads[1]));
        PUSH_FIELDS(emit, &g->through, through_fields);
        emit_set_boolean(emit, "adds", g->through.adds);
        emit_end(emit);
    }
    emit_end(emit);
}

/* Rows of two bytes that become floats, in order, and whose they are */
static void push_widens(struct emit *emit, const struct layer *layer, const struct plan_isa *p)
{
    const bool given = layer->projected;
    const char *const names[] = {given ? "q" : "x", given ? "k" : "source", "v"};
    emit_begin_table(emit, "widens");
    for (const struct product *g = p->products; g < p->products + p->product_count; g++) {
        if (g->kind != PRODUCT_WIDEN)
            continue;
        emit_begin_item(emit);
        emit_set_string(emit, "label", g->label);
        emit_set_string(emit, "tensor", names[g->id - PRODUCT_WIDEN_X]);
        emit_set_integer(emit, "numbers", g->widen.numbers);
        emit_set_integer(emit, "part_rows", g->widen.part_rows);
        emit_set_integer(emit, "at", layout_at(p, g->writes));
        emit_set_integer(emit, "row", p->layouts[g->writes].stride[AXIS_TOKEN]);
        emit_end(emit);
    }
    emit_end(emit);
}

/* The norms of a block as they are packed. */
static void push_norms(struct emit *emit, const struct layer *layer, const struct plan_isa *p)
{
    emit_begin_table(emit, "norms");
    for (enum layer_tensor t = TENSOR_N1_G; t <= TENSOR_N4_B; t++) {
        if (!layer_has_tensor(layer, t))
            continue;
        emit_begin_item(emit);
        emit_set_string(emit, "name", layer_tensor_name(t));
        emit_set_integer(emit, "at", layout_at(p, LAYOUT_NORMS + (t - TENSOR_N1_G)));
        emit_end(emit);
    }
    emit_end(emit);
}

/* Products with weights, by the prefix of their functions' names. */
static void push_products(struct emit *emit, const struct plan_isa *p)
{
    emit_begin_table(emit, "products");
    for (const struct product *g = p->products; g < p->products + p->product_count; g++) {
        if (g->kind != PRODUCT_PANELS && g->kind != PRODUCT_LANES)
            continue;
        emit_begin_table(emit, g->label);
        emit_set_integer(emit, "w", layout_at(p, LAYOUT_WEIGHTS + g->id));
        emit_set_integer(emit, "b", layout_at(p, LAYOUT_BIASES + g->id));
        emit_set_integer(emit, "scales", layout_at(p, LAYOUT_SCALES + g->id));
        emit_set_integer(emit, "sums", layout_at(p, LAYOUT_WEIGHT_SUMS + g->id));
        emit_set_boolean(emit, "bias", (g->epilogue & EPILOGUE_BIAS) != 0);
        push_stream(emit, p, "from", g->reads[0]);
        push_stream(emit, p, "to", g->writes);
        push_stream(emit, p, "residual", (g->epilogue & EPILOGUE_RESIDUAL) != 0 ? g->reads[1] : LAYOUT_NONE);
        const bool lanes = g->kind == PRODUCT_LANES;
        emit_set_string(emit, "parts_of", lanes ? g->label : g->panels.parts_of);
        emit_set_boolean(emit, "parts_placed", !lanes && g->panels.parts_placed);
        if (lanes) {
            PUSH_FIELDS(emit, &g->lanes, lanes_fields);
            emit_set_integer(emit, "behind", 0);
            emit_set_integer(emit, "fast", 0);
            emit_set_integer(emit, "floats", 0);
            emit_set_boolean(emit, "gaps", false);
        } else {
            PUSH_FIELDS(emit, &g->panels, panels_fields);
            push_heights(emit, "heights", &g->panels.heights);
            emit_set_string(emit, "tiles", g->panels.tiles);
            emit_set_boolean(emit, "tile_places", g->panels.tile_places);
            emit_set_boolean(emit, "c_of_call", g->panels.c_of_call);
            const bool adds_x = g->reads[1] == LAYOUT_X && p->layouts[LAYOUT_X].owner == OWNER_CALLER;
            emit_set_boolean(emit, "gaps", g->panels.from_caller || g->panels.to_caller || g->panels.narrows ||
                                           (adds_x && g->panels.ends));
            emit_set_boolean(emit, "narrows", g->panels.narrows);
            emit_set_boolean(emit, "apart", g->panels.apart);
            emit_set_boolean(emit, "from_caller", g->panels.from_caller);
            emit_set_boolean(emit, "to_caller", g->panels.to_caller);
            emit_set_boolean(emit, "activates", (g->epilogue & (EPILOGUE_ACTIVATION | EPILOGUE_CAP)) != 0);
        }
        emit_end(emit);
    }
    emit_end(emit);
}

/* The phases and their tasks, in order; `label` of a product's task is the prefix of its functions' names. */
static void push_phases(struct emit *emit, const char *name, const struct plan_isa *p, bool back)
{
    static const char *const overs[TASK_OVERS] = {
        [OVER_SEQUENCES] = "sequences", [OVER_ROWS] = "rows", [OVER_BLOCKS] = "blocks",
        [OVER_SEQUENCE_BLOCKS] = "sequence_blocks", [OVER_BOTH] = "both", [OVER_PANELS] = "panels",
        [OVER_HEADS] = "heads", [OVER_SEGMENTS] = "segments", [OVER_JOINED] = "joined",
        [OVER_KEY_HEADS] = "key_heads", [OVER_AGAIN] = "again", [OVER_COUNT] = "count"};
    emit_begin_table(emit, name);
    for (const struct plan_phase *phase = p->phases; phase < p->phases + p->phase_count; phase++) {
        if ((phase->id >= PHASE_BACK_TRANSPOSE) != back)
            continue;
        const struct plan_task *const first = phase->tasks, *const end = first + phase->task_count;
        emit_begin_item(emit);
        emit_set_string(emit, "word", phase->word);
        emit_set_string(emit, "name", phase->name);
        emit_set_boolean(emit, "behind", phase->behind);
        const bool attention = phase->task_count == 0 || phase->id == PHASE_TRANSPOSE || phase->id == PHASE_PROJECT ||
                               phase->id == PHASE_APPEND || phase->id == PHASE_ROUND_VALUES ||
                               phase->id == PHASE_ATTEND || phase->id == PHASE_JOIN;
        emit_set_string(emit, "kind", attention ? "attention" : phase->id == PHASE_OUTPUT ? "output" : first->word);
        emit_begin_table(emit, "tasks");
        for (const struct plan_task *task = first; task < end; task++) {
            const struct product *const g = task->product;
            emit_begin_item(emit);
            emit_set_string(emit, "kind", task->word);
            emit_set_string(emit, "label", g != NULL && g->label != NULL ? g->label : "");
            emit_set_string(emit, "over", overs[task->over]);
            emit_set_boolean(emit, "of_keys", task->of_keys);
            emit_set_integer(emit, "size", task->size);
            emit_set_integer(emit, "more", task->more);
            emit_end(emit);
        }
        emit_end(emit);
        emit_end(emit);
    }
    emit_end(emit);
}

static void push_need(struct emit *emit, const struct isa_need *need)
{
    static const char *const registers[] = {
        [ISA_LEAF_1_ECX] = "leaf_1_ecx", [ISA_LEAF_7_EBX] = "leaf_7_ebx",
        [ISA_LEAF_7_ECX] = "leaf_7_ecx", [ISA_LEAF_7_EDX] = "leaf_7_edx",
        [ISA_LEAF_7_1_EAX] = "leaf_7_1_eax", [ISA_XCR0] = "xcr0"};
    emit_begin_item(emit);
    emit_set_string(emit, "name", need->name);
    emit_set_string(emit, "where", registers[need->where]);
    emit_set_integer(emit, "bits", need->bits);
    emit_end(emit);
}

/* What a layer needs of CPU and compiler besides what the set does: for f16 numbers and integer or bf16 dot products */
#define BESIDES 3
struct besides {
    bool has;
    const char *target;
    const struct isa_need *need;
};

static void besides_of(const struct isa *isa, const struct layer *layer, bool digits, struct besides of[BESIDES])
{
    const bool f16 = layer->weight_type == TENSOR_F16 || layer->cache_type == TENSOR_F16 ||
                     layer->tensor_type == TENSOR_F16;
    const bool sums = layer_sums_whole(layer) || digits;
    of[0] = (struct besides){f16 && isa->f16_target != NULL, isa->f16_target, &isa->f16};
    of[1] = (struct besides){sums && isa->dot_target != NULL, isa->dot_target, &isa->dot};
    of[2] = (struct besides){layer->precision == PRECISION_BF16 && isa->bf16.target != NULL, isa->bf16.target,
                             &isa->bf16.need};
}

static void push_needs(struct emit *emit, const struct plan_isa *p, const struct layer *layer)
{
    const struct isa *const isa = p->isa;
    struct besides besides[BESIDES];
    char target[120];
    size_t used = (size_t)snprintf(target, sizeof target, "%s", isa->target != NULL ? isa->target : "");
    besides_of(isa, layer, p->digits, besides);
    for (size_t i = 0; i < BESIDES; i++)
        if (besides[i].has)
            used += (size_t)snprintf(target + used, sizeof target - used, ",%s", besides[i].target);
    if (p->halves) /* which all of its CPUs have */
        snprintf(target + used, sizeof target - used, ",%s", isa->half_target);
    emit_set_string(emit, "target", target);
    emit_begin_table(emit, "needs");
    for (const struct isa_need *need = isa->needs; need->name != NULL; need++)
        push_need(emit, need);
    for (size_t i = 0; i < BESIDES; i++)
        if (besides[i].has)
            push_need(emit, besides[i].need);
    emit_end(emit);
}

/* For the reader: the machines that can have the set */
static void push_runs_on(struct emit *emit, const struct isa *isa, const struct layer *layer, bool digits)
{
    struct besides besides[BESIDES];
    char text[120];
    const bool replaced = layer->precision == PRECISION_BF16 && isa->bf16.runs_on != NULL;
    size_t used = (size_t)snprintf(text, sizeof text, "%s", replaced ? isa->bf16.runs_on : isa->runs_on);
    besides_of(isa, layer, digits, besides);
    for (size_t i = 0; i < BESIDES; i++)
        if (besides[i].has)
            used += (size_t)snprintf(text + used, sizeof text - used, ", and %s", besides[i].need->name);
    emit_set_string(emit, "runs_on", text);
}

/* The preprocessor's condition for code of the set */
static void push_guard(struct emit *emit, const struct isa *isa, const struct layer *layer)
{
    char guard[240];
    const char *const first = isa->guard != NULL ? isa->guard : "";
    const char *const more = layer->precision == PRECISION_BF16 ? isa->bf16.guard : NULL;
    snprintf(guard, sizeof guard, "%s%s%s", first, more != NULL ? " && " : "", more != NULL ? more : "");
    emit_set_string(emit, "guard", guard);
}

/* All instruction sets, for the names and numbers of the interface. */
static void push_known(struct emit *emit, const struct layer *layer, bool digits)
{
    emit_begin_table(emit, "known_isas");
    for (size_t i = 0; i < isa_count; i++) {
        if (isa_table[i].dots_only && plan_isas(layer, 1u << i) == 0)
            continue;
        emit_begin_item(emit);
        emit_set_string(emit, "name", isa_table[i].name);
        emit_set_integer(emit, "id", isa_table[i].id);
        push_runs_on(emit, &isa_table[i], layer, digits && plan_digits(layer, &isa_table[i]));
        emit_end(emit);
    }
    emit_end(emit);
}

static void push_isa(struct emit *emit, const struct layer *layer, const struct plan_isa *p)
{
    emit_begin_item(emit);
    emit_set_string(emit, "isa", p->isa->name);
    emit_set_integer(emit, "id", p->isa->id);
    push_guard(emit, p->isa, layer);
    emit_set_string(emit, "header", p->isa->header != NULL ? p->isa->header : "");
    push_runs_on(emit, p->isa, layer, p->digits);
    push_needs(emit, p, layer);
    emit_set_string(emit, "vocabulary", p->isa->vocabulary);
    PUSH_FIELDS(emit, p, isa_fields);
    push_layouts(emit, p);
    push_heights(emit, "score_tiles", &p->score_tiles[PLAN_WIDE]);
    push_heights(emit, "score_tiles_single", &p->score_tiles[PLAN_SINGLE]);
    push_heights(emit, "value_tiles", &p->value_tiles[PLAN_WIDE]);
    push_heights(emit, "value_tiles_single", &p->value_tiles[PLAN_SINGLE]);
    push_heights(emit, "row_tiles", &p->cached.tiles);
    push_heights(emit, "dot_tiles", &p->cached.dot_tiles);
    push_heights(emit, "few_tiles", &p->cached.few_tiles);
    push_heights(emit, "few_panels", &p->cached.few_panels);
    emit_set_boolean(emit, "keys_in_order", p->cached.keys_in_order);
    emit_set_boolean(emit, "values_in_order", p->cached.values_in_order);
    push_heights(emit, "panels", &p->cached.panels);
    push_heights(emit, "low_panels", &p->cached.low_panels);
    push_heights(emit, "word_panels", &p->cached.word_panels);
    push_heights(emit, "back_heights", &p->back.heights);
    emit_set_boolean(emit, "digits", p->digits);
    emit_set_boolean(emit, "joint", p->joint);
    emit_set_boolean(emit, "lone_tiles", p->isa->lone_tiles);
    emit_set_boolean(emit, "fma_rows", p->isa->fma_rows);
    emit_set_boolean(emit, "paired_rows", p->isa->paired_rows);
    emit_set_integer(emit, "held_rows", p->isa->held_rows);
    emit_set_boolean(emit, "ends_iterations", p->isa->ends_iterations);
    emit_set_boolean(emit, "prefetches", p->isa->prefetches);
    emit_set_boolean(emit, "z_rows", p->z_rows);
    emit_set_boolean(emit, "z_in_q", p->z_in_q);
    emit_set_boolean(emit, "holds", p->holds);
    emit_set_boolean(emit, "value_blocks", p->value_blocks);
    emit_set_boolean(emit, "rounds_scores", p->rounds_scores);
    emit_set_boolean(emit, "rounds_values", p->rounds_values);
    emit_set_boolean(emit, "scales_weights", p->scales_weights);
    bool fast = false;
    for (const struct product *g = p->products; g < p->products + p->product_count; g++)
        fast = fast || (g->kind == PRODUCT_PANELS && g->panels.fast > 0);
    emit_set_boolean(emit, "has_fast", fast);
    emit_set_boolean(emit, "owns", fast || p->layouts[LAYOUT_PANEL].name != NULL); /* places of the worker's */
    emit_set_boolean(emit, "at_once", p->at_once);
    emit_set_boolean(emit, "fetches_values", p->fetches_values);
    emit_set_boolean(emit, "two_pass", p->two_pass);
    emit_set_boolean(emit, "peeks", p->peeks);
    emit_set_boolean(emit, "masked_apart", p->masked_apart);
    bool narrows = false; /* some panels write y in two bytes */
    for (const struct product *g = p->products; g < p->products + p->product_count; g++)
        narrows = narrows || (g->kind == PRODUCT_PANELS && g->panels.narrows);
    emit_set_boolean(emit, "narrows", narrows);
    push_products(emit, p);
    push_phases(emit, "phases", p, false);
    push_phases(emit, "back_phases", p, true);
    push_sums(emit, p);
    push_back(emit, p);
    push_rows(emit, p);
    push_rounds(emit, p);
    push_widens(emit, layer, p);
    push_norms(emit, layer, p);
    const struct product *transpose = plan_product(p, PRODUCT_TRANSPOSE);
    push_stream(emit, p, "transposed", transpose != NULL ? transpose->reads[0] : LAYOUT_NONE);
    push_stream(emit, p, "input", p->layouts[LAYOUT_NORMED].name != NULL ? LAYOUT_NORMED : LAYOUT_X);
    push_stream(emit, p, "x", LAYOUT_X);
    emit_begin_table(emit, "tables");
    for (size_t i = 0; i < layer->table_count; i++) {
        const struct layout *const table = &p->layouts[LAYOUT_TABLES + i];
        emit_begin_item(emit);
        emit_set_string(emit, "name", table->name);
        emit_set_integer(emit, "at", layout_at(p, LAYOUT_TABLES + i));
        emit_set_integer(emit, "size", layout_elements(table));
        emit_set_integer(emit, "run", layout_at(p, LAYOUT_RUNS + i));
        emit_set_integer(emit, "row", table->shape[AXIS_FEATURE]);
        emit_end(emit);
    }
    emit_end(emit);
    emit_begin_table(emit, "reasons");
    for (int r = 0; r < p->reason_count; r++) {
        emit_begin_item(emit);
        emit_set_string(emit, "text", p->reasons[r]);
        emit_end(emit);
    }
    emit_end(emit);
    emit_end(emit);
}

/* The fields of keys, and those that follow from them */
static void push_keys(struct emit *emit, const struct layer *layer)
{
    static const struct field fields[] = {
        {"PAGE_COUNT", offsetof(struct layer, page_count)}, {"CACHE_APART", offsetof(struct layer, cache_apart)},
        {"D_IN_Q", offsetof(struct layer, d_in_q)}, {"D_IN_KV", offsetof(struct layer, d_in_kv)},
    };
    PUSH_FIELDS(emit, layer, fields);
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

static const char *text_or_empty(const char *text)
{
    return text != NULL ? text : "";
}

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
        emit_set_string(emit, "tensor", term->tensor < TENSOR_COUNT ? layer_tensor_name(term->tensor) : "");
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

/* With a cache keys lie along the lanes, and what is said of p and j is true the other way round. */
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
    struct expression_range *ranges = calloc(count + 1, sizeof *ranges);
    bool *wide = calloc(2 * count + 2, sizeof *wide);
    bool *chosen = wide != NULL ? wide + count + 1 : NULL; /* by floats, which are in lanes */
    int overflows;
    if (ranges != NULL && wide != NULL && e != NULL)
        (void)expression_ranges(e, &box, ranges, &overflows); /* they fit: the spec was checked */
    emit_begin_table(emit, name);
    for (size_t i = 0; ranges != NULL && wide != NULL && i < count; i++) {
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
    free(ranges);
    free(wide);
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
    emit_set_boolean(emit, "t5", t5);
    emit_set_boolean(emit, "both", relative_both(layer));
    emit_set_integer(emit, "left", left);
    emit_set_integer(emit, "right", right);
    emit_set_integer(emit, "side", t5 ? relative_side(layer) : 0);
    emit_set_integer(emit, "rel_left", layer->rel_left);
    emit_set_integer(emit, "width", layer->rel_width);
    emit_set_integer(emit, "numbers", layer->h * (t5 ? layer->rel_buckets : layer->rel_width));
    emit_begin_table(emit, "first");
    for (int64_t k = 0; t5 && k < relative_side(layer) / 2; k++) {
        const int64_t first = relative_first(layer, k);
        if (first > (left > right ? left : right))
            break;
        emit_begin_item(emit);
        emit_set_integer(emit, "distance", first);
        emit_end(emit);
    }
    emit_end(emit);
    emit_end(emit);
}

/* The C type of an element */
static const char *word_of(enum tensor_element element)
{
    static const char *const words[] = {
        [TENSOR_F32] = "float", [TENSOR_I32] = "int32_t", [TENSOR_BOOL] = "unsigned char", [TENSOR_BF16] = "uint16_t",
        [TENSOR_F16] = "uint16_t", [TENSOR_I8] = "int8_t", [TENSOR_I4] = "uint8_t"};
    return words[element];
}

/* All tensors; those that the layer lacks are fields of the interface too. */
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
        const bool own = t == TENSOR_W || t == TENSOR_B || t == TENSOR_K_SCALE || t == TENSOR_V_SCALE;
        const bool named = row->kind == TENSOR_NAMED && !layer_has_tensor(layer, t);
        if (named || (own && t < TENSOR_Y ? !layer_is_linear(layer) : own && !layer_has_tensor(layer, t)))
            continue;
        layer_tensor_text(layer, t, shape);
        emit_begin_item(emit);
        emit_set_string(emit, "name", layer_tensor_called(layer, t));
        emit_set_string(emit, "kind", kinds[row->kind]);
        emit_set_boolean(emit, "own", own); /* a field that only such layers have, behind the others */
        emit_set_string(emit, "type", word_of(layer_tensor_element(layer, t)));
        emit_set_string(emit, "shape", shape);
        emit_set_string(emit, "field", text_or_empty(row->field));
        emit_set_string(emit, "note", text_or_empty(row->note));
        emit_set_boolean(emit, "has", layer_has_tensor(layer, t));
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
    emit_set_integer(emit, "ROPE_DIMS", turns ? layer->rope.dims : 0);
    /* the packed block may lack a row's cosines and sines: a phase of their own makes them */
    emit_set_boolean(emit, "ROPE_MADE",
                     turns && !layer->projected && (layer->rope.given || layer_has_cache(layer)));
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
        emit_end(emit);
    }
    emit_end(emit);
}

static void push_layer(struct emit *emit, const struct layer *layer)
{
    emit_set_string(emit, "NAME", layer->name);
    push_keys(emit, layer);
    const struct { const char *name; bool value; } flags[] = {
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
        {"DROPOUT", layer_dropped(layer) > 0},
        {"WEIGHTS", layer->scores == SCORES_WEIGHTS}, {"MERGES", layer->lse && layer->w_o == W_O_NONE},
        {"VISIBLE_BLOCKS", !layer_has_cache(layer) && visible_by_blocks(layer)},
        {"VISIBLE_RANGES", layer_has_cache(layer) && visible_by_blocks(layer) && !layer->scores},
        {"MASKS_PLACED", score_masks_placed(layer)},
        {"SCORES_FALL_TO_LOWEST", layer->score != NULL || score_has(layer, SCORE_MASK_ADD)},
        {"EXPRESSED", layer->score != NULL || layer->visible != NULL},
        {"BLOCK_RMS", layer->block_rms}, {"NORMS_FIRST", layer_norms_first(layer)},
        {"GATED", layer_ffn_gated(layer)},
        {"ATTENDS", layer_attends(layer)}, {"LINEAR", layer_is_linear(layer)}, {"FFN", layer_has_ffn(layer)},
        {"NORMS", layer_norms(layer) > 0}, {"PADS", !layer_attends(layer) && layer->pad_skipped},
        {"STORED", layer_stores_weights(layer)},
        {"WHOLE", layer_sums_whole(layer)},
        {"SCALED", layer_stores_weights(layer) && layer->weight_type != TENSOR_I4},
        {"CACHE_STORED", layer_stores_cache(layer)}, {"TYPED", layer_types_tensors(layer)},
        {"CACHE_SCALED", layer_scales_cache(layer)},
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        emit_set_boolean(emit, flags[i].name, flags[i].value);
    const enum layer_activation activation = layer_activation(layer);
    emit_set_string(emit, "ACTIVATION", activation != ACTIVATION_NONE ? key_word(KEY_ACTIVATION, activation) : "");
    emit_set_number(emit, "CAP", layer->cap); /* of y; 0: there is none */
    emit_set_boolean(emit, "SHORT_WEIGHTS", layer_shortens_weights(layer)); /* their exponentials */
    emit_set_boolean(emit, "ROUNDS_SCORES", layer_rounds_scores(layer, false));
    emit_set_boolean(emit, "ROUNDS_VALUES", layer_rounds_values(layer, false));
    emit_set_boolean(emit, "PAIRS_ROUND_SCORES", layer_rounds_scores(layer, true)); /* on sets that sum pairs first */
    emit_set_boolean(emit, "PAIRS_ROUND_VALUES", layer_rounds_values(layer, true));
    /* of packed weights, and what C has for it */
    emit_set_string(emit, "WEIGHT_TYPE", element_name(layer->weight_type));
    emit_set_integer(emit, "WEIGHT_BYTES", (int64_t)element_size(layer->weight_type));
    emit_set_string(emit, "WEIGHT", layer_rounds(layer) ? "int32_t" : word_of(layer->weight_type));
    emit_set_integer(emit, "WEIGHT_GROUP", layer->weight_type == TENSOR_I4 ? WEIGHT_GROUP : 0);
    /* likewise of a caller's activations */
    emit_set_string(emit, "TENSOR_TYPE", element_name(layer->tensor_type));
    emit_set_string(emit, "TENSOR_WORD", word_of(layer->tensor_type));
    /* and of a cache */
    emit_set_string(emit, "CACHE_TYPE", element_name(layer->cache_type));
    emit_set_integer(emit, "CACHE_ELEMENT_BYTES", (int64_t)element_size(layer->cache_type));
    emit_set_string(emit, "CACHE_ELEMENT", word_of(layer->cache_type));
    /* scores that attn has in place of weights */
    emit_set_string(emit, "SHOWN", layer->scores > SCORES_WEIGHTS ? key_word(KEY_SCORES, layer->scores) : "");
    emit_set_integer(emit, "DROPPED", layer_dropped(layer));
    emit_set_number(emit, "KEPT_FACTOR", 1 / (1 - layer->dropout));
    char equation[SCORE_TEXT];
    score_equation(layer, "scale Q_i K_i^T", "", equation);
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
    push_tensors(emit, layer);
    emit_set_integer(emit, "CONV_PAD", layer_conv_pad(layer));
    const struct layer_cost cost = layer_multiply_adds(layer, layer->seq_len, layer->source_len);
    emit_set_number(emit, "MULTIPLY_ADDS", cost.total);
    emit_set_integer(emit, "PARAMETERS", layer_parameters(layer).total);
}

void plan_context(const struct plan *plan, const struct layer *layer, struct emit *emit)
{
    push_layer(emit, layer);
    emit_set_boolean(emit, "FAST", plan_has_fast(plan));
    emit_set_integer(emit, "FAST_AHEAD", FAST_AHEAD);
    emit_set_integer(emit, "FAST_NUMBERS", FAST_NUMBERS);
    emit_set_integer(emit, "FAST_LEVELS", FAST_LEVELS);
    emit_set_integer(emit, "FAST_ROWS", FAST_ROWS);
    emit_set_boolean(emit, "DIGITS", plan->digits); /* on some set products with weights read digits of rows */
    emit_set_integer(emit, "DIGIT_GROUP", WEIGHT_GROUP);
    emit_set_integer(emit, "DIGIT_STEPS", DIGIT_STEPS(layer->weight_type));
    emit_set_integer(emit, "DIGIT_ADDED", DIGIT_ADDED(layer->weight_type));
    emit_set_integer(emit, "ROUND_ROWS", ROUND_ROWS);
    emit_set_boolean(emit, "FOLDS_SCORES", plan->fold.scores);
    emit_set_boolean(emit, "FOLDS_VALUES", plan->fold.values);
    emit_set_boolean(emit, "VALUES_ARE_INPUT", plan->fold.values || layer->identity);
    emit_set_boolean(emit, "Q_IS_K", plan->fold.q_is_k);
    emit_set_integer(emit, "D_SCORE", plan->fold.d_score);
    emit_set_integer(emit, "D_VALUE", plan->fold.d_value);
    emit_set_integer(emit, "D_Z", plan->fold.d_z);
    emit_set_integer(emit, "PACKED_BYTES", plan->packed_bytes);
    emit_set_integer(emit, "SHARED_BYTES", plan->shared_bytes);
    emit_set_integer(emit, "WORKER_BYTES", plan->worker_bytes);
    emit_set_integer(emit, "KEPT_BYTES", plan->kept_bytes);
    emit_set_integer(emit, "HELD", plan->held);
    emit_set_integer(emit, "LARGEST_ROW", plan->largest_row);
    emit_set_integer(emit, "LARGEST_SOURCE_ROW", plan->largest_source_row);
    emit_set_integer(emit, "BACK_SHARED_BYTES", plan->back_shared_bytes);
    emit_set_integer(emit, "BACK_BYTES", plan->back_bytes);
    emit_set_integer(emit, "BACK_WORKER_BYTES", plan->back_worker_bytes);
    emit_set_integer(emit, "KEPT", layer_kept(layer));
    static const char *const groups[] = {[GROUP_ALL] = "all", [GROUP_QUERIES] = "queries",
                                         [GROUP_SOURCES_APART] = "sources apart", [GROUP_BOTH] = "both"};
    emit_set_string(emit, "GROUPS", groups[plan_group(layer)]);
    push_known(emit, layer, plan->digits);
    push_phases(emit, "phases", &plan->isas[0], false);
    push_phases(emit, "back_phases", &plan->isas[0], true);
    emit_begin_table(emit, "plans");
    for (int64_t i = 0; i < plan->count; i++)
        push_isa(emit, layer, &plan->isas[i]);
    emit_end(emit);
}
