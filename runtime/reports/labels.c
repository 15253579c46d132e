/* SPDX-License-Identifier: MIT */
#include "labels.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../gen/file.h"

#define LABEL_LIMIT 16 /* maximum of characters of a label that are shown */

/* Bytes of the character at `text`; 0 if XML does not allow it: invalid UTF-8, or a control character */
static size_t character(const unsigned char *text)
{
    static const struct { unsigned char mask, lead; uint32_t min; } forms[] = {
        {0x80, 0x00, 0x20}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000},
    };
    size_t bytes = 0;
    while (bytes < 4 && (text[0] & forms[bytes].mask) != forms[bytes].lead)
        bytes++;
    if (bytes == 4)
        return 0;
    uint32_t code = text[0] & (unsigned char)~forms[bytes].mask;
    for (size_t i = 1; i <= bytes; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    const bool control = code == 0x7f || (code >= 0x80 && code < 0xa0) || (code >= 0xd800 && code < 0xe000);
    return code < forms[bytes].min || control || (code & 0xfffe) == 0xfffe || code > 0x10ffff ? 0 : bytes + 1;
}

/* Cuts a label that is long; false if it is not text. */
static bool trim_label(char *text, size_t *characters)
{
    char *cut = text, *at = text;
    *characters = 0;
    for (size_t bytes; *at != '\0'; at += bytes) {
        *at = *at == '\t' ? ' ' : *at;
        bytes = character((const unsigned char *)at);
        if (bytes == 0)
            return false;
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
    char *text = path != NULL ? file_read(path, &size, diag) : NULL;
    if (text == NULL)
        return path == NULL;
    labels->text = calloc(positions + 1, sizeof *labels->text);
    bool good = labels->text != NULL;
    if (!good)
        diag_environment(diag, path, "out of memory");
    for (char *at = text, *end = text + size; good && at < end; lines++) {
        size_t length = strcspn(at, "\n"), characters;
        char *next = at + length + 1;
        bool zero = at + length < end && at[length] == '\0'; /* a byte 0 inside the line */
        at[length] = '\0';
        if (length > 0 && at[length - 1] == '\r')
            at[length - 1] = '\0';
        if (zero || !trim_label(at, &characters)) {
            diag_error(diag, path, "line %zu is not text in UTF-8", lines + 1);
            good = false;
        } else if (lines < positions) {
            labels->longest = characters > labels->longest ? characters : labels->longest;
            good = (labels->text[lines] = strdup(at)) != NULL;
            if (!good)
                diag_environment(diag, path, "out of memory");
        }
        at = next;
    }
    labels->count = lines < positions ? lines : positions;
    if (good && lines != positions && lines != padded)
        good = diag_error(diag, path, padded == positions ? "%zu labels for %zu positions; one a line is needed"
                          : "%zu labels for %zu positions, of which %zu are not padding; one a line is needed", lines,
                          positions, padded);
    free(text);
    return good;
}

void labels_free(struct labels *labels)
{
    for (size_t i = 0; i < labels->count; i++)
        free(labels->text[i]);
    free(labels->text);
}
