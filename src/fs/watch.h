/* SPDX-License-Identifier: MIT */
/* Decides which caller of a parked request to check next.
 *
 * The kernel reports the first signal that a waiting caller gets, and no others.  A caller that has
 * caught one must therefore be checked from time to time, so that a SIGKILL that follows is noticed.  A
 * check costs about ten microseconds and there may be tens of thousands of callers, so checks are
 * distributed:
 *
 *	users, in turn
 *	 ├ leaving     their process has been killed: no check is needed
 *	 ├ fresh       never checked, process unknown
 *	 └ processes   each due WATCH_EVERY_NS after its last check
 *	    └ callers  one of them is checked: a signal that ends a process shows in all its threads
 *
 * The number of one user's callers does not delay checks of other users, nor do the threads of one
 * process delay other processes.  What shows only in one thread (a signal sent to that thread which
 * dumps core) is found in the remaining time.
 *
 * Locking: the caller's.  Time is an argument. */
#ifndef FS_WATCH_H
#define FS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define WATCH_EVERY_NS (10 * NSEC_PER_MSEC)

struct watch_user;
struct watch_process;

struct watched {
	struct list link;	       /* in one of the lists above; empty: not watched */
	struct watch_user *user;       /* NULL: not watched */
	struct watch_process *process; /* NULL: fresh or leaving */
	uint64_t looked_ns;
	bool signalled; /* false: watched only for the end of its process */
	/* Set by the owner before watch_add: unless it is signalled, a check of any caller of its process is enough. */
	bool by_process;
	bool leaves; /* no check is needed */
};

struct watch_process {
	struct list link;    /* in user->processes: least recently checked first */
	struct list crowded; /* in user->crowded while it has several callers, not all by_process */
	struct list hash;
	struct list callers; /* least recently checked first */
	struct watch_user *user;
	unsigned n, n_by_process;
	uint32_t id;
	uint64_t looked_ns;
};

enum { WATCH_LEAVING, WATCH_FRESH, WATCH_DUE, WATCH_KINDS };

struct watch_user {
	struct list link; /* in watch->users */
	struct list hash;
	uint32_t uid;
	unsigned n; /* callers */
	unsigned turn;
	struct list leaving, fresh, processes, crowded;
	struct watch_process nameless; /* callers for whose process there was no memory */
};

#define WATCH_USER_HASH	   64
#define WATCH_PROCESS_HASH 1024

struct watch {
	struct list users;
	unsigned n_users;
	struct list user_hash[WATCH_USER_HASH], process_hash[WATCH_PROCESS_HASH];
	struct watch_user nobody; /* callers for whose user there was no memory */
};

void watch_init(struct watch *w);
/* Watches a caller of this user; process 0: unknown.  If it is already watched, does nothing,
 * except that a caller that has got a signal becomes fresh again. */
void watch_add(struct watch *w, struct watched *c, uint32_t uid, uint32_t process, bool signalled,
	       uint64_t now_ns);
/* Does nothing if it is not watched. */
void watch_remove(struct watch *w, struct watched *c);
/* The caller to check next; NULL: none.  `due` false: only callers that are fresh or leaving. */
struct watched *watch_next(struct watch *w, bool due, uint64_t now_ns);
/* The caller was checked and continues to wait; it belongs to this process. */
void watch_stays(struct watch *w, struct watched *c, uint32_t process, uint64_t now_ns);
/* Its whole process has been killed: its other callers leave as well. */
void watch_killed(struct watch *w, struct watched *c, uint32_t process);
static inline bool watch_any(const struct watch *w)
{
	return w->n_users;
}
/* True: some caller is fresh or leaving. */
bool watch_urgent(const struct watch *w);

#endif
