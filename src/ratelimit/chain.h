/* SPDX-License-Identifier: MIT */
/* Chain: several I/O limiters that must all grant a request.  See ratelimit_chain(3). */
#ifndef RATELIMIT_CHAIN_H
#define RATELIMIT_CHAIN_H

#include <ratelimit/io.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RATELIMIT_CHAIN_MAX 16 /* limiters in a chain */

struct ratelimit_chain;

/* A chain of `n` different limiters, wide (shared by many) to narrow.  Limiters may be in any number
 * of chains and must outlive them.  -EINVAL, -ENOMEM. */
int ratelimit_chain_new(struct ratelimit_chain **chain, struct ratelimit_io *const *limiters,
			unsigned n);
void ratelimit_chain_free(struct ratelimit_chain *chain);

/* Like the functions of the same names in io.h, but on all limiters of the chain: all or nothing.
 * A refusal names the widest limiter that refused. */
int ratelimit_chain_consume(struct ratelimit_chain *chain, uint32_t ops, uint64_t bytes,
			    uint64_t now_ns, struct ratelimit_refusal *why);
int ratelimit_chain_force_consume(struct ratelimit_chain *chain, uint32_t ops, uint64_t bytes,
				  uint64_t now_ns);
void ratelimit_chain_release(struct ratelimit_chain *chain);
int ratelimit_chain_undo(struct ratelimit_chain *chain, uint32_t ops, uint64_t bytes);
int ratelimit_chain_refund_bytes(struct ratelimit_chain *chain, uint64_t bytes);

int ratelimit_chain_fd(struct ratelimit_chain *chain);
int ratelimit_chain_event(struct ratelimit_chain *chain);
int ratelimit_chain_blocked(const struct ratelimit_chain *chain);

#ifdef __cplusplus
}
#endif

#endif
