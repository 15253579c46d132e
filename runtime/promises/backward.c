/* SPDX-License-Identifier: MIT */
/* See backward.h. */
#include "backward.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "misuse.h"
#include "reference/gradient.h"

#define WORKERS 3

/* A call, its inputs and its results */
struct pass {
    const struct trial *of;
    double slack;
    struct backward_figures *figures;
    uint64_t *digest;
    const struct inputs *in;
    const struct layer *layer;
    const struct kernel_table *call;
    struct outputs out;
    struct guarded saved, scratch, back, gradient[TENSOR_COUNT], base[TENSOR_COUNT];
    float *dy;
    struct gradients reference;
    char *why;
};

static size_t count_of(const struct pass *p, enum layer_tensor tensor) { return inputs_count(p->layer, p->in, tensor); }

static bool is_weight(enum layer_tensor tensor) { return tensor_is_packed(layer_tensor_row(tensor)->kind); }

static size_t d_out(const struct pass *p) { return (size_t)p->layer->d_out; }

static void allocate(struct pass *p)
{
    const size_t dy = p->in->batch * p->in->n * d_out(p);
    outputs_make(&p->out, p->layer, p->in, 4);
    guarded_make(&p->saved, p->in->batch * p->in->n * p->call->saved_floats * 4, 4);
    guarded_make(&p->scratch, p->call->scratch_bytes_for(WORKERS), 0);
    guarded_make(&p->back, p->call->back_scratch_bytes_for(WORKERS), 0);
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (layer_has_gradient(p->layer, t)) {
            guarded_make(&p->gradient[t], count_of(p, t) * 4, 4);
            guarded_make(&p->base[t], count_of(p, t) * 4, 4);
        }
    p->dy = memory_get(dy, sizeof *p->dy);
    struct random random = {p->of->seed ^ 0x6472647964726479u};
    for (size_t i = 0; i < dy; i++)
        p->dy[i] = (float)random_normal(&random);
}

static void release(struct pass *p)
{
    struct guarded *all[] = {&p->saved, &p->scratch, &p->back};
    outputs_free(&p->out);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        guarded_free(all[i]);
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        guarded_free(&p->gradient[t]);
        guarded_free(&p->base[t]);
    }
    free(p->dy);
    pool_free(&p->reference.memory);
}

static struct kernel_args args_of(const struct pass *p, const struct inputs *in)
{
    struct kernel_args args = outputs_args(&p->out, p->layer, in);
    args.saved = p->saved.data;
    return args;
}

static struct kernel_grads grads_of(const struct pass *p, struct guarded *to)
{
    struct kernel_grads grads = {.dy = p->dy};
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (layer_has_gradient(p->layer, t))
            grads.tensor[t] = to[t].data;
    return grads;
}

/* Zeros where gradients are added, a pattern where they are written */
static void prepare(struct pass *p, struct guarded *to)
{
    guarded_fill(&p->back);
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (layer_has_gradient(p->layer, t)) {
            guarded_fill(&to[t]);
            if (is_weight(t))
                memset(to[t].data, 0, to[t].bytes);
        }
}

static bool run_forward(struct pass *p, const struct inputs *in)
{
    const struct kernel_args args = args_of(p, in);
    guarded_fill(&p->scratch);
    guarded_fill(&p->saved);
    return returned(p, p->call->forward(p->of->packed, &args, p->scratch.data), KERNEL_OK, "forward, with saved,");
}

static bool zones_intact(const struct pass *p, const struct guarded *to)
{
    bool intact = guarded_zones_intact(&p->back) && guarded_zones_intact(&p->saved);
    for (enum layer_tensor t = 0; intact && t < TENSOR_COUNT; t++)
        intact = !layer_has_gradient(p->layer, t) || guarded_zones_intact(&to[t]);
    return intact || violated(p, "backward wrote outside its gradients and its scratch");
}

static bool run_backward(struct pass *p, const struct inputs *in, struct guarded *to)
{
    const struct kernel_args args = args_of(p, in);
    const struct kernel_grads grads = grads_of(p, to);
    return returned(p, p->call->backward(p->of->packed, &args, &grads, p->back.data), KERNEL_OK, "backward") &&
           zones_intact(p, to);
}

/* ---- accuracy ---- */

/* Compares the gradients, and y, which depends on dropout. */
static bool compare(struct pass *p, const struct guarded *from)
{
    struct backward_figures *f = p->figures;
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        const float *actual = t == TENSOR_Y ? p->out.y.data : from[t].data;
        for (size_t i = 0; p->reference.of[t] != NULL && i < count_of(p, t); i++) {
            const double expected = p->reference.of[t][i], error = fabs((double)actual[i] - expected);
            const double gate = p->slack * p->reference.gate[t][i];
            if (gate == INFINITY && p->slack > 1)
                continue;
            if (!(error <= gate) || gate == INFINITY)
                return violated(p, "%s%s: element %zu is %.9g; the reference has %.9g, the gate is %.3g; "
                                "batch = %zu, n = %zu, m = %zu", t == TENSOR_Y ? "" : "d",
                                layer_tensor_name(t), i, (double)actual[i], expected, gate, p->in->batch,
                                p->in->n, p->in->m);
            f->error = fmax(f->error, error);
            f->ratio = fmax(f->ratio, gate > 0 ? error / gate : 0);
        }
    }
    return true;
}

/* exact = portable: y and gradients have the bits of its order */
static bool is_portable(struct pass *p, const struct inputs *in, const struct guarded *from)
{
    OWNED(portable_free) struct portable expected = {0};
    char why[300];
    if (!p->layer->portable)
        return true;
    portable_compute(&expected, p->layer, in, p->dy);
    bool good = outputs_same(p->layer, in, TENSOR_Y, "", p->out.y.data, expected.y, why);
    for (enum layer_tensor t = 0; good && t < TENSOR_COUNT; t++)
        good = !layer_has_gradient(p->layer, t) ||
               outputs_same(p->layer, in, t, "d", from[t].data, expected.gradient[t], why);
    return good || violated(p, "gradients, batch = %zu, n = %zu, m = %zu: %.200s", in->batch, in->n, in->m, why);
}

/* Gradients; then those of a second call, whose weights' gradients are added to the first ones */
static bool is_accurate(struct pass *p)
{
    prepare(p, p->base);
    if (!run_forward(p, p->in) || !run_backward(p, p->in, p->base) || !compare(p, p->base) ||
        !is_portable(p, p->in, p->base))
        return false;
    const struct kernel_args args = args_of(p, p->in);
    const struct kernel_grads grads = grads_of(p, p->base);
    *p->digest = kernel_digest(*p->digest, p->layer, p->in, &args, &grads);
    prepare(p, p->gradient);
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (layer_has_gradient(p->layer, t) && is_weight(t))
            memcpy(p->gradient[t].data, p->base[t].data, p->base[t].bytes);
    if (!run_backward(p, p->in, p->gradient))
        return false;
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        const float *once = p->base[t].data, *twice = p->gradient[t].data;
        for (size_t i = 0; layer_has_gradient(p->layer, t) && i < count_of(p, t); i++) {
            const double times = is_weight(t) ? 2 : 1, error = fabs((double)twice[i] - times * (double)once[i]);
            const double gate = p->reference.gate[t][i], most = is_weight(t) ? 2 * p->slack * gate : 0;
            if (gate < INFINITY && !(error <= most))
                return violated(p, "d%s: element %zu is %.9g, then %.9g where that stood before: %s",
                                layer_tensor_name(t), i, (double)once[i], (double)twice[i],
                                is_weight(t) ? "gradients of weights are added" : "others are written");
        }
    }
    return true;
}

/* ---- the same bits ---- */

static bool same(struct pass *p, const struct guarded *to, enum layer_tensor t, const char *what)
{
    if (memcmp(to[t].data, p->base[t].data, p->base[t].bytes) == 0)
        return true;
    return violated(p, "d%s has other bits %s; batch = %zu, n = %zu, m = %zu", layer_tensor_name(t), what,
                    p->in->batch, p->in->n, p->in->m);
}

/* The same, where a 0 may have another sign: of products with 0 a poisoned row gives 0, any other one 0 or -0. */
static bool same_numbers(struct pass *p, const struct guarded *to, enum layer_tensor t, const char *what)
{
    const float *is = to[t].data, *was = p->base[t].data;
    bool equal = true;
    for (size_t i = 0; equal && i < p->base[t].bytes / sizeof *was; i++)
        equal = memcmp(is + i, was + i, sizeof *was) == 0 || (is[i] == 0 && was[i] == 0);
    return equal || same(p, to, t, what);
}

static bool all_same(struct pass *p, const char *what)
{
    bool good = true;
    for (enum layer_tensor t = 0; good && t < TENSOR_COUNT; t++)
        good = !layer_has_gradient(p->layer, t) || same(p, p->gradient, t, what);
    return good;
}

/* Runs parts last to first, by workers in turn. */
static bool check_parts(struct pass *p)
{
    const struct kernel_args args = args_of(p, p->in);
    const struct kernel_grads grads = grads_of(p, p->gradient);
    const size_t phases = p->call->back_phases(p->of->packed, &args);
    prepare(p, p->gradient);
    for (size_t phase = 0; phase < phases; phase++)
        for (size_t part = p->call->back_parts(p->of->packed, &args, phase); part-- > 0;) {
            const int error =
                p->call->back_run(p->of->packed, &args, &grads, p->back.data, phase, part, part % WORKERS);
            if (!returned(p, error, KERNEL_OK, "backward_run"))
                return false;
        }
    if (p->in->n == 0)
        return true;
    return zones_intact(p, p->gradient) && all_same(p, "when parts run last to first, by several workers");
}

/* dx of each sequence by itself, with its own forward; with exact = portable all gradients, to which sequences add one
 * after the other. Dropout depends on the place of a sequence, so with dropout dx of the first one alone. */
static bool check_batch(struct pass *p)
{
    const size_t batch = layer_dropped(p->layer) > 0 && p->in->batch > 1 ? 1 : p->in->batch;
    const struct kernel_args args = args_of(p, p->in);
    const size_t rows = p->in->n * d_out(p);
    const bool all = p->layer->portable && layer_dropped(p->layer) == 0;
    for (size_t b = 0; p->in->n > 0 && b < batch; b++) {
        struct kernel_args own = kernel_args_of_sequence(p->layer, p->in, args, b);
        struct kernel_grads grads = all ? grads_of(p, p->gradient) : (struct kernel_grads){0};
        grads.dy = p->dy + b * rows;
        guarded_fill(&p->saved);
        if (b == 0 || !all)
            prepare(p, p->gradient);
        const size_t of_x = count_of(p, TENSOR_X) / p->in->batch;
        grads.tensor[TENSOR_X] = (float *)p->gradient[TENSOR_X].data + b * of_x;
        if (all && p->layer->cross)
            grads.tensor[TENSOR_SOURCE] += b * (count_of(p, TENSOR_SOURCE) / p->in->batch);
        if (!returned(p, p->call->forward(p->of->packed, &own, p->scratch.data), KERNEL_OK, "forward") ||
            !returned(p, p->call->backward(p->of->packed, &own, &grads, p->back.data), KERNEL_OK, "backward"))
            return false;
        if (memcmp(grads.tensor[TENSOR_X], (float *)p->base[TENSOR_X].data + b * of_x, of_x * sizeof(float)) != 0)
            return violated(p, "dx of sequence %zu has other bits when it is computed alone", b);
    }
    if (all && p->in->n > 0 && batch > 0 && !all_same(p, "when each sequence has a call of its own"))
        return false;
    return run_forward(p, p->in);
}

/* exact = portable: gradients whose sums overflow at one step or another have the bits of its order too, infinities and
 * NaN in their places */
static bool check_huge(struct pass *p)
{
    const size_t count = p->in->batch * p->in->n * d_out(p);
    HEAP float *kept = memory_get(count, sizeof *kept);
    bool good = true;
    memcpy(kept, p->dy, count * sizeof *kept);
    for (int exponent = 112; good && p->layer->portable && exponent < 128; exponent += 3) {
        for (size_t i = 0; i < count; i++)
            p->dy[i] = fminf(FLT_MAX, fmaxf(-FLT_MAX, ldexpf(kept[i], exponent)));
        prepare(p, p->gradient);
        good = run_backward(p, p->in, p->gradient) && is_portable(p, p->in, p->gradient);
    }
    memcpy(p->dy, kept, count * sizeof *kept);
    return good;
}

/* One gradient at a time, without the others: it has the same bits. */
static bool check_choice(struct pass *p)
{
    const struct kernel_args args = args_of(p, p->in);
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        if (!layer_has_gradient(p->layer, t))
            continue;
        struct kernel_grads grads = {.dy = p->dy};
        grads.tensor[t] = p->gradient[t].data;
        prepare(p, p->gradient);
        if (!returned(p, p->call->backward(p->of->packed, &args, &grads, p->back.data), KERNEL_OK, "backward") ||
            !same(p, p->gradient, t, "when it is the only gradient requested"))
            return false;
    }
    return true;
}

/* ---- what is hidden ---- */

/* NaN in row `row` of x or source, or of dy: which rows of dx and dsource may depend on it, and which must. */
struct poison {
    struct pass *pass;
    enum layer_tensor tensor; /* TENSOR_Y: dy */
    size_t b, row;
};

static bool sees(const struct pass *p, size_t b, size_t t, size_t j)
{
    bool any = false;
    for (size_t i = 0; !any && i < (size_t)p->layer->h; i++)
        any = j < inputs_keys(p->in, b) && reference_visible(p->layer, p->in, b, i, t, j);
    return any;
}

/* Whether the gradient of query t becomes NaN: because its own row is poisoned and it sees a key, or because it sees a
 * poisoned key */
static bool touches(const struct poison *poison, size_t t)
{
    const struct pass *p = poison->pass;
    const bool as_key = poison->tensor == TENSOR_SOURCE || (poison->tensor == TENSOR_X && p->layer->self);
    const bool own = poison->tensor != TENSOR_SOURCE && t == poison->row;
    bool any = as_key && sees(p, poison->b, t, poison->row);
    for (size_t j = 0; own && !any && j < p->in->m; j++)
        any = sees(p, poison->b, t, j);
    return any;
}

/* Whether row k, as a key, is seen by a query whose gradient becomes NaN */
static bool touches_key(const struct poison *poison, size_t k)
{
    bool any = false;
    for (size_t t = 0; !any && t < poison->pass->in->n; t++)
        any = touches(poison, t) && sees(poison->pass, poison->b, t, k);
    return any;
}

static bool check_rows(const struct poison *poison, enum layer_tensor of, size_t rows, size_t width, bool as_queries,
                       bool as_keys)
{
    struct pass *p = poison->pass;
    const float *was = p->base[of].data, *is = p->gradient[of].data;
    const char *poisoned = poison->tensor == TENSOR_Y ? "dy" : layer_tensor_name(poison->tensor);
    for (size_t b = 0; b < p->in->batch; b++)
        for (size_t r = 0; r < rows; r++) {
            const size_t at = (b * rows + r) * width;
            const bool query = b == poison->b && as_queries && touches(poison, r);
            const bool reached = query || (b == poison->b && as_keys && touches_key(poison, r));
            bool finite = true;
            for (size_t c = 0; c < width; c++)
                finite = finite && isfinite(is[at + c]);
            if (!reached && memcmp(was + at, is + at, width * sizeof(float)) != 0)
                return violated(p, "NaN in row %zu of %s of sequence %zu changes d%s of row %zu of "
                                "sequence %zu, from which it is hidden; n = %zu, m = %zu", poison->row,
                                poisoned, poison->b, layer_tensor_name(of), r, b, p->in->n, p->in->m);
            if (query && finite)
                return violated(p, "NaN in row %zu of %s of sequence %zu leaves d%s of row %zu finite, "
                                "though that query depends on it; n = %zu, m = %zu", poison->row, poisoned,
                                poison->b, layer_tensor_name(of), r, p->in->n, p->in->m);
        }
    return true;
}

static bool check_poison(struct poison *poison, const struct inputs *in)
{
    struct pass *p = poison->pass;
    const struct layer *layer = p->layer;
    bool nothing = true;
    prepare(p, p->gradient);
    if (!run_forward(p, in) || !run_backward(p, in, p->gradient) || !is_portable(p, in, p->gradient))
        return false;
    for (size_t t = 0; t < p->in->n; t++)
        nothing = nothing && !touches(poison, t);
    for (enum layer_tensor t = TENSOR_W_Q; nothing && t <= TENSOR_SINK; t++)
        if (layer_has_gradient(layer, t) && (poison->tensor != TENSOR_Y || t != TENSOR_B_O) &&
            !same_numbers(p, p->gradient, t, "where nothing sees a row that is NaN"))
            return false;
    return check_rows(poison, TENSOR_X, p->in->n, (size_t)layer->d_model, true, layer->self) &&
           (!layer->cross || check_rows(poison, TENSOR_SOURCE, p->in->m, (size_t)layer->d_source, false, true));
}

/* Rows of one tensor, one after the other. */
static bool check_poisons(struct pass *p, struct inputs *in, enum layer_tensor tensor, float *rows, size_t count,
                          size_t width, struct random *random)
{
    bool good = true;
    HEAP float *kept = memory_get(width, sizeof *kept);
    for (size_t trial = 0; good && count > 0 && trial < 4; trial++) {
        struct poison poison = {p, tensor, random_bits(random) % p->in->batch, 0};
        poison.row = trial == 0 ? count - 1 : random_bits(random) % count;
        float *row = rows + (poison.b * count + poison.row) * width;
        memcpy(kept, row, width * sizeof *row);
        for (size_t c = 0; c < width; c++)
            row[c] = NAN;
        good = check_poison(&poison, in);
        memcpy(row, kept, width * sizeof *row);
    }
    return good;
}

static bool check_hidden(struct pass *p)
{
    struct random random = {p->of->seed + 77};
    if (p->in->batch == 0 || p->in->n == 0)
        return true;
    OWNED(inputs_free) struct inputs in;
    inputs_copy(&in, p->layer, p->in);
    const bool conv = p->layer->w_o == W_O_CONV; /* its taps spread dy */
    return check_poisons(p, &in, TENSOR_X, in.tensor[TENSOR_X], in.n, (size_t)p->layer->d_model, &random) &&
           (!p->layer->cross || check_poisons(p, &in, TENSOR_SOURCE, in.tensor[TENSOR_SOURCE], in.m,
                                              (size_t)p->layer->d_source, &random)) &&
           (conv || check_poisons(p, &in, TENSOR_Y, p->dy, in.n, d_out(p), &random));
}

/* ---- wrong calls ---- */

struct backward_call {
    struct pass *p;
    const void *packed, *args, *grads;
    void *scratch;
    size_t phase;
};

static bool backward_refused(void *context, int expected, const char *what)
{
    const struct backward_call *c = context;
    const struct kernel_table *call = c->p->call;
    const int run = call->back_run(c->packed, c->args, c->grads, c->scratch, c->phase, 0, 0);
    const int error = expected == KERNEL_PART ? run : call->backward(c->packed, c->args, c->grads, c->scratch);
    return (error == expected && run == expected) ||
           violated(c->p, "backward, %s: returns \"%s\", a part \"%s\", not \"%s\"", what,
                    call->strerror(error), call->strerror(run), call->strerror(expected));
}

/* Whether gradients are as prepare() left them */
static bool is_prepared(const struct pass *p, struct guarded *to)
{
    bool good = guarded_untouched(&p->back);
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        const bool zeroed = layer_has_gradient(p->layer, t) && is_weight(t);
        good = good && (zeroed || to[t].data == NULL || guarded_untouched(&to[t]));
        for (size_t i = 0; zeroed && i < to[t].bytes; i++)
            good = good && ((const unsigned char *)to[t].data)[i] == 0;
    }
    return good || violated(p, "backward: refused, but something was written");
}

static bool check_refusals(struct pass *p)
{
    struct kernel_args args = args_of(p, p->in);
    struct kernel_grads grads = grads_of(p, p->gradient);
    struct backward_call call = {p, p->of->packed, &args, &grads, p->back.data, 0};
    struct misuse rows[2 * MISUSE_ROWS];
    size_t count = misuse_of_args(p->layer, &args, rows);
    rows[count - 1].use = MISUSE_NEEDED; /* saved */
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (layer_has_gradient(p->layer, t))
            rows[count++] = (struct misuse){layer_tensor_name(t), &grads.tensor[t], sizeof(float), MISUSE_OPTIONAL};
    rows[count++] = (struct misuse){"dy", &grads.dy, sizeof(float), MISUSE_NEEDED};
    rows[count++] = (struct misuse){"packed", &call.packed, KERNEL_ALIGNMENT, MISUSE_NEEDED};
    rows[count++] = (struct misuse){"args", &call.args, 1, MISUSE_NEEDED};
    rows[count++] = (struct misuse){"grads", &call.grads, 1, MISUSE_NEEDED};
    rows[count++] = (struct misuse){"scratch", &call.scratch, KERNEL_ALIGNMENT, MISUSE_NEEDED};
    if (p->in->batch == 0 || p->in->n == 0 || p->in->m == 0)
        return true;
    prepare(p, p->gradient);
    if (!misuse_refused(rows, count, backward_refused, &call))
        return false;
    call.phase = p->call->back_phases(p->of->packed, &args);
    return backward_refused(&call, KERNEL_PART, "a phase too many") && is_prepared(p, p->gradient);
}

/* Forward gives the same bits in parts, including `saved`, and without `saved`. Only y may differ then, because of
 * dropout. */
static bool check_forward(struct pass *p)
{
    struct kernel_args args = args_of(p, p->in);
    const struct { const char *name; const struct guarded *is; bool dropped; } all[] = {
        {"saved", &p->saved, true}, {"y", &p->out.y, true}, {"attn", &p->out.attn, false},
        {"lse", &p->out.lse, false}};
    struct guarded was[sizeof all / sizeof *all] = {{0}};
    bool good = p->in->batch == 0 || p->in->n == 0;
    if (good || !run_forward(p, p->in))
        return good;
    good = true;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        guarded_make(&was[i], all[i].is->bytes, 4);
        memcpy(was[i].data, all[i].is->data, all[i].is->bytes);
    }
    for (int trains = 1; good && trains >= 0; trains--) {
        args.saved = trains ? args.saved : NULL;
        good = returned(p, trains ? outputs_run_parts(p->call, p->of->packed, &args, p->scratch.data, WORKERS)
                                  : p->call->forward(p->of->packed, &args, p->scratch.data), KERNEL_OK,
                        trains ? "run" : "forward");
        for (size_t i = 0; good && i < sizeof all / sizeof all[0]; i++)
            if ((trains || !all[i].dropped || layer_dropped(p->layer) == 0) &&
                memcmp(was[i].data, all[i].is->data, all[i].is->bytes) != 0)
                good = violated(p, "%s has other bits %s", all[i].name,
                                trains ? "where forward runs in parts" : "where saved is NULL");
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        guarded_free(&was[i]);
    return good;
}

bool backward_holds(const struct trial *t, const struct inputs *inputs, double slack, bool all,
                    struct backward_figures *figures, uint64_t *digest)
{
    OWNED(release) struct pass p = {.of = t, .slack = slack, .figures = figures, .digest = digest, .in = inputs,
                                    .layer = t->layer, .call = t->call, .why = t->why};
    allocate(&p);
    return gradients_compute(&p.reference, p.layer, inputs, p.dy, t->diag) && is_accurate(&p) &&
           (!all || (check_parts(&p) && check_batch(&p) && check_choice(&p) && check_huge(&p) && check_refusals(&p) &&
                     check_hidden(&p) && check_forward(&p)));
}
