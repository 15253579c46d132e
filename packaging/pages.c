/* SPDX-License-Identifier: MIT */
/* Build-time tool: the man pages and the shells' completions, of the tables that the programs parse by.
 *
 *   pages man PAGE.in [SECTION]   a page of manual (mdoc); a line that is one of these becomes what the tables say:
 *       @usage PROGRAM@     the command line behind the name, or, for a program with commands, one for each
 *       @help PROGRAM@      what it says of itself
 *       @options PROGRAM@   the options as a list
 *       @commands PROGRAM@  a subsection for each command: its usage, its help, its options
 *       @section@           the file SECTION
 *     @isas@ and @version@ stand for the instruction sets and the version, anywhere.
 *   pages bash                    completion for both programs, for bash from 3.2 on, without bash-completion
 *   pages zsh                     the same for zsh
 *   pages fish PROGRAM            for fish, which wants a file for each
 *
 * Left out on purpose: prose; it is the page's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "options/options.h"
#include "base/diag.h"
#include "plan/isa.h"
#include "base/version.h"

static const struct option_program *const programs[] = {&attngen_program, &attnrun_program};
#define PROGRAMS (sizeof programs / sizeof *programs)

static const struct option_program *find_program(const char *name)
{
    for (size_t i = 0; i < PROGRAMS; i++)
        if (strcmp(programs[i]->name, name) == 0)
            return programs[i];
    fprintf(stderr, "pages: error: there is no program '%s'\n", name);
    exit(EXIT_USAGE);
}

/* The next row that the command knows from *at on, and its help; NULL behind the last. */
static const struct option_row *next_row(const struct option_program *program, const struct option_command *command,
                                         size_t *at, char help[OPTION_HELP])
{
    while (*at < program->option_count) {
        const struct option_row *row = &program->options[(*at)++];
        if (!(row->commands & command->bit))
            continue;
        options_help_text(program, row, help);
        return row;
    }
    return NULL;
}

static void print_isas(const char *separator)
{
    char names[200];
    isa_list_names(names, sizeof names, isa_all(), separator);
    fputs(names, stdout);
}

/* The text up to `end`, with each of the characters `from` replaced by its text in `to`. */
static void print_replaced(const char *text, char end, const char *from, const char *const *to)
{
    for (; *text != '\0' && *text != end; text++) {
        const char *found = strchr(from, *text);
        if (found != NULL)
            fputs(to[found - from], stdout);
        else
            putchar(*text);
    }
}

/* "fast|small" → "fast small" */
static void print_choices(const char *argument)
{
    static const char *const to[] = {" "};
    print_replaced(argument, '\0', "|", to);
}

static void print_commands(const struct option_program *program)
{
    const char *blank = "";
    for (size_t i = 0; i < program->command_count; i++)
        if (program->commands[i].name != NULL) {
            printf("%s%s", blank, program->commands[i].name);
            blank = " ";
        }
}

/* ---- man pages ---- */

/* Nothing in it is a macro or an escape, a minus is one that can be copied, and each sentence has a line of its own. */
static void print_man(const char *text)
{
    static const char ellipsis[] = "\xe2\x80\xa6";
    fputs(*text == '.' || *text == '\'' ? "\\&" : "", stdout);
    for (; *text != '\0'; text++)
        if (strncmp(text, ellipsis, strlen(ellipsis)) == 0) {
            fputs("...", stdout);
            text += strlen(ellipsis) - 1;
        } else if (strncmp(text, ". ", 2) == 0) {
            fputs(".\n", stdout);
            text++;
        } else {
            fputs(*text == '\\' ? "\\e" : *text == '-' ? "\\-" : (char[]){*text, '\0'}, stdout);
        }
}

static void man_options(const struct option_program *program, const struct option_command *command)
{
    char help[OPTION_HELP];
    const struct option_row *row;
    puts(".Bl -tag -width Ds");
    for (size_t at = 0; (row = next_row(program, command, &at, help)) != NULL;) {
        fputs(".It ", stdout);
        if (row->letter != 0)
            printf("Fl %c , ", row->letter);
        fputs("Fl \\-", stdout);
        print_man(row->name);
        fputs(row->argument != NULL ? " Ar " : "", stdout);
        print_man(row->argument != NULL ? row->argument : "");
        putchar('\n');
        print_man(help);
        putchar('\n');
    }
    puts(".El");
}

static void man_usage(const struct option_program *program)
{
    for (size_t i = 0; i < program->command_count; i++) {
        printf(".Nm %s\n%s%s", program->name, program->commands[i].name != NULL ? program->commands[i].name : "",
               program->commands[i].name != NULL ? " " : "");
        print_man(program->commands[i].usage);
        putchar('\n');
    }
}

static void man_help(const struct option_program *program)
{
    print_man(program->commands->help);
    puts(".");
}

static void man_only_options(const struct option_program *program)
{
    man_options(program, program->commands);
}

static void man_commands(const struct option_program *program)
{
    for (size_t i = 0; i < program->command_count; i++) {
        const struct option_command *command = &program->commands[i];
        if (command->name == NULL)
            continue; /* what it does without a command has a section of its own */
        printf(".Ss %s %s ", program->name, command->name);
        print_man(command->usage);
        putchar('\n');
        print_man(command->help);
        puts(".");
        man_options(program, command);
    }
}

static FILE *open_text(const char *path)
{
    FILE *in = fopen(path, "r");
    if (in != NULL)
        return in;
    perror(path);
    exit(EXIT_ENVIRONMENT);
}

/* A line with the words in it that stand anywhere. */
static void man_line(const char *line)
{
    for (; *line != '\0'; line++)
        if (strncmp(line, "@isas@", 6) == 0) {
            print_isas(", ");
            line += 5;
        } else if (strncmp(line, "@version@", 9) == 0) {
            fputs(ATTNGEN_VERSION, stdout);
            line += 8;
        } else {
            putchar(*line);
        }
}

static void print_page(const char *path, const char *section)
{
    static const struct {
        const char *word;
        void (*print)(const struct option_program *program);
    } words[] = {{"@usage", man_usage}, {"@help", man_help}, {"@options", man_only_options},
                 {"@commands", man_commands}};
    FILE *in = open_text(path);
    char *line = NULL, word[16], name[16];
    size_t room = 0;
    while (getline(&line, &room, in) > 0) {
        size_t i = 0, all = sscanf(line, "%15s %15[^@]@", word, name) == 2 ? sizeof words / sizeof *words : 0;
        while (i < all && strcmp(words[i].word, word) != 0)
            i++;
        if (i < all)
            words[i].print(find_program(name));
        else if (strcmp(line, "@section@\n") == 0 && section != NULL)
            print_page(section, NULL);
        else
            man_line(line);
    }
    free(line);
    fclose(in);
}

/* ---- bash ---- */

/* Where the word is no command, option, choice or instruction set, readline completes it as a path. */
static void bash_choices(const struct option_program *program)
{
    for (size_t i = 0; i < program->option_count; i++)
        if (program->options[i].kind == OPTION_WORD) {
            printf("    --%s) words='", program->options[i].name);
            print_choices(program->options[i].argument);
            puts("' ;;");
        }
}

static void bash_options(const struct option_program *program)
{
    char help[OPTION_HELP];
    const struct option_row *row;
    for (size_t i = 0; i < program->command_count; i++) {
        const struct option_command *command = &program->commands[i];
        printf("            '%s%s%s') words='", program->name, command->name != NULL ? " " : "",
               command->name != NULL ? command->name : "");
        for (size_t at = 0; (row = next_row(program, command, &at, help)) != NULL;) {
            if (row->letter != 0)
                printf("-%c ", row->letter);
            printf("--%s ", row->name);
        }
        puts("' ;;");
    }
}

static void print_bash(void)
{
    puts("# bash completion for attngen and attnrun; made of their tables of options.\n"
         "_attngen()\n"
         "{\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} key words=' '\n"
         "    COMPREPLY=()\n"
         "    key=${COMP_WORDS[0]##*/}\n"
         "    case $key/${COMP_WORDS[1]} in attnrun/*|attngen/import) key=\"$key ${COMP_WORDS[1]}\" ;; esac\n"
         "    case $before in\n"
         "    --isa)\n"
         "        # the last name of a list that commas join\n"
         "        local list=\n"
         "        case $word in *,*) list=${word%,*}, ;; esac");
    fputs("        COMPREPLY=($(compgen -P \"$list\" -W '", stdout);
    print_isas(" ");
    puts("' -- \"${word##*,}\"))\n"
         "        return ;;");
    for (size_t i = 0; i < PROGRAMS; i++)
        bash_choices(programs[i]);
    fputs("    *)\n"
          "        if [ \"$COMP_CWORD\" -eq 1 ] && [ \"${word#-}\" = \"$word\" ] && [ \"${key%% *}\" = attngen ]; then\n"
          "            words='", stdout);
    print_commands(&attngen_program);
    fputs("'\n"
          "        elif [ \"$COMP_CWORD\" -eq 1 ] && [ \"${key%% *}\" = attnrun ]; then\n"
          "            words='", stdout);
    print_commands(&attnrun_program);
    fputs(" help --help --version'\n"
          "        elif [ \"$key\" = 'attnrun help' ]; then\n"
          "            words='", stdout);
    print_commands(&attnrun_program);
    puts("'\n"
         "        elif [ \"${word#-}\" != \"$word\" ]; then\n"
         "            case $key in");
    for (size_t i = 0; i < PROGRAMS; i++)
        bash_options(programs[i]);
    puts("            esac\n"
         "        fi ;;\n"
         "    esac\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -o bashdefault -o default -F _attngen attngen attnrun");
}

/* ---- fish ---- */

static void fish_quoted(const char *text)
{
    static const char *const to[] = {"\\\\", "\\'"};
    putchar('\'');
    print_replaced(text, '\n', "\\'", to);
    putchar('\'');
}

static void fish_argument(const struct option_row *row)
{
    if (row->kind == OPTION_FILE || row->kind == OPTION_FOLDER) {
        fputs(" -r -F", stdout);
    } else if (row->kind == OPTION_ISAS) {
        fputs(" -x -a '(__fish_append , ", stdout);
        print_isas(" ");
        fputs(")'", stdout);
    } else if (row->kind == OPTION_WORD) {
        fputs(" -x -a '", stdout);
        print_choices(row->argument);
        putchar('\'');
    } else if (row->argument != NULL) {
        fputs(" -x", stdout);
    }
}

static void fish_command(const struct option_program *program, const struct option_command *command)
{
    char help[OPTION_HELP];
    const struct option_row *row;
    if (command->name != NULL) {
        printf("complete -c %s -n __fish_use_subcommand -f -a %s -d ", program->name, command->name);
        fish_quoted(command->help);
        putchar('\n');
    }
    for (size_t at = 0; (row = next_row(program, command, &at, help)) != NULL;) {
        printf("complete -c %s", program->name);
        if (command->name != NULL) {
            printf(" -n '__fish_seen_subcommand_from %s'", command->name);
        } else {
            fputs(" -n 'not __fish_seen_subcommand_from ", stdout);
            print_commands(program);
            putchar('\'');
        }
        if (row->letter != 0)
            printf(" -s %c", row->letter);
        printf(" -l %s", row->name);
        fish_argument(row);
        fputs(" -d ", stdout);
        fish_quoted(help);
        putchar('\n');
    }
}

static void print_fish(const struct option_program *program)
{
    printf("# fish completion for %s; made of its table of options.\n", program->name);
    if (program->commands->name != NULL) {
        printf("complete -c %s -n __fish_use_subcommand -f -a help -d 'the options of a command'\n"
               "complete -c %s -n __fish_use_subcommand -l version\n"
               "complete -c %s -n '__fish_seen_subcommand_from help' -f -a '", program->name, program->name,
               program->name);
        print_commands(program);
        puts("'");
    }
    for (size_t i = 0; i < program->command_count; i++)
        fish_command(program, &program->commands[i]);
}

/* ---- zsh ---- */

/* Within the brackets and colons of an _arguments spec, which itself stands in single quotes. */
static void zsh_escaped(const char *text)
{
    static const char *const to[] = {"\\\\", "\\:", "\\[", "\\]", "'\\''"};
    print_replaced(text, '\n', "\\:[]'", to);
}

static void zsh_argument(const struct option_row *row)
{
    if (row->argument == NULL)
        return;
    putchar(':');
    zsh_escaped(row->kind == OPTION_WORD ? row->name : row->argument);
    putchar(':');
    if (row->kind == OPTION_WORD) {
        putchar('(');
        print_choices(row->argument);
        putchar(')');
    } else if (row->kind == OPTION_ISAS) {
        fputs("_values -s , ISA ", stdout);
        print_isas(" ");
    } else {
        fputs(row->kind == OPTION_FILE ? "_files" : row->kind == OPTION_FOLDER ? "_files -/" : " ", stdout);
    }
}

static void zsh_option(const struct option_row *row, const char *dashes, const char *name, const char *help)
{
    printf(" \\\n        '%s%s%s[", row->kind == OPTION_PAIRS ? "*" : "", dashes, name);
    zsh_escaped(help);
    putchar(']');
    zsh_argument(row);
    putchar('\'');
}

static void zsh_arguments(const struct option_program *program, const struct option_command *command)
{
    char help[OPTION_HELP];
    const struct option_row *row;
    fputs("_arguments", stdout);
    for (size_t at = 0; (row = next_row(program, command, &at, help)) != NULL;) {
        if (row->letter != 0)
            zsh_option(row, "-", (char[]){row->letter, '\0'}, help);
        zsh_option(row, "--", row->name, help);
    }
    fputs(" \\\n        '*:file:_files'", stdout);
}

static void print_zsh(void)
{
    fputs("#compdef attngen attnrun\n"
          "# zsh completion for attngen and attnrun; made of their tables of options.\n"
          "_attngen_options()\n"
          "{\n"
          "    local command=$words[2]\n"
          "    case $command in\n", stdout);
    for (size_t i = attngen_program.command_count; i-- > 0;) {
        const char *name = attngen_program.commands[i].name;
        printf("    %s) %s", name != NULL ? name : "*", name != NULL ? "shift words; (( CURRENT-- )); " : "");
        zsh_arguments(&attngen_program, &attngen_program.commands[i]);
        puts(" ;;");
    }
    puts("    esac\n"
         "}\n"
         "_attnrun_commands()\n"
         "{\n"
         "    local -a commands=(");
    for (size_t i = 0; i < attnrun_program.command_count; i++) {
        printf("        '%s:", attnrun_program.commands[i].name);
        zsh_escaped(attnrun_program.commands[i].help);
        puts("'");
    }
    puts("        'help:the options of a command'\n"
         "    )\n"
         "    _describe command commands\n"
         "}\n"
         "_attnrun_options()\n"
         "{\n"
         "    if (( CURRENT == 2 )); then\n"
         "        _attnrun_commands\n"
         "        return\n"
         "    fi\n"
         "    local command=$words[2]\n"
         "    shift words\n"
         "    (( CURRENT-- ))\n"
         "    case $command in\n"
         "    help) _attnrun_commands ;;");
    for (size_t i = 0; i < attnrun_program.command_count; i++) {
        printf("    %s) ", attnrun_program.commands[i].name);
        zsh_arguments(&attnrun_program, &attnrun_program.commands[i]);
        puts(" ;;");
    }
    puts("    esac\n"
         "}\n"
         "case $service in\n"
         "attngen) _attngen_options \"$@\" ;;\n"
         "attnrun) _attnrun_options \"$@\" ;;\n"
         "esac");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "man") == 0 && argc > 2)
        print_page(argv[2], argc > 3 ? argv[3] : NULL);
    else if (strcmp(what, "bash") == 0)
        print_bash();
    else if (strcmp(what, "zsh") == 0)
        print_zsh();
    else if (strcmp(what, "fish") == 0 && argc > 2)
        print_fish(find_program(argv[2]));
    else {
        fputs("usage: pages man PAGE.in [SECTION] | bash | zsh | fish PROGRAM\n", stderr);
        return EXIT_USAGE;
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_GOOD : EXIT_ENVIRONMENT;
}
