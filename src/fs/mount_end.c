/* SPDX-License-Identifier: MIT */
/* The end of a mount:
 *
 *	detach    the mountpoint, on a thread of its own
 *	drain     requests that wait get a grace period, new ones are refused
 *	finish    threads stop taking requests, and those in the source end
 *	cut       the connection is closed: callers that are left get an error
 *	free      threads are joined, memory is freed */
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "fs/creds.h"
#include "fs/mirror.h"
#include "fs/mount_internal.h"

#define DETACH_NS (100 * NSEC_PER_MSEC) /* how long draining waits for the mount to be detached */
#define LEAVE_NS  (200 * NSEC_PER_MSEC) /* for receivers to notice that the connection is closed */
#define KICK_NS	  NSEC_PER_SEC		/* for receivers that are not in the source to exit */
#define LOOK_MS	  2

void fs_mount_abandon(struct fs_mount *m)
{
	atomic_store(&m->abandon, true);
}

bool fs_mount_has_ended(const struct fs_mount *m)
{
	return atomic_load(&m->ended);
}

bool fs_mount_is_detached(const struct fs_mount *m)
{
	return atomic_load(&m->detach_done);
}

/* Polls the condition; false: the time is over, or the source was abandoned. */
static bool wait_for(struct fs_mount *m, bool (*holds)(struct fs_mount *m, const void *arg),
		     const void *arg, uint64_t until_ns)
{
	const struct timespec nap = {.tv_nsec = LOOK_MS * NSEC_PER_MSEC};
	while (!holds(m, arg)) {
		if (atomic_load(&m->abandon) || monotonic_ns() > until_ns)
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

static bool is_detached(struct fs_mount *m, const void *arg)
{
	return fs_mount_is_detached(m);
}

/* No worker can be started, and no receiver is left to stand in, or no watchdog to call one (it could not be started). */
static void run_stranded(struct fs_mount *m)
{
	if (!atomic_load(&m->stranded) || (m->watchdog_started && receivers_alive(m)))
		return;
	/* This thread usually carries out no requests, and may be the main one: it gets a buffer, and its identity back. */
	atomic_store(&m->stranded, false); /* set again while jobs remain */
	bool able = fs_thread_start();	   /* from here on, its umask is its own */
	mode_t mask = umask(0);
	umask(mask);
	if (able) {
		workers_run_queued(m->workers);
		rings_run_queued(m);
	}
	creds_thread_stop();
	creds_thread_start(); /* becomes root again, if it was */
	umask(mask);
	fs_thread_stop();
}

static bool nothing_waits(struct fs_mount *m, const void *arg)
{
	run_stranded(m);
	return parked_count(m) == 0;
}

static bool nothing_queued(struct fs_mount *m, const void *arg)
{
	run_stranded(m);
	return workers_queued(m->workers) + rings_queued(m) == 0;
}

static bool none_remains(struct fs_mount *m, const void *seen)
{
	return runners_remain(m, seen) == 0;
}

/* Workers also carry out requests that never waited: those that a ring thread hands to them. */
static bool source_is_idle(struct fs_mount *m, const void *arg)
{
	struct fs_source_look look;
	run_stranded(m);
	fs_mount_look_source(m, &look);
	return look.n + look.queued == 0;
}

static bool no_ring_serves(struct fs_mount *m, const void *seen)
{
	return !rings_serve(m, seen);
}

static bool all_left(struct fs_mount *m, const void *arg)
{
	return receivers_alive(m) == 0;
}

/* Runs on a thread of its own: the kernel's lock on all mounts may take long on a busy machine,
 * and the path to the mountpoint may lead through a source that hangs. */
static void *detach(void *arg)
{
	struct fs_mount *m = arg;
	/* After umount -f or an abort the mount is still there.  But without a unique ID, the
	 * mount at that path may be another one. */
	if (!atomic_load(&m->ended) || m->place.unique_id)
		mount_place_detach(&m->place, m->mountpoint, monotonic_ns() + STOP_GRACE_NS,
				   &m->abandon);
	atomic_store(&m->detach_done, true);
	return NULL;
}

static void start_detaching(struct fs_mount *m)
{
	m->detaches = pthread_create(&m->detacher, NULL, detach, m) == 0;
	if (!m->detaches)
		detach(m);
	/* Wait for this first: a mount inside ours, which may be ending as well, is reached through
	 * ours. */
	wait_for(m, is_detached, NULL, monotonic_ns() + DETACH_NS);
}

/* The kernel lets a FUSE mount use one percent of the dirty memory limit, which is a fifth of
 * memory. */
static uint64_t dirty_at_most(void)
{
	struct sysinfo si;
	return sysinfo(&si) < 0 ? 0 : (uint64_t)si.totalram * si.mem_unit / 256;
}

static void drain(struct fs_mount *m, uint64_t grace_ns, uint64_t limit_ns)
{
	m->waived_max = dirty_at_most();
	atomic_store(&m->abort_after_ns, grace_ns);
	atomic_store(&m->draining, true);
	gate_mount_drain(m->gate_mount, true);
	wait_for(m, nothing_waits, NULL, grace_ns);
	gate_mount_drain(m->gate_mount, false);
	/* From here on we wait only for requests in the source.  Receivers continue and refuse new
	 * ones. */
	wait_for(m, nothing_queued, NULL, limit_ns);
	struct runners_seen seen;
	runners_see(m, &seen);
	wait_for(m, none_remains, &seen, limit_ns);
}

/* A receiver that waits for a message keeps the connection open. */
static void kick_receivers(struct fs_mount *m)
{
	const struct timespec nap = {.tv_nsec = LOOK_MS * NSEC_PER_MSEC};
	uint64_t until_ns = monotonic_ns() + KICK_NS;
	while (receivers_kick(m) && monotonic_ns() < until_ns)
		nanosleep(&nap, NULL);
}

/* Closes the connection.  The kernel then ends all requests that programs wait for; replies of
 * threads that are still in the source are discarded. */
static void cut_connection(struct fs_mount *m)
{
	const struct timespec nap = {.tv_nsec = LOOK_MS * NSEC_PER_MSEC};
	uint64_t until_ns = monotonic_ns() + KICK_NS;
	fuse_session_exit(m->se); /* libfuse does not report failing replies any more */
	atomic_store(&m->cut, true);
	rings_stop(m);
	/* Ring threads hold the connection open.  If the process exited before they end, the connection would stay open as
	 * long as threads hang in the source. */
	while (!rings_are_gone(m) && monotonic_ns() < until_ns)
		nanosleep(&nap, NULL);
	if (fuse_session_fd(m->se) >= 0)
		dup3(m->dead_fd, fuse_session_fd(m->se), O_CLOEXEC);
	dup3(m->dead_fd, m->fd, O_CLOEXEC);
	/* So does a receiver that got no CPU time while finish() kicked it, and then began to read. */
	kick_receivers(m);
}

/* Ends the remaining requests.  False: some are in the source. */
static bool finish(struct fs_mount *m, uint64_t limit_ns)
{
	atomic_store(&m->stopping, true);
	kick_receivers(m);
	/* A grace period for requests that happen to be in the source. */
	limit_ns = max_u64(limit_ns, monotonic_ns() + STOP_GRACE_NS);
	/* Ring threads refuse what they take from now on.  Clients that do not mind may keep them busy. */
	struct rings_seen seen;
	rings_see(m, &seen);
	bool away = wait_for(m, all_left, NULL, limit_ns) &&
		    wait_for(m, no_ring_serves, &seen, limit_ns);
	/* From here on, a thread that parks a request ends its wait itself: see entered() in parked.c. */
	gate_mount_drain(m->gate_mount, false);
	delayed_answer(m, NEVER, UINT_MAX);
	return wait_for(m, nothing_waits, NULL, limit_ns) &&
	       wait_for(m, source_is_idle, NULL, limit_ns) && away;
}

/* The kernel closes the connection once the mount is detached and nobody uses it.  On a busy machine, detaching alone can take
 * longer than the grace time. */
static bool is_still_used(struct fs_mount *m, uint64_t grace_ns)
{
	return !wait_for(m, all_left, NULL, grace_ns) && fs_mount_is_detached(m) &&
	       !wait_for(m, all_left, NULL, monotonic_ns() + LEAVE_NS) && !atomic_load(&m->ended);
}

bool fs_mount_stop(struct fs_mount *m, uint64_t patience_ns, struct fs_source_look *left)
{
	uint64_t now_ns = monotonic_ns(), grace_ns = now_ns + STOP_GRACE_NS;
	uint64_t limit_ns = max_u64(add_sat_u64(now_ns, patience_ns), grace_ns);
	*left = (struct fs_source_look){.oldest_op = ""};
	if (m->fd < 0)
		return true;
	/* our caller stops the mount, so it need not be notified of the end */
	atomic_store(&m->ended_once, true);
	start_detaching(m);
	bool clean = true;
	if (m->started) {
		drain(m, grace_ns, limit_ns);
		if (is_still_used(m, grace_ns))
			log_info("%s: still in use; its open files stop working", m->mountpoint);
		watchdog_ask_to_stop(m);
		clean = finish(m, limit_ns);
	}
	if (!clean) {
		fs_mount_look_source(m, left);
		left->n += left->queued;
		fs_mount_abandon(m);
	}
	cut_connection(m);
	if (!clean) {
		workers_run_queued(m->workers); /* refuses them */
		rings_run_queued(m);
		runners_give_up(m);
	}
	wait_for(m, is_detached, NULL, max_u64(limit_ns, monotonic_ns() + KICK_NS));
	return clean;
}

/* Closes libfuse's end of the connection.  libfuse would unmount the path again, which may be
 * another mount by now; it does not do so if the fd reports an error, as a pipe without a reader
 * does. */
static void close_fds(struct fs_mount *m)
{
	if (m->se)
		fuse_session_unmount(m->se);
	if (m->fd >= 0)
		close(m->fd);
	if (m->dead_fd >= 0)
		close(m->dead_fd);
}

void fs_mount_free(struct fs_mount *m)
{
	struct fs_source_look left;
	if (!m)
		return;
	if (m->fd >= 0 && !atomic_load(&m->cut))
		fs_mount_stop(m, NEVER, &left);
	/* Nobody gets an answer any more: what a slow thread still passes on is refused, which any thread can do. */
	fs_mount_abandon(m);
	watchdog_stop(m); /* first: it starts receivers */
	/* Then all threads that take requests: one that was slow may still park a request, or refuse it later. */
	receivers_join(m);
	rings_join(m);
	poll_forget_all(m);
	delayed_answer(m, NEVER, UINT_MAX);
	/* A thread of the gate may be about to pass a request to the workers, or to hand back one that it has refused. */
	while (parked_count(m)) {
		workers_run_queued(m->workers);
		nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * NSEC_PER_MSEC}, NULL);
	}
	workers_free(m->workers);
	rings_free(m);
	if (m->detaches)
		pthread_join(m->detacher, NULL);
	close_fds(m);
	if (m->se)
		fuse_session_destroy(m->se);
	fs_free(m->fs);
	parked_destroy(&m->parked);
	poll_destroy(&m->polls);
	watchdog_destroy(m);
	runners_destroy(m);
	pthread_mutex_destroy(&m->init_lock);
	free(m->fuse_options);
	free(m->mountpoint);
	free(m);
}
