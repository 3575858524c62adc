/* SPDX-License-Identifier: MIT */
#include <ratelimit/chain.h>

#include <assert.h>
#include <errno.h>

#include "ratelimit/chain_core.h"
#include "ratelimit/object.h"

/* Only the limits iops and bps are used here; any cost class that they both count will do. */
#define CLASS COST_READ

static_assert(RATELIMIT_CHAIN_MAX <= CHAIN_SCOPES_MAX,
	      "chains are no longer than they can be compiled");

int chain_begin(struct ratelimit_chain *ch, struct ratelimit_io *const *limiters, unsigned n)
{
	struct limiter *narrow_to_wide[RATELIMIT_CHAIN_MAX] = {NULL};
	bool oom;
	for (unsigned i = 0; i < n; i++)
		narrow_to_wide[n - 1 - i] = &limiters[i]->limiter;
	ch->compiled = chain_compile(CLASS, narrow_to_wide, n, &oom);
	if (oom)
		return -ENOMEM;
	waker_init(&ch->waker);
	ch->n = n;
	for (unsigned i = 0; i < n; i++) {
		struct chain_scope *s = &ch->scope[i];
		s->chain = ch;
		s->io = limiters[i];
		pthread_mutex_lock(&s->io->users_lock);
		list_push_tail(&s->io->users, &s->user);
		pthread_mutex_unlock(&s->io->users_lock);
	}
	return 0;
}

void chain_end(struct ratelimit_chain *ch)
{
	for (unsigned i = 0; i < ch->n; i++) {
		struct chain_scope *s = &ch->scope[i];
		pthread_mutex_lock(&s->io->users_lock);
		list_remove(&s->user);
		pthread_mutex_unlock(&s->io->users_lock);
	}
	waker_end(&ch->waker);
	free(ch->compiled);
}

int ratelimit_chain_new(struct ratelimit_chain **chain, struct ratelimit_io *const *limiters,
			unsigned n)
{
	*chain = NULL;
	if (n < 1 || n > RATELIMIT_CHAIN_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < i; k++)
			if (limiters[i] == limiters[k])
				return -EINVAL;
	struct ratelimit_chain *ch = object_new(sizeof(*ch));
	if (!ch)
		return -ENOMEM;
	int rc = chain_begin(ch, limiters, n);
	if (rc < 0)
		free(ch);
	else
		*chain = ch;
	return rc;
}

void ratelimit_chain_free(struct ratelimit_chain *chain)
{
	if (!chain)
		return;
	chain_end(chain);
	free(chain);
}

/* --- waking --- */

void io_wake(struct ratelimit_io *io, const struct ratelimit_chain *except)
{
	pthread_mutex_lock(&io->users_lock);
	list_for_each (it, &io->users) {
		struct ratelimit_chain *ch = list_entry(it, struct chain_scope, user)->chain;
		if (ch != except)
			waker_fire(&ch->waker);
	}
	pthread_mutex_unlock(&io->users_lock);
}

static void wake_all(const struct ratelimit_chain *ch, const struct ratelimit_chain *except)
{
	for (unsigned i = 0; i < ch->n; i++)
		io_wake(ch->scope[i].io, except);
}

/* --- consuming --- */

static struct ratelimit_refusal refusal_of(const struct ratelimit_chain *ch,
					   const struct refusal *r)
{
	struct ratelimit_refusal why = {.scope = ch->n - 1 - r->rank, .wait_ns = r->wait_ns};
	why.limit = r->kind < 0			   ? RATELIMIT_INFLIGHT
		    : limit_kind_is_bytes(r->kind) ? RATELIMIT_BYTES
						   : RATELIMIT_OPS;
	return why;
}

/* After a refusal: sets `blocked`, so that threads which return something wake
 * us, and tries once more. */
static bool consume_blocked(struct ratelimit_chain *ch, const struct cost *c, uint64_t now_ns,
			    struct refusal *r)
{
	struct waker *w = &ch->waker;
	pthread_mutex_lock(&w->lock);
	bool before = atomic_exchange(&w->blocked, true);
	bool granted = chain_try(ch->compiled, c, now_ns, r) == GRANT_OK;
	if (granted)
		atomic_store(&w->blocked, before);
	else
		waker_arm_locked(w, add_sat_u64(now_ns, r->wait_ns));
	pthread_mutex_unlock(&w->lock);
	return granted;
}

int ratelimit_chain_consume(struct ratelimit_chain *chain, uint32_t ops, uint64_t bytes,
			    uint64_t now_ns, struct ratelimit_refusal *why)
{
	struct cost c = {CLASS, ops, bytes};
	struct refusal first = {0}, r = {0};
	if (!tokens_are_valid(bytes))
		return -EINVAL;
	if (!chain->compiled || chain_try(chain->compiled, &c, now_ns, &first) == GRANT_OK)
		return 0;
	bool granted = consume_blocked(chain, &c, now_ns, &r);
	/* What we took for a moment and returned may have made another chain wait needlessly. */
	if (first.gave_back || r.gave_back)
		wake_all(chain, chain);
	if (granted)
		return 0;
	if (why)
		*why = refusal_of(chain, &r);
	return -EAGAIN;
}

int ratelimit_chain_force_consume(struct ratelimit_chain *chain, uint32_t ops, uint64_t bytes,
				  uint64_t now_ns)
{
	struct cost c = {CLASS, ops, bytes};
	if (!tokens_are_valid(bytes))
		return -EINVAL;
	if (chain->compiled)
		chain_take(chain->compiled, &c, now_ns);
	return 0;
}

/* --- giving back --- */

void ratelimit_chain_release(struct ratelimit_chain *chain)
{
	if (!chain->compiled || !chain->compiled->permits)
		return;
	chain_release(chain->compiled);
	wake_all(chain, NULL);
}

int ratelimit_chain_undo(struct ratelimit_chain *chain, uint32_t ops, uint64_t bytes)
{
	struct cost c = {CLASS, ops, bytes};
	if (!tokens_are_valid(bytes))
		return -EINVAL;
	if (chain->compiled) {
		chain_refund(chain->compiled, &c);
		wake_all(chain, NULL);
	}
	return 0;
}

int ratelimit_chain_refund_bytes(struct ratelimit_chain *chain, uint64_t bytes)
{
	if (!tokens_are_valid(bytes))
		return -EINVAL;
	if (chain->compiled && bytes) {
		chain_refund_bytes(chain->compiled, bytes);
		wake_all(chain, NULL);
	}
	return 0;
}

/* --- event loops --- */

int ratelimit_chain_fd(struct ratelimit_chain *chain)
{
	return waker_fd(&chain->waker);
}

int ratelimit_chain_event(struct ratelimit_chain *chain)
{
	return waker_event(&chain->waker) ? 0 : -EAGAIN;
}

int ratelimit_chain_blocked(const struct ratelimit_chain *chain)
{
	return atomic_load(&chain->waker.blocked);
}
