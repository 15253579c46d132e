/* SPDX-License-Identifier: MIT */
/* attnrun: generates, compiles, loads, checks, runs and times the kernels of attention layers.
 *
 * Left out on purpose: everything that a command does; see check.c, run.c and so on.
 */
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/system.h"
#include "base/version.h"
#include "commands/commands.h"
#include "kernels/apart.h"
#include "kernels/cache.h"

static const struct {
    unsigned bit;
    int (*run)(const struct options *options);
} commands[] = {
    {COMMAND_CHECK, command_check},
    {COMMAND_RUN, command_run},
    {COMMAND_BENCH, command_bench},
    {COMMAND_ROOF, command_roof},
    {COMMAND_TUNE, command_tune},
    {COMMAND_SELFTEST, command_selftest},
    {COMMAND_HEATMAP, command_heatmap},
    {COMMAND_SWEEP, command_sweep},
    {COMMAND_MERGE, command_merge},
    {COMMAND_PACK, command_pack},
};

static void print_usage(FILE *out)
{
    fputs("usage: attnrun COMMAND …\n\n", out);
    for (size_t i = 0; i < attnrun_program.command_count; i++)
        fprintf(out, "  attnrun %s %s\n", attnrun_program.commands[i].name, attnrun_program.commands[i].usage);
    fputs("  attnrun help [COMMAND]\n  attnrun --version\n\n"
          "exit codes: 0 success; 1 a check failed; 2 wrong usage or spec; 3 it cannot be done here\n",
          out);
}

static int unknown_command(const char *name)
{
    struct nearest nearest = nearest_to(name, strlen(name));
    char text[NEAREST_TEXT];
    for (size_t i = 0; i < attnrun_program.command_count; i++)
        nearest_offer(&nearest, attnrun_program.commands[i].name);
    fprintf(stderr, "attnrun: error: unknown command \"%s\"; %s\n", name,
            nearest_ask(&nearest, text, "see attnrun help"));
    return EXIT_USAGE;
}

static int help(const char *name)
{
    const struct option_command *command = name != NULL ? options_find(&attnrun_program, name) : NULL;
    if (name != NULL && command == NULL)
        return unknown_command(name);
    if (command == NULL)
        print_usage(stdout);
    else
        options_help(&attnrun_program, command, stdout);
    return EXIT_GOOD;
}

static int run_command(const struct option_command *command, int argc, char **argv)
{
    OWNED(diag_free) struct diag diag = {0};
    struct options options;
    const bool compiles = !(command->bit & (COMMAND_MERGE | COMMAND_SELFTEST));
    const bool good = options_parse(&options, argc, argv, command, &diag);
    int code = EXIT_GOOD;
    if (good && options.help)
        options_help(&attnrun_program, command, stdout);
    else if (!good || !apart_limit_good(&diag) || (compiles && !cache_look(options.compile.cache, stderr, &diag)))
        code = diag_report(&diag, stderr);
    else
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
            if (commands[i].bit == command->bit)
                code = commands[i].run(&options);
    options_free(&options);
    return code;
}

static bool asks_help(const char *word) { return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0; }

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (name == NULL) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (asks_help(name) || strcmp(name, "help") == 0)
        return help(argc > 2 ? argv[2] : NULL);
    if (strcmp(name, "--version") == 0) {
        printf("attnrun %s\n", ATTNGEN_VERSION);
        return EXIT_GOOD;
    }
    const struct option_command *command = options_find(&attnrun_program, name);
    return command != NULL ? run_command(command, argc - 1, argv + 1) : help(name);
}

int main(int argc, char **argv)
{
    system_begin();
    return system_end(run(argc, argv));
}
