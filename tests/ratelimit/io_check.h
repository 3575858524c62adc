/* SPDX-License-Identifier: MIT */
/* Descriptors of limiters in tests that never sleep: a timer that is due in the past is readable
 * immediately, one that is due in an hour is not. */
#ifndef RATELIMIT_IO_CHECK_H
#define RATELIMIT_IO_CHECK_H

#include <errno.h>
#include <poll.h>
#include <ratelimit/ratelimit.h>
#include <sys/timerfd.h>

#include "unit/unit.h"

#define HOUR (3600 * NSEC_PER_SEC)

/* Moments that are far from the present on either side, whenever the machine was started. */
#define PAST NSEC_PER_SEC
static inline uint64_t future(void)
{
	return ratelimit_now_ns() + HOUR;
}

static inline int readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return poll(&p, 1, 0);
}

/* How long until the descriptor becomes readable; 0: it is, or nothing is set. */
static inline uint64_t readable_in_ns(int fd)
{
	struct itimerspec t;
	ck_assert_int_eq(timerfd_gettime(fd, &t), 0);
	return (uint64_t)t.it_value.tv_sec * NSEC_PER_SEC + (uint64_t)t.it_value.tv_nsec;
}

static inline struct ratelimit_io *io_make(const struct ratelimit_io_config *c, uint64_t now_ns)
{
	struct ratelimit_io *io;
	ck_assert_int_eq(ratelimit_io_new(&io, c, now_ns), 0);
	return io;
}

#endif
