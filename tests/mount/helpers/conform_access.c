/* SPDX-License-Identifier: MIT */
/* Who may open what, and with which flags. */
#define _GNU_SOURCE
#include "conform.h"

#include <sys/wait.h>
#include <sys/xattr.h>

/* Each permission triple for owner, group and others, against each way to open. */
static void g_open_rights(void)
{
	static const int ways[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC,
				   O_WRONLY | O_APPEND};
	static const uid_t users[] = {ALICE, BOB, CAROL, ROOT};
	make_owned("f", S_IFREG | 0600, ALICE, CREW);
	make_owned("d", S_IFDIR | 0700, ALICE, CREW);
	for (mode_t bits = 0; bits < 8; bits++) {
		for (int who = 0; who < 3; who++) {
			mode_t mode =
				(mode_t)(bits << (6 - 3 * who)) | (0777 & ~(07 << (6 - 3 * who)));
			chmod("f", mode);
			chmod("d", mode);
			for (int u = 0; u < 4; u++) {
				char line[200], *p = line;
				as(users[u]);
				for (int w = 0; w < 5; w++) {
					int fd = open("f", ways[w] | O_CLOEXEC);
					p += sprintf(p, " %s", fd < 0 ? errno_name(errno) : "ok");
					if (fd >= 0)
						close(fd);
				}
				for (int a = 0; a < 8; a++)
					p += sprintf(p, "%c", access("f", a) ? '-' : '+');
				p += sprintf(p, " ");
				for (int a = 0; a < 8; a++)
					p += sprintf(p, "%c",
						     faccessat(AT_FDCWD, "d", a, AT_EACCESS) ? '-'
											     : '+');
				trace("%04o by %u:%s", mode, users[u], line);
				as(ROOT);
			}
		}
	}
}

static void g_open_create(void)
{
	static const mode_t modes[] = {0, 0444, 0200, 0644, 0755, 01777, 02777, 04777, 07777};
	static const mode_t masks[] = {0, 022, 077, 0777};
	struct stat st;
	make_owned("d", S_IFDIR | 0777, ROOT, ROOT);
	as(ALICE);
	for (size_t m = 0; m < 9; m++) {
		for (size_t k = 0; k < 4; k++) {
			umask(masks[k]);
			trace("mode %04o umask %04o", modes[m], masks[k]);
			/* The new file may be written by its maker whatever its mode. */
			int fd = MUST_FD(open("d/n", O_CREAT | O_RDWR | O_CLOEXEC, modes[m]));
			show("d/n");
			MUST(write(fd, "abc", 3));
			MUST(ftruncate(fd, 2));
			MUST(fstat(fd, &st));
			MUST(pread(fd, &st, 2, 0));
			close(fd);
			MUST(unlink("d/n"));
		}
	}
	umask(022);
	DENIED(ENOENT, open("d/n", O_RDONLY));
	make_file("d/n", 0644);
	DENIED(EEXIST, open("d/n", O_CREAT | O_EXCL | O_RDWR, 0644));
	MUST(symlink("none", "d/dangling"));
	DENIED(EEXIST, open("d/dangling", O_CREAT | O_EXCL | O_RDWR, 0644));
	close(MUST_FD(open("d/dangling", O_CREAT | O_RDWR, 0644)));
	show("d/none");
	DENIED(EISDIR, open("d", O_CREAT | O_RDWR, 0644));
	DENIED(EISDIR, open("d", O_WRONLY));
	DENIED(EISDIR, open("d", O_RDWR));
	DENIED(ENOTDIR, open("d/n", O_RDONLY | O_DIRECTORY));
	TRY(open("d/new", O_CREAT | O_DIRECTORY | O_RDONLY, 0644));
	TRY(open("d/trailing/", O_CREAT | O_RDWR, 0644));
	as(ROOT);
	MUST(chmod("d", 0755));
	as(ALICE);
	DENIED(EACCES, open("d/x", O_CREAT | O_RDWR, 0644));
	close(MUST_FD(open("d/n", O_CREAT | O_RDWR, 0644)));
}

static void g_open_flags(void)
{
	char buf[16];
	int fd = MUST_FD(open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0644));
	write_all(fd, "0123456789");
	close(fd);
	fd = MUST_FD(open("f", O_RDONLY | O_CLOEXEC));
	DENIED(EBADF, write(fd, "x", 1));
	DENIED(EINVAL, ftruncate(fd, 0));
	DENIED(EBADF, fallocate(fd, 0, 0, 1));
	close(fd);
	fd = MUST_FD(open("f", O_WRONLY | O_CLOEXEC));
	DENIED(EBADF, read(fd, buf, 1));
	close(fd);
	CHANGES("cm", "f", close(open("f", O_WRONLY | O_TRUNC | O_CLOEXEC)));
	show("f");
	fd = MUST_FD(open("f", O_WRONLY | O_APPEND | O_CLOEXEC));
	trace("flags %o", fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
	MUST(pwrite(fd, "abc", 3, 0)); /* Linux: appends all the same */
	MUST(pwrite(fd, "def", 3, 0));
	trace("at %ld", (long)lseek(fd, 0, SEEK_CUR));
	close(fd);
	fd = MUST_FD(open("f", O_RDONLY | O_NOATIME | O_CLOEXEC));
	show_data(fd);
	close(fd);
	fd = MUST_FD(open("f", O_RDWR | O_SYNC | O_CLOEXEC));
	MUST(write(fd, "s", 1));
	close(fd);
	fd = MUST_FD(open("f", O_RDWR | O_DSYNC | O_NONBLOCK | O_CLOEXEC));
	MUST(write(fd, "t", 1));
	close(fd);
	fd = MUST_FD(open("f", O_PATH | O_CLOEXEC));
	DENIED(EBADF, read(fd, buf, 1));
	close(fd);
	MUST(symlink("f", "l"));
	fd = MUST_FD(open("l", O_PATH | O_NOFOLLOW | O_CLOEXEC));
	MUST(readlinkat(fd, "", buf, sizeof(buf)));
	close(fd);
	MUST(chown("f", ALICE, ALICE));
	MUST(chmod("f", 0666));
	as(BOB);
	DENIED(EPERM, open("f", O_RDONLY | O_NOATIME));
	as(ALICE);
	close(MUST_FD(open("f", O_RDONLY | O_NOATIME)));
}

/* O_APPEND can be taken back.  Not run with kernel passthrough: there the kernel goes on appending,
 * since it opens the backing file with the flags of the open (fs/fuse/passthrough.c). */
static void g_append_cleared(void)
{
	int fd = MUST_FD(open("f", O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0644));
	MUST(pwrite(fd, "abcdef", 6, 0));
	MUST(fcntl(fd, F_SETFL, 0));
	MUST(pwrite(fd, "G", 1, 0));
	show_data(fd);
	MUST(fcntl(fd, F_SETFL, O_APPEND));
	MUST(pwrite(fd, "H", 1, 0));
	show_data(fd);
	close(fd);
	MUST(unlink("f"));
}

/* What an open file allows was decided when it was opened. */
static void g_rights_of_open_files(void)
{
	char buf[16];
	make_owned("f", S_IFREG | 0644, ALICE, ALICE);
	as(ALICE);
	int fd = MUST_FD(open("f", O_RDWR | O_CLOEXEC));
	int ro = MUST_FD(open("f", O_RDONLY | O_CLOEXEC));
	MUST(chmod("f", 0));
	MUST(write(fd, "hello", 5));
	MUST(pread(ro, buf, 5, 0));
	MUST(ftruncate(fd, 3));
	MUST(fchmod(fd, 0400));
	MUST(futimens(fd, NULL));
	MUST(fsync(fd));
	MUST(fallocate(fd, 0, 0, 10));
	show("f");
	as(ROOT);
	MUST(chown("f", BOB, BOB));
	as(ALICE);
	MUST(write(fd, "again", 5));
	MUST(ftruncate(fd, 4));
	MUST(pread(ro, buf, 4, 0));
	DENIED(EPERM, fchmod(fd, 0777));
	DENIED(EACCES, open("f", O_RDONLY));
	DENIED(EACCES, truncate("f", 1));
	close(fd), close(ro);
	show("f");
}

/* A running program is not written to, a file open for writing is not run. */
static void g_text_busy(void)
{
	char path[4096];
	int in = open("/bin/sleep", O_RDONLY | O_CLOEXEC), status;
	int out = MUST_FD(open("prog", O_CREAT | O_WRONLY | O_CLOEXEC, 0755));
	for (ssize_t n; (n = read(in, path, sizeof(path))) > 0;)
		if (write(out, path, (size_t)n) != n)
			trace("short write");
	close(in);
	pid_t pid = fork();
	if (pid == 0) {
		execl("./prog", "prog", "0", NULL);
		_exit(errno == ETXTBSY ? 42 : 43);
	}
	waitpid(pid, &status, 0);
	trace("while open for writing: exit %d", WEXITSTATUS(status));
	close(out);
	pid = fork();
	if (pid == 0) {
		execl("./prog", "prog", "5", NULL);
		_exit(43);
	}
	for (int i = 0; i < 200; i++) { /* until it runs */
		char exe[64], name[64] = "";
		snprintf(exe, sizeof(exe), "/proc/%d/comm", pid);
		int fd = open(exe, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, name, sizeof(name) - 1) > 0 &&
		    strncmp(name, "prog", 4) == 0)
			i = 200;
		close(fd);
		usleep(5000);
	}
	DENIED(ETXTBSY, open("prog", O_WRONLY));
	DENIED(ETXTBSY, open("prog", O_RDWR | O_TRUNC));
	DENIED(ETXTBSY, truncate("prog", 1));
	MUST(chmod("prog", 0700));
	MUST(rename("prog", "moved"));
	kill(pid, 9);
	waitpid(pid, &status, 0);
	trace("ended by %d", WTERMSIG(status));
	close(MUST_FD(open("moved", O_WRONLY)));
	MUST(chmod("moved", 0644));
	DENIED(EACCES, execl("./moved", "moved", "0", NULL));
}

static void g_symlink_rights(void)
{
	/* The link's own mode means nothing, the way to the target does. */
	make_owned("d", S_IFDIR | 0700, ALICE, ALICE);
	make_owned("d/f", S_IFREG | 0666, ALICE, ALICE);
	MUST(symlink("d/f", "l"));
	as(BOB);
	DENIED(EACCES, open("l", O_RDONLY));
	DENIED(EACCES, stat("l", &(struct stat){0}));
	MUST(lstat("l", &(struct stat){0}));
	as(ALICE);
	close(MUST_FD(open("l", O_RDWR)));
	DENIED(EPERM, lchown("l", ALICE, ALICE));
}

/* Execute permission of directories: root needs none, of files: root needs one. */
static void g_root_rights(void)
{
	make_owned("f", S_IFREG | 0, ALICE, ALICE);
	make_owned("d", S_IFDIR | 0, ALICE, ALICE);
	MUST(access("f", R_OK | W_OK));
	DENIED(EACCES, access("f", X_OK));
	MUST(access("d", R_OK | W_OK | X_OK));
	MUST(mkdir("d/x", 0755));
	close(MUST_FD(open("f", O_RDWR)));
	MUST(chmod("f", 0001));
	MUST(access("f", X_OK));
}

const struct topic topics_access[] = {
	{"open_rights", g_open_rights, false},
	{"open_create", g_open_create, false},
	{"open_flags", g_open_flags, false},
	{"rights_of_open_files", g_rights_of_open_files, false},
	{"text_busy", g_text_busy, false},
	{"symlink_rights", g_symlink_rights, false},
	{"append_cleared", g_append_cleared, true},
	{"root_rights", g_root_rights, false},
	{0},
};
