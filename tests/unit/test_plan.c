/* SPDX-License-Identifier: MIT */
/* The plan: what must hold of every number it decides, over layers drawn around every edge, and what it refuses.
 *
 * Left out on purpose: whether a choice is the fastest one; benchmarks tell that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/diag.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "spec/fast.h"
#include "spec/layer.h"
#include "spec/score.h"

#include "layer_of.h"

#define SPEC "examples/tiny.layer" /* the keys that a test needs are set over it */
#define MAX_SETS 24

struct settings {
    char text[MAX_SETS][64];
    const char *set[MAX_SETS];
    size_t count;
};

static void set(struct settings *s, const char *key, int64_t value)
{
    assert_true(s->count < MAX_SETS);
    snprintf(s->text[s->count], sizeof s->text[0], "%s=%" PRId64, key, value);
    s->set[s->count] = s->text[s->count];
    s->count++;
}

static void set_word(struct settings *s, const char *text)
{
    assert_true(s->count < MAX_SETS);
    s->set[s->count++] = text;
}

static struct layer *read_layer(const struct settings *s)
{
    struct diag diag = {0};
    struct layer *layer = layer_read(SPEC, s->set, s->count, &diag);
    if (layer == NULL)
        diag_report(&diag, stderr);
    assert_non_null(layer);
    diag_free(&diag);
    return layer;
}

static struct plan *make_plan(const struct layer *layer)
{
    struct diag diag = {0};
    struct plan *plan = plan_make(layer, isa_all(), &diag);
    if (plan == NULL)
        diag_report(&diag, stderr);
    assert_non_null(plan);
    diag_free(&diag);
    return plan;
}

static void forget(struct plan *plan, struct layer *layer)
{
    plan_free(plan);
    layer_free(layer);
}

/* Products with weights in panels; NULL: none */
#define Q(p) plan_panels_of(p, STEP_QUERIES)
#define K(p) plan_panels_of(p, STEP_KEYS)
#define V(p) plan_panels_of(p, STEP_VALUES)
#define O(p) plan_panels_of(p, STEP_OUTPUT)

/* A register tile leaves a register for the broadcast operand and `vecs` for the other. */
static void check_tile(const struct plan_isa *p, int64_t rows, int64_t vecs)
{
    assert_true(rows >= 1 && vecs >= 1 && vecs <= 4);
    assert_true(rows * vecs + vecs + 1 <= p->isa->registers);
}

static void check_lanes(const struct plan_isa *p, const struct plan_lanes *g)
{
    assert_int_equal(g->height[0] * g->count[0] + g->height[1] * g->count[1], g->columns);
    check_tile(p, g->height[0], p->vecs);
    assert_true(g->prefetch == 0 || p->vecs > 1); /* tiles of single vectors take no `next` */
    assert_true(g->group_rows >= p->block && g->group_rows % p->block == 0);
    assert_true(g->part_tiles >= 1 && g->part_tiles <= g->groups * (g->count[0] + g->count[1]));
}

static void check_panels(const struct plan_isa *p, const struct plan_panels *g)
{
    const int64_t width = g->vecs * p->lanes;
    check_tile(p, g->rows, g->vecs);
    assert_true((g->panels - 1) * width < g->columns && g->columns <= g->panels * width);
    const int64_t last = g->columns - (g->panels - 1) * width; /* columns of a group's last panel */
    const int64_t last_vecs = g->tail_vecs > 0 ? g->tail_vecs : g->vecs;
    assert_true(last <= last_vecs * p->lanes && last > (last_vecs - 1) * p->lanes);
    assert_int_equal(g->tail_lanes, g->columns % p->lanes);
    assert_int_equal(g->panel_size, g->taps * g->depth * width);
    assert_int_equal(g->group_size, (g->panels - 1) * g->panel_size + g->taps * g->depth * last_vecs * p->lanes);
    assert_true(g->k_block >= 1 && g->k_block <= g->depth && (g->taps == 1 || g->k_block == g->depth));
    assert_true(g->group_rows >= p->block && g->group_rows % p->block == 0);
    assert_true(g->part_panels >= 1 && g->part_panels <= g->groups * g->panels);
    assert_int_equal(g->a_block % p->block, 0);
}

/* Queries, keys or values in rows: no two (head, token, feature) share a place, and all lie inside what is reserved. */
struct rows {
    int64_t heads, tokens, d;
};

static struct rows of_queries(const struct layer *layer, const struct plan_isa *p)
{
    return (struct rows){layer->h, max(layer->seq_len, p->batch_rows), p->fold->d_score};
}

static struct rows of_source(const struct layer *layer, const struct plan_isa *p, int64_t d)
{
    return (struct rows){layer->h_kv, max(layer->source_len, p->batch_sources), d};
}

static void check_rows(const struct plan_isa *p, const struct rows *of, const struct step *step)
{
    const struct layout *l = &p->layouts[step->writes];
    const int64_t row = l->stride[AXIS_TOKEN], head = l->stride[AXIS_HEAD];
    const int64_t shape[] = {of->heads, 1, of->tokens, of->d};
    check_panels(p, &step->panels);
    assert_memory_equal(l->shape, shape, sizeof shape);
    assert_int_equal(step->panels.c_row, row);
    assert_true(row >= of->d);
    assert_true(of->heads == 1 || (head >= of->d && (head + of->d <= row || head >= of->tokens * row)) ||
                row >= of->heads * of->d);
    const int64_t last = (of->heads - 1) * head + (of->tokens - 1) * row + of->d;
    assert_true(last <= layout_elements(l));
}

struct span {
    int64_t first, last;
};

/* The products from the first to the last of which something must stay. Scores and sums take turns, tile by tile. */
static struct span life_of(const struct plan_isa *p, enum layout_name id)
{
    struct span life = {0, p->step_count - 1};
    for (int i = 0; i < p->step_count; i++) {
        const struct step *g = &p->steps[i];
        if (g->writes == id)
            life.first = i;
        if (g->reads[0] == id || g->reads[1] == id)
            life.last = g->id == STEP_SCORES ? i + 1 : i;
    }
    return life;
}

static bool meet(struct span a, struct span b)
{
    return a.first <= b.last && b.first <= a.last;
}

static struct span place_of(const struct plan_isa *p, enum layout_name id)
{
    const struct layout *l = &p->layouts[id];
    return (struct span){l->at, l->at + layout_elements(l) * layout_element(p, id) - 1};
}

/* Elements lie apart: an axis steps over all of those with smaller steps. */
static void check_strides(const struct layout *l)
{
    for (int a = 0; a < AXES; a++)
        for (int b = 0; b < AXES; b++)
            if (l->shape[a] > 1 && l->shape[b] > 1 && l->stride[a] > l->stride[b])
                assert_true(l->stride[a] >= l->shape[b] * l->stride[b]);
}

/* Whether it is the normed rows of x, perhaps by the name of what they serve as. */
static bool is_normed(const struct plan_isa *p, int id)
{
    const bool named = id == LAYOUT_NORMED || id == LAYOUT_KEYS || id == LAYOUT_VALUES;
    return named && p->layouts[LAYOUT_NORMED].name != NULL && p->layouts[id].owner == OWNER_SCRATCH &&
           p->layouts[id].at == p->layouts[LAYOUT_NORMED].at;
}

/* A worker's operands of backward: those of attention, and those of products with tokens, are never there at once. */
static bool in_turns(int a, int b)
{
    const int low = a < b ? a : b, high = a < b ? b : a;
    return low >= LAYOUT_K_PANELS && low <= LAYOUT_BACK_STRIPS && (high == LAYOUT_STRIPS || high == LAYOUT_PANELS);
}

/* Each lies within what its owner has, and none where another one is that is still needed. */
static void check_layouts(const struct plan_isa *p)
{
    for (int i = 0; i < LAYOUTS; i++) {
        const struct layout *a = &p->layouts[i];
        if (a->name == NULL)
            continue;
        for (int axis = 0; axis < AXES; axis++)
            assert_true(a->shape[axis] >= 1 && (a->stride[axis] >= 0 || a->owner == OWNER_CALLER));
        if (i < LAYOUT_WEIGHTS)
            check_strides(a);
        if (a->owner == OWNER_CALLER)
            continue;
        const struct span place = place_of(p, (enum layout_name)i);
        assert_true(a->at % 64 == 0 && a->at >= (a->owner == OWNER_PACKED ? 64 : 0) && place.last < p->bytes[a->owner]);
        for (int j = 0; j < i; j++) {
            const bool in_place = (j == LAYOUT_QUERIES && i == LAYOUT_Z && p->z_in_q) ||
                                  (is_normed(p, i) && is_normed(p, j)) ||
                                  (j == LAYOUT_KEYS && i == LAYOUT_VALUES && a->at == p->layouts[j].at &&
                                   a->stride[AXIS_TOKEN] == p->layouts[j].stride[AXIS_TOKEN]); /* w_v = keys */
            if (p->layouts[j].name != NULL && p->layouts[j].owner == a->owner && !in_place && !in_turns(i, j) &&
                meet(life_of(p, (enum layout_name)i), life_of(p, (enum layout_name)j)))
                assert_false(meet(place, place_of(p, (enum layout_name)j)));
        }
    }
}

/* Blocks of backward are whole tiles, and its operands fit where they are laid out. */
static void check_back(const struct layer *layer, const struct plan_isa *p)
{
    if (!layer->train) {
        assert_true(p->bytes[OWNER_BACK] == 0 && p->bytes[OWNER_BACK_WORKER] == 0);
        return;
    }
    check_tile(p, p->back.rows, p->back.vecs);
    assert_int_equal(p->back.width, p->back.vecs * p->lanes);
    assert_true(p->back.queries % p->back.rows == 0 && p->back.part_rows % p->back.rows == 0);
    assert_true(p->back.keys % p->back.width == 0 && p->back.chunk_columns % p->back.width == 0);
    assert_true(p->back.k_row % p->lanes == 0 && p->back.k_row >= layer->d_k);
    assert_true(p->back.v_row % p->lanes == 0 && p->back.v_row >= layer->d_v);
    assert_true(p->back.key_row >= p->back.keys + p->back.rows - 1); /* the last tile of keys reads so far */
    assert_true(p->back.strip % p->lanes == 0 && p->back.strip >= p->back.rows);
    const int64_t spare = layout_elements(&p->layouts[LAYOUT_SPARE]) / p->back.strip;
    assert_true(spare >= layer->d_out && spare >= layer->h * p->back.k_row && spare >= p->back.keys);
    assert_true(spare >= layer->h_kv * max(p->back.k_row, p->back.v_row));
    assert_true(!p->fold->scores && !p->fold->values && !p->value_blocks && p->z_rows);
}

/* Rows that are normed, step by step: what one reads was written before, or is the caller's. */
static void check_norms(const struct plan_isa *p, const struct step *g, bool written[LAYOUTS])
{
    assert_true(g->rows.norm_count > 0);
    for (int64_t i = 0; i < g->rows.norm_count; i++) {
        const enum layout_name of[] = {g->rows.norms[i].from, g->rows.norms[i].residual};
        for (int k = 0; k < 2; k++)
            assert_true(of[k] == LAYOUT_NONE || written[of[k]] || p->layouts[of[k]].owner == OWNER_CALLER);
        assert_true(g->rows.norms[i].norm >= 1 && p->layouts[g->rows.norms[i].to].name != NULL);
        written[g->rows.norms[i].to] = true;
    }
}

/* Of backward: what one reads was written before, is the caller's, is packed, or is laid out for it by its worker. */
static void check_gradient(const struct plan_isa *p, const struct step *g, bool written[LAYOUTS])
{
    assert_true(g->reads[0] != LAYOUT_NONE && p->layouts[g->writes].name != NULL);
    for (int k = 0; k < 2 && g->reads[k] != LAYOUT_NONE; k++) {
        const struct layout *of = &p->layouts[g->reads[k]];
        assert_non_null(of->name);
        assert_true(written[g->reads[k]] || of->owner == OWNER_CALLER || of->owner == OWNER_PACKED ||
                    of->owner == OWNER_BACK_WORKER);
    }
    written[g->writes] = true;
}

/* What a product reads was written by an earlier one or is the caller's; each has its weights and biases. */
static void check_products(const struct plan_isa *p)
{
    bool written[LAYOUTS] = {false};
    for (int i = 0; i < p->step_count; i++) {
        const struct step *g = &p->steps[i];
        const bool weighted = g->kind == KIND_PANELS || g->kind == KIND_LANES;
        assert_ptr_equal(plan_step(p, g->id), g);
        const bool of_two = g->kind == KIND_TILES || g->id == STEP_APPEND ||
                            (g->epilogue & EPILOGUE_RESIDUAL) != 0;
        if (g->kind == KIND_NORM) {
            check_norms(p, g, written);
            continue;
        }
        if (g->kind == KIND_OWN)
            continue;
        if (g->kind >= KIND_GRADIENT) {
            check_gradient(p, g, written);
            continue;
        }
        assert_true(g->reads[0] != LAYOUT_NONE && (g->reads[1] != LAYOUT_NONE) == of_two);
        for (int k = 0; k < 2 && g->reads[k] != LAYOUT_NONE; k++)
            assert_true(p->layouts[g->reads[k]].name != NULL &&
                        (written[g->reads[k]] || p->layouts[g->reads[k]].owner == OWNER_CALLER));
        assert_true(p->layouts[g->writes].name != NULL && (g->id == STEP_DOWN || !written[g->writes]));
        written[g->writes] = true;
        assert_int_equal(p->layouts[LAYOUT_WEIGHTS + g->id].name != NULL, weighted);
        assert_int_equal(p->layouts[LAYOUT_BIASES + g->id].name != NULL,
                         weighted && (g->epilogue & EPILOGUE_BIAS) != 0);
    }
}

/* Each product that has parts of its own is a task of one phase, in order; phases and their names are alike for all
 * instruction sets, and some of these has tasks for it. */
static void check_phases(const struct plan *plan, const struct plan_isa *p)
{
    const struct plan_isa *const first = &plan->isas[0];
    int tasks = 0, parted = 0;
    assert_int_equal(p->phase_count, first->phase_count);
    for (int i = 0; i < p->phase_count; i++) {
        const struct plan_phase *phase = &p->phases[i];
        assert_ptr_equal(phase->word, first->phases[i].word);
        assert_true(phase->word != NULL && phase->name != NULL && phase->back == first->phases[i].back);
        bool there = strcmp(phase->word, "TRANSPOSE") == 0 || strcmp(phase->word, "PROJECT") == 0;
        for (int64_t set = 0; set < plan->count; set++)
            there = there || plan->isas[set].phases[i].task_count > 0;
        assert_true(there);
        assert_true(phase->task_count <= PHASE_TASKS);
        for (int k = 0; k < phase->task_count; k++) {
            const struct step *const task = phase->tasks[k];
            assert_true(task->over != OVER_NONE && (task->size > 0 || task->over == OVER_AGAIN));
            assert_true(k == 0 || task > phase->tasks[k - 1]);
            tasks++;
        }
    }
    for (const struct step *g = p->steps; g < p->steps + p->step_count; g++)
        parted += g->over != OVER_NONE;
    assert_int_equal(tasks, parted);
}

static int64_t elements(const struct plan_isa *p, enum layout_name id)
{
    return layout_elements(&p->layouts[id]);
}

/* How much room the lists leave, counted from the layer. */
static void check_places(const struct layer *layer, const struct plan_isa *p)
{
    const struct plan_fold *f = p->fold;
    const int64_t queries = p->query_blocks * p->block, sources = p->source_blocks * p->block;
    const int64_t z_columns = layer->h * f->d_z, rows = max(layer->seq_len, p->batch_rows);
    for (int i = 0; i < p->step_count; i++) {
        const struct step *g = &p->steps[i];
        if (g->kind == KIND_COPY)
            assert_int_equal(elements(p, g->writes), sources * layer->d_source);
        if (g->kind == KIND_LANES) {
            assert_int_equal(elements(p, g->writes), sources * layer->h_kv * layer->d_v);
            assert_int_equal(elements(p, LAYOUT_WEIGHTS + g->id), g->lanes.groups * g->lanes.columns * g->lanes.depth);
        }
        if (g->kind == KIND_PANELS)
            assert_int_equal(elements(p, LAYOUT_WEIGHTS + g->id), g->panels.groups * g->panels.group_size);
        if (g->kind == KIND_PANELS && layer->bias)
            assert_int_equal(elements(p, LAYOUT_BIASES + g->id), g->panels.groups * g->panels.columns);
    }
    if (p->z_in_q) { /* each tile's own */
        const struct layout *q = &p->layouts[LAYOUT_QUERIES], *z = &p->layouts[LAYOUT_Z];
        assert_true(layer->w_o == W_O_DENSE && p->z_rows && z->at == q->at && q->stride[AXIS_TOKEN] == z_columns &&
                    q->stride[AXIS_HEAD] == f->d_z && f->d_score == f->d_z && O(p)->a_row == z_columns);
    } else if (layer->w_o == W_O_DENSE) {
        assert_int_equal(elements(p, LAYOUT_Z), (p->z_rows ? rows : queries) * z_columns);
    }
    if (layer->w_o == W_O_CONV)
        assert_int_equal(elements(p, LAYOUT_Z), (layer->seq_len + layer->conv_width - 1) * z_columns);
    assert_int_equal(elements(p, LAYOUT_SCORES), p->key_block * p->block);
    assert_int_equal(elements(p, LAYOUT_TILE), f->d_z * p->block);
    assert_int_equal(elements(p, LAYOUT_Q_T), f->d_score * p->block);
    assert_int_equal(p->layouts[LAYOUT_VISIBLE].name != NULL, score_hooked(layer));
    assert_int_equal(elements(p, LAYOUT_OPERANDS), score_operands(layer) * p->key_block * p->block);
}

/* Values lie [block of tokens][feature][token], in blocks of the queries' size, or in rows. */
static void check_values(const struct layer *layer, const struct plan_isa *p)
{
    const bool input = layer->identity || p->fold->values;
    const struct step *step = plan_step(p, STEP_VALUES);
    const struct layout *l = &p->layouts[LAYOUT_VALUES];
    assert_true((step == NULL) == input);
    const struct rows of = of_source(layer, p, layer->d_v);
    if (V(p) != NULL)
        check_rows(p, &of, step);
    if (p->value_blocks) {
        assert_true(V(p) == NULL && l->stride[AXIS_TOKEN] == 1 && l->stride[AXIS_FEATURE] == p->block &&
                    p->batch_rows == 0);
        assert_int_equal(l->stride[AXIS_BLOCK], p->block * (input ? layer->d_source : layer->h_kv * layer->d_v));
    } else {
        assert_int_equal(l->stride[AXIS_FEATURE], 1);
        assert_int_equal(l->owner, input ? OWNER_CALLER : OWNER_SCRATCH);
    }
    if (!input && p->value_blocks)
        check_lanes(p, &step->lanes);
}

static void check_plan(const struct layer *layer, const struct plan *plan)
{
    assert_int_equal(plan->count, __builtin_popcount(plan_isas(layer, isa_all())));
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        check_tile(p, p->rows, p->vecs);
        check_tile(p, p->rows_single, 1);
        assert_int_equal(p->block, p->vecs * p->isa->lanes);
        const int64_t rows = max(layer->seq_len, p->batch_rows);
        assert_true(p->query_blocks * p->block >= rows && (p->query_blocks - 1) * p->block < rows);
        assert_true(p->depth_slab >= 1 && p->depth_slab <= p->fold->d_score);
        assert_true(p->key_block >= 1 && p->part_blocks >= 1);
        const struct rows queries = of_queries(layer, p), keys = of_source(layer, p, layer->d_k);
        assert_int_equal(Q(p) != NULL, !p->fold->q_is_k);
        if (Q(p) != NULL)
            check_rows(p, &queries, plan_step(p, STEP_QUERIES));
        assert_true((K(p) != NULL) == !p->fold->scores);
        if (K(p) != NULL)
            check_rows(p, &keys, plan_step(p, STEP_KEYS));
        check_values(layer, p);
        if (O(p) != NULL)
            check_panels(p, O(p));
        check_products(p);
        check_phases(plan, p);
        check_layouts(p);
        check_back(layer, p);
        check_places(layer, p);
        assert_true(p->reason_count >= 6);
        assert_true(p->bytes[OWNER_PACKED] <= plan->packed_bytes && p->bytes[OWNER_SCRATCH] <= plan->shared_bytes &&
                    p->bytes[OWNER_WORKER] <= plan->worker_bytes);
    }
}

/* The lists of every kind of layer: given queries and keys, norms, rotations, tables, documents, … */
static void test_lists(void **state)
{
    static const char *const folders[] = {"examples/*.layer", "tests/vectors/*.layer", "tests/vectors/kinds/*.layer",
                                          "tests/vectors/blocks/*.layer",
                                          "tests/vectors/gradients/*.layer"};
    for (size_t f = 0; f < sizeof folders / sizeof folders[0]; f++) {
        glob_t found;
        assert_int_equal(glob(folders[f], 0, NULL, &found), 0);
        for (size_t k = 0; k < found.gl_pathc; k++) {
            struct diag diag = {0};
            struct layer *layer = layer_read(found.gl_pathv[k], NULL, 0, &diag);
            assert_non_null(layer);
            diag_free(&diag);
            struct plan *plan = make_plan(layer);
            for (int64_t i = 0; i < plan->count; i++) {
                check_products(&plan->isas[i]);
                check_phases(plan, &plan->isas[i]);
                check_layouts(&plan->isas[i]);
            }
            plan_free(plan);
            for (unsigned set = 1; set < isa_all(); set <<= 1) { /* alone, it has no phases of others */
                plan = plan_make(layer, set, &diag);
                assert_non_null(plan);
                if (plan->count > 0)
                    check_phases(plan, &plan->isas[0]);
                plan_free(plan);
            }
            layer_free(layer);
        }
        globfree(&found);
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* 1 … max, near a multiple of a vector half of the time */
static int64_t draw(uint64_t *state, int64_t max)
{
    int64_t value = (int64_t)(next_random(state) % (uint64_t)max) + 1;
    if (next_random(state) & 1)
        value = value / 16 * 16 + (int64_t)(next_random(state) % 3) - 1;
    return value < 1 ? 1 : value > max ? max : value;
}

static void test_drawn_layers(void **state)
{
    uint64_t random = 20261120;
    for (int i = 0; i < 3000; i++) {
        struct settings s = {.count = 0};
        const int64_t h = (int64_t)1 << next_random(&random) % 5;
        const bool conv = next_random(&random) % 4 == 0, split = next_random(&random) % 4 == 0;
        set(&s, "h", h);
        set(&s, "d_model", h * draw(&random, 100));
        set(&s, "d_k", draw(&random, 300));
        set(&s, "d_v", draw(&random, 300));
        set(&s, "seq_len", draw(&random, 2000));
        set_word(&s, next_random(&random) & 1 ? "bias=true" : "bias=false");
        set_word(&s, split ? "input=split" : "input=shared");
        set_word(&s, conv ? "w_o=conv" : next_random(&random) % 3 ? "w_o=dense" : "w_o=none");
        set_word(&s, next_random(&random) & 1 ? "mask=none" : "mask=causal+additive");
        if (next_random(&random) & 1) {
            set_word(&s, "attention=cross");
            set(&s, "source_len", draw(&random, 2000));
            set(&s, "d_source", h * draw(&random, 100));
        }
        if (next_random(&random) & 1)
            set(&s, "plan.key_block", draw(&random, 64));
        if (next_random(&random) & 1)
            set(&s, "plan.query_vecs", draw(&random, 3));
        if (next_random(&random) % 4 == 0)
            set_word(&s, next_random(&random) & 1 ? "plan.fold=on" : "plan.fold=off");
        if (next_random(&random) % 4 == 0)
            set_word(&s, next_random(&random) & 1 ? "plan.value_layout=rows" : "plan.value_layout=blocks");
        if (next_random(&random) % 4 == 0)
            set_word(&s, next_random(&random) & 1 ? "plan.z_layout=rows" : "plan.z_layout=blocks");
        static const struct { const char *key; int64_t max; } tiles[] = {
            {"plan.panel_vecs", 4}, {"plan.panel_rows", 16}, {"plan.lane_rows", 16}, {"plan.score_rows", 16},
            {"plan.value_rows", 16}, {"plan.batch_rows", 256}};
        for (size_t k = 0; k < sizeof tiles / sizeof tiles[0]; k++)
            if (next_random(&random) % 4 == 0)
                set(&s, tiles[k].key, draw(&random, tiles[k].max));
        if (next_random(&random) % 4 == 0)
            set(&s, "plan.panel_depth", 7 + draw(&random, 600));
        struct layer *layer = read_layer(&s);
        struct plan *plan = make_plan(layer);
        check_plan(layer, plan);
        forget(plan, layer);
    }
}

static void test_requests(void **state)
{
    struct settings s = {.count = 0};
    set_word(&s, "plan.unroll=full");
    set_word(&s, "plan.query_vecs=3");
    set_word(&s, "plan.key_block=7");
    set_word(&s, "plan.group_rows=48");
    struct layer *layer = read_layer(&s);
    struct plan *plan = make_plan(layer);
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        assert_int_equal(p->vecs, 3);
        assert_int_equal(p->key_block, 7);
        assert_int_equal(Q(p)->unroll, layer->d_model);
        assert_int_equal(p->unroll_scores, layer->d_k);
        assert_true(K(p)->group_rows <= 48 || K(p)->group_rows == p->block);
    }
    forget(plan, layer);
}

/* Tiles are as tall as asked, or as registers allow; they stay so for single vectors. */
static void test_requests_of_tiles(void **state)
{
    struct settings s = {.count = 0};
    set(&s, "d_model", 64);
    set(&s, "h", 1);
    set(&s, "seq_len", 200);
    set_word(&s, "plan.query_vecs=2");
    set_word(&s, "plan.panel_vecs=1");
    set_word(&s, "plan.fold=off");
    set_word(&s, "plan.panel_rows=5");
    set_word(&s, "plan.panel_depth=20");
    set_word(&s, "plan.lane_rows=3");
    set_word(&s, "plan.score_rows=2");
    set_word(&s, "plan.value_rows=16");
    set_word(&s, "plan.batch_rows=256");
    set_word(&s, "plan.value_layout=rows");
    set_word(&s, "plan.softmax=two_pass");
    struct layer *layer = read_layer(&s);
    struct plan *plan = make_plan(layer);
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        assert_int_equal(K(p)->vecs, 1);
        assert_int_equal(K(p)->rows, p->block == 32 ? 5 : 4); /* near-equal parts of blocks of 8, 16 and 32 */
        assert_int_equal(K(p)->k_block, 16); /* 64 in 4 slabs of whole eights */
        assert_int_equal(p->rows, 2);
        assert_true(p->rows_single > 8);
        assert_true(p->value_rows <= 16 && (p->value_rows + 1) * 2 < p->isa->registers);
        assert_int_equal(p->batch_rows, 400); /* the fewest sequences with 256 tokens */
        assert_true(p->two_pass);
    }
    forget(plan, layer);

    s.count = 0;
    set(&s, "d_model", 64);
    set_word(&s, "plan.lane_rows=3");
    set_word(&s, "plan.value_layout=blocks");
    layer = read_layer(&s);
    plan = make_plan(layer);
    for (int64_t i = 0; i < plan->count; i++)
        assert_int_equal(plan_step(&plan->isas[i], STEP_VALUES)->lanes.height[0], 3);
    forget(plan, layer);
}

static void test_requests_of_folding(void **state)
{
    struct settings s = {.count = 0};
    set_word(&s, "plan.fold=on");
    set_word(&s, "plan.value_layout=blocks");
    set_word(&s, "plan.depth_slab=10");
    set_word(&s, "plan.prefetch=on");
    set_word(&s, "bias=true");
    set(&s, "d_model", 64);
    set(&s, "h", 4);
    struct layer *layer = read_layer(&s);
    struct plan *plan = make_plan(layer);
    assert_true(plan->fold.scores && plan->fold.values && !plan->fold.q_is_k);
    assert_true(plan->fold.d_score == 64 && plan->fold.d_value == 64 && plan->fold.d_z == 65);
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        assert_true(K(p) == NULL && plan_step(p, STEP_VALUES) == NULL && p->value_blocks);
        assert_int_equal(p->depth_slab, 10); /* 64 in 7 near-equal slabs */
        assert_int_equal(O(p)->depth, 4 * 65);
        assert_int_equal(Q(p)->columns * Q(p)->groups, 4 * 64);
        assert_true(p->isa->prefetches == (O(p)->prefetch > 0));
    }
    forget(plan, layer);

    s.count = 0;
    set_word(&s, "plan.fold=off");
    set_word(&s, "plan.value_layout=rows");
    set_word(&s, "plan.prefetch=off");
    set(&s, "d_k", 500);
    set(&s, "d_v", 500);
    layer = read_layer(&s);
    plan = make_plan(layer);
    assert_true(!plan->fold.scores && !plan->fold.values && plan->fold.d_z == 500);
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        assert_true(K(p) != NULL && V(p) != NULL && !p->value_blocks && p->prefetch_keys == 0);
        assert_true(Q(p)->prefetch == 0 && K(p)->prefetch == 0 && V(p)->prefetch == 0 && O(p)->prefetch == 0);
    }
    forget(plan, layer);
}

/* Folding is taken exactly where multiply-adds fall: d width > cost, the sides of a score's and a value's sum divided
 * by what is common to both. n queries, m keys, D wide (m S wide), h heads of h_kv. */
enum { FOLD_N = 40, FOLD_M = 24, FOLD_D = 48, FOLD_S = 36, FOLD_H = 4, FOLD_H_KV = 2 };

static const struct fold_rule {
    const char *set[3];
    int64_t scores[2], values[2]; /* the smallest d that folds is cost / width + 1 */
} fold_rules[] = {
    /* wide self-attention: d > D (D + n) / (2D + n) */
    {{"mask=none"}, {FOLD_D * (FOLD_D + FOLD_N), 2 * FOLD_D + FOLD_N},
     {FOLD_D * (FOLD_D + FOLD_N), 2 * FOLD_D + FOLD_N}},
    /* the keys are projected for fewer heads */
    {{"h_kv=2"},
     {FOLD_H * FOLD_D * (FOLD_D + FOLD_N), (FOLD_H + FOLD_H_KV) * FOLD_D + FOLD_H * FOLD_N},
     {FOLD_H * FOLD_D * (FOLD_D + FOLD_N), (FOLD_H + FOLD_H_KV) * FOLD_D + FOLD_H * FOLD_N}},
    /* the input of a head is narrower, its part of W_O is not */
    {{"input=split"},
     {FOLD_D / FOLD_H * (FOLD_D / FOLD_H + FOLD_N), 2 * FOLD_D / FOLD_H + FOLD_N},
     {FOLD_D / FOLD_H * (FOLD_D + FOLD_N), FOLD_D / FOLD_H + FOLD_D + FOLD_N}},
    {{"attention=cross", "source_len=24", "d_source=36"},
     {FOLD_S * FOLD_N * (FOLD_D + FOLD_M), FOLD_N * FOLD_D + FOLD_M * FOLD_S + FOLD_N * FOLD_M},
     {FOLD_S * FOLD_N * (FOLD_D + FOLD_M), FOLD_N * FOLD_D + FOLD_M * FOLD_S + FOLD_N * FOLD_M}},
    /* half of the pairs, and a half more: twice the terms */
    {{"mask=causal"}, {FOLD_D * (2 * FOLD_D + FOLD_N + 1), 4 * FOLD_D + FOLD_N + 1},
     {FOLD_D * (2 * FOLD_D + FOLD_N + 1), 4 * FOLD_D + FOLD_N + 1}},
    /* queries are the keys and cost nothing: d > D */
    {{"w_k=tied"}, {FOLD_D, 1}, {FOLD_D * (FOLD_D + FOLD_N), 2 * FOLD_D + FOLD_N}},
    /* three taps of d columns each, but for the two beyond the ends */
    {{"w_o=conv", "conv_width=3"},
     {FOLD_D * (FOLD_D + FOLD_N), 2 * FOLD_D + FOLD_N},
     {FOLD_D * (FOLD_N * FOLD_N * FOLD_H + (3 * FOLD_N - 2) * FOLD_D),
      FOLD_N * FOLD_D * FOLD_H + FOLD_N * FOLD_N * FOLD_H + (3 * FOLD_N - 2) * FOLD_D}},
    /* nothing to fold values with */
    {{"w_o=none"}, {FOLD_D * (FOLD_D + FOLD_N), 2 * FOLD_D + FOLD_N}, {0, 0}},
};

static void check_fold(const struct fold_rule *rule, int64_t above_k, int64_t above_v)
{
    const bool never = rule->values[1] == 0;
    const int64_t d_k = rule->scores[0] / rule->scores[1] + above_k;
    const int64_t d_v = never ? 500 : rule->values[0] / rule->values[1] + above_v;
    struct settings s = {.count = 0};
    set(&s, "d_model", FOLD_D);
    set(&s, "h", FOLD_H);
    set(&s, "seq_len", FOLD_N);
    set(&s, "d_k", d_k);
    set(&s, "d_v", d_v);
    for (int i = 0; i < 3 && rule->set[i] != NULL; i++)
        set_word(&s, rule->set[i]);
    set(&s, "plan.typical_n", FOLD_N); /* the rule is that of one length */
    set_word(&s, "plan.typical_m=1000000");
    struct layer *layer = read_layer(&s);
    struct plan *plan = make_plan(layer);
    assert_int_equal(plan->fold.scores, d_k * rule->scores[1] > rule->scores[0]);
    assert_int_equal(plan->fold.values, !never && d_v * rule->values[1] > rule->values[0]);
    assert_int_equal(plan->fold.scores, above_k);
    assert_int_equal(plan->fold.values, !never && above_v);
    assert_int_equal(plan->fold.d_score, plan->fold.scores ? layer->d_in_kv : d_k);
    assert_int_equal(plan->fold.d_value, plan->fold.values ? layer->d_in_kv : d_v);
    check_plan(layer, plan);
    forget(plan, layer);
}

static void test_fold_rule(void **state)
{
    for (size_t i = 0; i < sizeof fold_rules / sizeof fold_rules[0]; i++)
        for (int64_t above = 0; above < 4; above++)
            check_fold(&fold_rules[i], above & 1, above >> 1);
}

/* Values that are the input already are folded with nothing. */
static void test_identity_is_not_folded(void **state)
{
    struct settings s = {.count = 0};
    set_word(&s, "w_v=identity");
    set_word(&s, "plan.fold=on");
    struct layer *layer = read_layer(&s);
    struct plan *plan = make_plan(layer);
    assert_true(plan->fold.scores && !plan->fold.values && plan->fold.d_z == layer->d_v);
    forget(plan, layer);
}

/* Tokens that are projected as one matrix: what `rows` says for 4, 8 and 16 lanes; sequences are whole. */
static void check_batch(const char *const words[], int64_t seq_len, const int64_t rows[3])
{
    struct settings s = {.count = 0};
    set(&s, "seq_len", seq_len);
    for (size_t i = 0; words[i] != NULL; i++)
        set_word(&s, words[i]);
    struct layer *layer = read_layer(&s);
    struct plan *plan = make_plan(layer);
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        const int64_t expected = rows[p->lanes / 8];
        assert_int_equal(p->batch_rows, expected);
        assert_int_equal(p->batch_sources, expected / seq_len * layer->source_len);
    }
    check_plan(layer, plan);
    forget(plan, layer);
}

static void test_batches(void **state)
{
    static const int64_t none[] = {0, 0, 0}, fifths[] = {35, 65, 130}, elevenths[] = {11, 11, 11},
                         whole[] = {32, 32, 32};
    static const int64_t many[] = {260, 260, 260};
    static const int64_t ninths[] = {20, 40, 75}, one[] = {5, 5, 5};
#define WORDS(...) (const char *const[]){"plan.value_layout=rows", __VA_ARGS__ NULL}
    check_batch(WORDS("plan.fold=off", ), 5, fifths); /* eight vectors at least */
    check_batch(WORDS("plan.fold=off", ), 11, elevenths); /* one sequence fills its tiles */
    check_batch(WORDS("plan.fold=off", ), 32, whole);
    check_batch(WORDS("d_model=1024", "h=16", ), 5, many); /* weights from beyond L2: 256 tokens */
    check_batch(WORDS("w_o=conv", ), 5, none);
    check_batch(WORDS("attention=cross", "source_len=9", ), 5, ninths); /* the longer input decides */
    check_batch(WORDS("attention=cross", "source_len=4096", ), 5, one);
    check_batch(WORDS("attention=cross", "source_len=9", "mask=padding", ), 5, none);
    check_batch((const char *const[]){"plan.value_layout=blocks", NULL}, 5, none);
#undef WORDS
}

static void test_refusals(void **state)
{
    static const struct {
        const char *set, *legal; /* NULL: the key is unknown */
    } bad[] = {
        {"plan.unroll=0", "auto, full or 1 ... 4096 steps"}, {"plan.unroll=-1", "auto, full or 1 ... 4096 steps"},
        {"plan.unroll=2x", "auto, full or 1 ... 4096 steps"}, {"plan.unroll=99999", "auto, full or 1 ... 4096 steps"},
        {"plan.key_block=full", "auto or 1 ... 65536 keys"}, {"plan.key_block=0", "auto or 1 ... 65536 keys"},
        {"plan.query_vecs=5", "auto or 1 ... 4 vectors"}, {"plan.nonsense=1", NULL},
        {"plan.group_rows=99999999999999999999", "auto or 1 ... 1048576 rows"},
        {"plan.depth_slab=0", "auto or 1 ... 1048576 features"},
        {"plan.depth_slab=1048577", "auto or 1 ... 1048576 features"},
        {"plan.depth_slab=on", "auto or 1 ... 1048576 features"}, {"plan.fold=yes", "auto, on or off"},
        {"plan.fold=1", "auto, on or off"}, {"plan.fold=ON", "auto, on or off (did you mean 'on'?)"},
        {"plan.fold=full", "auto, on or off"},
        {"plan.prefetch=0", "auto, on or off"}, {"plan.prefetch=rows", "auto, on or off"},
        {"plan.value_layout=on", "auto, rows or blocks"}, {"plan.value_layout=1", "auto, rows or blocks"},
        {"plan.value_layout=block", "auto, rows or blocks (did you mean 'blocks'?)"},
        {"plan.z_layout=token", "auto, rows or blocks"},
        {"plan.size=tiny", "auto, fast or small"},
        {"plan.size=1", "auto, fast or small"}, {"plan.panel_vecs=5", "auto or 1 ... 4 vectors"},
        {"plan.panel_rows=17", "auto or 1 ... 16 rows"}, {"plan.panel_depth=7", "auto or 8 ... 1048576 steps"},
        {"plan.lane_rows=0", "auto or 1 ... 16 rows"}, {"plan.score_rows=full", "auto or 1 ... 16 rows"},
        {"plan.value_rows=-1", "auto or 1 ... 16 rows"}, {"plan.batch_rows=257", "auto or 1 ... 256 tokens"},
        {"plan.softmax=2", "auto, one_pass or two_pass"}, {"plan.products=1", "auto, classical or fast"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct settings s = {.count = 0};
        set_word(&s, bad[i].set);
        struct layer *layer = read_layer(&s);
        struct diag diag = {0};
        char expected[600];
        assert_null(plan_make(layer, isa_all(), &diag));
        assert_int_equal(diag.errors, 1);
        const int key = (int)strcspn(bad[i].set, "=");
        if (bad[i].legal != NULL)
            snprintf(expected, sizeof expected, "--set %s: error: %.*s = %s is not a legal value; write %s",
                     bad[i].set, key,
                     bad[i].set, bad[i].set + key + 1, bad[i].legal);
        else
            snprintf(expected, sizeof expected, "--set %s: error: unknown key '%.*s'; the plan knows plan.unroll, "
                     "plan.query_vecs, plan.key_block, plan.depth_slab, plan.fold, plan.prefetch, plan.value_layout, "
                     "plan.z_layout, plan.group_rows, plan.panel_vecs, plan.panel_rows, plan.panel_depth, "
                     "plan.lane_rows, plan.score_rows, plan.value_rows, plan.batch_rows, plan.softmax, plan.size, "
                     "plan.exact_chunks, plan.typical_n, plan.typical_m, plan.saved, plan.products, plan.latent",
                     bad[i].set, key, bad[i].set);
        assert_string_equal(diag.messages[0], expected);
        diag_free(&diag);
        layer_free(layer);
    }
}

/* Each tensor fits a C array, but not all of them together in one block. */
static void test_too_large_together(void **state)
{
    struct settings s = {.count = 0};
    set(&s, "d_model", 1 << 30);
    set(&s, "h", 1);
    set(&s, "seq_len", 1 << 30);
    struct diag diag = {0};
    struct layer *layer = layer_read(SPEC, s.set, s.count, &diag);
    if (layer != NULL)
        assert_null(plan_make(layer, isa_all(), &diag));
    assert_true(diag.errors > 0);
    diag_free(&diag);
    layer_free(layer);
}

/* A long reduction is cut so that a group of rows stays in L2 beside a panel; the model's constants, not the host's. */
static void test_caches(void **state)
{
    struct settings s = {.count = 0};
    set(&s, "d_model", 768);
    set(&s, "h", 8);
    set(&s, "d_k", 64);
    set(&s, "d_v", 728);
    set(&s, "seq_len", 2048);
    set_word(&s, "plan.fold=off");
    set_word(&s, "plan.value_layout=rows");
    struct layer *layer = read_layer(&s);
    struct plan *plan = make_plan(layer);
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        assert_true(O(p)->depth == 8 * 728 && O(p)->k_block <= 1024);
        assert_true(K(p)->k_block == 768);
        const struct plan_panels *const all[] = {K(p), V(p), O(p)};
        for (size_t g = 0; g < 3; g++)
            assert_true((size_t)(all[g]->group_rows * all[g]->k_block) * sizeof(float) <= p->isa->l2_bytes);
        assert_true((size_t)(p->key_block * p->block) * sizeof(float) <= p->isa->l1d_bytes);
    }
    forget(plan, layer);
}

/* The plan for one set of a layer whose other keys are the defaults. */
static struct plan_isa plan_for(const char *isa, const char *const words[], struct plan **plan, struct layer **layer)
{
    struct settings s = {.count = 0};
    int64_t i = 0;
    for (size_t w = 0; words[w] != NULL; w++)
        set_word(&s, words[w]);
    *layer = read_layer(&s);
    *plan = make_plan(*layer);
    while (strcmp((*plan)->isas[i].isa->name, isa) != 0)
        i++;
    return (*plan)->isas[i];
}

#define CHECK_PLAN(isa_name, check, ...) \
    do { \
        struct plan *plan; \
        struct layer *layer; \
        const struct plan_isa p = plan_for(isa_name, (const char *const[]){__VA_ARGS__, NULL}, &plan, &layer); \
        assert_true(check); \
        plan_free(plan); \
        layer_free(layer); \
    } while (0)

/* Logits of a vocabulary: no rows of it in the scratch, and parts enough for threads however few rows there are. */
static void test_linear(void **state)
{
    static const struct { const char *text; int64_t normed; } cases[] = {
        {"layer = linear\nd_in = 3072\nd_out = 256000\nseq_len = 1\nsoftcap = 30\n", 0},
        {"layer = linear\nd_in = 768\nd_out = 50257\nseq_len = 1024\nweight_layout = out_in\nnorm = layer\n", 1},
        {"layer = linear\nd_in = 768\nd_out = 768\nseq_len = 196\nbias = true\n", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct layer *layer = layer_of(cases[i].text);
        struct plan *plan = make_plan(layer);
        for (int64_t k = 0; k < plan->count; k++) {
            const struct plan_isa *p = &plan->isas[k];
            const struct step *g = plan_step(p, STEP_LINEAR);
            const int64_t rows = layer->seq_len > p->batch_rows ? layer->seq_len : p->batch_rows;
            assert_true(p->step_count == 1 + cases[i].normed && g != NULL && g->kind == KIND_PANELS);
            assert_true(g->writes == LAYOUT_Y && g->panels.to_caller && g->panels.parts >= (i < 2 ? 64 : 2));
            assert_true(p->bytes[OWNER_SCRATCH] >= 64 && p->bytes[OWNER_WORKER] == 0);
            assert_true(p->bytes[OWNER_SCRATCH] <= 64 + cases[i].normed * (rows + 16) * (layer->d_model + 16) * 4);
        }
        forget(plan, layer);
    }
}

/* Blocks of queries leave a few that sum along the features, where these are priced lower, and only where they may. */
static void test_queries_left(void **state)
{
    static const struct { const char *isa, *more; int64_t n, vecs; } cases[] = {
        {"avx512", "", 17, 1}, {"avx512", "", 33, 2}, {"avx512", "", 36, 2}, {"avx512", "", 41, 3}, {"avx512", "", 49, 3},
        {"avx2", "", 17, 2}, {"avx2", "", 20, 3}, {"avx2", "", 25, 3}, {"avx2", "", 113, 3},
        {"avx512", "mask = additive\n", 33, 3}, {"avx512", "exact = portable\n", 33, 3},
        {"avx512", "plan.size = small\n", 33, 1}, {"avx512", "cache = rows\ncache_len = 1000\n", 33, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool cached = strstr(cases[i].more, "cache") != NULL;
        char text[300];
        snprintf(text, sizeof text, "input = projected\nw_o = none\nh = 8\nd_k = 64\nd_v = 64\nseq_len = %d\n%s%s",
                 (int)cases[i].n, cached ? "" : "source_len = 1000\n", cases[i].more);
        struct layer *layer = layer_of(text);
        struct plan *plan = make_plan(layer);
        const struct plan_isa *p = plan->isas;
        while (strcmp(p->isa->name, cases[i].isa) != 0)
            p++;
        assert_int_equal(p->vecs, cases[i].vecs);
        forget(plan, layer);
    }
}

/* Where things lie, as lengths and widths decide it. */
static void test_layouts(void **state)
{
    /* Z token by token where tokens fill less than half a vector, or where it is wanted so */
    CHECK_PLAN("avx2", p.z_rows, "seq_len=3");
    CHECK_PLAN("avx2", !p.z_rows, "seq_len=11");
    CHECK_PLAN("avx512", p.z_rows, "seq_len=7");
    CHECK_PLAN("avx512", !p.z_rows, "seq_len=8");
    CHECK_PLAN("avx512", p.z_rows, "seq_len=128", "d_model=1024", "h=16"); /* two sequences are projected together */
    CHECK_PLAN("avx512", !p.z_rows && !p.z_in_q, "seq_len=512", "d_model=64", "h=4");
    /* or where a block of it does not stay in L1: then in the place of the queries, if they are as wide */
    CHECK_PLAN("avx512", p.z_rows && p.z_in_q, "seq_len=512", "d_model=1024", "h=16");
    CHECK_PLAN("avx2", p.z_rows && p.z_in_q, "seq_len=512", "d_model=300", "h=4", "input=split");
    CHECK_PLAN("avx2", p.z_in_q && p.fold->scores && p.fold->values, "seq_len=128", "d_model=128", "h=4", "width=wide");
    CHECK_PLAN("avx2", p.z_rows && !p.z_in_q, "seq_len=512", "d_model=1024", "h=16", "d_v=65");
    CHECK_PLAN("avx2", p.z_rows && !p.z_in_q, "seq_len=512", "d_model=1024", "h=16", "w_k=tied");
    CHECK_PLAN("avx2", p.z_rows && p.z_in_q, "seq_len=512", "d_model=64", "h=4", "plan.z_layout=rows");
    CHECK_PLAN("avx2", !p.z_rows && !p.z_in_q, "seq_len=512", "d_model=1024", "h=16", "plan.z_layout=blocks");
    CHECK_PLAN("avx2", p.z_rows, "seq_len=512", "d_model=64", "h=4", "w_o=none", "plan.z_layout=blocks");
    CHECK_PLAN("avx2", !p.z_in_q, "seq_len=512", "d_model=1024", "h=16", "w_o=none");
    CHECK_PLAN("avx2", !p.z_in_q, "seq_len=512", "d_model=1024", "h=16", "w_o=conv", "conv_width=3");
    CHECK_PLAN("avx512", p.z_rows, "seq_len=128", "w_o=none");
    /* a wider query block where a head's keys and values, those that a query sees, exceed L2 */
    CHECK_PLAN("avx2", p.vecs == 2 && !p.streams, "d_model=128", "h=2", "seq_len=1024");
    CHECK_PLAN("avx2", p.vecs == 3 && p.streams, "d_model=128", "h=2", "seq_len=1032");
    CHECK_PLAN("avx2", p.vecs == 3 && p.streams, "d_model=128", "h=2", "seq_len=2048", "mask=causal");
    CHECK_PLAN("avx2", p.vecs == 2 && !p.streams, "d_model=128", "h=2", "seq_len=2048", "mask=window",
               "window_left=500", "window_right=500");
    CHECK_PLAN("avx2", p.streams, "d_model=128", "h=2", "seq_len=2048", "mask=window", "window_left=500",
               "window_right=unbounded");
    CHECK_PLAN("avx2", !p.streams, "d_model=128", "h=2", "seq_len=2048", "mask=causal+window", "window_left=1023",
               "window_right=unbounded");
    CHECK_PLAN("avx2", p.vecs == 2 && p.streams, "d_model=128", "h=2", "seq_len=2048", "plan.query_vecs=2");
    /* causal, 512 queries see 512 keys however many there are */
    CHECK_PLAN("avx2", !p.streams, "d_model=64", "h=1", "seq_len=512", "attention=cross", "source_len=100000",
               "mask=causal", "plan.fold=off");
    CHECK_PLAN("avx2", p.streams, "d_model=64", "h=1", "seq_len=512", "attention=cross", "source_len=100000",
               "plan.fold=off");
    /* folded, both are the input: 1000 rows of 128 */
    CHECK_PLAN("avx2", !p.streams, "d_model=128", "h=2", "width=wide", "seq_len=1000", "plan.fold=on");
    CHECK_PLAN("avx2", p.streams, "d_model=128", "h=2", "width=wide", "seq_len=1000", "plan.fold=off");
    /* but values in blocks are a copy of it */
    CHECK_PLAN("avx2", !p.streams, "d_model=512", "h=2", "width=wide", "seq_len=200", "plan.fold=on");
    CHECK_PLAN("avx2", p.streams, "d_model=512", "h=2", "width=wide", "seq_len=200", "plan.fold=on",
               "plan.value_layout=blocks");
    /* wide values in blocks: on AVX-512, where tokens fill the lanes */
    CHECK_PLAN("avx512", p.value_blocks && plan_step(&p, STEP_VALUES) != NULL, "d_k=64", "d_v=256",
               "plan.fold=off", "seq_len=128");
    CHECK_PLAN("avx512", !p.value_blocks, "d_k=64", "d_v=255", "plan.fold=off", "seq_len=128");
    CHECK_PLAN("avx512", !p.value_blocks, "d_k=64", "d_v=256", "plan.fold=off", "seq_len=17");
    CHECK_PLAN("avx2", !p.value_blocks, "d_k=64", "d_v=256", "plan.fold=off", "seq_len=128");
    /* and where features leave lanes empty: 2 of 8 */
    CHECK_PLAN("avx2", p.value_blocks, "d_model=2", "h=1", "d_v=2", "plan.fold=off", "seq_len=128");
    CHECK_PLAN("avx2", !p.value_blocks, "d_model=6", "h=1", "d_v=6", "plan.fold=off", "seq_len=128");
}

static bool uses(const struct plan_panels *g, const char *tiles)
{
    return strcmp(g->tiles, tiles) == 0;
}

/* Products that are alike have their tiles once. */
static void test_shared_tiles(void **state)
{
    CHECK_PLAN("avx2", uses(K(&p), "queries") && uses(V(&p), "queries") && uses(O(&p), "queries"), "d_model=512",
               "h=8", "seq_len=128");
    /* rows of queries stay whole, those of keys go to an array a head: places and strides are arguments */
    CHECK_PLAN("avx2", Q(&p)->tile_row == 0 && Q(&p)->tile_places && O(&p)->tile_places && Q(&p)->parts_placed &&
               Q(&p)->parts_split == 64 && Q(&p)->c_split == 0 && K(&p)->c_split == 64,
               "d_model=512", "h=8", "seq_len=128");
    CHECK_PLAN("avx2", strcmp(K(&p)->parts_of, "queries") == 0 && strcmp(V(&p)->parts_of, "queries") == 0 &&
               V(&p)->behind == 2 * K(&p)->behind, "d_model=512", "h=8", "seq_len=128");
    CHECK_PLAN("avx2", Q(&p)->tile_row == Q(&p)->c_row && !Q(&p)->tile_places && !Q(&p)->parts_placed,
               "d_model=512", "h=8", "d_k=12", "d_v=12", "seq_len=128");
    CHECK_PLAN("avx2", uses(K(&p), "queries") && uses(V(&p), "queries") && uses(O(&p), "output"), "d_model=64", "h=8",
               "seq_len=128");
    CHECK_PLAN("avx2", uses(K(&p), "keys") && uses(V(&p), "keys"), "d_model=512", "h=8", "d_k=12", "h_kv=2", "d_v=12",
               "seq_len=128");
    CHECK_PLAN("avx2", uses(K(&p), "queries") && uses(V(&p), "values"), "d_model=512", "h=8", "d_k=64", "d_v=20",
               "seq_len=128");
    CHECK_PLAN("avx2", uses(K(&p), "keys"), "d_model=512", "h=8", "attention=cross", "d_source=256", "source_len=128",
               "seq_len=128");
}

/* Rows that all fall into one set of L1 are at most seven in a tile, those that fall into two at most fourteen. */
static void test_rows_apart(void **state)
{
    CHECK_PLAN("avx512", Q(&p)->rows == 8 && O(&p)->rows == 8, "d_model=768", "h=12", "seq_len=512");
    CHECK_PLAN("avx512", Q(&p)->rows == 6 && K(&p)->rows == 6 && O(&p)->rows == 6, "d_model=1024", "h=16",
               "seq_len=512");
    CHECK_PLAN("avx512", Q(&p)->rows == 6 && K(&p)->rows == 6 && O(&p)->rows == 6, "d_model=3072", "h=16",
               "seq_len=512");
    CHECK_PLAN("avx512", Q(&p)->rows == 12, "d_model=512", "h=16", "seq_len=512", "plan.query_vecs=3",
               "plan.panel_vecs=2");
    CHECK_PLAN("avx512", Q(&p)->rows == 7, "d_model=1024", "h=16", "seq_len=512", "plan.query_vecs=3",
               "plan.panel_vecs=2");
    CHECK_PLAN("avx512", Q(&p)->rows == 12, "d_model=1024", "h=16", "seq_len=512", "plan.query_vecs=3",
               "plan.panel_vecs=2",
               "plan.panel_rows=14");
    CHECK_PLAN("avx512", p.rows <= 7 && p.rows_single <= 7, "d_model=1024", "h=4", "d_k=1024", "d_v=64",
               "plan.fold=on", "seq_len=512",
               "plan.query_vecs=2");
    /* the stack is that of the largest tile, not of these: clang 14 -O0 takes 126968 bytes for output_6 */
    CHECK_PLAN("avx512", p.stack_plain > 126968, "d_model=1024", "h=4", "d_k=1024", "seq_len=16");
    CHECK_PLAN("avx512", p.rows == 14 && p.rows_single == 16, "d_model=1024", "h=16", "seq_len=512",
               "plan.query_vecs=2");
}

/* Weights from beyond L2 are asked for, unless so few tokens pass that there is nothing else to do. */
static void test_asking(void **state)
{
    CHECK_PLAN("avx2", Q(&p)->prefetch == 6 && Q(&p)->prefetch_after > 0, "d_model=1024", "h=16", "seq_len=128");
    CHECK_PLAN("avx512", Q(&p)->prefetch == 16 && Q(&p)->prefetch_after > 0, "d_model=1024", "h=16", "seq_len=128");
    /* not behind the packed block: gates twice as deep as all of w_2; a panel that no whole lines fill */
    CHECK_PLAN("avx2", plan_panels_of(&p, STEP_HIDDEN)->prefetch_after == 0, "d_model=1024", "h=16", "seq_len=128",
               "block=pre", "ffn=swiglu", "d_ff=16");
    CHECK_PLAN("avx2", plan_panels_of(&p, STEP_HIDDEN)->prefetch_after > 0, "d_model=1024", "h=16", "seq_len=128",
               "block=pre", "ffn=swiglu", "d_ff=2048");
    CHECK_PLAN("avx2", Q(&p)->prefetch == 2 && O(&p)->prefetch == 1, "d_model=768", "h=12", "seq_len=64",
               "weight_type=i8", "plan.panel_vecs=3", "plan.prefetch=on");
    CHECK_PLAN("avx2", p.prefetch_keys > 0 && p.prefetch_queries > 0, "d_model=1024", "h=16", "seq_len=512");
    CHECK_PLAN("avx2", p.prefetch_keys == 0 && p.prefetch_queries == 0, "d_model=1024", "h=16", "seq_len=512",
               "plan.prefetch=off");
    CHECK_PLAN("avx2", p.prefetch_keys == 0, "d_model=1024", "h=16", "seq_len=512", "plan.size=small",
               "plan.prefetch=on", "plan.query_vecs=2");
}

/* Small code: one shape a product, nothing special; what the spec asks for by its own key still holds. */
static void test_small(void **state)
{
    struct settings s = {0};
    set(&s, "d_model", 2048);
    set(&s, "h", 16);
    set(&s, "seq_len", 500);
    set_word(&s, "plan.size=small");
    set(&s, "plan.unroll", 3);
    struct layer *layer = read_layer(&s);
    struct plan *plan = make_plan(layer);
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        assert_true(p->vecs == 1 && !p->at_once && !p->value_blocks);
        assert_true(p->prefetch_keys == 0 && p->batch_rows == 0 && p->depth_slab == p->fold->d_score);
        assert_true(p->rows % p->lanes == 0 || p->rows < p->lanes);
        assert_true(Q(p)->prefetch == 0 && Q(p)->rest == 0); /* no tiles for a last, smaller block */
        assert_true(p->fold->d_value % p->value_rows == 0);
        assert_true(p->unroll_scores == 3 && O(p)->unroll == 3 && O(p)->k_block == O(p)->depth);
        assert_true(K(p)->vecs * K(p)->rows >= 4 * p->isa->fma_ports); /* accumulators: a latency of 4 cycles */
        assert_true(p->stack > 1536 && p->stack_plain > p->stack);
    }
    forget(plan, layer);
}

/* A part that finishes heads begins with the first column of one; of rms_all it has all columns. */
static void whole_heads(const struct plan_panels *g, const struct plan_isa *p, const struct layer *l)
{
    const bool all = l->qk_norm == NORM_RMS_ALL;
    assert_true(g != NULL && g->finish > 0);
    for (int64_t part = 0; part < g->parts; part++) {
        const int64_t panel = part * g->part_panels, column = panel % g->panels * g->vecs * p->lanes;
        assert_true(panel < g->groups * g->panels);
        assert_int_equal(g->groups > 1 ? column : column % l->d_k, 0);
    }
    assert_true(!all || g->parts == 1);
    assert_true(g->parts * g->part_panels >= g->groups * g->panels);
}

static void test_parts_have_whole_heads(void **state)
{
    static const char *const kinds[] = {"rope=half", "qk_norm=rms", "qk_norm=rms_all"},
                      *const inputs[] = {"shared", "split"};
    for (int64_t d_k = 2; d_k <= 70; d_k += 2)
        for (int kind = 0; kind < 3; kind++)
            for (int input = 0; input < 2; input++) {
                struct settings s = {.count = 0};
                char text[32];
                set(&s, "d_model", 768);
                set(&s, "h", 12);
                set(&s, "d_k", d_k);
                set(&s, "seq_len", 300);
                set_word(&s, kinds[kind]);
                snprintf(text, sizeof text, "input=%s", inputs[input]);
                set_word(&s, text);
                struct layer *layer = read_layer(&s);
    
            struct plan *plan = make_plan(layer);
                for (int64_t i = 0; i < plan->count; i++) {
                    whole_heads(Q(&plan->isas[i]), &plan->isas[i], layer);
                    whole_heads(K(&plan->isas[i]), &plan->isas[i], layer);
                    assert_false(plan->fold.scores);
                }
                forget(plan, layer);
            }
}

/* A sum reads what lies in rows as wide as it says, and its parts cover the matrices once. */
static void check_sum(const struct plan_isa *p, const struct step *g)
{
    const struct plan_sum *s = &g->sum;
    int64_t covered = 0;
    for (const struct sum_operand *of = &s->a; of <= &s->b; of++) {
        assert_non_null(p->layouts[of->from].name);
        assert_true(of->numbers <= of->row && of->row >= p->layouts[of->from].stride[AXIS_TOKEN]);
    }
    for (int64_t row = 0; row < s->a.numbers; row += p->back.chunk_rows)
        for (int64_t column = 0; column < s->b.numbers; column += p->back.chunk_columns)
            covered++;
    assert_int_equal(s->parts, covered * s->heads);
}

/* Backward is products too: a gradient of each weight that the layer has; where keys are tied, the queries' twice. */
static void test_gradients(void **state)
{
    static const char *const words[] = {"w_k=dense", "w_k=tied", "w_v=identity", "w_o=none", "input=split",
                                        "weight_layout=out_in"};
    for (size_t word = 0; word < sizeof words / sizeof *words; word++) {
        struct settings s = {0};
        set_word(&s, "train=true");
        set_word(&s, words[word]);
        struct layer *layer = read_layer(&s);
        struct plan *plan = make_plan(layer);
        for (int64_t i = 0; i < plan->count; i++) {
            const struct plan_isa *p = &plan->isas[i];
            int sums = 0, of_q = 0;
            for (const struct step *g = p->steps; g < p->steps + p->step_count; g++) {
                if (g->kind != KIND_SUM)
                    continue;
                check_sum(p, g);
                sums++;
                of_q += g->writes == LAYOUT_DW_Q;
                assert_true(g->sum.joins == (layer->tied && g->id == STEP_D_W_K));
                assert_true(g->reads[g->sum.zero] != LAYOUT_X && g->reads[g->sum.zero] != LAYOUT_DY);
            }
            assert_int_equal(sums, 4 - layer->identity - (layer->w_o == W_O_NONE));
            assert_int_equal(of_q, 1 + layer->tied);
            assert_non_null(plan_step(p, STEP_THROUGH_V));
        }
        forget(plan, layer);
    }
}

/* A step whose gradient is missing is refused by its row, whatever rules of keys let through. */
static void test_untrained(void **state)
{
    struct settings s = {0};
    set_word(&s, "block=pre");
    struct layer *layer = read_layer(&s);
    struct diag diag = {0};
    layer->train = true;
    assert_null(plan_make(layer, isa_all(), &diag));
    assert_non_null(strstr(diag_first(&diag), "the step \"norm of x\" has no gradient yet; leave out train"));
    diag_free(&diag);
    layer_free(layer);
}

/* Products with weights of i8 read digits where the set sums products of bytes, and calls of one token are typical. */
static void test_digits(void **state)
{
    static const char *const cached[] = {"cache=rows", "cache_len=4096", "mask=causal"};
    CHECK_PLAN("avx512", p.digits && Q(&p)->packed_depth == 76, "d_model=75", "h=3", "weight_type=i8", cached[0],
               cached[1], cached[2]);
    CHECK_PLAN("avx512", p.digits && Q(&p)->packed_depth == 2 * 20 + 4 + 8, "d_model=75", "h=3", "weight_type=i4",
               cached[0], cached[1], cached[2]);
    CHECK_PLAN("avx512", !p.digits && Q(&p)->packed_depth == 75, "d_model=75", "h=3", "weight_type=i8",
               "plan.typical_n=64", cached[0], cached[1], cached[2]);
    CHECK_PLAN("avx512", p.digits && Q(&p)->k_block < Q(&p)->depth && Q(&p)->k_block % WEIGHT_GROUP == 0,
               "d_model=1500", "h=3", "weight_type=i8", cached[0], cached[1], cached[2]);
    CHECK_PLAN("avx512", !p.digits, "d_model=75", "h=3", "weight_type=i8");
    CHECK_PLAN("avx2", !p.digits && Q(&p)->packed_depth == 75, "d_model=75", "h=3", "weight_type=i8", cached[0],
               cached[1], cached[2]);
    CHECK_PLAN("avx2", p.digits, "d_model=75", "h=3", "weight_type=i4", cached[0], cached[1], cached[2]);
}

/* exact = portable: four sums of a row, LANES / 4 vectors of keys and as many of each query fit into the registers; of
 * one row four vectors of a key are read at once. */
static void test_portable_rows(void **state)
{
    CHECK_PLAN("avx512", p.cached.held_rows == 3 && p.cached.query_vecs == 4, "exact=portable", "cache=rows",
               "cache_len=64", "mask=causal");
    CHECK_PLAN("avx2", p.cached.held_rows == 2, "exact=portable", "cache=rows", "cache_len=64", "mask=causal");
    CHECK_PLAN("neon", p.cached.held_rows == 4, "exact=portable", "cache=rows", "cache_len=64", "mask=causal");
    CHECK_PLAN("avx2", p.cached.query_vecs == 8, "cache=rows", "cache_len=64", "mask=causal");
}

/* Products of bytes take tile registers where a sum has enough words; panels are two registers wide, rows of words
 * lines of the cache, and lower tiles are there for any rest. */
static void test_tile_registers(void **state)
{
    CHECK_PLAN("amx", Q(&p)->heights.at[0].registers == 2 && Q(&p)->heights.at[0].rows == 32 &&
                          Q(&p)->heights.at[1].registers == 1 && Q(&p)->heights.at[2].rows < 16 && Q(&p)->vecs == 2 &&
                          Q(&p)->a_row == 48 && Q(&p)->prefetch == 0 && p.tiled, "d_model=132", "h=3", "precision=i8");
    CHECK_PLAN("amx", Q(&p)->heights.at[0].registers == 0 && !p.tiled, "d_model=120", "h=3", "precision=i8");
    CHECK_PLAN("avx512", Q(&p)->heights.at[0].registers == 0 && !p.tiled, "d_model=132", "h=3", "precision=i8");
    CHECK_PLAN("amx", Q(&p)->heights.at[Q(&p)->heights.count - 1].rows == 1, "d_model=1000", "h=4", "precision=i8");
}

/* A set for products of whole numbers is in the pairs that have some, and in no other. */
static void test_sets_of_dots(void **state)
{
    static const struct { const char *set[4]; bool has; } cases[] = {
        {{"precision=f32"}, false}, {{"precision=i8"}, true}, {{"precision=i16"}, true}, {{"precision=bf16"}, false},
        {{"weight_type=i8"}, false}, {{"weight_type=i4"}, false},
        {{"weight_type=i4", "cache=rows", "cache_len=4096", "mask=causal"}, true},
        {{"weight_type=i8", "cache=rows", "cache_len=4096", "mask=causal"}, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct settings s = {.count = 0};
        for (int k = 0; k < 4 && cases[i].set[k] != NULL; k++)
            set_word(&s, cases[i].set[k]);
        struct layer *layer = read_layer(&s);
        const bool bytes = strcmp(cases[i].set[0], "precision=i8") == 0;
        const unsigned dots = bytes ? isa_of_dots_only() : isa_of_dots_only() & ~isa_of_tiles();
        assert_true(dots != 0 && (isa_of_dots_only() & isa_of_tiles()) != 0);
        assert_int_equal(plan_isas(layer, isa_all()) & isa_of_dots_only(), cases[i].has ? dots : 0);
        assert_int_equal(plan_isas(layer, dots), cases[i].has ? dots : 0);
        layer_free(layer);
    }
}

/* Fast products of whole numbers are taken unasked where calls are of many tokens and sums of four numbers fit 16 bits;
 * there are none of floats. Tiles fit the registers, t is behind the panels. */
static void test_fast_products(void **state)
{
    enum { NONE, WORDS };
    static const struct { const char *set[4]; int fast; } cases[] = {
        {{"precision=i16"}, NONE}, {{"precision=i16", "seq_len=256"}, WORDS},
        {{"precision=i16", "plan.products=fast"}, WORDS},
        {{"precision=i16", "plan.products=classical", "seq_len=256"}, NONE},
        {{"precision=i8", "plan.products=fast"}, NONE},
        {{"precision=f32"}, NONE}, {{"plan.products=fast"}, NONE},
        {{"precision=i16", "d_model=188", "seq_len=256"}, NONE},
        {{"precision=i16", "plan.products=fast", "seq_len=63", "plan.batch_rows=1"}, NONE},
        {{"precision=i16", "plan.products=fast", "seq_len=40", "plan.batch_rows=80"}, WORDS},
        {{"precision=i16", "seq_len=256", "plan.typical_n=1"}, NONE},
        {{"precision=i16", "plan.products=fast", "seq_len=256", "plan.group_rows=48"}, WORDS},
        {{"precision=i16", "seq_len=256", "plan.typical_n=256"}, WORDS},
        {{"precision=i16", "attention=cross", "source_len=256"}, WORDS}, /* keys and values */
        {{"precision=i16", "attention=cross", "source_len=256", "plan.typical_n=1"}, WORDS},
        {{"precision=i16", "attention=cross", "source_len=256", "plan.typical_m=255"}, NONE},
        {{"precision=i16", "attention=cross", "source_len=70", "seq_len=256"}, WORDS}, /* queries and output */
        {{"precision=i16", "plan.products=fast", "tensor_type=bf16"}, NONE},
        {{"precision=i16", "plan.products=fast", "plan.size=small"}, NONE},
        {{"precision=i16", "cache=rows", "cache_len=300", "seq_len=256"}, NONE},
        {{"precision=i16", "cache=rows", "cache_len=80", "plan.products=fast"}, WORDS}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct settings s = {.count = 0};
        const char *const wide[] = {"d_model=192", "h=4", "d_k=50", "d_v=50", "seq_len=70"};
        for (int k = 0; k < 4 && cases[i].set[k] != NULL; k++)
            set_word(&s, cases[i].set[k]);
        for (size_t k = 0, given = s.count; k < sizeof wide / sizeof *wide; k++) {
            bool other = false; /* of the same key */
            for (size_t j = 0; j < given; j++)
                other = other || strncmp(s.set[j], wide[k], strcspn(wide[k], "=") + 1) == 0;
            if (!other)
                set_word(&s, wide[k]);
        }
        struct layer *layer = read_layer(&s);
        struct plan *plan = make_plan(layer);
        assert_int_equal(plan_has_fast(plan), cases[i].fast == WORDS);
        for (const struct plan_isa *p = plan->isas; p < plan->isas + plan->count; p++)
            for (const struct step *g = p->steps; g < p->steps + p->step_count; g++) {
                const struct plan_panels *const of = &g->panels;
                const struct layout *const sums = &p->layouts[LAYOUT_WEIGHT_SUMS + g->id];
                if (g->kind != KIND_PANELS || of->fast == 0) {
                    assert_null(sums->name);
                    continue;
                }
                const bool of_source = g->id == STEP_KEYS || g->id == STEP_VALUES;
                assert_true(!p->unasked || (of_source ? layer->source_len : layer->seq_len) >= 256);
                assert_true(of->group_rows >= 64); /* shorter groups take classical products */
                assert_true(of->fast * of->vecs <= p->isa->registers - of->vecs - 1 - p->word_registers);
                assert_int_equal(layout_elements(sums), 2 * of->fast_pairs * of->depth * of->vecs * p->lanes);
                assert_true(sums->at + layout_elements(sums) * 4 <= p->bytes[OWNER_PACKED]);
                assert_true(sums->element == of->weights && of->depth % 2 == 0);
            }
        forget(plan, layer);
    }
    struct layer *layer = read_layer(&(struct settings){.set = {"precision=i16"}, .count = 1});
    for (int64_t count = FAST_NUMBERS; count < 4096; count++)
        assert_true(4 * layer_levels(layer, count) <= INT16_MAX && 4 * layer_column_levels(layer, count) <= INT16_MAX);
    layer_free(layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drawn_layers), cmocka_unit_test(test_lists), cmocka_unit_test(test_requests),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_requests_of_tiles),
        cmocka_unit_test(test_requests_of_folding), cmocka_unit_test(test_fold_rule),
        cmocka_unit_test(test_identity_is_not_folded), cmocka_unit_test(test_batches),
        cmocka_unit_test(test_too_large_together), cmocka_unit_test(test_caches),
        cmocka_unit_test(test_small), cmocka_unit_test(test_linear), cmocka_unit_test(test_queries_left),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_shared_tiles),
        cmocka_unit_test(test_rows_apart),
        cmocka_unit_test(test_asking), cmocka_unit_test(test_parts_have_whole_heads),
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_untrained),
        cmocka_unit_test(test_digits), cmocka_unit_test(test_portable_rows),
        cmocka_unit_test(test_tile_registers),
        cmocka_unit_test(test_sets_of_dots),
        cmocka_unit_test(test_fast_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
