/* SPDX-License-Identifier: MIT */
/* spec → attngen → $CC → a loaded kernel, with a cache of compiled pairs.
 *
 * Left out on purpose: what the kernel is (load.h), any shell.
 */
#pragma once

#include "load.h"
#include "plan/planfile.h"

struct compile_options {
    const char *attngen;   /* NULL: $ATTNGEN, else the one beside this program */
    const char *templates; /* NULL: the ones in attngen */
    const char *cache;     /* NULL: $XDG_CACHE_HOME/attngen or ~/.cache/attngen */
    const char *plan;      /* attngen's --plan; NULL: none */
    const char *isa;       /* attngen's --isa; NULL: all */
    const char *const *set;
    size_t set_count;
    bool pack_only;        /* only packing, for every instruction set: compiles quickly, and on any machine */
    bool ahead;            /* fills the cache alone: loads nothing */
};

/* Generates, compiles unless the cache has it, and loads; a kernel from the cache has its compiler's time. `name`
 * is the layer's. */
bool compile_kernel(struct kernel *kernel, const char *spec, const char *name, const struct compile_options *options,
                    struct diag *diag);

/* Generates a model from its NAME.layers into `folder` and compiles it there, only for packing, with a program of this
 * text. In it SHARD, PACK, FAULT, STRERROR, BYTES and WORK are names of NAME_model.h, which is included. The model's
 * name and the program's path are malloc'd. */
bool compile_model(const char *layers, const char *folder, const char *text, const struct compile_options *options,
                   char **name, char **program, struct diag *diag);

/* The version text of $CC and, if set, $CFLAGS, as plan files name a compiler. False with the reason in `diag`. */
bool compiler_text(char text[PLAN_TEXT], struct diag *diag);
/* Which weights the pair folds, as its header says. Generates, but compiles nothing, so the pair may be for another
 * machine. */
bool compile_folds(struct folds *folds, const char *spec, const char *name, const struct compile_options *options,
                   struct diag *diag);
/* The version of the generator, "0.1.0"; free() it. NULL with the reason in `diag`. */
char *compile_generator(const struct compile_options *options, struct diag *diag);
/* $CC, or cc. */
const char *compile_command(void);
/* The flags of every compilation, followed by $CFLAGS; free() it, NULL without memory. */
char *compile_flags(void);
/* The compiler's version text; free() it. NULL with the reason in `diag`. */
char *compile_version(struct diag *diag);
