/* SPDX-License-Identifier: MIT */
/* The shim, dlopen, and the emitted interface's structs filled from inputs. */
#include "load.h"

#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apart.h"
#include "plan/isa.h"
#include "system/process.h"

#define LOADING 60 /* seconds that it may take */

/* @n is the layer's name, @N the same in capitals. No name here can be one of the pair's, which are NAME_ and a suffix
 * that none of these has. */
static const char shim_text[] =
    "#include \"@n.h\"\n"
    "static size_t shim_scratch_of(size_t w) { return @N_SCRATCH_BYTES_FOR(w); }\n"
    "static int shim_pack_of(void *p, const void *w, int i) { return (int)@n_pack(p, w, (@n_isa_id)i); }\n"
    "#ifdef @N_PACK_ONLY\n"
    "#define shim_forward_of 0\n"
    "#define shim_phases_of 0\n"
    "#define shim_parts_of 0\n"
    "#define shim_run_of 0\n"
    "#define shim_phase_of 0\n"
    "#define shim_merge_of 0\n"
    "#else\n"
    "#ifdef @N_MERGES\n"
    "static int shim_merge_of(const void *p, const void *y, const float *l, const void *v, const float *k,\n"
    "                         void *z, float *j, size_t b, size_t n)\n"
    "{ return (int)@n_merge(p, y, l, v, k, z, j, b, n); }\n"
    "#else\n"
    "#define shim_merge_of 0\n"
    "#endif\n"
    "static int shim_forward_of(const void *p, const void *a, void *s) { return (int)@n_forward(p, a, s); }\n"
    "static size_t shim_phases_of(const void *p, const void *a) { return @n_phases(p, a); }\n"
    "static size_t shim_parts_of(const void *p, const void *a, size_t f) { return @n_parts(p, a, f); }\n"
    "static int shim_run_of(const void *p, const void *a, void *s, size_t f, size_t q, size_t w)\n"
    "{ return (int)@n_run(p, a, s, f, q, w); }\n"
    "static const char *shim_phase_of(size_t f) { return @n_phase_name(f); }\n"
    "#endif\n"
    "#ifdef @N_FEW_QUERIES\n"
    "#define SHIM_FEW @N_FEW_QUERIES\n"
    "#else\n"
    "#define SHIM_FEW 0\n"
    "#endif\n"
    "#if defined @N_CACHE_BYTES && !defined @N_PACK_ONLY\n"
    "static int shim_reset_of(const void *c) { return (int)@n_cache_reset(c); }\n"
    "static int shim_move_of(void *c, int32_t *f) { return (int)@n_cache_move(c, f); }\n"
    "#else\n"
    "#define shim_reset_of 0\n"
    "#define shim_move_of 0\n"
    "#endif\n"
    "#if defined @N_SAVED_FLOATS && !defined @N_PACK_ONLY\n"
    "#define SHIM_SAVED @N_SAVED_FLOATS\n"
    "#define SHIM_GRADS sizeof(@n_grads)\n"
    "static size_t shim_backward_scratch_of(size_t w) { return @N_BACKWARD_SCRATCH_BYTES_FOR(w); }\n"
    "static int shim_backward_of(const void *p, const void *a, const void *g, void *s)\n"
    "{ return (int)@n_backward(p, a, g, s); }\n"
    "static size_t shim_backward_phases_of(const void *p, const void *a) { return @n_backward_phases(p, a); }\n"
    "static size_t shim_backward_parts_of(const void *p, const void *a, size_t f)\n"
    "{ return @n_backward_parts(p, a, f); }\n"
    "static int shim_backward_run_of(const void *p, const void *a, const void *g, void *s, size_t f, size_t q,\n"
    "                                size_t w)\n"
    "{ return (int)@n_backward_run(p, a, g, s, f, q, w); }\n"
    "static const char *shim_backward_phase_of(size_t f) { return @n_backward_phase_name(f); }\n"
    "static int shim_pack_part_of(void *p, const void *w, size_t i, size_t n)\n"
    "{ return (int)@n_pack_part(p, w, i, n); }\n"
    "#else\n"
    "#define SHIM_SAVED 0\n"
    "#define SHIM_GRADS 0\n"
    "#define shim_backward_scratch_of 0\n"
    "#define shim_backward_of 0\n"
    "#define shim_backward_phases_of 0\n"
    "#define shim_backward_parts_of 0\n"
    "#define shim_backward_run_of 0\n"
    "#define shim_backward_phase_of 0\n"
    "#define shim_pack_part_of 0\n"
    "#endif\n"
    "#ifdef @N_KEPT_BYTES\n"
    "#define SHIM_KEPT @N_KEPT_BYTES\n"
    "#else\n"
    "#define SHIM_KEPT 0\n"
    "#endif\n"
    "#if defined @N_D_IN && !defined @N_PACK_ONLY\n" /* layer = linear alone has it */
    "static int shim_column_of(const void *p, size_t c, float *o) { return (int)@n_column(p, c, o); }\n"
    "#else\n"
    "#define shim_column_of 0\n"
    "#endif\n"
    "static int shim_isa_of(const void *p) { return (int)@n_isa(p); }\n"
    "static int shim_open_of(const void *b, size_t s, const void **p) { return @n_open(b, s, p); }\n"
    "static const char *shim_name_of(int i) { return @n_isa_name((@n_isa_id)i); }\n"
    "static const char *shim_text_of(int e) { return @n_strerror(e); }\n"
    "struct shim_table {\n"
    "    size_t version, packed, scratch, weights, args;\n"
    "    size_t (*scratch_for)(size_t);\n"
    "    int (*pack)(void *, const void *, int);\n"
    "    int (*forward)(const void *, const void *, void *);\n"
    "    size_t (*phases)(const void *, const void *);\n"
    "    size_t (*parts)(const void *, const void *, size_t);\n"
    "    int (*run)(const void *, const void *, void *, size_t, size_t, size_t);\n"
    "    const char *(*phase)(size_t);\n"
    "    int (*isa)(const void *);\n"
    "    int (*open)(const void *, size_t, const void **);\n"
    "    const char *(*name)(int);\n"
    "    const char *(*text)(int);\n"
    "    int scores, values;\n"
    "    int (*merge)(const void *, const void *, const float *, const void *, const float *, void *, float *,\n"
    "                 size_t, size_t);\n"
    "    size_t few;\n"
    "    int (*reset)(const void *);\n"
    "    int (*move)(void *, int32_t *);\n"
    "    int (*column)(const void *, size_t, float *);\n"
    "    size_t saved, grads;\n"
    "    size_t (*backward_scratch)(size_t);\n"
    "    int (*backward)(const void *, const void *, const void *, void *);\n"
    "    size_t (*backward_phases)(const void *, const void *);\n"
    "    size_t (*backward_parts)(const void *, const void *, size_t);\n"
    "    int (*backward_run)(const void *, const void *, const void *, void *, size_t, size_t, size_t);\n"
    "    const char *(*backward_phase)(size_t);\n"
    "    int (*pack_part)(void *, const void *, size_t, size_t);\n"
    "    size_t kept;\n"
    "};\n"
    "extern const struct shim_table attnrun_shim_table;\n"
    "const struct shim_table attnrun_shim_table = {\n"
    "    @N_INTERFACE_VERSION, @N_PACKED_BYTES, @N_SCRATCH_BYTES, sizeof(@n_weights), sizeof(@n_args),\n"
    "    shim_scratch_of, shim_pack_of, shim_forward_of, shim_phases_of, shim_parts_of, shim_run_of, shim_phase_of,\n"
    "    shim_isa_of, shim_open_of, shim_name_of, shim_text_of, @N_FOLDS_SCORES, @N_FOLDS_VALUES,\n"
    "    shim_merge_of, SHIM_FEW, shim_reset_of, shim_move_of, shim_column_of,\n"
    "    SHIM_SAVED, SHIM_GRADS, shim_backward_scratch_of, shim_backward_of, shim_backward_phases_of,\n"
    "    shim_backward_parts_of, shim_backward_run_of, shim_backward_phase_of, shim_pack_part_of, SHIM_KEPT\n"
    "};\n";

char *kernel_shim(const char *name)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    for (const char *at = shim_text; *at != '\0'; at++) {
        if (*at != '@') {
            putc(*at, out);
            continue;
        }
        at++;
        for (const char *c = name; *c != '\0'; c++)
            putc(*at == 'N' ? toupper((unsigned char)*c) : *c, out);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* In a process of its own, which loading the library may end, as AddressSanitizer does */
static void try_library(void *path, FILE *answer)
{
    process_limit(apart_seconds(LOADING));
    if (dlopen(path, RTLD_NOW | RTLD_LOCAL) == NULL)
        fputs(dlerror(), answer);
    else
        putc('\n', answer);
}

/* Whether it can be loaded */
static bool can_be_loaded(const char *path, bool *crashed, struct diag *diag)
{
    struct process_result result;
    char text[80];
    if (!process_call(&result, try_library, (void *)path, NULL, diag))
        return false;
    const char *why = process_unanswered(&result, result.size > 0 ? result.size : 1, text);
    const bool good = why == NULL && result.output[0] == '\n';
    *crashed = result.signal != 0 && !process_stopped(&result);
    if (!good)
        diag_environment(diag, path, "cannot be loaded: %s", why != NULL ? why : result.output);
    free(result.output);
    return good;
}

/* Structs of a layer that trains have one more field at the end, with dropout two; of one that keeps its source three;
 * some exist only there. */
static bool structs_match(const struct kernel_table *call)
{
    const size_t args = call->saved_floats > 0 ? offsetof(struct kernel_args, seed)
                      : call->kept_bytes > 0 ? sizeof(struct kernel_args) : offsetof(struct kernel_args, saved);
    const size_t learned = offsetof(struct kernel_grads, learned);
    const bool grads = call->saved_floats > 0 ? call->grads_size >= learned &&
                           call->grads_size <= sizeof(struct kernel_grads) : call->grads_size == 0;
    return (call->weights_size == sizeof(struct kernel_weights) ||
            call->weights_size == offsetof(struct kernel_weights, w)) && grads &&
           (call->args_size == args || call->args_size == offsetof(struct kernel_args, seed) || /* to pack only */
            call->args_size == offsetof(struct kernel_args, seed) + sizeof(uint64_t) ||
            call->args_size == offsetof(struct kernel_args, v_scale) + sizeof(void *));
}

bool kernel_load(struct kernel *kernel, const char *path, struct diag *diag)
{
    *kernel = (struct kernel){0};
    if (!can_be_loaded(path, &kernel->crashed, diag))
        return false;
    kernel->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (kernel->library == NULL)
        return diag_environment(diag, path, "cannot be loaded: %s", dlerror());
    kernel->file = open(path, O_RDONLY | O_CLOEXEC);
    kernel->call = dlsym(kernel->library, "attnrun_shim_table");
    if (kernel->call == NULL || kernel->call->version != KERNEL_INTERFACE_VERSION ||
        !structs_match(kernel->call)) {
        diag_environment(diag, path, "is not a kernel with interface version %d", KERNEL_INTERFACE_VERSION);
        kernel_unload(kernel);
        return false;
    }
    return true;
}

void kernel_unload(struct kernel *kernel)
{
    if (kernel->library != NULL) {
        dlclose(kernel->library);
        if (kernel->file >= 0)
            close(kernel->file);
    }
    *kernel = (struct kernel){0};
}

int kernel_isa(const struct kernel_table *call, const char *name)
{
    const struct isa *isa = isa_find(name);
    return isa != NULL && call->isa_name(isa->id) != NULL ? isa->id : 0;
}

struct folds kernel_folds(const struct kernel *kernel)
{
    if (kernel->call == NULL)
        return (struct folds){0};
    return (struct folds){.scores = kernel->call->folds_scores, .values = kernel->call->folds_values};
}

/* Offsets of a tensor in its struct, and of its "|1" extents */
#define WEIGHTS(field) {offsetof(struct kernel_weights, field), 0, 0}
#define ARGS(field) {offsetof(struct kernel_args, field), 0, 0}
#define PAIRS(field) {offsetof(struct kernel_args, field), offsetof(struct kernel_args, field##_batch), \
                      offsetof(struct kernel_args, field##_h)}
static const struct { size_t at, batch, h; } fields[TENSOR_COUNT] = {
    [TENSOR_X] = ARGS(x), [TENSOR_SOURCE] = ARGS(source), [TENSOR_Q] = ARGS(q), [TENSOR_K] = ARGS(k),
    [TENSOR_V] = ARGS(v), [TENSOR_LENGTHS] = ARGS(lengths), [TENSOR_PAST] = ARGS(past),
    [TENSOR_POSITIONS] = ARGS(positions), [TENSOR_PAGE_TABLE] = ARGS(page_table),
    [TENSOR_PREFIX] = ARGS(prefix), [TENSOR_SEGMENT] = ARGS(segment),
    [TENSOR_SEGMENT_Q] = ARGS(segment_q), [TENSOR_SEGMENT_K] = ARGS(segment_k),
    [TENSOR_MASK_BOOL] = PAIRS(mask_bool), [TENSOR_MASK_ADD] = PAIRS(mask_add), [TENSOR_Y] = ARGS(y),
    [TENSOR_ATTN] = ARGS(attn), [TENSOR_LSE] = ARGS(lse), [TENSOR_K_CACHE] = ARGS(k_cache),
    [TENSOR_V_CACHE] = ARGS(v_cache), [TENSOR_K_PAGES] = ARGS(k_pages), [TENSOR_V_PAGES] = ARGS(v_pages),
    [TENSOR_K_SCALE] = ARGS(k_scale), [TENSOR_V_SCALE] = ARGS(v_scale),
    [TENSOR_W_Q] = WEIGHTS(w_q), [TENSOR_B_Q] = WEIGHTS(b_q), [TENSOR_W_K] = WEIGHTS(w_k), [TENSOR_B_K] = WEIGHTS(b_k),
    [TENSOR_W_V] = WEIGHTS(w_v), [TENSOR_B_V] = WEIGHTS(b_v), [TENSOR_W_O] = WEIGHTS(w_o), [TENSOR_B_O] = WEIGHTS(b_o),
    [TENSOR_G_Q] = WEIGHTS(g_q), [TENSOR_C_Q] = WEIGHTS(c_q), [TENSOR_G_K] = WEIGHTS(g_k), [TENSOR_C_K] = WEIGHTS(c_k),
    [TENSOR_N1_G] = WEIGHTS(n1_g), [TENSOR_N1_B] = WEIGHTS(n1_b), [TENSOR_N2_G] = WEIGHTS(n2_g),
    [TENSOR_N2_B] = WEIGHTS(n2_b), [TENSOR_N3_G] = WEIGHTS(n3_g), [TENSOR_N3_B] = WEIGHTS(n3_b),
    [TENSOR_N4_G] = WEIGHTS(n4_g), [TENSOR_N4_B] = WEIGHTS(n4_b), [TENSOR_W_1] = WEIGHTS(w_1),
    [TENSOR_B_1] = WEIGHTS(b_1), [TENSOR_W_G] = WEIGHTS(w_g), [TENSOR_B_G] = WEIGHTS(b_g), [TENSOR_W_2] = WEIGHTS(w_2),
    [TENSOR_B_2] = WEIGHTS(b_2),
    [TENSOR_W] = WEIGHTS(w), [TENSOR_B] = WEIGHTS(b),
    [TENSOR_REL_BIAS] = WEIGHTS(rel_bias), [TENSOR_SINK] = WEIGHTS(sink),
};

struct kernel_weights kernel_weights_of(const struct inputs *in)
{
    struct kernel_weights weights = {0};
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (tensor_is_packed(layer_tensor_row(t)->kind) && layer_tensor_row(t)->kind != TENSOR_NAMED)
            memcpy((char *)&weights + fields[t].at, &in->tensor[t], sizeof in->tensor[t]);
    if (in->tensor[TENSOR_TABLE] != NULL) /* one after the other in the layer's order */
        weights.tables = (const float *const *)&in->tensor[TENSOR_TABLE];
    return weights;
}

void *kernel_place(struct kernel_args *args, enum layer_tensor tensor)
{
    return (char *)args + fields[tensor].at;
}

const float **kernel_weight(const struct layer *layer, struct kernel_weights *weights, enum layer_tensor tensor)
{
    const enum tensor_kind kind = layer_tensor_row(tensor)->kind;
    const bool has = !(tensor == TENSOR_W || tensor == TENSOR_B) || layer_is_linear(layer); /* the last fields */
    return has && tensor_is_packed(kind) && kind != TENSOR_NAMED ? (void *)((char *)weights + fields[tensor].at) : NULL;
}

void kernel_set_argument(struct kernel_args *args, enum layer_tensor tensor, const void *at)
{
    memcpy(kernel_place(args, tensor), &at, sizeof at);
}

void kernel_set_extents(struct kernel_args *args, enum layer_tensor tensor, size_t batch, size_t h)
{
    if (layer_tensor_row(tensor)->kind != TENSOR_OF_PAIRS)
        return;
    memcpy((char *)args + fields[tensor].batch, &batch, sizeof batch);
    memcpy((char *)args + fields[tensor].h, &h, sizeof h);
}

struct kernel_args kernel_args_of(const struct layer *layer, const struct inputs *in, struct kernel_outputs outputs)
{
    struct kernel_args args = {.batch = in->batch, .n = in->n, .m = in->m, .pages = in->pages, .seed = in->seed};
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        const bool scale = t == TENSOR_K_SCALE || t == TENSOR_V_SCALE; /* other layers have other fields in their
                                                                        * place */
        if (!tensor_is_packed(layer_tensor_row(t)->kind) && (!scale || layer_scales_cache(layer)))
            kernel_set_argument(&args, t, in->tensor[t]);
        kernel_set_extents(&args, t, in->mask_batch[t], in->mask_h[t]);
    }
    for (int part = 0; part < inputs_cache_parts(layer) && outputs.cache[0] != NULL; part++)
        kernel_set_argument(&args, inputs_cache_of(layer, part), outputs.cache[part]);
    if (layer->source_kept) /* in whose place the seed is */
        args.kept_of = NULL;
    args.y = outputs.y;
    args.attn = layer->scores ? outputs.attn : NULL;
    args.lse = layer->lse ? outputs.lse : NULL;
    return args;
}

float **kernel_gradient(const struct layer *layer, struct kernel_grads *grads, enum layer_tensor tensor)
{
    size_t before = 0; /* learned ones that the layer has */
    static const size_t places[TENSOR_COUNT] = {
        [TENSOR_X] = offsetof(struct kernel_grads, dx), [TENSOR_SOURCE] = offsetof(struct kernel_grads, dsource),
        [TENSOR_W_Q] = offsetof(struct kernel_grads, dw_q), [TENSOR_B_Q] = offsetof(struct kernel_grads, db_q),
        [TENSOR_W_K] = offsetof(struct kernel_grads, dw_k), [TENSOR_B_K] = offsetof(struct kernel_grads, db_k),
        [TENSOR_W_V] = offsetof(struct kernel_grads, dw_v), [TENSOR_B_V] = offsetof(struct kernel_grads, db_v),
        [TENSOR_W_O] = offsetof(struct kernel_grads, dw_o), [TENSOR_B_O] = offsetof(struct kernel_grads, db_o),
        [TENSOR_W_1] = offsetof(struct kernel_grads, dw_1), [TENSOR_B_1] = offsetof(struct kernel_grads, db_1),
        [TENSOR_W_G] = offsetof(struct kernel_grads, dw_g), [TENSOR_B_G] = offsetof(struct kernel_grads, db_g),
        [TENSOR_W_2] = offsetof(struct kernel_grads, dw_2), [TENSOR_B_2] = offsetof(struct kernel_grads, db_2)};
    for (enum layer_tensor t = 0; t < tensor; t++)
        before += layer_tensor_row(t)->kind == TENSOR_LEARNED && layer_has_gradient(layer, t);
    if (layer_tensor_row(tensor)->kind == TENSOR_LEARNED)
        return &grads->learned[before];
    return places[tensor] > 0 ? (float **)((char *)grads + places[tensor]) : NULL;
}

struct kernel_args kernel_args_of_sequence(const struct layer *layer, const struct inputs *in, struct kernel_args args,
                                           size_t b)
{
    args.batch = 1;
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        const bool pairs = layer_tensor_row(t)->kind == TENSOR_OF_PAIRS;
        const size_t extent = pairs ? in->mask_batch[t] : in->batch;
        const char *first;
        const bool scale = t == TENSOR_K_SCALE || t == TENSOR_V_SCALE;
        if (tensor_is_packed(layer_tensor_row(t)->kind) || (scale && !layer_scales_cache(layer)))
            continue;
        memcpy(&first, kernel_place(&args, t), sizeof first);
        const bool pages = t == TENSOR_K_PAGES || t == TENSOR_V_PAGES;
        const bool paged = pages || (scale && layer->cache == CACHE_PAGED); /* one memory for all of them */
        if (first == NULL || extent <= 1 || paged)
            continue;
        first += b * (inputs_count(layer, in, t) / extent) * layer_tensor_size(layer, t);
        kernel_set_argument(&args, t, first);
        kernel_set_extents(&args, t, args.batch, in->mask_h[t]);
    }
    return args;
}
