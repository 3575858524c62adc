/* SPDX-License-Identifier: MIT */
/* Sizes, rates, counts, durations: no text is misread, each refusal is one line, and what is printed parses back to
 * the same value. */
#include "base/units.h"

#include <inttypes.h>

#include "fuzz/fuzz.h"

#define UNTOUCHED 0x5ca1ab1e0ddba11ULL

struct kind {
	int (*parse)(const char *text, uint64_t *out, struct error *err);
	char *(*format)(uint64_t value, char buf[UNITS_TEXT_MAX]);
};

static const struct kind kinds[] = {
	{units_parse_bytes, units_format_bytes},       {units_parse_byte_rate, units_format_bytes},
	{units_parse_count, units_format_count},       {units_parse_op_rate, units_format_count},
	{units_parse_duration, units_format_duration},
};

static void round_trip(const struct kind *k, uint64_t value)
{
	char text[UNITS_TEXT_MAX];
	uint64_t again = UNTOUCHED;
	struct error err = ERROR_INIT;
	k->format(value, text);
	MUST(strlen(text) < UNITS_TEXT_MAX);
	MUST(k->parse(text, &again, &err) == 0);
	MUST(again == value);
}

static void parse(const struct kind *k, const char *text)
{
	uint64_t out = UNTOUCHED;
	struct error err = ERROR_INIT;
	if (k->parse(text, &out, &err) < 0) {
		MUST(out == UNTOUCHED);
		MUST(error_is_set(&err));
		MUST(!strchr(err.text, '\n'));
		MUST(k->parse(text, &out, NULL) < 0);
		return;
	}
	MUST(!error_is_set(&err));
	/* 0 and "off" mean the same to a limit; everything else must survive being printed. */
	if (out != 0)
		round_trip(k, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	const struct kind *k = &kinds[input_byte(&in) % 5];
	if (in.left >= 9 && input_byte(&in) & 1)
		round_trip(k, input_bytes(&in, 8) >> (input_byte(&in) % 64));
	char *text = input_text(&in);
	parse(k, text);
	free(text);
	return 0;
}
