/* SPDX-License-Identifier: MIT */
/* Extended attributes, ACLs, file flags. */
#define _GNU_SOURCE
#include "conform.h"

#include <endian.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <time.h>

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void show_xattrs(const char *path)
{
	char list[8192], value[256], *names[200];
	ssize_t n = llistxattr(path, list, sizeof(list));
	int count = 0;
	if (n < 0) {
		trace("list of %s: %s", path, errno_name(errno));
		return;
	}
	for (char *p = list; p < list + n; p += strlen(p) + 1)
		names[count++] = p;
	qsort(names, (size_t)count, sizeof(names[0]), by_name);
	for (int i = 0; i < count; i++) {
		ssize_t len = lgetxattr(path, names[i], value, sizeof(value));
		trace("%s has %.40s: %zd", path, names[i], len);
	}
}

static void g_xattr(void)
{
	char v[70000];
	make_file("f", 0644);
	MUST(mkdir("d", 0755));
	MUST(symlink("f", "l"));
	DENIED(ENODATA, getxattr("f", "user.none", v, sizeof(v)));
	DENIED(ENODATA, removexattr("f", "user.none"));
	MUST(setxattr("f", "user.a", "one", 3, 0));
	DENIED(EEXIST, setxattr("f", "user.a", "two", 3, XATTR_CREATE));
	MUST(setxattr("f", "user.a", "three", 5, XATTR_REPLACE));
	DENIED(ENODATA, setxattr("f", "user.b", "x", 1, XATTR_REPLACE));
	MUST(setxattr("f", "user.empty", "", 0, 0));
	MUST(setxattr("f", "user.bin\xff\x01", "\0\1\xff", 3, 0));
	MUST(getxattr("f", "user.a", NULL, 0));
	DENIED(ERANGE, getxattr("f", "user.a", v, 2));
	MUST(getxattr("f", "user.a", v, 5));
	MUST(listxattr("f", NULL, 0));
	DENIED(ERANGE, listxattr("f", v, 3));
	show_xattrs("f");
	MUST(setxattr("d", "user.dir", "x", 1, 0));
	show_xattrs("d");
	DENIED(EPERM, lsetxattr("l", "user.a", "x", 1, 0));
	TRY(lsetxattr("l", "trusted.a", "x", 1, 0));
	show_xattrs("l");
	MUST(setxattr("l", "user.through", "x", 1, 0));
	MUST(mkfifo("p", 0644));
	DENIED(EPERM, setxattr("p", "user.a", "x", 1, 0));
	TRY(setxattr("p", "trusted.a", "x", 1, 0));
	TRY(setxattr("f", "trusted.a", "root only", 9, 0));
	TRY(setxattr("f", "security.ratefs", "x", 1, 0));
	DENIED(EOPNOTSUPP, setxattr("f", "other.a", "x", 1, 0));
	TRY(setxattr("f", "user.", "x", 1, 0));
	TRY(setxattr("f", "", "x", 1, 0));
	memset(v, 'v', sizeof(v));
	TRY(setxattr("f", "user.4k", v, 4000, 0));
	TRY(setxattr("f", "user.64k", v, 65536, 0));
	DENIED(E2BIG, setxattr("f", "user.more", v, 65537, 0));
	char name[300] = "user.";
	memset(name + 5, 'n', 251);
	DENIED(ERANGE, setxattr("f", name, "x", 1, 0));
	name[255] = '\0';
	TRY(setxattr("f", name, "x", 1, 0));
	show_xattrs("f");
	MUST(removexattr("f", "user.a"));
	DENIED(ENODATA, getxattr("f", "user.a", v, 5));
	int fd = MUST_FD(open("f", O_RDWR | O_CLOEXEC));
	MUST(fsetxattr(fd, "user.fd", "f", 1, 0));
	MUST(fgetxattr(fd, "user.fd", v, 10));
	MUST(flistxattr(fd, v, sizeof(v)));
	MUST(unlink("f"));
	MUST(fsetxattr(fd, "user.gone", "f", 1, 0));
	MUST(fgetxattr(fd, "user.gone", v, 10));
	MUST(fremovexattr(fd, "user.gone"));
	close(fd);
}

static void g_xattr_rights(void)
{
	char v[100];
	make_owned("f", S_IFREG | 0640, ALICE, CREW);
	MUST(setxattr("f", "user.a", "x", 1, 0));
	TRY(setxattr("f", "trusted.a", "x", 1, 0));
	as(ALICE);
	MUST(setxattr("f", "user.b", "x", 1, 0));
	TRY(setxattr("f", "trusted.b", "x", 1, 0));
	TRY(getxattr("f", "trusted.a", v, sizeof(v)));
	TRY(setxattr("f", "security.capability", "x", 1, 0));
	show_xattrs("f");
	as(BOB);
	MUST(getxattr("f", "user.a", v, sizeof(v)));
	DENIED(EACCES, setxattr("f", "user.c", "x", 1, 0));
	DENIED(EACCES, removexattr("f", "user.a"));
	as(CAROL);
	DENIED(EACCES, getxattr("f", "user.a", v, sizeof(v)));
	show_xattrs("f");
	as(ROOT);
	make_owned("s", S_IFDIR | 01777, ROOT, ROOT);
	as(ALICE);
	DENIED(EPERM, setxattr("s", "user.a", "x", 1, 0));
}

/* An ACL as the kernel stores it: version 2, then (tag, permissions, id) each. */
struct acl {
	uint32_t version;
	struct {
		uint16_t tag, perm;
		uint32_t id;
	} entry[8];
};
enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHER = 32 };

static size_t acl_make(struct acl *a, uint16_t user, uint16_t group, uint16_t other, uint16_t bob,
		       uint16_t mask)
{
	a->version = htole32(2);
	const uint16_t tags[] = {USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER};
	const uint16_t perms[] = {user, bob, group, group, mask, other};
	for (int i = 0; i < 6; i++) {
		a->entry[i].tag = htole16(tags[i]);
		a->entry[i].perm = htole16(perms[i]);
		a->entry[i].id = htole32(tags[i] == USER    ? BOB
					 : tags[i] == GROUP ? CREW
							    : 0xffffffffu);
	}
	return 4 + 6 * 8;
}

static void show_acl(const char *path, const char *name)
{
	struct acl a;
	char line[300] = "", *p = line;
	ssize_t n = getxattr(path, name, &a, sizeof(a));
	if (n < 0) {
		trace("%s of %s: %s", name, path, errno_name(errno));
		return;
	}
	for (ssize_t i = 0; i < (n - 4) / 8; i++)
		p += sprintf(p, " %u:%u:%d", a.entry[i].tag, a.entry[i].perm, (int)a.entry[i].id);
	trace("%s of %s:%s", name, path, line);
}
#define ACCESS_ACL  "system.posix_acl_access"
#define DEFAULT_ACL "system.posix_acl_default"

static void g_acl(void)
{
	struct acl a;
	size_t n = acl_make(&a, 6, 0, 0, 6, 6);
	make_owned("f", S_IFREG | 0600, ALICE, ALICE);
	as(BOB);
	DENIED(EACCES, open("f", O_RDWR));
	DENIED(EPERM, setxattr("f", ACCESS_ACL, &a, n, 0));
	as(ALICE);
	MUST(setxattr("f", ACCESS_ACL, &a, n, 0));
	show("f");
	show_acl("f", ACCESS_ACL);
	as(BOB);
	close(MUST_FD(open("f", O_RDWR)));
	as(CAROL);
	DENIED(EACCES, open("f", O_RDONLY));
	as(ALICE);
	MUST(chmod("f", 0640)); /* the mask, not the group */
	show_acl("f", ACCESS_ACL);
	as(BOB);
	DENIED(EACCES, open("f", O_RDWR));
	close(MUST_FD(open("f", O_RDONLY)));
	as(ALICE);
	MUST(chmod("f", 0600));
	as(BOB);
	DENIED(EACCES, open("f", O_RDONLY));
	as(ALICE);
	MUST(removexattr("f", ACCESS_ACL));
	show("f");
	show_acl("f", ACCESS_ACL);
	DENIED(EACCES, setxattr("f", DEFAULT_ACL, &a, n, 0));
	a.version = htole32(1);
	TRY(setxattr("f", ACCESS_ACL, &a, n, 0));
	TRY(setxattr("f", ACCESS_ACL, &a, 5, 0));
	/* An ACL that says no more than a mode becomes a mode. */
	a.version = htole32(2);
	a.entry[0].perm = htole16(7);
	a.entry[1] = a.entry[2], a.entry[2] = a.entry[5];
	a.entry[1].perm = htole16(5), a.entry[2].perm = htole16(1);
	MUST(setxattr("f", ACCESS_ACL, &a, 4 + 3 * 8, 0));
	show("f");
	show_acl("f", ACCESS_ACL);
}

static void g_default_acl(void)
{
	static const mode_t masks[] = {0, 022, 077, 0777};
	struct acl a;
	size_t n = acl_make(&a, 7, 5, 0, 6, 7);
	make_owned("d", S_IFDIR | 0777, ROOT, ROOT);
	MUST(setxattr("d", DEFAULT_ACL, &a, n, 0));
	show_acl("d", DEFAULT_ACL);
	for (int i = 0; i < 4; i++) {
		umask(masks[i]);
		as(ALICE);
		trace("umask %04o", masks[i]);
		close(MUST_FD(open("d/f", O_CREAT | O_EXCL | O_RDWR, 0666)));
		MUST(mkdir("d/sub", 0777));
		MUST(mkfifo("d/p", 0666));
		MUST(mknod("d/n", S_IFREG | 0640, 0));
		MUST(symlink("x", "d/l"));
		show("d/f"), show_acl("d/f", ACCESS_ACL);
		show("d/sub"), show_acl("d/sub", ACCESS_ACL), show_acl("d/sub", DEFAULT_ACL);
		show("d/p"), show_acl("d/p", ACCESS_ACL);
		show("d/n"), show_acl("d/n", ACCESS_ACL);
		show("d/l");
		int fd = MUST_FD(open("d", O_TMPFILE | O_RDWR, 0666));
		MUST(linkat(fd, "", AT_FDCWD, "d/t", AT_EMPTY_PATH) ?: 0);
		show("d/t"), show_acl("d/t", ACCESS_ACL);
		close(fd);
		as(ROOT);
		unlink("d/f"), unlink("d/p"), unlink("d/n"), unlink("d/l"), unlink("d/t");
		rmdir("d/sub");
	}
	umask(022);
	MUST(removexattr("d", DEFAULT_ACL));
	show_acl("d", DEFAULT_ACL);
	make_file("d/plain", 0666);
	show_acl("d/plain", ACCESS_ACL);
}

static void g_acl_setgid(void)
{
	struct acl a;
	size_t n = acl_make(&a, 7, 5, 0, 6, 7);
	/* Setting an ACL takes set-gid away from one who is not in the group. */
	make_owned("f", S_IFREG | 02755, ALICE, BOB);
	as(ALICE);
	MUST(setxattr("f", ACCESS_ACL, &a, n, 0));
	show("f");
	as(ROOT);
	make_owned("g", S_IFREG | 02755, ALICE, CREW);
	as(ALICE);
	MUST(setxattr("g", ACCESS_ACL, &a, n, 0));
	show("g");
	/* Removing it does too, on some filesystems. */
	as(ROOT);
	make_owned("h", S_IFDIR | 0755, ALICE, BOB);
	MUST(setxattr("h", ACCESS_ACL, &a, n, 0));
	MUST(chmod("h", 02755));
	as(ALICE);
	MUST(removexattr("h", ACCESS_ACL));
	show("h");
}

static void g_file_flags(void)
{
	long flags = 0;
	int fd = MUST_FD(open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0644));
	write_all(fd, "data");
	TRY(ioctl(fd, FS_IOC_GETFLAGS, &flags));
	trace("flags %lx", (unsigned long)(unsigned)flags & ~0x80000ul);
	static const struct {
		const char *name;
		int flag;
	} some[] = {
		{"immutable", FS_IMMUTABLE_FL}, {"append", FS_APPEND_FL}, {"nodump", FS_NODUMP_FL},
		{"noatime", FS_NOATIME_FL},	{"sync", FS_SYNC_FL},	  {"compress", FS_COMPR_FL},
	};
	for (size_t i = 0; i < 6; i++) {
		int set = (int)flags | some[i].flag, got = 0;
		struct stat before, after;
		trace("%s", some[i].name);
		MUST(stat("f", &before));
		nanosleep(&(struct timespec){0, 20000000}, NULL);
		if (TRY(ioctl(fd, FS_IOC_SETFLAGS, &set)) == 0) {
			MUST(stat("f", &after));
			trace("ctime moved %d",
			      after.st_ctim.tv_sec != before.st_ctim.tv_sec ||
				      after.st_ctim.tv_nsec != before.st_ctim.tv_nsec);
			TRY(ioctl(fd, FS_IOC_GETFLAGS, &got));
			trace("set %d", !!(got & some[i].flag));
			TRY(open("f", O_WRONLY) < 0 ? -1 : 0);
			TRY(open("f", O_WRONLY | O_APPEND) < 0 ? -1 : 0);
			TRY(truncate("f", 2));
			TRY(chmod("f", 0600));
			TRY(link("f", "g"));
			TRY(rename("f", "h"));
			TRY(rename("h", "f"));
			TRY(unlink("g"));
			TRY(setxattr("f", "user.a", "b", 1, 0));
			set = (int)flags;
			TRY(ioctl(fd, FS_IOC_SETFLAGS, &set));
		}
	}
	struct fsxattr x = {0};
	TRY(ioctl(fd, FS_IOC_FSGETXATTR, &x));
	trace("xflags %x project %u", x.fsx_xflags, x.fsx_projid);
	x.fsx_projid = 77;
	TRY(ioctl(fd, FS_IOC_FSSETXATTR, &x));
	x.fsx_projid = 0;
	TRY(ioctl(fd, FS_IOC_FSGETXATTR, &x));
	trace("project %u", x.fsx_projid);
	int version = 0;
	TRY(ioctl(fd, FS_IOC_GETVERSION, &version));
	TRY(ioctl(fd, 0x12345678, &version));
	close(fd);
	fd = MUST_FD(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	TRY(ioctl(fd, FS_IOC_GETFLAGS, &flags));
	close(fd);
	MUST(chown("f", ALICE, ALICE));
	as(ALICE);
	fd = MUST_FD(open("f", O_RDWR | O_CLOEXEC));
	int set = FS_IMMUTABLE_FL;
	TRY(ioctl(fd, FS_IOC_SETFLAGS, &set));
	close(fd);
}

const struct topic topics_attr[] = {
	{"xattr", g_xattr, false},
	{"xattr_rights", g_xattr_rights, false},
	{"acl", g_acl, false},
	{"default_acl", g_default_acl, false},
	{"acl_setgid", g_acl_setgid, false},
	{"file_flags", g_file_flags, false},
	{0},
};
