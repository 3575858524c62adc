/* SPDX-License-Identifier: MIT */
/* chmod, chown, and what happens to set-id bits, capabilities and new files' owners. */
#define _GNU_SOURCE
#include "conform.h"

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/xattr.h>

static void g_chmod(void)
{
	static const mode_t kinds[] = {S_IFREG, S_IFDIR, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK};
	for (size_t k = 0; k < 6; k++) {
		make_owned("x", kinds[k] | 0644, ROOT, ROOT);
		for (mode_t m = 0; m <= 07777; m += 0111 * 3 + 01000) {
			traced("chmod", chmod("x", m), 0);
			show("x");
		}
		MUST(chmod("x", 07777));
		show("x");
		CHANGES("c", "x", chmod("x", 0600));
		remove_all("x");
	}
	make_file("f", 0644);
	MUST(symlink("f", "l"));
	MUST(chmod("l", 0111));
	show("f"), show("l");
	int fd = MUST_FD(open("f", O_RDONLY | O_CLOEXEC));
	MUST(fchmod(fd, 0444));
	show("f");
	close(fd);
	fd = MUST_FD(open("f", O_PATH | O_CLOEXEC));
	DENIED(EBADF, fchmod(fd, 0400));
	close(fd);
}

static void g_chmod_rights(void)
{
	make_owned("f", S_IFREG | 0644, ALICE, ALICE);
	as(BOB);
	DENIED(EPERM, chmod("f", 0666));
	as(ALICE);
	MUST(chmod("f", 0666));
	show("f");
	MUST(chmod("f", 06755)); /* her own group: the bit stays */
	show("f");
	MUST(chmod("f", 01644));
	show("f");
	as(ROOT);
	MUST(chown("f", ALICE, BOB));
	as(ALICE);
	MUST(chmod("f", 02755)); /* a group she is not in: no set-gid */
	show("f");
	as(ROOT);
	MUST(chown("f", ALICE, CREW));
	as(ALICE);
	MUST(chmod("f", 02755)); /* a supplementary group of hers */
	show("f");
	as(ROOT);
	make_owned("d", S_IFDIR | 0755, ALICE, BOB);
	as(ALICE);
	MUST(chmod("d", 02755));
	show("d");
	MUST(chmod("d", 01777));
	show("d");
	as(CAROL);
	DENIED(EPERM, chmod("d", 0700));
}

static void owned_by_chown(mode_t mode, uid_t who, uid_t uid, gid_t gid)
{
	make_owned("x", mode, ALICE, ALICE);
	trace("%04o by %u to %d:%d", mode, who, (int)uid, (int)gid);
	as(who);
	TRY(chown("x", uid, gid));
	show("x");
	as(ROOT);
	remove_all("x");
}

static void g_chown(void)
{
	static const uid_t who[] = {ROOT, ALICE, BOB};
	static const struct {
		uid_t u;
		gid_t g;
	} to[] = {
		{(uid_t)-1, (gid_t)-1},
		{ALICE, (gid_t)-1},
		{(uid_t)-1, ALICE},
		{(uid_t)-1, CREW},
		{ALICE, CREW},
		{BOB, (gid_t)-1},
		{BOB, BOB},
		{(uid_t)-1, BOB},
		{ROOT, ROOT},
		{4000000000u, 4000000001u},
	};
	static const mode_t modes[] = {S_IFREG | 0644,	S_IFREG | 06755, S_IFREG | 02644,
				       S_IFREG | 07777, S_IFDIR | 07755, S_IFLNK,
				       S_IFIFO | 06755};
	/* Others who change nothing (-1, -1) get EPERM where set-id bits would go; the kernel does
	 * not tell a FUSE filesystem enough for that. */
	for (size_t w = 0; w < 3; w++)
		for (size_t t = who[w] == BOB; t < 10; t++)
			for (size_t m = 0; m < 7; m++)
				owned_by_chown(modes[m], who[w], to[t].u, to[t].g);
	make_owned("f", S_IFREG | 0644, ROOT, ROOT);
	CHANGES("c", "f", chown("f", ALICE, BOB));
	CHANGES("c", "f", chown("f", ALICE, BOB));
	MUST(symlink("f", "l"));
	MUST(chown("l", BOB, CREW));
	show("f"), show("l");
	MUST(lchown("l", BOB, CREW));
	show("l");
	MUST(fchownat(AT_FDCWD, "l", CAROL, CAROL, AT_SYMLINK_NOFOLLOW));
	show("l"), show("f");
	int fd = MUST_FD(open("f", O_RDONLY | O_CLOEXEC));
	MUST(fchown(fd, 7, 8));
	show("f");
	close(fd);
}

/* Ways to change a file's data: each takes set-id bits away when the writer is not privileged. */
static int w_write(int fd)
{
	return write(fd, "x", 1) == 1 ? 0 : -1;
}
static int w_pwrite(int fd)
{
	return pwrite(fd, "x", 1, 3) == 1 ? 0 : -1;
}
static int w_empty(int fd)
{
	return write(fd, "x", 0) == 0 ? 0 : -1;
}
static int w_ftruncate(int fd)
{
	return ftruncate(fd, 2);
}
static int w_ftruncate_same(int fd)
{
	struct stat st;
	return fstat(fd, &st) ? -1 : ftruncate(fd, st.st_size);
}
static int w_fallocate(int fd)
{
	return fallocate(fd, 0, 0, 8192);
}
static int w_punch(int fd)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
}
static int w_copy(int fd)
{
	int from = open("from", O_RDONLY | O_CLOEXEC);
	loff_t in = 0, out = 0;
	ssize_t n = copy_file_range(from, &in, fd, &out, 4, 0);
	close(from);
	return n == 4 ? 0 : -1;
}
static int w_sendfile(int fd)
{
	int from = open("from", O_RDONLY | O_CLOEXEC);
	ssize_t n = sendfile(fd, from, NULL, 4);
	close(from);
	return n == 4 ? 0 : -1;
}
static int w_mmap(int fd)
{
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -1;
	p[0] = 'm';
	int r = msync(p, 4096, MS_SYNC);
	munmap(p, 4096);
	return r;
}

static const struct {
	const char *name;
	int (*run)(int fd);
} writers[] = {
	{"write", w_write},
	{"pwrite", w_pwrite},
	{"empty write", w_empty},
	{"ftruncate", w_ftruncate},
	{"ftruncate to its size", w_ftruncate_same},
	{"fallocate", w_fallocate},
	{"punch", w_punch},
	{"copy_file_range", w_copy},
	{"sendfile", w_sendfile},
	{"mmap", w_mmap}, /* the last: see capability_clearing */
};
#define N_WRITERS (sizeof(writers) / sizeof(writers[0]))

/* As programs ask that want nothing else; `show` asks for times and size, too. */
static void show_mode(const char *path)
{
	struct statx st;
	MUST(statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_MODE, &st));
	trace("mode %04o", st.stx_mode & 07777u);
}

static void g_setid_clearing(void)
{
	static const mode_t modes[] = {04777, 02777, 06777, 02767, 06767, 0777, 01777};
	static const uid_t users[] = {ROOT, ALICE, BOB};
	int from = MUST_FD(open("from", O_CREAT | O_RDWR | O_CLOEXEC, 0644));
	write_all(from, "data");
	close(from);
	for (size_t w = 0; w < N_WRITERS; w++) {
		for (size_t m = 0; m < 7 * 3; m++) {
			make_owned("f", S_IFREG | 0666, ALICE, CREW);
			int fd = open("f", O_RDWR | O_CLOEXEC);
			write_all(fd, "0123456789");
			fchmod(fd, modes[m % 7]);
			close(fd);
			as(users[m / 7]);
			fd = open("f", O_RDWR | O_CLOEXEC);
			trace("%s by %u on %04o: %s", writers[w].name, users[m / 7], modes[m % 7],
			      writers[w].run(fd) == 0 ? "done" : errno_name(errno));
			show_mode("f");
			close(fd);
			show_mode("f");
			show("f");
			as(ROOT);
			unlink("f");
		}
	}
	for (size_t u = 0; u < 3; u++) {
		make_owned("f", S_IFREG | 06777, ALICE, CREW);
		as(users[u]);
		MUST(truncate("f", 10));
		show_mode("f");
		show("f");
		as(ROOT);
		MUST(chmod("f", 06777));
		as(users[u]);
		close(open("f", O_WRONLY | O_TRUNC | O_CLOEXEC));
		show_mode("f");
		show("f");
		as(ROOT);
		MUST(unlink("f"));
	}
}

/* A file that grants capabilities loses them when its data or owner changes.  Not by a mapping on a
 * plain filesystem, but the pages of a mount are written back by a daemon. */
static void g_capability_clearing(void)
{
	static const unsigned char cap[20] = {1, 0, 0, 2, 0, 0x20, 0, 0}; /* v2, cap_net_raw */
	char got[64];
	int fd = open("from", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	write_all(fd, "data");
	close(fd);
	for (size_t w = 0; w < N_WRITERS - 1; w++) {
		fd = MUST_FD(open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0777));
		write_all(fd, "0123456789");
		TRY(fsetxattr(fd, "security.capability", cap, sizeof(cap), 0));
		TRY(fgetxattr(fd, "security.capability", got, sizeof(got)));
		trace("%s: %s", writers[w].name,
		      writers[w].run(fd) == 0 ? "done" : errno_name(errno));
		TRY(fgetxattr(fd, "security.capability", got, sizeof(got)));
		close(fd);
		MUST(unlink("f"));
	}
	make_file("f", 0755);
	TRY(setxattr("f", "security.capability", cap, sizeof(cap), 0));
	MUST(chown("f", ALICE, ALICE));
	TRY(getxattr("f", "security.capability", got, sizeof(got)));
	TRY(setxattr("f", "security.capability", cap, sizeof(cap), 0));
	MUST(truncate("f", 100));
	TRY(getxattr("f", "security.capability", got, sizeof(got)));
	TRY(setxattr("f", "security.capability", cap, sizeof(cap), 0));
	MUST(chmod("f", 0700));
	TRY(getxattr("f", "security.capability", got, sizeof(got)));
}

/* Who owns what is made in a set-gid directory. */
static void g_setgid_directory(void)
{
	static const uid_t users[] = {ROOT, ALICE, CAROL};
	umask(0);
	for (size_t u = 0; u < 3; u++) {
		make_owned("d", S_IFDIR | 02777, BOB, CREW);
		as(users[u]);
		trace("by %u", users[u]);
		int fd = MUST_FD(open("d/f", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 02775));
		close(fd);
		MUST(mkdir("d/sub", 0755));
		MUST(mknod("d/n", S_IFREG | 02775, 0));
		MUST(mkfifo("d/p", 02775));
		MUST(symlink("x", "d/l"));
		fd = TRY_FD(open("d", O_TMPFILE | O_RDWR | O_CLOEXEC, 02775));
		struct stat st;
		fstat(fd, &st);
		trace("tmpfile %o %u:%u", st.st_mode, st.st_uid, st.st_gid);
		close(fd);
		show("d/f"), show("d/sub"), show("d/n"), show("d/p"), show("d/l");
		MUST(mkdir("d/sub/deeper", 0777));
		show("d/sub/deeper");
		as(ROOT);
		remove_all("d");
	}
	/* A group directory is open to its members by their supplementary group. */
	make_owned("g", S_IFDIR | 02770, ROOT, CREW);
	as(ALICE);
	make_file("g/hers", 0640);
	show("g/hers");
	as(BOB);
	MUST(access("g/hers", R_OK));
	DENIED(EACCES, access("g/hers", W_OK));
	as(CAROL);
	DENIED(EACCES, access("g/hers", F_OK));
	umask(022);
}

const struct topic topics_owner[] = {
	{"chmod", g_chmod, false},
	{"chmod_rights", g_chmod_rights, false},
	{"chown", g_chown, false},
	{"setid_clearing", g_setid_clearing, false},
	{"capability_clearing", g_capability_clearing, false},
	{"setgid_directory", g_setgid_directory, false},
	{0},
};
