/* SPDX-License-Identifier: MIT */
/* gnuplot as a child process. */
#include "gnuplot.h"

#include <stdlib.h>
#include <string.h>

bool gnuplot_find(const char *place, struct diag *diag)
{
    char *const words[] = {"gnuplot", "--version", NULL};
    struct process_result result;
    struct diag ignored = {0};
    const bool good = process_run(&result, words, NULL, &ignored) && result.exit_code == 0;
    if (!good)
        diag_environment(diag, place, "gnuplot draws the picture, but cannot be run; install it (on Debian: "
                         "gnuplot-nox)");
    free(result.output);
    diag_free(&ignored);
    return good;
}

bool gnuplot_run(const char *script, struct diag *diag)
{
    char *const words[] = {"gnuplot", "--default-settings", (char *)script, NULL};
    struct process_result result;
    bool good = process_run(&result, words, NULL, diag);
    if (good && result.signal != 0)
        diag_environment(diag, "gnuplot", "was killed by signal %d (%s)\n%s", result.signal, strsignal(result.signal),
                         result.output);
    else if (good && result.exit_code != 0)
        diag_environment(diag, "gnuplot", "failed (exit code %d)\n%s", result.exit_code, result.output);
    good = good && result.exit_code == 0;
    free(result.output);
    return good;
}

/* In double quotes, as gnuplot misreads several doubled single quotes in a row. Characters with a meaning there,
 * backquotes too, are written as numbers. */
static void quote(FILE *out, const char *text, bool is_format)
{
    putc('"', out);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (strchr("\"\\`", c) != NULL)
            fprintf(out, "\\%03o", c);
        else if (c == '%' && is_format)
            fputs("%%", out);
        else
            putc(c < ' ' ? ' ' : c, out);
    }
    putc('"', out);
}

void gnuplot_quote(FILE *out, const char *text)
{
    quote(out, text, false);
}

void gnuplot_quote_tic(FILE *out, const char *text)
{
    quote(out, text, true);
}
