/* SPDX-License-Identifier: MIT */
#include "daemon/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/commands.h"
#include "daemon/control_socket.h"
#include "daemon/key_watch.h"
#include "daemon/registry.h"
#include "proto/proto.h"

#define LINES_AT_A_TIME 8

struct client {
	struct watch watch;
	struct list link;
	struct control *control;
	char *in; /* PROTO_LINE_MAX */
	size_t in_len;
	char *out; /* answers that are not sent yet */
	size_t out_len, out_done;
	int64_t since_s; /* when the last byte was received or sent */
	bool leaving;	 /* is disconnected when its answer is sent */
	bool awaits;	 /* its command is in progress; no other is read meanwhile */
	bool again;	 /* the request waits for names or uses: run it once more */
	bool more;	 /* lines are left that are read when others have had their turn */
	bool hung_up;	 /* while its request was to be run once more */
	json_t *request; /* while `awaits` */
	struct command_reply reply;
	struct trace *trace; /* of a subscriber, which sends no more requests; NULL: none */
};

int control_open(struct control *c, const struct settings *global, const char *name,
		 struct error *err)
{
	const char *asked = global->control;
	memset(c, 0, sizeof(*c));
	proto_init();
	list_init(&c->clients);
	c->listener.fd = -1;
	if (asked && strcmp(asked, "off") == 0)
		return 0;
	c->listener.fd = control_socket_make(asked, name, c->path, err);
	if (c->listener.fd >= 0 || asked)
		return c->listener.fd >= 0 ? 0 : -1;
	log_warning("ratefsctl will not reach this daemon: %s", err->text);
	return 0;
}

/* --- clients -------------------------------------------------------------------------------- */

static void request_end(struct client *cl)
{
	command_reply_free(&cl->reply);
	json_decref(cl->request);
	cl->request = NULL;
	cl->awaits = cl->again = false;
}

static void drop(struct client *cl)
{
	loop_unwatch(cl->control->loop, &cl->watch);
	list_remove(&cl->link);
	cl->control->n_clients--;
	close(cl->watch.fd);
	request_end(cl);
	if (cl->trace)
		trace_close(&cl->control->traces, cl->trace);
	free(cl->in);
	free(cl->out);
	free(cl);
}

/* False: all of them wait for answers. */
static bool drop_longest_idle(struct control *c)
{
	struct client *oldest = NULL;
	list_for_each (it, &c->clients) {
		struct client *cl = list_entry(it, struct client, link);
		if (!cl->awaits && (!oldest || cl->since_s < oldest->since_s))
			oldest = cl;
	}
	if (oldest)
		drop(oldest);
	return oldest;
}

/* Sends a subscriber as much of its buffer as the socket takes.  False: the client is gone. */
static bool send_events(struct client *cl)
{
	struct trace *t = cl->trace;
	t->fresh = false;
	while (t->done < t->len) {
		ssize_t n = send(cl->watch.fd, t->text + t->done, t->len - t->done,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			drop(cl);
			return false;
		}
		if (n < 0)
			break;
		trace_sent(t, (size_t)n);
		cl->since_s = cl->control->now_s;
	}
	loop_watch(cl->control->loop, &cl->watch, t->done < t->len ? EPOLLIN | EPOLLOUT : EPOLLIN);
	return true;
}

static void send_all_events(void *ctx)
{
	struct control *c = ctx;
	list_for_each_safe (it, &c->clients) {
		struct client *cl = list_entry(it, struct client, link);
		if (cl->trace && cl->trace->fresh && !cl->out)
			send_events(cl);
	}
}

/* Sends as much of cl->out as the socket takes.  False: the client is gone. */
static bool send_out(struct client *cl)
{
	while (cl->out_done < cl->out_len) {
		ssize_t n = send(cl->watch.fd, cl->out + cl->out_done, cl->out_len - cl->out_done,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			loop_watch(cl->control->loop, &cl->watch, EPOLLOUT);
			return true;
		}
		if (n < 0) {
			drop(cl);
			return false;
		}
		cl->out_done += n;
		cl->since_s = cl->control->now_s;
	}
	free(cl->out);
	cl->out = NULL;
	cl->out_len = cl->out_done = 0;
	if (cl->leaving) {
		drop(cl);
		return false;
	}
	if (cl->trace)
		return send_events(cl);
	loop_watch(cl->control->loop, &cl->watch, EPOLLIN);
	return true;
}

/* If there is not even memory for an error message, the client is disconnected
 * rather than left waiting. */
static void answer(struct client *cl, json_t *object)
{
	static const char no_memory[] =
		"{\"v\":1,\"ok\":false,\"error\":{\"code\":\"no-memory\",\"text\":\"out of memory\"}}\n";
	cl->out = object ? proto_line(object, &cl->out_len) : NULL;
	json_decref(object);
	if (cl->out)
		return;
	cl->out = strdup(no_memory);
	cl->out_len = cl->out ? strlen(cl->out) : 0;
	cl->leaving = !cl->out;
}

/* From now on the client gets events. */
static void subscribe(struct client *cl)
{
	struct command_reply *reply = &cl->reply;
	if (trace_open(&cl->control->traces, &reply->filter, &cl->trace) < 0)
		command_fail(reply, PROTO_NO_MEMORY, "out of memory");
}

/* Call when the command has finished. */
static void answer_request(struct client *cl)
{
	if (cl->reply.subscribes && !cl->reply.code)
		subscribe(cl);
	json_t *id = json_object_get(cl->request, "id");
	answer(cl, command_answer(&cl->reply, id));
	if (cl->out_len > PROTO_ANSWER_MAX) {
		free(cl->out);
		answer(cl, command_refusal(PROTO_FAILED, "the answer is too long"));
	}
	request_end(cl);
}

/* Runs the command of cl->request. */
static void run_request(struct client *cl)
{
	bool again = cl->again;
	cl->again = false;
	if (!command_reply_init(&cl->reply)) {
		answer(cl, NULL);
		request_end(cl);
		return;
	}
	cl->reply.again = again;
	command_run(cl->control->registry, cl->request, &cl->reply);
	cl->awaits = command_awaits(&cl->reply);
	cl->again = cl->awaits && cl->reply.later;
	if (!cl->awaits)
		answer_request(cl);
}

static void obey(struct client *cl, const char *line, size_t size)
{
	struct error err = ERROR_INIT;
	cl->request = proto_parse(line, size, PROTO_DEPTH_MAX, &err);
	if (cl->request) {
		run_request(cl);
		return;
	}
	answer(cl, command_refusal(PROTO_BAD_REQUEST, err.text));
	cl->leaving = true; /* we cannot tell where the next request begins */
}

/* Runs one line at a time, and the next only when the answer has been sent, so that memory stays
 * bounded.  After some lines, signals and other clients have their turn.  False: the client is gone. */
static bool next_line(struct client *cl)
{
	cl->more = false;
	for (unsigned n = 0; !cl->out && !cl->leaving && !cl->awaits && !cl->trace; n++) {
		char *end = memchr(cl->in, '\n', cl->in_len);
		if (!end)
			break;
		if (n == LINES_AT_A_TIME) {
			cl->more = true;
			loop_watch(cl->control->loop, &cl->watch, EPOLLOUT); /* immediately */
			return true;
		}
		size_t size = end + 1 - cl->in;
		obey(cl, cl->in, size - 1);
		memmove(cl->in, cl->in + size, cl->in_len - size);
		cl->in_len -= size;
		if (cl->awaits)
			loop_watch(cl->control->loop, &cl->watch, 0); /* watch only for hangup */
		else if (!send_out(cl))
			return false;
	}
	if (!cl->out && !cl->awaits && cl->in_len == PROTO_LINE_MAX) {
		answer(cl, command_refusal(PROTO_BAD_REQUEST, "the line is too long"));
		cl->leaving = true;
		return send_out(cl);
	}
	return true;
}

/* Input of a subscriber is ignored, except for the end of the connection. */
static void on_subscriber(struct client *cl, uint32_t events)
{
	char ignored[4096];
	ssize_t n =
		events & EPOLLIN ? recv(cl->watch.fd, ignored, sizeof(ignored), MSG_DONTWAIT) : 1;
	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		drop(cl);
	else
		send_events(cl);
}

static void on_client(struct watch *w, uint32_t events)
{
	struct client *cl = container_of(w, struct client, watch);
	struct control *c = cl->control;
	if (cl->trace && !cl->out) {
		on_subscriber(cl, events);
		return;
	}
	if (cl->awaits) { /* the client has hung up; its command continues */
		cl->hung_up = cl->again;
		if (cl->hung_up)
			loop_unwatch(c->loop, &cl->watch);
		else
			drop(cl);
		return;
	}
	if (cl->out) {
		if (!send_out(cl) || cl->out)
			return;
		next_line(cl);
		c->obeyed(c->obeyed_ctx);
		return;
	}
	if (cl->more) {
		next_line(cl);
		c->obeyed(c->obeyed_ctx);
		return;
	}
	ssize_t n = recv(w->fd, cl->in + cl->in_len, PROTO_LINE_MAX - cl->in_len, MSG_DONTWAIT);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		drop(cl);
		return;
	}
	cl->in_len += n;
	cl->since_s = cl->control->now_s;
	next_line(cl);
	c->obeyed(c->obeyed_ctx);
}

void control_progress(struct control *c)
{
	registry_tell_states(c->registry);
	list_for_each_safe (it, &c->clients) {
		struct client *cl = list_entry(it, struct client, link);
		if (!cl->awaits || cl->again || !await_is_over(c->registry, &cl->reply.await))
			continue;
		await_report(c->registry, &cl->reply.await, &cl->reply);
		answer_request(cl);
		cl->since_s = c->now_s;
		if (send_out(cl) && !cl->out)
			next_line(cl);
	}
}

void control_resume(struct control *c)
{
	list_for_each_safe (it, &c->clients) {
		struct client *cl = list_entry(it, struct client, link);
		if (!cl->again)
			continue;
		command_reply_free(&cl->reply);
		cl->since_s = c->now_s;
		run_request(cl);
		if (cl->hung_up && !cl->again)
			drop(cl);
		else if (!cl->awaits && send_out(cl))
			next_line(cl);
	}
}

bool control_is_awaited(const struct control *c)
{
	list_for_each (it, (struct list *)&c->clients)
		if (list_entry(it, struct client, link)->awaits)
			return true;
	return false;
}

static bool may_control(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return false;
	if (peer.uid == 0 || peer.uid == geteuid())
		return true;
	log_warning("control socket: refused user %u (process %d)", (unsigned)peer.uid,
		    (int)peer.pid);
	return false;
}

static void tick(void *ctx);

static void use_ticks(struct control *c)
{
	c->loop->tick = tick;
	c->loop->tick_ctx = c;
}

/* There are no file descriptors left: the listener would stay readable, and the loop would spin. */
static void pause_listening(struct control *c)
{
	c->deaf = true;
	loop_watch(c->loop, &c->listener, 0);
	use_ticks(c);
}

static void on_connect(struct watch *w, uint32_t events)
{
	struct control *c = container_of(w, struct control, listener);
	AUTO_FD fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		if ((errno == EMFILE || errno == ENFILE) && !drop_longest_idle(c))
			pause_listening(c);
		return;
	}
	if (!may_control(fd)) {
		static const char no[] =
			"{\"v\":1,\"ok\":false,\"error\":{\"code\":\"denied\",\"text\":\"permission denied\"}}\n";
		if (send(fd, no, sizeof(no) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			log_debug("control socket: %s", strerror(errno));
		return;
	}
	if (c->n_clients >= CONTROL_CLIENTS_MAX && !drop_longest_idle(c))
		return;
	struct client *cl = calloc(1, sizeof(*cl));
	if (!cl || !(cl->in = malloc(PROTO_LINE_MAX))) {
		free(cl);
		return;
	}
	use_ticks(c);
	cl->control = c;
	cl->since_s = c->now_s;
	cl->watch = (struct watch){take_fd(&fd), on_client};
	list_push_tail(&c->clients, &cl->link);
	c->n_clients++;
	if (loop_watch(c->loop, &cl->watch, EPOLLIN) < 0)
		drop(cl);
}

/* --- time and life -------------------------------------------------------------------------- */

static void tick(void *ctx)
{
	struct control *c = ctx;
	c->now_s++;
	key_watch_tick(c->registry);
	if (c->deaf) {
		c->deaf = false;
		loop_watch(c->loop, &c->listener, EPOLLIN);
	} else if (!c->n_clients && !key_watch_is_on(c->registry)) {
		c->loop->tick = NULL; /* the loop need not wake up */
		return;
	}
	list_for_each_safe (it, &c->clients) {
		struct client *cl = list_entry(it, struct client, link);
		bool half = cl->out || cl->in_len;
		if (cl->trace && !cl->out)
			continue; /* a slow subscriber costs nothing but its buffer */
		if (!cl->awaits &&
		    c->now_s - cl->since_s > (half ? CONTROL_PATIENCE_S : CONTROL_IDLE_S))
			drop(cl);
	}
}

int control_serve(struct control *c, struct loop *l, struct registry *r, void (*obeyed)(void *ctx),
		  void *ctx)
{
	c->loop = l;
	c->registry = r;
	c->obeyed = obeyed;
	c->obeyed_ctx = ctx;
	if (c->listener.fd < 0)
		return 0;
	int rc = traces_init(&c->traces, r, l, send_all_events, c);
	if (rc < 0)
		return rc;
	r->traces = &c->traces;
	c->listener.ready = on_connect;
	return loop_watch(l, &c->listener, EPOLLIN);
}

void control_close(struct control *c)
{
	list_for_each_safe (it, &c->clients)
		drop(list_entry(it, struct client, link));
	if (c->registry)
		c->registry->traces = NULL;
	traces_free(&c->traces);
	if (c->listener.fd < 0)
		return;
	close(c->listener.fd);
	unlink(c->path);
	c->listener.fd = -1;
}
