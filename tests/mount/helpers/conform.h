/* SPDX-License-Identifier: MIT */
/* conform TOPIC…: does what programs do to a filesystem, in the current directory, and prints what
 * happened.  Run once on the backing directory and once on the mount; the two traces must be equal.
 * What POSIX and Linux demand of every filesystem is also checked on the spot (MUST, DENIED), so a
 * test that does not do what it says fails on the backing directory already.
 *
 *	MUST(mkdir("d", 0755));			must work
 *	DENIED(EEXIST, mkdir("d", 0755));	must fail so
 *	TRY(fallocate(fd, mode, 0, 1));		whatever the backing filesystem says
 *	CHANGES("cm", "d", mkdir("d/x", 0755));	must work and move exactly these times of d
 *	show("d");				type, mode, owner, links, size */
#ifndef CONFORM_H
#define CONFORM_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { ROOT = 0, ALICE = 1001, BOB = 1002, CAROL = 1003, CREW = 2000 };

struct topic {
	const char *name;
	void (*run)(void);
	bool alone; /* only when named: needs a filesystem prepared for it */
};
extern const struct topic topics_names[], topics_paths[], topics_rename[], topics_owner[],
	topics_access[], topics_times[], topics_data[], topics_space[], topics_attr[],
	topics_locks[], topics_dirs[], topics_special[];

/* Become root, alice or bob (both in group CREW) or carol (in no group but her own). */
void as(uid_t who);

void trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Traces `text` = result and returns it; want: 0 must work, > 0 that errno, < 0 whatever. */
long traced(const char *text, long result, int want);
void show(const char *path);
void show_data(int fd); /* length and contents, summed up */
const char *errno_name(int err);
bool on_tmpfs(void);

#define TRY(expr)	  traced(#expr, (long)(expr), -1)
#define MUST(expr)	  traced(#expr, (long)(expr), 0)
#define DENIED(err, expr) traced(#expr, (long)(expr), err)
/* File descriptors: "0" instead of the number. */
#define MUST_FD(expr) keep_fd(#expr, (expr), 0)
#define TRY_FD(expr)  keep_fd(#expr, (expr), -1)
int keep_fd(const char *text, int fd, int want);

struct times {
	struct timespec a, m, c;
};
struct times times_before(const char *path);
void times_after(const char *text, const char *which, const char *path, const struct times *t);
#define CHANGES(which, path, expr)                                                                 \
	do {                                                                                       \
		struct times before_ = times_before(path);                                         \
		MUST(expr);                                                                        \
		times_after(#expr, which, path, &before_);                                         \
	} while (0)

/* Calls that take a path, by name. */
struct call {
	const char *name;
	int (*run)(const char *path);
};
extern const struct call calls[];
extern const size_t n_calls;
int call(const char *name, const char *path);

/* Small makers; they must work. */
void make_file(const char *path, mode_t mode);
void make_owned(const char *path, mode_t type_and_mode, uid_t uid, gid_t gid);
void remove_all(const char *path);
void write_all(int fd, const char *text);
void fill(char *buf, size_t len, unsigned seed);

#endif
