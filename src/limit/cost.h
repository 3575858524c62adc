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
	COST_COPY, /* Read and Write at once: copy_file_range */
	COST_CLASSES
};

struct cost {
	enum cost_class cls;
	uint32_t ops;
	uint64_t bytes; /* COST_COPY: bytes in each direction */
};

/* "meta", "readdir", "read", "write", "openclose", "copy": stable, used in statistics. */
const char *cost_class_name(enum cost_class cls);

#endif
