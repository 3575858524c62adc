/* SPDX-License-Identifier: MIT */
/* Formats the values of options. */
#include "daemon/options.h"

#include <inttypes.h>
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
	if (w->own)
		fprintf(out, "%" PRIu32, w->own);
	for (unsigned i = 0; i < w->n; i++)
		fprintf(out, "%s%s", i || w->own ? "+" : "", w->text[i]);
}

static void print_limit(const struct option_def *o, const struct limit_config *l, FILE *out)
{
	if (o->type == OPTION_RATE)
		print_tokens(o, l->enabled ? l->rate_per_sec : 0, "off", out);
	else if (o->type == OPTION_PEAK)
		print_tokens(o, l->peak_per_sec, "off", out);
	else
		print_tokens(o, o->type == OPTION_BURST ? l->burst : l->once, "0", out);
}

/* "A", or "A", the mark and "B". */
static void print_times(uint64_t a, const char *mark, uint64_t b, FILE *out)
{
	char buf[UNITS_TEXT_MAX];
	fputs(units_format_duration(a, buf), out);
	if (*mark)
		fprintf(out, "%s%s", mark, units_format_duration(b, buf));
}

static void print_latency(const struct latency *l, FILE *out)
{
	static const char *const marks[] = {
		[LATENCY_FIXED] = "", [LATENCY_UNIFORM] = "~", [LATENCY_LOGNORMAL] = "^"};
	if (l->shape == LATENCY_OFF)
		fputs("off", out);
	else
		print_times(l->ns, marks[l->shape], l->spread_ns, out);
}

static void print_pair(const uint64_t ns[2], const char *mark, FILE *out)
{
	if (!ns[1])
		fputs("off", out);
	else
		print_times(ns[0], mark, ns[1], out);
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
	case OPTION_PEAK:
		print_limit(o, f, out);
		break;
	case OPTION_RESERVE:
		print_tokens(o, *(const uint64_t *)f, "off", out);
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
	case OPTION_LATENCY:
		print_latency(f, out);
		break;
	case OPTION_SEEK:
		print_pair(f, "-", out);
		break;
	case OPTION_STALL:
		print_pair(f, "/", out);
		break;
	case OPTION_TEXT:
		text = *(char *const *)f;
		/* a default of a live option is printed in a form that `set` accepts */
		fputs(text ? text : o->live ? o->def : "", out);
		break;
	case OPTION_MATCH:
		text = ((const struct match *)f)->text;
		fputs(text ? text : o->def, out);
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
	AUTO_FREE char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	option_print(o, s, out);
	return fclose(out) == 0 ? take_ptr(&text) : NULL;
}

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_weights(const struct weights *a, const struct weights *b)
{
	if (a->n != b->n || a->own != b->own)
		return false;
	for (unsigned i = 0; i < a->n; i++)
		if (strcmp(a->text[i], b->text[i]) != 0 || a->rule[i].key.id != b->rule[i].key.id)
			return false;
	return true;
}

/* Compares the rules, not only the texts: the same name may have another number now. */
static bool same_match(const struct match *a, const struct match *b)
{
	if (!a->rule || !b->rule)
		return !a->rule == !b->rule;
	return same_text(a->text, b->text) && rule_covers(a->rule, b->rule) &&
	       rule_covers(b->rule, a->rule);
}

static bool same_latency(const struct latency *a, const struct latency *b)
{
	return a->shape == b->shape && a->ns == b->ns && a->spread_ns == b->spread_ns;
}

/* Allocates nothing: a reload uses it to decide whether a mount must be replaced. */
bool option_equal(const struct option_def *o, const struct settings *a, const struct settings *b)
{
	const void *fa = field_const(o, a), *fb = field_const(o, b);
	const struct limit_config *la = fa, *lb = fb; /* RATE, BURST, ONCE, PEAK */
	switch (o->type) {
	case OPTION_RATE:
		return la->enabled == lb->enabled &&
		       (!la->enabled || la->rate_per_sec == lb->rate_per_sec);
	case OPTION_BURST:
		return la->burst == lb->burst;
	case OPTION_ONCE:
		return la->once == lb->once;
	case OPTION_PEAK:
		return la->peak_per_sec == lb->peak_per_sec;
	case OPTION_RESERVE:
	case OPTION_COUNT:
	case OPTION_BYTES:
	case OPTION_DURATION:
		return *(const uint64_t *)fa == *(const uint64_t *)fb;
	case OPTION_TIMEOUT:
		return *(const int64_t *)fa == *(const int64_t *)fb;
	case OPTION_CHOICE:
		return *(const unsigned *)fa == *(const unsigned *)fb;
	case OPTION_BOOL:
		return *(const bool *)fa == *(const bool *)fb;
	case OPTION_LATENCY:
		return same_latency(fa, fb);
	case OPTION_SEEK:
	case OPTION_STALL:
		return memcmp(fa, fb, 2 * sizeof(uint64_t)) == 0;
	case OPTION_TEXT:
		return same_text(*(char *const *)fa, *(char *const *)fb);
	case OPTION_WEIGHTS:
		return same_weights(fa, fb);
	case OPTION_MATCH:
		return same_match(fa, fb);
	case OPTION_FLAG:
		return !words_find(&a->fuse, o->name) == !words_find(&b->fuse, o->name);
	case OPTION_VALUE:
		return same_text(words_find(&a->fuse, o->name), words_find(&b->fuse, o->name));
	case OPTION_LIST:
	case OPTION_NOISE:
		break;
	}
	return true;
}
