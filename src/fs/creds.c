/* SPDX-License-Identifier: MIT */
#include "fs/creds.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/util.h"
#include "fs/groups.h"
#include "fs/mirror.h"
#include "fs/request.h"

struct caps {
	struct __user_cap_data_struct set[_LINUX_CAPABILITY_U32S_3];
};

/* The capabilities of a thread.  For root: all, or all but CAP_FSETID.  For other callers: those in
 * caller_caps, because the kernel has checked permissions, and for some calls those in
 * more_caps. */
enum power {
	POWER_FULL,
	POWER_NO_FSETID,
	POWER_CALLER,
	POWER_TOUCHER,
	POWER_CAPABILITY,
	POWER_MAPPER,
	POWER_REGISTRAR,
	POWERS
};

/* CAP_SETUID and CAP_SETGID: to become the next caller. */
static const int caller_caps[] = {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SETUID, CAP_SETGID};
static const int more_caps[POWERS][2] = {
	[POWER_TOUCHER] = {CAP_FOWNER, CAP_FSETID},
	[POWER_CAPABILITY] = {CAP_SETFCAP, -1},
	[POWER_MAPPER] = {CAP_FSETID, -1},
	[POWER_REGISTRAR] = {CAP_SYS_ADMIN, -1},
};

static _Thread_local struct {
	bool started;
	bool valid; /* uid, gid, groups and power are those of the thread */
	uid_t uid;
	gid_t gid;
	struct groups groups;
	enum power power;
	bool own_umask;
	mode_t mask;
	struct caps caps[POWERS];
	struct groups wanted; /* buffer for looking them up */
} self;

static const struct groups no_groups;

/* --- the start of a thread ------------------------------------------------------------------- */

static void raise_cap(struct caps *caps, int cap)
{
	uint32_t had = caps->set[CAP_TO_INDEX(cap)].permitted & CAP_TO_MASK(cap);
	caps->set[CAP_TO_INDEX(cap)].effective |= had;
}

static void plan_power(enum power power)
{
	struct caps *caps = &self.caps[power];
	*caps = self.caps[POWER_FULL];
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		caps->set[i].effective = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(caller_caps); i++)
		raise_cap(caps, caller_caps[i]);
	for (unsigned i = 0; i < 2 && power != POWER_CALLER; i++)
		if (more_caps[power][i] >= 0)
			raise_cap(caps, more_caps[power][i]);
}

/* A umask of its own requires an fs_struct of its own; otherwise threads would share one umask. */
static int own_umask(void)
{
	if (unshare(CLONE_FS) < 0)
		return -errno;
	self.mask = umask(0);
	umask(self.mask);
	self.own_umask = true;
	return 0;
}

void creds_thread_stop(void)
{
	groups_free(&self.groups);
	groups_free(&self.wanted);
	self.started = self.valid = false;
}

/* --- changing ---------------------------------------------------------------------------------- */

static int failed(const char *what, uid_t uid, gid_t gid)
{
	static _Atomic uint64_t next_ns;
	int error = errno;
	if (log_is_due(&next_ns))
		log_error("a request failed: cannot act as user %u, group %u: %s: %s", uid, gid,
			  what, error ? strerror(error) : "refused");
	return -EIO;
}

/* In a user namespace that forbids setgroups, the groups are those of its creator, for all
 * processes in it. */
static bool groups_are_fixed(void)
{
	char text[8] = "";
	AUTO_FD fd = open("/proc/self/setgroups", O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && !strncmp(text, "deny", 4);
}

static bool set_groups(const struct groups *groups)
{
	if (syscall(SYS_setgroups, groups->n, groups->id) < 0) {
		int error = errno;
		if (error != EPERM || !groups_are_fixed()) {
			errno = error;
			return false;
		}
	}
	return groups_copy(&self.groups, groups->id, groups->n);
}

/* setfsuid and setfsgid return the previous ID, which does not tell success from failure.  Called
 * with an invalid ID they change nothing and return the current one. */
static bool set_id(long call, uint32_t id)
{
	errno = 0;
	syscall(call, id);
	return (uint32_t)syscall(call, -1) == id;
}

static bool set_caps(enum power power)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	return syscall(SYS_capset, &head, self.caps[power].set) == 0;
}

static int become(uid_t uid, gid_t gid, const struct groups *groups, enum power power)
{
	bool all = !self.valid;
	bool new_groups = all || !groups_equal(&self.groups, groups);
	/* When fsuid becomes 0 or stops being 0, the kernel itself raises or drops capabilities. */
	bool new_caps = all || self.power != power || (self.uid == 0) != (uid == 0);
	if (!new_groups && !new_caps && self.uid == uid && self.gid == gid)
		return 0;
	self.valid = false; /* until everything is done */
	if (new_groups && !set_groups(groups))
		return failed("setgroups", uid, gid);
	if ((all || self.gid != gid) && !set_id(SYS_setfsgid, gid))
		return failed("setfsgid", uid, gid);
	if ((all || self.uid != uid) && !set_id(SYS_setfsuid, uid))
		return failed("setfsuid", uid, gid);
	if (new_caps && !set_caps(power))
		return failed("capset", uid, gid);
	self.uid = uid;
	self.gid = gid;
	self.power = power;
	self.valid = true;
	return 0;
}

/* Root's thread keeps the power that it has, if CAP_FSETID does not matter. */
static enum power any_full(void)
{
	return self.power == POWER_NO_FSETID ? POWER_NO_FSETID : POWER_FULL;
}

/* The same for other callers and CAP_SYS_ADMIN: a user who opens many files in passthrough should
 * not pay for dropping it each time. */
static enum power any_caller(void)
{
	return self.power == POWER_REGISTRAR ? POWER_REGISTRAR : POWER_CALLER;
}

void creds_thread_start(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	if (self.started)
		return;
	self.started = true;
	/* If one of these fails, requests that depend on it fail later. */
	own_umask();
	if (syscall(SYS_capget, &head, self.caps[POWER_FULL].set) < 0)
		memset(&self.caps, 0, sizeof(self.caps));
	/* The thread that created this one may have been acting as a caller. */
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		self.caps[POWER_FULL].set[i].effective = self.caps[POWER_FULL].set[i].permitted;
	self.caps[POWER_NO_FSETID] = self.caps[POWER_FULL];
	self.caps[POWER_NO_FSETID].set[CAP_TO_INDEX(CAP_FSETID)].effective &=
		~CAP_TO_MASK(CAP_FSETID);
	for (enum power p = POWER_CALLER; p < POWERS; p++)
		plan_power(p);
	if (geteuid() == 0)
		become(0, 0, &no_groups, POWER_FULL);
}

/* --- callers ------------------------------------------------------------------------------------ */

static int be_caller(const struct fs *fs, uid_t uid, gid_t gid, pid_t pid, enum power power)
{
	if (!fs->source_checks || uid == 0)
		return become(uid, gid, &no_groups, power);
	if (!groups_of_lately((uint32_t)pid, uid, gid, &self.wanted)) {
		errno = ENOMEM;
		return failed("its groups", uid, gid);
	}
	return become(uid, gid, &self.wanted, power);
}

static bool has_caller(const struct request *req)
{
	if (req->in->opcode == FUSE_WRITE)
		return !(((const struct fuse_write_in *)req->args)->write_flags & FUSE_WRITE_CACHE);
	return !req->op->no_caller;
}

int creds_begin(const struct request *req)
{
	const struct fuse_in_header *in = req->in;
	if (!req->fs->is_root || !has_caller(req))
		return 0;
	return be_caller(req->fs, in->uid, in->gid, (pid_t)in->pid,
			 in->uid ? any_caller() : any_full());
}

static int be(const struct fs *fs, const struct request *req, enum power of_root,
	      enum power of_others)
{
	const struct fuse_in_header *ctx = req->in;
	if (!fs->is_root)
		return 0;
	return be_caller(fs, ctx->uid, ctx->gid, (pid_t)ctx->pid, ctx->uid ? of_others : of_root);
}

int creds_be_changer(const struct fs *fs, const struct request *req)
{
	return be(fs, req, POWER_FULL, any_caller());
}

int creds_be_plain_caller(const struct fs *fs, const struct request *req)
{
	return be(fs, req, POWER_FULL, POWER_CALLER);
}

int creds_be_toucher(const struct fs *fs, const struct request *req)
{
	return be(fs, req, POWER_FULL, POWER_TOUCHER);
}

int creds_be_capability_setter(const struct fs *fs, const struct request *req)
{
	return be(fs, req, POWER_FULL, POWER_CAPABILITY);
}

int creds_be_member(const struct fs *fs, const struct request *req)
{
	const struct fuse_in_header *ctx = req->in;
	if (!fs->is_root)
		return 0;
	if (!groups_of(ctx->pid, &self.wanted)) {
		errno = ENOMEM;
		return failed("its groups", ctx->uid, ctx->gid);
	}
	return become(ctx->uid, ctx->gid, &self.wanted, ctx->uid ? POWER_CALLER : POWER_FULL);
}

static int set_umask(mode_t mask)
{
	if (!self.own_umask && own_umask() < 0)
		return failed("a umask of its own", self.uid, self.gid);
	if (self.mask != mask) {
		umask(mask);
		self.mask = mask;
	}
	return 0;
}

int creds_be_maker(const struct fs *fs, const struct request *req, mode_t mode)
{
	const mode_t both = S_ISGID | S_IXGRP;
	bool asks = (mode & both) == both && !S_ISDIR(mode);
	int res = asks ? creds_be_member(fs, req) : be(fs, req, any_full(), any_caller());
	return res < 0 ? res : set_umask(req->umask);
}

bool creds_membership_matters(const struct request *req, const struct stat *st)
{
	const struct fuse_in_header *ctx = req->in;
	return ctx->uid != 0 && (st->st_mode & (S_ISGID | S_IXGRP)) == S_ISGID &&
	       st->st_gid != ctx->gid;
}

int creds_be_writer(const struct fs *fs, const struct request *req, bool membership_matters)
{
	return membership_matters ? creds_be_member(fs, req) : creds_be_changer(fs, req);
}

/* --- openers ------------------------------------------------------------------------------------ */

int creds_be_opener(const struct fs *fs, uid_t uid, gid_t gid)
{
	if (!fs->is_root)
		return 0;
	return become(uid, gid, &no_groups, uid ? any_caller() : any_full());
}

int creds_be_mapper(const struct fs *fs, uid_t uid, gid_t gid)
{
	if (!fs->is_root)
		return 0;
	return become(uid, gid, &no_groups, uid ? POWER_MAPPER : POWER_FULL);
}

int creds_be_registrar(const struct fs *fs, uid_t uid, gid_t gid)
{
	if (!fs->is_root)
		return 0;
	return become(uid, gid, &no_groups, uid ? POWER_REGISTRAR : POWER_NO_FSETID);
}

/* --- sources -------------------------------------------------------------------------------------- */

/* Filesystems whose permissions the kernel checks, by the attributes that stat shows. */
static const uint32_t local_types[] = {
	EXT4_SUPER_MAGIC,  XFS_SUPER_MAGIC,	 BTRFS_SUPER_MAGIC,    TMPFS_MAGIC,
	RAMFS_MAGIC,	   F2FS_SUPER_MAGIC,	 NILFS_SUPER_MAGIC,    OVERLAYFS_SUPER_MAGIC,
	SQUASHFS_MAGIC,	   EROFS_SUPER_MAGIC_V1, ISOFS_SUPER_MAGIC,    UDF_SUPER_MAGIC,
	MSDOS_SUPER_MAGIC, EXFAT_SUPER_MAGIC,	 REISERFS_SUPER_MAGIC, 0x2fc12fc1, /* ZFS */
	0xca451a4e,								   /* bcachefs */
	0x3153464a,								   /* JFS */
	0x7366746e,								   /* ntfs3 */
};

bool creds_source_checks(uint64_t fs_type)
{
	for (unsigned i = 0; i < ARRAY_SIZE(local_types); i++)
		if (local_types[i] == (uint32_t)fs_type)
			return false;
	return true;
}
