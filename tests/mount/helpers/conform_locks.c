/* SPDX-License-Identifier: MIT */
/* POSIX locks, open file description locks, flock: between processes. */
#define _GNU_SOURCE
#include "conform.h"

#include <sys/file.h>
#include <sys/wait.h>

static struct flock range(short type, off_t start, off_t len)
{
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
}

/* What another process gets, as its exit code: 0 or errno. */
#define ELSEWHERE(expr)                                                                            \
	do {                                                                                       \
		int status_;                                                                       \
		fflush(stdout);                                                                    \
		pid_t pid_ = fork();                                                               \
		if (pid_ == 0) {                                                                   \
			int other = open("f", O_RDWR | O_CLOEXEC);                                 \
			_exit(other < 0 ? 99 : (expr) == -1 ? errno : 0);                          \
		}                                                                                  \
		waitpid(pid_, &status_, 0);                                                        \
		trace("elsewhere %s: %s", #expr,                                                   \
		      WEXITSTATUS(status_) ? errno_name(WEXITSTATUS(status_)) : "ok");             \
	} while (0)

static int open_file(void)
{
	int fd = open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	if (ftruncate(fd, 1000) < 0)
		trace("%s", errno_name(errno));
	return fd;
}

static void g_posix_locks(void)
{
	int fd = open_file();
	struct flock l = range(F_WRLCK, 0, 100), r = range(F_RDLCK, 200, 0),
		     x = range(F_WRLCK, 50, 10);
	struct flock far = range(F_WRLCK, 100, 50);
	MUST(fcntl(fd, F_SETLK, &l));
	MUST(fcntl(fd, F_SETLK, &r));
	ELSEWHERE(fcntl(other, F_SETLK, &x));
	ELSEWHERE(fcntl(other, F_SETLK, &far));
	struct flock share = range(F_RDLCK, 300, 10), excl = range(F_WRLCK, 300, 10);
	ELSEWHERE(fcntl(other, F_SETLK, &share));
	ELSEWHERE(fcntl(other, F_SETLK, &excl));
	struct flock q = range(F_WRLCK, 0, 0);
	pid_t pid = fork();
	if (pid == 0) {
		int other = open("f", O_RDWR | O_CLOEXEC);
		fcntl(other, F_GETLK, &q);
		_exit(q.l_type == F_WRLCK && q.l_start == 0 && q.l_len == 100 &&
				      q.l_pid == getppid()
			      ? 0
			      : 1);
	}
	int status;
	waitpid(pid, &status, 0);
	trace("F_GETLK names the lock and its owner: %d", status == 0);
	l.l_type = F_UNLCK;
	MUST(fcntl(fd, F_SETLK, &l));
	ELSEWHERE(fcntl(other, F_SETLK, &x));
	/* Closing any descriptor of the file drops the process's locks. */
	close(open("f", O_RDONLY | O_CLOEXEC));
	ELSEWHERE(fcntl(other, F_SETLK, &excl));
	close(fd);
}

/* A waiter gets the lock when the holder lets go. */
static void g_lock_waiting(void)
{
	int fd = open_file(), status;
	struct flock l = range(F_WRLCK, 0, 0), u = range(F_UNLCK, 0, 0);
	MUST(fcntl(fd, F_SETLK, &l));
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		int other = open("f", O_RDWR | O_CLOEXEC);
		alarm(10);
		_exit(fcntl(other, F_SETLKW, &l) == 0 ? 0 : 1);
	}
	usleep(50000);
	trace("still waiting %d", waitpid(pid, &status, WNOHANG) == 0);
	MUST(fcntl(fd, F_SETLK, &u));
	waitpid(pid, &status, 0);
	trace("got it %d", status == 0);
	/* A waiter can be killed. */
	MUST(fcntl(fd, F_SETLK, &l));
	pid = fork();
	if (pid == 0) {
		int other = open("f", O_RDWR | O_CLOEXEC);
		_exit(fcntl(other, F_SETLKW, &l));
	}
	usleep(20000);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	trace("killed by %d", WTERMSIG(status));
	close(fd);
}

static void g_ofd_locks(void)
{
	int a = open_file(), b = open_file();
	struct flock l = range(F_WRLCK, 0, 10), q = range(F_WRLCK, 0, 10),
		     r = range(F_RDLCK, 5, 10);
	MUST(fcntl(a, F_OFD_SETLK, &l));
	DENIED(EAGAIN, fcntl(b, F_OFD_SETLK, &l));
	DENIED(EAGAIN, fcntl(b, F_OFD_SETLK, &r));
	MUST(fcntl(b, F_OFD_GETLK, &q));
	trace("type %d start %ld pid %d", q.l_type, (long)q.l_start, (int)q.l_pid);
	int c = dup(a);
	close(a);
	DENIED(EAGAIN, fcntl(b, F_OFD_SETLK, &l));
	close(c);
	MUST(fcntl(b, F_OFD_SETLK, &l));
	ELSEWHERE(fcntl(other, F_SETLK, &l));
	close(b);
}

static void g_flock(void)
{
	int a = open_file(), b = open_file();
	MUST(flock(a, LOCK_EX));
	DENIED(EWOULDBLOCK, flock(b, LOCK_SH | LOCK_NB));
	ELSEWHERE(flock(other, LOCK_EX | LOCK_NB));
	MUST(flock(a, LOCK_SH));
	MUST(flock(b, LOCK_SH | LOCK_NB));
	DENIED(EWOULDBLOCK, flock(b, LOCK_EX | LOCK_NB));
	MUST(flock(a, LOCK_UN));
	MUST(flock(b, LOCK_EX | LOCK_NB));
	struct flock l = range(F_WRLCK, 0, 0);
	MUST(fcntl(a, F_SETLK, &l)); /* the two kinds don't see each other */
	close(a), close(b);
	ELSEWHERE(flock(other, LOCK_EX | LOCK_NB));
	int d = MUST_FD(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	MUST(flock(d, LOCK_EX | LOCK_NB));
	close(d);
}

const struct topic topics_locks[] = {
	{"posix_locks", g_posix_locks, false},
	{"lock_waiting", g_lock_waiting, false},
	{"ofd_locks", g_ofd_locks, false},
	{"flock", g_flock, false},
	{0},
};
