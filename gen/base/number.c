/* SPDX-License-Identifier: MIT */
#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

bool number_whole(const char *text, size_t length, uint64_t min, uint64_t max, uint64_t *value)
{
    uint64_t number = 0;
    for (size_t i = 0; i < length; i++) {
        const unsigned digit = (unsigned)(text[i] - '0');
        if (digit > 9 || digit > max || number > (max - digit) / 10)
            return false;
        number = 10 * number + digit;
    }
    if (length == 0 || number < min)
        return false;
    *value = number;
    return true;
}

bool number_real(const char *text, double *value)
{
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && !isspace((unsigned char)*text);
}
