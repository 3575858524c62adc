/* SPDX-License-Identifier: MIT */
/* Work that may wait for a disk and therefore runs beside the event loop: each task has a thread
 * of its own, and its results are applied on the main thread.
 *
 *	main: task_start ─▶ thread: run ─▶ tasks->wake_fd ─▶ main: tasks_collect ─▶ done
 *
 * A task that hangs occupies nothing but its thread.  If no thread can be created, a spare one, which exists from the start,
 * performs the tasks one after the other; the main thread never does. */
#ifndef DAEMON_TASK_H
#define DAEMON_TASK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/list.h"

struct task {
	void (*run)(struct task *t);  /* on its thread; may hang */
	void (*done)(struct task *t); /* on the main thread; may start or free the task */
	struct tasks *tasks;
	struct list link;
};

struct tasks {
	pthread_mutex_t lock;
	pthread_cond_t some;	       /* something waits, or `ending` */
	struct list finished, waiting; /* lock; waiting: for a thread */
	bool ending;		       /* lock */
	bool has_spare;
	pthread_t spare;
	int wake_fd; /* an eventfd, readable when something has finished; -1: none */
};

void tasks_init(struct tasks *t, int wake_fd);
int tasks_open(struct tasks *t);   /* before the first task; 0 or -errno: there are no threads */
void tasks_close(struct tasks *t); /* after the last task */
void task_start(struct tasks *t, struct task *task);
/* Call when wake_fd is readable, and regularly while there are tasks. */
void tasks_collect(struct tasks *t);

#endif
