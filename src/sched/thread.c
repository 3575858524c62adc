/* SPDX-License-Identifier: MIT */
#include "sched/thread.h"

#include <signal.h>

int thread_spawn(pthread_t *t, const char *name, void *(*fn)(void *), void *arg)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(t, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		pthread_setname_np(*t, name);
	return -rc;
}
