/* SPDX-License-Identifier: MIT */
/* Inside libratelimit: tells an event loop, through a timerfd, that refused requests may be tried
 * again.
 *
 *	idle ──refusal──▶ blocked, timer set ──time, or waker_fire──▶ readable ──event──▶ idle
 *
 * No wake-up is lost: whoever is refused sets `blocked` and then tries once more, whoever gives
 * something back does so and then looks at `blocked`; both are sequentially consistent.
 * The descriptor is made when it is first asked for; without one the waker only remembers. */
#ifndef RATELIMIT_WAKER_H
#define RATELIMIT_WAKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct waker {
	_Atomic bool blocked; /* written under the lock */
	pthread_mutex_t lock; /* guards what follows */
	int fd;		      /* -1: not asked for yet */
	uint64_t due_ns;      /* when the timer goes off; NEVER: it is not set */
};

void waker_init(struct waker *w);
void waker_end(struct waker *w);

/* The descriptor, or -errno. */
int waker_fd(struct waker *w);

/* Makes the descriptor readable at due_ns, if that is earlier than what is set.  Lock held. */
void waker_arm_locked(struct waker *w, uint64_t due_ns);

/* Makes it readable now, if somebody was refused. */
void waker_fire(struct waker *w);

/* True if it was readable; it no longer is, and nobody counts as refused any more. */
bool waker_event(struct waker *w);

#endif
