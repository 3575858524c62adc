/* SPDX-License-Identifier: MIT */
/* Blocks that XFS preallocates beyond the end of files that grow, often as many as the file already has.
 *
 * XFS frees them some minutes after the last write, except those of files for which a program once requested blocks
 * (fallocate) or which can only be appended to; those stay. */
#ifndef FS_SPACE_TRIM_H
#define FS_SPACE_TRIM_H

#include <stdbool.h>
#include <sys/types.h>

/* Frees the preallocated blocks of all files of the filesystem, and reservations for copy on write.  No data can be lost,
 * because XFS locks each file; truncating a file to its own size instead would race with writers.  fd: any file of the
 * filesystem, not O_PATH.  False: not XFS, or no CAP_SYS_ADMIN. */
bool trim_filesystem(int fd);
/* True: trim_filesystem would work.  Frees nothing. */
bool trim_is_possible(int fd);
/* True: XFS does not free the preallocated blocks of this file. */
bool trim_is_useless(int fd);
/* For such a file, before a write: requests exactly the blocks that it needs, so that XFS preallocates none. */
void trim_prevent(int fd, off_t off, size_t size);

#endif
