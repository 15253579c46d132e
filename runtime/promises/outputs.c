/* SPDX-License-Identifier: MIT */
/* See outputs.h. */
#include "outputs.h"

#include <math.h>
#include <string.h>

#include "inputs/elements.h"

#define TENSORS (3 + CACHE_PARTS) /* y, attn, lse, the cache's parts */

static struct guarded *at(const struct outputs *o, int i)
{
    const struct guarded *const all[] = {&o->y, &o->attn, &o->lse};
    return (struct guarded *)(i < 3 ? all[i] : &o->cache[i - 3]);
}

static enum layer_tensor tensor_of(const struct layer *layer, int i)
{
    static const enum layer_tensor written[] = {TENSOR_Y, TENSOR_ATTN, TENSOR_LSE};
    return i < 3 ? written[i] : inputs_cache_of(layer, i - 3);
}

static int tensors_of(const struct layer *layer)
{
    return 3 + inputs_cache_parts(layer);
}

void outputs_make(struct outputs *o, const struct layer *layer, const struct inputs *in, size_t offset)
{
    outputs_free(o);
    for (int i = 0; i < tensors_of(layer); i++) {
        const enum layer_tensor tensor = tensor_of(layer, i);
        const bool typed = i < 2 && layer_types_tensors(layer); /* no more aligned than its numbers */
        const size_t bytes = i < 3 ? inputs_bytes(layer, in, tensor) : inputs_cache_bytes(layer, in, i - 3);
        guarded_make(at(o, i), bytes, typed && offset > 0 ? offset - 2 : offset);
    }
    outputs_load(o, layer, in);
}

void outputs_load(struct outputs *o, const struct layer *layer, const struct inputs *in)
{
    for (int part = 0; part < inputs_cache_parts(layer); part++)
        memcpy(o->cache[part].data, in->tensor[inputs_cache_of(layer, part)], o->cache[part].bytes);
}

void outputs_fill(struct outputs *o, const struct layer *layer, const struct inputs *in)
{
    for (int i = 0; i < tensors_of(layer); i++)
        guarded_fill(at(o, i));
    outputs_load(o, layer, in);
}

void outputs_copy(struct outputs *to, const struct outputs *from)
{
    for (int i = 0; i < TENSORS; i++)
        if (at(from, i)->data != NULL)
            memcpy(at(to, i)->data, at(from, i)->data, at(from, i)->bytes);
}

void outputs_free(struct outputs *o)
{
    for (int i = 0; i < TENSORS; i++)
        guarded_free(at(o, i));
}

struct kernel_args outputs_args(const struct outputs *o, const struct layer *layer, const struct inputs *in)
{
    struct kernel_outputs outputs = {.y = o->y.data, .attn = o->attn.data, .lse = o->lse.data};
    for (int part = 0; part < CACHE_PARTS; part++)
        outputs.cache[part] = o->cache[part].data;
    return kernel_args_of(layer, in, outputs);
}

const char *outputs_outside(const struct outputs *o, const struct layer *layer)
{
    int i = 0;
    while (i < tensors_of(layer) && guarded_zones_intact(at(o, i)))
        i++;
    return i < tensors_of(layer) ? layer_tensor_name(tensor_of(layer, i)) : NULL;
}

const char *outputs_written(const struct outputs *o, const struct layer *layer, const struct inputs *in)
{
    int i = 0;
    while (i < tensors_of(layer) && (i >= 3 || guarded_untouched(at(o, i))) &&
           (i < 3 || memcmp(at(o, i)->data, in->tensor[tensor_of(layer, i)], at(o, i)->bytes) == 0))
        i++;
    return i < tensors_of(layer) ? layer_tensor_name(tensor_of(layer, i)) : NULL;
}

const char *outputs_differ(const struct outputs *a, const struct outputs *b, const struct layer *layer)
{
    int i = 0;
    while (i < tensors_of(layer) && memcmp(at(a, i)->data, at(b, i)->data, at(a, i)->bytes) == 0)
        i++;
    return i < tensors_of(layer) ? layer_tensor_name(tensor_of(layer, i)) : NULL;
}

/* The first number whose bits differ, or `count` */
static size_t first_other(enum tensor_element type, const void *a, const void *b, size_t count)
{
    const size_t size = element_size(type);
    size_t at = 0;
    while (at < count && (memcmp((const char *)a + at * size, (const char *)b + at * size, size) == 0 ||
                          (isnan(element_number(type, a, at)) && isnan(element_number(type, b, at)))))
        at++;
    return at;
}

bool outputs_are(const struct outputs *o, const struct layer *layer, const struct inputs *in,
                 const struct portable *expected, char why[300])
{
    for (int i = 0; i < tensors_of(layer); i++) {
        const void *const all[] = {expected->y, expected->attn, expected->lse}, *is = at(o, i)->data;
        const void *const wanted = i < 3 ? all[i] : expected->cache[i - 3];
        const enum layer_tensor tensor = tensor_of(layer, i);
        const enum tensor_element type = layer_tensor_element(layer, tensor);
        const size_t count = at(o, i)->bytes / element_size(type), number = first_other(type, is, wanted, count);
        int64_t shape[4];
        size_t place[4] = {0}, rest = number, used;
        if (number == count)
            continue;
        const int axes = inputs_shape(layer, in, tensor, shape);
        for (int axis = axes - 1; axis >= 0; rest /= (size_t)shape[axis--])
            place[axis] = rest % (size_t)shape[axis];
        used = (size_t)snprintf(why, 300, "%s", layer_tensor_name(tensor));
        for (int axis = 0; axis < axes; axis++)
            used += (size_t)snprintf(why + used, 300 - used, "[%zu]", place[axis]);
        const double a = element_number(type, is, number), b = element_number(type, wanted, number);
        snprintf(why + used, 300 - used, " is %.9g, %a; the order of exact = portable gives %.9g, %a", a, a, b, b);
        return false;
    }
    return true;
}

int outputs_run_parts(const struct kernel_table *call, const void *packed, const struct kernel_args *args,
                      void *scratch, size_t workers)
{
    int error = KERNEL_OK;
    const size_t phases = call->phases(packed, args);
    for (size_t phase = 0; phase < phases; phase++)
        for (size_t part = call->parts(packed, args, phase); error == KERNEL_OK && part-- > 0;)
            error = call->run(packed, args, scratch, phase, part, part % workers);
    return error;
}
