/* SPDX-License-Identifier: MIT */
/* The private mount namespace of `ratefs run`: entering it, mounting in it, and finding the
 * processes in it.  Everything here is for a process with one thread. */
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
	uint64_t capabilities; /* those that we had before; the command gets no others */
	int *dir_fd;
	unsigned n_dirs;
	struct run_submount *sub;
	unsigned n_subs;
};

/* Enters a user namespace if mounting needs one; only the caller's own user and group exist in it.
 * Call it before the daemon is started.  0, or -1 with err: what to enable. */
int run_space_begin(struct run_space *s, struct error *err);
/* Enters the mount namespace and mounts over every directory of the configuration.  Call it after
 * the daemon is started.  fd[i] becomes the connection of mount i.  0, or -1 with err. */
int run_space_mount(struct run_space *s, const struct configuration *c, int *fd, struct error *err);
/* Makes the submounts visible again, unthrottled; call it when the daemon serves the mounts.
 * *names lists them in one line, to be freed, or is NULL if there are none.  0, or -1 with err. */
int run_space_show_submounts(struct run_space *s, char **names, struct error *err);
void run_space_unmount(const struct configuration *c);
void run_space_free(struct run_space *s);

/* Returns the number of other processes in our mount namespace; `text` gets the first ones, as
 * "PID (name), ...". */
unsigned run_space_others(char *text, size_t size);

#endif
