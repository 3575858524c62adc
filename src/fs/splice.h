/* SPDX-License-Identifier: MIT */
/* Reads whose data goes from the backing file to the kernel by reference instead of through a
 * buffer of ours: about a sixth less CPU for requests between SPLICE_MIN and SPLICE_MAX.  Below,
 * the extra system call costs more than the copy; above, the data does not fit into a pipe.
 * The pipe belongs to the thread. */
#ifndef FS_SPLICE_H
#define FS_SPLICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SPLICE_MIN (128U << 10)
#define SPLICE_MAX ((1U << 20) - (16U << 10))

/* Reads `size` bytes of fd at off and sends them as the answer to `unique`.  True: answered, and
 * fs_context says how.  False: nothing has happened, read it the plain way. */
bool splice_read(int dev_fd, uint64_t unique, int fd, uint32_t size, off_t off);

/* Closes the thread's pipe. */
void splice_thread_stop(void);

#endif
