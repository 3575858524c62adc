/* SPDX-License-Identifier: MIT */
/* Cgroups as numbers.  A cgroup's id is a hash of its path, so that weights can name cgroups that do not
 * exist yet. */
#ifndef FS_CGROUP_H
#define FS_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The id of a cgroup, from its path ("/ci/job1"). */
uint64_t cgroup_id(const char *path);

/* Remembers the path of an id, for cgroup_path. */
void cgroup_remember(uint64_t id, const char *path);
/* False: no request of this cgroup has been seen recently. */
bool cgroup_path(uint64_t id, char *buf, size_t size);

/* Finds the path in the text of a /proc/PID/cgroup, and ends it there.  NULL: there is none.  A process can be in several
 * hierarchies, of which some may be unused: systemd's of cgroup v1 is asked first, then v2, then the others; the first in which
 * the process is not in the root is taken. */
char *cgroup_parse(char *text);
/* Describes for people which hierarchies such a text mentions. */
const char *cgroup_hierarchies(const char *text);

#endif
