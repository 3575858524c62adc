/* SPDX-License-Identifier: MIT */
/* The frame of a fuzz target: bytes in, and an oracle that ends the process when a promise is broken. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(what)                                                                                 \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #what); \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct input {
	const uint8_t *at;
	size_t left;
};

/* Zeros when nothing is left. */
static inline uint8_t input_byte(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

static inline uint64_t input_bytes(struct input *in, unsigned n)
{
	uint64_t v = 0;
	while (n--)
		v = v << 8 | input_byte(in);
	return v;
}

/* Mostly small, up to 2^bits: 5 bits say how wide, the rest what. */
static inline uint64_t input_number(struct input *in, unsigned bits)
{
	unsigned width = input_byte(in) % (bits + 1);
	return width ? input_bytes(in, (width + 7) / 8) & ((2ULL << (width - 1)) - 1) : 0;
}

/* The rest as a string, to be freed; ends at the first NUL. */
static inline char *input_text(struct input *in)
{
	char *text = strndup((const char *)in->at, in->left);
	in->left = 0;
	MUST(text);
	return text;
}

#endif
