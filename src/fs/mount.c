/* SPDX-License-Identifier: MIT */
#include "fs/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "fs/attach.h"
#include "fs/handle.h"
#include "fs/mirror.h"
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
	m->fs->is_behind = receivers_are_behind;
	m->fs->mount = m;
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
