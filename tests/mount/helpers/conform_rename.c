/* SPDX-License-Identifier: MIT */
/* rename: every type over every type, sticky directories, flags. */
#define _GNU_SOURCE
#include "conform.h"

#include <linux/fs.h>
#include <sys/sysmacros.h>

static const struct {
	const char *name;
	mode_t mode;
} types[] = {
	{"file", S_IFREG | 0644},  {"dir", S_IFDIR | 0755},   {"link", S_IFLNK},
	{"fifo", S_IFIFO | 0644},  {"sock", S_IFSOCK | 0644}, {"char", S_IFCHR | 0644},
	{"block", S_IFBLK | 0644},
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static void g_rename(void)
{
	MUST(mkdir("a", 0755));
	MUST(mkdir("b", 0755));
	for (size_t i = 0; i < N_TYPES; i++) {
		for (size_t j = 0; j < N_TYPES; j++) {
			make_owned("a/x", types[i].mode, ALICE, BOB);
			make_owned("b/y", types[j].mode, ROOT, ROOT);
			trace("%s over %s", types[i].name, types[j].name);
			bool fits = S_ISDIR(types[i].mode) == S_ISDIR(types[j].mode);
			int err = fits ? 0 : S_ISDIR(types[i].mode) ? ENOTDIR : EISDIR;
			traced("rename", rename("a/x", "b/y"), err);
			show("a/x");
			show("b/y");
			remove_all("a/x");
			remove_all("b/y");
		}
		make_owned("a/x", types[i].mode, ALICE, BOB);
		CHANGES("cm", "a", rename("a/x", "b/z"));
		CHANGES("cm", "b", rename("b/z", "a/x"));
		CHANGES("c", "a", chmod("a", 0755));
		show("a/x");
		remove_all("a/x");
	}
	struct stat before, after;
	make_file("f", 0644);
	stat("f", &before);
	MUST(rename("f", "g"));
	stat("g", &after);
	trace("inode kept %d", before.st_ino == after.st_ino);
	MUST(link("g", "h"));
	MUST(rename("g", "h")); /* the same file: nothing happens */
	show("g");
	show("h");
	MUST(rename("g", "g"));
}

static void g_rename_dirs(void)
{
	MUST(mkdir("a", 0755));
	MUST(mkdir("a/b", 0755));
	MUST(mkdir("a/b/c", 0755));
	DENIED(EINVAL, rename("a", "a/b/x"));
	DENIED(EINVAL, rename("a", "a/x"));
	DENIED(ENOTEMPTY, rename("a/b/c", "a"));
	MUST(mkdir("full", 0755));
	make_file("full/f", 0644);
	MUST(mkdir("empty", 0755));
	DENIED(ENOTEMPTY, rename("empty", "full"));
	show("a");
	MUST(rename("full", "empty"));
	show("empty/f");
	show("full");
	/* The way up changes. */
	MUST(mkdir("p", 0755));
	show("a"), show("p");
	MUST(rename("a/b", "p/b"));
	show("a"), show("p");
	struct stat up, p;
	stat("p/b/..", &up), stat("p", &p);
	trace("its parent is p %d", up.st_ino == p.st_ino);
	TRY(rename("p/.", "q"));
	TRY(rename("p/b/..", "q"));
	TRY(rename("a", "p/."));
	make_file("f", 0644);
	DENIED(ENOTDIR, rename("f", "g/"));
	MUST(rename("a", "aa/"));
	int fd = MUST_FD(open("p/b", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	MUST(rename("p", "pp"));
	MUST(mkdirat(fd, "deep", 0755));
	show("pp/b/deep");
	close(fd);
}

/* In a sticky directory only the owners of the file or of the directory may take names away. */
static void sticky(uid_t dir_owner, uid_t file_owner, uid_t who, mode_t type)
{
	make_owned("s", S_IFDIR | 01777, dir_owner, dir_owner);
	make_owned("o", S_IFDIR | 0777, ROOT, ROOT);
	make_owned("s/x", type, file_owner, file_owner);
	make_owned("o/mine", type, who, who);
	trace("directory of %u, file of %u, by %u", dir_owner, file_owner, who);
	bool may = who == ROOT || who == dir_owner || who == file_owner;
	as(who);
	traced("rename over it", rename("o/mine", "s/x"), may ? 0 : EPERM);
	as(ROOT);
	remove_all("s/x");
	make_owned("s/x", type, file_owner, file_owner);
	as(who);
	traced("rename in it", rename("s/x", "s/y"), may ? 0 : EPERM);
	if (may)
		MUST(rename("s/y", "s/x"));
	long moved = traced("rename out of it", rename("s/x", "o/z"),
			    !may					? EPERM
			    : S_ISDIR(type) && who != file_owner && who ? EACCES
									: 0);
	if (moved < 0)
		traced("remove it", S_ISDIR(type) ? rmdir("s/x") : unlink("s/x"), may ? 0 : EPERM);
	as(ROOT);
	remove_all("s");
	remove_all("o");
}

static void g_sticky(void)
{
	static const uid_t users[] = {ROOT, ALICE, BOB};
	static const mode_t kinds[] = {S_IFREG | 0644, S_IFDIR | 0755, S_IFLNK, S_IFIFO | 0666};
	for (int d = 0; d < 3; d++)
		for (int f = 0; f < 3; f++)
			for (int w = 0; w < 3; w++)
				for (int k = 0; k < 4; k++)
					sticky(users[d], users[f], users[w], kinds[k]);
}

static void g_rename_rights(void)
{
	make_owned("a", S_IFDIR | 0755, ALICE, ALICE);
	make_owned("b", S_IFDIR | 0777, BOB, BOB);
	make_owned("a/f", S_IFREG | 0666, BOB, BOB);
	make_owned("b/f", S_IFREG | 0644, BOB, BOB);
	as(BOB);
	DENIED(EACCES, rename("a/f", "b/g"));
	DENIED(EACCES, rename("b/f", "a/f"));
	DENIED(EACCES, rename("b/f", "a/g"));
	as(ALICE);
	MUST(rename("b/f", "a/g"));
	MUST(rename("a/f", "b/h"));
	/* A directory that I may not write cannot get a new parent. */
	as(ROOT);
	make_owned("a/d", S_IFDIR | 0555, BOB, BOB);
	as(ALICE);
	DENIED(EACCES, rename("a/d", "b/d"));
	MUST(rename("a/d", "a/e"));
}

static void g_rename_flags(void)
{
	make_file("f", 0644);
	make_file("g", 0600);
	MUST(mkdir("d", 0755));
	DENIED(EEXIST, renameat2(AT_FDCWD, "f", AT_FDCWD, "g", RENAME_NOREPLACE));
	MUST(renameat2(AT_FDCWD, "f", AT_FDCWD, "n", RENAME_NOREPLACE));
	DENIED(ENOENT, renameat2(AT_FDCWD, "none", AT_FDCWD, "x", RENAME_NOREPLACE));
	MUST(renameat2(AT_FDCWD, "n", AT_FDCWD, "g", RENAME_EXCHANGE));
	show("n"), show("g");
	MUST(renameat2(AT_FDCWD, "n", AT_FDCWD, "d", RENAME_EXCHANGE));
	show("n"), show("d");
	DENIED(ENOENT, renameat2(AT_FDCWD, "n", AT_FDCWD, "none", RENAME_EXCHANGE));
	MUST(mkdir("n/sub", 0755));
	DENIED(EINVAL, renameat2(AT_FDCWD, "n", AT_FDCWD, "n/sub", RENAME_EXCHANGE));
	DENIED(EINVAL, renameat2(AT_FDCWD, "d", AT_FDCWD, "g", RENAME_EXCHANGE | RENAME_NOREPLACE));
	DENIED(EINVAL, renameat2(AT_FDCWD, "d", AT_FDCWD, "g", 1u << 10));
	MUST(mkdir("e", 0755));
	show("n"), show("e");
	MUST(renameat2(AT_FDCWD, "n/sub", AT_FDCWD, "g", RENAME_EXCHANGE));
	show("n"), show("g"), show("n/sub");
	TRY(renameat2(AT_FDCWD, "d", AT_FDCWD, "w", RENAME_WHITEOUT));
	show("d"), show("w");
	TRY(renameat2(AT_FDCWD, "w", AT_FDCWD, "n/sub", RENAME_WHITEOUT));
	show("w"), show("n/sub");
	make_owned("a", S_IFDIR | 0777, ROOT, ROOT);
	make_owned("a/x", S_IFREG | 0644, ALICE, ALICE);
	as(ALICE);
	TRY(renameat2(AT_FDCWD, "a/x", AT_FDCWD, "a/y", RENAME_WHITEOUT));
	show("a/x"), show("a/y");
}

static void g_rename_open(void)
{
	int fd = MUST_FD(open("old", O_CREAT | O_RDWR | O_CLOEXEC, 0644));
	write_all(fd, "the old one");
	int two = MUST_FD(open("new", O_CREAT | O_RDWR | O_CLOEXEC, 0644));
	write_all(two, "the new one");
	MUST(rename("new", "old"));
	struct stat st;
	MUST(fstat(fd, &st));
	trace("the covered one has %lu links", (unsigned long)st.st_nlink);
	show_data(fd);
	write_all(two, ", written after");
	MUST(pwrite(fd, "X", 1, 0));
	show("old");
	show_data(two);
	show_data(fd);
	close(fd), close(two);
}

const struct topic topics_rename[] = {
	{"rename", g_rename, false},
	{"rename_dirs", g_rename_dirs, false},
	{"sticky", g_sticky, false},
	{"rename_rights", g_rename_rights, false},
	{"rename_flags", g_rename_flags, false},
	{"rename_open", g_rename_open, false},
	{0},
};
