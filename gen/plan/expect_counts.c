/* SPDX-License-Identifier: MIT */
/* What steps of several kinds count of their expected time.
 *
 * Left out on purpose: what one kind alone counts (step_KIND.c), and from counts to cycles (expect.c).
 */
#include "plan/planning.h"

#include <math.h>

#include "spec/score.h"

#define FINISH_CYCLES 4.0       /* a row of a head, normed or turned: pointers, splats, stores that loads wait for */
#define CLAMP_OPERATIONS 4      /* of a clamped swiglu */
#define WINDOW 100.0            /* vector instructions in flight, across which short tiles overlap */
#define TILE_CYCLES 8.0         /* to begin and end a register tile: 20 cycles for one of 24 accumulators */
#define ACCUMULATOR_CYCLES 0.5
#define L1I_BYTES (31.0 * 1024) /* measured: larger unrolled loops slow down */

/* Share of `bytes`, read repeatedly, that misses L2: none while they fill at most 3/4 of it, all from 3/2 of it on. */
double share_lost(const struct caches *caches, double bytes)
{
    return fmin(1, fmax(0, (bytes / (1024 * caches->l2_kib) - 0.75) / 0.75));
}

double l1_bytes(const struct model *m)
{
    return 1024 * m->core->caches->l1_kib;
}

/* `times` register tiles of rows x vecs accumulators, `depth` steps each, of which `unroll` are written out. */
void add_tile(struct work *w, const struct core *core, int64_t rows, int64_t vecs, double depth, int64_t unroll,
              double times)
{
    const double accumulators = (double)(rows * vecs), operands = (double)(rows + vecs);
    const double in_flight = accumulators * (1 + WINDOW / (depth * (accumulators + operands)));
    const double stall = fmax(1, FMA_LATENCY * core->ports / in_flight);
    w->fmas += times * depth * accumulators;
    w->port_cycles += times * depth * accumulators / core->ports * stall;
    w->loads += times * depth * operands;
    w->tiles += times;
    w->overhead += times * (TILE_CYCLES + ACCUMULATOR_CYCLES * accumulators);
    const double step_bytes = accumulators * core->fma_bytes + operands * core->load_bytes;
    if (step_bytes * fmin((double)unroll, depth) > L1I_BYTES)
        w->code += times * depth * step_bytes;
}

/* Bytes of whole cache lines in which `count` numbers side by side lie, wherever they begin. */
double line_bytes(int64_t count)
{
    return LINE * (LINE_FLOATS % count == 0 ? 1 : 1 + (double)(count - 1) / LINE_FLOATS);
}

struct blocks count_blocks(const struct model *m, int64_t rows)
{
    return (struct blocks){rows / m->plan->block, rows % m->plan->block};
}

/* Bytes of an element */
double size_of(const struct model *m, enum layout_name id)
{
    return (double)layout_element(m->plan, id);
}

/* Traffic of a product: weights, from L3 once a row group; the operand, `input` bytes a row from L3; the result. */
void count_far(struct model *m, struct work *w, double weights, double input, double output, int64_t rows,
               int64_t group_rows, bool prefetched, double times)
{
    const double bytes = times * m->far * weights * (double)ceil_div(rows, group_rows);
    *(prefetched ? &w->prefetched : &w->l3) += bytes;
    w->l3 += times * (double)rows * (input + output);
}

/* Steps of a sum of `count` products: one for each word where numbers are whole. */
double steps_of(const struct model *m, bool whole, double count)
{
    return whole ? ceil(count / (double)m->plan->core_word) : count;
}

struct terms count_terms(const struct layer *l)
{
    struct terms terms = {0, 0, 0, 0};
    for (enum score_name i = 0; i < SCORE_TERMS; i++) {
        const struct score_term *of = &score_terms[i];
        if (of->place == SCORE_TILES && score_has(l, i))
            terms.of_tiles += of->operations;
        if (of->place != SCORE_EVERYWHERE || !score_has(l, i))
            continue;
        terms.operations += of->operations;
        terms.tensors += score_tensor(i) < TENSOR_COUNT;
        terms.bytes += score_tensor(i) < TENSOR_COUNT ? (double)layer_tensor_size(l, score_tensor(i)) : 0;
    }
    return terms;
}

/* Cycles that a transposition takes; blocks of fewer rows are copied to the stack as well,
 * of fewer columns to it and back. */
double transpose_cycles(const struct model *m, int64_t rows, int64_t columns)
{
    const int64_t lanes = m->plan->lanes;
    const double whole_rows = (double)(rows / lanes), whole_columns = (double)(columns / lanes);
    const double all_rows = (double)ceil_div(rows, lanes), all_columns = (double)ceil_div(columns, lanes);
    return m->core->transpose * (double)(lanes * lanes) *
           (whole_rows * whole_columns + 2 * (all_rows - whole_rows) * whole_columns +
            3 * all_rows * (all_columns - whole_columns));
}

/* Norm and rotation of rows that were just projected: vectors that are loaded, and operations on them; and what a row
 * of a head takes once: its share of a root and a division for LANES rows,
 * and of the transposition of their partial sums. */
static void count_finish(const struct model *m, struct work *w, int64_t heads, double rows)
{
    const struct layer *l = m->layer;
    const int64_t lanes = m->plan->lanes, pairs = l->rope.dims / 2;
    const double all = (double)ceil_div(l->d_k, lanes), each = rows * (double)heads;
    const double norms = l->qk_norm == NORM_RMS_ALL ? rows : each; /* rows whose sums are formed */
    if (l->qk_norm != NORM_NONE) {
        const double passes = l->qk_norm == NORM_LAYER ? 2 : 1;
        w->loads += each * all * (passes + (l->qk_norm == NORM_L2 ? 1 : 2));
        w->operations += each * all * (2 * passes + 1);
        w->overhead += norms * passes * (m->core->transpose * (double)lanes + NORM_CYCLES / (double)lanes);
    }
    if (l->rope.kind == ROPE_HALF) {
        w->loads += each * 4 * (double)ceil_div(pairs, lanes);
        w->operations += each * 5 * (double)ceil_div(pairs, lanes);
    } else if (l->rope.kind == ROPE_INTERLEAVED) {
        w->loads += each * 3 * (double)ceil_div(2 * pairs, lanes);
        w->operations += each * 3 * (double)ceil_div(2 * pairs, lanes);
    }
    if (layer_finishes(l))
        w->overhead += each * FINISH_CYCLES;
}

/* Vectors of hidden numbers, or of y of layer = linear: instructions of the activation, beside those of an exponential,
 * and a division's cycles */
static void count_activation(const struct model *m, struct work *w, double rows)
{
    const struct layer *l = m->layer;
    const double vectors = rows * (double)ceil_div(layer_is_linear(l) ? l->d_out : l->d_ff, m->plan->lanes);
    const struct layer_activation_row *act = &layer_activation_rows[layer_activation(l)];
    const double cap = l->cap != 0 ? TANH_OPERATIONS : l->ffn_limit != 0 ? CLAMP_OPERATIONS : 0;
    w->operations += vectors * (cap + act->operations + m->core->exp * act->powers + (layer_ffn_gated(l) ? 1 : 0));
    w->loads += vectors * (layer_ffn_gated(l) ? 3 : 2);
}

/* What is done to the results of a product */
void count_ends(const struct model *m, struct work *w, const struct step *g, double rows)
{
    if ((g->epilogue & (EPILOGUE_ACTIVATION | EPILOGUE_CAP)) != 0)
        count_activation(m, w, rows);
    if ((g->epilogue & (EPILOGUE_NORM | EPILOGUE_TURN)) != 0)
        count_finish(m, w, g->id == STEP_QUERIES ? m->layer->h : m->layer->h_kv, rows);
}
