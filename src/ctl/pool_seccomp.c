/* SPDX-License-Identifier: MIT */
/* The system calls that a helper may make: sockets, reading the files of the resolver, memory, time.  It cannot start
 * programs or children, or change files.  Other system calls fail with ENOSYS. */
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/util.h"
#include "ctl/pool_link.h"

/* clang-format off */
static const int allowed[] = {
	SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(write), SCMP_SYS(writev),
	SCMP_SYS(close), SCMP_SYS(fcntl), SCMP_SYS(lseek), SCMP_SYS(ioctl),
	SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(statx),
	SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(readlink),
	SCMP_SYS(readlinkat), SCMP_SYS(getdents64), SCMP_SYS(getcwd),
	SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6),
	SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait),
	SCMP_SYS(connect), SCMP_SYS(accept4), SCMP_SYS(bind), SCMP_SYS(sendto), SCMP_SYS(sendmsg),
	SCMP_SYS(sendmmsg), SCMP_SYS(recvfrom), SCMP_SYS(recvmsg), SCMP_SYS(recvmmsg),
	SCMP_SYS(shutdown), SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex),
	SCMP_SYS(rseq), SCMP_SYS(set_robust_list), SCMP_SYS(gettid), SCMP_SYS(getpid),
	SCMP_SYS(getppid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack), SCMP_SYS(restart_syscall), SCMP_SYS(sched_yield),
	SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),
	SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(uname), SCMP_SYS(sysinfo),
	SCMP_SYS(getrandom), SCMP_SYS(getrlimit), SCMP_SYS(prlimit64), SCMP_SYS(getrusage),
	SCMP_SYS(exit), SCMP_SYS(exit_group),
};
/* clang-format on */

/* Files are read, never written; nothing is both writable and executable. */
static int add_conditions(scmp_filter_ctx f)
{
	const struct {
		int call;
		unsigned arg;
		uint64_t mask, value;
	} rules[] = {
		{SCMP_SYS(openat), 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY},
		{SCMP_SYS(open), 1, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY},
		{SCMP_SYS(mmap), 2, PROT_EXEC, 0},
		{SCMP_SYS(mmap), 2, PROT_WRITE | PROT_EXEC, PROT_EXEC},
		{SCMP_SYS(mprotect), 2, PROT_EXEC, 0},
		{SCMP_SYS(socket), 0, UINT32_MAX, AF_INET},
		{SCMP_SYS(socket), 0, UINT32_MAX, AF_INET6},
		{SCMP_SYS(socket), 0, UINT32_MAX, AF_UNIX},
		{SCMP_SYS(socket), 0, UINT32_MAX, AF_NETLINK}, /* getaddrinfo asks for interfaces */
	};
	int rc = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(rules) && rc == 0; i++) {
		struct scmp_arg_cmp match = {rules[i].arg, SCMP_CMP_MASKED_EQ, rules[i].mask,
					     rules[i].value};
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, rules[i].call, 1, match);
	}
	return rc;
}

int pool_restrict(struct error *err)
{
#ifdef RATEFS_SANITIZER
	return 0; /* sanitizers make system calls of their own */
#endif
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	int rc = f ? 0 : -ENOMEM;
	for (unsigned i = 0; i < ARRAY_SIZE(allowed) && rc == 0; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, allowed[i], 0);
	if (rc == 0)
		rc = add_conditions(f);
	if (rc == 0)
		rc = seccomp_load(f);
	seccomp_release(f);
	return rc ? error_set(err, "system call filter: %s", strerror(-rc)) : 0;
}
