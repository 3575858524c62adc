/* SPDX-License-Identifier: MIT */
#include "base/siphash.h"
#include "unit/unit.h"

START_TEST(the_hash_is_that_of_the_published_example)
{
	const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
	unsigned char data[15];
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)i;
	ck_assert_uint_eq(siphash(key, data, sizeof(data)), 0xa129ca6149be45e5);
}
END_TEST

START_TEST(key_length_and_content_matter)
{
	const uint64_t key[2] = {1, 2}, other[2] = {1, 3};
	uint64_t h = siphash(key, "\0\0\0\0\0\0\0\0", 8);
	ck_assert_uint_ne(h, siphash(other, "\0\0\0\0\0\0\0\0", 8));
	ck_assert_uint_ne(h, siphash(key, "\0\0\0\0\0\0\0\0", 7));
	ck_assert_uint_ne(h, siphash(key, "\0\0\0\0\0\0\0\1", 8));
}
END_TEST

UNIT_MAIN("siphash", the_hash_is_that_of_the_published_example, key_length_and_content_matter)
