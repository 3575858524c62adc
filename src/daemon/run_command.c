/* SPDX-License-Identifier: MIT */
#include "daemon/run_command.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "base/util.h"
#include "daemon/privileges.h"
#include "daemon/run.h"

/* --- signals -------------------------------------------------------------------------------- */

/* All signals that others may send and that would end or stop the wrapper, but not those that
 * report a fault of its own. */
static void forwarded(sigset_t *set)
{
	static const int one[] = {SIGHUP,  SIGINT,  SIGQUIT,   SIGTERM, SIGUSR1,  SIGUSR2, SIGALRM,
				  SIGTSTP, SIGTTIN, SIGTTOU,   SIGCONT, SIGWINCH, SIGPIPE, SIGIO,
				  SIGPWR,  SIGXCPU, SIGVTALRM, SIGPROF, SIGCHLD};
	sigemptyset(set);
	for (unsigned i = 0; i < ARRAY_SIZE(one); i++)
		sigaddset(set, one[i]);
	for (int s = SIGRTMIN; s <= SIGRTMAX; s++)
		sigaddset(set, s);
}

int run_signals_begin(struct run_signals *s)
{
	sigset_t set;
	struct sigaction old;
	forwarded(&set);
	/* If SIGCHLD is ignored, children cannot be waited for. */
	const struct sigaction def = {.sa_handler = SIG_DFL};
	sigaction(SIGCHLD, &def, &old);
	s->child_ignored = old.sa_handler == SIG_IGN;
	sigprocmask(SIG_BLOCK, &set, &s->before);
	s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->fd < 0 ? -errno : 0;
}

/* False for signals that the command has already received: the terminal sends its signals to the
 * whole process group. */
static bool is_for_command(const struct signalfd_siginfo *info)
{
	return info->ssi_code != SI_KERNEL && info->ssi_signo != SIGPIPE &&
	       info->ssi_signo != SIGCHLD && info->ssi_pid != (uint32_t)getpid();
}

/* When a terminal is lost, the kernel sends SIGHUP only to the session leader, and to the others
 * when the leader dies.  The wrapper does not die of this SIGHUP, so if it is the leader, it must
 * tell the others. */
static bool is_lost_terminal(const struct signalfd_siginfo *info)
{
	return info->ssi_signo == SIGHUP && info->ssi_code == SI_KERNEL && getsid(0) == getpid();
}

static bool asks_to_end(unsigned number)
{
	struct sigaction now;
	return (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT) &&
	       sigaction((int)number, NULL, &now) == 0 && now.sa_handler != SIG_IGN;
}

int run_wait_readable(const struct run_signals *s, int fd)
{
	struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = s->fd, .events = POLLIN}};
	struct signalfd_siginfo info;
	while (poll(p, 2, -1) < 0 || !p[0].revents)
		while (read(s->fd, &info, sizeof(info)) == sizeof(info))
			if (asks_to_end(info.ssi_signo))
				return (int)info.ssi_signo;
	return 0;
}

/* --- the command ---------------------------------------------------------------------------- */

static _Noreturn void become(const struct run_command *c, const struct run_signals *s, pid_t parent)
{
	if (c->cwd && chdir(c->cwd) < 0) {
		log_error("%s: %s", c->cwd, strerror(errno));
		_exit(RUN_FAILED);
	}
	if (c->restricted)
		privileges_restrict(c->capabilities);
	if (s->child_ignored)
		signal(SIGCHLD, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent)
		_exit(RUN_FAILED);
	sigprocmask(SIG_SETMASK, &s->before, NULL);
	execvp(c->argv[0], c->argv);
	int error = errno;
	log_error("%s: %s", c->argv[0], strerror(error));
	_exit(error == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT_EXECUTE);
}

/* The shell that started us must see that its job has stopped.  Waits a moment for a SIGCONT to
 * the whole group, which may have reached us but not yet the command. */
static void stop_like(pid_t command)
{
	const struct timespec moment = {.tv_nsec = 20 * NSEC_PER_MSEC};
	siginfo_t info = {0};
	nanosleep(&moment, NULL);
	if (waitid(P_PID, command, &info, WSTOPPED | WNOHANG) < 0 || info.si_pid != command)
		return;
	kill(getpid(), SIGSTOP);
	kill(command, SIGCONT);
}

/* True: the command has ended. */
static bool look_after(pid_t command, pid_t daemon, struct run_result *out)
{
	siginfo_t info = {0};
	if (daemon && !out->daemon_died && waitpid(daemon, NULL, WNOHANG) == daemon) {
		out->daemon_died = true;
		log_error(
			"the ratefs daemon is gone; the throttled directory cannot be used any more");
	}
	if (waitpid(command, &out->status, WNOHANG) == command)
		return true;
	if (waitid(P_PID, command, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
	    info.si_pid == command)
		stop_like(command);
	return false;
}

static void forward(const struct run_signals *s, pid_t command, bool all)
{
	struct signalfd_siginfo info;
	while (read(s->fd, &info, sizeof(info)) == sizeof(info)) {
		if (is_lost_terminal(&info))
			kill(0, SIGHUP); /* we get it as well, and is_for_command ignores it */
		else if (is_for_command(&info) || (all && asks_to_end(info.ssi_signo)))
			kill(command, (int)info.ssi_signo);
	}
}

static void watch(pid_t command, pid_t daemon, const struct run_signals *s, struct run_result *out)
{
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	forward(s, command, true); /* signals that the terminal sent before the command existed */
	while (!look_after(command, daemon, out))
		if (poll(&p, 1, -1) > 0)
			forward(s, command, false);
}

int run_command(const struct run_command *c, const struct run_signals *s, pid_t daemon,
		struct run_result *out)
{
	uint64_t since_ns = monotonic_ns();
	pid_t parent = getpid(), command = fork();
	memset(out, 0, sizeof(*out));
	if (command < 0)
		return -errno;
	if (command == 0)
		become(c, s, parent);
	watch(command, daemon, s, out);
	out->wall_ns = monotonic_ns() - since_ns;
	return 0;
}

/* --- the end -------------------------------------------------------------------------------- */

bool run_wait_daemon(const struct run_signals *s, pid_t daemon, int seconds)
{
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	struct signalfd_siginfo info;
	uint64_t until_ns = monotonic_ns() + seconds * NSEC_PER_SEC;
	while (waitpid(daemon, NULL, WNOHANG) == 0) {
		if (monotonic_ns() > until_ns)
			return false;
		poll(&p, 1, 1000);
		while (read(s->fd, &info, sizeof(info)) == sizeof(info))
			if (asks_to_end(info.ssi_signo))
				return false;
	}
	return true;
}

int run_exit_like(int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	int number = WTERMSIG(status);
	struct rlimit none = {0, 0};
	sigset_t set;
	/* the command may have left a core file; we don't leave another */
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	kill(getpid(), number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return 128 + number; /* the signal did not end this process */
}
