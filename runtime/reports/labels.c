/* SPDX-License-Identifier: MIT */
#include "labels.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/memory.h"

#define LABEL_LIMIT 16 /* maximum of characters of a label that are shown */

/* Cuts a label that is long, and disarms what turns the direction of writing; false if it is not text. */
static bool trim_label(char *text, size_t *characters)
{
    char *cut = text, *at = text;
    *characters = 0;
    for (size_t bytes; *at != '\0'; at += bytes) {
        *at = *at == '\t' ? ' ' : *at;
        bytes = text_character(at);
        if (bytes == 0)
            return false;
        if (text_turns(at)) {
            *at = '?';
            memmove(at + 1, at + bytes, strlen(at + bytes) + 1);
            bytes = 1;
        }
        if (++*characters == LABEL_LIMIT)
            cut = at;
    }
    if (*characters > LABEL_LIMIT) {
        /* "…" replaces at least one character and the rest: there are three bytes for it */
        *characters = LABEL_LIMIT;
        memmove(cut, strlen(cut) >= 3 ? "\xe2\x80\xa6" : ".", strlen(cut) >= 3 ? 4 : 2);
    }
    return true;
}

bool labels_read(struct labels *labels, const char *path, size_t positions, size_t padded, struct diag *diag)
{
    size_t size, lines = 0;
    HEAP char *text = path != NULL ? file_read(path, WHOLE_LABELS, &size, diag) : NULL;
    if (text == NULL)
        return path == NULL;
    labels->text = memory_get(positions, sizeof *labels->text);
    bool good = true;
    for (char *at = text, *end = text + size; good && at < end; lines++) {
        size_t length = strcspn(at, "\n"), characters;
        char *next = at + length + 1;
        bool zero = at + length < end && at[length] == '\0'; /* a byte 0 inside the line */
        at[length] = '\0';
        if (length > 0 && at[length - 1] == '\r')
            at[length - 1] = '\0';
        if (zero || !trim_label(at, &characters)) {
            good = diag_error(diag, path, "line %zu is not text in UTF-8", lines + 1);
        } else if (lines < positions) {
            labels->longest = characters > labels->longest ? characters : labels->longest;
            labels->text[lines] = text_copy(at);
        }
        at = next;
    }
    labels->count = lines < positions ? lines : positions;
    if (good && lines != positions && lines != padded)
        good = diag_error(diag, path, padded == positions ? "%zu labels for %zu positions; one a line is needed"
                          : "%zu labels for %zu positions, of which %zu are not padding; one a line is needed", lines,
                          positions, padded);
    return good;
}

void labels_free(struct labels *labels)
{
    for (size_t i = 0; i < labels->count; i++)
        free(labels->text[i]);
    free(labels->text);
}
