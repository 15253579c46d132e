/* SPDX-License-Identifier: MIT */
/* The walk through a layer: each step with its equation, shapes, parameters, multiply-adds and bytes; totals;
 * which parameters depend on h; what masks save and what width costs.
 *
 * Figures are the plain layer's (layer_multiply_adds), for one sequence of full length, in f32; bytes of weights are
 * those of the types that they are packed in. Large ones are doubles: a legal layer can have more pairs than an int64_t
 * counts.
 *
 * Left out on purpose: how the kernel is built. The plan prints its own reasons after this.
 */
#include "base/arith.h"
#include "emit/explain.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "spec/finish.h"
#include "spec/keys.h"
#include "spec/layer.h"
#include "spec/score.h"
#include "spec/visible.h"

#define FLOAT_BYTES ((double)element_size(TENSOR_F32))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define D64 "%" PRId64

#define COLUMNS 100
#define STEP_INDENT 17
#define INDENT 2 /* of what is no step's */

/* In the order in which they are explained; RECURRENT and others take some of them. */
enum step {
    STEP_Q, STEP_K, STEP_V, STEP_SCORES, STEP_SOFTMAX, STEP_VALUES, STEP_OUTPUT, STEP_BLOCK, STEP_HIDDEN, STEP_DOWN,
    STEP_LINEAR, STEP_GATES, STEP_STATES, STEP_CONV, STEP_COUNT
};
static const char *const step_names[STEP_COUNT] = {"queries", "keys", "values", "scores", "softmax", "weighted sum",
                                                   "output", "block", "hidden", "down", "linear", "gates", "states",
                                                   "convolution"};

struct walk {
    const struct layer *l;
    FILE *out;
    struct figures { double parameters, bytes, multiply_adds; } step[STEP_COUNT]; /* what each costs */
    struct layer_parameters parameters;
    int number; /* of the step that is explained */
};

/* ---- texts ----------------------------------------------------------------------------------------------- */

struct words { char text[320]; };

DIAG_PRINTF(1, 2) static struct words write_text(const char *format, ...)
{
    struct words text;
    va_list args;
    va_start(args, format);
    vsnprintf(text.text, sizeof text.text, format, args);
    va_end(args);
    return text;
}

/* A line from column `indent` on, broken at blanks if it is longer than a page is wide; `before` columns of it are
 * there. */
static void print_line(FILE *out, int before, int indent, const char *format, va_list args)
{
    const size_t room = (size_t)(COLUMNS - indent);
    char line[sizeof(struct words)], *text = line;
    vsnprintf(line, sizeof line, format, args);
    for (; strlen(text) > room; before = 0) {
        size_t stop = room;
        while (stop > 0 && text[stop] != ' ')
            stop--;
        if (stop == 0)
            break;
        fprintf(out, "%*s%.*s\n", indent - before, "", (int)stop, text);
        text += stop + 1;
    }
    fprintf(out, "%*s%s\n", indent - before, "", text);
}

/* A line of the layer as a whole */
DIAG_PRINTF(2, 3) static void remark(const struct walk *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(w->out, 0, INDENT, format, args);
    va_end(args);
}

/* A line of a step */
DIAG_PRINTF(2, 3) static void line(const struct walk *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(w->out, 0, STEP_INDENT, format, args);
    va_end(args);
}

/* The first line of a step: its number, its name and its equation */
DIAG_PRINTF(3, 4) static void begin_step(struct walk *w, enum step step, const char *format, ...)
{
    const int before = fprintf(w->out, "\n%d. %s", ++w->number, step_names[step]) - 1;
    va_list args;
    va_start(args, format);
    print_line(w->out, before, STEP_INDENT, format, args);
    va_end(args);
}

/* An exact count while a double has all its digits. */
static struct words counted(double count)
{
    return count < 1e15 ? write_text("%.0f", count) : write_text("%.9g", count);
}

/* "2.36 M" beside an exact count. */
static struct words rounded(double count)
{
    static const char *const units[] = {"", " k", " M", " G", " T", " P", " E", " Z", " Y", " R"};
    size_t unit = 0;
    for (; count >= 999.5 && unit + 1 < COUNT_OF(units); unit++)
        count /= 1000;
    return write_text("%.3g%s", count, units[unit]);
}

static struct words multiply_adds(double count)
{
    return write_text("%s multiply-adds (%s)", counted(count).text, rounded(count).text);
}

/* "9.01 MiB" */
static struct words in_bytes(double bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    for (; bytes >= 1023.5 && unit + 1 < COUNT_OF(units); unit++)
        bytes /= 1024;
    return write_text(unit == 0 || bytes >= 99.95 ? "%.0f %s" : "%.3g %s", bytes, units[unit]);
}

/* "[768][768]", the extents of a weight as it lies on disk */
static struct words weight_extents(const struct layer *layer, enum layer_tensor tensor)
{
    char text[LAYER_SHAPE_TEXT];
    layer_tensor_text(layer, tensor, text);
    return write_text("%s", text);
}

/* "[512][768], 1.5 MiB" of floats; with heads in front "[12 heads][512][64]" */
static struct words rows_of(int64_t rows, int64_t columns)
{
    return write_text("[" D64 "][" D64 "], %s", rows, columns,
                      in_bytes((double)rows * (double)columns * FLOAT_BYTES).text);
}

static struct words heads_of(int64_t heads, int64_t rows, int64_t columns)
{
    return write_text("[" D64 " heads][" D64 "][" D64 "], %s", heads, rows, columns,
                      in_bytes((double)heads * (double)rows * (double)columns * FLOAT_BYTES).text);
}

/* "W_O [768][768], b_O [768]": a matrix and its bias, if there is one */
static void weight_line(const struct walk *w, const char *name, enum layer_tensor matrix, enum layer_tensor bias)
{
    const bool biased = layer_has_tensor(w->l, bias);
    line(w, "W%s %s%s", name, weight_extents(w->l, matrix).text,
         biased ? write_text(", b%s %s", name, weight_extents(w->l, bias).text).text : "");
}

/* ---- what steps cost ------------------------------------------------------------------------------------- */

/* The step that tensors belong to. Norms of queries and keys, terms of scores and tables belong to none. */
static const struct { enum layer_tensor first, last; enum step step; } users[] = {
    {TENSOR_W_Q, TENSOR_B_Q, STEP_Q}, {TENSOR_W_K, TENSOR_B_K, STEP_K}, {TENSOR_W_V, TENSOR_B_V, STEP_V},
    {TENSOR_W_O, TENSOR_B_O, STEP_OUTPUT}, {TENSOR_N1_G, TENSOR_N4_B, STEP_BLOCK},
    {TENSOR_W_1, TENSOR_B_G, STEP_HIDDEN}, {TENSOR_W_2, TENSOR_B_2, STEP_DOWN}, {TENSOR_W, TENSOR_B, STEP_LINEAR},
    {TENSOR_W_DA, TENSOR_B_GATE, STEP_GATES}, {TENSOR_CONV_X, TENSOR_CONV_X, STEP_CONV},
    {TENSOR_W_DQ, TENSOR_G_DQ, STEP_Q}, {TENSOR_W_DKV, TENSOR_G_DKV, STEP_K}, {TENSOR_W_UK, TENSOR_W_UK, STEP_Q},
    {TENSOR_W_UV, TENSOR_W_UV, STEP_OUTPUT}};

static void count_steps(struct walk *w)
{
    const struct layer *const l = w->l;
    const struct layer_cost c = layer_multiply_adds(l, l->seq_len, l->source_len);
    const bool conv = layer_is_convolution(l);
    const double work[STEP_COUNT] = {
        [STEP_Q] = c.q, [STEP_K] = c.k, [STEP_V] = c.v, [STEP_SCORES] = c.scores, [STEP_VALUES] = c.values,
        [STEP_OUTPUT] = c.output, [STEP_HIDDEN] = c.ffn - c.down, [STEP_DOWN] = c.down, [STEP_LINEAR] = c.linear,
        [STEP_GATES] = conv ? 0 : c.gates + c.taps, [STEP_STATES] = c.states, [STEP_CONV] = conv ? c.taps : 0};
    int64_t of_matrices[STEP_COUNT] = {0}, others[STEP_COUNT] = {0};
    for (size_t i = 0; i < COUNT_OF(users); i++) {
        const bool one = layer_is_linear(l) && users[i].step == STEP_BLOCK; /* all that there is is one step */
        const enum step step = one ? STEP_LINEAR : conv ? STEP_CONV : users[i].step;
        for (enum layer_tensor tensor = users[i].first; tensor <= users[i].last; tensor++)
            *(layer_tensor_row(tensor)->kind == TENSOR_WEIGHT ? &of_matrices[step] : &others[step]) +=
                w->parameters.of[tensor];
    }
    for (enum step step = 0; step < STEP_COUNT; step++)
        w->step[step] = (struct figures){(double)(of_matrices[step] + others[step]),
                                         layer_packed_bytes(l, of_matrices[step], others[step]), work[step]};
}

/* Parameters and multiply-adds of one step, each where it has any. */
static void cost_lines(const struct walk *w, enum step step)
{
    const struct figures *const f = &w->step[step];
    if (f->parameters > 0)
        line(w, "%s parameters, %s", counted(f->parameters).text, in_bytes(f->bytes).text);
    if (f->multiply_adds > 0)
        line(w, "%s", multiply_adds(f->multiply_adds).text);
}

/* Behind "in f32", which the caller's weights are. */
static const char *packed_words(const struct layer *l)
{
    return layer_stores_weights(l) ? ";\nbytes of weights as packed, without scales of columns" : "";
}

static const char *flag(bool value) { return value ? "true" : "false"; }

/* ---- queries, keys and values ---------------------------------------------------------------------------- */

static char letter_of(enum step step) { return "QKV"[step - STEP_Q]; }

/* What a projection of queries or keys is followed by. */
static void explain_finish(const struct walk *w, bool queries)
{
    const struct layer *const l = w->l;
    const char q = queries ? 'q' : 'k';
    const int64_t all = queries ? l->h : l->h_kv;
    const double rows = (double)(queries ? l->seq_len : layer_new_keys(l)), heads = (double)all;
    const int64_t gains = (l->qk_norm == NORM_RMS_ALL || l->qk_by_head ? all : 1) * l->d_k;
    struct words learned = {""};
    char text[FINISH_TEXT];
    norm_text(l, q, text);
    if (l->qk_norm != NORM_NONE && l->qk_norm != NORM_L2)
        learned = write_text("; g_%c [" D64 "]", q, gains);
    if (l->qk_norm == NORM_LAYER && l->qk_shift)
        learned = write_text("; g_%c [" D64 "], c_%c [" D64 "]", q, gains, q, gains);
    if (l->qk_norm != NORM_NONE) {
        line(w, "each head's row %c is normed: %.220s", q, text);
        line(w, "%s, %s roots and divisions%s", multiply_adds(2 * rows * heads * (double)l->d_k).text,
             counted(rows * (l->qk_norm == NORM_RMS_ALL ? 1 : heads)).text, learned.text);
    }
    rope_text(l, text);
    if (l->rope.kind != ROPE_NONE)
        line(w, "%.230s; %s", text, multiply_adds(2 * rows * heads * (double)l->rope.dims).text);
}

/* One of the three projections of the input. */
static void explain_projection(struct walk *w, enum step step)
{
    const struct layer *const l = w->l;
    const bool of_source = step != STEP_Q;
    const enum layer_tensor matrix = (enum layer_tensor)(TENSOR_W_Q + 2 * (step - STEP_Q));
    const char letter = letter_of(step), *const from = of_source && l->cross ? "source" : "x";
    const int64_t rows = of_source ? layer_new_keys(l) : l->seq_len, heads = of_source ? l->h_kv : l->h;
    const int64_t columns = of_source ? l->d_source : l->d_model, in = of_source ? l->d_in_kv : l->d_in_q;
    const int index = heads == l->h ? 'i' : 'g';

    begin_step(w, step, "%c_%c = %s%s W_%c,%c%s", letter, index, from, l->split ? "_i" : "", letter, index,
               l->bias ? write_text(" + b_%c,%c", letter, index).text : "");
    line(w, "%s [" D64 "][" D64 "] -> %c %s", from, rows, columns, letter,
         heads_of(heads, rows, step == STEP_V ? l->d_v : l->d_k).text);
    weight_line(w, (const char[]){'_', letter, '\0'}, matrix, matrix + 1);
    if (l->split)
        line(w, "head i reads only its own " D64 " columns, " D64 " i ... " D64 " i + " D64, in, in, in, in - 1);
    if (index == 'g')
        line(w, "head i uses group g = floor(i * " D64 " / " D64 "): " D64 " query heads share one", l->h_kv, l->h,
             l->h / l->h_kv);
    cost_lines(w, step);
    if (step != STEP_V)
        explain_finish(w, step == STEP_Q);
}

/* Multiply-adds of latent attention for n queries on m keys, of which `made` are new: with queries times W_UK against
 * latents, or with keys and values of each head formed from all latents. */
static double latent_work(const struct layer *l, double n, double m, bool expands)
{
    const double h = (double)l->h, nope = (double)l->latent.d_nope, value = (double)l->latent.d_value;
    const double rank = (double)l->latent.rank, head = (double)l->latent.d_head;
    return expands ? h * (m * rank * (nope + value) + n * m * (head + value))
                   : h * (n * rank * (nope + value) + n * m * (double)(l->d_k + l->d_v));
}

static void explain_latent(struct walk *w)
{
    const struct layer *const l = w->l;
    const int64_t rank = l->latent.rank, dims = l->rope.dims, q_rank = l->latent.q_rank;
    const double n = (double)l->seq_len, m = (double)l->source_len;
    char text[FINISH_TEXT];
    rope_text(l, text);
    begin_step(w, STEP_Q, "q_i = %s W_Q,i, Q_i = [q_i W_UK,i^T, its last columns]", q_rank > 0 ? "n(x W_DQ)" : "x");
    line(w, "%sW_Q %s, W_UK %s%s",
         q_rank > 0 ? write_text("W_DQ %s, ", weight_extents(l, TENSOR_W_DQ).text).text : "",
         weight_extents(l, TENSOR_W_Q).text, weight_extents(l, TENSOR_W_UK).text,
         q_rank > 0 ? write_text(", g_dq [" D64 "]", q_rank).text : "");
    line(w, "q_i is " D64 " wide, and its last " D64 " columns are %s; Q %s", l->latent.d_head, dims,
         l->rope.kind != ROPE_NONE ? "turned" : "not turned", heads_of(l->h, l->seq_len, l->d_k).text);
    if (l->rope.kind != ROPE_NONE)
        line(w, "%.230s", text);
    cost_lines(w, STEP_Q);
    begin_step(w, STEP_K, "K = [n(c), k_r] of x W_DKV, one for all heads");
    line(w, "W_DKV %s, g_dkv [" D64 "]; c has " D64 " columns, then come " D64 " of k_r",
         weight_extents(l, TENSOR_W_DKV).text, rank, rank, dims);
    cost_lines(w, STEP_K);
    begin_step(w, STEP_V, "V = c, columns 0 ... " D64 " of K", rank - 1);
    line(w, "multiply-adds of " D64 " queries on " D64 " keys: absorbed, as said, %s; with keys and values of heads, "
         "%s", l->seq_len, l->source_len, rounded(latent_work(l, n, m, false)).text,
         rounded(latent_work(l, n, m, true)).text);
    line(w, "of one query on " D64 " keys: %s; %s. The plan below says which calls take which form", l->source_len,
         rounded(latent_work(l, 1, m, false)).text, rounded(latent_work(l, 1, m, true)).text);
}

/* Queries, keys or values that a call brings. */
static void explain_given(struct walk *w, enum step step)
{
    const enum layer_tensor tensor = (enum layer_tensor)(TENSOR_Q + (step - STEP_Q));
    const char *const name = layer_tensor_name(tensor);
    begin_step(w, step, "%c_%s = %s", letter_of(step), step != STEP_Q && w->l->h_kv < w->l->h ? "g" : "i", name);
    line(w, "input = projected: the call brings %s %s, which is read where it lies", name,
         weight_extents(w->l, tensor).text);
}

static void explain_keys(struct walk *w)
{
    const struct layer *const l = w->l;
    if (!l->tied) {
        explain_projection(w, STEP_K);
    } else if (l->cross) {
        begin_step(w, STEP_K, "K_i = source%s W_Q,i%s", l->split ? "_i" : "", l->bias ? " + b_Q,i" : "");
        line(w, "w_k = tied: keys are projected with the queries' matrix; no parameters of their own");
        line(w, "source [" D64 "][" D64 "] -> K %s", l->source_len, l->d_source,
             heads_of(l->h, l->source_len, l->d_k).text);
        cost_lines(w, STEP_K);
        explain_finish(w, false);
    } else if (layer_has_tensor(l, TENSOR_G_Q)) {
        begin_step(w, STEP_K, "K_i = Q_i as projected");
        line(w, "w_k = tied: the same input through the same matrix, but with a norm of its own");
        explain_finish(w, false);
    } else {
        begin_step(w, STEP_K, "K_i = Q_i");
        line(w, "w_k = tied: the same input through the same matrix; nothing to store or compute");
    }
}

static void explain_values(struct walk *w)
{
    const struct layer *const l = w->l;
    if (l->shares) {
        begin_step(w, STEP_V, "V_i = columns 0 ... " D64 " of K_i", l->d_v - 1);
        line(w, "w_v = keys: nothing to store or compute");
    } else if (l->projected) {
        explain_given(w, STEP_V);
    } else if (l->identity) {
        begin_step(w, STEP_V, "V_i = %s%s", l->cross ? "source" : "x", l->split ? "_i" : "");
        line(w, "w_v = identity: the head's own input, " D64 " wide; nothing to store or compute", l->d_v);
    } else {
        explain_projection(w, STEP_V);
    }
}

/* ---- masks ----------------------------------------------------------------------------------------------- */

/* "j <= t + 3" */
static struct words rule_words(const struct layer *l, const struct visible_rule *rule)
{
    static const char *const signs[] = {[VISIBLE_TO] = "<=", [VISIBLE_FROM] = ">=", [VISIBLE_NOT] = "!="};
    const char *p = l->offset != OFFSET_NONE ? "p" : "t";
    if (rule->lifted)
        return write_text("j <= %s or j < prefix[b]", p);
    if (rule->offset == 0)
        return write_text("j %s %s", signs[rule->kind], p);
    return write_text("j %s %s %c %lld", signs[rule->kind], p, rule->offset < 0 ? '-' : '+',
                      llabs((long long)rule->offset));
}

/* What a mask of position hides, by its rules alone. */
static void explain_position(const struct walk *w, const struct score_term *term)
{
    struct visible_rule rules[VISIBLE_RULES];
    struct layer alone = *w->l;
    alone.mask = term->mask | (w->l->mask & MASK_PREFIX);
    const int count = visible_rules(&alone, rules);
    struct words words = rule_words(w->l, &rules[0]);
    for (int i = 1; i < count; i++)
        words = write_text("%.150s and %.150s", words.text, rule_words(w->l, &rules[i]).text);
    line(w, "mask %s: query t sees key j only if %s%s", key_word(KEY_MASK, term->mask), words.text,
         rules[0].lifted ? "; pairs are counted without a prefix" : "");
}

/* A term with a number for each pair, known only at run time. */
static void explain_pairs(const struct walk *w, enum score_name name)
{
    const struct score_term *term = &score_terms[name];
    const double pairs = (double)w->l->seq_len * (double)w->l->source_len;
    const double bytes = pairs * (double)layer_tensor_size(w->l, score_tensor(name));
    line(w, "%s %s: known at run time; reads %s a sequence, or %s if all heads share it",
         term->mask != 0 ? "mask" : "term", term->mask != 0 ? key_word(KEY_MASK, term->mask) : term->name,
         in_bytes((double)w->l->h * bytes).text, in_bytes(bytes).text);
}

/* What the masks hide by position, exactly; and what can be said of those that are known only at run time. */
static void explain_masks(const struct walk *w)
{
    const struct layer *const l = w->l;
    const double all = (double)l->seq_len * (double)l->source_len;
    const double pairs = (double)visible_pairs(l, l->seq_len, l->source_len);
    const double half = (double)visible_pairs(l, l->seq_len, l->source_len / 2);

    if (l->offset != OFFSET_NONE)
        line(w, "query t is at p = t + %s; counted with " D64 " for it",
             l->offset == OFFSET_PAST ? "past[b]" : (l->mask & MASK_PADDING) != 0 ? "lengths[b] - n" : "m - n",
             visible_offset(l, l->seq_len, l->source_len));
    for (enum score_name i = 0; i < SCORE_TERMS; i++)
        if (score_terms[i].place == SCORE_EDGES && score_has(l, i) && i != SCORE_PREFIX && i != SCORE_SEGMENTS)
            explain_position(w, &score_terms[i]);
    if (score_has(l, SCORE_SEGMENTS))
        line(w, "mask segments: query t sees key j only if %s, which is known at run time: where segments follow "
             "each other, only keys of the query's own are scored", score_terms[SCORE_SEGMENTS].sees);
    line(w, "%s of %s query-key pairs remain (%.1f %%) in each head", counted(pairs).text, counted(all).text,
         100 * pairs / all);
    for (enum score_name i = 0; i < SCORE_TERMS; i++) {
        const struct score_term *term = &score_terms[i];
        if (term->place == SCORE_COUNTED && score_has(l, i))
            line(w, "mask %s: only keys %s; at half length %s pairs remain (%.1f %%)",
                 key_word(KEY_MASK, term->mask), term->sees, counted(half).text, 100 * half / all);
        if (term->place == SCORE_EVERYWHERE && score_tensor(i) < TENSOR_COUNT && score_has(l, i))
            explain_pairs(w, i);
    }
}

/* ---- attention and output -------------------------------------------------------------------------------- */

static void explain_attention(struct walk *w)
{
    const struct layer *const l = w->l;
    const int64_t n = l->seq_len, m = l->source_len, h = l->h;
    const double pairs = (double)visible_pairs(l, n, m) * (double)h;
    const double scores = (double)h * (double)n * (double)m * FLOAT_BYTES, rows = (double)n * FLOAT_BYTES;
    const char *kv = l->h_kv < l->h ? "g" : "i";
    char equation[SCORE_TEXT];

    score_equation(l, write_text("%.9g * sum over d of Q_i[t][d] K_%s[j][d]", l->scale, kv).text, "[t][j]", equation);
    begin_step(w, STEP_SCORES, "S_i[t][j] = %s", equation);
    line(w, "Q [" D64 " heads][" D64 "][" D64 "], K [" D64 " heads][" D64 "][" D64 "] -> S [" D64 "][" D64 "][" D64 "]",
         h, n, l->d_k, l->h_kv, m, l->d_k, h, n, m);
    line(w, "S is %s if it is stored whole", in_bytes(scores).text);
    if (l->mask != 0)
        explain_masks(w);
    cost_lines(w, STEP_SCORES);

    begin_step(w, STEP_SOFTMAX, "A_i[t][j] = exp(S_i[t][j] - max) / sum, over the keys that query t sees");
    line(w, "%s exponentials (%s); rows sum to 1, and a row that sees no key is zero", counted(pairs).text,
         rounded(pairs).text);
    if (l->scores > SCORES_WEIGHTS)
        line(w, "scores other than weights: S is written out, %s a sequence, and passes through memory",
             in_bytes(scores).text);
    if (l->sink)
        line(w, "sink: exp(sink[i]) is added to the sum but has no value, so rows sum to less than 1");
    if (l->lse)
        line(w, "lse = true: max + log(sum) is written out, %s a sequence", in_bytes((double)h * rows).text);
    if (l->train)
        line(w, "train = true: z and what the weights are recomputed from are kept for backward, %s a sequence; the "
                "plan may keep more", in_bytes((double)layer_kept(l) * rows).text);
    if (l->dropout > 0)
        line(w, "dropout = %.9g: in training a weight is zero with this probability, else divided by %.9g; "
             "backward draws it again, so nothing is kept", l->dropout, 1 - l->dropout);
    if (l->scores == SCORES_WEIGHTS)
        line(w, "scores = true: A is written out, %s a sequence", in_bytes(scores).text);

    begin_step(w, STEP_VALUES, "Z_i[t] = sum over j of A_i[t][j] V_%s[j]", kv);
    line(w, "A [" D64 "][" D64 "][" D64 "], V [" D64 " heads][" D64 "][" D64 "] -> Z [" D64 "][" D64 "][" D64 "], %s",
         h, n, m, l->h_kv, m, l->d_v, h, n, l->d_v, in_bytes((double)h * rows * (double)l->d_v).text);
    cost_lines(w, STEP_VALUES);
    if (l->gate == GATE_NONE)
        return;
    line(w, "gate = %s: Z_i times sigmoid(x W_gate,i%s), %s", key_word(KEY_GATE, l->gate),
         l->bias ? " + b_gate,i" : "", l->gate == GATE_HEADS ? "column i" : "columns of head i");
    weight_line(w, "_gate", TENSOR_W_GATE, TENSOR_B_GATE);
    cost_lines(w, STEP_GATES);
}

static void explain_output(struct walk *w)
{
    const struct layer *const l = w->l;
    const int64_t n = l->seq_len, block = l->d_model / l->h;
    const char *const made = layer_has_block(l) ? "att" : "y";
    const struct words concat = l->h == 1 ? write_text("Z_0") : write_text("[Z_0 ... Z_" D64 "]", l->h - 1);

    if (l->w_o == W_O_NONE) {
        begin_step(w, STEP_OUTPUT, "y = %s", concat.text);
        line(w, "w_o = none: the heads side by side, y [" D64 "][" D64 "]; nothing to compute", n, l->d_out);
        return;
    }
    if (l->w_o == W_O_CONV) {
        begin_step(w, STEP_OUTPUT, "%s[t, block i] = %ssum over r of Z_i[t + r - " D64 "] W_O,i[r]", made,
                   l->bias ? "b_O[block i] + " : "", layer_conv_pad(l));
        line(w, "w_o = conv: " D64 " taps r along the sequence in place of one matrix, zeros past its ends",
             l->conv_width);
        line(w, "head i writes columns " D64 " i ... " D64 " i + " D64 " of y: heads do not mix", block, block,
             block - 1);
    } else {
        begin_step(w, STEP_OUTPUT, "%s = %s W_O%s", made, concat.text, l->bias ? " + b_O" : "");
    }
    if (layer_is_latent(l))
        line(w, "W_UV %s: Z_i W_UV,i [" D64 "] of each head", weight_extents(l, TENSOR_W_UV).text, l->latent.d_value);
    line(w, "Z [" D64 "][" D64 "] -> %s %s", n, l->h * layer_z_width(l), made, rows_of(n, l->d_out).text);
    weight_line(w, "_O", TENSOR_W_O, TENSOR_B_O);
    cost_lines(w, STEP_OUTPUT);
}

/* ---- the block ------------------------------------------------------------------------------------------- */

static void explain_ffn(struct walk *w)
{
    const struct layer *const l = w->l;
    const char *act = key_word(KEY_ACTIVATION, layer_activation(l)), *const bias = l->ffn_bias ? " + b_1" : "";
    const bool gated = layer_ffn_gated(l);
    const int64_t n = l->seq_len;
    if (gated)
        begin_step(w, STEP_HIDDEN, "f = %s(r W_g%s) * (r W_1%s), r the rows that ffn reads", act,
                   l->ffn_bias ? " + b_g" : "", bias);
    else
        begin_step(w, STEP_HIDDEN, "f = %s(r W_1%s), r the rows that ffn reads", act, bias);
    line(w, "r [" D64 "][" D64 "] -> f %s", n, l->d_model, rows_of(n, l->d_ff).text);
    line(w, "%sW_1 %s%s", gated ? write_text("W_g %s, ", weight_extents(l, TENSOR_W_G).text).text : "",
         weight_extents(l, TENSOR_W_1).text,
         l->ffn_bias ? write_text(gated ? ", b_g and b_1 %s" : ", b_1 %s", weight_extents(l, TENSOR_B_1).text).text
                     : "");
    line(w, "%s activations", counted((double)n * (double)l->d_ff).text);
    cost_lines(w, STEP_HIDDEN);
    begin_step(w, STEP_DOWN, "ffn = f W_2%s", l->ffn_bias ? " + b_2" : "");
    line(w, "f [" D64 "][" D64 "] -> ffn %s", n, l->d_ff, rows_of(n, l->d_model).text);
    weight_line(w, "_2", TENSOR_W_2, TENSOR_B_2);
    cost_lines(w, STEP_DOWN);
}

#define CENTRED "(r - mean) / sqrt(mean of (r - mean)^2 + eps) g"

/* What norms of rows are, and how many; nothing without any. */
static void explain_norms(const struct walk *w)
{
    const struct layer *const l = w->l;
    const int norms = layer_norms(l);
    if (norms == 0)
        return;
    line(w, "n(r) = %s, of each row's " D64 " numbers%s",
         l->block_rms ? "r / sqrt(mean of r^2 + eps) g" : l->block_shift ? CENTRED " + b" : CENTRED, l->d_model,
         !layer_norms_first(l) || !layer_attends(l) ? "" : l->cross ? "; queries read n1(x), keys and values source"
                                               : "; attention reads n1(x) where x stands above");
    line(w, "%d norm%s, eps = %.9g", norms, norms == 1 ? "" : "s", l->norm_eps);
}

static void explain_block(struct walk *w)
{
    begin_step(w, STEP_BLOCK, "%s", layer_block_equation(w->l));
    explain_norms(w);
    cost_lines(w, STEP_BLOCK);
    if (layer_has_ffn(w->l))
        explain_ffn(w);
}

/* ---- layers without attention ---------------------------------------------------------------------------- */

static void explain_linear(struct walk *w)
{
    const struct layer *const l = w->l;
    const bool acts = l->activation != ACTIVATION_NONE || l->cap != 0;
    struct words of = write_text("%s W%s", l->row_norm ? "n1(x)" : "x", l->bias ? " + b" : "");
    if (acts)
        of = write_text("%s(%s)", l->activation != ACTIVATION_NONE ? key_word(KEY_ACTIVATION, l->activation) : "",
                        of.text);
    if (l->cap != 0)
        of = write_text("%.9g tanh(%s / %.9g)", l->cap, of.text, l->cap);
    begin_step(w, STEP_LINEAR, "y = %s", of.text);
    line(w, "x [" D64 "][" D64 "] -> y %s", l->seq_len, l->d_model, rows_of(l->seq_len, l->d_out).text);
    weight_line(w, "", TENSOR_W, TENSOR_B);
    explain_norms(w);
    if (acts)
        line(w, "%s activations", counted((double)l->seq_len * (double)l->d_out).text);
    cost_lines(w, STEP_LINEAR);
}

/* Each row by itself */
static void explain_rows(struct walk *w)
{
    const struct layer *const l = w->l;
    const bool linear = layer_is_linear(l);
    fprintf(w->out, "%s: a %s layer, row by row\n\n", l->name, linear ? "linear" : "feed-forward");
    if (linear)
        remark(w, "d_in = " D64 ", d_out = " D64 ", bias %s", l->d_model, l->d_out, flag(l->bias));
    else
        remark(w, "d_model = " D64 ", d_ff = " D64 ", ffn_bias %s", l->d_model, l->d_ff, flag(l->ffn_bias));
    remark(w, "n = " D64 " rows of a sequence%s", l->seq_len,
           l->pad_skipped ? "; those from lengths[b] on become zero and take no time"
           : (l->mask & MASK_PADDING) != 0 ? "; lengths are checked and change nothing" : "");
    fprintf(w->out, "\nStep by step, for one sequence of that length, in f32%s\n", packed_words(l));
    (linear ? explain_linear : explain_block)(w);
}

static void explain_recurrent(struct walk *w)
{
    static const struct { enum step step; const char *equation; } made[] = {
        {STEP_Q, "Q = x W_Q"}, {STEP_K, "K = x W_K"}, {STEP_V, "V = x W_V"},
        {STEP_GATES, "decays, shares of corrections, output gates, and the convolution"}};
    const struct layer *const l = w->l;
    const double bytes = (double)element_size(l->cache_type), state = (double)layer_state_numbers(l) * bytes;
    const double history = (double)(l->conv_channels * l->conv_history) * bytes;
    const char *const decay = layer_decays(l) ? "e^decay S" : "S", *const skip = l->skip ? " + skip v" : "";
    fprintf(w->out, "%s: a recurrent layer\n\n", l->name);
    if (!l->projected)
        remark(w, "d_model = " D64, l->d_model);
    remark(w, "h = " D64 " query heads, h_kv = " D64 " key heads, h_v = " D64 " value heads with a state each", l->h,
           l->h_kv, l->h_v);
    remark(w, "d_k = " D64 ", d_v = " D64, l->d_k, l->d_v);
    remark(w, "n = " D64 " new tokens of a sequence; states of a sequence %s, of its convolution %s", l->seq_len,
           in_bytes(state).text, in_bytes(history).text);
    fprintf(w->out, "\nStep by step, for one sequence of that length, in f32%s\n", packed_words(l));
    for (size_t i = 0; !l->projected && i < COUNT_OF(made); i++) {
        begin_step(w, made[i].step, "%s", made[i].equation);
        cost_lines(w, made[i].step);
    }
    if (layer_corrects(l))
        begin_step(w, STEP_STATES, "P = %s, S = P + beta k (v - P^T k)^T, o = scale S^T q%s", decay, skip);
    else
        begin_step(w, STEP_STATES, "S = %s + k %s^T, o = scale S^T q%s", decay, l->dt_values ? "(dt v)" : "v", skip);
    cost_lines(w, STEP_STATES);
    line(w, "a step of one token reads and writes %s of states",
         in_bytes((l->state_window > 0 ? 3 : 2) * state / (double)l->states).text);
    if (l->projected)
        return;
    begin_step(w, STEP_OUTPUT, "%s", l->out_gate == OUT_GATE_NONE ? "y = o W_O"
               : l->norm_before_gate ? "y = z W_O, z the gated norms of o" : "y = z W_O, z the norms of gated o");
    cost_lines(w, STEP_OUTPUT);
    if (layer_has_block(l))
        explain_block(w);
}

static void explain_convolution(struct walk *w)
{
    const struct layer *const l = w->l;
    const double history = (double)(l->conv_channels * l->conv_history) * (double)element_size(l->cache_type);
    const char *const act = key_word(KEY_ACTIVATION, l->activation);
    const bool acts = l->activation != ACTIVATION_NONE;
    fprintf(w->out, "%s: a causal convolution over tokens\n\n", l->name);
    remark(w, "channels = " D64 ", conv_taps = " D64 ", bias %s, activation %s", l->d_model, l->conv_taps,
           flag(l->bias), act);
    remark(w, "n = " D64 " new tokens of a sequence; its state %s", l->seq_len, in_bytes(history).text);
    fprintf(w->out, "\nStep by step, for one sequence of that length, in f32\n");
    begin_step(w, STEP_CONV, "y[t][c] = %s%s%ssum over j of conv_x[c][j] x[t - " D64 " + j][c]%s", acts ? act : "",
               acts ? "(" : "", l->bias ? "b[c] + " : "", l->conv_history, acts ? ")" : "");
    cost_lines(w, STEP_CONV);
}

/* ---- totals ---------------------------------------------------------------------------------------------- */

static void total_line(FILE *out, const char *name, const struct figures *f, double total)
{
    fprintf(out, "  %-13s %16s %16s %20s %6.1f %%\n", name, counted(f->parameters).text, in_bytes(f->bytes).text,
            counted(f->multiply_adds).text, 100 * f->multiply_adds / fmax(total, 1));
}

/* The cache, and what a step of one token takes where it is nearly full: memory counts there. */
static void explain_cache(const struct walk *w)
{
    const struct layer *const l = w->l;
    const double row = (double)layer_cached_bytes(l);
    int64_t left, right;
    visible_reach(l, &left, &right);
    const int64_t keys = left != LAYER_UNBOUNDED ? min(left + 1, l->cache_len) : l->cache_len;
    fputs("\nThe cache\n\n", w->out);
    remark(w, "%s of " D64 " positions%s%s, %s each, %s a sequence%s", key_word(KEY_CACHE, l->cache), l->cache_len,
           layer_stores_cache(l) ? " in " : "", layer_stores_cache(l) ? element_name(l->cache_type) : "",
           in_bytes(row).text, in_bytes(row * (double)l->cache_len).text,
           l->cache != CACHE_PAGED ? ""
               : write_text("; pages of " D64 ", at most " D64 " of them", l->page_len, l->page_count).text);
    remark(w, "A step of one token that sees " D64 " keys reads %s of it and %s of weights, for %s multiply-adds.",
           keys, in_bytes(row * (double)keys).text, in_bytes(layer_parameter_bytes(l)).text,
           counted(layer_multiply_adds(l, 1, l->cache_len).total).text);
}

static void explain_totals(const struct walk *w)
{
    const struct layer *const l = w->l;
    const double total = layer_multiply_adds(l, l->seq_len, l->source_len).total;
    const struct figures all = {(double)w->parameters.total, layer_parameter_bytes(l), total};
    fprintf(w->out, "\nTotals\n\n  %-13s %16s %16s %20s %8s\n", "step", "parameters", "weights", "multiply-adds",
            "share");
    for (enum step step = 0; step < STEP_COUNT; step++)
        if (w->step[step].parameters + w->step[step].multiply_adds > 0)
            total_line(w->out, step_names[step], &w->step[step], total);
    total_line(w->out, "layer", &all, total);
    fputc('\n', w->out);
    remark(w, "%s parameters (%s); one sequence takes %s multiply-adds, %s operations", counted(all.parameters).text,
           rounded(all.parameters).text, rounded(total).text, rounded(2 * total).text);
}

/* ---- heads ----------------------------------------------------------------------------------------------- */

/* The width of a head: where it comes from, and the power of h in it */
struct width {
    const char *words;
    int power;
};

static struct width width_of(const struct layer *l, bool given)
{
    return given ? (struct width){"given", 0} : l->width == WIDTH_WIDE ? (struct width){"d_model", 0}
                                                                       : (struct width){"d_model/h", -1};
}

static struct width d_k_of(const struct layer *l) { return width_of(l, l->d_k_given); }

static struct width d_v_of(const struct layer *l)
{
    if (l->identity)
        return l->split ? (struct width){"d_source/h", -1} : (struct width){"d_source", 0};
    return l->shares && !l->d_v_given ? (struct width){"d_k", d_k_of(l).power} : width_of(l, l->d_v_given);
}

/* The power of h in a tensor's size. With grouped heads h_kv stays and h moves. */
static int power_of(const struct layer *l, enum layer_tensor tensor)
{
    const int own = l->h_kv < l->h ? 0 : 1, rows = l->split ? -1 : 0, d_k = d_k_of(l).power, d_v = d_v_of(l).power;
    switch (tensor) {
    case TENSOR_W_Q: return 1 + rows + d_k;
    case TENSOR_B_Q: return 1 + d_k;
    case TENSOR_W_K: return own + rows + d_k;
    case TENSOR_B_K: return own + d_k;
    case TENSOR_W_V: return own + rows + d_v;
    case TENSOR_B_V: return own + d_v;
    case TENSOR_W_O: return (l->w_o == W_O_CONV ? 0 : 1) + d_v;
    default: return 0; /* b_O */
    }
}

/* "768 x 12*64 = 768 x 768" */
static struct words product(const struct layer *l, enum layer_tensor tensor)
{
    const bool query = tensor == TENSOR_W_Q || tensor == TENSOR_B_Q;
    const bool value = tensor == TENSOR_W_V || tensor == TENSOR_B_V;
    const int64_t heads = query ? l->h : l->h_kv, width = value ? l->d_v : l->d_k, d_model = l->d_model;
    const int64_t in = query ? l->d_in_q : l->d_in_kv;
    switch (tensor) {
    case TENSOR_W_Q: case TENSOR_W_K: case TENSOR_W_V:
        return l->split ? write_text(D64 " x (" D64 " x " D64 ")", heads, in, width)
                        : write_text(D64 " x (" D64 " * " D64 ") = " D64 " x " D64, in, heads, width, in,
                                     heads * width);
    case TENSOR_B_Q: case TENSOR_B_K: case TENSOR_B_V: return write_text(D64 " * " D64, heads, width);
    case TENSOR_W_O:
        if (l->w_o == W_O_CONV)
            return write_text(D64 " x " D64 " taps x (" D64 " x " D64 ")", l->h, l->conv_width, l->d_v,
                              d_model / l->h);
        return write_text("(" D64 " * " D64 ") x " D64 " = " D64 " x " D64, l->h, l->d_v, d_model, l->h * l->d_v,
                          d_model);
    default: return write_text(D64, d_model);
    }
}

/* The same layer with other values of keys; NULL where that is illegal. layer_free() it. */
static struct layer *with_keys(const struct layer *l, const struct words *sets, size_t count)
{
    const char *set[4];
    OWNED(diag_free) struct diag ignored = {0};
    for (size_t i = 0; i < count; i++)
        set[i] = sets[i].text;
    return layer_read_text(l->name, l->text, set, count, &ignored);
}

static void other_line(const struct walk *w, const struct layer *other, const char *label)
{
    const double pairs = (double)visible_pairs(other, other->seq_len, other->source_len);
    fprintf(w->out, "  %-17s %10" PRId64 " %10" PRId64 " %16s %9s %16s %12s\n", label, other->d_k, other->d_v,
            counted((double)layer_parameters(other).total).text, in_bytes(layer_parameter_bytes(other)).text,
            counted(layer_multiply_adds(other, other->seq_len, other->source_len).total).text,
            rounded(pairs * (double)other->h).text);
}

static void other_heading(const struct walk *w, const char *label)
{
    fprintf(w->out, "\n  %-17s %10s %10s %16s %9s %16s %12s\n", label, "d_k", "d_v", "parameters", "weights",
            "multiply-adds", "exponentials");
}

/* Legal numbers of heads near h, and h itself. */
static void explain_other_heads(const struct walk *w)
{
    const int64_t h = w->l->h, tries[] = {1, h / 4, h / 3, h / 2, h, 2 * h, 3 * h, 4 * h};
    int64_t last = 0;
    fprintf(w->out, "\nThe same layer with other numbers of heads\n");
    other_heading(w, "h");
    for (size_t i = 0; i < COUNT_OF(tries); i++) {
        const struct words sets[] = {write_text("h=" D64, tries[i]), write_text("h_kv=" D64, tries[i])};
        struct layer *other = tries[i] > last ? with_keys(w->l, sets, w->l->h_kv < h ? 1 : 2) : NULL;
        if (other == NULL)
            continue;
        last = tries[i];
        other_line(w, other, write_text(D64 "%s", last, last == h ? " (this)" : "").text);
        layer_free(other);
    }
}

static void explain_width(const struct walk *w)
{
    const struct layer *const l = w->l;
    const int64_t width = l->d_model / l->h;
    if (l->width == WIDTH_NARROW || l->d_model % l->h != 0)
        return;
    struct words sets[3];
    size_t count = 0;
    if (l->width == WIDTH_WIDE)
        sets[count++] = write_text("width=narrow");
    if (l->d_k_given)
        sets[count++] = write_text("d_k=" D64, width);
    if (l->d_v_given)
        sets[count++] = write_text("d_v=" D64, width);
    struct layer *narrow = with_keys(l, sets, count);
    if (narrow == NULL)
        return;

    const double parameters = (double)layer_parameters(l).total / (double)layer_parameters(narrow).total;
    const double work = layer_multiply_adds(l, l->seq_len, l->source_len).total /
                        layer_multiply_adds(narrow, l->seq_len, l->source_len).total;
    fprintf(w->out, "\nWhat the width costs: " D64 " heads that are d_k = " D64 ", d_v = " D64 " wide, against narrow "
            "ones\n", l->h, l->d_k, l->d_v);
    other_heading(w, "width");
    other_line(w, l, l->width == WIDTH_WIDE ? "wide (this)" : "given (this)");
    other_line(w, narrow, "narrow");
    fprintf(w->out, "  %-17s %10.4g %10.4g %16.4g %9s %16.4g %12.4g\n", "times", (double)l->d_k / (double)narrow->d_k,
            (double)l->d_v / (double)narrow->d_v, parameters, "", work, 1.0);
    fprintf(w->out, "\n  Keys and values of one position take %.4g times the bytes, as would a cache of them.\n",
            (double)(l->d_k + l->d_v) / (double)(narrow->d_k + narrow->d_v));
    layer_free(narrow);
}

/* The sums of the parameters of each trend, in words. */
static void explain_trend(const struct walk *w, double grow, double shrink, double same)
{
    const struct layer *const l = w->l;
    if (grow == 0 && shrink == 0)
        remark(w, "More heads only cut the same matrices into narrower pieces: %s parameters however many heads. What "
               "grows with h are the " D64 " x " D64 " scores of each head and their exponentials%s.",
               counted(same).text, l->seq_len, l->source_len,
               d_v_of(l).power == 0 ? ", and the weighted sums, as wide as before" : "");
    else if (l->width != WIDTH_NARROW && !l->split && grow > 0)
        remark(w, "A head whose width does not follow from h brings matrices of its own: %s parameters for each of the "
               D64 " heads.", counted(grow / (double)l->h).text, l->h);
    else if (l->split && shrink > 0)
        remark(w, "Each head's matrices see only its own columns: of the h x h blocks only the h on the diagonal "
               "exist.");
    if (l->h_kv < l->h)
        remark(w, "Keys and values have h_kv = " D64 " heads, 1/" D64 " of what h_kv = h would take; counted here with "
               "h_kv kept as it is.", l->h_kv, l->h / l->h_kv);
}

static void explain_heads(const struct walk *w)
{
    static const char *const trends[] = {"shrinks as 1/h", "the same for every h", "grows with h"};
    double sums[3] = {0};

    fprintf(w->out, "\nWhich parameters depend on the number of heads (d_k = %s, d_v = %s)\n\n", d_k_of(w->l).words,
            d_v_of(w->l).words);
    for (int i = 0; i < 8; i++) { /* matrices, then biases */
        const enum layer_tensor tensor = (enum layer_tensor)(TENSOR_W_Q + 2 * (i % 4) + i / 4);
        if (!layer_has_tensor(w->l, tensor))
            continue;
        const int power = power_of(w->l, tensor), trend = 1 + (power > 0) - (power < 0);
        const double size = (double)w->parameters.of[tensor];
        sums[trend] += size;
        remark(w, "%c_%c  %16s = %-44s %s", "Wb"[i / 4], "QKVO"[i % 4], counted(size).text, product(w->l, tensor).text,
               trends[trend]);
    }
    fputc('\n', w->out);
    remark(w, "the same for every h: %s   grow with h: %s   shrink as 1/h: %s", counted(sums[1]).text,
           counted(sums[2]).text, counted(sums[0]).text);
    explain_trend(w, sums[2], sums[0], sums[1]);
    explain_other_heads(w);
    explain_width(w);
}

/* ---- the whole walk -------------------------------------------------------------------------------------- */

static void explain_head(const struct walk *w)
{
    static const char *const widths[] = {[WIDTH_NARROW] = "narrow", [WIDTH_WIDE] = "wide", [WIDTH_GIVEN] = "given"};
    const struct layer *const l = w->l;
    const struct words heads = l->h_kv < l->h
        ? write_text("h = " D64 " heads on h_kv = " D64 " heads of keys and values", l->h, l->h_kv)
        : write_text("h = " D64 " heads", l->h);
    const int64_t n = l->seq_len, m = l->source_len;
    char masks[LAYER_MASK_TEXT];
    layer_mask_text(l->mask, masks);
    if (l->projected) {
        fprintf(w->out, "%s: attention of given queries, keys and values\n\n", l->name);
        remark(w, "%s, d_k = " D64 ", d_v = " D64 "; input projected, heads %s", heads.text, l->d_k, l->d_v,
               l->heads_first ? "first" : "last");
    } else {
        fprintf(w->out, "%s: %s-attention\n\n", l->name, l->cross ? "cross" : "self");
        remark(w, "d_model = " D64 ", %s", l->d_model, heads.text);
        remark(w, "d_k = " D64 " (%s), d_v = " D64 " (%s); width %s, input %s", l->d_k, d_k_of(l).words, l->d_v,
               d_v_of(l).words, widths[l->width], l->split ? "split" : "shared");
    }
    remark(w, "scale = %.9g, mask %s, bias %s", l->scale, masks, flag(l->bias));
    if (l->cross)
        remark(w, "n = " D64 " query positions of x, m = " D64 " key positions of source, " D64 " wide", n, m,
               l->d_source);
    else if (layer_has_cache(l))
        remark(w, "n = " D64 " new tokens of a sequence, up to " D64 " with those of the cache", n, m);
    else if (l->projected)
        remark(w, "n = " D64 " query positions, m = " D64 " key positions", n, m);
    else
        remark(w, "n = m = " D64 " positions: each is a query and a key", n);
    fprintf(w->out, "\nStep by step, for one sequence of that length, head i = 0 ... " D64 ", in f32%s\n", l->h - 1,
            packed_words(l));
}

void explain_layer(const struct layer *layer, FILE *out)
{
    struct walk walk = {.l = layer, .out = out, .parameters = layer_parameters(layer)}, *const w = &walk;
    const bool latent = layer_is_latent(layer), given = layer->projected;
    count_steps(w);
    if (!layer_attends(layer)) {
        (layer_is_recurrent(layer) ? explain_recurrent : layer_is_convolution(layer) ? explain_convolution
                                   : explain_rows)(w);
        explain_totals(w);
        return;
    }
    explain_head(w);
    if (latent) {
        explain_latent(w);
    } else {
        (given ? explain_given : explain_projection)(w, STEP_Q);
        given ? explain_given(w, STEP_K) : explain_keys(w);
        explain_values(w);
    }
    explain_attention(w);
    explain_output(w);
    if (layer_has_block(layer))
        explain_block(w);
    if (layer_has_cache(layer))
        explain_cache(w);
    explain_totals(w);
    if (!given && !latent) /* else what depends on h is the caller's, or the heads' alone */
        explain_heads(w);
}
