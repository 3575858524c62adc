/* SPDX-License-Identifier: MIT */
#include "ctl/volume_probe.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "ctl/volume_check.h"

struct probe {
	struct list link;
	char *source;
	char *const *allowed;
	unsigned n_allowed;
	/* set by the thread before `done`, which `lock` guards */
	char *path;
	struct stat st;
	struct error err;
	bool done;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t done;
	struct list probes; /* the one that is waited for, and those that hang */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER,
	 .done = PTHREAD_COND_INITIALIZER,
	 .probes = LIST_INIT(all.probes)};

static void *look(void *ctx)
{
	struct probe *p = ctx;
	p->path = volume_check_source(p->source, p->allowed, p->n_allowed, &p->err);
	if (p->path && volume_stat_source(p->path, &p->st, &p->err) < 0) {
		free(p->path);
		p->path = NULL;
	}
	pthread_mutex_lock(&all.lock);
	p->done = true;
	pthread_cond_broadcast(&all.done);
	pthread_mutex_unlock(&all.lock);
	return NULL;
}

static void free_locked(struct probe *p)
{
	list_remove(&p->link);
	free(p->path);
	free(p->source);
	free(p);
}

/* Frees earlier probes that have ended.  True: one of this source still hangs. */
static bool still_hangs_locked(const char *source)
{
	bool hangs = false;
	list_for_each_safe (it, &all.probes) {
		struct probe *p = list_entry(it, struct probe, link);
		if (p->done)
			free_locked(p);
		else
			hangs |= strcmp(p->source, source) == 0;
	}
	return hangs;
}

static struct probe *begin_locked(const char *source, char *const *allowed, unsigned n_allowed)
{
	pthread_t thread;
	struct probe *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	*p = (struct probe){.source = strdup(source), .allowed = allowed, .n_allowed = n_allowed};
	list_push_tail(&all.probes, &p->link);
	if (!p->source || pthread_create(&thread, NULL, look, p) != 0) {
		free_locked(p);
		return NULL;
	}
	pthread_detach(thread);
	return p;
}

static bool wait_locked(const struct probe *p)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += VOLUME_PROBE_S;
	while (!p->done && pthread_cond_timedwait(&all.done, &all.lock, &until) == 0)
		;
	return p->done;
}

int volume_probe(const char *source, char *const *allowed, unsigned n_allowed, char **path,
		 struct stat *st, struct error *err)
{
	int rc = -1;
	pthread_mutex_lock(&all.lock);
	bool hangs = still_hangs_locked(source);
	struct probe *p = hangs ? NULL : begin_locked(source, allowed, n_allowed);
	if (!hangs && !p) {
		error_set(err, "out of memory or threads");
	} else if (hangs || !wait_locked(p)) {
		error_set(err, "source: '%s' does not answer", source);
	} else {
		rc = p->path ? 0 : -1;
		*path = take_ptr(&p->path);
		*st = p->st;
		if (rc < 0)
			*err = p->err;
		free_locked(p);
	}
	pthread_mutex_unlock(&all.lock);
	return rc;
}
