/* SPDX-License-Identifier: MIT */
/* Threads on one object; time stands still, so that only what they do to each other counts. */
#include "ratelimit/io_check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#define THREADS 4
#define RACERS	2 /* as many as run at the same time on any machine of today */

static void run(unsigned n, void *(*f)(void *), void *arg)
{
	pthread_t t[THREADS];
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, f, arg), 0);
	for (unsigned i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

/* Lets `n` threads go on within some ten nanoseconds of each other, which a pthread_barrier does not. */
struct rendezvous {
	_Atomic unsigned arrived;
};

static void meet(struct rendezvous *r, unsigned n)
{
	unsigned mine = atomic_fetch_add(&r->arrived, 1), all = (mine / n + 1) * n;
	for (unsigned spins = 0; atomic_load(&r->arrived) < all; spins++)
		if (spins % 1024 == 1023)
			sched_yield();
}

/* Rounds that are enough for the races to happen on two processors; fewer where threads are slow, as under
 * valgrind.  The leader decides before the racers meet, the others read it after. */
#define ROUNDS	200000
#define MOST_NS (2 * NSEC_PER_SEC)

struct rounds {
	struct rendezvous start, end;
	_Atomic unsigned threads;
	_Atomic bool over;
	uint64_t began_ns;
	unsigned done; /* the leader's */
};

/* True for one of the racers. */
static bool rounds_join(struct rounds *r)
{
	return atomic_fetch_add(&r->threads, 1) == 0;
}

static bool rounds_next(struct rounds *r, bool leader)
{
	if (leader) {
		r->began_ns = r->began_ns ? r->began_ns : ratelimit_now_ns();
		if (r->done == ROUNDS || ratelimit_now_ns() - r->began_ns > MOST_NS)
			atomic_store(&r->over, true);
		else
			r->done++;
	}
	meet(&r->start, RACERS);
	return !atomic_load(&r->over);
}

/* --- exactly one thread ends an admission --- */

static struct {
	struct ratelimit_bulkhead *bulkhead;
	struct ratelimit_admission admission;
	struct rounds rounds;
	_Atomic int winners;
} race;

static void *end_it(void *arg)
{
	bool leader = rounds_join(&race.rounds);
	for (;;) {
		if (leader)
			UNIT_REQUIRE(ratelimit_bulkhead_enter(race.bulkhead, &race.admission) == 0);
		bool more = rounds_next(&race.rounds, leader);
		int rc = ratelimit_bulkhead_leave(&race.admission, RATELIMIT_CANCELLED);
		UNIT_REQUIRE(rc == 0 || rc == -EALREADY);
		if (rc == 0)
			atomic_fetch_add(&race.winners, 1);
		meet(&race.rounds.end, RACERS);
		if (!more)
			return arg;
	}
}

START_TEST(one_of_many_threads_ends_an_admission)
{
	struct ratelimit_bulkhead_state s;
	ck_assert_int_eq(ratelimit_bulkhead_new(&race.bulkhead, 1, NULL, 0), 0);
	run(RACERS, end_it, NULL);
	ratelimit_bulkhead_look(race.bulkhead, &s);
	ck_assert_uint_eq(s.admitted, race.rounds.done + 1);
	ck_assert_uint_eq(s.cancelled, s.admitted);
	int winners = atomic_load(&race.winners);
	ck_assert_uint_eq(winners, s.admitted);
	ck_assert_int_eq(s.in_flight, 0);
	ratelimit_bulkhead_free(race.bulkhead);
}
END_TEST

/* --- no snapshot has more ends than beginnings --- */

static void *enter_and_leave(void *arg)
{
	struct ratelimit_admission a = RATELIMIT_ADMISSION_INIT;
	struct ratelimit_bulkhead_state s;
	for (int i = 0; i < 20000; i++) {
		if (ratelimit_bulkhead_enter(arg, &a) == 0)
			UNIT_REQUIRE(ratelimit_bulkhead_leave(&a, i % 3) == 0);
		ratelimit_bulkhead_look(arg, &s);
		UNIT_REQUIRE(s.succeeded + s.failed + s.cancelled <= s.admitted);
		UNIT_REQUIRE(s.in_flight >= 0 && s.in_flight <= 2);
	}
	return NULL;
}

START_TEST(snapshots_never_show_an_end_without_its_beginning)
{
	struct ratelimit_bulkhead *b;
	struct ratelimit_bulkhead_state s;
	ck_assert_int_eq(ratelimit_bulkhead_new(&b, 2, NULL, 0), 0);
	run(THREADS, enter_and_leave, b);
	ratelimit_bulkhead_look(b, &s);
	ck_assert_uint_eq(s.succeeded + s.failed + s.cancelled, s.admitted);
	ck_assert_uint_eq(s.admitted + s.refused, THREADS * 20000);
	ratelimit_bulkhead_free(b);
}
END_TEST

/* --- no lost wake-up: each thread has its own chain over one shared permit and waits without a
 * timeout, so a wake-up that is lost stops the test --- */

static struct {
	struct ratelimit_io *shared;
	uint64_t now_ns;
	_Atomic int inside;
} pool;

static void *take_turns(void *arg)
{
	const struct ratelimit_io_config c = {.ops = {.size = 1000000, .refill_per_sec = 1}};
	struct ratelimit_io *own = io_make(&c, pool.now_ns);
	struct ratelimit_io *path[] = {pool.shared, own};
	struct ratelimit_chain *ch;
	UNIT_REQUIRE(ratelimit_chain_new(&ch, path, 2) == 0);
	struct pollfd p = {.fd = ratelimit_chain_fd(ch), .events = POLLIN};
	for (int i = 0; i < 2000; i++) {
		while (ratelimit_chain_consume(ch, 1, 7, pool.now_ns, NULL) < 0) {
			UNIT_REQUIRE(poll(&p, 1, -1) == 1);
			ratelimit_chain_event(ch);
		}
		UNIT_REQUIRE(atomic_fetch_add(&pool.inside, 1) == 0);
		atomic_fetch_sub(&pool.inside, 1);
		if (i % 2) {
			ratelimit_chain_refund_bytes(ch, 7);
			ratelimit_chain_release(ch);
		} else {
			ratelimit_chain_undo(ch, 1, 7);
		}
	}
	ratelimit_chain_free(ch);
	ratelimit_io_free(own);
	return arg;
}

START_TEST(no_wake_up_is_lost_between_chains)
{
	const struct ratelimit_io_config c = {.bytes = {.size = 20, .refill_per_sec = 1},
					      .max_inflight = 1};
	struct ratelimit_io_state s;
	pool.now_ns = future() + 24 * HOUR;
	pool.shared = io_make(&c, pool.now_ns);
	run(THREADS, take_turns, NULL);
	ratelimit_io_look(pool.shared, pool.now_ns, &s);
	ck_assert_int_eq(s.in_flight, 0);
	ck_assert_int_eq(s.bytes.budget, 20);
	ratelimit_io_free(pool.shared);
}
END_TEST

/* --- the same, where nobody else would wake the one whose wake-up was lost --- */

static struct {
	struct ratelimit_io *io;
	struct rounds rounds;
} handover;

static void give(unsigned i)
{
	for (volatile unsigned pause = i % 64; pause > 0; pause--)
		; /* another moment each time */
	ratelimit_io_release(handover.io);
}

static void receive(struct pollfd *p)
{
	while (ratelimit_io_consume(handover.io, 1, 0, PAST, NULL) < 0) {
		UNIT_REQUIRE(poll(p, 1, 20000) == 1);
		ratelimit_io_event(handover.io);
	}
	ratelimit_io_release(handover.io);
}

static void *hand_over(void *arg)
{
	bool giver = rounds_join(&handover.rounds), more;
	struct pollfd p = {.fd = ratelimit_io_fd(handover.io), .events = POLLIN};
	do {
		if (giver)
			UNIT_REQUIRE(ratelimit_io_consume(handover.io, 1, 0, PAST, NULL) == 0);
		more = rounds_next(&handover.rounds, giver);
		if (giver)
			give(handover.rounds.done);
		else
			receive(&p);
		meet(&handover.rounds.end, RACERS);
	} while (more);
	return arg;
}

START_TEST(a_permit_that_is_given_back_during_a_refusal_wakes_the_refused)
{
	const struct ratelimit_io_config c = {.max_inflight = 1};
	handover.io = io_make(&c, PAST);
	run(RACERS, hand_over, NULL);
	ratelimit_io_free(handover.io);
}
END_TEST

/* --- a change of limits beside running requests --- */

static void *consume_and_change(void *arg)
{
	static _Atomic int changer;
	struct ratelimit_io *io = arg;
	bool changes = atomic_fetch_add(&changer, 1) == 0;
	struct ratelimit_io_config c = {.ops = {.size = 100, .refill_per_sec = 1000}};
	for (int i = 0; i < 20000; i++) {
		c.ops.size = 100 + i % 50;
		if (changes)
			UNIT_REQUIRE(ratelimit_io_reconfigure(io, &c, PAST) == 0);
		else if (ratelimit_io_consume(io, 3, 0, PAST, NULL) == 0)
			ratelimit_io_undo(io, 3, 0);
		else
			ratelimit_io_event(io);
	}
	return NULL;
}

START_TEST(limits_change_beside_requests_and_mint_nothing)
{
	struct ratelimit_io_config c = {.ops = {.size = 100, .refill_per_sec = 1000}};
	struct ratelimit_io *io = io_make(&c, PAST);
	struct ratelimit_io_state s;
	ck_assert_int_ge(ratelimit_io_fd(io), 0);
	run(THREADS, consume_and_change, io);
	ratelimit_io_look(io, PAST, &s);
	ck_assert_int_le(s.ops.budget, 100);
	ratelimit_io_free(io);
}
END_TEST

UNIT_MAIN("ratelimit_threads", one_of_many_threads_ends_an_admission,
	  snapshots_never_show_an_end_without_its_beginning, no_wake_up_is_lost_between_chains,
	  a_permit_that_is_given_back_during_a_refusal_wakes_the_refused,
	  limits_change_beside_requests_and_mint_nothing)
