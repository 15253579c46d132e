/* SPDX-License-Identifier: MIT */
/* Kinds of files as a table: how each begins, what it is, what would be right in place of a spec and of safetensors. */
#include "base/filekind.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

struct head {
    const unsigned char *bytes;
    size_t length;
};

/* ---- how files begin --------------------------------------------------------------------------------------------- */

static bool has_at(struct head head, size_t at, const char *text, size_t length)
{
    return at + length <= head.length && memcmp(head.bytes + at, text, length) == 0;
}

static bool contains(struct head head, const char *text)
{
    const size_t length = strlen(text);
    for (size_t at = 0; at + length <= head.length; at++)
        if (memcmp(head.bytes + at, text, length) == 0)
            return true;
    return false;
}

/* What follows a byte order mark and blanks. */
static struct head text_of(struct head head)
{
    size_t at = has_at(head, 0, "\xef\xbb\xbf", 3) ? 3 : 0;
    while (at < head.length && isspace(head.bytes[at]))
        at++;
    return (struct head){head.bytes + at, head.length - at};
}

static bool starts_text(struct head head, const char *lower)
{
    const struct head text = text_of(head);
    size_t at = 0;
    while (at < text.length && lower[at] != '\0' && tolower(text.bytes[at]) == lower[at])
        at++;
    return lower[at] == '\0';
}

static bool is_json(struct head head)
{
    const struct head text = text_of(head);
    const struct head inside = text.length > 0 ? text_of((struct head){text.bytes + 1, text.length - 1}) : text;
    return (starts_text(head, "{") && (inside.length == 0 || strchr("\"}", inside.bytes[0]) != NULL)) ||
           (starts_text(head, "[") && (inside.length == 0 || strchr("\"{[]-0123456789", inside.bytes[0]) != NULL));
}

static bool is_index(struct head head) { return is_json(head) && contains(head, "\"weight_map\""); }
static bool is_config(struct head head)
{
    return is_json(head) && (contains(head, "\"architectures\"") || contains(head, "\"model_type\"") ||
                             contains(head, "\"hidden_size\""));
}

/* A header's length below the format's limit, and the header's first character. */
static bool is_safetensors(struct head head)
{
    uint64_t length = 0;
    for (int i = 7; head.length > 8 && i >= 0; i--)
        length = length << 8 | head.bytes[i];
    return length > 1 && length <= (uint64_t)100 << 20 && head.bytes[8] == '{';
}

static bool is_zip(struct head head) { return has_at(head, 0, "PK\3\4", 4); }
static bool is_npz(struct head head) { return is_zip(head) && contains(head, ".npy"); }
static bool is_torch(struct head head)
{
    return (is_zip(head) &&
            (contains(head, "/data.pkl") || contains(head, "/byteorder") || contains(head, "/version"))) ||
           (head.length > 2 && head.bytes[0] == 0x80 && head.bytes[1] >= 2 && head.bytes[1] <= 5);
}

/* ModelProto has no mark of its own: field 1 is its version, a small number; what follows is another of its fields,
 * with a length or, of field 5, a number. */
static bool is_onnx(struct head head)
{
    static const unsigned char fields[] = {0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72};
    return head.length > 4 && head.bytes[0] == 0x08 && head.bytes[1] >= 1 && head.bytes[1] < 32 &&
           memchr(fields, head.bytes[2], sizeof fields) != NULL && !is_safetensors(head);
}

static bool is_lfs(struct head head) { return starts_text(head, "version https://git-lfs"); }
static bool is_html(struct head head)
{
    return starts_text(head, "<!doctype html") || starts_text(head, "<html") || starts_text(head, "<head");
}
static bool is_xml(struct head head) { return starts_text(head, "<?xml"); }
static bool is_gguf(struct head head) { return has_at(head, 0, "GGUF", 4) || has_at(head, 0, "tjgg", 4); }
static bool is_npy(struct head head) { return has_at(head, 0, "\x93NUMPY", 6); }
static bool is_hdf5(struct head head) { return has_at(head, 0, "\x89HDF\r\n\x1a\n", 8); }
static bool is_tflite(struct head head) { return has_at(head, 4, "TFL3", 4); }
static bool is_packed(struct head head) /* before the number of a set; a spec may begin with "attention" */
{
    return (has_at(head, 0, "atte", 4) || has_at(head, 0, "attk", 4)) && has_at(head, 5, "\0\0\0", 3);
}
static bool is_packed_model(struct head head) { return has_at(head, 0, "attnmodl", 8); }
static bool is_compressed(struct head head)
{
    return has_at(head, 0, "\x1f\x8b", 2) || has_at(head, 0, "\x28\xb5\x2f\xfd", 4) ||
           has_at(head, 0, "\xfd" "7zXZ", 5) || has_at(head, 0, "BZh", 3) || has_at(head, 257, "ustar", 5);
}
static bool is_utf16(struct head head) { return has_at(head, 0, "\xff\xfe", 2) || has_at(head, 0, "\xfe\xff", 2); }

static bool is_text(struct head head)
{
    for (size_t at = 0; at < head.length; at++)
        if ((head.bytes[at] < ' ' && !isspace(head.bytes[at])) || head.bytes[at] == 0x7f)
            return false;
    return true;
}

/* Length of what stands before the '=' of a line; 0 where that is no key. */
static size_t key_length(struct head line)
{
    size_t length = 0, at;
    while (length < line.length && (isalnum(line.bytes[length]) || strchr("_.", line.bytes[length]) != NULL))
        length++;
    for (at = length; at < line.length && (line.bytes[at] == ' ' || line.bytes[at] == '\t'); at++)
        ;
    return at < line.length && line.bytes[at] == '=' ? length : 0;
}

/* Lines of key = value and comments, and d_model among the keys. The last line may be cut off. */
static bool is_spec(struct head head)
{
    bool names_width = false;
    for (struct head text = text_of(head); text.length > 0; text = text_of(text)) {
        const unsigned char *end = memchr(text.bytes, '\n', text.length);
        const size_t length = end != NULL ? (size_t)(end - text.bytes) : text.length;
        const size_t key = key_length((struct head){text.bytes, length});
        if (key == 0 && text.bytes[0] != '#' && end != NULL)
            return false;
        names_width = names_width || (key == 7 && memcmp(text.bytes, "d_model", key) == 0);
        text = (struct head){text.bytes + length, text.length - length};
    }
    return names_width && is_text(head);
}

/* NAME.layers: sections in brackets */
static bool is_layers(struct head head)
{
    return is_text(head) && (contains(head, "\n[weights]") || contains(head, "\n[encoder ") ||
                             contains(head, "\n[decoder "));
}

static bool is_plan(struct head head) { return is_text(head) && contains(head, "\nfingerprint = "); }

/* ---- what they are ----------------------------------------------------------------------------------------------- */

#define KEYS "a spec is text with lines of key = value, d_model = 768 say"
#define CONVERT "convert it, in Python: "

static const struct kind {
    bool (*is)(struct head head);
    const char *what;
    const char *right[2]; /* for each use; NULL: it is that */
} kinds[] = { /* the more specific tests come first */
    {is_lfs, "a git-lfs pointer, which stands for a file that was not fetched",
     {"git lfs pull fetches it", "git lfs pull fetches it"}},
    {is_html, "a web page", {"download the file itself; " KEYS,
     "download the file itself: on Hugging Face, the link that has /resolve/ in it"}},
    {is_xml, "XML", {KEYS, "safetensors are needed; perhaps it is a server's error in place of them"}},
    {is_index, "the list of a model's files (JSON)", {KEYS, "give that one of them that has the layer"}},
    {is_config, "a model's configuration (JSON)",
     {"attngen import DIR makes specs of its folder; " KEYS ": its hidden_size is d_model, num_attention_heads h, "
      "num_key_value_heads h_kv, "
      "max_position_embeddings seq_len",
      "give the model's weights, model.safetensors beside it"}},
    {is_json, "JSON", {KEYS, "safetensors are needed"}},
    {is_safetensors, "safetensors", {"give it to attnrun, with --weights or --in; " KEYS, NULL}},
    {is_npz, "NumPy arrays (.npz)",
     {KEYS, CONVERT "safetensors.numpy.save_file(dict(numpy.load(FILE)), \"model.safetensors\")"}},
    {is_torch, "a PyTorch checkpoint (a pickle, .bin or .pt)",
     {KEYS, CONVERT "safetensors.torch.save_file({k: v.clone() for k, v in torch.load(FILE).items()}, "
      "\"model.safetensors\")"}},
    {is_zip, "a zip archive", {KEYS, "unpack it; safetensors are needed"}},
    {is_npy, "a NumPy array (.npy)",
     {KEYS, CONVERT "safetensors.numpy.save_file({\"x\": numpy.load(FILE)}, \"in.safetensors\")"}},
    {is_gguf, "a GGUF model", {KEYS, "give the safetensors that it was made from"}},
    {is_hdf5, "HDF5 (.h5)", {KEYS, CONVERT "safetensors.numpy.save_file() of the arrays that h5py.File(FILE) holds"}},
    {is_tflite, "a TensorFlow Lite model", {KEYS, "give the weights that it was made from, as safetensors"}},
    {is_compressed, "compressed, or an archive", {"unpack it; " KEYS, "unpack it; safetensors are needed"}},
    {is_packed, "weights that attnrun pack packed",
     {KEYS, "programs read it; give the safetensors that it was made from"}},
    {is_packed_model, "a packed file of attnrun pack --all",
     {KEYS, "programs read it; give the safetensors that it was made from"}},
    {is_onnx, "an ONNX model", {KEYS,
     CONVERT "safetensors.numpy.save_file({t.name: onnx.numpy_helper.to_array(t) "
     "for t in onnx.load(FILE).graph.initializer}, \"model.safetensors\")"}},
    {is_utf16, "text in UTF-16", {"save it as UTF-8", "safetensors are needed"}},
    {is_layers, "a model's NAME.layers",
     {"attngen model makes its C and attnrun pack --all its packed file; a spec is one of the .layer files beside it",
      "it goes in front of the options; --weights takes the model's folder or safetensors"}},
    {is_plan, "a plan of attnrun tune", {"give it with --plan; " KEYS, "it goes with --plan; safetensors are needed"}},
    {is_spec, "a spec", {NULL, "it goes in front of the options; --in and --weights take safetensors"}},
    /* read as a spec, whose wrong lines are then reported */
    {is_text, "text", {NULL, "safetensors are needed"}},
};

bool file_is_other(const char *path, const void *head, size_t length, enum file_use use, struct diag *diag)
{
    const struct head begin = {head, length < FILE_HEAD ? length : FILE_HEAD};
    for (size_t i = 0; length > 0 && i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i].is(begin))
            continue;
        if (kinds[i].right[use] != NULL)
            diag_error(diag, path, "is %s; %s", kinds[i].what, kinds[i].right[use]);
        return kinds[i].right[use] != NULL;
    }
    return false;
}

const char *file_kind(const void *head, size_t length, enum file_own own)
{
    static bool (*const owns[])(struct head head) = {NULL, is_layers, is_plan, is_json};
    const struct head begin = {head, length < FILE_HEAD ? length : FILE_HEAD};
    for (size_t i = 0; length > 0 && own != FILE_ANY && !owns[own](begin) && kinds[i].is != is_text; i++)
        if (kinds[i].is(begin))
            return kinds[i].what;
    return NULL;
}
