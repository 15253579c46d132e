/* SPDX-License-Identifier: MIT */
/* Files of tensors. The first byte says of what form the rest is, the second one what it is read for:
 *
 *   r  the file as it is        h  header NUL data: the length of the header is put in front
 *   the second byte, modulo 8: 0 the tensors alone; 1 to 3 as weights, of one of these layers; 4 to 7 as a call's inputs
 *
 * What is accepted lies in the file, covers it, and written again is read as the same; weights are the layer's.
 */
#include "fuzz.h"

#include <math.h>

#include "../../runtime/inputs/inputs.h"
#include "../../runtime/inputs/weights.h"
#include "../../runtime/system/process.h"
#include "base/tensors.h"

static const char *const specs[] = {
    "name = a\nd_model = 2\nh = 1\nseq_len = 2\nbias = true\n",
    "name = b\nd_model = 2\nh = 2\nseq_len = 2\nsource_len = 3\nattention = cross\nmask = padding+bool+additive\nscores = true\n",
    "name = c\nd_model = 4\nh = 2\ninput = split\nw_o = conv\nseq_len = 2\nw_k = tied\nweight_layout = out_in\n",
    "name = d\nd_model = 4\nh = 2\nh_kv = 1\nseq_len = 3\nmask = causal+padding\nw_o = none\nbias = true\n",
    "name = e\nd_model = 4\nh = 2\nh_kv = 1\nseq_len = 2\nqk_norm = layer\nsink = true\nrelative = t5\nrel_buckets = 4\n",
};
#define LAYERS (sizeof specs / sizeof *specs)

static const struct layer *layer_number(size_t number)
{
    static struct layer *layers[LAYERS];
    if (layers[number] == NULL)
        layers[number] = fuzz_layer(specs[number]);
    return layers[number];
}

/* ---- the tensors ----------------------------------------------------------------------------------------------- */

static void check_tensor(const struct tensors *all, const struct tensor *t)
{
    size_t bytes = tensor_type_size(t->type);
    char text[200];
    for (int i = 0; i < t->rank; i++) {
        REQUIRE(t->shape[i] >= 0);
        bytes *= (size_t)t->shape[i];
    }
    REQUIRE(t->rank >= 0 && t->rank <= TENSOR_RANK_LIMIT && bytes == t->bytes && t->data != NULL);
    REQUIRE((uintptr_t)t->data % tensor_type_size(t->type) == 0 && tensors_find(all, t->name) == t);
    REQUIRE(strlen(tensor_shape_text(text, t->rank, t->shape)) < sizeof text);
    for (size_t i = 0; t->type == TYPE_BOOL && i < bytes; i++)
        REQUIRE(((const unsigned char *)t->data)[i] <= 1);
}

static void check_same(const struct tensors *a, const struct tensors *b)
{
    REQUIRE(a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct tensor *s = &a->items[i], *t = tensors_find(b, s->name);
        REQUIRE(t != NULL && s->type == t->type && s->rank == t->rank && s->bytes == t->bytes);
        REQUIRE(memcmp(s->shape, t->shape, (size_t)s->rank * sizeof *s->shape) == 0);
        REQUIRE(memcmp(s->data, t->data, s->bytes) == 0);
    }
}

/* Written and read: every name is right in the file, whatever it is. */
static void check_written(const struct tensors *tensors)
{
    struct tensors again;
    struct diag diag = {0};
    const char *path = fuzz_file("again.safetensors", "", 0);
    REQUIRE(tensors_write(path, tensors->items, tensors->count, &diag), "%s", diag.messages[0]);
    REQUIRE(tensors_read(&again, path, &diag), "%s", diag.messages[0]);
    check_same(tensors, &again);
    tensors_free(&again);
    fuzz_diag(&diag, true);
}

/* What is accepted covers the file, each byte once. */
static void check_cover(const struct tensors *tensors, const unsigned char *bytes, size_t size)
{
    size_t sum = 8;
    for (int i = 0; i < 8; i++)
        sum += (size_t)bytes[i] << (8 * i);
    for (size_t i = 0; i < tensors->count; i++)
        sum += tensors->items[i].bytes;
    REQUIRE(sum == size);
}

/* From memory and from a file: the same, and the same messages. */
static bool parse(struct tensors *tensors, const unsigned char *bytes, size_t size, const char *path)
{
    struct tensors other;
    struct diag diag = {0}, other_diag = {0};
    const bool good = tensors_parse(tensors, bytes, size, path, &diag);
    REQUIRE(tensors_read(&other, path, &other_diag) == good);
    REQUIRE(good || strcmp(diag.messages[0], other_diag.messages[0]) == 0, "%s\n%s", diag.messages[0],
            other_diag.messages[0]);
    if (good) {
        check_same(tensors, &other);
        check_cover(tensors, bytes, size);
    }
    REQUIRE(good || (tensors->count == 0 && tensors->items == NULL));
    tensors_free(&other);
    fuzz_diag(&diag, good);
    fuzz_diag(&other_diag, good);
    return good;
}

/* ---- what they are for ----------------------------------------------------------------------------------------- */

static void try_weights(const char *path, const struct layer *layer, unsigned way)
{
    static const char *const prefixes[] = {NULL, "", "h.0.attn.", "h.1"};
    const struct weights_choice choice = {.path = path, .prefix = prefixes[way % 4], .zero_bias = way / 4 % 2,
                                          .norm_plus_one = way / 8 % 2};
    struct tensors weights;
    struct diag diag = {0};
    const bool good = weights_read(&weights, layer, &choice, &diag);
    fuzz_diag(&diag, good);
    for (enum layer_tensor t = TENSOR_W_Q; good && t <= TENSOR_SINK; t++) {
        const struct tensor *w = tensors_find(&weights, layer_tensor_name(t));
        int64_t shape[4];
        const int rank = layer_weight_shape(layer, t, shape);
        REQUIRE((w != NULL) == layer_has_tensor(layer, t));
        if (w == NULL)
            continue;
        check_tensor(&weights, w);
        REQUIRE(w->type == TYPE_F32 && w->rank == rank && memcmp(w->shape, shape, (size_t)rank * sizeof *shape) == 0);
        for (size_t i = 0; i < w->bytes / sizeof(float); i++)
            REQUIRE(isfinite(((const float *)w->data)[i]));
    }
    REQUIRE(good || weights.items == NULL);
    tensors_free(&weights);
}

static void try_inputs(const struct tensors *tensors, const char *path, const struct layer *layer)
{
    struct inputs in;
    struct diag diag = {0};
    const bool good = inputs_from_tensors(&in, layer, tensors, path, &diag);
    fuzz_diag(&diag, good);
    if (!good)
        return;
    REQUIRE(in.n <= (size_t)layer->seq_len && in.m <= (size_t)layer->source_len);
    for (int t = 0; t < TENSOR_COUNT; t++) {
        const struct tensor *from = tensors_find(tensors, layer_tensor_name(t));
        if (t == TENSOR_Y || t == TENSOR_ATTN)
            continue;
        REQUIRE((in.tensor[t] != NULL) == layer_has_tensor(layer, t));
        const bool converted = layer_tensor_row(t)->type == TENSOR_I32 && from != NULL && from->type == TYPE_F32;
        if (in.tensor[t] != NULL && !converted)
            REQUIRE(from->bytes == inputs_count(layer, &in, t) * layer_tensor_size(layer, t) &&
                    memcmp(in.tensor[t], from->data, from->bytes) == 0);
    }
    for (size_t b = 0; b < in.batch && (layer->mask & MASK_PADDING) != 0; b++)
        REQUIRE(inputs_keys(&in, b) <= in.m);
    inputs_free(&in);
}

/* The rest of the input as a file. */
static unsigned char *make_file(const uint8_t *data, size_t size, bool raw, size_t *length)
{
    const uint8_t *zero = raw || size == 0 ? NULL : memchr(data, '\0', size);
    const size_t header = zero != NULL ? (size_t)(zero - data) : size, rest = zero != NULL ? size - header - 1 : 0;
    unsigned char *bytes = malloc(size + 8);
    REQUIRE(bytes != NULL);
    if (raw) {
        memcpy(bytes, data, size);
        *length = size;
        return bytes;
    }
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)header >> (8 * i));
    memcpy(bytes + 8, data, header);
    memcpy(bytes + 8 + header, data + (size - rest), rest);
    *length = 8 + header + rest;
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tensors tensors;
    size_t length;
    if (size < 2)
        return 0;
    unsigned char *bytes = make_file(data + 2, size - 2, data[0] == 'r', &length);
    unsigned char *exact = malloc(length > 0 ? length : 1); /* so that a byte past its end is seen */
    REQUIRE(exact != NULL);
    memcpy(exact, bytes, length);
    const char *path = fuzz_file("fuzz.safetensors", exact, length);
    if (parse(&tensors, exact, length, path)) {
        const unsigned use = data[1] % 8, way = data[1] / 8;
        for (size_t i = 0; i < tensors.count; i++)
            check_tensor(&tensors, &tensors.items[i]);
        if (use == 0)
            check_written(&tensors);
        else if (use < 4)
            try_weights(path, layer_number(way / 8 == 3 ? LAYERS - 1 : use - 1), way);
        else
            try_inputs(&tensors, path, layer_number(use - 4));
        tensors_free(&tensors);
    }
    free(exact);
    free(bytes);
    return 0;
}
