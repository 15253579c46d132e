/* spec → attngen → $CC → a loaded kernel, with a cache of compiled pairs.
 *
 * Left out on purpose: what the kernel is (load.h), any shell.
 */
#ifndef ATTNRUN_COMPILE_H
#define ATTNRUN_COMPILE_H

#include "load.h"

struct compile_options {
    const char *attngen;   /* NULL: $ATTNGEN, else the one beside this program */
    const char *templates; /* NULL: the ones in attngen */
    const char *cache;     /* NULL: $XDG_CACHE_HOME/attngen or ~/.cache/attngen */
    const char *isa;       /* attngen's --isa; NULL: all */
    const char *const *set;
    size_t set_count;
};

/* Generates, compiles unless the cache has it, loads. `name` is the layer's. */
bool compile_kernel(struct kernel *kernel, const char *spec, const char *name, const struct compile_options *options,
                    struct diag *diag);

#endif
