/* SPDX-License-Identifier: MIT */
/* Every call that takes a path, against every way in which a path can be wrong. */
#define _GNU_SOURCE
#include "conform.h"

#include <dirent.h>
#include <limits.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

/* What each call says to this path, one by one; `want` < 0: whatever the backing says. */
static void all_calls(const char *what, const char *path, int want)
{
	for (size_t i = 0; i < n_calls; i++) {
		char text[200];
		make_file("a-file", 0644);
		snprintf(text, sizeof(text), "%s of %s", calls[i].name, what);
		traced(text, calls[i].run(path), want);
		unlink("link-made");
		unlink("rename-made");
		unlink("a-file");
	}
}

static void g_too_long(void)
{
	char name[300], path[PATH_MAX + 10];
	memset(name, 'n', sizeof(name));
	name[256] = '\0';
	all_calls("a name of 256", name, ENAMETOOLONG);
	snprintf(path, sizeof(path), "%s/x", name);
	all_calls("below a name of 256", path, ENAMETOOLONG);
	for (size_t i = 0; i < sizeof(path) - 1; i += 2)
		memcpy(path + i, "./", 2);
	path[PATH_MAX] = '\0';
	all_calls("a path of PATH_MAX", path, ENAMETOOLONG);
}

/* A path of exactly PATH_MAX - 1 through real directories works. */
static void g_longest_path(void)
{
	char path[PATH_MAX], dir[256];
	memset(dir, 'd', 250);
	dir[250] = '\0';
	path[0] = '\0';
	while (strlen(path) + 251 < PATH_MAX - 10) {
		strcat(path, dir);
		if (mkdir(path, 0755) < 0)
			trace("mkdir at %zu: %s", strlen(path), errno_name(errno));
		strcat(path, "/");
	}
	size_t used = strlen(path);
	memset(path + used, 'f', PATH_MAX - 1 - used);
	path[PATH_MAX - 1] = '\0';
	trace("length %zu", strlen(path));
	MUST(open(path, O_CREAT | O_WRONLY, 0644) < 0 ? -1 : 0);
	MUST(truncate(path, 77));
	MUST(chmod(path, 0600));
	MUST(call("stat", path));
	MUST(unlink(path));
}

static void g_not_a_directory(void)
{
	make_file("file", 0644);
	all_calls("file/x", "file/x", ENOTDIR);
	MUST(mkfifo("p", 0644));
	all_calls("fifo/x", "p/x", ENOTDIR);
	all_calls("file/../x", "file/../x", ENOTDIR);
	all_calls("file/", "file/", -1);
}

static void g_loops(void)
{
	MUST(symlink("b", "a"));
	MUST(symlink("a", "b"));
	all_calls("loop/x", "a/x", ELOOP);
	DENIED(ELOOP, call("open", "a"));
	DENIED(ELOOP, call("stat", "b"));
	DENIED(ELOOP, call("truncate", "a"));
	DENIED(ELOOP, call("chmod", "a"));
	DENIED(ELOOP, call("chown", "a"));
	MUST(call("lstat", "a"));
	MUST(symlink("self", "self"));
	DENIED(ELOOP, call("creat", "self"));
	/* Forty links follow, forty-one don't. */
	char from[16], to[16];
	make_file("s0", 0644);
	for (int i = 1; i <= 42; i++) {
		snprintf(from, sizeof(from), "s%d", i - 1);
		snprintf(to, sizeof(to), "s%d", i);
		if (symlink(from, to))
			trace("symlink %s", errno_name(errno));
	}
	MUST(call("stat", "s40"));
	DENIED(ELOOP, call("stat", "s41"));
}

static void g_missing(void)
{
	all_calls("missing/x", "missing/x", ENOENT);
	all_calls("nothing", "", ENOENT);
	MUST(symlink("missing", "dangling"));
	all_calls("dangling/x", "dangling/x", ENOENT);
	all_calls("missing", "missing", -1);
	remove_all("missing");
	MUST(mkdir("keep", 0755));
	all_calls("keep/.", "keep/.", -1);
	mkdir("keep", 0755);
	MUST(mkdir("keep2", 0755));
	all_calls("keep2/..", "keep2/..", -1);
}

static void g_no_search(void)
{
	as(ROOT);
	make_owned("d", S_IFDIR | 0755, ALICE, ALICE);
	as(ALICE);
	make_file("d/x", 0666);
	MUST(chmod("d", 0666));
	as(ROOT);
	MUST(chmod(".", 0777));
	as(BOB);
	all_calls("unsearchable/x", "d/x", EACCES);
	all_calls("unsearchable/none", "d/none", EACCES);
	as(ALICE);
	all_calls("own unsearchable/x", "d/x", EACCES);
	as(ROOT);
	MUST(chmod(".", 0755));
}

/* Searchable and readable, but nothing may be made or removed in it. */
static void g_no_write(void)
{
	make_owned("d", S_IFDIR | 0755, ALICE, ALICE);
	make_owned("d/f", S_IFREG | 0666, ALICE, ALICE);
	make_owned("d/s", S_IFDIR | 0777, ALICE, ALICE);
	MUST(chmod(".", 0777));
	as(BOB);
	static const char *const makers[] = {"creat", "open exclusive", "mkdir",   "mkfifo",
					     "mknod", "symlink",	"link to", "rename to"};
	for (size_t i = 0; i < n_calls; i++) {
		for (size_t j = 0; j < sizeof(makers) / sizeof(makers[0]); j++) {
			if (strcmp(makers[j], calls[i].name) != 0)
				continue;
			make_file("a-file", 0644);
			traced(makers[j], calls[i].run("d/new"), EACCES);
			unlink("a-file");
		}
	}
	DENIED(EACCES, unlink("d/f"));
	DENIED(EACCES, rmdir("d/s"));
	DENIED(EACCES, rename("d/f", "stolen"));
	DENIED(EACCES, rename("d/s", "stolen"));
	TRY(mkdir("d/s", 0755));
	TRY(mkdir("d/f", 0755));
	TRY(symlink("x", "d/f"));
	DENIED(EACCES, call("open tmpfile", "d"));
	as(ROOT);
	MUST(chmod(".", 0755));
}

static void g_bad_pointer(void)
{
	const char *bad = (const char *)8;
	for (size_t i = 0; i < n_calls; i++) {
		if (strcmp(calls[i].name, "opendir") == 0)
			continue;
		make_file("a-file", 0644);
		traced(calls[i].name, calls[i].run(bad), EFAULT);
		unlink("a-file");
	}
}

/* Prepared while writable, then tried on a read-only mount. */
static void g_readonly_before(void)
{
	MUST(mkdir("../readonly", 0755));
	MUST(chdir("../readonly"));
	make_file("f", 0666);
	MUST(mkdir("d", 0777));
	MUST(symlink("f", "l"));
	MUST(mkfifo("p", 0666));
	MUST(setxattr("f", "user.a", "b", 1, 0));
}

static void g_readonly(void)
{
	DENIED(EROFS, call("open for writing", "f"));
	DENIED(EROFS, open("f", O_RDWR));
	DENIED(EROFS, open("f", O_RDONLY | O_TRUNC));
	DENIED(EROFS, call("creat", "new"));
	DENIED(EROFS, call("open tmpfile", "d"));
	DENIED(EROFS, mkdir("new", 0755));
	TRY(mkdir("d", 0755));
	DENIED(EROFS, mkfifo("new", 0644));
	DENIED(EROFS, call("mknod", "new"));
	DENIED(EROFS, symlink("f", "new"));
	DENIED(EROFS, link("f", "new"));
	DENIED(EROFS, unlink("f"));
	DENIED(EROFS, rmdir("d"));
	DENIED(EROFS, rename("f", "g"));
	DENIED(EROFS, chmod("f", 0600));
	DENIED(EROFS, chown("f", 1, 1));
	DENIED(EROFS, lchown("l", 1, 1));
	DENIED(EROFS, truncate("f", 1));
	DENIED(EROFS, utimensat(AT_FDCWD, "f", NULL, 0));
	DENIED(EROFS, setxattr("f", "user.b", "b", 1, 0));
	DENIED(EROFS, removexattr("f", "user.a"));
	DENIED(EROFS, access("f", W_OK));
	MUST(access("f", R_OK));
	MUST(call("open", "f"));
	MUST(call("getxattr", "f"));
	MUST(call("opendir", "d"));
	MUST(access("p", W_OK));
	int r = MUST_FD(open("p", O_RDWR | O_NONBLOCK));
	MUST(write(r, "x", 1));
	close(r);
	show("f");
}

const struct topic topics_paths[] = {
	{"too_long", g_too_long, false},
	{"longest_path", g_longest_path, false},
	{"not_a_directory", g_not_a_directory, false},
	{"loops", g_loops, false},
	{"missing", g_missing, false},
	{"no_search", g_no_search, false},
	{"no_write", g_no_write, false},
	{"bad_pointer", g_bad_pointer, false},
	{"readonly_before", g_readonly_before, true},
	{"readonly", g_readonly, true},
	{0},
};
