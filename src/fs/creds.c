/* SPDX-License-Identifier: MIT */
#include "fs/creds.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "fs/mirror.h"

#define GROUPS_MAX 256

struct caps {
	struct __user_cap_data_struct set[_LINUX_CAPABILITY_U32S_3];
};

static _Thread_local struct {
	bool started;
	uid_t uid;
	gid_t gid;
	bool groups; /* supplementary groups are set */
	bool reduced;
	mode_t mask;
	struct caps full, less;
} self;

static void set_caps(const struct caps *caps)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	if (syscall(SYS_capset, &head, caps->set) < 0)
		log_error("cannot change the capabilities of a thread: %s", strerror(errno));
}

static void drop(struct caps *caps, int cap)
{
	caps->set[CAP_TO_INDEX(cap)].effective &= ~CAP_TO_MASK(cap);
}

void creds_thread_start(void)
{
	if (self.started)
		return;
	self.started = true;
	self.uid = geteuid();
	self.gid = getegid();
	/* An own umask needs an own fs_struct; without it the umask of one caller would be
	 * another's. */
	if (unshare(CLONE_FS) < 0)
		log_warning("cannot give a thread its own umask: %s", strerror(errno));
	self.mask = umask(0);
	umask(self.mask);
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	if (syscall(SYS_capget, &head, self.full.set) < 0)
		log_error("cannot read the capabilities of a thread: %s", strerror(errno));
	self.less = self.full;
	drop(&self.less, CAP_FSETID);
	drop(&self.less, CAP_SYS_RESOURCE);
	if (self.uid == 0)
		syscall(SYS_setgroups, 0, NULL);
}

static void clear_groups(void)
{
	if (self.groups) {
		syscall(SYS_setgroups, 0, NULL);
		self.groups = false;
	}
}

static void become(uid_t uid, gid_t gid, bool reduced)
{
	clear_groups();
	if (self.gid != gid) {
		syscall(SYS_setfsgid, gid);
		self.gid = gid;
	}
	bool changed = self.uid != uid;
	if (changed) {
		syscall(SYS_setfsuid, uid);
		self.uid = uid;
	}
	/* Leaving or entering fsuid 0 makes the kernel drop or raise file capabilities. */
	if (changed || self.reduced != reduced) {
		set_caps(reduced ? &self.less : &self.full);
		self.reduced = reduced;
	}
}

void creds_be_daemon(const struct fs *fs)
{
	if (fs->is_root)
		become(0, 0, false);
}

void creds_be_daemon_without_fsetid(const struct fs *fs)
{
	if (fs->is_root)
		become(0, 0, true);
}

void creds_be_caller(const struct fs *fs, fuse_req_t req)
{
	if (!fs->is_root)
		return;
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	become(ctx->uid, ctx->gid, ctx->uid != 0);
}

void creds_be_caller_with_groups(const struct fs *fs, fuse_req_t req)
{
	creds_be_caller(fs, req);
	if (!fs->is_root)
		return;
	gid_t groups[GROUPS_MAX];
	int n = fuse_req_getgroups(req, GROUPS_MAX, groups);
	if (n <= 0)
		return;
	if (n > GROUPS_MAX)
		n = GROUPS_MAX;
	/* Setting groups needs CAP_SETGID only, which a caller's thread keeps. */
	if (syscall(SYS_setgroups, n, groups) == 0)
		self.groups = true;
}

bool creds_membership_matters(fuse_req_t req, const struct stat *st)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	return ctx->uid != 0 && (st->st_mode & (S_ISGID | S_IXGRP)) == S_ISGID &&
	       st->st_gid != ctx->gid;
}

void creds_be_writer(const struct fs *fs, fuse_req_t req, bool membership_matters)
{
	if (membership_matters)
		creds_be_caller_with_groups(fs, req);
	else
		creds_be_caller(fs, req);
}

void creds_umask(mode_t mask)
{
	if (self.mask != mask) {
		umask(mask);
		self.mask = mask;
	}
}
