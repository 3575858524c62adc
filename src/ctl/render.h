/* SPDX-License-Identifier: MIT */
/* Answers as text for people. */
#ifndef CTL_RENDER_H
#define CTL_RENDER_H

#include <stdio.h>

#include "base/text.h"
#include "proto/json_in.h"

/* Call first: adds the names of users and groups, which the daemon does not look up, and removes "ok".  `people`: also
 * makes every text safe for a terminal, since names of processes and files may contain control characters. */
void render_prepare(json_t *answer, bool people);

void render_list_head(FILE *out);
bool render_list(const json_t *answer, FILE *out); /* true: a limit is marked by '*' */
void render_list_foot(FILE *out);		   /* says what the mark means */
/* After `class list`. */
void render_classes(const json_t *answer, FILE *out);
void render_show(const json_t *answer, FILE *out);
void render_stats(const json_t *answer, FILE *out);
/* `before` (may be NULL): an earlier answer; then rates per second are shown, too. */
void render_stats_since(const json_t *answer, const json_t *before, FILE *out);
/* After `set`: the new values in canonical form, and warnings on stderr. */
void render_set(const json_t *answer, FILE *out);
/* After `pause`. */
void render_pause(const json_t *answer, FILE *out);

/* The name of a limit of "limits_met": "iops" or, if its scope is not that of `answer`, "fs.iops",
 * "class:backup.iops". */
#define RENDER_NAME_MAX 80
char *render_limit_name(const json_t *answer, const json_t *limit, char buf[RENDER_NAME_MAX]);
/* Prints " iops=200 global.bps=10M*": the limits of the list that belong to this class, or if class
 * is NULL to no class.  True: one is marked by '*'. */
bool render_limits(const json_t *answer, const json_t *limits, const char *class, FILE *out);
/* The name of a user; the program that a process runs, or "gone" if it has exited. */
char *render_user(uint64_t uid, char buf[TEXT_AMOUNT_MAX]);
char *render_process(uint64_t pid, char buf[TEXT_AMOUNT_MAX]);

#endif
