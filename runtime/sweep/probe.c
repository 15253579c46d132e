/* SPDX-License-Identifier: MIT */
/* What a sweep finds out about its machine with a tiny layer: the best instruction set, and whether the compiler works.
 *
 * Left out on purpose: what the processor and the compiler are called (timing/machine.h).
 */
#include <string.h>

#include "base/replace.h"
#include "sweep.h"

/* A layer that compiles quickly, in a folder of its own; its path, malloc'd */
static char *make_probe(char **folder, struct diag *diag)
{
    static const char text[] = "d_model = 33\nh = 11\nseq_len = 3\n";
    *folder = folder_make(diag);
    HEAP char *spec = *folder != NULL ? path_join(*folder, "probe.layer") : NULL;
    const bool good = spec != NULL && file_replace(spec, &(struct piece){text, strlen(text)}, 1, diag);
    return good ? text_copy(spec) : NULL;
}

/* The instruction set that an emitted file chooses, found out with a tiny one */
static void ask_best(struct sweep *s, const char *spec, struct diag *diag)
{
    struct compile_options options = s->options->compile;
    OWNED(kernel_unload) struct kernel kernel = {0};
    OWNED(timed_free) struct timed timed = {0};
    const struct inputs_draw draw = {.seed = 1, .batch = 1, .n = 1, .m = 1};
    options.set_count = 0;
    struct layer *layer = layer_read(spec, NULL, 0, diag);
    if (layer != NULL && compile_kernel(&kernel, spec, layer->name, &options, diag) &&
        timed_make(&timed, layer, kernel.call, &draw, diag) && timed_pack(&timed, 0, diag))
        snprintf(s->best, sizeof s->best, "%s", timed.isa);
    layer_free(layer);
}

static void find_best(struct sweep *s, struct diag *diag)
{
    OWNED(folder_end) char *folder = NULL;
    HEAP char *spec = make_probe(&folder, diag);
    if (spec != NULL)
        ask_best(s, spec, diag);
}

bool sweep_ask_machine(struct sweep *s, struct diag *diag)
{
    s->version = compile_generator(&s->options->compile, diag);
    if (s->version == NULL || !machine_ask(&s->machine, diag))
        return false;
    if (s->options->isa != NULL)
        snprintf(s->best, sizeof s->best, "%s", s->options->isa);
    else if (axes_find(&s->axes, "isa") == NULL)
        find_best(s, diag);
    return diag->errors == 0;
}

bool sweep_compiler_works(const struct sweep *s, const struct point *p)
{
    struct compile_options options = s->options->compile;
    OWNED(kernel_unload) struct kernel kernel = {0};
    OWNED(diag_free) struct diag diag = {0};
    OWNED(folder_end) char *folder = NULL;
    HEAP char *spec = make_probe(&folder, &diag);
    OWNED(folder_end) char *cache = spec != NULL ? folder_make(&diag) : NULL;
    options.set_count = 0;
    options.isa = p->isa;
    options.cache = cache;
    return cache != NULL && compile_kernel(&kernel, spec, "probe", &options, &diag);
}
