/* SPDX-License-Identifier: MIT */
/* A table of names of weights; it decides which tensors of a file are the layer's, and where in them each number is.
 *
 * A layer in a file is identified by a module's name ("h.0.attn.", empty in a file of one layer) and a row of the
 * table. It is found by the tensor of the row's query weights; without projections, by the output's weights, the first
 * other learned tensor of the layer or its first table; without attention, by its first matrix.
 */
#include "weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "base/memory.h"

enum role { Q, K, V, O, ROLES };
#define PARTS (2 * (size_t)ROLES + LEARNED + OF_BLOCK + LAYER_TABLES) /* weights, biases, others, tables */
/* Layouts of matrices: as weight_layout says; [out][in]; [in][out]; [out][in] by groups, each with its queries, its key
 * and its value */
enum stored { AS_SPEC, OUT_IN, IN_OUT, OUT_IN_GROUPS };

#define MODULES(q, k, v, o) \
    {q ".weight", k ".weight", v ".weight", o ".weight"}, {q ".bias", k ".bias", v ".bias", o ".bias"}
/* Names after the module's. If several roles have the same name, one tensor holds their outputs side by side in the
 * order q, k, v. '|' separates alternatives. */
static const struct convention {
    const char *authors;
    enum stored stored;
    const char *weight[ROLES], *bias[ROLES];
} conventions[] = {
    {"attngen", AS_SPEC, {"w_q", "w_k", "w_v", "w_o"}, {"b_q", "b_k", "b_v", "b_o"}},
    {"torch.nn.MultiheadAttention", OUT_IN,
     {"in_proj_weight", "in_proj_weight", "in_proj_weight", "out_proj.weight"},
     {"in_proj_bias", "in_proj_bias", "in_proj_bias", "out_proj.bias"}},
    {"torch.nn.MultiheadAttention with kdim or vdim", OUT_IN,
     {"q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"},
     {"in_proj_bias", "in_proj_bias", "in_proj_bias", "out_proj.bias"}},
    {"GPT-2", IN_OUT, MODULES("c_attn", "c_attn", "c_attn", "c_proj")},
    {"BERT, RoBERTa, ELECTRA", OUT_IN, MODULES("self.query", "self.key", "self.value", "output.dense")},
    {"ViT, DeiT", OUT_IN, MODULES("attention.query", "attention.key", "attention.value", "output.dense")},
    {"DistilBERT", OUT_IN, MODULES("q_lin", "k_lin", "v_lin", "out_lin")},
    {"Llama, Mistral, Qwen, Gemma, OLMo 2, gpt-oss, Phi, GPT-J, Whisper, BART, CLIP, OPT", OUT_IN,
     {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight|out_proj.weight|dense.weight"},
     {"q_proj.bias", "k_proj.bias", "v_proj.bias", "o_proj.bias|out_proj.bias|dense.bias"}},
    {"T5", OUT_IN, MODULES("q", "k", "v", "o")},
    {"timm", OUT_IN, MODULES("qkv", "qkv", "qkv", "proj")},
    {"Phi-3", OUT_IN, MODULES("qkv_proj", "qkv_proj", "qkv_proj", "o_proj")},
    {"BLOOM, GPT-NeoX, Falcon", OUT_IN_GROUPS,
     MODULES("query_key_value", "query_key_value", "query_key_value", "dense")},
    {"InternLM2", OUT_IN_GROUPS, MODULES("wqkv", "wqkv", "wqkv", "wo")},
};
#define CONVENTIONS (sizeof conventions / sizeof *conventions)

/* Other learned tensors, under the names of all conventions but attngen's, whose names are the spec's */
static const struct learned {
    enum layer_tensor tensor;
    const char *names;
    const char *needs; /* of the spec */
} learned[] = {
    {TENSOR_G_Q, "q_norm.weight|q_layernorm.weight", "a qk_norm that has weights"},
    {TENSOR_C_Q, "q_norm.bias|q_layernorm.bias", "qk_norm = layer"},
    {TENSOR_G_K, "k_norm.weight|k_layernorm.weight", "a qk_norm that has weights"},
    {TENSOR_C_K, "k_norm.bias|k_layernorm.bias", "qk_norm = layer"},
    {TENSOR_SINK, "sinks", "sink = true"},
    {TENSOR_REL_BIAS, "relative_attention_bias.weight", "relative = t5"},
};
#define LEARNED (sizeof learned / sizeof *learned)

/* Tensors of a block, and of a layer without attention, in files with attngen's names */
#define OF_BLOCK ((size_t)(TENSOR_B + 1 - TENSOR_N1_G))

/* Other tensors of a module that would change the results */
static const struct { const char *name, *what; } refused[] = {
    {"bias_k", "a key of its own after the others (add_bias_kv)"},
    {"bias_v", "a value of its own after the others (add_bias_kv)"},
    {"q_layernorm.norms.0.weight", "a normalization with weights of each head"},
    {"k_layernorm.norms.0.weight", "a normalization with weights of each head"},
    {"distance_embedding.weight", "a product of queries and learned distances"},
};

static const struct { enum layer_tensor weight, bias; } tensor_of[ROLES] = {
    [Q] = {TENSOR_W_Q, TENSOR_B_Q}, [K] = {TENSOR_W_K, TENSOR_B_K},
    [V] = {TENSOR_W_V, TENSOR_B_V}, [O] = {TENSOR_W_O, TENSOR_B_O},
};

/* Where one tensor of the layer comes from. */
struct part {
    enum layer_tensor tensor;
    enum role role;       /* ROLES: another learned tensor, in its own layout */
    const char *name;     /* in the file; NULL: zeros */
    int64_t inputs;       /* 1 for a bias */
    int64_t outputs, first, total; /* number of its outputs, their first, and the total in the file's tensor */
};

struct search {
    const struct layer *layer;
    const struct weights_choice *choice;
    const char *place;
    struct diag *diag;
    struct tensors names; /* of the file, without data */
    const struct convention *convention;
    char *module;
    struct part parts[PARTS];
    size_t count;
};

/* ---- element types --------------------------------------------------------------------------------------------- */

static bool is_read(enum tensor_type type)
{
    return type == TYPE_F32 || type == TYPE_F16 || type == TYPE_BF16 || type == TYPE_F64;
}

/* Exact: every f16 and bf16 is an f32. */
static float element(const struct tensor *tensor, int64_t at)
{
    if (tensor->type == TYPE_F64)
        return (float)((const double *)tensor->data)[at];
    const enum tensor_element type = tensor->type == TYPE_F16    ? TENSOR_F16
                                     : tensor->type == TYPE_BF16 ? TENSOR_BF16 : TENSOR_F32;
    return (float)element_number(type, tensor->data, (size_t)at);
}

/* ---- which layer of the file ----------------------------------------------------------------------------------- */

/* Whether a name belongs to the requested module: "h.1" and "h.1." belong to h.1, not to h.10. */
static bool has_prefix(const char *name, const char *prefix)
{
    const size_t length = prefix != NULL ? strlen(prefix) : 0;
    return length == 0 || (strncmp(name, prefix, length) == 0 &&
                           (prefix[length - 1] == '.' || name[length] == '.' || name[length] == '\0'));
}

/* Length of the module's name if `name` is that and `suffix`, else -1. */
static long module_length(const char *name, const char *suffix)
{
    const size_t whole = strlen(name), end = strlen(suffix);
    if (whole < end || strcmp(name + whole - end, suffix) != 0)
        return -1;
    return whole == end || name[whole - end - 1] == '.' ? (long)(whole - end) : -1;
}

/* Appends to a list, which ends with "…" if it is full. */
static void list(char *text, size_t room, const char *format, const char *a, const char *b)
{
    const size_t used = strlen(text);
    char item[160];
    snprintf(item, sizeof item, format, used > 0 ? ", " : "", a, b);
    if (used + strlen(item) + 8 < room)
        strcpy(text + used, item);
    else if (used > 0 && strcmp(text + used - strlen("…"), "…") != 0)
        strcpy(text + used, ", …");
}

static const char *learned_names(const struct convention *convention, const struct learned *of)
{
    return convention->stored == AS_SPEC ? layer_tensor_name(of->tensor) : of->names;
}

/* The tensor by which a layer is found. */
static enum layer_tensor key_of_layer(const struct layer *layer)
{
    if (layer_has_tensor(layer, TENSOR_W_Q))
        return TENSOR_W_Q;
    if (!layer_attends(layer))
        return layer_is_linear(layer) ? TENSOR_W : layer_is_convolution(layer) ? TENSOR_CONV_X : TENSOR_W_1;
    if (layer_has_tensor(layer, TENSOR_W_O))
        return TENSOR_W_O;
    for (size_t i = 0; i < LEARNED; i++)
        if (layer_has_tensor(layer, learned[i].tensor))
            return learned[i].tensor;
    return TENSOR_TABLE;
}

/* Its names; NULL: only attngen's */
static const char *names_of_layer(const struct layer *layer, const struct convention *convention)
{
    const enum layer_tensor key = key_of_layer(layer);
    if (key == TENSOR_W_Q || key == TENSOR_W_O)
        return convention->weight[key == TENSOR_W_Q ? Q : O];
    for (size_t i = 0; i < LEARNED; i++)
        if (learned[i].tensor == key)
            return learned_names(convention, &learned[i]);
    return convention->stored == AS_SPEC ? layer_tensor_called(layer, key) : NULL;
}

static void say_none(struct search *s)
{
    char found[500] = "", known[700] = "", shape[200];
    int64_t extents[4];
    const enum layer_tensor key = key_of_layer(s->layer);
    const int rank = layer_weight_shape(s->layer, key, extents);
    const char *prefix = s->choice->prefix;
    size_t count = 0;
    for (size_t i = 0; i < s->names.count; i++)
        if (has_prefix(s->names.items[i].name, prefix)) {
            list(found, sizeof found, "%s%s%s", s->names.items[i].name, "");
            count++;
        }
    for (size_t i = 0; count == 0 && i < s->names.count; i++)
        list(found, sizeof found, "%s%s%s", s->names.items[i].name, "");
    for (size_t c = 0; c < CONVENTIONS; c++) {
        const char *names = names_of_layer(s->layer, &conventions[c]);
        if (names != NULL)
            list(known, sizeof known, "%s%s (%s)", names, conventions[c].authors);
    }
    if (prefix != NULL && count == 0)
        diag_error(s->diag, s->place, "no tensor's name begins with \"%s\"; the file has %s", prefix,
                   found[0] != '\0' ? found : "none at all");
    else
        diag_error(s->diag, s->place, "no weights of %s among %zu tensors%s%s: %s; known are names that end in %s%s%s",
                   key == TENSOR_W_Q ? "queries" : "the layer", count,
                   prefix != NULL ? " of " : "", prefix != NULL ? prefix : "",
                   found[0] != '\0' ? found : "none at all", known,
                   key >= TENSOR_TABLE ? ", of shape " : "",
                   key >= TENSOR_TABLE ? tensor_shape_text(shape, rank, extents) : "");
}

static const char *next_alternative(const char *at)
{
    at = strchr(at, '|');
    return at != NULL ? at + 1 : NULL;
}

/* Length of the module's name if any of the alternatives follows it, else -1. */
static long module_of(const char *name, const char *alternatives)
{
    long length = -1;
    for (const char *at = alternatives; at != NULL && length < 0; at = next_alternative(at)) {
        char suffix[100];
        snprintf(suffix, sizeof suffix, "%.*s", (int)strcspn(at, "|"), at);
        length = module_length(name, suffix);
    }
    return length;
}

static bool find_layer(struct search *s)
{
    char found[700] = "";
    size_t count = 0;
    for (size_t i = 0; i < s->names.count; i++) {
        const char *name = s->names.items[i].name;
        for (size_t c = 0; c < CONVENTIONS && has_prefix(name, s->choice->prefix); c++) {
            const long length = module_of(name, names_of_layer(s->layer, &conventions[c]));
            const bool again = s->module != NULL && length == (long)strlen(s->module) &&
                               strncmp(s->module, name, (size_t)length) == 0; /* one name in two rows */
            if (length < 0 || (again && !layer_has_tensor(s->layer, TENSOR_W_Q)))
                continue;
            list(found, sizeof found, "%s\"%s\" (%s)", name, conventions[c].authors);
            if (count++ == 0) {
                s->convention = &conventions[c];
                s->module = text_join("%.*s", (int)length, name);
            }
        }
    }
    if (count == 0)
        say_none(s);
    else if (count > 1)
        diag_error(s->diag, s->place, "weights of %zu layers: %s; choose one by the beginning of its names, as in "
                   "--prefix %s", count, found, s->module != NULL && s->module[0] != '\0' ? s->module : "NAME.");
    return count == 1;
}

/* ---- which tensors, and what they hold ------------------------------------------------------------------------- */

/* The tensor of this module with any of the alternative names; *count is how many of them exist. */
static const struct tensor *find(const struct search *s, const char *alternatives, int *count)
{
    const size_t module = strlen(s->module);
    const struct tensor *found = NULL;
    *count = 0;
    for (size_t i = 0; i < s->names.count; i++) {
        const char *name = s->names.items[i].name;
        if (strncmp(name, s->module, module) != 0)
            continue;
        for (const char *at = alternatives; at != NULL; at = next_alternative(at))
            if (strcspn(at, "|") == strlen(name + module) && strncmp(at, name + module, strcspn(at, "|")) == 0) {
                found = &s->names.items[i];
                (*count)++;
            }
    }
    return found;
}

static int64_t outputs_of(const struct layer *layer, enum role role)
{
    const int64_t outputs[ROLES] = {layer->h * layer->d_k, layer->h_kv * layer->d_k, layer->h_kv * layer->d_v,
                                    layer->d_model};
    return outputs[role];
}

static int64_t inputs_of(const struct layer *layer, enum role role)
{
    const int64_t inputs[ROLES] = {layer->d_in_q, layer->d_in_kv, layer->d_in_kv, layer->h * layer->d_v};
    return inputs[role];
}

/* The shape that the file's tensor must have; returns the rank. */
static int wanted_shape(const struct search *s, const struct part *part, int64_t shape[4])
{
    if (s->convention->stored == AS_SPEC || part->role == ROLES)
        return layer_weight_shape(s->layer, part->tensor, shape);
    const bool bias = part->tensor == tensor_of[part->role].bias;
    shape[0] = s->convention->stored != IN_OUT || bias ? part->total : part->inputs;
    shape[1] = s->convention->stored != IN_OUT ? part->inputs : part->total;
    return bias ? 1 : 2;
}

/* "[96][96] is needed (w_q, by the names of T5, which stores [out][in])" */
#define NEED_TEXT 500
static const char *need_text(char text[NEED_TEXT], const struct search *s, const struct part *part)
{
    static const char *const layouts[] = {"", ", which stores [out][in]", ", which stores [in][out]",
                                          ", which stores [out][in]"};
    int64_t shape[4];
    char should[200];
    const int rank = wanted_shape(s, part, shape);
    tensor_shape_text(should, rank, shape);
    if (layer_tensor_row(part->tensor)->kind == TENSOR_NAMED)
        snprintf(text, NEED_TEXT, "%s is needed (table.%s of the spec)", should,
                 layer_tensor_called(s->layer, part->tensor));
    else
        snprintf(text, NEED_TEXT, "%s is needed (%s, by the names of %s%s)", should,
                 part->total > part->outputs ? "q, k and v side by side" : layer_tensor_name(part->tensor),
                 s->convention->authors, rank == 2 && part->role < ROLES ? layouts[s->convention->stored] : "");
    return text;
}

static bool check_tensor(const struct search *s, const struct part *part, const struct tensor *tensor)
{
    int64_t shape[4];
    char is[200], needed[NEED_TEXT];
    const int rank = wanted_shape(s, part, shape);
    if (!is_read(tensor->type))
        diag_error(s->diag, s->place, "tensor \"%s\" is %s; F32, F16, BF16 and F64 are read", tensor->name,
                   tensor_type_name(tensor->type));
    else if (rank != tensor->rank || memcmp(shape, tensor->shape, (size_t)rank * sizeof *shape) != 0)
        diag_error(s->diag, s->place, "tensor \"%s\" is %s; %s", tensor->name,
                   tensor_shape_text(is, tensor->rank, tensor->shape), need_text(needed, s, part));
    else
        return true;
    return false;
}

/* T5 learns one rel_bias for all blocks, in the first one: the tensor of the module with 0 in place of its first
 * number */
static const struct tensor *find_shared(const struct search *s, const char *names)
{
    struct search first = *s;
    const size_t before = strcspn(s->module, "0123456789"), digits = strspn(s->module + before, "0123456789");
    int count = 0;
    first.module = text_join("%.*s0%s", (int)before, s->module, s->module + before + digits);
    const struct tensor *tensor = digits > 0 ? find(&first, names, &count) : NULL;
    free(first.module);
    return tensor;
}

/* Whether a file may have it although the layer does not */
static bool is_elsewhere(const struct search *s, enum layer_tensor tensor)
{
    return tensor == TENSOR_REL_BIAS && (s->layer->mask & MASK_ADDITIVE) != 0; /* the caller's, as mask_add */
}

/* Adds a tensor that the layer has, or finds that neither layer nor file has it. `needs`: what a spec has for it. */
static void add(struct search *s, struct part part, const char *names, const char *needs)
{
    const bool bias = layer_tensor_row(part.tensor)->kind == TENSOR_BIAS, has = layer_has_tensor(s->layer, part.tensor);
    const char *name = layer_tensor_name(part.tensor);
    char needed[NEED_TEXT];
    int count;
    const struct tensor *tensor = find(s, names, &count);
    if (has && tensor == NULL && part.tensor == TENSOR_REL_BIAS && s->layer->relative == RELATIVE_T5)
        tensor = find_shared(s, names);
    if (count > 1) {
        diag_error(s->diag, s->place, "%s could be any of %d tensors of \"%s\": %s; one is needed", name, count,
                   s->module, names);
    } else if (!has && tensor != NULL && !is_elsewhere(s, part.tensor)) {
        diag_error(s->diag, s->place, "tensor \"%s\" holds %s, and the layer has none; the spec needs %s", tensor->name,
                   name, needs);
    } else if (has && tensor == NULL && !(bias && s->choice->zero_bias)) {
        diag_error(s->diag, s->place, "tensor \"%s%s\" is missing; %s%s", s->module, names, need_text(needed, s, &part),
                   bias ? "; --zero-bias takes zeros for it, bias = false has none" : "");
    } else if (has && (tensor == NULL || check_tensor(s, &part, tensor))) {
        part.name = tensor != NULL ? tensor->name : NULL;
        s->parts[s->count++] = part;
    }
}

static void add_role(struct search *s, enum role role, bool bias)
{
    const char *const *names = bias ? s->convention->bias : s->convention->weight;
    struct part part = {.tensor = bias ? tensor_of[role].bias : tensor_of[role].weight, .role = role,
                        .inputs = bias ? 1 : inputs_of(s->layer, role), .outputs = outputs_of(s->layer, role)};
    for (enum role other = Q; other < ROLES; other++) {
        const bool shared = strcmp(names[other], names[role]) == 0;
        part.first += shared && other < role ? outputs_of(s->layer, other) : 0;
        part.total += shared ? outputs_of(s->layer, other) : 0;
    }
    add(s, part, names[role], bias ? "bias = true" : role == K ? "w_k = dense" : role == V ? "w_v = dense" : "a w_o");
}

/* A tensor whose layout needs no change */
static struct part as_it_lies(enum layer_tensor which)
{
    return (struct part){.tensor = which, .role = ROLES, .inputs = 1};
}

static bool choose_tensors(struct search *s)
{
    const struct layer *layer = s->layer;
    const size_t errors = s->diag->errors;
    int count;
    if (s->convention->stored != AS_SPEC && (layer->split || layer->w_o == W_O_CONV))
        return diag_error(s->diag, s->place, "the names of %s are of one matrix for all heads, and the layer has %s; "
                          "give its weights attngen's names: w_q, w_k, …", s->convention->authors,
                          layer->split ? "input = split" : "w_o = conv");
    if (s->convention->stored != AS_SPEC && (layer_has_block(layer) || layer_is_recurrent(layer)))
        return diag_error(s->diag, s->place, "the names of %s are of attention alone, and the layer is %s; "
                          "attngen import maps a model's blocks and attnrun pack --all NAME.layers packs them; or give "
                          "the weights attngen's names: w_q, n1_g, w_1, …", s->convention->authors,
                          layer_has_block(layer) ? "a block" : "recurrent");
    for (size_t i = 0; s->convention->stored != AS_SPEC && i < sizeof refused / sizeof *refused; i++) {
        const struct tensor *tensor = find(s, refused[i].name, &count);
        if (tensor != NULL)
            diag_error(s->diag, s->place, "tensor \"%s\" is %s, which the layer cannot have", tensor->name,
                       refused[i].what);
    }
    for (enum layer_tensor t = 0; layer_keeps_states(layer) && t < TENSOR_COUNT; t++)
        if (layer_has_tensor(layer, t) && tensor_is_packed(layer_tensor_row(t)->kind))
            add(s, as_it_lies(t), layer_tensor_name(t), NULL);
    if (layer_keeps_states(layer))
        return s->diag->errors == errors;
    for (enum role role = !layer_attends(layer) ? ROLES : layer->projected ? O : Q; role < ROLES; role++) {
        add_role(s, role, false);
        add_role(s, role, true);
    }
    for (size_t i = 0; layer_attends(layer) && i < LEARNED; i++)
        add(s, as_it_lies(learned[i].tensor), learned_names(s->convention, &learned[i]), learned[i].needs);
    const enum layer_tensor last = layer_is_linear(layer) ? TENSOR_B : TENSOR_B_2;
    for (enum layer_tensor t = TENSOR_N1_G; s->convention->stored == AS_SPEC && t <= last; t++)
        add(s, as_it_lies(t), layer_tensor_name(t),
            t == TENSOR_B      ? "bias = true"
            : t < TENSOR_W_1   ? "a block with this norm"
            : t == TENSOR_W_G || t == TENSOR_B_G ? "an ffn with a gate" : "an ffn");
    for (enum layer_tensor t = TENSOR_TABLE; t <= TENSOR_TABLE_LAST; t++)
        if (layer_has_tensor(s->layer, t)) /* under its own name by every convention */
            add(s, as_it_lies(t), layer_tensor_called(s->layer, t), NULL);
    return s->diag->errors == errors;
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

static bool is_chosen(const char *name, const void *context)
{
    const struct search *s = context;
    for (size_t i = 0; i < s->count; i++)
        if (s->parts[i].name != NULL && strcmp(s->parts[i].name, name) == 0)
            return true;
    return false;
}

/* Index of an output of q, k or v among those of the file's tensor */
static int64_t stored_output(const struct search *s, const struct part *part, int64_t output)
{
    const struct layer *l = s->layer;
    if (s->convention->stored != OUT_IN_GROUPS || part->total == part->outputs)
        return part->first + output;
    const int64_t queries = l->h / l->h_kv, width = part->role == V ? l->d_v : l->d_k;
    const int64_t first[] = {[Q] = 0, [K] = queries * l->d_k, [V] = (queries + 1) * l->d_k};
    const int64_t heads = part->role == Q ? queries : 1, head = output / width;
    return head / heads * (part->total / l->h_kv) + first[part->role] + head % heads * width + output % width;
}

static bool is_gain(enum layer_tensor tensor)
{
    return tensor == TENSOR_G_Q || tensor == TENSOR_G_K || tensor == TENSOR_N1_G || tensor == TENSOR_N2_G ||
           tensor == TENSOR_N3_G || tensor == TENSOR_N4_G;
}

/* from the file's order to the spec's */
static bool convert(const struct search *s, const struct part *part, const struct tensor *from, struct tensor *to)
{
    const bool as_it_is = s->convention->stored == AS_SPEC || part->role == ROLES;
    const bool in_out = s->convention->stored == IN_OUT;
    const float more = s->choice->norm_plus_one && is_gain(part->tensor) ? 1 : 0;
    float *out = to->data;
    for (int64_t at = 0; as_it_is && at < (int64_t)(to->bytes / sizeof *out); at++)
        out[at] = element(from, at) + more;
    for (int64_t o = 0; !as_it_is && o < part->outputs; o++)
        for (int64_t i = 0; i < part->inputs; i++)
            out[s->layer->out_in ? o * part->inputs + i : i * part->outputs + o] =
                element(from, in_out ? i * part->total + stored_output(s, part, o)
                                     : stored_output(s, part, o) * part->inputs + i);
    for (size_t at = 0; at < to->bytes / sizeof *out; at++)
        if (!isfinite(out[at]))
            return diag_error(s->diag, s->place, "tensor \"%s\": %s holds %g as an f32, element %zu of %zu; weights "
                              "have to be finite", from->name, to->name, (double)out[at], at, to->bytes / sizeof *out);
    return true;
}

static bool make_tensor(const struct search *s, const struct part *part, const struct tensors *file,
                        struct tensors *weights)
{
    struct tensor *to = &weights->items[weights->count];
    *to = (struct tensor){.type = TYPE_F32, .bytes = sizeof(float)};
    to->rank = layer_weight_shape(s->layer, part->tensor, to->shape);
    for (int i = 0; i < to->rank; i++)
        to->bytes *= (size_t)to->shape[i];
    to->name = text_copy(layer_tensor_called(s->layer, part->tensor));
    to->data = calloc(1, to->bytes);
    weights->count++;
    if (to->data == NULL)
        return diag_environment(s->diag, s->place, "out of memory");
    if (part->name == NULL)
        return true; /* zeros: the file has none */
    const struct tensor *from = tensors_find(file, part->name);
    if (from == NULL || from->data == NULL || !check_tensor(s, part, from))
        return diag_environment(s->diag, s->place, "was changed while it was read");
    return convert(s, part, from, to);
}

static bool nothing(const char *name, const void *context)
{
    (void)name;
    (void)context;
    return false;
}

static bool has_weights(const struct layer *layer)
{
    bool any = false;
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        any = any || (tensor_is_packed(layer_tensor_row(t)->kind) && layer_has_tensor(layer, t));
    return any;
}

bool weights_read(struct tensors *weights, const struct layer *layer, const struct weights_choice *choice,
                  struct diag *diag)
{
    const char *path = choice->path;
    struct search s = {.layer = layer, .choice = choice, .place = path, .diag = diag};
    OWNED(tensors_free) struct tensors file = {0};
    if (!has_weights(layer)) {
        *weights = (struct tensors){0};
        if (path != NULL)
            diag_error(diag, path, "the layer has no weights; leave out --weights");
        return path == NULL;
    }
    if (path == NULL)
        return diag_error(diag, "attnrun pack", "pack needs --weights FILE; see attnrun help pack");
    *weights = (struct tensors){.items = memory_get(PARTS, sizeof *weights->items)};
    bool good = tensors_read_some(&s.names, path, nothing, NULL, diag) && find_layer(&s) &&
                choose_tensors(&s) && tensors_read_some(&file, path, is_chosen, &s, diag);
    for (size_t i = 0; good && i < s.count; i++)
        good = make_tensor(&s, &s.parts[i], &file, weights);
    if (!good)
        tensors_free(weights);
    tensors_free(&s.names);
    free(s.module);
    return good;
}
