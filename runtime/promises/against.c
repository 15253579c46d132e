/* SPDX-License-Identifier: MIT */
#include "against.h"

#include <fenv.h>

#include "reference/stored.h"

/* Stores all rows that a sequence's queries may read, as a call would. */
static void put_rows(const struct layer *layer, const struct inputs *from, const struct inputs *to)
{
    HEAP double *work = memory_get((size_t)(layer->d_k + layer->d_v), sizeof *work);
    void *cache[CACHE_PARTS] = {NULL};
    for (int part = 0; part < inputs_cache_parts(layer); part++)
        cache[part] = to->tensor[inputs_cache_of(layer, part)];
    for (int values = 0; values < inputs_compared(layer); values++)
        for (size_t b = 0; b < to->batch; b++)
            for (size_t i = 0; i < (size_t)layer->h_kv; i++)
                for (size_t r = 0; r < inputs_cached(layer, to, b); r++) {
                    const int64_t position = inputs_first(layer, to, b) + (int64_t)r;
                    const size_t row = inputs_cache_row(layer, to, values, b, i, position);
                    for (size_t c = 0; c < inputs_cache_width(layer, values); c++)
                        work[c] = (double)inputs_floats(from, inputs_cache_of(layer, values))[row + c];
                    stored_put_row(layer, cache, values, work, row);
                }
}

void against_make(struct against *a, const struct layer *layer, const struct inputs *inputs,
                  const struct inputs_draw *draw)
{
    fenv_t callers;
    *a = (struct against){.wanted = true, .plain = *layer};
    a->plain.precision = PRECISION_F32;
    a->plain.weight_type = a->plain.cache_type = a->plain.tensor_type = TENSOR_F32;
    inputs_draw(&a->given, &a->plain, draw, inputs);
    inputs_draw(&a->rounded, layer, draw, inputs);
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV); /* the reference keeps subnormal numbers, whatever kernels do */
    if (layer_has_cache(layer) && layer_stores_cache(layer)) /* states are rounded as they are drawn */
        put_rows(layer, &a->given, &a->rounded);
    reference_compute(&a->reference, &a->plain, &a->given, true, NULL, NULL);
    fesetenv(&callers);
}

void against_free(struct against *a)
{
    inputs_free(&a->given);
    inputs_free(&a->rounded);
    reference_free(&a->reference);
}
