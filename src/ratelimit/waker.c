/* SPDX-License-Identifier: MIT */
#include "ratelimit/waker.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/util.h"

void waker_init(struct waker *w)
{
	atomic_init(&w->blocked, false);
	pthread_mutex_init(&w->lock, NULL);
	w->fd = -1;
	w->due_ns = NEVER;
}

void waker_end(struct waker *w)
{
	if (w->fd >= 0)
		close(w->fd);
	pthread_mutex_destroy(&w->lock);
}

static void set_timer_locked(struct waker *w)
{
	if (w->fd < 0 || w->due_ns == NEVER)
		return;
	uint64_t ns = max_u64(w->due_ns, 1); /* zero would stop the timer */
	struct itimerspec at = {
		.it_value = {(time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC)},
	};
	timerfd_settime(w->fd, TFD_TIMER_ABSTIME, &at, NULL);
}

int waker_fd(struct waker *w)
{
	int saved = errno;
	pthread_mutex_lock(&w->lock);
	if (w->fd < 0)
		w->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	int fd = w->fd < 0 ? -errno : w->fd;
	set_timer_locked(w); /* for requests refused before there was a descriptor */
	pthread_mutex_unlock(&w->lock);
	errno = saved;
	return fd;
}

void waker_arm_locked(struct waker *w, uint64_t due_ns)
{
	if (due_ns >= w->due_ns)
		return;
	w->due_ns = due_ns;
	set_timer_locked(w);
}

void waker_fire(struct waker *w)
{
	if (!atomic_load(&w->blocked))
		return;
	pthread_mutex_lock(&w->lock);
	if (atomic_load(&w->blocked))
		waker_arm_locked(w, 0);
	pthread_mutex_unlock(&w->lock);
}

bool waker_event(struct waker *w)
{
	int saved = errno;
	uint64_t times;
	pthread_mutex_lock(&w->lock);
	bool readable = w->fd >= 0 && read(w->fd, &times, sizeof(times)) == sizeof(times);
	if (readable) {
		w->due_ns = NEVER;
		atomic_store(&w->blocked, false);
	}
	pthread_mutex_unlock(&w->lock);
	errno = saved;
	return readable;
}
