/* SPDX-License-Identifier: MIT */
/* Finds the daemons of this user, and which of them answer. */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/monotonic.h"
#include "ctl/client_internal.h"
#include "proto/runtime_dir.h"

/* --- daemons that do not answer ------------------------------------------------------------- */

/* 0: not known. */
static int pid_of(int fd, const char *path)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0)
		return (int)peer.pid;
	const char *dash = strrchr(path, '-'); /* NAME-PID.sock */
	return dash && isdigit((unsigned char)dash[1]) ? (int)strtol(dash + 1, NULL, 10) : 0;
}

/* Flags of a process in /proc/PID/stat: see include/linux/sched.h of the kernel. */
#define EXITING	 0x4
#define SIGNALED 0x400 /* killed by a signal */

enum life { RUNS, STOPPED, DYING };

static enum life life_of(int pid)
{
	char path[40], line[256] = "", state;
	unsigned flags;
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	AUTO_FILE in = fopen(path, "re");
	if (!in || !fgets(line, sizeof(line), in))
		return RUNS;
	const char *name_end = strrchr(line, ')'); /* the name may contain anything */
	if (!name_end || sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
		return RUNS;
	if (state == 'Z' || (flags & (EXITING | SIGNALED)))
		return DYING;
	return state == 'T' || state == 't' ? STOPPED : RUNS;
}

bool silent_text(int fd, const char *path, struct error *err)
{
	int pid = pid_of(fd, path);
	enum life life = pid ? life_of(pid) : RUNS;
	if (!pid)
		error_set(err, "%s: the daemon does not answer", path);
	else if (life == DYING)
		error_set(err, "%s: daemon %d does not answer, because it is exiting", path, pid);
	else if (life == STOPPED)
		error_set(err,
			  "%s: daemon %d does not answer, because it is stopped; 'kill -CONT %d' "
			  "lets it continue",
			  path, pid, pid);
	else
		error_set(
			err,
			"%s: daemon %d does not answer; if it hangs, 'kill -9 %d' ends it and its "
			"mounts",
			path, pid, pid);
	return life == DYING;
}

static bool add_silent(struct daemons *d, const char *text)
{
	char **more = realloc(d->silent, (d->n_silent + 1) * sizeof(*more));
	if (!more)
		return false;
	d->silent = more;
	d->silent[d->n_silent] = strdup(text);
	d->n_silent += d->silent[d->n_silent] != NULL;
	return true;
}

/* --- connecting ----------------------------------------------------------------------------- */

static void disconnect(struct daemon_ref *d)
{
	if (d->fd >= 0)
		close(d->fd);
	free(d->path);
	free(d->in);
}

static bool add(const char *path, void *ctx)
{
	struct daemons *d = ctx;
	struct error err = ERROR_INIT;
	AUTO_FD fd = runtime_connect(path);
	if (fd == -EAGAIN) {
		silent_text(-1, path, &err);
		return add_silent(d, err.text);
	}
	if (fd < 0) {
		errno = -fd;
		return true;
	}
	struct daemon_ref *more = realloc(d->daemon, (d->n + 1) * sizeof(*more));
	if (!more)
		return false;
	d->daemon = more;
	d->daemon[d->n] = (struct daemon_ref){.fd = fd, .path = strdup(path)};
	if (!d->daemon[d->n].path)
		return false;
	d->n++;
	take_fd(&fd);
	return true;
}

struct by_pid {
	struct daemons *daemons;
	char end[32]; /* how the name of its socket ends, unless `control` says otherwise */
	int pid;
};

static bool add_if_named(const char *path, void *ctx)
{
	struct by_pid *by = ctx;
	size_t n = strlen(path), m = strlen(by->end);
	return n < m || strcmp(path + n - m, by->end) != 0 || add(path, by->daemons);
}

static bool add_if_listens(const char *path, void *ctx)
{
	struct by_pid *by = ctx;
	AUTO_FD fd = runtime_connect(path);
	return fd < 0 || pid_of(fd, "") != by->pid || add(path, by->daemons);
}

/* Asks the kernel who listens only if no socket has the name: connecting to a daemon that hangs takes time. */
static void connect_pid(struct daemons *d, const char *pid, const char *dir)
{
	struct by_pid by = {.daemons = d, .pid = (int)strtol(pid, NULL, 10)};
	snprintf(by.end, sizeof(by.end), "-%.20s.sock", pid);
	runtime_each_socket(dir, add_if_named, &by);
	if (!d->n && !d->n_silent && by.pid > 0)
		runtime_each_socket(dir, add_if_listens, &by);
}

static enum proto_code none(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
static enum proto_code none(struct error *err, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	error_vset(err, fmt, ap);
	va_end(ap);
	return PROTO_NO_TARGET;
}

static enum proto_code connect_path(struct daemons *d, const char *path, struct error *err)
{
	struct stat st;
	if (stat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return none(err, "%s: is not the control socket of a ratefs daemon", path);
	add(path, d);
	return d->n || d->n_silent ? PROTO_OK : none(err, "%s: %s", path, strerror(errno));
}

static enum proto_code connect_all(struct daemons *d, const char *pid, struct error *err)
{
	char dir[RUNTIME_DIR_MAX];
	if (pid && (!*pid || strspn(pid, "0123456789") != strlen(pid)))
		return none(err, "--daemon: '%s' is neither a process ID nor a path with a '/'",
			    pid);
	if (runtime_dir(dir, sizeof(dir), err) < 0)
		return PROTO_NO_TARGET;
	if (access(dir, F_OK) == 0 && runtime_dir_check(dir, err) < 0)
		return PROTO_NO_TARGET;
	if (pid)
		connect_pid(d, pid, dir);
	else
		runtime_each_socket(dir, add, d);
	if (d->n || d->n_silent)
		return PROTO_OK;
	return pid ? none(err, "you have no running daemon with process ID %s (looked in %s)", pid,
			  dir)
		   : none(err, "you have no running ratefs daemons (looked in %s)", dir);
}

/* --- which of them answer ------------------------------------------------------------------- */

enum greeting { WAITED_FOR, ANSWERED, REFUSED, EXITED };

static void greet(struct daemon_ref *d, enum greeting *g)
{
	static const char hello[] = "{\"v\":1,\"do\":\"find\",\"target\":\"global\"}\n";
	bool sent = daemon_send(d, hello, sizeof(hello) - 1);
	/* EPIPE, ECONNRESET: an error may be there to be read */
	*g = sent || errno == EPIPE || errno == ECONNRESET ? WAITED_FOR : EXITED;
}

static void listen_to(struct daemon_ref *d, enum greeting *g, struct error *err)
{
	AUTO_JSON *answer = NULL;
	int rc = daemon_take(d, &answer, err);
	if (rc < 0)
		*g = EXITED;
	else if (rc > 0)
		*g = answer_outcome(answer, err) == PROTO_OK ? ANSWERED : REFUSED;
}

/* Removes daemon i from the list, and notes why unless it has exited. */
static void set_aside(struct daemons *d, unsigned i, enum greeting g, struct error *err)
{
	if (g == WAITED_FOR)
		d->dying |= silent_text(d->daemon[i].fd, d->daemon[i].path, err);
	else if (g == REFUSED)
		error_prefix(err, "%s", d->daemon[i].path);
	if (g != EXITED)
		add_silent(d, err->text);
	disconnect(&d->daemon[i]);
	d->daemon[i] = d->daemon[--d->n];
}

static unsigned still_waited_for(const enum greeting *g, unsigned n)
{
	unsigned count = 0;
	for (unsigned i = 0; i < n; i++)
		count += g[i] == WAITED_FOR;
	return count;
}

/* Leaves only those in d->daemon that answer. */
static bool ask_who_answers(struct daemons *d, int patience_ms)
{
	AUTO_FREE enum greeting *g = calloc(d->n + 1, sizeof(*g));
	AUTO_FREE struct pollfd *p = calloc(d->n + 1, sizeof(*p));
	AUTO_FREE struct error *err = calloc(d->n + 1, sizeof(*err));
	uint64_t until_ns = monotonic_ns() + (uint64_t)patience_ms * NSEC_PER_MSEC;
	if (!g || !p || !err)
		return false;
	for (unsigned i = 0; i < d->n; i++)
		greet(&d->daemon[i], &g[i]);
	while (still_waited_for(g, d->n) && monotonic_ns() < until_ns) {
		for (unsigned i = 0; i < d->n; i++)
			p[i] = (struct pollfd){.fd = g[i] == WAITED_FOR ? d->daemon[i].fd : -1,
					       .events = POLLIN};
		uint64_t left_ns = until_ns - monotonic_ns();
		if (poll(p, d->n, (int)(left_ns / NSEC_PER_MSEC) + 1) < 0 && errno != EINTR)
			return false;
		for (unsigned i = 0; i < d->n; i++)
			if (p[i].revents)
				listen_to(&d->daemon[i], &g[i], &err[i]);
	}
	for (unsigned i = d->n; i-- > 0;)
		if (g[i] != ANSWERED)
			set_aside(d, i, g[i], &err[i]);
	return true;
}

enum proto_code daemons_find(struct daemons *d, const char *which, int patience_ms,
			     struct error *err)
{
	memset(d, 0, sizeof(*d));
	enum proto_code code = which && strchr(which, '/') ? connect_path(d, which, err)
							   : connect_all(d, which, err);
	if (code)
		return code;
	if (!ask_who_answers(d, patience_ms)) {
		error_set(err, "out of memory");
		return PROTO_NO_MEMORY;
	}
	if (d->n)
		return PROTO_OK;
	if (!d->n_silent)
		return none(err, "the daemon has just exited");
	error_set(err, "%s", d->silent[0]);
	return PROTO_FAILED;
}

bool daemon_is_alive(const char *path)
{
	struct daemons d;
	struct error ignored = ERROR_INIT;
	bool alive = daemons_find(&d, path, CLIENT_PATIENCE_MS, &ignored) == PROTO_OK;
	daemons_free(&d);
	return alive;
}

void daemons_free(struct daemons *d)
{
	for (unsigned i = 0; i < d->n; i++)
		disconnect(&d->daemon[i]);
	for (unsigned i = 0; i < d->n_silent; i++)
		free(d->silent[i]);
	free(d->daemon);
	free(d->silent);
	memset(d, 0, sizeof(*d));
}
