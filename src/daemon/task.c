/* SPDX-License-Identifier: MIT */
#include "daemon/task.h"

#include <stdint.h>
#include <unistd.h>

#include "base/log.h"

void tasks_init(struct tasks *t, int wake_fd)
{
	pthread_mutex_init(&t->lock, NULL);
	list_init(&t->finished);
	t->wake_fd = wake_fd;
}

static void *task_main(void *arg)
{
	struct task *task = arg;
	struct tasks *t = task->tasks;
	const uint64_t one = 1;
	task->run(task);
	pthread_mutex_lock(&t->lock);
	list_push_tail(&t->finished, &task->link);
	/* Write while holding the lock: once the task is collected, wake_fd may be closed. */
	if (t->wake_fd >= 0 && write(t->wake_fd, &one, sizeof(one)) < 0)
		log_debug("eventfd: full, so somebody wakes anyway");
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

void task_start(struct tasks *t, struct task *task)
{
	pthread_attr_t attr;
	pthread_t thread;
	task->tasks = t;
	list_init(&task->link);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, task_main, task) != 0)
		task_main(task);
	pthread_attr_destroy(&attr);
}

static struct task *next_finished(struct tasks *t)
{
	pthread_mutex_lock(&t->lock);
	struct task *task = list_first(&t->finished, struct task, link);
	if (task)
		list_remove(&task->link);
	pthread_mutex_unlock(&t->lock);
	return task;
}

void tasks_collect(struct tasks *t)
{
	struct task *task;
	while ((task = next_finished(t)))
		task->done(task);
}
