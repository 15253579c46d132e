/* SPDX-License-Identifier: MIT */
/* A picture of 256 colours as a PNG within a text: "data:image/png;base64,…".
 *
 * Left out on purpose: compression; the bytes of a pixel are stored.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

struct colour {
    unsigned char red, green, blue;
};

/* `pixels` [height][width]: indices of colours, of which there are 256. */
void png_print(FILE *out, const struct colour *colours, const unsigned char *pixels, uint32_t width, uint32_t height);
