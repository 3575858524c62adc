/* SPDX-License-Identifier: MIT */
/* State of the operation that the current thread runs: set before the operation, updated by it,
 * and read after it.  Thread-local, so no locks. */
#ifndef FS_CONTEXT_H
#define FS_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

struct fs_context {
	uint64_t bytes_moved; /* by read, write, copy; of a listing, of extended attributes */
	int error;	      /* errno of the reply, 0 on success */
	char *buffer;	      /* page-aligned, FS_BUFFER_SIZE, for replies of this thread */
};

#define FS_MAX_TRANSFER (1U << 20) /* bytes of one read or write: conn->max_write */
#define FS_BUFFER_SIZE	(FS_MAX_TRANSFER + (64U << 10))

extern _Thread_local struct fs_context fs_context;

#endif
