/* SPDX-License-Identifier: MIT */
/* The memory of entries.
 *
 * An entry has a buffer for the largest request, which costs memory once it has been used.  Thousands of entries may be
 * used, one for each request that waits, so the memory of those that wait in the kernel must be released.  The kernel uses
 * the entry that was committed last first: what is left over are the entries for which there is no more demand.
 *
 *	keep_bytes	stay
 *	most_bytes	at most, until they have not been used for two sweeps of the watchdog
 *
 * The memory of an entry in the kernel may be released when the answer has been copied (its commit was submitted) and no
 * request has been copied into it.  The kernel copies nothing while this thread is not in uring_enter, so this is the case
 * if its completion has not come, and none is left over (uring_has_overflown).
 *
 * The entry of a worker in the kernel keeps its memory: each worker has no more than one. */
#include <sys/mman.h>

#include "fs/ring.h"

#define KEEP_ALL   (64U << 20) /* of all rings, and bounds for one */
#define KEEP_MAX   (32U << 20)
#define KEEP_MIN   (4U << 20)
#define MOST	   4  /* times that */
#define TRIM_BATCH 16 /* entries that are trimmed before requests are served again */

void ring_memory_init(struct ring *ring, unsigned n_rings)
{
	list_init(&ring->committed);
	list_init(&ring->idle);
	ring->keep_bytes = max_u64(min_u64(KEEP_ALL / n_rings, KEEP_MAX), KEEP_MIN);
	ring->most_bytes = MOST * ring->keep_bytes;
}

void entry_touched(struct entry *e, size_t bytes)
{
	e->touched_bytes = max_u64(e->touched_bytes, bytes);
}

void entry_needs_only(struct entry *e, size_t bytes)
{
	size_t from = (bytes + RING_KEPT - 1) / RING_KEPT * RING_KEPT;
	if (from >= e->touched_bytes)
		return;
	madvise((char *)e->iov[1].iov_base + from, FS_BUFFER_SIZE - from, MADV_DONTNEED);
	e->touched_bytes = from;
}

void ring_entry_leaves(struct ring *ring, struct entry *e)
{
	if (ring->main || e->touched_bytes <= RING_KEPT)
		return;
	e->sweep = atomic_load_explicit(&ring->mount->rings->sweeps, memory_order_relaxed);
	list_push_head(&ring->committed, &e->idle);
	ring->idle_bytes += e->touched_bytes;
}

void ring_entry_returns(struct ring *ring, struct entry *e)
{
	if (ring->main || list_empty(&e->idle))
		return;
	list_remove(&e->idle);
	ring->idle_bytes -= e->touched_bytes;
}

void ring_has_submitted(struct ring *ring)
{
	if (ring->u.queued)
		return;
	list_splice_tail(&ring->committed, &ring->idle);
	list_splice_tail(&ring->idle, &ring->committed);
}

/* The entry whose memory is to be released next; NULL: none. */
static struct entry *next_to_trim(const struct ring *ring)
{
	if (ring->idle_bytes <= ring->keep_bytes || list_empty(&ring->idle))
		return NULL;
	struct entry *e = list_entry(ring->idle.prev, struct entry, idle);
	unsigned sweeps = atomic_load_explicit(&ring->mount->rings->sweeps, memory_order_relaxed);
	return ring->idle_bytes > ring->most_bytes || sweeps - e->sweep >= 2 ? e : NULL;
}

void ring_trim(struct ring *ring)
{
	bool surplus = ring->idle_bytes > ring->keep_bytes;
	if (!surplus && !atomic_load_explicit(&ring->has_surplus, memory_order_relaxed))
		return;
	struct entry *e = NULL;
	for (unsigned i = 0; i < TRIM_BATCH && !uring_has_overflown(&ring->u); i++) {
		e = next_to_trim(ring);
		if (!e)
			break;
		ring_entry_returns(ring, e);
		entry_needs_only(e, RING_KEPT);
	}
	atomic_store(&ring->has_surplus, ring->idle_bytes > ring->keep_bytes);
	if (e && next_to_trim(ring))
		ring_wake(ring); /* continues after the next requests */
}

bool rings_sweep(struct fs_mount *m)
{
	bool any = false;
	if (!atomic_load(&m->uses_uring)) /* m->rings may be about to be set */
		return false;
	atomic_fetch_add(&m->rings->sweeps, 1);
	for (unsigned i = 0; i < m->rings->n; i++) {
		const struct ring *ring = &m->rings->ring[i];
		if (!atomic_load(&ring->has_surplus))
			continue;
		ring_wake(ring);
		any = true;
	}
	return any;
}
