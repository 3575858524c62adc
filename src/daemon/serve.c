/* SPDX-License-Identifier: MIT */
#include "daemon/serve.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/background.h"
#include "daemon/control.h"
#include "daemon/loop.h"
#include "daemon/path.h"
#include "daemon/privileges.h"
#include "daemon/problems.h"
#include "daemon/registry.h"
#include "daemon/reload.h"
#include "daemon/serve_mount.h"

struct server {
	struct loop loop;
	struct registry registry;
	struct control control;
	struct watch signals, ended;
};

/* --- signals -------------------------------------------------------------------------------- */

static void our_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

/* Before any thread is made: all of them inherit the mask. */
static void block_signals(void)
{
	sigset_t set;
	our_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void on_hangup(struct registry *r)
{
	struct problems problems = {0};
	if (!r->file) {
		log_warning("nothing to reload: started without a configuration file");
		return;
	}
	if (reload(r, &problems, NULL) < 0) {
		problems_log(&problems);
		log_error("%s: not reloaded, nothing has changed", r->file);
	}
	problems_free(&problems);
}

static void on_signal(struct watch *w, uint32_t events)
{
	struct server *s = container_of(w, struct server, signals);
	struct signalfd_siginfo info;
	if (read(w->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP)
		on_hangup(&s->registry);
	else
		s->loop.stop = true;
}

static int watch_signals(struct server *s)
{
	sigset_t set;
	our_signals(&set);
	s->signals = (struct watch){signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), on_signal};
	return s->signals.fd < 0 ? -errno : loop_watch(&s->loop, &s->signals, EPOLLIN);
}

/* --- mounts that end ------------------------------------------------------------------------ */

static void on_ended(struct watch *w, uint32_t events)
{
	struct server *s = container_of(w, struct server, ended);
	if (registry_reap(&s->registry) == 0)
		s->loop.stop = true;
}

static int watch_mounts(struct server *s)
{
	s->ended = (struct watch){s->registry.wake_fd, on_ended};
	return loop_watch(&s->loop, &s->ended, EPOLLIN);
}

/* --- the end -------------------------------------------------------------------------------- */

/* A second signal while the mounts are being ended: take them away and go.  Works on a copy of
 * their names, since the registry is being taken down meanwhile. */
struct hastener {
	pthread_t thread;
	int signal_fd, done_fd; /* done_fd -1: there is none */
	struct words mountpoints;
};

static void *hasten(void *arg)
{
	struct hastener *h = arg;
	struct pollfd fds[] = {{.fd = h->done_fd, .events = POLLIN},
			       {.fd = h->signal_fd, .events = POLLIN}};
	struct signalfd_siginfo info = {0};
	while (!fds[0].revents && info.ssi_signo != SIGTERM && info.ssi_signo != SIGINT)
		if (poll(fds, 2, -1) > 0 && fds[1].revents &&
		    read(h->signal_fd, &info, sizeof(info)) < 0)
			info.ssi_signo = 0;
	if (fds[0].revents)
		return NULL;
	log_warning("told twice to stop: leaving at once");
	for (unsigned i = 0; i < h->mountpoints.n; i++)
		path_unmount_lazy(h->mountpoints.word[i]);
	_exit(EXIT_CODE_FAILED);
}

static void hastener_start(struct hastener *h, struct server *s)
{
	memset(h, 0, sizeof(*h));
	h->signal_fd = s->signals.fd;
	h->done_fd = eventfd(0, EFD_CLOEXEC);
	list_for_each (it, &s->registry.mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->session)
			words_put(&h->mountpoints, m->s.mountpoint, NULL);
	}
	if (h->done_fd >= 0 && pthread_create(&h->thread, NULL, hasten, h) != 0) {
		close(h->done_fd);
		h->done_fd = -1;
	}
}

static void hastener_stop(struct hastener *h)
{
	const uint64_t one = 1;
	if (h->done_fd >= 0) {
		if (write(h->done_fd, &one, sizeof(one)) == sizeof(one))
			pthread_join(h->thread, NULL);
		close(h->done_fd);
	}
	words_free(&h->mountpoints);
}

static void stop(struct server *s)
{
	struct hastener h;
	hastener_start(&h, s);
	registry_stop(&s->registry);
	hastener_stop(&h);
}

/* --- the life ------------------------------------------------------------------------------- */

static bool needs_programs(const struct configuration *c)
{
	for (unsigned i = 0; i < c->n_mounts; i++)
		if (words_find(&c->mount[i].fuse, "auto_unmount"))
			return true;
	return false;
}

/* What its control socket is called after: the file, or the one mount. */
static void short_name(const struct configuration *c, char *buf, size_t size)
{
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
	if (open_control(s, c, &err) < 0 || privileges_drop(needs_programs(c), &err) < 0 ||
	    registry_init(&s->registry, c, debug, &err) < 0) {
		log_error("%s", err.text);
		return -1;
	}
	if (registry_start(&s->registry, c) < 0)
		return -1;
	rc = watch_mounts(s);
	if (rc == 0)
		rc = control_serve(&s->control, &s->loop, &s->registry);
	if (rc < 0)
		log_error("cannot start: %s", strerror(-rc));
	return rc;
}

static void announce(struct registry *r)
{
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->session)
			serve_mount_announce(m);
	}
}

int serve(const struct configuration *c, bool debug, int ready_fd)
{
	struct server s = {.loop.epoll_fd = -1, .signals.fd = -1, .control.listener.fd = -1};
	registry_clear(&s.registry);
	list_init(&s.control.clients);
	log_set_level(debug ? LOG_LEVEL_DEBUG : c->global.log_level);
	block_signals();
	int rc = start(&s, c, debug);
	if (rc == 0) {
		background_ready(ready_fd);
		announce(&s.registry); /* by now into the right log */
		loop_run(&s.loop);
	}
	control_close(&s.control);
	stop(&s);
	loop_free(&s.loop);
	if (s.signals.fd >= 0)
		close(s.signals.fd);
	return rc == 0 ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}
