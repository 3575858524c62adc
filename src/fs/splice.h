/* SPDX-License-Identifier: MIT */
/* Replies to large reads with splice, so that the data is not copied through a buffer of the
 * daemon.  This saves about a sixth of the CPU time for requests between SPLICE_MIN and
 * SPLICE_MAX.  For smaller ones the extra system call costs more than the copy; larger ones do not
 * fit into a pipe.  Each thread has its own pipe. */
#ifndef FS_SPLICE_H
#define FS_SPLICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SPLICE_MIN (128U << 10)
#define SPLICE_MAX ((1U << 20) - (16U << 10))

/* Reads `size` bytes of fd at off and sends them as the answer to `unique`.  Returns how many
 * bytes, or -1: nothing was sent; read it with pread. */
ssize_t splice_read(int dev_fd, uint64_t unique, int fd, uint32_t size, off_t off);

/* Opens the thread's pipe, if the daemon is root.  Must run while the thread acts as root: callers may not be
 * allowed pipes of this size, or as many. */
void splice_thread_start(void);
void splice_thread_stop(void);

#endif
