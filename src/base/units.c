/* SPDX-License-Identifier: MIT */
#include "base/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct suffix {
	const char *text;
	uint64_t factor;
};

#define KI 1024ULL
#define SI 1000ULL

/* One table per kind.  All suffixes are accepted; of several with the same factor,
 * the first is printed. */
/* clang-format off */
static const struct suffix byte_suffixes[] = {
	{"", 1}, {"B", 1},
	{"K", KI}, {"k", KI}, {"KiB", KI}, {"kiB", KI},
	{"M", KI * KI}, {"m", KI * KI}, {"MiB", KI * KI},
	{"G", KI * KI * KI}, {"g", KI * KI * KI}, {"GiB", KI * KI * KI},
	{"T", KI * KI * KI * KI}, {"t", KI * KI * KI * KI}, {"TiB", KI * KI * KI * KI},
	{"kB", SI}, {"KB", SI}, {"MB", SI * SI}, {"GB", SI * SI * SI}, {"TB", SI * SI * SI * SI},
	{NULL, 0},
};
static const struct suffix count_suffixes[] = {
	{"", 1},
	{"k", SI}, {"K", SI}, {"M", SI * SI}, {"m", SI * SI}, {"G", SI * SI * SI}, {"g", SI * SI * SI},
	{NULL, 0},
};
static const struct suffix duration_suffixes[] = {
	{"", NSEC_PER_SEC}, {"s", NSEC_PER_SEC},
	{"ns", 1}, {"us", NSEC_PER_USEC}, {"ms", NSEC_PER_MSEC},
	{"m", 60 * NSEC_PER_SEC}, {"h", 3600 * NSEC_PER_SEC}, {"d", 86400 * NSEC_PER_SEC},
	{NULL, 0},
};
/* clang-format on */

struct kind {
	const struct suffix *suffixes;
	const char *example;
	bool bytes, fraction, rate, off;
};

static const struct kind kind_bytes = {byte_suffixes, "10M", true, false, false, true};
static const struct kind kind_byte_rate = {byte_suffixes, "10M", true, false, true, true};
static const struct kind kind_count = {count_suffixes, "200", false, false, false, true};
static const struct kind kind_op_rate = {count_suffixes, "200", false, false, true, true};
static const struct kind kind_duration = {duration_suffixes, "1.5s", false, true, false, false};

/* The number before the suffix: digits · 10^-decimals. */
struct number {
	u128 digits;
	uint64_t scale; /* 10^decimals */
	bool overflow;
};

static const char *read_number(const char *p, struct number *n)
{
	bool point = false;
	*n = (struct number){.scale = 1};
	for (; isdigit((unsigned char)*p) || (*p == '.' && !point); p++) {
		if (*p == '.') {
			point = true;
			continue;
		}
		if (point && n->scale >= 1000000000000000000ULL) {
			n->overflow |= *p != '0'; /* finer than anything we count */
			continue;
		}
		n->digits = n->digits * 10 + (unsigned)(*p - '0');
		n->overflow |= n->digits >> 100 != 0;
		if (n->overflow)
			n->digits = 0;
		if (point)
			n->scale *= 10;
	}
	return p;
}

static const struct suffix *find_suffix(const struct suffix *s, const char *text, size_t len)
{
	for (; s->text; s++)
		if (strlen(s->text) == len && memcmp(s->text, text, len) == 0)
			return s;
	return NULL;
}

/* True for units of bits, as in "10mbit", "8kbps", "1 Gibit", which tc(8) and data sheets use.
 * *factor is in bits. */
static bool is_bits(const char *suffix, size_t len, uint64_t *factor)
{
	char low[8] = "";
	if (len == 0 || len >= sizeof(low))
		return false;
	for (size_t i = 0; i < len; i++)
		low[i] = (char)tolower((unsigned char)suffix[i]);
	static const char scales[] = "kmgt";
	const char *rest = low, *scale = strchr(scales, low[0]);
	*factor = 1;
	if (scale) {
		for (const char *s = scales; s <= scale; s++)
			*factor *= SI;
		rest++;
		if (*rest == 'i')
			rest++;
	}
	return !strcmp(rest, "bit") || !strcmp(rest, "bits") || !strcmp(rest, "bps");
}

static int refuse_bits(const char *text, const struct number *n, uint64_t factor, struct error *err)
{
	static const char scales[] = "KMGT";
	uint64_t bytes = (uint64_t)(n->digits * factor / n->scale / 8);
	unsigned s = 0;
	while (bytes && bytes % SI == 0 && s < 4) {
		bytes /= SI;
		s++;
	}
	char scale[2] = {s ? scales[s - 1] : '\0', '\0'};
	return error_set(err, "'%s': bits are not accepted; write bytes, for example %" PRIu64 "%s",
			 text, bytes ? bytes : 1, scale);
}

static int refuse_suffix(const char *text, const struct kind *k, const struct number *n,
			 const char *suffix, size_t len, struct error *err)
{
	uint64_t factor;
	if (is_bits(suffix, len, &factor)) {
		if (k->bytes)
			return refuse_bits(text, n, factor, err);
		return error_set(err, "'%s': bits are not accepted; write a number such as %s",
				 text, k->example);
	}
	if (k->bytes && len == 2 && suffix[1] == 'b')
		return error_set(err,
				 "'%s': '%.2s' may mean bits; write %c (1024-based) or %cB "
				 "(1000-based) for bytes",
				 text, suffix, toupper((unsigned char)suffix[0]),
				 suffix[0] == 'k' ? 'k' : toupper((unsigned char)suffix[0]));
	return error_set(err, "'%s': unknown suffix '%.*s'", text, (int)len, suffix);
}

static int finish(const char *text, const struct kind *k, const struct number *n, uint64_t factor,
		  uint64_t *out, struct error *err)
{
	char better[UNITS_TEXT_MAX];
	u128 product = n->overflow ? 0 : n->digits * factor;
	if (n->overflow || product / factor != n->digits || product / n->scale > UINT64_MAX)
		return error_set(err, "'%s': too large", text);
	uint64_t value = (uint64_t)(product / n->scale);
	bool whole = product % n->scale == 0;
	if (n->scale > 1 && !k->fraction) {
		if (!whole)
			return error_set(err, "'%s': not a whole number", text);
		k->bytes ? units_format_bytes(value, better) : units_format_count(value, better);
		return error_set(err, "'%s': fractions are not accepted; write %s", text, better);
	}
	if (!whole)
		return error_set(err, "'%s': shorter than a nanosecond", text);
	*out = value;
	return 0;
}

static int parse(const char *text, const struct kind *k, uint64_t *out, struct error *err)
{
	if (*text == '\0')
		return error_set(err, "'': empty; write a number such as %s", k->example);
	if (k->off && !strcasecmp(text, "off")) {
		*out = 0;
		return 0;
	}
	if (*text == '-')
		return error_set(err, "'%s': negative; write a number such as %s", text,
				 k->example);
	if (!isdigit((unsigned char)*text))
		return error_set(err, "'%s': not a number; write for example %s", text, k->example);

	struct number n;
	const char *suffix = read_number(text, &n), *end = suffix;
	while (isalpha((unsigned char)*end))
		end++;
	size_t len = (size_t)(end - suffix);
	const struct suffix *s = find_suffix(k->suffixes, suffix, len);
	if (!s)
		return refuse_suffix(text, k, &n, suffix, len, err);
	if (!strcmp(end, "/s")) {
		if (!k->rate)
			return error_set(err, "'%s': not a rate here; leave out '/s'", text);
		end += 2;
	}
	if (*end == '/' && k->rate)
		return error_set(err, "'%s': rates are per second, not '%s'", text, end);
	if (*end)
		return error_set(err, "'%s': trailing garbage '%s'", text, end);
	return finish(text, k, &n, s->factor, out, err);
}

int units_parse_bytes(const char *text, uint64_t *out, struct error *err)
{
	return parse(text, &kind_bytes, out, err);
}

int units_parse_byte_rate(const char *text, uint64_t *per_sec, struct error *err)
{
	return parse(text, &kind_byte_rate, per_sec, err);
}

int units_parse_count(const char *text, uint64_t *out, struct error *err)
{
	return parse(text, &kind_count, out, err);
}

int units_parse_op_rate(const char *text, uint64_t *per_sec, struct error *err)
{
	return parse(text, &kind_op_rate, per_sec, err);
}

int units_parse_duration(const char *text, uint64_t *ns, struct error *err)
{
	return parse(text, &kind_duration, ns, err);
}

/* The shortest of "number + suffix" over the table; the earlier one wins a tie. */
static char *format_whole(uint64_t value, const struct suffix *s, char buf[UNITS_TEXT_MAX])
{
	char one[UNITS_TEXT_MAX];
	snprintf(buf, UNITS_TEXT_MAX, "%" PRIu64, value);
	for (; value && s->text; s++) {
		if (value % s->factor)
			continue;
		snprintf(one, sizeof(one), "%" PRIu64 "%s", value / s->factor, s->text);
		if (strlen(one) < strlen(buf))
			memcpy(buf, one, sizeof(one));
	}
	return buf;
}

char *units_format_bytes(uint64_t bytes, char buf[UNITS_TEXT_MAX])
{
	return format_whole(bytes, byte_suffixes, buf);
}

char *units_format_count(uint64_t count, char buf[UNITS_TEXT_MAX])
{
	return format_whole(count, count_suffixes, buf);
}

/* "1.5s" rather than "1500ms", but "100ms" rather than "0.1s". */
static void format_decimal(uint64_t ns, uint64_t unit, const char *suffix, char *out, size_t size)
{
	uint64_t rest = ns % unit;
	int n = snprintf(out, size, "%" PRIu64, ns / unit);
	if (rest)
		out[n++] = '.';
	for (; rest; rest %= unit) {
		unit /= 10;
		out[n++] = (char)('0' + rest / unit);
	}
	snprintf(out + n, size - (size_t)n, "%s", suffix);
}

char *units_format_duration(uint64_t ns, char buf[UNITS_TEXT_MAX])
{
	char one[UNITS_TEXT_MAX];
	if (ns == 0)
		return memcpy(buf, "0s", sizeof("0s"));
	snprintf(buf, UNITS_TEXT_MAX, "%" PRIu64 "ns", ns);
	for (const struct suffix *s = duration_suffixes + 1; s->text; s++) {
		bool decimal = s->factor <= NSEC_PER_SEC;
		if (ns < s->factor || (!decimal && ns % s->factor))
			continue;
		format_decimal(ns, s->factor, s->text, one, sizeof(one));
		if (strlen(one) < strlen(buf))
			memcpy(buf, one, sizeof(one));
	}
	return buf;
}
