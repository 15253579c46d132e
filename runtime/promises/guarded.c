/* SPDX-License-Identifier: MIT */
/* Guard zones of 256 bytes. The pattern is 0x7FA5A5A5 inside, a signalling NaN, and 0xA5 outside. */
#include "guarded.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define ZONE ((size_t)256)
#define BOUNDARY ((size_t)128) /* of which kernels need half */
#define OUTSIDE 0xA5

static const unsigned char inside[4] = {0xA5, 0xA5, 0xA5, 0x7F};

void guarded_make(struct guarded *memory, size_t bytes, size_t offset)
{
    *memory = (struct guarded){.bytes = bytes};
    memory->block_bytes = (bytes + offset + 2 * ZONE + BOUNDARY - 1) / BOUNDARY * BOUNDARY;
    memory->block = memory_there(bytes < SIZE_MAX / 2 ? aligned_alloc(BOUNDARY, memory->block_bytes) : NULL);
    memory->data = memory->block + ZONE + offset;
    guarded_fill(memory);
}

void guarded_fill(struct guarded *memory)
{
    unsigned char *data = memory->data;
    memset(memory->block, OUTSIDE, memory->block_bytes);
    for (size_t i = 0; i < memory->bytes && i < sizeof inside; i++)
        data[i] = inside[i];
    for (size_t done = sizeof inside; done < memory->bytes; done *= 2) /* what is done so far, once more */
        memcpy(data + done, data, done < memory->bytes - done ? done : memory->bytes - done);
}

bool guarded_zones_intact(const struct guarded *memory)
{
    const unsigned char *data = memory->data, *end = memory->block + memory->block_bytes;
    bool intact = true;
    for (const unsigned char *at = memory->block; at < data; at++)
        intact = intact && *at == OUTSIDE;
    for (const unsigned char *at = data + memory->bytes; at < end; at++)
        intact = intact && *at == OUTSIDE;
    return intact;
}

bool guarded_untouched(const struct guarded *memory)
{
    const unsigned char *data = memory->data;
    bool untouched = guarded_zones_intact(memory);
    for (size_t i = 0; i < memory->bytes; i++)
        untouched = untouched && data[i] == inside[i % 4];
    return untouched;
}

void guarded_free(struct guarded *memory)
{
    free(memory->block);
    *memory = (struct guarded){0};
}
