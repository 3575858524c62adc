/* SPDX-License-Identifier: MIT */
/* A request from the kernel, from its arrival to the reply.
 *
 *	kernel ─▶ transport_dev.c   reads the message
 *	            ▼
 *	          request_parse     its row in opcodes.c, arguments, handle, caller, cost
 *	            ▼
 *	          admit.c           may it proceed now?  no: request_keep, parked.c; later a worker continues with it
 *	            ▼ yes
 *	          op->run           the backing call (ops_*.c)
 *	            ▼
 *	          reply.h           records the outcome; the transport sends the answer
 *	            ▼
 *	          request_run       returns unused bytes and permits, counts the outcome
 *
 * Ownership  a request belongs to the thread that handles it.  Its transport creates it, and reuses it after the reply
 *            unless it was kept (parked); then request_drop returns it to the transport.
 * Locking    none, except for the fields that parked.c names. */
#ifndef FS_REQUEST_H
#define FS_REQUEST_H

#include <linux/fuse.h>
#include <stdatomic.h>
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
struct scope_way;
struct request;

#define FS_MAX_TRANSFER (1U << 20) /* bytes of one read or write: conn->max_write */
#define FS_BUFFER_SIZE	(FS_MAX_TRANSFER + (64U << 10))

/* A transport: how requests arrive and are answered.  No other code depends on the kind of transport. */
struct transport {
	const char *name;
	/* Sends an error (-errno) or `n` pieces of data.  0 or -errno; -ENOENT: the caller had already given up, and the
	 * kernel dropped the answer. */
	int (*reply)(struct request *r, int error, const struct iovec *data, unsigned n);
	/* Answers a read of `size` bytes at `off` directly from the file, without a copy.  Returns the bytes sent, or
	 * -1: nothing was sent, read into a buffer instead.  NULL: not supported. */
	ssize_t (*reply_from_file)(struct request *r, int fd, uint32_t size, off_t off);
	/* A page-aligned buffer of FS_BUFFER_SIZE bytes for the answer, valid until the reply. */
	char *(*room)(struct request *r);
	/* Returns a request that stays valid after its thread reads the next one: a copy, or the request itself.  With
	 * `payload` false the payload is not kept: it can only be answered.  NULL: out of memory. */
	struct request *(*keep)(struct request *r, bool payload);
	void (*drop)(struct request *r); /* releases a kept request after its reply */
	/* For transports whose threads must not block (else NULL): may this request block its thread?  Then `defer`
	 * passes it to a worker. */
	bool (*may_block)(struct request *r);
	void (*defer)(struct request *r);
	/* The kernel does not always report that a caller was interrupted, so the callers of parked requests are checked
	 * for signals. */
	bool misses_signals;
};

/* Added to the errno of an operation that the options size or inodes refuse, and removed by reply_status: without it, the
 * error could not be told from that of a full disk, which has the same errno. */
#define SPACE_REFUSAL 4096

struct request {
	/* Filled by the transport. */
	const struct transport *transport;
	struct fs_mount *mount;
	struct fs *fs;
	struct fuse_in_header *in;
	const struct opcode *op;
	void *args;    /* op->args bytes; NULL: the message is too short */
	char *payload; /* names or data that follow the arguments */
	size_t payload_len;

	/* Filled by request_parse. */
	struct handle *handle; /* NULL: the operation is not on an open file */
	struct caller caller;
	struct cost cost;
	/* A real read(2) or write(2) on a direct-I/O handle: may be answered short or with EAGAIN.
	 * Page faults and write-back may not: a page fault would get SIGBUS, write-back would lose data. */
	bool transfer;
	bool nonblock;	/* a transfer on a handle on which O_NONBLOCK is set now */
	bool in_blocks; /* O_DIRECT: the backing file accepts whole blocks only */
	/* O_DIRECT or a transfer: it may be asynchronous (AIO, io_uring).  Then the kernel sends no interrupt when the
	 * caller dies, and the caller does not exit before the request is answered. */
	bool no_interrupt;
	bool refusable; /* may be answered with an error; false for page faults and write-back */
	/* no_wait: the thread must not block.  An operation that would block sets `again` instead of replying, before it has
	 * changed anything; another thread then carries it out. */
	bool no_wait, again;
	/* The same for what takes long even if the source is in memory, where no_wait is not set: waiting for leases (F_SETLEASE),
	 * which other programs can take in the source, and freeing large files. */
	bool must_be_brief;

	/* Its admission and its result. */
	bool granted;
	struct grant grant;
	const struct scope_way *reserved; /* by handle_reserve, until a handle is made */
	bool too_many_open;		  /* handle_reserve refused it because of max_open */
	bool no_space;			  /* it was refused because of size or inodes */
	uint32_t umask;			  /* of the caller, if the request creates something */
	char *buffer;			  /* transport->room, while it runs */
	uint64_t bytes_moved;		  /* of data, of a listing, or of extended attributes */
	int error;			  /* errno of the reply, 0 on success */

	/* While it is parked; see parked.c. */
	struct job job;
	struct list hash;
	struct watched watch;
	uint32_t process;
	uint64_t switches; /* how often its caller had slept at the last look that found it in D state */
	bool entering, interrupted;
	bool deferred; /* it was not parked, but passed to a worker by a thread that must not block */
	bool leaving; /* its caller no longer waits, but the request could not be cancelled yet */
	_Atomic bool running; /* a worker has it: it cannot be cancelled any more */
	bool sure;	      /* the kernel will report the next signal of its caller */
};

/* A message in one piece: header, arguments, payload. */
void request_split(struct request *r, void *message, size_t len);

/* Parses the message.  0 or -errno: the message is too short, or names a handle that is not open. */
int request_parse(struct request *r);

/* The nth name of the payload; NULL: it is not terminated. */
const char *request_name(const struct request *r, unsigned nth);

static inline uint64_t request_fh(const struct request *r)
{
	return r->caller.handle;
}

/* The request as the simulated device sees it: a transfer of a file. */
struct device_access request_access(const struct request *r);

/* Shortens a transfer. */
void request_shorten(struct request *r, uint64_t bytes);

/* Carries the request out on this thread, and returns to the gate what it did not use of its grant. */
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
