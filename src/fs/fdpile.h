/* SPDX-License-Identifier: MIT */
/* Closes many fds on a separate thread.  The last close of a large deleted file frees its blocks, which may
 * take seconds. */
#ifndef FS_FDPILE_H
#define FS_FDPILE_H

#define FD_PILE 4096

struct fd_pile {
	unsigned n;
	int fd[FD_PILE];
};

/* NULL: out of memory, or too many earlier piles are still being closed. */
struct fd_pile *fd_pile_new(void);
/* Takes ownership.  Until the fds are closed they count as fds of inodes (fdlimit.h). */
void fd_pile_close(struct fd_pile *p);

#endif
