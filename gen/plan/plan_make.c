/* SPDX-License-Identifier: MIT */
/* The plan of a layer: for each instruction set its steps, row by row, then what depends on all of them.
 *
 * Left out on purpose: what a step plans (step_KIND.c), measuring, and anything about the host.
 */
#include "plan/planning.h"

#include <stdlib.h>

#include "base/memory.h"
#include "plan/planfile.h"
#include "spec/relative.h"
#include "spec/score.h"

#define PORTABLE_BLOCK 128 /* keys of a cache whose largest score is m, from a multiple of it on */
#define PORTABLE_PLACES 16 /* sums side by side that numbers of a row go to in turn: the lanes of the widest set */
#define NORM_SUMS 4   /* sums of a row: additions that wait for each other take as many cycles */
#define MIN_SOFTCAP 1e-20        /* all constants of its tanh are normal f32, and so are products of them */
#define MAX_SOFTCAP 1e30
#define MOST_OF_I8 131072        /* numbers of a sum: times 127 * 128 they stay below 2^31 */

/* plan.size = small changes these choices where neither the spec nor the plan file makes them. Choices without a key of
 * their own ask `small` where they are made. */
static void make_small(struct plan_request *request)
{
    struct plan_request choices = plan_request_none();
    choices.value[PLAN_UNROLL] = 1;
    choices.value[PLAN_QUERY_VECS] = 1;
    choices.value[PLAN_PREFETCH] = PLAN_OFF;
    choices.value[PLAN_VALUE_LAYOUT] = PLAN_ROWS;
    plan_request_add(request, &choices);
}

/* exact = portable fixes what bits depend on; where a term may lift scores, m is the largest of all. */
static const enum plan_key fixed_keys[] = {PLAN_FOLD, PLAN_SOFTMAX, PLAN_PRODUCT_KIND, PLAN_EXACT_CHUNKS,
                                           PLAN_KEY_BLOCK, /* products of floats, blocks of a cache */
                                           PLAN_BATCH_ROWS}; /* of batches_apart() */

static void make_portable(struct plan_request *request, const struct layer *layer)
{
    const bool rises = score_lifts(layer) || score_falls(layer);
    request->value[PLAN_FOLD] = PLAN_OFF;
    request->value[PLAN_SOFTMAX] = rises ? PLAN_TWO_PASS : PLAN_ONE_PASS;
    if (!layer_sums_whole(layer))
        request->value[PLAN_PRODUCT_KIND] = PLAN_CLASSICAL;
    request->value[PLAN_EXACT_CHUNKS] = PLAN_ON;
    if (layer_has_cache(layer))
        request->value[PLAN_KEY_BLOCK] = PORTABLE_BLOCK;
}

/* A key of the spec that would change bits */
static void refuse_fixed(const struct layer *layer, enum plan_key key, const char *place, struct diag *diag)
{
    for (size_t i = 0; i < sizeof fixed_keys / sizeof *fixed_keys; i++)
        if (key == fixed_keys[i] && (key != PLAN_KEY_BLOCK || layer_has_cache(layer)) &&
            (key != PLAN_PRODUCT_KIND || !layer_sums_whole(layer)) &&
            (key != PLAN_BATCH_ROWS || batches_apart(layer)))
            diag_error(diag, place, "%s is given, but bits depend on it, and exact = portable decides it; leave out "
                       "one of the two", plan_key_name(key));
}

/* Weights that L2 does not keep from call to call are prefetched while the panel before them is in use; so is what
 * attention reads next. */
static void plan_prefetch(struct plan_isa *p, const struct layer *layer)
{
    const bool stays = p->bytes[OWNER_PACKED] <= (int64_t)p->isa->l2_bytes / 2;
    if (!p->isa->prefetches || request_or(&p->request, PLAN_PREFETCH, !stays) == PLAN_OFF)
        return;
    prefetch_attention(p, layer, request_asks(&p->request, PLAN_PREFETCH));
    for (struct step *g = p->steps; g < p->steps + p->step_count; g++)
        if (step_kinds[g->kind]->prefetch != NULL)
            step_kinds[g->kind]->prefetch(p, layer, g);
    prefetch_across(p);
    if (layer->train)
        p->back.prefetch = ceil_div(p->back.unroll * p->back.width, LINE_FLOATS * PREFETCH_TILES);
}

static void schedule(struct plan_isa *p, const struct layer *layer)
{
    const int64_t rows[PLAN_WIDTHS] = {p->rows, p->rows_single};
    const int64_t value_rows[PLAN_WIDTHS] = {p->value_rows, p->value_rows_single};
    for (int width = 0; layer_attends(layer) && width < PLAN_WIDTHS; width++) {
        tiles_for_runs(&p->score_tiles[width], rows[width], 0, rows[width], ROWS_STEP);
        tiles_for_one(&p->value_tiles[width], p->fold->d_value, value_rows[width]);
    }
    if (layer_attends(layer)) {
        p->score_slabs = ceil_div(p->fold->d_score, p->depth_slab);
        p->last_slab = p->fold->d_score - (p->score_slabs - 1) * p->depth_slab;
    }
    p->sequences = max(1, min(p->batch_rows / layer->seq_len, p->batch_sources / layer_new_keys(layer)));
    p->joint = projections_join(p, layer);
    for (struct step *g = p->steps; g < p->steps + p->step_count; g++)
        if (step_kinds[g->kind]->schedule != NULL)
            step_kinds[g->kind]->schedule(p, g);
}

/* Why no product of a layer is fast, if they are asked for; NULL: some may be. */
static const char *not_fast(const struct plan_isa *p, const struct layer *layer)
{
    return layer->precision != PRECISION_I16 ? "only precision = i16 has exact sums"
         : layer_types_tensors(layer)        ? "y of two bytes is rounded block by block"
         : layer->pad_skipped                ? "rows of several sequences follow each other without padding"
         : p->small                          ? "small code has one shape of tiles"
                                             : NULL;
}

/* The kind of products of a layer that does not say: fast ones where no bit changes, of FAST_UNASKED rows and more, but
 * not where calls of a few tokens, which read panels alone, are as typical: packed weights are twice as large. */
static int products_unasked(const struct layer *layer)
{
    const bool few = layer_has_cache(layer) || layer_is_linear(layer) ||
                     max(layer->seq_len, layer->source_len) < FAST_UNASKED;
    return layer->precision == PRECISION_I16 && !few ? PLAN_SEVEN : PLAN_CLASSICAL;
}

static void plan_one(struct plan_isa *p, const struct isa *isa, const struct layer *layer)
{
    p->isa = isa;
    p->weights = layer->weight_type;
    p->for_steps = layer->weight_type != TENSOR_F32 && (layer_has_cache(layer) || !layer_attends(layer)) &&
               !request_asks(&p->request, PLAN_TYPICAL_N);
    p->word = layer_word(layer);
    p->whole = layer_sums_whole(layer);
    p->word_registers = layer_rounds(layer) ? isa->word_registers[layer->precision == PRECISION_I8] : 0;
    p->neighbours = isa->sums_pairs || layer->portable ? 2 : 1;
    p->core_word = layer_core_word(layer, isa->sums_pairs);
    p->rounds_scores = layer_rounds_scores(layer, isa->sums_pairs);
    p->rounds_values = layer_rounds_values(layer, isa->sums_pairs);
    p->scales_weights = p->rounds_values && layer->scores != SCORES_WEIGHTS;
    p->score_levels = p->rounds_scores ? layer_score_levels(layer, isa->sums_pairs) : 0;
    p->value_levels = p->rounds_values ? layer_value_levels(layer, isa->sums_pairs) : 0;
    p->weight_levels = p->rounds_values ? layer_weight_levels(layer, isa->sums_pairs) : 0;
    p->corrections = layer->precision == PRECISION_I8 && isa->unsigned_rows ? 1 : 0;
    p->lanes = isa->lanes;
    p->tile_rows = isa->tile_rows;
    p->places = layer->portable ? max(PORTABLE_PLACES, p->lanes) : p->lanes;
    p->tile_words = isa->tile_words;
    if (request_or(&p->request, PLAN_PRODUCT_KIND, products_unasked(layer)) == PLAN_SEVEN) {
        p->not_fast = not_fast(p, layer);
        p->fast = p->not_fast == NULL;
        p->unasked = !request_asks(&p->request, PLAN_PRODUCT_KIND);
    }
    if (layer_attends(layer))
        choose_blocks(p, layer);
    else if (layer_is_recurrent(layer))
        plan_recurrent(p, layer);
    else if (layer_is_convolution(layer))
        plan_convolution(p, layer);
    else
        plan_rowwise(p, layer);
    if (layer->train)
        plan_back(p, layer);
    plan_steps(p, layer);
    p->input = layer_norms_first(layer) ? LAYOUT_NORMED : LAYOUT_X;
    if (layer_attends(layer))
        plan_after_steps(p, layer);
    p->peeks = p->at_once && score_falls(layer) && score_placed(layer) && !layer->portable;
    p->masked_apart = score_hooked(layer) && score_lifts(layer) && !score_falls(layer);
    p->norm_sums = layer->portable ? p->places / p->lanes : max(1, min(NORM_SUMS, layer->d_model / p->lanes));
    place_packed(p, layer);
    plan_prefetch(p, layer);
    plan_in_order(p, layer);
    schedule(p, layer);
    share_tiles(p, layer->pad_skipped);
    place_scratch(p, layer);
    bound_stack(p, layer);
    explain_choices(p, layer);
}

/* The spec takes precedence over the plan file. */
static void plan_isa(struct plan_isa *p, const struct isa *isa, const struct layer *layer,
                     const struct plan_request *spec, const struct plan_file *file)
{
    struct plan_request rest = plan_request_none();
    explain_request(p, "spec", spec);
    if (file != NULL) {
        rest = file->isa[isa - isa_table].request;
        plan_request_add(&rest, &file->common);
        for (int key = 0; key < PLAN_KEYS; key++)
            if (request_asks(spec, (enum plan_key)key))
                rest.value[key] = PLAN_AUTO;
        explain_request(p, "plan file", &rest);
    }
    p->asked = *spec;
    plan_request_add(&p->asked, &rest);
    p->request = p->asked;
    p->small = request_is_small(&p->request);
    if (p->small)
        make_small(&p->request);
    if (layer->portable)
        make_portable(&p->request, layer);
    plan_one(p, isa, layer);
}

/* An upper bound of every sum of sizes that plan_one forms, in elements, so that it can work in int64_t. */
static double size_bound(const struct layer *l)
{
    const double wide = 64, q = (double)l->seq_len + BATCH_ROWS + wide;
    const double s = (double)l->source_len + BATCH_ROWS + wide; /* choose_batch adds no more than that to either */
    const double in = (double)l->d_source + 1;
    const double up = (double)(l->latent.d_head + l->latent.d_value + l->latent.q_rank);
    const double e_k = (double)l->h * ((double)l->d_k + in + up) + wide;
    const double e_v = (double)l->h * ((double)l->d_v + in + up) + wide;
    const double d = (double)l->d_model + (double)l->d_source + wide;
    const double scratch = (q + s) * (d + 2 * e_k + 2 * e_v) * 2 + 1e6 * ((double)l->d_v + in + 1e3)
                         + (double)l->conv_width * e_v + wide * s;
    const double packed = 2 * (d + wide) * (2 * e_k + 2 * e_v) * (l->w_o == W_O_CONV ? (double)l->conv_width + 2 : 1.0);
    const double turn_rows = 4 * q; /* packed, and of a call */
    const double ffn = (double)l->d_ff + (l->d_ff > 0 ? wide : 0);
    const bool blocks = layer_has_block(l) || !layer_attends(l);
    const double block = blocks ? (2 * q + 16) * (3 * d + 2 * ffn) + 4 * (d + wide) * ffn : 0;
    const double linear = layer_is_linear(l) ? (d + wide) * ((double)l->d_out + wide) : 0;
    const double conv = 4 * (double)l->conv_taps * ((double)l->conv_channels + wide); /* taps, and earlier rows */
    const double turns = l->rope.kind == ROPE_NONE ? 0 : turn_rows * ((double)l->rope.dims + wide);
    int64_t left = 0, right = 0;
    if (score_has(l, SCORE_RELATIVE))
        relative_reach(l, &left, &right);
    const double typed = layer_types_tensors(l) ? (q + s) * (d + e_k + e_v + (double)l->d_out) + /* and rows of attn */
                         (4 * wide + 8 * (double)l->h) * (double)l->source_len : 0;
    const double back = l->train ? 8 * packed + 16 * (q + s) * (e_k + e_v + d + 1024) : 0; /* heads padded to vectors */
    const double vectors = layer_has_vectors(l) ? ((double)l->rel_width + wide) *
                           (4 * (double)l->h * (double)l->d_k + s + wide) + q + s : 0;
    return scratch + packed + conv + vectors + turns + block + linear + back + typed +
           (double)l->h * ((double)left + (double)right + 4096);
}

void plan_free(struct plan *plan)
{
    if (plan == NULL)
        return;
    for (int64_t i = 0; i < plan->count; i++)
        for (int r = 0; r < plan->isas[i].reason_count; r++)
            free(plan->isas[i].reasons[r]);
    free(plan);
}

/* The most numbers of a row that a product with a matrix sums up. */
static int64_t longest_sum(const struct layer *l)
{
    const int64_t in = max(l->d_in_q, l->d_in_kv);
    const int64_t heads = l->w_o == W_O_NONE ? 0 : l->w_o == W_O_CONV ? 1 : l->h; /* that a sum of the output takes */
    const int64_t z = layer_attends(l) ? heads * layer_z_width(l) : l->d_model;
    return max(max(l->d_ff, l->latent.q_rank), max(in, z));
}

/* Numbers with which f32 would leave its range on the way, and sums of whole numbers 32 bits. */
static void refuse_numbers(const struct layer *l, struct diag *diag)
{
    const double cap = layer_is_linear(l) ? l->cap : l->number[SCORE_SOFTCAP];
    if (cap != 0 && !(cap >= MIN_SOFTCAP && cap <= MAX_SOFTCAP))
        diag_error(diag, l->name, "softcap = %g is outside %g to %g, where tanh is computed in f32; choose one inside",
                   cap, MIN_SOFTCAP, MAX_SOFTCAP);
    if (l->precision == PRECISION_I8 && longest_sum(l) > MOST_OF_I8)
        diag_error(diag, l->name,
                   "sums of %lld products of i8 may exceed 32 bits; at most %d fit: write precision = f32, or fewer "
                   "columns",
                   (long long)longest_sum(l), MOST_OF_I8);
}

unsigned plan_isas(const struct layer *layer, unsigned isas)
{
    const bool dots = layer_sums_whole(layer) || layer_reads_digits(layer);
    const unsigned of_dots = dots ? isas : isas & ~isa_of_dots_only();
    const unsigned possible = layer->precision == PRECISION_I8 ? of_dots : of_dots & ~isa_of_tiles();
    return layer->precision == PRECISION_BF16 ? possible & isa_with_bf16() : possible;
}

void plan_refuse_isas(const struct layer *layer, unsigned named, struct diag *diag)
{
    const unsigned lacking = named & ~plan_isas(layer, named);
    char names[200], others[200];
    if (lacking == 0)
        return;
    isa_list_names(names, sizeof names, lacking, ", ");
    isa_list_names(others, sizeof others, plan_isas(layer, isa_all()), ", ");
    const bool tiles = (lacking & ~isa_of_tiles()) == 0;
    if (layer->precision == PRECISION_BF16)
        diag_error(diag, "--isa", "%s: no dot product of bf16 there, without which '%s', precision = bf16, is "
                   "slower than f32; name some of %s, or write precision = f32, i16 or i8", names, layer->name, others);
    else
        diag_error(diag, "--isa", "%s: '%s' has no products of %s, for which this set is there; name some of %s, or "
                   "write precision = %si8", names, layer->name, tiles ? "bytes" : "whole numbers", others,
                   tiles ? "" : "i16 or ");
}

/* For the check that no tensor of a call is too large for a C object; masks and weights of pairs count apart. */
static void largest_rows(struct plan *plan, const struct layer *l)
{
    plan->largest_row = max(max(l->projected ? l->h * l->d_k : l->d_model, l->d_out), l->rope.axes);
    if (layer_is_recurrent(l) && l->projected) {
        const int64_t decays = layer_decays(l) && l->decay == DECAY_COLUMN ? l->h_v * l->d_k : l->h_v;
        plan->largest_row = max(max(plan->largest_row, l->h_kv * l->d_k), max(l->h_v * l->d_v, decays));
    }
    plan->largest_source_row = l->projected ? l->h_kv * max(l->d_k, l->d_v) : l->d_source;
    if (l->lse)
        plan->largest_row = max(plan->largest_row, l->h);
    if (l->train)
        plan->largest_row = max(plan->largest_row, layer_kept(l) + plan->held);
}

struct plan *plan_make_from(const struct layer *layer, unsigned isas, const struct plan_file *file, struct diag *diag)
{
    struct plan_request spec = plan_request_none();
    const size_t before = diag->errors;
    for (size_t i = 0; i < layer->options_count; i++) {
        const struct layer_option *option = &layer->options[i];
        const enum plan_key key = plan_key_find(option->key, option->place, diag);
        if (key < PLAN_KEYS)
            plan_value_read(&spec, key, option->value, option->place, diag);
        if (layer->portable)
            refuse_fixed(layer, key, option->place, diag);
    }
    refuse_numbers(layer, diag);
    if (diag->errors > before)
        return NULL;
    if (size_bound(layer) * (double)element_size(OPERANDS) > (double)(PTRDIFF_MAX / 4))
        diag_error(diag, layer->name, "packed weights or scratch would not fit a C array; make the layer smaller");
    if (diag->errors > before)
        return NULL;

    struct plan *plan = memory_get(1, sizeof *plan);
    struct plan_request common = spec;
    if (file != NULL)
        plan_request_add(&common, &file->common);
    if (layer->portable)
        make_portable(&common, layer);
    plan->fold = plan_fold(layer, &common);
    const bool may = layer_reads_digits(layer) && !request_asks(&common, PLAN_TYPICAL_N);
    for (size_t i = 0; i < isa_count; i++) {
        if ((plan_isas(layer, isas) >> i & 1u) == 0)
            continue;
        struct plan_isa *p = &plan->isas[plan->count++];
        p->fold = &plan->fold;
        p->digits = may && plan_digits(layer, &isa_table[i]) &&
                    !(file != NULL && request_asks(&file->isa[i].request, PLAN_TYPICAL_N));
        plan->digits = plan->digits || p->digits;
        plan_isa(p, &isa_table[i], layer, &spec, file);
        if (p->untrained != NULL && diag->errors == before)
            diag_error(diag, layer->name, "the step \"%s\" has no gradient yet; leave out train", p->untrained);
        plan->packed_bytes = max(plan->packed_bytes, p->bytes[OWNER_PACKED]);
        plan->shared_bytes = max(plan->shared_bytes, p->bytes[OWNER_SCRATCH]);
        plan->worker_bytes = max(plan->worker_bytes, p->bytes[OWNER_WORKER]);
        plan->kept_bytes = max(plan->kept_bytes, p->bytes[OWNER_KEPT]);
        plan->held = max(plan->held, p->held.all);
        const bool shares = !p->holds || plan_back_transposes(layer);
        plan->back_shared_bytes = max(plan->back_shared_bytes, shares ? p->bytes[OWNER_SCRATCH] : 0);
        plan->back_bytes = max(plan->back_bytes, p->bytes[OWNER_BACK]);
        plan->back_worker_bytes = max(plan->back_worker_bytes, p->bytes[OWNER_BACK_WORKER]);
    }
    plan_phases(plan, layer);
    largest_rows(plan, layer);
    if (diag->errors == before)
        return plan;
    plan_free(plan);
    return NULL;
}

bool plan_has_fast(const struct plan *plan)
{
    bool fast = false;
    for (int64_t i = 0; i < plan->count; i++)
        fast = fast || plan->isas[i].has_fast;
    return fast;
}

struct plan *plan_make(const struct layer *layer, unsigned isas, struct diag *diag)
{
    return plan_make_from(layer, isas, NULL, diag);
}
