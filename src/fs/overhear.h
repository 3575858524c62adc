/* SPDX-License-Identifier: MIT */
/* What a helper program (fusermount3) says on standard error while it works for us, so that it can
 * become part of our own message instead of a second one. */
#ifndef FS_OVERHEAR_H
#define FS_OVERHEAR_H

#include "base/error.h"

struct overhear {
	int from, saved; /* -1: not listening */
};

/* Standard error of the whole process is a pipe from here on … */
void overhear_begin(struct overhear *o);
/* … to here.  `first` gets the first line that was said; otherwise it stays as it is. */
void overhear_end(struct overhear *o, struct error *first);

#endif
