/* SPDX-License-Identifier: MIT */
/* Build-time tool: embed OUT.c NAME FILE… writes the files as byte arrays, in the order of their names.
 *
 * Left out on purpose: compression and any change to the bytes. The result is the array NAME of embedded.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file's name in the program: its path without the first folder, "steps/attend.in". */
static const char *name_of(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash ? slash + 1 : path;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(name_of(*(char *const *)a), name_of(*(char *const *)b));
}

/* Writes one file's bytes as an array; returns their number, -1 if the file cannot be read. */
static long embed_bytes(FILE *out, const char *path, int index)
{
    FILE *in = fopen(path, "rb");
    long size = 0;
    int byte;

    if (!in)
        return -1;
    fprintf(out, "static const unsigned char file_%d[] = { /* %s */", index, name_of(path));
    while ((byte = getc(in)) != EOF)
        fprintf(out, "%s%d,", size++ % 32 == 0 ? "\n    " : "", byte);
    fprintf(out, "\n    0};\n\n"); /* a zero byte after each, not counted: the array of an empty file is not empty */
    if (ferror(in))
        size = -1;
    fclose(in);
    return size;
}

static int embed(FILE *out, const char *name, char **paths, int count, long *sizes)
{
    fprintf(out, "/* Written by embed.c. */\n#include \"base/embedded.h\"\n\n");
    for (int i = 0; i < count; i++) {
        sizes[i] = embed_bytes(out, paths[i], i);
        if (sizes[i] < 0) {
            perror(paths[i]);
            return 0;
        }
    }
    fprintf(out, "const struct embedded_file %s[] = {\n", name);
    for (int i = 0; i < count; i++)
        fprintf(out, "    {\"%s\", file_%d, %ld},\n", name_of(paths[i]), i, sizes[i]);
    fprintf(out, "};\nconst size_t %s_count = %d;\n", name, count);
    return !ferror(out);
}

int main(int argc, char **argv)
{
    const int count = argc - 3;
    long *sizes;
    FILE *out;
    int good;

    if (count < 1) {
        fprintf(stderr, "usage: embed OUT.c NAME FILE...\n");
        return 2;
    }
    sizes = calloc((size_t)count, sizeof *sizes);
    out = fopen(argv[1], "wb");
    if (!sizes || !out) {
        perror(argv[1]);
        if (out)
            fclose(out);
        free(sizes);
        return 3;
    }
    qsort(argv + 3, (size_t)count, sizeof *argv, by_name);
    good = embed(out, argv[2], argv + 3, count, sizes);
    if (fclose(out) != 0)
        good = 0;
    free(sizes);
    if (!good)
        remove(argv[1]);
    return good ? 0 : 3;
}
