/* SPDX-License-Identifier: MIT */
/* One row per operation of the kernel: its cost, whether it may wait, and the function that carries it out. */
#ifndef FS_OPCODES_H
#define FS_OPCODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limit/cost.h"
#include "sched/device.h"

struct request;

enum throttling {
	THROTTLE_WAIT,	 /* waits for its limits */
	THROTTLE_CHARGE, /* is charged but never waits; may leave debt */
	THROTTLE_EXEMPT, /* no cost, never waits */
};

/* Where the message has the number of bytes to transfer. */
enum bytes_at {
	NO_BYTES,
	READ_SIZE,
	WRITE_SIZE,
	COPY_LENGTH,
	LISTING_SIZE,
	XATTR_SIZE,
	XATTR_SIZE_NO_ACL, /* the same, but access control lists cost no bytes */
};

/* Where the message has the handle of an open file: the kernel's structures have two places for it. */
enum handle_at {
	NO_HANDLE,
	OPEN_FILE, /* the first field; a file */
	OPEN_DIR,  /* the same; a directory */
	OPEN_ANY,  /* the same; either */
	IF_FLAGGED /* the second 64 bits, if `flag` is set in the first 32; either */
};

/* Whether its system calls may block the thread; see request.h, no_wait. */
enum blocking {
	BLOCKS_ON_DISK,	   /* not if the source is in memory */
	BLOCKS_IF_COLD,	   /* not if a disk's data is in memory, and finds that out itself */
	BLOCKS_NEVER,	   /* makes no call to the source */
	BLOCKS_ON_ANYTHING /* takes long on any source */
};

struct opcode {
	const char *name; /* in `show`; NULL: "other" */
	enum throttling throttling;
	enum cost_class cls;
	enum bytes_at bytes;
	enum device_op device;
	enum handle_at handle;
	uint32_t flag;
	bool no_caller; /* no identity is needed, or that of the opener is used */
	bool no_reply;
	enum blocking blocking;
	bool any_user; /* allow_root admits it for all users, since they have the file open */
	uint16_t args; /* bytes of arguments */
	void (*run)(struct request *r);
};

/* Never NULL: unknown operations of a newer kernel are throttled as well, and fail with ENOSYS. */
const struct opcode *opcode_of(uint32_t number);
const char *opcode_name(uint32_t number);

#endif
