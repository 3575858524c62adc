/* SPDX-License-Identifier: MIT */
/* Local variables that are closed or freed when they go out of scope.  take_fd and take_ptr take
 * the value out, so that it is kept.
 *
 *	AUTO_FD fd = openat(dir_fd, name, O_PATH | O_CLOEXEC);
 *	if (fd < 0)
 *		return -errno;
 *	return take_fd(&fd);
 *
 * Cleaning up preserves errno. */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_fd(int *fd)
{
	if (*fd >= 0) {
		int saved = errno;
		close(*fd);
		errno = saved;
	}
}

static inline void cleanup_free(void *p)
{
	int saved = errno;
	free(*(void **)p);
	errno = saved;
}

static inline void cleanup_file(FILE **f)
{
	if (*f) {
		int saved = errno;
		fclose(*f);
		errno = saved;
	}
}

static inline void cleanup_dir(DIR **d)
{
	if (*d) {
		int saved = errno;
		closedir(*d);
		errno = saved;
	}
}

#define AUTO_FD	  __attribute__((cleanup(cleanup_fd))) int
#define AUTO_FREE __attribute__((cleanup(cleanup_free)))
#define AUTO_FILE __attribute__((cleanup(cleanup_file))) FILE *
#define AUTO_DIR  __attribute__((cleanup(cleanup_dir))) DIR *

static inline int take_fd(int *fd)
{
	int out = *fd;
	*fd = -1;
	return out;
}

static inline void *take_ptr_(void *pp)
{
	void *out = *(void **)pp;
	*(void **)pp = NULL;
	return out;
}
#define take_ptr(pp) ((__typeof__(*(pp)))take_ptr_(pp))

#endif
