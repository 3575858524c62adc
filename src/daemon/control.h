/* SPDX-License-Identifier: MIT */
/* The control socket: clients of the daemon's user and root, served by the main thread's loop.
 * Never blocks: a client that does not read, or that sends no whole line, is dropped after
 * CONTROL_PATIENCE_S; past CONTROL_CLIENTS_MAX the one that has been idle longest goes.  Subscribers (daemon/trace.h)
 * may take their time: what they do not read is dropped instead. */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include "base/error.h"
#include "base/list.h"
#include "daemon/control_socket.h"
#include "daemon/loop.h"
#include "daemon/settings.h"
#include "daemon/trace.h"

#define CONTROL_CLIENTS_MAX 256
#define CONTROL_PATIENCE_S  10
#define CONTROL_IDLE_S	    300

struct registry;

struct control {
	struct watch listener; /* fd -1: no control socket */
	struct loop *loop;
	struct registry *registry;
	struct list clients;
	unsigned n_clients;
	void (*obeyed)(void *ctx); /* a command has been carried out */
	void *obeyed_ctx;
	struct traces traces;
	char path[CONTROL_PATH_MAX];
	int64_t now_s; /* counted by the loop's tick */
};

/* Makes the socket (settings->control, or one in the runtime directory named after `name`) and
 * listens; nobody is served before control_serve.  Without a socket of its own name a daemon can
 * live: that is a warning in the log.  -1 with err only where a path was asked for. */
int control_open(struct control *c, const struct settings *global, const char *name,
		 struct error *err);
/* 0 or -errno.  `obeyed` is called after commands that may have begun something. */
int control_serve(struct control *c, struct loop *l, struct registry *r, void (*obeyed)(void *ctx),
		  void *ctx);
/* Names are known now: goes on with commands that waited for them. */
void control_resume(struct control *c);
/* Answers those whose command has come to its end. */
void control_progress(struct control *c);
bool control_is_awaited(const struct control *c); /* by somebody */
void control_close(struct control *c);

#endif
