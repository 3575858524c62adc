/* SPDX-License-Identifier: MIT */
#include "ctl/top_view.h"
#include "unit/look_fixture.h"

#include <string.h>

static struct snapshot *a, *b;
static struct top_view v;
static struct top_data d;
static struct top_line line[200];
static struct top_change set;

static void data(void)
{
	top_data_free(&d);
	ck_assert(top_data_make(&d, b, a, "12:34:56", known_user));
	ck_assert(top_data_sort(&d, &v));
}

static void up(void)
{
	v = (struct top_view){0};
	a = snapshot_at(&first);
	b = snapshot_at(&second);
	data();
}

static void down(void)
{
	top_data_free(&d);
	snapshot_free(a);
	snapshot_free(b);
}

/* The index of the line that contains this text, which must exist. */
static unsigned find(unsigned rows, const char *text)
{
	for (unsigned i = 0; i < rows; i++)
		if (strstr(line[i].text, text))
			return i;
	for (unsigned i = 0; i < rows; i++)
		printf("# |%s|\n", line[i].text);
	ck_abort_msg("nowhere: %s", text);
	return 0;
}

static void draw(unsigned rows, unsigned columns)
{
	memset(line, 0x55, sizeof(line));
	top_draw(&v, &d, line, rows, columns);
	for (unsigned i = 0; i < rows; i++)
		ck_assert_msg(memchr(line[i].text, '\0', columns + 1), "line %u is too long", i);
	ck_assert_int_eq(line[rows].text[0], 0x55);
}

static enum top_action press(const char *keys)
{
	enum top_action did = TOP_NOTHING;
	for (; *keys; keys++)
		did = top_key(&v, &d, *keys == '\n' ? TOP_KEY_ENTER : *keys, &set);
	return did;
}

START_TEST(a_terminal_of_80_by_24_shows_limits_and_keys)
{
	up();
	draw(24, 80);
	ck_assert_str_eq(line[0].text, "ratefs top  12:34:56  1 mount  2 keys  sorted by wait");
	ck_assert_str_eq(
		line[1].text,
		"16 ops/s  1.0M bytes/s  refused 0/s  waiting 3  in flight 2  open 7  bypassing 1");
	ck_assert_str_eq(
		line[2].text,
		"  LIMIT                   IN USE                 NOW/S  RATE/S   LEVEL BLOCKING");
	ck_assert_str_eq(
		line[3].text,
		"> data/backup.write_bps   [##################]    1.0M    1.0M       0      75%");
	ck_assert_str_eq(
		line[6].text,
		"  global.bps              [#########.........]    1.0M    2.0M       0       0%");
	ck_assert_str_eq(
		line[7].text,
		"  SPACE                   IN USE                  USED   LIMIT    LEFT ENOSPC/S");
	ck_assert_str_eq(
		line[8].text,
		"  data.size               [#####.............]    1.0K    4.0K    3.0K        0");
	ck_assert_str_eq(
		line[9].text,
		"USER     COMMAND       CLASS     OPS/S BYTES/S  WAIT FOR           QUEUE OLDEST");
	ck_assert_str_eq(
		line[10].text,
		"alice    rsync         backup       10    512K   50% +up.write_bps     3  250ms");
	ck_assert_str_eq(
		line[11].text,
		"bob      e?vil         -             0       0    0% each.iops         0      -");
	ck_assert_ptr_nonnull(strstr(line[23].text, "q quit"));
	down();
}
END_TEST

START_TEST(a_wider_terminal_shows_more_columns)
{
	up();
	draw(24, 132);
	const char *row = line[find(24, "alice")].text;
	ck_assert_ptr_nonnull(strstr(row, "data "));
	ck_assert_ptr_nonnull(strstr(row, " 99 "));
	ck_assert_ptr_nonnull(strstr(row, "class:backup.write_bps"));
	draw(24, 110); /* "class:" does not fit; the class is in its column */
	row = line[find(24, "alice")].text;
	ck_assert_ptr_nonnull(strstr(row, " backup.write_bps "));
	down();
}
END_TEST

START_TEST(limits_of_a_mount_with_a_long_name_can_be_told_apart)
{
	up();
	b->scope[0].name = "a-mount-with-a-very-long-name";
	b->scope[0].limit[1].of = b->scope[0].limit[2].of = b->scope[0].name;
	data();
	draw(24, 80);
	find(24, "> a-mount+ackup.write_bps [");
	find(24, "  a-mount+-name.each.iops [");
	find(24, "  a-mount+me.max_inflight [");
	find(24, "  global.bps              [");
	down();
}
END_TEST

START_TEST(keys_of_all_kinds_say_who_they_are)
{
	static const struct {
		const char *kind, *command, *shown;
	} known[] = {
		{"uid", "make", "alice    make          backup"},
		{"uid", "", "alice    -             backup"},
		{"gid", "make", "gid 99   make          backup"},
		{"none", "make", "all      make          backup"},
		{"cgroup", "/ci/job1", "alice    /ci/job1      backup"},
		{"cgroup", "/system.slice/docker/job1", "alice    +/docker/job1 backup"},
	};
	up();
	for (unsigned i = 0; i < ARRAY_SIZE(known); i++) {
		b->scope[0].key[0].kind = known[i].kind;
		b->scope[0].key[0].command = known[i].command;
		data();
		draw(24, 80);
		find(24, known[i].shown);
	}
	down();
}
END_TEST

START_TEST(any_size_of_a_terminal_is_drawn)
{
	up();
	for (unsigned rows = 1; rows < 60; rows++)
		for (unsigned columns = 1; columns < 320; columns += 7)
			draw(rows, columns < TOP_COLUMNS_MAX ? columns : TOP_COLUMNS_MAX);
	v.help = true;
	for (unsigned rows = 1; rows < 30; rows++)
		draw(rows, 80);
	down();
}
END_TEST

START_TEST(limits_leave_room_for_keys_and_the_selected_one_is_seen)
{
	up();
	v.selected = 4;
	draw(9, 80); /* room for five lines */
	ck_assert_ptr_nonnull(strstr(line[find(9, "> global.bps")].text, "2.0M"));
	find(9, "IN USE                 NOW/S");
	find(9, "alice");
	find(9, "bob");
	v.selected = 6;
	draw(9, 80);
	ck_assert_ptr_nonnull(strstr(line[find(9, "> data.size")].text, "4.0K"));
	find(9, "ENOSPC/S");
	down();
}
END_TEST

START_TEST(keys_are_sorted_and_filtered)
{
	up();
	draw(24, 80);
	ck_assert_uint_lt(find(24, "alice"), find(24, "bob"));
	v.sort = SORT_COMMAND;
	data();
	draw(24, 80);
	ck_assert_uint_lt(find(24, "e?vil"), find(24, "rsync"));
	v.sort = SORT_WAIT;
	press("/RSY\n");
	ck_assert_str_eq(v.filter, "RSY");
	data();
	ck_assert_uint_eq(d.keys, 1);
	draw(24, 80);
	ck_assert_str_eq(line[0].text,
			 "ratefs top  12:34:56  1 mount  1 of 2 keys  sorted by wait  filter RSY");
	press("/nobody\n");
	data();
	draw(24, 80);
	find(24, "nobody who matches the filter makes requests");
	/* A group is found by its number, not by that of its users who waited last. */
	b->scope[0].key[0].kind = "gid";
	press("/alice\n");
	data();
	ck_assert_uint_eq(d.keys, 0);
	press("/gid 99\n");
	data();
	ck_assert_uint_eq(d.keys, 1);
	top_key(&v, &d, TOP_KEY_ESCAPE, &set);
	ck_assert_str_eq(v.filter, "");
	down();
}
END_TEST

START_TEST(plus_and_minus_change_the_selected_limit_by_a_tenth)
{
	up();
	ck_assert_int_eq(press("+"), TOP_SET);
	ck_assert_uint_eq(set.daemon, PID);
	ck_assert_str_eq(set.target, "data/backup");
	ck_assert_str_eq(set.option, "write_bps");
	ck_assert_str_eq(set.value, "1126K");
	ck_assert_int_eq(press("-"), TOP_SET);
	ck_assert_str_eq(set.value, "931K");
	ck_assert_int_eq(press("j+"), TOP_SET);
	ck_assert_str_eq(set.target, "data");
	ck_assert_str_eq(set.option, "each.iops");
	ck_assert_str_eq(set.value, "55");
	ck_assert_int_eq(press("j-"), TOP_SET);
	ck_assert_str_eq(set.option, "max_inflight");
	ck_assert_str_eq(set.value, "7");
	ck_assert_int_eq(press("j+"), TOP_SET);
	ck_assert_str_eq(set.target, "global");
	ck_assert_int_eq(press("jjjj+"), TOP_SET); /* the selection stays on the last one */
	ck_assert_str_eq(set.target, "data");
	ck_assert_str_eq(set.option, "size");
	ck_assert_str_eq(set.value, "4506");
	down();
}
END_TEST

/* 0 would remove the limit. */
START_TEST(minus_never_reaches_zero)
{
	up();
	b->scope[0].limit[0].per_sec = 1;
	data();
	ck_assert_int_eq(press("-"), TOP_SET);
	ck_assert_str_eq(set.value, "1");
	b->scope[0].limit[0].per_sec = 2;
	data();
	press("-");
	ck_assert_str_eq(set.value, "1");
	press("+");
	ck_assert_str_eq(set.value, "3");
	down();
}
END_TEST

START_TEST(a_value_is_typed_and_may_be_given_up)
{
	up();
	ck_assert_int_eq(press("=5Mx"), TOP_REDRAW);
	draw(24, 80);
	find(24, "new value of data/backup.write_bps: 5Mx_");
	top_key(&v, &d, TOP_KEY_BACKSPACE, &set);
	ck_assert_int_eq(press("\n"), TOP_SET);
	ck_assert_str_eq(set.value, "5M");
	ck_assert_int_eq(v.mode, TOP_WATCH);
	press("=7");
	ck_assert_int_eq(top_key(&v, &d, TOP_KEY_ESCAPE, &set), TOP_REDRAW);
	ck_assert_int_eq(v.mode, TOP_WATCH);
	ck_assert_int_eq(press("=\n"), TOP_REDRAW); /* nothing was typed */
	for (unsigned i = 0; i < 200; i++)
		press(i ? "9" : "=");
	ck_assert_uint_eq(strlen(v.input), TOP_INPUT_MAX - 1);
	down();
}
END_TEST

START_TEST(q_quits_but_can_be_typed)
{
	up();
	ck_assert_int_eq(press("/q"), TOP_REDRAW);
	ck_assert_int_eq(press("\nq"), TOP_QUIT);
	ck_assert_int_eq(press("p"), TOP_REDRAW);
	ck_assert(v.paused);
	draw(24, 80);
	find(24, "PAUSED");
	down();
}
END_TEST

START_TEST(without_any_limit_nothing_is_changed)
{
	up();
	b->scope[0].limits = 0;
	b->scope[0].space_limit = 0;
	data();
	ck_assert_int_eq(press("+"), TOP_REDRAW); /* the one that was selected is gone */
	ck_assert_int_eq(press("+"), TOP_NOTHING);
	press("=5\n");
	ck_assert_int_eq(v.mode, TOP_WATCH);
	draw(24, 80);
	down();
}
END_TEST

START_TEST(the_selected_limit_stays_selected_when_others_come_and_go)
{
	up();
	press("jjj"); /* global.bps */
	b->scope[0].limit[0].rate = false;
	memmove(&b->scope[0].limit[0], &b->scope[0].limit[1], 3 * sizeof(b->scope[0].limit[0]));
	b->scope[0].limits--;
	data();
	ck_assert_int_eq(press("+"), TOP_SET);
	ck_assert_str_eq(set.target, "global");
	b->scope[0].limits--; /* it is gone: the first one is selected, not its neighbour */
	data();
	draw(24, 80);
	find(24, "> data.each.iops");
	down();
}
END_TEST

static void remove_first_limit(void)
{
	memmove(&b->scope[0].limit[0], &b->scope[0].limit[1], 3 * sizeof(b->scope[0].limit[0]));
	b->scope[0].limits--;
	data();
}

START_TEST(a_value_is_not_set_if_its_limit_is_gone_when_it_has_been_typed)
{
	up();
	press("=10"); /* data/backup.write_bps, selected from the start */
	remove_first_limit();
	draw(24, 80);
	find(24, "new value of data/backup.write_bps: 10_");
	ck_assert_int_eq(press("\n"), TOP_REDRAW);
	ck_assert_int_eq(v.mode, TOP_WATCH);
	draw(24, 80);
	find(24, "nothing was changed: data/backup.write_bps is gone");
	find(24, "> data.each.iops");
	ck_assert_int_eq(press("=10\n"), TOP_SET); /* now for the one that the screen shows */
	ck_assert_str_eq(set.option, "each.iops");
	down();
}
END_TEST

START_TEST(plus_and_minus_do_nothing_once_if_the_selected_limit_is_gone)
{
	up();
	remove_first_limit();
	ck_assert_int_eq(press("+"), TOP_REDRAW);
	ck_assert_ptr_nonnull(strstr(v.message, "data/backup.write_bps is gone"));
	ck_assert_int_eq(press("-"), TOP_SET);
	ck_assert_str_eq(set.option, "each.iops");
	remove_first_limit();
	ck_assert_int_eq(press("="), TOP_REDRAW);
	ck_assert_int_eq(v.mode, TOP_WATCH);
	down();
}
END_TEST

/* The same limit of a daemon that was restarted, for example. */
START_TEST(a_limit_of_the_same_name_in_another_daemon_is_another_one)
{
	up();
	press("=10");
	for (unsigned i = 0; i < b->scopes; i++)
		b->scope[i].daemon = PID + 1;
	data();
	ck_assert_int_eq(press("\n"), TOP_REDRAW);
	ck_assert_ptr_nonnull(strstr(v.message, "nothing was changed"));
	down();
}
END_TEST

START_TEST(a_limit_that_was_turned_off_stays_selected_and_can_be_set_again)
{
	up();
	press("j"); /* data.each.iops */
	ck_assert_int_eq(press("=off\n"), TOP_SET);
	ck_assert_str_eq(set.option, "each.iops");
	ck_assert_str_eq(set.value, "off");
	memmove(&b->scope[0].limit[1], &b->scope[0].limit[2], 2 * sizeof(b->scope[0].limit[0]));
	b->scope[0].limits--;
	data();
	draw(24, 80);
	ck_assert_ptr_nonnull(strstr(line[find(24, "> data.each.iops")].text, " off "));
	ck_assert_int_eq(press("+"), TOP_REDRAW); /* a tenth of what? */
	ck_assert_ptr_nonnull(strstr(v.message, "is off; '=' sets a value"));
	ck_assert_int_eq(press("-"), TOP_REDRAW);
	data();
	ck_assert_int_eq(press("=70\n"), TOP_SET);
	ck_assert_str_eq(set.target, "data");
	ck_assert_str_eq(set.option, "each.iops");
	ck_assert_str_eq(set.value, "70");
	data();
	press("j"); /* once it is not selected any more, it has no row */
	data();
	draw(24, 80);
	find(24, "> data.max_inflight");
	for (unsigned i = 0; i < 24; i++)
		ck_assert_ptr_null(strstr(line[i].text, "data.each.iops  "));
	down();
}
END_TEST

/* A limit of a mount and its fs is shown once, where it is set. */
START_TEST(space_of_an_fs_is_not_shown_again_for_its_mounts)
{
	up();
	json_t *fs = scope_answer("fs", "disk", &second);
	json_object_set_new(fs, "space",
			    json_pack("{s:i,s:i,s:i,s:i,s:s}", "size", 4096, "used", 4096, "inodes",
				      10, "inodes_used", 3, "state", "counting"));
	add_answer(b, fs);
	snapshot_find(b, PID, "mount", "data");
	b->scope[0].fs = "disk";
	data();
	draw(24, 80);
	ck_assert_str_eq(
		line[8].text,
		"  fs:disk.size            [##################]    4.0K    4.0K  counts        0");
	ck_assert_str_eq(
		line[9].text,
		"  fs:disk.inodes          [#####.............]       3      10  counts        0");
	ck_assert_int_eq(line[8].style, STYLE_HOT);
	ck_assert_ptr_nonnull(strstr(line[10].text, "USER"));
	down();
}
END_TEST

static void with_pool(const char *mode, const char *error, unsigned lost_ms)
{
	json_t *global = scope_answer("global", "global", &second);
	json_object_set_new(global, "pools", pool_answer(mode, error, lost_ms));
	add_answer(b, global);
	data();
}

START_TEST(a_pool_shows_what_is_granted_here_and_who_takes_part)
{
	up();
	with_pool("leased", "", 0);
	draw(30, 80);
	unsigned at = find(30, "  POOL ");
	ck_assert_str_eq(
		line[at].text,
		"  POOL                    GRANTED               HERE/S  POOL/S  WANTED      AGE");
	ck_assert_str_eq(
		line[at + 1].text,
		"  pool:farm.bps           [#####.............]   25.0M    100M     all    120ms");
	ck_assert_str_eq(
		line[at + 2].text,
		"    alpha                 [#####.............]   25.0M                     80ms");
	ck_assert_str_eq(
		line[at + 3].text,
		"    beta, weight 4        [##############....]   75.0M                     90ms");
	ck_assert_str_eq(line[at + 4].text, "      and 1 more members");
	press("jjjjj");
	ck_assert_int_eq(press("+"), TOP_SET);
	ck_assert_str_eq(set.target, "pool:farm");
	ck_assert_str_eq(set.option, "bps");
	ck_assert_str_eq(set.value, "110M");
	down();
}
END_TEST

START_TEST(a_lost_pool_says_since_when_why_and_what_happens_meanwhile)
{
	up();
	with_pool("share", "connection refused", 3500);
	draw(30, 80);
	unsigned at = find(30, "LOST");
	ck_assert_str_eq(line[at].text,
			 "    pool:farm LOST for 3.5s: an equal share; connection refused");
	ck_assert_int_eq(line[at].style, STYLE_HOT);
	down();
}
END_TEST

UNIT_MAIN("top", a_terminal_of_80_by_24_shows_limits_and_keys, a_wider_terminal_shows_more_columns,
	  keys_of_all_kinds_say_who_they_are, any_size_of_a_terminal_is_drawn,
	  limits_of_a_mount_with_a_long_name_can_be_told_apart,
	  limits_leave_room_for_keys_and_the_selected_one_is_seen, keys_are_sorted_and_filtered,
	  plus_and_minus_change_the_selected_limit_by_a_tenth, minus_never_reaches_zero,
	  a_value_is_typed_and_may_be_given_up, q_quits_but_can_be_typed,
	  without_any_limit_nothing_is_changed,
	  the_selected_limit_stays_selected_when_others_come_and_go,
	  a_value_is_not_set_if_its_limit_is_gone_when_it_has_been_typed,
	  plus_and_minus_do_nothing_once_if_the_selected_limit_is_gone,
	  a_limit_of_the_same_name_in_another_daemon_is_another_one,
	  a_limit_that_was_turned_off_stays_selected_and_can_be_set_again,
	  space_of_an_fs_is_not_shown_again_for_its_mounts,
	  a_pool_shows_what_is_granted_here_and_who_takes_part,
	  a_lost_pool_says_since_when_why_and_what_happens_meanwhile)
