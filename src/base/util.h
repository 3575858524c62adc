/* SPDX-License-Identifier: MIT */
/* Small things that every layer needs. */
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a)	      (sizeof(a) / sizeof((a)[0]))
#define container_of(p, T, m) ((T *)((char *)(p)-offsetof(T, m)))
#define PRINTF_LIKE(f, a)     __attribute__((format(printf, f, a)))
#define CACHE_LINE	      64

/* For products of tokens and nanoseconds. */
__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

#define NSEC_PER_SEC  1000000000ULL
#define NSEC_PER_MSEC 1000000ULL
#define NSEC_PER_USEC 1000ULL

#define NEVER UINT64_MAX /* a point in time that is never reached */

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* A sum that saturates at UINT64_MAX instead of wrapping, so that NEVER stays NEVER. */
static inline uint64_t add_sat_u64(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* For loops that spin until another CPU has done something. */
static inline void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* Makes untrusted text safe to print as one line: replaces line breaks and terminal control codes. */
static inline void make_one_line(char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text, next = (unsigned char)text[1];
		if (c == 0xc2 && next >= 0x80 && next < 0xa0) /* U+0080 to U+009F in UTF-8 */
			*text++ = '?';
		else if (c >= 0x20 && c != 0x7f)
			continue;
		*text = '?';
	}
}

#endif
