/* SPDX-License-Identifier: MIT */
/* Prints attnrun's shim for the layer that is named. */
#include <stdio.h>

#include "../../../runtime/kernels/load.h"

int main(int argc, char **argv)
{
    const char *text = argc == 2 ? kernel_shim(argv[1]) : NULL;
    return text == NULL || fputs(text, stdout) < 0 || fflush(stdout) != 0;
}
