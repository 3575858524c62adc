/* SPDX-License-Identifier: MIT */
/* Bulkhead: admits a bounded number of operations and records how each of them ended.
 * See ratelimit_bulkhead(3). */
#ifndef RATELIMIT_BULKHEAD_H
#define RATELIMIT_BULKHEAD_H

#include <ratelimit/common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ratelimit_bulkhead;

/* How an admitted operation ended. */
enum ratelimit_outcome {
	RATELIMIT_SUCCESS,
	RATELIMIT_FAILURE,
	RATELIMIT_CANCELLED,
};

/* One admission, in memory of the caller, who sets it to RATELIMIT_ADMISSION_INIT before its first
 * use and neither copies nor moves it while it is in use. */
struct ratelimit_admission {
	uint64_t opaque[2];
};
/* clang-format off */
#define RATELIMIT_ADMISSION_INIT {{0, 0}}
/* clang-format on */

enum ratelimit_bulkhead_event_kind {
	RATELIMIT_BULKHEAD_ADMITTED,
	RATELIMIT_BULKHEAD_REFUSED,
	RATELIMIT_BULKHEAD_ENDED,
};

struct ratelimit_bulkhead_event {
	enum ratelimit_bulkhead_event_kind kind;
	enum ratelimit_outcome outcome; /* ENDED only */
	int64_t limit, in_flight;	/* after the event */
};

/* Called in the thread that caused the event, after the event has taken effect: whatever a listener
 * does, the outcome stays as it is and the permit is already free.  It may use the bulkhead. */
struct ratelimit_bulkhead_listener {
	void (*call)(void *data, const struct ratelimit_bulkhead_event *event);
	void *data;
};

/* For display only: it may be out of date when it is read.
 * admitted >= succeeded + failed + cancelled in every snapshot. */
struct ratelimit_bulkhead_state {
	int64_t limit, available, in_flight;
	uint64_t admitted, refused;
	uint64_t succeeded, failed, cancelled;
};

/* The listeners (copied) are called in their order.  -EINVAL, -ENOMEM. */
int ratelimit_bulkhead_new(struct ratelimit_bulkhead **bulkhead, int64_t limit,
			   const struct ratelimit_bulkhead_listener *listeners, size_t n);
/* No operation may be in flight any more. */
void ratelimit_bulkhead_free(struct ratelimit_bulkhead *bulkhead);

/* Admits an operation, or returns -EAGAIN immediately if `limit` operations are in flight; -EBUSY
 * if the admission is already in use. */
int ratelimit_bulkhead_enter(struct ratelimit_bulkhead *bulkhead,
			     struct ratelimit_admission *admission);

/* Ends the operation and returns its permit.  Exactly one call per admission does so and returns 0,
 * even if several threads try; the others return -EALREADY and change nothing.
 * -EINVAL: never admitted, or an unknown outcome. */
int ratelimit_bulkhead_leave(struct ratelimit_admission *admission, enum ratelimit_outcome outcome);

/* Operations above a lowered limit stay admitted.  -EINVAL if it is negative. */
int ratelimit_bulkhead_set_limit(struct ratelimit_bulkhead *bulkhead, int64_t limit);

void ratelimit_bulkhead_look(const struct ratelimit_bulkhead *bulkhead,
			     struct ratelimit_bulkhead_state *state);

#ifdef __cplusplus
}
#endif

#endif
