/* SPDX-License-Identifier: MIT */
/* The commands of attnrun; each returns an exit code. Left out on purpose: the table of them (attnrun.c). */
#pragma once

#include "options/options.h"

int command_check(const struct options *options);
int command_run(const struct options *options);
int command_bench(const struct options *options);
int command_roof(const struct options *options); /* bench.c */
int command_tune(const struct options *options);
int command_selftest(const struct options *options);
int command_heatmap(const struct options *options);
int command_sweep(const struct options *options);
int command_merge(const struct options *options);
int command_pack(const struct options *options);
int command_pack_model(const struct options *options); /* pack --all */

/* Ends a command: what it printed comes before its errors. `failed`: a check, where nothing worse happened. */
static inline int command_end(struct diag *diag, bool failed)
{
    fflush(stdout);
    const int code = diag_report(diag, stderr);
    diag_free(diag);
    return code == EXIT_GOOD && failed ? EXIT_CHECK_FAILED : code;
}
