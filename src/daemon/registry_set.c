/* SPDX-License-Identifier: MIT */
/* Changes limits and options while serving: of one scope (`set`) or of many (a reload), all of them or
 * none.  Everything is prepared first; then the gate changes under one lock, and the rest cannot fail. */
#include "daemon/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/classes.h"
#include "daemon/pool_config.h"
#include "daemon/pools.h"
#include "daemon/serve_mount.h"
#include "daemon/served_space.h"

/* --- what is to change ----------------------------------------------------------------------- */

void registry_change_init(struct registry_change *c, struct registry *r)
{
	*c = (struct registry_change){.registry = r};
}

void registry_change_free(struct registry_change *c)
{
	for (unsigned i = 0; i < c->n; i++)
		settings_free(&c->scope[i].s);
	free(c->scope);
	weights_free(&c->weights);
	registry_change_init(c, c->registry);
}

bool registry_change_add(struct registry_change *c, struct served_fs *fs, struct served_mount *m,
			 const struct settings *s)
{
	struct scope_change *more = realloc(c->scope, (c->n + 1) * sizeof(*more));
	if (!more)
		return false;
	c->scope = more;
	more[c->n] = (struct scope_change){.fs = fs, .mount = m};
	if (!settings_copy(&more[c->n].s, s))
		return false;
	c->n++;
	return true;
}

bool registry_change_weights(struct registry_change *c, const struct weights *w)
{
	c->sets_weights = weights_copy(&c->weights, w);
	return c->sets_weights;
}

/* --- for the gate ---------------------------------------------------------------------------- */

/* What the gate needs for one mount. */
struct prepared {
	struct gate_mount_config config;
	struct weight_rule *rules;
	struct gate_class_config *classes;
	unsigned n_classes;
};

struct preparation {
	const struct registry_change *change;
	struct gate_change *gate;
	struct prepared *mount;
	unsigned n, n_mounts;
};

static void preparation_free(struct preparation *p)
{
	for (unsigned i = 0; i < p->n_mounts; i++) {
		free(p->mount[i].rules);
		classes_config_free(p->mount[i].classes, p->mount[i].n_classes);
	}
	free(p->mount);
	free(p->gate);
}

static const struct settings *new_settings(const struct registry_change *c,
					   const struct served_mount *m)
{
	for (unsigned i = 0; i < c->n; i++)
		if (c->scope[i].mount == m)
			return &c->scope[i].s;
	return NULL;
}

/* If the common weights change, every mount changes, including its classes. */
static bool prepare_mount(struct preparation *p, struct served_mount *m)
{
	const struct registry_change *c = p->change;
	const struct settings *new = new_settings(c, m), *s = new ? new : &m->s;
	const struct weights *common = c->sets_weights ? &c->weights : &c->registry->weights;
	struct prepared *one = &p->mount[p->n_mounts];
	if (!m->gate_mount || (!new && !c->sets_weights))
		return true;
	if (!gate_config_of(s, common, &one->config, &one->rules))
		return false;
	p->n_mounts++;
	struct gate_change *g = &p->gate[p->n++];
	*g = (struct gate_change){.mount = m->gate_mount, .config = &one->config};
	if (!c->sets_weights && classes_equal(&m->s, s))
		return true;
	one->classes = classes_config_of(s, common);
	one->n_classes = one->classes ? s->n_classes : 0;
	g->sets_classes = true;
	g->classes = one->classes;
	g->n_classes = one->n_classes;
	return one->classes;
}

static void prepare_shared(struct preparation *p, const struct scope_change *sc)
{
	if (!sc->mount)
		p->gate[p->n++] = (struct gate_change){.fs = sc->fs ? sc->fs->gate : NULL,
						       .limits = &sc->s.limits};
}

static bool prepare(struct preparation *p)
{
	const struct registry_change *c = p->change;
	size_t mounts = 1;
	list_for_each (it, &c->registry->mounts)
		mounts++;
	p->gate = calloc(c->n + mounts, sizeof(*p->gate));
	p->mount = calloc(mounts, sizeof(*p->mount));
	if (!p->gate || !p->mount)
		return false;
	for (unsigned i = 0; i < c->n; i++)
		prepare_shared(p, &c->scope[i]);
	list_for_each (it, &c->registry->mounts)
		if (!prepare_mount(p, list_entry(it, struct served_mount, link)))
			return false;
	return true;
}

int registry_change_apply(const struct registry_change *c, struct error *err)
{
	struct preparation p = {.change = c};
	int rc = prepare(&p) ? gate_apply(c->registry->gate, p.gate, p.n) : -ENOMEM;
	preparation_free(&p);
	return rc < 0 ? error_set(err, "nothing was changed: %s", strerror(-rc)) : 0;
}

/* --- the rest, which cannot fail --------------------------------------------------------------- */

static void take_over(struct settings *to, struct settings *from)
{
	settings_free(to);
	*to = *from;
	settings_init(from);
}

static void finish_scope(struct registry *r, struct scope_change *sc)
{
	struct served_mount *m = sc->mount;
	if (m && m->session) {
		struct mount_policy policy = policy_of(&sc->s);
		fs_mount_set(m->session, &policy);
	}
	take_over(m ? &m->s : sc->fs ? &sc->fs->s : &r->global, &sc->s);
	if (m)
		served_space_set(m);
	else if (sc->fs)
		served_space_changed(r, sc->fs);
	else
		log_set_level(r->debug ? LOG_LEVEL_DEBUG : r->global.log_level);
}

void registry_change_finish(struct registry_change *c)
{
	struct registry *r = c->registry;
	for (unsigned i = 0; i < c->n; i++)
		finish_scope(r, &c->scope[i]);
	if (c->sets_weights) {
		weights_free(&r->weights);
		r->weights = c->weights;
		memset(&c->weights, 0, sizeof(c->weights));
	}
	registry_change_free(c);
}

/* --- one scope ------------------------------------------------------------------------------- */

/* The settings of a scope (both NULL: global) after the change. */
static const struct settings *settings_after(const struct registry_change *c,
					     const struct served_fs *fs,
					     const struct served_mount *m)
{
	for (unsigned i = 0; i < c->n; i++)
		if (c->scope[i].fs == fs && c->scope[i].mount == m)
			return &c->scope[i].s;
	return m ? &m->s : fs ? &fs->s : &c->registry->global;
}

/* A scope must not take part in a pool that a wider scope takes part in, whichever of the two changes. */
static int check_nested_pools(const struct registry_change *c, struct error *err)
{
	struct registry *r = c->registry;
	const struct settings *global = settings_after(c, NULL, NULL);
	list_for_each (it, &r->fs) {
		const struct served_fs *fs = list_entry(it, struct served_fs, link);
		const struct settings *s = settings_after(c, fs, NULL);
		if (pool_config_nested(s, NULL, global, err) < 0)
			return error_prefix(err, "fs '%s'", s->name);
	}
	list_for_each (it, &r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		const struct settings *s = settings_after(c, NULL, m);
		const struct served_fs *fs = m->fs     ? m->fs
					     : m->s.fs ? registry_find_fs(r, m->s.fs)
						       : NULL;
		if (pool_config_nested(s, fs ? settings_after(c, fs, NULL) : NULL, global, err) < 0)
			return error_prefix(err, "mount '%s'", s->name);
	}
	return 0;
}

static int set_one(struct registry *r, struct served_fs *fs, struct served_mount *m,
		   struct settings *s, struct error *err)
{
	struct registry_change c;
	if (pools_join(r->pools, s, err) < 0)
		return -1;
	registry_change_init(&c, r);
	int rc = registry_change_add(&c, fs, m, s) ? check_nested_pools(&c, err)
						   : error_set(err, "out of memory");
	if (rc < 0 || registry_change_apply(&c, err) < 0) {
		registry_change_free(&c);
		return -1;
	}
	registry_change_finish(&c);
	settings_free(s);
	settings_init(s);
	return 0;
}

int registry_set_global(struct registry *r, struct settings *s, struct error *err)
{
	return set_one(r, NULL, NULL, s, err);
}

int registry_set_fs(struct registry *r, struct served_fs *fs, struct settings *s, struct error *err)
{
	return set_one(r, fs, NULL, s, err);
}

int registry_set_mount(struct served_mount *m, struct settings *s, struct error *err)
{
	if (classes_check_one(s, err) < 0)
		return -1;
	return set_one(m->registry, NULL, m, s, err);
}

int registry_pause_global(struct registry *r, bool paused)
{
	int rc = gate_pause_global(r->gate, paused);
	if (rc == 0)
		r->paused = paused;
	return rc;
}

int registry_pause_fs(struct served_fs *fs, bool paused)
{
	int rc = gate_pause_fs(fs->gate, paused);
	if (rc == 0)
		fs->paused = paused;
	return rc;
}

int registry_pause_mount(struct served_mount *m, bool paused)
{
	int rc = m->gate_mount ? gate_pause_mount(m->gate_mount, paused) : 0;
	if (rc == 0)
		m->paused = paused;
	return rc;
}
