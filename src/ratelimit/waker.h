/* SPDX-License-Identifier: MIT */
/* Internal: tells an event loop, through a timerfd, that refused requests may be tried again.
 *
 *	idle ──refusal──▶ blocked, timer set ──time, or waker_fire──▶ readable ──event──▶ idle
 *
 * No wake-up is lost: a caller that is refused sets `blocked` and then tries once more; a caller
 * that returns tokens or a permit does so first and then reads `blocked`; all accesses are
 * sequentially consistent.  The descriptor is created on first use; until then the waker only
 * remembers due_ns. */
#ifndef RATELIMIT_WAKER_H
#define RATELIMIT_WAKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct waker {
	_Atomic bool blocked; /* written under the lock */
	pthread_mutex_t lock; /* guards the fields below */
	int fd;		      /* -1: not asked for yet */
	uint64_t due_ns;      /* when the timer expires; NEVER: it is not set */
};

void waker_init(struct waker *w);
void waker_end(struct waker *w);

/* The descriptor, or -errno. */
int waker_fd(struct waker *w);

/* Makes the descriptor readable at due_ns, if that is earlier than what is set.  Lock held. */
void waker_arm_locked(struct waker *w, uint64_t due_ns);

/* Makes the descriptor readable now, if a request was refused. */
void waker_fire(struct waker *w);

/* Handles a readable descriptor: it is no longer readable, and `blocked` is false.  False: it was
 * not readable. */
bool waker_event(struct waker *w);

#endif
