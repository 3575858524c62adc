/* SPDX-License-Identifier: MIT */
/* SipHash-2-4, a short keyed hash: without the key, nobody can compute the hash of a message. */
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t siphash(const uint64_t key[2], const void *data, size_t size);

#endif
