/* SPDX-License-Identifier: MIT */
/* Detaches a mount from the tree: exactly this mount, whatever its path leads to by now.
 *
 * A mount is identified by its ID, as found right after mounting.  A path is not enough: something else
 * may have been mounted on top of it, or a parent directory may have been renamed and replaced by a
 * link to another user's mount.  An open descriptor would identify the mount as well, but would
 * keep it busy for umount(8). */
#ifndef FS_DETACH_H
#define FS_DETACH_H

#include <stdbool.h>
#include <stdint.h>

struct mount_place {
	uint64_t id;	    /* as in /proc/self/mountinfo; 0: unknown, do not unmount */
	uint64_t unique_id; /* never reused, unlike id; 0: this kernel has none */
	uint64_t dev;	    /* of its filesystem: unique while that exists */
};

/* Finds what is mounted at `path` now. */
void mount_place_find(struct mount_place *p, const char *path);

/* Whether the mount is in use: a file is open on it, or a working directory or another mount is on
 * it.  Copies of it in other mount namespaces are not considered.  May hang if a filesystem on the
 * path to it hangs.  1: yes.  0: no, or it is gone.  -1: unknown, since this process may not
 * unmount. */
int mount_place_in_use(const struct mount_place *p);

/* Detaches the mount lazily.  Other mounts on it or in it would be detached with it: waits until
 * they are gone, but only until give_up_ns (CLOCK_MONOTONIC) or until *hurry is set; then it leaves
 * the mount in place.  0: it is gone.  -1: it remains, and the log says why. */
int mount_place_detach(const struct mount_place *p, const char *name, uint64_t give_up_ns,
		       const _Atomic bool *hurry);

#endif
