/* SPDX-License-Identifier: MIT */
#include "proto/proto.h"
#include "base/cleanup.h"
#include "ctl/ctl.h"
#include "daemon/commands.h"
#include "daemon/stats_out.h"
#include "proto/json_in.h"
#include "proto/json_out.h"
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

static json_t *parse(const char *line)
{
	struct error err = ERROR_INIT;
	json_t *json = proto_parse(line, strlen(line), PROTO_DEPTH_MAX, &err);
	ck_assert(json ? !error_is_set(&err) : error_is_set(&err));
	return json;
}

START_TEST(a_line_is_one_object)
{
	AUTO_JSON *request = parse("{\"v\":1,\"do\":\"list\"}");
	ck_assert_str_eq(get_text(request, "do"), "list");
	static const char *const bad[] = {
		"",
		"list",
		"\"list\"",
		"[]",
		"{\"v\":1",
		"{\"v\":1}{",
		"{\"v\":1,\"v\":1}",
		"{\"v\":\"\xff\"}",
		"{\"v\":\"\\u0000\"}",
		"{\"v\":\"\\ud800\"}",
		"{\"v\":01}",
	};
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(!parse(bad[i]), "%s", bad[i]);
	struct error err = ERROR_INIT;
	ck_assert_ptr_null(proto_parse("{\"v\":1}\0", 8, PROTO_DEPTH_MAX, &err)); /* a NUL byte */
}
END_TEST

START_TEST(nesting_is_bounded_before_anything_is_parsed)
{
	static char deep[60000];
	struct error err = ERROR_INIT;
	memset(deep, '[', sizeof(deep) - 1);
	ck_assert_ptr_null(parse(deep));
	ck_assert_ptr_null(
		parse("{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}}}}"));
	AUTO_JSON *eight = parse("{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}}}");
	ck_assert_ptr_nonnull(eight);
	/* brackets in strings are not counted */
	AUTO_JSON *flat = parse("{\"a\":\"[[[[[[[[[[[[\\\"[[[[[[[[[[\",\"b\":[]}");
	ck_assert_ptr_nonnull(flat);
	ck_assert_ptr_null(proto_parse("{\"a\":\"\\", 7, 8, &err));
}
END_TEST

START_TEST(what_is_put_is_read_again)
{
	bool failed = false;
	struct json_out o = json_out_new(&failed);
	AUTO_JSON *root = o.at;
	put_text(o, "name", "a\"b\n\x01 \xc3\xa4");
	put_text(o, "odd", "x\xff\xed\xa0\x80y");
	put_text(o, "none", NULL);
	put_u64(o, "big", UINT64_MAX);
	put_i64(o, "small", -7);
	put_bool(o, "yes", true);
	put_real(o, "date", 1794934800.25);
	struct json_out list = put_array(o, "list");
	put_real(put_object(list, NULL), "half", 0.5);
	put_text(list, NULL, "last");
	ck_assert(!failed);
	size_t size;
	AUTO_FREE char *line = proto_line(root, &size);
	ck_assert_uint_eq(strlen(line), size);
	ck_assert_ptr_eq(strchr(line, '\n'), line + size - 1);
	AUTO_JSON *again = parse(line);
	ck_assert(json_equal(root, again));
	ck_assert_str_eq(get_text(again, "name"), "a\"b\n\x01 \xc3\xa4");
	ck_assert_str_eq(get_text(again, "odd"),
			 "x\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdy");
	ck_assert_str_eq(get_text(again, "none"), "");
	ck_assert_uint_eq(get_u64(again, "big"), INT64_MAX);
	ck_assert_int_eq(get_i64(again, "small"), -7);
	ck_assert_uint_eq(get_u64(again, "small"), 0);
	ck_assert(get_true(again, "yes"));
	ck_assert(get_real(again, "date") == 1794934800.25);
	ck_assert(get_real(json_array_get(get_part(again, "list"), 0), "half") == 0.5);
	ck_assert_ptr_null(get_part(again, "name"));
	ck_assert_str_eq(get_text(again, "missing"), "");
	ck_assert_uint_eq(get_u64(NULL, "missing"), 0);
}
END_TEST

START_TEST(every_code_has_a_name_and_a_status)
{
	for (int i = 0; i < PROTO_CODES; i++) {
		ck_assert_int_eq(proto_code_find(proto_code_name(i)), i);
		ck_assert((proto_exit_status(i) == 0) == (i == PROTO_OK));
	}
	ck_assert_int_eq(proto_code_find("of-a-later-version"), PROTO_FAILED);
}
END_TEST

/* The request must be refused with this code, before the registry is accessed. */
static void refuses(const char *line, const char *code)
{
	struct command_reply reply;
	AUTO_JSON *request = parse(line);
	ck_assert(command_reply_init(&reply));
	command_run(NULL, request, &reply);
	AUTO_JSON *answer = command_answer(&reply, json_object_get(request, "id"));
	ck_assert_str_eq(get_text(get_part(answer, "error"), "code"), code);
	ck_assert(!get_true(answer, "ok"));
	ck_assert(json_equal(json_object_get(answer, "id"), json_object_get(request, "id")) ||
		  !json_object_get(request, "id"));
	command_reply_free(&reply);
}

START_TEST(requests_that_are_not_complete_are_refused)
{
	refuses("{\"do\":\"list\"}", "bad-request");
	refuses("{\"v\":\"1\",\"do\":\"list\"}", "bad-request");
	refuses("{\"v\":2,\"do\":\"list\",\"id\":4}", "bad-version");
	refuses("{\"v\":1,\"id\":\"a\"}", "bad-request");
	refuses("{\"v\":1,\"do\":7}", "bad-request");
	refuses("{\"v\":1,\"do\":\"frobnicate\"}", "unknown-command");
	refuses("{\"v\":1,\"do\":\"show\"}", "bad-argument");
	refuses("{\"v\":1,\"do\":\"show\",\"target\":7}", "bad-argument");
	refuses("{\"v\":1,\"do\":\"list\",\"target\":\"x\"}", "bad-argument");
	refuses("{\"v\":1,\"do\":\"unmount\",\"target\":\"x\",\"force\":1}", "bad-argument");
	refuses("{\"v\":1,\"do\":\"set\",\"target\":\"x\"}", "bad-argument");
	refuses("{\"v\":1,\"do\":\"set\",\"target\":\"x\",\"values\":[]}", "bad-argument");
	refuses("{\"v\":1,\"do\":\"list\",\"id\":{}}", "bad-argument");
	refuses("{\"v\":1,\"do\":\"list\",\"frce\":true}", "bad-argument");
}
END_TEST

START_TEST(errors_are_one_line_for_people)
{
	AUTO_JSON *a = parse("{\"v\":1,\"ok\":false,\"error\":{\"code\":\"in-use\",\"place\":\"m\","
			     "\"text\":\"is in use\",\"remedy\":\"use --force\"}}");
	AUTO_FREE char *line = answer_error(a);
	ck_assert_str_eq(line, "m: is in use; use --force");
	AUTO_JSON *b = parse(
		"{\"error\":{\"place\":\"a.conf\",\"text\":\"a.conf:1: no\\na.conf:2: no\"}}");
	AUTO_FREE char *lines = answer_error(b);
	ck_assert_str_eq(lines, "a.conf:1: no\na.conf:2: no");
	ck_assert_ptr_null(answer_error(NULL));
}
END_TEST

START_TEST(every_command_is_found_by_its_name)
{
	for (unsigned i = 0; i < n_commands; i++) {
		ck_assert_ptr_eq(command_find(commands[i].name), &commands[i]);
		ck_assert_str_ne(commands[i].help, "");
	}
	ck_assert_ptr_null(command_find("nonsense"));
	ck_assert_str_eq(command_nearest("lst"), "list");
}
END_TEST

START_TEST(statistics_of_a_scope_have_stable_names)
{
	static struct scope_stats s;
	bool failed = false;
	struct json_out o = json_out_new(&failed);
	AUTO_JSON *root = o.at;
	s.since_ns = NSEC_PER_SEC;
	s.now_ns = 3 * NSEC_PER_SEC;
	s.limit[LIMIT_READ_BPS] = (struct limit_stats){true, 1000, 0, 100, -50, 7, NSEC_PER_SEC, 0};
	s.cls[COST_READ].ops = 12;
	s.cls[COST_READ].parked = 5;
	histogram_add(&s.cls[COST_READ].wait, 1000000);
	s.inflight.limit = 4;
	s.open.limit = PERMITS_UNLIMITED;
	put_scope_stats(o, &s);
	const json_t *limit = get_part(get_part(root, "limits"), "read_bps");
	const json_t *class = get_part(get_part(root, "classes"), "read");
	ck_assert(!failed);
	ck_assert(get_real(root, "seconds") == 2);
	ck_assert_int_eq(get_i64(limit, "level"), -50);
	ck_assert(get_real(limit, "blocking_share") == 0.5);
	ck_assert_ptr_null(get_part(get_part(root, "limits"), "iops"));
	ck_assert_uint_eq(get_u64(class, "ops"), 12);
	ck_assert_uint_eq(get_u64(class, "parked_total"), 5);
	ck_assert_uint_eq(get_u64(get_part(class, "wait"), "max_ns"), 1000000);
	ck_assert_uint_eq(get_u64(get_part(root, "inflight"), "limit"), 4);
	ck_assert_ptr_null(json_object_get(get_part(root, "open"), "limit"));
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

static json_int_t cell(const json_t *table, unsigned row, unsigned column)
{
	return json_integer_value(
		json_array_get(json_array_get(json_object_get(table, "rows"), row), column));
}

static const char *text_of(const json_t *table, json_int_t i)
{
	return json_string_value(json_array_get(json_object_get(table, "text"), (size_t)i));
}

START_TEST(keys_as_a_table_are_rows_of_numbers)
{
	struct key_stats k[] = {
		{.key = {FAIR_PROCESS, 5},
		 .uid = 1001,
		 .name = "rsync",
		 .leaf = "backup",
		 .ops = 3,
		 .done_ops = 5,
		 .done_bytes = 4096,
		 .wait_ns = 7,
		 .limit = {{.known = true, .scope = SCOPE_MOUNT, .name = "iops"}},
		 .waits_for = {.known = true, .scope = SCOPE_CLASS, .of = "backup", .name = "bps"}},
		{.key = {FAIR_PROCESS, 6}, .name = "r\xffync", .leaf = "backup"},
	};
	bool failed = false;
	struct json_out o = json_out_new(&failed);
	put_key_table(o, k, 2, true);
	ck_assert(!failed);
	const json_t *t = json_object_get(o.at, "key_table");
	ck_assert_uint_eq(json_array_size(json_object_get(t, "columns")), 14);
	ck_assert_uint_eq(json_array_size(json_object_get(t, "rows")), 2);
	ck_assert_str_eq(text_of(t, cell(t, 0, 0)), "process");
	ck_assert_int_eq(cell(t, 0, 1), 5);
	ck_assert_int_eq(cell(t, 0, 2), 1001);
	ck_assert_str_eq(text_of(t, cell(t, 0, 3)), "rsync");
	ck_assert_str_eq(text_of(t, cell(t, 1, 3)), "r\xef\xbf\xbdync"); /* is UTF-8 */
	ck_assert_int_eq(cell(t, 0, 4), cell(t, 1, 4));
	/* the limit that the key waits for now, rather than the one that it waited for longest */
	const json_t *limit = json_array_get(json_object_get(t, "limits"), cell(t, 0, 10));
	ck_assert_str_eq(json_string_value(json_object_get(limit, "of")), "backup");
	ck_assert_int_eq(cell(t, 1, 10), -1);
	ck_assert_int_eq(cell(t, 0, 12), 5);
	ck_assert_int_eq(cell(t, 0, 13), 4096);
	json_decref(o.at);
}
END_TEST

/* A key is a row of twelve numbers, because `top` asks for thousands of keys once a second.  As an
 * object, it took 600 bytes. */
START_TEST(thousands_of_keys_are_a_short_line)
{
	enum { KEYS = 4096 };
	struct key_stats *k = calloc(KEYS, sizeof(*k));
	for (unsigned i = 0; i < KEYS; i++) {
		k[i] = (struct key_stats){
			.key = {FAIR_PROCESS, 100000 + i},
			.uid = 1000 + i,
			.ops = 1000,
			.bytes = 1 << 30,
			.wait_ns = 3600000000000,
			.oldest_ns = 1000000000,
			.limit = {{.known = true, .scope = SCOPE_MOUNT, .name = "iops"}}};
		snprintf(k[i].name, sizeof(k[i].name), "job%u", i % 10);
	}
	bool failed = false;
	struct json_out o = json_out_new(&failed);
	size_t size;
	put_key_table(o, k, KEYS, false);
	char *line = proto_line(o.at, &size);
	ck_assert(!failed);
	ck_assert_uint_lt(size, KEYS * 80);
	const json_t *t = json_object_get(o.at, "key_table");
	ck_assert_uint_eq(json_array_size(json_object_get(t, "rows")), KEYS);
	ck_assert_uint_eq(json_array_size(json_object_get(t, "text")),
			  12); /* "process", "", ten names */
	ck_assert_uint_eq(json_array_size(json_object_get(t, "limits")), 1);
	free(line);
	free(k);
	json_decref(o.at);
}
END_TEST

UNIT_MAIN("proto", a_line_is_one_object, nesting_is_bounded_before_anything_is_parsed,
	  what_is_put_is_read_again, every_code_has_a_name_and_a_status,
	  requests_that_are_not_complete_are_refused, errors_are_one_line_for_people,
	  every_command_is_found_by_its_name, statistics_of_a_scope_have_stable_names,
	  equal_keys_of_several_mounts_are_added_up, keys_as_a_table_are_rows_of_numbers,
	  thousands_of_keys_are_a_short_line)
