/* SPDX-License-Identifier: MIT */
#include "daemon/proto.h"
#include "daemon/command_table.h"
#include "daemon/records.h"
#include "daemon/stats_out.h"
#include "unit/unit.h"

#include <string.h>

static char *text;
static size_t size;
static FILE *out;

static FILE *begin(void)
{
	free(text);
	out = open_memstream(&text, &size);
	return out;
}

static const char *end(void)
{
	fclose(out);
	return text;
}

START_TEST(any_bytes_survive_as_a_word)
{
	char all[256], *word[PROTO_WORDS_MAX];
	for (int i = 1; i < 256; i++)
		all[i - 1] = i;
	all[255] = '\0';
	begin();
	proto_put_word(out, "set");
	fputc(' ', out);
	proto_put_word(out, all);
	fputc(' ', out);
	proto_put_word(out, "");
	end();
	ck_assert_ptr_null(strchr(text, '\n'));
	ck_assert_int_eq(proto_split(text, word), 3);
	ck_assert_str_eq(word[0], "set");
	ck_assert_str_eq(word[1], all);
	ck_assert_str_eq(word[2], "");
}
END_TEST

START_TEST(words_that_are_not_well_formed_are_refused)
{
	static const char *const bad[] = {"a%", "a%4", "a%zz", "%00", "a\001b", "a\377", "%4g"};
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		char line[16], *word[PROTO_WORDS_MAX];
		snprintf(line, sizeof(line), "%s", bad[i]);
		ck_assert_msg(proto_split(line, word) == -1, "%s", bad[i]);
	}
}
END_TEST

START_TEST(too_many_words_are_refused)
{
	static char line[2 * PROTO_WORDS_MAX + 3];
	char *word[PROTO_WORDS_MAX];
	for (int i = 0; i <= PROTO_WORDS_MAX; i++)
		memcpy(line + 2 * i, "a ", 3);
	ck_assert_int_eq(proto_split(line, word), -1);
	ck_assert_int_eq(proto_split(memcpy(line, "", 1), word), 0);
}
END_TEST

START_TEST(strings_are_json_whatever_their_bytes)
{
	begin();
	json_put_string(out, "a\"b\\c\n\x01 \xc3\xa4 \xff \xed\xa0\x80 \xe2\x82\xac");
	ck_assert_str_eq(end(),
			 "\"a\\\"b\\\\c\\u000a\\u0001 \xc3\xa4 \\ufffd \\ufffd\\ufffd\\ufffd "
			 "\xe2\x82\xac\"");
}
END_TEST

START_TEST(records_nest_into_objects_and_arrays)
{
	struct records r;
	begin();
	record_text(out, "m", "name");
	record_u64(out, 3, "classes.%s.ops", "read");
	record_u64(out, 4, "classes.read.wait.max");
	record_bool(out, true, "classes.write.on");
	record_i64(out, -5, "keys.0.id");
	record_text(out, "x y", "keys.0.name");
	record_u64(out, 6, "keys.1.id");
	record_real(out, 0.5, "share");
	ck_assert(records_parse(&r, end()));
	begin();
	records_json(&r, out);
	ck_assert_str_eq(end(),
			 "{\"name\":\"m\",\"classes\":{\"read\":{\"ops\":3,\"wait\":{\"max\":4}},"
			 "\"write\":{\"on\":true}},\"keys\":[{\"id\":-5,\"name\":\"x y\"},"
			 "{\"id\":6}],\"share\":0.500000}");
	records_free(&r);
}
END_TEST

START_TEST(records_are_found_by_their_path)
{
	struct records r;
	begin();
	record_text(out, "a\tb\nc\"", "who");
	record_u64(out, UINT64_MAX, "n");
	record_i64(out, -7, "m");
	record_bool(out, true, "yes");
	ck_assert(records_parse(&r, end()));
	char *who = records_text(&r, "who");
	ck_assert_str_eq(who, "a\tb\nc\"");
	free(who);
	ck_assert_uint_eq(records_u64(&r, "%s", "n"), UINT64_MAX);
	ck_assert_int_eq(records_i64(&r, "m"), -7);
	ck_assert(records_true(&r, "yes"));
	ck_assert(!records_have(&r, "no"));
	ck_assert_uint_eq(records_u64(&r, "no"), 0);
	records_set_text(&r, "new \"one\"", "who");
	who = records_text(&r, "who");
	ck_assert_str_eq(who, "new \"one\"");
	free(who);
	records_free(&r);
}
END_TEST

START_TEST(lines_that_are_no_records_are_left_out)
{
	struct records r;
	ck_assert(records_parse(&r, "nothing\n\na\t1\n\tx\nend"));
	ck_assert_uint_eq(records_u64(&r, "a"), 1);
	ck_assert_uint_eq(r.n, 2);
	records_free(&r);
}
END_TEST

START_TEST(every_command_is_found_by_its_name)
{
	for (int i = 0; i < COMMANDS; i++) {
		ck_assert_int_eq(command_find(commands[i].name), i);
		ck_assert_str_ne(commands[i].help, "");
	}
	ck_assert_int_eq(command_find("nonsense"), -1);
}
END_TEST

START_TEST(statistics_of_a_scope_have_stable_names)
{
	static struct scope_stats s;
	struct records r;
	s.since_ns = NSEC_PER_SEC;
	s.now_ns = 3 * NSEC_PER_SEC;
	s.limit[LIMIT_READ_BPS] = (struct limit_stats){true, 1000, 0, 100, -50, 7, NSEC_PER_SEC, 0};
	s.cls[COST_READ].ops = 12;
	s.cls[COST_READ].parked = 5;
	histogram_add(&s.cls[COST_READ].wait, 1000000);
	s.inflight.limit = 4;
	s.open.limit = PERMITS_UNLIMITED;
	begin();
	stats_scope_records(&s, out);
	ck_assert(records_parse(&r, end()));
	ck_assert(records_real(&r, "seconds") == 2);
	ck_assert_int_eq(records_i64(&r, "limits.read_bps.level"), -50);
	ck_assert(records_real(&r, "limits.read_bps.blocking_share") == 0.5);
	ck_assert(!records_have(&r, "limits.iops.rate"));
	ck_assert_uint_eq(records_u64(&r, "classes.read.ops"), 12);
	ck_assert_uint_eq(records_u64(&r, "classes.read.parked_total"), 5);
	ck_assert_uint_eq(records_u64(&r, "classes.read.wait.max_ns"), 1000000);
	ck_assert_uint_eq(records_u64(&r, "inflight.limit"), 4);
	ck_assert(!records_have(&r, "open.limit"));
	records_free(&r);
}
END_TEST

START_TEST(equal_keys_of_several_mounts_are_added_up)
{
	struct key_stats k[] = {
		{.key = {FAIR_UID, 5}, .ops = 1, .bytes = 10, .wait_ns = 7, .max_wait_ns = 3},
		{.key = {FAIR_UID, 4}, .ops = 2},
		{.key = {FAIR_PROCESS, 5}, .ops = 3},
		{.key = {FAIR_UID, 5}, .ops = 4, .bytes = 20, .wait_ns = 1, .max_wait_ns = 9},
	};
	ck_assert_uint_eq(stats_merge_keys(k, 4), 3);
	for (int i = 0; i < 3; i++)
		if (k[i].key.kind == FAIR_UID && k[i].key.id == 5) {
			ck_assert_uint_eq(k[i].ops, 5);
			ck_assert_uint_eq(k[i].bytes, 30);
			ck_assert_uint_eq(k[i].wait_ns, 8);
			ck_assert_uint_eq(k[i].max_wait_ns, 9);
			return;
		}
	ck_abort_msg("the key is gone");
}
END_TEST

UNIT_MAIN("proto", any_bytes_survive_as_a_word, words_that_are_not_well_formed_are_refused,
	  too_many_words_are_refused, strings_are_json_whatever_their_bytes,
	  records_nest_into_objects_and_arrays, records_are_found_by_their_path,
	  lines_that_are_no_records_are_left_out, every_command_is_found_by_its_name,
	  statistics_of_a_scope_have_stable_names, equal_keys_of_several_mounts_are_added_up)
