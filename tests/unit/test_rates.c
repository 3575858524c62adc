/* SPDX-License-Identifier: MIT */
#include "ctl/rates.h"
#include "unit/look_fixture.h"

#include <string.h>

static struct snapshot *a, *b;

static void up(void)
{
	a = snapshot_at(&first);
	b = snapshot_at(&second);
}

static void down(void)
{
	snapshot_free(a);
	snapshot_free(b);
}

START_TEST(a_snapshot_has_what_the_daemon_said)
{
	up();
	const struct snap_scope *m = snapshot_find(a, PID, "mount", "data");
	ck_assert_ptr_nonnull(m);
	ck_assert_str_eq(m->mountpoint, "/mnt/data");
	ck_assert_uint_eq(m->mounted, 1);
	ck_assert_uint_eq(m->in_flight, 2);
	ck_assert_uint_eq(m->bypassing_handles, 1);
	ck_assert_uint_eq(m->ops, 2);
	ck_assert_uint_eq(m->limits, 4);
	ck_assert(!m->limit[2].rate && m->limit[2].permits == 8 && m->limit[2].used == 2);
	ck_assert(m->limit[1].each && !m->limit[0].each);
	ck_assert_uint_eq(m->waits, 1);
	ck_assert_uint_eq(m->wait[0].count[2], 4);
	ck_assert_uint_eq(m->bounds, 2);
	ck_assert_str_eq(snapshot_daemon_name(a, PID), "/etc/ratefs.conf");
	ck_assert_ptr_null(snapshot_find(a, PID + 1, "mount", "data"));
	down();
}
END_TEST

START_TEST(daemons_of_the_same_name_are_told_apart)
{
	struct snapshot *s = snapshot_new(0);
	ck_assert(snapshot_add_daemon(s, 1, "/a") && snapshot_add_daemon(s, 2, "/b"));
	ck_assert_str_eq(snapshot_daemon_name(s, 1), "/a");
	ck_assert(snapshot_add_daemon(s, 3, "/a") && snapshot_add_daemon(s, 4, "/a"));
	ck_assert_str_eq(snapshot_daemon_name(s, 1), "/a (process 1)");
	ck_assert_str_eq(snapshot_daemon_name(s, 2), "/b");
	ck_assert_str_eq(snapshot_daemon_name(s, 3), "/a (process 3)");
	ck_assert_str_eq(snapshot_daemon_name(s, 4), "/a (process 4)");
	snapshot_free(s);
}
END_TEST

START_TEST(answers_of_other_versions_are_read_as_far_as_they_go)
{
	static const char *const odd[] = {
		"{}", "[]", "{\"classes\":[],\"limits_met\":{},\"keys\":7}",
		"{\"scope\":1,\"limits_met\":[1,null,[]],\"waits\":[{\"counts\":3}]}"};
	struct snapshot *s = snapshot_new(1);
	for (unsigned i = 0; i < ARRAY_SIZE(odd); i++) {
		json_t *answer = json_loads(odd[i], 0, NULL);
		ck_assert_ptr_nonnull(answer);
		ck_assert(snapshot_add(s, PID, answer));
		json_decref(answer);
	}
	ck_assert_uint_eq(s->scopes, ARRAY_SIZE(odd));
	ck_assert_str_eq(s->scope[3].scope, "");
	snapshot_free(s);
}
END_TEST

START_TEST(rates_are_what_happened_per_second)
{
	up();
	struct scope_rates r = scope_rates(&b->scope[0], &a->scope[0], snapshot_seconds(b, a));
	ck_assert_double_eq(r.ops_per_sec, 16);
	ck_assert_double_eq(r.bytes_per_sec, 1048576);
	ck_assert_double_eq(r.refused_per_sec, 0);
	r = scope_rates(&b->scope[0], NULL, 0);
	ck_assert_double_eq(r.ops_per_sec, 0);
	down();
}
END_TEST

START_TEST(a_counter_that_was_reset_counts_from_zero)
{
	struct moment after = second;
	after.write_ops = 6;
	after.write_bytes = 20;
	a = snapshot_at(&first);
	b = snapshot_at(&after);
	struct scope_rates r = scope_rates(&b->scope[0], &a->scope[0], 2);
	ck_assert_double_eq(r.ops_per_sec, 3);
	ck_assert_double_eq(r.bytes_per_sec, 10);
	down();
}
END_TEST

START_TEST(each_limit_says_how_much_of_it_is_used_and_how_long_it_refused)
{
	char target[RATES_TARGET_MAX];
	unsigned n, n_keys;
	up();
	struct key_rates *keys = key_rates(b, a, &n_keys);
	struct limit_rates *l = limit_rates(b, a, keys, n_keys, &n);
	ck_assert_uint_eq(n, 4);
	ck_assert_str_eq(limit_target(&l[0], target), "data/backup");
	ck_assert_double_eq(l[0].used, 1048576);
	ck_assert_double_eq(l[0].refused_share, 0.75);
	ck_assert_str_eq(limit_target(&l[1], target), "data");
	ck_assert_double_eq(l[1].used, 10); /* of alice: it holds for her class, too */
	ck_assert_double_eq(l[2].used, 2);
	ck_assert_str_eq(limit_target(&l[3], target), "global");
	ck_assert_double_eq(l[3].used, 1048576);
	free(l);
	free(keys);
	down();
}
END_TEST

START_TEST(a_limit_for_each_key_is_not_used_by_requests_of_another_kind)
{
	unsigned n, n_keys;
	up();
	struct key_rates *keys = key_rates(b, a, &n_keys); /* alice only writes */
	b->scope[0].limit[1].name = "each.read_iops";
	struct limit_rates *l = limit_rates(b, a, keys, n_keys, &n);
	ck_assert_double_eq(l[1].used, 0);
	free(l);
	b->scope[0].limit[1].name = "each.write_iops";
	l = limit_rates(b, a, keys, n_keys, &n);
	ck_assert_double_eq(l[1].used, 10);
	free(l);
	free(keys);
	down();
}
END_TEST

START_TEST(a_limit_that_two_mounts_meet_is_one_limit)
{
	unsigned n;
	up();
	json_t *other = mount_answer(&second);
	json_object_set_new(other, "name", json_string("other"));
	add_answer(b, other);
	struct limit_rates *l = limit_rates(b, NULL, NULL, 0, &n);
	ck_assert_uint_eq(n, 7); /* three of each mount, and one that both share */
	free(l);
	down();
}
END_TEST

START_TEST(a_pool_is_used_by_all_mounts_that_meet_it)
{
	unsigned n;
	up();
	struct snapshot *both[] = {a, b};
	for (unsigned i = 0; i < 2; i++) {
		json_t *other = mount_answer(i ? &second : &first);
		json_object_set_new(other, "name", json_string("other"));
		add_answer(both[i], other);
		for (unsigned k = 0; k < both[i]->scopes; k++)
			if (both[i]->scope[k].limits)
				both[i]->scope[k].limit[3].scope = "pool";
	}
	struct limit_rates *l = limit_rates(b, a, NULL, 0, &n);
	ck_assert_uint_eq(n, 7);
	ck_assert_str_eq(l[3].limit->scope, "pool");
	ck_assert_double_eq(l[3].used, 2 * 1048576);
	free(l);
	down();
}
END_TEST

START_TEST(a_key_says_what_share_of_the_time_it_waited)
{
	unsigned n;
	up();
	struct key_rates *k = key_rates(b, a, &n);
	ck_assert_uint_eq(n, 2);
	ck_assert_double_eq(k[0].ops_per_sec, 10);
	ck_assert_double_eq(k[0].bytes_per_sec, 524288);
	ck_assert_double_eq(k[0].waiting, 0.5);
	ck_assert_double_eq(k[1].waiting, 0);
	ck_assert_str_eq(k[0].mount->name, "data");
	free(k);
	down();
}
END_TEST

START_TEST(a_key_that_waits_all_the_time_is_seen_before_its_wait_ends)
{
	struct moment hangs = first;
	unsigned n;
	hangs.seconds = 12;
	hangs.oldest_ms = 60000;
	a = snapshot_at(&first);
	b = snapshot_at(&hangs);
	struct key_rates *k = key_rates(b, a, &n);
	ck_assert_double_eq(k[0].waiting, 1);
	free(k);
	down();
}
END_TEST

UNIT_MAIN("rates", a_snapshot_has_what_the_daemon_said, daemons_of_the_same_name_are_told_apart,
	  answers_of_other_versions_are_read_as_far_as_they_go, rates_are_what_happened_per_second,
	  a_counter_that_was_reset_counts_from_zero,
	  each_limit_says_how_much_of_it_is_used_and_how_long_it_refused,
	  a_limit_for_each_key_is_not_used_by_requests_of_another_kind,
	  a_limit_that_two_mounts_meet_is_one_limit, a_pool_is_used_by_all_mounts_that_meet_it,
	  a_key_says_what_share_of_the_time_it_waited,
	  a_key_that_waits_all_the_time_is_seen_before_its_wait_ends)
