/* SPDX-License-Identifier: MIT */
#include "fs/uring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"

#define SQE_SIZE 128

static int map_rings(struct uring *u, const struct io_uring_params *p)
{
	u->rings_size = max_u64(p->sq_off.array + p->sq_entries * sizeof(unsigned),
				p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe));
	u->sqes_size = (size_t)p->sq_entries * SQE_SIZE;
	u->rings = mmap(NULL, u->rings_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			u->fd, IORING_OFF_SQ_RING);
	if (u->rings == MAP_FAILED) {
		u->rings = NULL;
		return -errno;
	}
	u->sqes = mmap(NULL, u->sqes_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, u->fd,
		       IORING_OFF_SQES);
	if (u->sqes == MAP_FAILED) {
		u->sqes = NULL;
		return -errno;
	}
	char *base = u->rings;
	u->sq_head = (unsigned *)(base + p->sq_off.head);
	u->sq_tail = (unsigned *)(base + p->sq_off.tail);
	u->sq_flags = (unsigned *)(base + p->sq_off.flags);
	u->sq_mask = *(unsigned *)(base + p->sq_off.ring_mask);
	u->sq_entries = p->sq_entries;
	u->cq_head = (unsigned *)(base + p->cq_off.head);
	u->cq_tail = (unsigned *)(base + p->cq_off.tail);
	u->cq_mask = *(unsigned *)(base + p->cq_off.ring_mask);
	u->cqes = (struct io_uring_cqe *)(base + p->cq_off.cqes);
	unsigned *array = (unsigned *)(base + p->sq_off.array);
	for (unsigned i = 0; i < p->sq_entries; i++)
		array[i] = i; /* submissions are used in the order of their slots */
	return 0;
}

static int register_with(const struct uring *u, unsigned what, void *arg, unsigned n)
{
	long rc = syscall(SYS_io_uring_register, u->fd, what, arg, n);
	return rc < 0 ? -errno : (int)rc;
}

int uring_open(struct uring *u, unsigned entries, unsigned completions, int file)
{
	struct io_uring_params p = {.flags = IORING_SETUP_SQE128 | IORING_SETUP_SUBMIT_ALL |
					     IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER |
					     IORING_SETUP_DEFER_TASKRUN,
				    .cq_entries = completions};
	*u = (struct uring){.fd = -1};
	long fd = syscall(SYS_io_uring_setup, entries, &p);
	if (fd < 0)
		return -errno;
	u->fd = u->enter_fd = (int)fd;
	int res = p.features & IORING_FEAT_SINGLE_MMAP ? map_rings(u, &p) : -EOPNOTSUPP;
	if (res == 0 && file >= 0)
		res = register_with(u, IORING_REGISTER_FILES, &file, 1);
	if (res < 0) {
		uring_close(u);
		return res;
	}
	/* An optimization: saves a lookup in the table of descriptors for every call.  Failure is
	 * harmless. */
	struct io_uring_rsrc_update own = {.offset = UINT32_MAX, .data = (uint64_t)u->fd};
	if (register_with(u, IORING_REGISTER_RING_FDS, &own, 1) == 1) {
		u->enter_fd = (int)own.offset;
		u->enter_flags = IORING_ENTER_REGISTERED_RING;
	}
	return 0;
}

void uring_close(struct uring *u)
{
	if (u->sqes)
		munmap(u->sqes, u->sqes_size);
	if (u->rings)
		munmap(u->rings, u->rings_size);
	if (u->enter_flags) {
		struct io_uring_rsrc_update own = {.offset = (uint32_t)u->enter_fd};
		register_with(u, IORING_UNREGISTER_RING_FDS, &own, 1);
	}
	if (u->fd >= 0)
		close(u->fd);
	*u = (struct uring){.fd = -1};
}

struct io_uring_sqe *uring_get(struct uring *u)
{
	unsigned tail = *u->sq_tail;
	if (tail - __atomic_load_n(u->sq_head, __ATOMIC_ACQUIRE) >= u->sq_entries) {
		uring_enter(u, false);
		if (tail - __atomic_load_n(u->sq_head, __ATOMIC_ACQUIRE) >= u->sq_entries)
			return NULL;
	}
	struct io_uring_sqe *sqe =
		(struct io_uring_sqe *)(u->sqes + (size_t)(tail & u->sq_mask) * SQE_SIZE);
	memset(sqe, 0, SQE_SIZE);
	__atomic_store_n(u->sq_tail, tail + 1, __ATOMIC_RELEASE);
	u->queued++;
	return sqe;
}

int uring_enter(struct uring *u, bool wait)
{
	unsigned flags = u->enter_flags | IORING_ENTER_GETEVENTS;
	long rc = syscall(SYS_io_uring_enter, u->enter_fd, u->queued, wait ? 1 : 0, flags, NULL, 0);
	if (rc < 0)
		return -errno;
	u->queued -= (unsigned)min_u64((uint64_t)rc, u->queued);
	return 0;
}

bool uring_take(struct uring *u, struct io_uring_cqe *out)
{
	unsigned head = *u->cq_head;
	if (head == __atomic_load_n(u->cq_tail, __ATOMIC_ACQUIRE))
		return false;
	*out = u->cqes[head & u->cq_mask];
	__atomic_store_n(u->cq_head, head + 1, __ATOMIC_RELEASE);
	return true;
}

bool uring_has_overflown(const struct uring *u)
{
	return __atomic_load_n(u->sq_flags, __ATOMIC_ACQUIRE) & IORING_SQ_CQ_OVERFLOW;
}

bool uring_has(const struct uring *u, uint64_t user_data)
{
	unsigned tail = __atomic_load_n(u->cq_tail, __ATOMIC_ACQUIRE);
	for (unsigned i = *u->cq_head; i != tail; i++)
		if (u->cqes[i & u->cq_mask].user_data == user_data)
			return true;
	return false;
}
