/* SPDX-License-Identifier: MIT */
#include "daemon/commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/command_table.h"
#include "daemon/options.h"
#include "daemon/problems.h"
#include "daemon/proto.h"
#include "daemon/registry.h"
#include "daemon/reload.h"
#include "daemon/stats_out.h"
#include "daemon/target.h"
#include "fs/mount.h"
#include "sched/gate.h"

struct request {
	struct registry *registry;
	struct target target; /* of commands that have one */
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
	return !m->session ? "unmounted" : m->paused ? "paused" : "mounted";
}

static void list_limits(FILE *out, const struct settings *s, const char *path, unsigned index)
{
	unsigned n = 0;
	for (unsigned i = 0; i < n_options; i++) {
		const struct option_def *o = &options[i];
		AUTO_FREE char *value = NULL;
		if (o->type != OPTION_RATE || !s->limits.limit[o->kind].enabled)
			continue;
		value = option_text(o, s);
		record_text(out, o->name, "%s.%u.limits.%u.name", path, index, n);
		record_text(out, value, "%s.%u.limits.%u.rate", path, index, n++);
	}
}

static void do_list(struct request *rq)
{
	struct registry *r = rq->registry;
	unsigned i = 0;
	record_u64(rq->out, getpid(), "pid");
	record_text(rq->out, r->file, "file");
	list_for_each (it, &r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		record_text(rq->out, m->s.name, "mounts.%u.name", i);
		record_text(rq->out, m->s.mountpoint, "mounts.%u.mountpoint", i);
		record_text(rq->out, served_source(m), "mounts.%u.source", i);
		record_text(rq->out, m->fs ? m->fs->s.name : m->s.fs, "mounts.%u.fs", i);
		record_text(rq->out, state_of(m), "mounts.%u.state", i);
		list_limits(rq->out, &m->s, "mounts", i++);
	}
}

static void show_options(struct request *rq, const struct settings *s)
{
	for (unsigned i = 0; i < n_options; i++) {
		const struct option_def *o = &options[i];
		bool fuse = o->type == OPTION_FLAG || o->type == OPTION_VALUE;
		if (!(o->scopes & rq->target.scope) || o->type == OPTION_NOISE ||
		    o->type == OPTION_LIST)
			continue;
		if (fuse && !words_find(&s->fuse, o->name))
			continue;
		AUTO_FREE char *value = option_text(o, s);
		record_text(rq->out, value, "options.%s.value", o->name);
		record_bool(rq->out, !option_is_given(o, s), "options.%s.default", o->name);
		record_bool(rq->out, o->live, "options.%s.live", o->name);
	}
}

static void do_show(struct request *rq)
{
	const struct target *t = &rq->target;
	record_text(rq->out, option_scope_name(t->scope), "scope");
	record_text(rq->out, target_name(t), "name");
	if (t->mount) {
		record_text(rq->out, state_of(t->mount), "state");
		record_text(rq->out, served_source(t->mount), "source");
	}
	record_bool(rq->out, target_paused(t), "paused");
	show_options(rq, target_settings(t));
}

static void do_stats(struct request *rq)
{
	stats_records(rq->registry, &rq->target, rq->out);
}

/* --- changing ------------------------------------------------------------------------------- */

static int set_words(struct settings *s, struct request *rq)
{
	bool batch[OPTIONS_MAX] = {0};
	struct error *err = &rq->reply->err;
	for (int i = 0; i < rq->n; i++) {
		char *eq = strchr(rq->word[i], '=');
		if (!eq)
			return error_set(err, "'%s': write KEY=VALUE", rq->word[i]);
		*eq = '\0';
		const struct option_def *o = option_find(rq->word[i]);
		int rc = option_set(s, rq->target.scope, rq->word[i], eq + 1, batch, err);
		*eq = '=';
		if (rc < 0)
			return -1;
		if (!o->live)
			return error_set(err,
					 "%s: cannot be changed while it is mounted; change the "
					 "configuration and mount it anew",
					 o->name);
	}
	return 0;
}

/* What was set, in its canonical form, and where it would be saved. */
static void report_set(struct request *rq)
{
	const struct settings *s = target_settings(&rq->target);
	record_text(rq->out, rq->registry->file, "file");
	if (rq->target.mount)
		record_text(rq->out, s->section ? s->section : s->name, "section");
	else
		record_text(rq->out, target_name(&rq->target), "section");
	record_text(rq->out, option_scope_name(rq->target.scope), "scope");
	for (int i = 0; i < rq->n; i++) {
		*strchr(rq->word[i], '=') = '\0';
		const struct option_def *o = option_find(rq->word[i]);
		AUTO_FREE char *value = option_text(o, s);
		record_text(rq->out, o->name, "set.%d.key", i);
		record_text(rq->out, value, "set.%d.value", i);
	}
}

static void do_set(struct request *rq)
{
	struct settings s;
	if (!settings_copy(&s, target_settings(&rq->target))) {
		refuse(rq, PROTO_FAILED, "out of memory");
		return;
	}
	if (set_words(&s, rq) < 0)
		fail(rq, PROTO_USAGE);
	else if (target_apply(rq->registry, &rq->target, &s, &rq->reply->err) < 0)
		fail(rq, PROTO_FAILED);
	else
		report_set(rq);
	settings_free(&s);
}

static void set_paused(struct request *rq, bool paused)
{
	int rc = target_pause(rq->registry, &rq->target, paused);
	if (rc < 0)
		refuse(rq, PROTO_FAILED, strerror(-rc));
}

static void do_pause(struct request *rq)
{
	set_paused(rq, true);
}

static void do_resume(struct request *rq)
{
	set_paused(rq, false);
}

static void do_reset_stats(struct request *rq)
{
	gate_stats_reset(rq->registry->gate);
}

/* --- mounting ------------------------------------------------------------------------------- */

static void do_mount(struct request *rq)
{
	if (!rq->target.mount)
		refuse(rq, PROTO_USAGE, "only mounts can be mounted");
	else if (registry_mount(rq->target.mount, &rq->reply->err) < 0)
		fail(rq, PROTO_FAILED);
}

static void do_unmount(struct request *rq)
{
	struct served_mount *m = rq->target.mount;
	struct fs_counts counts;
	if (!m || !m->session) {
		refuse(rq, PROTO_FAILED, m ? "is not mounted" : "only mounts can be unmounted");
		return;
	}
	fs_mount_look(m->session, &counts);
	if (counts.handles && (rq->n == 0 || strcmp(rq->word[0], "--force") != 0)) {
		error_set(&rq->reply->err,
			  "is in use: %" PRIu64 " open files; close them, or say --force",
			  counts.handles);
		fail(rq, PROTO_FAILED);
		return;
	}
	registry_unmount(m);
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
	if (reload(rq->registry, &problems, rq->out) < 0) {
		rq->reply->long_text = problems_text(&problems);
		fail(rq, PROTO_FAILED);
	}
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
	record_text(rq->out, option_scope_name(rq->target.scope), "scope");
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
	if (n - 1 < commands[id].min_args || n - 1 > commands[id].max_args) {
		error_set(&reply->err, "usage: %s %s", commands[id].name, commands[id].args);
		fail(&rq, PROTO_USAGE);
		return;
	}
	if (target_find(r, n > 1 ? word[1] : "global", &rq.target, &reply->err) < 0) {
		fail(&rq, PROTO_NO_TARGET);
		return;
	}
	rq.n = n > 2 ? n - 2 : 0;
	rq.word = word + 2;
	run[id](&rq);
	if (reply->code && n > 1 && error_is_set(&reply->err))
		error_prefix(&reply->err, "%s", word[1]);
}
