/* SPDX-License-Identifier: MIT */
#include "daemon/pools.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "base/text.h"
#include "daemon/pool_config.h"
#include "daemon/pools_internal.h"
#include "daemon/registry.h"

#define LOOKS_PER_LEASE 16 /* at whether somebody has begun to wait */

const char *pool_mode_name(enum pool_mode mode)
{
	static const char *const names[] = {
		[POOL_MODE_STARTING] = "starting", [POOL_MODE_LEASED] = "leased",
		[POOL_MODE_WAITING] = "waiting",   [POOL_MODE_SHARE] = "share",
		[POOL_MODE_STOP] = "stop",	   [POOL_MODE_OPEN] = "open",
	};
	return names[mode];
}

/* --- calls and answers --- */

/* Divides what this daemon may use now between its scopes.  False: out of memory. */
static bool apply(struct pool *p)
{
	pool_member_rates(&p->member, monotonic_ns(), &p->rates);
	bool ok = pool_scopes_lease(p);
	pool_tell_mode(p);
	return ok;
}

static void call_server(struct pool *p, uint64_t now_ns)
{
	struct pool_call call;
	pool_scopes_demand(p, max_u64(now_ns - p->member.sent_ns, 1));
	pool_member_call(&p->member, &p->use, now_ns, &call);
	if (apply(p)) /* rates that the call promises to keep are in force before it is sent */
		pool_helper_send(p, &call);
}

/* The texts of a report come from other hosts, or from whoever answers in the server's place. */
static void take_text(char *to, const char *from, size_t size)
{
	memcpy(to, from, size);
	to[size - 1] = '\0';
	make_one_line(to);
}

static void take_listing(struct pool *p, const struct pool_report *r)
{
	if (!r->listed || r->listing.n > POOL_LISTED)
		return;
	p->listing = r->listing;
	p->listed_ns = monotonic_ns();
	for (unsigned i = 0; i < p->listing.n; i++)
		take_text(p->listing.member[i].who, r->listing.member[i].who, POOL_WHO_MAX);
}

/* Whether the report answers a call that was given up.  (With a listing, it repeats an earlier one.) */
static bool is_late(const struct pool_member *m, const struct pool_report *r)
{
	return !r->listed && r->answer.seq > m->answered && r->answer.seq < m->seq;
}

static void take_report(struct pool *p, const struct pool_report *r)
{
	take_listing(p, r);
	if (!r->answered) {
		take_text(p->error, r->error, sizeof(p->error));
		p->errors++;
		pool_member_failed(&p->member, r->answer.seq, monotonic_ns());
		return;
	}
	bool learning = p->member.learning;
	if (!pool_member_answer(&p->member, &r->answer, monotonic_ns())) {
		if (is_late(&p->member, r))
			snprintf(p->error, sizeof(p->error),
				 "%s takes longer than five eighths of a lease to answer",
				 p->s.server);
		return;
	}
	pool_tell_learning(p, learning);
	p->was_leased |= !p->member.learning;
	p->answered = true;
	p->error[0] = '\0';
	pool_take_limits(p);
	pool_tell_limits(p);
	pool_enforce_limits(p);
	apply(p);
}

void pool_on_helper(struct watch *w, uint32_t events)
{
	struct pool *p = container_of(w, struct pool, helper);
	struct pool_report r;
	ssize_t n = recv(w->fd, &r, sizeof(r), MSG_DONTWAIT);
	if (n < 0 &&
	    errno ==
		    ECONNRESET) /* it exited without reading a call; its report, if any, is still there */
		n = recv(w->fd, &r, sizeof(r), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == (ssize_t)offsetof(struct pool_report, listing))
		r.listed = false;
	bool whole = n == sizeof(r) || n == (ssize_t)offsetof(struct pool_report, listing);
	if (whole && pool_report_is_sound(&r)) {
		take_report(p, &r);
	} else {
		if (n > 0)
			snprintf(
				p->error, sizeof(p->error),
				"invalid message from ratefs-pool; if ratefs was upgraded, restart it");
		pool_helper_ended(p);
	}
	pools_set_timer(p->all);
}

/* --- time --- */

static void step(struct pool *p, uint64_t now_ns)
{
	pool_helper_want(p, now_ns);
	pool_scopes_look(p);
	pool_member_look(&p->member, &p->use, now_ns);
	if (now_ns >= pool_member_due_ns(&p->member))
		call_server(p, now_ns);
	else /* scopes come and go, and each may want another part of the lease */
		apply(p);
}

void pools_set_timer(struct pools *ps)
{
	uint64_t now_ns = monotonic_ns(), next_ns = NEVER;
	for (unsigned i = 0; i < ps->n; i++) {
		const struct pool *p = ps->pool[i];
		uint64_t ends_ns = pool_member_ends_ns(&p->member);
		next_ns = min_u64(next_ns, now_ns + p->s.lease_ns / LOOKS_PER_LEASE);
		next_ns = min_u64(next_ns, pool_member_due_ns(&p->member));
		if (ends_ns > now_ns)
			next_ns = min_u64(next_ns, ends_ns);
	}
	if (next_ns == NEVER)
		next_ns = 0;
	else
		next_ns = max_u64(next_ns, 1);
	const struct itimerspec t = {.it_value = {.tv_sec = (time_t)(next_ns / NSEC_PER_SEC),
						  .tv_nsec = (long)(next_ns % NSEC_PER_SEC)}};
	if (timerfd_settime(ps->timer.fd, TFD_TIMER_ABSTIME, &t, NULL) < 0)
		log_error("timerfd: %s", strerror(errno));
}

static void on_timer(struct watch *w, uint32_t events)
{
	struct pools *ps = container_of(w, struct pools, timer);
	uint64_t times;
	if (read(w->fd, &times, sizeof(times)) < 0 && errno != EAGAIN)
		log_error("timerfd: %s", strerror(errno));
	for (unsigned i = 0; i < ps->n; i++)
		step(ps->pool[i], monotonic_ns());
	pools_set_timer(ps);
}

/* --- life --- */

static int random_id(char id[POOL_ID_MAX])
{
	uint8_t bytes[16];
	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -1;
	for (unsigned i = 0; i < sizeof(bytes); i++)
		snprintf(id + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

void pool_member_config_of(const struct settings *s, struct pool_member_config *out)
{
	char host[256] = "";
	gethostname(host, sizeof(host) - 1);
	snprintf(out->who, sizeof(out->who), "%.63s", host);
	for (char *at = out->who; *at; at++)
		if (*at <= ' ' || *at > '~')
			*at = '?';
	out->lease_ms = (uint32_t)(s->lease_ns / NSEC_PER_MSEC);
	out->weight = (uint32_t)s->pool_weight;
	out->on_lost = (enum pool_on_lost)s->on_lost;
	pool_config_limits(s, &out->limits);
}

struct pool *pool_new(struct pools *ps, const struct settings *s)
{
	struct pool *p = calloc(1, sizeof(*p));
	struct pool_member_config cfg = {0};
	if (!p || random_id(cfg.id) < 0 || !settings_copy(&p->s, s)) {
		free(p);
		return NULL;
	}
	p->all = ps;
	p->helper.fd = -1;
	pool_helper_renew(p);
	pool_member_config_of(s, &cfg);
	pool_member_init(&p->member, &cfg, monotonic_ns());
	p->enforced = s->limits;
	p->told_limits = cfg.limits;
	return p;
}

void pool_leave(struct pool *p)
{
	struct pool_call call;
	pool_member_leave(&p->member, monotonic_ns(), &call);
	/* Stop using the lease before it is returned.  Not even on_lost=open applies: the scopes may be in another pool by now. */
	p->rates = (struct pool_rates){.mode = POOL_MODE_STARTING, .until_ns = NEVER};
	if (pool_scopes_lease(p))
		pool_helper_send(p, &call);
	pool_helper_drop(p);
}

void pool_free(struct pool *p)
{
	pool_leave(p);
	settings_free(&p->s);
	free(p->attached);
	free(p);
}

int pools_open(struct registry *r, const struct configuration *c, struct loop *l)
{
	if (!c->n_pools && !c->file)
		return 0;
	struct pools *ps = calloc(1, sizeof(*ps));
	if (!ps)
		return -ENOMEM;
	ps->registry = r;
	ps->loop = l;
	r->pools = ps;
	ps->timer = (struct watch){timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
				   on_timer};
	if (ps->timer.fd < 0 || loop_watch(l, &ps->timer, EPOLLIN) < 0)
		return -errno;
	ps->pool = calloc(c->n_pools + 1, sizeof(*ps->pool));
	if (!ps->pool)
		return -ENOMEM;
	for (ps->n = 0; ps->n < c->n_pools; ps->n++) {
		ps->pool[ps->n] = pool_new(ps, &c->pool[ps->n]);
		if (!ps->pool[ps->n])
			return -ENOMEM;
	}
	pools_set_timer(ps);
	return 0;
}

void pools_close(struct registry *r)
{
	struct pools *ps = r->pools;
	r->pools = NULL;
	for (unsigned i = 0; ps && i < ps->n; i++)
		pool_free(ps->pool[i]);
	if (ps && ps->timer.fd >= 0)
		close(ps->timer.fd);
	if (ps)
		free(ps->pool);
	free(ps);
	pool_helpers_end();
}

/* --- looking --- */

unsigned pools_count(const struct pools *ps)
{
	return ps ? ps->n : 0;
}

void pools_look(const struct pools *ps, unsigned i, struct pool_look *out)
{
	const struct pool *p = ps->pool[i];
	*out = (struct pool_look){
		.settings = &p->s,
		.member = &p->member,
		.mode = p->rates.mode,
		.now_ns = monotonic_ns(),
		.scopes = pool_scopes_count(p),
		.error = p->error,
		.errors = p->errors,
		.restarts = p->restarts,
		.listing = p->listed_ns ? &p->listing : NULL,
		.listed_ns = p->listed_ns,
	};
	memcpy(out->rate, p->rates.rate, sizeof(out->rate));
}

struct pool *pool_find(const struct pools *ps, const char *name)
{
	for (unsigned i = 0; ps && i < ps->n; i++)
		if (strcmp(ps->pool[i]->s.name, name) == 0)
			return ps->pool[i];
	return NULL;
}

const struct settings *pools_find(const struct pools *ps, const char *name)
{
	const struct pool *p = pool_find(ps, name);
	return p ? &p->s : NULL;
}
