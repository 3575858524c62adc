/* SPDX-License-Identifier: MIT */
/* Every allocation of the protocol, and of the programs that use it, fails once.  A line must be
 * read and written as a whole or not at all, a snapshot must keep what it had, and a file that is
 * saved must be the old one or the new one. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ctl/client.h"
#include "ctl/rates.h"
#include "ctl/save.h"
#include "proto/json_out.h"
#include "proto/proto.h"
#include "unit/look_fixture.h"
#include "unit/oom.h"

static const char line[] =
	"{\"v\":1,\"do\":\"set\",\"target\":\"slow\",\"values\":{\"write_bps\":\"50M\","
	"\"iops\":2000,\"a\":[1,2.5,true,null,\"\\u00e9\"]}}";

START_TEST(a_line_is_read_whole_or_not_at_all)
{
	struct error err = ERROR_INIT;
	AUTO_JSON *whole = proto_parse(line, strlen(line), PROTO_DEPTH_MAX, &err);
	ck_assert_ptr_nonnull(whole);
	OOM_EACH(n)
	{
		err = (struct error)ERROR_INIT;
		AUTO_JSON *json =
			OOM_FAIL(n, proto_parse(line, strlen(line), PROTO_DEPTH_MAX, &err));
		ck_assert((json == NULL) == oom_struck());
		if (json)
			ck_assert(json_equal(json, whole));
		else
			ck_assert_str_eq(err.text, "out of memory");
	}
}
END_TEST

START_TEST(a_line_is_written_whole_or_not_at_all)
{
	struct error err = ERROR_INIT;
	AUTO_JSON *json = proto_parse(line, strlen(line), PROTO_DEPTH_MAX, &err);
	size_t size, whole_size;
	AUTO_FREE char *whole = proto_line(json, &whole_size);
	OOM_EACH(n)
	{
		AUTO_FREE char *text = OOM_FAIL(n, proto_line(json, &size));
		/* jansson can do without some allocations, but must never leave anything out */
		if (!oom_struck())
			ck_assert_ptr_nonnull(text);
		if (text)
			ck_assert_str_eq(text, whole);
	}
}
END_TEST

static json_t *put_together(bool *failed)
{
	struct json_out o = json_out_new(failed);
	put_text(o, "name", "slow");
	put_text(o, "odd", "\xff\xfe");
	struct json_out list = put_array(put_object(o, "in"), "list");
	put_u64(list, NULL, 7);
	put_real(list, NULL, 0.5);
	put_bool(put_object(list, NULL), "on", true);
	return o.at;
}

START_TEST(a_document_is_whole_or_marked_as_incomplete)
{
	bool failed = false;
	AUTO_JSON *whole = put_together(&failed);
	ck_assert(!failed);
	OOM_EACH(n)
	{
		failed = false;
		AUTO_JSON *json = OOM_FAIL(n, put_together(&failed));
		ck_assert(failed == oom_struck());
		if (!failed)
			ck_assert(json_equal(json, whole));
	}
}
END_TEST

START_TEST(a_request_is_whole_or_none)
{
	AUTO_JSON *whole = request_new("set", "slow");
	OOM_EACH(n)
	{
		AUTO_JSON *json = OOM_FAIL(n, request_new("set", "slow"));
		ck_assert((json == NULL) == oom_struck());
		ck_assert(!json || json_equal(json, whole));
	}
}
END_TEST

START_TEST(an_error_is_told_whole_or_not_at_all)
{
	static const char said[] =
		"{\"v\":1,\"ok\":false,\"error\":{\"code\":\"bad-value\","
		"\"place\":\"slow\",\"text\":\"bps: '5X'\",\"remedy\":\"write 5M\"}}";
	struct error err = ERROR_INIT;
	AUTO_JSON *answer = proto_parse(said, strlen(said), PROTO_DEPTH_MAX, &err);
	OOM_EACH(n)
	{
		AUTO_FREE char *text = OOM_FAIL(n, answer_error(answer));
		ck_assert((text == NULL) == oom_struck());
		if (text)
			ck_assert_str_eq(text, "slow: bps: '5X'; write 5M");
	}
}
END_TEST

START_TEST(a_snapshot_keeps_what_it_had)
{
	AUTO_JSON *answer = mount_answer(&first);
	OOM_EACH(n)
	{
		struct snapshot *s = snapshot_at(&first);
		unsigned scopes = s->scopes;
		bool ok = OOM_FAIL(n, snapshot_add(s, PID + 1, answer));
		ck_assert(ok == !oom_struck());
		ck_assert_uint_eq(s->scopes, scopes + ok);
		ck_assert_ptr_nonnull(snapshot_find(s, PID, "mount", "data"));
		ck_assert((snapshot_find(s, PID + 1, "mount", "data") != NULL) == ok);
		snapshot_free(s);
	}
	OOM_EACH(n)
	{
		struct snapshot *s = snapshot_at(&first);
		unsigned daemons = s->daemons;
		bool ok = OOM_FAIL(n, snapshot_add_daemon(s, PID + 1, "more"));
		ck_assert(ok == !oom_struck());
		ck_assert_uint_eq(s->daemons, daemons + ok);
		ck_assert_str_eq(snapshot_daemon_name(s, PID + 1), ok ? "more" : "");
		snapshot_free(s);
	}
}
END_TEST

START_TEST(rates_are_those_of_all_keys_or_none)
{
	struct snapshot *s = snapshot_at(&first);
	unsigned all, n_keys;
	AUTO_FREE struct key_rates *whole = key_rates(s, NULL, &all);
	OOM_EACH(n)
	{
		AUTO_FREE struct key_rates *keys = OOM_FAIL(n, key_rates(s, NULL, &n_keys));
		ck_assert((keys == NULL) == oom_struck());
		ck_assert(!keys || n_keys == all);
	}
	OOM_EACH(n)
	{
		unsigned n_limits = 0;
		AUTO_FREE struct limit_rates *limits =
			OOM_FAIL(n, limit_rates(s, NULL, whole, all, &n_limits));
		ck_assert((limits == NULL) == oom_struck());
		ck_assert(!limits || n_limits > 0);
	}
	snapshot_free(s);
}
END_TEST

static unsigned files_in(const char *dir)
{
	unsigned n = 0;
	DIR *d = opendir(dir);
	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

START_TEST(a_file_is_saved_whole_or_not_at_all)
{
	static const char before[] = "# mine\n[mount:a]\niops = 5\n";
	const struct save_value v[] = {{"iops", "7"}, {"bps", "1M"}};
	char dir[] = "/tmp/ratefs-save.XXXXXX", path[64], now[256];
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/c.conf", dir);
	OOM_EACH(n)
	{
		struct error err = ERROR_INIT;
		FILE *f = fopen(path, "w");
		fputs(before, f);
		fclose(f);
		int rc = OOM_FAIL(
			n, save_file(path, (struct save_section){"mount:a", NULL}, v, 2, &err));
		f = fopen(path, "r");
		now[fread(now, 1, sizeof(now) - 1, f)] = '\0';
		fclose(f);
		ck_assert_int_eq(rc, oom_struck() ? -1 : 0);
		ck_assert(error_is_set(&err) == oom_struck());
		ck_assert_str_eq(now, rc ? before : "# mine\n[mount:a]\niops = 7\nbps = 1M\n");
		ck_assert_uint_eq(files_in(dir), 3); /* the file, "." and ".." */
	}
	unlink(path);
	rmdir(dir);
}
END_TEST

static void setup(void) __attribute__((constructor));
static void setup(void)
{
	proto_init(); /* makes the parser use our malloc, which can fail */
}

UNIT_MAIN("ctl_memory", a_line_is_read_whole_or_not_at_all, a_line_is_written_whole_or_not_at_all,
	  a_document_is_whole_or_marked_as_incomplete, a_request_is_whole_or_none,
	  an_error_is_told_whole_or_not_at_all, a_snapshot_keeps_what_it_had,
	  rates_are_those_of_all_keys_or_none, a_file_is_saved_whole_or_not_at_all)
