/* SPDX-License-Identifier: MIT */
/* What a request costs and whether it may be made to wait, judged by the kernel's message alone. */
#ifndef FS_CLASSIFY_H
#define FS_CLASSIFY_H

#include <stdbool.h>
#include <stddef.h>

#include "fs/wire.h"
#include "limit/cost.h"
#include "sched/device.h"

enum throttling {
	THROTTLE_WAIT,	 /* waits for its limits */
	THROTTLE_CHARGE, /* is charged but never waits; may leave debt */
	THROTTLE_EXEMPT, /* no cost, never waits */
};

struct classified {
	enum throttling throttling;
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
};

struct classified classify(const struct fuse_in_header *in, size_t len);
/* What the request is to a storage device: which transfer of which file. */
struct device_access access_of(const struct fuse_in_header *in, size_t len);

#endif
