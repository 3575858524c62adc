/* SPDX-License-Identifier: MIT */
/* Listing directories, also while they change; notification of changes. */
#define _GNU_SOURCE
#include "conform.h"

#include <dirent.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/sysmacros.h>

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names with types, in order of names; nothing twice. */
static void list(const char *path)
{
	static char *names[20000];
	size_t n = 0, twice = 0;
	DIR *d = opendir(path);
	if (!d) {
		trace("%s: %s", path, errno_name(errno));
		return;
	}
	for (struct dirent *e; (e = readdir(d)) && n < 20000;) {
		char text[300];
		snprintf(text, sizeof(text), "%s/%d", e->d_name, e->d_type);
		names[n++] = strdup(text);
	}
	closedir(d);
	qsort(names, n, sizeof(names[0]), by_name);
	for (size_t i = 1; i < n; i++)
		twice += strcmp(names[i], names[i - 1]) == 0;
	trace("%s: %zu names, %zu twice", path, n, twice);
	for (size_t i = 0; i < n; i++) {
		if (n < 30)
			trace("  %s", names[i]);
		free(names[i]);
	}
}

static void g_listing(void)
{
	MUST(mkdir("empty", 0755));
	list("empty");
	make_owned("file", S_IFREG | 0644, 0, 0);
	make_owned("fifo", S_IFIFO | 0644, 0, 0);
	make_owned("sock", S_IFSOCK | 0644, 0, 0);
	make_owned("char", S_IFCHR | 0644, 0, 0);
	make_owned("block", S_IFBLK | 0644, 0, 0);
	make_owned("link", S_IFLNK, 0, 0);
	make_file(".hidden", 0);
	list(".");
	list("file");
	list("none");
	make_owned("closed", S_IFDIR | 0311, ALICE, ALICE);
	make_owned("shut", S_IFDIR | 0444, ALICE, ALICE);
	make_file("shut/in", 0644);
	as(ALICE);
	list("closed");
	list("shut");
	DENIED(EACCES, open("shut/in", O_RDONLY));
}

/* d_ino is the inode that stat shows, also of "." and "..". */
static void g_inode_numbers(void)
{
	MUST(mkdir("d", 0755));
	make_file("d/f", 0644);
	MUST(mkdir("d/s", 0755));
	struct stat st;
	int wrong = 0, n = 0;
	DIR *d = opendir("d");
	for (struct dirent *e; (e = readdir(d)); n++)
		wrong += fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
			 st.st_ino != e->d_ino;
	closedir(d);
	trace("%d entries, %d wrong", n, wrong);
}

static void g_big_directory(void)
{
	char name[64];
	MUST(mkdir("d", 0755));
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "d/a-rather-long-name-%d", i);
		int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
		close(fd);
	}
	list("d");
	/* telldir and seekdir: the same names follow again. */
	DIR *d = opendir("d");
	long at = 0, wrong = 0;
	char after[300] = "";
	for (int i = 0; i < 3000; i++)
		readdir(d);
	at = telldir(d);
	snprintf(after, sizeof(after), "%s", readdir(d)->d_name);
	for (int i = 0; i < 1000; i++)
		readdir(d);
	seekdir(d, at);
	wrong += strcmp(after, readdir(d)->d_name) != 0;
	rewinddir(d);
	int n = 0;
	while (readdir(d))
		n++;
	closedir(d);
	trace("%ld wrong after seekdir, %d names after rewind", wrong, n);
}

/* rm -r: removing while reading must reach every name; what stays is seen exactly once. */
static void g_changing_directory(void)
{
	char name[64];
	MUST(mkdir("d", 0755));
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "d/%s%d", i % 3 ? "go" : "stay", i);
		int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
		close(fd);
	}
	int stays = 0, removed = 0, made = 0;
	DIR *d = opendir("d");
	for (struct dirent *e; (e = readdir(d));) {
		if (strncmp(e->d_name, "go", 2) == 0)
			removed += unlinkat(dirfd(d), e->d_name, 0) == 0;
		stays += strncmp(e->d_name, "stay", 4) == 0;
		if (made < 100) {
			snprintf(name, sizeof(name), "new%d", made++);
			close(openat(dirfd(d), name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
		}
	}
	closedir(d);
	trace("removed %d, stayed %d", removed, stays);
	list("d");
	/* A handle that was opened before sees what is there after rewinding. */
	MUST(mkdir("e", 0755));
	d = opendir("e");
	while (readdir(d))
		;
	make_file("e/later", 0644);
	rewinddir(d);
	int n = 0;
	while (readdir(d))
		n++;
	closedir(d);
	trace("%d after rewind", n);
}

static void show_events(int fd)
{
	char buf[8192] __attribute__((aligned(8)));
	struct pollfd p = {fd, POLLIN, 0};
	while (poll(&p, 1, 50) > 0) {
		ssize_t n = read(fd, buf, sizeof(buf));
		for (char *at = buf; at < buf + n;) {
			struct inotify_event *e = (struct inotify_event *)at;
			trace("event %x %s", e->mask, e->len ? e->name : "");
			at += sizeof(*e) + e->len;
		}
	}
}

static void g_inotify(void)
{
	MUST(mkdir("d", 0755));
	int in = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	MUST(inotify_add_watch(in, "d", IN_ALL_EVENTS & ~IN_ACCESS));
	int fd = open("d/f", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	write_all(fd, "x");
	close(fd);
	MUST(chmod("d/f", 0600));
	MUST(rename("d/f", "d/g"));
	MUST(link("d/g", "d/h"));
	MUST(mkdir("d/s", 0755));
	MUST(rmdir("d/s"));
	MUST(unlink("d/g"));
	MUST(truncate("d/h", 0));
	MUST(rename("d/h", "out"));
	show_events(in);
	MUST(unlink("out"));
	MUST(rmdir("d"));
	show_events(in);
	close(in);
}

const struct topic topics_dirs[] = {
	{"listing", g_listing, false},
	{"inode_numbers", g_inode_numbers, false},
	{"big_directory", g_big_directory, false},
	{"changing_directory", g_changing_directory, false},
	{"inotify", g_inotify, false},
	{0},
};
