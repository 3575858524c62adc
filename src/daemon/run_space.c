/* SPDX-License-Identifier: MIT */
#include "daemon/run_space.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mountinfo.h"
#include "base/text.h"
#include "daemon/privileges.h"
#include "daemon/serve_mount.h"
#include "fs/attach.h"

/* --- entering it ---------------------------------------------------------------------------- */

static long read_number(const char *path)
{
	long n = -1;
	AUTO_FILE f = fopen(path, "re");
	return f && fscanf(f, "%ld", &n) == 1 ? n : -1;
}

/* Explains why a namespace or a mount was refused, as far as the system tells. */
static int explain(const char *what, int error, struct error *err)
{
	const char *remedy =
		"a container needs the capability CAP_SYS_ADMIN, or a seccomp profile that allows "
		"unshare and mount";
	if (read_number("/proc/sys/kernel/unprivileged_userns_clone") == 0)
		remedy = "users may not create namespaces here: sysctl "
			 "kernel.unprivileged_userns_clone=1 allows it";
	else if (read_number("/proc/sys/user/max_user_namespaces") == 0)
		remedy = "user namespaces are switched off: sysctl "
			 "user.max_user_namespaces=10000 allows them";
	else if (error == ENOSPC)
		remedy = "there are too many namespaces: see user.max_user_namespaces and "
			 "user.max_mnt_namespaces";
	else if (read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
		remedy = "AppArmor restricts user namespaces: sysctl "
			 "kernel.apparmor_restrict_unprivileged_userns=0 allows them, or a profile "
			 "for ratefs";
	else if (error == ENOSYS || error == EINVAL)
		remedy = "the kernel is built without namespaces";
	return error_set(err, "%s: %s; %s", what, strerror(error), remedy);
}

static int write_file(const char *path, const char *text)
{
	AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);
	return fd >= 0 && write(fd, text, n) == (ssize_t)n ? 0 : -1;
}

static int map_ids(unsigned uid, unsigned gid, struct error *err)
{
	char text[40];
	/* The kernel requires this to map a group without privileges. */
	if (write_file("/proc/self/setgroups", "deny") < 0 && errno != ENOENT)
		return explain("/proc/self/setgroups", errno, err);
	snprintf(text, sizeof(text), "%u %u 1", uid, uid);
	if (write_file("/proc/self/uid_map", text) < 0)
		return explain("/proc/self/uid_map", errno, err);
	snprintf(text, sizeof(text), "%u %u 1", gid, gid);
	if (write_file("/proc/self/gid_map", text) < 0)
		return explain("/proc/self/gid_map", errno, err);
	return 0;
}

int run_space_begin(struct run_space *s, struct error *err)
{
	unsigned uid = geteuid(), gid = getegid();
	s->capabilities = privileges_permitted();
	if (privileges_privileged())
		return 0;
	s->user_namespace = true;
	if (unshare(CLONE_NEWUSER) < 0)
		return explain("cannot create a user namespace", errno, err);
	return map_ids(uid, gid, err);
}

/* --- mounts --------------------------------------------------------------------------------- */

static bool lies_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	return strncmp(path, dir, n) == 0 && path[n] == '/';
}

/* Mounts below another submount are moved together with it. */
static bool is_covered(const struct run_space *s, const char *where)
{
	for (unsigned i = 0; i < s->n_subs; i++)
		if (strcmp(where, s->sub[i].where) == 0 || lies_below(where, s->sub[i].where))
			return true;
	return false;
}

static bool add_submount(struct run_space *s, int dir_fd, const char *dir, const char *where)
{
	struct run_submount *sub = realloc(s->sub, (s->n_subs + 1) * sizeof(*sub));
	if (!sub)
		return false;
	s->sub = sub;
	sub += s->n_subs;
	*sub = (struct run_submount){dir_fd, strdup(where), strlen(dir) + 1};
	s->n_subs += sub->where != NULL;
	return sub->where;
}

/* Must run before our mounts hide them. */
static int find_submounts(struct run_space *s, const struct configuration *c, struct error *err)
{
	struct mountinfo mounts;
	bool ok = mountinfo_read(&mounts, "/proc/self/mountinfo");
	s->dir_fd = calloc(c->n_mounts, sizeof(*s->dir_fd));
	ok = ok && s->dir_fd;
	for (unsigned i = 0; ok && i < c->n_mounts; i++) {
		const char *dir = c->mount[i].mountpoint;
		int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			break;
		s->dir_fd[s->n_dirs++] = fd;
		for (unsigned k = 0; ok && k < mounts.n; k++) {
			const char *where = mounts.mount[k].where;
			if (lies_below(where, dir) && !is_covered(s, where))
				ok = add_submount(s, fd, dir, where);
		}
	}
	int error = errno;
	mountinfo_free(&mounts);
	if (!ok)
		return error_set(err, "cannot read /proc/self/mountinfo");
	if (s->n_dirs < c->n_mounts)
		return error_set(err, "%s: %s", c->mount[s->n_dirs].mountpoint, strerror(error));
	return 0;
}

static int mount_one(const struct settings *m, struct error *err)
{
	AUTO_FREE char *options = fuse_options_of(m, m->source, err);
	if (!options)
		return -1;
	if (access("/dev/fuse", R_OK | W_OK) < 0)
		return error_set(err, "/dev/fuse: %s; %s", strerror(errno),
				 errno == ENOENT
					 ? "load the module with 'modprobe fuse', or give the "
					   "container the device (--device /dev/fuse)"
					 : "the user needs to be able to read and write it");
	int fd = attach(m->mountpoint, options, err);
	if (fd == -2)
		return explain("cannot mount", EPERM, err);
	return fd;
}

int run_space_mount(struct run_space *s, const struct configuration *c, int *fd, struct error *err)
{
	if (unshare(CLONE_NEWNS) < 0)
		return explain("cannot create a mount namespace", errno, err);
	/* Mounts that the host makes later appear here; ours do not appear there. */
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return explain("cannot make the mounts private", errno, err);
	if (find_submounts(s, c, err) < 0)
		return -1;
	for (unsigned i = 0; i < c->n_mounts; i++) {
		fd[i] = mount_one(&c->mount[i], err);
		if (fd[i] < 0)
			return -1;
	}
	return 0;
}

static int show_submount(const struct run_submount *sub)
{
	AUTO_FD tree = (int)syscall(SYS_open_tree, sub->dir_fd, sub->where + sub->below,
				    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE |
					    AT_SYMLINK_NOFOLLOW);
	if (tree < 0)
		return -1;
	return (int)syscall(SYS_move_mount, tree, "", AT_FDCWD, sub->where,
			    MOVE_MOUNT_F_EMPTY_PATH);
}

int run_space_show_submounts(struct run_space *s, char **names, struct error *err)
{
	size_t size;
	*names = NULL;
	if (!s->n_subs)
		return 0;
	FILE *out = open_memstream(names, &size);
	if (!out)
		return error_set(err, "out of memory");
	int rc = 0;
	for (unsigned i = 0; i < s->n_subs && rc == 0; i++) {
		rc = show_submount(&s->sub[i]);
		if (rc < 0)
			error_set(
				err,
				"%s: another filesystem is mounted there and cannot be shown in the "
				"throttled view: %s",
				s->sub[i].where, strerror(errno));
		fprintf(out, "%s%s", i ? ", " : "", s->sub[i].where);
	}
	return fclose(out) == 0 ? rc : error_set(err, "out of memory");
}

void run_space_unmount(const struct configuration *c)
{
	for (unsigned i = c->n_mounts; i-- > 0;)
		umount2(c->mount[i].mountpoint, MNT_DETACH | UMOUNT_NOFOLLOW);
}

void run_space_free(struct run_space *s)
{
	for (unsigned i = 0; i < s->n_dirs; i++)
		close(s->dir_fd[i]);
	for (unsigned i = 0; i < s->n_subs; i++)
		free(s->sub[i].where);
	free(s->dir_fd);
	free(s->sub);
}

/* --- processes in the namespace ------------------------------------------------------------- */

static bool namespace_of(const char *pid, char buf[64])
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%.20s/ns/mnt", pid);
	ssize_t n = readlink(path, buf, 63);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static void put_name(const char *pid, FILE *out)
{
	char path[64], name[64] = "";
	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	AUTO_FILE f = fopen(path, "re");
	if (f && fgets(name, sizeof(name), f))
		name[strcspn(name, "\n")] = '\0';
	make_one_line(name);
	fprintf(out, " %s (%s)", pid, name);
}

unsigned run_space_others(char *text, size_t size)
{
	char own[64], other[64];
	unsigned n = 0;
	AUTO_DIR proc = opendir("/proc");
	text[0] = '\0';
	FILE *out = fmemopen(text, size, "w");
	if (!proc || !out || !namespace_of("self", own)) {
		if (out)
			fclose(out);
		return 0;
	}
	for (const struct dirent *e; (e = readdir(proc));) {
		if (!isdigit((unsigned char)e->d_name[0]) ||
		    strtol(e->d_name, NULL, 10) == getpid() || !namespace_of(e->d_name, other) ||
		    strcmp(own, other) != 0)
			continue;
		if (n++ < 5)
			put_name(e->d_name, out);
	}
	if (n > 5)
		fprintf(out, " and %u more", n - 5);
	fclose(out);
	return n;
}
