/* SPDX-License-Identifier: MIT */
/* The table of steps and of their kinds; the steps of a layer and the phases that they make.
 *
 * Left out on purpose: what a kind plans (step_KIND.c).
 */
#include "plan/planning.h"

#include <string.h>

#include "spec/score.h"

const struct step_row step_rows[STEPS] = {
#define STEP(name, label, kind, ...) [STEP_##name] = {#label, KIND_##kind, __VA_ARGS__},
#include "plan/step_rows.h"
#undef STEP
};
_Static_assert(STEPS <= PLAN_STEPS, "a plan has room for every row");

const struct step_kind_row other_kind = {0};
const struct step_kind_row *const step_kinds[STEP_KINDS] = {
    [KIND_OWN] = &other_kind, [KIND_COPY] = &copy_kind, [KIND_PANELS] = &panels_kind, [KIND_LANES] = &lanes_kind,
    [KIND_TILES] = &tiles_kind, [KIND_RULE] = &rule_kind, [KIND_CONV] = &conv_kind, [KIND_NORM] = &norm_kind,
    [KIND_ROUND] = &other_kind, [KIND_WIDEN] = &other_kind,
    [KIND_GRADIENT] = &other_kind, [KIND_THROUGH] = &other_kind, [KIND_SUM] = &other_kind,
};

/* Whether keys or values are the source's own rows, of which later calls need a copy */
static bool keeps_rows(const struct plan_isa *p, const struct layer *layer)
{
    return (p->fold->scores && !p->rounds_scores) ||
           ((layer->identity || p->fold->values) && !p->value_blocks && !p->rounds_values);
}

/* Tasks of their own */
bool plan_own(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool attends = layer_attends(layer), cached = layer_has_cache(layer), train = layer->train;
    g->size = g->over == OVER_ROWS ? p->back.part_rows : g->over == OVER_BLOCKS || g->over == OVER_BOTH ? p->block : 1;
    switch (g->id) {
    case STEP_PADDING: return layer->pad_skipped && !attends;
    case STEP_RANGES: return (layer->mask & MASK_SEGMENTS) != 0;
    case STEP_KEEP_SOURCE: return layer->source_kept && keeps_rows(p, layer);
    case STEP_TURNS: return layer_makes_turns(layer);
    case STEP_FINISH: return layer->projected && layer_finishes(layer);
    case STEP_ATTEND: g->size = p->part_blocks * p->block; return attends && !cached;
    case STEP_ATTEND_ROWS: case STEP_JOIN: g->size = p->cached.rows; return cached;
    case STEP_TRANSPOSE_AGAIN: return plan_back_transposes(layer);
    case STEP_PROJECT_AGAIN: return train && !p->holds;
    case STEP_D_SOURCE: return train && layer->cross;
    case STEP_D_WEIGHTS:
        p->back.weight_parts += (score_has(layer, SCORE_RELATIVE) ? layer->h : 0) + (layer->sink ? 1 : 0) +
                                (layer_has_tensor(layer, TENSOR_G_Q) ? 1 : 0) +
                                (layer->bias && layer->w_o != W_O_NONE ? 1 : 0);
        g->size = p->back.weight_parts;
        return train;
    default: return train;
    }
}

void plan_steps(struct plan_isa *p, const struct layer *layer)
{
    for (enum step_name id = 0; id < STEPS; id++) {
        const struct step_row *const row = &step_rows[id];
        struct step *const g = &p->steps[p->step_count];
        *g = (struct step){.id = id, .kind = row->kind, .name = row->name, .label = row->label,
                           .reads = {row->reads[0], row->reads[1]}, .writes = row->writes, .epilogue = row->epilogue,
                           .over = row->over, .of_keys = row->of_keys};
        if (!row->plan(p, layer, g))
            continue;
        g->size = g->size == 0 ? p->block : g->size;
        g->of_keys = g->of_keys && !(layer->projected && layer_has_cache(layer)); /* as many as queries */
        if (layer->train && !row->trains && id < STEP_TRANSPOSE_AGAIN && p->untrained == NULL)
            p->untrained = row->name;
        p->step_count++;
    }
}

/* ---- phases ---- */

/* The phase of a row, which is made where the rows before it have none of its word */
static struct plan_phase *phase_of(struct plan_phase phases[PLAN_PHASES], int *count, enum step_name id)
{
    const struct step_row *const row = &step_rows[id];
    const bool back = id >= STEP_TRANSPOSE_AGAIN;
    struct plan_phase *of = phases;
    while (of < phases + *count && (of->back != back || strcmp(of->word, row->phase) != 0))
        of++;
    if (of == phases + *count) {
        *of = (struct plan_phase){.word = row->phase, .name = row->phase_name, .back = back,
                                  .behind = id > STEP_OUTPUT && id <= STEP_NORM_Y};
        ++*count;
    }
    return of;
}

/* What its function is emitted for */
static const char *kind_of(const struct plan_phase *phase)
{
    const struct step *const first = phase->task_count > 0 ? phase->tasks[0] : NULL;
    if (first == NULL || first->kind == KIND_COPY || strcmp(phase->word, "PROJECT") == 0)
        return "attention";
    return first->id == STEP_OUTPUT ? "output" : first->id == STEP_PADDING ? "padding"
         : first->kind == KIND_WIDEN ? "widen" : first->kind == KIND_NORM ? "norm"
         : first->kind == KIND_ROUND ? "round" : first->kind == KIND_PANELS ? "panels" : "attention";
}

/* All sets have the same phases: those for which one of them has tasks. */
void plan_phases(struct plan *plan, const struct layer *layer)
{
    const bool attends = layer_attends(layer);
    bool there[PLAN_PHASES] = {false};
    for (int pass = 0; pass < 2; pass++)
        for (struct plan_isa *p = plan->isas; p < plan->isas + plan->count; p++) {
            struct plan_phase all[PLAN_PHASES];
            int count = 0;
            for (enum step_name id = 0; id < STEPS; id++) {
                if (step_rows[id].phase == NULL)
                    continue;
                struct plan_phase *const phase = phase_of(all, &count, id);
                const struct step *const g = plan_step(p, id);
                if (g != NULL && g->over != OVER_NONE)
                    phase->tasks[phase->task_count++] = g;
                there[phase - all] = there[phase - all] || phase->task_count > 0;
            }
            for (int i = 0; pass == 1 && i < count; i++) {
                all[i].kind = kind_of(&all[i]);
                all[i].behind = all[i].behind && attends;
                if (there[i])
                    p->phases[p->phase_count++] = all[i];
            }
        }
}
