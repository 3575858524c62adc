/* SPDX-License-Identifier: MIT */
/* Whether the receivers have handled all that the kernel has told them. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/mount_internal.h"
#include "fs/status.h"
#include "unit/unit.h"

static struct fs_mount *m;
static int dev[2]; /* a pipe in place of /dev/fuse */

static void begin(void)
{
	m = aligned_alloc(CACHE_LINE, sizeof(*m));
	memset(m, 0, sizeof(*m));
	ck_assert_int_eq(pipe(dev), 0);
	m->fd = dev[0];
}

static struct receiver *receiver(unsigned i, pid_t tid)
{
	struct receiver *r = &m->receiver[i];
	atomic_store(&r->state, RECEIVER_ALIVE);
	atomic_store(&r->tid, tid);
	return r;
}

static void handles(struct receiver *r, uint32_t opcode) /* 0: nothing yet */
{
	atomic_store(&r->current, 1);
	atomic_store(&r->runner.opcode, opcode ? opcode + 1 : 0);
}

static bool behind(void)
{
	uint64_t unsure = UINT64_MAX;
	return receivers_are_behind(m, &unsure);
}

START_TEST(an_unread_message_is_one_that_is_not_handled)
{
	begin();
	ck_assert(!behind());
	ck_assert_int_eq(write(dev[1], "x", 1), 1);
	ck_assert(behind());
	free(m);
}
END_TEST

START_TEST(a_receiver_that_forgets_files_is_behind_and_one_that_does_something_else_is_not)
{
	begin();
	struct receiver *r = receiver(3, getpid());
	handles(r, FUSE_FORGET);
	ck_assert(behind());
	handles(r, FUSE_BATCH_FORGET);
	ck_assert(behind());
	handles(r, 0);
	ck_assert(behind());
	handles(r, FUSE_GETATTR);
	ck_assert(!behind());
	free(m);
}
END_TEST

START_TEST(a_receiver_that_was_seen_to_be_idle_need_not_be_so_again)
{
	uint64_t unsure = UINT64_MAX;
	begin();
	struct receiver *first = receiver(0, getpid()), *second = receiver(1, getpid());
	handles(first, FUSE_GETATTR);
	handles(second, FUSE_FORGET);
	ck_assert(receivers_are_behind(m, &unsure));
	handles(first, FUSE_FORGET);
	handles(second, FUSE_GETATTR);
	ck_assert(!receivers_are_behind(m, &unsure));
	free(m);
}
END_TEST

static _Atomic pid_t sleeper;

static void *read_dev(void *arg)
{
	char c;
	atomic_store(&sleeper, gettid());
	ck_assert_int_eq(read(dev[0], &c, 1), 1);
	return arg;
}

START_TEST(a_receiver_that_has_announced_nothing_is_idle_only_while_it_sleeps)
{
	pthread_t t;
	begin();
	receiver(0, 0);
	ck_assert(!behind()); /* it has not begun to read */
	ck_assert_int_eq(pthread_create(&t, NULL, read_dev, NULL), 0);
	while (!atomic_load(&sleeper) || status_of_thread(atomic_load(&sleeper)) != 'S')
		sched_yield();
	receiver(0, atomic_load(&sleeper));
	ck_assert(!behind());
	receiver(1, gettid()); /* runs, since it asks */
	ck_assert(behind());
	atomic_store(&m->receiver[1].state, RECEIVER_ENDED);
	ck_assert(!behind());
	ck_assert_int_eq(write(dev[1], "x", 1), 1);
	pthread_join(t, NULL);
	free(m);
}
END_TEST

UNIT_MAIN("receive", an_unread_message_is_one_that_is_not_handled,
	  a_receiver_that_forgets_files_is_behind_and_one_that_does_something_else_is_not,
	  a_receiver_that_was_seen_to_be_idle_need_not_be_so_again,
	  a_receiver_that_has_announced_nothing_is_idle_only_while_it_sleeps)
