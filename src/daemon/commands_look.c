/* SPDX-License-Identifier: MIT */
/* Commands that change nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/served_space.h"
#include "daemon/advice.h"
#include "daemon/commands_internal.h"
#include "daemon/ending.h"
#include "daemon/limits_out.h"
#include "daemon/pools.h"
#include "daemon/stats_out.h"
#include "fs/cgroup.h"
#include "fs/mount.h"

static const char *state_of(const struct served_mount *m)
{
	static const char *const name[] = {
		[SERVED_DOWN] = "unmounted",
		[SERVED_MOUNTING] = "mounting",
		[SERVED_UP] = "mounted",
		[SERVED_ENDING] = "unmounting",
	};
	enum served_state state = served_state(m);
	return state == SERVED_UP && served_paused_by(m) ? "paused" : name[state];
}

/* --- list ----------------------------------------------------------------------------------- */

/* Only requests that have been in the source for a while; others come and go all the time. */
static void put_stuck(struct json_out o, const struct fs_source_look *l)
{
	if (!l->stuck)
		return;
	struct json_out stuck = put_object(o, "stuck");
	put_u64(stuck, "requests", l->stuck);
	put_text(stuck, "oldest_op", l->oldest_op);
	put_u64(stuck, "oldest_ns", l->oldest_ns);
}

/* Mounts that are being unmounted and that the registry has already forgotten. */
static void put_endings(struct json_out o, struct registry *r)
{
	list_for_each (it, &r->endings) {
		const struct ending *e = list_entry(it, struct ending, link);
		struct fs_source_look l;
		if (e->owner || (e->released && e->clean))
			continue;
		struct json_out one = put_object(o, NULL);
		ending_look(e, &l);
		put_text(one, "name", e->name);
		put_text(one, "mountpoint", e->mountpoint);
		put_text(one, "state", e->released ? "abandoned" : "unmounting");
		put_stuck(one, &l);
	}
}

static void put_class_options(struct json_out o, const struct settings *s)
{
	for (unsigned i = 0; i < n_options; i++) {
		if (!option_is_in(&options[i], SCOPE_CLASS) || !option_is_given(&options[i], s))
			continue;
		AUTO_FREE char *value = option_text(&options[i], s);
		put_text(o, options[i].name, value);
		if (!value)
			*o.failed = true;
	}
}

/* The limits of a mount, and its classes in the order in which requests are
 * matched against them. */
static void put_classes(struct json_out o, struct served_mount *m)
{
	const struct target t = {.scope = SCOPE_MOUNT, .registry = m->registry, .mount = m};
	put_limits_met(o, &t);
	struct json_out classes = put_array(o, "classes");
	for (unsigned k = 0; k < m->s.n_classes; k++) {
		struct json_out class = put_object(classes, NULL);
		put_text(class, "name", m->s.class[k].name);
		put_class_options(put_object(class, "options"), &m->s.class[k]);
	}
}

static void put_mount(struct json_out o, struct served_mount *m)
{
	struct fs_source_look l;
	put_text(o, "name", m->s.name);
	put_text(o, "mountpoint", m->s.mountpoint);
	put_text(o, "source", served_source(m));
	put_text(o, "fs", m->fs ? m->fs->s.name : m->s.fs);
	put_text(o, "state", state_of(m));
	put_classes(o, m);
	served_space_put_mount(o, m);
	if (!m->session)
		return;
	fs_mount_look_source(m->session, &l);
	put_stuck(o, &l);
}

void do_list(struct request *rq)
{
	struct registry *r = rq->registry;
	put_u64(rq->out, "pid", getpid());
	put_text(rq->out, "file", r->file);
	struct json_out mounts = put_array(rq->out, "mounts");
	list_for_each (it, &r->mounts)
		put_mount(put_object(mounts, NULL), list_entry(it, struct served_mount, link));
	put_endings(put_array(rq->out, "endings"), r);
}

void do_class_list(struct request *rq)
{
	struct json_out mounts = put_array(rq->out, "mounts");
	list_for_each (it, &rq->registry->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (!target_covers(&rq->target, m) || !m->s.n_classes)
			continue;
		struct json_out one = put_object(mounts, NULL);
		put_text(one, "name", m->s.name);
		put_classes(one, m);
	}
}

/* --- one target ----------------------------------------------------------------------------- */

static void put_options(struct json_out o, enum scope_kind scope, const struct settings *s)
{
	for (unsigned i = 0; i < n_options; i++) {
		const struct option_def *def = &options[i];
		bool fuse = def->type == OPTION_FLAG || def->type == OPTION_VALUE;
		if (!option_is_in(def, scope) || def->type == OPTION_NOISE ||
		    def->type == OPTION_LIST)
			continue;
		if (fuse && !words_find(&s->fuse, def->name))
			continue;
		AUTO_FREE char *value = option_text(def, s);
		struct json_out one = put_object(o, def->name);
		put_text(one, "value", value);
		put_bool(one, "default", !option_is_given(def, s));
		put_bool(one, "live", def->live);
		if (!value)
			*o.failed = true;
	}
}

static void put_advice(const char *line, void *ctx)
{
	put_text(*(struct json_out *)ctx, NULL, line);
}

/* The cgroup hierarchies from which the names of callers come, and warnings
 * about these settings. */
static void put_cgroups(struct json_out o, const struct settings *s)
{
	char text[4096];
	if (uses_cgroups(s)) {
		AUTO_FILE f = fopen("/proc/self/cgroup", "re");
		text[f ? fread(text, 1, sizeof(text) - 1, f) : 0] = '\0';
		put_text(o, "cgroups", cgroup_hierarchies(text));
	}
	struct json_out advice = put_array(o, "advice");
	advise(s, put_advice, &advice);
}

void do_show(struct request *rq)
{
	const struct target *t = &rq->target;
	put_text(rq->out, "scope", scope_kind_name(t->scope));
	put_text(rq->out, "name", target_name(t));
	if (t->mount && !t->class) {
		put_text(rq->out, "state", state_of(t->mount));
		put_text(rq->out, "source", served_source(t->mount));
	}
	if (t->mount && !t->class && t->mount->session) {
		const char *why_not;
		uint64_t dev, ino;
		fs_mount_root(t->mount->session, &dev, &ino);
		put_u64(rq->out, "source_device", dev);
		put_u64(rq->out, "source_inode", ino);
		put_text(rq->out, "transport", fs_mount_transport(t->mount->session, &why_not));
		put_text(rq->out, "transport_reason", why_not);
	}
	put_bool(rq->out, "paused", target_paused(t));
	if (target_paused_by(t))
		put_text(rq->out, "paused_by", target_paused_by(t));
	if (!t->pool)
		put_limits_met(rq->out, t);
	put_options(put_object(rq->out, "options"), t->scope, target_settings(t));
	if (t->mount)
		put_cgroups(rq->out, target_settings(t));
}

void do_stats(struct request *rq)
{
	if (rq->target.pool)
		put_text(rq->out, "name", target_name(&rq->target));
	else
		put_stats(rq->out, rq->registry, &rq->target, &rq->keys);
	put_pools(rq->out, rq->registry->pools, rq->target.pool);
}

/* The file in which options of the target can be saved; "" for a mount's own fs,
 * which has no section. */
static const char *file_of(const struct request *rq)
{
	return rq->target.fs && rq->target.fs->own ? "" : rq->registry->file;
}

void do_find(struct request *rq)
{
	put_text(rq->out, "file", file_of(rq));
	put_text(rq->out, "scope", scope_kind_name(rq->target.scope));
	put_text(rq->out, "name", target_name(&rq->target));
}

/* --- events --------------------------------------------------------------------------------- */

/* Subscribes to the events of a mount, of one of its classes, or to all. */
void do_subscribe(struct request *rq)
{
	struct trace_filter *f = &rq->reply->filter;
	const struct target *t = &rq->target;
	const char *name = json_string_value(rq->key);
	if (t->fs || t->pool || (t->dropped && !t->mount)) {
		command_fail(rq->reply, PROTO_WRONG_TARGET,
			     "events belong to mounts, classes or global");
		return;
	}
	if (t->mount)
		snprintf(f->mount, sizeof(f->mount), "%s", t->mount->s.name);
	if (t->class)
		snprintf(f->class, sizeof(f->class), "%s", t->class->name);
	if (name)
		snprintf(f->name, sizeof(f->name), "%s", name);
	f->has_key = json_is_integer(rq->key);
	f->key = (uint64_t)json_integer_value(rq->key);
	f->min_wait_ns = rq->min_wait_ns;
	rq->reply->subscribes = true;
}
