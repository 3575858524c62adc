/* SPDX-License-Identifier: MIT */
/* What the files of a mount share: mount.c (life), receive.c (threads), admit.c (may it go),
 * parked.c (requests that wait), late.c (those that found no room), poll.c (who asks when),
 * watchdog.c (who is stuck or dying).
 *
 * Lock order: parked.lock or polls.lock → the gate's lock.  None is held over a backing call, a
 * reply, or a look into /proc. */
#ifndef FS_MOUNT_INTERNAL_H
#define FS_MOUNT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "fs/classify.h"
#include "fs/context.h"
#include "fs/mount.h"
#include "fs/wire.h"

#define MESSAGE_MAX (FS_MAX_TRANSFER + (64U << 10)) /* header, arguments and data of a request */

#define PARKED_HASH   4096
#define POLL_HASH     512
#define RECEIVERS_MAX 64
#define READY_NS      (10 * NSEC_PER_SEC)   /* until the kernel has sent its first message */
#define STOP_GRACE_NS (500 * NSEC_PER_MSEC) /* for what is parked and for open files at the end */

/* Requests that wait or are being run by a worker, by the kernel's number, for FUSE_INTERRUPT. */
struct parked_table {
	pthread_mutex_t lock;
	pthread_cond_t empty;
	struct list hash[PARKED_HASH]; /* lock */
	struct list watched; /* lock: interrupted, but their callers were not dying when asked,
				or never to be interrupted */
	unsigned n;	     /* lock */
	struct list late;    /* lock: refused, to be told so later (late.c) */
	unsigned n_late;     /* lock */
};

struct poll_table {
	pthread_mutex_t lock;
	pthread_cond_t empty;
	struct list hash[POLL_HASH]; /* lock: by handle */
	uint64_t last_id;	     /* lock */
	_Atomic unsigned n;
};

/* One receive thread.  Its own cache line: `current` is written for every request. */
struct receiver {
	_Alignas(CACHE_LINE) _Atomic uint64_t current; /* unique of the request it runs; 0: none */
	_Atomic uint64_t served;
	uint64_t interrupted;	/* parked.lock: an interrupt came for this request of its */
	uint64_t served_before; /* the watchdog's */
	_Atomic int state;	/* enum receiver_state */
	pthread_t thread;
	struct fs_mount *mount;
};
enum receiver_state { RECEIVER_UNUSED, RECEIVER_ALIVE, RECEIVER_ENDED };

struct fs_mount {
	struct fs *fs;
	struct fuse_session *se;
	int fd;
	char *mountpoint, *fuse_options;
	struct gate *g;
	struct gate_mount *gate;

	_Atomic bool nonblock_waits, timeout_is_etimedout;
	_Atomic int interrupt, fair;

	struct parked_table parked;
	struct poll_table polls;

	struct receiver receiver[RECEIVERS_MAX];
	unsigned receivers_base; /* as many are always there */
	_Atomic unsigned receivers_wanted;
	unsigned calm_ticks;		 /* the watchdog's */
	_Atomic bool stopping;		 /* receivers leave as soon as they see it */
	_Atomic uint64_t abort_after_ns; /* parked requests are refused past it; 0: run them */
	_Atomic bool ended_once;
	_Atomic bool ended; /* the kernel has closed the connection */
	void (*on_end)(struct fs_mount *m, void *ctx);
	void *on_end_ctx;

	pthread_t watchdog;
	pthread_mutex_t watchdog_lock;
	pthread_cond_t watchdog_cond;
	_Atomic bool watchdog_sleeps;
	bool watchdog_stop; /* watchdog_lock */
	bool watchdog_started;
	bool started;
};

uint64_t mount_now_ns(void); /* CLOCK_MONOTONIC */

/* admit.c: carries a message out, parks it or answers it; the buffer is the caller's again. */
void admit(struct fs_mount *m, void *msg, size_t len);
/* Runs an admitted message on this thread and settles its grant. */
void run_message(struct fs_mount *m, void *msg, size_t len, const struct grant *grant);
/* Answers with `err` what may be answered so. */
void refuse(struct fs_mount *m, void *msg, size_t len, const struct classified *c, int err);

/* parked.c */
int parked_init(struct parked_table *t);
void parked_destroy(struct parked_table *t);
void park(struct fs_mount *m, void *msg, size_t len, const struct classified *c);
void parked_interrupt(struct fs_mount *m, uint64_t unique);
bool parked_recheck(struct fs_mount *m); /* false: nobody is watched */
bool parked_watches(struct fs_mount *m); /* somebody */
bool parked_wait_empty(struct fs_mount *m, uint64_t until_ns);

/* late.c: a refusal that is held back, so that who asks again at once does not take the time of
 * others.  Answers EAGAIN then, or when the caller gets a signal. */
void late_refuse(struct fs_mount *m, uint64_t unique);
/* Called with parked.lock held, which it drops if it was a late one; false: it is not. */
bool late_interrupt_unlock(struct fs_mount *m, uint64_t unique);
void late_answer(struct fs_mount *m, uint64_t now_ns); /* those that are due */

/* poll.c */
void poll_init(struct poll_table *t);
void poll_destroy(struct poll_table *t);
void poll_request(struct fs_mount *m, const struct fuse_in_header *in, size_t len);
/* A non-blocking transfer gets less than it asked for, or nothing.  Call before answering it. */
void poll_fell_short(struct fs_mount *m, const struct fuse_in_header *in, size_t len,
		     enum cost_class cls);
void poll_forget(struct fs_mount *m, uint64_t fh); /* the handle is being released */
void poll_forget_all(struct fs_mount *m);	   /* returns when none is left */

/* receive.c */
struct receiver *receiver_self(void); /* NULL on other threads */
int receivers_start(struct fs_mount *m);
bool receivers_have_served(const struct fs_mount *m); /* anything yet */
void receivers_adapt(struct fs_mount *m);	      /* the watchdog's */
bool receivers_wait_ended(struct fs_mount *m, uint64_t until_ns);
void receivers_kick_out(struct fs_mount *m);

/* watchdog.c */
int watchdog_start(struct fs_mount *m);
void watchdog_stop(struct fs_mount *m);
void watchdog_wake(struct fs_mount *m);

#endif
