/* SPDX-License-Identifier: MIT */
/* Running programs, devices, descriptors that outlive their way. */
#define _GNU_SOURCE
#include "conform.h"

#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

static int run(const char *path, const char *arg)
{
	int status;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		execl(path, path, arg, NULL);
		_exit(100 + (errno == EACCES) + 2 * (errno == ENOEXEC));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

static void copy_in(const char *from, const char *to, mode_t mode)
{
	char buf[65536];
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	for (ssize_t n; (n = read(in, buf, sizeof(buf))) > 0;)
		if (write(out, buf, (size_t)n) != n)
			trace("short write");
	fchmod(out, mode);
	close(in), close(out);
}

static void g_exec(void)
{
	copy_in("/bin/true", "true", 0755);
	copy_in("/bin/false", "false", 0711);
	trace("true %d, false %d", run("./true", NULL), run("./false", NULL));
	int fd = MUST_FD(open("script", O_CREAT | O_WRONLY | O_CLOEXEC, 0755));
	write_all(fd, "#!/bin/sh\nexit 7\n");
	close(fd);
	trace("script %d", run("./script", NULL));
	as(ALICE);
	trace("by alice: true %d, only executable %d, script %d", run("./true", NULL),
	      run("./false", NULL), run("./script", NULL));
	DENIED(EACCES, open("false", O_RDONLY | O_WRONLY));
	as(ROOT);
	MUST(chmod("true", 0600));
	trace("not executable %d", run("./true", NULL));
	MUST(chmod("true", 0100));
	as(ALICE);
	trace("not hers %d", run("./true", NULL));
	/* Just written, then run: again and again. */
	as(ROOT);
	int good = 0;
	for (int i = 0; i < 20; i++) {
		copy_in("/bin/true", "fresh", 0755);
		good += run("./fresh", NULL) == 0;
		unlink("fresh");
	}
	trace("fresh programs that ran %d", good);
}

/* The working directory and open directories follow renames and survive removal. */
static void g_standing_in(void)
{
	char cwd[8192], *p;
	MUST(mkdir("a", 0755));
	MUST(mkdir("a/b", 0755));
	MUST(chdir("a/b"));
	MUST(rename("../../a", "../../moved"));
	p = getcwd(cwd, sizeof(cwd));
	trace("cwd ends in %s", p && strlen(p) > 8 ? p + strlen(p) - 8 : "?");
	make_file("here", 0644);
	MUST(chdir("../.."));
	show("moved/b/here");
	MUST(chdir("moved/b"));
	MUST(unlink("here"));
	MUST(rmdir("../b"));
	TRY(open("x", O_CREAT | O_WRONLY, 0644));
	TRY(mkdir("x", 0755));
	trace("getcwd %s", getcwd(cwd, sizeof(cwd)) ? "works" : errno_name(errno));
	TRY(stat(".", &(struct stat){0}));
	/* ".." of a removed directory still leads up. */
	MUST(chdir(".."));
	show("b");
	MUST(chdir(".."));
}

static void g_deep_tree(void)
{
	int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), depth = 0;
	for (; depth < 300; depth++) {
		if (mkdirat(fd, "deeper-and-deeper", 0755) < 0)
			break;
		int next = openat(fd, "deeper-and-deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(openat(fd, "bottom", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	struct stat st;
	trace("depth %d, bottom %d", depth, fstatat(fd, "bottom", &st, 0));
	close(fd);
}

static void g_many_open(void)
{
	int fds[500], n = 0;
	for (; n < 500; n++) {
		char name[16] = "";
		snprintf(name, sizeof(name), "f%d", n);
		fds[n] = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
		if (fds[n] < 0 || unlink(name) < 0 || write(fds[n], name, 4) != 4)
			break;
	}
	int good = 0;
	for (int i = 0; i < n; i++) {
		char name[16] = "", back[4];
		snprintf(name, sizeof(name), "f%d", i);
		good += pread(fds[i], back, 4, 0) == 4 && memcmp(back, name, 4) == 0;
		close(fds[i]);
	}
	trace("%d open without a name, %d right", n, good);
}

static void g_same_file(void)
{
	/* Two ways to one file see each other's changes at once. */
	make_file("f", 0644);
	MUST(link("f", "g"));
	MUST(mkdir("d", 0755));
	MUST(link("f", "d/h"));
	int a = MUST_FD(open("f", O_RDWR | O_CLOEXEC)), b = MUST_FD(open("g", O_RDWR | O_CLOEXEC));
	write_all(a, "by a");
	show("g"), show("d/h");
	MUST(pwrite(b, "by b, longer", 12, 0));
	show("f");
	show_data(a);
	MUST(chmod("d/h", 0600));
	show("f");
	MUST(truncate("d/h", 2));
	show_data(a), show_data(b);
	MUST(unlink("f"));
	show("g");
	close(a), close(b);
}

/* Another filesystem is another filesystem, and a mountpoint is in use. */
static void g_borders(void)
{
	make_file("f", 0644);
	DENIED(EXDEV, link("f", "/dev/shm/conform-f"));
	DENIED(EXDEV, rename("f", "/dev/shm/conform-f"));
	MUST(mkdir("m", 0755));
	MUST(mkdir("d", 0755));
	if (MUST(mount("tmpfs", "m", "tmpfs", 0, NULL)) < 0)
		return;
	DENIED(EBUSY, rmdir("m"));
	DENIED(EBUSY, rename("m", "n"));
	DENIED(EBUSY, rename("d", "m"));
	DENIED(EXDEV, rename("f", "m/f"));
	DENIED(EXDEV, link("f", "m/f"));
	MUST(chmod("m", 0700));
	MUST(umount2("m", 0));
	show("m");
	MUST(rename("m", "n"));
	MUST(rmdir("n"));
}

/* What NFS servers and backup programs do. */
static void g_by_handle(void)
{
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} u = {.h = {.handle_bytes = MAX_HANDLE_SZ}};
	int mount_id, there = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = MUST_FD(open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0644));
	write_all(fd, "by handle");
	close(fd);
	MUST(name_to_handle_at(AT_FDCWD, "f", &u.h, &mount_id, 0));
	MUST(rename("f", "g"));
	fd = MUST_FD(open_by_handle_at(there, &u.h, O_RDWR | O_CLOEXEC));
	show_data(fd);
	write_all(fd, "BY");
	close(fd);
	show("g");
	MUST(unlink("g"));
	DENIED(ESTALE, open_by_handle_at(there, &u.h, O_RDONLY | O_CLOEXEC));
	u.h.handle_bytes = MAX_HANDLE_SZ;
	MUST(mkdir("d", 0755));
	MUST(name_to_handle_at(AT_FDCWD, "d", &u.h, &mount_id, 0));
	fd = MUST_FD(open_by_handle_at(there, &u.h, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	MUST(mkdirat(fd, "in", 0755));
	show("d/in");
	close(fd);
	close(there);
}

const struct topic topics_special[] = {
	{"borders", g_borders, false},	   {"by_handle", g_by_handle, false},
	{"exec", g_exec, false},	   {"standing_in", g_standing_in, false},
	{"deep_tree", g_deep_tree, false}, {"many_open", g_many_open, false},
	{"same_file", g_same_file, false}, {0},
};
