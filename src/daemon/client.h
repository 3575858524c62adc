/* SPDX-License-Identifier: MIT */
/* ratefsctl's side of the control socket. */
#ifndef DAEMON_CLIENT_H
#define DAEMON_CLIENT_H

#include <sys/types.h>

#include "base/error.h"
#include "daemon/records.h"

struct mount_ref {
	char *name;
	dev_t device;
};

struct daemon_ref {
	int fd;
	char *path;		  /* of its socket */
	char *error;		  /* its last one, however long */
	struct mount_ref *in_use; /* mounts that it named with that */
	unsigned n_in_use;
};

struct daemons {
	struct daemon_ref *daemon;
	unsigned n;
};

/* All daemons of this user, or the one that `which` names: the path of its socket, or its process
 * id.  -1 with err: none. */
int daemons_find(struct daemons *d, const char *which, struct error *err);
void daemons_free(struct daemons *d);

/* One request.  0, or the daemon's error code (PROTO_*) with err. */
int daemon_ask(struct daemon_ref *d, int n, const char *const *word, struct records *out,
	       struct error *err);

/* Which daemon has the target, and under which name (to be freed); a path stands for the mount that it
 * is on.  0, or PROTO_NO_TARGET (none or more than one) with err. */
int daemons_locate(struct daemons *d, const char *target, struct daemon_ref **found, char **name,
		   struct error *err);

#endif
