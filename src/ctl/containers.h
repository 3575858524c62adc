/* SPDX-License-Identifier: MIT */
/* Which containers have a ratefs mount in their file system, by a look at /proc alone: no container engine is asked, and it
 * works for all of them.
 *
 * A container is a mount namespace.  Its ID is the 64 hexadecimal digits in the cgroup of its processes, as Docker, Podman
 * and containerd write them; a sandbox without (bubblewrap, unshare) has none. */
#ifndef CTL_CONTAINERS_H
#define CTL_CONTAINERS_H

#include <stdbool.h>
#include <sys/types.h>

#define CONTAINER_ID_LEN 64

/* A ratefs mount in a mount namespace.  Texts live until the callback returns. */
struct container_mount {
	dev_t device;	       /* the same wherever the mount appears */
	const char *source;    /* fsname */
	const char *where;     /* as the processes of the namespace see it */
	const char *container; /* its ID; "": none */
	pid_t pid;	       /* a process there */
	bool own;	       /* the namespace of the caller */
};

/* Calls `each` for all that the caller may see: root sees all.  False: /proc cannot be read, or no memory. */
bool containers_each(void (*each)(void *ctx, const struct container_mount *m), void *ctx);

/* The ID in the text of a /proc/PID/cgroup; false: there is none. */
bool container_id(const char *cgroups, char id[CONTAINER_ID_LEN + 1]);

/* Reads a line of mountinfo, and cuts it up; false: it is no ratefs mount. */
bool container_mount_parse(char *line, struct container_mount *m);

#endif
