/* SPDX-License-Identifier: MIT */
/* The receive threads of a mount: each reads a message, admits it, and in the common case carries
 * it out and replies itself, so that a request costs one wake-up.
 *
 * There are a few more than CPUs, and the kernel's scheduler places them.  (One pinned to each CPU
 * looks better where the client's is known; but the kernel wakes whoever waits longest, on whatever
 * CPU, and a client that stays on its own then pays two wake-ups across CPUs for every other
 * request.  Many more have cold buffers.)  While all of them are stuck in the backing filesystem the
 * watchdog adds more; they leave when they are no longer wanted.
 * libfuse's own loop is not used: it allocates per request, and starts threads by the load instead
 * of by need. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "fs/context.h"
#include "fs/mount_internal.h"

#define CALM_TICKS     200
#define MORE_THAN_CPUS 8

/* The data of a write begins on a page: that is copied faster, and O_DIRECT takes it as it is. */
#define BUFFER_SKIP (4096 - sizeof(struct fuse_in_header) - sizeof(struct fuse_write_in))
#define BUFFER_SIZE (4096 + MESSAGE_MAX)

static _Thread_local struct receiver *self;

struct receiver *receiver_self(void)
{
	return self;
}

static void connection_ended(struct fs_mount *m)
{
	atomic_store(&m->ended, true);
	if (!atomic_exchange(&m->ended_once, true) && m->on_end)
		m->on_end(m, m->on_end_ctx);
}

static bool surplus(const struct receiver *r)
{
	const struct fs_mount *m = r->mount;
	return (unsigned)(r - m->receiver) >=
	       atomic_load_explicit(&m->receivers_wanted, memory_order_relaxed);
}

static void serve(struct receiver *r, char *buf)
{
	struct fs_mount *m = r->mount;
	while (!atomic_load_explicit(&m->stopping, memory_order_relaxed) && !surplus(r)) {
		ssize_t n = read(m->fd, buf, MESSAGE_MAX);
		if (n < 0) {
			/* ENOENT: the request was interrupted before it was read. */
			if (errno == EINTR || errno == EAGAIN || errno == ENOENT)
				continue;
			if (errno != ENODEV && !atomic_load(&m->stopping))
				log_error("%s: cannot read requests: %s", m->mountpoint,
					  strerror(errno));
			connection_ended(m);
			return;
		}
		if ((size_t)n < sizeof(struct fuse_in_header)) {
			log_error("%s: short message from the kernel", m->mountpoint);
			continue;
		}
		const struct fuse_in_header *in = (const void *)buf;
		atomic_store_explicit(&r->current, in->unique, memory_order_release);
		if (atomic_load_explicit(&m->watchdog_sleeps, memory_order_relaxed))
			watchdog_wake(m);
		admit(m, buf, (size_t)n);
		atomic_store_explicit(&r->current, 0, memory_order_release);
		atomic_store_explicit(&r->served,
				      atomic_load_explicit(&r->served, memory_order_relaxed) + 1,
				      memory_order_relaxed);
	}
}

static void *receiver_main(void *arg)
{
	struct receiver *r = arg;
	self = r;
	fs_thread_start();
	char *buf =
		mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf == MAP_FAILED) {
		log_error("%s: no memory for a receive buffer", r->mount->mountpoint);
	} else {
		serve(r, buf + BUFFER_SKIP);
		munmap(buf, BUFFER_SIZE);
	}
	fs_thread_stop();
	atomic_store(&r->state, RECEIVER_ENDED);
	return NULL;
}

static int start_one(struct fs_mount *m, unsigned i)
{
	struct receiver *r = &m->receiver[i];
	if (atomic_load(&r->state) == RECEIVER_ENDED)
		pthread_join(r->thread, NULL);
	r->mount = m;
	atomic_store(&r->state, RECEIVER_ALIVE);
	int rc = pthread_create(&r->thread, NULL, receiver_main, r);
	if (rc)
		atomic_store(&r->state, RECEIVER_UNUSED);
	return -rc;
}

static void on_kick(int sig)
{
	/* Only to make read() return. */
}

int receivers_start(struct fs_mount *m)
{
	struct sigaction sa = {.sa_handler = on_kick};
	sigaction(SIGUSR2, &sa, NULL);

	cpu_set_t allowed;
	unsigned cpus = sched_getaffinity(0, sizeof(allowed), &allowed) == 0
				? (unsigned)CPU_COUNT(&allowed)
				: 1;
	m->receivers_base = (unsigned)min_u64(cpus + MORE_THAN_CPUS, RECEIVERS_MAX / 4);
	atomic_store(&m->receivers_wanted, m->receivers_base);
	int rc = 0;
	for (unsigned i = 0; i < m->receivers_base && rc == 0; i++)
		rc = start_one(m, i);
	return rc;
}

bool receivers_have_served(const struct fs_mount *m)
{
	for (unsigned i = 0; i < RECEIVERS_MAX; i++)
		if (atomic_load_explicit(&m->receiver[i].served, memory_order_relaxed))
			return true;
	return false;
}

/* All stuck since the last look: double them.  Not all stuck for a second: halve them. */
void receivers_adapt(struct fs_mount *m)
{
	unsigned wanted = atomic_load(&m->receivers_wanted), stuck = 0, alive = 0;
	for (unsigned i = 0; i < RECEIVERS_MAX; i++) {
		struct receiver *r = &m->receiver[i];
		if (atomic_load(&r->state) != RECEIVER_ALIVE)
			continue;
		alive++;
		uint64_t served = atomic_load_explicit(&r->served, memory_order_relaxed);
		if (atomic_load_explicit(&r->current, memory_order_relaxed) &&
		    served == r->served_before)
			stuck++;
		r->served_before = served;
	}
	if (stuck < alive || alive == 0) {
		if (++m->calm_ticks >= CALM_TICKS && wanted > m->receivers_base) {
			m->calm_ticks = 0;
			atomic_store(&m->receivers_wanted,
				     (unsigned)max_u64(wanted / 2, m->receivers_base));
		}
		return;
	}
	m->calm_ticks = 0;
	unsigned target = wanted * 2 > RECEIVERS_MAX ? RECEIVERS_MAX : wanted * 2;
	atomic_store(&m->receivers_wanted, target);
	for (unsigned i = m->receivers_base; i < target; i++)
		if (atomic_load(&m->receiver[i].state) != RECEIVER_ALIVE && start_one(m, i) < 0)
			break;
}

static unsigned count_alive(const struct fs_mount *m)
{
	unsigned n = 0;
	for (unsigned i = 0; i < RECEIVERS_MAX; i++)
		n += atomic_load(&m->receiver[i].state) == RECEIVER_ALIVE;
	return n;
}

static void pause_ms(unsigned ms)
{
	struct timespec ts = {.tv_nsec = (long)(ms * NSEC_PER_MSEC)};
	nanosleep(&ts, NULL);
}

/* True when all have left by themselves, because the connection has ended. */
bool receivers_wait_ended(struct fs_mount *m, uint64_t until_ns)
{
	while (count_alive(m)) {
		if (mount_now_ns() > until_ns)
			return false;
		pause_ms(1);
	}
	return true;
}

/* Makes all leave; waits for those that are inside the backing filesystem. */
void receivers_kick_out(struct fs_mount *m)
{
	atomic_store(&m->stopping, true);
	while (count_alive(m)) {
		for (unsigned i = 0; i < RECEIVERS_MAX; i++)
			if (atomic_load(&m->receiver[i].state) == RECEIVER_ALIVE)
				pthread_kill(m->receiver[i].thread, SIGUSR2);
		pause_ms(2);
	}
	for (unsigned i = 0; i < RECEIVERS_MAX; i++)
		if (atomic_exchange(&m->receiver[i].state, RECEIVER_UNUSED) == RECEIVER_ENDED)
			pthread_join(m->receiver[i].thread, NULL);
}
