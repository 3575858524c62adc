/* SPDX-License-Identifier: MIT */
/* Threads of the scheduler.  They have names and block all signals, which the main thread handles. */
#ifndef SCHED_THREAD_H
#define SCHED_THREAD_H

#include <pthread.h>

/* name: at most 15 bytes.  0 or -errno. */
int thread_spawn(pthread_t *t, const char *name, void *(*fn)(void *), void *arg);

#endif
