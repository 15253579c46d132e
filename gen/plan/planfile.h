/* SPDX-License-Identifier: MIT */
/* Plan files: what `attnrun tune` found for one layer, as text, for `attngen --plan`.
 *
 *     format = 1
 *     spec = d_model=768 h=12 ...           everything of the spec that a plan depends on
 *     fingerprint = 60bd60aa5d5a8a5d        of that line
 *     plan.fold = off                       what holds for all instruction sets
 *
 *     [avx512]                              what holds for one; attngen decides the rest
 *     cpu = Intel(R) Xeon(R) ...            where it was measured
 *     compiler = gcc (Debian 12.2.0-14) 12.2.0
 *     plan.query_vecs = 2
 *
 * Left out on purpose: measuring (runtime/commands/tune.c), and what the keys do (plan_make.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "plan/isa.h"
#include "plan/request.h"

struct diag;
struct layer;

#define PLAN_TEXT 256 /* of a CPU's or compiler's name, with the zero byte */
#define PLAN_SPEC 2000 /* of the line that tells a layer */

struct plan_section {
    size_t line; /* where it begins; 0: there is none */
    char cpu[PLAN_TEXT], compiler[PLAN_TEXT];
    struct plan_request request;
};

struct plan_file {
    const char *path; /* the caller's */
    struct plan_request common;
    struct plan_section isa[ISAS]; /* by row of isa_table */
};

/* Nothing asked, no sections. */
struct plan_file plan_file_empty(void);
/* Reads and checks all of it, also that it is for this layer, if one is given: errors "file:line: error: …" in diag,
 * then false. */
bool plan_file_read(struct plan_file *file, const char *path, const struct layer *layer, struct diag *diag);
/* Prints a warning for each section of these instruction sets that was measured on another CPU than `cpu`, or, where
 * `compiler` is given, with another compiler. */
void plan_file_warn(const struct plan_file *file, unsigned isas, const char *cpu, const char *compiler, FILE *out);
/* The file's text but for comments. */
void plan_file_print(const struct plan_file *file, const struct layer *layer, FILE *out);

/* Copies a name as a plan file can hold it: one line, no '#', cut to fit. */
void plan_text(char text[PLAN_TEXT], const char *name);
/* What this machine calls its CPU; empty where it does not say. Only for warnings and new files: nothing that is
 * emitted depends on it. */
void plan_this_cpu(char text[PLAN_TEXT]);
