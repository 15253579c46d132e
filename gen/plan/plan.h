/* SPDX-License-Identifier: MIT */
/* The plan: how a layer is computed on one instruction set. Every number that the templates need to place,
 * tile, unroll or cut is decided here, from the layer and the ISA's row, never from the host, and carries
 * its reason for --explain and the banner.
 *
 * Terms: a register tile is `rows` broadcast operands times `vecs` vectors; a query block is the run of
 * queries that lies along the lanes (block = vecs * lanes of them); a panel is a slab of packed weights,
 * [depth][width]; a row group is the run of tokens that stays in L2 while all panels pass over it. What steps (steps.h)
 * read and write are layouts.
 *
 * Templates see the fields of these structs under the same names: gen/emit/names.awk reads this file. Those with "not
 * for templates" in their comment are left out.
 *
 * Left out on purpose: text. The templates spell; nothing here prints C.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "plan/isa.h"
#include "plan/request.h"
#include "plan/cached.h"
#include "plan/steps.h"
#include "plan/tiles.h"
#include "spec/layer.h"

struct diag;
struct emit;
struct plan_file;

#define PLAN_REASONS 32
#define FAST_AHEAD 4 /* pairs of tiles that prefetch the next pair of panels */

/* Which products of weights are taken when packing, and how wide a head is then. Alike for all ISAs. */
struct plan_fold {
    bool scores;  /* W_Q W_K^T: keys are the input */
    bool values;  /* W_V W_O: values are the input */
    bool q_is_k;  /* w_k = tied in self-attention: no queries are projected, a tile of them is made from the keys */
    int64_t d_score, d_value; /* features that a score sums over, and of a value */
    int64_t d_z;  /* of a head's z: with folded values and biases one more, 1 where a query sees a key */
    struct latent_form expands; /* latent attention: calls that form keys and values of heads */
    double saved_scores, saved_values; /* multiply-adds that folding saves; negative where it costs */
    int64_t short_n, short_m;  /* the shortest call that is weighed: its queries and keys */
    double short_scores, short_values; /* folded work there, as a share of the plain layer's, weights read included */
};

enum { PLAN_WIDE, PLAN_SINGLE, PLAN_WIDTHS }; /* tiles as wide as a query block, and of a single vector */

struct plan_isa {
    const struct isa *isa;
    const struct plan_fold *fold;
    struct plan_request asked;   /* by the spec and the plan file; not for templates */
    struct plan_request request; /* the same where plan.size and exact decide, too; not for templates */
    bool small;          /* plan.size = small; not for templates */
    enum tensor_element weights; /* as packed, of products of floats */
    bool for_steps;      /* weights take fewer bytes for the sake of steps of one token, whose time then counts too */
    bool digits;         /* products with weights read digits of rows (struct plan) */
    int64_t word;        /* numbers of a word, of products that read words; 1: there are none */
    bool whole;          /* they are whole numbers with exact sums; else sums are f32 */
    int64_t word_registers; /* registers that a row of a tile of words takes beyond one of f32 */
    int64_t neighbours;  /* i8: numbers of a column whose magnitudes sum to at most 127 units */
    int64_t corrections; /* rows ahead of a tap's words that sums start from */
    int64_t lanes;
    int64_t tile_rows, tile_words; /* of a tile register (isa.h); 0: the set has none */
    bool tiled;          /* some product takes them */
    int64_t vecs;        /* vectors in a query block */
    int64_t block;       /* queries in a query block */
    const char *not_fast; /* fast products are asked for, but not of this layer; NULL: they are not asked for, or are
                           * possible */
    bool fast;           /* fast products are asked for and possible; each product says whether it is one */
    bool unasked;        /* the spec leaves their kind to the plan */
    bool streams;        /* keys and values of a head exceed L2, so that every query block reads them from L3 */
    int64_t rows;        /* most rows of a tile that is `vecs` wide */
    int64_t rows_single; /* most rows of a tile that is one vector wide */
    struct tile_heights score_tiles[PLAN_WIDTHS]; /* of any number of keys */
    struct tile_heights value_tiles[PLAN_WIDTHS]; /* of the features of a value */
    bool at_once;        /* scores become weights in registers; else in a separate pass over the block */
    int64_t value_rows, value_rows_single; /* the same for the values' tiles: near-equal parts of d_v */
    int64_t words_room;  /* words of a key, under precision; 0: there are none */
    int64_t values_room; /* words of core_word values; their scales follow */
    bool rounds_scores, rounds_values; /* of whole numbers, as the set has them */
    bool scales_weights; /* of values, in weights of the softmax as they are made: nobody else reads those */
    int64_t core_word;   /* numbers in a word of keys, queries, values and weights of the softmax */
    int64_t score_levels, value_levels, weight_levels; /* the largest of them; 0: they stay f32 */
    int64_t key_block;   /* maximum of keys scored before their values are read */
    int64_t prefetch_keys;     /* keys of the next head that are prefetched with each tile of scores, 0: none */
    int64_t prefetch_queries;  /* queries of the next tile that are prefetched, 0: none */
    int64_t unroll_scores, unroll_values;
    int64_t batch_rows, batch_sources; /* queries and keys that are projected as one matrix, at most; 0: one by one */
    int64_t query_blocks, source_blocks; /* at the compiled limits, or for batch_rows and batch_sources if more */
    int64_t part_blocks; /* query blocks in one part of the attend phase */
    bool has_fast, narrows; /* some product is fast; writes y in two bytes */
    bool owns;           /* products have places of the worker's */
    enum layout_name input, transposed; /* rows that queries are made of; that are laid in blocks */
    struct {             /* of the spec's expressions, by their names there; row, size: elements of a row, and of all */
        const char *name;
        int64_t at, run, row, size; /* run: where its rows between `lanes` of their ends begin; 0: it has none */
    } tables[LAYER_TABLES];
    int table_count;
    const char *untrained; /* train: a step that has no gradient; NULL: all have; not for templates */
    struct step steps[PLAN_STEPS]; /* those that the layer has, in order; not for templates */
    int step_count;
    struct plan_phase phases[PLAN_PHASES]; /* those that the layer has, in order; the same for all ISAs but for tasks;
                                            * not for templates */
    int phase_count;
    struct layout layouts[LAYOUTS]; /* not for templates, which see `at` and `stride` of each */
    int64_t bytes[OWNERS]; /* of each owner's block; the caller has none */
    int64_t places;      /* of a row's numbers, summed place by place, then across: lanes, or exact = portable's */
    int64_t norm_sums;   /* side by side over a row of a block's norm, as each addition waits for the one before */
    int64_t open_keys, open_keys_single; /* first scores, of which m is the largest, unless a mask hides some */
    bool peeks;          /* scores fall with the distance: the nearest keys are met first, for the largest score */
    bool masked_apart;   /* keys that masks may hide take another text of the softmax than those that all see */
    bool halves;             /* something is read by halves of vectors */
    bool two_pass;       /* softmax: the largest scores first, then weights and sums; else both in one pass */
    bool z_rows;         /* the output step reads Z [token][head][feature], else [block][head][feature][token of it] */
    /* train: where queries, keys, values, and queries and keys before their norm begin in what forward keeps (`saved`),
     * in numbers for each token of a group; all: numbers of a token, 0: backward projects again. */
    struct {
        int64_t queries, keys, values, raw_queries, raw_keys, all;
    } held;
    bool holds;
    bool z_in_q;         /* Z [token][head][feature] takes the queries' place: a tile's are read before Z is written */
    bool value_blocks;   /* values lie [block of tokens][feature][token] */
    int64_t depth_slab;  /* features of a score that are summed before the next keys are taken */
    int64_t score_slabs, last_slab; /* number of slabs; features of the last one */
    int64_t sequences;   /* of a batch that are projected as one matrix, at full length */
    bool joint;          /* projections share the loop over row groups */
    int64_t turn_width;  /* cosines by which a position turns a head, padded to whole vectors; its sines follow */
    int64_t turn_rows;   /* positions whose rows are packed: 0 ... turn_rows - 1 */
    int64_t z_front, z_back; /* rows of zeros before and after z, for the convolution */
    /* rel_bias as it is packed: for each head a table of distances p - j, in which the queries of a key lie side by
     * side, as they do along the lanes. Of a tile whose first query is `back` positions ahead of its first key, back no
     * further than from -low to high, it begins at back + zero. */
    struct {
        int64_t row, zero, low, high; /* row: numbers of a head */
        /* train: once more, for backward, in which the keys of a query lie side by side: those of a vector whose first
         * key is `ahead` of the query begin at ahead + back_zero, ahead from -back_zero to back_high. */
        int64_t back_row, back_zero, back_high;
    } relative;
    /* rel_keys and rel_queries: vectors; numbers of a key's products with them, in whole panels. Of queries whose first
     * one is `back` positions ahead of a key, back no further than from -low to high, the numbers of their vectors lie
     * side by side from back + low on in a table of `table` numbers. */
    struct {
        int64_t rows, row, low, high, table;
    } vectors;
    struct plan_cached cached, expanded; /* expanded: latent attention, calls with keys and values of heads */
    /* A layer without a cache, calls of at most cached.few_queries queries: templates/steps/few.in. */
    struct {
        int64_t keys;   /* fewest keys of such a call */
        int64_t rows;   /* queries that are summed at once */
        int64_t values; /* keys whose values all queries pass before the next ones */
        int64_t left;   /* those that blocks may leave, at most; 0: blocks are not chosen for them */
        double cost;    /* of any number of them, in vectors of queries, but for their share; not for templates */
    } few;
    bool fetches_values; /* while keys are scored, their values are prefetched: rows of a head are far apart */
    struct plan_back back;
    int64_t stack, stack_plain; /* bytes of stack that a call takes, at most: compiled at -O1 and above, and at -O0 */

    char *reasons[PLAN_REASONS];
    int reason_count;
};

struct plan {
    struct plan_fold fold;
    bool digits; /* on some set products with weights of i4 or i8 read rows as whole numbers of three digits of 8 bits,
                  * in groups with a scale each, and sum them exactly: one token then reads weights as fast as memory
                  * gives them */
    int64_t count; /* ISAs, scalar first, best last */
    struct plan_isa isas[ISAS]; /* not for templates, which see `plans` */
    int64_t packed_bytes, shared_bytes, worker_bytes; /* the largest over the ISAs */
    int64_t kept_bytes; /* kept of a sequence, the largest over the ISAs; 0: nothing is */
    int64_t back_shared_bytes; /* of shared_bytes what backward needs: none where all sets hold projections and it has
                                * no phase "transpose" */
    int64_t back_bytes, back_worker_bytes; /* what backward has beside those; 0: there is none */
    int64_t largest_row, largest_source_row; /* numbers of a query, and of a key, in the tensors of a call, at most */
    int64_t held; /* numbers of a token that forward keeps beside layer_kept; the most of any instruction set */
};

/* train: whether backward reads what a phase before the projections makes: cosines of given positions, ranges of
 * segments. */
static inline bool plan_back_transposes(const struct layer *layer)
{
    return layer->train && (layer_makes_turns(layer) || (layer->mask & MASK_SEGMENTS) != 0);
}

/* How many sequences of a batch make a group, which goes through the phases together */
enum plan_group {
    GROUP_ALL,           /* all: phases leave nothing in the scratch for each other */
    GROUP_QUERIES,       /* as many as have batch_rows queries */
    GROUP_SOURCES_APART, /* the same, but one where sources are brought, as each has a block of its own for its keys */
    GROUP_BOTH           /* as many as have batch_rows queries and batch_sources keys */
};
enum plan_group plan_group(const struct layer *layer);

static inline const struct step *plan_step(const struct plan_isa *p, enum step_name id)
{
    for (int i = 0; i < p->step_count; i++)
        if (p->steps[i].id == id)
            return &p->steps[i];
    return NULL;
}
/* The same if it has weights in panels. */
static inline const struct plan_panels *plan_panels_of(const struct plan_isa *p, enum step_name id)
{
    const struct step *step = plan_step(p, id);
    return step != NULL && step->kind == KIND_PANELS ? &step->panels : NULL;
}
static inline int64_t layout_element(const struct plan_isa *p, enum layout_name id)
{
    return (int64_t)element_size(p->layouts[id].element);
}
/* From its start, in elements; 0 for one that the plan does not have. */
static inline int64_t layout_at(const struct plan_isa *p, enum layout_name id)
{
    return p->layouts[id].at / layout_element(p, id);
}

/* Whether some product is fast in some instruction set */
bool plan_has_fast(const struct plan *plan);
/* The sets among `isas`, bits of isa_table, that the layer's pair can have: precision = bf16 needs bf16 dot products,
 * and some sets are for sums of products of whole numbers alone. */
unsigned plan_isas(const struct layer *layer, unsigned isas);
/* Errors in diag for those of `named`, sets that --isa names, that it cannot have */
void plan_refuse_isas(const struct layer *layer, unsigned named, struct diag *diag);
/* Whether products of the set read digits, where those of the layer may: of i4 all, of i8 with dots_bytes */
bool plan_digits(const struct layer *layer, const struct isa *isa);
/* Plans the layer for those sets. NULL, with errors in diag, on a bad plan.* key or sizes that no C array can have. */
struct plan *plan_make(const struct layer *layer, unsigned isas, struct diag *diag);
/* The same with the requests of a plan file where the spec has none; NULL: no file. */
struct plan *plan_make_from(const struct layer *layer, unsigned isas, const struct plan_file *file, struct diag *diag);
void plan_free(struct plan *plan);
/* Sets what templates read of layer and plan: every upper-case name, `plans`, and lists such as `tensors`. */
void plan_context(const struct plan *plan, const struct layer *layer, struct emit *emit);
/* Prints, for each set, sizes in bytes, the reasons, and the lists of tiles, products, phases and layouts. */
void plan_explain(const struct plan *plan, const struct layer *layer, FILE *out);
