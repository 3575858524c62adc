/* SPDX-License-Identifier: MIT */
/* How many new blocks a change of a file's data needs, from the map of its blocks. */
#ifndef FS_SPACE_MAP_H
#define FS_SPACE_MAP_H

#include <stdint.h>

/* A change of [from, to) of the file. */
struct map_range {
	uint64_t from, to;
	uint64_t block; /* bytes that the filesystem allocates at a time */
	uint64_t cap;	/* what lies beyond it is new, whatever the map says */
};

/* The bytes of blocks in it that have none yet. */
uint64_t map_missing(int fd, const struct map_range *r);
/* Where the range has to end so that no more than `room` bytes of blocks are missing in it. */
uint64_t map_fitting(int fd, const struct map_range *r, uint64_t room);

#endif
