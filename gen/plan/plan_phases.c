/* SPDX-License-Identifier: MIT */
/* The phases of a call and of backward, in order, and the tasks of each: what its parts compute, and how much one part
 * has. Parts of one phase may run at the same time; all of them are done before the next phase begins.
 *
 * Left out on purpose: how large parts are (plan.c), and how many a call has (the emitted functions).
 */
#include "plan/plan_parts.h"

#include "spec/rope.h"

/* What the emitted code calls a phase, and what its callers do. */
static const struct { const char *word, *name; } names[PLAN_PHASES] = {
    [PHASE_PAD] = {"PAD", "padding"}, [PHASE_WIDEN] = {"WIDEN", "widen"}, [PHASE_NORM_X] = {"NORM_X", "norm x"},
    [PHASE_ROUND_X] = {"ROUND_X", "round x"}, [PHASE_ROUND_SOURCE] = {"ROUND_SOURCE", "round source"},
    [PHASE_TRANSPOSE] = {"TRANSPOSE", "transpose"}, [PHASE_PROJECT] = {"PROJECT", "project"},
    [PHASE_APPEND] = {"APPEND", "append"}, [PHASE_ROUND_KEYS] = {"ROUND_KEYS", "round keys"},
    [PHASE_ROUND_VALUES] = {"ROUND_VALUES", "round values"},
    [PHASE_ATTEND] = {"ATTEND", "attend"}, [PHASE_JOIN] = {"JOIN", "join"}, [PHASE_ROUND_Z] = {"ROUND_Z", "round z"},
    [PHASE_OUTPUT] = {"OUTPUT", "output"}, [PHASE_LINEAR] = {"LINEAR", "linear"},
    [PHASE_NORM_STREAM] = {"NORM_STREAM", "norm"}, [PHASE_ROUND_STREAM] = {"ROUND_STREAM", "round rows"},
    [PHASE_HIDDEN] = {"HIDDEN", "hidden"}, [PHASE_ROUND_HIDDEN] = {"ROUND_HIDDEN", "round hidden"},
    [PHASE_DOWN] = {"DOWN", "down"}, [PHASE_NORM_Y] = {"NORM_Y", "norm y"},
    [PHASE_BACK_TRANSPOSE] = {"TRANSPOSE", "transpose"}, [PHASE_BACK_PROJECT] = {"PROJECT", "project"},
    [PHASE_BACK_OUTPUT] = {"OUTPUT", "output"}, [PHASE_BACK_ATTEND] = {"ATTEND", "attend"},
    [PHASE_BACK_INPUT] = {"INPUT", "input"}, [PHASE_BACK_WEIGHTS] = {"WEIGHTS", "weights"}};

/* Scores and weighted sums are one task, which follows below. */
static const enum phase_name phase_of[PLAN_PRODUCTS] = {
    [PRODUCT_TRANSPOSE] = PHASE_TRANSPOSE, [PRODUCT_QUERIES] = PHASE_PROJECT, [PRODUCT_KEYS] = PHASE_PROJECT,
    [PRODUCT_VALUES] = PHASE_PROJECT, [PRODUCT_APPEND] = PHASE_APPEND, [PRODUCT_OUTPUT] = PHASE_OUTPUT,
    [PRODUCT_NORM_X] = PHASE_NORM_X, [PRODUCT_NORM_STREAM] = PHASE_NORM_STREAM, [PRODUCT_HIDDEN] = PHASE_HIDDEN,
    [PRODUCT_DOWN] = PHASE_DOWN, [PRODUCT_NORM_Y] = PHASE_NORM_Y, [PRODUCT_LINEAR] = PHASE_LINEAR,
    [PRODUCT_ROUND_X] = PHASE_ROUND_X, [PRODUCT_ROUND_SOURCE] = PHASE_ROUND_SOURCE,
    [PRODUCT_ROUND_KEYS] = PHASE_ROUND_KEYS, [PRODUCT_ROUND_VALUES] = PHASE_ROUND_VALUES,
    [PRODUCT_ROUND_Z] = PHASE_ROUND_Z,
    [PRODUCT_ROUND_STREAM] = PHASE_ROUND_STREAM, [PRODUCT_ROUND_HIDDEN] = PHASE_ROUND_HIDDEN,
    [PRODUCT_WIDEN_X] = PHASE_WIDEN, [PRODUCT_WIDEN_SOURCE] = PHASE_WIDEN, [PRODUCT_WIDEN_V] = PHASE_WIDEN};

/* Tasks other than products: in a phase those before TASK_PRODUCT come ahead of its products. */
static const struct {
    enum phase_name phase;
    enum task_over over;
    bool of_keys;
    const char *word, *name;
} tasks[TASK_KINDS] = {
    [TASK_PADDING] = {PHASE_PAD, OVER_SEQUENCES, false, "padding", "zeros of padding"},
    [TASK_RANGES] = {PHASE_TRANSPOSE, OVER_SEQUENCES, false, "ranges", "ranges of segments"},
    [TASK_KEEP_SOURCE] = {PHASE_TRANSPOSE, OVER_BLOCKS, true, "keep_source", "the source, kept"},
    [TASK_TURNS] = {PHASE_TRANSPOSE, OVER_BLOCKS, false, "turns", "cosines and sines"},
    [TASK_FINISH] = {PHASE_PROJECT, OVER_BOTH, false, "finish", "queries, keys"},
    [TASK_ATTEND] = {PHASE_ATTEND, OVER_HEADS, false, "attend", "scores, weighted sums"},
    [TASK_ATTEND_ROWS] = {PHASE_ATTEND, OVER_SEGMENTS, false, "attend_rows", "scores, weighted sums"},
    [TASK_JOIN] = {PHASE_JOIN, OVER_JOINED, false, "join", "sums of segments"},
    [TASK_TRANSPOSE_AGAIN] = {PHASE_BACK_TRANSPOSE, OVER_AGAIN, false, "TRANSPOSE", "as in forward"},
    [TASK_PROJECT_AGAIN] = {PHASE_BACK_PROJECT, OVER_AGAIN, false, "PROJECT", "as in forward"},
    [TASK_D_Z] = {PHASE_BACK_OUTPUT, OVER_ROWS, false, "d_z", "d z"},
    [TASK_D_HEADS] = {PHASE_BACK_ATTEND, OVER_KEY_HEADS, false, "d_heads", "d queries, d keys, d values"},
    [TASK_D_X] = {PHASE_BACK_INPUT, OVER_ROWS, false, "d_x", "dx"},
    [TASK_D_SOURCE] = {PHASE_BACK_INPUT, OVER_ROWS, true, "d_source", "dsource"},
    [TASK_D_WEIGHTS] = {PHASE_BACK_WEIGHTS, OVER_COUNT, false, "d_weights", "gradients of weights"}};

/* Whether a task is there; *size: what a part of it has, or the number of its parts (OVER_COUNT) */
static bool has_task(const struct plan_isa *p, const struct layer *layer, enum task_kind kind, int64_t *size)
{
    const bool attends = layer_attends(layer), cached = layer_has_cache(layer), train = layer->train;
    const bool turns = layer->rope.kind != ROPE_NONE && !layer->projected;
    *size = tasks[kind].over == OVER_ROWS ? p->back.part_rows : tasks[kind].over == OVER_BLOCKS ? p->block : 1;
    switch (kind) {
    case TASK_PADDING: return layer->pad_skipped && !attends;
    case TASK_RANGES: return (layer->mask & MASK_SEGMENTS) != 0;
    case TASK_KEEP_SOURCE: return p->layouts[LAYOUT_KEPT_SOURCE].name != NULL;
    case TASK_TURNS: return turns && (layer->rope.given || cached); /* packing does not know the positions */
    case TASK_FINISH: *size = p->block; return layer->projected && layer_finishes(layer);
    case TASK_ATTEND: *size = p->part_blocks * p->block; return attends && !cached;
    case TASK_ATTEND_ROWS: case TASK_JOIN: *size = p->cached.rows; return cached;
    case TASK_TRANSPOSE_AGAIN: return plan_back_transposes(layer);
    case TASK_PROJECT_AGAIN: return train && !p->holds;
    case TASK_D_SOURCE: return train && layer->cross;
    case TASK_D_WEIGHTS: *size = p->back.weight_parts; return train;
    case TASK_D_Z: case TASK_D_HEADS: case TASK_D_X: return train;
    case TASK_PRODUCT: case TASK_KINDS: break;
    }
    return false;
}

/* Given queries and keys are one task; of a cache there are as many keys as queries. */
static void add_products(struct plan_phase *phase, const struct plan_isa *p, const struct layer *layer)
{
    static const char *const words[] = {
        [PRODUCT_COPY] = "copy", [PRODUCT_PANELS] = "panels", [PRODUCT_LANES] = "panels", [PRODUCT_ROWS] = "norm",
        [PRODUCT_ROUND] = "round", [PRODUCT_WIDEN] = "widen"};
    const bool given = layer->projected;
    for (const struct product *g = p->products; g < p->products + p->product_count; g++) {
        const bool of_source = g->id == PRODUCT_WIDEN_SOURCE || g->id == PRODUCT_WIDEN_V;
        const bool keys = of_source || g->id == PRODUCT_ROUND_SOURCE || g->id == PRODUCT_ROUND_KEYS ||
                          (g->id == PRODUCT_ROUND_VALUES && (layer->cross || given)) ||
                          g->id == PRODUCT_TRANSPOSE || g->id == PRODUCT_VALUES ||
                          (g->id == PRODUCT_KEYS && !p->fold->q_is_k);
        if (phase_of[g->id] != phase->id || (given && phase->id == PHASE_PROJECT))
            continue;
        struct plan_task *const task = &phase->tasks[phase->task_count++];
        *task = (struct plan_task){.kind = TASK_PRODUCT, .word = words[g->kind], .name = g->name, .product = g,
                                   .over = OVER_ROWS, .of_keys = keys && !(given && layer_has_cache(layer))};
        switch (g->kind) {
        case PRODUCT_ROWS: task->size = g->rows.part_rows; break;
        case PRODUCT_ROUND:
            if (given && g->reads[0] == LAYOUT_KEYS && !layer_finishes(layer))
                task->over = OVER_SEQUENCE_BLOCKS;
            task->size = task->over == OVER_ROWS ? g->round.part_rows : p->block;
            break;
        case PRODUCT_WIDEN:
            task->over = given ? OVER_SEQUENCE_BLOCKS : OVER_ROWS;
            task->size = g->widen.part_rows;
            break;
        case PRODUCT_PANELS: task->over = OVER_PANELS, task->size = g->panels.group_rows; break;
        case PRODUCT_LANES: task->over = OVER_PANELS, task->size = g->lanes.group_rows; break;
        default:
            task->over = g->id == PRODUCT_APPEND || (g->id == PRODUCT_ROUND_VALUES && !layer->source_kept)
                ? OVER_SEQUENCE_BLOCKS : OVER_BLOCKS; /* a kept source is one sequence, or none */
            task->size = p->block;
        }
        task->more = g->id == PRODUCT_ROUND_Z ? p->z_front + p->z_back : 0;
    }
}

static void add_tasks(struct plan_phase *phase, const struct plan_isa *p, const struct layer *layer)
{
    for (enum task_kind kind = 0; kind < TASK_KINDS; kind++) {
        int64_t size;
        if (kind == TASK_PRODUCT)
            add_products(phase, p, layer);
        else if (tasks[kind].phase == phase->id && has_task(p, layer, kind, &size))
            phase->tasks[phase->task_count++] = (struct plan_task){
                .kind = kind, .word = tasks[kind].word, .name = tasks[kind].name, .over = tasks[kind].over,
                .of_keys = tasks[kind].of_keys, .size = size};
    }
}

/* All sets have the same phases: those for which one of them has tasks, and those that the emitted text names. */
void plan_phases(struct plan *plan, const struct layer *layer)
{
    const bool attends = layer_attends(layer);
    for (enum phase_name id = PHASE_NONE + 1; id < PLAN_PHASES; id++) {
        bool there = (attends && (id == PHASE_TRANSPOSE || id == PHASE_PROJECT)) ||
                     (layer->train && id == PHASE_BACK_PROJECT);
        for (struct plan_isa *p = plan->isas; p < plan->isas + plan->count; p++) {
            struct plan_phase *const phase = &p->phases[p->phase_count];
            *phase = (struct plan_phase){.id = id, .word = names[id].word, .name = names[id].name,
                                         .behind = attends && id > PHASE_OUTPUT && id <= PHASE_NORM_Y};
            add_tasks(phase, p, layer);
            there = there || phase->task_count > 0;
        }
        for (struct plan_isa *p = plan->isas; p < plan->isas + plan->count; p++)
            p->phase_count += there;
    }
}
