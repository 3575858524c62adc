/* SPDX-License-Identifier: MIT */
/* One row per operation of the kernel: what it costs, whether it may be made to wait, and who carries it out. */
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

/* Where a message says how many bytes are asked for. */
enum bytes_at {
	NO_BYTES,
	READ_SIZE,
	WRITE_SIZE,
	COPY_LENGTH,
	LISTING_SIZE,
	XATTR_SIZE,
	XATTR_SIZE_NO_ACL, /* the same, but none for an access control list */
};

/* Which open file it is on.  The kernel's structures have the handle in one of two places. */
enum handle_at {
	NO_HANDLE,
	OPEN_FILE, /* the first field; a file */
	OPEN_DIR,  /* the same; a directory */
	OPEN_ANY,  /* the same; either */
	IF_FLAGGED /* the second 64 bits, where the first word says so (`flag`); either */
};

struct opcode {
	const char *name; /* in `show`; NULL: "other" */
	enum throttling throttling;
	enum cost_class cls;
	enum bytes_at bytes;
	enum device_op device;
	enum handle_at handle;
	uint32_t flag;
	bool no_caller; /* acts as nobody, or as who opened the file */
	bool no_reply;
	bool no_source; /* makes no call to the source */
	bool slow;	/* its call takes long wherever the source is */
	bool any_user;	/* allow_root does not refuse it to others: they have the file open */
	uint16_t args;	/* bytes of arguments */
	void (*run)(struct request *r);
};

/* Never NULL: those of a newer kernel are throttled, too, and answered with ENOSYS. */
const struct opcode *opcode_of(uint32_t number);
const char *opcode_name(uint32_t number);

#endif
