/* SPDX-License-Identifier: MIT */
/* Reads a spec: bytes -> lines -> values by key.
 *
 *   lines   "key = value" lines and --set texts, duplicates found, --set over the file
 *   values  each value by its key's kind (size, word, mask, ...)
 */
#include "spec/spec.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/name.h"
#include "base/number.h"
#include "spec/score.h"

#define MAX_SIZE INT64_C(2147483647)
#define MAX_SHOWN 60 /* characters of a value that a message repeats */
#define LOG2_E 1.4426950408889634

/* ---- keys ------------------------------------------------------------------------------------------------ */

enum kind { KIND_NAME, KIND_SIZE, KIND_REACH, KIND_COUNT, KIND_MASK, KIND_FACTOR, KIND_CAP, KIND_POSITIVE, KIND_SHARE,
            KIND_WORD, KIND_EXPRESSION };

/* What the line of a plan file that tells a layer has of a key that is not at its default; whoever leaves the column
 * out has the value in it. */
enum steering {
    STEERS,         /* its value */
    STEERS_IF_ANY,  /* that there is one */
    STEERS_SIZES,   /* planfile.c writes it, with defaults that are other keys' */
    STEERS_NOTHING  /* numbers that no plan depends on */
};

struct key_row {
    const char *name;
    enum kind kind;
    const char *const *words; /* KIND_WORD: the value is the index; the first is the default */
    enum steering steers;
};

static const char *const words_layer[] = {"attention", "ffn", "linear", NULL}; /* as enum layer_kind */
static const char *const words_width[] = {"narrow", "wide", NULL};
static const char *const words_input[] = {"shared", "split", "projected", NULL}; /* as enum layer_input */
static const char *const words_heads[] = {"last", "first", NULL};
static const char *const words_offset[] = {"none", "past", "end", NULL}; /* as enum layer_offset */
static const char *const words_cache[] = {"none", "rows", "ring", "paged", NULL}; /* as enum layer_cache */
static const char *const words_pad_rows[] = {"computed", "skipped", NULL};
static const char *const words_qk_norm[] = {"none", "rms", "layer", "l2", "rms_all", NULL}; /* as enum layer_norm */
static const char *const words_rope[] = {"none", "half", "interleaved", NULL}; /* as enum layer_rope */
static const char *const words_rope_positions[] = {"offset", "given", NULL};
static const char *const words_rope_scaling[] = {"none", "linear", "llama3", "yarn", NULL};
static const char *const words_relative[] = {"none", "t5", "table", NULL}; /* as enum layer_relative */
static const char *const words_scores[] = {"false", "true", "raw", "capped", "biased", "weights", NULL};
static const char *const words_attention[] = {"self", "cross", NULL};
static const char *const words_w_k[] = {"dense", "tied", NULL};
static const char *const words_w_v[] = {"dense", "identity", NULL};
static const char *const words_w_o[] = {"dense", "none", "conv", NULL}; /* as enum layer_w_o */
static const char *const words_switch[] = {"false", "true", NULL};
static const char *const words_block[] = {"none", "post", "pre", "parallel", "sandwich", NULL}; /* enum layer_block */
static const char *const words_norm[] = {"layer", "rms", "none", NULL}; /* as enum norm_word */
static const char *const words_ffn[] = {"none", "relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "geglu_tanh",
                                        NULL}; /* as enum layer_ffn */
static const char *const words_activation[] = {"none", "relu", "gelu", "gelu_tanh", "silu", "tanh",
                                               NULL}; /* as enum layer_activation */
static const char *const words_weight_layout[] = {"in_out", "out_in", NULL};
/* as element_types in layer.c */
static const char *const words_cache_type[] = {"f32", "bf16", "f16", "i8", NULL};
static const char *const words_tensor_type[] = {"f32", "bf16", "f16", NULL};
/* as enum layer_precision */
static const char *const words_precision[] = {"f32", "i16", "i8", "bf16", NULL};
static const char *const words_weight_type[] = {"f32", "bf16", "f16", "i8", "i4", NULL};

static const struct key_row keys[KEY_COUNT] = {
    [KEY_NAME] = {"name", KIND_NAME, NULL, STEERS_NOTHING},
    [KEY_LAYER] = {"layer", KIND_WORD, words_layer, STEERS},
    [KEY_D_IN] = {"d_in", KIND_SIZE, NULL, STEERS_SIZES},
    [KEY_D_OUT] = {"d_out", KIND_SIZE, NULL, STEERS},
    [KEY_D_MODEL] = {"d_model", KIND_SIZE, NULL, STEERS_SIZES},
    [KEY_H] = {"h", KIND_SIZE, NULL, STEERS_SIZES},
    [KEY_H_KV] = {"h_kv", KIND_SIZE, NULL, STEERS_SIZES},
    [KEY_WIDTH] = {"width", KIND_WORD, words_width, STEERS_SIZES},
    [KEY_D_K] = {"d_k", KIND_SIZE, NULL, STEERS_SIZES},
    [KEY_D_V] = {"d_v", KIND_SIZE, NULL, STEERS_SIZES},
    [KEY_INPUT] = {"input", KIND_WORD, words_input, STEERS_SIZES},
    [KEY_HEADS] = {"heads", KIND_WORD, words_heads, STEERS_SIZES},
    [KEY_ATTENTION] = {"attention", KIND_WORD, words_attention, STEERS_SIZES},
    [KEY_D_SOURCE] = {"d_source", KIND_SIZE, NULL, STEERS_SIZES},
    [KEY_SEQ_LEN] = {"seq_len", KIND_SIZE, NULL, STEERS_SIZES},
    [KEY_SOURCE_LEN] = {"source_len", KIND_SIZE, NULL, STEERS_SIZES},
    [KEY_SOURCE_KEPT] = {"source_kept", KIND_WORD, words_switch, STEERS},
    [KEY_CACHE] = {"cache", KIND_WORD, words_cache, STEERS},
    [KEY_CACHE_TYPE] = {"cache_type", KIND_WORD, words_cache_type, STEERS},
    [KEY_CACHE_LEN] = {"cache_len", KIND_SIZE, NULL, STEERS},
    [KEY_PAGE_LEN] = {"page_len", KIND_SIZE, NULL, STEERS},
    [KEY_OFFSET] = {"offset", KIND_WORD, words_offset, STEERS},
    [KEY_MASK] = {"mask", KIND_MASK, NULL, STEERS_SIZES},
    [KEY_WINDOW_LEFT] = {"window_left", KIND_REACH, NULL, STEERS_SIZES},
    [KEY_WINDOW_RIGHT] = {"window_right", KIND_REACH, NULL, STEERS_SIZES},
    [KEY_PAD_ROWS] = {"pad_rows", KIND_WORD, words_pad_rows, STEERS},
    [KEY_W_K] = {"w_k", KIND_WORD, words_w_k, STEERS_SIZES},
    [KEY_W_V] = {"w_v", KIND_WORD, words_w_v, STEERS_SIZES},
    [KEY_W_O] = {"w_o", KIND_WORD, words_w_o, STEERS_SIZES},
    [KEY_CONV_WIDTH] = {"conv_width", KIND_SIZE, NULL, STEERS_SIZES},
    [KEY_BIAS] = {"bias", KIND_WORD, words_switch, STEERS_SIZES},
    [KEY_QK_NORM] = {"qk_norm", KIND_WORD, words_qk_norm, STEERS},
    [KEY_NORM_EPS] = {"norm_eps", KIND_POSITIVE, NULL, STEERS_NOTHING},
    [KEY_ROPE] = {"rope", KIND_WORD, words_rope, STEERS},
    [KEY_ROPE_DIMS] = {"rope_dims", KIND_SIZE, NULL, STEERS_SIZES},
    [KEY_ROPE_THETA] = {"rope_theta", KIND_POSITIVE, NULL, STEERS_NOTHING},
    [KEY_ROPE_POSITIONS] = {"rope_positions", KIND_WORD, words_rope_positions, STEERS},
    [KEY_ROPE_SCALING] = {"rope_scaling", KIND_WORD, words_rope_scaling, STEERS_NOTHING},
    [KEY_ROPE_FACTOR] = {"rope_factor", KIND_POSITIVE, NULL, STEERS_NOTHING},
    [KEY_ROPE_ORIGINAL_LEN] = {"rope_original_len", KIND_POSITIVE, NULL, STEERS_NOTHING},
    [KEY_ROPE_LOW] = {"rope_low", KIND_POSITIVE, NULL, STEERS_NOTHING},
    [KEY_ROPE_HIGH] = {"rope_high", KIND_POSITIVE, NULL, STEERS_NOTHING},
    [KEY_ROPE_BETA_FAST] = {"rope_beta_fast", KIND_POSITIVE, NULL, STEERS_NOTHING},
    [KEY_ROPE_BETA_SLOW] = {"rope_beta_slow", KIND_POSITIVE, NULL, STEERS_NOTHING},
    [KEY_ROPE_TRUNCATE] = {"rope_truncate", KIND_WORD, words_switch, STEERS_NOTHING},
    [KEY_ROPE_ATTENTION_FACTOR] = {"rope_attention_factor", KIND_POSITIVE, NULL, STEERS_NOTHING},
    [KEY_ALIBI] = {"alibi", KIND_WORD, words_switch, STEERS},
    [KEY_RELATIVE] = {"relative", KIND_WORD, words_relative, STEERS},
    [KEY_REL_BUCKETS] = {"rel_buckets", KIND_SIZE, NULL, STEERS},
    [KEY_REL_DISTANCE] = {"rel_distance", KIND_SIZE, NULL, STEERS_NOTHING},
    [KEY_REL_LEFT] = {"rel_left", KIND_COUNT, NULL, STEERS},
    [KEY_REL_RIGHT] = {"rel_right", KIND_COUNT, NULL, STEERS},
    [KEY_SCORE] = {"score", KIND_EXPRESSION, NULL, STEERS},
    [KEY_VISIBLE] = {"visible", KIND_EXPRESSION, NULL, STEERS},
    [KEY_SINK] = {"sink", KIND_WORD, words_switch, STEERS},
    [KEY_SCORES] = {"scores", KIND_WORD, words_scores, STEERS_SIZES},
    [KEY_LSE] = {"lse", KIND_WORD, words_switch, STEERS},
    [KEY_TRAIN] = {"train", KIND_WORD, words_switch, STEERS},
    [KEY_DROPOUT] = {"dropout", KIND_SHARE, NULL, STEERS_IF_ANY},
    [KEY_BLOCK] = {"block", KIND_WORD, words_block, STEERS},
    [KEY_NORM] = {"norm", KIND_WORD, words_norm, STEERS},
    [KEY_NORM_SHARED] = {"norm_shared", KIND_WORD, words_switch, STEERS},
    [KEY_FFN] = {"ffn", KIND_WORD, words_ffn, STEERS},
    [KEY_D_FF] = {"d_ff", KIND_SIZE, NULL, STEERS},
    [KEY_FFN_BIAS] = {"ffn_bias", KIND_WORD, words_switch, STEERS},
    [KEY_ACTIVATION] = {"activation", KIND_WORD, words_activation, STEERS},
    [KEY_WEIGHT_LAYOUT] = {"weight_layout", KIND_WORD, words_weight_layout, STEERS_NOTHING},
    [KEY_WEIGHT_TYPE] = {"weight_type", KIND_WORD, words_weight_type, STEERS},
    [KEY_PRECISION] = {"precision", KIND_WORD, words_precision, STEERS},
    [KEY_TENSOR_TYPE] = {"tensor_type", KIND_WORD, words_tensor_type, STEERS},
};

static bool is_number(enum key key)
{
    return key >= KEY_TERMS && key < KEY_TERMS + SCORE_TERMS;
}

const char *spec_key_name(enum key key)
{
    return is_number(key) ? score_terms[key - KEY_TERMS].key : keys[key].name;
}

static enum steering steering_of(enum key key)
{
    return key == KEY_TERMS + SCORE_SCALE ? STEERS_NOTHING : is_number(key) ? STEERS_IF_ANY : keys[key].steers;
}

static bool is_key(enum key key, const char *text)
{
    return spec_key_name(key) != NULL && strcmp(text, spec_key_name(key)) == 0;
}

/* ---- text ------------------------------------------------------------------------------------------------ */

struct shown { char text[4 * MAX_SHOWN + 4]; };

/* Text as a message may repeat it: cut, and with every byte visible (a no-break space in a number is otherwise
 * hard to find). */
static struct shown show(const char *text)
{
    struct shown shown;
    size_t used = 0, taken = 0;
    for (; taken < MAX_SHOWN && text[taken] != '\0'; taken++) {
        const unsigned char byte = (unsigned char)text[taken];
        if (byte >= 0x20 && byte < 0x7f)
            shown.text[used++] = (char)byte;
        else
            used += (size_t)snprintf(shown.text + used, 5, "\\x%02x", byte);
    }
    strcpy(shown.text + used, text[taken] != '\0' ? "..." : "");
    return shown;
}

char *spec_copy(const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

void spec_out_of_memory(struct spec *spec)
{
    if (!spec->failed)
        diag_environment(spec->diag, spec->path, "out of memory; free some and try again");
    spec->failed = true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Narrows [*text, *text + *length) to what stands between the blanks. */
static void trim(const char **text, size_t *length)
{
    while (*length > 0 && is_blank(**text)) {
        (*text)++;
        (*length)--;
    }
    while (*length > 0 && is_blank((*text)[*length - 1]))
        (*length)--;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "narrow or wide", "a, b or c" */
static void list_words(const char *const *words, char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; words[i] != NULL && used < size; i++) {
        const char *joint = i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ";
        used += (size_t)snprintf(text + used, size - used, "%s%s", joint, words[i]);
    }
}

/* The word of these that was perhaps meant. */
static struct nearest nearest_word(const char *const *words, const char *text, size_t length)
{
    struct nearest nearest = nearest_to(text, length);
    for (size_t i = 0; words[i] != NULL; i++)
        nearest_offer(&nearest, words[i]);
    return nearest;
}

/* ---- lines ----------------------------------------------------------------------------------------------- */

static void free_entry(struct entry *entry)
{
    free(entry->key);
    free(entry->value);
    free(entry->place);
    *entry = (struct entry){0};
}

static bool is_plan_key(const char *key)
{
    if (strncmp(key, "plan.", 5) != 0 || key[5] == '\0')
        return false;
    for (key += 5; *key != '\0'; key++)
        if (!is_letter(*key) && !is_digit(*key) && *key != '_' && *key != '.')
            return false;
    return true;
}

static bool is_table_key(const char *key)
{
    return strncmp(key, "table.", 6) == 0 && key[6] != '\0';
}

bool layer_knows_key(const char *key)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (is_key(i, key))
            return true;
    return is_plan_key(key) || is_table_key(key);
}

struct nearest layer_nearest_key(const char *key)
{
    struct nearest nearest = nearest_to(key, strlen(key));
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (spec_key_name(i) != NULL)
            nearest_offer(&nearest, spec_key_name(i));
    return nearest;
}

/* Whether `word` is one of `words`, which blanks part. */
static bool is_of(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = words; length > 0 && (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

/* Keys of a config.json (docs/spec.md, "From a config.json") and arguments of PyTorch and ONNX, and what a spec has. */
static const struct {
    const char *theirs, *ours;
} foreign_keys[] = {
    {"hidden_size n_embd embed_dim n_embed emb_dim dim model_dim hidden_dim", "'d_model'"},
    {"num_attention_heads n_head n_heads num_heads nhead q_num_heads heads_q", "'h'"},
    {"num_key_value_heads n_kv_heads num_kv_heads n_kv_head kv_num_heads num_query_groups enable_gqa", "'h_kv'"},
    {"head_dim d_kv head_size d_head dim_head qk_head_dim v_head_dim", "'d_k' and 'd_v'"},
    {"max_position_embeddings n_positions n_ctx max_seq_len max_length context_length block_size", "'seq_len'"},
    {"sliding_window window window_size attention_window local_window_size",
     "'window_left', one less, with mask = causal+window"},
    {"causal is_causal is_decoder unidirectional", "'mask', as in mask = causal"},
    {"attn_mask attention_mask mask_type", "'mask', with padding, bool or additive"},
    {"key_padding_mask padding", "'mask', as in mask = padding"},
    {"score_mod", "'score'"}, {"mask_mod block_mask", "'visible'"},
    {"partial_rotary_factor rotary_pct", "'rope_dims', that times d_k"}, {"rotary_dim", "'rope_dims'"},
    {"rotary_emb_base rope_base rotary_base", "'rope_theta'"}, {"rope_type", "'rope_scaling'"},
    {"rotary do_rotary use_rope", "'rope', half or interleaved"},
    {"rotary_interleaved rope_interleaved", "'rope', as in rope = interleaved"},
    {"attn_factor mscale attention_factor", "'rope_attention_factor'"},
    {"attention_bias qkv_bias use_bias add_bias_linear", "'bias'"}, {"mlp_bias", "'ffn_bias'"},
    {"rms_norm_eps", "'norm_eps', with qk_norm = rms where q and k are normed, norm = rms in a block"},
    {"layer_norm_eps layer_norm_epsilon eps", "'norm_eps'"},
    {"norm_first pre_norm", "'block', as in block = pre"}, {"norm_type normalization", "'norm'"},
    {"qk_layernorm use_qk_norm", "'qk_norm'"},
    {"intermediate_size ffn_dim n_inner dim_feedforward ffn_hidden_size d_inner inner_dim mlp_dim", "'d_ff'"},
    {"hidden_act hidden_activation activation_function", "'ffn'"},
    {"kdim vdim encoder_hidden_size cross_attention_dim", "'d_source', with attention = cross"},
    {"is_cross_attention cross_attention add_cross_attention", "'attention', as in attention = cross"},
    {"query_pre_attn_scalar", "'scale', 1 over its root"}, {"softmax_scale scaling attention_multiplier", "'scale'"},
    {"attn_logit_softcapping logit_softcapping", "'softcap'"}, {"use_alibi", "'alibi'"}, {"attention_sinks", "'sink'"},
    {"attention_dropout attn_pdrop attention_probs_dropout_prob dropout_p", "'dropout', with train = true"},
    {"use_cache past_key_values kv_cache", "'cache'"},
    {"qk_matmul_output_mode output_attentions need_weights", "'scores'"},
    {"dtype torch_dtype type quantization", "'weight_type', 'cache_type', 'tensor_type' or 'precision'"},
    {"relative_attention_num_buckets", "'rel_buckets', with relative = t5"},
    {"relative_attention_max_distance", "'rel_distance', with relative = t5"},
};

static void unknown_key(struct spec *spec, const char *place, const char *key)
{
    char text[NEAREST_TEXT];
    for (size_t i = 0; i < sizeof foreign_keys / sizeof *foreign_keys; i++)
        if (is_of(foreign_keys[i].theirs, key)) {
            diag_error(spec->diag, place, "unknown key '%s'; did you mean %s?", key, foreign_keys[i].ours);
            return;
        }
    const struct nearest nearest = layer_nearest_key(key);
    diag_error(spec->diag, place, "unknown key '%s'; %s", show(key).text,
               nearest_ask(&nearest, text, "write one that attngen --keys lists"));
}

static struct entry *table_slot(struct spec *spec, const char *place, const char *key)
{
    for (size_t i = 0; i < spec->table_count; i++)
        if (strcmp(key, spec->tables[i].key) == 0)
            return &spec->tables[i];
    if (spec->table_count == LAYER_TABLES) {
        diag_error(spec->diag, place, "more than %d tables; write at most that many, perhaps one with another axis",
                   LAYER_TABLES);
        return NULL;
    }
    return &spec->tables[spec->table_count]; /* counted when it is filled */
}

/* Where an entry with this key is or will be kept; NULL once it is reported that there is no such place. */
static struct entry *slot_of(struct spec *spec, const char *place, const char *key)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (is_key(i, key))
            return &spec->given[i];
    if (is_table_key(key))
        return table_slot(spec, place, key);
    if (!is_plan_key(key)) {
        unknown_key(spec, place, key);
        return NULL;
    }
    for (size_t i = 0; i < spec->plan_count; i++)
        if (strcmp(key, spec->plan[i].key) == 0)
            return &spec->plan[i];
    if (spec->plan_count == MAX_PLAN_KEYS) {
        diag_error(spec->diag, place, "more than %d plan keys; write at most that many", MAX_PLAN_KEYS);
        return NULL;
    }
    return &spec->plan[spec->plan_count]; /* counted when it is filled */
}

/* Takes over the entry's texts. */
static void keep(struct spec *spec, struct entry *entry)
{
    struct entry *slot = slot_of(spec, entry->place, entry->key);
    if (slot == NULL) {
        free_entry(entry);
    } else if (slot->key != NULL && entry->line == 0 && slot->line == 0) {
        diag_error(spec->diag, entry->place, "duplicate key '%s', also in '%s'; keep one of them", entry->key,
                   slot->place);
        free_entry(entry);
    } else if (slot->key != NULL && entry->line != 0) {
        diag_error(spec->diag, entry->place, "duplicate key '%s', first in line %zu; keep one of them", entry->key,
                   slot->line);
        free_entry(entry);
    } else {
        if (slot == &spec->plan[spec->plan_count])
            spec->plan_count++;
        if (slot == &spec->tables[spec->table_count])
            spec->table_count++;
        free_entry(slot);
        *slot = *entry;
    }
}

/* A value must be printable and not empty. A bad one is kept as empty, so that its key counts as given and is reported
 * once. */
static void check_text(struct spec *spec, struct entry *entry)
{
    const struct shown key = show(entry->key);
    if (entry->value[0] == '\0')
        diag_error(spec->diag, entry->place, "'%s' has no value; write %s = value", key.text, key.text);
    for (const char *c = entry->value; *c != '\0'; c++)
        if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f) {
            diag_error(spec->diag, entry->place, "control character \\x%02x; a spec is plain text, write %s = value",
                       (unsigned)*c, key.text);
            entry->value[0] = '\0';
        }
}

/* One line without its end; `line` is 0 for a --set. */
static void read_line(struct spec *spec, const char *text, size_t length, const char *place, size_t line)
{
    const char *const begin = text;
    const char *comment = memchr(text, '#', length);
    if (comment != NULL)
        length = (size_t)(comment - text);
    trim(&text, &length);
    if (length == 0 && line != 0)
        return;

    const char *equals = memchr(text, '=', length);
    if (equals == NULL) {
        char *whole = spec_copy(text, length);
        if (whole == NULL)
            spec_out_of_memory(spec);
        else
            diag_error(spec->diag, place, "'%s' has no '='; write key = value", show(whole).text);
        free(whole);
        return;
    }

    const char *value = equals + 1;
    size_t key_length = (size_t)(equals - text), value_length = length - key_length - 1;
    trim(&text, &key_length);
    trim(&value, &value_length);
    struct entry entry = {spec_copy(text, key_length), spec_copy(value, value_length), spec_copy(place, strlen(place)),
                          line, (size_t)(value - begin) + 1};
    if (entry.key == NULL || entry.value == NULL || entry.place == NULL) {
        spec_out_of_memory(spec);
        free_entry(&entry);
    } else if (key_length == 0) {
        diag_error(spec->diag, place, "nothing before the '='; write key = value");
        free_entry(&entry);
    } else {
        check_text(spec, &entry);
        keep(spec, &entry);
    }
}

/* False for what is no text: reading ends, as further errors would only repeat it. */
static bool is_text(struct spec *spec, const char *bytes, size_t count, const char *place)
{
    if (memchr(bytes, '\0', count) != NULL)
        diag_error(spec->diag, place, "NUL byte; a spec is plain text in UTF-8, one 'key = value' a line");
    else if (memchr(bytes, '\r', count) != NULL)
        diag_error(spec->diag, place, "carriage return inside a line; end lines with LF or CR LF");
    else
        return true;
    spec->failed = true;
    return false;
}

static void read_lines(struct spec *spec, const char *bytes, size_t length)
{
    char *place = malloc(strlen(spec->path) + 32);
    if (place == NULL) {
        spec_out_of_memory(spec);
        return;
    }
    const char *end = bytes + length;
    if (length >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        bytes += 3;
    for (size_t line = 1; bytes < end && !spec->failed; line++) {
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
        const char *stop = newline != NULL ? newline : end;
        size_t count = (size_t)(stop - bytes);
        sprintf(place, "%s:%zu", spec->path, line);
        if (count > 0 && bytes[count - 1] == '\r')
            count--;
        if (!is_text(spec, bytes, count, place))
            break;
        read_line(spec, bytes, count, place, line);
        bytes = newline != NULL ? newline + 1 : end;
    }
    free(place);
}

static void read_spec_file(struct spec *spec)
{
    size_t length = 0;
    char *bytes = file_read(spec->path, WHOLE_SPEC, &length, spec->diag);
    spec->failed = bytes == NULL; /* what --set says alone would only be half of it */
    if (bytes != NULL)
        read_lines(spec, bytes, length);
    free(bytes);
}

static void read_sets(struct spec *spec, const char *const *set, size_t set_count)
{
    for (size_t i = 0; i < set_count && !spec->failed; i++) {
        char place[sizeof(struct shown) + 8];
        snprintf(place, sizeof place, "--set %s", show(set[i]).text);
        if (set[i][strspn(set[i], " \t")] == '\0')
            diag_error(spec->diag, "--set", "nothing to set; write --set key=value");
        else
            read_line(spec, set[i], strlen(set[i]), place, 0);
    }
}

/* ---- the name -------------------------------------------------------------------------------------------- */

char *spec_stem(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    return spec_copy(base, dot != NULL && dot != base ? (size_t)(dot - base) : strlen(base));
}

void spec_check_name(struct spec *spec)
{
    char good[MAX_NAME + 1];
    if (is_given(spec, KEY_NAME)) {
        const char *name = spec->given[KEY_NAME].value;
        const char *fault = layer_name_fault(name);
        if (fault == NULL || name[0] == '\0')
            return;
        name_suggest(name, good);
        wrong(spec, KEY_NAME, "name = '%s' %s; write for example name = %s", show(name).text, fault, good);
        return;
    }
    char *stem = spec_stem(spec->path);
    if (stem == NULL) {
        spec_out_of_memory(spec);
        return;
    }
    const char *fault = layer_name_fault(stem);
    if (fault != NULL) {
        name_suggest(stem, good);
        diag_error(spec->diag, spec->path, "there is no name, and the file's stem '%s' %s; write for example name = %s",
                   show(stem).text, fault, good);
    }
    free(stem);
}

/* ---- values ---------------------------------------------------------------------------------------------- */

/* A whole number in decimal, min … MAX_SIZE; -1 if it is not one. */
static int64_t whole_number(const char *text, uint64_t min)
{
    uint64_t number;
    return number_whole(text, strlen(text), min, MAX_SIZE, &number) ? (int64_t)number : -1;
}

static bool read_size(struct spec *spec, enum key key, const char *text)
{
    spec->value[key] = whole_number(text, 1);
    if (spec->value[key] < 0)
        wrong(spec, key, "%s = '%s' is not a size; write a whole number from 1 to 2147483647", spec_key_name(key),
              show(text).text);
    return spec->value[key] >= 0;
}

/* How far a window reaches to one side. */
static bool read_reach(struct spec *spec, enum key key, const char *text)
{
    if (strcmp(text, "unbounded") == 0) {
        spec->value[key] = LAYER_UNBOUNDED;
        return true;
    }
    spec->value[key] = whole_number(text, 0);
    if (spec->value[key] < 0)
        wrong(spec, key, "%s = '%s' is not a number of positions; write a whole number from 0 to 2147483647, or "
              "unbounded", spec_key_name(key), show(text).text);
    return spec->value[key] >= 0;
}

/* A number of positions, 0 or more. */
static bool read_count(struct spec *spec, enum key key, const char *text)
{
    spec->value[key] = whole_number(text, 0);
    if (spec->value[key] < 0)
        wrong(spec, key, "%s = '%s' is not a number of positions; write a whole number from 0 to 2147483647",
              spec_key_name(key), show(text).text);
    return spec->value[key] >= 0;
}

/* A number above 0 that is one in f32 too. */
static bool read_positive(struct spec *spec, enum key key, const char *text)
{
    double *number = &spec->real[key];
    const bool good = number_real(text, number) && *number >= (double)FLT_MIN && *number <= (double)FLT_MAX;
    if (!good)
        wrong(spec, key, "%s = '%s' is not a number above 0 in f32; write one from 1.18e-38 to 3.40e38",
              spec_key_name(key), show(text).text);
    return good;
}

/* Index of the word in the list; -1 if it is not there. */
static int find_word(const char *const *words, const char *text, size_t length)
{
    for (int i = 0; words[i] != NULL; i++)
        if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0)
            return i;
    return -1;
}

/* Number types as other programs call them, and their words here */
static const char *type_word(const char *text)
{
    static const struct { const char *theirs, *ours; } words[] = {
        {"float32", "f32"}, {"float", "f32"}, {"fp32", "f32"}, {"float16", "f16"}, {"half", "f16"}, {"fp16", "f16"},
        {"bfloat16", "bf16"}, {"int16", "i16"}, {"int8", "i8"}, {"q8", "i8"}, {"int4", "i4"}, {"q4", "i4"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].theirs, text) == 0)
            return words[i].ours;
    return text;
}

/* What others call the words of a key. */
static const struct {
    enum key key;
    const char *theirs, *ours;
} foreign_words[] = {
    {KEY_MASK, "is_causal causal_mask look_ahead lower_triangular tril autoregressive unidirectional true", "causal"},
    {KEY_MASK, "pad key_padding_mask padding_mask attention_mask lengths", "padding"},
    {KEY_MASK, "sliding_window sliding local local_window swa", "window"},
    {KEY_MASK, "attn_mask float mask_add bias", "additive"}, {KEY_MASK, "boolean mask_bool", "bool"},
    {KEY_MASK, "prefix_lm", "prefix"}, {KEY_MASK, "documents document packed", "segments"},
    {KEY_MASK, "full bidirectional false off no", "none"},
    {KEY_FFN, "gelu_new gelu_pytorch_tanh gelu_fast", "gelu_tanh"}, {KEY_FFN, "swish", "silu"},
    {KEY_ACTIVATION, "gelu_new gelu_pytorch_tanh gelu_fast", "gelu_tanh"}, {KEY_ACTIVATION, "swish", "silu"},
    {KEY_NORM, "rmsnorm RMSNorm rms_norm", "rms"}, {KEY_NORM, "layernorm LayerNorm layer_norm", "layer"},
    {KEY_QK_NORM, "rmsnorm RMSNorm rms_norm true", "rms"}, {KEY_QK_NORM, "layernorm LayerNorm layer_norm", "layer"},
    {KEY_ROPE, "true neox llama rotate_half default", "half"}, {KEY_ROPE, "gptj", "interleaved"},
    {KEY_BLOCK, "pre_norm prenorm norm_first", "pre"}, {KEY_BLOCK, "post_norm postnorm true", "post"},
    {KEY_CACHE, "true static dynamic", "rows"}, {KEY_CACHE, "sliding sliding_window rolling", "ring"},
    {KEY_WEIGHT_LAYOUT, "torch pytorch", "out_in"}, {KEY_WEIGHT_LAYOUT, "tensorflow jax keras", "in_out"},
    {KEY_RELATIVE, "T5 bucketed true", "t5"},
};

/* NULL: none of ours is known for it. */
static const char *our_word(enum key key, const char *text)
{
    if (keys[key].words == words_switch)
        return is_of("yes on 1 y", text) ? "true" : is_of("no off 0 n none", text) ? "false" : NULL;
    for (size_t i = 0; i < sizeof foreign_words / sizeof *foreign_words; i++)
        if (foreign_words[i].key == key && is_of(foreign_words[i].theirs, text))
            return foreign_words[i].ours;
    return NULL;
}

/* For the end of a message that a key does not have this word: where the word belongs, or a similar one that the key
 * has. */
static const char *meant_word(enum key key, const char *text, char meant[NEAREST_TEXT])
{
    static const enum key types[] = {KEY_PRECISION, KEY_WEIGHT_TYPE, KEY_CACHE_TYPE, KEY_TENSOR_TYPE};
    const size_t count = sizeof types / sizeof *types;
    bool of_types = false;
    for (size_t i = 0; i < count; i++)
        of_types = of_types || types[i] == key;
    if (of_types)
        text = type_word(text);
    const bool here = find_word(keys[key].words, text, strlen(text)) >= 0; /* the word that was meant */
    for (size_t i = 0; of_types && !here && i < count; i++)
        if (find_word(keys[types[i]].words, text, strlen(text)) >= 0) {
            snprintf(meant, NEAREST_TEXT, " (%s = %s is legal)", spec_key_name(types[i]), text);
            return meant;
        }
    if (key == KEY_HEADS && *text >= '0' && *text <= '9')
        return " (the number of heads is h)";
    struct nearest nearest = nearest_word(keys[key].words, text, strlen(text));
    if (our_word(key, text) != NULL)
        nearest.word = our_word(key, text);
    return nearest_add(&nearest, meant);
}

static bool read_word(struct spec *spec, enum key key, const char *text)
{
    char known[100], meant[NEAREST_TEXT];
    spec->value[key] = find_word(keys[key].words, text, strlen(text));
    if (spec->value[key] < 0) {
        list_words(keys[key].words, known, sizeof known);
        wrong(spec, key, "%s = '%s' is not known; write %s%s", spec_key_name(key), show(text).text, known,
              meant_word(key, text, meant));
    }
    return spec->value[key] >= 0;
}

/* The words of `mask`, in the order of their bits. */
static void mask_words(const char *words[SCORE_TERMS + 1])
{
    size_t count = 0;
    for (size_t i = 0; i < SCORE_TERMS; i++)
        if (score_terms[i].word != NULL)
            words[count++] = score_terms[i].word;
    words[count] = NULL;
}

/* Masks that something else joins, as a spec writes them; NULL where one is not known. */
static const char *joined_masks(const char *text, char joined[MAX_SHOWN + 1])
{
    size_t used = 0;
    while (*text != '\0') {
        const size_t length = strcspn(text, ",|& "), blanks = strspn(text + length, ",|& ");
        if (used + length + 2 > MAX_SHOWN || score_of_word(text, length) == SCORE_TERMS)
            return NULL;
        used += (size_t)sprintf(joined + used, "%s%.*s", used > 0 ? "+" : "", (int)length, text);
        text += length + blanks;
    }
    return joined;
}

/* "none", or masks joined by '+'. */
static bool read_mask(struct spec *spec, enum key key, const char *text)
{
    const char *place = place_of(spec, key);
    unsigned mask = 0;
    bool more = strcmp(text, "none") != 0;
    while (more) {
        const char *part = text;
        const size_t whole = strcspn(text, "+");
        size_t length = whole;
        trim(&part, &length);
        more = text[whole] == '+';
        text += whole + (more ? 1 : 0);

        const enum score_name word = score_of_word(part, length);
        const unsigned bit = word < SCORE_TERMS ? score_terms[word].mask : 0;
        if (bit != 0 && (mask & bit) == 0) {
            mask |= bit;
        } else if (bit != 0) {
            return diag_error(spec->diag, place, "mask names %s twice; write each mask once", score_terms[word].word);
        } else if (length == 0) {
            return diag_error(spec->diag, place, "mask has nothing on one side of a '+'; write for example "
                              "causal+padding");
        } else if (length == 4 && memcmp(part, "none", 4) == 0) {
            return diag_error(spec->diag, place, "mask joins none to another mask; write none alone, or leave it out");
        } else {
            char *unknown = spec_copy(part, length);
            const char *words[SCORE_TERMS + 1];
            char known[100], meant[NEAREST_TEXT], joined[MAX_SHOWN + 1];
            mask_words(words);
            struct nearest nearest = nearest_word(words, part, length);
            list_words(words, known, sizeof known);
            if (unknown != NULL && our_word(KEY_MASK, unknown) != NULL)
                nearest.word = our_word(KEY_MASK, unknown);
            if (unknown != NULL && strpbrk(unknown, ",|& ") != NULL)
                nearest.word = joined_masks(unknown, joined);
            if (unknown == NULL)
                spec_out_of_memory(spec);
            else
                diag_error(spec->diag, place, "mask '%s' is not known; write none, or any of %s joined by +%s",
                           show(unknown).text, known, nearest_add(&nearest, meant));
            free(unknown);
            return false;
        }
    }
    spec->value[key] = (int64_t)mask;
    return true;
}

/* Kernels compute powers of 2 in f32: what they multiply by is
 * scale log2(e), and that must be finite there, and 0 or normal, for a subnormal number has fewer bits. */
static bool read_factor(struct spec *spec, enum key key, const char *text)
{
    double *number = &spec->real[key];
    if (!number_real(text, number))
        return wrong(spec, key, "%s = '%s' is not a number; write for example 0.125", spec_key_name(key),
                     show(text).text);
    const double factor = fabs(*number) * LOG2_E;
    const bool zero = factor == 0 && errno != ERANGE; /* 1e-400 is not meant as 0 */
    if (!(factor <= (double)FLT_MAX))
        return wrong(spec, key, "%s = '%s' times log2(e) is not finite in f32; write a number within 2.35e38",
                     spec_key_name(key), show(text).text);
    if (factor < (double)FLT_MIN && !zero)
        return wrong(spec, key, "%s = '%s' times log2(e) is subnormal or 0 in f32; write 0, or a number of at least "
                     "8.15e-39 in size", spec_key_name(key), show(text).text);
    return true;
}

/* What is left, 1 less it, is divided by. */
static bool read_share(struct spec *spec, enum key key, const char *text)
{
    double *number = &spec->real[key];
    const bool good = number_real(text, number) && *number >= 0 && *number < 1;
    if (!good)
        wrong(spec, key, "%s = '%s' is not a number from 0, below 1; write for example 0.1", spec_key_name(key),
              show(text).text);
    return good;
}

/* A number above 0, or "none". */
static bool read_cap(struct spec *spec, enum key key, const char *text)
{
    if (strcmp(text, "none") == 0)
        return true;
    if (!read_factor(spec, key, text))
        return false;
    if (spec->real[key] <= 0)
        wrong(spec, key, "%s = %.9g is not above 0; write a number above 0, or none", spec_key_name(key),
              spec->real[key]);
    return spec->real[key] > 0;
}

static bool read_nothing(struct spec *spec, enum key key, const char *text)
{
    (void)spec, (void)key, (void)text; /* the name has its own check, its default can be wrong too; so do expressions */
    return true;
}

static const struct {
    bool (*read)(struct spec *spec, enum key key, const char *text);
    const char *values; /* NULL: words */
} kinds[] = {
    [KIND_NAME] = {read_nothing, "a C identifier"},
    [KIND_SIZE] = {read_size, "a whole number from 1"},
    [KIND_REACH] = {read_reach, "a whole number from 0, or unbounded"},
    [KIND_COUNT] = {read_count, "a whole number from 0"},
    [KIND_MASK] = {read_mask, NULL},
    [KIND_FACTOR] = {read_factor, "a number"},
    [KIND_CAP] = {read_cap, "a number above 0, or none"},
    [KIND_POSITIVE] = {read_positive, "a number above 0"},
    [KIND_SHARE] = {read_share, "a number from 0, below 1"},
    [KIND_WORD] = {read_word, NULL},
    [KIND_EXPRESSION] = {read_nothing, "an expression"},
};

static enum kind kind_of(enum key key)
{
    return key == KEY_TERMS + SCORE_SCALE ? KIND_FACTOR : is_number(key) ? KIND_CAP : keys[key].kind;
}

void layer_print_keys(FILE *out)
{
    for (enum key key = 0; key < KEY_COUNT; key++) {
        const char *masks[SCORE_TERMS + 1];
        char words[200] = "";
        if (spec_key_name(key) == NULL)
            continue;
        mask_words(masks);
        if (kinds[kind_of(key)].values == NULL)
            list_words(kind_of(key) == KIND_MASK ? masks : keys[key].words, words, sizeof words);
        fprintf(out, "%-22s %s%s%s\n", spec_key_name(key), kind_of(key) == KIND_MASK ? "none, or any of " : "",
                kinds[kind_of(key)].values != NULL ? kinds[kind_of(key)].values : words,
                kind_of(key) == KIND_MASK ? " joined by +" : "");
    }
    fprintf(out, "%-22s %s\n", "table.NAME", "the extents of a table that expressions read, as in 2, 8");
    fprintf(out, "%-22s %s\n", "plan.*", "how the kernel is built; the most common is plan.size = small");
}

/* A size that is not written takes another's value, and is bad where that one is. */
static void size_default(struct spec *spec, enum key key, enum key from)
{
    if (is_given(spec, key))
        return;
    spec->value[key] = spec->value[from];
    if (spec->bad[from])
        spec->bad[key] = true;
}

void spec_values(struct spec *spec)
{
    static const struct {
        enum key key;
        double number;
    } defaults[] = {
        {KEY_NORM_EPS, 1e-6}, {KEY_ROPE_THETA, 10000}, {KEY_ROPE_FACTOR, 1}, {KEY_ROPE_LOW, 1}, {KEY_ROPE_HIGH, 4},
        {KEY_ROPE_BETA_FAST, 32}, {KEY_ROPE_BETA_SLOW, 1}};
    for (size_t i = 0; i < COUNT_OF(defaults); i++)
        spec->real[defaults[i].key] = defaults[i].number;
    spec->value[KEY_REL_BUCKETS] = 32;
    spec->value[KEY_REL_DISTANCE] = 128;
    spec->value[KEY_CONV_WIDTH] = 3;
    spec->value[KEY_ROPE_TRUNCATE] = 1;
    spec->value[KEY_WINDOW_LEFT] = spec->value[KEY_WINDOW_RIGHT] = LAYER_UNBOUNDED;
    for (enum key key = 0; key < KEY_COUNT; key++) {
        const char *text = spec->given[key].value;
        if (text == NULL)
            continue;
        const int64_t value = spec->value[key];
        const double real = spec->real[key];
        if (text[0] == '\0' || !kinds[kind_of(key)].read(spec, key, text)) /* empty: reported with its line */
            spec->bad[key] = true;
        spec->differs[key] = spec->value[key] != value || spec->real[key] != real ||
                             kind_of(key) == KIND_EXPRESSION || key == KEY_NORM; /* of a linear layer any is one */
    }
    const bool attends = is_attention(spec) && !spec->bad[KEY_LAYER], linear = is_linear(spec);
    const bool has_width = !is_projected(spec) || spec->value[KEY_W_O] != W_O_NONE;
    const bool unknown = spec->bad[KEY_INPUT] || (is_projected(spec) && spec->bad[KEY_W_O]);
    const struct { enum key key; const char *example; bool required; } required[] = {
        {KEY_D_MODEL, "d_model = 768", (attends && has_width && !unknown) || spec->value[KEY_LAYER] == LAYER_FFN},
        {KEY_H, "h = 12", attends}, {KEY_D_K, "d_k = 64", attends && is_projected(spec)},
        {KEY_D_IN, "d_in = 768", linear}, {KEY_D_OUT, "d_out = 50257", linear}, {KEY_SEQ_LEN, "seq_len = 512", true},
        {KEY_CACHE_LEN, "cache_len = 2048", attends && is_cached(spec)},
        {KEY_PAGE_LEN, "page_len = 16", attends && spec->value[KEY_CACHE] == CACHE_PAGED},
        {KEY_D_FF, "d_ff = 3072", !linear && is_ffn(spec) && !spec->bad[KEY_FFN]}};
    for (size_t i = 0; i < COUNT_OF(required); i++)
        if (required[i].required && !is_given(spec, required[i].key)) {
            diag_error(spec->diag, spec->path, "%s is missing; write for example %s", spec_key_name(required[i].key),
                       required[i].example);
            spec->bad[required[i].key] = true;
        }
    if (linear)
        size_default(spec, KEY_D_MODEL, KEY_D_IN);
    if (unknown && !is_given(spec, KEY_D_MODEL))
        spec->bad[KEY_D_MODEL] = true; /* perhaps there is none, so nothing is said about it */
    size_default(spec, KEY_H_KV, KEY_H);
    size_default(spec, KEY_D_SOURCE, KEY_D_MODEL);
    size_default(spec, KEY_SOURCE_LEN, is_cached(spec) ? KEY_CACHE_LEN : KEY_SEQ_LEN);
}

/* FNV-1a, 64 bits. */
void spec_fingerprint(const char *text, char fingerprint[17])
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = text; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    snprintf(fingerprint, 17, "%016" PRIx64, hash);
}

char *spec_steering(const struct spec *spec)
{
    char *text = NULL, fingerprint[17];
    size_t length;
    FILE *out = open_memstream(&text, &length);
    for (enum key key = 0; out != NULL && key < KEY_COUNT; key++) {
        const enum kind kind = kind_of(key);
        if (!spec->differs[key] || steering_of(key) == STEERS_SIZES || steering_of(key) == STEERS_NOTHING)
            continue;
        fprintf(out, " %s=", spec_key_name(key));
        spec_fingerprint(spec->given[key].value, fingerprint);
        if (steering_of(key) == STEERS_IF_ANY || kind == KIND_EXPRESSION)
            fputs(kind == KIND_EXPRESSION ? fingerprint : "true", out);
        else if (kind == KIND_WORD)
            fputs(keys[key].words[spec->value[key]], out);
        else if (spec->real[key] != 0)
            fprintf(out, "%.9g", spec->real[key]);
        else
            fprintf(out, "%" PRId64, spec->value[key]);
    }
    for (size_t i = 0; out != NULL && i < spec->table_count; i++) { /* blanks in extents */
        spec_fingerprint(spec->tables[i].value, fingerprint);
        fprintf(out, " %s=%s", spec->tables[i].key, fingerprint);
    }
    if (out == NULL || fclose(out) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

void spec_read(struct spec *spec, const char *const *set, size_t set_count)
{
    if (spec->text != NULL)
        read_lines(spec, spec->text, strlen(spec->text));
    else
        read_spec_file(spec);
    read_sets(spec, set, set_count);
}

void spec_free(struct spec *spec)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        free_entry(&spec->given[i]);
    for (size_t i = 0; i < spec->plan_count; i++)
        free_entry(&spec->plan[i]);
    for (size_t i = 0; i < spec->table_count; i++)
        free_entry(&spec->tables[i]);
    free(spec);
}
