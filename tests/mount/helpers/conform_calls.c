/* SPDX-License-Identifier: MIT */
/* Every call that takes a path, in one shape: 0, or -1 with errno. */
#define _GNU_SOURCE
#include "conform.h"

#include <dirent.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

static int c_open(const char *p)
{
	int fd = open(p, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -1 : close(fd);
}
static int c_open_w(const char *p)
{
	int fd = open(p, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -1 : close(fd);
}
static int c_creat(const char *p)
{
	int fd = open(p, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	return fd < 0 ? -1 : close(fd);
}
static int c_excl(const char *p)
{
	int fd = open(p, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
	return fd < 0 ? -1 : close(fd);
}
static int c_path(const char *p)
{
	int fd = open(p, O_PATH | O_CLOEXEC);
	return fd < 0 ? -1 : close(fd);
}
static int c_tmpfile(const char *p)
{
	int fd = open(p, O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
	return fd < 0 ? -1 : close(fd);
}
static int c_opendir(const char *p)
{
	DIR *d = opendir(p);
	return d ? closedir(d) : -1;
}
static int c_stat(const char *p)
{
	struct stat st;
	return stat(p, &st);
}
static int c_lstat(const char *p)
{
	struct stat st;
	return lstat(p, &st);
}
static int c_statfs(const char *p)
{
	struct statfs s;
	return statfs(p, &s);
}
static int c_access(const char *p)
{
	return access(p, F_OK);
}
static int c_chdir(const char *p)
{
	int here = open(".", O_PATH), r = chdir(p), e = errno;
	if (fchdir(here))
		exit(2);
	close(here);
	errno = e;
	return r;
}
static int c_mkdir(const char *p)
{
	return mkdir(p, 0755);
}
static int c_mkfifo(const char *p)
{
	return mkfifo(p, 0644);
}
static int c_mknod(const char *p)
{
	return mknod(p, S_IFREG | 0644, 0);
}
static int c_symlink(const char *p)
{
	return symlink("to", p);
}
static int c_link_from(const char *p)
{
	return link(p, "link-made");
}
static int c_link_to(const char *p)
{
	return link("a-file", p);
}
static int c_rename_from(const char *p)
{
	return rename(p, "rename-made");
}
static int c_rename_to(const char *p)
{
	return rename("a-file", p);
}
static int c_readlink(const char *p)
{
	char b[16];
	return readlink(p, b, sizeof(b)) < 0 ? -1 : 0;
}
static int c_unlink(const char *p)
{
	return unlink(p);
}
static int c_rmdir(const char *p)
{
	return rmdir(p);
}
static int c_chmod(const char *p)
{
	return chmod(p, 0644);
}
static int c_chown(const char *p)
{
	return chown(p, 0, 0);
}
static int c_lchown(const char *p)
{
	return lchown(p, 0, 0);
}
static int c_truncate(const char *p)
{
	return truncate(p, 10);
}
static int c_utimens(const char *p)
{
	return utimensat(AT_FDCWD, p, NULL, 0);
}
static int c_setxattr(const char *p)
{
	return setxattr(p, "user.a", "b", 1, 0);
}
static int c_getxattr(const char *p)
{
	char b[16];
	return getxattr(p, "user.a", b, sizeof(b)) < 0 ? -1 : 0;
}
static int c_listxattr(const char *p)
{
	char b[64];
	return listxattr(p, b, sizeof(b)) < 0 ? -1 : 0;
}
static int c_removexattr(const char *p)
{
	return removexattr(p, "user.a");
}

const struct call calls[] = {
	{"open", c_open},
	{"open for writing", c_open_w},
	{"creat", c_creat},
	{"open exclusive", c_excl},
	{"open path", c_path},
	{"open tmpfile", c_tmpfile},
	{"opendir", c_opendir},
	{"stat", c_stat},
	{"lstat", c_lstat},
	{"statfs", c_statfs},
	{"access", c_access},
	{"chdir", c_chdir},
	{"mkdir", c_mkdir},
	{"mkfifo", c_mkfifo},
	{"mknod", c_mknod},
	{"symlink", c_symlink},
	{"link from", c_link_from},
	{"link to", c_link_to},
	{"rename from", c_rename_from},
	{"rename to", c_rename_to},
	{"readlink", c_readlink},
	{"unlink", c_unlink},
	{"rmdir", c_rmdir},
	{"chmod", c_chmod},
	{"chown", c_chown},
	{"lchown", c_lchown},
	{"truncate", c_truncate},
	{"utimens", c_utimens},
	{"setxattr", c_setxattr},
	{"getxattr", c_getxattr},
	{"listxattr", c_listxattr},
	{"removexattr", c_removexattr},
};
const size_t n_calls = sizeof(calls) / sizeof(calls[0]);

int call(const char *name, const char *path)
{
	for (size_t i = 0; i < n_calls; i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].run(path);
	fprintf(stderr, "conform: no call '%s'\n", name);
	exit(2);
}
