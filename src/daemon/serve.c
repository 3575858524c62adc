/* SPDX-License-Identifier: MIT */
#include "daemon/serve.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/background.h"
#include "daemon/control.h"
#include "daemon/in_use.h"
#include "daemon/loop.h"
#include "daemon/names.h"
#include "daemon/pools.h"
#include "daemon/privileges.h"
#include "daemon/problems.h"
#include "daemon/registry.h"
#include "daemon/files.h"
#include "daemon/reload.h"
#include "daemon/serve_mount.h"

#define PROGRESS_MS 100	  /* while something is in progress */
#define PATIENCE_MS 10000 /* for a source that hangs, when the daemon is told to stop */
#define FREEING_MS  2000  /* for threads and memory, after all mounts are gone */

struct server {
	struct loop loop;
	struct registry registry;
	struct control control;
	struct watch signals, ended, timer, names;
	bool hangup_waits; /* a SIGHUP waits for files to be read or names to be looked up */
	int ready_fd;
	bool stopping;
	int64_t stop_ms;     /* when what hangs is abandoned */
	int64_t released_ms; /* when the last mount was gone; 0: some are left */
	int code;	     /* to exit with */
};

static void progress(struct server *s);

/* --- signals -------------------------------------------------------------------------------- */

static void our_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

/* Call before any thread is created: threads inherit the signal mask. */
static void block_signals(void)
{
	sigset_t set;
	our_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void on_hangup(struct server *s, bool again)
{
	struct registry *r = &s->registry;
	struct problems problems = {0};
	if (!r->file) {
		log_warning("nothing to reload: started without a configuration file");
		return;
	}
	enum reload_result res = reload(r, (struct reload_how){.again = again}, &problems, NULL);
	s->hangup_waits = res == RELOAD_LATER;
	if (!s->hangup_waits)
		reload_forget_looks(r);
	if (res < 0) {
		problems_log(&problems);
		log_error("%s: not reloaded, nothing has changed", r->file);
	}
	problems_free(&problems);
}

/* The first call waits for requests in the source; the second abandons those that hang. */
static void stop(struct server *s)
{
	if (s->stopping) {
		log_warning("told to stop a second time: exiting immediately");
		s->stop_ms = loop_now_ms();
	} else {
		s->stop_ms = loop_now_ms() + PATIENCE_MS;
	}
	registry_end_all(&s->registry, s->stopping);
	s->stopping = true;
}

static void on_signal(struct watch *w, uint32_t events)
{
	struct server *s = container_of(w, struct server, signals);
	struct signalfd_siginfo info;
	if (read(w->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP)
		on_hangup(s, false);
	else
		stop(s);
	progress(s);
}

static int watch_signals(struct server *s)
{
	sigset_t set;
	our_signals(&set);
	s->signals = (struct watch){signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), on_signal};
	return s->signals.fd < 0 ? -errno : loop_watch(&s->loop, &s->signals, EPOLLIN);
}

/* --- commands that wait --------------------------------------------------------------------- */

/* Retries commands that could not be completed yet. */
static void resume(struct server *s)
{
	if (s->hangup_waits)
		on_hangup(s, true);
	control_resume(&s->control);
}

static void on_names(struct watch *w, uint32_t events)
{
	struct server *s = container_of(w, struct server, names);
	if (!names_receive())
		return;
	if (names_fd() < 0)
		s->names.fd = -1; /* closed, and so no longer watched */
	resume(s);
	progress(s);
}

static int watch_names(struct server *s)
{
	s->names = (struct watch){names_fd(), on_names};
	return s->names.fd < 0 ? 0 : loop_watch(&s->loop, &s->names, EPOLLIN);
}

/* --- tasks beside the loop ------------------------------------------------------------------ */

static void announce(struct registry *r)
{
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->session)
			serve_mount_announce(m);
	}
}

static bool any_failed(struct registry *r)
{
	list_for_each (it, &r->mounts)
		if (error_is_set(&list_entry(it, struct served_mount, link)->trouble))
			return true;
	return false;
}

/* Call when the mounts of startup are up or have failed. */
static void started(struct server *s)
{
	struct registry *r = &s->registry;
	bool stop_on_error = r->global.on_mount_error == ON_MOUNT_ERROR_STOP;
	if (s->stopping || registry_is_starting(r))
		return;
	/* A mount that came up and was unmounted again before this point has not failed. */
	bool came_up = registry_up(r) > 0 || r->finished;
	if (!came_up || (any_failed(r) && stop_on_error)) {
		s->code = EXIT_CODE_FAILED;
		stop(s);
		return;
	}
	r->started = true;
	background_ready(s->ready_fd);
	s->ready_fd = -1;
	announce(r); /* only now does the log go where it stays: syslog or stderr */
}

static void stopped(struct server *s)
{
	struct registry *r = &s->registry;
	int64_t now_ms = loop_now_ms();
	enum registry_rest rest = registry_rest(r);
	if (rest == REST_MOUNTS && now_ms >= s->stop_ms)
		registry_end_all(r, true);
	if (rest != REST_MOUNTS && !s->released_ms)
		s->released_ms = now_ms;
	/* A mount that is still coming up cannot be stopped; don't wait for it any longer. */
	bool over = rest == REST_NONE || rest == REST_ABANDONED ||
		    (rest == REST_RELEASED && now_ms - s->released_ms > FREEING_MS) ||
		    (rest == REST_MOUNTS && now_ms - s->stop_ms > FREEING_MS);
	if (over)
		s->loop.stop = true;
}

/* Ticks only while something is in progress. */
static void set_timer(struct server *s)
{
	bool busy =
		s->stopping || registry_is_busy(&s->registry) || control_is_awaited(&s->control);
	const struct timespec every = {.tv_nsec = busy ? PROGRESS_MS * 1000000L : 0};
	const struct itimerspec t = {.it_value = every, .it_interval = every};
	if (timerfd_settime(s->timer.fd, 0, &t, NULL) < 0)
		log_error("timerfd: %s", strerror(errno));
}

static void progress(struct server *s)
{
	struct registry *r = &s->registry;
	registry_progress(r);
	if (r->looked) {
		r->looked = false;
		resume(s);
	}
	control_progress(&s->control);
	if (!r->started)
		started(s);
	if (r->finished && !s->stopping)
		stop(s);
	if (s->stopping)
		stopped(s);
	set_timer(s);
}

static void on_ended(struct watch *w, uint32_t events)
{
	progress(container_of(w, struct server, ended));
}

static void on_timer(struct watch *w, uint32_t events)
{
	uint64_t times;
	if (read(w->fd, &times, sizeof(times)) < 0 && errno != EAGAIN)
		log_error("timerfd: %s", strerror(errno));
	progress(container_of(w, struct server, timer));
}

/* A command may have started a task. */
static void on_command(void *ctx)
{
	progress(ctx);
}

static int watch_mounts(struct server *s)
{
	s->ended = (struct watch){s->registry.wake_fd, on_ended};
	s->timer = (struct watch){timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
				  on_timer};
	int rc = s->timer.fd < 0 ? -errno : loop_watch(&s->loop, &s->timer, EPOLLIN);
	return rc < 0 ? rc : loop_watch(&s->loop, &s->ended, EPOLLIN);
}

/* --- startup and shutdown ------------------------------------------------------------------- */

/* The name of the control socket: that of the file, or of the only mount. */
static void short_name(const struct configuration *c, char *buf, size_t size)
{
	if (c->companion) {
		snprintf(buf, size, "%s", c->companion->name);
		return;
	}
	const char *slash = c->file ? strrchr(c->file, '/') : NULL;
	const char *name = slash ? slash + 1 : c->file ? c->file : c->mount[0].name;
	snprintf(buf, size, "%s", name);
	char *dot = c->file ? strrchr(buf, '.') : NULL;
	if (dot && dot > buf)
		*dot = '\0';
}

static int open_control(struct server *s, const struct configuration *c, struct error *err)
{
	char name[64];
	short_name(c, name, sizeof(name));
	return control_open(&s->control, &c->global, name, err);
}

/* The system call filter cannot be extended later: a mount that is added by a reload can use
 * io_uring only if one at startup could. */
static bool may_use_uring(const struct configuration *c)
{
	bool enabled = !uring_why_disabled();
	for (unsigned i = 0; i < c->n_mounts; i++)
		if (c->mount[i].transport == TRANSPORT_URING ||
		    (c->mount[i].transport == TRANSPORT_AUTO && enabled))
			return true;
	if (privileges_privileged())
		uring_forbid();
	return false;
}

static int start(struct server *s, const struct configuration *c, bool debug)
{
	struct error err = ERROR_INIT;
	int rc = loop_init(&s->loop);
	if (rc == 0)
		rc = watch_signals(s);
	if (rc < 0) {
		log_error("cannot start: %s", strerror(-rc));
		return -1;
	}
	if (open_control(s, c, &err) < 0 || names_close(c->file != NULL, &err) < 0 ||
	    pools_prepare(c, &err) < 0 || privileges_drop(may_use_uring(c), &err) < 0 ||
	    registry_init(&s->registry, c, debug, &err) < 0) {
		log_error("%s", err.text);
		return -1;
	}
	files_close();
	rc = watch_mounts(s);
	if (rc == 0)
		rc = watch_names(s);
	if (rc == 0)
		rc = pools_open(&s->registry, c, &s->loop);
	if (rc == 0)
		rc = control_serve(&s->control, &s->loop, &s->registry, on_command, s);
	if (rc == 0 && c->companion)
		rc = c->companion->begin(c->companion->ctx, &s->loop, &s->registry);
	if (rc < 0)
		log_error("cannot start: %s", strerror(-rc));
	return rc < 0 ? rc : registry_start(&s->registry, c);
}

int serve(const struct configuration *c, bool debug, int ready_fd)
{
	struct server s = {.loop.epoll_fd = -1,
			   .signals.fd = -1,
			   .timer.fd = -1,
			   .control.listener.fd = -1,
			   .ready_fd = ready_fd};
	registry_clear(&s.registry);
	list_init(&s.control.clients);
	log_set_level(debug ? LOG_LEVEL_DEBUG : c->global.log_level);
	block_signals();
	int rc = start(&s, c, debug);
	if (rc == 0) {
		progress(&s);
		loop_run(&s.loop);
	}
	control_close(&s.control);
	names_stop();
	pools_close(&s.registry);
	enum registry_rest rest = registry_rest(&s.registry);
	if (rest != REST_NONE) {
		/* Threads that still use all this cannot be joined. */
		registry_tell_rest(&s.registry);
		_exit(rest == REST_RELEASED ? s.code : EXIT_CODE_FAILED);
	}
	registry_free(&s.registry);
	loop_free(&s.loop);
	for (int *fd = (int[]){s.signals.fd, s.timer.fd, -2}; *fd != -2; fd++)
		if (*fd >= 0)
			close(*fd);
	return rc == 0 ? s.code : EXIT_CODE_FAILED;
}
