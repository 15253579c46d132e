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

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "spec/finish.h"
#include "spec/keys.h"
#include "spec/layer.h"
#include "spec/score.h"
#include "spec/visible.h"

#define FLOAT_BYTES ((double)element_size(TENSOR_F32))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define COLUMNS 100
#define STEP_INDENT 17

struct text { char text[320]; };

static struct text write_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static struct text write_text(const char *format, ...)
{
    struct text text;
    va_list args;
    va_start(args, format);
    vsnprintf(text.text, sizeof text.text, format, args);
    va_end(args);
    return text;
}

/* A line from column `indent` on, broken at blanks if it is longer than a page is wide;
 * `before` columns of it are there. */
static void line_behind(FILE *out, int before, int indent, const char *text)
{
    const size_t room = (size_t)(COLUMNS - indent);
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

static void line_at(FILE *out, int indent, const char *text)
{
    line_behind(out, 0, indent, text);
}

/* An exact count while a double has all its digits. */
static struct text counted(double count)
{
    return count < 1e15 ? write_text("%.0f", count) : write_text("%.9g", count);
}

/* "2.36 M" beside an exact count. */
static struct text rounded(double count)
{
    static const char *const units[] = {"", " k", " M", " G", " T", " P", " E", " Z", " Y", " R"};
    size_t unit = 0;
    for (; count >= 999.5 && unit + 1 < COUNT_OF(units); unit++)
        count /= 1000;
    return write_text("%.3g%s", count, units[unit]);
}

/* "9.01 MiB" */
static struct text in_bytes(double bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    for (; bytes >= 1023.5 && unit + 1 < COUNT_OF(units); unit++)
        bytes /= 1024;
    return write_text(unit == 0 || bytes >= 99.95 ? "%.0f %s" : "%.3g %s", bytes, units[unit]);
}

/* "[768][768]", the extents of a weight as it lies on disk */
static struct text weight_extents(const struct layer *layer, enum layer_tensor tensor)
{
    char text[LAYER_SHAPE_TEXT];
    layer_tensor_text(layer, tensor, text);
    return write_text("%s", text);
}

/* ---- the steps ------------------------------------------------------------------------------------------- */

enum step {
    STEP_Q, STEP_K, STEP_V, STEP_SCORES, STEP_SOFTMAX, STEP_VALUES, STEP_OUTPUT, STEP_BLOCK, STEP_HIDDEN, STEP_DOWN,
    STEP_LINEAR, STEP_GATES, STEP_STATES, STEP_CONV, STEP_COUNT
};
static const char *const step_names[STEP_COUNT] = {"queries", "keys", "values", "scores", "softmax", "weighted sum",
                                                   "output", "block", "hidden", "down", "linear", "gates", "states",
                                                   "convolution"};

/* What one step costs. */
struct figures { double parameters, multiply_adds, result_bytes, bytes; };

static struct figures step_figures(const struct layer *l, int64_t of_matrices, int64_t others, double multiply_adds,
                                   double result_bytes)
{
    return (struct figures){(double)(of_matrices + others), multiply_adds, result_bytes,
                            layer_packed_bytes(l, of_matrices, others)};
}

static int64_t size_of(const struct layer *l, enum layer_tensor tensor)
{
    int64_t shape[4], size = 1;
    const int count = layer_weight_shape(l, tensor, shape);
    for (int i = 0; i < count; i++)
        size *= shape[i];
    return size;
}

static void figures_of(const struct layer *l, struct figures f[STEP_COUNT])
{
    struct layer_parameters p = layer_parameters(l);
    const struct layer_cost c = layer_multiply_adds(l, l->seq_len, l->source_len);
    const double n = (double)l->seq_len, m = (double)l->source_len, new = (double)layer_new_keys(l);
    const double h = (double)l->h, h_kv = (double)l->h_kv, d_k = (double)l->d_k, d_v = (double)l->d_v;
    const bool k_is_q = l->tied && !l->cross;

    memset(f, 0, STEP_COUNT * sizeof *f);
    const int64_t norms = layer_norms(l) * l->d_model * (l->block_shift ? 2 : 1);
    if (layer_is_linear(l)) {
        f[STEP_LINEAR] = step_figures(l, p.w, p.b + norms, c.linear, n * (double)l->d_out * FLOAT_BYTES);
        return;
    }
    if (layer_is_convolution(l)) {
        f[STEP_CONV] = step_figures(l, 0, p.learned + p.b, c.taps, n * (double)l->d_out * FLOAT_BYTES);
        return;
    }
    f[STEP_BLOCK] = step_figures(l, 0, norms, 0, 0);
    f[STEP_HIDDEN] = step_figures(l, p.w_1 + p.w_g, p.b_1 + p.b_g, c.ffn - c.down, n * (double)l->d_ff * FLOAT_BYTES);
    f[STEP_DOWN] = step_figures(l, p.w_2, p.b_2, c.down, n * (double)l->d_model * FLOAT_BYTES);
    if (layer_is_recurrent(l)) {
        const double heads = (double)l->h_out * d_v;
        f[STEP_Q] = step_figures(l, p.w_q, p.b_q, c.q, n * h * d_k * FLOAT_BYTES);
        f[STEP_K] = step_figures(l, p.w_k, p.b_k, c.k, n * h_kv * d_k * FLOAT_BYTES);
        f[STEP_V] = step_figures(l, p.w_v, p.b_v, c.v, n * (double)l->h_v * d_v * FLOAT_BYTES);
        f[STEP_GATES] = step_figures(l, p.w_z + p.w_a + p.w_b, p.b_gate + p.learned - norms, c.gates + c.taps, 0);
        f[STEP_STATES] = step_figures(l, 0, 0, c.states, n * heads * FLOAT_BYTES);
        f[STEP_OUTPUT] = step_figures(l, p.w_o, p.b_o, c.output, n * (double)l->d_out * FLOAT_BYTES);
    }
    if (!layer_attends(l))
        return;
    const double made = l->projected ? 0 : 1; /* 0: the call brings them */
    f[STEP_Q] = step_figures(l, p.w_q, p.b_q, c.q, made * n * h * d_k * FLOAT_BYTES);
    f[STEP_K] = step_figures(l, p.w_k, p.b_k, c.k, k_is_q ? 0 : made * new * h_kv * d_k * FLOAT_BYTES);
    const double of_v = l->identity || l->shares ? 0 : made * new * h_kv * d_v;
    f[STEP_V] = step_figures(l, p.w_v, p.b_v, c.v, of_v * FLOAT_BYTES);
    f[STEP_SCORES] = step_figures(l, 0, 0, c.scores, h * n * m * FLOAT_BYTES);
    f[STEP_SOFTMAX] = step_figures(l, 0, 0, 0, h * n * m * FLOAT_BYTES);
    f[STEP_VALUES] = step_figures(l, 0, 0, c.values, n * h * d_v * FLOAT_BYTES);
    f[STEP_GATES] = step_figures(l, p.w_gate, p.b_gate, c.gates, n * h * (double)layer_gate_width(l) * FLOAT_BYTES);
    if (layer_is_latent(l)) { /* gains of the latents' norms with their matrices */
        const int64_t w_uk = size_of(l, TENSOR_W_UK), w_dq = l->latent.q_rank > 0 ? size_of(l, TENSOR_W_DQ) : 0;
        f[STEP_Q] = step_figures(l, p.w_q + w_dq + w_uk, l->latent.q_rank, c.q, n * h * d_k * FLOAT_BYTES);
        f[STEP_K] = step_figures(l, size_of(l, TENSOR_W_DKV), l->latent.rank, c.k, new * d_k * FLOAT_BYTES);
        p.w_o += size_of(l, TENSOR_W_UV);
    }
    f[STEP_OUTPUT] = step_figures(l, p.w_o, p.b_o, c.output,
                                  l->w_o == W_O_NONE ? 0 : n * (double)l->d_out * FLOAT_BYTES);
}

static void line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line(FILE *out, const char *format, ...)
{
    struct text text;
    va_list args;
    va_start(args, format);
    vsnprintf(text.text, sizeof text.text, format, args);
    va_end(args);
    line_at(out, STEP_INDENT, text.text);
}

#define RECURRENT_STEPS 6 /* before its block */

static void head_line(const struct layer *l, FILE *out, enum step step, struct text equation)
{
    const int first = layer_attends(l) ? STEP_Q : layer_is_linear(l) ? STEP_LINEAR : STEP_BLOCK;
    const int number = layer_is_recurrent(l) ? (int)step - STEP_BLOCK + RECURRENT_STEPS + 1 : (int)step - first + 1;
    const int before = fprintf(out, "\n%d. %s", number, step_names[step]) - 1;
    line_behind(out, before, STEP_INDENT, equation.text);
}

/* Parameters, multiply-adds and result of one step, each where it has any. */
static void cost_lines(FILE *out, const struct figures *f)
{
    if (f->parameters > 0)
        line(out, "%s parameters, %s", counted(f->parameters).text, in_bytes(f->bytes).text);
    if (f->multiply_adds > 0)
        line(out, "%s multiply-adds (%s)", counted(f->multiply_adds).text, rounded(f->multiply_adds).text);
}

/* Behind "in f32", which the caller's weights are. */
static const char *packed_words(const struct layer *l)
{
    return layer_stores_weights(l) ? ";\nbytes of weights as packed, without scales of columns" : "";
}

/* One of the three projections of the input. */
struct projection {
    enum step step;
    enum layer_tensor w, b;
    char letter; /* Q, K, V */
    bool of_source;
    int64_t heads, width;
};

/* What a projection of queries or keys is followed by. */
static void explain_finish(const struct layer *l, bool queries, FILE *out)
{
    const double rows = (double)(queries ? l->seq_len : layer_new_keys(l)), heads = (double)(queries ? l->h : l->h_kv);
    const long long gains = (long long)(l->qk_norm == NORM_RMS_ALL || l->qk_by_head ? heads : 1) * (long long)l->d_k;
    const double turned = rows * heads * (double)l->rope.dims;
    char text[FINISH_TEXT];
    norm_text(l, queries ? 'q' : 'k', text);
    if (l->qk_norm != NORM_NONE) {
        line(out, "each head's row %c is normed: %.220s", queries ? 'q' : 'k', text);
        line(out, "%s multiply-adds (%s), %s roots and divisions%s", counted(2 * rows * heads * (double)l->d_k).text,
             rounded(2 * rows * heads * (double)l->d_k).text,
             counted(rows * (l->qk_norm == NORM_RMS_ALL ? 1 : heads)).text,
             l->qk_norm == NORM_L2 ? "" : write_text("; g_%c [%lld]%s", queries ? 'q' : 'k', gains,
                                                     l->qk_norm == NORM_LAYER && l->qk_shift
                                                         ? write_text(", c_%c [%lld]", queries ? 'q' : 'k', gains).text
                                                         : "").text);
    }
    rope_text(l, text);
    if (l->rope.kind != ROPE_NONE)
        line(out, "%.230s; %s multiply-adds (%s)", text, counted(2 * turned).text, rounded(2 * turned).text);
}

static void explain_projection(const struct layer *l, const struct projection *p, const struct figures *f, FILE *out)
{
    const char *from = p->of_source && l->cross ? "source" : "x";
    const char *part = l->split ? "_i" : "";
    const int64_t rows = p->of_source ? layer_new_keys(l) : l->seq_len;
    const int64_t columns = p->of_source ? l->d_source : l->d_model, in = p->of_source ? l->d_in_kv : l->d_in_q;
    const int index = p->heads == l->h ? 'i' : 'g';
    struct text bias = {""};
    if (l->bias)
        bias = write_text(" + b_%c,%c", p->letter, index);

    head_line(l, out, p->step,
              write_text("%c_%c = %s%s W_%c,%c%s", p->letter, index, from, part, p->letter, index, bias.text));
    line(out, "%s [%lld][%lld] -> %c [%lld heads][%lld][%lld], %s", from, (long long)rows, (long long)columns,
         p->letter, (long long)p->heads, (long long)rows, (long long)p->width, in_bytes(f->result_bytes).text);
    line(out, "W_%c %s%s", p->letter, weight_extents(l, p->w).text,
         l->bias ? write_text(", b_%c %s", p->letter, weight_extents(l, p->b).text).text : "");
    if (l->split)
        line(out, "head i reads only its own %lld columns, %lld i ... %lld i + %lld", (long long)in, (long long)in,
             (long long)in, (long long)in - 1);
    if (index == 'g')
        line(out, "head i uses group g = floor(i * %lld / %lld): %lld query heads share one", (long long)l->h_kv,
             (long long)l->h, (long long)(l->h / l->h_kv));
    cost_lines(out, f);
    if (p->step != STEP_V)
        explain_finish(l, p->step == STEP_Q, out);
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

static void explain_latent(const struct layer *l, const struct figures *f, FILE *out)
{
    const long long rank = (long long)l->latent.rank, dims = (long long)l->rope.dims, h = (long long)l->h;
    const double n = (double)l->seq_len, m = (double)l->source_len;
    const bool latent = l->latent.q_rank > 0;
    char text[FINISH_TEXT];
    rope_text(l, text);
    head_line(l, out, STEP_Q, write_text("q_i = %s W_Q,i, Q_i = [q_i W_UK,i^T, turned]",
                                         latent ? "n(x W_DQ)" : "x"));
    if (latent)
        line(out, "W_DQ %s, W_Q %s, W_UK %s, g_dq [%lld]", weight_extents(l, TENSOR_W_DQ).text,
             weight_extents(l, TENSOR_W_Q).text, weight_extents(l, TENSOR_W_UK).text, (long long)l->latent.q_rank);
    else
        line(out, "W_Q %s, W_UK %s", weight_extents(l, TENSOR_W_Q).text, weight_extents(l, TENSOR_W_UK).text);
    line(out, "q_i is %lld wide, and its last %lld columns are turned; Q [%lld heads][%lld][%lld], %s",
         (long long)l->latent.d_head, dims, h, (long long)l->seq_len, (long long)l->d_k,
         in_bytes(f[STEP_Q].result_bytes).text);
    line(out, "%.230s", text);
    cost_lines(out, &f[STEP_Q]);
    head_line(l, out, STEP_K, write_text("K = [n(c), turned] of x W_DKV, one for all heads"));
    line(out, "W_DKV %s, g_dkv [%lld]; c has %lld columns, then come %lld that are turned",
         weight_extents(l, TENSOR_W_DKV).text, rank, rank, dims);
    cost_lines(out, &f[STEP_K]);
    head_line(l, out, STEP_V, write_text("V = c, columns 0 ... %lld of K", rank - 1));
    line(out, "multiply-adds of %lld queries on %lld keys: absorbed, as said, %s; with keys and values of heads, %s",
         (long long)l->seq_len, (long long)l->source_len, rounded(latent_work(l, n, m, false)).text,
         rounded(latent_work(l, n, m, true)).text);
    line(out, "of one query on %lld keys: %s; %s. The plan below says which calls take which form",
         (long long)l->source_len, rounded(latent_work(l, 1, m, false)).text,
         rounded(latent_work(l, 1, m, true)).text);
}

/* Queries, keys or values that a call brings. */
static void explain_given(const struct layer *l, enum step step, enum layer_tensor tensor, FILE *out)
{
    static const char letters[] = {[STEP_Q] = 'Q', [STEP_K] = 'K', [STEP_V] = 'V'};
    const char *group = step != STEP_Q && l->h_kv < l->h ? "g" : "i";
    char shape[LAYER_SHAPE_TEXT];
    layer_tensor_text(l, tensor, shape);
    head_line(l, out, step, write_text("%c_%s = %s", letters[step], group, layer_tensor_name(tensor)));
    line(out, "input = projected: the call brings %s %s, which is read where it lies", layer_tensor_name(tensor),
         shape);
}

static void explain_keys(const struct layer *l, const struct figures *f, FILE *out)
{
    const struct projection keys = {STEP_K, TENSOR_W_K, TENSOR_B_K, 'K', true, l->h_kv, l->d_k};
    const char *bias = l->bias ? " + b_Q,i" : "", *part = l->split ? "_i" : "";
    if (!l->tied) {
        explain_projection(l, &keys, f, out);
    } else if (l->cross) {
        head_line(l, out, STEP_K, write_text("K_i = source%s W_Q,i%s", part, bias));
        line(out, "w_k = tied: keys are projected with the queries' matrix; no parameters of their own");
        line(out, "source [%lld][%lld] -> K [%lld heads][%lld][%lld], %s", (long long)l->source_len,
             (long long)l->d_source, (long long)l->h, (long long)l->source_len, (long long)l->d_k,
             in_bytes(f->result_bytes).text);
        cost_lines(out, f);
        explain_finish(l, false, out);
    } else if (layer_has_tensor(l, TENSOR_G_Q)) {
        head_line(l, out, STEP_K, write_text("K_i = Q_i as projected"));
        line(out, "w_k = tied: the same input through the same matrix, but with a norm of its own");
        explain_finish(l, false, out);
    } else {
        head_line(l, out, STEP_K, write_text("K_i = Q_i"));
        line(out, "w_k = tied: the same input through the same matrix; nothing to store or compute");
    }
}

static void explain_values(const struct layer *l, const struct figures *f, FILE *out)
{
    const struct projection values = {STEP_V, TENSOR_W_V, TENSOR_B_V, 'V', true, l->h_kv, l->d_v};
    if (l->shares) {
        head_line(l, out, STEP_V, write_text("V_i = columns 0 ... %lld of K_i", (long long)l->d_v - 1));
        line(out, "w_v = keys: nothing to store or compute");
        return;
    }
    if (!l->identity) {
        explain_projection(l, &values, f, out);
        return;
    }
    head_line(l, out, STEP_V, write_text("V_i = %s%s", l->cross ? "source" : "x", l->split ? "_i" : ""));
    line(out, "w_v = identity: the head's own input, %lld wide; nothing to store or compute",
         (long long)l->d_v);
}

/* ---- masks ----------------------------------------------------------------------------------------------- */

/* "j <= t + 3" */
static struct text rule_words(const struct layer *l, const struct visible_rule *rule)
{
    static const char *const signs[] = {[VISIBLE_TO] = "<=", [VISIBLE_FROM] = ">=", [VISIBLE_NOT] = "!="};
    const char *p = l->offset != OFFSET_NONE ? "p" : "t";
    if (rule->lifted)
        return write_text("j <= %s or j < prefix[b]", p);
    if (rule->offset == 0)
        return write_text("j %s %s", signs[rule->kind], p);
    const char sign = rule->offset < 0 ? '-' : '+';
    return write_text("j %s %s %c %lld", signs[rule->kind], p, sign, llabs((long long)rule->offset));
}

/* What a mask of position hides, by its rules alone. */
static void explain_position(const struct layer *l, const struct score_term *term, FILE *out)
{
    struct visible_rule rules[VISIBLE_RULES];
    struct layer alone = *l;
    alone.mask = term->mask | (l->mask & MASK_PREFIX);
    const int count = visible_rules(&alone, rules);
    struct text words = rule_words(l, &rules[0]);
    for (int i = 1; i < count; i++)
        words = write_text("%.150s and %.150s", words.text, rule_words(l, &rules[i]).text);
    line(out, "mask %s: query t sees key j only if %s%s", key_word(KEY_MASK, term->mask), words.text,
         rules[0].lifted ? "; pairs are counted without a prefix" : "");
}

/* A term with a number for each pair, known only at run time. */
static void explain_pairs(const struct layer *l, enum score_name name, FILE *out)
{
    const struct score_term *term = &score_terms[name];
    const double n = (double)l->seq_len, m = (double)l->source_len;
    const double size = (double)layer_tensor_size(l, score_tensor(name));
    line(out, "%s %s: known at run time; reads %s a sequence, or %s if all heads share it",
         term->mask != 0 ? "mask" : "term", term->mask != 0 ? key_word(KEY_MASK, term->mask) : term->name,
         in_bytes((double)l->h * n * m * size).text, in_bytes(n * m * size).text);
}

/* What the masks hide by position, exactly; and what can be said of those that are known only at run time. */
static void explain_masks(const struct layer *l, FILE *out)
{
    const double n = (double)l->seq_len, m = (double)l->source_len;
    const double pairs = (double)visible_pairs(l, l->seq_len, l->source_len);
    const double half = (double)visible_pairs(l, l->seq_len, l->source_len / 2);

    if (l->offset != OFFSET_NONE)
        line(out, "query t is at p = t + %s; counted with %lld for it",
             l->offset == OFFSET_PAST ? "past[b]" : (l->mask & MASK_PADDING) != 0 ? "lengths[b] - n" : "m - n",
             (long long)visible_offset(l, l->seq_len, l->source_len));
    for (enum score_name i = 0; i < SCORE_TERMS; i++)
        if (score_terms[i].place == SCORE_EDGES && score_has(l, i) && i != SCORE_PREFIX && i != SCORE_SEGMENTS)
            explain_position(l, &score_terms[i], out);
    if (score_has(l, SCORE_SEGMENTS))
        line(out, "mask segments: query t sees key j only if %s, which is known at run time: where segments follow "
             "each other, only keys of the query's own are scored", score_terms[SCORE_SEGMENTS].sees);
    line(out, "%s of %s query-key pairs remain (%.1f %%) in each head", counted(pairs).text, counted(n * m).text,
         100 * pairs / (n * m));
    for (enum score_name i = 0; i < SCORE_TERMS; i++) {
        const struct score_term *term = &score_terms[i];
        if (term->place == SCORE_COUNTED && score_has(l, i))
            line(out, "mask %s: only keys %s; at half length %s pairs remain (%.1f %%)",
                 key_word(KEY_MASK, term->mask), term->sees, counted(half).text, 100 * half / (n * m));
        if (term->place == SCORE_EVERYWHERE && score_tensor(i) < TENSOR_COUNT && score_has(l, i))
            explain_pairs(l, i, out);
    }
}

/* ---- attention and output -------------------------------------------------------------------------------- */

static void explain_attention(const struct layer *l, const struct figures *f, FILE *out)
{
    const long long n = (long long)l->seq_len, m = (long long)l->source_len, h = (long long)l->h;
    const char *kv = l->h_kv < l->h ? "g" : "i";
    char equation[SCORE_TEXT];
    const double pairs = (double)visible_pairs(l, l->seq_len, l->source_len);

    score_equation(l, write_text("%.9g * sum over d of Q_i[t][d] K_%s[j][d]", l->scale, kv).text, "[t][j]", equation);
    head_line(l, out, STEP_SCORES, write_text("S_i[t][j] = %s", equation));
    line(out, "Q [%lld heads][%lld][%lld], K [%lld heads][%lld][%lld] -> S [%lld][%lld][%lld]", h, n,
         (long long)l->d_k, (long long)l->h_kv, m, (long long)l->d_k, h, n, m);
    line(out, "S is %s if it is stored whole", in_bytes(f[STEP_SCORES].result_bytes).text);
    if (l->mask != 0)
        explain_masks(l, out);
    cost_lines(out, &f[STEP_SCORES]);

    head_line(l, out, STEP_SOFTMAX,
              write_text("A_i[t][j] = exp(S_i[t][j] - max) / sum, over the keys that query t sees"));
    line(out, "%s exponentials (%s); rows sum to 1, and a row that sees no key is zero",
         counted(pairs * (double)h).text, rounded(pairs * (double)h).text);
    if (l->scores > SCORES_WEIGHTS)
        line(out, "scores other than weights: S is written out, %s a sequence, and passes through memory",
             in_bytes(f[STEP_SOFTMAX].result_bytes).text);
    if (l->sink)
        line(out, "sink: exp(sink[i]) is added to the sum but has no value, so rows sum to less than 1");
    if (l->lse)
        line(out, "lse = true: max + log(sum) is written out, %s a sequence",
             in_bytes((double)l->h * (double)l->seq_len * FLOAT_BYTES).text);
    if (l->train)
        line(out, "train = true: z and what the weights are recomputed from are kept for backward, %s a sequence; the "
                  "plan may keep more",
             in_bytes((double)layer_kept(l) * (double)l->seq_len * FLOAT_BYTES).text);
    if (l->dropout > 0)
        line(out, "dropout = %.9g: in training a weight is zero with this probability, else divided by %.9g; "
             "backward draws it again, so nothing is kept", l->dropout, 1 - l->dropout);
    if (l->scores == SCORES_WEIGHTS)
        line(out, "scores = true: A is written out, %s a sequence", in_bytes(f[STEP_SOFTMAX].result_bytes).text);

    head_line(l, out, STEP_VALUES, write_text("Z_i[t] = sum over j of A_i[t][j] V_%s[j]", kv));
    line(out, "A [%lld][%lld][%lld], V [%lld heads][%lld][%lld] -> Z [%lld][%lld][%lld], %s", h, n, m,
         (long long)l->h_kv, m, (long long)l->d_v, h, n, (long long)l->d_v,
         in_bytes(f[STEP_VALUES].result_bytes).text);
    cost_lines(out, &f[STEP_VALUES]);
    if (l->gate == GATE_NONE)
        return;
    line(out, "gate = %s: Z_i times sigmoid(x W_gate,i%s), %s", key_word(KEY_GATE, l->gate),
         l->bias ? " + b_gate,i" : "", l->gate == GATE_HEADS ? "column i" : "columns of head i");
    line(out, "W_gate %s%s", weight_extents(l, TENSOR_W_GATE).text,
         l->bias ? write_text(", b_gate %s", weight_extents(l, TENSOR_B_GATE).text).text : "");
    cost_lines(out, &f[STEP_GATES]);
}

static void explain_output(const struct layer *l, const struct figures *f, FILE *out)
{
    const long long n = (long long)l->seq_len, d_out = (long long)l->d_out, block = (long long)(l->d_model / l->h);
    const struct text concat = l->h == 1 ? write_text("Z_0") : write_text("[Z_0 ... Z_%lld]", (long long)l->h - 1);

    if (l->w_o == W_O_NONE) {
        head_line(l, out, STEP_OUTPUT, write_text("y = %s", concat.text));
        line(out, "w_o = none: the heads side by side, y [%lld][%lld]; nothing to compute", n, d_out);
        return;
    }
    if (l->w_o == W_O_CONV) {
        head_line(l, out, STEP_OUTPUT, write_text("%s[t, block i] = %ssum over r of Z_i[t + r - %lld] W_O,i[r]",
                                               layer_has_block(l) ? "att" : "y", l->bias ? "b_O[block i] + " : "",
                                               (long long)layer_conv_pad(l)));
        line(out, "w_o = conv: %lld taps r along the sequence in place of one matrix, zeros past its ends",
             (long long)l->conv_width);
        line(out, "head i writes columns %lld i ... %lld i + %lld of y: heads do not mix", block, block, block - 1);
    } else {
        head_line(l, out, STEP_OUTPUT, write_text("%s = %s W_O%s", layer_has_block(l) ? "att" : "y", concat.text,
                                               l->bias ? " + b_O" : ""));
    }
    if (layer_is_latent(l))
        line(out, "W_UV %s: Z_i W_UV,i [%lld] of each head", weight_extents(l, TENSOR_W_UV).text,
             (long long)l->latent.d_value);
    line(out, "Z [%lld][%lld] -> %s [%lld][%lld], %s", n, (long long)(l->h * layer_z_width(l)),
         layer_has_block(l) ? "att" : "y", n, d_out,
         in_bytes(f->result_bytes).text);
    line(out, "W_O %s%s", weight_extents(l, TENSOR_W_O).text,
         l->bias ? write_text(", b_O %s", weight_extents(l, TENSOR_B_O).text).text : "");
    cost_lines(out, f);
}

/* ---- the block ------------------------------------------------------------------------------------------- */

static void explain_ffn(const struct layer *l, const struct figures *f, FILE *out)
{
    const char *act = key_word(KEY_ACTIVATION, layer_activation(l));
    const bool gated = layer_ffn_gated(l), bias = l->ffn_bias;
    const long long n = (long long)l->seq_len, d = (long long)l->d_model, d_ff = (long long)l->d_ff;
    if (gated)
        head_line(l, out, STEP_HIDDEN, write_text("f = %s(r W_g%s) * (r W_1%s), r the rows that ffn reads", act,
                                               bias ? " + b_g" : "", bias ? " + b_1" : ""));
    else
        head_line(l, out, STEP_HIDDEN, write_text("f = %s(r W_1%s), r the rows that ffn reads", act,
                                               bias ? " + b_1" : ""));
    line(out, "r [%lld][%lld] -> f [%lld][%lld], %s", n, d, n, d_ff, in_bytes(f[STEP_HIDDEN].result_bytes).text);
    line(out, "%sW_1 %s%s", gated ? write_text("W_g %s, ", weight_extents(l, TENSOR_W_G).text).text : "",
         weight_extents(l, TENSOR_W_1).text,
         bias ? write_text(gated ? ", b_g and b_1 %s" : ", b_1 %s", weight_extents(l, TENSOR_B_1).text).text : "");
    line(out, "%s activations", counted((double)l->seq_len * (double)l->d_ff).text);
    cost_lines(out, &f[STEP_HIDDEN]);
    head_line(l, out, STEP_DOWN, write_text("ffn = f W_2%s", bias ? " + b_2" : ""));
    line(out, "f [%lld][%lld] -> ffn [%lld][%lld], %s", n, d_ff, n, d, in_bytes(f[STEP_DOWN].result_bytes).text);
    line(out, "W_2 %s%s", weight_extents(l, TENSOR_W_2).text,
         bias ? write_text(", b_2 %s", weight_extents(l, TENSOR_B_2).text).text : "");
    cost_lines(out, &f[STEP_DOWN]);
}

#define CENTRED "(r - mean) / sqrt(mean of (r - mean)^2 + eps) g"

/* What norms of rows are, and how many; nothing without any. */
static void explain_norms(const struct layer *l, FILE *out)
{
    const int norms = layer_norms(l);
    if (norms == 0)
        return;
    line(out, "n(r) = %s, of each row's %lld numbers%s",
         l->block_rms ? "r / sqrt(mean of r^2 + eps) g" : l->block_shift ? CENTRED " + b" : CENTRED,
         (long long)l->d_model,
         !layer_norms_first(l) || !layer_attends(l) ? "" : l->cross ? "; queries read n1(x), keys and values source"
                                               : "; attention reads n1(x) where x stands above");
    line(out, "%d norm%s, eps = %.9g", norms, norms == 1 ? "" : "s", l->norm_eps);
}

static void explain_block(const struct layer *l, const struct figures *f, FILE *out)
{
    if (!layer_has_block(l) && layer_attends(l))
        return;
    head_line(l, out, STEP_BLOCK, write_text("%s", layer_block_equation(l)));
    explain_norms(l, out);
    cost_lines(out, &f[STEP_BLOCK]);
    if (layer_has_ffn(l))
        explain_ffn(l, f, out);
}

/* ---- layers without attention ---------------------------------------------------------------------------- */

static void explain_linear(const struct layer *l, const struct figures *f, FILE *out)
{
    const long long n = (long long)l->seq_len;
    struct text of = write_text("%s W%s", l->row_norm ? "n1(x)" : "x", l->bias ? " + b" : "");
    if (l->activation != ACTIVATION_NONE || l->cap != 0)
        of = write_text("%s(%s)", l->activation != ACTIVATION_NONE ? key_word(KEY_ACTIVATION, l->activation) : "",
                        of.text);
    if (l->cap != 0)
        of = write_text("%.9g tanh(%s / %.9g)", l->cap, of.text, l->cap);
    head_line(l, out, STEP_LINEAR, write_text("y = %s", of.text));
    line(out, "x [%lld][%lld] -> y [%lld][%lld], %s", n, (long long)l->d_model, n, (long long)l->d_out,
         in_bytes(f[STEP_LINEAR].result_bytes).text);
    line(out, "W %s%s", weight_extents(l, TENSOR_W).text,
         l->bias ? write_text(", b %s", weight_extents(l, TENSOR_B).text).text : "");
    explain_norms(l, out);
    if (l->activation != ACTIVATION_NONE || l->cap != 0)
        line(out, "%s activations", counted((double)l->seq_len * (double)l->d_out).text);
    cost_lines(out, &f[STEP_LINEAR]);
}

/* Each row by itself */
static void explain_rows(const struct layer *l, const struct figures *f, FILE *out)
{
    const bool padding = (l->mask & MASK_PADDING) != 0;
    fprintf(out, "%s: a %s layer, row by row\n\n", l->name, layer_is_linear(l) ? "linear" : "feed-forward");
    if (layer_is_linear(l))
        line_at(out, 2, write_text("d_in = %lld, d_out = %lld, bias %s", (long long)l->d_model, (long long)l->d_out,
                                   l->bias ? "true" : "false").text);
    else
        line_at(out, 2, write_text("d_model = %lld, d_ff = %lld, ffn_bias %s", (long long)l->d_model,
                                   (long long)l->d_ff, l->ffn_bias ? "true" : "false").text);
    line_at(out, 2, write_text("n = %lld rows of a sequence%s", (long long)l->seq_len,
                               l->pad_skipped ? "; those from lengths[b] on become zero and take no time"
                               : padding ? "; lengths are checked and change nothing" : "").text);
    fprintf(out, "\nStep by step, for one sequence of that length, in f32%s\n", packed_words(l));
    if (layer_is_linear(l))
        explain_linear(l, f, out);
    else
        explain_block(l, f, out);
}

/* ---- totals ---------------------------------------------------------------------------------------------- */

static void total_line(FILE *out, const char *name, double parameters, double bytes, double multiply_adds, double total)
{
    fprintf(out, "  %-13s %16s %16s %20s %6.1f %%\n", name, counted(parameters).text,
            in_bytes(bytes).text, counted(multiply_adds).text,
            100 * multiply_adds / fmax(total, 1));
}

/* The cache, and what a step of one token takes where it is nearly full: memory counts there. */
static void explain_cache(const struct layer *l, FILE *out)
{
    const double scales = layer_scales_cache(l) ? layer_cached_rows(l) * FLOAT_BYTES : 0;
    const double numbers = (double)layer_cached_numbers(l) * (double)element_size(l->cache_type);
    const double row = (double)l->h_kv * (numbers + scales);
    int64_t left, right;
    visible_reach(l, &left, &right);
    const int64_t keys = left != LAYER_UNBOUNDED ? min(left + 1, l->cache_len) : l->cache_len;
    const struct layer_cost step = layer_multiply_adds(l, 1, l->cache_len);
    struct text pages = {""};
    if (l->cache == CACHE_PAGED)
        pages = write_text("; pages of %lld, at most %lld of them", (long long)l->page_len, (long long)l->page_count);
    fputs("\nThe cache\n\n", out);
    line_at(out, 2, write_text("%s of %lld positions%s%s, %s each, %s a sequence%s", key_word(KEY_CACHE, l->cache),
                               (long long)l->cache_len, layer_stores_cache(l) ? " in " : "",
                               layer_stores_cache(l) ? element_name(l->cache_type) : "", in_bytes(row).text,
                               in_bytes(row * (double)l->cache_len).text, pages.text).text);
    line_at(out, 2, write_text("A step of one token that sees %lld keys reads %s of it and %s of weights, for %s "
                               "multiply-adds.", (long long)keys, in_bytes(row * (double)keys).text,
                               in_bytes(layer_parameter_bytes(l)).text,
                               counted(step.total).text).text);
}

static void explain_totals(const struct layer *l, const struct figures *f, FILE *out)
{
    const double parameters = (double)layer_parameters(l).total;
    const double total = layer_multiply_adds(l, l->seq_len, l->source_len).total;
    fprintf(out, "\nTotals\n\n  %-13s %16s %16s %20s %8s\n", "step", "parameters", "weights", "multiply-adds", "share");
    for (enum step step = 0; step < STEP_COUNT; step++)
        if (f[step].parameters + f[step].multiply_adds > 0)
            total_line(out, step_names[step], f[step].parameters, f[step].bytes, f[step].multiply_adds, total);
    total_line(out, "layer", parameters, layer_parameter_bytes(l), total, total);
    fputc('\n', out);
    line_at(out, 2, write_text("%s parameters (%s); one sequence takes %s multiply-adds, %s operations",
                               counted(parameters).text, rounded(parameters).text, rounded(total).text,
                               rounded(2 * total).text).text);
}

/* ---- heads ----------------------------------------------------------------------------------------------- */

enum trend { SHRINKS = -1, SAME = 0, GROWS = 1 };

/* The power of h in a head's width. */
static int power_d_k(const struct layer *l)
{
    return l->width == WIDTH_NARROW && !l->d_k_given ? SHRINKS : SAME;
}

static int power_d_v(const struct layer *l)
{
    if (l->identity)
        return l->split ? SHRINKS : SAME;
    if (l->shares && !l->d_v_given)
        return power_d_k(l);
    return l->width == WIDTH_NARROW && !l->d_v_given ? SHRINKS : SAME;
}

/* The power of h in a tensor's size. With grouped heads h_kv stays and h moves. */
static int power_of(const struct layer *l, enum layer_tensor tensor)
{
    const int own = l->h_kv < l->h ? 0 : 1, rows = l->split ? -1 : 0;
    switch (tensor) {
    case TENSOR_W_Q: return 1 + rows + power_d_k(l);
    case TENSOR_B_Q: return 1 + power_d_k(l);
    case TENSOR_W_K: return own + rows + power_d_k(l);
    case TENSOR_B_K: return own + power_d_k(l);
    case TENSOR_W_V: return own + rows + power_d_v(l);
    case TENSOR_B_V: return own + power_d_v(l);
    case TENSOR_W_O: return (l->w_o == W_O_CONV ? 0 : 1) + power_d_v(l);
    default: return SAME; /* b_O */
    }
}

static const char *trend_words(int power)
{
    return power > 0 ? "grows with h" : power < 0 ? "shrinks as 1/h" : "the same for every h";
}

/* Where the width of a head comes from, for messages. */
static const char *d_k_words(const struct layer *l)
{
    return l->d_k_given ? "given" : l->width == WIDTH_WIDE ? "d_model" : "d_model/h";
}

static const char *d_v_words(const struct layer *l)
{
    if (l->identity)
        return l->split ? "d_source/h" : "d_source";
    if (l->shares && !l->d_v_given)
        return "d_k";
    return l->d_v_given ? "given" : l->width == WIDTH_WIDE ? "d_model" : "d_model/h";
}

/* "768 x 12*64 = 768 x 768" */
static struct text product(const struct layer *l, enum layer_tensor tensor)
{
    const bool query = tensor == TENSOR_W_Q || tensor == TENSOR_B_Q;
    const bool value = tensor == TENSOR_W_V || tensor == TENSOR_B_V;
    const long long heads = (long long)(query ? l->h : l->h_kv), width = (long long)(value ? l->d_v : l->d_k);
    const long long in = (long long)(query ? l->d_in_q : l->d_in_kv);
    switch (tensor) {
    case TENSOR_W_Q: case TENSOR_W_K: case TENSOR_W_V:
        return l->split ? write_text("%lld x (%lld x %lld)", heads, in, width)
                        : write_text("%lld x (%lld * %lld) = %lld x %lld", in, heads, width, in, heads * width);
    case TENSOR_B_Q: case TENSOR_B_K: case TENSOR_B_V: return write_text("%lld * %lld", heads, width);
    case TENSOR_W_O:
        if (l->w_o == W_O_CONV)
            return write_text("%lld x %lld taps x (%lld x %lld)", (long long)l->h, (long long)l->conv_width,
                              (long long)l->d_v, (long long)(l->d_model / l->h));
        return write_text("(%lld * %lld) x %lld = %lld x %lld", (long long)l->h, (long long)l->d_v,
                          (long long)l->d_model, (long long)l->h * l->d_v, (long long)l->d_model);
    default: return write_text("%lld", (long long)l->d_model);
    }
}

/* Whether layer_parameters() does not overflow: read.c has checked only the layer as written. */
static bool is_countable(const struct layer *l)
{
    double total = 0;
    for (enum layer_tensor tensor = TENSOR_W_Q; tensor <= TENSOR_B_O; tensor++) {
        int64_t shape[4];
        double size = 1;
        const int count = layer_weight_shape(l, tensor, shape);
        for (int i = 0; i < count; i++)
            size *= (double)shape[i];
        total += count > 0 ? size : 0;
    }
    return total < 0x1p61;
}

/* The same layer with another number of heads; false where that is illegal or not countable. */
static bool with_heads(const struct layer *l, int64_t h, struct layer *other)
{
    const bool needs_division = l->split || l->w_o == W_O_CONV || power_d_k(l) != 0 || power_d_v(l) != 0;
    *other = *l;
    other->h = h;
    other->h_kv = l->h_kv < l->h ? l->h_kv : h;
    if (h < 1 || h > INT32_MAX || h % other->h_kv != 0 ||
        (needs_division && l->d_model % h != 0) || (l->split && l->d_source % h != 0))
        return false;
    if (power_d_k(l) != 0)
        other->d_k = l->d_model / h;
    if (power_d_v(l) != 0)
        other->d_v = (l->identity ? l->d_source : l->d_model) / h;
    other->d_in_q = l->split ? l->d_model / h : l->d_model;
    other->d_in_kv = l->split ? l->d_source / h : l->d_source;
    other->d_out = l->w_o == W_O_NONE ? h * other->d_v : l->d_model;
    return is_countable(other);
}

static void other_line(const struct layer *other, const char *label, FILE *out)
{
    const double parameters = (double)layer_parameters(other).total;
    const double total = layer_multiply_adds(other, other->seq_len, other->source_len).total;
    const double pairs = (double)visible_pairs(other, other->seq_len, other->source_len);
    fprintf(out, "  %-17s %10lld %10lld %16s %9s %16s %12s\n", label, (long long)other->d_k, (long long)other->d_v,
            counted(parameters).text, in_bytes(layer_parameter_bytes(other)).text, counted(total).text,
            rounded(pairs * (double)other->h).text);
}

static void other_heading(const char *label, FILE *out)
{
    fprintf(out, "\n  %-17s %10s %10s %16s %9s %16s %12s\n", label, "d_k", "d_v", "parameters", "weights",
            "multiply-adds", "exponentials");
}

/* Legal numbers of heads near h, and h itself. */
static void explain_other_heads(const struct layer *l, FILE *out)
{
    const int64_t tries[] = {1, l->h / 4, l->h / 3, l->h / 2, l->h, 2 * l->h, 3 * l->h, 4 * l->h};
    int64_t last = 0;
    fprintf(out, "\nThe same layer with other numbers of heads\n");
    other_heading("h", out);
    for (size_t i = 0; i < COUNT_OF(tries); i++) {
        struct layer other;
        if (tries[i] <= last || !with_heads(l, tries[i], &other))
            continue;
        last = tries[i];
        other_line(&other, write_text("%lld%s", (long long)tries[i], tries[i] == l->h ? " (this)" : "").text, out);
    }
}

static void explain_width(const struct layer *l, FILE *out)
{
    struct layer narrow = *l;
    if (l->width == WIDTH_NARROW || l->d_model % l->h != 0)
        return;
    narrow.d_k = l->d_model / l->h;
    narrow.d_v = l->identity ? l->d_v : l->d_model / l->h;
    narrow.d_out = l->w_o == W_O_NONE ? l->h * narrow.d_v : l->d_model;
    narrow.width = WIDTH_NARROW;
    if (!is_countable(&narrow))
        return;

    const double parameters = (double)layer_parameters(l).total / (double)layer_parameters(&narrow).total;
    const double work = layer_multiply_adds(l, l->seq_len, l->source_len).total /
                        layer_multiply_adds(&narrow, l->seq_len, l->source_len).total;
    const double kv = (double)(l->d_k + l->d_v) / (double)(narrow.d_k + narrow.d_v);
    fprintf(out, "\nWhat the width costs: %lld heads that are d_k = %lld, d_v = %lld wide, against narrow ones\n",
            (long long)l->h, (long long)l->d_k, (long long)l->d_v);
    other_heading("width", out);
    other_line(l, l->width == WIDTH_WIDE ? "wide (this)" : "given (this)", out);
    other_line(&narrow, "narrow", out);
    fprintf(out, "  %-17s %10.4g %10.4g %16.4g %9s %16.4g %12.4g\n", "times", (double)l->d_k / (double)narrow.d_k,
            (double)l->d_v / (double)narrow.d_v, parameters, "", work, 1.0);
    fprintf(out, "\n  Keys and values of one position take %.4g times the bytes, as would a cache of them.\n", kv);
}

/* The sums of the parameters of each trend, in words. */
static void explain_trend(const struct layer *l, double grow, double shrink, double same, FILE *out)
{
    struct text text = {""};
    if (grow == 0 && shrink == 0)
        text = write_text("More heads only cut the same matrices into narrower pieces: %s parameters however many "
                          "heads. What grows with h are the %lld x %lld scores of each head and their exponentials%s.",
                          counted(same).text, (long long)l->seq_len, (long long)l->source_len,
                          power_d_v(l) == SAME ? ", and the weighted sums, as wide as before" : "");
    else if (l->width != WIDTH_NARROW && !l->split && grow > 0)
        text = write_text("A head whose width does not follow from h brings matrices of its own: %s parameters for "
                          "each of the %lld heads.", counted(grow / (double)l->h).text, (long long)l->h);
    else if (l->split && shrink > 0)
        text = write_text("Each head's matrices see only its own columns: of the h x h blocks only the h on the "
                          "diagonal exist.");
    if (text.text[0] != '\0')
        line_at(out, 2, text.text);
    if (l->h_kv < l->h)
        line_at(out, 2, write_text("Keys and values have h_kv = %lld heads, 1/%lld of what h_kv = h would take; "
                                   "counted here with h_kv kept as it is.", (long long)l->h_kv,
                                   (long long)(l->h / l->h_kv)).text);
}

static void explain_heads(const struct layer *l, FILE *out)
{
    static const enum layer_tensor tensors[] = {TENSOR_W_Q, TENSOR_W_K, TENSOR_W_V, TENSOR_W_O,
                                                TENSOR_B_Q, TENSOR_B_K, TENSOR_B_V, TENSOR_B_O};
    static const char *const names[] = {"W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"};
    double grow = 0, shrink = 0, same = 0;

    fprintf(out, "\nWhich parameters depend on the number of heads (d_k = %s, d_v = %s)\n\n", d_k_words(l),
            d_v_words(l));
    for (size_t i = 0; i < COUNT_OF(tensors); i++) {
        if (!layer_has_tensor(l, tensors[i]))
            continue;
        const int power = power_of(l, tensors[i]);
        const double size = (double)size_of(l, tensors[i]);
        *(power > 0 ? &grow : power < 0 ? &shrink : &same) += size;
        line_at(out, 2, write_text("%-4s %16s = %-44s %s", names[i], counted(size).text, product(l, tensors[i]).text,
                                   trend_words(power)).text);
    }
    fputc('\n', out);
    line_at(out, 2, write_text("the same for every h: %s   grow with h: %s   shrink as 1/h: %s", counted(same).text,
                               counted(grow).text, counted(shrink).text).text);
    explain_trend(l, grow, shrink, same, out);
    explain_other_heads(l, out);
    explain_width(l, out);
}

/* ---- the whole walk -------------------------------------------------------------------------------------- */

static void explain_head(const struct layer *l, FILE *out)
{
    static const char *const widths[] = {[WIDTH_NARROW] = "narrow", [WIDTH_WIDE] = "wide", [WIDTH_GIVEN] = "given"};
    const struct text grouped = l->h_kv < l->h ? write_text(" on h_kv = %lld heads of keys and values",
                                                            (long long)l->h_kv) : write_text("%s", "");
    char masks[LAYER_MASK_TEXT];
    layer_mask_text(l->mask, masks);
    if (l->projected) {
        fprintf(out, "%s: attention of given queries, keys and values\n\n", l->name);
        line_at(out, 2, write_text("h = %lld heads%s, d_k = %lld, d_v = %lld; input projected, heads %s",
                                   (long long)l->h, grouped.text, (long long)l->d_k, (long long)l->d_v,
                                   l->heads_first ? "first" : "last").text);
    } else {
        fprintf(out, "%s: %s-attention\n\n", l->name, l->cross ? "cross" : "self");
        line_at(out, 2, write_text("d_model = %lld, h = %lld heads%s", (long long)l->d_model, (long long)l->h,
                                   grouped.text).text);
        line_at(out, 2, write_text("d_k = %lld (%s), d_v = %lld (%s); width %s, input %s", (long long)l->d_k,
                                   d_k_words(l), (long long)l->d_v, d_v_words(l), widths[l->width],
                                   l->split ? "split" : "shared").text);
    }
    line_at(out, 2, write_text("scale = %.9g, mask %s, bias %s", l->scale, masks,
                               l->bias ? "true" : "false").text);
    if (l->cross)
        line_at(out, 2, write_text("n = %lld query positions of x, m = %lld key positions of source, %lld wide",
                                   (long long)l->seq_len, (long long)l->source_len, (long long)l->d_source).text);
    else if (layer_has_cache(l))
        line_at(out, 2, write_text("n = %lld new tokens of a sequence, up to %lld with those of the cache",
                                   (long long)l->seq_len, (long long)l->source_len).text);
    else if (l->projected)
        line_at(out, 2, write_text("n = %lld query positions, m = %lld key positions", (long long)l->seq_len,
                                   (long long)l->source_len).text);
    else
        line_at(out, 2, write_text("n = m = %lld positions: each is a query and a key", (long long)l->seq_len).text);
    fprintf(out, "\nStep by step, for one sequence of that length, head i = 0 ... %lld, in f32%s\n",
            (long long)l->h - 1, packed_words(l));
}

/* A step of a recurrent layer: its number, equation and costs */
static void recurrent_step(const struct figures *f, FILE *out, int *number, enum step step, const char *equation)
{
    const int before = fprintf(out, "\n%d. %s", ++*number, step_names[step]) - 1;
    line_behind(out, before, STEP_INDENT, equation);
    cost_lines(out, &f[step]);
}

static void explain_recurrent(const struct layer *l, const struct figures *f, FILE *out)
{
    const double bytes = (double)element_size(l->cache_type), state = (double)layer_state_numbers(l) * bytes;
    const double history = (double)(l->conv_channels * l->conv_history) * bytes;
    const char *const decay = layer_decays(l) ? "e^decay S" : "S", *const skip = l->skip ? " + skip v" : "";
    int number = 0;
    fprintf(out, "%s: a recurrent layer\n\n", l->name);
    if (!l->projected)
        line_at(out, 2, write_text("d_model = %lld", (long long)l->d_model).text);
    line_at(out, 2, write_text("h = %lld query heads, h_kv = %lld key heads, h_v = %lld value heads with a state each",
                               (long long)l->h, (long long)l->h_kv, (long long)l->h_v).text);
    line_at(out, 2, write_text("d_k = %lld, d_v = %lld", (long long)l->d_k, (long long)l->d_v).text);
    line_at(out, 2, write_text("n = %lld new tokens of a sequence; states of a sequence %s, of its convolution %s",
                               (long long)l->seq_len, in_bytes(state).text, in_bytes(history).text).text);
    fprintf(out, "\nStep by step, for one sequence of that length, in f32%s\n", packed_words(l));
    if (!l->projected) {
        recurrent_step(f, out, &number, STEP_Q, "Q = x W_Q");
        recurrent_step(f, out, &number, STEP_K, "K = x W_K");
        recurrent_step(f, out, &number, STEP_V, "V = x W_V");
        recurrent_step(f, out, &number, STEP_GATES, "decays, shares of corrections, output gates, and the convolution");
    }
    recurrent_step(f, out, &number, STEP_STATES,
                   layer_corrects(l) ? write_text("P = %s, S = P + beta k (v - P^T k)^T, o = scale S^T q%s", decay,
                                                  skip).text
                                     : write_text("S = %s + k %s^T, o = scale S^T q%s", decay,
                                                  l->dt_values ? "(dt v)" : "v", skip).text);
    line(out, "a step of one token reads and writes %s of states",
         in_bytes((l->state_window > 0 ? 3 : 2) * state / (double)l->states).text);
    if (l->projected)
        return;
    recurrent_step(f, out, &number, STEP_OUTPUT,
                   l->out_gate == OUT_GATE_NONE ? "y = o W_O"
                   : l->norm_before_gate ? "y = z W_O, z the gated norms of o" : "y = z W_O, z the norms of gated o");
    if (layer_has_block(l))
        explain_block(l, f, out);
}

static void explain_convolution(const struct layer *l, const struct figures *f, FILE *out)
{
    const double history = (double)(l->conv_channels * l->conv_history) * (double)element_size(l->cache_type);
    int number = 0;
    fprintf(out, "%s: a causal convolution over tokens\n\n", l->name);
    line_at(out, 2, write_text("channels = %lld, conv_taps = %lld, bias %s, activation %s", (long long)l->d_model,
                               (long long)l->conv_taps, l->bias ? "true" : "false",
                               key_word(KEY_ACTIVATION, l->activation)).text);
    line_at(out, 2, write_text("n = %lld new tokens of a sequence; its state %s", (long long)l->seq_len,
                               in_bytes(history).text).text);
    fprintf(out, "\nStep by step, for one sequence of that length, in f32\n");
    const struct text sum = write_text("%ssum over j of conv_x[c][j] x[t - %lld + j][c]", l->bias ? "b[c] + " : "",
                                       (long long)l->conv_history);
    recurrent_step(f, out, &number, STEP_CONV, l->activation == ACTIVATION_NONE
                   ? write_text("y[t][c] = %s", sum.text).text
                   : write_text("y[t][c] = %s(%s)", key_word(KEY_ACTIVATION, l->activation), sum.text).text);
}

void explain_layer(const struct layer *layer, FILE *out)
{
    const struct projection queries = {STEP_Q, TENSOR_W_Q, TENSOR_B_Q, 'Q', false, layer->h, layer->d_k};
    struct figures figures[STEP_COUNT];
    figures_of(layer, figures);

    if (!layer_attends(layer)) {
        (layer_is_recurrent(layer) ? explain_recurrent : layer_is_convolution(layer) ? explain_convolution
                                   : explain_rows)(layer, figures, out);
        explain_totals(layer, figures, out);
        return;
    }
    explain_head(layer, out);
    if (layer->projected) {
        explain_given(layer, STEP_Q, TENSOR_Q, out);
        explain_given(layer, STEP_K, TENSOR_K, out);
        if (layer->shares)
            explain_values(layer, &figures[STEP_V], out);
        else
            explain_given(layer, STEP_V, TENSOR_V, out);
    } else if (layer_is_latent(layer)) {
        explain_latent(layer, figures, out);
    } else {
        explain_projection(layer, &queries, &figures[STEP_Q], out);
        explain_keys(layer, &figures[STEP_K], out);
        explain_values(layer, &figures[STEP_V], out);
    }
    explain_attention(layer, figures, out);
    explain_output(layer, &figures[STEP_OUTPUT], out);
    explain_block(layer, figures, out);
    if (layer_has_cache(layer))
        explain_cache(layer, out);
    explain_totals(layer, figures, out);
    if (!layer->projected && !layer_is_latent(layer)) /* else what depends on h is the caller's, or the heads' alone */
        explain_heads(layer, out);
}
