/* SPDX-License-Identifier: MIT */
/* Specs as anyone may write them: text, and behind the first line that begins with "--set ", --set texts, one a line.
 *
 * A spec is refused with messages that say what would be right, or what was read is printed, read again and is the same; so
 * is the list of its options. What follows from a layer that was accepted is layer.c's.
 */
#include "base/name.h"
#include "fuzz.h"

#define MAX_SETS 8
static const char mark[] = "--set ";

/* Cuts the --set lines off the text. */
static size_t cut_sets(char *text, const char *sets[MAX_SETS])
{
    size_t count = 0;
    char *line = strncmp(text, mark, strlen(mark)) == 0 ? text : strstr(text, "\n--set ");
    if (line == NULL)
        return 0;
    line += *line == '\n';
    for (char *next; line != NULL && count < MAX_SETS; line = next) {
        const bool is_set = strncmp(line, mark, strlen(mark)) == 0;
        if ((next = strchr(line, '\n')) != NULL)
            *next++ = '\0';
        if (is_set)
            sets[count++] = line + strlen(mark);
    }
    return count;
}

static struct layer *read_layer(const char *text, size_t length, const char *const *sets, size_t count)
{
    struct diag diag = {0};
    struct layer *layer = layer_read(fuzz_file("fuzz.layer", text, length), sets, count, &diag);
    for (size_t i = 0; i < diag.errors && i < DIAG_LIMIT; i++)
        REQUIRE(strchr(diag.messages[i], ';') != NULL, "no advice: %s", diag.messages[i]);
    fuzz_diag(&diag, layer != NULL);
    return layer;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *sets[MAX_SETS];
    char *text = fuzz_text(data, size);
    const char *first = strncmp(text, mark, strlen(mark)) == 0 ? text : strstr(text, "\n--set ");
    const size_t length = first != NULL ? (size_t)(first - text) : size;
    const size_t count = cut_sets(text, sets);
    struct layer *layer = read_layer(text, length, sets, count);
    if (layer != NULL) {
        struct layer *again = read_layer(layer->text, strlen(layer->text), NULL, 0);
        REQUIRE(again != NULL && fuzz_same_layer(layer, again), "%s", layer->text);
        for (size_t i = 0; i < layer->options_count; i++)
            REQUIRE(layer_knows_key(layer->options[i].key));
        REQUIRE(layer_name_fault(layer->name) == NULL);
        layer_free(again);
    }
    layer_free(layer);
    free(text);
    return 0;
}
