/* SPDX-License-Identifier: MIT */
/* attnrun: generates, compiles, loads, checks, runs and times the kernels of attention layers.
 *
 * Left out on purpose: everything that a command does; see check.c, run.c and so on.
 */
#include <stdio.h>
#include <string.h>

#include "../gen/nearest.h"
#include "../gen/system.h"
#include "../gen/version.h"
#include "kernels/apart.h"
#include "kernels/cache.h"
#include "commands/commands.h"

static const struct command {
    const char *name;
    unsigned bit;
    int (*run)(const struct options *options);
    const char *usage, *help;
} commands[] = {
    {"check", COMMAND_CHECK, command_check, "SPEC… [OPTION…]",
     "generates the layer's kernels, compiles them, runs every instruction set that this machine has on drawn inputs\n"
     "and compares with the reference within the derived bound; checks the promises of the interface too"},
    {"run", COMMAND_RUN, command_run,
     "SPEC --in A.safetensors [--weights W.safetensors] [--out B.safetensors] [OPTION…]",
     "runs the layer on the tensors of a file; y and attn, if the file holds them, are compared"},
    {"bench", COMMAND_BENCH, command_bench, "SPEC… [OPTION…]",
     "times the whole layer and each step on one core, beside the peak of that core measured in the same rounds"},
    {"tune", COMMAND_TUNE, command_tune, "SPEC -o FILE [OPTION…]",
     "measures plans that the model expects to be fast on this machine, each checked first, times the best anew\n"
     "against the default, and writes a plan file for attngen --plan; where nothing is gained it keeps the default"},
    {"selftest", COMMAND_SELFTEST, command_selftest, "SPEC [-o NAME_test.c] [OPTION…]",
     "writes a C program that checks the layer's pair on the machine where it runs, with numbers made by the\n"
     "reference here and now: it prints ok, or the first difference; its first comment says how to build it"},
    {"heatmap", COMMAND_HEATMAP, command_heatmap, "SPEC --in A.safetensors -o F.svg [--head I] [OPTION…]",
     "runs the layer on the tensors of a file and draws the attention weights of each head; needs gnuplot"},
    {"sweep", COMMAND_SWEEP, command_sweep, "SPEC --vary KEY=VALUES [--vary KEY=VALUES]… [OPTION…]",
     "compiles, checks and times every point of the product of the values; a table, and CSV, JSON lines, a page"},
    {"merge", COMMAND_MERGE, command_merge, "A.jsonl B.jsonl… [OPTION…]",
     "joins the JSON lines of a sweep's shards and says what is missing; refuses what does not belong together"},
    {"pack", COMMAND_PACK, command_pack, "SPEC --weights W.safetensors --isa LIST [-o FILE] [OPTION…]",
     "packs the weights for instruction sets that this machine need not have, and writes a block for each, as a C array\n"
     "or as a binary file with an assembler stub; a program calls NAME_open, which takes the best for its machine"},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void print_usage(FILE *out)
{
    fputs("usage: attnrun COMMAND …\n\n", out);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  attnrun %s %s\n", commands[i].name, commands[i].usage);
    fputs("  attnrun help [COMMAND]\n  attnrun --version\n\n"
          "exit codes: 0 good; 1 a check failed; 2 wrong usage or spec; 3 it cannot be done here\n",
          out);
}

static int unknown_command(const char *name)
{
    struct nearest nearest = nearest_to(name, strlen(name));
    char text[NEAREST_TEXT];
    for (size_t i = 0; i < COMMANDS; i++)
        nearest_offer(&nearest, commands[i].name);
    fprintf(stderr, "attnrun: error: unknown command \"%s\"; %s\n", name, nearest_ask(&nearest, text, "see attnrun help"));
    return EXIT_USAGE;
}

static int help(const char *name)
{
    const struct command *command = name != NULL ? find_command(name) : NULL;
    if (name != NULL && command == NULL)
        return unknown_command(name);
    if (command == NULL) {
        print_usage(stdout);
        return EXIT_GOOD;
    }
    printf("usage: attnrun %s %s\n\n%s.\n\n", command->name, command->usage, command->help);
    options_help(stdout, command->bit);
    return EXIT_GOOD;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    struct diag diag = {0};
    struct options options;
    const bool compiles = !(command->bit & (COMMAND_MERGE | COMMAND_SELFTEST));
    bool good = options_parse(&options, argc, argv, command->bit, &diag) && apart_limit_good(&diag) &&
                (!compiles || cache_look(options.compile.cache, stderr, &diag));
    int code = good ? command->run(&options) : diag_report(&diag, stderr);
    options_free(&options);
    diag_free(&diag);
    return code;
}

static bool asks_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

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
    const struct command *command = find_command(name);
    if (command == NULL)
        return help(name);
    if (argc > 2 && asks_help(argv[2]))
        return help(name);
    return run_command(command, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    system_begin();
    return system_end(run(argc, argv));
}
