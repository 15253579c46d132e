/* SPDX-License-Identifier: MIT */
/* Names of layers: what can be one, and what to write instead of what cannot. */
#include "base/name.h"

#include <stdbool.h>
#include <string.h>

#include "base/reserved.h"
#include "base/text.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static bool is_in(const char *word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* With the float and long double sisters of a name: sinf, sinl. */
static bool is_library_name(const char *name)
{
    char stem[MAX_NAME + 1];
    const size_t length = strlen(name);
    if (is_in(name, library_names, COUNT_OF(library_names)))
        return true;
    if (length < 3 || length > MAX_NAME || (name[length - 1] != 'f' && name[length - 1] != 'l'))
        return false;
    memcpy(stem, name, length - 1);
    stem[length - 1] = '\0';
    return is_in(stem, library_names, COUNT_OF(library_names));
}

const char *layer_name_fault(const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < length; i++)
        if (!is_letter(name[i]) && name[i] != '_' && (!is_digit(name[i]) || i == 0))
            return "is not a C identifier";
    if (length == 0)
        return "is not a C identifier";
    if (length > MAX_NAME)
        return "is longer than 63 characters";
    if (name[0] == '_')
        return "begins with an underscore, which C reserves";
    if (strstr(name, "__") != NULL)
        return "has a double underscore, which C++ reserves";
    if (name[length - 1] == '_')
        return "ends in an underscore, which becomes a double one in every emitted name, and C++ reserves those";
    if (is_in(name, keywords, COUNT_OF(keywords)))
        return "is a keyword of C or C++";
    if (is_library_name(name))
        return "is a name of the C or C++ library";
    return NULL;
}

void name_suggest(const char *bad, char good[MAX_NAME + 1])
{
    size_t used = 0;
    while (*bad != '\0' && !is_letter(*bad) && !is_digit(*bad))
        bad++;
    if (is_digit(*bad)) {
        strcpy(good, "layer_");
        used = strlen(good);
    }
    for (; *bad != '\0' && used < MAX_NAME - strlen("_layer"); bad++) {
        if (is_letter(*bad) || is_digit(*bad))
            good[used++] = *bad;
        else if (good[used - 1] != '_')
            good[used++] = '_';
    }
    while (used > 0 && good[used - 1] == '_')
        used--;
    good[used] = '\0';
    if (used == 0)
        strcpy(good, "my_layer");
    else if (layer_name_fault(good) != NULL)
        strcpy(good + used, "_layer");
}
