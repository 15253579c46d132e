/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static size_t read_character(const char *at, uint32_t *code)
{
    static const struct { unsigned char mask, lead; uint32_t min; } forms[] = {
        {0x80, 0x00, 0x20}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000},
    };
    const unsigned char *text = (const unsigned char *)at;
    size_t bytes = 0;
    while (bytes < 4 && (text[0] & forms[bytes].mask) != forms[bytes].lead)
        bytes++;
    if (bytes == 4)
        return 0;
    *code = text[0] & (unsigned char)~forms[bytes].mask;
    for (size_t i = 1; i <= bytes; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (text[i] & 0x3f);
    }
    return *code < forms[bytes].min ? 0 : bytes + 1;
}

struct shown text_show(const char *text, size_t length)
{
    struct shown shown;
    size_t used = 0, taken = 0;
    for (; taken < TEXT_SHOWN && taken < length; taken++)
        used += (size_t)snprintf(shown.text + used, 5, text[taken] >= 0x20 && text[taken] < 0x7f ? "%c" : "\\x%02x",
                                 (unsigned char)text[taken]);
    strcpy(shown.text + used, taken < length ? "..." : "");
    return shown;
}

size_t text_character(const char *text)
{
    uint32_t code = 0;
    const size_t bytes = read_character(text, &code);
    const bool control = (code >= 0x7f && code < 0xa0) || (code >= 0xd800 && code < 0xe000);
    return control || (code & 0xfffe) == 0xfffe || code > 0x10ffff ? 0 : bytes;
}

bool text_turns(const char *text)
{
    uint32_t code = 0;
    read_character(text, &code);
    return code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

void text_disarm(char *text)
{
    while (*text != '\0') {
        const size_t bytes = text_character(text);
        if (*text == '\n' || *text == '\t')
            text++;
        else if (bytes > 0 && !text_turns(text))
            text += bytes;
        else
            for (size_t i = 0; i < (bytes > 0 ? bytes : 1); i++)
                *text++ = '?';
    }
}

void text_print_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
    const bool quote = *word == '\0' || word[strspn(word, plain)] != '\0';
    fputs(quote ? " '" : " ", out);
    for (const char *c = word; *c != '\0';) {
        const size_t bytes = text_character(c);
        const bool comment = c > word && ((c[-1] == '*' && *c == '/') || (c[-1] == '/' && *c == '*'));
        if (*c == '\'')
            fputs("'\\''", out);
        else if (bytes == 0 || comment || text_turns(c))
            putc('?', out);
        else
            fwrite(c, 1, bytes, out);
        c += bytes > 0 ? bytes : 1;
    }
    if (quote)
        putc('\'', out);
}
