/* SPDX-License-Identifier: MIT */
/* The fds of the process, shared by all mirrors in it.
 * The open files of clients come first; fds that only make an inode quicker to reach are let go
 * when the two together come near RLIMIT_NOFILE.  A reserve stays for pipes, /proc and the like. */
#ifndef FS_FDLIMIT_H
#define FS_FDLIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fs;
struct inode_table;

/* Raises the soft limit to the hard one.  Once is enough, more do no harm. */
void fdlimit_init(void);
/* For tests: as if RLIMIT_NOFILE were `max`. */
void fdlimit_set(uint64_t max);

void fdlimit_add(struct fs *fs, struct inode_table *t);
void fdlimit_remove(struct inode_table *t);

void fdlimit_inode_fds(int n);
/* One more open file of a user.  False: the last quarter of the room is not for who already holds
 * as much as is left, so that one user's files do not keep the others from opening theirs; nor is the
 * very last of it for root. */
bool fdlimit_client_try(uid_t uid);
void fdlimit_client_done(uid_t uid);

/* One more inode fd that cannot be let go, because its file has no name any more.  False: there are
 * enough of them; this one is like any other, and whoever holds such a file by O_PATH alone may find
 * it stale. */
bool fdlimit_pin_try(void);
void fdlimit_pin_done(void);

/* Closes inode fds until the counts are in bounds again. */
void fdlimit_keep(void);
/* Closes up to n; false: none could be closed. */
bool fdlimit_make_room(unsigned n);

/* One fd of an inode of this table; false: none can be spared.  In inode.c. */
bool inode_table_close_one(struct fs *fs);

#endif
