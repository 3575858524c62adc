/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/monotonic.h"
#include "daemon/pool_launcher.h"
#include "daemon/pools_internal.h"
#include "daemon/registry.h"

static int launcher = -1;

#define RESTART_FIRST_NS (20 * NSEC_PER_MSEC)
#define AUTH_PATIENCE_NS (2 * NSEC_PER_SEC)
#define RESTART_MOST_NS	 (5 * NSEC_PER_SEC)

/* Without a configuration file there is no reload, which could add a pool later. */
int pools_prepare(const struct configuration *c, struct error *err)
{
	if (!c->n_pools && !c->file)
		return 0;
	launcher = pool_launcher_start();
	return launcher < 0 ? error_set(err, "cannot start the process that starts ratefs-pool: %s",
					strerror(-launcher))
			    : 0;
}

void pool_helpers_end(void)
{
	if (launcher >= 0)
		close(launcher);
	launcher = -1;
}

static void auth_forget(struct pool *p);

void pool_helper_drop(struct pool *p)
{
	auth_forget(p);
	if (p->helper.fd < 0)
		return;
	loop_unwatch(p->all->loop, &p->helper);
	close(p->helper.fd);
	p->helper.fd = -1;
}

void pool_helper_ended(struct pool *p)
{
	pool_helper_drop(p);
	if (!*p->error)
		snprintf(p->error, sizeof(p->error), "ratefs-pool has ended");
	p->restart_in =
		p->answered ? RESTART_FIRST_NS : min_u64(2 * p->restart_in, RESTART_MOST_NS);
	p->restart_ns = monotonic_ns() + p->restart_in;
	p->answered = false;
}

/* Reads the credentials.  Refuses a file that others than its owner can read, or whose owner is
 * neither root nor us. */
static int read_auth(const char *path, char *out, size_t size, struct error *err)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, "auth_file: %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077) || (st.st_uid && st.st_uid != geteuid()))
		return error_set(
			err, "auth_file: %s must be a file that only its owner can read (mode 600)",
			path);
	ssize_t n = read(fd, out, size - 1);
	if (n < 0)
		return error_set(err, "auth_file: %s: %s", path, strerror(errno));
	out[n] = '\0';
	out[strcspn(out, "\r\n")] = '\0';
	if (strlen(out) == size - 1)
		return error_set(err, "auth_file: %s: its line is too long", path);
	return *out ? 0 : error_set(err, "auth_file: %s is empty", path);
}

/* A task reads them: the file may be where nothing responds. */
struct auth_look {
	struct task task;
	struct registry *registry;
	bool wanted, done;
	uint64_t since_ns;
	/* used by the thread until done */
	char *path;
	char text[sizeof(((struct pool_setup *)NULL)->auth)];
	struct error err;
};

static void look_run(struct task *t)
{
	struct auth_look *l = container_of(t, struct auth_look, task);
	read_auth(l->path, l->text, sizeof(l->text), &l->err);
}

static void look_free(struct auth_look *l)
{
	explicit_bzero(l->text, sizeof(l->text));
	free(l->path);
	free(l);
}

static void look_done(struct task *t)
{
	struct auth_look *l = container_of(t, struct auth_look, task);
	l->registry->looks--;
	l->done = true;
	if (!l->wanted)
		look_free(l);
}

static void auth_forget(struct pool *p)
{
	struct auth_look *l = p->auth;
	p->auth = NULL;
	if (!l)
		return;
	l->wanted = false;
	if (l->done)
		look_free(l);
}

/* True: the credentials are there, or cannot be had.  False: they are being read. */
static bool auth_is_known(struct pool *p, uint64_t now_ns)
{
	if (!p->s.auth_file)
		return true;
	if (p->auth && !p->auth->done && now_ns - p->auth->since_ns > AUTH_PATIENCE_NS)
		snprintf(p->error, sizeof(p->error), "auth_file: %.200s does not respond",
			 p->s.auth_file);
	if (p->auth)
		return p->auth->done;
	struct auth_look *l = calloc(1, sizeof(*l));
	char *path = strdup(p->s.auth_file);
	if (!l || !path) {
		free(l);
		free(path);
		return false; /* and again at the next step */
	}
	*l = (struct auth_look){.task = {.run = look_run, .done = look_done},
				.registry = p->all->registry,
				.wanted = true,
				.since_ns = now_ns,
				.path = path,
				.err = ERROR_INIT};
	p->auth = l;
	l->registry->looks++;
	task_start(&l->registry->tasks, &l->task);
	return false;
}

static int take_auth(const struct pool *p, char *out, size_t size, struct error *err)
{
	const struct auth_look *l = p->auth;
	if (!l)
		return 0;
	if (error_is_set(&l->err)) {
		*err = l->err;
		return -1;
	}
	memcpy(out, l->text, size);
	return 0;
}

static void copy_path(char out[POOL_PATH_MAX], const char *path)
{
	snprintf(out, POOL_PATH_MAX, "%s", path ? path : "");
}

static int setup_of(const struct pool *p, struct pool_setup *out, struct error *err)
{
	memset(out, 0, sizeof(*out));
	out->version = POOL_WIRE_VERSION;
	snprintf(out->name, sizeof(out->name), "%s", p->s.name);
	snprintf(out->server, sizeof(out->server), "%s", p->s.server);
	snprintf(out->key, sizeof(out->key), "%s", p->s.key);
	copy_path(out->tls_ca, p->s.tls_ca);
	copy_path(out->tls_cert, p->s.tls_cert);
	copy_path(out->tls_key, p->s.tls_key);
	out->lease_ms = (uint32_t)(p->s.lease_ns / NSEC_PER_MSEC);
	return take_auth(p, out->auth, sizeof(out->auth), err);
}

static int start_helper(struct pool *p, struct error *err)
{
	struct pool_setup setup;
	int fds[2];
	if (setup_of(p, &setup, err) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return error_set(err, "%s", strerror(errno));
	bool ok = send(fds[0], &setup, sizeof(setup), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(setup);
	explicit_bzero(&setup, sizeof(setup));
	int rc = ok ? pool_launcher_launch(launcher, fds[1]) : -errno;
	close(fds[1]);
	p->helper = (struct watch){fds[0], pool_on_helper};
	if (rc == 0)
		rc = loop_watch(p->all->loop, &p->helper, EPOLLIN);
	if (rc == 0) {
		p->restarts++;
		return 0;
	}
	close(fds[0]);
	p->helper.fd = -1;
	return error_set(err, "cannot start ratefs-pool: %s%s", strerror(-rc),
			 rc == -EPIPE ? "; the process that starts it is gone: restart ratefs"
				      : "");
}

void pool_helper_want(struct pool *p, uint64_t now_ns)
{
	struct error err = ERROR_INIT;
	if (p->helper.fd >= 0 || now_ns < p->restart_ns || !auth_is_known(p, now_ns))
		return;
	int rc = start_helper(p, &err);
	auth_forget(p);
	if (rc == 0) {
		/* The previous helper may have exited before it answered a call. */
		pool_member_failed(&p->member, p->member.seq, now_ns);
		return;
	}
	snprintf(p->error, sizeof(p->error), "%.*s", POOL_ERROR_MAX - 1, err.text);
	pool_helper_ended(p);
}

void pool_helper_send(struct pool *p, const struct pool_call *call)
{
	/* A busy helper skips to the newest of the calls that are queued in the socket.  If the socket is full, the
	 * helper hangs, and the call is dropped. */
	if (p->helper.fd >= 0)
		send(p->helper.fd, call, sizeof(*call), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void pool_helper_renew(struct pool *p)
{
	pool_helper_drop(p);
	p->restart_ns = 0;
	p->restart_in = RESTART_FIRST_NS;
}
