/* SPDX-License-Identifier: MIT */
#include "daemon/serve_mount.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/options.h"
#include "daemon/path.h"

/* --- settings to the layers below ----------------------------------------------------------- */

struct mount_policy policy_of(const struct settings *s)
{
	return (struct mount_policy){
		.nonblock_waits = s->nonblock,
		.timeout_is_etimedout = s->on_timeout,
		.interrupt = s->interrupt,
		.fair = s->fair,
	};
}

/* Where the kernel has a time limit for FUSE requests (0: none), a request that waits for longer
 * costs the whole connection: waits end before. */
static uint64_t max_wait_ns(const struct settings *s)
{
	static const char *const limits[] = {"/proc/sys/fs/fuse/max_request_timeout",
					     "/proc/sys/fs/fuse/default_request_timeout"};
	uint64_t longest_ns = s->max_wait_ns ? s->max_wait_ns : NEVER;
	for (unsigned i = 0; i < ARRAY_SIZE(limits); i++) {
		AUTO_FILE f = fopen(limits[i], "re");
		unsigned seconds;
		if (f && fscanf(f, "%u", &seconds) == 1 && seconds)
			longest_ns = min_u64(longest_ns, seconds * NSEC_PER_SEC * 3 / 4);
	}
	return longest_ns == NEVER ? 0 : longest_ns;
}

/* Adds what is not there yet, the last one first: of several rules for one key the last counts. */
static void add_rules(struct weight_rule *rules, unsigned *n, const struct weights *w)
{
	for (unsigned i = w->n; i-- > 0;) {
		const struct fair_key *key = &w->rule[i].key;
		unsigned k = 0;
		while (k < *n && (rules[k].key.kind != key->kind || rules[k].key.id != key->id))
			k++;
		if (k == *n)
			rules[(*n)++] = w->rule[i];
	}
}

bool gate_config_of(const struct settings *s, const struct weights *common,
		    struct gate_mount_config *out, struct weight_rule **rules)
{
	unsigned n = 0;
	*rules = calloc(s->weights.n + common->n + 1, sizeof(**rules));
	if (!*rules)
		return false;
	add_rules(*rules, &n, &s->weights); /* the mount's own come before those of [weights] */
	add_rules(*rules, &n, common);
	*out = (struct gate_mount_config){
		.limits = s->limits,
		.weight = s->mount_weight,
		.max_wait_ns = max_wait_ns(s),
		.max_parked = s->max_parked,
		.max_parked_bytes = s->max_parked_bytes,
		.max_keys = s->max_keys,
		.full_rejects = s->on_full,
		.dry_run = s->dry_run,
		.weights = *rules,
		.n_weights = n,
	};
	return true;
}

/* --- FUSE options --------------------------------------------------------------------------- */

/* Like a bind mount, a mirror that root makes honours set-user-ID bits and devices exactly where
 * its source does; FUSE's own default would be neither. */
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

/* Commas inside a value are escaped as libfuse wants them. */
static char *joined(const struct words *w)
{
	char *text = NULL;
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
	return fclose(out) == 0 ? text : NULL;
}

char *fuse_options_of(const struct settings *s, const char *source, bool *multi_user,
		      struct error *err)
{
	struct settings copy;
	if (words_find(&s->fuse, "allow_other") && words_find(&s->fuse, "allow_root")) {
		error_set(err, "allow_other and allow_root exclude each other");
		return NULL;
	}
	if (!settings_copy(&copy, s)) {
		error_set(err, "out of memory");
		return NULL;
	}
	char *text = add_defaults(&copy.fuse, s, source) ? joined(&copy.fuse) : NULL;
	*multi_user = geteuid() == 0 && words_find(&copy.fuse, "allow_other");
	settings_free(&copy);
	if (!text)
		error_set(err, "out of memory");
	return text;
}

/* --- up and down ---------------------------------------------------------------------------- */

/* The [fs:NAME], or a scope of the mount's own. */
static struct served_fs *fs_of(struct served_mount *m)
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

static int make_session(struct served_mount *m, struct error *err)
{
	bool multi_user;
	AUTO_FREE char *fuse = fuse_options_of(&m->s, served_source(m), &multi_user, err);
	if (!fuse)
		return -1;
	const struct words *w = &m->s.fuse;
	struct mount_config cfg = {
		.fs =
			{
				.source = served_source(m),
				.cache = m->s.cache,
				.attr_timeout_s =
					m->s.attr_timeout_ns < 0 ? -1 : m->s.attr_timeout_ns / 1e9,
				.entry_timeout_s = m->s.entry_timeout_ns < 0
							   ? -1
							   : m->s.entry_timeout_ns / 1e9,
				.multi_user = multi_user,
				.owner_only = words_find(w, "allow_root"),
				.no_atime = words_find(w, "noatime") || words_find(w, "ro"),
				.no_dir_atime = words_find(w, "nodiratime"),
				.debug = m->registry->debug,
				.gate = m->gate,
			},
		.mountpoint = m->s.mountpoint,
		.fuse_options = fuse,
		.debug = m->registry->debug,
		.policy = policy_of(&m->s),
	};
	m->session = fs_mount_new(&cfg, m->registry->gate, m->gate, err);
	if (!m->session)
		return -1;
	if (fs_mount_mount(m->session, err) == 0)
		return 0;
	fs_mount_free(m->session);
	m->session = NULL;
	return -1;
}

static int make_scope(struct served_mount *m, struct error *err)
{
	struct gate_mount_config cfg;
	struct weight_rule *rules;
	m->fs = fs_of(m);
	if (!m->fs || !gate_config_of(&m->s, &m->registry->weights, &cfg, &rules))
		return error_set(err, "out of memory");
	m->gate = gate_mount_new(m->fs->gate, m->s.name, &cfg);
	free(rules);
	if (!m->gate)
		return error_set(err, "out of memory");
	m->fs->mounts++;
	return 0;
}

static void drop_scope(struct served_mount *m)
{
	if (m->gate) {
		gate_mount_free(m->gate);
		m->fs->mounts--;
	}
	m->gate = NULL;
	m->fs = NULL;
}

/* A share for a user means nothing where turns go by process: easily overlooked. */
static void warn_of_idle_weights(const struct settings *s)
{
	for (unsigned i = 0; i < s->weights.n; i++)
		if (s->weights.rule[i].key.kind != s->fair)
			log_warning("mount '%s': weight=%s has no effect with fair=%s", s->name,
				    s->weights.text[i], fair_kind_name(s->fair));
}

int serve_mount_open(struct served_mount *m, struct error *err)
{
	int rc = make_scope(m, err);
	/* now, while it is not mounted: later the question might have to wait in our own mount */
	free(m->real_mountpoint);
	m->real_mountpoint = path_absolute(m->s.mountpoint);
	if (rc == 0)
		rc = path_check_source(served_source(m), err);
	if (rc == 0 && path_passed_fd(m->s.mountpoint) < 0)
		rc = path_check_mountpoint(m->s.mountpoint, err);
	if (rc == 0)
		rc = make_session(m, err);
	if (rc < 0)
		drop_scope(m);
	else
		warn_of_idle_weights(&m->s);
	return rc;
}

void serve_mount_close(struct served_mount *m)
{
	fs_mount_free(m->session);
	m->session = NULL;
	drop_scope(m);
}

/* --- the log -------------------------------------------------------------------------------- */

static void list_limits(const char *scope, const struct settings *s, unsigned which, FILE *out)
{
	for (unsigned i = 0; i < n_options; i++) {
		const struct option_def *o = &options[i];
		if (!(o->scopes & which) || o->type >= OPTION_TEXT || !option_is_given(o, s))
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
	log_info("serving %s at %s", served_source(m), m->s.mountpoint);
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return;
	list_limits("global.", &m->registry->global, OPTION_FS, out); /* limits, not the socket */
	list_limits("fs.", &m->fs->s, OPTION_FS, out);
	list_limits("", &m->s, OPTION_MOUNT, out);
	if (m->s.weights.n) {
		fputs(" weight=", out);
		option_print(option_find("weight"), &m->s, out);
	}
	if (fclose(out) == 0 && size)
		log_info("limits of %s:%s", m->s.name, text);
}
