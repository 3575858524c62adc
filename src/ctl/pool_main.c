/* SPDX-License-Identifier: MIT */
/* ratefs-pool: the helper of a ratefs daemon for one pool.  It has network access and nothing
 * else: no capabilities, no writable files, a system call filter.  It keeps no state that matters: the daemon knows
 * its lease, and starts another helper if this one exits. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "base/text.h"
#include "config.h"
#include "ctl/pool_link.h"

#define NOBODY	65534
#define FDS_MAX 140
#define MEMORY	(64 << 20) /* enough for all members; a server that sends more is at fault */

uint64_t pool_now_ms(void)
{
	return monotonic_ns() / NSEC_PER_MSEC;
}

/* --- rights --- */

static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return (int)syscall(SYS_capset, &head, none);
}

static void limit_resources(void)
{
	const struct rlimit no_core = {0, 0};
	setrlimit(RLIMIT_CORE, &no_core);
#ifndef RATEFS_SANITIZER /* sanitizers need more */
	const struct rlimit memory = {MEMORY, MEMORY};
	setrlimit(RLIMIT_DATA, &memory);
#endif
}

static bool in_user_namespace(void)
{
	unsigned inside = 0, outside = 0, n = 0;
	FILE *f = fopen("/proc/self/uid_map", "re");
	int found = f ? fscanf(f, "%u %u %u", &inside, &outside, &n) : 0;
	if (f)
		fclose(f);
	return found == 3 && (inside || outside || n != UINT32_MAX);
}

/* Root becomes nobody.  In a user namespace that does not have nobody or other groups, it only drops its capabilities. */
static int become_nobody(struct error *err)
{
	if (geteuid() != 0 || (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
			       setresuid(NOBODY, NOBODY, NOBODY) == 0))
		return 0;
	int why = errno;
	return in_user_namespace() ? 0 : error_set(err, "cannot become nobody: %s", strerror(why));
}

static int drop_privileges(struct error *err)
{
	limit_resources();
	/* Dropped first: the user nobody may not drop capabilities from the bounding set. */
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	if (become_nobody(err) < 0)
		return -1;
	if (drop_capabilities() < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_set(err, "cannot drop capabilities: %s", strerror(errno));
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return pool_restrict(err);
}

/* --- the daemon --- */

/* Takes the newest pending call; the daemon no longer expects answers to older ones.  False: there
 * is none. */
static bool newest_call(struct pool_call *out, bool *gone)
{
	for (bool any = false;;) {
		struct pool_call c;
		ssize_t n = recv(POOL_HELPER_FD, &c, sizeof(c), MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		*gone = n != sizeof(c) && !(n < 0 && errno == EAGAIN);
		if (n != sizeof(c))
			return any;
		*out = c;
		any = true;
	}
}

static bool report(const struct pool_report *r)
{
	size_t size = r->listed ? sizeof(*r) : offsetof(struct pool_report, listing);
	return send(POOL_HELPER_FD, r, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static bool report_error(uint64_t seq, const struct error *err)
{
	struct pool_report r = {.version = POOL_WIRE_VERSION, .answer.seq = seq};
	snprintf(r.error, sizeof(r.error), "%.*s", POOL_ERROR_MAX - 1, err->text);
	make_one_line(r.error);
	return report(&r);
}

/* Reports the members from time to time.  The answer has been reported before: a list that takes long must not cost the
 * lease. */
static bool report_members(struct pool_link *l, struct pool_report *r)
{
	uint64_t now_ms = pool_now_ms();
	if (r->answer.members > POOL_LISTED ||
	    (l->listed_ms && now_ms - l->listed_ms < POOL_LIST_MS))
		return true;
	l->listed_ms = now_ms;
	r->listed = l->ops->list(l, &r->listing);
	return !r->listed || report(r);
}

/* False: the daemon has exited, and its last call, which leaves the pool, has been made. */
static bool serve_daemon(struct pool_link *l)
{
	struct pool_call c;
	struct pool_report r = {.version = POOL_WIRE_VERSION, .answered = true};
	struct error err = ERROR_INIT;
	bool gone;
	if (!newest_call(&c, &gone))
		return !gone;
	int rc = l->ops->call(l, &c, &r.answer, &err);
	r.answer.seq = c.seq;
	if (rc == 0 && r.answer.status == POOL_FULL)
		rc = error_set(&err, "%s: too many members or pools; see ratefs-pool(8)",
			       l->setup.server);
	bool told = rc < 0 ? report_error(c.seq, &err) : report(&r) && report_members(l, &r);
	return told && !gone && !l->outdated;
}

static int run(struct pool_link *l)
{
	for (;;) {
		struct pollfd fds[FDS_MAX] = {{.fd = POOL_HELPER_FD, .events = POLLIN}};
		unsigned n = l->ops->watch ? l->ops->watch(l, fds + 1, FDS_MAX - 1) : 0;
		if (poll(fds, n + 1, -1) < 0) {
			if (errno == EINTR)
				continue;
			return 1;
		}
		if (l->ops->ready)
			l->ops->ready(l, fds + 1, n);
		if (fds[0].revents && !serve_daemon(l))
			return 0;
	}
}

/* --- the process --- */

static bool receive_setup(struct pool_setup *s)
{
	const uint32_t ours = POOL_WIRE_VERSION;
	ssize_t n;
	do
		n = recv(POOL_HELPER_FD, s, sizeof(*s), MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n > 0 && (n != sizeof(*s) || s->version != ours)) /* a daemon of another version */
		send(POOL_HELPER_FD, &ours, sizeof(ours), MSG_NOSIGNAL);
	return n == sizeof(*s) && s->version == ours && s->server[POOL_SERVER_MAX - 1] == '\0' &&
	       s->key[POOL_KEY_MAX - 1] == '\0' && s->auth[POOL_AUTH_MAX - 1] == '\0' &&
	       s->tls_ca[POOL_PATH_MAX - 1] == '\0' && s->tls_cert[POOL_PATH_MAX - 1] == '\0' &&
	       s->tls_key[POOL_PATH_MAX - 1] == '\0';
}

static int usage(const char *arg)
{
	if (arg && strcmp(arg, "--version") == 0)
		return puts("ratefs-pool (ratefs) " PACKAGE_VERSION) < 0;
	FILE *out = arg && strcmp(arg, "--help") == 0 ? stdout : stderr;
	fprintf(out, "usage: ratefs-pool --helper\n"
		     "Started by ratefs for each [pool:NAME]; see ratefs-pool(8).\n");
	return out == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
	static struct pool_link l; /* kept until the process ends */
	struct error err = ERROR_INIT;
	int type;
	socklen_t size = sizeof(type);
	if (argc != 2 || strcmp(argv[1], "--helper") != 0)
		return usage(argc == 2 ? argv[1] : NULL);
	if (getsockopt(POOL_HELPER_FD, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
	    type != SOCK_SEQPACKET || !receive_setup(&l.setup))
		return usage(NULL);
	signal(SIGPIPE, SIG_IGN);
	/* A signal to the process group must not end the helper before the daemon: it exits when the daemon closes the socket. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	l.ops = strncmp(l.setup.server, "unix:", 5) == 0 ? &pool_local_ops : &pool_redis_ops;
	if (l.ops->prepare(&l, &err) < 0 || drop_privileges(&err) < 0) {
		report_error(0, &err);
		return 1;
	}
	return run(&l);
}
