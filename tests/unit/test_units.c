/* SPDX-License-Identifier: MIT */
#include "base/text.h"
#include "base/units.h"

#include <string.h>

#include "unit/unit.h"

typedef int parser(const char *text, uint64_t *out, struct error *err);

static void accepts(parser *p, const char *text, uint64_t expect)
{
	struct error e = ERROR_INIT;
	uint64_t out = 4711;
	if (p(text, &out, &e) != 0 || out != expect)
		ck_abort_msg("'%s' gives %llu, not %llu: %s", text, (unsigned long long)out,
			     (unsigned long long)expect, e.text);
}

static void refuses(parser *p, const char *text, const char *why)
{
	struct error e = ERROR_INIT;
	uint64_t out = 4711;
	ck_assert_int_eq(p(text, &out, &e), -1);
	ck_assert_str_eq(e.text, why);
	ck_assert_uint_eq(out, 4711); /* untouched */
	ck_assert_int_eq(p(text, &out, NULL), -1);
}

#define KI 1024ULL

START_TEST(letters_and_iec_suffixes_are_1024_based)
{
	accepts(units_parse_bytes, "0", 0);
	accepts(units_parse_bytes, "17", 17);
	accepts(units_parse_bytes, "17B", 17);
	accepts(units_parse_bytes, "10K", 10 * KI);
	accepts(units_parse_bytes, "10k", 10 * KI);
	accepts(units_parse_bytes, "10KiB", 10 * KI);
	accepts(units_parse_bytes, "3m", 3 * KI * KI);
	accepts(units_parse_bytes, "3MiB", 3 * KI * KI);
	accepts(units_parse_bytes, "2G", 2 * KI * KI * KI);
	accepts(units_parse_bytes, "2g", 2 * KI * KI * KI);
	accepts(units_parse_bytes, "2GiB", 2 * KI * KI * KI);
	accepts(units_parse_bytes, "1T", KI * KI * KI * KI);
	accepts(units_parse_bytes, "1t", KI * KI * KI * KI);
	accepts(units_parse_bytes, "1TiB", KI * KI * KI * KI);
}
END_TEST

START_TEST(suffixes_with_a_b_are_1000_based)
{
	accepts(units_parse_bytes, "10kB", 10000);
	accepts(units_parse_bytes, "10KB", 10000);
	accepts(units_parse_bytes, "10MB", 10000000);
	accepts(units_parse_bytes, "10GB", 10000000000);
	accepts(units_parse_bytes, "10TB", 10000000000000);
}
END_TEST

START_TEST(a_rate_may_end_in_per_second_and_a_size_may_not)
{
	accepts(units_parse_byte_rate, "10M/s", 10 * KI * KI);
	accepts(units_parse_byte_rate, "10M", 10 * KI * KI);
	accepts(units_parse_op_rate, "200/s", 200);
	refuses(units_parse_bytes, "10M/s", "'10M/s': not a rate here; leave out '/s'");
	refuses(units_parse_count, "10/s", "'10/s': not a rate here; leave out '/s'");
	refuses(units_parse_byte_rate, "10M/m", "'10M/m': rates are per second, not '/m'");
}
END_TEST

START_TEST(ops_count_in_thousands)
{
	accepts(units_parse_op_rate, "5k", 5000);
	accepts(units_parse_op_rate, "5K", 5000);
	accepts(units_parse_op_rate, "5M", 5000000);
	accepts(units_parse_count, "5G", 5000000000);
	refuses(units_parse_op_rate, "5KiB", "'5KiB': unknown suffix 'KiB'");
}
END_TEST

START_TEST(off_means_unlimited_where_a_limit_is_parsed)
{
	accepts(units_parse_byte_rate, "off", 0);
	accepts(units_parse_op_rate, "OFF", 0);
	accepts(units_parse_op_rate, "0", 0);
	refuses(units_parse_duration, "off", "'off': not a number; write for example 1.5s");
}
END_TEST

START_TEST(durations_have_units_and_fractions)
{
	accepts(units_parse_duration, "2", 2 * NSEC_PER_SEC);
	accepts(units_parse_duration, "1.5s", 1500 * NSEC_PER_MSEC);
	accepts(units_parse_duration, "0.1", 100 * NSEC_PER_MSEC);
	accepts(units_parse_duration, "7ns", 7);
	accepts(units_parse_duration, "7us", 7000);
	accepts(units_parse_duration, "100ms", 100 * NSEC_PER_MSEC);
	accepts(units_parse_duration, "3m", 180 * NSEC_PER_SEC);
	accepts(units_parse_duration, "1.5h", 5400 * NSEC_PER_SEC);
	accepts(units_parse_duration, "1d", 86400 * NSEC_PER_SEC);
	accepts(units_parse_duration, "0.000000001", 1);
	accepts(units_parse_duration, "1.00000000000000000000", NSEC_PER_SEC);
	refuses(units_parse_duration, "0.5ns", "'0.5ns': shorter than a nanosecond");
	refuses(units_parse_duration, "5M", "'5M': unknown suffix 'M'");
}
END_TEST

START_TEST(an_unknown_suffix_is_named)
{
	refuses(units_parse_bytes, "10Q", "'10Q': unknown suffix 'Q'");
	refuses(units_parse_bytes, "10P", "'10P': unknown suffix 'P'");
	refuses(units_parse_op_rate, "10x/s", "'10x/s': unknown suffix 'x'");
	refuses(units_parse_duration, "10fortnights",
		"'10fortnights': unknown suffix 'fortnights'");
}
END_TEST

START_TEST(bits_are_refused_with_the_bytes_to_write)
{
	refuses(units_parse_byte_rate, "10mbit",
		"'10mbit': bits are not accepted; write bytes, for example 1250K");
	refuses(units_parse_byte_rate, "8Mbit/s",
		"'8Mbit/s': bits are not accepted; write bytes, for example 1M");
	refuses(units_parse_byte_rate, "1Gbps",
		"'1Gbps': bits are not accepted; write bytes, for example 125M");
	refuses(units_parse_byte_rate, "100kbits",
		"'100kbits': bits are not accepted; write bytes, for example 12500");
	refuses(units_parse_byte_rate, "1bit",
		"'1bit': bits are not accepted; write bytes, for example 1");
	refuses(units_parse_op_rate, "10mbit",
		"'10mbit': bits are not accepted; write a number such as 200");
	refuses(units_parse_byte_rate, "10Mb",
		"'10Mb': 'Mb' may mean bits; write M (1024-based) or MB (1000-based) for bytes");
	refuses(units_parse_byte_rate, "10kb",
		"'10kb': 'kb' may mean bits; write K (1024-based) or kB (1000-based) for bytes");
}
END_TEST

START_TEST(what_is_not_a_number_is_refused_in_words)
{
	refuses(units_parse_bytes, "", "'': empty; write a number such as 10M");
	refuses(units_parse_op_rate, "", "'': empty; write a number such as 200");
	refuses(units_parse_duration, "", "'': empty; write a number such as 1.5s");
	refuses(units_parse_bytes, "-5", "'-5': negative; write a number such as 10M");
	refuses(units_parse_bytes, "M", "'M': not a number; write for example 10M");
	refuses(units_parse_bytes, " 1", "' 1': not a number; write for example 10M");
	refuses(units_parse_bytes, "+1", "'+1': not a number; write for example 10M");
	refuses(units_parse_bytes, ".5", "'.5': not a number; write for example 10M");
	refuses(units_parse_bytes, "10M x", "'10M x': trailing garbage ' x'");
	refuses(units_parse_bytes, "10 M", "'10 M': trailing garbage ' M'");
	refuses(units_parse_bytes, "0x10", "'0x10': unknown suffix 'x'");
	refuses(units_parse_duration, "1.2.3", "'1.2.3': trailing garbage '.3'");
}
END_TEST

START_TEST(what_does_not_fit_is_too_large)
{
	accepts(units_parse_bytes, "18446744073709551615", UINT64_MAX);
	refuses(units_parse_bytes, "18446744073709551616", "'18446744073709551616': too large");
	accepts(units_parse_bytes, "16777215T", 16777215 * KI * KI * KI * KI);
	refuses(units_parse_bytes, "16777216T", "'16777216T': too large");
	refuses(units_parse_bytes, "99999999999999999999999999999999999999999999",
		"'99999999999999999999999999999999999999999999': too large");
	refuses(units_parse_duration, "213504d", "'213504d': too large");
}
END_TEST

START_TEST(a_fraction_of_a_size_is_refused_with_the_whole_number)
{
	refuses(units_parse_bytes, "1.5M", "'1.5M': fractions are not accepted; write 1536K");
	refuses(units_parse_op_rate, "1.5k", "'1.5k': fractions are not accepted; write 1500");
	refuses(units_parse_bytes, "1.5", "'1.5': not a whole number");
}
END_TEST

START_TEST(values_are_printed_in_their_shortest_form)
{
	char buf[UNITS_TEXT_MAX];
	ck_assert_str_eq(units_format_bytes(0, buf), "0");
	ck_assert_str_eq(units_format_bytes(1000, buf), "1kB");
	ck_assert_str_eq(units_format_bytes(1024, buf), "1K");
	ck_assert_str_eq(units_format_bytes(1025, buf), "1025");
	ck_assert_str_eq(units_format_bytes(10 * KI * KI, buf), "10M");
	ck_assert_str_eq(units_format_bytes(1536 * KI, buf), "1536K");
	ck_assert_str_eq(units_format_bytes(5000000000, buf), "5GB");
	ck_assert_str_eq(units_format_bytes(KI * KI * KI * KI, buf), "1T");
	ck_assert_str_eq(units_format_bytes(UINT64_MAX, buf), "18446744073709551615");
	ck_assert_str_eq(units_format_count(200, buf), "200");
	ck_assert_str_eq(units_format_count(1000, buf), "1k");
	ck_assert_str_eq(units_format_count(1500000, buf), "1500k");
	ck_assert_str_eq(units_format_count(7000000, buf), "7M");
	ck_assert_str_eq(units_format_duration(0, buf), "0s");
	ck_assert_str_eq(units_format_duration(100 * NSEC_PER_MSEC, buf), "100ms");
	ck_assert_str_eq(units_format_duration(1500 * NSEC_PER_MSEC, buf), "1.5s");
	ck_assert_str_eq(units_format_duration(90 * NSEC_PER_SEC, buf), "90s");
	ck_assert_str_eq(units_format_duration(3600 * NSEC_PER_SEC, buf), "1h");
	ck_assert_str_eq(units_format_duration(1, buf), "1ns");
	ck_assert_str_eq(units_format_duration(1234567, buf), "1234567ns");
}
END_TEST

START_TEST(what_is_printed_parses_back_to_the_same_value)
{
	static const struct {
		char *(*format)(uint64_t, char *);
		parser *parse;
	} kinds[] = {{units_format_bytes, units_parse_bytes},
		     {units_format_count, units_parse_count},
		     {units_format_duration, units_parse_duration}};
	static const uint64_t scales[] = {1, 1000, 1024, 1000000, KI * KI, 3600 * NSEC_PER_SEC};
	uint64_t x = unit_seed();
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t value = unit_random(&x) >> unit_random(&x) % 64;
		uint64_t scale = scales[unit_random(&x) % ARRAY_SIZE(scales)];
		value = value / scale * scale;
		char buf[UNITS_TEXT_MAX];
		accepts(kinds[i % 3].parse, kinds[i % 3].format(value, buf), value);
	}
}
END_TEST

START_TEST(an_amount_is_rounded_to_the_unit_that_it_is_shown_in)
{
	static const struct {
		double n, base;
		const char *text;
	} rows[] = {
		{0, 1024, "0"},
		{1023, 1024, "1023"},
		{1024, 1024, "1.0K"},
		{99.96 * 1024, 1024, "100.0K"},
		{1023.4 * 1024, 1024, "1023K"},
		{1023.6 * 1024, 1024, "1.0M"},
		{(1 << 30) - 4096, 1024, "1.0G"},
		{-1023.6 * 1024, 1024, "-1.0M"},
		{999, 1000, "999"},
		{999600, 1000, "1.0M"},
	};
	char buf[TEXT_AMOUNT_MAX];
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		ck_assert_str_eq(text_amount(rows[i].n, rows[i].base, buf), rows[i].text);
}
END_TEST

START_TEST(untrusted_text_has_no_control_codes_on_a_terminal)
{
	static const struct {
		const char *text, *shown;
	} rows[] = {
		{"rsync -a", "rsync -a"},
		{"gr\xc3\xb6\xc3\x9fte \xe6\x97\xa5 \xf0\x9f\x98\x80",
		 "gr\xc3\xb6\xc3\x9fte \xe6\x97\xa5 \xf0\x9f\x98\x80"},
		{"\033[2J\r\n\t\x7f", "?[2J????"},
		{"\xc2\x9bJ", "?J"}, /* CSI as UTF-8 … */
		{"\x9bJ", "?J"},     /* … and as a single byte */
		{"\xc2\x80\xc2\x9f\xc2\xa0", "??\xc2\xa0"},
		{"x\xe2\x80\xaey", "x?y"}, /* writes from right to left */
		{"x\xe2\x80\xa8y", "x?y"}, /* a line separator */
		{"\xc3", "?"},		   /* cut in a character */
		{"\xff\xc3\xa4\xc3", "?\xc3\xa4?"},
		{"", ""},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *text = strdup(rows[i].text);
		make_one_line(text);
		ck_assert_str_eq(text, rows[i].shown);
		free(text);
	}
}
END_TEST

UNIT_MAIN("units", letters_and_iec_suffixes_are_1024_based, suffixes_with_a_b_are_1000_based,
	  a_rate_may_end_in_per_second_and_a_size_may_not, ops_count_in_thousands,
	  off_means_unlimited_where_a_limit_is_parsed, durations_have_units_and_fractions,
	  an_unknown_suffix_is_named, bits_are_refused_with_the_bytes_to_write,
	  what_is_not_a_number_is_refused_in_words, what_does_not_fit_is_too_large,
	  a_fraction_of_a_size_is_refused_with_the_whole_number,
	  values_are_printed_in_their_shortest_form, what_is_printed_parses_back_to_the_same_value,
	  an_amount_is_rounded_to_the_unit_that_it_is_shown_in,
	  untrusted_text_has_no_control_codes_on_a_terminal)
