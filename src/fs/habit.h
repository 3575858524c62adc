/* SPDX-License-Identifier: MIT */
/* Guesses whether a program that lists a directory also wants attributes.
 *
 * A reply with attributes costs a few microseconds per entry; a stat without cached attributes costs a
 * whole round trip.  Programs read all names before their first stat, so nothing can be learned within
 * one directory.  Hence attributes are sent, except for one entry in HABIT_SAMPLE.  If a program
 * continues with other directories without having asked for any of those, it wants names only, until
 * it asks.  (The kernel's own heuristic, READDIRPLUS_AUTO, sends attributes with the first reply of
 * each directory: `ls -l` then pays a round trip for nearly every file.)
 *
 * Lock-free and approximate: a lost update costs time, but never correctness. */
#ifndef FS_HABIT_H
#define FS_HABIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HABIT_SLOTS  256
#define HABIT_SAMPLE 32
/* This many entries omitted and not asked for make a habit. */
#define HABIT_UNASKED 4

struct habits {
	_Atomic uint64_t slots[HABIT_SLOTS];
};

/* The thread starts to read a directory. */
void habit_begin(struct habits *h, pid_t tid);
/* Should this entry, which is not a directory, have its attributes? */
bool habit_wants_attributes(struct habits *h, pid_t tid);
/* The thread asked for the attributes of something that is not a directory. */
void habit_asked(struct habits *h, pid_t tid);

#endif
