/* SPDX-License-Identifier: MIT */
/* The limits that one class of requests meets on its way, compiled: only those that are enabled.
 * Meaning: global, then mount, then fs must all grant; that is the order in which a refusal is
 * reported.  Tokens are taken narrow to wide, so that a throttled tenant stays off the shared
 * cache lines.  Immutable once compiled (but for one hint); safe from any thread; takes no lock.
 * NULL is the chain of an unlimited class: test for it, do no work. */
#ifndef LIMIT_CHAIN_H
#define LIMIT_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "limit/limiter.h"

/* Grants may be dated back this far (see chain.c): in any interval of length t a bucket grants at
 * most rate × (t + CHAIN_FRESH_NS) + max(capacity, largest request). */
#define CHAIN_FRESH_NS (50 * NSEC_PER_USEC)

enum grant_result {
	GRANT_OK,
	GRANT_WOULD_BLOCK,
	GRANT_TIMED_OUT,
	GRANT_CANCELLED,
	GRANT_MISCONFIGURED, /* a cost against a zero rate */
};
const char *grant_result_name(enum grant_result r);

struct chain_link {
	struct bucket *bucket;
	struct limiter *limiter;
	enum limit_kind kind;
	uint8_t per_op, per_byte; /* tokens = ops × per_op + bytes × per_byte */
};

struct chain {
	_Atomic uint64_t fresh_ns;	/* a hint, see chain.c */
	unsigned links;			/* buckets, narrow (fs) to wide (global) */
	unsigned permits;		/* scopes with max_inflight, narrow to wide */
	struct permits *permit[SCOPES]; /* each the `inflight` of its limiter */
	struct chain_link link[];	/* [links] */
};

/* Who refused, and when to ask again. */
struct refusal {
	enum grant_result result;      /* WOULD_BLOCK or MISCONFIGURED */
	const struct limiter *limiter; /* the first refusing scope in the order global, mount, fs */
	int kind;		       /* enum limit_kind, or -1: its max_inflight */
	uint64_t wait_ns;	       /* until all buckets would grant; NEVER: only an event helps
					 * (a permit comes back, a queue runs empty) */
	bool gave_back;		       /* something was held for a moment: waiters may have missed
					 * it, so look at them again if there are any */
};

/* No class meets more limits than this. */
#define CHAIN_LINKS_MAX (SCOPES * (LIMIT_KINDS - 1))

static inline uint64_t chain_tokens(const struct chain_link *l, const struct cost *c)
{
	return (uint64_t)c->ops * l->per_op + c->bytes * l->per_byte;
}

/* Compiles the chain of `cls` through the scopes (any of which may be NULL).
 * Returns NULL when nothing limits the class; *oom (if given) tells that from no memory.
 * free() ends it. */
struct chain *chain_compile(enum cost_class cls, struct limiter *global, struct limiter *mount,
			    struct limiter *fs, bool *oom);
/* True when compiling anew would give the same chain. */
bool chain_equal(const struct chain *a, const struct chain *b);

/* All or nothing: tokens of every bucket and one permit of every scope, or none of them.
 * Refuses where a bucket or permit is gated, so that newcomers don't overtake waiters.
 * Fills `why` (NULL is allowed) on refusal. */
enum grant_result chain_try(const struct chain *ch, const struct cost *c, uint64_t now_ns,
			    struct refusal *why);

/* The same, but a read-only look comes first, so that a storm of refusals writes nothing, and up
 * to *c is granted in part: at least min(c->bytes, floor_bytes, capacity) bytes.  On success
 * c->bytes says what was granted. */
enum grant_result chain_try_partial(const struct chain *ch, struct cost *c, uint64_t floor_bytes,
				    uint64_t now_ns, struct refusal *why);

/* Would chain_try grant it?  Looks only. */
enum grant_result chain_look(const struct chain *ch, const struct cost *c, uint64_t now_ns,
			     struct refusal *why);

/* Takes everything in any case, leaving debt; permits too.  Returns how long the request would
 * have waited for tokens, 0 if it would have gone at once (1 where only a permit was missing),
 * NEVER against a zero rate. */
uint64_t chain_take(const struct chain *ch, const struct cost *c, uint64_t now_ns);

/* May a request that cannot be made to wait be charged?  Not where somebody waits, who would wait for
 * ever beside a stream of them, nor where the debt takes most_ns to be paid already.  Looks only. */
bool chain_may_take(const struct chain *ch, const struct cost *c, uint64_t now_ns,
		    uint64_t most_ns);

/* Gives back what a grant took: all of it (tokens and permits) … */
void chain_refund(const struct chain *ch, const struct cost *c);
/* … only bytes that were not moved … */
void chain_refund_bytes(const struct chain *ch, uint64_t bytes);
/* … bytes that became known late (readdir replies): charged, may leave debt … */
void chain_charge_bytes(const struct chain *ch, uint64_t bytes, uint64_t now_ns);
/* … or the permits, when the operation has been replied to. */
void chain_release(const struct chain *ch);

/* The largest transfer worth asking for at once: the smallest byte capacity, at least `least`;
 * UINT64_MAX where bytes are not limited (or the chain is NULL). */
uint64_t chain_piece_bytes(const struct chain *ch, uint64_t least);

#endif
