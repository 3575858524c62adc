/* SPDX-License-Identifier: MIT */
#include "daemon/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "daemon/registry.h"
#include "daemon/stats_out.h"
#include "fs/cgroup.h"
#include "limit/cost.h"
#include "proto/proto.h"
#include "sched/events.h"

/* --- a subscriber's buffer ------------------------------------------------------------------- */

static bool make_room(struct trace *t, size_t size)
{
	if (t->done) {
		memmove(t->text, t->text + t->done, t->len - t->done);
		t->len -= t->done;
		t->done = 0;
	}
	if (t->len + size > TRACE_BUFFER_MAX)
		return false;
	if (t->len + size <= t->room)
		return true;
	size_t room = min_u64(2 * (t->room + size) + 4096, TRACE_BUFFER_MAX);
	char *text = realloc(t->text, room);
	if (!text)
		return false;
	t->text = text;
	t->room = room;
	return true;
}

static bool add_line(struct trace *t, const char *line, size_t size)
{
	if (t->len + size > t->room && !make_room(t, size))
		return false;
	memcpy(t->text + t->len, line, size);
	t->len += size;
	t->fresh = true;
	return true;
}

/* Adds the number of dropped events before the next event.  False: there is no room. */
static bool add_dropped(struct trace *t)
{
	char line[80];
	if (!t->dropped)
		return true;
	int n = snprintf(line, sizeof(line), "{\"v\":%d,\"event\":\"dropped\",\"count\":%llu}\n",
			 PROTO_VERSION, (unsigned long long)t->dropped);
	if (!add_line(t, line, (size_t)n))
		return false;
	t->dropped = 0;
	return true;
}

static void add(struct trace *t, const char *line, size_t size)
{
	if (!line || !add_dropped(t) || !add_line(t, line, size))
		t->dropped++;
}

void trace_sent(struct trace *t, size_t n)
{
	t->done += n;
	if (t->done < t->len)
		return;
	t->done = t->len = 0;
	add_dropped(t);
}

/* --- events of requests ---------------------------------------------------------------------- */

static const char *mount_name(const struct registry *r, const void *gate)
{
	list_for_each (it, (struct list *)&r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->gate_mount == gate)
			return m->s.name;
	}
	return ""; /* the mount is gone */
}

/* The program, or the whole path of a cgroup, of which the event has only the end. */
static const char *caller_name(const struct event *e, char path[CALLER_PATH_MAX])
{
	bool whole = e->key.kind == FAIR_CGROUP && cgroup_path(e->key.id, path, CALLER_PATH_MAX);
	return whole ? path : e->name;
}

static bool wants(const struct trace_filter *f, const struct event *e, const char *mount,
		  const char *name)
{
	if (f->mount[0] && strcmp(f->mount, mount) != 0)
		return false;
	if (f->class[0] && strcmp(f->class, e->class) != 0)
		return false;
	if (f->has_key && f->key != e->key.id)
		return false;
	if (f->name[0] && strcmp(f->name, name) != 0)
		return false;
	return e->wait_ns >= f->min_wait_ns;
}

static double wall_clock(uint64_t at_ns)
{
	struct timespec wall, mono;
	clock_gettime(CLOCK_REALTIME, &wall);
	clock_gettime(CLOCK_MONOTONIC, &mono);
	double age = (double)mono.tv_sec + mono.tv_nsec / 1e9 - at_ns / 1e9;
	return (double)wall.tv_sec + wall.tv_nsec / 1e9 - age;
}

static char *event_line(const struct event *e, const char *mount, const char *name, size_t *size)
{
	bool failed = false;
	struct json_out o = json_out_new(&failed);
	AUTO_JSON *root = o.at;
	put_u64(o, "v", PROTO_VERSION);
	put_text(o, "event", event_kind_name(e->kind));
	put_real(o, "time", wall_clock(e->at_ns));
	put_text(o, "mount", mount);
	if (e->class[0])
		put_text(o, "class", e->class);
	put_text(o, "op", cost_class_name(cost_class_shown(e->cost.cls)));
	put_u64(o, "ops", e->cost.ops);
	put_u64(o, "bytes", e->cost.bytes);
	put_text(o, "kind", fair_kind_name(e->key.kind));
	put_u64(o, "id", e->key.id);
	put_text(o, "command", name);
	put_u64(o, "uid", e->uid);
	put_u64(o, "tid", e->tid);
	put_u64(o, "wait_ns", e->wait_ns);
	put_waited_limits(o, e->limit, EVENT_LIMITS);
	return failed ? NULL : proto_line(root, size);
}

/* Formats the line once for all subscribers, and only if one of them wants it and has room. */
static void distribute(struct traces *t, const struct event *e)
{
	char path[CALLER_PATH_MAX];
	const char *mount = mount_name(t->registry, e->mount), *name = caller_name(e, path);
	AUTO_FREE char *line = NULL;
	size_t size = 0;
	list_for_each (it, &t->all) {
		struct trace *one = list_entry(it, struct trace, link);
		if (!wants(&one->filter, e, mount, name))
			continue;
		if (one->len - one->done > TRACE_BUFFER_MAX - 1024) {
			one->dropped++;
			continue;
		}
		if (!line)
			line = event_line(e, mount, name, &size);
		add(one, line, size);
	}
}

/* Called from any thread. */
static void wake(void *ctx)
{
	const struct traces *t = ctx;
	uint64_t one = 1;
	if (write(t->wake.fd, &one, sizeof(one)) < 0)
		return; /* the eventfd is full, so on_wake will run anyway */
}

static void on_wake(struct watch *w, uint32_t events)
{
	struct traces *t = container_of(w, struct traces, wake);
	struct event batch[TRACE_BATCH];
	uint64_t ignored, dropped = 0;
	if (read(w->fd, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
		return;
	unsigned n = gate_events_take(t->registry->gate, batch, TRACE_BATCH, &dropped);
	for (unsigned i = 0; i < n; i++)
		distribute(t, &batch[i]);
	list_for_each (it, &t->all)
		list_entry(it, struct trace, link)->dropped += dropped;
	if (n == TRACE_BATCH)
		wake(t); /* there may be more events; serve other clients first */
	t->ready(t->ctx);
}

/* --- events of the daemon -------------------------------------------------------------------- */

/* True: the name is that of the mount, or of a class of it that the filter lets pass. */
static bool is_of_mount(const struct trace_filter *f, const char *scope, const char *name)
{
	const char *slash = strcmp(scope, "class") == 0 ? strrchr(name, '/') : NULL;
	size_t n = slash ? (size_t)(slash - name) : strlen(name);
	if (strlen(f->mount) != n || strncmp(f->mount, name, n) != 0)
		return false;
	return !slash || !f->class[0] || strcmp(f->class, slash + 1) == 0;
}

/* Changes of scopes that contain mounts concern every mount. */
static bool concerns(const struct trace_filter *f, const char *scope, const char *name)
{
	bool mount = strcmp(scope, "mount") == 0 || strcmp(scope, "class") == 0;
	if (f->min_wait_ns || f->has_key || f->name[0])
		return false;
	return !f->mount[0] || !mount || is_of_mount(f, scope, name);
}

void traces_tell(struct traces *t, const char *event, const char *scope, const char *name,
		 const char *key, const char *value)
{
	bool failed = false;
	struct timespec wall;
	size_t size = 0;
	if (list_empty(&t->all))
		return;
	clock_gettime(CLOCK_REALTIME, &wall);
	struct json_out o = json_out_new(&failed);
	AUTO_JSON *root = o.at;
	put_u64(o, "v", PROTO_VERSION);
	put_text(o, "event", event);
	put_real(o, "time", (double)wall.tv_sec + wall.tv_nsec / 1e9);
	put_text(o, "scope", scope);
	put_text(o, "name", name);
	if (key)
		put_text(o, "key", key);
	if (value)
		put_text(o, "value", value);
	AUTO_FREE char *line = failed ? NULL : proto_line(root, &size);
	list_for_each (it, &t->all) {
		struct trace *one = list_entry(it, struct trace, link);
		if (concerns(&one->filter, scope, name))
			add(one, line, size);
	}
	wake(t); /* send the lines later: we may be in the middle of a command */
}

void registry_tell(const struct registry *r, const char *event, const char *scope, const char *name,
		   const char *key, const char *value)
{
	if (r->traces)
		traces_tell(r->traces, event, scope, name, key, value);
}

void registry_tell_states(struct registry *r)
{
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		enum served_state state = served_state(m);
		if (state == m->told)
			continue;
		if (state == SERVED_UP)
			registry_tell(r, "mounted", "mount", m->s.name, NULL, NULL);
		else if (state == SERVED_DOWN && m->told != SERVED_MOUNTING)
			registry_tell(r, "unmounted", "mount", m->s.name, NULL, NULL);
		m->told = state;
	}
}

/* --- life ------------------------------------------------------------------------------------ */

int traces_init(struct traces *t, struct registry *r, struct loop *l, void (*ready)(void *ctx),
		void *ctx)
{
	*t = (struct traces){.registry = r, .ready = ready, .ctx = ctx};
	list_init(&t->all);
	t->wake = (struct watch){eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), on_wake};
	return t->wake.fd < 0 ? -errno : loop_watch(l, &t->wake, EPOLLIN);
}

void traces_free(struct traces *t)
{
	if (t->registry && t->wake.fd >= 0)
		close(t->wake.fd);
	t->registry = NULL;
}

int trace_open(struct traces *t, const struct trace_filter *f, struct trace **out)
{
	struct trace *trace = calloc(1, sizeof(*trace));
	if (!trace)
		return -ENOMEM;
	if (!t->listening && gate_events_start(t->registry->gate, wake, t) < 0) {
		free(trace);
		return -ENOMEM;
	}
	t->listening = true;
	trace->filter = *f;
	list_push_tail(&t->all, &trace->link);
	*out = trace;
	return 0;
}

void trace_close(struct traces *t, struct trace *trace)
{
	list_remove(&trace->link);
	free(trace->text);
	free(trace);
	if (!list_empty(&t->all) || !t->listening)
		return;
	gate_events_stop(t->registry->gate);
	t->listening = false;
}
