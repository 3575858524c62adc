/* SPDX-License-Identifier: MIT */
#include "fs/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "fs/attach.h"
#include "fs/context.h"
#include "fs/mount_internal.h"
#include "fs/overhear.h"

uint64_t mount_now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

void fs_mount_worker_start(void *unused)
{
	fs_thread_start();
}

void fs_mount_set(struct fs_mount *m, const struct mount_policy *p)
{
	atomic_store(&m->nonblock_waits, p->nonblock_waits);
	atomic_store(&m->timeout_is_etimedout, p->timeout_is_etimedout);
	atomic_store(&m->interrupt, p->interrupt);
	atomic_store(&m->fair, p->fair);
}

void fs_mount_look(const struct fs_mount *m, struct fs_counts *out)
{
	fs_look(m->fs, out);
}

/* --- making it ------------------------------------------------------------------------------ */

/* libfuse reports by printing; its last words go into the error that our caller gets. */
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
		error_set(err, "cannot make a FUSE session: %s", strerror(ENOMEM));
	return se;
}

/* A source that is mounted read-only shows as such: programs then get EROFS where they do there. */
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
	m->g = g;
	m->gate = gate;
	m->fd = -1;
	fs_mount_set(m, &cfg->policy);
	parked_init(&m->parked);
	poll_init(&m->polls);
	m->mountpoint = strdup(cfg->mountpoint);
	if (m->mountpoint)
		m->fs = fs_new(&cfg->fs, err);
	if (m->fs && set_options(m, cfg->fuse_options))
		m->se = new_session(m, cfg->debug, err);
	if (!m->se) {
		fs_mount_free(m);
		return NULL;
	}
	return m;
}

/* Takes the mount out of the tree while the threads still serve, so that what the kernel has to
 * write back can be written.  On a thread of its own: the kernel's lock on all mounts may take long
 * on a busy machine, and clients that go on meanwhile make it busier. */
static void *detach(void *arg)
{
	const struct fs_mount *m = arg;
	if (umount2(m->mountpoint, MNT_DETACH | UMOUNT_NOFOLLOW) == 0 || errno != EPERM)
		return NULL;
	const char *argv[] = {"fusermount3", "-u", "-q", "-z", "--", m->mountpoint, NULL};
	extern char **environ;
	pid_t pid;
	int rc = posix_spawnp(&pid, argv[0], NULL, NULL, (char **)argv, environ);
	if (rc == 0)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	else
		log_error("%s: cannot run fusermount3 to unmount: %s", m->mountpoint, strerror(rc));
	return NULL;
}

/* By ourselves where we may, else as libfuse does it: through fusermount3, or the mountpoint is a
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
	struct overhear helper = {-1, -1};
	if (fd < 0)
		overhear_begin(&helper);
	fuse_words = err;
	int rc = fuse_session_mount(m->se, fd >= 0 ? passed : m->mountpoint);
	fuse_words = NULL;
	overhear_end(&helper, err);
	if (rc != 0 && !error_is_set(err))
		error_set(err, "cannot mount: %s", strerror(errno));
	return rc;
}

int fs_mount_mount(struct fs_mount *m, struct error *err)
{
	if (connect_session(m, err) != 0)
		return -1;
	/* Our own number for it: libfuse's is closed before the threads are gone. */
	m->fd = fcntl(fuse_session_fd(m->se), F_DUPFD_CLOEXEC, 3);
	if (m->fd < 0) {
		error_set(err, "cannot mount: %s", strerror(errno));
		detach(m);
		fuse_session_unmount(m->se);
		return -1;
	}
	fs_attach(m->fs, m->se);
	return 0;
}

int fs_mount_start(struct fs_mount *m, void (*ended)(struct fs_mount *m, void *ctx), void *ctx,
		   struct error *err)
{
	m->on_end = ended;
	m->on_end_ctx = ctx;
	m->started = true;
	int rc = watchdog_start(m);
	if (rc == 0)
		rc = receivers_start(m);
	if (rc < 0)
		return error_set(err, "cannot start threads: %s", strerror(-rc));
	return 0;
}

int fs_mount_wait_ready(struct fs_mount *m, struct error *err)
{
	uint64_t until_ns = mount_now_ns() + READY_NS;
	while (!receivers_have_served(m)) {
		if (atomic_load(&m->ended) || mount_now_ns() > until_ns)
			return error_set(err, "%s: the kernel does not talk to the daemon",
					 m->mountpoint);
		const struct timespec nap = {.tv_nsec = NSEC_PER_MSEC / 4};
		nanosleep(&nap, NULL);
	}
	return 0;
}

/* --- ending it ------------------------------------------------------------------------------ */

/* Lets go of libfuse's end.  It would unmount the path once more, which by now may show somebody
 * else's mount; it does not where the fd reports an error, as a pipe without a reader does. */
static void close_session_fd(struct fs_mount *m)
{
	int pipe_fds[2];
	int fd = fuse_session_fd(m->se);
	if (fd >= 0 && pipe2(pipe_fds, O_CLOEXEC) == 0) {
		close(pipe_fds[0]);
		dup3(pipe_fds[1], fd, O_CLOEXEC);
		close(pipe_fds[1]);
	}
	fuse_session_unmount(m->se);
	close(m->fd);
	m->fd = -1;
}

void fs_mount_stop(struct fs_mount *m)
{
	if (m->fd < 0)
		return;
	uint64_t grace = mount_now_ns() + STOP_GRACE_NS;
	atomic_store(&m->ended_once, true); /* who stops it need not be told of the end */
	atomic_store(&m->abort_after_ns, grace);
	gate_mount_drain(m->gate, true);
	pthread_t detacher;
	bool detaches = !atomic_load(&m->ended);
	if (detaches && pthread_create(&detacher, NULL, detach, m) != 0) {
		detach(m);
		detaches = false;
	}
	if (m->started) {
		parked_wait_empty(m, grace);
		if (!receivers_wait_ended(m, grace))
			log_info("%s: still in use; its open files end here", m->mountpoint);
		watchdog_stop(m);
		receivers_kick_out(m);
		late_answer(m, NEVER);
		parked_wait_empty(m, NEVER);
		poll_forget_all(m);
	}
	close_session_fd(m);
	if (detaches)
		pthread_join(detacher, NULL);
}

void fs_mount_free(struct fs_mount *m)
{
	if (!m)
		return;
	fs_mount_stop(m);
	if (m->se)
		fuse_session_destroy(m->se);
	fs_free(m->fs);
	parked_destroy(&m->parked);
	poll_destroy(&m->polls);
	free(m->fuse_options);
	free(m->mountpoint);
	free(m);
}
