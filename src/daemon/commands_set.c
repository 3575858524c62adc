/* SPDX-License-Identifier: MIT */
/* Commands that change limits, options and classes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/advice.h"
#include "daemon/commands_internal.h"
#include "daemon/limits_out.h"
#include "daemon/options.h"
#include "fs/mount.h"
#include "sched/gate.h"

#define BYPASSING_MAX 20 /* at most this many openers are named */

/* --- values --------------------------------------------------------------------------------- */

/* For "global.iops=5" with a mount as target: the error names the command that works. */
static int wrong_scope(struct request *rq, enum scope_kind scope, const char *name,
		       const char *bare, const char *value)
{
	const struct served_mount *m = rq->target.mount;
	const char *fs = m && m->fs ? m->fs->s.name : m && m->s.fs ? m->s.fs : "NAME";
	return command_fail(rq->reply, PROTO_WRONG_TARGET,
			    "'%s': belongs to another scope; use 'ratefsctl set %s%s %s=%s'", name,
			    scope == SCOPE_FS ? "fs:" : "",
			    scope == SCOPE_GLOBAL ? "global"
			    : scope == SCOPE_FS	  ? fs
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
	const char *bare = name;
	enum scope_kind scope = option_scope_of(&bare);
	if (bare != name && scope != rq->target.scope)
		return wrong_scope(rq, scope, name, bare, value);
	const struct option_def *o = option_find(bare);
	if (o && !o->live && option_is_in(o, rq->target.scope)) {
		snprintf(rq->reply->remedy, sizeof(rq->reply->remedy), "%s",
			 rq->target.scope == SCOPE_CLASS
				 ? "change the configuration file and reload"
				 : "change the configuration and mount it anew");
		return command_fail(rq->reply, PROTO_NOT_LIVE,
				    "%s: cannot be changed while it is mounted", o->name);
	}
	if (option_set(s, rq->target.scope, bare, value, batch, &rq->reply->err) == 0)
		return 0;
	rq->reply->code = o ? PROTO_BAD_VALUE : PROTO_UNKNOWN_OPTION;
	if (joined_by_comma(value))
		command_fail(rq->reply, PROTO_BAD_VALUE,
			     "'%s=%s': not one option; separate options with spaces", name, value);
	return -1;
}

#define VALUE_MAX 32

/* A JSON value as the option parser reads it: booleans become yes and no; 1e6 and 100.0, as some languages write them,
 * become whole numbers. */
static const char *value_text(const json_t *value, char buf[VALUE_MAX])
{
	if (json_is_integer(value))
		snprintf(buf, VALUE_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		snprintf(buf, VALUE_MAX, "%.15g", json_real_value(value));
	else if (json_is_boolean(value))
		snprintf(buf, VALUE_MAX, "%s", json_is_true(value) ? "yes" : "no");
	else
		return json_string_value(value);
	return buf;
}

static int set_values(struct settings *s, struct request *rq, bool batch[OPTIONS_MAX])
{
	const char *name;
	json_t *value;
	json_object_foreach ((json_t *)rq->values, name, value) {
		char buf[VALUE_MAX];
		const char *text = value_text(value, buf);
		if (!text)
			return command_fail(rq->reply, PROTO_BAD_ARGUMENT,
					    "%.80s: is neither a string nor a number nor a boolean",
					    name);
		if (set_option(s, rq, name, text, batch) < 0)
			return -1;
	}
	if (options_check(s, batch, &rq->reply->err) == 0)
		return 0;
	rq->reply->code = PROTO_BAD_VALUE;
	return -1;
}

/* --- set ------------------------------------------------------------------------------------ */

static void log_set(const struct target *t, const char *key, const char *value)
{
	if (t->scope == SCOPE_GLOBAL)
		log_info("global: set %s=%s", key, value);
	else
		log_info("%s '%s': set %s=%s", scope_kind_name(t->scope), target_name(t), key,
			 value);
	registry_tell(t->registry, "limit_changed", scope_kind_name(t->scope), target_name(t), key,
		      value);
}

/* Lists files that were opened while nothing limited reads and writes: the kernel passes their data
 * through, so the new limits do not apply to them until they are opened again. */
static void put_bypassing(struct json_out list, const struct served_mount *m)
{
	struct fs_opener opener[BYPASSING_MAX];
	struct fs_counts counts;
	fs_mount_look(m->session, &counts);
	unsigned n = fs_mount_bypassing(m->session, opener, BYPASSING_MAX);
	if (!n)
		return;
	struct json_out one = put_object(list, NULL);
	put_text(one, "mount", m->s.name);
	put_u64(one, "handles", counts.passthrough_handles);
	struct json_out openers = put_array(one, "openers");
	for (unsigned k = 0; k < n; k++) {
		struct json_out who = put_object(openers, NULL);
		put_u64(who, "uid", opener[k].uid);
		put_u64(who, "pid", opener[k].pid);
		put_u64(who, "handles", opener[k].handles);
	}
}

static void report_bypassing(struct request *rq)
{
	struct json_out list = put_array(rq->out, "bypassing");
	list_for_each (it, &rq->registry->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		if (target_covers(&rq->target, m) && m->session && limits_data(m))
			put_bypassing(list, m);
	}
}

static void add_warning(const char *line, void *ctx)
{
	const struct json_out *warnings = ctx;
	put_text(*warnings, NULL, line);
	log_warning("%s", line);
}

/* Warns only about options that this request set; older ones were warned about before. */
static void report_advice(struct request *rq, const bool batch[OPTIONS_MAX])
{
	struct json_out warnings = put_array(rq->out, "warnings");
	bool touched = batch[option_find("fair") - options] ||
		       batch[option_find("match") - options] ||
		       batch[option_find("weight") - options];
	for (unsigned i = 0; i < n_options; i++)
		touched |= batch[i] && strncmp(options[i].name, "each.", strlen("each.")) == 0;
	if (touched && rq->target.scope == SCOPE_MOUNT)
		advise(&rq->target.mount->s, add_warning, &warnings);
	else if (touched && rq->target.scope == SCOPE_CLASS)
		advise_class(&rq->target.mount->s, rq->target.class, add_warning, &warnings);
}

/* Puts the new values in canonical form, and where they would be saved.  A new class gets mounts=,
 * so that it is saved for this mount only. */
static void report_set(struct request *rq)
{
	const struct settings *s = target_settings(&rq->target);
	struct json_out values = put_object(rq->out, "values");
	const char *name;
	json_t *ignored;
	if (rq->class && rq->target.mount->s.section) /* it may be saved */
		put_text(values, "mounts", rq->target.mount->s.name);
	put_text(rq->out, "file", rq->registry->file);
	if (rq->target.mount) /* or a class of it */
		put_text(rq->out, "section", s->section ? s->section : s->name);
	else
		put_text(rq->out, "section", target_name(&rq->target));
	put_text(rq->out, "scope", scope_kind_name(rq->target.scope));
	json_object_foreach ((json_t *)rq->values, name, ignored) {
		option_scope_of(&name);
		const struct option_def *o = option_find(name);
		AUTO_FREE char *value = option_text(o, s);
		if (!value)
			command_fail(rq->reply, PROTO_NO_MEMORY,
				     "was changed, but there is no memory to say so");
		put_text(values, o->name, value);
		if (!rq->class)
			log_set(&rq->target, o->name, value ? value : "");
	}
}

static void no_memory(struct request *rq)
{
	command_fail(rq->reply, PROTO_NO_MEMORY, "out of memory");
}

void do_set(struct request *rq)
{
	bool batch[OPTIONS_MAX] = {0};
	struct settings s;
	if (!json_object_size(rq->values)) {
		command_fail(rq->reply, PROTO_BAD_ARGUMENT, "\"values\" is empty");
		return;
	}
	if (!settings_copy(&s, target_settings(&rq->target))) {
		no_memory(rq);
		return;
	}
	if (set_values(&s, rq, batch) < 0) {
		/* set_values has filled the reply */
	} else if (target_apply(rq->registry, &rq->target, &s, &rq->reply->err) < 0) {
		rq->reply->code = PROTO_FAILED;
	} else {
		report_set(rq);
		report_bypassing(rq);
		report_advice(rq, batch);
	}
	settings_free(&s);
}

/* --- pause and statistics ------------------------------------------------------------------- */

static void set_paused(struct request *rq, bool paused)
{
	int rc = target_pause(rq->registry, &rq->target, paused);
	if (rc == -EOPNOTSUPP) {
		snprintf(rq->reply->remedy, sizeof(rq->reply->remedy), "pause a mount");
		command_fail(rq->reply, PROTO_WRONG_TARGET, "a %s cannot be paused",
			     scope_kind_name(rq->target.scope));
	} else if (rc == -ENOTCONN) {
		command_fail(rq->reply, PROTO_WRONG_STATE, "%s is not mounted",
			     rq->target.mount->s.name);
	} else if (rc < 0) {
		command_fail(rq->reply, PROTO_FAILED, "%s", strerror(-rc));
	} else {
		registry_tell(rq->registry, paused ? "paused" : "resumed",
			      scope_kind_name(rq->target.scope), target_name(&rq->target), NULL,
			      NULL);
	}
	put_text(rq->out, "scope", scope_kind_name(rq->target.scope));
	put_text(rq->out, "name", target_name(&rq->target));
}

void do_pause(struct request *rq)
{
	set_paused(rq, true);
}

void do_resume(struct request *rq)
{
	set_paused(rq, false);
}

void do_rescan(struct request *rq)
{
	unsigned n = 0;
	list_for_each (it, &rq->registry->fs) {
		const struct served_fs *fs = list_entry(it, struct served_fs, link);
		bool covered = rq->target.mount ? fs == rq->target.mount->fs
						: !rq->target.fs || fs == rq->target.fs;
		n += covered && space_rescan(fs->space);
	}
	if (!n)
		command_fail(
			rq->reply, PROTO_WRONG_STATE,
			"nothing is counted: it is not mounted, or has neither size nor inodes");
}

void do_reset_stats(struct request *rq)
{
	gate_stats_reset(rq->registry->gate);
}

/* --- classes -------------------------------------------------------------------------------- */

/* Fills in a class of `mount`, a copy of the target's settings, and makes it the target. */
static int add_class(struct request *rq, struct settings *mount, bool batch[OPTIONS_MAX])
{
	if (settings_find_class(mount, rq->class)) {
		snprintf(rq->reply->remedy, sizeof(rq->reply->remedy), "see 'set %.80s/%.80s'",
			 mount->name, rq->class);
		return command_fail(rq->reply, PROTO_EXISTS, "there is a class '%s' already",
				    rq->class);
	}
	struct settings *class = settings_add_class(mount, rq->class);
	if (!class)
		return command_fail(rq->reply, PROTO_NO_MEMORY, "out of memory");
	rq->target.scope = SCOPE_CLASS;
	if (set_values(class, rq, batch) < 0)
		return -1;
	if (!batch[option_find("match") - options])
		return command_fail(rq->reply, PROTO_BAD_VALUE,
				    "match: is missing; write match=none for a class that only "
				    "contains others");
	struct settings *before = rq->before ? settings_find_class(mount, rq->before) : NULL;
	if (rq->before && !before)
		return command_fail(rq->reply, PROTO_NO_TARGET, "before: there is no class '%s'",
				    rq->before);
	if (before)
		settings_move_class(class, before);
	return 0;
}

static void change_classes(struct request *rq, struct settings *mount)
{
	if (target_set_mount(rq->target.mount, mount, &rq->reply->err) < 0)
		rq->reply->code = PROTO_BAD_VALUE;
	else
		report_bypassing(rq);
}

static void tell_class(const struct served_mount *m, const char *class, bool added)
{
	log_info("mount '%s': class '%s' %s", m->s.name, class, added ? "added" : "removed");
	registry_tell(m->registry, added ? "class_added" : "class_removed", "mount", m->s.name,
		      "class", class);
}

void do_class_add(struct request *rq)
{
	bool batch[OPTIONS_MAX] = {0};
	struct settings mount;
	if (rq->target.scope != SCOPE_MOUNT) {
		command_fail(rq->reply, PROTO_WRONG_TARGET, "classes belong to mounts");
	} else if (!settings_copy(&mount, &rq->target.mount->s)) {
		no_memory(rq);
	} else {
		if (add_class(rq, &mount, batch) == 0)
			change_classes(rq, &mount);
		if (!rq->reply->code) {
			tell_class(rq->target.mount, rq->class, true);
			rq->target.class = settings_find_class(&rq->target.mount->s, rq->class);
			report_set(rq);
			report_advice(rq, batch);
		}
		settings_free(&mount);
	}
}

/* False: the class contains another, so it cannot be removed. */
static bool is_removable(struct request *rq)
{
	const struct settings *mount = &rq->target.mount->s;
	for (unsigned i = 0; i < mount->n_classes; i++) {
		const struct settings *s = &mount->class[i];
		if (!s->parent || strcmp(s->parent, rq->target.class->name) != 0)
			continue;
		snprintf(rq->reply->remedy, sizeof(rq->reply->remedy),
			 "remove that first, or give it another parent");
		command_fail(rq->reply, PROTO_BAD_VALUE, "contains the class '%s'", s->name);
		return false;
	}
	return true;
}

void do_class_remove(struct request *rq)
{
	struct settings mount;
	if (rq->target.scope != SCOPE_CLASS) {
		snprintf(rq->reply->remedy, sizeof(rq->reply->remedy), "write MOUNT/CLASS");
		command_fail(rq->reply, PROTO_WRONG_TARGET, "is not a class");
	} else if (!is_removable(rq)) {
		return;
	} else if (!settings_copy(&mount, &rq->target.mount->s)) {
		no_memory(rq);
	} else {
		AUTO_FREE char *name = strdup(rq->target.class->name);
		settings_remove_class(&mount, rq->target.class->name);
		change_classes(rq, &mount);
		if (!rq->reply->code && name)
			tell_class(rq->target.mount, name, false);
		settings_free(&mount);
	}
}
