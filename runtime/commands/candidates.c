/* SPDX-License-Identifier: MIT */
/* There are two kinds of plans: the default's neighbours, which differ from it in one key, and every combination of the
 * keys that shape tiles. The model predicts the cycles of each. Plans that should take much longer than the default are
 * left out; of the rest the fastest come first, alternating with neighbours of one key after another, since the model
 * does not cover everything that a key changes. Of sets without a model all plans are kept, in the order in which they
 * were found.
 */
#include "candidates.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "plan/expect.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "plan/planfile.h"
#include "spec/layer.h"
#include "base/memory.h"

/* Expected and measured shares are within 5 points for most layers (docs/plan.md): 6 % of the time at 85 %, for both of
 * the two plans that are compared */
#define MAX_SLOWDOWN 1.13

/* Values that are tried for each key, one at a time. Words are given by their values (request.h). */
static const struct {
    enum plan_key key;
    int64_t values[8]; /* up to the first 0, not counting the first value; 0 as first value: 0 and 1 */
} trials[] = {
    {PLAN_QUERY_VECS, {1, 2, 3, 4}},
    {PLAN_PANEL_VECS, {1, 2, 3, 4}},
    {PLAN_PANEL_ROWS, {4, 6, 8, 10, 12, 14, 16}},
    {PLAN_LANE_ROWS, {4, 6, 7, 8, 10, 12, 14}},
    {PLAN_SCORE_ROWS, {4, 6, 7, 8, 10, 12, 14}},
    {PLAN_VALUE_ROWS, {4, 6, 7, 8, 10, 12, 14}},
    {PLAN_PREFETCH, {PLAN_OFF, PLAN_ON}},
    {PLAN_VALUE_LAYOUT, {PLAN_ROWS, PLAN_BLOCKS}},
    {PLAN_Z_LAYOUT, {PLAN_ROWS, PLAN_BLOCKS}},
    {PLAN_FOLD, {PLAN_OFF, PLAN_ON}},
    {PLAN_LATENT, {PLAN_ABSORBED, PLAN_EXPANDED}},
    {PLAN_PRODUCT_KIND, {PLAN_CLASSICAL, PLAN_SEVEN}},
    {PLAN_SOFTMAX, {PLAN_ONE_PASS, PLAN_TWO_PASS}},
    {PLAN_UNROLL, {1, 4, 8, 16}},
    {PLAN_KEY_BLOCK, {16, 32, 64, 128, 256, 512, 1024}},
    {PLAN_GROUP_ROWS, {1, 48, 96, 144, 192, 288, 384, 512}},
    {PLAN_DEPTH_SLAB, {32, 64, 128, 256, 512}},
    {PLAN_PANEL_DEPTH, {128, 192, 256, 384, 512, 768, 2048}},
    {PLAN_BATCH_ROWS, {1, 32, 64, 128, 256}},
};
#define TRIALS (sizeof trials / sizeof trials[0])

/* The keys whose values are tried in all combinations */
static const enum plan_key combined[] = {PLAN_QUERY_VECS, PLAN_PANEL_VECS, PLAN_VALUE_LAYOUT, PLAN_PREFETCH};
#define COMBINED (sizeof combined / sizeof combined[0])

static size_t trial_of(enum plan_key key)
{
    size_t i = 0;
    while (trials[i].key != key)
        i++;
    return i;
}

static size_t values_of(size_t trial)
{
    size_t count = 1;
    while (count < 8 && trials[trial].values[count] != 0)
        count++;
    return count;
}

/* ---- what a request makes of a plan ---- */

struct outcome {
    struct plan_isa plan; /* without fields that differ although the code is the same */
    struct plan_fold fold;
    double cycles;
};

/* A plan with fast products that has none is one without. */
static void settle_fast(struct plan_isa *p)
{
    bool any = false;
    for (int i = 0; i < p->step_count; i++)
        any = any || (p->steps[i].kind == KIND_PANELS && p->steps[i].panels.classical == NULL);
    for (int i = 0; !any && i < p->step_count; i++)
        p->steps[i].panels.classical = NULL;
    p->fast = p->fast && any;
}

static bool resolve(struct outcome *o, const struct candidates *c, const struct plan_request *request,
                    struct diag *diag)
{
    struct plan_file file = plan_file_empty();
    file.isa[c->isa_row].request = *request;
    plan_request_part(&file.isa[c->isa_row].request, &file.common);
    struct plan *plan = plan_make_from(c->layer, 1u << c->isa_row, &file, diag);
    if (plan == NULL)
        return false;
    struct expect expect = {0};
    if (expect_knows(plan->isas[0].isa))
        expect_make(&expect, c->layer, &plan->isas[0], c->batch);
    memset(o, 0, sizeof *o);
    o->plan = plan->isas[0];
    o->fold = plan->fold;
    o->plan.fold = NULL;
    o->plan.asked = o->plan.request = plan_request_none();
    memset(o->plan.reasons, 0, sizeof o->plan.reasons);
    o->plan.reason_count = 0;
    o->plan.unasked = false;
    o->plan.not_fast = NULL;
    settle_fast(&o->plan);
    o->cycles = expect.layer.cycles;
    plan_free(plan);
    return true;
}

/* Padding bytes may differ by chance: then a plan is measured twice, which does no harm. */
static bool same(const struct outcome *a, const struct outcome *b)
{
    return memcmp(&a->plan, &b->plan, sizeof a->plan) == 0 && memcmp(&a->fold, &b->fold, sizeof a->fold) == 0;
}

/* ---- collecting ---- */

/* The request without keys that change nothing */
static struct plan_request smallest_request(const struct candidates *c, const struct outcome *wanted,
                                            struct plan_request request)
{
    for (int key = 0; key < PLAN_KEYS; key++) {
        struct plan_request fewer = request;
        struct outcome without;
        OWNED(diag_free) struct diag ignored = {0};
        fewer.value[key] = PLAN_AUTO;
        if (request.value[key] != PLAN_AUTO && resolve(&without, c, &fewer, &ignored) && same(&without, wanted))
            request = fewer;
    }
    return request;
}

static bool add(struct candidates *c, const struct plan_request *request, struct diag *diag)
{
    struct outcome new, old;
    if (!resolve(&new, c, request, diag))
        return false;
    for (size_t i = 0; i < c->count; i++)
        if (c->item[i].cycles == new.cycles && resolve(&old, c, &c->item[i].request, diag) && same(&old, &new))
            return false;
    c->item = memory_grow(c->item, c->count + 1, sizeof *c->item);
    c->item[c->count] = (struct candidate){smallest_request(c, &new, *request), new.cycles, c->count};
    c->count++;
    return true;
}

bool candidates_add(struct candidates *candidates, const struct plan_request *request)
{
    OWNED(diag_free) struct diag ignored = {0};
    return add(candidates, request, &ignored);
}

static int by_cycles(const void *a, const void *b)
{
    const struct candidate *l = a, *r = b;
    return l->cycles != r->cycles ? (l->cycles > r->cycles) - (l->cycles < r->cycles)
                                  : (l->made > r->made) - (l->made < r->made);
}

/* The one key of a neighbour; PLAN_KEYS for other plans. */
static int only_key(const struct plan_request *request)
{
    int key = 0;
    while (key < PLAN_KEYS && request->value[key] == PLAN_AUTO)
        key++;
    return plan_request_keys(request) == 1 ? key : PLAN_KEYS;
}

/* The first of `count` that is not taken; `count` if there is none */
static size_t next_of(const bool *taken, size_t count)
{
    size_t i = 1;
    while (i < count && taken[i])
        i++;
    return i;
}

/* The first neighbour not yet taken, of the key taken least often; `count` if there is none */
static size_t next_neighbour(const struct candidate *sorted, const bool *taken, size_t count)
{
    size_t used[PLAN_KEYS + 1] = {0}, best = count;
    for (size_t i = 1; i < count; i++)
        used[only_key(&sorted[i].request)] += taken[i];
    for (size_t i = count - 1; i > 0; i--) {
        const int key = only_key(&sorted[i].request);
        if (!taken[i] && key < PLAN_KEYS && (best == count || used[key] <= used[only_key(&sorted[best].request)]))
            best = i;
    }
    return best;
}

/* Leaves out plans that should be slow; after the default come the fastest, alternating with neighbours. */
static void order(struct candidates *c)
{
    struct candidate *sorted = memory_get(c->count, sizeof *sorted);
    HEAP bool *taken = memory_get(c->count, sizeof *taken);
    size_t kept = 1;
    memcpy(sorted, c->item, c->count * sizeof *sorted);
    qsort(sorted + 1, c->count - 1, sizeof *sorted, by_cycles);
    while (kept < c->count && sorted[kept].cycles <= MAX_SLOWDOWN * sorted[0].cycles)
        kept++;
    for (size_t slot = 1; slot < kept; slot++) {
        size_t next = slot % 2 == 0 ? next_neighbour(sorted, taken, kept) : kept;
        if (next == kept)
            next = next_of(taken, kept);
        taken[next] = true;
        c->item[slot] = sorted[next];
    }
    c->count = kept;
    free(sorted);
}

/* Whether tuning may choose this key: not what all sets have for one of several, nor fast products that round
 * otherwise, nor the form of what is not latent attention */
static bool free_to_choose(enum plan_key key, const struct layer *layer, bool fold)
{
    return (!plan_key_common(key) || fold) && (key != PLAN_PRODUCT_KIND || layer_sums_whole(layer)) &&
           (key != PLAN_LATENT || layer_is_latent(layer));
}

bool candidates_make(struct candidates *c, const struct layer *layer, size_t isa_row, int64_t batch, bool fold,
                     struct diag *diag)
{
    const size_t before = diag->errors;
    struct plan_request request = plan_request_none();
    *c = (struct candidates){.layer = layer, .isa_row = isa_row, .batch = batch};
    add(c, &request, diag);
    for (size_t t = 0; t < TRIALS && diag->errors == before; t++)
        for (size_t v = 0; v < values_of(t) && free_to_choose(trials[t].key, layer, fold); v++) {
            request = plan_request_none();
            request.value[trials[t].key] = trials[t].values[v];
            add(c, &request, diag);
        }
    size_t combinations = 1;
    for (size_t i = 0; i < COMBINED; i++)
        combinations *= values_of(trial_of(combined[i]));
    for (size_t n = 0; n < combinations && diag->errors == before; n++) {
        size_t rest = n;
        request = plan_request_none();
        for (size_t i = 0; i < COMBINED; i++) {
            const size_t trial = trial_of(combined[i]), count = values_of(trial);
            request.value[combined[i]] = trials[trial].values[rest % count];
            rest /= count;
        }
        add(c, &request, diag);
    }
    c->considered = c->count;
    if (diag->errors == before)
        order(c);
    return diag->errors == before;
}

void candidates_free(struct candidates *candidates)
{
    free(candidates->item);
    *candidates = (struct candidates){0};
}
