/* SPDX-License-Identifier: MIT */
/* Interrupts of requests that are not parked yet. */
#include <stdlib.h>
#include <string.h>

#include "fs/mount_internal.h"
#include "unit/unit.h"

#define REQUEST	 1000
#define ANOTHER	 1002
#define ONE_SLOT (REQUEST + 2 * MISSED_HASH)

static struct fs_mount *m;

static void new_mount(void)
{
	m = aligned_alloc(CACHE_LINE, sizeof(*m));
	ck_assert_ptr_nonnull(m);
	memset(m, 0, sizeof(*m));
	m->fd = -1; /* the kernel is not asked to repeat it */
	parked_init(&m->parked);
}

static void free_mount(void)
{
	parked_destroy(&m->parked);
	free(m);
}

/* With io_uring the kernel never repeats it. */
START_TEST(an_interrupt_before_its_request_is_announced_is_remembered)
{
	new_mount();
	parked_interrupt(m, REQUEST);
	ck_assert(parked_was_interrupted(&m->parked, REQUEST));
	ck_assert(!parked_was_interrupted(&m->parked, ANOTHER));
	ck_assert(!parked_was_interrupted(&m->parked, ONE_SLOT));
	free_mount();
}
END_TEST

START_TEST(an_interrupt_of_a_request_that_was_announced_is_its_threads)
{
	new_mount();
	receiver_become(&m->receiver[3]);
	m->receiver[3].mount = m;
	(void)receiver_begins(&m->receiver[3], REQUEST);
	parked_interrupt(m, REQUEST);
	ck_assert(parked_was_interrupted(&m->parked, REQUEST));
	receiver_become(NULL);
	ck_assert(!parked_was_interrupted(&m->parked, REQUEST));
	free_mount();
}
END_TEST

/* Of a worker with a ring of its own. */
START_TEST(an_interrupt_of_a_request_that_a_worker_serves_is_the_workers)
{
	new_mount();
	runner_self = &m->worker[5];
	atomic_store(&m->worker[5].unique, REQUEST);
	parked_interrupt(m, REQUEST);
	ck_assert(parked_was_interrupted(&m->parked, REQUEST));
	ck_assert(!parked_was_interrupted(&m->parked, ANOTHER));
	runner_self = NULL;
	ck_assert(!parked_was_interrupted(&m->parked, REQUEST));
	free_mount();
}
END_TEST

UNIT_MAIN("parked", an_interrupt_before_its_request_is_announced_is_remembered,
	  an_interrupt_of_a_request_that_was_announced_is_its_threads,
	  an_interrupt_of_a_request_that_a_worker_serves_is_the_workers)
