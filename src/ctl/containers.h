/* SPDX-License-Identifier: MIT */
/* Finds the containers that have a ratefs mount, from /proc alone: it asks no container engine and works with all of
 * them.
 *
 * A container is a mount namespace.  Its ID is the 64 hexadecimal digits in the cgroup of its processes, as Docker, Podman
 * and containerd write them; a sandbox without such a cgroup (bubblewrap, unshare) has no ID. */
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
	pid_t pid;	       /* a process in the namespace */
	bool own;	       /* the namespace of the caller */
};

/* Calls `each` for all mounts that the caller can see; root sees all.  False: /proc cannot be read, or out of memory. */
bool containers_each(void (*each)(void *ctx, const struct container_mount *m), void *ctx);

/* The ID in the text of a /proc/PID/cgroup; false: there is none. */
bool container_id(const char *cgroups, char id[CONTAINER_ID_LEN + 1]);

/* True: the mount is where the host has it, or at this place in a copy of the host's tree, such as the /rootfs of a container
 * that watches the host. */
bool container_mount_is_hosts(const struct container_mount *m, const char *mountpoint);

/* Parses a line of mountinfo in place; false: it is not a ratefs mount. */
bool container_mount_parse(char *line, struct container_mount *m);

#endif
