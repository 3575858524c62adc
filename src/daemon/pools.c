/* SPDX-License-Identifier: MIT */
#include "daemon/pools.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "daemon/loop.h"
#include "daemon/options.h"
#include "daemon/pool_config.h"
#include "daemon/pool_launcher.h"
#include "daemon/registry.h"
#include "pool/wire.h"
#include "sched/gate.h"

#define SCOPES_MAX	 64
#define LOOKS_PER_LEASE	 8 /* at whether somebody has begun to wait */
#define RESTART_FIRST_NS (20 * NSEC_PER_MSEC)
#define RESTART_MOST_NS	 (5 * NSEC_PER_SEC)
#define TELL_AGAIN_NS	 (60 * NSEC_PER_SEC) /* of the same trouble */

/* A scope of this daemon that takes part. */
struct attached {
	struct gate_pool_scope scope; /* its class is the text below */
	char class[128];
	struct gate_pool_use use, before;
	uint64_t demand[POOL_LIMITS];
};

struct pool {
	struct pools *all;
	struct settings s;
	struct pool_member member;
	struct pool_rates rates;
	struct attached attached[SCOPES_MAX];
	unsigned n_attached;
	struct watch helper; /* fd -1: there is none */
	uint64_t restart_ns,
		restart_in; /* when to start the next helper; how long after the last */
	unsigned restarts;
	bool answered; /* by this helper */
	char error[POOL_ERROR_MAX], told[POOL_ERROR_MAX];
	uint64_t errors; /* calls that failed */
	uint64_t told_ns, told_version;
	struct pool_listing listing;
	uint64_t listed_ns; /* 0: never */
};

struct pools {
	struct registry *registry;
	struct loop *loop;
	struct watch timer;
	struct pool **pool;
	unsigned n;
};

static int launcher = -1;

const char *pool_mode_name(enum pool_mode mode)
{
	static const char *const names[] = {
		[POOL_MODE_STARTING] = "starting", [POOL_MODE_LEASED] = "leased",
		[POOL_MODE_SHARE] = "share",	   [POOL_MODE_STOP] = "stop",
		[POOL_MODE_OPEN] = "open",
	};
	return names[mode];
}

/* --- the scopes that take part --- */

static bool takes_part(const struct pool *p, const struct settings *s)
{
	return s->pool && strcmp(s->pool, p->s.name) == 0;
}

static bool same_scope(const struct gate_pool_scope *a, const struct gate_pool_scope *b)
{
	return a->fs == b->fs && a->mount == b->mount && !a->class == !b->class &&
	       (!a->class || strcmp(a->class, b->class) == 0);
}

/* What was known of it is kept. */
static void attach(struct pool *p, const struct attached *old, unsigned n_old,
		   const struct gate_pool_scope *scope)
{
	if (p->n_attached == SCOPES_MAX)
		return;
	struct attached *a = &p->attached[p->n_attached++];
	memset(a, 0, sizeof(*a));
	for (unsigned i = 0; i < n_old; i++)
		if (same_scope(&old[i].scope, scope))
			*a = old[i];
	a->scope = *scope;
	if (!scope->class)
		return;
	snprintf(a->class, sizeof(a->class), "%s", scope->class);
	a->scope.class = a->class;
}

static void attach_mount(struct pool *p, const struct attached *old, unsigned n_old,
			 const struct served_mount *m)
{
	struct gate_pool_scope scope = {.gate = p->all->registry->gate, .mount = m->gate_mount};
	if (!m->gate_mount)
		return;
	if (takes_part(p, &m->s))
		attach(p, old, n_old, &scope);
	for (unsigned i = 0; i < m->s.n_classes; i++) {
		scope.class = m->s.class[i].name;
		if (takes_part(p, &m->s.class[i]))
			attach(p, old, n_old, &scope);
	}
}

/* Scopes come and go; they are few. */
static void find_scopes(struct pool *p)
{
	struct registry *r = p->all->registry;
	static struct attached old[SCOPES_MAX];
	unsigned n_old = p->n_attached;
	memcpy(old, p->attached, n_old * sizeof(old[0]));
	for (unsigned i = 0; i < n_old; i++)
		old[i].scope.class = old[i].scope.class ? old[i].class : NULL;
	p->n_attached = 0;
	struct gate_pool_scope scope = {.gate = r->gate};
	if (takes_part(p, &r->global))
		attach(p, old, n_old, &scope);
	list_for_each (it, &r->fs) {
		const struct served_fs *fs = list_entry(it, struct served_fs, link);
		scope.fs = fs->gate;
		if (takes_part(p, &fs->s))
			attach(p, old, n_old, &scope);
	}
	list_for_each (it, &r->mounts)
		attach_mount(p, old, n_old, list_entry(it, struct served_mount, link));
}

/* --- use and leases --- */

static void look_at_scopes(struct pool *p, struct pool_use *sum)
{
	memset(sum, 0, sizeof(*sum));
	find_scopes(p);
	for (unsigned i = 0; i < p->n_attached; i++) {
		struct attached *a = &p->attached[i];
		if (!gate_pool_look(&a->scope, &a->use))
			continue;
		for (unsigned k = 0; k < POOL_LIMITS; k++) {
			sum->tokens[k] += a->use.tokens[k];
			sum->blocking_ns[k] = max_u64(sum->blocking_ns[k], a->use.blocking_ns[k]);
			sum->waiting[k] |= a->use.waiting[k];
		}
	}
}

/* Of each scope, for dividing the lease between them. */
static void note_demands(struct pool *p, uint64_t dt_ns)
{
	for (unsigned i = 0; i < p->n_attached; i++) {
		struct attached *a = &p->attached[i];
		for (unsigned k = 0; k < POOL_LIMITS; k++) {
			uint64_t used = a->use.tokens[k] - a->before.tokens[k];
			uint64_t blocked_ns = a->use.blocking_ns[k] - a->before.blocking_ns[k];
			if (used > POOL_RATE_MAX)
				used = 0;
			a->demand[k] = a->use.waiting[k] || blocked_ns > dt_ns / 10
					       ? POOL_DEMAND_ALL
					       : (uint64_t)((u128)used * POOL_MILLI * NSEC_PER_SEC /
							    dt_ns);
		}
		a->before = a->use;
	}
}

static void tell_mode(struct pool *p, enum pool_mode was)
{
	static const char *const meanwhile[] = {
		[POOL_MODE_SHARE] = "this host keeps to its share",
		[POOL_MODE_STOP] = "nothing is admitted until it answers",
		[POOL_MODE_OPEN] = "the pool's limits are off until it answers",
	};
	bool lost = p->rates.mode > POOL_MODE_LEASED;
	uint64_t now_ns = monotonic_ns();
	if (!lost && was > POOL_MODE_LEASED && p->told_ns) {
		log_info("pool '%s': %s leases again", p->s.name, p->s.server);
		p->told_ns = 0;
	}
	bool new = strcmp(p->told, p->error) != 0 && now_ns - p->told_ns > NSEC_PER_SEC;
	if (!lost ||
	    (p->told_ns && was == p->rates.mode && !new &&now_ns - p->told_ns < TELL_AGAIN_NS))
		return;
	log_warning("pool '%s': %s; %s", p->s.name,
		    *p->error ? p->error : "no answer from the server", meanwhile[p->rates.mode]);
	memcpy(p->told, p->error, sizeof(p->told));
	p->told_ns = now_ns;
}

/* What may be used here now goes to the scopes. */
static void apply(struct pool *p)
{
	uint64_t share[POOL_LIMITS][SCOPES_MAX], demand[SCOPES_MAX];
	enum pool_mode was = p->rates.mode;
	find_scopes(p); /* an answer may come long after the last look, when a mount is gone */
	pool_member_rates(&p->member, monotonic_ns(), &p->rates);
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		for (unsigned i = 0; i < p->n_attached; i++)
			demand[i] = p->attached[i].demand[k];
		if (p->rates.rate[k] >= POOL_DEMAND_ALL)
			for (unsigned i = 0; i < p->n_attached; i++)
				share[k][i] = POOL_DEMAND_ALL;
		else
			pool_split(p->rates.rate[k], demand, p->n_attached, share[k]);
	}
	for (unsigned i = 0; i < p->n_attached; i++) {
		struct gate_lease lease;
		for (unsigned k = 0; k < POOL_LIMITS; k++) {
			u128 part = (u128)p->rates.capacity[k] * share[k][i];
			lease.limit[k] = (struct bucket_lease){
				.milli_per_sec = share[k][i],
				.capacity =
					max_u64(1, (uint64_t)(part / max_u64(p->rates.rate[k], 1))),
				.until_ns = p->rates.until_ns,
			};
		}
		gate_lease(&p->attached[i].scope, &lease);
	}
	tell_mode(p, was);
}

/* --- the helper --- */

static void on_helper(struct watch *w, uint32_t events);

static void drop_helper(struct pool *p)
{
	if (p->helper.fd < 0)
		return;
	loop_unwatch(p->all->loop, &p->helper);
	close(p->helper.fd);
	p->helper.fd = -1;
}

static void helper_ended(struct pool *p)
{
	drop_helper(p);
	p->restart_in =
		p->answered ? RESTART_FIRST_NS : min_u64(2 * p->restart_in, RESTART_MOST_NS);
	p->restart_ns = monotonic_ns() + p->restart_in;
	p->answered = false;
}

/* The credentials: a file that nobody but its owner can read, and its owner is root or us. */
static int read_auth(const char *path, char *out, size_t size, struct error *err)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, "auth_file: %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077) || (st.st_uid && st.st_uid != geteuid()))
		return error_set(
			err, "auth_file: %s must be a file that only its owner can read (mode 600)",
			path);
	ssize_t n = read(fd, out, size - 1);
	out[n > 0 ? n : 0] = '\0';
	out[strcspn(out, "\r\n")] = '\0';
	return *out ? 0 : error_set(err, "auth_file: %s is empty", path);
}

static int setup_of(const struct pool *p, struct pool_setup *out, struct error *err)
{
	memset(out, 0, sizeof(*out));
	snprintf(out->name, sizeof(out->name), "%s", p->s.name);
	snprintf(out->server, sizeof(out->server), "%s", p->s.server);
	snprintf(out->key, sizeof(out->key), "%s", p->s.key);
	out->lease_ms = (uint32_t)(p->s.lease_ns / NSEC_PER_MSEC);
	return p->s.auth_file ? read_auth(p->s.auth_file, out->auth, sizeof(out->auth), err) : 0;
}

static int start_helper(struct pool *p, struct error *err)
{
	struct pool_setup setup;
	int fds[2];
	if (setup_of(p, &setup, err) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return error_set(err, "%s", strerror(errno));
	bool ok = send(fds[0], &setup, sizeof(setup), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(setup);
	explicit_bzero(&setup, sizeof(setup));
	int rc = ok ? pool_launcher_launch(launcher, fds[1]) : -errno;
	close(fds[1]);
	p->helper = (struct watch){fds[0], on_helper};
	if (rc == 0)
		rc = loop_watch(p->all->loop, &p->helper, EPOLLIN);
	if (rc == 0) {
		p->restarts++;
		return 0;
	}
	close(fds[0]);
	p->helper.fd = -1;
	return error_set(err, "cannot start ratefs-pool: %s", strerror(-rc));
}

static void want_helper(struct pool *p, uint64_t now_ns)
{
	struct error err = ERROR_INIT;
	if (p->helper.fd >= 0 || now_ns < p->restart_ns || start_helper(p, &err) == 0)
		return;
	snprintf(p->error, sizeof(p->error), "%.*s", POOL_ERROR_MAX - 1, err.text);
	helper_ended(p);
}

/* --- calls and answers --- */

static void send_call(struct pool *p, const struct pool_call *call)
{
	/* A helper that is busy finds the newest call of those that wait; a full socket means that it hangs. */
	if (p->helper.fd >= 0)
		send(p->helper.fd, call, sizeof(*call), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void call_server(struct pool *p, const struct pool_use *use, uint64_t now_ns)
{
	struct pool_call call;
	note_demands(p, max_u64(now_ns - p->member.sent_ns, 1));
	pool_member_call(&p->member, use, now_ns, &call);
	apply(p); /* what the call promises is in force before it is sent */
	send_call(p, &call);
}

static void tell_limits(struct pool *p)
{
	const struct pool_member *m = &p->member;
	bool first = !p->told_version;
	if (p->told_version == m->version)
		return;
	p->told_version = m->version;
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		uint64_t rate = m->limits.rate[k] / POOL_MILLI;
		if (m->limits.rate[k] == m->cfg.limits.rate[k])
			continue;
		log_info("pool '%s': %s=%llu%s, set by %s", p->s.name, limit_kind_name(k),
			 (unsigned long long)rate,
			 first ? " on the server, not as configured here" : "", m->set_by);
	}
}

static void take_listing(struct pool *p, const struct pool_report *r)
{
	if (!r->listed || r->listing.n > POOL_LISTED)
		return;
	p->listing = r->listing;
	p->listed_ns = monotonic_ns();
	for (unsigned i = 0; i < p->listing.n; i++)
		p->listing.member[i].who[POOL_WHO_MAX - 1] = '\0';
}

static void take_report(struct pool *p, const struct pool_report *r)
{
	if (!r->answered) {
		memcpy(p->error, r->error, sizeof(p->error));
		p->error[sizeof(p->error) - 1] = '\0';
		p->errors++;
		return;
	}
	if (!pool_member_answer(&p->member, &r->answer, monotonic_ns()))
		return;
	p->answered = true;
	p->error[0] = '\0';
	take_listing(p, r);
	tell_limits(p);
	apply(p);
}

static void set_timer(struct pools *ps);

static void on_helper(struct watch *w, uint32_t events)
{
	struct pool *p = container_of(w, struct pool, helper);
	struct pool_report r;
	ssize_t n = recv(w->fd, &r, sizeof(r), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == sizeof(r))
		take_report(p, &r);
	else
		helper_ended(p);
	set_timer(p->all);
}

/* --- time --- */

static void step(struct pool *p, uint64_t now_ns)
{
	struct pool_use use;
	want_helper(p, now_ns);
	look_at_scopes(p, &use);
	pool_member_waits(&p->member, &use, now_ns);
	if (now_ns >= pool_member_due_ns(&p->member))
		call_server(p, &use, now_ns);
	else if (p->rates.mode != POOL_MODE_LEASED || now_ns >= pool_member_ends_ns(&p->member) ||
		 p->n_attached > 1)
		apply(p);
}

static void set_timer(struct pools *ps)
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
	set_timer(ps);
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

static void member_config_of(const struct settings *s, struct pool_member_config *out)
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

static struct pool *pool_new(struct pools *ps, const struct settings *s)
{
	struct pool *p = calloc(1, sizeof(*p));
	struct pool_member_config cfg = {0};
	struct pool **more = realloc(ps->pool, (ps->n + 1) * sizeof(*more));
	if (more)
		ps->pool = more;
	if (!p || !more || random_id(cfg.id) < 0 || !settings_copy(&p->s, s)) {
		free(p);
		return NULL;
	}
	p->all = ps;
	p->helper.fd = -1;
	p->restart_in = RESTART_FIRST_NS;
	member_config_of(s, &cfg);
	pool_member_init(&p->member, &cfg, monotonic_ns());
	ps->pool[ps->n++] = p;
	return p;
}

/* Gives back what is held: others need not wait for the lease to end. */
static void pool_free(struct pool *p)
{
	struct pool_call call;
	pool_member_leave(&p->member, monotonic_ns(), &call);
	send_call(p, &call);
	drop_helper(p);
	settings_free(&p->s);
	free(p);
}

int pools_prepare(const struct configuration *c, struct error *err)
{
	if (!c->n_pools)
		return 0;
	launcher = pool_launcher_start();
	return launcher < 0 ? error_set(err, "cannot start the process that starts ratefs-pool: %s",
					strerror(-launcher))
			    : 0;
}

int pools_open(struct registry *r, const struct configuration *c, struct loop *l)
{
	struct pools *ps = c->n_pools ? calloc(1, sizeof(*ps)) : NULL;
	if (!ps)
		return c->n_pools ? -ENOMEM : 0;
	ps->registry = r;
	ps->loop = l;
	r->pools = ps;
	ps->timer = (struct watch){timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
				   on_timer};
	if (ps->timer.fd < 0 || loop_watch(l, &ps->timer, EPOLLIN) < 0)
		return -errno;
	for (unsigned i = 0; i < c->n_pools; i++)
		if (!pool_new(ps, &c->pool[i]))
			return -ENOMEM;
	set_timer(ps);
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
	if (launcher >= 0)
		close(launcher);
	launcher = -1;
}

/* --- change --- */

static struct pool *find(const struct pools *ps, const char *name)
{
	for (unsigned i = 0; ps && i < ps->n; i++)
		if (strcmp(ps->pool[i]->s.name, name) == 0)
			return ps->pool[i];
	return NULL;
}

int pools_join(const struct pools *ps, struct settings *s, struct error *err)
{
	unsigned n = ps ? ps->n : 0;
	AUTO_FREE struct settings *all = calloc(n + 1, sizeof(*all));
	if (!all)
		return error_set(err, "out of memory");
	for (unsigned i = 0; i < n; i++)
		all[i] = ps->pool[i]->s; /* lent, not copied */
	return pool_config_join(s, all, n, err);
}

static bool differs(const struct settings *a, const struct settings *b, const char *option)
{
	return !option_equal(option_find(option), a, b);
}

static void change(struct pool *p, struct settings *s)
{
	struct pool_member_config cfg = p->member.cfg;
	bool elsewhere = differs(&p->s, s, "server") || differs(&p->s, s, "key") ||
			 differs(&p->s, s, "auth_file") || differs(&p->s, s, "lease");
	member_config_of(s, &cfg);
	pool_member_configure(&p->member, &cfg, monotonic_ns());
	settings_free(&p->s);
	p->s = *s;
	settings_init(s);
	if (!elsewhere)
		return;
	p->member.leased = false; /* another server knows nothing of it */
	drop_helper(p);
	p->restart_ns = 0;
	p->restart_in = RESTART_FIRST_NS;
}

/* Their scopes are about to be told that they take part no more. */
static void drop_others(struct pools *ps, const struct configuration *c)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < ps->n; i++) {
		bool wanted = false;
		for (unsigned k = 0; k < c->n_pools; k++)
			wanted |= strcmp(c->pool[k].name, ps->pool[i]->s.name) == 0;
		if (wanted)
			ps->pool[kept++] = ps->pool[i];
		else
			pool_free(ps->pool[i]);
	}
	ps->n = kept;
}

void pools_reload(struct pools *ps, const struct configuration *c)
{
	if (!ps) {
		if (c->n_pools)
			log_error(
				"the daemon was started without pools: restart it to take part in one");
		return;
	}
	for (unsigned i = 0; i < c->n_pools; i++) {
		struct pool *p = find(ps, c->pool[i].name);
		struct settings s;
		if (p && settings_copy(&s, &c->pool[i])) {
			change(p, &s);
			settings_free(&s);
		} else if (p || !pool_new(ps, &c->pool[i])) {
			log_error("pool '%s': out of memory", c->pool[i].name);
		}
	}
	drop_others(ps, c);
	set_timer(ps);
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
		.scopes = p->n_attached,
		.error = p->error,
		.errors = p->errors,
		.restarts = p->restarts,
		.listing = p->listed_ns ? &p->listing : NULL,
		.listed_ns = p->listed_ns,
	};
	memcpy(out->rate, p->rates.rate, sizeof(out->rate));
}

const struct settings *pools_find(const struct pools *ps, const char *name)
{
	const struct pool *p = find(ps, name);
	return p ? &p->s : NULL;
}

/* A pool may have limits of another kind now: its scopes meet them, too. */
static int join_again(struct registry *r, struct error *err)
{
	struct settings s;
	int rc = settings_copy(&s, &r->global) ? registry_set_global(r, &s, err) : -1;
	settings_free(&s);
	list_for_each (it, &r->fs) {
		struct served_fs *fs = list_entry(it, struct served_fs, link);
		if (rc == 0)
			rc = settings_copy(&s, &fs->s) ? registry_set_fs(r, fs, &s, err) : -1;
		settings_free(&s);
	}
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (rc == 0)
			rc = settings_copy(&s, &m->s) ? registry_set_mount(m, &s, err) : -1;
		settings_free(&s);
	}
	if (rc < 0 && !error_is_set(err))
		error_set(err, "out of memory");
	return rc;
}

int pools_set(struct pools *ps, const char *name, struct settings *s, struct error *err)
{
	struct pool *p = find(ps, name);
	if (!p)
		return error_set(err, "there is no pool '%s'", name);
	if (pool_config_check(s, err) < 0)
		return -1;
	uint32_t kinds = limiter_config_kinds(&p->s.limits);
	change(p, s);
	set_timer(ps);
	return limiter_config_kinds(&p->s.limits) == kinds ? 0 : join_again(ps->registry, err);
}
