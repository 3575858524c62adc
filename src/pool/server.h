/* SPDX-License-Identifier: MIT */
/* The server of a pool, in memory.  It follows the same rules as pool.lua, which runs in Redis.
 *
 * Locking  none: one thread.  Time is an argument.
 * Cost     each call searches the members for the one that calls.  Computing the levels takes a pass over all members; it is
 *          done at every call in pools of up to POOL_FEW members, and four times per lease in larger ones. */
#ifndef POOL_SERVER_H
#define POOL_SERVER_H

#include "pool/divide.h"
#include "pool/pool.h"

#define POOL_MEMBERS_MAX 4096
#define POOL_FEW	 32 /* up to this many members, the levels are computed at every call */
#define POOL_FORGET	 20 /* leases without a call, after which the limits are forgotten */

struct pool_record {
	char id[POOL_ID_MAX], who[POOL_WHO_MAX];
	uint64_t seq;
	int64_t called_us, expires_us;
	uint32_t weight;
	uint64_t charged[POOL_LIMITS], demand[POOL_LIMITS];
};

struct pool_server {
	struct pool_record *member;
	struct pool_wish *wish; /* scratch */
	unsigned n, room;
	struct pool_limits limits;
	uint64_t version;
	char who[POOL_WHO_MAX];
	int64_t lease_us; /* the longest of all members, when the levels were computed, or of a later call */
	int64_t last_us;   /* time of the last call; 0: there was none */
	int64_t offset_us; /* how far the clock was set back, in total */
	int64_t learn_until_us;
	int64_t computed_us; /* when the levels were computed */
	struct pool_level level[POOL_LIMITS];
	uint64_t charged[POOL_LIMITS]; /* the sum over all members */
};

void pool_server_init(struct pool_server *s);
void pool_server_free(struct pool_server *s);

/* Answers a call at now_us, the time of a clock that may be set back or forward.  `doubtful`: data may
 * have been lost since the last call.  If memory runs out, the answer is POOL_FULL. */
void pool_serve(struct pool_server *s, const struct pool_call *call, int64_t now_us, bool doubtful,
		struct pool_answer *out);

#endif
