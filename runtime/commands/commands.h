/* SPDX-License-Identifier: MIT */
/* The commands of attnrun; each returns an exit code. Left out on purpose: the table of them (attnrun.c). */
#ifndef ATTNRUN_COMMANDS_H
#define ATTNRUN_COMMANDS_H

#include "options/options.h"

int command_check(const struct options *options);
int command_run(const struct options *options);
int command_bench(const struct options *options);
int command_tune(const struct options *options);
int command_selftest(const struct options *options);
int command_heatmap(const struct options *options);
int command_sweep(const struct options *options);
int command_merge(const struct options *options);
int command_pack(const struct options *options);
int command_pack_model(const struct options *options); /* pack --all */

#endif
