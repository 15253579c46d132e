/* SPDX-License-Identifier: MIT */
/* Options as rows of a table: both programs parse by them, their help prints them, and the man pages and completions
 * are made of them (packaging/pages.c), so that an option is described once.
 *
 * Left out on purpose: what options mean together, which each program checks for itself.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct diag;

/* What a value is, and the type of the field that takes it. */
enum option_kind {
    OPTION_FLAG,    /* none; bool */
    OPTION_ASK,     /* the same, and what follows is not read: --help */
    OPTION_TEXT,    /* any; const char *, as of the next five */
    OPTION_FILE,    /* a path */
    OPTION_FOLDER,
    OPTION_WORD,    /* one of those in `argument`, joined by | */
    OPTION_ISAS,    /* names of instruction sets joined by commas; whoever takes them reads them */
    OPTION_COUNTS,  /* whole numbers from 0 to 2^31 - 1 joined by commas */
    OPTION_PAIRS,   /* KEY=VALUE or another text, as often as wanted; struct option_texts, with room for one more */
    OPTION_SIZE,    /* a whole number from `min` to `max`; size_t */
    OPTION_NUMBER,  /* the same; uint64_t */
    OPTION_SECONDS  /* a number in that range; double */
};

struct option_row {
    const char *name;
    char letter;          /* the short form, 0: none */
    const char *argument; /* as help writes it; NULL: none */
    enum option_kind kind;
    size_t field;         /* where in the program's struct */
    unsigned commands;    /* bits of the commands that know it */
    const char *help;     /* %a, %d: what the program's `list` writes */
    uint64_t min, max;
    unsigned needed;      /* bits of the commands that require it */
    bool alone;           /* a command with it may have no operand */
};

/* How a row begins: of an option with a value, of one without, and of one that asks; FIELD is the program's offsetof */
#define TAKES(word, value, of, to) .name = word, .argument = value, .kind = OPTION_##of, .field = FIELD(to)
#define FLAG(word, to) .name = word, .kind = OPTION_FLAG, .field = FIELD(to)
#define ASK(word, to) .name = word, .kind = OPTION_ASK, .field = FIELD(to)

struct option_texts {
    const char **text;
    size_t count;
};

/* A program, or a command of one. */
struct option_command {
    const char *name; /* NULL: the program has no commands */
    unsigned bit;
    const char *operand;      /* what stands beside the options, "a spec" */
    bool several;             /* whether several are allowed */
    const char *usage, *help; /* after the name; sentences without the last full stop */
};

struct option_program {
    const char *name;
    const struct option_command *commands;
    size_t command_count;
    const struct option_row *options;
    size_t option_count;
    bool once; /* a value given twice is an error; else the last one counts */
    void (*list)(char which, char *text, size_t size); /* the names that %a and %d of a help stand for */
};

/* Reads what follows argv[0] into `fields`, which hold the defaults, and the rest into `operands`, in argv's
 * place. False, with errors in diag, where something is wrong; true as well where an OPTION_ASK is given. */
bool options_read(const struct option_program *program, const struct option_command *command, int argc, char **argv,
                  void *fields, struct option_texts *operands, struct diag *diag);
/* Frees the lists of OPTION_PAIRS. */
void options_forget(const struct option_program *program, void *fields);

const struct option_command *options_find(const struct option_program *program, const char *name);
/* The usage, the help and the options of a command. */
void options_help(const struct option_program *program, const struct option_command *command, FILE *out);
/* A row's help with the names that it lists. */
#define OPTION_HELP 500
void options_help_text(const struct option_program *program, const struct option_row *row, char text[OPTION_HELP]);
