/* SPDX-License-Identifier: MIT */
#include "daemon/reload_back.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/await.h"
#include "daemon/loop.h"
#include "daemon/pools.h"

/* --- what runs ------------------------------------------------------------------------------- */

static bool note_fs(struct way_back *b, const struct served_fs *fs)
{
	struct settings *s = configuration_add_fs(fs->own ? &b->own : &b->c);
	if (!s || !settings_copy(s, &fs->s))
		return false;
	if (fs->own)
		return true;
	bool *more = realloc(b->fs_paused, b->c.n_fs * sizeof(*more));
	if (!more)
		return false;
	b->fs_paused = more;
	more[b->c.n_fs - 1] = fs->paused;
	return true;
}

static bool note_mount(struct way_back *b, const struct served_mount *m)
{
	struct settings *s = configuration_add_mount(&b->c);
	if (!s || !settings_copy(s, &m->s))
		return false;
	struct was *more = realloc(b->mount, b->c.n_mounts * sizeof(*more));
	if (!more)
		return false;
	b->mount = more;
	enum served_state state = served_state(m);
	more[b->c.n_mounts - 1] =
		(struct was){state == SERVED_UP || state == SERVED_MOUNTING, m->paused};
	return true;
}

static bool note_all(struct way_back *b, struct registry *r)
{
	bool ok = settings_copy(&b->c.global, &r->global) &&
		  weights_copy(&b->c.weights, &r->weights) && pools_copy(r->pools, &b->c);
	list_for_each (it, &r->fs) {
		const struct served_fs *fs = list_entry(it, struct served_fs, link);
		ok = ok && (fs->dropped || note_fs(b, fs));
	}
	list_for_each (it, &r->mounts)
		ok = ok && note_mount(b, list_entry(it, struct served_mount, link));
	return ok;
}

struct way_back *way_back_new(struct registry *r)
{
	struct way_back *b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	configuration_init(&b->c);
	configuration_init(&b->own);
	if (note_all(b, r))
		return b;
	way_back_free(b);
	return NULL;
}

void way_back_free(struct way_back *b)
{
	if (!b)
		return;
	configuration_free(&b->c);
	configuration_free(&b->own);
	free(b->mount);
	free(b->fs_paused);
	free(b);
}

const struct settings *way_back_own_fs(const struct way_back *b, const char *mount)
{
	return configuration_find_fs(&b->own, mount);
}

const struct was *way_back_mount(const struct way_back *b, const char *name)
{
	const struct settings *s = configuration_find_mount(&b->c, name);
	return s ? &b->mount[s - b->c.mount] : NULL;
}

bool way_back_fs_paused(const struct way_back *b, const char *name)
{
	const struct settings *s = configuration_find_fs(&b->c, name);
	return s && b->fs_paused[s - b->c.fs];
}

/* --- while mounts come up -------------------------------------------------------------------- */

void reload_watch(struct registry *r, struct way_back *b)
{
	b->until_ms = loop_now_ms() + AWAIT_MS;
	r->way_back = b;
}

void reload_settle(struct registry *r)
{
	way_back_free(r->way_back);
	r->way_back = NULL;
	list_for_each (it, &r->mounts)
		list_entry(it, struct served_mount, link)->fresh = false;
}

void reload_keep(struct registry *r)
{
	if (r->way_back && !r->way_back->going)
		reload_settle(r);
}

static struct served_mount *find_failed(struct registry *r)
{
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->fresh && served_state(m) == SERVED_DOWN && error_is_set(&m->trouble))
			return m;
	}
	return NULL;
}

static bool some_come_up(const struct registry *r)
{
	list_for_each (it, (struct list *)&r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->fresh && served_state(m) == SERVED_MOUNTING)
			return true;
	}
	return false;
}

/* Adds the mounts that could not be made again to the reason. */
static void note_lost(struct registry *r)
{
	for (struct served_mount *m; (m = find_failed(r));) {
		m->fresh = false;
		char *longer;
		if (r->undone_why &&
		    asprintf(&longer, "%s\nmount '%s' could not be mounted again: %s",
			     r->undone_why, m->s.name, m->trouble.text) >= 0) {
			free(r->undone_why);
			r->undone_why = longer;
		}
	}
}

static void go_back(struct registry *r, struct way_back *b, const struct served_mount *failed)
{
	struct error err = ERROR_INIT;
	AUTO_FREE char *why = NULL;
	if (asprintf(&why, "mount '%s': %s", failed->s.name, failed->trouble.text) < 0)
		why = NULL;
	b->going = true;
	b->until_ms = loop_now_ms() + AWAIT_MS;
	log_error("%s: the reload is undone, because mount '%s' failed", r->file, failed->s.name);
	if (reload_apply_back(r, b, &err) < 0) {
		log_error("%s: cannot go back to what ran before: %s", r->file, err.text);
		reload_settle(r); /* the mount has failed, and the rest stays */
		return;
	}
	free(r->undone_why);
	r->undone_why = take_ptr(&why);
	r->undone = b->serial;
}

void reload_progress(struct registry *r)
{
	struct way_back *b = r->way_back;
	if (!b)
		return;
	const struct served_mount *failed = find_failed(r);
	bool over = r->leaving || loop_now_ms() >= b->until_ms || !some_come_up(r);
	if (failed && !b->going && !r->leaving) {
		go_back(r, b, failed);
	} else if (over) {
		if (b->going)
			note_lost(r);
		reload_settle(r);
	}
}
