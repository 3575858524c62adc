/* SPDX-License-Identifier: MIT */
/* A chain is the compiled list of the enabled limits that apply to one class of requests, from the
 * narrowest scope to the widest.  All tokens are taken and returned through chains.
 * Tokens are taken from narrow to wide, so that a throttled tenant does not touch the cache lines
 * that everybody shares; a refusal names the widest scope that refuses.  A class that nothing limits
 * has no chain (NULL).  Immutable once compiled; safe from any thread; takes no lock. */
#ifndef LIMIT_CHAIN_H
#define LIMIT_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "limit/limiter.h"

enum grant_result {
	GRANT_OK,
	GRANT_WOULD_BLOCK,
	GRANT_TIMED_OUT,
	GRANT_CANCELLED,
	GRANT_MISCONFIGURED, /* a cost against a zero rate */
};

/* A bucket, or (bucket NULL) the max_inflight permits of a scope. */
struct chain_link {
	struct bucket *bucket;
	struct limiter *limiter;
	uint8_t kind, role;	  /* enum limit_kind, enum bucket_role */
	uint8_t per_op, per_byte; /* tokens = ops × per_op + bytes × per_byte */
	uint8_t rank;		  /* of its scope: 0 is the narrowest */
};

struct chain {
	unsigned links;		  /* buckets, narrow to wide */
	unsigned permits;	  /* scopes with max_inflight, narrow to wide, behind the buckets */
	struct chain_link link[]; /* [links + permits] */
};

/* Why a request was refused, and when to try again. */
struct refusal {
	enum grant_result result;      /* WOULD_BLOCK or MISCONFIGURED */
	const struct limiter *limiter; /* the widest scope that refuses */
	unsigned rank;		       /* of that scope in the chain: 0 is the narrowest */
	int kind;		       /* enum limit_kind, or -1: its max_inflight */
	unsigned role;		       /* enum bucket_role, where kind is not -1 */
	uint64_t wait_ns;	       /* until all buckets would grant; NEVER: only an event helps
					 * (a permit comes back, a queue runs empty) */
	bool gave_back;		       /* something was taken and returned: a waiter may have been
					 * refused meanwhile, so wake the waiters */
};

/* The most scopes and buckets that a chain can have. */
#define CHAIN_SCOPES_MAX 16
#define CHAIN_LINKS_MAX	 (CHAIN_SCOPES_MAX * (LIMIT_KINDS - 1) * BUCKET_ROLES)

static inline struct permits *chain_permit(const struct chain *ch, unsigned i)
{
	return &ch->link[ch->links + i].limiter->inflight;
}

static inline uint64_t chain_tokens(const struct chain_link *l, const struct cost *c)
{
	return (uint64_t)c->ops * l->per_op + c->bytes * l->per_byte;
}

/* Compiles the chain of `cls` through n scopes, of which some may be NULL.
 * Returns NULL if nothing limits the class or if memory is exhausted; *oom (if given) tells which.
 * Free the chain with free(). */
struct chain *chain_compile(enum cost_class cls, struct limiter *const narrow_to_wide[], unsigned n,
			    bool *oom);
/* True when compiling anew would give the same chain. */
bool chain_equal(const struct chain *a, const struct chain *b);

/* Takes tokens from every bucket and one permit of every scope, or nothing at all.  Refuses if other requests
 * wait for one of them (`waiters`), so that newcomers don't overtake them.  Fills `why` (may be NULL)
 * on refusal. */
enum grant_result chain_try(const struct chain *ch, const struct cost *c, uint64_t now_ns,
			    struct refusal *why);

/* Like chain_try, but may grant fewer bytes: at least min(c->bytes, floor_bytes, capacity).  On
 * success c->bytes is what was granted. */
enum grant_result chain_try_partial(const struct chain *ch, struct cost *c, uint64_t floor_bytes,
				    uint64_t now_ns, struct refusal *why);

/* What chain_try would answer.  Takes nothing. */
enum grant_result chain_look(const struct chain *ch, const struct cost *c, uint64_t now_ns,
			     struct refusal *why);

/* Always takes tokens and permits, even if that leaves debt.  Returns how long chain_try would have
 * refused the request, in ns: 0 if not at all, 1 if only a permit was missing, NEVER if a rate is
 * 0. */
uint64_t chain_take(const struct chain *ch, const struct cost *c, uint64_t now_ns);

/* True if the request needs tokens of a limit whose rate is 0. */
bool chain_misconfigured(const struct chain *ch, const struct cost *c);

/* Gives back what a grant took: all of it (tokens and permits) … */
void chain_refund(const struct chain *ch, const struct cost *c);
/* … only bytes that were not moved … */
void chain_refund_bytes(const struct chain *ch, uint64_t bytes);
/* … or the permits, when the operation has been replied to. */
void chain_release(const struct chain *ch);
/* Always takes the permits and no tokens: for a request that may not wait and pays its tokens later. */
void chain_take_permits(const struct chain *ch);

/* The largest transfer to ask for in one piece: the smallest byte capacity, but at least `least`; UINT64_MAX
 * if bytes are not limited (or the chain is NULL). */
uint64_t chain_piece_bytes(const struct chain *ch, uint64_t least);

#endif
