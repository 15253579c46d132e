/* SPDX-License-Identifier: MIT */
/* See outputs.h. */
#include "outputs.h"

#include <math.h>
#include <string.h>

#include "inputs/elements.h"

void outputs_make(struct outputs *o, const struct layer *layer, const struct inputs *in, size_t offset)
{
    outputs_free(o);
    for (int i = 0; i < inputs_outputs(layer); i++) {
        const enum layer_tensor tensor = inputs_output(layer, i);
        const bool typed = i < OUTPUT_LSE && layer_types_tensors(layer); /* no more aligned than its numbers */
        guarded_make(&o->of[i], inputs_bytes(layer, in, tensor), typed && offset > 0 ? offset - 2 : offset);
    }
    outputs_load(o, layer, in);
}

void outputs_load(struct outputs *o, const struct layer *layer, const struct inputs *in)
{
    for (int i = OUTPUT_CACHE; i < inputs_outputs(layer); i++)
        memcpy(o->of[i].data, in->tensor[inputs_output(layer, i)], o->of[i].bytes);
}

void outputs_fill(struct outputs *o, const struct layer *layer, const struct inputs *in)
{
    for (int i = 0; i < inputs_outputs(layer); i++)
        guarded_fill(&o->of[i]);
    outputs_load(o, layer, in);
}

void outputs_copy(struct outputs *to, const struct outputs *from)
{
    for (int i = 0; i < OUTPUTS; i++)
        if (from->of[i].data != NULL)
            memcpy(to->of[i].data, from->of[i].data, from->of[i].bytes);
}

void outputs_free(struct outputs *o)
{
    for (int i = 0; i < OUTPUTS; i++)
        guarded_free(&o->of[i]);
}

struct kernel_args outputs_args(const struct outputs *o, const struct layer *layer, const struct inputs *in)
{
    void *outputs[OUTPUTS];
    for (int i = 0; i < OUTPUTS; i++)
        outputs[i] = o->of[i].data;
    return kernel_args_of(layer, in, outputs);
}

const char *outputs_outside(const struct outputs *o, const struct layer *layer)
{
    int i = 0;
    while (i < inputs_outputs(layer) && guarded_zones_intact(&o->of[i]))
        i++;
    return i < inputs_outputs(layer) ? layer_tensor_name(inputs_output(layer, i)) : NULL;
}

const char *outputs_written(const struct outputs *o, const struct layer *layer, const struct inputs *in)
{
    int i = 0;
    while (i < inputs_outputs(layer) && (i >= OUTPUT_CACHE || guarded_untouched(&o->of[i])) &&
           (i < OUTPUT_CACHE || memcmp(o->of[i].data, in->tensor[inputs_output(layer, i)], o->of[i].bytes) == 0))
        i++;
    return i < inputs_outputs(layer) ? layer_tensor_name(inputs_output(layer, i)) : NULL;
}

const char *outputs_differ(const struct outputs *a, const struct outputs *b, const struct layer *layer)
{
    int i = 0;
    while (i < inputs_outputs(layer) && memcmp(a->of[i].data, b->of[i].data, a->of[i].bytes) == 0)
        i++;
    return i < inputs_outputs(layer) ? layer_tensor_name(inputs_output(layer, i)) : NULL;
}

const struct comparison *outputs_compare(const struct outputs *o, const struct layer *layer, const struct inputs *in,
                                         const struct reference *reference, const struct bounds *bounds,
                                         struct comparison of[OUTPUTS_COMPARED])
{
    const void *outputs[OUTPUTS];
    for (int i = 0; i < OUTPUTS; i++)
        outputs[i] = o->of[i].data;
    return compare_outputs(of, layer, in, reference, bounds, outputs);
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

bool outputs_same(const struct layer *layer, const struct inputs *in, enum layer_tensor tensor, const char *prefix,
                  const void *is, const void *wanted, char why[300])
{
    const enum tensor_element type = layer_tensor_element(layer, tensor);
    const size_t count = inputs_count(layer, in, tensor), number = first_other(type, is, wanted, count);
    int64_t shape[4];
    size_t place[4] = {0}, rest = number, used;
    if (number == count)
        return true;
    const int axes = inputs_shape(layer, in, tensor, shape);
    for (int axis = axes - 1; axis >= 0; rest /= (size_t)shape[axis--])
        place[axis] = rest % (size_t)shape[axis];
    used = (size_t)snprintf(why, 300, "%s%s", prefix, layer_tensor_name(tensor));
    for (int axis = 0; axis < axes; axis++)
        used += (size_t)snprintf(why + used, 300 - used, "[%zu]", place[axis]);
    const double a = element_number(type, is, number), b = element_number(type, wanted, number);
    snprintf(why + used, 300 - used, " is %.9g, %a; the order of exact = portable gives %.9g, %a", a, a, b, b);
    return false;
}

bool outputs_are(const struct outputs *o, const struct layer *layer, const struct inputs *in,
                 const struct portable *expected, char why[300])
{
    bool same = true;
    for (int i = 0; same && i < inputs_outputs(layer); i++)
        same = outputs_same(layer, in, inputs_output(layer, i), "", o->of[i].data, expected->of[i], why);
    return same;
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
