/* SPDX-License-Identifier: MIT */
/* Runs fusermount3 to unmount for users, whom the kernel does not allow to.
 *
 * Another thread may be mounting through libfuse meanwhile, which changes the environment (setenv). So nothing
 * here reads the environment after fusermount_init. */
#ifndef BASE_FUSERMOUNT_H
#define BASE_FUSERMOUNT_H

/* Remembers PATH.  Call it before there are threads; without it, the system's default is used. */
void fusermount_init(void);

/* Detaches the mount at a path; does not follow a link in its last component.  fusermount3 checks that the mount is
 * the caller's.  0 or -errno; -EPERM also means that fusermount3 refused. */
int fusermount_detach(const char *path);

#endif
