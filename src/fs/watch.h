/* SPDX-License-Identifier: MIT */
/* Which caller of a parked request to look at next.
 *
 * The kernel reports the first signal that a waiting caller gets, and no other.  Whoever has caught one
 * must therefore be looked at from time to time, lest a SIGKILL that follows be missed.  A look costs
 * about ten microseconds and there may be tens of thousands of callers, so the looks are shared out:
 *
 *	users, in turn
 *	 ├ leaving     their process has been killed: no look is needed
 *	 ├ fresh       never looked at, process unknown
 *	 └ processes   each due WATCH_EVERY_NS after the last look at it
 *	    └ callers  one of them is looked at: a signal that ends a process shows in all its threads
 *
 * No number of callers of one user delays the look at another user's, nor do the threads of one process
 * delay another process.  What shows in one thread alone (a signal sent to that thread which dumps core) is
 * found in the time that is left.
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
	struct list link;	       /* where the picture above shows it; empty: not watched */
	struct watch_user *user;       /* NULL: not watched */
	struct watch_process *process; /* NULL: fresh or leaving */
	uint64_t looked_ns;
	bool signalled; /* false: watched for the end of its process alone */
	bool leaves;	/* no look is needed */
};

struct watch_process {
	struct list link;    /* in user->processes: longest not looked at first */
	struct list crowded; /* in user->crowded while it has more than one caller */
	struct list hash;
	struct list callers; /* longest not looked at first */
	struct watch_user *user;
	unsigned n;
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
/* Watches a caller of this user; process 0: not known yet.  No-op if it is watched already, except that
 * one that now has got a signal is fresh again. */
void watch_add(struct watch *w, struct watched *c, uint32_t uid, uint32_t process, bool signalled,
	       uint64_t now_ns);
/* No-op if it is not watched. */
void watch_remove(struct watch *w, struct watched *c);
/* Whose turn it is, NULL: nobody's.  `due` false: only who is fresh or leaving. */
struct watched *watch_next(struct watch *w, bool due, uint64_t now_ns);
/* It was looked at and stays: it is of this process. */
void watch_stays(struct watch *w, struct watched *c, uint32_t process, uint64_t now_ns);
/* Its whole process has been killed: the other callers in it leave as well. */
void watch_killed(struct watch *w, struct watched *c, uint32_t process);
static inline bool watch_any(const struct watch *w)
{
	return w->n_users;
}
/* Somebody is fresh or leaving. */
bool watch_urgent(const struct watch *w);

#endif
