/* SPDX-License-Identifier: MIT */
/* Records as text for people. */
#ifndef DAEMON_RENDER_H
#define DAEMON_RENDER_H

#include <stdio.h>

#include "daemon/records.h"

void render_list_head(FILE *out);
bool render_list(const struct records *r, FILE *out); /* true: a limit is marked by '*' */
void render_list_foot(FILE *out);		      /* says what the mark means */
/* After `class list`. */
void render_classes(const struct records *r, FILE *out);
void render_show(const struct records *r, FILE *out);
/* `before` (NULL: none): the same a while ago; then rates per second are shown, too. */
void render_stats(const struct records *r, const struct records *before, FILE *out);
/* After `set`: the values as they were understood; and after `pause`. */
void render_set(const struct records *r, FILE *out, FILE *warnings);
void render_pause(const struct records *r, FILE *out);

/* Puts the names of users and groups where the daemon could not. */
void render_names(struct records *r);

/* "10.0M", "1.5s", at most 9 characters. */
#define RENDER_MAX 24
char *render_amount(double n, double base, char buf[RENDER_MAX]);
/* "iops" or, of another scope, "fs.iops", "class:backup.iops": the i-th of the list of limits at `path`. */
#define RENDER_NAME_MAX 80
char *render_limit_name(const struct records *r, const char *path, unsigned i,
			char buf[RENDER_NAME_MAX]);
/* " iops=200 global.bps=10M*": those of the list at `path`, without classes or (class not NULL) of this
 * class alone; true: one is marked. */
bool render_limits(const struct records *r, const char *path, const char *class, FILE *out);
/* The name of a user; what a process is running ("gone" when it is). */
char *render_user(uint64_t uid, char buf[RENDER_MAX]);
char *render_process(uint64_t pid, char buf[RENDER_MAX]);
char *render_ns(uint64_t ns, char buf[RENDER_MAX]);

#endif
