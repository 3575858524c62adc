/* SPDX-License-Identifier: MIT */
#include "ctl/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"

double snapshot_seconds(const struct snapshot *now, const struct snapshot *before)
{
	return before && now->at_ns > before->at_ns ? (double)(now->at_ns - before->at_ns) / 1e9
						    : 0;
}

static double per_sec(uint64_t now, uint64_t before, double seconds)
{
	uint64_t grown = now >= before ? now - before : now;
	return seconds > 0 ? (double)grown / seconds : 0;
}

static const struct snap_op *op_of(const struct snap_scope *s, const char *name)
{
	for (unsigned i = 0; s && i < s->ops; i++)
		if (strcmp(s->op[i].name, name) == 0)
			return &s->op[i];
	return NULL;
}

static uint64_t refusals(const struct snap_op *o)
{
	return o->would_block + o->full + o->no_room + o->too_many_open + o->no_space +
	       o->timed_out + o->misconfigured;
}

struct scope_rates scope_rates(const struct snap_scope *now, const struct snap_scope *before,
			       double seconds)
{
	struct scope_rates r = {0};
	static const struct snap_op none;
	for (unsigned i = 0; before && i < now->ops; i++) {
		const struct snap_op *a = &now->op[i], *b = op_of(before, a->name);
		b = b ? b : &none;
		r.ops_per_sec += per_sec(a->ops, b->ops, seconds);
		r.bytes_per_sec += per_sec(a->bytes, b->bytes, seconds);
		r.refused_per_sec += per_sec(refusals(a), refusals(b), seconds);
	}
	return r;
}

/* --- limits ------------------------------------------------------------------------------------ */

/* "read_bps" of "each.read_bps". */
static const char *kind_of(const struct snap_limit *l)
{
	return l->each ? l->name + strlen("each.") : l->name;
}

/* How often a limit counts an operation.  The bytes of a copy are both read and written, so bps
 * counts them twice. */
static double weight_of(const struct snap_limit *l, const char *op, bool has_meta)
{
	const char *name = kind_of(l);
	bool meta = strcmp(op, "meta") == 0 || strcmp(op, "openclose") == 0;
	bool copy = strcmp(op, "copy") == 0, readdir = strcmp(op, "readdir") == 0;
	bool read = strcmp(op, "read") == 0, write = strcmp(op, "write") == 0;
	if (strcmp(name, "iops") == 0)
		return !(meta && has_meta);
	if (strcmp(name, "meta_iops") == 0)
		return meta;
	if (strcmp(name, "bps") == 0)
		return copy ? 2 : read || write;
	if (strcmp(name, "read_bps") == 0)
		return read || readdir || copy;
	if (strcmp(name, "read_iops") == 0)
		return read || copy;
	return write || copy; /* write_bps, write_iops */
}

static bool has_limit(const struct snap_scope *s, const struct snap_limit *like, const char *name)
{
	for (unsigned i = 0; i < s->limits; i++) {
		const struct snap_limit *l = &s->limit[i];
		if (strcmp(l->scope, like->scope) == 0 && strcmp(l->of, like->of) == 0 &&
		    strcmp(l->name, name) == 0)
			return true;
	}
	return false;
}

bool limit_is_of_pool(const struct snap_limit *l)
{
	return strcmp(l->scope, "pool") == 0;
}

/* The name of the limit's scope, as the snapshot has it. */
static const char *scope_name(const struct limit_rates *l, char buf[RATES_TARGET_MAX])
{
	if (strcmp(l->limit->scope, "class") != 0)
		return l->limit->of;
	snprintf(buf, RATES_TARGET_MAX, "%s/%s", l->seen_from->name, l->limit->of);
	return buf;
}

const char *limit_target(const struct limit_rates *l, char buf[RATES_TARGET_MAX])
{
	if (strcmp(l->limit->scope, "fs") == 0 || strcmp(l->limit->scope, "pool") == 0)
		snprintf(buf, RATES_TARGET_MAX, "%s:%s", l->limit->scope, l->limit->of);
	else if (scope_name(l, buf) != buf)
		snprintf(buf, RATES_TARGET_MAX, "%s", l->limit->of);
	return buf;
}

/* A mount's limits for each key also apply to the requests of its classes.  Several keys of classes may belong to one key of
 * the mount, which may then use more than the result. */
static double busiest_key(const struct limit_rates *l, const struct key_rates *keys, unsigned n)
{
	double most = 0;
	bool class = strcmp(l->limit->scope, "class") == 0;
	for (unsigned i = 0; i < n; i++) {
		if (keys[i].mount != l->seen_from ||
		    (class && strcmp(keys[i].key->class, l->limit->of) != 0))
			continue;
		double used = l->limit->bytes ? keys[i].bytes_per_sec : keys[i].ops_per_sec;
		most = used > most ? used : most;
	}
	return most;
}

static double used_of_scope(const struct limit_rates *l, const struct snap_scope *a,
			    const struct snap_scope *b, double seconds)
{
	bool has_meta =
		has_limit(l->seen_from, l->limit, l->limit->each ? "each.meta_iops" : "meta_iops");
	double used = 0;
	for (unsigned i = 0; a && b && i < a->ops; i++) {
		const struct snap_op *x = &a->op[i], *y = op_of(b, x->name);
		if (y)
			used += weight_of(l->limit, x->name, has_meta) *
				per_sec(l->limit->bytes ? x->bytes : x->ops,
					l->limit->bytes ? y->bytes : y->ops, seconds);
	}
	return used;
}

static double used_by_ops(const struct limit_rates *l, const struct snapshot *now,
			  const struct snapshot *before)
{
	char buf[RATES_TARGET_MAX];
	const char *name = scope_name(l, buf), *scope = l->limit->scope;
	uint64_t daemon = l->seen_from->daemon;
	return used_of_scope(l, snapshot_find(now, daemon, scope, name),
			     snapshot_find(before, daemon, scope, name),
			     snapshot_seconds(now, before));
}

/* What a key has done is not known by kind, but it cannot have read more than everybody together. */
static double used_by_key(const struct limit_rates *l, const struct snapshot *now,
			  const struct snapshot *before, const struct key_rates *keys, unsigned n)
{
	double one = busiest_key(l, keys, n), all = used_by_ops(l, now, before);
	return one < all ? one : all;
}

static const struct snap_limit *same_limit(const struct snap_scope *in, const struct snap_limit *l)
{
	for (unsigned i = 0; in && i < in->limits; i++) {
		const struct snap_limit *o = &in->limit[i];
		if (strcmp(o->scope, l->scope) == 0 && strcmp(o->of, l->of) == 0 &&
		    strcmp(o->name, l->name) == 0)
			return o;
	}
	return NULL;
}

/* The use of a pool is that of all mounts of the daemon to which its limit applies.  If
 * only a class of a mount takes part, this is too much, but the daemon does not report
 * how much is the class's. */
static double used_of_pool(const struct limit_rates *l, const struct snapshot *now,
			   const struct snapshot *before)
{
	double used = 0;
	for (unsigned i = 0; i < now->scopes; i++) {
		const struct snap_scope *s = &now->scope[i];
		if (s->daemon == l->seen_from->daemon && strcmp(s->scope, "mount") == 0 &&
		    same_limit(s, l->limit))
			used += used_of_scope(l, s,
					      snapshot_find(before, s->daemon, s->scope, s->name),
					      snapshot_seconds(now, before));
	}
	return used;
}

static double refused_share(const struct limit_rates *l, const struct snapshot *now,
			    const struct snapshot *before)
{
	const struct snap_scope *from = l->seen_from;
	const struct snap_limit *was =
		same_limit(snapshot_find(before, from->daemon, from->scope, from->name), l->limit);
	if (!was)
		return 0;
	double share =
		per_sec(l->limit->blocking_ns, was->blocking_ns, snapshot_seconds(now, before)) /
		1e9;
	return share > 1 ? 1 : share;
}

/* True: the limit is already in the list.  Limits of wider scopes are in the
 * answers of several mounts. */
static bool is_listed(const struct limit_rates *list, unsigned n, const struct snap_scope *from,
		      const struct snap_limit *l)
{
	bool narrow = strcmp(l->scope, "class") == 0 || strcmp(l->scope, "mount") == 0;
	for (unsigned i = 0; i < n && !narrow; i++)
		if (list[i].seen_from->daemon == from->daemon &&
		    strcmp(list[i].limit->scope, l->scope) == 0 &&
		    strcmp(list[i].limit->of, l->of) == 0 &&
		    strcmp(list[i].limit->name, l->name) == 0)
			return true;
	return false;
}

static bool is_mount(const struct snap_scope *s)
{
	return strcmp(s->scope, "mount") == 0;
}

struct limit_rates *limit_rates(const struct snapshot *now, const struct snapshot *before,
				const struct key_rates *keys, unsigned n_keys, unsigned *n)
{
	unsigned room = 0;
	for (unsigned i = 0; i < now->scopes; i++)
		room += is_mount(&now->scope[i]) ? now->scope[i].limits : 0;
	struct limit_rates *list = calloc(room + 1, sizeof(*list));
	*n = 0;
	for (unsigned i = 0; list && i < now->scopes; i++) {
		const struct snap_scope *s = &now->scope[i];
		for (unsigned k = 0; is_mount(s) && k < s->limits; k++) {
			struct limit_rates l = {.limit = &s->limit[k], .seen_from = s};
			if (is_listed(list, *n, s, l.limit))
				continue;
			l.refused_share = refused_share(&l, now, before);
			l.used = !l.limit->rate	 ? (double)l.limit->used
				 : l.limit->each ? used_by_key(&l, now, before, keys, n_keys)
				 : limit_is_of_pool(l.limit) ? used_of_pool(&l, now, before)
							     : used_by_ops(&l, now, before);
			list[(*n)++] = l;
		}
	}
	return list;
}

/* --- keys -------------------------------------------------------------------------------------- */

static int by_identity(const void *a, const void *b)
{
	const struct snap_key *x = *(const struct snap_key *const *)a,
			      *y = *(const struct snap_key *const *)b;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	int rc = strcmp(x->kind, y->kind);
	return rc ? rc : strcmp(x->class, y->class);
}

/* Sorted for bsearch: with thousands of keys, linear searches would take longer
 * than everything else. */
static const struct snap_key **sorted_keys(const struct snap_scope *s)
{
	const struct snap_key **sorted =
		calloc((s ? s->keys : 0) + 1, sizeof(const struct snap_key *));
	bool in_order = true; /* as daemons send them */
	for (unsigned i = 0; sorted && s && i < s->keys; i++) {
		sorted[i] = &s->key[i];
		in_order = in_order && (!i || by_identity(&sorted[i - 1], &sorted[i]) < 0);
	}
	if (sorted && !in_order)
		qsort(sorted, s->keys, sizeof(const struct snap_key *), by_identity);
	return sorted;
}

static struct key_rates rates_of_key(const struct snap_key *k, const struct snap_key *was,
				     double seconds)
{
	static const struct snap_key none;
	struct key_rates r = {.key = k};
	was = was ? was : &none; /* new since `before` */
	r.ops_per_sec = per_sec(k->ops, was->ops, seconds);
	r.bytes_per_sec = per_sec(k->bytes, was->bytes, seconds);
	r.waiting =
		per_sec(k->wait_ns + k->would_wait_ns, was->wait_ns + was->would_wait_ns, seconds) /
		1e9;
	if (r.waiting > 1)
		r.waiting = 1; /* waits may have begun earlier, or be concurrent */
	/* The wait of a request that still waits is not in wait_ns yet. */
	double oldest = (double)k->oldest_ns / 1e9, most = oldest < seconds ? oldest : seconds;
	if (seconds > 0 && r.waiting < most / seconds)
		r.waiting = most / seconds;
	return r;
}

static bool add_keys(struct key_rates *list, unsigned *n, const struct snap_scope *s,
		     const struct snap_scope *was, double seconds)
{
	AUTO_FREE const struct snap_key **sorted = sorted_keys(was);
	if (!sorted)
		return false;
	for (unsigned i = 0; i < s->keys; i++) {
		const struct snap_key *k = &s->key[i];
		const struct snap_key **found =
			was && was->keys ? bsearch(&k, sorted, was->keys,
						   sizeof(const struct snap_key *), by_identity)
					 : NULL;
		list[*n] = rates_of_key(k, found ? *found : NULL, was ? seconds : 0);
		list[(*n)++].mount = s;
	}
	return true;
}

struct key_rates *key_rates(const struct snapshot *now, const struct snapshot *before, unsigned *n)
{
	unsigned room = 0;
	double seconds = snapshot_seconds(now, before);
	*n = 0;
	for (unsigned i = 0; i < now->scopes; i++)
		room += is_mount(&now->scope[i]) ? now->scope[i].keys : 0;
	struct key_rates *list = calloc(room + 1, sizeof(*list));
	for (unsigned i = 0; list && i < now->scopes; i++) {
		const struct snap_scope *s = &now->scope[i];
		const struct snap_scope *was = snapshot_find(before, s->daemon, s->scope, s->name);
		if (is_mount(s) && !add_keys(list, n, s, was, seconds)) {
			free(list);
			return NULL;
		}
	}
	return list;
}
