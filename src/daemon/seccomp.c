/* SPDX-License-Identifier: MIT */
/* The system calls of a privileged daemon; everything else fails with ENOSYS.
 *
 * Why it fails instead of ending the process: newer C libraries try newer calls and fall back if these
 * do not exist, and a daemon that dies takes everybody's files with it.  Only calls that no such
 * fallback uses, but an attacker does, end the process: see `deadly`.
 *
 * Calls whose arguments are not checked are decided by the kernel from a bitmap in a few ns; that is
 * why the calls of the hot path (read, writev, pread64, …) have no conditions. */
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "daemon/privileges.h"

/* clang-format off */
static const int allowed[] = {
	/* data of files, requests and replies */
	SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(preadv), SCMP_SYS(preadv2),
	SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(pwrite64), SCMP_SYS(pwritev), SCMP_SYS(pwritev2),
	SCMP_SYS(splice), SCMP_SYS(vmsplice), SCMP_SYS(tee), SCMP_SYS(sendfile),
	SCMP_SYS(copy_file_range), SCMP_SYS(lseek), SCMP_SYS(fallocate), SCMP_SYS(fadvise64),
	SCMP_SYS(fsync), SCMP_SYS(fdatasync), SCMP_SYS(sync_file_range), SCMP_SYS(syncfs),
	SCMP_SYS(ioctl),
	/* descriptors */
	SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3),
	SCMP_SYS(fcntl), SCMP_SYS(flock), SCMP_SYS(pipe), SCMP_SYS(pipe2), SCMP_SYS(eventfd2),
	SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6),
	SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2), SCMP_SYS(signalfd4),
	/* names and attributes */
	SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(creat),
	SCMP_SYS(name_to_handle_at), SCMP_SYS(open_by_handle_at),
	SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(statx),
	SCMP_SYS(statfs), SCMP_SYS(fstatfs), SCMP_SYS(access), SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getdents64),
	SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(mknod), SCMP_SYS(mknodat), SCMP_SYS(symlink),
	SCMP_SYS(symlinkat), SCMP_SYS(link), SCMP_SYS(linkat), SCMP_SYS(unlink), SCMP_SYS(unlinkat),
	SCMP_SYS(rmdir), SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2),
	SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(chown), SCMP_SYS(fchown),
	SCMP_SYS(lchown), SCMP_SYS(fchownat), SCMP_SYS(truncate), SCMP_SYS(ftruncate),
	SCMP_SYS(utimensat), SCMP_SYS(setxattr), SCMP_SYS(lsetxattr), SCMP_SYS(fsetxattr),
	SCMP_SYS(getxattr), SCMP_SYS(lgetxattr), SCMP_SYS(fgetxattr), SCMP_SYS(listxattr),
	SCMP_SYS(llistxattr), SCMP_SYS(flistxattr), SCMP_SYS(removexattr),
	SCMP_SYS(lremovexattr), SCMP_SYS(fremovexattr), SCMP_SYS(getcwd), SCMP_SYS(chdir),
	SCMP_SYS(fchdir), SCMP_SYS(umask),
	/* to act as the caller */
	SCMP_SYS(setfsuid), SCMP_SYS(setfsgid), SCMP_SYS(setgroups), SCMP_SYS(getgroups),
	SCMP_SYS(capget), SCMP_SYS(capset),
	SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
	SCMP_SYS(getresuid), SCMP_SYS(getresgid),
	/* mounts, also those that a reload adds */
	SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(open_tree), SCMP_SYS(move_mount),
	SCMP_SYS(mount_setattr),
	/* memory; memfd_create to read the configuration at a reload */
	SCMP_SYS(memfd_create), SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
	SCMP_SYS(membarrier), SCMP_SYS(mlock), SCMP_SYS(munlock),
	/* threads and signals */
	SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(get_robust_list), SCMP_SYS(rseq),
	SCMP_SYS(set_tid_address), SCMP_SYS(gettid), SCMP_SYS(getpid), SCMP_SYS(getppid),
	SCMP_SYS(getpgid), SCMP_SYS(getpgrp), SCMP_SYS(getsid), SCMP_SYS(setsid),
	SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler), SCMP_SYS(getpriority),
	SCMP_SYS(getcpu), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(wait4), SCMP_SYS(waitid),
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigpending), SCMP_SYS(rt_sigtimedwait), SCMP_SYS(rt_sigsuspend),
	SCMP_SYS(sigaltstack), SCMP_SYS(restart_syscall), SCMP_SYS(pause),
	SCMP_SYS(prctl), SCMP_SYS(arch_prctl),
	/* time */
	SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(clock_nanosleep),
	SCMP_SYS(nanosleep), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime), SCMP_SYS(timerfd_gettime),
	/* the control socket and the system log */
	SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(connect),
	SCMP_SYS(shutdown), SCMP_SYS(sendto), SCMP_SYS(sendmsg), SCMP_SYS(sendmmsg),
	SCMP_SYS(recvfrom), SCMP_SYS(recvmsg), SCMP_SYS(getsockname), SCMP_SYS(getpeername),
	SCMP_SYS(getsockopt), SCMP_SYS(setsockopt),
	/* information about the process and the system */
	SCMP_SYS(uname), SCMP_SYS(sysinfo), SCMP_SYS(getrandom), SCMP_SYS(getrlimit),
	SCMP_SYS(setrlimit), SCMP_SYS(prlimit64), SCMP_SYS(getrusage), SCMP_SYS(times),
};

static const int deadly[] = {
	SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
	SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load), SCMP_SYS(init_module),
	SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(bpf), SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd), SCMP_SYS(setns), SCMP_SYS(pivot_root), SCMP_SYS(chroot),
	SCMP_SYS(reboot), SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(add_key),
	SCMP_SYS(request_key), SCMP_SYS(keyctl),
	/* the daemon starts no programs */
	SCMP_SYS(execve), SCMP_SYS(vfork),
	SCMP_SYS(setuid), SCMP_SYS(setreuid), SCMP_SYS(setresuid),
	SCMP_SYS(setgid), SCMP_SYS(setregid), SCMP_SYS(setresgid),
};

/* Allowed if a mount may use io_uring; otherwise the first of them ends the process, too. */
static const int for_uring[] = {
	SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register),
	SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_setscheduler),
};
/* clang-format on */

#define NAMESPACES                                                                                 \
	(CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
	 CLONE_NEWCGROUP)

/* Calls that are allowed only with certain arguments; several rows for one
 * call are alternatives. */
static int add_conditions(scmp_filter_ctx f)
{
	const struct {
		int call;
		unsigned arg;
		uint64_t mask, value;
	} rules[] = {
		/* Threads and children, but no new namespaces.  clone3 has its flags in memory,
		 * where a filter cannot look; without it the C library uses clone. */
		{SCMP_SYS(clone), 0, NAMESPACES, 0},
		/* a umask for each thread */
		{SCMP_SYS(unshare), 0, UINT64_MAX, CLONE_FS},
		/* nothing that is both writable and executable */
		{SCMP_SYS(mmap), 2, PROT_EXEC, 0},
		{SCMP_SYS(mmap), 2, PROT_WRITE | PROT_EXEC, PROT_EXEC},
		{SCMP_SYS(mprotect), 2, PROT_EXEC, 0},
		{SCMP_SYS(mprotect), 2, PROT_WRITE | PROT_EXEC, PROT_EXEC},
		/* control socket and log are local; no network */
		{SCMP_SYS(socket), 0, UINT32_MAX, AF_UNIX},
		{SCMP_SYS(socketpair), 0, UINT32_MAX, AF_UNIX},
		/* signals to ourselves: abort, waking a receive thread */
		{SCMP_SYS(tgkill), 0, UINT32_MAX, (uint64_t)getpid()},
		{SCMP_SYS(kill), 0, UINT32_MAX, (uint64_t)getpid()},
	};
	int rc = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(rules) && rc == 0; i++) {
		struct scmp_arg_cmp match = {rules[i].arg, SCMP_CMP_MASKED_EQ, rules[i].mask,
					     rules[i].value};
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, rules[i].call, 1, match);
	}
	return rc;
}

static int add_rules(scmp_filter_ctx f, bool uring)
{
	int rc = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(allowed) && rc == 0; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, allowed[i], 0);
	for (unsigned i = 0; i < ARRAY_SIZE(deadly) && rc == 0; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_KILL_PROCESS, deadly[i], 0);
	for (unsigned i = 0; i < ARRAY_SIZE(for_uring) && rc == 0 && uring; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, for_uring[i], 0);
	if (rc == 0 && !uring)
		rc = seccomp_rule_add(f, SCMP_ACT_KILL_PROCESS, for_uring[0], 0);
	return rc ? rc : add_conditions(f);
}

int seccomp_install(bool uring, struct error *err)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	if (!f)
		return error_set(err, "cannot make a system call filter: %s", strerror(ENOMEM));
	/* A binary tree instead of a list, and no mitigations against speculation, since no
	 * foreign code runs here. */
	(void)seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	(void)seccomp_attr_set(f, SCMP_FLTATR_CTL_SSB, 1);
	int rc = add_rules(f, uring);
	if (rc == 0)
		rc = seccomp_load(f);
	seccomp_release(f);
	if (rc < 0)
		return error_set(err, "cannot install the system call filter: %s", strerror(-rc));
	return 0;
}
