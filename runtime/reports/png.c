/* SPDX-License-Identifier: MIT */
/* See png.h. The formats: RFC 2083 (PNG), RFC 1950 and 1951 (its stream, in stored blocks), RFC 4648 (base64). */
#include "png.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define STORED ((size_t)65535) /* bytes of a stored block, at most */

static void put_word(FILE *out, uint32_t word)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        putc((int)(word >> shift & 255), out);
}

/* CRC-32, bit by bit: of PNG's polynomial, reversed */
static uint32_t checked(uint32_t crc, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
    }
    return crc;
}

static void put_chunk(FILE *out, const char *kind, const void *data, size_t size)
{
    put_word(out, (uint32_t)size);
    fwrite(kind, 1, 4, out);
    fwrite(data, 1, size, out);
    put_word(out, ~checked(checked(~0u, kind, 4), data, size));
}

/* A zlib stream of rows, each after a zero: it is not filtered. */
static void put_stream(FILE *out, const unsigned char *pixels, size_t width, size_t height)
{
    const size_t size = (width + 1) * height;
    HEAP unsigned char *rows = memory_get(size, 1);
    uint32_t a = 1, b = 0; /* Adler's sums */
    for (size_t y = 0; y < height; y++)
        memcpy(rows + y * (width + 1) + 1, pixels + y * width, width);
    fputs("\x78\x01", out);
    for (size_t at = 0; at < size; at += STORED) {
        const size_t block = size - at < STORED ? size - at : STORED;
        const unsigned char head[] = {at + block == size, (unsigned char)block, (unsigned char)(block >> 8),
                                      (unsigned char)~block, (unsigned char)(~block >> 8)};
        fwrite(head, 1, sizeof head, out);
        fwrite(rows + at, 1, block, out);
    }
    for (size_t i = 0; i < size; i++) {
        a = (a + rows[i]) % 65521;
        b = (b + a) % 65521;
    }
    put_word(out, b << 16 | a);
}

static void print_base64(FILE *out, const unsigned char *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const uint32_t three = (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
                               (left > 2 ? data[i + 2] : 0);
        for (size_t d = 0; d < 4; d++)
            putc(d <= left ? digits[three >> (18 - 6 * d) & 63] : '=', out);
    }
}

void png_print(FILE *out, const struct colour *colours, const unsigned char *pixels, uint32_t width, uint32_t height)
{
    struct text png, part;
    FILE *to = text_begin(&part);
    put_word(to, width);
    put_word(to, height);
    fwrite("\x08\x03\0\0", 1, 5, to); /* 8 bits, a palette, deflate, filters, not interlaced */
    text_end(&part);
    fputs("\x89PNG\r\n\x1a\n", text_begin(&png));
    put_chunk(png.out, "IHDR", part.bytes, part.length);
    free(part.bytes);
    put_chunk(png.out, "PLTE", colours, 256 * sizeof *colours);
    put_stream(text_begin(&part), pixels, width, height);
    text_end(&part);
    put_chunk(png.out, "IDAT", part.bytes, part.length);
    free(part.bytes);
    put_chunk(png.out, "IEND", "", 0);
    text_end(&png);
    fputs("data:image/png;base64,", out);
    print_base64(out, (const unsigned char *)png.bytes, png.length);
    free(png.bytes);
}
