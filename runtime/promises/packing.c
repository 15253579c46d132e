/* SPDX-License-Identifier: MIT */
/* What is promised of a packed block: which instruction set it is for, that wrong weights are refused, and that only a
 * block that was packed whole, for this very layer, is taken for one.
 *
 * Left out on purpose: what the weights become (compare.h shows it).
 */
#include "trials.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arith.h"
#include "fenced.h"
#include "misuse.h"
#include "plan/isa.h"

#define MAX_ISAS 32      /* ids are below */
#define SMALL_BLOCK 1e6   /* bytes; larger ones are packed less often */

struct packing {
    const struct kernel_table *call;
    const struct layer *layer;
    const struct inputs *in;
    const void *good;      /* the block that was packed whole */
    struct guarded packed; /* one to be spoiled */
    struct trial *trial;
    int isa;
    char *why;
    struct diag *diag;
};

/* ---- what is not a packed block --------------------------------------------------------------------------------- */

/* Whatever `block` contains, it is not accepted as a packed block: calls return `expected`. */
static bool not_taken(struct packing *p, const void *block, int expected, const char *what)
{
    const struct kernel_args args = trial_args(p->trial, p->in);
    const int isa = p->call->isa(block);
    if (!returned(p, p->call->forward(block, &args, p->trial->scratch.data), expected, "%s: forward", what))
        return false;
    if (isa != 0)
        return violated(p, "%s: isa returns %d, not 0", what, isa);
    return (p->call->run(block, &args, p->trial->scratch.data, 0, 0, 0) == expected &&
            p->call->phases(block, &args) == 0 && p->call->parts(block, &args, 0) == 0) ||
           violated(p, "%s: run takes it, or it has phases or parts", what);
}

/* A block of another layer, plan or version has another fingerprint; of another instruction set, another number too. */
static bool foreign_blocks(struct packing *p)
{
    struct kernel_header *header = p->packed.data, kept;
    memcpy(p->packed.data, p->good, p->packed.bytes);
    kept = *header;
    for (int bit = 0; bit < 64; bit += 7) {
        header->layer = kept.layer ^ (uint64_t)1 << bit;
        if (!not_taken(p, header, KERNEL_PACKED, "a packed block with another layer's fingerprint"))
            return false;
    }
    *header = kept;
    for (uint32_t isa = 0; isa < MAX_ISAS; isa++) {
        const int expected = p->call->isa_name((int)isa) != NULL ? KERNEL_PACKED : KERNEL_ISA;
        header->isa = isa;
        if (isa != kept.isa && !not_taken(p, header, expected, "a packed block with another instruction set's number"))
            return false;
    }
    *header = kept;
    header->magic ^= 1;
    return not_taken(p, header, KERNEL_PACKED, "a packed block with another magic number");
}

/* A block as NAME_PACK_ONLY packs it: calls accept it as it is, and also its second header, which open returns. */
static void pack_elsewhere(struct packing *p, void *block)
{
    struct kernel_header headers[2]; /* a block may lie off its boundary */
    memcpy(block, p->good, p->packed.bytes);
    memcpy(&headers[0], block, sizeof headers[0]);
    headers[1] = headers[0];
    headers[0].magic = KERNEL_ELSEWHERE;
    headers[1].magic = KERNEL_OPENED;
    memcpy(block, headers, sizeof headers);
}

/* Complete blocks that were copied to an illegal address, and their second header */
static bool misplaced_block(struct packing *p)
{
    bool good = true;
    OWNED(guarded_free) struct guarded place;
    guarded_make(&place, p->packed.bytes + KERNEL_ALIGNMENT, 0);
    for (size_t offset = 4; good && offset < KERNEL_ALIGNMENT; offset += 4) {
        char *block = (char *)place.data + offset;
        memcpy(block, p->good, p->packed.bytes);
        good = not_taken(p, block, KERNEL_ALIGN, "a packed block off its boundary");
        pack_elsewhere(p, block);
        good = good && (offset == sizeof(struct kernel_header) ||
                        not_taken(p, block + sizeof(struct kernel_header), KERNEL_ALIGN, "a header off its boundary"));
    }
    return good;
}

/* ---- wrong weights ---------------------------------------------------------------------------------------------- */

static bool pack_refuses(struct packing *p, const struct kernel_weights *weights, int isa, int expected,
                         const char *what)
{
    return returned(p, p->call->pack(p->packed.data, weights, isa), expected, "pack with %s", what) &&
           (guarded_zones_intact(&p->packed) || violated(p, "pack with %s wrote outside packed", what));
}

/* Weights for a call, whose addresses may be changed, those of tables too */
struct given {
    struct kernel_weights weights;
    const float *tables[LAYER_TABLES];
};

static void give(const struct packing *p, struct given *given)
{
    given->weights = kernel_weights_of(p->in);
    memcpy(given->tables, &p->in->tensor[TENSOR_TABLE], p->layer->table_count * sizeof *given->tables);
    given->weights.tables = p->layer->table_count > 0 ? given->tables : NULL;
}

/* The first weight from this tensor on that the layer has; TENSOR_COUNT: none */
static enum layer_tensor next_weight(const struct packing *p, enum layer_tensor tensor)
{
    while (tensor < TENSOR_COUNT && (p->in->tensor[tensor] == NULL ||
                                     !tensor_is_packed(layer_tensor_row(tensor)->kind)))
        tensor++;
    return tensor;
}

#define EACH_WEIGHT(p, t) enum layer_tensor t = next_weight(p, 0); t < TENSOR_COUNT; t = next_weight(p, t + 1)

/* The address of a weight */
static const float **place_of(struct given *given, enum layer_tensor tensor)
{
    return layer_tensor_row(tensor)->kind == TENSOR_NAMED ? &given->tables[tensor - TENSOR_TABLE]
                                                          : (const float **)&given->weights.tensor[tensor];
}

/* The first weight that the layer has; NULL: none. */
static float *first_weight(const struct packing *p)
{
    const enum layer_tensor first = next_weight(p, 0);
    return first < TENSOR_COUNT ? p->in->tensor[first] : NULL;
}

/* A non-finite weight: the block that was valid before is no longer. */
static bool nonfinite_weight(struct packing *p, enum layer_tensor t, size_t at, float value)
{
    const struct kernel_weights weights = kernel_weights_of(p->in);
    float *values = p->in->tensor[t];
    const float kept = values[at];
    char what[48];
    snprintf(what, sizeof what, "non-finite %s", layer_tensor_name(t));
    memcpy(p->packed.data, p->good, p->packed.bytes);
    values[at] = value;
    const bool good = pack_refuses(p, &weights, p->isa, KERNEL_NONFINITE, what);
    values[at] = kept;
    snprintf(what, sizeof what, "a block that pack refused for its %s", layer_tensor_name(t));
    return good && not_taken(p, p->packed.data, KERNEL_PACKED, what);
}

/* The smallest number that becomes infinite when this layer rounds its weights */
static float too_large(const struct layer *layer)
{
    const enum tensor_element type = layer->precision == PRECISION_BF16 ? TENSOR_BF16 : layer->weight_type;
    int exponent;
    (void)frexp(element_rows[type].most, &exponent);
    const float halfway = (float)(element_rows[type].most + ldexp(1, exponent - element_rows[type].bits - 1));
    return element_rows[type].bits == 0 ? INFINITY : isinf(element_rounded(type, halfway)) ? halfway
                                                                                        : nextafterf(halfway, INFINITY);
}

/* The last number of each weight; if packing is quick, also the first and random ones */
static bool nonfinite_weights(struct packing *p)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};
    bool good = true;
    for (EACH_WEIGHT(p, t)) {
        const size_t count = inputs_count(p->layer, p->in, t);
        struct random random = {count + t};
        good = good && nonfinite_weight(p, t, count - 1, values[2 * (t % 2)]) &&
               (layer_tensor_row(t)->kind != TENSOR_WEIGHT || nonfinite_weight(p, t, 0, too_large(p->layer)));
        for (size_t more = 0; good && more < 4 && (double)p->packed.bytes < SMALL_BLOCK; more++)
            good = nonfinite_weight(p, t, more > 0 ? random_bits(&random) % count : 0, values[(more + t + 1) % 3]);
    }
    return good;
}

/* A call of pack, or of pack_part */
struct pack_call {
    struct packing *p;
    void *packed;
    const void *weights;
    bool parts;
};

static bool pack_refused(void *context, int expected, const char *what)
{
    const struct pack_call *c = context;
    const struct kernel_table *call = c->p->call;
    const int error = c->parts ? call->pack_part(c->packed, c->weights, 0, 1)
                               : call->pack(c->packed, c->weights, c->p->isa);
    return returned(c->p, error, expected, "pack%s, %s:", c->parts ? "_part" : "", what);
}

/* Each pointer in turn NULL, or given without use, or off its boundary */
static bool wrong_pointers(struct packing *p)
{
    struct given given;
    struct misuse rows[MISUSE_ROWS];
    bool good = true;
    give(p, &given);
    memcpy(p->packed.data, p->good, p->packed.bytes);
    for (int parts = 0; good && parts <= (p->call->pack_part != NULL); parts++) {
        struct pack_call call = {p, p->packed.data, &given.weights, parts};
        size_t count = misuse_of_weights(p->layer, &given.weights, given.tables, rows);
        rows[count++] = (struct misuse){"packed", &call.packed, KERNEL_ALIGNMENT, MISUSE_NEEDED};
        rows[count++] = (struct misuse){"weights", &call.weights, 1, MISUSE_NEEDED};
        good = misuse_refused(rows, count, pack_refused, &call);
    }
    return good && (memcmp(p->packed.data, p->good, p->packed.bytes) == 0 ||
                    violated(p, "pack: refused for a pointer, but the block was written"));
}

/* Finite weights whose product with each other, if they are folded, or with the scale is too large are refused too. The
 * first numbers of both tensors meet in one product. */
static bool refuses_product(struct packing *p, enum layer_tensor a, enum layer_tensor b, float value_a, float value_b)
{
    const struct kernel_weights weights = kernel_weights_of(p->in);
    float *first = p->in->tensor[a], *second = p->in->tensor[b];
    char what[60];
    if (first == NULL || second == NULL)
        return violated(p, "%s is multiplied when packing, but the layer has none",
                        layer_tensor_name(first == NULL ? a : b));
    const float kept_a = *first, kept_b = *second;
    snprintf(what, sizeof what, "%s and %s whose product is too large", layer_tensor_name(a), layer_tensor_name(b));
    *first = value_a;
    *second = value_b;
    const bool good = pack_refuses(p, &weights, p->isa, KERNEL_NONFINITE, what);
    *second = kept_b;
    *first = kept_a;
    return good;
}

static bool overflowing_products(struct packing *p)
{
    static const double products[] = {0x1.1p104, -0x1.1p104, 1e60, -1e60}; /* past 2^104, and past f32 */
    const struct layer *layer = p->layer;
    const double scale = fabs(layer->scale) * 1.4426950408889634;
    const bool gains = layer_has_tensor(layer, TENSOR_G_Q), norms = layer->qk_norm != NORM_NONE;
    const bool scales_keys = layer->tied && !layer->cross && !gains; /* in each call, as the queries are the keys */
    const enum layer_tensor scaled = gains ? TENSOR_G_Q : TENSOR_W_Q;
    const bool bf16 = layer->weight_type == TENSOR_BF16 || layer->precision == PRECISION_BF16;
    const double most = bf16 && !gains ? 0x1.fep127 : FLT_MAX; /* that is finite before the scale */
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const float sign = products[i] < 0 ? -1.0f : 1.0f;
        const double of_scores = sqrt(fabs(products[i]) / scale), of_values = sqrt(fabs(products[i]));
        if (p->call->folds_scores && of_scores < FLT_MAX &&
            !refuses_product(p, TENSOR_W_Q, layer->tied ? TENSOR_W_Q : TENSOR_W_K, (float)of_scores,
                             sign * (float)of_scores))
            return false;
        if (p->call->folds_values &&
            !refuses_product(p, TENSOR_W_V, TENSOR_W_O, (float)of_values, sign * (float)of_values))
            return false;
        if (layer_attends(layer) && p->in->tensor[scaled] != NULL && !p->call->folds_scores && !scales_keys &&
            gains == norms &&
            scale * most > 1.001 * FLT_MAX && !refuses_product(p, scaled, scaled, 0, sign * (float)most))
            return false;
    }
    return true;
}

static bool wrong_packing(struct packing *p)
{
    const struct kernel_weights weights = kernel_weights_of(p->in);
    return pack_refuses(p, &weights, 99, KERNEL_ISA, "isa 99") && wrong_pointers(p) && nonfinite_weights(p) &&
           overflowing_products(p);
}

/* ---- packing in parts ------------------------------------------------------------------------------------------- */

static void negate(struct packing *p)
{
    for (EACH_WEIGHT(p, t))
        for (size_t k = 0, count = inputs_count(p->layer, p->in, t); k < count; k++)
            ((float *)p->in->tensor[t])[k] *= -1;
}

static bool part_returns(struct packing *p, void *packed, const void *weights, size_t part, size_t parts, int expected,
                         const char *what)
{
    return returned(p, p->call->pack_part(packed, weights, part, parts), expected, "pack_part %zu of %zu of %s", part,
                    parts, what);
}

/* Each part alone turns its numbers of the block of old weights into those of `wanted`, and no other part those. */
static bool parts_are_disjoint(struct packing *p, const uint32_t *wanted, size_t parts)
{
    const struct kernel_weights weights = kernel_weights_of(p->in);
    const size_t numbers = p->packed.bytes / sizeof *wanted;
    const uint32_t *old = p->good, *now = p->packed.data;
    HEAP unsigned char *done = memory_get(numbers, 1);
    bool good = true;
    for (size_t part = parts; good && part-- > 0;) {
        memcpy(p->packed.data, p->good, p->packed.bytes);
        good = part_returns(p, p->packed.data, &weights, part, parts, KERNEL_OK, "changed weights");
        for (size_t i = 0; good && i < numbers; i++)
            if (now[i] != old[i])
                good = (now[i] == wanted[i] && done[i]++ == 0) ||
                       violated(p, "pack_part %zu of %zu: number %zu of the block is not %s", part, parts, i,
                                now[i] != wanted[i] ? "what pack writes" : "its own");
    }
    for (size_t i = 0; good && i < numbers; i++)
        good = old[i] == wanted[i] || done[i] == 1 ||
               violated(p, "pack_part: no part of %zu writes number %zu of the block", parts, i);
    return good;
}

static bool wrong_parts(struct packing *p)
{
    const struct kernel_weights weights = kernel_weights_of(p->in);
    char *block = p->packed.data;
    struct kernel_header *header = p->packed.data;
    float *weight = first_weight(p), kept = 0;
    memcpy(block, p->good, p->packed.bytes);
    if (!part_returns(p, block, &weights, 0, 0, KERNEL_PART, "no parts") ||
        !part_returns(p, block, &weights, 2, 2, KERNEL_PART, "two parts"))
        return false;
    header->layer ^= 1;
    if (!part_returns(p, block, &weights, 0, 1, KERNEL_PACKED, "another layer's block"))
        return false;
    header->layer ^= 1;
    header->magic = KERNEL_ELSEWHERE;
    if (!part_returns(p, block, &weights, 0, 1, KERNEL_PACKED, "a block that was packed elsewhere"))
        return false;
    memcpy(block, p->good, p->packed.bytes);
    if (weight == NULL)
        return true;
    kept = *weight;
    *weight = NAN;
    const bool refused = part_returns(p, block, &weights, 0, 1, KERNEL_NONFINITE, "a weight that is NaN");
    *weight = kept;
    for (size_t part = 0; refused && part < 3; part++)
        if (!part_returns(p, block, &weights, part, 3, KERNEL_OK, "good weights after a bad one"))
            return false;
    return refused && (memcmp(block, p->good, p->packed.bytes) == 0 ||
                       violated(p, "pack_part after an error does not give the bytes of pack"));
}

/* Of a layer that trains: whatever the parts, together they write what pack writes, each what no other does. */
static bool packing_in_parts(struct packing *p)
{
    static const size_t parts[] = {3, 1, 2, 7};
    if (p->call->pack_part == NULL)
        return true;
    OWNED(guarded_free) struct guarded wanted;
    guarded_make(&wanted, p->packed.bytes, 0);
    negate(p);
    const struct kernel_weights weights = kernel_weights_of(p->in);
    bool good = p->call->pack(wanted.data, &weights, p->isa) == KERNEL_OK ||
                violated(p, "weights times -1 are refused");
    const size_t count = (double)p->packed.bytes < SMALL_BLOCK ? sizeof parts / sizeof *parts : 1;
    for (size_t i = 0; good && i < count; i++)
        good = parts_are_disjoint(p, wanted.data, parts[i]);
    negate(p);
    return good && wrong_parts(p);
}

/* ---- packing that is cut off ------------------------------------------------------------------------------------ */

/* Memory that processes share, and memory that none may read */
static void *map(size_t bytes, int protection)
{
    void *at = mmap(NULL, bytes, protection, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory_there(at != MAP_FAILED ? at : NULL);
}

/* What a separate process packs */
struct packing_call {
    const struct packing *p;
    void *packed;
    struct given given;
};

static void pack_weights(void *context)
{
    const struct packing_call *c = context;
    c->p->call->pack(c->packed, &c->given.weights, c->p->isa);
}

/* The process crashes when it reads the last weight. */
static bool cut_off(struct packing *p, void *packed, const float *unreadable)
{
    struct packing_call call = {.p = p, .packed = packed};
    enum layer_tensor last = 0;
    give(p, &call.given);
    for (EACH_WEIGHT(p, t))
        last = t;
    *place_of(&call.given, last) = unreadable;
    memcpy(packed, p->good, p->packed.bytes);
    bool lived;
    if (!fenced_call(pack_weights, &call, &lived, p->diag))
        return false;
    return (!lived || violated(p, "pack did not read %s", layer_tensor_name(last))) &&
           not_taken(p, packed, KERNEL_PACKED, "a block whose packing was cut off");
}

/* Each weight ends, or begins, where readable memory ends or begins. */
static bool weights_read_within(struct packing *p, enum fence fence)
{
    struct packing_call call = {.p = p, .packed = p->packed.data};
    struct fenced fences[TENSOR_COUNT] = {{0}};
    bool lived = true;
    give(p, &call.given);
    for (EACH_WEIGHT(p, t)) {
        const float **const place = place_of(&call.given, t);
        const size_t bytes = inputs_count(p->layer, p->in, t) * sizeof(float);
        *place = memory_there(fenced_make(&fences[t], *place, bytes, fence) ? fences[t].data : NULL);
    }
    const bool good = fenced_call(pack_weights, &call, &lived, p->diag);
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        fenced_free(&fences[t]);
    return good && (lived || violated(p, "pack reads outside a weight, writes to one, or crashes"));
}

static bool packing_cut_off(struct packing *p)
{
    size_t max = 1;
    if (first_weight(p) == NULL)
        return true;
    for (EACH_WEIGHT(p, t))
        max = max_size(max, inputs_count(p->layer, p->in, t) * sizeof(float));
    void *packed = map(p->packed.bytes, PROT_READ | PROT_WRITE), *unreadable = map(max, PROT_NONE);
    const bool good = cut_off(p, packed, unreadable);
    munmap(packed, p->packed.bytes);
    munmap(unreadable, max);
    return good;
}

/* Weights that are no more aligned than they must be give the same block. */
static bool packs_again(struct packing *p)
{
    struct given given;
    struct guarded moved[TENSOR_COUNT] = {{0}};
    give(p, &given);
    for (EACH_WEIGHT(p, t)) {
        const float **const place = place_of(&given, t);
        const size_t bytes = inputs_count(p->layer, p->in, t) * sizeof(float);
        guarded_make(&moved[t], bytes, sizeof(float));
        *place = memcpy(moved[t].data, *place, bytes);
    }
    guarded_fill(&p->packed); /* as the good one was */
    bool good = returned(p, p->call->pack(p->packed.data, &given.weights, p->isa), KERNEL_OK,
                         "pack from other addresses");
    good = good && (memcmp(p->packed.data, p->good, p->packed.bytes) == 0 ||
                    violated(p, "packed again, a block has other bytes"));
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        guarded_free(&moved[t]);
    return good;
}

/* ---- the instruction set of its own choice ---------------------------------------------------------------------- */

/* Whether the machine has the set: then pack reaches the weights, the first of which, if there is one, is
 * non-finite. */
static bool available(struct packing *p, int isa)
{
    const struct kernel_weights weights = kernel_weights_of(p->in);
    float *first = first_weight(p);
    if (first == NULL)
        return p->call->pack(p->packed.data, &weights, isa) == KERNEL_OK;
    const float kept = *first;
    *first = NAN;
    const int error = p->call->pack(p->packed.data, &weights, isa);
    *first = kept;
    return error == KERNEL_NONFINITE;
}

/* AUTO chooses the last row of the table that the file and the machine have. */
static bool automatic_choice(struct packing *p)
{
    const struct kernel_weights weights = kernel_weights_of(p->in);
    const struct isa *best = NULL;
    for (size_t row = 0; row < isa_count; row++)
        if (p->call->isa_name(isa_table[row].id) != NULL && available(p, isa_table[row].id))
            best = &isa_table[row];
    if (!returned(p, p->call->pack(p->packed.data, &weights, 0), KERNEL_OK, "pack for AUTO"))
        return false;
    const int chosen = p->call->isa(p->packed.data);
    return (best != NULL && chosen == best->id) ||
           violated(p, "AUTO packs for %s; %s is the best of this machine", p->call->isa_name(chosen),
                    best != NULL ? best->name : "no set");
}

/* Each number has the table's name, or is not in the file; a block for it has that number. */
static bool names_of_sets(struct packing *p)
{
    if (p->call->isa(NULL) != 0)
        return violated(p, "isa(NULL) is %d, not 0", p->call->isa(NULL));
    for (int id = -1; id <= MAX_ISAS; id++) {
        const char *name = p->call->isa_name(id);
        const struct isa *isa = name != NULL ? isa_find(name) : NULL;
        if (name != NULL && (isa == NULL || isa->id != id))
            return violated(p, "isa_name(%d) is \"%s\"", id, name);
    }
    return true;
}

/* ---- blocks that are opened ------------------------------------------------------------------------------------- */

/* What open must return for `bytes` bytes at `blocks`: an error, or a block */
static bool opens(struct packing *p, const void *blocks, size_t bytes, int expected, const void *block,
                  const char *what)
{
    const void *packed = &bytes; /* anything but what is expected */
    return returned(p, p->call->open(blocks, bytes, &packed), expected, "open of %s", what) &&
           (packed == block ||
            violated(p, "open of %s gives %s", what, block == NULL ? "a block in spite of it" : "another block"));
}

/* Another set that is compiled and that the machine has; NULL: none */
static const struct isa *another_set(struct packing *p)
{
    for (size_t row = 0; row < isa_count; row++)
        if (isa_table[row].id != p->isa && p->call->isa_name(isa_table[row].id) != NULL &&
            available(p, isa_table[row].id))
            return &isa_table[row];
    return NULL;
}

static void copy_block(void *to, const void *from, size_t bytes, uint64_t next)
{
    memcpy(to, from, bytes);
    ((struct kernel_header *)to)->next = next;
}

/* What open must return for memory after which no byte may be read */
static bool opens_within(struct packing *p, const void *blocks, size_t bytes, int expected, size_t block,
                         const char *what)
{
    OWNED(fenced_free) struct fenced fence = {0};
    const size_t shift = (KERNEL_ALIGNMENT - bytes % KERNEL_ALIGNMENT) % KERNEL_ALIGNMENT;
    const bool made = fenced_make(&fence, blocks, bytes, shift > 0 ? FENCE_IN_FRONT : FENCE_BEHIND);
    char *data = memory_there(made ? fence.data : NULL);
    return opens(p, data, bytes, expected, expected == KERNEL_OK ? data + block : NULL, what);
}

/* Bytes of the good block up to the last one written; other sets may need more. */
static size_t bytes_of_block(struct packing *p)
{
    size_t bytes = p->packed.bytes;
    guarded_fill(&p->packed); /* as it was before */
    while (memcmp((char *)p->packed.data + bytes - KERNEL_ALIGNMENT, (const char *)p->good + bytes - KERNEL_ALIGNMENT,
                  KERNEL_ALIGNMENT) == 0)
        bytes -= KERNEL_ALIGNMENT;
    return bytes;
}

/* A truncated block, of any length */
static bool opens_no_cut_block(struct packing *p)
{
    const size_t bytes = bytes_of_block(p);
    const size_t cuts[] = {0, 1, 32, 63, 64, 128, bytes / 2, bytes - 64, bytes - 1};
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++)
        if (cuts[c] < bytes && !opens_within(p, p->good, cuts[c], KERNEL_PACKED, 0, "a block that is cut off"))
            return false;
    return opens_within(p, p->good, bytes, KERNEL_OK, 0, "a block with nothing after it");
}

/* Opens the second of two blocks if the first is for no set here; none if the first gives the second's place wrongly,
 * or the second is cut off. */
static bool opens_the_second(struct packing *p, char *two)
{
    const size_t bytes = p->packed.bytes;
    struct kernel_header *first = (struct kernel_header *)two, *second = (struct kernel_header *)(two + bytes);
    const uint64_t places[] = {bytes, 0, bytes + 32, bytes + 4, 32, 2 * bytes + 128, UINT64_MAX / 64 * 64};
    for (size_t c = 0; c < sizeof places / sizeof *places; c++) {
        const bool last = places[c] == 0, right = places[c] == bytes;
        const int error = right ? KERNEL_OK : KERNEL_PACKED;
        memset(two, 0, 2 * bytes + 64);
        copy_block(two, p->good, bytes, places[c]);
        copy_block(two + bytes, p->good, bytes, 0);
        if (!opens_within(p, two, 2 * bytes + 64, last ? KERNEL_OK : error, 0, "a good block and another one") ||
            (right && !opens_within(p, two, bytes, KERNEL_PACKED, 0, "a good block whose successor is missing")) ||
            (right && first_weight(p) != NULL &&
             !opens_within(p, two, bytes + 64, KERNEL_PACKED, 0, "a good block and one that is cut off")))
            return false;
        first->layer ^= 1;
        if (!opens_within(p, two, 2 * bytes + 64, error, bytes, "a block of another layer and a good one"))
            return false;
        first->isa = MAX_ISAS;
        if (!opens_within(p, two, 2 * bytes + 64, last ? KERNEL_ISA : error, bytes,
                          "a block of an unknown set and a good one") ||
            (right && first_weight(p) != NULL &&
             !opens_within(p, two, bytes + 64, KERNEL_PACKED, 0, "a block of an unknown set and one that is cut off")))
            return false;
        second->layer ^= 1;
        if (right && !opens_within(p, two, 2 * bytes + 64, KERNEL_PACKED, 0,
                                   "a block of an unknown set and one of another layer"))
            return false;
    }
    return true;
}

/* The same bits as with the good block */
static bool computes_alike(struct packing *p, const void *block, const char *what)
{
    struct trial *const t = p->trial;
    const struct kernel_args args = trial_args(t, p->in);
    outputs_load(&t->now, p->layer, p->in);
    if (!returned(p, p->call->forward(block, &args, t->scratch.data), KERNEL_OK, "%s: forward", what))
        return false;
    if (p->call->isa(block) != p->isa)
        return violated(p, "%s: isa returns %d", what, p->call->isa(block));
    const bool good = trial_same_bits(t, what);
    outputs_fill(&t->now, p->layer, p->in);
    guarded_fill(&t->scratch);
    return good;
}

/* What stands in two headers must be the same in both. Words of either are changed, in `elsewhere`, a good block that
 * was packed elsewhere; not the next of the first, which stands once. */
static bool opens_what_agrees(struct packing *p, struct kernel_header *elsewhere)
{
    const struct kernel_header good[KERNEL_HEADERS] = {elsewhere[0], elsewhere[1]};
    for (uint32_t bit = 0; bit < 32; bit++)
        for (size_t word = 0; word < 10; word++) {
            struct kernel_header *of = &elsewhere[word % 2];
            *(word < 2 ? &of->magic : &of->isa) ^= word < 4 ? 1u << bit : 0;
            *(word < 6 ? &of->layer : word < 8 ? &of->zero : &of->next) ^= word < 4 ? 0 : (uint64_t)1 << 2 * bit;
            if (word != 8 && !opens(p, elsewhere, p->packed.bytes, KERNEL_PACKED, NULL, "a block of two minds"))
                return false;
            memcpy(elsewhere, good, sizeof good);
        }
    return true;
}

static bool packed_elsewhere(struct packing *p)
{
    struct kernel_header *header = p->packed.data;
    pack_elsewhere(p, header);
    return opens(p, header, p->packed.bytes, KERNEL_OK, &header[1], "a block that was packed elsewhere") &&
           computes_alike(p, header, "a block that was packed elsewhere") &&
           computes_alike(p, &header[1], "a block that was packed elsewhere and opened") &&
           opens_what_agrees(p, header);
}

/* Each header of two blocks in the place of each other one, and exchanged with it */
static bool opens_no_mixture(struct packing *p, char *two)
{
    const size_t bytes = p->packed.bytes, each = sizeof(struct kernel_header);
    struct kernel_header header[2 * KERNEL_HEADERS];
    for (size_t i = 0; i < 2; i++) {
        memcpy(header + 2 * i, two + i * bytes, each);
        header[2 * i + 1] = header[2 * i];
        header[2 * i + 1].next = 0;
        header[2 * i].magic = KERNEL_ELSEWHERE;
        header[2 * i + 1].magic = KERNEL_OPENED;
    }
    for (size_t from = 0; from < 4; from++)
        for (size_t to = 0; to < 4; to++)
            for (int both = 0; both < 2; both++) {
                for (size_t i = 0; i < 4; i++)
                    memcpy(two + i / 2 * bytes + i % 2 * each,
                           &header[i == to ? from : both && i == from ? to : i], each);
                if (from != to && !opens(p, two, 2 * bytes, KERNEL_PACKED, NULL, "blocks with each other's headers"))
                    return false;
            }
    return true;
}

/* Two consecutive blocks, in either order: the better one is opened, and none if the second is truncated. */
static bool opens_the_best(struct packing *p, const struct isa *other, char *two)
{
    const struct kernel_weights weights = kernel_weights_of(p->in);
    const size_t bytes = p->packed.bytes;
    bool other_is_better = false;
    for (size_t row = 0, seen = 0; row < isa_count; row++) {
        seen += isa_table[row].id == p->isa;
        other_is_better = other_is_better || (seen > 0 && &isa_table[row] == other);
    }
    if (p->call->pack(p->packed.data, &weights, other->id) != KERNEL_OK)
        return violated(p, "pack for %s fails", other->name);
    for (int order = 0; order < 2; order++) {
        const size_t own = order == 0 ? 0 : bytes, others = bytes - own;
        copy_block(two + own, p->good, bytes, own == 0 ? bytes : 0);
        copy_block(two + others, p->packed.data, bytes, others == 0 ? bytes : 0);
        if (!opens(p, two, 2 * bytes, KERNEL_OK, two + (other_is_better ? others : own), "two blocks") ||
            !opens(p, two, bytes, KERNEL_PACKED, NULL, "two blocks, of which the second is cut off") ||
            !opens_no_mixture(p, two))
            return false;
    }
    return true;
}

static bool opening(struct packing *p)
{
    const size_t bytes = p->packed.bytes;
    char *block = p->packed.data;
    memcpy(block, p->good, bytes);
    if (p->call->open(block, bytes, NULL) != KERNEL_NULL)
        return violated(p, "open without a place for the result does not say so");
    if (!opens(p, block, bytes, KERNEL_OK, block, "a block") || !opens(p, NULL, bytes, KERNEL_NULL, NULL, "NULL") ||
        !opens(p, block + 32, bytes - 32, KERNEL_ALIGN, NULL, "a block off its boundary") ||
        (first_weight(p) != NULL && !opens(p, block, 64, KERNEL_PACKED, NULL, "a block of which the header is left")))
        return false;
    ((struct kernel_header *)p->packed.data)->layer ^= 1;
    if (!opens(p, block, bytes, KERNEL_PACKED, NULL, "a block of another layer"))
        return false;
    if (!opens_no_cut_block(p) || !packed_elsewhere(p))
        return false;
    const struct isa *other = another_set(p);
    if ((double)bytes >= SMALL_BLOCK)
        return true;
    OWNED(guarded_free) struct guarded two;
    guarded_make(&two, 2 * bytes + 64, 0);
    return opens_the_second(p, two.data) && (other == NULL || opens_the_best(p, other, two.data));
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

bool packing_holds(struct trial *t)
{
    struct packing p = {.call = t->call, .layer = t->layer, .in = t->in, .good = t->packed, .trial = t,
                        .isa = t->call->isa(t->packed), .why = t->why, .diag = t->diag};
    trial_prepare(t, 0, 1);
    guarded_make(&p.packed, t->call->packed_bytes, KERNEL_ALIGNMENT);
    const bool good = wrong_packing(&p) && packing_in_parts(&p) && foreign_blocks(&p) && misplaced_block(&p) &&
                      packing_cut_off(&p) && weights_read_within(&p, FENCE_BEHIND) &&
                      weights_read_within(&p, FENCE_IN_FRONT) && packs_again(&p) && automatic_choice(&p) &&
                      names_of_sets(&p) && opening(&p) &&
                      trial_untouched(t, "calls with something else than a packed block");
    guarded_free(&p.packed);
    return good;
}
