/* SPDX-License-Identifier: MIT */
/* Why the plan is as it is, for --explain and the banner: every choice that could have been another one, in the
 * reader's units; and the plan's lists. Left out on purpose: choosing.
 */
#include "plan/planning.h"

#include "base/memory.h"
#include "expression/expression.h"
#include "spec/score.h"
#include "spec/visible.h"

#include <stdlib.h>
#include <string.h>

static void explain_fold(struct plan_isa *p, const struct layer *layer)
{
    const struct plan_fold *f = p->fold;
    if (f->scores)
        reason(p, "%s is folded when packing (%+.3g multiply-adds): keys are the input, " D64 " wide instead "
               "of " D64, layer->tied ? "W_Q W_Q^T" : "W_Q W_K^T", -f->saved_scores, f->d_score, layer->d_k);
    if (f->values)
        reason(p, "W_V W_O is folded when packing (%+.3g multiply-adds): values are the input, " D64 " wide "
               "instead of " D64, -f->saved_values, f->d_value, layer->d_v);
    if (f->q_is_k)
        reason(p, "queries are the keys times the scale: projected once");
    else if (layer->tied && !layer->cross && layer_has_tensor(layer, TENSOR_G_Q))
        reason(p, "queries have gains of their own, so they are projected separately from the keys, with the same "
               "matrix");
}

/* What weights become when they are packed. */
static void explain_weights(struct plan_isa *p, const struct layer *layer)
{
    if (!layer_stores_weights(layer))
        return;
    if (layer->precision == PRECISION_BF16) {
        reason(p, "products with matrices take bf16, two in a 32-bit word, and sum in f32%s. Products of "
               "weights are not folded%s",
               p->isa->bf16.need.name != NULL ? ", by the processor's dot product of two" : "",
               despite_request(p));
        return;
    }
    if (layer_rounds(layer)) {
        if (!layer->projected || layer->w_o != W_O_NONE)
            reason(p, "products with matrices take integers, " D64 " in a 32-bit word; sums are exact, and each row "
                   "and column has a scale. Products of weights are not folded%s", p->word,
                   despite_request(p));
        char longer[64] = "";
        if (p->cached.few_queries > 0)
            snprintf(longer, sizeof longer, "in calls with more than " D64 " token%s ", p->cached.few_queries,
                     plural(p->cached.few_queries));
        if (p->rounds_scores)
            reason(p, "%sscores sum " D64 " products of i%d, with a scale for each row of a head; weighted sums %s",
                   longer, layer->d_k, p->core_word == 4 ? 8 : 16, p->rounds_values
                       ? "take such too: each row of values has a scale, and each query's weights of a block of keys"
                       : "stay f32: with so few features, rounding the weights would cost more");
        else if (layer_attends(layer))
            reason(p, "scores and weighted sums stay f32: %s",
                   layer_exact_chunks(layer) ? "exact_chunks, and a step would round all keys for one query"
                   : layer_has_cache(layer) && layer->seq_len <= p->cached.few_queries
                       ? "calls have so few tokens that rounding keys would cost more"
                       : "rounding would cost more than sums over so few features save");
        return;
    }
    reason(p, "weights are packed as %s, %s, and become %s in registers: products of weights are not folded%s",
           element_name(layer->weight_type),
           layer->weight_type == TENSOR_I8   ? "a scale for each column of a matrix"
           : layer->weight_type == TENSOR_I4 ? "a scale for each 32 rows of a column" : "rounded to nearest",
           p->digits ? "whole numbers" : "f32", despite_request(p));
    if (p->digits)
        reason(p, "rows that are multiplied by weights become whole numbers of three digits of 8 bits, a scale for "
               "each %d numbers, with exact sums: for one token weights are unpacked as fast as memory gives them; "
               "plan.typical_n would keep f32", WEIGHT_GROUP);
    else if ((p->weights == TENSOR_I4 || p->weights == TENSOR_I8) && (layer_has_cache(layer) || !layer_attends(layer)))
        reason(p, "rows that are multiplied by weights stay f32, as %s", plan_digits(layer, p->isa)
               ? "plan.typical_n tells of calls of several tokens"
               : "digits meet weights of i8 only where vpdpbusd sums the products");
}

/* Where the spec's expressions are computed, and what blocks `visible` decides as a whole. */
static void explain_expressions(struct plan_isa *p, const struct layer *layer)
{
    const struct expression_box box = visible_box(layer);
    char map[VISIBLE_MAP * (VISIBLE_MAP + 1) + 1];
    if (layer->score != NULL)
        reason(p, "score = %s: %d operations for each pair, %s", layer->score->text,
               expression_pair_operations(layer->score_kernel),
               score_has(layer, SCORE_EXPRESSION) ? "in the register tiles of scores"
               : expression_hides(layer->score_kernel, &box) ? "in a pass of its own, as it may hide keys"
                                                       : "in a pass of its own: too many for register tiles");
    if (!visible_by_blocks(layer) || layer_has_cache(layer))
        return;
    const bool of_head = (layer->visible_kernel->nodes[layer->visible_kernel->root].reads & READS_I) != 0;
    const struct visible_share share = visible_shares(layer, 0, p->block);
    visible_map(layer, 0, map);
    reason(p, "visible = %s: %s%.3g %% of the blocks of " D64 " queries and 16 keys are computed, %.3g %% tested pair "
           "by pair; the others are seen by no query, or by all. Queries downwards, keys to the right:\n%s",
           layer->visible->text, of_head ? "of head 0 " : "", 100 * share.computed, p->block, 100 * share.tested, map);
}

/* All of a layer without attention. */
static void explain_rows(struct plan_isa *p, const struct layer *layer)
{
    explain_panels(p);
    explain_fast(p);
    explain_block(p, layer);
    if (p->batch_rows > layer->seq_len)
        reason(p, "sequences of a batch are taken together, up to " D64 " tokens", p->batch_rows);
}

void explain_choices(struct plan_isa *p, const struct layer *layer)
{
    const struct isa *isa = p->isa;
    reason(p, "%d lanes, %d registers, %d FMA ports; L1 %zu KiB, L2 %zu KiB assumed", isa->lanes, isa->registers,
           isa->fma_ports, isa->l1d_bytes / 1024, isa->l2_bytes / 1024);
    if (p->small)
        reason(p, "small code: one shape a product, rolled loops; no batches, no slabs, no prefetch");
    if (layer->portable)
        reason(p, "exact = portable: keys in ascending order, m from the first one, nothing folded; 20 to 35 times the "
               "time where multiply-adds are made of doubles");
    if (layer_keeps_states(layer)) {
        (layer_is_recurrent(layer) ? explain_rule : explain_conv)(p, layer);
        return;
    }
    explain_weights(p, layer);
    if (!layer_attends(layer)) {
        explain_rows(p, layer);
        return;
    }
    explain_fold(p, layer);
    explain_finish(p, layer);
    if (layer_has_cache(layer))
        explain_cached(p, layer);
    else
        explain_attention(p, layer);
    explain_expanded(p);
    explain_expressions(p, layer);
    if (p->two_pass && !layer_has_cache(layer))
        reason(p, "softmax in two passes: the largest score of each query first, then the weights and their sums");
    if (p->depth_slab < p->fold->d_score && !layer_has_cache(layer))
        reason(p, "scores are summed in slabs of " D64 " features, %s", p->depth_slab,
               why(p, PLAN_DEPTH_SLAB, "so that a slab of the queries stays in L1"));
    explain_panels(p);
    explain_lanes(p);
    explain_fast(p);
    explain_rows_of_heads(p, layer);
    explain_block(p, layer);
    if (p->value_blocks)
        reason(p, "values lie [block of " D64 " tokens][feature][token]%s", p->block,
               plan_step(p, STEP_VALUES) == NULL ? ": the transposed input itself" : "");
    if (p->z_rows && layer->w_o == W_O_DENSE)
        reason(p, "Z lies [token][head][feature]: %s",
               request_asks(&p->asked, PLAN_Z_LAYOUT) ? "as requested"
               : layer->train ? "as it is kept for backward"
               : p->batch_rows > layer->seq_len ? "sequences that are projected together may begin at any token"
               : 2 * layer->seq_len < p->lanes ? "so few tokens would be spread over cache lines that they do not fill"
                                               : "a query block of it, over which each panel passes, exceeds half "
                                                 "of L1");
    if (layer->train)
        reason(p, "backward: tiles of " D64 " x " D64 ", blocks of " D64 " queries x " D64 " keys; weights are not "
               "folded, values and Z lie token by token", p->back.rows, p->back.width, p->back.queries, p->back.keys);
    if (layer->train && p->holds)
        reason(p, "forward keeps " D64 " numbers of each token, its queries, keys and values, for backward: %s",
               p->held.all,
               why(p, PLAN_SAVED, "projecting them again would take a sixth of its time"));
    else if (layer->train)
        reason(p, "backward projects queries, keys and values again: %s",
               layer->cross ? "source has a number of tokens of its own"
               : layer->pad_skipped ? "forward takes sequences together, without their padding"
                            : why(p, PLAN_SAVED, "they are not kept"));
    if (p->prefetch_keys > 0)
        reason(p, "each tile of scores prefetches " D64 " row%s of the next head's keys%s", p->prefetch_keys,
               plural(p->prefetch_keys), p->value_blocks ? "" : " and values");
    if (p->batch_rows > layer->seq_len)
        reason(p, "sequences of a batch are projected together, up to " D64 " tokens", p->batch_rows);
    if (layer_has_cache(layer))
        return;
    if (p->fetches_values)
        reason(p, "values of a head are " D64 " bytes apart: they are prefetched while their keys are scored",
               p->layouts[LAYOUT_VALUES].stride[AXIS_TOKEN] * layout_element(p, LAYOUT_VALUES));
    if (p->cached.few_queries > 0)
        reason(p, "up to " D64 " quer%s, of a call or left over, sum along the features of at least " D64 " key%s",
               p->cached.few_queries, p->cached.few_queries == 1 ? "y" : "ies", p->few.keys, plural(p->few.keys));
    reason(p, "one part of attend: 1 head x " D64 " query block%s", p->part_blocks, plural(p->part_blocks));
}

/* "from the spec: plan.unroll = 4" */
void explain_request(struct plan_isa *p, const char *from, const struct plan_request *request)
{
    struct text text;
    plan_request_print(request, text_begin(&text));
    if (text_end(&text)[0] != '\0')
        reason(p, "from the %s: %s", from, text.bytes);
    free(text.bytes);
}

/* The lists that the templates walk. */
static void print_schedule(FILE *out, const struct plan_isa *p)
{
    fprintf(out, "    heights of tiles, each taken as often as it fits%s:\n",
            p->joint ? "; queries, keys and values group of tokens by group" : "");
    for (const struct step *g = p->steps; g < p->steps + p->step_count; g++)
        if (step_kinds[g->kind]->print != NULL)
            step_kinds[g->kind]->print(out, p, g);
    if (p->peeks)
        fputs("      softmax        the nearest keys first, whose scores are the largest\n", out);
    if (p->masked_apart)
        fputs("      softmax        keys that a mask may hide apart from those that all queries see\n", out);
}

/* "x f32, values f32 -> z f32; bias, norm" */
static void print_products(FILE *out, const struct plan_isa *p)
{
    static const char *const epilogues[] = {"bias", "norm", "rotation", "softmax", "activation", "gate", "residual",
                                            "softcap", "rounding"};
    fputs("    products: what each reads, of which type, and writes; what is done to it then:\n", out);
    for (const struct step *g = p->steps; g < p->steps + p->step_count; g++) {
        if (g->writes == LAYOUT_NONE)
            continue;
        const enum layout_name operands[] = {g->reads[0], g->reads[1], LAYOUT_WEIGHTS + g->id, g->writes};
        fprintf(out, "      %-14s ", g->name);
        for (int i = 0; i < 4; i++) {
            const struct layout *l = &p->layouts[operands[i]];
            if (l->name != NULL)
                fprintf(out, "%s%s %s", i == 3 ? " -> " : i > 0 ? ", " : "", i == 2 ? "weights" : l->name,
                        element_name(l->element));
        }
        for (unsigned bit = 0, any = 0; bit < sizeof epilogues / sizeof *epilogues; bit++)
            if ((g->epilogue >> bit & 1u) != 0)
                fprintf(out, "%s%s", any++ == 0 ? "; " : ", ", epilogues[bit]);
        fputc('\n', out);
    }
}

/* "keys: 32 tokens x 4 panels" */
static void print_task(FILE *out, const struct step *task)
{
    static const char *const words[TASK_OVERS] = {
        [OVER_SEQUENCES] = " sequence", [OVER_ROWS] = " token", [OVER_BLOCKS] = " token",
        [OVER_SEQUENCE_BLOCKS] = " token", [OVER_BOTH] = " token", [OVER_PANELS] = " token", [OVER_HEADS] = " token",
        [OVER_SEGMENTS] = " row", [OVER_JOINED] = " row", [OVER_KEY_HEADS] = " head", [OVER_EXPANDED] = " head",
        [OVER_COUNT] = " part"};
    static const char *const more[TASK_OVERS] = {
        [OVER_SEQUENCE_BLOCKS] = " of one sequence", [OVER_BOTH] = " of one sequence", [OVER_HEADS] = " x 1 head",
        [OVER_SEGMENTS] = " x 1 head of keys, or 1 segment of it", [OVER_JOINED] = " x 1 head of keys",
        [OVER_KEY_HEADS] = " of keys of one sequence", [OVER_EXPANDED] = " of one sequence"};
    fputs(task->name, out);
    if (words[task->over] != NULL)
        fprintf(out, ": " D64 "%s%s%s", task->size, words[task->over], plural(task->size),
                more[task->over] != NULL ? more[task->over] : "");
    if (task->over == OVER_PANELS) {
        const int64_t panels = task->kind == KIND_LANES ? task->lanes.part_tiles : task->panels.part_panels;
        fprintf(out, " x " D64 " %s%s", panels, task->kind == KIND_LANES ? "tile" : "panel", plural(panels));
    }
}

static void print_phases(FILE *out, const struct plan_isa *p)
{
    fputs("    phases: what each computes, and how much of it a part has:\n", out);
    for (const struct plan_phase *phase = p->phases; phase < p->phases + p->phase_count; phase++) {
        fprintf(out, "      %s%-*s ", phase->back ? "back " : "",
                phase->back ? 9 : 14, phase->name);
        for (int i = 0; i < phase->task_count; i++) {
            fputs(i > 0 ? "; " : "", out);
            print_task(out, phase->tasks[i]);
        }
        fputs(phase->task_count == 0 ? "nothing\n" : "\n", out);
    }
}

/* "[32][64] by 64 1" */
static void print_shape(FILE *out, const struct layout *l)
{
    const bool shown[AXES] = {l->shape[0] > 1, l->shape[1] > 1, l->shape[2] > 1, true};
    for (int axis = 0; axis < AXES; axis++)
        if (shown[axis])
            fprintf(out, "[" D64 "]", l->shape[axis]);
    fputs(" by", out);
    for (int axis = 0; axis < AXES; axis++)
        if (shown[axis] && l->stride[axis] == STRIDE_OF_CALL)
            fputs(" call", out);
        else if (shown[axis])
            fprintf(out, " " D64, l->stride[axis]);
    fputc('\n', out);
}

static void print_layouts(FILE *out, const struct plan_isa *p)
{
    static const char *const owners[OWNERS] = {"caller", "packed", "scratch", "worker", "kept", "backward",
                                               "its worker"};
    fputs("    layouts: owner, place and bytes there; type, shape, strides in elements, but for axes of one:\n", out);
    for (int i = 0; i < LAYOUTS; i++) {
        const struct layout *l = &p->layouts[i];
        const char *kind = i >= LAYOUT_WEIGHT_SUMS ? " sums" : i >= LAYOUT_BIASES ? " bias"
                         : i >= LAYOUT_SCALES ? " scales" : i >= LAYOUT_WEIGHTS ? " weights"
                         : i >= LAYOUT_RUNS ? " runs" : "";
        char name[80], place[40] = "";
        if (l->name == NULL)
            continue;
        snprintf(name, sizeof name, "%.60s%s", l->name, kind);
        if (l->owner != OWNER_CALLER)
            snprintf(place, sizeof place, " " D64 ", " D64 " bytes", l->at,
                     layout_elements(l) * layout_element(p, (enum layout_name)i));
        fprintf(out, "      %-20s %s%s; %s ", name, owners[l->owner], place, element_name(l->element));
        print_shape(out, l);
    }
}

void plan_explain(const struct plan *plan, const struct layer *layer, FILE *out)
{
    fprintf(out, "\nThe plan for %s; its largest tensors have " D64 " numbers a query, " D64 " a key\n", layer->name,
            plan->largest_row, plan->largest_source_row);
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        fprintf(out, "\n  %s: packed " D64 " bytes, scratch " D64 " bytes + " D64 " a worker\n", p->isa->name,
                p->bytes[OWNER_PACKED], p->bytes[OWNER_SCRATCH], p->bytes[OWNER_WORKER]);
        for (int r = 0; r < p->reason_count; r++)
            fprintf(out, "    %s\n", p->reasons[r]);
        print_schedule(out, p);
        print_products(out, p);
        print_phases(out, p);
        print_layouts(out, p);
    }
}
