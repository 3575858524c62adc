/* SPDX-License-Identifier: MIT */
#include "daemon/stats_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/key_watch.h"
#include "daemon/limits_out.h"
#include "daemon/served_space.h"
#include "fs/cgroup.h"
#include "fs/mount.h"

/* --- one scope ------------------------------------------------------------------------------ */

struct number {
	const char *name;
	uint64_t value;
};

static void put_numbers(struct json_out o, const struct number *row, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		put_u64(o, row[i].name, row[i].value);
}

static void put_times(struct json_out o, const struct histogram *h)
{
	const struct number row[] = {
		{"count", h->total},
		{"sum_ns", h->sum_ns},
		{"p50_ns", histogram_quantile_ns(h, 500)},
		{"p90_ns", histogram_quantile_ns(h, 900)},
		{"p99_ns", histogram_quantile_ns(h, 990)},
		{"max_ns", h->max_ns},
	};
	put_numbers(o, row, ARRAY_SIZE(row));
}

static void put_class(struct json_out o, const struct class_stats *c)
{
	const struct number row[] = {
		{"ops", c->ops},
		{"bytes", c->bytes},
		{"at_once", c->at_once},
		{"parked_now", c->parked_now},
		{"parked_total", c->parked},
		{"would_block", c->would_block},
		{"full", c->full},
		{"no_room", c->no_room},
		{"too_many_open", c->too_many_open},
		{"no_space", c->no_space},
		{"timed_out", c->timed_out},
		{"cancelled", c->cancelled},
		{"misconfigured", c->misconfigured},
		{"ok", c->ok},
		{"errors", c->errors},
		{"failed", c->failed},
		{"aborted", c->aborted},
		{"device_now", c->device_now},
	};
	put_numbers(o, row, ARRAY_SIZE(row));
	put_times(put_object(o, "wait"), &c->wait);
	put_times(put_object(o, "would_wait"), &c->would_wait);
	put_times(put_object(o, "device"), &c->device);
}

/* Share of the time that the counters cover, 0 to 1. */
static double share(uint64_t part_ns, const struct scope_stats *s)
{
	uint64_t all = s->now_ns - s->since_ns;
	return all ? (double)min_u64(part_ns, all) / all : 0;
}

static void put_limit(struct json_out limits, enum limit_kind kind, const struct scope_stats *s)
{
	const struct limit_stats *l = &s->limit[kind];
	if (!l->enabled)
		return;
	struct json_out o = put_object(limits, limit_kind_name(kind));
	put_text(o, "unit", limit_kind_is_bytes(kind) ? "bytes" : "ops");
	put_u64(o, "rate", l->rate_per_sec);
	put_u64(o, "capacity", l->capacity);
	put_i64(o, "level", l->level);
	put_u64(o, "once_left", l->once_left);
	put_real(o, "blocking_share", share(l->blocking_ns, s));
}

static struct json_out put_permits(struct json_out o, const char *name,
				   const struct permits_snapshot *p)
{
	struct json_out permits = put_object(o, name);
	if (p->limit != PERMITS_UNLIMITED)
		put_i64(permits, "limit", p->limit);
	put_i64(permits, "now", p->in_flight);
	return permits;
}

void put_scope_stats(struct json_out o, const struct scope_stats *s)
{
	put_real(o, "seconds", (s->now_ns - s->since_ns) / 1e9);
	put_bool(o, "paused", s->paused);
	put_u64(o, "parked_now", s->parked_now);
	put_u64(o, "parked_bytes_now", s->parked_bytes_now);
	put_u64(o, "device_now", s->device_now);
	put_u64(o, "keys_now", s->keys_now);
	struct json_out inflight = put_permits(o, "inflight", &s->inflight);
	put_real(inflight, "blocking_share", share(s->inflight_blocking_ns, s));
	put_permits(o, "open", &s->open);
	struct json_out limits = put_object(o, "limits"), classes = put_object(o, "classes");
	for (int k = 0; k < LIMIT_KINDS; k++)
		put_limit(limits, k, s);
	for (int c = 0; c < COST_CLASSES_SHOWN; c++)
		put_class(put_object(classes, cost_class_name(c)), &s->cls[c]);
}

/* --- keys ----------------------------------------------------------------------------------- */

const char *key_kind(const struct key_stats *k)
{
	return k->shared ? "shared" : fair_kind_name(k->key.kind);
}

static int by_key(const void *a, const void *b)
{
	const struct key_stats *x = a, *y = b;
	if (x->shared != y->shared)
		return x->shared ? 1 : -1;
	if (x->key.kind != y->key.kind)
		return x->key.kind < y->key.kind ? -1 : 1;
	if (x->key.id != y->key.id)
		return x->key.id < y->key.id ? -1 : 1;
	return strcmp(x->leaf, y->leaf);
}

static int by_wait(const void *a, const void *b)
{
	const struct key_stats *x = a, *y = b;
	uint64_t x_ns = add_sat_u64(x->wait_ns, x->would_wait_ns);
	uint64_t y_ns = add_sat_u64(y->wait_ns, y->would_wait_ns);
	return x_ns > y_ns ? -1 : x_ns < y_ns;
}

static int by_use(const void *a, const void *b)
{
	const struct key_stats *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->ops > y->ops ? -1 : x->ops < y->ops;
}

unsigned stats_merge_keys(struct key_stats *k, unsigned n)
{
	unsigned kept = 0;
	if (n)
		qsort(k, n, sizeof(*k), by_key);
	for (unsigned i = 0; i < n; i++) {
		struct key_stats *last = kept ? &k[kept - 1] : NULL;
		if (!last || by_key(last, &k[i]) != 0) {
			k[kept++] = k[i];
			continue;
		}
		last->ops += k[i].ops;
		last->bytes += k[i].bytes;
		last->done_ops += k[i].done_ops;
		last->done_bytes += k[i].done_bytes;
		last->parked += k[i].parked;
		last->parked_now += k[i].parked_now;
		last->wait_ns += k[i].wait_ns;
		last->max_wait_ns = max_u64(last->max_wait_ns, k[i].max_wait_ns);
		last->would_wait += k[i].would_wait;
		last->would_wait_ns += k[i].would_wait_ns;
		last->max_would_wait_ns = max_u64(last->max_would_wait_ns, k[i].max_would_wait_ns);
		last->capped = 0; /* in several mounts, its own limits have no single level */
		if (k[i].limit[0].wait_ns > last->limit[0].wait_ns)
			memcpy(last->limit, k[i].limit, sizeof(last->limit));
		if (k[i].would_limit.wait_ns > last->would_limit.wait_ns)
			last->would_limit = k[i].would_limit;
		if (k[i].oldest_ns > last->oldest_ns) {
			last->oldest_ns = k[i].oldest_ns;
			last->waits_for = k[i].waits_for;
		}
	}
	return kept;
}

struct json_out put_waited_limit(struct json_out o, const char *key, const struct waited_limit *l)
{
	char name[40];
	struct json_out limit = put_object(o, key);
	snprintf(name, sizeof(name), "%s%s", l->each ? "each." : "", l->name);
	put_text(limit, "scope", scope_kind_name(l->scope));
	if (l->of[0])
		put_text(limit, "of", l->of);
	put_text(limit, "name", name);
	return limit;
}

void put_waited_limits(struct json_out o, const struct waited_limit *l, unsigned n)
{
	if (!l[0].known)
		return;
	if (l[0].wait_ns)
		put_u64(put_waited_limit(o, "limit", &l[0]), "wait_ns", l[0].wait_ns);
	else
		put_waited_limit(o, "limit", &l[0]);
	struct json_out list = put_array(o, "limits");
	for (unsigned i = 0; i < n && l[i].wait_ns; i++)
		put_u64(put_waited_limit(list, NULL, &l[i]), "wait_ns", l[i].wait_ns);
}

static void put_waits(struct json_out o, const struct key_stats *k)
{
	put_waited_limits(o, k->limit, KEY_WAITS);
	if (k->would_limit.known)
		put_u64(put_waited_limit(o, "would_limit", &k->would_limit), "wait_ns",
			k->would_limit.wait_ns);
	if (k->waits_for.known)
		put_waited_limit(o, "waits_for", &k->waits_for);
}

/* "wait_bounds_ns", "waits" and "would_wait": how long requests of a mount waited, and in dry runs would have waited, by
 * class and limit. */

struct wait_lists {
	struct json_out waits, would_wait;
	struct limit_wait *buf; /* WAITED_LIMITS_MAX */
};

static void put_wait_times(struct json_out list, const char *class,
			   const struct waited_limit *limit, const struct wait_times *t)
{
	uint64_t n = 0;
	for (unsigned k = 0; k <= WAIT_BOUNDS; k++)
		n += t->count[k];
	if (!n)
		return;
	struct json_out one = put_object(list, NULL);
	put_text(one, "class", class);
	put_waited_limit(one, "limit", limit);
	put_u64(one, "sum_ns", t->sum_ns);
	struct json_out counts = put_array(one, "counts");
	for (unsigned k = 0; k <= WAIT_BOUNDS; k++)
		put_u64(counts, NULL, t->count[k]);
}

static void put_waits_of(const struct wait_lists *l, const struct served_mount *m,
			 const char *class)
{
	unsigned n =
		gate_stats_waits(m->gate_mount, *class ? class : NULL, l->buf, WAITED_LIMITS_MAX);
	for (unsigned i = 0; i < n; i++) {
		const struct limit_wait *w = &l->buf[i];
		put_wait_times(l->waits, class, &w->limit, &w->times);
		put_wait_times(l->would_wait, class, &w->limit, &w->would);
	}
}

static void put_mount_waits(struct json_out o, const struct served_mount *m)
{
	AUTO_FREE struct limit_wait *buf = calloc(WAITED_LIMITS_MAX, sizeof(*buf));
	if (!buf) {
		*o.failed = true;
		return;
	}
	struct json_out bounds = put_array(o, "wait_bounds_ns");
	for (unsigned i = 0; i < WAIT_BOUNDS; i++)
		put_u64(bounds, NULL, wait_bound_ns[i]);
	const struct wait_lists l = {put_array(o, "waits"), put_array(o, "would_wait"), buf};
	put_waits_of(&l, m, "");
	for (unsigned i = 0; i < m->s.n_classes; i++)
		put_waits_of(&l, m, m->s.class[i].name);
}

static void put_each(struct json_out o, const struct key_stats *k)
{
	if (!k->capped)
		return;
	struct json_out each = put_object(o, "each");
	for (unsigned l = 0; l < LIMIT_KINDS; l++)
		if (k->capped & 1U << l)
			put_i64(put_object(each, limit_kind_name(l)), "level", k->level[l]);
}

const char *stats_key_name(const struct key_stats *k, char path[STATS_NAME_MAX])
{
	bool whole = k->key.kind == FAIR_CGROUP && cgroup_path(k->key.id, path, STATS_NAME_MAX);
	return whole ? path : k->name;
}

static void put_keys(struct json_out list, const struct key_stats *k, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const struct number row[] = {
			{"id", k[i].key.id},
			{"uid", k[i].uid},
			{"weight", k[i].weight},
			{"ops", k[i].ops},
			{"bytes", k[i].bytes},
			{"parked_now", k[i].parked_now},
			{"parked_total", k[i].parked},
			{"wait_ns", k[i].wait_ns},
			{"max_wait_ns", k[i].max_wait_ns},
			{"would_wait_total", k[i].would_wait},
			{"would_wait_ns", k[i].would_wait_ns},
			{"max_would_wait_ns", k[i].max_would_wait_ns},
			{"oldest_ns", k[i].oldest_ns},
		};
		char path[STATS_NAME_MAX];
		struct json_out one = put_object(list, NULL);
		put_text(one, "kind", key_kind(&k[i]));
		put_text(one, "name", stats_key_name(&k[i], path));
		put_text(one, "class", k[i].leaf);
		put_numbers(one, row, ARRAY_SIZE(row));
		put_waits(one, &k[i]);
		put_each(one, &k[i]);
	}
}

static bool in_scope(const struct target *t, const struct served_mount *m)
{
	return m->gate_mount && target_covers(t, m);
}

/* Two lists: those that waited longest, and those that moved most. */
static void put_key_lists(struct json_out o, struct key_stats *keys, unsigned n, unsigned most)
{
	qsort(keys, n, sizeof(*keys), by_wait);
	put_keys(put_array(o, "keys_by_wait"), keys, min_u64(n, most));
	qsort(keys, n, sizeof(*keys), by_use);
	put_keys(put_array(o, "keys_by_use"), keys, min_u64(n, min_u64(most, STATS_TOP_KEYS)));
}

static void put_longest_waits(struct json_out o, struct key_stats *keys, unsigned n,
			      const struct stats_keys *show)
{
	if (n > show->most) {
		qsort(keys, n, sizeof(*keys), by_wait);
		qsort(keys, show->most, sizeof(*keys), by_key);
	}
	put_key_table(o, keys, min_u64(n, show->most), show->watch);
}

/* Drops keys that have not waited; they are there because somebody else watches.  Returns how many are left. */
static unsigned drop_idle(struct key_stats *k, unsigned n)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < n; i++)
		if (k[i].parked || k[i].parked_now || k[i].would_wait)
			k[kept++] = k[i];
	return kept;
}

/* The keys of all mounts of the scope; the same key in several mounts is merged. */
static void put_all_keys(struct json_out o, struct registry *r, const struct target *t,
			 const struct stats_keys *show)
{
	unsigned room = 0, n = 0;
	uint64_t oldest_ns = 0;
	AUTO_FREE struct key_stats *keys = NULL;
	if (!show->most)
		return;
	if (show->watch)
		key_watch_look(r, t);
	list_for_each (it, &r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		room += in_scope(t, m) ? gate_count_keys(m->gate_mount) : 0;
	}
	keys = calloc(room + 1, sizeof(*keys));
	if (!keys) {
		*o.failed = true;
		return;
	}
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (in_scope(t, m))
			n += gate_stats_keys(m->gate_mount, t->class ? t->class->name : NULL,
					     keys + n, room - n);
	}
	n = stats_merge_keys(keys, n);
	if (!show->watch)
		n = drop_idle(keys, n);
	for (unsigned i = 0; i < n; i++)
		oldest_ns = max_u64(oldest_ns, keys[i].oldest_ns);
	put_u64(o, "oldest_wait_ns", oldest_ns);
	if (show->table)
		put_longest_waits(o, keys, n, show);
	else
		put_key_lists(o, keys, n, show->most);
}

/* --- the whole ------------------------------------------------------------------------------ */

static void put_mount(struct json_out o, const struct served_mount *m)
{
	struct fs_counts counts;
	put_text(o, "mountpoint", m->s.mountpoint);
	put_text(o, "source", served_source(m));
	if (m->fs)
		put_text(o, "fs", m->fs->s.name);
	put_bool(o, "mounted", served_state(m) == SERVED_UP);
	put_bool(o, "dry_run", m->s.dry_run);
	if (served_paused_by(m))
		put_text(o, "paused_by", served_paused_by(m));
	if (!m->session)
		return;
	fs_mount_look(m->session, &counts);
	put_u64(o, "known_inodes", counts.inodes);
	put_u64(o, "inode_fds", counts.inode_fds);
	put_u64(o, "open_handles", counts.handles);
	put_u64(o, "passthrough_handles", counts.passthrough_handles);
	put_u64(o, "passthrough_maps", counts.passthrough_maps);
	bool limited = limits_data(m);
	put_u64(o, "bypassing_handles", limited ? counts.passthrough_handles : 0);
	put_u64(o, "bypassing_maps", limited ? counts.passthrough_maps : 0);
}

/* Adds up the requests that all mounts of the scope have in their sources. */
static void look_at_sources(struct registry *r, const struct target *t, struct fs_source_look *all)
{
	*all = (struct fs_source_look){.oldest_op = ""};
	list_for_each (it, &r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		struct fs_source_look one;
		if (!m->session || !in_scope(t, m))
			continue;
		fs_mount_look_source(m->session, &one);
		fs_source_look_add(all, &one);
	}
}

static void put_source(struct json_out o, const struct fs_source_look *all)
{
	put_u64(o, "requests", all->n);
	put_u64(o, "queued", all->queued);
	put_u64(o, "stuck", all->stuck);
	put_u64(o, "oldest_ns", all->oldest_ns);
	put_text(o, "oldest_op", all->oldest_op);
	struct json_out ops = put_array(o, "ops");
	for (unsigned i = 0; i < all->n_ops; i++) {
		struct json_out op = put_object(ops, NULL);
		put_text(op, "name", all->op[i].name);
		put_u64(op, "requests", all->op[i].n);
		put_u64(op, "oldest_ns", all->op[i].oldest_ns);
	}
}

static void look_at_scope(struct registry *r, const struct target *t, struct scope_stats *s)
{
	if (t->class && t->mount)
		(void)gate_stats_class(t->mount->gate_mount, t->class->name, s);
	else if (t->mount)
		gate_stats_mount(t->mount->gate_mount, s);
	else if (t->fs)
		gate_stats_fs(t->fs->gate, s);
	else
		gate_stats_global(r->gate, s);
}

void put_stats(struct json_out o, struct registry *r, const struct target *t,
	       const struct stats_keys *keys)
{
	AUTO_FREE struct scope_stats *s = calloc(1, sizeof(*s));
	struct fs_source_look source;
	put_text(o, "scope", scope_kind_name(t->scope));
	put_text(o, "name", target_name(t));
	if (t->mount && !t->class)
		put_mount(o, t->mount);
	if (!s)
		*o.failed = true;
	if (!s || (t->mount && !t->mount->gate_mount))
		return;
	look_at_scope(r, t, s);
	look_at_sources(r, t, &source);
	/* Without max_inflight permits are not counted. */
	if (s->inflight.limit == PERMITS_UNLIMITED)
		s->inflight.in_flight = source.n + source.queued;
	put_source(put_object(o, "in_source"), &source);
	served_space_put(o, t);
	put_limits_met(o, t);
	put_scope_stats(o, s);
	if (t->mount && !t->class)
		put_mount_waits(o, t->mount);
	put_all_keys(o, r, t, keys);
}
