/* SPDX-License-Identifier: MIT */
#include "base/options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/number.h"

#define WIDTH 120 /* columns of help */

struct reader {
    const struct option_program *program;
    const struct option_command *command;
    struct diag *diag;
    void *fields;
    bool *given; /* of each row */
    char place[64], see[64];
};

static bool knows(const struct reader *r, const struct option_row *row)
{
    return (row->commands & r->command->bit) != 0;
}

/* ---- values ---- */

/* What a valid value is, for messages. */
static const char *wanted(const struct option_row *row, char text[100])
{
    size_t used = 0;
    switch (row->kind) {
    case OPTION_FILE:
    case OPTION_FOLDER:
        return "a path";
    case OPTION_WORD:
        for (const char *at = row->argument; at != NULL && *at != '\0'; at++)
            if (*at != '|')
                text[used++] = *at;
            else
                used += (size_t)sprintf(text + used, strchr(at + 1, '|') != NULL ? ", " : " or ");
        text[used] = '\0';
        return text;
    case OPTION_COUNTS:
        return "whole numbers up to 2147483647 joined by commas";
    case OPTION_SECONDS:
        snprintf(text, 100, "a number from %" PRIu64 " to %" PRIu64, row->min, row->max);
        return text;
    default:
        snprintf(text, 100, "a whole number from %" PRIu64 " to %" PRIu64, row->min, row->max);
        return text;
    }
}

static bool is_word(const char *text, const char *words)
{
    const size_t length = strlen(text);
    for (const char *at = words; at != NULL; at = strchr(at, '|') != NULL ? strchr(at, '|') + 1 : NULL)
        if (strcspn(at, "|") == length && strncmp(at, text, length) == 0)
            return true;
    return false;
}

static bool are_counts(const char *text)
{
    for (uint64_t count;; text++) {
        const size_t length = strcspn(text, ",");
        if (!number_whole(text, length, 0, INT32_MAX, &count))
            return false;
        text += length;
        if (*text == '\0')
            return true;
    }
}

/* Into its field; false when it is no value of this option. */
static bool store(struct reader *r, const struct option_row *row, const char *text)
{
    void *field = (char *)r->fields + row->field;
    struct option_texts *texts = field;
    uint64_t number = 0;
    double seconds;
    switch (row->kind) {
    case OPTION_FLAG:
    case OPTION_ASK:
        *(bool *)field = true;
        return true;
    case OPTION_PAIRS:
        texts->text[texts->count++] = text;
        return true;
    case OPTION_SIZE:
        if (!number_whole(text, strlen(text), row->min, row->max, &number))
            return false;
        *(size_t *)field = (size_t)number;
        return true;
    case OPTION_NUMBER:
        return number_whole(text, strlen(text), row->min, row->max, field);
    case OPTION_SECONDS:
        if (!number_real(text, &seconds) || !(seconds >= (double)row->min && seconds <= (double)row->max))
            return false;
        *(double *)field = seconds;
        return true;
    default:
        *(const char **)field = text;
        return row->kind == OPTION_TEXT || row->kind == OPTION_ISAS ||
               (row->kind == OPTION_WORD ? is_word(text, row->argument)
                : row->kind == OPTION_COUNTS ? are_counts(text) : *text != '\0');
    }
}

static void take(struct reader *r, const struct option_row *row, const char *text)
{
    const size_t at = (size_t)(row - r->program->options);
    char right[100];
    if (r->program->once && r->given[at] && row->argument != NULL && row->kind != OPTION_PAIRS)
        diag_error(r->diag, r->place, "--%s is given twice; once is enough", row->name);
    else if (!store(r, row, text))
        diag_error(r->diag, r->place, "--%s cannot be '%s'; write %s", row->name, text, wanted(row, right));
    r->given[at] = true;
}

/* ---- words ---- */

/* The row with a name of which the `length` bytes at `name` are all, or as much as tells it from others. */
static const struct option_row *find_long(struct reader *r, const char *name, size_t length)
{
    const struct option_row *found = NULL;
    for (size_t i = 0; i < r->program->option_count; i++) {
        const struct option_row *row = &r->program->options[i];
        if (!knows(r, row) || strncmp(row->name, name, length) != 0)
            continue;
        if (row->name[length] == '\0')
            return row;
        if (found != NULL) {
            diag_error(r->diag, r->place, "unclear option '--%.*s'; --%s or --%s?", (int)length, name, found->name,
                       row->name);
            return NULL;
        }
        found = row;
    }
    return found;
}

static const struct option_row *find_letter(const struct reader *r, char letter)
{
    for (size_t i = 0; i < r->program->option_count; i++)
        if (r->program->options[i].letter == letter && knows(r, &r->program->options[i]))
            return &r->program->options[i];
    return NULL;
}

static void unknown_option(const struct reader *r, const char *word)
{
    const char *option = word + strspn(word, "-");
    struct nearest nearest = nearest_to(option, strcspn(option, "="));
    char text[NEAREST_TEXT], see[NEAREST_TEXT];
    nearest.before = "--";
    for (size_t i = 0; i < r->program->option_count; i++)
        if (knows(r, &r->program->options[i]))
            nearest_offer(&nearest, r->program->options[i].name);
    snprintf(see, sizeof see, "see %s", r->see);
    diag_error(r->diag, r->place, "unknown option '%s'; %s", word, nearest_ask(&nearest, text, see));
}

/* An option in `word`, whose value is in the word or the next one, NULL: there is none. How many words it takes. */
static int read_option(struct reader *r, const char *word, const char *next, bool *ends)
{
    const bool is_long = word[1] == '-';
    const size_t length = is_long ? strcspn(word + 2, "=") : 0, errors = r->diag->errors;
    const struct option_row *row = is_long ? find_long(r, word + 2, length) : find_letter(r, word[1]);
    const char *rest = is_long ? word + 2 + length : word + 2;
    if (is_long && *rest == '=')
        rest++;
    else if (*rest == '\0')
        rest = NULL;
    if (row == NULL) {
        if (r->diag->errors == errors)
            unknown_option(r, word);
    } else if (row->argument == NULL && rest != NULL) {
        diag_error(r->diag, r->place, "'%s': --%s takes no value; see %s", word, row->name, r->see);
    } else if (row->argument != NULL && rest == NULL && next == NULL) {
        diag_error(r->diag, r->place, "a value is missing after '%s'; see %s", word, r->see);
    } else {
        take(r, row, row->argument == NULL ? "" : rest != NULL ? rest : next);
        *ends = row->kind == OPTION_ASK;
    }
    return rest == NULL && row != NULL && row->argument != NULL ? 2 : 1;
}

/* The lists of OPTION_PAIRS, with room for `room` texts. */
static void make_lists(struct reader *r, size_t room)
{
    for (size_t i = 0; i < r->program->option_count; i++)
        if (r->program->options[i].kind == OPTION_PAIRS) {
            struct option_texts *texts = (void *)((char *)r->fields + r->program->options[i].field);
            texts->text = memory_get(room, sizeof *texts->text);
        }
}

/* Reports missing options and operands. */
static void check_needed(struct reader *r, const struct option_texts *operands)
{
    const struct option_command *command = r->command;
    const char *name = command->name != NULL ? command->name : r->program->name;
    bool alone = operands->count == 0;
    for (size_t i = 0; alone && i < r->program->option_count; i++)
        alone = !(r->given[i] && r->program->options[i].alone);
    if (alone || (operands->count > 1 && !command->several))
        diag_error(r->diag, r->place, "%s needs %s; see %s", name, command->operand, r->see);
    for (size_t i = 0; i < r->program->option_count; i++) {
        const struct option_row *row = &r->program->options[i];
        if ((row->needed & command->bit) && !r->given[i])
            diag_error(r->diag, r->place, "%s needs --%s %s; see %s", name, row->name, row->argument, r->see);
    }
}

bool options_read(const struct option_program *program, const struct option_command *command, int argc, char **argv,
                  void *fields, struct option_texts *operands, struct diag *diag)
{
    struct reader r = {program, command, diag, fields, memory_get(program->option_count, sizeof *r.given), "",
                       ""};
    const char *name = command->name != NULL ? command->name : "";
    bool ends = false, options = true;
    snprintf(r.place, sizeof r.place, "%s%s%s", program->name, *name != '\0' ? " " : "", name);
    snprintf(r.see, sizeof r.see, "%s %s%s", program->name, *name != '\0' ? "help " : "--help", name);
    *operands = (struct option_texts){(const char **)argv + 1, 0};
    make_lists(&r, (size_t)argc + 1);
    for (int i = 1; i < argc && diag->errors == 0 && !ends;) {
        char *word = argv[i];
        if (!options || word[0] != '-' || word[1] == '\0')
            operands->text[operands->count++] = word;
        else if (strcmp(word, "--") != 0) {
            i += read_option(&r, word, i + 1 < argc ? argv[i + 1] : NULL, &ends);
            continue;
        } else
            options = false;
        i++;
    }
    if (diag->errors == 0 && !ends)
        check_needed(&r, operands);
    free(r.given);
    return diag->errors == 0;
}

void options_forget(const struct option_program *program, void *fields)
{
    for (size_t i = 0; i < program->option_count; i++)
        if (program->options[i].kind == OPTION_PAIRS) {
            struct option_texts *texts = (void *)((char *)fields + program->options[i].field);
            free(texts->text);
            *texts = (struct option_texts){0};
        }
}

const struct option_command *options_find(const struct option_program *program, const char *name)
{
    for (size_t i = 0; i < program->command_count; i++)
        if (program->commands[i].name != NULL && strcmp(program->commands[i].name, name) == 0)
            return &program->commands[i];
    return NULL;
}

/* ---- help ---- */

void options_help_text(const struct option_program *program, const struct option_row *row, char text[OPTION_HELP])
{
    size_t used = 0;
    for (const char *at = row->help; *at != '\0' && used < OPTION_HELP - 1; at++) {
        text[used] = '\0';
        if (at[0] == '%' && (at[1] == 'a' || at[1] == 'd')) {
            program->list(*++at, text + used, OPTION_HELP - used);
            used += strlen(text + used);
        } else {
            text[used++] = *at;
        }
    }
    text[used] = '\0';
}

/* The words of a text behind `column`, none past the last one, further lines behind `indent` columns. */
static void print_words(FILE *out, size_t column, int indent, const char *text)
{
    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        if (column + 1 + length > WIDTH)
            column = (size_t)fprintf(out, "\n%*s", indent - 1, "") - 1;
        column += (size_t)fprintf(out, " %.*s", (int)length, text);
        text += length + strspn(text + length, " ");
    }
    fputc('\n', out);
}

void options_help(const struct option_program *program, const struct option_command *command, FILE *out)
{
    fprintf(out, "usage: %s", program->name);
    if (command->name != NULL)
        fprintf(out, " %s", command->name);
    fprintf(out, " %s\n\n%s.\n\n", command->usage, command->help);
    for (size_t i = 0; i < program->option_count; i++) {
        const struct option_row *row = &program->options[i];
        char left[40], text[OPTION_HELP];
        if (!(row->commands & command->bit))
            continue;
        snprintf(left, sizeof left, "-%c, --%s %s", row->letter, row->name, row->argument != NULL ? row->argument : "");
        options_help_text(program, row, text);
        print_words(out, (size_t)fprintf(out, "  %-22s", row->letter != 0 ? left : left + 4), 25, text);
    }
}
