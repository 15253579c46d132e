/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4), for the cache's keys. Left out on purpose: everything that only security needs. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t length;
    unsigned char block[64];
};

void sha256_start(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t bytes);
void sha256_end(struct sha256 *hash, char hex[65]);
