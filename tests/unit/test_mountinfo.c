/* SPDX-License-Identifier: MIT */
#include "ctl/locate.h"
#include "base/mount_users.h"
#include "base/mountinfo.h"
#include "unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static struct mountinfo m;

static void parse(const char *text)
{
	int fd = memfd_create("mountinfo", 0);
	char path[40];
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ck_assert(mountinfo_read(&m, path));
	close(fd);
}

START_TEST(a_path_lies_on_the_deepest_mount_and_of_several_on_the_last)
{
	parse("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
	      "2 1 0:50 / /mnt/a rw,nosuid shared:7 - fuse.ratefs /srv rw\n"
	      "3 1 0:51 / /mnt/a\\040b rw - tmpfs none rw\n"
	      "4 2 0:52 / /mnt/a rw - fuse.other x rw\n"
	      "not a mount\n");
	ck_assert_uint_eq(m.n, 4);
	ck_assert_uint_eq(mountinfo_of(&m, "/mnt/ab/c")->id, 1);
	ck_assert_uint_eq(mountinfo_of(&m, "/mnt/a/c")->id, 4);
	ck_assert_uint_eq(mountinfo_of(&m, "/mnt/a b")->id, 3);
	ck_assert_str_eq(mountinfo_of(&m, "/mnt/a")->type, "fuse.other");
	ck_assert_str_eq(mountinfo_by_id(&m, 2)->type, "fuse.ratefs");
	ck_assert_uint_eq(mountinfo_device(&m, "/mnt/a b/x"), makedev(0, 51));
	dev_t device;
	ck_assert(!mountinfo_find(&m, "/mnt/a/c", &device));
	ck_assert(mountinfo_find(&m, "/mnt/a", &device));
	ck_assert_uint_eq(device, makedev(0, 52));
	mountinfo_free(&m);
}
END_TEST

static void located(const char *path, const char *as)
{
	char *found = locate_path(path);
	ck_assert_str_eq(found, as);
	free(found);
}

START_TEST(a_path_is_located_without_dots_and_links)
{
	char dir[] = "/tmp/ratefs-unit.XXXXXX", link[64], inside[64];
	located("/", "/");
	located("/proc/./sys/..//sys/", "/proc/sys");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(link, sizeof(link), "%s/link", dir);
	snprintf(inside, sizeof(inside), "%s/link/nothing/x", dir);
	ck_assert_int_eq(symlink("../../proc/sys", link), 0);
	located(link, "/proc/sys");
	located(inside, "/proc/sys/nothing/x");
	ck_assert_int_eq(unlink(link), 0);
	ck_assert_int_eq(symlink(link, link), 0);
	ck_assert_ptr_null(locate_path(link)); /* a loop */
	unlink(link);
	rmdir(dir);
	char *where = locate_mountpoint("/proc/sys/kernel");
	ck_assert_ptr_nonnull(where);
	free(where);
}
END_TEST

static pid_t child(void (*prepare)(void))
{
	int ready[2];
	char byte;
	ck_assert_int_eq(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		prepare();
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(0);
	}
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void be_there(void)
{
	if (chdir("/proc") < 0 || open("/proc/self/status", O_RDONLY) < 0 ||
	    open("/proc/uptime", O_RDONLY) < 0)
		_exit(1);
}

static void be_elsewhere(void)
{
	if (chdir("/") < 0)
		_exit(1);
}

static const struct mount_user *find(const struct mount_users *u, pid_t pid)
{
	for (unsigned i = 0; i < u->n; i++)
		if (u->user[i].pid == pid)
			return &u->user[i];
	return NULL;
}

START_TEST(a_mount_is_used_by_who_has_a_directory_or_files_there)
{
	struct mount_users users;
	dev_t device;
	ck_assert(!mount_device("/proc/self", &device));
	if (!mount_device("/proc", &device))
		return;
	pid_t there = child(be_there), elsewhere = child(be_elsewhere);
	ck_assert(mount_users_find(&users, device));
	const struct mount_user *u = find(&users, there);
	ck_assert_ptr_nonnull(u);
	ck_assert(u->cwd && !u->root);
	ck_assert_uint_eq(u->files, 2);
	ck_assert_uint_eq(u->mapped, 0);
	ck_assert_uint_eq(u->uid, getuid());
	ck_assert_str_ne(u->name, "");
	ck_assert_ptr_null(find(&users, elsewhere));
	ck_assert_ptr_null(find(&users, getpid()));
	mount_users_free(&users);
	kill(there, SIGKILL);
	kill(elsewhere, SIGKILL);
	waitpid(there, NULL, 0);
	waitpid(elsewhere, NULL, 0);
}
END_TEST

UNIT_MAIN("mountinfo", a_path_lies_on_the_deepest_mount_and_of_several_on_the_last,
	  a_path_is_located_without_dots_and_links,
	  a_mount_is_used_by_who_has_a_directory_or_files_there)
