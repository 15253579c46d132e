/* SPDX-License-Identifier: MIT */
/* From context and templates to text: the Lua state and the context that templates read.
 *
 * Left out on purpose: what the context holds (context.c fills it), how a template is read (expand.lua does it), and
 * writing (replace.h). No Lua error and no lack of memory leaves this file: both become diagnostics.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;
struct emit;
struct layer;

/* Opens a state with an empty context. `templates` is the folder that templates are read from, NULL for the embedded
 * ones. NULL, with errors in diag, when there is no memory. */
struct emit *emit_open(const char *templates, struct diag *diag);
void emit_close(struct emit *emit);

/* Each sets a field of the table that is open: the context itself, or what begin_table and begin_item opened. A name
 * that is already set, or no memory, is reported by the next emit_expand(). */
void emit_set_integer(struct emit *emit, const char *name, int64_t value);
void emit_set_number(struct emit *emit, const char *name, double value);
void emit_set_string(struct emit *emit, const char *name, const char *value);
void emit_set_boolean(struct emit *emit, const char *name, bool value);
/* Several of them: EMITTED({"NAME", value}, …) */
#define EMITTED(...) (const struct emitted[]){__VA_ARGS__, {NULL, 0}}
struct emitted { const char *name; int64_t value; };
void emit_set_integers(struct emit *emit, const struct emitted *fields);
void emit_set_booleans(struct emit *emit, const struct emitted *fields);

void emit_begin_table(struct emit *emit, const char *name); /* a table as field `name` of the open one */
void emit_begin_item(struct emit *emit);                    /* a table as the next element of the open one */
void emit_end(struct emit *emit);                           /* closes the table that was opened last */

/* context_layer.c: what templates read of a layer, its keys, what follows from them, rules, terms, tensors */
void context_layer(const struct layer *layer, struct emit *emit);

/* The text of a template, which the caller frees; `length` does not count the zero byte after it. Of one instruction
 * set: the template sees plans[plan], counted from 1, as `plan`; 0: of all. NULL, with "file:line: error: …" in diag,
 * when the template is missing or wrong. The context is closed from here on. */
char *emit_expand(struct emit *emit, const char *template_name, size_t plan, size_t *length, struct diag *diag);

/* The template files read from a folder so far, in the order of their names; none when they are embedded. */
const char *const *emit_files_read(const struct emit *emit, size_t *count);
