/* SPDX-License-Identifier: MIT */
/* Layouts: how many elements each spans, and where it lies in its owner's block.
 *
 * Left out on purpose: which layouts are placed, and in which order (plan_places.c, step_KIND.c).
 */
#include "plan/planning.h"

/* The axis of the largest step is the outermost one. */
int64_t layout_elements(const struct layout *l)
{
    int64_t step = 0, elements = 0;
    for (int axis = 0; axis < AXES; axis++)
        if (l->stride[axis] > step || (l->stride[axis] == step && l->shape[axis] * step > elements)) {
            step = l->stride[axis];
            elements = l->shape[axis] * step;
        }
    return elements;
}

static int64_t bytes_of(const struct layout *l)
{
    return round_up(layout_elements(l) * (int64_t)element_size(l->element), ALIGN);
}

/* Places a layout at the end of its owner's block. */
void place(struct plan_isa *p, enum layout_name id)
{
    struct layout *l = &p->layouts[id];
    if (l->name == NULL || l->owner == OWNER_CALLER)
        return;
    l->at = p->bytes[l->owner];
    p->bytes[l->owner] += bytes_of(l);
}

void place_new(struct plan_isa *p, enum layout_name id, const char *name, enum layout_owner owner, int64_t rows,
               int64_t columns)
{
    p->layouts[id] = (struct layout){.name = name, .owner = owner, .element = p->layouts[id].element,
                                     .shape = {1, 1, rows, columns}, .stride = {0, 0, columns, 1}};
    place(p, id);
}
