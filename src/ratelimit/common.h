/* SPDX-License-Identifier: MIT */
/* What all parts of libratelimit share.  See ratelimit(3).
 *
 * Time     is an argument: nanoseconds of one clock that does not jump.  ratelimit_now_ns() reads
 *          CLOCK_MONOTONIC; file descriptors (io.h, chain.h) need that clock.
 * Errors   functions that can fail return 0 or a negative errno value and leave errno alone.
 *          -EAGAIN means "not now", -EINVAL an argument that is out of range.
 * Threads  every function may be called from any thread, unless it says otherwise.
 * Objects  a _new function makes an object, the matching _free function frees it (NULL is allowed)
 *          and must not run concurrently with any other call on the same object. */
#ifndef RATELIMIT_COMMON_H
#define RATELIMIT_COMMON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RATELIMIT_NEVER	     UINT64_MAX		 /* a time that is never reached */
#define RATELIMIT_RATE_MAX   (UINT64_C(1) << 53) /* tokens per second */
#define RATELIMIT_TOKENS_MAX (UINT64_C(1) << 60) /* size, one-time burst, one request */

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t ratelimit_now_ns(void);

#ifdef __cplusplus
}
#endif

#endif
