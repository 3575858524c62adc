/* SPDX-License-Identifier: MIT */
/* The stepper's thread sleeps in a read of a timerfd with an absolute time.  Setting an earlier time
 * takes one system call, a later one none: the timer then expires too early once and is set again. */
#include "sched/stepper.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "base/util.h"
#include "sched/gate.h"
#include "sched/thread.h"

struct stepper {
	struct clock clk;
	int fd;
	struct gate *gate;
	pthread_t thread;
	bool started;
	_Atomic bool stop;

	pthread_mutex_t lock; /* innermost: taken with the gate's lock held */
	uint64_t armed_ns;    /* when the timer expires; NEVER: not set */
};

static uint64_t real_now(const struct clock *c)
{
	return monotonic_ns();
}

static void set_timer(struct stepper *s, uint64_t due_ns)
{
	if (due_ns == 0)
		due_ns = 1; /* zero would switch the timer off */
	struct itimerspec when = {.it_value = {.tv_sec = (time_t)(due_ns / NSEC_PER_SEC),
					       .tv_nsec = (long)(due_ns % NSEC_PER_SEC)}};
	if (timerfd_settime(s->fd, TFD_TIMER_ABSTIME, &when, NULL) < 0)
		log_error("cannot set the scheduler's timer: %m");
}

static void arm(struct stepper *s, uint64_t due_ns)
{
	pthread_mutex_lock(&s->lock);
	if (due_ns < s->armed_ns) {
		s->armed_ns = due_ns;
		set_timer(s, due_ns);
	}
	pthread_mutex_unlock(&s->lock);
}

static void real_arm(const struct clock *c, uint64_t due_ns)
{
	arm((struct stepper *)(uintptr_t)container_of(c, const struct stepper, clk), due_ns);
}

static void *step_loop(void *arg)
{
	struct stepper *s = arg;
	uint64_t expirations;
	for (;;) {
		if (read(s->fd, &expirations, sizeof(expirations)) < 0 && errno != EINTR) {
			log_error("cannot read the scheduler's timer: %m");
			return NULL;
		}
		if (atomic_load(&s->stop))
			return NULL;
		pthread_mutex_lock(&s->lock);
		s->armed_ns = NEVER;
		pthread_mutex_unlock(&s->lock);
		arm(s, gate_step(s->gate, real_now(&s->clk)));
	}
}

struct stepper *stepper_new(void)
{
	struct stepper *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (s->fd < 0) {
		free(s);
		return NULL;
	}
	s->clk = (struct clock){.now_ns = real_now, .arm = real_arm};
	s->armed_ns = NEVER;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

const struct clock *stepper_clock(struct stepper *s)
{
	return &s->clk;
}

int stepper_start(struct stepper *s, struct gate *g)
{
	s->gate = g;
	int rc = thread_spawn(&s->thread, "ratefs-step", step_loop, s);
	s->started = rc == 0;
	return rc;
}

void stepper_free(struct stepper *s)
{
	if (!s)
		return;
	if (s->started) {
		atomic_store(&s->stop, true);
		pthread_mutex_lock(&s->lock);
		s->armed_ns = 0; /* the gate can set no earlier time any more */
		set_timer(s, 0);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->thread, NULL);
	}
	close(s->fd);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
