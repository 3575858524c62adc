/* SPDX-License-Identifier: MIT */
/* Changes limits and options while serving. */
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

static void take_over(struct settings *to, struct settings *from)
{
	settings_free(to);
	*to = *from;
	settings_init(from);
}

static int failed(int rc, struct error *err)
{
	return error_set(err, "nothing was changed: %s", strerror(-rc));
}

int registry_set_global(struct registry *r, struct settings *s, struct error *err)
{
	if (pools_join(r->pools, s, err) < 0)
		return -1;
	int rc = gate_set_global(r->gate, &s->limits);
	if (rc < 0)
		return failed(rc, err);
	log_set_level(r->debug ? LOG_LEVEL_DEBUG : s->log_level);
	take_over(&r->global, s);
	return 0;
}

int registry_set_fs(struct registry *r, struct served_fs *fs, struct settings *s, struct error *err)
{
	if (pools_join(r->pools, s, err) < 0)
		return -1;
	int rc = gate_set_fs(fs->gate, &s->limits);
	if (rc < 0)
		return failed(rc, err);
	take_over(&fs->s, s);
	served_space_changed(r, fs);
	return 0;
}

static int set_mount(struct served_mount *m, const struct settings *s, const struct weights *common)
{
	struct gate_mount_config cfg;
	struct weight_rule *rules;
	if (!gate_config_of(s, common, &cfg, &rules))
		return -ENOMEM;
	int rc = gate_set_mount(m->gate_mount, &cfg);
	free(rules);
	return rc;
}

static int set_gate(struct served_mount *m, const struct settings *s, const struct weights *common)
{
	if (!m->gate_mount)
		return 0;
	int rc = set_mount(m, s, common);
	if (rc < 0 || (common == &m->registry->weights && classes_equal(&m->s, s)))
		return rc;
	rc = classes_apply(m->gate_mount, s, common);
	if (rc < 0)
		(void)set_mount(m, &m->s, &m->registry->weights); /* restores it */
	return rc;
}

int registry_set_mount(struct served_mount *m, struct settings *s, struct error *err)
{
	if (classes_check_one(s, err) < 0 || pools_join(m->registry->pools, s, err) < 0 ||
	    pool_config_nested(s, m->fs ? &m->fs->s : NULL, &m->registry->global, err) < 0)
		return -1;
	int rc = set_gate(m, s, &m->registry->weights);
	if (rc < 0)
		return failed(rc, err);
	if (m->session) {
		struct mount_policy policy = policy_of(s);
		fs_mount_set(m->session, &policy);
	}
	take_over(&m->s, s);
	served_space_set(m);
	return 0;
}

/* What the gate needs for one mount, prepared before any mount is changed. */
struct prepared {
	struct weight_rule *rules;
	unsigned n;
};

static bool prepare(const struct served_mount *m, const struct weights *common, struct prepared *p)
{
	struct gate_mount_config cfg;
	AUTO_FREE struct weight_rule *rules = NULL;
	if (!gate_config_of(&m->s, common, &cfg, &rules) ||
	    gate_weights_copy(cfg.weights, cfg.n_weights, &p->rules) < 0)
		return false;
	p->n = cfg.n_weights;
	return true;
}

static struct prepared *prepare_all(const struct registry *r, const struct weights *common)
{
	size_t n = 0, i = 0;
	list_for_each (it, (struct list *)&r->mounts)
		n++;
	struct prepared *all = calloc(n + 1, sizeof(*all));
	if (!all)
		return NULL;
	list_for_each (it, (struct list *)&r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		if (!m->gate_mount || prepare(m, common, &all[i])) {
			i++;
			continue;
		}
		while (i-- > 0)
			gate_weights_free(all[i].rules, all[i].n);
		free(all);
		return NULL;
	}
	return all;
}

int registry_set_weights(struct registry *r, struct weights *w, struct error *err)
{
	AUTO_FREE struct prepared *all = prepare_all(r, w);
	const struct prepared *p = all;
	if (!all)
		return failed(-ENOMEM, err);
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->gate_mount)
			gate_set_weights(m->gate_mount, p->rules, p->n);
		p++;
	}
	weights_free(&r->weights);
	r->weights = *w;
	memset(w, 0, sizeof(*w));
	return 0;
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
