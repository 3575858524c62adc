/* SPDX-License-Identifier: MIT */
/* Shared by client.c, which talks to a daemon, and find.c, which finds those that answer. */
#ifndef CTL_CLIENT_INTERNAL_H
#define CTL_CLIENT_INTERNAL_H

#include <stdbool.h>

#include "ctl/client.h"

/* False with errno: the connection is lost. */
bool daemon_send(const struct daemon_ref *d, const char *text, size_t size);
/* The next line, as far as it has arrived; never waits.  1: *json is set.  0: not yet.  -1 with err. */
int daemon_take(struct daemon_ref *d, json_t **json, struct error *err);
/* The result of a call, from its answer. */
enum proto_code answer_outcome(const json_t *answer, struct error *err);

/* Asks over another connection; waits at most CLIENT_PATIENCE_MS. */
bool daemon_is_alive(const char *path);
/* Says which daemon does not answer, and what can be done.  fd: a connection to it, or -1.  True: it was killed, or exits. */
bool silent_text(int fd, const char *path, struct error *err);

#endif
