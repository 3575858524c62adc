/* SPDX-License-Identifier: MIT */
#include "daemon/serve_mount.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/classes.h"
#include "daemon/options.h"

/* --- settings for the layers below ---------------------------------------------------------- */

struct mount_policy policy_of(const struct settings *s)
{
	return (struct mount_policy){
		.nonblock_waits = s->nonblock == NONBLOCK_WAIT,
		.timeout_is_etimedout = s->on_timeout == ON_TIMEOUT_ETIMEDOUT,
		.interrupt = s->interrupt,
	};
}

bool gate_config_of(const struct settings *s, const struct weights *common,
		    struct gate_mount_config *out, struct weight_rule **rules)
{
	const struct weights *const weights[] = {&s->weights, common};
	unsigned n;
	if (!weight_rules_of(weights, ARRAY_SIZE(weights), rules, &n))
		return false;
	*out = (struct gate_mount_config){
		.limits = s->limits,
		.each = s->each,
		.fair = s->fair,
		.weight = s->mount_weight,
		.max_wait_ns = longest_wait_ns(s->max_wait_ns),
		.max_parked = s->max_parked,
		.max_parked_bytes = s->max_parked_bytes,
		.max_keys = s->max_keys,
		.full_rejects = s->on_full == ON_FULL_REJECT,
		.dry_run = s->dry_run,
		.device = s->device,
		.weights = *rules,
		.n_weights = n,
	};
	out->each.window_ns = s->limits.window_ns;
	return true;
}

/* --- FUSE options --------------------------------------------------------------------------- */

/* Like a bind mount, a mount made by root honours set-user-ID bits and devices if the source does;
 * FUSE's own default is neither. */
static bool inherit_flags(struct words *w, const char *source)
{
	struct statvfs st;
	if (statvfs(source, &st) < 0)
		return true;
	bool ok = true;
	if (!words_find(w, "suid") && !words_find(w, "nosuid"))
		ok = words_put(w, st.f_flag & ST_NOSUID ? "nosuid" : "suid", NULL);
	if (!words_find(w, "dev") && !words_find(w, "nodev"))
		ok = words_put(w, st.f_flag & ST_NODEV ? "nodev" : "dev", NULL) && ok;
	if (!words_find(w, "exec") && st.f_flag & ST_NOEXEC)
		ok = words_put(w, "noexec", NULL) && ok;
	return ok;
}

static bool add_defaults(struct words *w, const struct settings *s, const char *source)
{
	AUTO_FREE char *fsname = NULL;
	bool ok = true, asked = option_is_given(option_find("allow_other"), s);
	if (geteuid() == 0 && !asked && !words_find(w, "allow_root"))
		ok = words_put(w, "allow_other", NULL);
	if (words_find(w, "allow_other") || words_find(w, "allow_root"))
		ok = words_put(w, "default_permissions", NULL) && ok;
	if (!words_find(w, "subtype"))
		ok = words_put(w, "subtype=ratefs", NULL) && ok;
	if (!words_find(w, "fsname"))
		ok = asprintf(&fsname, "fsname=%s", source) >= 0 && words_put(w, fsname, NULL) &&
		     ok;
	if (geteuid() == 0)
		ok = inherit_flags(w, source) && ok;
	return ok;
}

/* Commas inside a value are escaped as libfuse expects. */
static char *joined(const struct words *w)
{
	AUTO_FREE char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	for (unsigned i = 0; i < w->n; i++) {
		if (i)
			fputc(',', out);
		for (const char *p = w->word[i]; *p; p++) {
			if (*p == ',' || *p == '\\')
				fputc('\\', out);
			fputc(*p, out);
		}
	}
	return fclose(out) == 0 ? take_ptr(&text) : NULL;
}

char *fuse_options_of(const struct settings *s, const char *source, struct error *err)
{
	struct settings copy;
	if (!settings_copy(&copy, s)) {
		error_set(err, "out of memory");
		return NULL;
	}
	words_remove(&copy.fuse, "auto_unmount"); /* done by daemon/auto_unmount.c */
	words_remove(&copy.fuse, "strictatime");  /* applies to the source: see mount_config_of */
	char *text = add_defaults(&copy.fuse, s, source) ? joined(&copy.fuse) : NULL;
	settings_free(&copy);
	if (!text)
		error_set(err, "out of memory");
	return text;
}

/* --- scopes --------------------------------------------------------------------------------- */

/* The scope of the [fs:NAME] section, or one of the mount's own. */
static struct served_fs *fs_for_mount(struct served_mount *m)
{
	struct served_fs *fs = m->s.fs ? registry_find_fs(m->registry, m->s.fs)
				       : registry_find_own_fs(m->registry, m->s.name, true);
	if (fs)
		return fs;
	struct settings s;
	settings_init(&s);
	s.name = m->s.name;
	s.source = m->s.source;
	return registry_add_fs(m->registry, &s, true);
}

struct mount_config mount_config_of(const struct settings *s, const char *source,
				    const char *fuse_options)
{
	const struct words *w = &s->fuse;
	return (struct mount_config){
		.fs =
			{
				.source = source,
				.nofollow = s->source_nofollow,
				.cache = s->cache,
				.attr_timeout_s =
					s->attr_timeout_ns < 0 ? -1 : s->attr_timeout_ns / 1e9,
				.entry_timeout_s =
					s->entry_timeout_ns < 0 ? -1 : s->entry_timeout_ns / 1e9,
				.owner_only = words_find(w, "allow_root"),
				.no_atime = words_find(w, "noatime") || words_find(w, "ro"),
				.strict_atime = words_find(w, "strictatime"),
				.own_namespace = s->own_namespace,
				.no_dir_atime = words_find(w, "nodiratime"),
			},
		.mountpoint = s->mountpoint,
		.fuse_options = fuse_options,
		.transport = (enum mount_transport)s->transport,
		.policy = policy_of(s),
	};
}

int scope_make(struct served_mount *m, struct error *err)
{
	struct gate_mount_config cfg;
	struct weight_rule *rules;
	m->fs = fs_for_mount(m);
	if (!m->fs || !gate_config_of(&m->s, &m->registry->weights, &cfg, &rules)) {
		m->fs = NULL;
		return error_set(err, "out of memory");
	}
	m->gate_mount = gate_mount_new(m->fs->gate, m->s.name, &cfg);
	free(rules);
	if (!m->gate_mount) {
		m->fs = NULL;
		return error_set(err, "out of memory");
	}
	m->fs->mounts++;
	if (classes_apply(m->gate_mount, &m->s, &m->registry->weights) == 0)
		return 0;
	scope_drop(m->registry, m->gate_mount, m->fs);
	m->gate_mount = NULL;
	m->fs = NULL;
	return error_set(err, "out of memory");
}

void scope_drop(struct registry *r, struct gate_mount *gate, struct served_fs *fs)
{
	gate_mount_free(gate);
	if (--fs->mounts == 0 && fs->dropped)
		registry_forget_fs(fs);
}

/* --- the log -------------------------------------------------------------------------------- */

static void list_limits(const char *scope, const struct settings *s, enum scope_kind which,
			FILE *out)
{
	for (unsigned i = 0; i < n_options; i++) {
		const struct option_def *o = &options[i];
		if (!option_is_in(o, which) || o->type >= OPTION_TEXT || !option_is_given(o, s))
			continue;
		fprintf(out, " %s%s=", scope, o->name);
		option_print(o, s, out);
	}
}

void serve_mount_announce(const struct served_mount *m)
{
	AUTO_FREE char *text = NULL;
	size_t size;
	if (!log_enabled(LOG_LEVEL_INFO))
		return;
	const char *why_not = "";
	bool uring = m->session && !strcmp(fs_mount_transport(m->session, &why_not), "uring");
	/* If transport=uring asked for it, the log has the reason already. */
	bool explain = *why_not && m->s.transport == TRANSPORT_AUTO;
	log_info("serving %s at %s%s%s", served_source(m), m->s.mountpoint,
		 uring	   ? ", requests by io_uring"
		 : explain ? ", requests by /dev/fuse; no io_uring: "
			   : "",
		 explain ? why_not : "");
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return;
	/* SCOPE_FS: of the global options only the limits, not the control socket */
	list_limits("global.", &m->registry->global, SCOPE_FS, out);
	list_limits("fs.", &m->fs->s, SCOPE_FS, out);
	if (m->s.profile)
		fprintf(out, " profile=%s", m->s.profile);
	list_limits("", &m->s, SCOPE_MOUNT, out);
	if (m->s.weights.n) {
		fputs(" weight=", out);
		option_print(option_find("weight"), &m->s, out);
	}
	if (fclose(out) == 0 && size)
		log_info("limits of %s:%s", m->s.name, text);
	if (device_config_models(&m->s.device))
		log_info("%s models a device: reads and writes %s", m->s.name,
			 m->s.cache == CACHE_PAGE
				 ? "use the page cache, so that only cache misses take device time"
				 : "bypass the page cache; cache=page keeps them in it");
}
