/* SPDX-License-Identifier: MIT */
/* What this process serves: its scopes and mounts, with their settings, gate and FUSE sessions.
 *
 *	configuration ─▶ registry ─┬─ gate: global, fs, mount scopes
 *	                           └─ fs_mount: one per mount that is up
 *
 * Threads  everything here is called by the main thread only and returns immediately.  Work that
 *          may wait for a disk is a task (mounting.c, ending.c); when one has finished, or a mount was
 *          unmounted from outside, `wake_fd` becomes readable, and registry_progress continues.
 * Names    a mount without fs= has an fs scope of its own, named like the mount. */
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
struct pools;
struct mounting;
struct space;
struct stepper;
struct traces;
struct path_look;
struct way_back;
struct use_look;

struct served_fs {
	struct list link;
	struct settings s;
	struct gate_fs *gate;
	struct space *space; /* of its source */
	unsigned mounts;     /* number of mounts in this scope */
	bool own;	     /* belongs to one mount, not to an [fs:NAME] section */
	bool paused;
	bool dropped; /* removed with its last mount; cannot be found any more */
};

enum served_state { SERVED_DOWN, SERVED_MOUNTING, SERVED_UP, SERVED_ENDING };

struct served_mount {
	struct list link;
	struct settings s;
	struct registry *registry;
	struct served_fs *fs;	       /* NULL: not mounted */
	struct gate_mount *gate_mount; /* NULL: not mounted */
	struct fs_mount *session;      /* NULL: not mounted, or being mounted */
	char *real_mountpoint;	       /* links resolved; NULL: was never mounted */
	bool wanted;		       /* is to be mounted when its turn comes */
	bool asked; /* by a client, which gets the result; otherwise the result is logged */
	struct mounting *mounting;
	struct ending *ending; /* not NULL: is being ended; the other fields stay, for display */
	struct ending *end;    /* while it is mounted: memory for ending_begin */
	struct use_look *look; /* see daemon/in_use.h; NULL: nobody has asked */
	struct error trouble;  /* why the last attempt to mount it failed */
	bool paused;
	bool fresh;		/* made by a reload that is not settled (daemon/reload_back.h) */
	bool failed;		/* could not be mounted; a reload tries again */
	enum served_state told; /* the state that subscribers were last told */
};
enum served_state served_state(const struct served_mount *m);

struct registry {
	struct settings global;
	struct weights weights; /* of [weights] */
	char *file;		/* the configuration file; NULL: the command line */
	bool debug;
	bool force; /* see path_check_mountpoint */
	bool paused;
	bool started;  /* the mounts of startup are up, or have failed */
	bool finished; /* nothing is left to serve, by request or because it was unmounted */
	bool leaving;  /* all mounts are being ended, and no new ones are made */
	struct list fs, mounts;
	struct pools *pools; /* NULL: none; see daemon/pools.h */
	struct list mountings, endings;
	struct path_look *path_look; /* see daemon/reload_paths.h; NULL: none */
	struct way_back *way_back;   /* see daemon/reload_back.h; NULL: no reload is in progress */
	uint64_t reloads, undone; /* serials: of the last reload, of the last one that was undone */
	char *undone_why;	  /* why; NULL: out of memory */
	unsigned looks; /* tasks of daemon/in_use.h, reload_paths.h and files.h that are running */
	bool looked;	/* one has ended: commands that wait for its answer can be retried */
	struct tasks tasks;
	uint64_t last_serial; /* the last serial number of an ending */
	struct gate *gate;
	struct stepper *stepper;
	int wake_fd;
	struct traces *traces; /* subscribers to events; NULL: there is no control socket */
	unsigned watch_left_s; /* see daemon/key_watch.h; 0: nobody looks */
};

/* Makes the registry empty, so that registry_free can be called. */
void registry_clear(struct registry *r);
/* Creates threads, the gate and global limits.  0, or -1 with err; call registry_free in either
 * case. */
int registry_init(struct registry *r, const struct configuration *c, bool debug, struct error *err);
/* Starts making every mount of the configuration, one after the other; one that hangs delays the
 * others only for a bounded time.  Failures are logged.  -1: out of memory. */
int registry_start(struct registry *r, const struct configuration *c);
/* Continues after tasks have finished, mounts have ended, or time has passed. */
void registry_progress(struct registry *r);
/* True: something is in progress, and registry_progress should be called regularly. */
bool registry_is_busy(const struct registry *r);
/* Starts ending all mounts; with force, or when called twice, abandons what hangs. */
void registry_end_all(struct registry *r, bool force);
/* How far registry_end_all has come. */
enum registry_rest {
	REST_NONE,	/* everything is gone: call registry_free */
	REST_RELEASED,	/* mounts and clients are gone; some threads and their memory remain */
	REST_ABANDONED, /* the same, and some threads will never end */
	REST_MOUNTS,	/* mounts are still being ended */
};
enum registry_rest registry_rest(const struct registry *r);
/* Logs which mounts have not come up, or have not ended. */
void registry_tell_rest(const struct registry *r);
void registry_free(struct registry *r); /* after REST_NONE */

/* Adds a mount that is not mounted yet, or an fs.  NULL: out of memory. */
struct served_mount *registry_add_mount(struct registry *r, const struct settings *s);
struct served_fs *registry_add_fs(struct registry *r, const struct settings *s, bool own);
/* The same, but adds it to a list of the caller, who later moves it to the registry's list. */
struct served_mount *registry_make_mount(struct registry *r, const struct settings *s,
					 struct list *list);
struct served_fs *registry_make_fs(struct registry *r, const struct settings *s, bool own,
				   struct list *list);
void registry_forget_mount(struct served_mount *m); /* one that is not mounted */
void registry_forget_fs(struct served_fs *fs);	    /* one without mounts */

/* Starts mounting it, or -1 with err. */
int registry_mount(struct served_mount *m, struct error *err);
/* Starts unmounting it, gives up mounting it, or (force, when called again) abandons what hangs. */
void registry_unmount(struct served_mount *m, bool force);
unsigned registry_up(const struct registry *r);
/* True: mounts of startup are still coming up.  One that hangs is waited for
 * only if no other is up. */
bool registry_is_starting(const struct registry *r);
/* Called by mounting.c when a mount has come up or failed, and (from any thread) when one was
 * unmounted from outside. */
void registry_tell_mounted(struct served_mount *m);
void registry_mount_ended(struct fs_mount *session, void *registry);

/* Forgets an fs (NULL: none) now, or with its last mount if it still has some. */
void registry_drop_fs(struct served_fs *fs);
struct served_fs *registry_find_fs(struct registry *r, const char *name);
/* The scope of an [fs:NAME] section, or (own) the scope of a mount's own. */
struct served_fs *registry_find_own_fs(struct registry *r, const char *name, bool own);
struct served_mount *registry_find_mount(struct registry *r, const char *name);
const char *served_source(const struct served_mount *m);
/* By the name of a mount or its mountpoint. */
struct served_mount *registry_find_target(struct registry *r, const char *target);

/* Apply new settings as a whole; take over *s on success.  -1: nothing has changed. */
int registry_set_global(struct registry *r, struct settings *s, struct error *err);
int registry_set_fs(struct registry *r, struct served_fs *fs, struct settings *s,
		    struct error *err);
int registry_set_mount(struct served_mount *m, struct settings *s, struct error *err);

/* Changes the settings of several scopes, as a reload does: all of them or none.
 *
 *	init ─▶ add, weights ─▶ apply ─▶ finish		free instead of finish: it failed
 *
 * The caller has checked the settings and joined them to their pools. */
struct scope_change {
	struct served_fs *fs;
	struct served_mount *mount; /* fs and mount NULL: the global scope */
	struct settings s;
};
struct registry_change {
	struct registry *registry;
	struct scope_change *scope;
	unsigned n;
	struct weights weights;
	bool sets_weights;
};
void registry_change_init(struct registry_change *c, struct registry *r);
/* Copies *s.  False: out of memory. */
bool registry_change_add(struct registry_change *c, struct served_fs *fs, struct served_mount *m,
			 const struct settings *s);
bool registry_change_weights(struct registry_change *c, const struct weights *w);
/* Puts the limits of all scopes in force at the same moment.  -1 with err: nothing has changed. */
int registry_change_apply(const struct registry_change *c, struct error *err);
/* Takes over the settings; frees the change. */
void registry_change_finish(struct registry_change *c);
void registry_change_free(struct registry_change *c);

int registry_pause_global(struct registry *r, bool paused);
int registry_pause_fs(struct served_fs *fs, bool paused);
int registry_pause_mount(struct served_mount *m, bool paused);

#endif
