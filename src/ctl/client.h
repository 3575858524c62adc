/* SPDX-License-Identifier: MIT */
/* Talking to daemons over their control sockets (proto/proto.h, ratefs-control(7)), for ratefsctl and other programs.
 *
 *	struct daemons all;
 *	if (daemons_find(&all, NULL, CLIENT_PATIENCE_MS, &err) == PROTO_OK) {
 *		json_t *answer;
 *		if (daemon_call(&all.daemon[0], request_new("list", NULL), &answer, &err) == PROTO_OK)
 *			puts(get_text(json_array_get(get_part(answer, "mounts"), 0), "name"));
 *		json_decref(answer);
 *	}
 *	daemons_free(&all);
 *
 * Locking  none: a daemon_ref belongs to one thread.
 * Errors   enum proto_code, with a line for people in err.  A connection that is lost stays lost.
 * Waiting  a daemon that answers nobody for CLIENT_PATIENCE_MS (it was stopped, or hangs) is given up with an error that
 *          names it.  A daemon that is busy with our command, but answers others, is waited for as long as it takes. */
#ifndef CTL_CLIENT_H
#define CTL_CLIENT_H

#include "base/error.h"
#include "proto/json_in.h"
#include "proto/proto.h"

struct daemon_ref {
	int fd;
	char *path; /* of its socket */
	char *in;   /* received, but not yet parsed */
	size_t in_len, in_room;
	size_t in_seen; /* its first in_seen bytes contain no newline */
	bool gone;	/* it exits, and has not answered */
};

#define CLIENT_PATIENCE_MS 2000

struct daemons {
	struct daemon_ref *daemon; /* those that answer */
	unsigned n;
	char **silent; /* a message about each of the others */
	unsigned n_silent;
	bool dying; /* one of these was killed or exits; the kernel has not closed its sockets yet */
};

/* All daemons of this user, or the one that `which` names by the path of its socket or by its
 * process ID.  Each is asked whether it is alive, all at the same time, and has patience_ms to answer.
 * PROTO_OK: at least one answers.  Otherwise PROTO_NO_TARGET (there is none) or PROTO_FAILED (none
 * answers), with err.  Call daemons_free in all cases. */
enum proto_code daemons_find(struct daemons *d, const char *which, int patience_ms,
			     struct error *err);
void daemons_free(struct daemons *d);

/* {"v":1,"do":COMMAND,"target":TARGET}; `target` NULL: none.  To be given to daemon_call.  NULL: out of memory. */
json_t *request_new(const char *command, const char *target);

/* Sends a request, which it takes over (NULL is reported as out of memory), and waits for the answer.  Release *answer with
 * json_decref in all cases.  With a code other than PROTO_OK, *answer has the member "error", or is NULL if the daemon
 * did not answer. */
enum proto_code daemon_call(struct daemon_ref *d, json_t *request, json_t **answer,
			    struct error *err);
/* "PLACE: TEXT; REMEDY" of an answer with an error, of any length, to be freed.  NULL: no error, or out of memory. */
char *answer_error(const json_t *answer);

/* The next event, after a call of "subscribe".  Waits at most `ms` (-1: for ever).
 * PROTO_OK with *event NULL: there was none in that time. */
enum proto_code daemon_next(struct daemon_ref *d, int ms, json_t **event, struct error *err);

/* Finds the daemon that has the target, and the name of the target there (to be freed).  A path means the mount that
 * it is on.  PROTO_OK, or PROTO_NO_TARGET (none or more than one) with err. */
enum proto_code daemons_locate(struct daemons *d, const char *target, struct daemon_ref **found,
			       char **name, struct error *err);

#endif
