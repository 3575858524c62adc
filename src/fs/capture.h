/* SPDX-License-Identifier: MIT */
/* Captures what a helper program (fusermount3) writes to standard error, so that ratefs can report it in its
 * own message. */
#ifndef FS_CAPTURE_H
#define FS_CAPTURE_H

#include "base/error.h"

struct capture {
	int from, saved; /* -1: not capturing */
};

/* Redirects standard error of the whole process to a pipe. */
void capture_begin(struct capture *o);
/* Restores it.  If anything was written, `first` gets its first line. */
void capture_end(struct capture *o, struct error *first);

#endif
