/* SPDX-License-Identifier: MIT */
/* What one request costs: its class, operations and bytes. */
#ifndef LIMIT_COST_H
#define LIMIT_COST_H

#include <stdint.h>

enum cost_class {
	COST_META,
	COST_READDIR,
	COST_READ,
	COST_WRITE,
	COST_OPENCLOSE,
	COST_COPY, /* copy_file_range: counts as a read and as a write */
	/* A Meta operation that also moves bytes, such as the value of an extended attribute.
	 * Statistics show it as Meta. */
	COST_META_READ,
	COST_META_WRITE,
	COST_CLASSES
};
#define COST_CLASSES_SHOWN COST_META_READ /* classes below this one have their own statistics */

struct cost {
	enum cost_class cls;
	uint32_t ops;
	uint64_t bytes; /* COST_COPY: bytes in each direction */
};

/* The class under which statistics show `cls`. */
enum cost_class cost_class_shown(enum cost_class cls);
/* "meta", "readdir", "read", "write", "openclose", "copy": stable, used in statistics. */
const char *cost_class_name(enum cost_class cls);

#endif
