/* SPDX-License-Identifier: MIT */
#include "daemon/mounting.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/advice.h"
#include "daemon/ending.h"
#include "daemon/loop.h"
#include "daemon/path.h"
#include "daemon/serve_mount.h"
#include "daemon/served_space.h"

/* --- on the thread -------------------------------------------------------------------------- */

static int make_auto_unmount(struct mounting *k)
{
	if (!words_find(&k->s.fuse, "auto_unmount"))
		return 0;
	if (path_passed_fd(k->s.mountpoint) >= 0)
		return error_set(&k->err, "auto_unmount: the mountpoint is not known here, since "
					  "mount(8) has mounted it; leave the option out");
	return auto_unmount_start(&k->ending->auto_unmount, k->s.mountpoint, &k->err);
}

static int make_session(struct mounting *k)
{
	AUTO_FREE char *fuse = fuse_options_of(&k->s, k->source, &k->err);
	if (!fuse)
		return -1;
	struct mount_config cfg = mount_config_of(&k->s, k->source, fuse);
	cfg.debug = cfg.fs.debug = k->registry->debug;
	cfg.fs.gate_mount = k->gate_mount;
	cfg.fs.space = k->fs->space;
	cfg.fs.space_policy = k->space;
	k->session = fs_mount_new(&cfg, k->registry->gate, k->gate_mount, &k->err);
	/* Wait until the source has been counted, so that a mount with a size limit shows its usage
	 * from the start. */
	if (!k->session || space_wait(k->fs->space, &k->cancelled, &k->err) < 0 ||
	    fs_mount_mount(k->session, &k->err) < 0)
		return -1;
	/* Before requests are served: from then on the mount must not outlive the daemon. */
	if (make_auto_unmount(k) < 0)
		return -1;
	if (fs_mount_start(k->session, registry_mount_ended, k->registry, &k->err) < 0)
		return -1;
	return fs_mount_wait_ready(k->session, &k->err);
}

static void run(struct task *t)
{
	struct mounting *k = container_of(t, struct mounting, task);
	/* Resolve the path before mounting: later that might have to wait for our own mount. */
	k->real_mountpoint = path_absolute(k->s.mountpoint);
	int rc = k->real_mountpoint ? path_check_source(k->source, &k->err)
				    : error_set(&k->err, "out of memory");
	if (rc == 0 && path_passed_fd(k->s.mountpoint) < 0)
		rc = path_check_mountpoint(k->s.mountpoint, k->registry->force, &k->err);
	if (rc == 0)
		rc = make_session(k);
	if (rc < 0) {
		fs_mount_free(k->session);
		auto_unmount_stop(&k->ending->auto_unmount);
		k->session = NULL;
	}
}

/* --- on the main thread --------------------------------------------------------------------- */

static void mounting_free(struct mounting *k)
{
	if (!k)
		return;
	settings_free(&k->s);
	free(k->source);
	free(k->real_mountpoint);
	ending_free(k->ending);
	free(k);
}

static void warn(const char *line, void *unused)
{
	log_warning("%s", line);
}

/* Uses the mount's current settings, which may have been changed since mounting began. */
static void came_up(struct served_mount *m, struct mounting *k)
{
	struct mount_policy policy = policy_of(&m->s);
	m->session = k->session;
	m->end = take_ptr(&k->ending);
	free(m->real_mountpoint);
	m->real_mountpoint = take_ptr(&k->real_mountpoint);
	m->failed = false;
	fs_mount_set(m->session, &policy);
	served_space_set(m);
	advise(&m->s, warn, NULL);
}

static void failed(struct served_mount *m, struct mounting *k)
{
	m->gate_mount = NULL;
	m->fs = NULL;
	m->trouble = k->err;
}

static void done(struct task *t)
{
	struct mounting *k = container_of(t, struct mounting, task);
	struct served_mount *m = k->owner;
	list_remove(&k->link);
	if (m) {
		m->mounting = NULL;
		if (k->session)
			came_up(m, k);
		else
			failed(m, k);
		registry_tell_mounted(m);
	} else if (k->session) {
		struct ending *e = take_ptr(&k->ending);
		ending_begin(e, k->session, k->gate_mount, k->fs);
	}
	if (!k->session)
		scope_drop(k->registry, k->gate_mount, k->fs);
	mounting_free(k);
}

static struct mounting *mounting_new(struct served_mount *m, const char *source)
{
	struct mounting *k = calloc(1, sizeof(*k));
	if (!k || !settings_copy(&k->s, &m->s)) {
		free(k);
		return NULL;
	}
	*k = (struct mounting){
		.task = {.run = run, .done = done},
		.owner = m,
		.registry = m->registry,
		.ending = ending_new(m->registry, &m->s),
		.since_ms = loop_now_ms(),
		.s = k->s,
		.source = source ? strdup(source) : NULL,
		.err = ERROR_INIT,
	};
	if (k->ending && k->source)
		return k;
	mounting_free(k);
	return NULL;
}

int mounting_start(struct served_mount *m, struct error *err)
{
	if (scope_make(m, err) < 0)
		return -1;
	struct mounting *k = mounting_new(m, served_source(m));
	bool paused = !m->paused || gate_pause_mount(m->gate_mount, true) == 0;
	if (!k || !paused) {
		mounting_free(k);
		scope_drop(m->registry, m->gate_mount, m->fs);
		m->gate_mount = NULL;
		m->fs = NULL;
		return error_set(err, "out of memory");
	}
	k->gate_mount = m->gate_mount;
	k->fs = m->fs;
	k->space = served_space_policy(m);
	m->mounting = k;
	list_push_tail(&m->registry->mountings, &k->link);
	task_start(&m->registry->tasks, &k->task);
	return 0;
}

void mounting_give_up(struct served_mount *m)
{
	if (!m->mounting)
		return;
	m->mounting->owner = NULL;
	atomic_store(&m->mounting->cancelled, true);
	m->mounting = NULL;
	m->gate_mount = NULL;
	m->fs = NULL;
}
