/* SPDX-License-Identifier: MIT */
/* The private mount namespace of `ratefs run`: entering it, what is mounted there, who lives in it.
 * Everything here is for a process with one thread. */
#ifndef DAEMON_RUN_SPACE_H
#define DAEMON_RUN_SPACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"
#include "daemon/settings.h"

/* Another filesystem that is mounted inside one of the directories. */
struct run_submount {
	int dir_fd;   /* the directory itself, below our mount */
	char *where;  /* absolute */
	size_t below; /* where + below: relative to dir_fd */
};

struct run_space {
	bool user_namespace;
	uint64_t capabilities; /* that we had before: the command gets no others */
	int *dir_fd;
	unsigned n_dirs;
	struct run_submount *sub;
	unsigned n_subs;
};

/* A user namespace, where mounting takes one: then only the caller's own user and group exist in it.
 * Before the daemon is started.  0 or -1 with err: what to enable. */
int run_space_begin(struct run_space *s, struct error *err);
/* The mount namespace, and a mount over every directory of the configuration; after the daemon is
 * started.  fd[i] is the connection of mount i.  0 or -1 with err. */
int run_space_mount(struct run_space *s, const struct configuration *c, int *fd, struct error *err);
/* Once the mounts answer: shows the submounts again.  They are not throttled; *names are theirs, in
 * one line, or NULL; to be freed. */
int run_space_show_submounts(struct run_space *s, char **names, struct error *err);
void run_space_unmount(const struct configuration *c);
void run_space_free(struct run_space *s);

/* Other processes in our mount namespace: how many; the first ones as "PID (name), ..." in `text`. */
unsigned run_space_others(char *text, size_t size);

#endif
