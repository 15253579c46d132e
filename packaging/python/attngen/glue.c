/* SPDX-License-Identifier: MIT */
/* A pair behind flat functions, for ctypes: compiled with NAME.c after lines that include NAME_shim.c and define PAIR
 * as its table. A tensor has its place in that table. Left out on purpose: checks, which the pair makes itself.
 */
#define EXPORT __attribute__((visibility("default")))

EXPORT size_t py_count(void) { return PAIR.tensor_count; }

EXPORT const char *py_text(size_t tensor, int what)
{
    const struct tensor_of_any *const t = &PAIR.tensors[tensor];
    return what == 0 ? t->name : what == 1 ? t->type : t->shape;
}

EXPORT int py_fact(size_t tensor, int what)
{
    const struct tensor_of_any *const t = &PAIR.tensors[tensor];
    return what == 0 ? t->packed : what == 1 ? t->written : what == 2 ? t->optional : t->gradient;
}

/* packed block, scratch of `workers` threads, floats of a token that backward needs, scratch of backward */
EXPORT size_t py_size(int what, size_t workers)
{
    return what == 0 ? PAIR.packed_bytes : what == 1 ? PAIR.scratch_bytes_for(workers) : what == 2 ? PAIR.saved_floats
         : PAIR.back_scratch_bytes_for != NULL ? PAIR.back_scratch_bytes_for(workers) : 0;
}

EXPORT const char *py_error(int error) { return PAIR.strerror(error); }
EXPORT const char *py_isa(const void *packed) { return PAIR.isa_name(PAIR.isa(packed)); }

/* The number of an instruction set that is compiled here, else 0 */
EXPORT int py_isa_number(const char *wanted)
{
    for (int isa = 1; isa < 64; isa++) {
        const char *name = PAIR.isa_name(isa), *c = wanted;
        while (name != NULL && *name != '\0' && *name == *c)
            name++, c++;
        if (name != NULL && *name == '\0' && *c == '\0')
            return isa;
    }
    return 0;
}

/* tensor: addresses by place; first_table: the place of the first of those that expressions read, -1: none */
EXPORT int py_pack(void *packed, void *const *tensor, int first_table, int isa)
{
    struct weights_of_any weights = {.tables = NULL};
    const float *tables[KERNEL_TENSORS];
    for (size_t i = 0, count = 0; i < PAIR.tensor_count; i++) {
        weights.tensor[PAIR.tensors[i].number] = tensor[i];
        if (first_table >= 0 && i >= (size_t)first_table && PAIR.tensors[i].packed)
            tables[count++] = tensor[i];
    }
    if (first_table >= 0)
        weights.tables = tables;
    return PAIR.pack(packed, &weights, isa);
}

/* size: batch, n, m, pages, then for each tensor the first two extents that a mask has */
static struct args_of_any args_from(void *const *tensor, const size_t *size, void *saved, uint64_t seed)
{
    struct args_of_any args = {.batch = size[0], .n = size[1], .m = size[2], .pages = size[3], .saved = saved};
    args.seed = seed;
    for (size_t i = 0; i < PAIR.tensor_count; i++) {
        const int at = PAIR.tensors[i].number;
        args.tensor[at] = tensor[i];
        args.mask_batch[at] = size[4 + 2 * i];
        args.mask_h[at] = size[5 + 2 * i];
    }
    return args;
}

EXPORT int py_forward(const void *packed, void *const *tensor, const size_t *size, void *saved, uint64_t seed,
                      void *scratch)
{
    const struct args_of_any args = args_from(tensor, size, saved, seed);
    return PAIR.forward(packed, &args, scratch);
}

EXPORT int py_backward(const void *packed, void *const *tensor, const size_t *size, void *saved, uint64_t seed,
                       const void *dy, void *const *gradient, void *scratch)
{
    const struct args_of_any args = args_from(tensor, size, saved, seed);
    struct grads_of_any grads = {.dy = dy};
    for (size_t i = 0; i < PAIR.tensor_count; i++)
        grads.tensor[PAIR.tensors[i].number] = gradient[i];
    return PAIR.backward(packed, &args, &grads, scratch);
}

/* part: k, v, past, k_scale, v_scale of a cache of rows or a ring; from: NULL: empties it */
EXPORT int py_cache(void *const *part, size_t batch, int32_t *from)
{
    struct cache_of_any cache = {.k = part[0], .v = part[1], .past = part[2], .batch = batch, .k_scale = part[3],
                                 .v_scale = part[4]};
    return from != NULL ? PAIR.cache_move(&cache, from) : PAIR.cache_reset(&cache);
}
