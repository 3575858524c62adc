/* SPDX-License-Identifier: MIT */
#include "daemon/proto.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

void proto_put_word(FILE *out, const char *word)
{
	if (!*word)
		fputc('%', out);
	for (const unsigned char *p = (const unsigned char *)word; *p; p++) {
		if (*p <= ' ' || *p > '~' || *p == '%')
			fprintf(out, "%%%02X", *p);
		else
			fputc(*p, out);
	}
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool decode(char *word)
{
	char *to = word;
	if (strcmp(word, "%") == 0) {
		*word = '\0';
		return true;
	}
	for (const char *from = word; *from;) {
		if (*from != '%') {
			if (*from < ' ' || *from > '~')
				return false;
			*to++ = *from++;
			continue;
		}
		int high = hex(from[1]), low = high < 0 ? -1 : hex(from[2]);
		if (low < 0 || (high == 0 && low == 0))
			return false;
		*to++ = high << 4 | low;
		from += 3;
	}
	*to = '\0';
	return true;
}

int proto_split(char *line, char *word[PROTO_WORDS_MAX])
{
	int n = 0;
	char *save = NULL;
	for (char *w = strtok_r(line, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		if (n == PROTO_WORDS_MAX || !decode(w))
			return -1;
		word[n++] = w;
	}
	return n;
}

/* --- JSON scalars --------------------------------------------------------------------------- */

/* The length of the UTF-8 character at p, or 0 when it is none. */
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

void json_put_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (const unsigned char *p = (const unsigned char *)text; *p;) {
		int n = utf8_length(p);
		if (n == 0)
			fputs("\\ufffd", out);
		else if (*p == '"' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else if (*p < ' ' || *p == 0x7f)
			fprintf(out, "\\u%04x", *p);
		else
			fwrite(p, 1, n, out);
		p += n ? n : 1;
	}
	fputc('"', out);
}

/* --- records -------------------------------------------------------------------------------- */

#define PUT_PATH(out, path)                                                                        \
	do {                                                                                       \
		va_list ap;                                                                        \
		va_start(ap, path);                                                                \
		vfprintf(out, path, ap);                                                           \
		va_end(ap);                                                                        \
		fputc('\t', out);                                                                  \
	} while (0)

void record_text(FILE *out, const char *value, const char *path, ...)
{
	PUT_PATH(out, path);
	json_put_string(out, value ? value : "");
	fputc('\n', out);
}

void record_u64(FILE *out, uint64_t value, const char *path, ...)
{
	PUT_PATH(out, path);
	fprintf(out, "%" PRIu64 "\n", value);
}

void record_i64(FILE *out, int64_t value, const char *path, ...)
{
	PUT_PATH(out, path);
	fprintf(out, "%" PRId64 "\n", value);
}

void record_bool(FILE *out, bool value, const char *path, ...)
{
	PUT_PATH(out, path);
	fputs(value ? "true\n" : "false\n", out);
}

void record_real(FILE *out, double value, const char *path, ...)
{
	PUT_PATH(out, path);
	fprintf(out, "%.6f\n", value);
}
