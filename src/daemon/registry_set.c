/* SPDX-License-Identifier: MIT */
/* Changing what is served while it is served.  Each function either does all of it or nothing. */
#include "daemon/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "daemon/serve_mount.h"

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
	int rc = gate_set_global(r->gate, &s->limits);
	if (rc < 0)
		return failed(rc, err);
	log_set_level(r->debug ? LOG_LEVEL_DEBUG : s->log_level);
	take_over(&r->global, s);
	return 0;
}

int registry_set_fs(struct served_fs *fs, struct settings *s, struct error *err)
{
	int rc = gate_set_fs(fs->gate, &s->limits);
	if (rc < 0)
		return failed(rc, err);
	take_over(&fs->s, s);
	return 0;
}

static int set_gate(struct served_mount *m, const struct settings *s, const struct weights *common)
{
	struct gate_mount_config cfg;
	struct weight_rule *rules;
	if (!m->gate)
		return 0;
	if (!gate_config_of(s, common, &cfg, &rules))
		return -ENOMEM;
	int rc = gate_set_mount(m->gate, &cfg);
	free(rules);
	return rc;
}

int registry_set_mount(struct served_mount *m, struct settings *s, struct error *err)
{
	int rc = set_gate(m, s, &m->registry->weights);
	if (rc < 0)
		return failed(rc, err);
	if (m->session) {
		struct mount_policy policy = policy_of(s);
		fs_mount_set(m->session, &policy);
	}
	take_over(&m->s, s);
	return 0;
}

int registry_set_weights(struct registry *r, struct weights *w, struct error *err)
{
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		int rc = set_gate(m, &m->s, w);
		if (rc < 0)
			return failed(rc, err);
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
	int rc = m->gate ? gate_pause_mount(m->gate, paused) : 0;
	if (rc == 0)
		m->paused = paused;
	return rc;
}
