/* SPDX-License-Identifier: MIT */
#include "fs/space_map.h"

#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fs/space_count.h"

#define EXTENTS 32

/* The functions below find the first hole at or after `at` and before `end`.  1: *h is that hole;
 * 0: there is none. */
struct hole {
	uint64_t from, to;
};

/* FIEMAP reports preallocated blocks as allocated; SEEK_HOLE and SEEK_DATA treat them as holes. */
static int next_hole_fiemap(int fd, uint64_t at, uint64_t end, struct hole *h)
{
	union {
		struct fiemap map;
		char room[sizeof(struct fiemap) + EXTENTS * sizeof(struct fiemap_extent)];
	} u;
	for (;;) {
		memset(&u, 0, sizeof(u));
		u.map.fm_start = at;
		u.map.fm_length = end - at;
		u.map.fm_extent_count = EXTENTS;
		if (ioctl(fd, FS_IOC_FIEMAP, &u.map) < 0)
			return -errno;
		for (unsigned i = 0; i < u.map.fm_mapped_extents; i++) {
			const struct fiemap_extent *e = &u.map.fm_extents[i];
			if (e->fe_logical > at) {
				*h = (struct hole){at, min_u64(e->fe_logical, end)};
				return 1;
			}
			at = max_u64(at, e->fe_logical + e->fe_length);
			if (at >= end)
				return 0;
			if (e->fe_flags & FIEMAP_EXTENT_LAST) {
				*h = (struct hole){at, end};
				return 1;
			}
		}
		if (u.map.fm_mapped_extents < EXTENTS) {
			*h = (struct hole){at, end};
			return 1;
		}
	}
}

static int next_hole_seek(int fd, uint64_t at, uint64_t end, struct hole *h)
{
	off_t hole = lseek(fd, (off_t)at, SEEK_HOLE);
	if (hole < 0) { /* beyond the end of the file, or not supported by the source */
		*h = (struct hole){at, end};
		return 1;
	}
	if ((uint64_t)hole >= end)
		return 0;
	off_t data = lseek(fd, hole, SEEK_DATA);
	*h = (struct hole){(uint64_t)hole, data < 0 ? end : min_u64((uint64_t)data, end)};
	return 1;
}

static int next_hole(int fd, uint64_t at, uint64_t end, struct hole *h)
{
	int found = next_hole_fiemap(fd, at, end, h);
	return found < 0 ? next_hole_seek(fd, at, end, h) : found;
}

/* Adds up missing blocks until they exceed room; returns that position, or the end of the range. */
static uint64_t walk(int fd, const struct map_range *r, uint64_t room, uint64_t *missing)
{
	uint64_t at = r->from - r->from % r->block, end = space_round_up(r->to, r->block);
	uint64_t cap = min_u64(max_u64(space_round_up(r->cap, r->block), at), end);
	*missing = 0;
	while (at < end) {
		struct hole h = {at, end};
		if (at < cap && !next_hole(fd, at, cap, &h)) {
			at = cap;
			continue;
		}
		if (at < cap) { /* whole blocks; a hole that reaches cap continues to the end */
			h.from = max_u64(at, h.from - h.from % r->block);
			h.to = h.to >= cap ? end : space_round_up(h.to, r->block);
		}
		if (*missing + (h.to - h.from) > room)
			return h.from + (room - *missing) / r->block * r->block;
		*missing += h.to - h.from;
		at = h.to;
	}
	return r->to;
}

uint64_t map_missing(int fd, const struct map_range *r)
{
	uint64_t missing;
	walk(fd, r, UINT64_MAX, &missing);
	return missing;
}

uint64_t map_fitting(int fd, const struct map_range *r, uint64_t room)
{
	uint64_t missing, end = walk(fd, r, room, &missing);
	return max_u64(r->from, min_u64(end, r->to));
}
