/* SPDX-License-Identifier: MIT */
/* Work that may wait for a disk and therefore runs beside the event loop: each task has a thread
 * of its own, and its results are applied on the main thread.
 *
 *	main: task_start ─▶ thread: run ─▶ tasks->wake_fd ─▶ main: tasks_collect ─▶ done
 *
 * A task that hangs occupies nothing but its thread. */
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
/* If no thread can be created, the task is run immediately on the calling thread. */
void task_start(struct tasks *t, struct task *task);
void tasks_collect(struct tasks *t);

#endif
