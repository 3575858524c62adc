/* SPDX-License-Identifier: MIT */
#include "daemon/stats_out.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/limits_out.h"
#include "daemon/proto.h"
#include "daemon/served_space.h"
#include "fs/cgroup.h"
#include "fs/mount.h"

/* --- one scope ------------------------------------------------------------------------------ */

static void class_records(const char *name, const struct class_stats *c, FILE *out)
{
	const struct {
		const char *name;
		uint64_t value;
	} row[] = {
		{"ops", c->ops},
		{"bytes", c->bytes},
		{"at_once", c->at_once},
		{"parked_now", c->parked_now},
		{"parked_total", c->parked},
		{"would_block", c->would_block},
		{"full", c->full},
		{"timed_out", c->timed_out},
		{"cancelled", c->cancelled},
		{"misconfigured", c->misconfigured},
		{"ok", c->ok},
		{"failed", c->failed},
		{"aborted", c->aborted},
		{"wait.count", c->wait.total},
		{"wait.sum_ns", c->wait.sum_ns},
		{"wait.p50_ns", histogram_quantile_ns(&c->wait, 500)},
		{"wait.p90_ns", histogram_quantile_ns(&c->wait, 900)},
		{"wait.p99_ns", histogram_quantile_ns(&c->wait, 990)},
		{"wait.max_ns", c->wait.max_ns},
		{"device_now", c->device_now},
		{"device.count", c->device.total},
		{"device.sum_ns", c->device.sum_ns},
		{"device.p50_ns", histogram_quantile_ns(&c->device, 500)},
		{"device.p90_ns", histogram_quantile_ns(&c->device, 900)},
		{"device.p99_ns", histogram_quantile_ns(&c->device, 990)},
		{"device.max_ns", c->device.max_ns},
	};
	for (unsigned i = 0; i < ARRAY_SIZE(row); i++)
		record_u64(out, row[i].value, "classes.%s.%s", name, row[i].name);
}

/* Share of the time that the counters cover, 0 to 1. */
static double share(uint64_t part_ns, const struct scope_stats *s)
{
	uint64_t all = s->now_ns - s->since_ns;
	return all ? (double)min_u64(part_ns, all) / all : 0;
}

static void limit_records(enum limit_kind kind, const struct scope_stats *s, FILE *out)
{
	const struct limit_stats *l = &s->limit[kind];
	const char *name = limit_kind_name(kind);
	if (!l->enabled)
		return;
	record_text(out, limit_kind_is_bytes(kind) ? "bytes" : "ops", "limits.%s.unit", name);
	record_u64(out, l->rate_per_sec, "limits.%s.rate", name);
	record_u64(out, l->capacity, "limits.%s.capacity", name);
	record_i64(out, l->level, "limits.%s.level", name);
	record_u64(out, l->once_left, "limits.%s.once_left", name);
	record_real(out, share(l->blocking_ns, s), "limits.%s.blocking_share", name);
}

static void permit_records(const char *name, const struct permits_snapshot *p, FILE *out)
{
	if (p->limit != PERMITS_UNLIMITED)
		record_i64(out, p->limit, "%s.limit", name);
	record_i64(out, p->in_flight, "%s.now", name);
}

void stats_scope_records(const struct scope_stats *s, FILE *out)
{
	record_real(out, (s->now_ns - s->since_ns) / 1e9, "seconds");
	record_bool(out, s->paused, "paused");
	record_u64(out, s->parked_now, "parked_now");
	record_u64(out, s->parked_bytes_now, "parked_bytes_now");
	record_u64(out, s->device_now, "device_now");
	record_u64(out, s->keys_now, "keys_now");
	permit_records("inflight", &s->inflight, out);
	record_real(out, share(s->inflight_blocking_ns, s), "inflight.blocking_share");
	permit_records("open", &s->open, out);
	for (int k = 0; k < LIMIT_KINDS; k++)
		limit_records(k, s, out);
	for (int c = 0; c < COST_CLASSES_SHOWN; c++)
		class_records(cost_class_name(c), &s->cls[c], out);
}

/* --- keys ----------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
	const struct key_stats *x = a, *y = b;
	if (x->key.kind != y->key.kind)
		return x->key.kind < y->key.kind ? -1 : 1;
	return x->key.id < y->key.id ? -1 : x->key.id > y->key.id;
}

static int by_wait(const void *a, const void *b)
{
	const struct key_stats *x = a, *y = b;
	return x->wait_ns > y->wait_ns ? -1 : x->wait_ns < y->wait_ns;
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
		last->parked += k[i].parked;
		last->parked_now += k[i].parked_now;
		last->wait_ns += k[i].wait_ns;
		last->max_wait_ns = max_u64(last->max_wait_ns, k[i].max_wait_ns);
		last->capped = 0; /* several limits of its own are no one level */
	}
	return kept;
}

/* Names that cost no look into the user database: that is for the client to do. */
static void name_record(const struct fair_key *key, const char *list, unsigned i, FILE *out)
{
	char buf[4096] = "";
	if (key->kind == FAIR_CGROUP)
		cgroup_path(key->id, buf, sizeof(buf));
	if (key->kind == FAIR_PROCESS) {
		char path[40];
		snprintf(path, sizeof(path), "/proc/%" PRIu64 "/comm", key->id);
		AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, buf, 64);
		buf[n > 0 ? n - 1 : 0] = '\0'; /* its newline */
	}
	record_text(out, buf, "%s.%u.name", list, i);
}

static void key_records(const struct key_stats *k, unsigned n, const char *list, FILE *out)
{
	for (unsigned i = 0; i < n && i < STATS_TOP_KEYS; i++) {
		record_text(out, fair_kind_name(k[i].key.kind), "%s.%u.kind", list, i);
		record_u64(out, k[i].key.id, "%s.%u.id", list, i);
		name_record(&k[i].key, list, i, out);
		record_u64(out, k[i].weight, "%s.%u.weight", list, i);
		record_u64(out, k[i].ops, "%s.%u.ops", list, i);
		record_u64(out, k[i].bytes, "%s.%u.bytes", list, i);
		record_u64(out, k[i].parked_now, "%s.%u.parked_now", list, i);
		record_u64(out, k[i].parked, "%s.%u.parked_total", list, i);
		record_u64(out, k[i].wait_ns, "%s.%u.wait_ns", list, i);
		record_u64(out, k[i].max_wait_ns, "%s.%u.max_wait_ns", list, i);
		for (unsigned l = 0; l < LIMIT_KINDS; l++)
			if (k[i].capped & 1U << l)
				record_i64(out, k[i].level[l], "%s.%u.each.%s.level", list, i,
					   limit_kind_name(l));
	}
}

static bool in_scope(const struct target *t, const struct served_mount *m)
{
	return m->gate && target_covers(t, m);
}

/* The keys of all mounts of the scope, equal ones together. */
static bool all_key_records(struct registry *r, const struct target *t, FILE *out)
{
	unsigned room = 0, n = 0;
	AUTO_FREE struct key_stats *keys = NULL;
	list_for_each (it, &r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		room += in_scope(t, m) ? m->s.max_keys : 0;
	}
	keys = calloc(room + 1, sizeof(*keys));
	if (!keys)
		return false;
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (in_scope(t, m))
			n += gate_stats_keys(m->gate, t->class ? t->class->name : NULL, keys + n,
					     min_u64(m->s.max_keys, room - n));
	}
	n = stats_merge_keys(keys, n);
	qsort(keys, n, sizeof(*keys), by_wait);
	key_records(keys, n, "keys_by_wait", out);
	qsort(keys, n, sizeof(*keys), by_use);
	key_records(keys, n, "keys_by_use", out);
	return true;
}

/* --- the whole ------------------------------------------------------------------------------ */

static void mount_records(const struct served_mount *m, FILE *out)
{
	struct fs_counts counts;
	record_text(out, m->s.mountpoint, "mountpoint");
	record_text(out, served_source(m), "source");
	record_bool(out, served_state(m) == SERVED_UP, "mounted");
	record_bool(out, m->s.dry_run, "dry_run");
	if (served_paused_by(m))
		record_text(out, served_paused_by(m), "paused_by");
	if (!m->session)
		return;
	fs_mount_look(m->session, &counts);
	record_u64(out, counts.inodes, "known_inodes");
	record_u64(out, counts.inode_fds, "inode_fds");
	record_u64(out, counts.handles, "open_handles");
	record_u64(out, counts.passthrough_handles, "passthrough_handles");
	record_u64(out, counts.passthrough_maps, "passthrough_maps");
}

/* What all mounts of the scope have in their sources. */
static void source_records(struct registry *r, const struct target *t, struct scope_stats *s,
			   FILE *out)
{
	struct fs_source_look all = {.oldest_op = ""};
	list_for_each (it, &r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		struct fs_source_look one;
		if (!m->session || !in_scope(t, m))
			continue;
		fs_mount_look_source(m->session, &one);
		fs_source_look_add(&all, &one);
	}
	/* Without max_inflight nobody counts permits. */
	if (s->inflight.limit == PERMITS_UNLIMITED)
		s->inflight.in_flight = all.n + all.queued;
	record_u64(out, all.n, "in_source.requests");
	record_u64(out, all.queued, "in_source.queued");
	record_u64(out, all.stuck, "in_source.stuck");
	record_u64(out, all.oldest_ns, "in_source.oldest_ns");
	record_text(out, all.oldest_op, "in_source.oldest_op");
	for (unsigned i = 0; i < all.n_ops; i++) {
		record_text(out, all.op[i].name, "in_source.ops.%u.name", i);
		record_u64(out, all.op[i].n, "in_source.ops.%u.requests", i);
		record_u64(out, all.op[i].oldest_ns, "in_source.ops.%u.oldest_ns", i);
	}
}

bool stats_records(struct registry *r, const struct target *t, FILE *out)
{
	AUTO_FREE struct scope_stats *s = calloc(1, sizeof(*s));
	if (!s)
		return false;
	record_text(out, scope_kind_name(t->scope), "scope");
	record_text(out, target_name(t), "name");
	if (t->mount && !t->class)
		mount_records(t->mount, out);
	if (t->mount && !t->mount->gate)
		return true;
	if (t->class && t->mount)
		(void)gate_stats_class(t->mount->gate, t->class->name, s);
	else if (t->mount)
		gate_stats_mount(t->mount->gate, s);
	else if (t->fs)
		gate_stats_fs(t->fs->gate, s);
	else
		gate_stats_global(r->gate, s);
	source_records(r, t, s, out);
	served_space_records(t, out);
	bool whole = limits_records(t, "limits_met", out);
	stats_scope_records(s, out);
	return all_key_records(r, t, out) && whole;
}
