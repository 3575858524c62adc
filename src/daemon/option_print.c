/* SPDX-License-Identifier: MIT */
/* Writing the values of the option table. */
#include "daemon/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/units.h"

static unsigned row(const struct option_def *o)
{
	return o - options;
}

static const void *field_const(const struct option_def *o, const struct settings *s)
{
	return (const char *)s + o->offset;
}

char *option_format_number(const struct option_def *o, uint64_t n, char *buf)
{
	return o->type == OPTION_BYTES	    ? units_format_bytes(n, buf)
	       : o->type == OPTION_DURATION ? units_format_duration(n, buf)
					    : units_format_count(n, buf);
}

static void print_number(const struct option_def *o, uint64_t n, FILE *out)
{
	char buf[UNITS_TEXT_MAX];
	fputs(n == 0 && o->min == 0 ? "off" : option_format_number(o, n, buf), out);
}

static void print_tokens(const struct option_def *o, uint64_t n, const char *zero, FILE *out)
{
	char buf[UNITS_TEXT_MAX];
	fputs(n == 0			     ? zero
	      : limit_kind_is_bytes(o->kind) ? units_format_bytes(n, buf)
					     : units_format_count(n, buf),
	      out);
}

static void print_choice(const struct option_def *o, unsigned i, FILE *out)
{
	const char *words = o->syntax;
	while (i--)
		words += strcspn(words, "|") + 1;
	fprintf(out, "%.*s", (int)strcspn(words, "|"), words);
}

static void print_weights(const struct weights *w, FILE *out)
{
	for (unsigned i = 0; i < w->n; i++)
		fprintf(out, "%s%s", i ? "+" : "", w->text[i]);
}

static void print_limit(const struct option_def *o, const struct limit_config *l, FILE *out)
{
	if (o->type == OPTION_RATE)
		print_tokens(o, l->enabled ? l->rate_per_sec : 0, "off", out);
	else
		print_tokens(o, o->type == OPTION_BURST ? l->burst : l->once, "0", out);
}

void option_print(const struct option_def *o, const struct settings *s, FILE *out)
{
	const void *f = field_const(o, s);
	char buf[UNITS_TEXT_MAX];
	const char *text;
	switch (o->type) {
	case OPTION_RATE:
	case OPTION_BURST:
	case OPTION_ONCE:
		print_limit(o, &s->limits.limit[o->kind], out);
		break;
	case OPTION_COUNT:
	case OPTION_BYTES:
	case OPTION_DURATION:
		print_number(o, *(const uint64_t *)f, out);
		break;
	case OPTION_TIMEOUT:
		fputs(*(const int64_t *)f < 0 ? "auto"
					      : units_format_duration(*(const int64_t *)f, buf),
		      out);
		break;
	case OPTION_CHOICE:
		print_choice(o, *(const unsigned *)f, out);
		break;
	case OPTION_BOOL:
		fputs(*(const bool *)f ? "yes" : "no", out);
		break;
	case OPTION_TEXT:
		text = *(char *const *)f;
		fputs(text ? text : "", out);
		break;
	case OPTION_WEIGHTS:
		print_weights(f, out);
		break;
	case OPTION_FLAG:
		fputs(words_find(&s->fuse, o->name) ? "yes" : "no", out);
		break;
	case OPTION_VALUE:
		text = words_find(&s->fuse, o->name);
		fputs(text ? text : "", out);
		break;
	default:
		break;
	}
}

void option_mark_given(const char *name, struct settings *s)
{
	s->given[row(option_find(name))] = true;
}

bool option_is_given(const struct option_def *o, const struct settings *s)
{
	return s->given[row(o)];
}

char *option_text(const struct option_def *o, const struct settings *s)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (out) {
		option_print(o, s, out);
		fclose(out);
	}
	return text;
}

bool option_equal(const struct option_def *o, const struct settings *a, const struct settings *b)
{
	AUTO_FREE char *ta = option_text(o, a), *tb = option_text(o, b);
	return ta && tb && strcmp(ta, tb) == 0;
}
