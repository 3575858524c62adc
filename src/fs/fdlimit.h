/* SPDX-License-Identifier: MIT */
/* Shares RLIMIT_NOFILE between all mirrors of the process.
 * Files that clients have open take precedence.  Fds that merely keep an inode at hand are closed when both
 * together come near the limit.  A reserve is kept for pipes, /proc and the like. */
#ifndef FS_FDLIMIT_H
#define FS_FDLIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fs;
struct inode_table;

/* Raises the soft limit to the hard limit.  May be called more than once. */
void fdlimit_init(void);
/* For tests: as if RLIMIT_NOFILE were `max`. */
void fdlimit_set(uint64_t max);

void fdlimit_add(struct fs *fs, struct inode_table *t);
void fdlimit_remove(struct inode_table *t);

void fdlimit_inode_fds(int n);
/* Counts one more open file of a user.  False: the user may not have it.  A user who has at least as many
 * files open as fds are left may not use the last quarter of them, so that one user cannot keep the others from
 * opening files.  Root may use all but the last sixteenth. */
bool fdlimit_client_try(uid_t uid);
void fdlimit_client_add(uid_t uid); /* always counts it */
void fdlimit_client_done(uid_t uid);

/* Counts one more inode fd that cannot be closed, because its file has no name any more.  False:
 * there are too many; this one may be closed like any other, and the file may become stale for a
 * caller that holds it only by O_PATH. */
bool fdlimit_pin_try(void);
void fdlimit_pin_done(void);

/* Closes inode fds until the counts are within bounds again. */
void fdlimit_keep(void);
/* Closes up to n inode fds; false: none could be closed. */
bool fdlimit_make_room(unsigned n);

/* Closes the fd of one inode of this table; false: none can be closed.  In inode_table.c. */
bool inode_table_close_one(struct fs *fs);

#endif
