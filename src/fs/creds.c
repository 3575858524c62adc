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

/* What a thread may do: all; all but keep set-id bits; what a caller without privileges may; all but
 * what is reserved for root. */
enum power { POWER_FULL, POWER_NO_FSETID, POWER_CALLER, POWER_MAPPER, POWERS };

static _Thread_local struct {
	bool started;
	uid_t uid;
	gid_t gid;
	bool groups; /* supplementary groups are set */
	enum power power;
	mode_t mask;
	struct caps caps[POWERS];
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
	if (syscall(SYS_capget, &head, self.caps[POWER_FULL].set) < 0)
		log_error("cannot read the capabilities of a thread: %s", strerror(errno));
	self.caps[POWER_NO_FSETID] = self.caps[POWER_FULL];
	drop(&self.caps[POWER_NO_FSETID], CAP_FSETID);
	self.caps[POWER_CALLER] = self.caps[POWER_NO_FSETID];
	drop(&self.caps[POWER_CALLER], CAP_SYS_RESOURCE);
	drop(&self.caps[POWER_CALLER], CAP_FOWNER);
	drop(&self.caps[POWER_CALLER], CAP_CHOWN);
	self.caps[POWER_MAPPER] = self.caps[POWER_FULL];
	drop(&self.caps[POWER_MAPPER], CAP_SYS_RESOURCE);
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

static void become(uid_t uid, gid_t gid, enum power power)
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
	if (changed || self.power != power) {
		set_caps(&self.caps[power]);
		self.power = power;
	}
}

void creds_be_daemon(const struct fs *fs)
{
	if (fs->is_root)
		become(0, 0, POWER_FULL);
}

void creds_be_mapper(const struct fs *fs, uid_t uid, gid_t gid)
{
	if (fs->is_root)
		become(uid, gid, uid ? POWER_MAPPER : POWER_FULL);
}

void creds_be_passthrough(const struct fs *fs, uid_t uid, gid_t gid)
{
	if (fs->is_root)
		become(uid, gid, uid ? POWER_CALLER : POWER_NO_FSETID);
}

void creds_be_caller(const struct fs *fs, fuse_req_t req)
{
	if (!fs->is_root)
		return;
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	become(ctx->uid, ctx->gid, ctx->uid ? POWER_CALLER : POWER_FULL);
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

/* Where CAP_FSETID does not matter a thread keeps what it has of the two. */
static enum power any_full(void)
{
	return self.power == POWER_NO_FSETID ? POWER_NO_FSETID : POWER_FULL;
}

void creds_be_maker(const struct fs *fs, fuse_req_t req, mode_t mode)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	const mode_t both = S_ISGID | S_IXGRP;
	if (fs->is_root && (mode & both) == both && !S_ISDIR(mode))
		creds_be_caller_with_groups(fs, req);
	else if (fs->is_root)
		become(ctx->uid, ctx->gid, ctx->uid ? POWER_CALLER : any_full());
	creds_umask(ctx->umask);
}

void creds_be_remover(const struct fs *fs, fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	if (fs->is_root)
		become(ctx->uid, ctx->gid, ctx->uid ? POWER_CALLER : any_full());
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
