/* SPDX-License-Identifier: MIT */
#include "fs/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"

#ifndef MS_NOSYMFOLLOW
#define MS_NOSYMFOLLOW 256
#endif

static const struct {
	const char *name;
	unsigned long set, clear;
} flags[] = {
	{"ro", MS_RDONLY, 0},
	{"rw", 0, MS_RDONLY},
	{"nosuid", MS_NOSUID, 0},
	{"suid", 0, MS_NOSUID},
	{"nodev", MS_NODEV, 0},
	{"dev", 0, MS_NODEV},
	{"noexec", MS_NOEXEC, 0},
	{"exec", 0, MS_NOEXEC},
	{"sync", MS_SYNCHRONOUS, 0},
	{"async", 0, MS_SYNCHRONOUS},
	{"dirsync", MS_DIRSYNC, 0},
	{"noatime", MS_NOATIME, 0},
	{"atime", 0, MS_NOATIME},
	{"relatime", 0, MS_NOATIME},
	{"strictatime", 0, MS_NOATIME},
	{"nodiratime", MS_NODIRATIME, 0},
	{"diratime", 0, MS_NODIRATIME},
	{"nosymfollow", MS_NOSYMFOLLOW, 0},
	{"symfollow", 0, MS_NOSYMFOLLOW},
};

struct plan {
	unsigned long flags;
	char *source, *type;
	char *label; /* an SELinux option; a kernel without SELinux refuses it */
	FILE *data;  /* options that FUSE itself reads */
};

static bool is_flag(const char *word, unsigned long *out)
{
	for (unsigned i = 0; i < ARRAY_SIZE(flags); i++) {
		if (strcmp(word, flags[i].name) == 0) {
			*out = (*out | flags[i].set) & ~flags[i].clear;
			return true;
		}
	}
	return false;
}

static bool is_label(const char *word)
{
	static const char *const names[] = {
		"context=", "fscontext=", "defcontext=", "rootcontext="};
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (strncmp(word, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static bool plan_word(struct plan *p, const char *word)
{
	if (is_flag(word, &p->flags))
		return true;
	if (strncmp(word, "fsname=", 7) == 0) {
		free(p->source);
		p->source = strdup(word + 7);
		return p->source;
	}
	if (strncmp(word, "subtype=", 8) == 0) {
		free(p->type);
		return asprintf(&p->type, "fuse.%s", word + 8) >= 0;
	}
	if (is_label(word)) {
		free(p->label);
		p->label = strdup(word);
	}
	if (strcmp(word, "allow_root") == 0)
		fputs(",allow_other", p->data); /* libfuse refuses the others */
	else
		fprintf(p->data, ",%s", word);
	return true;
}

/* Splits at commas; a backslash makes the next character literal. */
static bool plan_options(struct plan *p, const char *options,
			 bool (*each)(struct plan *p, const char *word))
{
	AUTO_FREE char *word = malloc(strlen(options) + 1);
	size_t n = 0;
	for (const char *at = options; word; at++) {
		if (*at && *at != ',') {
			if (*at == '\\' && at[1])
				at++;
			word[n++] = *at;
			continue;
		}
		word[n] = '\0';
		if (n && !each(p, word))
			return false;
		if (!*at)
			return true;
		n = 0;
	}
	return false;
}

static int mount_it(const char *mountpoint, const char *options, struct plan *p, struct error *err)
{
	AUTO_FREE char *data = NULL;
	size_t size;
	struct stat st;
	AUTO_FD fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, "/dev/fuse: %s%s", strerror(errno),
				 errno == ENOENT || errno == ENODEV ? "; try 'modprobe fuse'" : "");
	if (stat(mountpoint, &st) < 0)
		return error_set(err, "mountpoint '%s': %s", mountpoint, strerror(errno));
	p->data = open_memstream(&data, &size);
	if (!p->data)
		return error_set(err, "out of memory");
	fprintf(p->data, "fd=%d,rootmode=%o,user_id=%u,group_id=%u", fd, st.st_mode & S_IFMT,
		getuid(), getgid());
	bool ok = plan_options(p, options, plan_word);
	if (fclose(p->data) != 0 || !ok)
		return error_set(err, "out of memory");
	if (mount(p->source ? p->source : "ratefs", mountpoint, p->type ? p->type : "fuse",
		  p->flags, data) == 0)
		return take_fd(&fd);
	if (errno == EPERM)
		return -2;
	if (errno == EINVAL && p->label)
		return error_set(err, "cannot mount on '%s': the kernel does not accept '%s'%s",
				 mountpoint, p->label,
				 access("/sys/fs/selinux/enforce", F_OK) < 0 ? ": SELinux is off"
									     : "");
	return error_set(err, "cannot mount on '%s': %s", mountpoint, strerror(errno));
}

int attach(const char *mountpoint, const char *options, struct error *err)
{
	struct plan p = {.flags = MS_NOSUID | MS_NODEV};
	int fd = mount_it(mountpoint, options ? options : "", &p, err);
	free(p.source);
	free(p.type);
	free(p.label);
	return fd;
}

static bool plan_flag(struct plan *p, const char *word)
{
	is_flag(word, &p->flags);
	return true;
}

int attach_remount(const char *mountpoint, const char *options, struct error *err)
{
	struct plan p = {0};
	struct statfs st;
	if (statfs(mountpoint, &st) < 0)
		return error_set(err, "'%s': %s", mountpoint, strerror(errno));
	if (st.f_type != FUSE_SUPER_MAGIC)
		return error_set(err, "'%s' is not a FUSE mount", mountpoint);
	if (!plan_options(&p, options, plan_flag))
		return error_set(err, "out of memory");
	if (!(p.flags & MS_NOATIME))
		p.flags |= MS_RELATIME; /* otherwise the kernel leaves it unchanged */
	if (mount(NULL, mountpoint, NULL, MS_REMOUNT | p.flags, NULL) < 0)
		return error_set(err, "cannot remount '%s': %s", mountpoint, strerror(errno));
	return 0;
}
