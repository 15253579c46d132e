/* SPDX-License-Identifier: MIT */
/* Names of weights as a table, and what follows from it: which tensors of a file are the layer's, and where in them
 * each number lies.
 *
 * A layer in a file is a module's name ("h.0.attn.", empty in a file of one layer) and a row of the table, and it is
 * there where the tensor of the row's query weights is.
 */
#include "weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum role { Q, K, V, O, ROLES };
enum stored { AS_SPEC, OUT_IN, IN_OUT }; /* of matrices: as weight_layout says, [out][in], [in][out] */

/* Names behind the module's. Where one name stands for several roles, one tensor holds their outputs side by side in
 * the order q, k, v. '|' parts alternatives. */
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
    {"GPT-2", IN_OUT,
     {"c_attn.weight", "c_attn.weight", "c_attn.weight", "c_proj.weight"},
     {"c_attn.bias", "c_attn.bias", "c_attn.bias", "c_proj.bias"}},
    {"BERT, RoBERTa, ELECTRA", OUT_IN,
     {"self.query.weight", "self.key.weight", "self.value.weight", "output.dense.weight"},
     {"self.query.bias", "self.key.bias", "self.value.bias", "output.dense.bias"}},
    {"ViT, DeiT", OUT_IN,
     {"attention.query.weight", "attention.key.weight", "attention.value.weight", "output.dense.weight"},
     {"attention.query.bias", "attention.key.bias", "attention.value.bias", "output.dense.bias"}},
    {"DistilBERT", OUT_IN,
     {"q_lin.weight", "k_lin.weight", "v_lin.weight", "out_lin.weight"},
     {"q_lin.bias", "k_lin.bias", "v_lin.bias", "out_lin.bias"}},
    {"Llama, Mistral, Qwen2, Whisper, BART, CLIP, OPT", OUT_IN,
     {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight|out_proj.weight"},
     {"q_proj.bias", "k_proj.bias", "v_proj.bias", "o_proj.bias|out_proj.bias"}},
    {"T5", OUT_IN,
     {"q.weight", "k.weight", "v.weight", "o.weight"},
     {"q.bias", "k.bias", "v.bias", "o.bias"}},
    {"timm", OUT_IN,
     {"qkv.weight", "qkv.weight", "qkv.weight", "proj.weight"},
     {"qkv.bias", "qkv.bias", "qkv.bias", "proj.bias"}},
    {"Phi-3", OUT_IN,
     {"qkv_proj.weight", "qkv_proj.weight", "qkv_proj.weight", "o_proj.weight"},
     {"qkv_proj.bias", "qkv_proj.bias", "qkv_proj.bias", "o_proj.bias"}},
};
#define CONVENTIONS (sizeof conventions / sizeof *conventions)

/* What a module may hold besides that changes what it computes. */
static const struct { const char *name, *what; } refused[] = {
    {"bias_k", "a key of its own behind the others (add_bias_kv)"},
    {"bias_v", "a value of its own behind the others (add_bias_kv)"},
    {"q_norm.weight", "a normalization of queries"},
    {"k_norm.weight", "a normalization of keys"},
    {"relative_attention_bias.weight", "a bias of the scores; a layer with mask = additive takes it as mask_add"},
};

static const struct { enum layer_tensor weight, bias; } tensor_of[ROLES] = {
    [Q] = {TENSOR_W_Q, TENSOR_B_Q}, [K] = {TENSOR_W_K, TENSOR_B_K},
    [V] = {TENSOR_W_V, TENSOR_B_V}, [O] = {TENSOR_W_O, TENSOR_B_O},
};

/* Where one tensor of the layer comes from. */
struct part {
    enum layer_tensor tensor;
    enum role role;
    const char *name;     /* in the file; NULL: zeros */
    int64_t inputs;       /* 1 for a bias */
    int64_t outputs, first, total; /* its own, and where they begin among all that the tensor in the file holds */
};

struct search {
    const struct layer *layer;
    const struct weights_choice *choice;
    const char *place;
    struct diag *diag;
    struct tensors names; /* of the file, without data */
    const struct convention *convention;
    char *module;
    struct part parts[2 * ROLES];
    size_t count;
};

/* ---- element types --------------------------------------------------------------------------------------------- */

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float weights_float_of_bf16(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

/* 1 + 5 + 10 bits. Shifted up to an f32's places, exponent and fraction mean 2^-112 of what they should, denormal or
 * not, so that a product sets them right; infinity and NaN have the exponent 31. */
float weights_float_of_f16(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = (uint32_t)(bits & 0x7fff) << 13;
    const bool finite = (bits & 0x7c00) != 0x7c00;
    const float size = finite ? float_of_bits(rest) * 0x1p112f : float_of_bits(rest | 0x7f800000u);
    uint32_t size_bits;
    memcpy(&size_bits, &size, sizeof size_bits);
    return float_of_bits(sign | size_bits);
}

static bool is_read(enum tensor_type type)
{
    return type == TYPE_F32 || type == TYPE_F16 || type == TYPE_BF16 || type == TYPE_F64;
}

static float element(const struct tensor *tensor, int64_t at)
{
    switch (tensor->type) {
    case TYPE_F16: return weights_float_of_f16(((const uint16_t *)tensor->data)[at]);
    case TYPE_BF16: return weights_float_of_bf16(((const uint16_t *)tensor->data)[at]);
    case TYPE_F64: return (float)((const double *)tensor->data)[at];
    default: return ((const float *)tensor->data)[at];
    }
}

/* ---- which layer of the file ----------------------------------------------------------------------------------- */

/* Whether a name belongs to the module that was asked for: "h.1" and "h.1." are h.1's, not h.10's. */
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

/* Appends to a list that ends in "…" where it is full. */
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

/* The first role whose weights the layer has: of a layer whose queries, keys and values are given, that of the output. */
static enum role first_role(const struct layer *layer)
{
    return layer->projected ? O : Q;
}

static void say_none(struct search *s)
{
    char found[500] = "", known[700] = "";
    const char *prefix = s->choice->prefix;
    size_t count = 0;
    for (size_t i = 0; i < s->names.count; i++)
        if (has_prefix(s->names.items[i].name, prefix)) {
            list(found, sizeof found, "%s%s%s", s->names.items[i].name, "");
            count++;
        }
    for (size_t i = 0; count == 0 && i < s->names.count; i++)
        list(found, sizeof found, "%s%s%s", s->names.items[i].name, "");
    for (size_t c = 0; c < CONVENTIONS; c++)
        list(known, sizeof known, "%s%s (%s)", conventions[c].weight[first_role(s->layer)], conventions[c].authors);
    if (prefix != NULL && count == 0)
        diag_error(s->diag, s->place, "no tensor's name begins with \"%s\"; the file has %s", prefix,
                   found[0] != '\0' ? found : "none at all");
    else
        diag_error(s->diag, s->place, "no weights of %s among %zu tensors%s%s: %s; known are names that end in %s",
                   first_role(s->layer) == Q ? "queries" : "the output", count, prefix != NULL ? " of " : "", prefix != NULL ? prefix : "",
                   found[0] != '\0' ? found : "none at all", known);
}

/* The same of any of the alternatives. */
static long module_length_of_any(const char *name, const char *alternatives)
{
    long length = -1;
    for (const char *at = alternatives; at != NULL && length < 0; at = strchr(at, '|') != NULL ? strchr(at, '|') + 1 : NULL) {
        char suffix[80];
        snprintf(suffix, sizeof suffix, "%.*s", (int)strcspn(at, "|"), at);
        length = module_length(name, suffix);
    }
    return length;
}

static bool find_layer(struct search *s)
{
    const enum role first = first_role(s->layer);
    char found[700] = "";
    size_t count = 0;
    for (size_t i = 0; i < s->names.count; i++) {
        const char *name = s->names.items[i].name;
        for (size_t c = 0; c < CONVENTIONS && has_prefix(name, s->choice->prefix); c++) {
            const long length = module_length_of_any(name, conventions[c].weight[first]);
            if (length < 0)
                continue;
            list(found, sizeof found, "%s\"%s\" (%s)", name, conventions[c].authors);
            if (count++ == 0) {
                s->convention = &conventions[c];
                s->module = strndup(name, (size_t)length);
            }
            if (first == O) /* authors who call outputs alike store them alike */
                break;
        }
    }
    if (count == 0)
        say_none(s);
    else if (count > 1)
        diag_error(s->diag, s->place, "weights of %zu layers: %s; choose one by the beginning of its names, as in "
                   "--prefix %s", count, found, s->module != NULL && s->module[0] != '\0' ? s->module : "NAME.");
    else if (s->module == NULL)
        diag_environment(s->diag, s->place, "out of memory");
    return count == 1 && s->module != NULL;
}

/* ---- which tensors, and what they hold ------------------------------------------------------------------------- */

/* The tensor of module and name, any of the alternatives; *count says how many of them are there. */
static const struct tensor *find(const struct search *s, const char *alternatives, int *count)
{
    const size_t module = strlen(s->module);
    const struct tensor *found = NULL;
    *count = 0;
    for (size_t i = 0; i < s->names.count; i++) {
        const char *name = s->names.items[i].name;
        if (strncmp(name, s->module, module) != 0)
            continue;
        for (const char *at = alternatives; at != NULL; at = strchr(at, '|') != NULL ? strchr(at, '|') + 1 : NULL)
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

/* The shape that the file's tensor has to have; the rank. */
static int wanted_shape(const struct search *s, const struct part *part, int64_t shape[4])
{
    const bool bias = part->tensor == tensor_of[part->role].bias;
    if (s->convention->stored == AS_SPEC)
        return layer_weight_shape(s->layer, part->tensor, shape);
    shape[0] = s->convention->stored == OUT_IN || bias ? part->total : part->inputs;
    shape[1] = s->convention->stored == OUT_IN ? part->inputs : part->total;
    return bias ? 1 : 2;
}

static bool check_tensor(const struct search *s, const struct part *part, const struct tensor *tensor)
{
    static const char *const layouts[] = {"", ", which stores [out][in]", ", which stores [in][out]"};
    int64_t shape[4];
    char is[200], should[200];
    const int rank = wanted_shape(s, part, shape);
    if (!is_read(tensor->type))
        diag_error(s->diag, s->place, "tensor \"%s\" is %s; F32, F16, BF16 and F64 are read", tensor->name,
                   tensor_type_name(tensor->type));
    else if (rank != tensor->rank || memcmp(shape, tensor->shape, (size_t)rank * sizeof *shape) != 0)
        diag_error(s->diag, s->place, "tensor \"%s\" is %s; %s is needed (%s, by the names of %s%s)", tensor->name,
                   tensor_shape_text(is, tensor->rank, tensor->shape), tensor_shape_text(should, rank, shape),
                   part->total > part->outputs ? "q, k and v side by side" : layer_tensor_name(part->tensor),
                   s->convention->authors, rank == 2 ? layouts[s->convention->stored] : "");
    else
        return true;
    return false;
}

/* One of the layer's tensors, or one that the layer does not have and the file must not have either. */
static void add_part(struct search *s, enum role role, bool bias)
{
    const char *const *names = bias ? s->convention->bias : s->convention->weight;
    const enum layer_tensor which = bias ? tensor_of[role].bias : tensor_of[role].weight;
    struct part part = {.tensor = which, .role = role, .inputs = bias ? 1 : inputs_of(s->layer, role),
                        .outputs = outputs_of(s->layer, role)};
    int count;
    const struct tensor *tensor = find(s, names[role], &count);
    for (enum role other = Q; other < ROLES; other++) {
        const bool shared = strcmp(names[other], names[role]) == 0;
        part.first += shared && other < role ? outputs_of(s->layer, other) : 0;
        part.total += shared ? outputs_of(s->layer, other) : 0;
    }
    if (count > 1) {
        diag_error(s->diag, s->place, "%s could be any of %d tensors of \"%s\": %s; one is needed",
                   layer_tensor_name(which), count, s->module, names[role]);
    } else if (!layer_has_tensor(s->layer, which)) {
        if (tensor != NULL)
            diag_error(s->diag, s->place, "tensor \"%s\" holds %s, and the layer has none; the spec needs %s",
                       tensor->name, layer_tensor_name(which),
                       bias ? "bias = true" : role == K ? "w_k = dense" : role == V ? "w_v = dense" : "a w_o");
    } else if (tensor == NULL && !(bias && s->choice->zero_bias)) {
        diag_error(s->diag, s->place, "tensor \"%s%s\" is missing (%s, by the names of %s)%s", s->module, names[role],
                   layer_tensor_name(which), s->convention->authors,
                   bias ? "; --zero-bias takes zeros for it, bias = false has none" : "");
    } else if (tensor == NULL || check_tensor(s, &part, tensor)) {
        part.name = tensor != NULL ? tensor->name : NULL;
        s->parts[s->count++] = part;
    }
}

static bool choose_tensors(struct search *s)
{
    const struct layer *layer = s->layer;
    const size_t errors = s->diag->errors;
    int count;
    if (s->convention->stored != AS_SPEC && (layer->split || layer->w_o == W_O_CONV)) {
        diag_error(s->diag, s->place, "the names of %s are of one matrix for all heads, and the layer has %s; give its "
                   "weights attngen's names: w_q, w_k, …", s->convention->authors,
                   layer->split ? "input = split" : "w_o = conv");
        return false;
    }
    for (size_t i = 0; s->convention->stored != AS_SPEC && i < sizeof refused / sizeof *refused; i++) {
        const struct tensor *tensor = find(s, refused[i].name, &count);
        const bool as_mask = (layer->mask & MASK_ADDITIVE) && strncmp(refused[i].name, "relative", 8) == 0;
        if (tensor != NULL && !as_mask)
            diag_error(s->diag, s->place, "tensor \"%s\" is %s, which the layer cannot have", tensor->name,
                       refused[i].what);
    }
    for (enum role role = first_role(layer); role < ROLES; role++) {
        add_part(s, role, false);
        add_part(s, role, true);
    }
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

/* from the file's order to the spec's */
static bool convert(const struct search *s, const struct part *part, const struct tensor *from, struct tensor *to)
{
    const bool as_it_is = s->convention->stored == AS_SPEC || part->inputs == 1;
    const bool in_out = s->convention->stored == IN_OUT;
    float *out = to->data;
    for (int64_t at = 0; as_it_is && at < (int64_t)(to->bytes / sizeof *out); at++)
        out[at] = element(from, part->first + at);
    for (int64_t o = 0; !as_it_is && o < part->outputs; o++)
        for (int64_t i = 0; i < part->inputs; i++)
            out[s->layer->out_in ? o * part->inputs + i : i * part->outputs + o] =
                element(from, in_out ? i * part->total + part->first + o : (part->first + o) * part->inputs + i);
    for (size_t at = 0; at < to->bytes / sizeof *out; at++)
        if (!isfinite(out[at])) {
            diag_error(s->diag, s->place, "tensor \"%s\": %s holds %g as an f32, element %zu of %zu; weights have to "
                       "be finite", from->name, to->name, (double)out[at], at, to->bytes / sizeof *out);
            return false;
        }
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
    to->name = strdup(layer_tensor_name(part->tensor));
    to->data = calloc(1, to->bytes);
    weights->count++;
    if (to->name == NULL || to->data == NULL) {
        diag_environment(s->diag, s->place, "out of memory");
        return false;
    }
    if (part->name == NULL)
        return true; /* zeros: the file has none */
    const struct tensor *from = tensors_find(file, part->name);
    if (from == NULL || from->data == NULL || !check_tensor(s, part, from)) {
        diag_environment(s->diag, s->place, "was changed while it was read");
        return false;
    }
    return convert(s, part, from, to);
}

static bool nothing(const char *name, const void *context)
{
    (void)name;
    (void)context;
    return false;
}

bool weights_read(struct tensors *weights, const struct layer *layer, const struct weights_choice *choice,
                  struct diag *diag)
{
    const char *path = choice->path;
    struct search s = {.layer = layer, .choice = choice, .place = path, .diag = diag};
    struct tensors file = {0};
    if (layer->projected && layer->w_o == W_O_NONE) {
        *weights = (struct tensors){0};
        if (path != NULL)
            diag_error(diag, path, "the layer has no weights; leave out --weights");
        return path == NULL;
    }
    if (path == NULL) {
        diag_error(diag, "attnrun pack", "pack needs --weights FILE; see attnrun help pack");
        return false;
    }
    *weights = (struct tensors){.items = calloc(ROLES, 2 * sizeof *weights->items)};
    if (weights->items == NULL)
        diag_environment(diag, path, "out of memory");
    bool good = weights->items != NULL && tensors_read_some(&s.names, path, nothing, NULL, diag) && find_layer(&s) &&
                choose_tensors(&s) && tensors_read_some(&file, path, is_chosen, &s, diag);
    for (size_t i = 0; good && i < s.count; i++)
        good = make_tensor(&s, &s.parts[i], &file, weights);
    if (!good)
        tensors_free(weights);
    tensors_free(&file);
    tensors_free(&s.names);
    free(s.module);
    return good;
}
