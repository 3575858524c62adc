/* SPDX-License-Identifier: MIT */
/* The entries of a queue.
 *
 * A request without a free entry waits in the kernel until an answer is committed on its queue.  If every entry is held
 * by a parked request, that may take long.  Therefore
 *	- a queue has spare entries in the kernel: for each one that is parked, the same system call registers another;
 *	- if a burst has used them up nevertheless, the queue is kicked.  New entries serve new requests, but not those that
 *	  wait already: only a commit fetches these, one at a time.  The kernel does not say whether any wait.  But when they
 *	  arrived, all spare entries held requests that the daemon had not taken yet; so the queue is kicked whenever it has
 *	  kept a part of that number, and again as long as the commit of a kick fetches a request. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fs/inode.h"
#include "fs/ring.h"
#include "fs/wire.h"

#define ENTRIES_MAX  65536 /* of a queue */
#define RESERVED     32	   /* that waiting requests never take */
#define SCARCE	     (2 * RESERVED)
#define KICK_PART    4
#define KICK_TRIES   4
#define HEADER_SIZE  320
#define CHUNK	     64
#define HEADERS	     ((size_t)CHUNK * HEADER_SIZE) /* whole pages */
#define CHUNK_MEMORY (HEADERS + (size_t)CHUNK * FS_BUFFER_SIZE)

/* Entries that are allocated together: there are thousands of them. */
struct chunk {
	struct chunk *next;
	char *memory; /* headers, then payloads: a request without a payload takes no page */
	struct entry entry[CHUNK];
};

struct ring_command {
	uint64_t flags, commit_id;
	uint16_t queue;
	uint8_t padding[6];
};
enum { RING_REGISTER = 1, RING_COMMIT_AND_FETCH = 2 };

static bool prepare(struct ring *ring, struct entry *e, uint32_t command)
{
	struct io_uring_sqe *sqe = uring_get(&ring->u);
	if (!sqe)
		return false;
	struct ring_command c = {.commit_id = e->commit_id, .queue = (uint16_t)ring->queue};
	sqe->opcode = IORING_OP_URING_CMD;
	if (ring->main) {
		sqe->fd = ring->mount->fd;
		atomic_fetch_add(&ring->main->n_armed, 1);
	} else {
		sqe->flags = IOSQE_FIXED_FILE;
	}
	sqe->cmd_op = command;
	sqe->user_data = (uintptr_t)e;
	if (command == RING_REGISTER) {
		sqe->addr = (uintptr_t)e->iov;
		sqe->len = 2;
	}
	memcpy(sqe->cmd, &c, sizeof(c));
	ring->n_waiting++;
	return true;
}

/* Makes CHUNK entries, which are not registered yet. */
static bool make_chunk(struct ring *ring)
{
	struct chunk *c = calloc(1, sizeof(*c));
	char *memory = mmap(NULL, CHUNK_MEMORY, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!c || memory == MAP_FAILED) {
		free(c);
		if (memory != MAP_FAILED)
			munmap(memory, CHUNK_MEMORY);
		return false;
	}
	madvise(memory, CHUNK_MEMORY,
		MADV_NOHUGEPAGE); /* a small request must not take two megabytes */
	c->memory = memory;
	c->next = ring->chunks;
	ring->chunks = c;
	ring->n_made += CHUNK;
	for (size_t i = 0; i < CHUNK; i++) {
		struct entry *e = &c->entry[i];
		e->ring = ring;
		list_init(&e->idle);
		e->header = (struct ring_header *)(memory + i * HEADER_SIZE);
		e->iov[0] = (struct iovec){e->header, sizeof(*e->header)};
		e->iov[1] = (struct iovec){memory + HEADERS + i * FS_BUFFER_SIZE, FS_BUFFER_SIZE};
		e->next = ring->unused;
		ring->unused = e;
	}
	return true;
}

bool ring_make_entries(struct ring *ring)
{
	return ring->unused || (ring->n_made < ENTRIES_MAX && make_chunk(ring));
}

void ring_keep_spares(struct ring *ring)
{
	/* If something fails, a later call tries again. */
	while (ring->n_waiting < ring->spares && ring_make_entries(ring) &&
	       prepare(ring, ring->unused, RING_REGISTER))
		ring->unused = ring->unused->next;
	bool scarce = ring->n_waiting < SCARCE;
	if (scarce != atomic_load_explicit(&ring->scarce, memory_order_relaxed))
		atomic_store_explicit(&ring->scarce, scarce, memory_order_relaxed);
}

bool ring_can_spare(struct ring *ring)
{
	return ring->n_waiting >= RESERVED || ring_make_entries(ring);
}

void ring_free_entries(struct ring *ring)
{
	for (struct chunk *c = ring->chunks, *next; c; c = next) {
		next = c->next;
		munmap(c->memory, CHUNK_MEMORY);
		free(c);
	}
	ring->chunks = NULL;
}

void ring_commit(struct ring *ring, struct entry *e)
{
	if (prepare(ring, e, RING_COMMIT_AND_FETCH))
		ring_entry_leaves(ring, e);
	else
		ring_hand_back(e); /* out of memory in the kernel: the ring thread tries again */
}

/* --- from other threads ----------------------------------------------------------------------------- */

void ring_wake(const struct ring *ring)
{
	const uint64_t one = 1;
	ssize_t n = write(ring->wake_fd, &one, sizeof(one));
	(void)n;
}

void ring_hand_back(struct entry *e)
{
	struct ring *ring = e->ring;
	struct entry *first = atomic_load(&ring->answered);
	do
		e->next = first;
	while (!atomic_compare_exchange_weak(&ring->answered, &first, e));
	if (!first)
		ring_wake(ring);
}

void ring_take_back(struct ring *ring)
{
	struct entry *e = atomic_exchange(&ring->answered, NULL);
	while (e) {
		struct entry *next = e->next;
		ring_commit(ring, e);
		e = next;
	}
}

void ring_wait_to_be_woken(struct ring *ring)
{
	struct io_uring_sqe *sqe = ring->hears_wake_fd ? NULL : uring_get(&ring->u);
	if (!sqe)
		return;
	/* A multishot poll reports every write to the descriptor, so the descriptor need not be read. */
	sqe->opcode = IORING_OP_POLL_ADD;
	sqe->len = IORING_POLL_ADD_MULTI;
	sqe->fd = ring->wake_fd;
	sqe->poll32_events = POLLIN;
	sqe->user_data = 0;
	ring->hears_wake_fd = true;
}

/* --- kicks -------------------------------------------------------------------------------------------- */

void ring_has_kept(struct ring *ring)
{
	if (++ring->n_kept >= ring->spares / KICK_PART)
		atomic_store(&ring->kick, true);
}

void ring_kick(struct ring *ring)
{
	atomic_store(&ring->kick, false);
	ring->n_kept = 0;
	uring_enter(&ring->u,
		    false); /* without a waiting entry, the message would only join the queue */
	/* The kernel may have forgotten the file.  If no other is known, the next commits fetch the requests that wait. */
	for (unsigned i = 0; i < KICK_TRIES; i++) {
		if (ring->file && wire_notify_retrieve(ring->mount->fd, ring->file) == 0)
			return;
		ring->file = inode_table_next_file(ring->mount->fs);
	}
}

bool ring_commit_kick(struct ring *ring, struct entry *e)
{
	ring_commit(ring, e);
	return uring_enter(&ring->u, false) < 0 || uring_has(&ring->u, (uintptr_t)e);
}
