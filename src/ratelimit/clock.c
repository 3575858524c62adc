/* SPDX-License-Identifier: MIT */
#include <time.h>

#include <ratelimit/common.h>

#include "base/util.h"

uint64_t ratelimit_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}
