/* SPDX-License-Identifier: MIT */
#include "ctl/metrics.h"
#include "unit/look_fixture.h"

#include <string.h>

static char *text;

static const char *written(const struct snapshot *s, unsigned users)
{
	size_t size;
	const struct metrics_options o = {
		.version = "1.2", .users = users, .user_name = known_user};
	free(text);
	FILE *out = open_memstream(&text, &size);
	metrics_write(s, &o, out);
	fclose(out);
	return text;
}

static void has(const char *line)
{
	char *whole;
	ck_assert_int_gt(asprintf(&whole, "\n%s\n", line), 0);
	ck_assert_msg(strstr(text, whole), "no line '%s' in:\n%s", line, text);
	free(whole);
}

#define OF "{daemon=\"/etc/ratefs.conf\","

START_TEST(scopes_of_a_daemon_that_did_not_answer_to_the_end_are_left_out)
{
	struct snapshot *s = snapshot_at(&first);
	unsigned before = s->scopes;
	json_t *answer = scope_answer("fs", "lost", &second);
	ck_assert(snapshot_add(s, PID + 1, answer));
	json_decref(answer);
	snapshot_cut(s, before);
	ck_assert_uint_eq(s->scopes, before);
	ck_assert_ptr_null(snapshot_find(s, PID + 1, "fs", "lost"));
	ck_assert_ptr_null(strstr(written(s, 5), "daemon=\"\""));
	snapshot_free(s);
	free(text);
	text = NULL;
}
END_TEST

START_TEST(figures_of_a_snapshot_are_written_in_base_units)
{
	struct snapshot *s = snapshot_at(&first);
	written(s, 5);
	has("ratefs_build_info{version=\"1.2\"} 1");
	has("ratefs_daemons 1");
	has("ratefs_mount_info" OF "mount=\"data\",mountpoint=\"/mnt/data\",source=\"/srv\"} 1");
	has("ratefs_parked" OF "mount=\"data\"} 3");
	has("ratefs_bypassing_handles" OF "mount=\"data\"} 1");
	has("ratefs_oldest_wait_seconds" OF "mount=\"data\"} 2.5");
	has("ratefs_operations_total" OF "mount=\"data\",op=\"write\"} 100");
	has("ratefs_bytes_total" OF "mount=\"data\",op=\"write\"} 1000000");
	has("ratefs_refused_total" OF "mount=\"data\",op=\"write\",reason=\"timed_out\"} 2");
	has("ratefs_outcomes_total" OF "mount=\"data\",op=\"write\",outcome=\"ok\"} 46");
	has("ratefs_outcomes_total" OF "mount=\"data\",op=\"write\",outcome=\"error\"} 4");
	has("ratefs_refused_total" OF "mount=\"data\",op=\"write\",reason=\"too_many_open\"} 7");
	has("ratefs_refused_total" OF "mount=\"data\",op=\"write\",reason=\"no_space\"} 8");
	has("ratefs_space_used_bytes" OF "mount=\"data\"} 1024");
	has("ratefs_space_limit_bytes" OF "mount=\"data\"} 4096");
	has("ratefs_space_inodes_limit" OF "mount=\"data\"} 0");
	has("ratefs_class_operations_total" OF "mount=\"data\",op=\"write\",class=\"backup\"} 100");
	has("ratefs_limit_bytes_per_second" OF
	    "scope=\"class\",target=\"data/backup\",limit=\"write_bps\"} 1048576");
	has("ratefs_limit_operations_per_second" OF
	    "scope=\"mount\",target=\"data\",limit=\"each.iops\"} 50");
	has("ratefs_limit_level_bytes" OF
	    "scope=\"class\",target=\"data/backup\",limit=\"write_bps\"} 40000");
	has("ratefs_limit_permits_used" OF
	    "scope=\"mount\",target=\"data\",limit=\"max_inflight\"} 2");
	has("ratefs_limit_blocking_seconds_total" OF
	    "scope=\"class\",target=\"data/backup\",limit=\"write_bps\"} 0.5");
	/* a limit of each key has no single level */
	ck_assert_ptr_null(strstr(text, "ratefs_limit_level_operations{"));
	snapshot_free(s);
}
END_TEST

START_TEST(a_pool_says_what_is_granted_here_and_how_long_it_was_lost)
{
	struct snapshot *s = snapshot_at(&first);
	json_t *global = scope_answer("global", "global", &first);
	json_object_set_new(global, "pools", pool_answer("share", "connection refused", 3500));
	add_answer(s, global);
	written(s, 0);
#define POOL OF "pool=\"farm\""
	has("ratefs_pool_members" POOL "} 3");
	has("ratefs_pool_lost" POOL "} 1");
	has("ratefs_pool_fallback_seconds_total" POOL "} 5.5");
	has("ratefs_pool_answer_age_seconds" POOL "} 0.12");
	has("ratefs_pool_errors_total" POOL "} 4");
	has("ratefs_pool_helper_starts_total" POOL "} 1");
	has("ratefs_pool_limit_bytes_per_second" POOL ",limit=\"bps\"} 104857600");
	has("ratefs_pool_granted_bytes_per_second" POOL ",limit=\"bps\"} 26214400");
	has("ratefs_pool_demand_bytes_per_second" POOL ",limit=\"bps\"} 104857600"); /* all */
	ck_assert_ptr_null(strstr(text, "ratefs_pool_limit_operations_per_second{"));
	snapshot_free(s);
}
END_TEST

START_TEST(waiting_is_a_histogram_whose_buckets_add_up)
{
	struct snapshot *s = snapshot_at(&first);
	written(s, 0);
#define WAIT OF "mount=\"data\",class=\"backup\",limit=\"class:backup.write_bps\""
	has("# TYPE ratefs_wait_seconds histogram");
	has("ratefs_wait_seconds_bucket" WAIT ",le=\"0.001\"} 1");
	has("ratefs_wait_seconds_bucket" WAIT ",le=\"0.0025\"} 3");
	has("ratefs_wait_seconds_bucket" WAIT ",le=\"+Inf\"} 7");
	has("ratefs_wait_seconds_sum" WAIT "} 1.500000000");
	has("ratefs_wait_seconds_count" WAIT "} 7");
	snapshot_free(s);
}
END_TEST

START_TEST(of_users_only_those_who_waited_most_are_shown)
{
	struct snapshot *s = snapshot_at(&first);
	written(s, 1);
	has("ratefs_top_user_wait_seconds" OF "mount=\"data\",user=\"alice\"} 3");
	ck_assert_ptr_null(strstr(text, "bob"));
	written(s, 0);
	ck_assert_ptr_null(strstr(text, "user="));
	snapshot_free(s);
}
END_TEST

/* The uid of such keys is only that of the caller that waited last. */
START_TEST(what_many_users_waited_is_not_attributed_to_one_of_them)
{
	struct snapshot *s = snapshot_at(&first);
	struct snap_key *key = s->scope[0].key;
	key[0].kind = key[1].kind = "gid";
	written(s, 5);
	has("ratefs_top_user_wait_seconds" OF "mount=\"data\",user=\"gid 99\"} 3");
	ck_assert_ptr_null(strstr(text, "alice"));
	ck_assert_ptr_nonnull(strstr(text, "user=\"gid 100\""));
	key[0].kind = key[1].kind = "none";
	written(s, 5);
	has("ratefs_top_user_wait_seconds" OF "mount=\"data\",user=\"all\"} 3.001");
	key[0].kind = "shared";
	key[1].kind = "uid";
	written(s, 5);
	has("ratefs_top_user_wait_seconds" OF "mount=\"data\",user=\"shared\"} 3");
	has("ratefs_top_user_wait_seconds" OF "mount=\"data\",user=\"bob\"} 0.001");
	snapshot_free(s);
}
END_TEST

START_TEST(names_cannot_break_out_of_a_label)
{
	struct snapshot *s = snapshot_new(1);
	json_t *answer = mount_answer(&first);
	json_object_set_new(answer, "mountpoint", json_string("/a\"b\\c\nd"));
	add_answer(s, answer);
	written(s, 0);
	has("ratefs_mount_info{daemon=\"\",mount=\"data\",mountpoint=\"/a\\\"b\\\\c\\nd\",source=\"/srv\"} 1");
	snapshot_free(s);
}
END_TEST

/* Prometheus refuses a family whose lines are not adjacent. */
START_TEST(each_family_is_written_once_with_help_and_type)
{
	struct snapshot *s = snapshot_at(&first);
	written(s, 5);
	char last[100] = "", name[100], seen[20000] = "";
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		if (sscanf(line, "# HELP %99s", name) == 1) {
			ck_assert_msg(!strstr(seen, name), "%s twice", name);
			snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s\n", name);
			memcpy(last, name, sizeof(last));
		} else if (*line != '#') {
			ck_assert_msg(strncmp(line, last, strlen(last)) == 0, "after %s: %.60s",
				      last, line);
		}
	}
	snapshot_free(s);
}
END_TEST

UNIT_MAIN("metrics", figures_of_a_snapshot_are_written_in_base_units,
	  scopes_of_a_daemon_that_did_not_answer_to_the_end_are_left_out,
	  a_pool_says_what_is_granted_here_and_how_long_it_was_lost,
	  waiting_is_a_histogram_whose_buckets_add_up,
	  of_users_only_those_who_waited_most_are_shown,
	  what_many_users_waited_is_not_attributed_to_one_of_them,
	  names_cannot_break_out_of_a_label, each_family_is_written_once_with_help_and_type)
