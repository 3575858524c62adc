/* SPDX-License-Identifier: MIT */
/* Walking a tree, the map of a file, and the file that keeps a total. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/space_map.h"
#include "fs/space_scan.h"
#include "fs/space_state.h"
#include "unit/unit.h"

static char top[64];

static int enter_new_dir(void)
{
	strcpy(top, "/tmp/ratefs-unit.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	int fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static void leave_dir(int fd)
{
	char command[100];
	close(fd);
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	ck_assert_int_eq(system(command), 0);
}

static _Atomic unsigned seen;

static int count(void *ctx, struct scan_sum *sum, int dir_fd, const char *name,
		 const struct statx *st)
{
	unsigned n = atomic_fetch_add(&seen, 1) + 1;
	sum->inodes++;
	return ctx && n >= *(unsigned *)ctx ? -ENOMEM : 0;
}

static const _Atomic bool go_on = false, stopped = true;

static int scan(int fd, const _Atomic bool *stop, unsigned *fail_at, struct scan_progress *p)
{
	seen = 0;
	return space_scan(&(struct scan_config){fd, false, stop, p, count, NULL, fail_at});
}

/* Deeper than a path can be long. */
static unsigned make_tree(int fd)
{
	unsigned n = 1;
	int dir = dup(fd);
	for (int depth = 0; depth < 60; depth++) {
		char name[201];
		memset(name, 'a' + depth % 26, 200);
		name[200] = '\0';
		for (int i = 0; i < 5; i++) {
			char file[16];
			snprintf(file, sizeof(file), "f%d", i);
			close(openat(dir, file, O_CREAT | O_WRONLY, 0600));
		}
		ck_assert_int_eq(symlinkat(".", dir, "loop"), 0);
		ck_assert_int_eq(mkdirat(dir, name, 0700), 0);
		int next = openat(dir, name, O_RDONLY | O_DIRECTORY);
		close(dir);
		dir = next;
		n += 7;
	}
	close(dir);
	return n;
}

START_TEST(a_scan_sees_every_name_once_however_deep)
{
	int fd = enter_new_dir();
	struct scan_progress p = {0};
	unsigned n = make_tree(fd);
	ck_assert_int_eq(scan(fd, &go_on, NULL, &p), 0);
	ck_assert_uint_eq(seen, n);
	ck_assert_uint_eq(p.files, n);
	ck_assert_uint_eq(p.inodes, n);
	leave_dir(fd);
}
END_TEST

START_TEST(a_scan_can_be_stopped)
{
	int fd = enter_new_dir();
	struct scan_progress p = {0};
	make_tree(fd);
	ck_assert_int_eq(scan(fd, &stopped, NULL, &p), -ECANCELED);
	leave_dir(fd);
}
END_TEST

START_TEST(a_scan_ends_with_the_error_of_its_visitor)
{
	int fd = enter_new_dir();
	struct scan_progress p = {0};
	unsigned at = 100;
	make_tree(fd);
	ck_assert_int_eq(scan(fd, &go_on, &at, &p), -ENOMEM);
	leave_dir(fd);
}
END_TEST

START_TEST(the_map_tells_which_blocks_are_missing)
{
	int dir = enter_new_dir();
	int fd = openat(dir, "f", O_CREAT | O_RDWR, 0600);
	char block[4096] = {1};
	ck_assert_int_eq(pwrite(fd, block, 4096, 4096), 4096);
	ck_assert_int_eq(pwrite(fd, block, 4096, 4 * 4096), 4096);
	ck_assert_int_eq(fsync(fd), 0);
	struct map_range all = {0, 8 * 4096, 4096, UINT64_MAX};
	ck_assert_uint_eq(map_missing(fd, &all), 6 * 4096);
	ck_assert_uint_eq(map_fitting(fd, &all, 4096), 2 * 4096);
	ck_assert_uint_eq(map_fitting(fd, &all, 3 * 4096), 5 * 4096);
	ck_assert_uint_eq(map_fitting(fd, &all, 0), 0);
	struct map_range inside = {4096 + 10, 4096 + 20, 4096, UINT64_MAX};
	ck_assert_uint_eq(map_missing(fd, &inside), 0);
	ck_assert_uint_eq(map_fitting(fd, &inside, 0), 4096 + 20);
	struct map_range across = {2 * 4096 - 1, 2 * 4096 + 1, 4096, UINT64_MAX};
	ck_assert_uint_eq(map_missing(fd, &across), 4096);
	ck_assert_uint_eq(map_fitting(fd, &across, 0), 2 * 4096);
	/* What lies beyond the cap is new, whatever the map says. */
	struct map_range capped = {4 * 4096, 6 * 4096, 4096, 4 * 4096};
	ck_assert_uint_eq(map_missing(fd, &capped), 2 * 4096);
	close(fd);
	leave_dir(dir);
}
END_TEST

START_TEST(a_total_is_believed_only_after_an_orderly_end_and_for_the_same_directory)
{
	int fd = enter_new_dir();
	char dir[100], sub[100];
	struct space_state s, second;
	struct space_total t = {12345, 67}, got;
	snprintf(dir, sizeof(dir), "%s/state/space", top);
	snprintf(sub, sizeof(sub), "%s/src", top);
	ck_assert_int_eq(mkdir(sub, 0700), 0);
	int root = open(sub, O_PATH);
	ck_assert_int_eq(state_open(&s, dir, sub, root), 0);
	ck_assert(!state_load(&s, &got));
	ck_assert_int_eq(state_save(&s, &t, false), 0);
	ck_assert(!state_load(&s, &got));
	ck_assert_int_eq(state_save(&s, &t, true), 0);
	ck_assert(state_load(&s, &got));
	ck_assert_int_eq(got.bytes, 12345);
	ck_assert_int_eq(got.inodes, 67);
	ck_assert_int_eq(state_open(&second, dir, sub, root), -EWOULDBLOCK);
	state_close(&s);
	/* Another directory of that name. */
	close(root);
	ck_assert_int_eq(rmdir(sub), 0);
	ck_assert_int_eq(mkdir(sub, 0700), 0);
	root = open(sub, O_PATH);
	ck_assert_int_eq(state_open(&s, dir, sub, root), 0);
	ck_assert(!state_load(&s, &got));
	state_close(&s);
	/* Somebody else could have written there. */
	ck_assert_int_eq(chmod(dir, 0777), 0);
	ck_assert_int_eq(state_open(&s, dir, sub, root), -EPERM);
	ck_assert(!state_load(&s, &got));
	close(root);
	leave_dir(fd);
}
END_TEST

START_TEST(an_old_total_is_gone_if_the_mount_cannot_be_noted)
{
	int fd = enter_new_dir();
	char dir[100], in_its_way[48];
	struct space_state s;
	struct space_total t = {12345, 67}, got;
	snprintf(dir, sizeof(dir), "%s/space", top);
	ck_assert_int_eq(state_open(&s, dir, top, fd), 0);
	ck_assert_int_eq(state_save(&s, &t, true), 0);
	ck_assert(state_load(&s, &got));
	snprintf(in_its_way, sizeof(in_its_way), "%s.new", s.name);
	ck_assert_int_eq(mkdirat(s.dir_fd, in_its_way, 0700), 0);
	ck_assert_int_lt(state_save(&s, &t, false), 0);
	ck_assert(!state_load(&s, &got));
	state_close(&s);
	leave_dir(fd);
}
END_TEST

static void put_total(int dir, unsigned i, time_t saved)
{
	char name[40];
	const struct timespec times[2] = {{.tv_sec = saved}, {.tv_sec = saved}};
	snprintf(name, sizeof(name), "%016x.lock", i);
	close(openat(dir, name, O_CREAT | O_WRONLY, 0600));
	name[16] = '\0';
	close(openat(dir, name, O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(utimensat(dir, name, times, 0), 0);
}

START_TEST(only_the_newest_totals_and_those_in_use_are_kept)
{
	int fd = enter_new_dir();
	char dir[100];
	struct space_state s;
	snprintf(dir, sizeof(dir), "%s/space", top);
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	int totals = open(dir, O_RDONLY | O_DIRECTORY);
	for (unsigned i = 0; i < STATE_TOTALS_MAX + 3; i++)
		put_total(totals, i, 1000 + i);
	close(openat(totals, "notes", O_CREAT | O_WRONLY, 0600));
	int used = openat(totals, "0000000000000001.lock", O_RDWR);
	ck_assert_int_eq(flock(used, LOCK_EX | LOCK_NB), 0);
	ck_assert_int_eq(state_open(&s, dir, top, fd), 0);
	ck_assert_int_lt(faccessat(totals, "0000000000000000", F_OK, 0), 0);
	ck_assert_int_lt(faccessat(totals, "0000000000000000.lock", F_OK, 0), 0);
	ck_assert_int_eq(faccessat(totals, "0000000000000001", F_OK, 0), 0);
	ck_assert_int_eq(faccessat(totals, "0000000000000001.lock", F_OK, 0), 0);
	ck_assert_int_lt(faccessat(totals, "0000000000000002", F_OK, 0), 0);
	ck_assert_int_eq(faccessat(totals, "0000000000000003", F_OK, 0), 0);
	ck_assert_int_eq(faccessat(totals, "notes", F_OK, 0), 0);
	state_close(&s);
	close(used);
	close(totals);
	leave_dir(fd);
}
END_TEST

UNIT_MAIN("space_files", a_scan_sees_every_name_once_however_deep, a_scan_can_be_stopped,
	  a_scan_ends_with_the_error_of_its_visitor, the_map_tells_which_blocks_are_missing,
	  a_total_is_believed_only_after_an_orderly_end_and_for_the_same_directory,
	  an_old_total_is_gone_if_the_mount_cannot_be_noted,
	  only_the_newest_totals_and_those_in_use_are_kept)
