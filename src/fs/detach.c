/* SPDX-License-Identifier: MIT */
#include "fs/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fusermount.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "base/util.h"

#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000U
#endif
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000U
#endif

#define RETRY_NS (5 * NSEC_PER_MSEC)

/* --- identifying a mount ---------------------------------------------------------------------- */

/* 0: unknown.  Asks only the kernel, never the filesystem, which may be ourselves. */
static uint64_t id_of(int fd, unsigned kind, uint64_t *dev)
{
	struct statx st;
	int flags = AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT | AT_EMPTY_PATH;
	if (statx(fd, "", flags, kind, &st) < 0 || !(st.stx_mask & kind))
		return 0;
	*dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	return st.stx_mnt_id;
}

static struct mount_place place_of(int fd)
{
	struct mount_place p = {0};
	p.unique_id = id_of(fd, STATX_MNT_ID_UNIQUE, &p.dev);
	p.id = id_of(fd, STATX_MNT_ID, &p.dev);
	return p;
}

void mount_place_find(struct mount_place *p, const char *path)
{
	AUTO_FD fd = open(path, O_PATH | O_CLOEXEC);
	*p = (struct mount_place){0};
	if (fd >= 0)
		*p = place_of(fd);
}

static bool is_at(const struct mount_place *p, int fd)
{
	struct mount_place there = place_of(fd);
	return there.id == p->id && there.unique_id == p->unique_id && there.dev == p->dev;
}

/* "\040" is a space. */
static void unescape(char *s)
{
	char *to = s;
	for (const char *from = s; *from; from++) {
		unsigned c;
		if (from[0] == '\\' && sscanf(from + 1, "%3o", &c) == 1) {
			*to++ = (char)c;
			from += 3;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
}

struct found {
	char *path;  /* where it is now; NULL: nowhere that we can see */
	char *child; /* where something is mounted on it or in it; NULL: nowhere */
};

static void found_free(struct found *f)
{
	free(f->path);
	free(f->child);
}

static bool find(const struct mount_place *p, struct found *out)
{
	AUTO_FREE char *line = NULL;
	size_t size = 0;
	*out = (struct found){NULL, NULL};
	AUTO_FILE f = fopen("/proc/self/mountinfo", "re");
	if (!f)
		return false;
	while (getline(&line, &size, f) > 0) {
		unsigned long long id, parent;
		int start = 0, end = 0;
		if (sscanf(line, "%llu %llu %*s %*s %n%*s%n", &id, &parent, &start, &end) != 2 ||
		    !end)
			continue;
		char **to = id == p->id ? &out->path : parent == p->id ? &out->child : NULL;
		if (!to || *to)
			continue;
		*to = strndup(line + start, (size_t)(end - start));
		if (*to)
			unescape(*to);
	}
	return true;
}

/* --- unmounting ------------------------------------------------------------------------------- */

static int open_place(const char *path)
{
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
			       .resolve = RESOLVE_NO_SYMLINKS};
	long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	return fd < 0 && errno == ENOSYS ? open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC) : (int)fd;
}

/* 0, or -errno; -EAGAIN: the path currently leads elsewhere. */
static int detach_at(const struct mount_place *p, const char *path)
{
	char magic[40];
	AUTO_FD fd = open_place(path);
	if (fd < 0 || !is_at(p, fd))
		return -EAGAIN;
	snprintf(magic, sizeof(magic), "/proc/self/fd/%d", fd);
	if (umount2(magic, MNT_DETACH) == 0)
		return 0;
	return errno == EPERM ? fusermount_detach(path) : -errno;
}

/* Asks the kernel whether the mount could be unmounted: an idle mount is marked as expired
 * (EAGAIN) without any other effect, unless it already had the mark.  Closing a descriptor of the
 * mount removes the mark, and an open one would make the mount busy. */
static int ask_kernel(const struct mount_place *p, const char *path)
{
	int fd = open_place(path);
	bool ours = fd >= 0 && is_at(p, fd);
	if (fd >= 0)
		close(fd);
	if (!ours)
		return -1;
	int rc = umount2(path, MNT_EXPIRE | UMOUNT_NOFOLLOW) == 0 || errno == EAGAIN ? 0
		 : errno == EBUSY						     ? 1
										     : -1;
	fd = open_place(path);
	if (fd >= 0)
		close(fd);
	return rc;
}

int mount_place_in_use(const struct mount_place *p)
{
	struct found f;
	if (!p->id || !find(p, &f))
		return -1;
	int rc = !f.path ? 0 : f.child ? 1 : ask_kernel(p, f.path);
	found_free(&f);
	return rc;
}

static int left(const char *name, const struct found *f, int rc)
{
	if (f->child)
		log_warning(
			"%s: cannot be unmounted and remains, dead: another mount is on it, at %s",
			name, f->child);
	else if (rc == -EAGAIN)
		log_warning("%s: cannot be unmounted and remains, dead: it cannot be reached at %s",
			    name, f->path);
	else
		log_error("%s: cannot unmount %s: %s", name, f->path, strerror(-rc));
	return -1;
}

int mount_place_detach(const struct mount_place *p, const char *name, uint64_t give_up_ns,
		       const _Atomic bool *hurry)
{
	const struct timespec nap = {.tv_nsec = RETRY_NS};
	while (p->id) {
		struct found f;
		int rc = -EAGAIN;
		if (!find(p, &f)) {
			log_error("%s: cannot unmount: /proc/self/mountinfo: %s", name,
				  strerror(errno));
			return -1;
		}
		bool gone = !f.path;
		if (!gone && !f.child)
			rc = detach_at(p, f.path);
		bool again = rc == -EAGAIN && monotonic_ns() < give_up_ns && !atomic_load(hurry);
		int res = gone || rc == 0 || again ? 0 : left(name, &f, rc);
		found_free(&f);
		if (!again || gone)
			return res;
		nanosleep(&nap, NULL);
	}
	return 0;
}
