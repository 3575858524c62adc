/* SPDX-License-Identifier: MIT */
#include "fs/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "fs/attach.h"
#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/creds.h"
#include "fs/mount_internal.h"
#include "fs/capture.h"

void fs_mount_set(struct fs_mount *m, const struct mount_policy *p)
{
	atomic_store(&m->nonblock_waits, p->nonblock_waits);
	atomic_store(&m->timeout_is_etimedout, p->timeout_is_etimedout);
	atomic_store(&m->interrupt, p->interrupt);
}

void fs_mount_set_space(struct fs_mount *m, const struct space_policy *p)
{
	fs_set_space(m->fs, p);
}

void fs_mount_look(const struct fs_mount *m, struct fs_counts *out)
{
	fs_look(m->fs, out);
}

struct mount_place fs_mount_place(const struct fs_mount *m)
{
	return m->place;
}

unsigned fs_mount_bypassing(const struct fs_mount *m, struct fs_opener *out, unsigned n)
{
	return handles_bypassing(m->fs, out, n);
}

/* --- mounting ------------------------------------------------------------------------------- */

/* libfuse reports errors by printing; the last line that it prints is put into the error that our
 * caller gets. */
static _Thread_local struct error *fuse_words;

static void on_fuse_log(enum fuse_log_level level, const char *fmt, va_list ap)
{
	char line[512];
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = '\0';
	if (!line[0])
		return;
	if (level == FUSE_LOG_DEBUG)
		log_debug("%s", line);
	else if (fuse_words)
		error_set(fuse_words, "%s", line);
	else
		log_warning("%s", line);
}

static struct fuse_session *new_session(const struct fs_mount *m, bool debug, struct error *err)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_session *se = NULL;
	if (fuse_opt_add_arg(&args, "ratefs") == 0 &&
	    (!m->fuse_options[0] || (fuse_opt_add_arg(&args, "-o") == 0 &&
				     fuse_opt_add_arg(&args, m->fuse_options) == 0)) &&
	    (!debug || fuse_opt_add_arg(&args, "-d") == 0)) {
		fuse_words = err;
		se = fuse_session_new(&args, &fs_ops, sizeof(fs_ops), m->fs);
		fuse_words = NULL;
	}
	fuse_opt_free_args(&args);
	if (!se && !error_is_set(err))
		error_set(err, "cannot create a FUSE session: %s", strerror(ENOMEM));
	return se;
}

/* A mount of a read-only source is read-only, so that programs get the same EROFS. */
static bool set_options(struct fs_mount *m, const char *options)
{
	const char *given = options ? options : "";
	const char *ro = !fs_source_is_read_only(m->fs) ? "" : given[0] ? ",ro" : "ro";
	return asprintf(&m->fuse_options, "%s%s", given, ro) >= 0;
}

struct fs_mount *fs_mount_new(const struct mount_config *cfg, struct gate *g,
			      struct gate_mount *gate, struct error *err)
{
	fuse_set_log_func(on_fuse_log);
	struct fs_mount *m = aligned_alloc(CACHE_LINE, sizeof(*m));
	if (!m) {
		error_set(err, "%s", strerror(ENOMEM));
		return NULL;
	}
	memset(m, 0, sizeof(*m));
	m->gate = g;
	m->gate_mount = gate;
	m->wanted = cfg->transport;
	m->fd = m->dead_fd = -1;
	fs_mount_set(m, &cfg->policy);
	parked_init(&m->parked);
	poll_init(&m->polls);
	watchdog_init(m);
	runners_init(m);
	pthread_mutex_init(&m->init_lock, NULL);
	m->mountpoint = strdup(cfg->mountpoint);
	m->workers = workers_new(WORKERS_MAX,
				 &(struct workers_hooks){.thread_start = runner_start_worker,
							 .thread_stop = runner_stop_worker,
							 .stranded = watchdog_strand,
							 .ctx = m});
	if (!m->workers)
		error_set(err, "cannot start threads");
	if (m->mountpoint && m->workers)
		m->fs = fs_new(&cfg->fs, err);
	if (m->fs && set_options(m, cfg->fuse_options))
		m->se = new_session(m, cfg->debug, err);
	if (!m->se) {
		fs_mount_free(m);
		return NULL;
	}
	return m;
}

/* Mounts directly if we may.  Otherwise libfuse does: through fusermount3, or the mountpoint is a
 * connection that was opened for us (/dev/fd/N). */
static int connect_session(struct fs_mount *m, struct error *err)
{
	char passed[32];
	bool own = geteuid() == 0 && strncmp(m->mountpoint, "/dev/fd/", 8) != 0;
	int fd = own ? attach(m->mountpoint, m->fuse_options, err) : -2;
	if (fd == -1)
		return -1;
	if (fd >= 0)
		snprintf(passed, sizeof(passed), "/dev/fd/%d", fd);
	struct capture helper = {-1, -1};
	if (fd < 0)
		capture_begin(&helper);
	fuse_words = err;
	int rc = fuse_session_mount(m->se, fd >= 0 ? passed : m->mountpoint);
	fuse_words = NULL;
	capture_end(&helper, err);
	if (rc != 0 && !error_is_set(err))
		error_set(err, "cannot mount: %s", strerror(errno));
	return rc;
}

/* The write end of a pipe that nobody reads. */
static int open_dead_fd(void)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	close(fds[0]);
	return fds[1];
}

void fs_mount_root(const struct fs_mount *m, uint64_t *dev, uint64_t *ino)
{
	*dev = m->fs->inodes.root->dev;
	*ino = m->fs->inodes.root->ino;
}

const char *fs_mount_transport(const struct fs_mount *m, const char **why_not)
{
	bool uring = atomic_load(&m->uses_uring);
	*why_not = uring ? "" : m->why_not_uring;
	return uring ? "uring" : "dev";
}

int fs_mount_mount(struct fs_mount *m, struct error *err)
{
	m->dead_fd = open_dead_fd();
	if (m->dead_fd < 0)
		return error_set(err, "cannot mount: %s", strerror(errno));
	if (connect_session(m, err) != 0)
		return -1;
	if (strncmp(m->mountpoint, "/dev/fd/", 8) != 0)
		mount_place_find(&m->place, m->mountpoint);
	/* A descriptor of our own: libfuse closes its one before the threads are gone. */
	m->fd = fcntl(fuse_session_fd(m->se), F_DUPFD_CLOEXEC, 3);
	if (m->fd < 0) {
		error_set(err, "cannot mount: %s", strerror(errno));
		mount_place_detach(&m->place, m->mountpoint, 0, &m->abandon);
		fuse_session_unmount(m->se);
		return -1;
	}
	fs_attach(m->fs, m->se);
	return mount_watch_init(m, err);
}

int fs_mount_start(struct fs_mount *m, void (*ended)(struct fs_mount *m, void *ctx), void *ctx,
		   struct error *err)
{
	m->on_end = ended;
	m->on_end_ctx = ctx;
	m->started = true;
	pthread_mutex_lock(&m->init_lock);
	int rc = receivers_start(m);
	if (rc == 0)
		rc = watchdog_start(m); /* after the receivers: it starts some as well */
	/* Last: the mount works without rings, so these get the threads and memory that the others leave. */
	if (rc == 0 && m->wanted != TRANSPORT_DEV)
		rings_start(m);
	pthread_mutex_unlock(&m->init_lock);
	if (rc < 0)
		return error_set(err, "cannot start threads: %s", strerror(-rc));
	return 0;
}

int fs_mount_wait_ready(struct fs_mount *m, struct error *err)
{
	uint64_t until_ns = monotonic_ns() + READY_NS;
	while (!receivers_have_served(m)) {
		if (atomic_load(&m->ended) || monotonic_ns() > until_ns)
			return error_set(err, "%s: the kernel does not contact the daemon",
					 m->mountpoint);
		const struct timespec nap = {.tv_nsec = NSEC_PER_MSEC / 4};
		nanosleep(&nap, NULL);
	}
	if (m->wanted == TRANSPORT_URING && !atomic_load(&m->uses_uring))
		log_warning("%s: no io_uring, requests come by /dev/fuse: %s", m->mountpoint,
			    m->why_not_uring);
	return 0;
}

/* --- ending --------------------------------------------------------------------------------- */

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
	bool away = wait_for(m, all_left, NULL, limit_ns);
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
	watchdog_stop(m); /* first: it starts receivers */
	/* Then all threads that take requests: one that was slow may still park a request, or refuse it later. */
	receivers_join(m);
	rings_join(m);
	poll_forget_all(m);
	delayed_answer(m, NEVER, UINT_MAX);
	workers_free(m->workers);
	/* A thread of the gate may be about to hand back a request that it has refused. */
	while (parked_count(m))
		nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * NSEC_PER_MSEC}, NULL);
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
