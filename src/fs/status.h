/* SPDX-License-Identifier: MIT */
/* Reading /proc, mostly /proc/TID/status of a caller.  That file has no fixed size: a member of 65536
 * groups has 700 KiB of it, and the signal masks come after the groups. */
#ifndef FS_STATUS_H
#define FS_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

/* Reads a short file of /proc in one go, NUL-terminated and cut to fit.  Its length, or -1. */
ssize_t proc_read(const char *path, char *buf, size_t size);

/* The whole text, to be freed; NULL: the thread is gone, or no memory. */
char *status_read(uint32_t tid);

/* The number behind a name like "\nTgid:". */
bool status_number(const char *status, const char *name, int base, uint64_t *out);

/* The supplementary groups in *out, to be freed, where there are any.  Their number, or -ENOMEM. */
int status_groups(const char *status, gid_t **out);

#endif
