/* SPDX-License-Identifier: MIT */
#include "fs/space_trim.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdint.h>
#include <sys/ioctl.h>

/* Of the kernel's xfs_fs.h, which is not among the headers for programs. */
struct eofblocks {
	uint32_t version, flags, uid, gid, project, pad;
	uint64_t min_file_size, pad64[12];
};
#define EOFBLOCKS_VERSION  1
#define EOFBLOCKS_SYNC	   1 /* do not skip files with dirty pages or that are locked at the moment */
#define EOFBLOCKS_MIN_SIZE 16
#define IOC_FREE_EOFBLOCKS _IOR('X', 58, struct eofblocks)

bool trim_is_possible(int fd)
{
	const struct eofblocks none = {.version = EOFBLOCKS_VERSION,
				       .flags = EOFBLOCKS_MIN_SIZE,
				       .min_file_size = INT64_MAX};
	return ioctl(fd, IOC_FREE_EOFBLOCKS, &none) == 0;
}

bool trim_filesystem(int fd)
{
	const struct eofblocks all = {.version = EOFBLOCKS_VERSION, .flags = EOFBLOCKS_SYNC};
	return ioctl(fd, IOC_FREE_EOFBLOCKS, &all) == 0;
}

bool trim_is_useless(int fd)
{
	struct fsxattr x = {0};
	return ioctl(fd, FS_IOC_FSGETXATTR, &x) == 0 &&
	       (x.fsx_xflags & (FS_XFLAG_PREALLOC | FS_XFLAG_APPEND));
}

void trim_prevent(int fd, off_t off, size_t size)
{
	/* If it fails, so does the write, or the blocks are counted afterwards. */
	(void)!fallocate(fd, FALLOC_FL_KEEP_SIZE, off, (off_t)size);
}
