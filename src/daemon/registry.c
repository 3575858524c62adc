/* SPDX-License-Identifier: MIT */
#include "daemon/registry.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/serve_mount.h"
#include "fs/mount.h"
#include "sched/workers.h"

#define WORKERS_MIN 2
#define WORKERS_MAX 64

/* --- the process ---------------------------------------------------------------------------- */

static int start_threads(struct registry *r, struct error *err)
{
	r->workers = workers_new(WORKERS_MIN, WORKERS_MAX, fs_mount_worker_start, NULL);
	r->stepper = stepper_new();
	if (r->workers && r->stepper)
		r->gate = gate_new(stepper_clock(r->stepper), workers_dispatch, r->workers);
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
	settings_init(&r->global);
	r->wake_fd = -1;
}

int registry_init(struct registry *r, const struct configuration *c, bool debug, struct error *err)
{
	registry_clear(r);
	r->debug = debug;
	r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->wake_fd < 0)
		return error_set(err, "cannot start: %s", strerror(errno));
	struct settings weights_only = {.weights = c->weights}, copy;
	if (!settings_copy(&r->global, &c->global) || !settings_copy(&copy, &weights_only))
		return error_set(err, "out of memory");
	r->weights = copy.weights;
	r->file = c->file ? strdup(c->file) : NULL;
	return start_threads(r, err);
}

/* --- the lists ------------------------------------------------------------------------------ */

struct served_mount *registry_add_mount(struct registry *r, const struct settings *s)
{
	struct served_mount *m = calloc(1, sizeof(*m));
	if (!m || !settings_copy(&m->s, s)) {
		free(m);
		return NULL;
	}
	m->registry = r;
	list_push_tail(&r->mounts, &m->link);
	return m;
}

struct served_fs *registry_add_fs(struct registry *r, const struct settings *s, bool own)
{
	struct served_fs *fs = calloc(1, sizeof(*fs));
	if (!fs || !settings_copy(&fs->s, s)) {
		free(fs);
		return NULL;
	}
	fs->own = own;
	fs->gate = gate_fs_new(r->gate, s->name, &s->limits);
	if (!fs->gate) {
		settings_free(&fs->s);
		free(fs);
		return NULL;
	}
	list_push_tail(&r->fs, &fs->link);
	return fs;
}

void registry_forget_mount(struct served_mount *m)
{
	list_remove(&m->link);
	settings_free(&m->s);
	free(m->real_mountpoint);
	free(m);
}

void registry_forget_fs(struct served_fs *fs)
{
	list_remove(&fs->link);
	gate_fs_free(fs->gate);
	settings_free(&fs->s);
	free(fs);
}

struct served_fs *registry_find_own_fs(struct registry *r, const char *name, bool own)
{
	list_for_each (it, &r->fs) {
		struct served_fs *fs = list_entry(it, struct served_fs, link);
		if (fs->own == own && strcmp(fs->s.name, name) == 0)
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

/* --- start and end -------------------------------------------------------------------------- */

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

static void stop_mounts(struct registry *r);

int registry_start(struct registry *r, const struct configuration *c)
{
	if (!add_all(r, c)) {
		log_error("out of memory");
		return -1;
	}
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		struct error err = ERROR_INIT;
		if (registry_mount(m, &err) == 0)
			continue;
		if (c->n_mounts > 1)
			error_prefix(&err, "mount '%s'", m->s.name);
		log_error("%s", err.text);
		if (r->global.on_mount_error == ON_MOUNT_ERROR_STOP) {
			stop_mounts(r);
			return -1;
		}
	}
	return registry_up(r) ? 0 : -1;
}

static void ended(struct fs_mount *session, void *ctx)
{
	struct served_mount *m = ctx;
	uint64_t one = 1;
	atomic_store(&m->ended, true);
	if (write(m->registry->wake_fd, &one, sizeof(one)) < 0)
		return; /* full: it will wake anyway */
}

int registry_mount(struct served_mount *m, struct error *err)
{
	if (m->session)
		return error_set(err, "is mounted already");
	m->failed = true;
	if (serve_mount_open(m, err) < 0)
		return -1;
	atomic_store(&m->ended, false);
	if (m->paused)
		gate_pause_mount(m->gate, true);
	if (fs_mount_start(m->session, ended, m, err) < 0 ||
	    fs_mount_wait_ready(m->session, err) < 0) {
		registry_unmount(m);
		return -1;
	}
	m->failed = false;
	return 0;
}

void registry_unmount(struct served_mount *m)
{
	if (!m->session)
		return;
	fs_mount_stop(m->session);
	serve_mount_close(m);
}

static void *stop_one(void *arg)
{
	struct served_mount *m = arg;
	fs_mount_stop(m->session);
	return NULL;
}

/* All at the same time: each may wait for the backing filesystem. */
static void stop_mounts(struct registry *r)
{
	unsigned n = registry_up(r), started = 0;
	pthread_t *threads = calloc(n + 1, sizeof(*threads));
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (!m->session)
			continue;
		if (threads && pthread_create(&threads[started], NULL, stop_one, m) == 0)
			started++;
		else
			fs_mount_stop(m->session);
	}
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->session)
			serve_mount_close(m);
	}
}

void registry_stop(struct registry *r)
{
	stop_mounts(r);
	list_for_each_safe (it, &r->mounts)
		registry_forget_mount(list_entry(it, struct served_mount, link));
	list_for_each_safe (it, &r->fs)
		registry_forget_fs(list_entry(it, struct served_fs, link));
	if (r->workers)
		workers_free(r->workers);
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

unsigned registry_up(const struct registry *r)
{
	unsigned n = 0;
	list_for_each (it, (struct list *)&r->mounts)
		n += list_entry(it, struct served_mount, link)->session != NULL;
	return n;
}

unsigned registry_reap(struct registry *r)
{
	uint64_t count;
	if (read(r->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_error("eventfd: %s", strerror(errno));
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->session && atomic_load(&m->ended)) {
			log_debug("mount '%s' was unmounted", m->s.name);
			registry_unmount(m);
		}
	}
	return registry_up(r);
}
