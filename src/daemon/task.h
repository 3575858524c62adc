/* SPDX-License-Identifier: MIT */
/* Work that may wait for a disk, beside the event loop: each task has a thread of its own, and what
 * follows from it is done on the main thread again.
 *
 *	main: task_start ─▶ thread: run ─▶ tasks->wake_fd ─▶ main: tasks_collect ─▶ done
 *
 * A task that hangs holds nothing but its thread. */
#ifndef DAEMON_TASK_H
#define DAEMON_TASK_H

#include <pthread.h>

#include "base/list.h"

struct task {
	void (*run)(struct task *t);  /* on its thread; may hang */
	void (*done)(struct task *t); /* on the main thread; may start or free the task */
	struct tasks *tasks;
	struct list link;
};

struct tasks {
	pthread_mutex_t lock;
	struct list finished; /* lock */
	int wake_fd;	      /* an eventfd, readable when something has finished; -1: none */
};

void tasks_init(struct tasks *t, int wake_fd);
/* Without a thread to be had it is run on the spot. */
void task_start(struct tasks *t, struct task *task);
void tasks_collect(struct tasks *t);

#endif
