/* SPDX-License-Identifier: MIT */
/* Shared by the files that implement commands (commands*.c). */
#ifndef DAEMON_COMMANDS_INTERNAL_H
#define DAEMON_COMMANDS_INTERNAL_H

#include "daemon/commands.h"
#include "daemon/registry.h"
#include "daemon/stats_out.h"
#include "daemon/target.h"

struct request {
	struct registry *registry;
	struct target target; /* "target", or global */
	const char *name;     /* "target" as the client wrote it; NULL: none */
	bool force;
	bool read;	      /* read the target's section from the configuration file */
	const char *class;    /* the class to be added */
	const char *before;   /* … in front of this class; NULL: after all others */
	const json_t *values; /* options, by name */
	struct stats_keys keys;
	const json_t *key; /* whose events are wanted: a number or a name */
	uint64_t min_wait_ns;
	struct command_reply *reply;
	struct json_out out; /* reply->data */
};

/* commands_look.c */
void do_list(struct request *rq);
void do_show(struct request *rq);
void do_stats(struct request *rq);
void do_find(struct request *rq);
void do_class_list(struct request *rq);
void do_subscribe(struct request *rq);

/* commands_set.c */
void do_set(struct request *rq);
void do_pause(struct request *rq);
void do_resume(struct request *rq);
void do_reset_stats(struct request *rq);
void do_rescan(struct request *rq);
void do_class_add(struct request *rq);
void do_class_remove(struct request *rq);

/* commands_mount.c */
void do_mount(struct request *rq);
void do_unmount(struct request *rq);
void do_reload(struct request *rq);

#endif
