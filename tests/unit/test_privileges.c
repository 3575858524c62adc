/* SPDX-License-Identifier: MIT */
/* Privileges cannot be regained, so tests drop them, and install the filter, in child processes. */
#include "daemon/privileges.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "unit/unit.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(RATEFS_SANITIZER)
#define SANITIZED true /* the sanitizer's runtime does not work behind the filter */
#else
#define SANITIZED false
#endif

/* For child processes: prints the condition that failed, and exits. */
#define MUST(what)                                                                                 \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "line %d: " #what ": %s\n", __LINE__, strerror(errno));    \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void filter(void)
{
	struct error err = ERROR_INIT;
	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	MUST(seccomp_install(false, &err) == 0);
}

/* Runs fn in a child process and returns its wait status. */
static int in_child(void (*fn)(void))
{
	int status;
	if (SANITIZED)
		return 0;
	pid_t pid = fork();
	if (pid == 0) {
		fn();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

START_TEST(no_core_of_file_data_is_ever_dumped)
{
	struct rlimit core;
	privileges_enter();
	getrlimit(RLIMIT_CORE, &core);
	ck_assert_uint_eq(core.rlim_max, 0);
	ck_assert_int_eq(prctl(PR_GET_DUMPABLE), SANITIZED);
}
END_TEST

START_TEST(what_the_daemon_creates_is_private_unless_it_says_otherwise)
{
	privileges_enter();
	ck_assert_uint_eq(umask(0), 077);
}
END_TEST

START_TEST(closed_standard_descriptors_are_filled_before_a_file_can_take_their_place)
{
	close(0);
	privileges_enter();
	int fd = dup(1);
	ck_assert_int_gt(fd, 2);
	close(fd);
}
END_TEST

static unsigned long long status_bits(const char *field)
{
	char line[256];
	AUTO_FILE f = fopen("/proc/self/status", "re");
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, field, strlen(field)) == 0)
			return strtoull(line + strlen(field) + 1, NULL, 16);
	return ~0ULL; /* no such field */
}

static void drop_all(void)
{
	struct error err = ERROR_INIT;
	if (!privileges_privileged())
		return;
	MUST(privileges_drop(false, &err) == 0);
	/* chown, dac_override, dac_read_search, fowner, fsetid, setgid, setuid, linux_immutable,
	 * sys_admin, mknod, setfcap */
	unsigned long long list = 0x882002dfULL;
	MUST((status_bits("CapEff:") & ~list) == 0);
	MUST((status_bits("CapPrm:") & ~list) == 0);
	MUST((status_bits("CapBnd:") & ~list) == 0);
	MUST(status_bits("CapInh:") == 0);
	MUST(status_bits("CapAmb:") == 0);
	MUST(privileges_privileged());
	MUST(status_bits("NoNewPrivs:") == 1);
	MUST(status_bits("Seccomp:") == 2);
}

START_TEST(a_privileged_process_keeps_only_the_capabilities_of_the_list)
{
	ck_assert_int_eq(in_child(drop_all), 0);
}
END_TEST

static bool refused(long rc)
{
	return rc < 0 && errno == ENOSYS;
}

static void try_what_is_not_listed(void)
{
	filter();
	MUST(refused(socket(AF_INET, SOCK_STREAM, 0)));
	MUST(refused(syscall(SYS_unshare, CLONE_NEWUSER)));
	MUST(refused(syscall(SYS_clone3, NULL, 0)));
	MUST(refused(syscall(SYS_inotify_init1, 0)));
	MUST(refused(kill(getppid(), 0)));
	MUST(mmap(NULL, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
	     MAP_FAILED);
	MUST(errno == ENOSYS);
}

START_TEST(calls_that_are_not_listed_do_not_exist_behind_the_filter)
{
	ck_assert_int_eq(in_child(try_what_is_not_listed), 0);
}
END_TEST

static void *hello(void *arg)
{
	free(malloc(1 << 20));
	return arg;
}

static void live(void)
{
	pthread_t t;
	void *out = NULL;
	int pair[2];
	filter();
	MUST(pthread_create(&t, NULL, hello, pair) == 0);
	MUST(pthread_join(t, &out) == 0 && out == pair);
	MUST(pthread_create(&t, NULL, hello, NULL) == 0);
	pthread_cancel(t); /* loads the unwinder */
	MUST(pthread_join(t, NULL) == 0);
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	syslog(LOG_DEBUG, "the unit test of ratefs' system call filter");
	MUST(raise(0) == 0);
	MUST(kill(getpid(), 0) == 0);
}

START_TEST(threads_memory_sockets_and_the_log_work_behind_the_filter)
{
	ck_assert_int_eq(in_child(live), 0);
}
END_TEST

static void start_a_shell(void)
{
	filter();
	execl("/bin/true", "true", (char *)NULL);
}

static void become_another(void)
{
	filter();
	syscall(SYS_setuid, getuid());
}

static void trace_the_parent(void)
{
	filter();
	syscall(SYS_ptrace, 16 /* PTRACE_ATTACH */, getppid(), 0, 0);
}

START_TEST(what_only_an_intruder_does_ends_the_daemon)
{
	void (*const deeds[])(void) = {start_a_shell, become_another, trace_the_parent};
	for (unsigned i = 0; i < ARRAY_SIZE(deeds) && !SANITIZED; i++) {
		int status = in_child(deeds[i]);
		ck_assert(WIFSIGNALED(status));
		ck_assert_int_eq(WTERMSIG(status), SIGSYS);
	}
}
END_TEST

UNIT_MAIN("privileges", no_core_of_file_data_is_ever_dumped,
	  what_the_daemon_creates_is_private_unless_it_says_otherwise,
	  closed_standard_descriptors_are_filled_before_a_file_can_take_their_place,
	  a_privileged_process_keeps_only_the_capabilities_of_the_list,
	  calls_that_are_not_listed_do_not_exist_behind_the_filter,
	  threads_memory_sockets_and_the_log_work_behind_the_filter,
	  what_only_an_intruder_does_ends_the_daemon)
