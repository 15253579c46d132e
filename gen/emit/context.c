/* SPDX-License-Identifier: MIT */
/* What templates read of a plan, as a table: the fields of its structs, under the names that they have in C.
 *
 * Left out on purpose: decisions (gen/plan), so that attnrun can plan without templates and Lua; the layer
 * (context_layer.c).
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "emit/emit.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "spec/fast.h"

/* A field of a struct, as names.awk writes them into emit/names.h */
struct named {
    const char *name;  /* NULL ends a struct's list */
    size_t at;         /* bytes from the struct's first */
    enum {
        NAMED_INT64, NAMED_INT, NAMED_UNSIGNED, NAMED_SIZE, NAMED_DOUBLE, NAMED_BOOL, NAMED_TEXT, NAMED_WORD,
        NAMED_LAYOUT, NAMED_STRUCT, NAMED_POINTER
    } kind;
    const char *const *words;   /* of a NAMED_WORD */
    const struct named *fields; /* of the struct, or the struct that the pointer leads to */
    size_t size, extent;        /* of an array: bytes of an element, and elements; 0: it is none */
    const char *const *keys;    /* names of its elements; NULL: they are a list */
    size_t count_at, count_size; /* where that list's length is, and how many bytes it has; 0: all elements */
};

#include "emit/names.h"

static void push_stream(struct emit *emit, const struct plan_isa *p, const char *name, enum layout_name of);

#define READ(type, at) (*(const type *)(const void *)(at))

static void push_named(struct emit *emit, const struct plan_isa *p, const char *base, const struct named *fields);

static void push_value(struct emit *emit, const struct plan_isa *p, const struct named *f, const char *name,
                       const char *at)
{
    switch (f->kind) {
    case NAMED_INT64:
        emit_set_integer(emit, name, READ(int64_t, at));
        break;
    case NAMED_INT:
        emit_set_integer(emit, name, READ(int, at));
        break;
    case NAMED_UNSIGNED:
        emit_set_integer(emit, name, READ(unsigned, at));
        break;
    case NAMED_SIZE:
        emit_set_integer(emit, name, (int64_t)READ(size_t, at));
        break;
    case NAMED_DOUBLE:
        emit_set_number(emit, name, READ(double, at));
        break;
    case NAMED_BOOL:
        emit_set_boolean(emit, name, READ(bool, at));
        break;
    case NAMED_TEXT:
        emit_set_string(emit, name, READ(char *, at) != NULL ? READ(char *, at) : "");
        break;
    case NAMED_WORD:
        emit_set_string(emit, name, f->words[READ(unsigned, at)]);
        break;
    case NAMED_LAYOUT:
        push_stream(emit, p, name, READ(enum layout_name, at));
        break;
    case NAMED_STRUCT:
    case NAMED_POINTER:
        emit_begin_table(emit, name);
        push_named(emit, p, f->kind == NAMED_POINTER ? READ(char *, at) : at, f->fields);
        emit_end(emit);
    }
}

/* The fields of a struct, into the table that is open */
static void push_named(struct emit *emit, const struct plan_isa *p, const char *base, const struct named *f)
{
    for (; f->name != NULL; f++) {
        const char *const at = base + f->at;
        if (f->extent == 0) {
            push_value(emit, p, f, f->name, at);
            continue;
        }
        const size_t count = f->count_size == 0 ? f->extent
                             : f->count_size == sizeof(int) ? (size_t)READ(int, base + f->count_at)
                                                            : (size_t)READ(int64_t, base + f->count_at);
        if (*f->name != '\0') /* else the struct is the list */
            emit_begin_table(emit, f->name);
        for (size_t i = 0; i < count; i++)
            push_value(emit, p, f, f->keys != NULL ? f->keys[i] : NULL, at + i * f->size);
        if (*f->name != '\0')
            emit_end(emit);
    }
}
#define PUSH(emit, p, type, of) push_named(emit, p, (const char *)(of), names_##type)

/* Where a layout begins, as emitted text says it: an enumerator of interface/places.in; 0 where it is first,
 * or where the plan does not have it; a number if it has no name, or is no int. `what`, maybe "": of the layouts of a
 * step's name */
static void push_named_place(struct emit *emit, const struct plan_isa *p, const char *field, const char *name,
                             const char *what, enum layout_name of)
{
    const int64_t at = layout_at(p, of);
    char text[80];

    if (name == NULL || at == 0 || at > INT32_MAX) {
        emit_set_integer(emit, field, at);
        return;
    }
    const size_t upper = (size_t)snprintf(text, sizeof text, "%s%s_AT_%s", name, what, p->isa->name) -
                         strlen(p->isa->name);
    for (size_t i = 0; i < upper; i++)
        text[i] = (char)toupper((unsigned char)text[i]);
    emit_set_string(emit, field, text);
}

static void push_place(struct emit *emit, const struct plan_isa *p, const char *field, enum layout_name of)
{
    const size_t names = sizeof words_layout_name / sizeof *words_layout_name;
    push_named_place(emit, p, field, of < names ? words_layout_name[of] : NULL, "", of);
}

/* at.NAME: where each layout begins, in elements; place.NAME: the same as text; stride.NAME.AXIS; 0 where the plan does
 * not have it */
static void push_layouts(struct emit *emit, const struct plan_isa *p)
{
    const size_t count = sizeof words_layout_name / sizeof *words_layout_name;
    emit_begin_table(emit, "at");
    for (size_t i = LAYOUT_X; i < count; i++)
        if (words_layout_name[i] != NULL)
            emit_set_integer(emit, words_layout_name[i], layout_at(p, i));
    emit_end(emit);
    emit_begin_table(emit, "place");
    for (size_t i = LAYOUT_X; i < count; i++)
        if (words_layout_name[i] != NULL)
            push_place(emit, p, words_layout_name[i], i);
    emit_end(emit);
    emit_begin_table(emit, "stride");
    for (size_t i = LAYOUT_X; i < count; i++) {
        if (words_layout_name[i] == NULL)
            continue;
        emit_begin_table(emit, words_layout_name[i]);
        for (int axis = 0; axis < AXES; axis++)
            emit_set_integer(emit, words_layout_axis[axis], p->layouts[i].stride[axis]);
        emit_end(emit);
    }
    emit_end(emit);
}

/* A matrix of rows: its owner, its offset there and its row stride, in elements; false: the plan has none. */
static void push_stream(struct emit *emit, const struct plan_isa *p, const char *name, enum layout_name of)
{
    if (p->layouts[of].name == NULL) {
        emit_set_boolean(emit, name, false);
        return;
    }
    emit_begin_table(emit, name);
    const bool callers = p->layouts[of].owner == OWNER_CALLER;
    emit_set_string(emit, "caller", callers ? p->layouts[of].name : "");
    emit_set_boolean(emit, "of_keys", of == LAYOUT_SOURCE);
    emit_set_boolean(emit, "of_worker", p->layouts[of].owner == OWNER_WORKER);
    emit_set_boolean(emit, "words", p->layouts[of].element == TENSOR_I32);
    push_place(emit, p, "at", of);
    emit_set_integer(emit, "row", p->layouts[of].stride[AXIS_TOKEN]);
    emit_end(emit);
}

/* A step, with the fields of its kind, and of a product with weights where these lie, as numbers and as text */
static void push_step(struct emit *emit, const struct plan_isa *p, const struct step *g)
{
    static const struct named *const kinds[STEP_KINDS] = {
        [KIND_PANELS] = names_plan_panels, [KIND_LANES] = names_plan_lanes, [KIND_NORM] = names_plan_rows,
        [KIND_RULE] = names_plan_rule, [KIND_CONV] = names_plan_conv, [KIND_ROUND] = names_plan_round,
        [KIND_WIDEN] = names_plan_widen, [KIND_THROUGH] = names_plan_through, [KIND_SUM] = names_plan_sum};
    PUSH(emit, p, step, g);
    if (kinds[g->kind] != NULL)
        push_named(emit, p, (const char *)&g->panels, kinds[g->kind]);
    push_stream(emit, p, "from", g->reads[0]);
    push_stream(emit, p, "with", g->reads[1]); /* of a product a residual */
    push_stream(emit, p, "to", g->writes);
    if (g->kind != KIND_PANELS && g->kind != KIND_LANES)
        return;
    static const struct { const char *name, *suffix; int of; } parts[] = {
        {"w", "_w", LAYOUT_WEIGHTS}, {"b", "_b", LAYOUT_BIASES}, {"scales", "_scales", LAYOUT_SCALES},
        {"sums", "_sums", LAYOUT_WEIGHT_SUMS}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        emit_set_integer(emit, parts[i].name, layout_at(p, (enum layout_name)(parts[i].of + g->id)));
    emit_begin_table(emit, "place");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        push_named_place(emit, p, parts[i].name, g->label, parts[i].suffix, (enum layout_name)(parts[i].of + g->id));
    emit_end(emit);
}

/* The steps in order; those with weights once more, by the prefix of their functions' names */
static void push_steps(struct emit *emit, const struct plan_isa *p)
{
    emit_begin_table(emit, "steps");
    for (const struct step *g = p->steps; g < p->steps + p->step_count; g++) {
        emit_begin_item(emit);
        push_step(emit, p, g);
        emit_end(emit);
    }
    emit_end(emit);
    emit_begin_table(emit, "products");
    for (const struct step *g = p->steps; g < p->steps + p->step_count; g++) {
        if (g->kind != KIND_PANELS && g->kind != KIND_LANES)
            continue;
        emit_begin_table(emit, g->label);
        push_step(emit, p, g);
        emit_end(emit);
    }
    emit_end(emit);
}

/* The phases and their tasks, in order */
static void push_phases(struct emit *emit, const char *name, const struct plan_isa *p, bool back)
{
    emit_begin_table(emit, name);
    for (const struct plan_phase *phase = p->phases; phase < p->phases + p->phase_count; phase++) {
        if (phase->back != back)
            continue;
        emit_begin_item(emit);
        PUSH(emit, p, plan_phase, phase);
        emit_end(emit);
    }
    emit_end(emit);
}

/* Adds `more`, if there is any, to a text, after `between` unless it is the first. */
static void append(char *text, size_t size, const char *between, const char *more)
{
    const size_t used = strlen(text);
    if (more != NULL)
        snprintf(text + used, size - used, "%s%s", used > 0 ? between : "", more);
}

/* What a set, and what the layer asks of it besides, needs of compiler and machine; runs_on: for the reader */
static void push_needs(struct emit *emit, const struct isa *isa, const struct layer *layer, bool digits, bool halves)
{
    const struct isa_extra *extras[ISA_EXTRAS];
    const int count = isa_extras(isa, layer, digits, extras);
    char target[120] = "", guard[240] = "", runs_on[120] = "";
    append(target, sizeof target, "", isa->target);
    append(guard, sizeof guard, "", isa->guard);
    append(runs_on, sizeof runs_on, "", isa->runs_on);
    for (int i = 0; i < count; i++) {
        append(target, sizeof target, ",", extras[i]->target);
        append(guard, sizeof guard, " && ", extras[i]->guard);
        if (extras[i]->runs_on != NULL)
            snprintf(runs_on, sizeof runs_on, "%s", extras[i]->runs_on);
        append(runs_on, sizeof runs_on, ", and ", extras[i]->need.name);
    }
    append(target, sizeof target, ",", halves ? isa->half_target : NULL); /* which all of its CPUs have */
    emit_set_string(emit, "target", target);
    emit_set_string(emit, "guard", guard);
    emit_set_string(emit, "runs_on", runs_on);
    emit_begin_table(emit, "needs");
    for (int i = 0; i < ISA_NEEDS + count; i++) {
        const struct isa_need *const need = i < ISA_NEEDS ? &isa->needs[i] : &extras[i - ISA_NEEDS]->need;
        if (need->name == NULL)
            continue;
        emit_begin_item(emit);
        PUSH(emit, NULL, isa_need, need);
        emit_end(emit);
    }
    emit_end(emit);
}

/* All instruction sets, for the names and numbers of the interface. */
static void push_known(struct emit *emit, const struct layer *layer, bool digits)
{
    emit_begin_table(emit, "known_isas");
    for (size_t i = 0; i < isa_count; i++) {
        if (isa_table[i].dots_only && plan_isas(layer, 1u << i) == 0)
            continue;
        emit_begin_item(emit);
        emit_set_string(emit, "name", isa_table[i].name);
        emit_set_integer(emit, "id", isa_table[i].id);
        push_needs(emit, &isa_table[i], layer, digits && plan_digits(layer, &isa_table[i]), false);
        emit_end(emit);
    }
    emit_end(emit);
}

static void push_isa(struct emit *emit, const struct layer *layer, const struct plan_isa *p)
{
    emit_begin_item(emit);
    PUSH(emit, p, plan_isa, p);
    push_needs(emit, p->isa, layer, p->digits, p->halves);
    push_layouts(emit, p);
    push_steps(emit, p);
    push_phases(emit, "phases", p, false);
    push_phases(emit, "back_phases", p, true);
    emit_end(emit);
}

void plan_context(const struct plan *plan, const struct layer *layer, struct emit *emit)
{
    context_layer(layer, emit);
    emit_set_integers(emit, EMITTED(
        {"FAST_AHEAD", FAST_AHEAD}, {"FAST_NUMBERS", FAST_NUMBERS}, {"FAST_LEVELS", FAST_LEVELS},
        {"FAST_ROWS", FAST_ROWS}, {"DIGIT_GROUP", WEIGHT_GROUP}, {"DIGIT_STEPS", DIGIT_STEPS(layer->weight_type)},
        {"DIGIT_ADDED", DIGIT_ADDED(layer->weight_type)}, {"ROUND_ROWS", ROUND_ROWS},
        {"EXPANDS_LEAST", plan->fold.expands.least}, {"EXPANDS_GAIN", plan->fold.expands.gain},
        {"EXPANDS_PRICE", plan->fold.expands.price}, {"D_SCORE", plan->fold.d_score},
        {"D_VALUE", plan->fold.d_value}, {"D_Z", plan->fold.d_z}, {"PACKED_BYTES", plan->packed_bytes},
        {"SHARED_BYTES", plan->shared_bytes}, {"WORKER_BYTES", plan->worker_bytes}, {"KEPT_BYTES", plan->kept_bytes},
        {"HELD", plan->held}, {"LARGEST_ROW", plan->largest_row}, {"LARGEST_SOURCE_ROW", plan->largest_source_row},
        {"BACK_SHARED_BYTES", plan->back_shared_bytes}, {"BACK_BYTES", plan->back_bytes},
        {"BACK_WORKER_BYTES", plan->back_worker_bytes}, {"KEPT", layer_kept(layer)}));
    emit_set_boolean(emit, "MAKES_VALUES", layer_attends(layer) && !layer->projected && !plan->fold.values &&
                                           !layer->identity && !layer->shares);
    emit_set_booleans(emit, EMITTED(
        {"DIGITS", plan->digits}, /* on some set products with weights read digits of rows */
        {"EXPANDS", plan->fold.expands.least > 0}, /* latent attention with keys of heads */
        {"FAST", plan_has_fast(plan)}, {"FOLDS_SCORES", plan->fold.scores}, {"FOLDS_VALUES", plan->fold.values},
        {"VALUES_ARE_INPUT", plan->fold.values || layer->identity}, {"Q_IS_K", plan->fold.q_is_k}));
    static const char *const groups[] = {[GROUP_ALL] = "all", [GROUP_QUERIES] = "queries",
                                         [GROUP_SOURCES_APART] = "sources apart", [GROUP_BOTH] = "both"};
    emit_set_string(emit, "GROUPS", groups[plan_group(layer)]);
    push_known(emit, layer, plan->digits);
    push_phases(emit, "phases", &plan->isas[0], false);
    push_phases(emit, "back_phases", &plan->isas[0], true);
    emit_begin_table(emit, "plans");
    for (int64_t i = 0; i < plan->count; i++)
        push_isa(emit, layer, &plan->isas[i]);
    emit_end(emit);
}
