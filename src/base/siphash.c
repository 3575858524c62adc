/* SPDX-License-Identifier: MIT */
#include "base/siphash.h"

struct state {
	uint64_t a, b, c, d;
};

static uint64_t rotate(uint64_t x, unsigned by)
{
	return x << by | x >> (64 - by);
}

static void rounds(struct state *s, unsigned n)
{
	while (n--) {
		s->a += s->b;
		s->c += s->d;
		s->b = rotate(s->b, 13) ^ s->a;
		s->d = rotate(s->d, 16) ^ s->c;
		s->a = rotate(s->a, 32);
		s->c += s->b;
		s->a += s->d;
		s->b = rotate(s->b, 17) ^ s->c;
		s->d = rotate(s->d, 21) ^ s->a;
		s->c = rotate(s->c, 32);
	}
}

static void absorb(struct state *s, uint64_t word)
{
	s->d ^= word;
	rounds(s, 2);
	s->a ^= word;
}

uint64_t siphash(const uint64_t key[2], const void *data, size_t size)
{
	const unsigned char *p = data;
	struct state s = {
		.a = key[0] ^ 0x736f6d6570736575ULL,
		.b = key[1] ^ 0x646f72616e646f6dULL,
		.c = key[0] ^ 0x6c7967656e657261ULL,
		.d = key[1] ^ 0x7465646279746573ULL,
	};
	uint64_t word = 0;
	for (size_t i = 0; i < size; i++) {
		word |= (uint64_t)p[i] << (i % 8 * 8);
		if (i % 8 == 7) {
			absorb(&s, word);
			word = 0;
		}
	}
	absorb(&s, word | (uint64_t)size << 56);
	s.c ^= 0xff;
	rounds(&s, 4);
	return s.a ^ s.b ^ s.c ^ s.d;
}
