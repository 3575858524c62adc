/* SPDX-License-Identifier: MIT */
#include "daemon/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/advice.h"
#include "daemon/await.h"
#include "daemon/command_table.h"
#include "daemon/ending.h"
#include "daemon/in_use.h"
#include "daemon/limits_out.h"
#include "daemon/options.h"
#include "daemon/problems.h"
#include "daemon/proto.h"
#include "daemon/registry.h"
#include "daemon/reload.h"
#include "daemon/served_space.h"
#include "daemon/stats_out.h"
#include "daemon/target.h"
#include "fs/mount.h"
#include "sched/gate.h"

#define BYPASSING_MAX 20 /* openers that are named */

struct request {
	struct registry *registry;
	struct target target; /* of commands that have one */
	bool force;	      /* --force was said */
	int n;		      /* further words */
	char **word;
	struct command_reply *reply;
	FILE *out;
};

static void fail(struct request *rq, int code)
{
	rq->reply->code = code;
}

static void refuse(struct request *rq, int code, const char *what)
{
	error_set(&rq->reply->err, "%s", what);
	fail(rq, code);
}

/* --- looking -------------------------------------------------------------------------------- */

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

/* Only what has been there for a while: the rest comes and goes. */
static void list_stuck(FILE *out, const struct fs_source_look *l, const char *path, unsigned index)
{
	if (!l->stuck)
		return;
	record_u64(out, l->stuck, "%s.%u.stuck.requests", path, index);
	record_text(out, l->oldest_op, "%s.%u.stuck.oldest_op", path, index);
	record_u64(out, l->oldest_ns, "%s.%u.stuck.oldest_ns", path, index);
}

/* Mounts on their way down that have no place among the others any more. */
static void list_endings(FILE *out, struct registry *r)
{
	unsigned i = 0;
	list_for_each (it, &r->endings) {
		const struct ending *e = list_entry(it, struct ending, link);
		struct fs_source_look l;
		if (e->owner || (e->released && e->clean))
			continue;
		ending_look(e, &l);
		record_text(out, e->name, "endings.%u.name", i);
		record_text(out, e->mountpoint, "endings.%u.mountpoint", i);
		record_text(out, e->released ? "abandoned" : "unmounting", "endings.%u.state", i);
		list_stuck(out, &l, "endings", i++);
	}
}

static void no_memory(struct request *rq)
{
	refuse(rq, PROTO_FAILED, "out of memory");
}

/* What is known of the i-th mount's limits, and of its classes in the order in which they are asked.
 * False: out of memory. */
static bool list_classes(struct served_mount *m, unsigned i, FILE *out)
{
	const struct target t = {.scope = SCOPE_MOUNT, .registry = m->registry, .mount = m};
	char path[40];
	snprintf(path, sizeof(path), "mounts.%u.limits_met", i);
	bool ok = limits_records(&t, path, out);
	for (unsigned k = 0; k < m->s.n_classes; k++) {
		const struct settings *s = &m->s.class[k];
		record_text(out, s->name, "mounts.%u.classes.%u.name", i, k);
		for (unsigned o = 0; o < n_options; o++) {
			if (!option_is_in(&options[o], SCOPE_CLASS) ||
			    !option_is_given(&options[o], s))
				continue;
			AUTO_FREE char *value = option_text(&options[o], s);
			record_text(out, value, "mounts.%u.classes.%u.options.%s", i, k,
				    options[o].name);
			ok = value && ok;
		}
	}
	return ok;
}

/* How full it is, or how far the scan is without which it cannot be mounted. */
static void list_space(const struct served_mount *m, unsigned i, FILE *out)
{
	char path[40];
	snprintf(path, sizeof(path), "mounts.%u.", i);
	served_space_list(m, path, out);
}

static void do_list(struct request *rq)
{
	struct registry *r = rq->registry;
	unsigned i = 0;
	record_u64(rq->out, getpid(), "pid");
	record_text(rq->out, r->file, "file");
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		record_text(rq->out, m->s.name, "mounts.%u.name", i);
		record_text(rq->out, m->s.mountpoint, "mounts.%u.mountpoint", i);
		record_text(rq->out, served_source(m), "mounts.%u.source", i);
		record_text(rq->out, m->fs ? m->fs->s.name : m->s.fs, "mounts.%u.fs", i);
		record_text(rq->out, state_of(m), "mounts.%u.state", i);
		if (!list_classes(m, i, rq->out))
			no_memory(rq);
		list_space(m, i, rq->out);
		if (m->session) {
			struct fs_source_look l;
			fs_mount_look_source(m->session, &l);
			list_stuck(rq->out, &l, "mounts", i);
		}
		i++;
	}
	list_endings(rq->out, r);
}

static void do_class_list(struct request *rq)
{
	unsigned i = 0;
	list_for_each (it, &rq->registry->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (!target_covers(&rq->target, m) || !m->s.n_classes)
			continue;
		record_text(rq->out, m->s.name, "mounts.%u.name", i);
		if (!list_classes(m, i++, rq->out))
			no_memory(rq);
	}
}

static void show_options(struct request *rq, const struct settings *s)
{
	for (unsigned i = 0; i < n_options; i++) {
		const struct option_def *o = &options[i];
		bool fuse = o->type == OPTION_FLAG || o->type == OPTION_VALUE;
		if (!option_is_in(o, rq->target.scope) || o->type == OPTION_NOISE ||
		    o->type == OPTION_LIST)
			continue;
		if (fuse && !words_find(&s->fuse, o->name))
			continue;
		AUTO_FREE char *value = option_text(o, s);
		if (!value)
			no_memory(rq);
		record_text(rq->out, value, "options.%s.value", o->name);
		record_bool(rq->out, !option_is_given(o, s), "options.%s.default", o->name);
		record_bool(rq->out, o->live, "options.%s.live", o->name);
	}
}

static void do_show(struct request *rq)
{
	const struct target *t = &rq->target;
	record_text(rq->out, scope_kind_name(t->scope), "scope");
	record_text(rq->out, target_name(t), "name");
	if (t->mount && !t->class) {
		record_text(rq->out, state_of(t->mount), "state");
		record_text(rq->out, served_source(t->mount), "source");
	}
	record_bool(rq->out, target_paused(t), "paused");
	if (t->mount && served_paused_by(t->mount))
		record_text(rq->out, served_paused_by(t->mount), "paused_by");
	if (!limits_records(t, "limits_met", rq->out))
		no_memory(rq);
	show_options(rq, target_settings(t));
}

static void do_stats(struct request *rq)
{
	if (!stats_records(rq->registry, &rq->target, rq->out))
		no_memory(rq);
}

/* --- changing ------------------------------------------------------------------------------- */

/* "global.iops=5" for a mount: names the command that does it. */
static int wrong_target(const struct request *rq, enum scope_kind scope, const char *name,
			const char *bare, const char *value)
{
	const struct served_mount *m = rq->target.mount;
	const char *fs = m && m->fs ? m->fs->s.name : m && m->s.fs ? m->s.fs : "NAME";
	return error_set(&rq->reply->err, "'%s': say 'ratefsctl set %s%s %s=%s'", name,
			 scope == SCOPE_FS ? "fs:" : "",
			 scope == SCOPE_GLOBAL ? "global"
			 : scope == SCOPE_FS   ? fs
					       : "NAME",
			 bare, value);
}

/* "iops=20,bps=10M": what follows the comma is an option, too. */
static bool joined_by_comma(const char *value)
{
	const char *comma = strchr(value, ',');
	AUTO_FREE char *next = comma ? strndup(comma + 1, strcspn(comma + 1, "=")) : NULL;
	return next && option_find(next);
}

static int set_option(struct settings *s, struct request *rq, const char *name, const char *value,
		      bool batch[OPTIONS_MAX])
{
	struct error *err = &rq->reply->err;
	const char *bare = name;
	enum scope_kind scope = option_scope_of(&bare);
	if (bare != name && scope != rq->target.scope)
		return wrong_target(rq, scope, name, bare, value);
	const struct option_def *o = option_find(bare);
	if (o && !o->live && option_is_in(o, rq->target.scope))
		return error_set(err,
				 "%s: cannot be changed while it is mounted; change the "
				 "configuration and mount it anew",
				 o->name);
	if (option_set(s, rq->target.scope, bare, value, batch, err) == 0)
		return 0;
	if (joined_by_comma(value))
		error_set(err, "'%s=%s': separate options with spaces, not ','", name, value);
	return -1;
}

static int set_words(struct settings *s, struct request *rq, bool batch[OPTIONS_MAX])
{
	struct error *err = &rq->reply->err;
	for (int i = 0; i < rq->n; i++) {
		char *eq = strchr(rq->word[i], '=');
		if (!eq)
			return error_set(err, "'%s': write KEY=VALUE", rq->word[i]);
		*eq = '\0';
		int rc = set_option(s, rq, rq->word[i], eq + 1, batch);
		*eq = '=';
		if (rc < 0)
			return -1;
	}
	return options_check(s, batch, err);
}

static void log_set(const struct target *t, const char *key, const char *value)
{
	if (t->scope == SCOPE_GLOBAL)
		log_info("global: set %s=%s", key, value);
	else
		log_info("%s '%s': set %s=%s", scope_kind_name(t->scope), target_name(t), key,
			 value);
}

/* Files that were opened while nothing limited reads and writes, and whose users do not feel that
 * something does now. */
static void report_bypassing(struct request *rq)
{
	unsigned i = 0;
	list_for_each (it, &rq->registry->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		struct fs_opener opener[BYPASSING_MAX];
		if (!target_covers(&rq->target, m) || !m->session ||
		    (gate_unlimited(m->gate, COST_READ) && gate_unlimited(m->gate, COST_WRITE) &&
		     !served_space_limited(m)))
			continue;
		struct fs_counts counts;
		fs_mount_look(m->session, &counts);
		unsigned n = fs_mount_bypassing(m->session, opener, BYPASSING_MAX);
		if (!n)
			continue;
		record_text(rq->out, m->s.name, "bypassing.%u.mount", i);
		record_u64(rq->out, counts.passthrough_handles, "bypassing.%u.handles", i);
		for (unsigned k = 0; k < n; k++) {
			record_u64(rq->out, opener[k].uid, "bypassing.%u.openers.%u.uid", i, k);
			record_u64(rq->out, opener[k].pid, "bypassing.%u.openers.%u.pid", i, k);
			record_u64(rq->out, opener[k].handles, "bypassing.%u.openers.%u.handles", i,
				   k);
		}
		i++;
	}
}

struct warnings {
	FILE *out;
	unsigned n;
};

static void add_warning(const char *line, void *ctx)
{
	struct warnings *w = ctx;
	record_text(w->out, line, "warnings.%u", w->n++);
	log_warning("%s", line);
}

/* Only for what this request touched: the rest was said before. */
static void report_advice(struct request *rq, const bool batch[OPTIONS_MAX])
{
	struct warnings w = {rq->out, 0};
	if (rq->target.scope == SCOPE_MOUNT &&
	    (batch[option_find("fair") - options] || batch[option_find("weight") - options]))
		advise(&rq->target.mount->s, add_warning, &w);
}

/* What was set, in its canonical form, and where it would be saved. */
static void report_set(struct request *rq)
{
	const struct settings *s = target_settings(&rq->target);
	record_text(rq->out, rq->registry->file, "file");
	if (rq->target.mount) /* or a class of it */
		record_text(rq->out, s->section ? s->section : s->name, "section");
	else
		record_text(rq->out, target_name(&rq->target), "section");
	record_text(rq->out, scope_kind_name(rq->target.scope), "scope");
	for (int i = 0; i < rq->n; i++) {
		const char *name = rq->word[i];
		*strchr(rq->word[i], '=') = '\0';
		option_scope_of(&name);
		const struct option_def *o = option_find(name);
		AUTO_FREE char *value = option_text(o, s);
		if (!value)
			refuse(rq, PROTO_FAILED, "was changed, but there is no memory to say so");
		record_text(rq->out, o->name, "set.%d.key", i);
		record_text(rq->out, value, "set.%d.value", i);
		log_set(&rq->target, o->name, value ? value : "");
	}
}

static void do_set(struct request *rq)
{
	bool batch[OPTIONS_MAX] = {0};
	struct settings s;
	if (!settings_copy(&s, target_settings(&rq->target))) {
		no_memory(rq);
		return;
	}
	if (set_words(&s, rq, batch) < 0) {
		fail(rq, PROTO_USAGE);
	} else if (target_apply(rq->registry, &rq->target, &s, &rq->reply->err) < 0) {
		fail(rq, PROTO_FAILED);
	} else {
		report_set(rq);
		report_bypassing(rq);
		report_advice(rq, batch);
	}
	settings_free(&s);
}

static void set_paused(struct request *rq, bool paused)
{
	int rc = target_pause(rq->registry, &rq->target, paused);
	if (rc == -EOPNOTSUPP)
		refuse(rq, PROTO_USAGE, "a class cannot be paused; pause its mount");
	else if (rc < 0)
		refuse(rq, PROTO_FAILED, strerror(-rc));
}

static void do_pause(struct request *rq)
{
	set_paused(rq, true);
	record_text(rq->out, scope_kind_name(rq->target.scope), "scope");
	record_text(rq->out, target_name(&rq->target), "name");
}

static void do_resume(struct request *rq)
{
	set_paused(rq, false);
}

/* --- classes -------------------------------------------------------------------------------- */

/* Fills in a class of `mount`, a copy of the target's settings, and makes it the target. */
static int add_class(struct request *rq, struct settings *mount)
{
	struct error *err = &rq->reply->err;
	const char *name = rq->word[0];
	bool batch[OPTIONS_MAX] = {0};
	if (strchr(name, '='))
		return error_set(err, "the name of the class is missing");
	if (settings_find_class(mount, name))
		return error_set(err, "there is a class '%s' already; see 'set %s/%s'", name,
				 mount->name, name);
	struct settings *class = settings_add_class(mount, name);
	if (!class)
		return error_set(err, "out of memory");
	rq->target.scope = SCOPE_CLASS;
	rq->n--;
	rq->word++;
	return set_words(class, rq, batch);
}

static void change_classes(struct request *rq, struct settings *mount)
{
	if (registry_set_mount(rq->target.mount, mount, &rq->reply->err) < 0)
		fail(rq, PROTO_USAGE);
	else
		report_bypassing(rq);
}

static void do_class_add(struct request *rq)
{
	struct settings mount;
	if (rq->target.scope != SCOPE_MOUNT) {
		refuse(rq, PROTO_USAGE, "classes belong to mounts");
	} else if (!settings_copy(&mount, &rq->target.mount->s)) {
		refuse(rq, PROTO_FAILED, "out of memory");
	} else {
		const char *name = rq->word[0];
		if (add_class(rq, &mount) < 0)
			fail(rq, PROTO_USAGE);
		else
			change_classes(rq, &mount);
		if (!rq->reply->code)
			log_info("mount '%s': class '%s' added", rq->target.mount->s.name, name);
		settings_free(&mount);
	}
}

static void do_class_remove(struct request *rq)
{
	struct settings mount;
	if (rq->target.scope != SCOPE_CLASS) {
		refuse(rq, PROTO_USAGE, "is not a class; say MOUNT/CLASS");
	} else if (!settings_copy(&mount, &rq->target.mount->s)) {
		refuse(rq, PROTO_FAILED, "out of memory");
	} else {
		AUTO_FREE char *name = strdup(rq->target.class->name);
		settings_remove_class(&mount, rq->target.class->name);
		change_classes(rq, &mount);
		if (!rq->reply->code && name)
			log_info("mount '%s': class '%s' removed", rq->target.mount->s.name, name);
		settings_free(&mount);
	}
}

static void do_reset_stats(struct request *rq)
{
	gate_stats_reset(rq->registry->gate);
}

static void do_rescan(struct request *rq)
{
	unsigned n = 0;
	list_for_each (it, &rq->registry->fs) {
		const struct served_fs *fs = list_entry(it, struct served_fs, link);
		bool covered = rq->target.mount ? fs == rq->target.mount->fs
						: !rq->target.fs || fs == rq->target.fs;
		n += covered && space_rescan(fs->space);
	}
	if (!n)
		refuse(rq, PROTO_FAILED,
		       "nothing is counted: it is not mounted, or has neither size nor inodes");
}

/* --- mounting ------------------------------------------------------------------------------- */

static void do_mount(struct request *rq)
{
	struct served_mount *m = rq->target.mount;
	if (rq->target.scope != SCOPE_MOUNT) {
		refuse(rq, PROTO_USAGE, "only mounts can be mounted");
		return;
	}
	m->asked = true;
	if (registry_mount(m, &rq->reply->err) < 0)
		fail(rq, PROTO_FAILED);
	else
		await_mount(rq->reply->await, m);
}

static void name_users(struct request *rq)
{
	size_t size;
	FILE *out = open_memstream(&rq->reply->in_use, &size);
	if (!out)
		return;
	in_use_words(rq->registry, out);
	fclose(out);
}

/* True: it may go. */
static bool look_at_users(struct request *rq, struct served_mount *m)
{
	enum use use = in_use(m);
	rq->reply->later = use == USE_UNKNOWN;
	if (use == USE_SOME) {
		AUTO_FREE char *text = in_use_text(m, false);
		error_set(&rq->reply->err, "is in use: %s; --force unmounts it all the same",
			  text ? text : "");
		fail(rq, PROTO_FAILED);
		name_users(rq);
	}
	return use == USE_NONE;
}

static void do_unmount(struct request *rq)
{
	struct served_mount *m = rq->target.class ? NULL : rq->target.mount;
	struct ending *dropped = rq->force || !m ? rq->target.dropped : NULL;
	if (!dropped && (!m || served_state(m) == SERVED_DOWN)) {
		refuse(rq, PROTO_FAILED, m ? "is not mounted" : "only mounts can be unmounted");
		return;
	}
	bool may_go = rq->force || !m || look_at_users(rq, m);
	if (!rq->reply->later)
		in_use_end(rq->registry);
	if (!may_go)
		return;
	if (m && m->mounting && !rq->force) {
		refuse(rq, PROTO_FAILED, "is still being mounted; --force gives that up");
		return;
	}
	if (m)
		registry_unmount(m, rq->force);
	if (m && m->ending)
		await_unmount(rq->reply->await, m->ending);
	if (dropped && rq->force)
		ending_abandon(dropped);
	if (dropped)
		await_unmount(rq->reply->await, dropped);
	if (!rq->registry->file && registry_up(rq->registry) == 0)
		rq->registry->finished = true; /* nothing could mount it again */
}

static void do_reload(struct request *rq)
{
	struct problems problems = {0};
	if (!rq->registry->file) {
		refuse(rq, PROTO_FAILED,
		       "this daemon has no configuration file: it was started for one mount");
		return;
	}
	enum reload_result res =
		reload(rq->registry, rq->force, &problems, rq->out, rq->reply->await);
	if (res == RELOAD_REFUSED) {
		rq->reply->long_text = problems_text(&problems);
		no_memory(rq); /* unless there is a text that says more */
		name_users(rq);
	}
	rq->reply->later = res == RELOAD_LATER;
	if (res != RELOAD_LATER)
		in_use_end(rq->registry);
	problems_free(&problems);
}

/* Where options of the target can be saved: not those of an fs that is in no file. */
static const char *file_of(const struct request *rq)
{
	return rq->target.fs && rq->target.fs->own ? "" : rq->registry->file;
}

static void do_find(struct request *rq)
{
	record_text(rq->out, file_of(rq), "file");
	record_text(rq->out, scope_kind_name(rq->target.scope), "scope");
	record_text(rq->out, target_name(&rq->target), "name");
}

/* --- dispatch ------------------------------------------------------------------------------- */

static void (*const run[COMMANDS])(struct request *rq) = {
	[COMMAND_LIST] = do_list,
	[COMMAND_SHOW] = do_show,
	[COMMAND_SET] = do_set,
	[COMMAND_STATS] = do_stats,
	[COMMAND_WATCH] = do_stats,
	[COMMAND_RELOAD] = do_reload,
	[COMMAND_MOUNT] = do_mount,
	[COMMAND_UNMOUNT] = do_unmount,
	[COMMAND_PAUSE] = do_pause,
	[COMMAND_RESUME] = do_resume,
	[COMMAND_RESET_STATS] = do_reset_stats,
	[COMMAND_RESCAN] = do_rescan,
	[COMMAND_CLASS_ADD] = do_class_add,
	[COMMAND_CLASS_REMOVE] = do_class_remove,
	[COMMAND_CLASS_LIST] = do_class_list,
	[COMMAND_FIND] = do_find,
};

void command_run(struct registry *r, int n, char **word, struct command_reply *reply)
{
	struct request rq = {.registry = r, .reply = reply, .out = reply->out};
	int id = command_find(word[0]);
	if (id < 0) {
		error_set(&reply->err, "unknown command '%s'", word[0]);
		fail(&rq, PROTO_USAGE);
		return;
	}
	if (strstr(commands[id].flags, "--force") && strcmp(word[n - 1], "--force") == 0) {
		rq.force = true;
		n--;
	}
	if (n - 1 < commands[id].min_args || n - 1 > commands[id].max_args) {
		error_set(&reply->err, "usage: %s %s", commands[id].name, commands[id].args);
		fail(&rq, PROTO_USAGE);
		return;
	}
	if (target_find(r, n > 1 ? word[1] : "global", &rq.target, &reply->err) < 0) {
		fail(&rq, PROTO_NO_TARGET);
		return;
	}
	if (rq.target.dropped && !rq.target.mount && id != COMMAND_UNMOUNT && id != COMMAND_FIND) {
		error_set(&reply->err, "%s: is no longer configured, and is being unmounted",
			  word[1]);
		fail(&rq, PROTO_FAILED);
		return;
	}
	rq.n = n > 2 ? n - 2 : 0;
	rq.word = word + 2;
	run[id](&rq);
	if (reply->code && n > 1 && error_is_set(&reply->err))
		error_prefix(&reply->err, "%s", word[1]);
}
