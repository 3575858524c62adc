/* SPDX-License-Identifier: MIT */
/* A pool without Redis, for the daemons of one machine: the first helper binds the socket and serves the pools from
 * memory (pool/server.h); the others are its clients.  If it exits, its clients exit as well; their daemons start new
 * helpers, and one of these binds the socket.  The data of the old server is lost, so the new one learns for a lease,
 * like any server that lost its data. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ctl/pool_link.h"
#include "pool/address.h"
#include "pool/server.h"

#define CLIENTS	  128
#define POOLS	  32
#define NO_ANSWER "the helper that serves the pool does not answer"

struct served_pool {
	char key[POOL_KEY_MAX];
	struct pool_server server;
};

struct local {
	int fd;	  /* the connection to the server; -1: this helper is the server */
	int lock; /* held by the server as long as it lives */
	int listener;
	int client[CLIENTS];
	unsigned n_clients, n_pools;
	struct served_pool pool[POOLS];
};

/* --- server or client --- */

static int address_of(const char *server, struct sockaddr_un *a, struct error *err)
{
	struct pool_address address;
	_Static_assert(sizeof(address.path) < sizeof(a->sun_path), "the address of a socket");
	if (pool_address_parse(server, &address, err) < 0)
		return -1;
	a->sun_family = AF_UNIX;
	memcpy(a->sun_path, address.path, sizeof(address.path));
	return 0;
}

/* Fails with EAGAIN if the server has hung: it leaves no room for further connections. */
static int connect_to(const struct sockaddr_un *a, uint32_t lease_ms)
{
	AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const struct timeval patience = {.tv_sec = lease_ms / 1000,
					 .tv_usec = lease_ms % 1000 * 1000};
	struct ucred peer;
	socklen_t size = sizeof(peer);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -1;
	if (peer.uid && peer.uid != geteuid()) { /* the server decides what is granted */
		errno = EPERM;
		return -1;
	}
	return take_fd(&fd);
}

/* Why the server that has accepted this connection does not serve us; NULL: it does, "": it has just exited. */
static const char *refusal(int fd, uint32_t lease_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct pool_local_hello hello = {0};
	if (poll(&p, 1, (int)lease_ms) <= 0)
		return NO_ANSWER;
	ssize_t n = recv(fd, &hello, sizeof(hello), MSG_DONTWAIT);
	if (n <= 0)
		return "";
	if (n != sizeof(hello) || hello.version != POOL_WIRE_VERSION)
		return "a daemon of another version of ratefs serves it: restart that daemon";
	return hello.full ? "has too many helpers already" : NULL;
}

/* The helper that holds the lock serves; a socket without a lock holder is stale. */
static int bind_to(struct local *s, const struct sockaddr_un *a)
{
	char lock[sizeof(a->sun_path) + 8];
	snprintf(lock, sizeof(lock), "%s.lock", a->sun_path);
	AUTO_FD lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock_fd < 0 || flock(lock_fd, LOCK_EX | LOCK_NB) < 0)
		return -1;
	struct stat st;
	if (lstat(a->sun_path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
		errno = EEXIST;
		return -1;
	}
	AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unlink(a->sun_path);
	mode_t mask = umask(0177);
	int rc = fd < 0 ? -1 : bind(fd, (const struct sockaddr *)a, sizeof(*a));
	umask(mask);
	if (rc < 0 || listen(fd, CLIENTS) < 0)
		return -1;
	s->lock = take_fd(&lock_fd);
	s->listener = take_fd(&fd);
	return 0;
}

static int prepare(struct pool_link *l, struct error *err)
{
	struct sockaddr_un a = {0};
	int why = 0;
	struct local *s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(err, "out of memory");
	s->fd = s->lock = s->listener = -1;
	l->state = s;
	if (address_of(l->setup.server, &a, err) < 0)
		return -1;
	/* The holder of the lock may not listen yet. */
	for (unsigned i = 0; i < 20; i++) {
		AUTO_FD fd = connect_to(&a, l->setup.lease_ms);
		why = fd < 0 ? errno : ECONNRESET;
		const char *refused = fd >= 0	      ? refusal(fd, l->setup.lease_ms)
				      : why == EAGAIN ? NO_ANSWER
						      : "";
		if (refused && *refused)
			return error_set(err, "%s: %s", a.sun_path, refused);
		if (!refused)
			s->fd = take_fd(&fd);
		if (!refused || (fd < 0 && why != EPERM && bind_to(s, &a) == 0))
			return 0;
		why = fd < 0 && why != EPERM ? errno : why;
		usleep(10000);
	}
	return error_set(err, "%s: %s", a.sun_path,
			 why == EEXIST	 ? "is there, and is not a socket"
			 : why == EPERM	 ? "another user serves it"
			 : why == EAGAIN ? "the helper that has its lock does not listen"
					 : strerror(why));
}

/* --- serving --- */

/* Leases use the monotonic clock, which nobody can set. */
static int64_t server_us(void)
{
	return (int64_t)pool_now_ms() * 1000 + 1;
}

/* Nobody has called for so long that the server would forget its limits. */
static bool is_unused(const struct pool_server *p, int64_t now_us)
{
	return now_us - p->last_us > POOL_FORGET * p->lease_us;
}

/* The pool with this key, or a new one; NULL: too many are in use. */
static struct pool_server *pool_of(struct local *s, const char *key)
{
	struct served_pool *free_one = s->n_pools < POOLS ? &s->pool[s->n_pools] : NULL;
	int64_t now_us = server_us();
	for (unsigned i = 0; i < s->n_pools; i++) {
		if (strcmp(s->pool[i].key, key) == 0)
			return &s->pool[i].server;
		if (is_unused(&s->pool[i].server, now_us))
			free_one = &s->pool[i];
	}
	if (!free_one)
		return NULL;
	if (free_one == &s->pool[s->n_pools])
		s->n_pools++;
	snprintf(free_one->key, sizeof(free_one->key), "%s", key);
	pool_server_free(&free_one->server);
	return &free_one->server;
}

static bool serve(struct local *s, const struct pool_local_call *c, struct pool_answer *out)
{
	if (c->key[POOL_KEY_MAX - 1] != '\0' || !pool_call_is_sound(&c->call))
		return false;
	struct pool_server *p = pool_of(s, c->key);
	memset(out, 0, sizeof(*out));
	out->seq = c->call.seq;
	out->status = POOL_FULL;
	if (p)
		pool_serve(p, &c->call, server_us(), false, out);
	return true;
}

static void list_members(const struct pool_server *p, struct pool_listing *out)
{
	out->n = 0;
	for (unsigned i = 0; i < p->n && out->n < POOL_LISTED; i++) {
		struct pool_listed *m = &out->member[out->n++];
		memcpy(m->who, p->member[i].who, sizeof(m->who));
		m->weight = p->member[i].weight;
		m->age_us = (uint64_t)(p->last_us - p->member[i].called_us);
		memcpy(m->charged, p->member[i].charged, sizeof(m->charged));
	}
}

static bool send_list(struct local *s, int fd, const struct pool_local_call *c)
{
	static struct pool_listing list; /* its padding stays zero */
	struct pool_server *p = c->key[POOL_KEY_MAX - 1] == '\0' ? pool_of(s, c->key) : NULL;
	if (!p)
		return false;
	list_members(p, &list);
	return send(fd, &list, sizeof(list), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(list);
}

static bool serve_client(struct local *s, int fd)
{
	struct pool_local_call c;
	struct pool_answer a;
	ssize_t n = recv(fd, &c, sizeof(c), MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n == sizeof(c) && c.list)
		return send_list(s, fd, &c);
	return n == sizeof(c) && serve(s, &c, &a) &&
	       send(fd, &a, sizeof(a), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(a);
}

static void accept_client(struct local *s)
{
	const struct pool_local_hello hello = {.version = POOL_WIRE_VERSION,
					       .full = s->n_clients >= CLIENTS};
	AUTO_FD fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 || send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello) || hello.full)
		return;
	s->client[s->n_clients++] = take_fd(&fd);
}

static unsigned watch(struct pool_link *l, struct pollfd *fds, unsigned max)
{
	struct local *s = l->state;
	unsigned n = 0;
	if (s->fd >= 0) {
		fds[n++] = (struct pollfd){.fd = s->fd, .events = 0}; /* to notice when it closes */
		return n;
	}
	fds[n++] = (struct pollfd){.fd = s->listener, .events = POLLIN};
	for (unsigned i = 0; i < s->n_clients && n < max; i++)
		fds[n++] = (struct pollfd){.fd = s->client[i], .events = POLLIN};
	return n;
}

static void ready(struct pool_link *l, const struct pollfd *fds, unsigned n)
{
	struct local *s = l->state;
	if (s->fd >= 0) {
		if (n && fds[0].revents)
			_exit(0); /* the server is gone: the next helper may become the server */
		return;
	}
	for (unsigned i = n; i-- > 1;) {
		if (!fds[i].revents || serve_client(s, fds[i].fd))
			continue;
		close(s->client[i - 1]);
		s->client[i - 1] = s->client[--s->n_clients];
	}
	if (n && fds[0].revents)
		accept_client(s);
}

struct reply {
	ssize_t n; /* the length tells which member of the union it is */
	union {
		struct pool_answer answer;
		struct pool_listing list;
	};
};

/* Sends the call, unless its key is empty, and waits for one reply, for a lease at most. */
static bool ask(struct pool_link *l, const struct pool_local_call *c, struct reply *out)
{
	const struct local *s = l->state;
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	if (*c->key && send(s->fd, c, sizeof(*c), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(*c))
		_exit(0); /* the server is gone, as in `ready` */
	if (poll(&p, 1, (int)l->setup.lease_ms) <= 0)
		return false;
	out->n = recv(s->fd, &out->list, sizeof(out->list), 0);
	if (out->n != sizeof(out->answer) && out->n != sizeof(out->list))
		_exit(0);
	return true;
}

static int call(struct pool_link *l, const struct pool_call *c, struct pool_answer *out,
		struct error *err)
{
	struct local *s = l->state;
	struct pool_local_call lc = {.call = *c};
	memcpy(lc.key, l->setup.key, sizeof(lc.key));
	if (s->fd < 0)
		return serve(s, &lc, out) ? 0 : error_set(err, "invalid call");
	struct reply reply;
	do { /* an answer to an earlier call may have come too late */
		if (!ask(l, &lc, &reply))
			return error_set(err, NO_ANSWER);
		lc.key[0] = '\0'; /* send the call only once */
	} while (reply.n != sizeof(*out) || reply.answer.seq != c->seq);
	*out = reply.answer;
	return 0;
}

static bool list(struct pool_link *l, struct pool_listing *out)
{
	struct local *s = l->state;
	if (s->fd < 0) {
		const struct pool_server *p = pool_of(s, l->setup.key);
		if (p)
			list_members(p, out);
		return p;
	}
	struct pool_local_call lc = {.list = true};
	struct reply reply;
	memcpy(lc.key, l->setup.key, sizeof(lc.key));
	if (!ask(l, &lc, &reply) || reply.n != sizeof(*out) || reply.list.n > POOL_LISTED)
		return false;
	*out = reply.list;
	return true;
}

const struct pool_link_ops pool_local_ops = {
	.prepare = prepare, .call = call, .list = list, .watch = watch, .ready = ready};
