/* The commands of attnrun; each returns an exit code. Left out on purpose: the table of them (attnrun.c). */
#ifndef ATTNRUN_COMMANDS_H
#define ATTNRUN_COMMANDS_H

#include "options.h"

int command_check(const struct options *options);
int command_run(const struct options *options);
int command_bench(const struct options *options);

#endif
