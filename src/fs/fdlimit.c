/* SPDX-License-Identifier: MIT */
#include "fs/fdlimit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "fs/inode.h"
#include "fs/mirror.h"

#define RESERVE 256
/* Beyond this number, the kernel memory that fds pin costs more than reopening them. */
#define INODE_FDS_MAX	65536
#define INODE_FDS_LEAST 64
#define USER_SLOTS	4096

static struct {
	pthread_mutex_t lock; /* guards the list of tables */
	struct list tables;
	_Atomic int64_t inode_fds, client_fds, pinned_fds;
	_Atomic int64_t max_inode_fds, max_total;
} limit = {.lock = PTHREAD_MUTEX_INITIALIZER,
	   .tables = LIST_INIT(limit.tables),
	   .max_inode_fds = INODE_FDS_LEAST,
	   .max_total = 1024 - RESERVE};

void fdlimit_set(uint64_t max)
{
	int64_t total = max > 2 * RESERVE ? (int64_t)max - RESERVE : (int64_t)max / 2;
	int64_t for_inodes = total / 2;
	if (for_inodes > INODE_FDS_MAX)
		for_inodes = INODE_FDS_MAX;
	atomic_store(&limit.max_total, total);
	atomic_store(&limit.max_inode_fds, for_inodes);
}

void fdlimit_init(void)
{
	struct rlimit lim;
	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return;
	if (lim.rlim_cur < lim.rlim_max) {
		lim.rlim_cur = lim.rlim_max;
		setrlimit(RLIMIT_NOFILE, &lim);
		getrlimit(RLIMIT_NOFILE, &lim);
	}
	fdlimit_set(lim.rlim_cur > (1U << 30) ? (1U << 30) : lim.rlim_cur);
}

void fdlimit_add(struct fs *fs, struct inode_table *t)
{
	t->owner = fs;
	pthread_mutex_lock(&limit.lock);
	list_push_tail(&limit.tables, &t->all);
	pthread_mutex_unlock(&limit.lock);
}

void fdlimit_remove(struct inode_table *t)
{
	pthread_mutex_lock(&limit.lock);
	list_remove(&t->all);
	pthread_mutex_unlock(&limit.lock);
}

void fdlimit_inode_fds(int n)
{
	atomic_fetch_add_explicit(&limit.inode_fds, n, memory_order_relaxed);
}

/* Users whose uids share a slot share its count: they are refused a little earlier. */
static _Atomic int64_t of_user[USER_SLOTS];

static _Atomic int64_t *slot_of(uid_t uid)
{
	return &of_user[uid * 2654435769U >> 20];
}

bool fdlimit_client_try(uid_t uid)
{
	int64_t max = atomic_load_explicit(&limit.max_total, memory_order_relaxed);
	int64_t own = atomic_fetch_add_explicit(slot_of(uid), 1, memory_order_relaxed);
	int64_t all = atomic_fetch_add_explicit(&limit.client_fds, 1, memory_order_relaxed);
	if (all < (uid == 0 ? max - max / 16 : max - max / 4) || (uid && own < max - all))
		return true;
	fdlimit_client_done(uid);
	return false;
}

void fdlimit_client_add(uid_t uid)
{
	atomic_fetch_add_explicit(slot_of(uid), 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&limit.client_fds, 1, memory_order_relaxed);
}

void fdlimit_client_done(uid_t uid)
{
	atomic_fetch_sub_explicit(slot_of(uid), 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&limit.client_fds, 1, memory_order_relaxed);
}

bool fdlimit_pin_try(void)
{
	int64_t max = atomic_load_explicit(&limit.max_total, memory_order_relaxed) / 4;
	if (atomic_fetch_add_explicit(&limit.pinned_fds, 1, memory_order_relaxed) < max)
		return true;
	fdlimit_pin_done();
	return false;
}

void fdlimit_pin_done(void)
{
	atomic_fetch_sub_explicit(&limit.pinned_fds, 1, memory_order_relaxed);
}

static bool in_bounds(void)
{
	int64_t inodes = atomic_load_explicit(&limit.inode_fds, memory_order_relaxed);
	int64_t clients = atomic_load_explicit(&limit.client_fds, memory_order_relaxed);
	return inodes <= atomic_load_explicit(&limit.max_inode_fds, memory_order_relaxed) &&
	       inodes + clients <= atomic_load_explicit(&limit.max_total, memory_order_relaxed);
}

bool fdlimit_make_room(unsigned n)
{
	bool any = false;
	pthread_mutex_lock(&limit.lock);
	list_for_each (it, &limit.tables) {
		struct inode_table *t = list_entry(it, struct inode_table, all);
		while (n && inode_table_close_one(t->owner)) {
			any = true;
			n--;
		}
	}
	/* Start with another table next time. */
	if (!list_empty(&limit.tables)) {
		struct list *first = limit.tables.next;
		list_remove(first);
		list_push_tail(&limit.tables, first);
	}
	pthread_mutex_unlock(&limit.lock);
	return any;
}

void fdlimit_keep(void)
{
	/* A few at a time, so that the search is rarely needed; the number of tries is bounded
	 * because everything may be pinned. */
	if (!in_bounds())
		fdlimit_make_room(32);
}
