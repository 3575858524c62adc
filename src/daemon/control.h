/* SPDX-License-Identifier: MIT */
/* The control socket: clients of the daemon's user and root, served by the main thread's loop.
 * Never blocks: a client that does not read, or that sends no whole line, is dropped after
 * CONTROL_PATIENCE_S; past CONTROL_CLIENTS_MAX the client that has been idle longest is dropped.  A
 * subscriber (daemon/trace.h) that reads slowly stays connected and loses events instead. */
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
	void (*obeyed)(void *ctx); /* called after a command has been carried out */
	void *obeyed_ctx;
	struct traces traces;
	char path[CONTROL_PATH_MAX];
	int64_t now_s; /* counted by the loop's tick */
	bool deaf;     /* until the next tick, since there were no file descriptors */
};

/* Makes the socket (global->control, or one in the runtime directory named after `name`) and
 * listens; nobody is served before control_serve.  If control= names a path, failure is an error
 * (-1 with err); otherwise the daemon runs without a control socket and logs a warning. */
int control_open(struct control *c, const struct settings *global, const char *name,
		 struct error *err);
/* 0 or -errno.  `obeyed` is called after every command, which may have started a task. */
int control_serve(struct control *c, struct loop *l, struct registry *r, void (*obeyed)(void *ctx),
		  void *ctx);
/* Runs the commands again that waited for names or uses, which are known now. */
void control_resume(struct control *c);
/* Answers the clients whose command has finished. */
void control_progress(struct control *c);
bool control_is_awaited(const struct control *c); /* a client waits for its command to finish */
void control_close(struct control *c);

#endif
