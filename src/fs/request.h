/* SPDX-License-Identifier: MIT */
/* One request of the kernel, from intake to reply.
 *
 *	kernel ─▶ transport_dev.c   reads the message
 *	            ▼
 *	          request_parse     its row in opcodes.c, arguments, handle, caller, cost
 *	            ▼
 *	          admit.c           may it go now?  no: request_keep, parked.c; a worker comes back with it
 *	            ▼ yes
 *	          op->run           the backing call (ops_*.c)
 *	            ▼
 *	          reply.h           the outcome is noted, the transport sends the answer
 *	            ▼
 *	          request_run       bytes settled, permits back, outcome counted
 *
 * Ownership  a request belongs to the thread that has it in hand.  Its transport made it and takes it back with
 *            the reply, unless it was kept (parked): then request_drop gives it back.
 * Locking    none, but for the fields that parked.c names. */
#ifndef FS_REQUEST_H
#define FS_REQUEST_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/list.h"
#include "fs/opcodes.h"
#include "fs/watch.h"
#include "limit/cost.h"
#include "sched/job.h"

struct fs;
struct fs_mount;
struct handle;
struct open_way;
struct request;

#define FS_MAX_TRANSFER (1U << 20) /* bytes of one read or write: conn->max_write */
#define FS_BUFFER_SIZE	(FS_MAX_TRANSFER + (64U << 10))

/* How requests come and how they are answered.  Nothing else asks which transport a request came by. */
struct transport {
	const char *name;
	/* Sends an error (-errno) or `n` pieces of data.  0 or -errno; -ENOENT: the caller is gone, and
	 * nothing was handed to it. */
	int (*reply)(struct request *r, int error, const struct iovec *data, unsigned n);
	/* Answers a read of `size` bytes at `off` with what the file holds, without a copy.  Bytes sent, or
	 * -1: nothing was sent, read it in the usual way.  NULL: never. */
	ssize_t (*reply_from_file)(struct request *r, int fd, uint32_t size, off_t off);
	/* Room for FS_BUFFER_SIZE bytes of the answer, page-aligned; good until the reply. */
	char *(*room)(struct request *r);
	/* The request to keep after the thread that read it goes on to the next: a copy, or itself.
	 * With `payload` false only for an answer.  NULL: out of memory. */
	struct request *(*keep)(struct request *r, bool payload);
	void (*drop)(struct request *r); /* one that was kept, after its reply */
	/* Where threads that read requests must not block (else NULL).  May the call of this request block here?
	 * Then defer has a worker carry it out. */
	bool (*may_block)(struct request *r);
	void (*defer)(struct request *r);
	/* A signal of its caller may never be reported: those who wait are looked at. */
	bool misses_signals;
};

struct request {
	/* Filled by the transport. */
	const struct transport *transport;
	struct fs_mount *mount;
	struct fs *fs;
	struct fuse_in_header *in;
	const struct opcode *op;
	void *args;    /* as many bytes as the row says; NULL: the message is too short */
	char *payload; /* names, or data: whatever follows the arguments */
	size_t payload_len;

	/* Filled by request_parse. */
	struct handle *handle; /* NULL: the operation is not on an open file */
	struct caller caller;
	struct cost cost;
	/* A real read(2) or write(2) on a direct-I/O handle: may be answered short or with EAGAIN.
	 * Page faults and write-back may not: a page fault would get SIGBUS, write-back would lose data. */
	bool transfer;
	bool nonblock;	/* a transfer on a handle that is O_NONBLOCK now */
	bool in_blocks; /* O_DIRECT: the backing file accepts whole blocks only */
	/* O_DIRECT: it may be asynchronous (AIO, io_uring).  Then the kernel sends no interrupt when the
	 * caller dies, and the caller does not exit before the request is answered. */
	bool no_interrupt;
	bool refusable; /* may be answered with an error; false for page faults and write-back */
	bool no_wait;	/* this thread must not block … */
	bool again;	/* … and the operation would have: another thread is to run it */

	/* What it was admitted by, and what came of it. */
	bool granted;
	struct grant grant;
	const struct open_way *reserved; /* by handle_reserve, until a handle is made */
	uint32_t umask;			 /* of the caller, where something is made */
	char *buffer;			 /* transport->room, while it runs */
	uint64_t bytes_moved; /* by read, write, copy; of a listing, of extended attributes */
	int error;	      /* errno of the reply, 0 on success */

	/* While it is parked; see parked.c. */
	struct job job;
	struct list hash;
	struct watched watch;
	uint32_t process;
	bool entering, interrupted;
};

/* A message in one piece: header, arguments, payload. */
void request_split(struct request *r, void *message, size_t len);

/* Finds out what it is.  0 or -errno: the message is too short, or names a handle that is not open. */
int request_parse(struct request *r);

/* The nth name of the payload, NULL where it has no end. */
const char *request_name(const struct request *r, unsigned nth);

static inline uint64_t request_fh(const struct request *r)
{
	return r->caller.handle;
}

/* What it is to a storage device: which transfer of which file. */
struct device_access request_access(const struct request *r);

/* Shortens a transfer. */
void request_shorten(struct request *r, uint64_t bytes);

/* Carries it out on this thread and settles its grant. */
void request_run(struct request *r);

static inline struct request *request_keep(struct request *r, bool payload)
{
	return r->transport->keep(r, payload);
}

static inline void request_drop(struct request *r)
{
	r->transport->drop(r);
}

#endif
