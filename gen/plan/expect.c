/* SPDX-License-Identifier: MIT */
/* The model of the time that a step takes, in cycles of one core:
 *
 *     cycles = the largest bound + what of the others is not hidden behind it + starts and ends of tiles
 *
 * Each step is counted as the templates compute it: the same tiles, heights, key blocks and strips of single vectors.
 * struct work collects the counts, finish() divides. A new kind of step has a function that fills a struct work, in its
 * file; a new bound is a row of bounds[].
 *
 * Left out on purpose: memory beyond L3, more than one core, lengths below the limits, data that take a second pass;
 * rounding to whole numbers, and what their dot products take beside a multiply-add.
 */
#include "plan/expect.h"
#include "plan/planning.h"

#include <math.h>
#include <string.h>

/* ---- the cores that the figures are of: Golden Cove (a Xeon, Emerald Rapids) and, for AVX2, Zen 4 (an EPYC) ---- */

#define CODE_BANDWIDTH 12.6     /* bytes of code a cycle from L2: larger loops reach 54 % of peak */
#define CALL_CYCLES 300.0
#define PREFETCH_SHOWS 0.25        /* share of the cycles of prefetched bytes from L3 that is not hidden */

static const struct caches golden_cove = {48, 2048, 49, 11}; /* 138 and 30 GB/s at 2.79 GHz */
static const struct caches zen_4 = {32, 1024, 31, 27};       /* 89 and 78 GB/s at 2.86 GHz */

static const struct core cores[] = {
    {"scalar", &golden_cove, .ports = 1.5, .loads = 2, .exp = 20, .hide = 24, .transpose = 1, .stream = 0,
     .fma_bytes = 11, .load_bytes = 8, .digits = 20},
    {"sse4", &golden_cove, .ports = 1.5, .loads = 2, .exp = 20, .hide = 24, .transpose = 1, .stream = 0,
     .fma_bytes = 11, .load_bytes = 8, .digits = 1},
    {"avx2", &zen_4, .ports = 2, .loads = 3, .exp = 10, .hide = 24, .transpose = 0.5, .stream = 1,
     .fma_bytes = 5, .load_bytes = 9, .digits = 1.4},
    {"avx512", &golden_cove, .ports = 2, .loads = 2, .exp = 9, .hide = 24, .transpose = 0.38, .stream = 0,
     .fma_bytes = 6, .load_bytes = 10, .portable_exp = 4, .digits = 0.9},
};

/* Share of a bound's cycles that adds to the largest bound; of L3, without prefetching. */
static const struct {
    const char *name;
    double shows;
} bounds[EXPECT_BOUNDS] = {
    [EXPECT_FMA] = {"FMA ports", 0.1},  [EXPECT_LANES] = {"lanes", 0.1}, [EXPECT_LOADS] = {"loads", 0.06},
    [EXPECT_EXP] = {"exp", 0.1},        [EXPECT_L2] = {"L2", 0.06},      [EXPECT_L3] = {"L3", 0.6},
    [EXPECT_CODE] = {"code size", 0.1}, [EXPECT_TILES] = {"tiles", 1},
};
#define MANY_IDLE_LANES 1.15 /* multiply-adds issued for each useful one, above which lanes are named as the bound */

static const char *const step_names[EXPECT_STEPS] = {"transpose", "queries", "keys", "values",
                                                     "scores", "exponential", "weighted sums", "output",
                                                     "norms", "hidden", "down", "linear", "states", "gates",
                                                     "convolution"};

const char *expect_bound_name(enum expect_bound bound)
{
    return bounds[bound].name;
}

/* ---- counting ---- */

/* A step over `tokens` tokens of a group */
static void count_step(struct model *m, const struct step *g, int64_t tokens, double times)
{
    const struct layer *l = m->layer;
    const double read = m->plan->layouts[g->reads[0]].owner == OWNER_CALLER ? m->far : m->near;
    const int64_t width = g->id == STEP_OUTPUT ? l->h * m->plan->fold->d_z : g->id == STEP_DOWN ? l->d_ff
                        : g->id == STEP_KEYS || g->id == STEP_VALUES ? l->d_source : l->d_model;
    m->input = m->again ? 0 : read * (double)width;
    if (step_kinds[g->kind]->count != NULL)
        step_kinds[g->kind]->count(m, &m->work[step_rows[g->id].expected], g, tokens, times);
}

/* `times` groups of `together` sequences, each projected as one matrix: the tasks of the plan's phases. */
static void count_group(struct model *m, int64_t together, double times)
{
    const struct layer *l = m->layer;
    const struct plan_isa *p = m->plan;
    const bool expands = latent_expands(&p->fold->expands, (size_t)l->seq_len, (size_t)(l->source_len - l->seq_len));
    for (const struct plan_phase *phase = p->phases; phase < p->phases + p->phase_count; phase++) {
        m->again = false;
        for (int i = 0; i < phase->task_count; i++) {
            const struct step *const g = phase->tasks[i];
            if (expands && (g->id == STEP_ABSORB || g->id == STEP_ATTEND || g->id == STEP_ATTEND_ROWS ||
                            g->id == STEP_UP_Z))
                continue;
            if (g->id == STEP_EXPAND && expands) {
                count_step(m, plan_step(p, STEP_UP_K), l->source_len, times * (double)together);
                count_step(m, plan_step(p, STEP_UP_V), l->source_len, times * (double)together);
                count_expanded(m, times * (double)together);
            } else if (g->id == STEP_ATTEND)
                count_attention(m, together, times * (double)together);
            else if (g->id == STEP_ATTEND_ROWS)
                count_cached(m, times * (double)together);
            else
                count_step(m, g, together * (g->of_keys ? layer_new_keys(l) : l->seq_len), times);
        }
    }
}

/* ---- from counts to cycles ---- */

static void hold(struct expect_step *s, enum expect_bound bound)
{
    if (s->bound[bound] > s->bound[s->held_by])
        s->held_by = bound;
}

static void finish(struct expect_step *s, const struct work *w, const struct model *m, enum expect_bound ports)
{
    const struct core *core = m->core;
    s->fmas = w->fmas;
    s->tiles = w->tiles;
    if (ports == EXPECT_FMA && s->useful > 0 &&
        w->fmas * (double)m->plan->lanes > MANY_IDLE_LANES * s->useful)
        ports = EXPECT_LANES;
    s->bound[ports] = w->port_cycles + w->operations / core->ports;
    s->bound[EXPECT_LOADS] = w->loads / core->loads;
    s->bound[EXPECT_L2] = w->l2 / core->caches->l2_rate;
    s->bound[EXPECT_L3] = (w->l3 + w->prefetched) / core->caches->l3_rate;
    s->bound[EXPECT_CODE] = w->code / CODE_BANDWIDTH;
    s->bound[EXPECT_TILES] = w->overhead;
    s->held_by = ports;
    for (int i = 0; i < EXPECT_BOUNDS; i++)
        hold(s, (enum expect_bound)i);
    s->cycles = s->held_by == EXPECT_TILES ? 0 : s->bound[s->held_by];
    for (int i = 0; i < EXPECT_BOUNDS; i++)
        if (i == EXPECT_TILES || i != (int)s->held_by)
            s->cycles += bounds[i].shows * s->bound[i];
    if (s->held_by != EXPECT_L3)
        s->cycles -= (bounds[EXPECT_L3].shows - PREFETCH_SHOWS) * w->prefetched / core->caches->l3_rate;
}

/* The layer is limited by what limits the steps that take most of its cycles. */
static void sum_up(struct expect *e, const struct core *core, int64_t lanes, double groups)
{
    double held[EXPECT_BOUNDS] = {0};
    e->layer.bound[EXPECT_TILES] = held[EXPECT_TILES] = CALL_CYCLES * groups;
    e->layer.cycles = CALL_CYCLES * groups;
    for (int i = 0; i < EXPECT_STEPS; i++) {
        struct expect_step *s = &e->step[i];
        s->share = s->cycles > 0 ? s->useful / (s->cycles * core->ports * (double)lanes) : 0;
        e->layer.useful += s->useful;
        e->layer.fmas += s->fmas;
        e->layer.tiles += s->tiles;
        e->layer.cycles += s->cycles;
        held[s->held_by] += s->cycles;
        for (int b = 0; b < EXPECT_BOUNDS; b++)
            e->layer.bound[b] += s->bound[b];
    }
    e->layer.share = e->layer.useful / (e->layer.cycles * core->ports * (double)lanes);
    for (int b = 0; b < EXPECT_BOUNDS; b++)
        if (held[b] > held[e->layer.held_by])
            e->layer.held_by = (enum expect_bound)b;
}

#define CORES (sizeof cores / sizeof cores[0])

/* CORES for a set that no measured core has */
static size_t core_of(const struct isa *isa)
{
    size_t i = 0;
    while (i < CORES && strcmp(cores[i].isa, isa->name) != 0)
        i++;
    return i;
}

bool expect_knows(const struct isa *isa)
{
    return core_of(isa) < CORES;
}

/* The plain layer's multiply-adds. A projection that folding removes counts with the step that forms its result. */
static void count_useful(struct expect *e, const struct layer *l, const struct plan_isa *p, double batch)
{
    const struct layer_cost cost = layer_multiply_adds(l, l->seq_len, l->source_len);
    e->step[EXPECT_LINEAR].useful = batch * cost.linear;
    e->step[EXPECT_RULE].useful = batch * cost.states;
    e->step[EXPECT_GATES].useful = batch * cost.gates;
    e->step[EXPECT_CONV].useful = layer_is_convolution(l) ? batch * cost.taps : 0;
    const bool recurs = layer_is_recurrent(l);
    const bool q = !p->fold->q_is_k, k = recurs || plan_panels_of(p, STEP_KEYS) != NULL;
    const bool v = recurs || plan_step(p, STEP_VALUES) != NULL;
    e->step[EXPECT_QUERIES].useful = batch * (!q ? 0 : cost.q + (k ? 0 : cost.k));
    e->step[EXPECT_KEYS].useful = batch * ((k ? cost.k : 0) + (q ? 0 : cost.q) + cost.made_k);
    e->step[EXPECT_VALUES].useful = batch * ((v ? cost.v : 0) + cost.made_v);
    e->step[EXPECT_SCORES].useful = batch * cost.scores;
    e->step[EXPECT_SUMS].useful = batch * cost.values;
    e->step[EXPECT_OUTPUT].useful = batch * (cost.output + (v ? 0 : cost.v));
    e->step[EXPECT_HIDDEN].useful = batch * (cost.ffn - cost.down);
    e->step[EXPECT_DOWN].useful = batch * cost.down;
}

void expect_make(struct expect *e, const struct layer *l, const struct plan_isa *p, int64_t batch)
{
    struct core core = cores[core_of(p->isa)];
    core.exp += l->portable ? core.portable_exp : 0;
    struct model m = {.layer = l, .plan = p, .core = &core};
    const double n = (double)l->seq_len, keys = (double)l->source_len, scratch = (double)p->bytes[OWNER_SCRATCH];
    const bool attends = layer_attends(l);
    const double q_k_v = n * (double)(l->h * l->d_k) + keys * (double)(l->h_kv * layer_cached_numbers(l));
    const double x = n * (double)l->d_model + (l->cross ? keys * (double)l->d_source : 0);
    const double inputs = (double)layer_tensor_size(l, TENSOR_X) * (l->projected ? q_k_v : x);
    const double pairs = attends ? (double)l->h * n * keys : 0;
    const double tensors = pairs * (count_terms(l).bytes + (l->scores ? (double)layer_tensor_size(l, TENSOR_ATTN) : 0));
    const double y = (double)layer_tensor_size(l, TENSOR_Y) * n * (double)l->d_out;
    const int64_t together = min(batch, p->sequences), rest = batch % together;
    /* one group's part of the scratch */
    const double used = scratch * (double)together / (double)p->sequences;
    m.near = share_lost(m.core->caches, used);
    m.far = share_lost(m.core->caches, used + (double)batch * (inputs + tensors + y) + (double)p->bytes[OWNER_PACKED]);

    count_group(&m, together, (double)(batch / together));
    if (rest > 0)
        count_group(&m, rest, 1);

    memset(e, 0, sizeof *e);
    count_useful(e, l, p, (double)batch);
    for (int i = 0; i < EXPECT_STEPS; i++)
        finish(&e->step[i], &m.work[i], &m, i == EXPECT_EXPONENTIAL ? EXPECT_EXP : EXPECT_FMA);
    sum_up(e, m.core, p->lanes, (double)ceil_div(batch, together));
}

/* ---- printing ---- */

static void print_step(FILE *out, const char *name, const struct expect_step *s)
{
    char share[16] = "", issued[32] = "";
    if (s->useful > 0)
        snprintf(share, sizeof share, "%.1f %%", 100 * s->share);
    if (s->fmas > 0)
        snprintf(issued, sizeof issued, "%.0f", s->fmas);
    fprintf(out, "    %-14s %14.0f %14s %8s   %s\n", name, s->cycles, issued, share, bounds[s->held_by].name);
}

/* One pair of weights: what folding saves or would cost, in the plain layer's multiply-adds; and in a short call, where
 * weights are read for little work. */
static void print_fold(FILE *out, const struct plan_fold *f, const char *pair, double saved, double short_share,
                       bool taken, double total)
{
    fprintf(out, "  folding %s %s%s %.0f multiply-adds, %.1f %% of the plain layer's: %s\n", pair,
            taken ? "" : "would ", saved >= 0 ? (taken ? "saves" : "save") : (taken ? "costs" : "cost"), fabs(saved),
            100 * fabs(saved) / total, taken ? "taken" : "not taken");
    if (f->short_n > 0)
        fprintf(out, "    with %" PRId64 " quer%s and %" PRId64 " key%s: %.2f times the plain layer's work, with what "
                "reading weights takes\n", f->short_n, f->short_n == 1 ? "y" : "ies", f->short_m,
                f->short_m == 1 ? "" : "s", short_share);
}

static void print_folds(FILE *out, const struct plan_fold *f, const struct layer *l)
{
    const double total = layer_multiply_adds(l, l->seq_len, l->source_len).total;
    fputc('\n', out);
    if (l->projected) {
        fputs("  nothing is projected before the scores: no weights to fold\n", out);
        return;
    }
    if (l->shares)
        fprintf(out, "  W_Q W_K^T cannot be folded: keys are read as values too\n");
    else if (layer_finishes(l))
        fprintf(out, "  W_Q W_K^T cannot be folded: queries and keys are normed or turned before they meet\n");
    else
        print_fold(out, f, "W_Q W_K^T", f->saved_scores, f->short_scores, f->scores, total);
    if (l->w_o != W_O_NONE && !l->identity && !l->shares)
        print_fold(out, f, "W_V W_O", f->saved_values, f->short_values, f->values, total);
    if (f->scores)
        fputs("  no keys are projected: their multiply-adds count as those of queries\n", out);
    if (f->values)
        fputs("  no values are projected: their multiply-adds count as those of the output\n", out);
    if (f->q_is_k)
        fputs("  no queries are projected: with W_K tied to W_Q they are the keys\n", out);
}

/* exact = portable: cycles over those of the layer without the key, where multiply-adds are no more instructions */
static void print_price(FILE *out, const struct layer *layer, const struct isa *isa, int64_t batch, double cycles)
{
    struct layer plain = *layer;
    struct diag diag = {0};
    struct expect e;
    plain.portable = false;
    struct plan *plan = plan_make(&plain, 1u << (isa - isa_table), &diag);
    if (plan != NULL && plan->count > 0) {
        expect_make(&e, &plain, &plan->isas[0], batch);
        fprintf(out, "    exact = portable: %.2f times the cycles without it\n", cycles / e.layer.cycles);
    }
    plan_free(plan);
}

void expect_explain(const struct plan *plan, const struct layer *layer, int64_t batch, FILE *out)
{
    fprintf(out,
            "\nExpected of %s: %" PRId64 " sequence%s of full length, one core, warm caches; cycles from counts of\n"
            "instructions and bytes, the plain layer's share of the FMA peak, and what limits it\n",
            layer->name, batch, batch == 1 ? "" : "s");
    if (layer_attends(layer))
        print_folds(out, &plan->fold, layer);
    struct expect of[ISAS];
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        struct expect *const e = &of[i];
        if (!expect_knows(p->isa)) {
            fprintf(out, "\n  %-16s no expectation: no core with this instruction set was measured\n", p->isa->name);
            continue;
        }
        expect_make(e, layer, p, batch);
        fprintf(out, "\n  %-16s %14s %14s %8s   limited by\n", p->isa->name, "cycles", "vector FMAs", "share");
        for (int s = 0; s < EXPECT_STEPS; s++)
            if (e->step[s].cycles > 0)
                print_step(out, step_names[s], &e->step[s]);
        print_step(out, "layer", &e->layer);
        if (p->isa == &isa_table[0])
            fputs("    an upper bound: scalar is as fast as the compiler makes it\n", out);
        else if (layer->portable && p->lanes >= 8)
            print_price(out, layer, p->isa, batch, e->layer.cycles);
    }
    fputc('\n', out);
    for (int64_t i = 0; i < plan->count; i++)
        if (expect_knows(plan->isas[i].isa))
            fprintf(out, "expected %s layer %.3f %s\n", plan->isas[i].isa->name, of[i].layer.share,
                    bounds[of[i].layer.held_by].name);
}
