/* SPDX-License-Identifier: MIT */
/* The daemon of `ratefs run`: an ordinary one whose mounts were made by the wrapper, and which
 * sends its statistics to the wrapper at the end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/background.h"
#include "daemon/loop.h"
#include "daemon/options.h"
#include "daemon/privileges.h"
#include "daemon/registry.h"
#include "daemon/run.h"
#include "daemon/run_stats.h"
#include "daemon/serve.h"
#include "sched/gate.h"

struct server_of_run {
	struct watch wrapper, timer;
	struct loop *loop;
	struct registry *registry;
	bool dry_run;
	uint64_t sampled_ns;
	struct run_rates at_sample, peak; /* totals at the last sample; highest rates so far */
};

/* --- peaks ---------------------------------------------------------------------------------- */

static struct run_rates totals(const struct scope_stats *s)
{
	const struct class_stats *c = s->cls;
	struct run_rates t = {
		.read_iops = c[COST_READ].ops + c[COST_COPY].ops,
		.write_iops = c[COST_WRITE].ops + c[COST_COPY].ops,
		.meta_iops = c[COST_META].ops + c[COST_OPENCLOSE].ops,
		.read_bps = c[COST_READ].bytes + c[COST_COPY].bytes + c[COST_READDIR].bytes,
		.write_bps = c[COST_WRITE].bytes + c[COST_COPY].bytes,
	};
	for (int i = 0; i < COST_CLASSES_SHOWN; i++)
		t.iops += c[i].ops;
	return t;
}

static void raise_peak(double *peak, double now, double before, double seconds)
{
	double rate = (now - before) / seconds;
	if (rate > *peak)
		*peak = rate;
}

static void sample(struct server_of_run *s, const struct scope_stats *stats)
{
	const struct run_rates now = totals(stats), *was = &s->at_sample;
	double seconds = (double)(stats->now_ns - s->sampled_ns) / NSEC_PER_SEC;
	/* The last fraction of a second is not representative, unless the command ran no longer. */
	if (s->sampled_ns && seconds > (s->peak.iops > 0 ? 0.5 : 0.001)) {
		raise_peak(&s->peak.iops, now.iops, was->iops, seconds);
		raise_peak(&s->peak.read_iops, now.read_iops, was->read_iops, seconds);
		raise_peak(&s->peak.write_iops, now.write_iops, was->write_iops, seconds);
		raise_peak(&s->peak.meta_iops, now.meta_iops, was->meta_iops, seconds);
		raise_peak(&s->peak.read_bps, now.read_bps, was->read_bps, seconds);
		raise_peak(&s->peak.write_bps, now.write_bps, was->write_bps, seconds);
	}
	s->at_sample = now;
	s->sampled_ns = stats->now_ns;
}

static void sample_now(struct server_of_run *s)
{
	AUTO_FREE struct scope_stats *stats = calloc(1, sizeof(*stats));
	if (!stats)
		return;
	gate_stats_global(s->registry->gate, stats);
	sample(s, stats);
}

static void on_timer(struct watch *w, uint32_t events)
{
	struct server_of_run *s = container_of(w, struct server_of_run, timer);
	uint64_t times;
	if (read(w->fd, &times, sizeof(times)) == sizeof(times))
		sample_now(s);
}

static void start_sampling(struct server_of_run *s)
{
	const struct itimerspec second = {.it_value.tv_sec = 1, .it_interval.tv_sec = 1};
	if (!s->dry_run)
		return;
	s->timer = (struct watch){timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
				  on_timer};
	if (s->timer.fd < 0 || timerfd_settime(s->timer.fd, 0, &second, NULL) < 0 ||
	    loop_watch(s->loop, &s->timer, EPOLLIN) < 0)
		log_warning("no peaks are measured: %s", strerror(errno));
	sample_now(s);
}

/* --- the reply ------------------------------------------------------------------------------ */

static void put_classes(const struct scope_stats *s, struct run_stats *out)
{
	for (int i = 0; i < COST_CLASSES_SHOWN; i++) {
		const struct class_stats *c = &s->cls[i];
		out->cls[i] = (struct run_class_stats){
			.ops = c->ops,
			.bytes = c->bytes,
			.waited = c->parked,
			.wait_ns = c->wait.sum_ns,
			.would_wait = c->would_wait.total,
			.would_wait_ns = c->would_wait.sum_ns,
			.failed = c->failed,
			.device = c->device.total,
			.device_ns = c->device.sum_ns,
			.refused = c->would_block + c->full + c->timed_out + c->misconfigured +
				   c->no_space,
		};
	}
}

static void put_limit(struct run_stats *out, const char *scope, const char *option,
		      const struct settings *s, uint64_t blocking_ns, uint64_t would_wait)
{
	if (out->n_limits == RUN_LIMITS_MAX)
		return;
	struct run_limit_stats *l = &out->limit[out->n_limits++];
	AUTO_FREE char *value = option_text(option_find(option), s);
	const char *of = *scope && s->name ? s->name : "";
	size_t n = strlen(of);
	snprintf(l->name, sizeof(l->name), "%s%s", scope, option);
	snprintf(l->of, sizeof(l->of), "%s", n < sizeof(l->of) ? of : of + n - sizeof(l->of) + 1);
	snprintf(l->value, sizeof(l->value), "%s", value ? value : "");
	l->blocking_ns = blocking_ns;
	l->would_wait = would_wait;
}

static void put_limits(struct run_stats *out, const char *scope, const struct settings *s,
		       const struct scope_limits *now)
{
	for (int k = 0; k < LIMIT_KINDS; k++)
		if (s->limits.limit[k].enabled)
			put_limit(out, scope, limit_kind_name(k), s, now->limit[k].blocking_ns,
				  now->limit[k].would_wait);
	if (s->limits.max_inflight)
		put_limit(out, scope, "max_inflight", s, now->inflight.blocking_ns,
			  now->inflight.would_wait);
	if (s->limits.max_open)
		put_limit(out, scope, "max_open", s, now->open.blocking_ns, now->open.would_wait);
}

static void answer(struct server_of_run *s)
{
	struct scope_limits now[CHAIN_SCOPES_MAX];
	AUTO_FREE struct scope_stats *stats = calloc(1, sizeof(*stats));
	AUTO_FREE struct run_stats *out = calloc(1, sizeof(*out));
	if (!stats || !out)
		return;
	gate_stats_global(s->registry->gate, stats);
	put_classes(stats, out);
	if (gate_limits_global(s->registry->gate, now) == 1)
		put_limits(out, "", &s->registry->global, now);
	list_for_each (it, &s->registry->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (!m->gate_mount || gate_limits_mount(m->gate_mount, now) < 2)
			continue;
		put_limits(out, "mount.", &m->s, &now[0]);
		put_limits(out, "fs.", &m->fs->s, &now[1]);
	}
	if (s->dry_run)
		sample(s, stats);
	out->peak = s->peak;
	if (send(s->wrapper.fd, out, sizeof(*out), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("the wrapper is gone");
}

static void on_wrapper(struct watch *w, uint32_t events)
{
	struct server_of_run *s = container_of(w, struct server_of_run, wrapper);
	char what;
	ssize_t n = recv(w->fd, &what, 1, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		loop_unwatch(s->loop, w); /* the wrapper has exited; the mounts may still be used */
	else if (what == RUN_SAYS_STARTED)
		start_sampling(s);
	else if (what == RUN_ASKS)
		answer(s);
}

/* --- the process ---------------------------------------------------------------------------- */

static int begin(void *ctx, struct loop *l, struct registry *r)
{
	struct server_of_run *s = ctx;
	s->loop = l;
	s->registry = r;
	return loop_watch(l, &s->wrapper, EPOLLIN);
}

/* Closes all inherited descriptors but these two, which get the numbers 3 and 4. */
static bool keep_only(int *socket, int *ready_fd)
{
	int a = fcntl(*socket, F_DUPFD_CLOEXEC, 5), b = fcntl(*ready_fd, F_DUPFD_CLOEXEC, 5);
	if (a < 0 || b < 0 || dup3(a, 3, O_CLOEXEC) < 0 || dup3(b, 4, O_CLOEXEC) < 0)
		return false;
	*socket = 3;
	*ready_fd = 4;
	close_range(5, ~0U, 0);
	return true;
}

/* Waits for the connections.  False: the wrapper has given up and printed the reason. */
static bool receive_connections(int socket, int *fd, unsigned n)
{
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(RUN_DIRS_MAX * sizeof(int))];
	} control;
	char what;
	struct iovec iov = {&what, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	ssize_t got;
	do
		got = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	const struct cmsghdr *head = got == 1 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (!head || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(n * sizeof(int)))
		return false;
	memcpy(fd, CMSG_DATA(head), n * sizeof(int));
	return true;
}

int run_daemon(struct run *r, int socket, int ready_fd, uint64_t capabilities)
{
	struct server_of_run s = {.timer.fd = -1, .dry_run = r->dry_run};
	const struct companion companion = {.name = "run", .begin = begin, .ctx = &s};
	int fd[RUN_DIRS_MAX];
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL); /* the wrapper has blocked most signals */
	setsid();			       /* Ctrl-C is for the command */
	privileges_enter();
	unsetenv("NOTIFY_SOCKET");
	if (chdir("/") < 0 || !keep_only(&socket, &ready_fd)) {
		log_error("cannot start: %s", strerror(errno));
		return EXIT_CODE_FAILED;
	}
	/* Otherwise, in a user namespace of our own, the daemon could do more with the caller's
	 * files than the caller. */
	privileges_restrict(capabilities);
	if (!receive_connections(socket, fd, r->config.n_mounts))
		return EXIT_CODE_FAILED;
	for (unsigned i = 0; i < r->config.n_mounts; i++) {
		char **at = &r->config.mount[i].mountpoint;
		free(*at);
		if (asprintf(at, "/dev/fd/%d", fd[i]) < 0) {
			*at = NULL;
			return EXIT_CODE_FAILED;
		}
	}
	s.wrapper = (struct watch){socket, on_wrapper};
	r->config.companion = &companion;
	int rc = serve(&r->config, false, ready_fd);
	close(socket);
	if (s.timer.fd >= 0)
		close(s.timer.fd);
	return rc;
}
