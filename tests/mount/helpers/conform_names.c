/* SPDX-License-Identifier: MIT */
/* Making, naming and removing things. */
#define _GNU_SOURCE
#include "conform.h"

#include <stdlib.h>
#include <sys/sysmacros.h>
#include <sys/socket.h>
#include <sys/un.h>

static void g_mkdir(void)
{
	MUST(mkdir("d", 0755));
	show("d");
	DENIED(EEXIST, mkdir("d", 0755));
	static const mode_t modes[] = {0, 0151, 0700, 01777, 02755, 04755, 07777};
	static const mode_t masks[] = {0, 022, 077, 0777};
	for (size_t i = 0; i < 7; i++) {
		for (size_t j = 0; j < 4; j++) {
			umask(masks[j]);
			trace("mode %04o umask %04o", modes[i], masks[j]);
			MUST(mkdir("m", modes[i]));
			show("m");
			MUST(rmdir("m"));
		}
	}
	umask(022);
	MUST(mkdir("d/e", 0755));
	show("d");
	make_file("f", 0644);
	DENIED(EEXIST, mkdir("f", 0755));
	MUST(symlink("nowhere", "l"));
	DENIED(EEXIST, mkdir("l", 0755));
	MUST(mkdir("trailing/", 0755));
	DENIED(EEXIST, mkdir(".", 0755));
	DENIED(EEXIST, mkdir("d/..", 0755));
	/* In a directory of alice: hers. */
	make_owned("a", S_IFDIR | 0755, ALICE, ALICE);
	as(ALICE);
	MUST(mkdir("a/mine", 0755));
	show("a/mine");
	as(BOB);
	DENIED(EACCES, mkdir("a/his", 0755));
}

static void g_rmdir(void)
{
	MUST(mkdir("d", 0755));
	MUST(mkdir("d/e", 0755));
	DENIED(ENOTEMPTY, rmdir("d"));
	MUST(rmdir("d/e"));
	show("d");
	MUST(rmdir("d"));
	show("d");
	make_file("f", 0644);
	DENIED(ENOTDIR, rmdir("f"));
	MUST(mkdir("x", 0755));
	MUST(symlink("x", "l"));
	DENIED(ENOTDIR, rmdir("l"));
	DENIED(EINVAL, rmdir("x/."));
	MUST(mkdir("x/y", 0755));
	DENIED(ENOTEMPTY, rmdir("x/y/.."));
	MUST(rmdir("x/y/"));
	/* Open, removed, still there for its holder; nothing new in it. */
	int fd = MUST_FD(open("x", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	MUST(rmdir("x"));
	struct stat st;
	MUST(fstat(fd, &st));
	trace("links of the removed %lu", (unsigned long)st.st_nlink);
	DENIED(ENOENT, mkdirat(fd, "z", 0755));
	DENIED(ENOENT, openat(fd, "z", O_CREAT | O_WRONLY, 0644));
	close(fd);
}

static void node(const char *name, mode_t type, dev_t dev)
{
	static const mode_t modes[] = {0, 0151, 0644, 0777, 04755, 02755, 01777};
	for (size_t i = 0; i < 7; i++) {
		umask(i % 2 ? 022 : 077);
		trace("%s mode %04o", name, modes[i]);
		MUST(mknod("n", type | modes[i], dev));
		show("n");
		DENIED(EEXIST, mknod("n", type | modes[i], dev));
		MUST(unlink("n"));
	}
	umask(022);
}

static void g_mknod(void)
{
	node("fifo", S_IFIFO, 0);
	node("socket", S_IFSOCK, 0);
	node("file", S_IFREG, 0);
	node("char", S_IFCHR, makedev(1, 3));
	node("block", S_IFBLK, makedev(7, 251));
	node("large char", S_IFCHR, makedev(4000, 1000000));
	node("whiteout", S_IFCHR, makedev(0, 0));
	TRY(mknod("n", S_IFDIR | 0755, 0));
	make_owned("a", S_IFDIR | 0777, ALICE, ALICE);
	as(BOB);
	DENIED(EPERM, mknod("a/c", S_IFCHR | 0644, makedev(1, 3)));
	DENIED(EPERM, mknod("a/b", S_IFBLK | 0644, makedev(1, 3)));
	MUST(mknod("a/p", S_IFIFO | 0644, 0));
	MUST(mknod("a/f", S_IFREG | 0644, 0));
	show("a/p");
	show("a/f");
	TRY(mknod("a/whiteout", S_IFCHR | 0644, makedev(0, 0)));
}

static void g_fifo(void)
{
	MUST(mkfifo("p", 0644));
	show("p");
	DENIED(ENXIO, open("p", O_WRONLY | O_NONBLOCK));
	int r = MUST_FD(open("p", O_RDONLY | O_NONBLOCK));
	int w = MUST_FD(open("p", O_WRONLY | O_NONBLOCK));
	char buf[8] = "";
	DENIED(EAGAIN, read(r, buf, sizeof(buf)));
	MUST(write(w, "hello", 5));
	MUST(read(r, buf, sizeof(buf)));
	DENIED(ESPIPE, lseek(r, 0, SEEK_SET));
	close(w);
	MUST(read(r, buf, sizeof(buf)));
	close(r);
	CHANGES("cm", ".", mkfifo("q", 0600));
	CHANGES("c", "q", chmod("q", 0644));
	MUST(unlink("p"));
	MUST(unlink("q"));
}

static void g_socket(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "s"};
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int c = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	MUST(bind(s, (struct sockaddr *)&a, sizeof(a)));
	show("s");
	DENIED(ENXIO, open("s", O_RDONLY));
	MUST(listen(s, 1));
	MUST(connect(c, (struct sockaddr *)&a, sizeof(a)));
	MUST(write(c, "x", 1));
	int d = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	DENIED(EADDRINUSE, bind(d, (struct sockaddr *)&a, sizeof(a)));
	MUST(unlink("s"));
	DENIED(ENOENT, connect(d, (struct sockaddr *)&a, sizeof(a)));
	close(s), close(c), close(d);
}

static void show_link(const char *path)
{
	char buf[5000];
	ssize_t n = readlink(path, buf, sizeof(buf));
	if (n < 0)
		trace("readlink %s: %s", path, errno_name(errno));
	else
		trace("readlink %s: %zd '%.*s'", path, n, n > 60 ? 60 : (int)n, buf);
}

static void g_symlink(void)
{
	char target[4200];
	MUST(symlink("here", "l"));
	show("l");
	show_link("l");
	DENIED(EEXIST, symlink("other", "l"));
	DENIED(ENOENT, symlink("", "empty"));
	DENIED(ENOENT, open("l", O_RDONLY));
	make_file("here", 0640);
	MUST(access("l", R_OK));
	static const int lens[] = {1, 30, 59, 60, 61, 255, 1000, 4094, 4095, 4096};
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		memset(target, 'a' + (int)i, (size_t)lens[i]);
		target[lens[i]] = '\0';
		trace("target of %d", lens[i]);
		TRY(symlink(target, "long"));
		show("long");
		show_link("long");
		TRY(unlink("long"));
	}
	char small[3];
	MUST(readlink("l", small, sizeof(small)));
	DENIED(EINVAL, readlink("here", small, sizeof(small)));
	DENIED(EINVAL, readlink(".", small, sizeof(small)));
	MUST(symlink("\xff\xfe\x01 odd \n", "odd"));
	show_link("odd");
	/* The owner of a link, and its mode, are its own. */
	MUST(lchown("l", ALICE, BOB));
	show("l");
	show("here");
	TRY(fchmodat(AT_FDCWD, "l", 0600, AT_SYMLINK_NOFOLLOW));
	MUST(mkdir("d", 0755));
	MUST(symlink("d", "ld"));
	make_file("ld/through", 0600);
	show("d/through");
	DENIED(ELOOP, open("l", O_RDONLY | O_NOFOLLOW));
	DENIED(ENOTDIR, open("ld", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
	MUST(unlink("l"));
	show("here");
}

static void g_link(void)
{
	make_file("f", 0644);
	MUST(link("f", "g"));
	show("f");
	show("g");
	struct stat a, b;
	stat("f", &a), stat("g", &b);
	trace("same inode %d", a.st_ino == b.st_ino && a.st_dev == b.st_dev);
	DENIED(EEXIST, link("f", "g"));
	DENIED(ENOENT, link("none", "x"));
	MUST(mkdir("d", 0755));
	DENIED(EPERM, link("d", "x"));
	MUST(symlink("f", "l"));
	MUST(link("l", "l2"));
	show("l2");
	MUST(linkat(AT_FDCWD, "l", AT_FDCWD, "followed", AT_SYMLINK_FOLLOW));
	show("followed");
	MUST(mkfifo("p", 0644));
	MUST(link("p", "p2"));
	show("p2");
	MUST(chmod("g", 0600));
	MUST(chown("f", ALICE, BOB));
	show("followed");
	MUST(unlink("f"));
	show("g");
	MUST(unlink("followed"));
	show("g");
	CHANGES("c", "g", link("g", "h"));
	CHANGES("cm", ".", link("g", "i"));
	CHANGES("c", "g", unlink("i"));
	/* By descriptor. */
	char path[64];
	int fd = MUST_FD(open("g", O_RDONLY | O_CLOEXEC));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	trace("by /proc/self/fd %ld",
	      (long)linkat(AT_FDCWD, path, AT_FDCWD, "j", AT_SYMLINK_FOLLOW));
	MUST(linkat(fd, "", AT_FDCWD, "k", AT_EMPTY_PATH));
	show("k");
	close(fd);
	make_owned("a", S_IFDIR | 0777, ROOT, ROOT);
	as(ALICE);
	TRY(link("g", "a/hers"));
	as(BOB);
	TRY(link("g", "a/his"));
	TRY(link("g", "nothere")); /* EPERM where fs.protected_hardlinks is set */
}

static void g_unlink(void)
{
	make_file("f", 0644);
	MUST(unlink("f"));
	DENIED(ENOENT, unlink("f"));
	MUST(mkdir("d", 0755));
	DENIED(EISDIR, unlink("d"));
	MUST(symlink("d", "l"));
	MUST(unlink("l"));
	MUST(mkfifo("p", 0644));
	MUST(unlink("p"));
	MUST(mknod("c", S_IFCHR | 0644, makedev(1, 3)));
	MUST(unlink("c"));
	make_file("g", 0644);
	DENIED(ENOTDIR, unlink("g/"));
	/* A file in use lives on without a name. */
	int fd = MUST_FD(open("g", O_RDWR | O_CLOEXEC));
	write_all(fd, "still here");
	CHANGES("cm", ".", unlink("g"));
	struct stat st;
	MUST(fstat(fd, &st));
	trace("links %lu size %lld", (unsigned long)st.st_nlink, (long long)st.st_size);
	MUST(ftruncate(fd, 5));
	MUST(fchmod(fd, 0600));
	MUST(fchown(fd, ALICE, BOB));
	MUST(futimens(fd, NULL));
	MUST(fsync(fd));
	MUST(pwrite(fd, "more", 4, 100));
	MUST(fstat(fd, &st));
	trace("mode %o owner %u:%u size %lld", st.st_mode, st.st_uid, st.st_gid,
	      (long long)st.st_size);
	show_data(fd);
	make_file("g", 0644);
	MUST(fstat(fd, &st));
	trace("the old one has size %lld", (long long)st.st_size);
	TRY(linkat(fd, "", AT_FDCWD, "back", AT_EMPTY_PATH));
	close(fd);
	show("g");
}

static void g_bytes_in_names(void)
{
	char name[3] = "x";
	for (int c = 1; c < 256; c++) {
		if (c == '/')
			continue;
		name[1] = (char)c;
		make_file(name, 0600);
	}
	int seen = 0;
	for (int c = 1; c < 256; c++) {
		name[1] = (char)c;
		seen += c != '/' && unlink(name) == 0;
	}
	trace("%d names", seen);
	char longest[257];
	memset(longest, 0xc3, 256);
	longest[255] = '\0';
	make_file(longest, 0600);
	MUST(rename(longest, "short"));
	MUST(rename("short", longest));
	MUST(unlink(longest));
	MUST(mkdir(longest, 0755));
	MUST(rmdir(longest));
	MUST(mkdir("...", 0755));
	MUST(mkdir(" ", 0755));
	MUST(mkdir(".. ", 0755));
}

const struct topic topics_names[] = {
	{"mkdir", g_mkdir, false},
	{"rmdir", g_rmdir, false},
	{"mknod", g_mknod, false},
	{"fifo", g_fifo, false},
	{"socket", g_socket, false},
	{"symlink", g_symlink, false},
	{"link", g_link, false},
	{"unlink", g_unlink, false},
	{"bytes_in_names", g_bytes_in_names, false},
	{0},
};
