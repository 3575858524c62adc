/* SPDX-License-Identifier: MIT */
/* A client that waits for mounts to be made or ended.  After AWAIT_MS the client gets a reply that
 * says what is still in progress, and the mounts continue without it. */
#ifndef DAEMON_AWAIT_H
#define DAEMON_AWAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define AWAIT_MS 5000

struct command_reply;
struct ending;
struct registry;
struct served_mount;

struct await_item {
	char *name;
	uint64_t ending; /* the serial of its struct ending; 0: it is being mounted */
};

struct await {
	struct await_item *item;
	unsigned n;
	int64_t until_ms;
	uint64_t reload; /* the serial of a reload, whose mounts are reported as notes; 0: it is none */
};

bool await_mount(struct await *a, const struct served_mount *m);
bool await_unmount(struct await *a, const struct ending *e);
void await_free(struct await *a);

bool await_is_over(struct registry *r, const struct await *a);
void await_report(struct registry *r, struct await *a, struct command_reply *reply);

#endif
