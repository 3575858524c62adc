/* SPDX-License-Identifier: MIT */
#include "daemon/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/ending.h"
#include "daemon/files.h"
#include "daemon/in_use.h"
#include "daemon/loop.h"
#include "daemon/mounting.h"
#include "daemon/path.h"
#include "daemon/reload_back.h"
#include "daemon/reload_paths.h"
#include "daemon/served_space.h"
#include "daemon/serve_mount.h"
#include "fs/caller.h"
#include "fs/mount.h"
#include "sched/stepper.h"
#include "sched/workers.h"

#define PATIENCE_MS 5000 /* a mount that takes longer to come up does not delay the others */

/* --- the process ---------------------------------------------------------------------------- */

static int start_threads(struct registry *r, struct error *err)
{
	r->stepper = stepper_new();
	if (r->stepper)
		r->gate = gate_new(stepper_clock(r->stepper), workers_dispatch, NULL);
	if (r->gate)
		gate_set_caller_ops(r->gate, &fs_caller_ops);
	if (!r->gate)
		return error_set(err, "cannot start: out of memory or threads");
	int rc = stepper_start(r->stepper, r->gate);
	if (rc == 0)
		rc = gate_set_global(r->gate, &r->global.limits);
	if (rc < 0)
		return error_set(err, "cannot start the scheduler: %s", strerror(-rc));
	return 0;
}

void registry_clear(struct registry *r)
{
	memset(r, 0, sizeof(*r));
	list_init(&r->fs);
	list_init(&r->mounts);
	list_init(&r->mountings);
	list_init(&r->endings);
	settings_init(&r->global);
	r->wake_fd = -1;
	tasks_init(&r->tasks, -1);
}

int registry_init(struct registry *r, const struct configuration *c, bool debug, struct error *err)
{
	registry_clear(r);
	r->debug = debug;
	r->force = c->force;
	r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->wake_fd < 0)
		return error_set(err, "cannot start: %s", strerror(errno));
	r->tasks.wake_fd = r->wake_fd;
	if (tasks_open(&r->tasks) < 0)
		return error_set(err, "cannot start: out of memory or threads");
	r->file = c->file ? strdup(c->file) : NULL;
	if ((c->file && !r->file) || !settings_copy(&r->global, &c->global) ||
	    !weights_copy(&r->weights, &c->weights))
		return error_set(err, "out of memory");
	return start_threads(r, err);
}

/* --- the lists ------------------------------------------------------------------------------ */

struct served_mount *registry_make_mount(struct registry *r, const struct settings *s,
					 struct list *list)
{
	struct served_mount *m = calloc(1, sizeof(*m));
	if (!m || !settings_copy(&m->s, s)) {
		free(m);
		return NULL;
	}
	m->registry = r;
	list_push_tail(list, &m->link);
	return m;
}

struct served_mount *registry_add_mount(struct registry *r, const struct settings *s)
{
	return registry_make_mount(r, s, &r->mounts);
}

struct served_fs *registry_make_fs(struct registry *r, const struct settings *s, bool own,
				   struct list *list)
{
	struct served_fs *fs = calloc(1, sizeof(*fs));
	if (!fs || !settings_copy(&fs->s, s)) {
		free(fs);
		return NULL;
	}
	fs->own = own;
	fs->gate = gate_fs_new(r->gate, s->name, &s->limits);
	fs->space = fs->gate ? served_space_new(s) : NULL;
	if (!fs->space) {
		if (fs->gate)
			gate_fs_free(fs->gate);
		settings_free(&fs->s);
		free(fs);
		return NULL;
	}
	list_push_tail(list, &fs->link);
	return fs;
}

struct served_fs *registry_add_fs(struct registry *r, const struct settings *s, bool own)
{
	return registry_make_fs(r, s, own, &r->fs);
}

void registry_forget_mount(struct served_mount *m)
{
	mounting_give_up(m);
	if (m->ending)
		m->ending->owner = NULL;
	in_use_forget(m);
	ending_free(m->end);
	list_remove(&m->link);
	settings_free(&m->s);
	free(m->real_mountpoint);
	free(m);
}

void registry_forget_fs(struct served_fs *fs)
{
	list_remove(&fs->link);
	gate_fs_free(fs->gate);
	space_free(fs->space);
	settings_free(&fs->s);
	free(fs);
}

void registry_drop_fs(struct served_fs *fs)
{
	if (!fs)
		return;
	fs->dropped = true;
	space_retire(fs->space);
	if (fs->mounts == 0)
		registry_forget_fs(fs);
}

struct served_fs *registry_find_own_fs(struct registry *r, const char *name, bool own)
{
	list_for_each (it, &r->fs) {
		struct served_fs *fs = list_entry(it, struct served_fs, link);
		if (!fs->dropped && fs->own == own && strcmp(fs->s.name, name) == 0)
			return fs;
	}
	return NULL;
}

struct served_fs *registry_find_fs(struct registry *r, const char *name)
{
	struct served_fs *fs = registry_find_own_fs(r, name, false);
	return fs ? fs : registry_find_own_fs(r, name, true);
}

struct served_mount *registry_find_mount(struct registry *r, const char *name)
{
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (strcmp(m->s.name, name) == 0)
			return m;
	}
	return NULL;
}

struct served_mount *registry_find_target(struct registry *r, const char *target)
{
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (strcmp(m->s.mountpoint, target) == 0 ||
		    (m->real_mountpoint && strcmp(m->real_mountpoint, target) == 0))
			return m;
	}
	return registry_find_mount(r, target);
}

const char *served_source(const struct served_mount *m)
{
	if (m->s.source)
		return m->s.source;
	const struct served_fs *fs = m->fs ? m->fs : registry_find_fs(m->registry, m->s.fs);
	return fs ? fs->s.source : NULL;
}

enum served_state served_state(const struct served_mount *m)
{
	return m->ending		  ? SERVED_ENDING
	       : m->session		  ? SERVED_UP
	       : m->mounting || m->wanted ? SERVED_MOUNTING
					  : SERVED_DOWN;
}

unsigned registry_up(const struct registry *r)
{
	unsigned n = 0;
	list_for_each (it, (struct list *)&r->mounts)
		n += served_state(list_entry(it, struct served_mount, link)) == SERVED_UP;
	return n;
}

/* --- mounting ------------------------------------------------------------------------------- */

static bool add_all(struct registry *r, const struct configuration *c)
{
	for (unsigned i = 0; i < c->n_fs; i++)
		if (!registry_add_fs(r, &c->fs[i], !c->file))
			return false;
	for (unsigned i = 0; i < c->n_mounts; i++)
		if (!registry_add_mount(r, &c->mount[i]))
			return false;
	return true;
}

static void advance(struct registry *r);

int registry_start(struct registry *r, const struct configuration *c)
{
	if (!add_all(r, c)) {
		log_error("out of memory");
		return -1;
	}
	list_for_each (it, &r->mounts)
		list_entry(it, struct served_mount, link)->wanted = true;
	advance(r);
	return 0;
}

int registry_mount(struct served_mount *m, struct error *err)
{
	static const char *const why[] = {
		[SERVED_MOUNTING] = "is being mounted already",
		[SERVED_UP] = "is mounted already",
		[SERVED_ENDING] = "is still being unmounted",
	};
	if (served_state(m) != SERVED_DOWN)
		return error_set(err, "%s", why[served_state(m)]);
	if (m->registry->leaving)
		return error_set(err, "the daemon is ending");
	m->wanted = true;
	m->trouble = (struct error)ERROR_INIT;
	advance(m->registry);
	return 0;
}

void registry_tell_mounted(struct served_mount *m)
{
	const struct registry *r = m->registry;
	bool alone = r->mounts.next == r->mounts.prev;
	if (m->asked)
		return;
	if (m->session && r->started)
		log_info("mount '%s': mounted", m->s.name);
	else if (!m->session && alone && !r->started)
		log_error("%s", m->trouble.text);
	else if (!m->session)
		log_error("mount '%s': %s", m->s.name, m->trouble.text);
}

static void start_one(struct served_mount *m)
{
	m->wanted = false;
	m->failed = true;
	if (mounting_start(m, &m->trouble) < 0)
		registry_tell_mounted(m);
}

/* True: another mount of ours is still being ended at its mountpoint. */
static bool place_is_taken(const struct served_mount *m)
{
	list_for_each (it, &m->registry->endings) {
		const struct ending *e = list_entry(it, struct ending, link);
		if (!e->released && !fs_mount_is_detached(e->session) &&
		    strcmp(e->mountpoint, m->s.mountpoint) == 0)
			return true;
	}
	return false;
}

static bool hangs(const struct mounting *k)
{
	return loop_now_ms() - k->since_ms > PATIENCE_MS;
}

/* Mounts are made one after the other, since the source of one may be the mountpoint of another. */
static bool one_is_coming(const struct registry *r)
{
	list_for_each (it, (struct list *)&r->mountings)
		if (!hangs(list_entry(it, struct mounting, link)))
			return true;
	return false;
}

/* True: its source or mountpoint is below the mountpoint of an earlier mount in the list that is still to be made. */
static bool is_below_wanted(const struct served_mount *m)
{
	const char *source = served_source(m);
	list_for_each (it, &m->registry->mounts) {
		const struct served_mount *above = list_entry(it, struct served_mount, link);
		if (above == m)
			break;
		if (above->wanted && ((source && path_is_in(source, above->s.mountpoint)) ||
				      path_is_in(m->s.mountpoint, above->s.mountpoint)))
			return true;
	}
	return false;
}

static void advance(struct registry *r)
{
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->wanted && !one_is_coming(r) && !place_is_taken(m) && !is_below_wanted(m))
			start_one(m);
	}
}

static bool some_are_wanted(const struct registry *r)
{
	list_for_each (it, (struct list *)&r->mounts)
		if (list_entry(it, struct served_mount, link)->wanted)
			return true;
	return false;
}

bool registry_is_starting(const struct registry *r)
{
	if (one_is_coming(r) || some_are_wanted(r))
		return true;
	return registry_up(r) == 0 && !list_empty(&r->mountings);
}

/* --- unmounting ----------------------------------------------------------------------------- */

void registry_unmount(struct served_mount *m, bool force)
{
	m->wanted = false;
	mounting_give_up(m);
	if (m->session)
		ending_of(m, force);
}

void registry_end_all(struct registry *r, bool force)
{
	r->leaving = true;
	list_for_each (it, &r->mounts)
		registry_unmount(list_entry(it, struct served_mount, link), false);
	list_for_each (it, &r->endings)
		if (force)
			ending_abandon(list_entry(it, struct ending, link));
}

void registry_mount_ended(struct fs_mount *session, void *registry)
{
	const struct registry *r = registry;
	const uint64_t one = 1;
	if (write(r->wake_fd, &one, sizeof(one)) < 0)
		return; /* the eventfd is full, so the main thread will wake up anyway */
}

/* Ends mounts that were unmounted from outside. */
static void reap(struct registry *r)
{
	bool any = false;
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (served_state(m) != SERVED_UP || !fs_mount_has_ended(m->session))
			continue;
		log_debug("mount '%s' was unmounted", m->s.name);
		registry_unmount(m, false);
		any = true;
	}
	if (any && !some_are_wanted(r) && registry_up(r) == 0 && list_empty(&r->mountings))
		r->finished = true;
}

void registry_progress(struct registry *r)
{
	uint64_t count;
	if (r->wake_fd >= 0 && read(r->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_error("eventfd: %s", strerror(errno));
	tasks_collect(&r->tasks);
	in_use_progress(r);
	reload_paths_progress(r);
	files_progress(r);
	reap(r);
	reload_progress(r);
	advance(r);
}

bool registry_is_busy(const struct registry *r)
{
	list_for_each (it, (struct list *)&r->endings)
		if (!list_entry(it, struct ending, link)->released)
			return true;
	return some_are_wanted(r) || r->looks || r->way_back || !list_empty(&r->mountings);
}

enum registry_rest registry_rest(const struct registry *r)
{
	enum registry_rest rest = !list_empty(&r->mountings) ? REST_MOUNTS
				  : r->looks		     ? REST_RELEASED
							     : REST_NONE;
	list_for_each (it, (struct list *)&r->endings) {
		const struct ending *e = list_entry(it, struct ending, link);
		enum registry_rest one = !e->released ? REST_MOUNTS
					 : e->clean   ? REST_RELEASED
						      : REST_ABANDONED;
		rest = one > rest ? one : rest;
	}
	return rest;
}

void registry_tell_rest(const struct registry *r)
{
	list_for_each (it, (struct list *)&r->mountings) {
		const struct mounting *k = list_entry(it, struct mounting, link);
		log_warning(
			"mount '%s': left while it was being mounted: source '%s' or mountpoint "
			"'%s' does not answer",
			k->s.name, k->source, k->s.mountpoint);
	}
	list_for_each (it, (struct list *)&r->endings) {
		const struct ending *e = list_entry(it, struct ending, link);
		AUTO_FREE char *text = e->released ? NULL : ending_text(e);
		if (!e->released)
			log_warning("mount '%s': left while it was being unmounted, with %s",
				    e->name, text ? text : "");
	}
}

void registry_free(struct registry *r)
{
	tasks_close(&r->tasks);
	reload_paths_end(r);
	files_end();
	reload_settle(r);
	free(r->undone_why);
	list_for_each_safe (it, &r->mounts)
		registry_forget_mount(list_entry(it, struct served_mount, link));
	list_for_each_safe (it, &r->fs)
		registry_forget_fs(list_entry(it, struct served_fs, link));
	if (r->stepper)
		stepper_free(r->stepper);
	if (r->gate)
		gate_free(r->gate);
	if (r->wake_fd >= 0)
		close(r->wake_fd);
	settings_free(&r->global);
	weights_free(&r->weights);
	free(r->file);
}
