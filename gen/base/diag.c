/* SPDX-License-Identifier: MIT */
/* Diagnostics: collected as text when they are found, printed together at the end.
 *
 * Left out on purpose: sorting (messages come in the order in which they were found) and any exit().
 */
#include "base/diag.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* "place: error: text" on the heap, or NULL without memory. */
static char *compose(const char *place, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int text = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (text < 0)
        return NULL;

    const char *colon = place != NULL ? ": " : "";
    place = place != NULL ? place : "";
    const size_t head = strlen(place) + strlen(colon) + strlen("error: ");
    char *message = malloc(head + (size_t)text + 1);
    if (message == NULL)
        return NULL;
    snprintf(message, head + 1, "%s%serror: ", place, colon);
    vsnprintf(message + head, (size_t)text + 1, format, args);
    text_disarm(message); /* names may come from untrusted files */
    const bool lines = strchr(format, '\n') != NULL || strcmp(format, "%s") == 0; /* else they are a name's */
    for (char *at = message; (at = strchr(at, '\n')) != NULL && (!lines || at < message + head);)
        *at = '?';
    return message;
}

/* Errors past the limit are only counted. Without memory the text is lost, but the error still counts. */
static void add(struct diag *diag, const char *place, const char *format, va_list args)
{
    if (diag->errors < DIAG_LIMIT) {
        char *message = compose(place, format, args);
        diag->messages[diag->errors] = message;
        if (message == NULL)
            diag->environment = true;
    }
    diag->errors++;
}

bool diag_error(struct diag *diag, const char *place, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(diag, place, format, args);
    va_end(args);
    return false;
}

bool diag_environment(struct diag *diag, const char *place, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(diag, place, format, args);
    va_end(args);
    diag->environment = true;
    return false;
}

int diag_report(const struct diag *diag, FILE *out)
{
    for (size_t i = 0; i < diag->errors && i < DIAG_LIMIT; i++)
        fprintf(out, "%s\n", diag->messages[i] != NULL ? diag->messages[i] : "error: out of memory");
    if (diag->errors > DIAG_LIMIT)
        fprintf(out, "error: %zu more errors are not shown; mend these first\n", diag->errors - DIAG_LIMIT);
    if (diag->errors == 0)
        return EXIT_GOOD;
    return diag->environment ? EXIT_ENVIRONMENT : EXIT_USAGE;
}

const char *diag_first(const struct diag *diag)
{
    const char *message = diag->errors > 0 ? diag->messages[0] : "";
    if (message == NULL)
        return "out of memory";
    const char *text = strstr(message, "error: ");
    return text != NULL ? text + strlen("error: ") : message;
}

void diag_free(struct diag *diag)
{
    for (size_t i = 0; i < DIAG_LIMIT; i++) {
        free(diag->messages[i]);
        diag->messages[i] = NULL;
    }
    diag->errors = 0;
    diag->environment = false;
}
