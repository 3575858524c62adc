/* SPDX-License-Identifier: MIT */
/* Takes a mount out of the tree: this mount and no other, whatever its path has come to mean.
 *
 * A mount is known by its ID, as found right after mounting.  A path is not enough: something else may
 * have been mounted on top, or a parent renamed and replaced by a link to somebody else's mount.  An
 * open descriptor would name the mount as well, but keeps it busy for umount(8). */
#ifndef FS_DETACH_H
#define FS_DETACH_H

#include <stdbool.h>
#include <stdint.h>

struct mount_place {
	uint64_t id;	    /* as in /proc/self/mountinfo; 0: not known, not ours to take down */
	uint64_t unique_id; /* never used again, unlike id; 0: this kernel has none */
	uint64_t dev;	    /* of its filesystem: nobody else's while that lives */
};

/* What is mounted at `path` now. */
void mount_place_find(struct mount_place *p, const char *path);

/* Whether somebody uses it: a file is open on it, a working directory or another mount lies on it.  Only as far
 * as this mount is concerned, not copies of it in other mount namespaces.  May hang where the way to it does.
 * 1: yes.  0: no, or it is gone.  -1: not known, since this process may not unmount. */
int mount_place_in_use(const struct mount_place *p);

/* Detaches it, lazily.  While other mounts lie on it or in it they would go with it: waits for them
 * until give_up_ns (CLOCK_MONOTONIC) or until *hurry, and then leaves it where it is.
 * 0: it is gone.  -1: it stays, and the log says why. */
int mount_place_detach(const struct mount_place *p, const char *name, uint64_t give_up_ns,
		       const _Atomic bool *hurry);

#endif
