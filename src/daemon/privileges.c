/* SPDX-License-Identifier: MIT */
#include "daemon/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"

/* Sanitizers open files, trace threads and start a symbolizer, which we would otherwise forbid. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(RATEFS_SANITIZER)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* What serving needs.  Deliberately missing: CAP_SYS_RESOURCE, with which every caller could use
 * blocks reserved for root and exceed quotas; CAP_SYS_PTRACE and CAP_KILL, because everything
 * needed about callers is in /proc/PID/status, which is readable for all. */
static const unsigned char needed[] = {
	CAP_SYS_ADMIN,	  /* mount, umount, kernel passthrough, open_by_handle_at, trusted xattrs */
	CAP_DAC_OVERRIDE, /* access any file of the source: the kernel has checked the caller */
	CAP_DAC_READ_SEARCH, /* open_by_handle_at */
	CAP_CHOWN,	     /* chown by root */
	CAP_FOWNER,	     /* chmod, utimes, xattrs of others' files by root */
	CAP_FSETID,	     /* keep setgid bits if the caller may; dropped for writes by others */
	CAP_SETUID,	     /* setfsuid: act as the caller */
	CAP_SETGID,	     /* setfsgid, setgroups */
	CAP_MKNOD,	     /* device nodes created by root */
	CAP_SETFCAP,	     /* security.capability set by root */
	CAP_LINUX_IMMUTABLE, /* chattr +i +a by root */
};

/* --- start ---------------------------------------------------------------------------------- */

/* If a standard descriptor were closed, the next file that we open would get its number, and
 * messages would be written to that file. */
static void fill_standard_fds(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", O_RDWR) != fd) /* cloexec: not for stdio */
			return;
}

/* The kernel enforces the file size limits of callers.  The daemon's own would apply to every
 * caller, and SIGXFSZ would kill the daemon. */
static void unlimit_file_size(void)
{
	struct rlimit size = {RLIM_INFINITY, RLIM_INFINITY};
	if (setrlimit(RLIMIT_FSIZE, &size) < 0 && getrlimit(RLIMIT_FSIZE, &size) == 0) {
		size.rlim_cur = size.rlim_max;
		setrlimit(RLIMIT_FSIZE, &size);
	}
	signal(SIGXFSZ, SIG_IGN);
}

void privileges_enter(void)
{
	struct rlimit none = {0, 0};
	fill_standard_fds();
	/* RLIMIT_CORE is not enough: if core_pattern is a pipe, the kernel ignores it. */
	if (!SANITIZED)
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	setrlimit(RLIMIT_CORE, &none);
	unlimit_file_size();
	umask(077);
}

/* --- capabilities --------------------------------------------------------------------------- */

struct caps {
	struct __user_cap_data_struct word[_LINUX_CAPABILITY_U32S_3];
};

static int caps_get(struct caps *c)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	return (int)syscall(SYS_capget, &head, c->word);
}

static int caps_set(const struct caps *c)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	return (int)syscall(SYS_capset, &head, c->word);
}

static bool is_needed(unsigned cap)
{
	for (unsigned i = 0; i < ARRAY_SIZE(needed); i++)
		if (needed[i] == cap)
			return true;
	return false;
}

bool privileges_privileged(void)
{
	struct caps c;
	return caps_get(&c) == 0 &&
	       (c.word[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN));
}

uint64_t privileges_permitted(void)
{
	struct caps c;
	return caps_get(&c) < 0 ? 0 : c.word[0].permitted | (uint64_t)c.word[1].permitted << 32;
}

void privileges_restrict(uint64_t capabilities)
{
	struct caps c;
	for (unsigned cap = 0; cap < 64 && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (!(capabilities >> cap & 1))
			prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	if (caps_get(&c) < 0)
		return;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		uint32_t keep = (uint32_t)(capabilities >> (32 * i));
		c.word[i].permitted &= keep;
		c.word[i].effective &= keep;
		c.word[i].inheritable &= keep;
	}
	caps_set(&c);
}

static int drop_capabilities(struct error *err)
{
	struct caps c;
	/* The bounding set first: that needs CAP_SETPCAP, which is dropped as well.  A process
	 * without CAP_SETPCAP cannot gain anything from the bounding set. */
	for (unsigned cap = 0; cap < 64 && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (!is_needed(cap))
			prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);

	if (caps_get(&c) < 0)
		return error_set(err, "cannot read capabilities: %s", strerror(errno));
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		uint32_t keep = 0;
		for (unsigned n = 0; n < ARRAY_SIZE(needed); n++)
			if (CAP_TO_INDEX(needed[n]) == i)
				keep |= CAP_TO_MASK(needed[n]);
		c.word[i].permitted &= keep;
		c.word[i].effective &= keep;
		c.word[i].inheritable = 0;
	}
	if (caps_set(&c) < 0)
		return error_set(err, "cannot drop capabilities: %s", strerror(errno));
	return 0;
}

int privileges_drop(bool uring, struct error *err)
{
	if (SANITIZED || !privileges_privileged())
		return 0;
	if (drop_capabilities(err) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_set(err, "cannot set no_new_privs: %s", strerror(errno));
	return seccomp_install(uring, err);
}
