/* SPDX-License-Identifier: MIT */
#include "fs/fdpile.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "fs/fdlimit.h"
#include "sched/thread.h"

#define PILES_MAX 8 /* per process: each occupies a thread while it is being closed */

static _Atomic unsigned piles;

struct fd_pile *fd_pile_new(void)
{
	struct fd_pile *p = NULL;
	if (atomic_fetch_add(&piles, 1) < PILES_MAX)
		p = malloc(sizeof(*p));
	if (p)
		p->n = 0;
	else
		atomic_fetch_sub(&piles, 1);
	return p;
}

/* Does not refer to the mount, so that the mount can end while closing takes long. */
static void *close_all(void *arg)
{
	struct fd_pile *p = arg;
	while (p->n) {
		close(p->fd[--p->n]);
		fdlimit_inode_fds(-1);
	}
	free(p);
	atomic_fetch_sub(&piles, 1);
	return NULL;
}

void fd_pile_close(struct fd_pile *p)
{
	pthread_t t;
	fdlimit_inode_fds((int)p->n);
	if (p->n && thread_spawn(&t, "ratefs-close", close_all, p) == 0)
		pthread_detach(t);
	else
		close_all(p);
}
