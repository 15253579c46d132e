/* SPDX-License-Identifier: MIT */
/* Weights as others store them: the tensors of a safetensors file under new names, side by side, transposed, in another
 * element type. Knows nothing of runtime/inputs/weights.c, whose tables it tests.
 *
 *     recast IN OUT TYPE NEW=OLD[+OLD…][^]…
 *
 * TYPE is F32, F16, BF16 or F64. NEW is the OLD ones behind each other along the first axis; ^ transposes the result.
 * "NEW=OLD~": as it is, but every number cut to one that F16 and BF16 hold exactly; in the end a number that TYPE does
 * not hold is an error. Left out on purpose: any element type but F32 in IN.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensors.h"

static void die(const char *what, const char *which)
{
    fprintf(stderr, "recast: %s: %s\n", which, what);
    exit(3);
}

/* 8 significant bits, and no bits below 2^-24 */
static float cut(float x)
{
    int exponent;
    const double fraction = frexp((double)x, &exponent);
    const double eight = ldexp(trunc(ldexp(fraction, 8)), exponent - 8);
    return (float)ldexp(trunc(ldexp(eight, 24)), -24);
}

/* The bits of x in a format of 16 bits with this fraction and exponent bias, by arithmetic. */
static uint16_t encode(float x, int fraction_bits, int bias)
{
    int exponent;
    const double size = fabs((double)x);
    frexp(size, &exponent); /* size = 0.1… 2^exponent */
    int field = exponent - 1 + bias;
    if (size == 0 || field < 1)
        field = 0;
    const double steps = ldexp(size, fraction_bits - ((field > 0 ? field : 1) - bias)); /* with the leading 1, if any */
    if (steps != trunc(steps))
        die("does not fit the type", "a number");
    const int below = (int)steps - (field > 0 ? 1 << fraction_bits : 0);
    return (uint16_t)((signbit(x) ? 0x8000 : 0) | field << fraction_bits | below);
}

static void store(struct tensor *to, size_t at, float x)
{
    switch (to->type) {
    case TYPE_F16: ((uint16_t *)to->data)[at] = encode(x, 10, 15); break;
    case TYPE_BF16: ((uint16_t *)to->data)[at] = encode(x, 7, 127); break;
    case TYPE_F64: ((double *)to->data)[at] = (double)x; break;
    default: ((float *)to->data)[at] = x;
    }
}

static struct tensor make(const struct tensors *in, char *rule, enum tensor_type type)
{
    char *name = rule, *old = strchr(rule, '=');
    if (old == NULL)
        die("no rule; NEW=OLD is one", rule);
    *old++ = '\0';
    const bool cuts = strchr(old, '~') != NULL, transposes = strchr(old, '^') != NULL;
    old[strcspn(old, "~^")] = '\0';
    struct tensor to = {.name = name, .type = type};
    float *all = NULL;
    size_t count = 0;
    for (char *part = strtok(old, "+"); part != NULL; part = strtok(NULL, "+")) {
        const struct tensor *from = tensors_find(in, part);
        if (from == NULL || from->type != TYPE_F32)
            die("not in the file, or no F32", part);
        const int64_t rows = to.rank > 0 ? to.shape[0] : 0;
        const size_t more = from->bytes / sizeof(float);
        to.rank = from->rank;
        memcpy(to.shape, from->shape, sizeof to.shape);
        to.shape[0] += rows;
        all = realloc(all, (count + more) * sizeof *all);
        memcpy(all + count, from->data, from->bytes);
        count += more;
    }
    const size_t rows = (size_t)to.shape[0], columns = rows > 0 ? count / rows : 0;
    to.bytes = count * tensor_type_size(type);
    to.data = malloc(to.bytes + 1);
    for (size_t i = 0; i < count; i++) {
        const float x = cuts ? cut(all[i]) : all[i];
        store(&to, transposes ? i % columns * rows + i / columns : i, x);
    }
    if (transposes) {
        to.shape[0] = (int64_t)columns;
        to.shape[1] = (int64_t)rows;
    }
    free(all);
    return to;
}

int main(int argc, char **argv)
{
    struct diag diag = {0};
    struct tensors in;
    enum tensor_type type = 0;
    if (argc < 4)
        die("IN OUT TYPE NEW=OLD… are needed", "usage");
    while (type < TYPE_COUNT && strcmp(tensor_type_name(type), argv[3]) != 0)
        type++;
    if (type == TYPE_COUNT || !tensors_read(&in, argv[1], &diag)) {
        diag_report(&diag, stderr);
        return 3;
    }
    const size_t count = (size_t)argc - 4;
    struct tensor *items = calloc(count + 1, sizeof *items);
    for (size_t i = 0; i < count; i++)
        items[i] = make(&in, argv[4 + i], type);
    tensors_write(argv[2], items, count, &diag);
    for (size_t i = 0; i < count; i++)
        free(items[i].data);
    free(items);
    tensors_free(&in);
    const int code = diag_report(&diag, stderr);
    diag_free(&diag);
    return code;
}
