/* SPDX-License-Identifier: MIT */
/* See checkpoint.h. A folder may come from anywhere: nothing in it is believed, names of files lead nowhere else, and
 * what is no file on disk is not read. Links are followed, as the caches of Hugging Face's libraries are made of them.
 */
#include "model/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"

#define SKIP_DEPTH 64

static char *join(const char *folder, const char *name)
{
    char *path;
    const char *slash = *folder != '\0' && folder[strlen(folder) - 1] == '/' ? "" : "/";
    return asprintf(&path, "%s%s%s", folder, slash, name) < 0 ? NULL : path;
}

/* True of a dangling link too: reading it reports the error. */
static bool is_there(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

static bool no_memory(struct diag *diag, const char *place)
{
    diag_environment(diag, place, "out of memory");
    return false;
}

/* ---- what lies there in place of safetensors ---- */

/* Endings of other formats, and what makes safetensors of them. */
static const struct {
    const char *ending, *what, *right;
} formats[] = {
    {".bin", "weights of PyTorch", "load the model with from_pretrained() and save it with save_pretrained(), which "
                                   "writes model.safetensors"},
    {".pt", "weights of PyTorch", "torch.load() it with weights_only=True and write the tensors with "
                                  "safetensors.torch.save_file()"},
    {".pth", "weights of PyTorch", "torch.load() it with weights_only=True and write the tensors with "
                                   "safetensors.torch.save_file()"},
    {".ckpt", "weights of PyTorch or TensorFlow", "load the model with the library that wrote it and save it with "
                                                  "save_pretrained()"},
    {".gguf", "a model of llama.cpp", "load it with from_pretrained(DIR, gguf_file=FILE, dtype=torch.float32), set its "
                                      "hf_quantizer to None, delete its config.quantization_config, and save it with "
                                      "save_pretrained()"},
    {".onnx", "a graph of ONNX", "give the folder of the model that it was exported from"},
    {".h5", "weights of TensorFlow", "load the model with from_pretrained(DIR, from_tf=True) of Transformers 4 and "
                                     "save it with save_pretrained()"},
    {".msgpack", "weights of Flax", "load the model with from_pretrained(DIR, from_flax=True) of Transformers 4 and "
                                    "save it with save_pretrained()"},
    {".safetensors", "safetensors of another name", "rename it model.safetensors if it holds the whole model"},
};

static bool ends_in(const char *name, const char *ending)
{
    const size_t length = strlen(name), tail = strlen(ending);
    return length > tail && strcmp(name + length - tail, ending) == 0;
}

/* The first row of `formats` that a file of the folder is of, and its name; rows are asked in turn, names in their
 * order, so that the message depends on the folder alone. -1: none. */
static int find_other(const char *folder, char *name, size_t room)
{
    int found = -1;
    for (size_t i = 0; found < 0 && i < sizeof formats / sizeof *formats; i++) {
        DIR *names = opendir(folder);
        for (struct dirent *entry; names != NULL && (entry = readdir(names)) != NULL;)
            if (ends_in(entry->d_name, formats[i].ending) && (found < 0 || strcmp(entry->d_name, name) < 0)) {
                snprintf(name, room, "%s", entry->d_name);
                found = (int)i;
            }
        if (names != NULL)
            closedir(names);
    }
    return found;
}

static void no_weights(const char *folder, struct diag *diag)
{
    char name[300] = "";
    const int other = find_other(folder, name, sizeof name);
    if (other < 0)
        diag_error(diag, folder, "has neither model.safetensors nor model.safetensors.index.json; give the folder that "
                   "save_pretrained() wrote");
    else
        diag_error(diag, folder, "has no model.safetensors; %s is %s, which is not read: %s", name, formats[other].what,
                   formats[other].right);
}

/* ---- shards ---- */

struct entry {
    char *tensor, *file;
};

struct index {
    struct json json;
    struct entry *entries;
    size_t count;
};

static void free_index(struct index *index)
{
    for (size_t i = 0; i < index->count; i++) {
        free(index->entries[i].tensor);
        free(index->entries[i].file);
    }
    free(index->entries);
}

/* Passes over a value. */
static bool skip_value(struct json *json, int depth)
{
    char *text;
    const bool object = json_next_is(json, '{');
    if (object || json_next_is(json, '[')) {
        if (depth == SKIP_DEPTH)
            return json_fail(json, "objects and arrays are nested more than 64 deep");
        for (size_t i = 0; json_item(json, object ? "{}" : "[]", i); i++) {
            free(text = object ? json_text(json) : NULL);
            if (object && (text == NULL || !json_expect(json, ':')))
                return false;
            if (!skip_value(json, depth + 1))
                return false;
        }
        return json_good(json);
    }
    if (json_accept_word(json, "null") || json_accept_word(json, "true") || json_accept_word(json, "false"))
        return true;
    free(text = json_next_is(json, '"') ? json_text(json) : json_number(json));
    return text != NULL;
}

/* A name that leads out of the folder, or that a text of lines cannot hold. */
static bool is_plain(const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.";
    return *name != '\0' && *name != '.' && name[strspn(name, plain)] == '\0' && strlen(name) < 256;
}

static bool scan_map(struct index *index)
{
    struct json *json = &index->json;
    for (size_t i = 0; json_item(json, "{}", i); i++) {
        if (i % 256 == 0) {
            struct entry *more = realloc(index->entries, (i + 256) * sizeof *more);
            if (more == NULL)
                return !(json->no_memory = true);
            index->entries = more;
        }
        struct entry *entry = &index->entries[index->count++];
        *entry = (struct entry){json_text(json), NULL};
        if (entry->tensor == NULL || !json_expect(json, ':') || (entry->file = json_text(json)) == NULL)
            return false;
        if (!is_plain(entry->file))
            return json_fail(json, "a shard's name is a file of this folder, of letters, digits and _-+=.");
    }
    return json_good(json);
}

static bool scan_index(struct index *index)
{
    struct json *json = &index->json;
    bool seen = false;
    for (size_t i = 0; json_item(json, "{}", i); i++) {
        char *key = json_text(json);
        const bool map = key != NULL && strcmp(key, "weight_map") == 0;
        free(key);
        if (key == NULL || !json_expect(json, ':'))
            return false;
        if (map && seen)
            return json_fail(json, "weight_map occurs twice");
        seen = seen || map;
        if (!(map ? scan_map(index) : skip_value(json, 1)))
            return false;
    }
    return json_good(json) && (json_is_end(json) || json_fail(json, "something follows the object")) &&
           (seen || json_fail(json, "weight_map is missing"));
}

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->tensor, ((const struct entry *)b)->tensor);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of the shards, each once, in their order. */
static bool list_files(struct checkpoint *checkpoint, const struct index *index)
{
    checkpoint->files = calloc(index->count + 1, sizeof *checkpoint->files);
    char **all = calloc(index->count + 1, sizeof *all);
    bool good = checkpoint->files != NULL && all != NULL;
    for (size_t i = 0; good && i < index->count; i++)
        all[i] = index->entries[i].file;
    if (good)
        qsort(all, index->count, sizeof *all, by_text);
    checkpoint->file_count = 0;
    for (size_t i = 0; good && i < index->count; i++) {
        if (i > 0 && strcmp(all[i], all[i - 1]) == 0)
            continue;
        char *name = strdup(all[i]);
        good = name != NULL;
        if (good)
            checkpoint->files[checkpoint->file_count++] = name;
    }
    free(all);
    return good;
}

static bool nothing_wanted(const char *name, const void *context)
{
    (void)name, (void)context;
    return false;
}

/* Appends one shard's header; each tensor must be in the shard that the index names. */
static bool read_shard(struct checkpoint *checkpoint, const char *folder, const char *file, const struct index *index,
                       struct diag *diag)
{
    struct tensors more;
    char *path = join(folder, file);
    bool good = path != NULL || no_memory(diag, folder);
    good = good && tensors_read_some(&more, path, nothing_wanted, NULL, diag);
    if (!good) {
        free(path);
        return false;
    }
    for (size_t i = 0; index != NULL && i < more.count; i++) {
        const struct entry key = {more.items[i].name, NULL};
        const struct entry *entry = bsearch(&key, index->entries, index->count, sizeof key, by_tensor);
        if (entry != NULL && strcmp(entry->file, file) == 0)
            continue;
        diag_error(diag, path, "tensor \"%s\" is %s%s by the index; the index and its files belong together",
                   more.items[i].name, entry == NULL ? "nowhere" : "in ", entry == NULL ? "" : entry->file);
        good = false;
    }
    if (!tensors_join(&checkpoint->tensors, &more))
        good = no_memory(diag, path);
    tensors_free(&more);
    free(path);
    return good;
}

/* Reports each tensor of the index that no shard has. */
static bool check_found(const struct checkpoint *checkpoint, const struct index *index, struct diag *diag)
{
    bool good = true;
    for (size_t i = 0; index->count != checkpoint->tensors.count && i < index->count; i++)
        if (tensors_find(&checkpoint->tensors, index->entries[i].tensor) == NULL)
            good = diag_error(diag, checkpoint->weights_path, "tensor \"%s\" is not in %s; the index and its files "
                              "belong together", index->entries[i].tensor, index->entries[i].file);
    return good;
}

static bool read_index(struct checkpoint *checkpoint, const char *folder, struct diag *diag)
{
    const char *place = checkpoint->weights_path;
    size_t size;
    char *text = file_read(place, WHOLE_CONFIG, &size, diag);
    if (text == NULL)
        return false;
    struct index index = {.json = json_begin(text, size)};
    bool good = scan_index(&index);
    if (index.json.no_memory)
        no_memory(diag, place);
    else if (!good)
        diag_error(diag, place, "byte %zu: %s", (size_t)(index.json.at - text), index.json.why);
    if (good)
        qsort(index.entries, index.count, sizeof *index.entries, by_tensor);
    for (size_t i = 1; good && i < index.count; i++)
        if (strcmp(index.entries[i].tensor, index.entries[i - 1].tensor) == 0)
            good = diag_error(diag, place, "tensor \"%s\" occurs twice in weight_map", index.entries[i].tensor);
    if (good && !list_files(checkpoint, &index))
        good = no_memory(diag, place);
    for (size_t i = 0; good && i < checkpoint->file_count; i++)
        good = read_shard(checkpoint, folder, checkpoint->files[i], &index, diag);
    good = good && check_found(checkpoint, &index, diag);
    free_index(&index);
    free(text);
    return good;
}

/* ---- the folder ---- */

static bool is_folder(const char *folder, struct diag *diag)
{
    struct stat status;
    if (stat(folder, &status) != 0)
        diag_environment(diag, folder, "cannot be read: %s; give the folder of a model", strerror(errno));
    else if (!S_ISDIR(status.st_mode))
        diag_error(diag, folder, "is no folder; give the one that has the model's config.json and model.safetensors");
    else
        return true;
    return false;
}

static bool read_weights(struct checkpoint *checkpoint, const char *folder, struct diag *diag)
{
    checkpoint->weights_path = join(folder, "model.safetensors");
    if (checkpoint->weights_path == NULL)
        return no_memory(diag, folder);
    if (is_there(checkpoint->weights_path)) {
        checkpoint->files = calloc(1, sizeof *checkpoint->files);
        if (checkpoint->files == NULL || (checkpoint->files[0] = strdup("model.safetensors")) == NULL)
            return no_memory(diag, folder);
        checkpoint->file_count = 1;
        return read_shard(checkpoint, folder, checkpoint->files[0], NULL, diag);
    }
    free(checkpoint->weights_path);
    checkpoint->weights_path = join(folder, "model.safetensors.index.json");
    if (checkpoint->weights_path == NULL)
        return no_memory(diag, folder);
    if (is_there(checkpoint->weights_path))
        return read_index(checkpoint, folder, diag);
    no_weights(folder, diag);
    return false;
}

bool checkpoint_read(struct checkpoint *checkpoint, const char *folder, struct diag *diag)
{
    *checkpoint = (struct checkpoint){0};
    if (!is_folder(folder, diag))
        return false;
    checkpoint->config_path = join(folder, "config.json");
    if (checkpoint->config_path == NULL)
        return no_memory(diag, folder);
    if (!is_there(checkpoint->config_path))
        return diag_error(diag, folder, "has no config.json; give the folder that save_pretrained() wrote, or that was "
                          "downloaded");
    checkpoint->config = file_read(checkpoint->config_path, WHOLE_CONFIG, &checkpoint->config_size, diag);
    return checkpoint->config != NULL && read_weights(checkpoint, folder, diag);
}

char *checkpoint_text(const char *folder, const char *name, size_t *size, struct diag *diag)
{
    char *path = join(folder, name), *text = NULL;
    if (path == NULL)
        no_memory(diag, folder);
    else if (is_there(path))
        text = file_read(path, WHOLE_CONFIG, size, diag);
    free(path);
    return text;
}

void checkpoint_free(struct checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->file_count; i++)
        free(checkpoint->files[i]);
    free(checkpoint->files);
    free(checkpoint->config_path);
    free(checkpoint->config);
    free(checkpoint->weights_path);
    tensors_free(&checkpoint->tensors);
}
