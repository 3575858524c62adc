/* SPDX-License-Identifier: MIT */
/* How many new blocks a change of a file's data needs, according to its block map. */
#ifndef FS_SPACE_MAP_H
#define FS_SPACE_MAP_H

#include <stdint.h>

/* A change of [from, to) of the file. */
struct map_range {
	uint64_t from, to;
	uint64_t block; /* unit of allocation in bytes */
	uint64_t cap;	/* everything beyond it is new, even if the map has blocks there */
};

/* The bytes of blocks in the range that are not allocated yet. */
uint64_t map_missing(int fd, const struct map_range *r);
/* Where the range has to end so that at most `room` bytes of its blocks are missing. */
uint64_t map_fitting(int fd, const struct map_range *r, uint64_t room);

#endif
