/* SPDX-License-Identifier: MIT */
/* Looks at the source of a volume without waiting for one that hangs, such as a directory on NFS: a thread of its own looks.
 *
 * Locking	calls are serialized by the caller.
 * Errors	-1 with err. */
#ifndef CTL_VOLUME_PROBE_H
#define CTL_VOLUME_PROBE_H

#include <sys/stat.h>

#include "base/error.h"

#define VOLUME_PROBE_S 3

/* Checks a source (volume_check_source) and finds its directory (volume_stat_source).  *path is to be freed.  If the source
 * has not answered within VOLUME_PROBE_S, it is refused, immediately so as long as the thread still hangs. */
int volume_probe(const char *source, char *const *allowed, unsigned n_allowed, char **path,
		 struct stat *st, struct error *err);

#endif
