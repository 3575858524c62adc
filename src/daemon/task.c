/* SPDX-License-Identifier: MIT */
#include "daemon/task.h"

#include <stdint.h>
#include <unistd.h>

#include "base/log.h"

void tasks_init(struct tasks *t, int wake_fd)
{
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->some, NULL);
	list_init(&t->finished);
	list_init(&t->waiting);
	t->wake_fd = wake_fd;
	t->has_spare = t->ending = false;
}

/* --- threads -------------------------------------------------------------------------------- */

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

static bool start_thread(struct task *task)
{
	pthread_attr_t attr;
	pthread_t thread;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	int rc = pthread_create(&thread, &attr, task_main, task);
	pthread_attr_destroy(&attr);
	return rc == 0;
}

static void *spare_main(void *arg)
{
	struct tasks *t = arg;
	pthread_mutex_lock(&t->lock);
	while (!t->ending) {
		struct task *task = list_first(&t->waiting, struct task, link);
		if (!task) {
			pthread_cond_wait(&t->some, &t->lock);
			continue;
		}
		list_remove(&task->link);
		pthread_mutex_unlock(&t->lock);
		task_main(task);
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

int tasks_open(struct tasks *t)
{
	int rc = pthread_create(&t->spare, NULL, spare_main, t);
	t->has_spare = rc == 0;
	return -rc;
}

void tasks_close(struct tasks *t)
{
	if (!t->has_spare)
		return;
	pthread_mutex_lock(&t->lock);
	t->ending = true;
	pthread_cond_signal(&t->some);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->spare, NULL);
	t->has_spare = false;
}

/* --- the main thread ------------------------------------------------------------------------ */

void task_start(struct tasks *t, struct task *task)
{
	task->tasks = t;
	list_init(&task->link);
	if (start_thread(task))
		return;
	pthread_mutex_lock(&t->lock);
	list_push_tail(&t->waiting, &task->link);
	pthread_cond_signal(&t->some);
	pthread_mutex_unlock(&t->lock);
}

static struct task *take_first(struct tasks *t, struct list *list)
{
	pthread_mutex_lock(&t->lock);
	struct task *task = list_first(list, struct task, link);
	if (task)
		list_remove(&task->link);
	pthread_mutex_unlock(&t->lock);
	return task;
}

/* The task that the spare thread performs may hang: the others get threads as soon as there are some. */
static void start_waiting(struct tasks *t)
{
	struct task *task;
	while ((task = take_first(t, &t->waiting))) {
		if (start_thread(task))
			continue;
		pthread_mutex_lock(&t->lock);
		list_push_head(&t->waiting, &task->link);
		pthread_cond_signal(&t->some);
		pthread_mutex_unlock(&t->lock);
		return;
	}
}

void tasks_collect(struct tasks *t)
{
	struct task *task;
	start_waiting(t);
	while ((task = take_first(t, &t->finished)))
		task->done(task);
}
