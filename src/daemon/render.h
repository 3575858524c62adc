/* SPDX-License-Identifier: MIT */
/* Records as text for people. */
#ifndef DAEMON_RENDER_H
#define DAEMON_RENDER_H

#include <stdio.h>

#include "daemon/records.h"

void render_list(const struct records *r, FILE *out);
void render_list_head(FILE *out);
void render_show(const struct records *r, FILE *out);
/* `before` (NULL: none): the same a while ago; then rates per second are shown, too. */
void render_stats(const struct records *r, const struct records *before, FILE *out);

/* Puts the names of users and groups where the daemon could not. */
void render_names(struct records *r);

/* "10.0M", "1.5s", at most 9 characters. */
#define RENDER_MAX 24
char *render_amount(double n, double base, char buf[RENDER_MAX]);
char *render_ns(uint64_t ns, char buf[RENDER_MAX]);

#endif
