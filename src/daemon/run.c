/* SPDX-License-Identifier: MIT */
#include "daemon/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/options.h"
#include "daemon/run_command.h"
#include "daemon/run_space.h"
#include "daemon/run_stats.h"

#define ANSWER_MS      5000 /* for the daemon to send its statistics */
#define DAEMON_END_S   10
#define LEFT_BEHIND_MS 100 /* for children that are about to end */

struct wrapper {
	struct run *run;
	struct run_space space;
	struct run_signals signals;
	pid_t daemon;
	int socket, ready_fd; /* of the daemon */
	FILE *report;
	char *cwd;
};

/* --- the daemon ----------------------------------------------------------------------------- */

/* In the child: the daemon's exit code, which is not negative.  In the parent: -1 with err, or -2. */
static int start_daemon(struct wrapper *w, struct error *err)
{
	int sockets[2], ready[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return error_set(err, "cannot start: %s", strerror(errno));
	w->socket = sockets[0];
	AUTO_FD theirs = sockets[1];
	if (pipe2(ready, O_CLOEXEC) < 0)
		return error_set(err, "cannot start: %s", strerror(errno));
	w->ready_fd = ready[0];
	AUTO_FD ready_theirs = ready[1];
	w->daemon = fork();
	if (w->daemon < 0)
		return error_set(err, "cannot start the daemon: %s", strerror(errno));
	if (w->daemon > 0)
		return -2;
	return run_daemon(w->run, take_fd(&theirs), take_fd(&ready_theirs), w->space.capabilities);
}

static bool send_connections(int socket, const int *fd, unsigned n)
{
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(RUN_DIRS_MAX * sizeof(int))];
	} control;
	char what = RUN_SAYS_MOUNTED;
	struct iovec iov = {&what, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = CMSG_SPACE(n * sizeof(int))};
	memset(&control, 0, sizeof(control));
	control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
					.cmsg_type = SCM_RIGHTS,
					.cmsg_len = CMSG_LEN(n * sizeof(int))};
	memcpy(CMSG_DATA(&control.head), fd, n * sizeof(int));
	return sendmsg(socket, &msg, MSG_NOSIGNAL) == 1;
}

/* Mounts, and waits until the daemon serves the mounts.  0, -1 with err, or -2: the
 * daemon has printed the error.  A signal meanwhile ends this process; then the
 * namespace and the daemon end. */
static int mount_all(struct wrapper *w, struct error *err)
{
	const struct configuration *c = &w->run->config;
	int fd[RUN_DIRS_MAX];
	for (unsigned i = 0; i < c->n_mounts; i++)
		fd[i] = -1;
	int rc = run_space_mount(&w->space, c, fd, err);
	if (rc == 0 && !send_connections(w->socket, fd, c->n_mounts))
		rc = -2;
	/* Only the daemon keeps the connections: they end with it. */
	for (unsigned i = 0; i < c->n_mounts; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	if (rc < 0)
		return rc;
	int number = run_wait_readable(&w->signals, w->ready_fd);
	if (number)
		exit(run_exit_like(number)); /* a signal number is also a wait status */
	char ok;
	return read(w->ready_fd, &ok, 1) == 1 ? 0 : -2;
}

static bool tell_daemon(const struct wrapper *w, char what)
{
	return send(w->socket, &what, 1, MSG_NOSIGNAL) == 1;
}

static bool ask_daemon(const struct wrapper *w, struct run_stats *out)
{
	struct pollfd p = {.fd = w->socket, .events = POLLIN};
	return tell_daemon(w, RUN_ASKS) && poll(&p, 1, ANSWER_MS) == 1 &&
	       recv(w->socket, out, sizeof(*out), MSG_DONTWAIT) == sizeof(*out);
}

/* --- the steps ------------------------------------------------------------------------------ */

/* For --compare the command runs twice, and both runs must read the same input. */
static int check_stdin(const struct run *r, struct error *err)
{
	struct stat st;
	if (!r->compare || fstat(STDIN_FILENO, &st) < 0)
		return 0;
	if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))
		return error_set(err, "--compare runs the command twice, and standard input cannot "
				      "be read twice: give it a file, or </dev/null");
	return 0;
}

static int run_plainly(struct wrapper *w, struct run_result *out, struct error *err)
{
	struct run_command c = {.argv = w->run->command};
	off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);
	int rc = run_command(&c, &w->signals, 0, out);
	if (rc < 0)
		return error_set(err, "cannot start the command: %s", strerror(-rc));
	if (at >= 0)
		lseek(STDIN_FILENO, at, SEEK_SET);
	return 0;
}

static int open_report(struct wrapper *w, struct error *err)
{
	const char *path = w->run->report;
	w->report = path ? fopen(path, "we") : NULL;
	if (path && !w->report)
		return error_set(err, "--report=%s: %s", path, strerror(errno));
	return 0;
}

/* Marks allow_other as given, so that it is not the default even if we are root: our user namespace
 * has no other users. */
static void set_own_namespace(struct configuration *c)
{
	for (unsigned i = 0; i < c->n_mounts; i++) {
		c->mount[i].own_namespace = true;
		option_mark_given("allow_other", &c->mount[i]);
	}
}

static int show_submounts(struct wrapper *w, struct error *err)
{
	AUTO_FREE char *names = NULL;
	int rc = run_space_show_submounts(&w->space, &names, err);
	if (rc == 0 && names && !w->run->quiet)
		log_warning("not throttled, because they are other filesystems: %s", names);
	return rc;
}

/* True: other processes are still running in the throttled view. */
static bool left_behind(const struct wrapper *w)
{
	const struct timespec step = {.tv_nsec = 5 * NSEC_PER_MSEC};
	char who[512];
	unsigned n = run_space_others(who, sizeof(who));
	for (int ms = 0; n && ms < LEFT_BEHIND_MS; ms += 5) {
		nanosleep(&step, NULL);
		n = run_space_others(who, sizeof(who));
	}
	if (n && !w->run->quiet)
		log_warning("still running in the background, throttled until the end:%s", who);
	return n;
}

static void finish(struct wrapper *w, const struct run_result *result,
		   const struct run_result *plain)
{
	AUTO_FREE struct run_stats *stats = calloc(1, sizeof(*stats));
	bool known = stats && !result->daemon_died && ask_daemon(w, stats);
	if (!left_behind(w)) {
		run_space_unmount(&w->run->config);
		if (!result->daemon_died && !run_wait_daemon(&w->signals, w->daemon, DAEMON_END_S))
			log_warning("the ratefs daemon (process %d) has not exited yet",
				    (int)w->daemon);
	}
	FILE *out = w->report ? w->report : w->run->quiet ? NULL : stderr;
	const struct run_report report = {w->run, result, plain, known ? stats : NULL};
	if (out)
		(w->run->json ? run_report_json : run_report_text)(&report, out);
}

/* Returns the exit code; does not return if the command was killed by a signal. */
static int exit_code(const struct run_result *result)
{
	int code = run_exit_like(result->status);
	return code == 0 && result->daemon_died ? RUN_FAILED : code;
}

/* -1 with err; -2: already printed; otherwise the exit code, of the wrapper or the daemon. */
static int run_all(struct wrapper *w, struct error *err)
{
	struct run_result plain, result;
	if (check_stdin(w->run, err) < 0 || open_report(w, err) < 0)
		return -1;
	int rc = run_signals_begin(&w->signals);
	if (rc < 0)
		return error_set(err, "cannot start: %s", strerror(-rc));
	if (w->run->compare && run_plainly(w, &plain, err) < 0)
		return -1;
	if (w->run->compare && !WIFEXITED(plain.status))
		return run_exit_like(plain.status);
	w->cwd = getcwd(NULL, 0);
	if (run_space_begin(&w->space, err) < 0)
		return -1;
	if (w->space.user_namespace)
		set_own_namespace(&w->run->config);
	rc = start_daemon(w, err);
	if (rc != -2)
		return rc;
	rc = mount_all(w, err);
	if (rc < 0)
		return rc;
	if (show_submounts(w, err) < 0)
		return -1;
	tell_daemon(w, RUN_SAYS_STARTED);
	const struct run_command c = {.argv = w->run->command,
				      .cwd = w->cwd,
				      .restricted = w->space.user_namespace,
				      .capabilities = w->space.capabilities};
	rc = run_command(&c, &w->signals, w->daemon, &result);
	if (rc < 0)
		return error_set(err, "cannot start the command: %s", strerror(-rc));
	finish(w, &result, w->run->compare ? &plain : NULL);
	FILE *report = take_ptr(&w->report);
	if (report && fclose(report) != 0)
		log_warning("%s: %s", w->run->report, strerror(errno));
	return exit_code(&result);
}

static void wrapper_free(struct wrapper *w)
{
	if (w->report)
		fclose(w->report);
	if (w->socket >= 0)
		close(w->socket);
	if (w->ready_fd >= 0)
		close(w->ready_fd);
	if (w->signals.fd >= 0)
		close(w->signals.fd);
	run_space_free(&w->space);
	free(w->cwd);
}

bool run_is_meant(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	/* mount(8) calls its helpers as mount.TYPE SOURCE MOUNTPOINT. */
	return argc > 1 && strcmp(argv[1], "run") == 0 &&
	       strncmp(slash ? slash + 1 : argv[0], "mount.", 6) != 0;
}

int run_main(int argc, char **argv)
{
	struct run r;
	struct error err = ERROR_INIT;
	struct wrapper w = {.run = &r, .socket = -1, .ready_fd = -1, .signals.fd = -1};
	int code = run_parse(&r, argc, argv, &err);
	if (code == 0 && r.help)
		run_help();
	else if (code == 0)
		code = run_all(&w, &err);
	if (code == -1)
		log_error("%s", err.text);
	wrapper_free(&w);
	run_free(&r);
	return code < 0 ? RUN_FAILED : code;
}
