/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- similar names -------------------------------------------------------------------------- */

/* Edit distance in which swapping two neighbours is one error.  The table fits on the stack, since
 * names are short. */
#define DISTANCE_MAX 32
unsigned text_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned d[DISTANCE_MAX + 1][DISTANCE_MAX + 1];
	if (la > DISTANCE_MAX || lb > DISTANCE_MAX)
		return DISTANCE_MAX;
	for (size_t i = 0; i <= la; i++)
		d[i][0] = i;
	for (size_t j = 0; j <= lb; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= la; i++) {
		for (size_t j = 1; j <= lb; j++) {
			char ca = a[i - 1] == '-' ? '_' : (char)tolower((unsigned char)a[i - 1]);
			unsigned best = d[i - 1][j - 1] + (ca != b[j - 1]);
			best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
			best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[la][lb];
}

/* --- UTF-8 ---------------------------------------------------------------------------------- */

/* The length of the UTF-8 character at p; 0: it is not valid. */
static int utf8_length(const unsigned char *p)
{
	int n = *p < 0x80		  ? 1
		: *p >= 0xc2 && *p < 0xe0 ? 2
		: *p >= 0xe0 && *p < 0xf0 ? 3
		: *p >= 0xf0 && *p < 0xf5 ? 4
					  : 0;
	for (int i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) ||
	    (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f))
		return 0; /* overlong, surrogate, too large */
	return n;
}

bool text_is_utf8(const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p;) {
		int n = utf8_length(p);
		if (!n)
			return false;
		p += n;
	}
	return true;
}

char *text_utf8(const char *text)
{
	char *copy = malloc(3 * strlen(text) + 1), *to = copy;
	for (const unsigned char *p = (const unsigned char *)text; copy && *p;) {
		int n = utf8_length(p);
		memcpy(to, n ? (const char *)p : "\xef\xbf\xbd", n ? n : 3);
		to += n ? n : 3;
		p += n ? n : 1;
	}
	if (copy)
		*to = '\0';
	return copy;
}

/* The character of n bytes at p. */
static uint32_t utf8_decode(const unsigned char *p, int n)
{
	uint32_t c = n == 1 ? *p : *p & (0x7fU >> n);
	for (int i = 1; i < n; i++)
		c = c << 6 | (p[i] & 0x3f);
	return c;
}

static bool is_safe(uint32_t c)
{
	bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
	bool breaks = c == 0x2028 || c == 0x2029;
	bool turns = c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
		     (c >= 0x2066 && c <= 0x2069);
	return !control && !breaks && !turns;
}

void make_one_line(char *text)
{
	char *to = text;
	for (const unsigned char *p = (const unsigned char *)text; *p;) {
		int n = utf8_length(p);
		if (n && is_safe(utf8_decode(p, n))) {
			memmove(to, p, (size_t)n);
			to += n;
		} else {
			*to++ = '?';
		}
		p += n ? n : 1;
	}
	*to = '\0';
}

/* --- amounts -------------------------------------------------------------------------------- */

char *text_amount(double n, double base, char buf[TEXT_AMOUNT_MAX])
{
	static const char unit[] = " kMGTPE";
	unsigned u = 0;
	double size = n < 0 ? -n : n;
	while (size >= (u ? base - 0.5 : base) && unit[u + 1]) { /* 1023.7M is shown as 1.0G */
		size /= base;
		n /= base;
		u++;
	}
	const char suffix[2] = {base == 1024 && u == 1 ? 'K' : u ? unit[u] : '\0', '\0'};
	snprintf(buf, TEXT_AMOUNT_MAX, "%.*f%s", u && size < 100 ? 1 : 0, n, suffix);
	return buf;
}

char *text_ns(uint64_t ns, char buf[TEXT_AMOUNT_MAX])
{
	if (ns == 0)
		snprintf(buf, TEXT_AMOUNT_MAX, "-");
	else if (ns < 1000000)
		snprintf(buf, TEXT_AMOUNT_MAX, "%.0fus", ns / 1e3);
	else if (ns < 1000000000)
		snprintf(buf, TEXT_AMOUNT_MAX, "%.3gms", ns / 1e6);
	else
		snprintf(buf, TEXT_AMOUNT_MAX, ns < 100000000000 ? "%.3gs" : "%.0fs", ns / 1e9);
	return buf;
}
