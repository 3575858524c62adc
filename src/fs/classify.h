/* SPDX-License-Identifier: MIT */
/* What a request costs and how it may be held up, from the kernel's message alone. */
#ifndef FS_CLASSIFY_H
#define FS_CLASSIFY_H

#include <stdbool.h>
#include <stddef.h>

#include "fs/wire.h"
#include "limit/cost.h"

enum passage {
	PASS_LIMITED, /* waits for its limits */
	PASS_CHARGED, /* costs, never waits: it may leave debt */
	PASS_FREE,    /* no cost, never waits */
};

struct classified {
	enum passage passage;
	struct cost cost;
	/* A real read(2) or write(2) on a direct-I/O handle: may be answered short or with EAGAIN.
	 * Page faults and write-back may not: that is SIGBUS, or silent loss (FUSE-FACTS 1). */
	bool transfer;
	bool nonblock;	/* transfer on a handle that is O_NONBLOCK at this moment */
	bool in_blocks; /* O_DIRECT: the backing file takes whole blocks only */
	/* O_DIRECT: if it is asynchronous (AIO, io_uring) the kernel sends no interrupt when its
	 * caller dies, and the caller is not gone before it is answered. */
	bool unheard;
	bool refusable; /* an error may be its answer; false for page faults and write-back */
};

struct classified classify(const struct fuse_in_header *in, size_t len);

#endif
