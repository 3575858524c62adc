/* SPDX-License-Identifier: MIT */
/* /proc/PID/mountinfo, read once: tells which mount a path is on without accessing the path. */
#ifndef BASE_MOUNTINFO_H
#define BASE_MOUNTINFO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mount_line {
	uint64_t id;
	dev_t device;
	char *where, *type;
};

struct mountinfo {
	struct mount_line *mount; /* in the order of the file: later ones are on top */
	unsigned n;
};

/* False: the file cannot be read, or out of memory.  Call mountinfo_free in either case. */
bool mountinfo_read(struct mountinfo *m, const char *file);
void mountinfo_free(struct mountinfo *m);

/* The mount that contains an absolute path without symbolic links and dots; NULL: none. */
const struct mount_line *mountinfo_of(const struct mountinfo *m, const char *path);
const struct mount_line *mountinfo_by_id(const struct mountinfo *m, uint64_t id);
/* The device of that mount; 0: none. */
dev_t mountinfo_device(const struct mountinfo *m, const char *path);
/* The device of what is mounted at exactly this path; false: nothing is. */
bool mountinfo_find(const struct mountinfo *m, const char *mountpoint, dev_t *device);

#endif
