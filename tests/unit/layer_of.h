/* SPDX-License-Identifier: MIT */
/* A layer from the text of a spec, for unit tests; include it behind cmocka. A text that is refused fails the test. */
#ifndef TESTS_LAYER_OF_H
#define TESTS_LAYER_OF_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "spec/layer.h"

static struct layer *layer_of(const char *spec)
{
    char path[] = "/tmp/layer_of.XXXXXX";
    struct diag diag = {0};
    int file = mkstemp(path);
    FILE *out = fdopen(file, "w");
    fprintf(out, "name = test\n%s", spec);
    fclose(out);
    struct layer *layer = layer_read(path, NULL, 0, &diag);
    unlink(path);
    if (layer == NULL)
        fail_msg("%s\n%s", spec, diag.messages[0]);
    return layer;
}

#endif
