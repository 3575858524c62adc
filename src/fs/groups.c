/* SPDX-License-Identifier: MIT */
#include "fs/groups.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "fs/status.h"

bool groups_copy(struct groups *to, const gid_t *id, int n)
{
	if (n > 0 && n > to->room) {
		gid_t *more = realloc(to->id, (size_t)n * sizeof(*more));
		if (!more)
			return false;
		to->id = more;
		to->room = n;
	}
	if (n)
		memcpy(to->id, id, (size_t)n * sizeof(*id));
	to->n = n;
	return true;
}

bool groups_equal(const struct groups *a, const struct groups *b)
{
	return a->n == b->n && (!a->n || !memcmp(a->id, b->id, (size_t)a->n * sizeof(*a->id)));
}

void groups_free(struct groups *g)
{
	free(g->id);
	*g = (struct groups){0};
}

bool groups_of(uint32_t tid, struct groups *out)
{
	AUTO_FREE char *status = tid ? status_read(tid) : NULL;
	AUTO_FREE gid_t *id = NULL;
	int n = status ? status_groups(status, &id) : 0;
	return n >= 0 && groups_copy(out, id, n);
}

/* --- remembered ------------------------------------------------------------------------------ */

#define SLOTS	 1024U
#define KEPT_MAX 1024 /* callers in more groups are looked up each time: memory stays below 4 MiB */

static struct slot {
	pthread_mutex_t lock;
	uint32_t tid; /* 0: empty */
	uid_t uid;
	gid_t gid;
	time_t second;
	struct groups groups;
} slots[SLOTS] = {[0 ... SLOTS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static time_t this_second(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_sec;
}

bool groups_of_lately(uint32_t tid, uid_t uid, gid_t gid, struct groups *out)
{
	struct slot *s = &slots[tid % SLOTS];
	time_t second = this_second();
	pthread_mutex_lock(&s->lock);
	bool known = tid && s->tid == tid && s->uid == uid && s->gid == gid && s->second == second;
	bool ok = known && groups_copy(out, s->groups.id, s->groups.n);
	pthread_mutex_unlock(&s->lock);
	if (ok)
		return true;
	if (!groups_of(tid, out))
		return false;
	if (out->n > KEPT_MAX)
		return true;
	pthread_mutex_lock(&s->lock);
	s->tid = 0;
	if (groups_copy(&s->groups, out->id, out->n)) {
		s->tid = tid;
		s->uid = uid;
		s->gid = gid;
		s->second = second;
	}
	pthread_mutex_unlock(&s->lock);
	return true;
}
