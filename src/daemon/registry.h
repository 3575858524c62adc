/* SPDX-License-Identifier: MIT */
/* What this process serves: its scopes and mounts, from settings to gate and FUSE session.
 *
 *	configuration ─▶ registry ─┬─ gate: global, fs, mount scopes
 *	                           └─ fs_mount: one per mount that is up
 *
 * Threads  everything here is called by the main thread only, and returns at once.  What may wait for
 *          a disk is a task (mounting.c, ending.c); when one has finished, or a mount has ended by
 *          itself, `wake_fd` says so, and registry_progress does what follows.
 * Names    a mount without fs= has an fs scope of its own, called like the mount. */
#ifndef DAEMON_REGISTRY_H
#define DAEMON_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/list.h"
#include "daemon/settings.h"
#include "daemon/task.h"

struct ending;
struct fs_mount;
struct mounting;
struct space;
struct stepper;
struct use_look;

struct served_fs {
	struct list link;
	struct settings s;
	struct gate_fs *gate;
	struct space *space; /* of its source */
	unsigned mounts;     /* whose scopes are below it */
	bool own;	     /* of one mount, not of an [fs:NAME] */
	bool paused;
	bool dropped; /* goes with its last mount; nobody finds it any more */
};

enum served_state { SERVED_DOWN, SERVED_MOUNTING, SERVED_UP, SERVED_ENDING };

struct served_mount {
	struct list link;
	struct settings s;
	struct registry *registry;
	struct served_fs *fs;	  /* NULL: down */
	struct gate_mount *gate;  /* NULL: down */
	struct fs_mount *session; /* NULL: down, or still on its way up */
	char *real_mountpoint;	  /* links resolved; NULL: never up */
	bool wanted;		  /* to be mounted when it is its turn */
	bool asked;		  /* by a client, which hears what comes of it; else the log does */
	struct mounting *mounting;
	struct ending *ending; /* on its way down; the rest is still there for looking */
	struct ending *end;    /* while it is up: memory for its end */
	struct use_look *look; /* see daemon/in_use.h; NULL: nobody has asked */
	struct error trouble;  /* why it could not be mounted */
	bool paused;
	bool failed; /* could not be mounted; a reload tries again */
};
enum served_state served_state(const struct served_mount *m);

struct registry {
	struct settings global;
	struct weights weights; /* of [weights] */
	char *file;		/* the configuration; NULL: command line */
	bool debug;
	bool force; /* see path_check_mountpoint */
	bool paused;
	bool started;  /* the mounts of the start are up */
	bool finished; /* nothing is left to serve, by request or because it was unmounted */
	bool leaving;  /* all mounts go down, and none comes up any more */
	struct list fs, mounts;
	struct list mountings, endings;
	unsigned looks; /* tasks of daemon/in_use.h that are on their way */
	bool looked;	/* one has ended: what waits for it can be tried again */
	struct tasks tasks;
	uint64_t last_serial; /* of an ending */
	struct gate *gate;
	struct stepper *stepper;
	int wake_fd;
};

/* An empty one, good for registry_free. */
void registry_clear(struct registry *r);
/* Threads, gate, global limits.  0 or -1 with err; registry_free in any case. */
int registry_init(struct registry *r, const struct configuration *c, bool debug, struct error *err);
/* Begins to make every mount of the configuration, one after the other, but without waiting for
 * ever for one that hangs.  Failures are logged.  -1: out of memory. */
int registry_start(struct registry *r, const struct configuration *c);
/* What follows from tasks that have finished, mounts that have ended, and time that has passed. */
void registry_progress(struct registry *r);
/* Something is on its way: registry_progress should be called every now and then. */
bool registry_is_busy(const struct registry *r);
/* Begins to take all mounts down; with force, or twice, what hangs is abandoned. */
void registry_end_all(struct registry *r, bool force);
/* How that stands. */
enum registry_rest {
	REST_NONE,	/* all is gone: registry_free */
	REST_RELEASED,	/* mounts and clients are, some memory and threads are not yet */
	REST_ABANDONED, /* the same, and some never will be */
	REST_MOUNTS,	/* on their way */
};
enum registry_rest registry_rest(const struct registry *r);
/* Says in the log what has not come up, or down. */
void registry_tell_rest(const struct registry *r);
void registry_free(struct registry *r); /* after REST_NONE */

/* Adds a mount that is not up yet; an fs.  NULL: out of memory. */
struct served_mount *registry_add_mount(struct registry *r, const struct settings *s);
struct served_fs *registry_add_fs(struct registry *r, const struct settings *s, bool own);
void registry_forget_mount(struct served_mount *m); /* which is down */
void registry_forget_fs(struct served_fs *fs);	    /* without mounts */

/* Begins to mount it, or -1 with err. */
int registry_mount(struct served_mount *m, struct error *err);
/* Begins to unmount it, gives up mounting it, or (force, again) abandons what hangs. */
void registry_unmount(struct served_mount *m, bool force);
unsigned registry_up(const struct registry *r);
/* Some that should be are not mounted yet, and it is not (only) because one of them hangs. */
bool registry_is_starting(const struct registry *r);
/* For mounting.c: it came up or did not; a mount has ended by itself (on any thread). */
void registry_tell_mounted(struct served_mount *m);
void registry_mount_ended(struct fs_mount *session, void *registry);

struct served_fs *registry_find_fs(struct registry *r, const char *name);
/* The [fs:NAME], or (own) the scope that a mount of that name has for itself. */
struct served_fs *registry_find_own_fs(struct registry *r, const char *name, bool own);
struct served_mount *registry_find_mount(struct registry *r, const char *name);
const char *served_source(const struct served_mount *m);
/* By mount name or mountpoint. */
struct served_mount *registry_find_target(struct registry *r, const char *target);

/* New settings, whole and at once; takes over *s on success.  -1: nothing has changed. */
int registry_set_global(struct registry *r, struct settings *s, struct error *err);
int registry_set_fs(struct registry *r, struct served_fs *fs, struct settings *s,
		    struct error *err);
int registry_set_mount(struct served_mount *m, struct settings *s, struct error *err);
int registry_set_weights(struct registry *r, struct weights *w, struct error *err);

int registry_pause_global(struct registry *r, bool paused);
int registry_pause_fs(struct served_fs *fs, bool paused);
int registry_pause_mount(struct served_mount *m, bool paused);

#endif
