/* SPDX-License-Identifier: MIT */
/* The rings of a mount, one thread for each CPU: how they are started (INIT decides whether they
 * are used) and ended. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/mirror.h"
#include "fs/ring.h"
#include "fs/space_hooks.h"
#include "fs/splice.h"

/* Entries that wait in the kernel: of all queues, and bounds for one. */
#define SPARES_ALL  4096
#define SPARES_MAX  1024
#define SPARES_MIN  64
#define THREADS_MAX 32 /* of all mounts together, unless transport=uring is set */
#define SUBMISSIONS 256
#define COMPLETIONS 1024
#define PARAMETER   "/sys/module/fuse/parameters/enable_uring"

static _Atomic bool forbidden;
static _Atomic unsigned n_threads; /* of all rings of this process */

void uring_forbid(void)
{
	atomic_store(&forbidden, true);
}

/* --- a thread ---------------------------------------------------------------------------------------- */

/* Failure is harmless: the CPU may be offline, or not allowed for this process. */
void ring_settle_on(unsigned cpu)
{
	cpu_set_t set;
	struct sched_param param = {0};
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	/* SCHED_BATCH: this thread does not preempt the caller that wakes it, which is about to sleep anyway. */
	sched_setscheduler(0, SCHED_BATCH, &param);
}

static int open_ring(struct ring *ring)
{
	if (!fs_thread_start() || !ring_make_entries(ring))
		return -ENOMEM;
	splice_thread_stop(); /* of use with /dev/fuse only */
	return uring_open(&ring->u, SUBMISSIONS, COMPLETIONS, ring->mount->fd);
}

/* Reports whether the ring is ready, and waits for the decision of INIT. */
static bool wait_for_go(struct ring *ring, int error)
{
	struct rings *rings = ring->mount->rings;
	pthread_mutex_lock(&rings->lock);
	if (error < 0) {
		rings->n_failed++;
		rings->error = rings->error ? rings->error : error;
	} else {
		rings->n_ready++;
	}
	pthread_cond_broadcast(&rings->change);
	while (rings->decision == RINGS_UNDECIDED)
		pthread_cond_wait(&rings->change, &rings->lock);
	bool go = rings->decision == RINGS_GO;
	pthread_mutex_unlock(&rings->lock);
	return go && error == 0;
}

static void *ring_main(void *arg)
{
	struct ring *ring = arg;
	ring_self = ring;
	receiver_become(ring->self);
	runner_self = &ring->self->runner;
	ring_settle_on(ring->queue);
	space_never_wait();
	if (wait_for_go(ring, open_ring(ring)))
		ring_serve(ring);
	uring_close(&ring->u);
	fs_thread_stop();
	atomic_store(&ring->ended, true);
	return NULL;
}

/* --- all of a mount --------------------------------------------------------------------------------- */

const char *uring_why_disabled(void)
{
	char text[4] = "";
	AUTO_FD fd = open(PARAMETER, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		AUTO_FD dev = open("/dev/fuse", O_RDWR | O_CLOEXEC); /* loads the kernel module */
		(void)dev;
		fd = open(PARAMETER, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0)
		return "this kernel does not have it";
	if (read(fd, text, sizeof(text) - 1) <= 0 || text[0] != 'Y')
		return "it is disabled in the kernel: echo Y > " PARAMETER;
	return NULL;
}

static void decide(struct rings *rings, bool go)
{
	pthread_mutex_lock(&rings->lock);
	if (rings->decision == RINGS_UNDECIDED)
		rings->decision = go ? RINGS_GO : RINGS_OFF;
	pthread_cond_broadcast(&rings->change);
	pthread_mutex_unlock(&rings->lock);
}

/* Waits until all rings are ready or one has failed. */
static int wait_until_ready(struct rings *rings)
{
	pthread_mutex_lock(&rings->lock);
	while (rings->n_ready + rings->n_failed < rings->n)
		pthread_cond_wait(&rings->change, &rings->lock);
	int error = rings->n_failed ? rings->error : 0;
	pthread_mutex_unlock(&rings->lock);
	return error;
}

static int start_ring(struct fs_mount *m, unsigned i)
{
	struct ring *ring = &m->rings->ring[i];
	ring->mount = m;
	ring->queue = i;
	ring->spares = (unsigned)max_u64(min_u64(SPARES_ALL / m->rings->n, SPARES_MAX), SPARES_MIN);
	ring_memory_init(ring, m->rings->n);
	ring->self = &m->receiver[RECEIVERS_MAX + i];
	ring->self->mount = m;
	ring->u.fd = -1;
	ring->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (ring->wake_fd < 0)
		return -errno;
	unsigned workers = (unsigned)min_u64(RINGS_WORKERS / m->rings->n, WORKERS_MAX);
	ring->workers = ring_workers_new(ring, workers);
	if (!ring->workers)
		return -ENOMEM;
	int rc = pthread_create(&ring->thread, NULL, ring_main, ring);
	ring->started = rc == 0;
	return -rc;
}

/* Starts n threads, which have been reserved. */
static int start_all(struct fs_mount *m, unsigned n)
{
	struct rings *rings = calloc(1, sizeof(*rings) + n * sizeof(struct ring));
	if (!rings) {
		atomic_fetch_sub(&n_threads, n);
		return -ENOMEM;
	}
	pthread_mutex_init(&rings->lock, NULL);
	pthread_cond_init(&rings->change, NULL);
	for (unsigned i = 0; i < n; i++)
		rings->ring[i].wake_fd = -1;
	rings->n = n;
	rings->stop_fd = eventfd(0, EFD_CLOEXEC); /* without it, workers have no rings */
	m->rings = rings;
	for (unsigned i = 0; i < n; i++) {
		int res = start_ring(m, i);
		if (res < 0) { /* the rings that were not started count as failed */
			pthread_mutex_lock(&rings->lock);
			rings->n_failed += n - i;
			rings->error = res;
			pthread_mutex_unlock(&rings->lock);
			break;
		}
	}
	return wait_until_ready(rings);
}

/* Unless transport=uring is set, a mount must not add many threads.  False: there would be too many. */
static bool reserve_threads(const struct fs_mount *m, unsigned n)
{
	unsigned others = atomic_fetch_add(&n_threads, n);
	if (m->wanted == TRANSPORT_URING || !others || others + n <= THREADS_MAX)
		return true;
	atomic_fetch_sub(&n_threads, n);
	return false;
}

/* Each request that waits has a buffer for the largest one.  That is memory only if it is used, but addresses in any case:
 * with a limit of these, the rings would take those that the rest of the daemon needs. */
static bool addresses_are_limited(void)
{
	struct rlimit as, data;
	return (getrlimit(RLIMIT_AS, &as) == 0 && as.rlim_cur != RLIM_INFINITY) ||
	       (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY);
}

/* Where the kernel does not overcommit memory, these buffers count as if they were used: gigabytes that other programs do not
 * get. */
static bool memory_is_committed(void)
{
	char text[4] = "";
	AUTO_FD fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && text[0] == '2';
}

/* False: some queues would have their thread on another CPU, where it is slower than /dev/fuse and cannot kick its queue. */
static bool may_run_on_all_cpus(void)
{
	cpu_set_t before, allowed;
	if (sched_getaffinity(0, sizeof(before), &before) < 0)
		return true;
	memset(&allowed, 0xff, sizeof(allowed));
	bool all = sched_setaffinity(0, sizeof(allowed), &allowed) == 0 &&
		   sched_getaffinity(0, sizeof(allowed), &allowed) == 0 &&
		   CPU_COUNT(&allowed) >= get_nprocs();
	sched_setaffinity(0, sizeof(before), &before);
	return all;
}

static void try_to_start(struct fs_mount *m, char *why_not, size_t size)
{
	long n = sysconf(_SC_NPROCESSORS_CONF); /* the kernel wants a queue for each possible CPU */
	const char *disabled = uring_why_disabled();
	/* Such a source is slow compared with the transport, and may hang: see BUGS in ratefs(8). */
	if (m->wanted == TRANSPORT_AUTO && m->fs->kind == SOURCE_UNKNOWN) {
		snprintf(why_not, size,
			 "the source is not on a local disk; transport=uring uses it anyway");
	} else if (disabled) {
		snprintf(why_not, size, "%s", disabled);
	} else if (atomic_load(&forbidden)) {
		snprintf(why_not, size, "no mount could use it when the daemon was started");
	} else if (n < 1 || n > RINGS_MAX) {
		snprintf(why_not, size, "too many CPUs (%ld)", n);
	} else if (addresses_are_limited()) {
		snprintf(why_not, size, "the daemon's address space is limited (ulimit -v or -d)");
	} else if (m->wanted == TRANSPORT_AUTO && memory_is_committed()) {
		snprintf(
			why_not, size,
			"it would commit much memory (vm.overcommit_memory=2); transport=uring uses it "
			"anyway");
	} else if (m->wanted == TRANSPORT_AUTO && !may_run_on_all_cpus()) {
		snprintf(why_not, size,
			 "the daemon may not run on all CPUs; transport=uring uses it anyway");
	} else if (!reserve_threads(m, (unsigned)n)) {
		snprintf(why_not, size,
			 "other mounts of this daemon have %u threads for it; transport=uring adds "
			 "more",
			 atomic_load(&n_threads));
	} else {
		int res = start_all(m, (unsigned)n);
		if (res == 0)
			return;
		snprintf(why_not, size, "cannot set it up: %s", strerror(-res));
		rings_free(m);
	}
}

void rings_start(struct fs_mount *m)
{
	try_to_start(m, m->why_not_uring, sizeof(m->why_not_uring));
}

bool rings_at_init(struct fs_mount *m, bool offered)
{
	bool go = m->rings && !m->why_not_uring[0] && offered;
	if (m->rings && !m->why_not_uring[0] && !offered)
		snprintf(m->why_not_uring, sizeof(m->why_not_uring),
			 "the kernel does not offer it");
	return go;
}

void rings_go(struct fs_mount *m, bool go)
{
	/* First: a ring thread that the kernel refuses takes it back. */
	atomic_store(&m->uses_uring, go);
	if (m->rings)
		decide(m->rings, go);
}

unsigned rings_queued(struct fs_mount *m)
{
	unsigned sum = 0;
	for (unsigned i = 0; m->rings && i < m->rings->n; i++)
		sum += workers_queued(m->rings->ring[i].workers);
	return sum;
}

void rings_run_queued(struct fs_mount *m)
{
	for (unsigned i = 0; m->rings && i < m->rings->n; i++)
		workers_run_queued(m->rings->ring[i].workers);
}

bool rings_are_gone(struct fs_mount *m)
{
	unsigned armed = 0, serving = 0;
	for (unsigned i = 0; m->rings && i < m->rings->n; i++) {
		const struct ring *ring = &m->rings->ring[i];
		if (ring->started && !atomic_load(&ring->ended))
			return false;
		armed += atomic_load(&ring->n_armed);
	}
	/* A worker that carries out the request of its entry has none in the kernel, and may hang in the source. */
	for (unsigned i = 0; i < WORKERS_ALL; i++)
		serving += atomic_load(&m->worker[i].unique) != 0;
	return armed <= serving;
}

/* The request that a ring thread, or a worker with a ring, is serving. */
static uint64_t served_by(struct fs_mount *m, unsigned i)
{
	return i < RINGS_MAX ? atomic_load(&m->receiver[RECEIVERS_MAX + i].current)
			     : atomic_load(&m->worker[i - RINGS_MAX].unique);
}

void rings_see(struct fs_mount *m, struct rings_seen *seen)
{
	for (unsigned i = 0; i < ARRAY_SIZE(seen->unique); i++)
		seen->unique[i] = served_by(m, i);
}

bool rings_serve(struct fs_mount *m, const struct rings_seen *seen)
{
	for (unsigned i = 0; i < ARRAY_SIZE(seen->unique); i++)
		if (seen->unique[i] && served_by(m, i) == seen->unique[i])
			return true;
	return false;
}

void rings_stop(struct fs_mount *m)
{
	if (!m->rings)
		return;
	for (unsigned i = 0; i < m->rings->n; i++) {
		struct ring *ring = &m->rings->ring[i];
		atomic_store_explicit(&ring->stop, true, memory_order_release);
		if (ring->wake_fd >= 0)
			ring_wake(ring);
	}
	if (m->rings->stop_fd >= 0)
		eventfd_write(m->rings->stop_fd, 1);
	decide(m->rings, false);
}

void rings_join(struct fs_mount *m)
{
	rings_stop(m);
	for (unsigned i = 0; m->rings && i < m->rings->n; i++) {
		struct ring *ring = &m->rings->ring[i];
		if (ring->started)
			pthread_join(ring->thread, NULL);
		ring->started = false;
		workers_free(ring->workers);
		ring->workers = NULL;
	}
}

void rings_free(struct fs_mount *m)
{
	if (!m->rings)
		return;
	rings_join(m);
	for (unsigned i = 0; i < m->rings->n; i++) {
		struct ring *ring = &m->rings->ring[i];
		ring_free_entries(ring);
		if (ring->wake_fd >= 0)
			close(ring->wake_fd);
	}
	if (m->rings->stop_fd >= 0)
		close(m->rings->stop_fd);
	pthread_mutex_destroy(&m->rings->lock);
	pthread_cond_destroy(&m->rings->change);
	atomic_fetch_sub(&n_threads, m->rings->n);
	free(m->rings);
	m->rings = NULL;
}
