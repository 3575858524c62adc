/* SPDX-License-Identifier: MIT */
/* Reads /proc, mostly /proc/TID/status of a caller.  That file has no fixed size: for a member of
 * 65536 groups it has 700 KiB, and the signal masks come after the groups. */
#ifndef FS_STATUS_H
#define FS_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

/* Reads a short file of /proc with one call, NUL-terminated and truncated to fit.  Returns its
 * length, or -1. */
ssize_t proc_read(const char *path, char *buf, size_t size);

/* The whole text, to be freed; NULL: the thread is gone, or out of memory. */
char *status_read(uint32_t tid);

/* The state of a thread of this process as /proc shows it: 'S' while it sleeps until somebody wakes it.  0: unknown. */
char status_of_thread(pid_t tid);

/* The number after a name like "\nTgid:". */
bool status_number(const char *status, const char *name, int base, uint64_t *out);

/* The supplementary groups in *out, to be freed if there are any.  Returns their number, or
 * -ENOMEM. */
int status_groups(const char *status, gid_t **out);

#endif
