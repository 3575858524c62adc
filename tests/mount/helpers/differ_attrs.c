/* SPDX-License-Identifier: MIT */
/* Steps on attributes, and the comparison of whole trees. */
#define _GNU_SOURCE
#include "differ.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static long run_chmod(const struct step *s, int side)
{
	return fchmodat(w.root[side], s->path, s->mode & 07777, 0);
}

static long run_fchmod(const struct step *s, int side)
{
	return s->slot < 0 ? 0 : fchmod(w.fd[s->slot][side], s->mode & 07777);
}

static long run_chown(const struct step *s, int side)
{
	static const uid_t ids[] = {0, 1001, 1002, 1003};
	static const gid_t gids[] = {0, 1001, 1002, 2000, (gid_t)-1};
	return fchownat(w.root[side], s->path, ids[s->seed % 4], gids[s->flags % 5],
			s->flags & 1 ? AT_SYMLINK_NOFOLLOW : 0);
}

static long run_fchown(const struct step *s, int side)
{
	return s->slot < 0 ? 0 : fchown(w.fd[s->slot][side], (uid_t)-1, s->seed % 2 ? 2000 : 1001);
}

static long run_utimens(const struct step *s, int side)
{
	struct timespec t[2] = {{1000000 + s->at, (long)(s->seed % 1000000000)},
				{500000000 + s->len * 1000, (long)(s->flags % 1000000000)}};
	if (s->seed % 5 == 0)
		t[0].tv_nsec = UTIME_OMIT;
	if (s->seed % 7 == 0)
		t[1].tv_nsec = UTIME_NOW;
	return utimensat(w.root[side], s->path, t, s->flags & 1 ? AT_SYMLINK_NOFOLLOW : 0);
}

static long run_futimens(const struct step *s, int side)
{
	struct timespec t[2] = {{12345, 0}, {s->len, 678}};
	return s->slot < 0 ? 0 : futimens(w.fd[s->slot][side], s->flags & 1 ? t : NULL);
}

/* xattr calls know no directory fd: by way of /proc, or of the working directory. */
static int go(int side)
{
	return fchdir(w.root[side]);
}

static const char *attr_name(const struct step *s)
{
	static const char *const names[] = {
		"user.a",    "user.a",	  "user.b",    "user.a-longer-name",
		"trusted.t", "user.\xff", "security.s"};
	return names[s->seed % 7];
}

static long run_setxattr(const struct step *s, int side)
{
	static char value[3000];
	size_t len = (size_t)(s->len % (s->flags % 8 == 0 ? 3000 : 60));
	fill(value, len, s->seed);
	if (go(side) < 0)
		return -1;
	return lsetxattr(s->path, attr_name(s), value, len,
			 s->flags / 8 % 4 ? 0 : (int)(s->flags / 32 % 3));
}

static long run_getxattr(const struct step *s, int side)
{
	char value[4000];
	if (go(side) < 0)
		return -1;
	ssize_t n = lgetxattr(s->path, attr_name(s), value, s->flags % 8 ? sizeof(value) : 3);
	if (n > 0)
		note(value, (size_t)n);
	return n;
}

static long run_removexattr(const struct step *s, int side)
{
	return go(side) < 0 ? -1 : lremovexattr(s->path, attr_name(s));
}

/* A random ACL: owner, one user, group, mask, others. */
static long run_acl(const struct step *s, int side)
{
	struct {
		uint32_t version;
		struct {
			uint16_t tag, perm;
			uint32_t id;
		} e[5];
	} acl = {htole32(2), {{1, 0, ~0u}, {2, 0, 1002}, {4, 0, ~0u}, {16, 0, ~0u}, {32, 0, ~0u}}};
	for (int i = 0; i < 5; i++) {
		acl.e[i].tag = htole16(acl.e[i].tag);
		acl.e[i].perm = htole16((s->flags >> (3 * i)) & 7);
		acl.e[i].id = htole32(acl.e[i].id);
	}
	if (go(side) < 0)
		return -1;
	const char *name = s->seed % 3 ? "system.posix_acl_access" : "system.posix_acl_default";
	if (s->seed % 10 == 0)
		return removexattr(s->path, name);
	return setxattr(s->path, name, &acl, 4 + 5 * 8, 0);
}

const struct kind kinds_attrs[] = {
	{"chmod", 7, NULL, run_chmod},
	{"fchmod", 3, NULL, run_fchmod},
	{"chown", 5, NULL, run_chown},
	{"fchown", 2, NULL, run_fchown},
	{"utimens", 5, NULL, run_utimens},
	{"futimens", 2, NULL, run_futimens},
	{"setxattr", 10, NULL, run_setxattr},
	{"getxattr", 4, NULL, run_getxattr},
	{"removexattr", 4, NULL, run_removexattr},
	{"acl", 4, NULL, run_acl},
	{0},
};

/* -- whole trees -- */

static void sum_xattrs(const char *path)
{
	char list[8192], value[4096];
	ssize_t n = llistxattr(path, list, sizeof(list));
	uint64_t all = 0;
	for (char *p = list; n > 0 && p < list + n; p += strlen(p) + 1) {
		struct outcome one = {0}, *kept = w.out;
		ssize_t len = lgetxattr(path, p, value, sizeof(value));
		w.out = &one;
		note(p, strlen(p));
		note(value, len > 0 ? (size_t)len : 0);
		w.out = kept;
		all += one.sum; /* in any order */
	}
	note_u64(all);
}

static void sum_data(const char *path)
{
	static char buf[65536];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		note_u64((uint64_t)errno);
	for (ssize_t n; fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0;)
		note(buf, (size_t)n);
	if (fd >= 0)
		close(fd);
}

static int not_dots(const struct dirent *e)
{
	return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* One line per thing into `to`; the caller stands in the tree's root. */
static void sum_tree(const char *path, FILE *to)
{
	struct stat st;
	struct outcome one = {0};
	char target[PATH_LEN];
	w.out = &one;
	if (lstat(path, &st) < 0)
		return;
	note_stat(&st);
	sum_xattrs(path);
	if (S_ISREG(st.st_mode))
		sum_data(path);
	ssize_t n = S_ISLNK(st.st_mode) ? readlink(path, target, sizeof(target)) : 0;
	note(target, n > 0 ? (size_t)n : 0);
	fprintf(to, "%s: mode %o owner %u:%u links %lu size %lld mtime %llu sum %llx\n", path,
		st.st_mode, st.st_uid, st.st_gid, (unsigned long)st.st_nlink,
		S_ISDIR(st.st_mode) ? 0 : (long long)st.st_size,
		(unsigned long long)comparable_time(&st.st_mtim), (unsigned long long)one.sum);
	struct dirent **entries;
	int count = S_ISDIR(st.st_mode) ? scandir(path, &entries, not_dots, by_bytes) : 0;
	for (int i = 0; i < count; i++) {
		char below_it[PATH_LEN + 300];
		snprintf(below_it, sizeof(below_it), "%s/%s", path, entries[i]->d_name);
		sum_tree(below_it, to);
		free(entries[i]);
	}
	if (count > 0 || S_ISDIR(st.st_mode))
		free(count >= 0 ? entries : NULL);
}

bool same_trees(void)
{
	char *text[SIDES];
	size_t len[SIDES];
	for (int side = 0; side < SIDES; side++) {
		FILE *f = open_memstream(&text[side], &len[side]);
		if (go(side) == 0)
			sum_tree(".", f);
		fclose(f);
	}
	if (chdir("/") < 0)
		abort();
	bool same = len[0] == len[1] && memcmp(text[0], text[1], len[0]) == 0;
	char *a = text[0], *b = text[1];
	while (!same && *a && *b) {
		size_t n = strcspn(a, "\n") + 1, m = strcspn(b, "\n") + 1;
		if (n != m || memcmp(a, b, n) != 0) {
			printf("plain: %.*smount: %.*s", (int)n, a, (int)m, b);
			break;
		}
		a += n, b += m;
	}
	free(text[0]);
	free(text[1]);
	return same;
}
