/* SPDX-License-Identifier: MIT */
/* Commands that mount and unmount, and reload, which does both. */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/commands_internal.h"
#include "daemon/ending.h"
#include "daemon/in_use.h"
#include "daemon/problems.h"
#include "daemon/reload.h"

static bool has_file(struct request *rq)
{
	if (rq->registry->file)
		return true;
	command_fail(rq->reply, PROTO_NO_FILE,
		     "this daemon has no configuration file: it was started for one mount");
	return false;
}

/* False: the reload was refused or failed, and the reply has the problems.  True: it is done, or
 * (see reply->later) must be run again. */
static bool is_accepted(struct request *rq, enum reload_result res, struct problems *problems)
{
	struct command_reply *reply = rq->reply;
	reply->later = res == RELOAD_LATER;
	if (res < 0) {
		reply->long_text = problems_text(problems);
		reply->code = reply->long_text && res == RELOAD_REFUSED ? PROTO_BAD_FILE
									: PROTO_NO_MEMORY;
		error_set(&reply->err, "out of memory");
	}
	problems_free(problems);
	return res >= 0;
}

static void mount_from_file(struct request *rq)
{
	struct problems problems = {0};
	if (!has_file(rq))
		return;
	enum reload_result res =
		reload_mount(rq->registry, rq->name, rq->reply->again, &problems, rq->reply);
	is_accepted(rq, res, &problems);
}

void do_mount(struct request *rq)
{
	if (rq->read) {
		mount_from_file(rq);
		return;
	}
	struct served_mount *m = rq->target.mount;
	if (rq->target.scope != SCOPE_MOUNT) {
		command_fail(rq->reply, PROTO_WRONG_TARGET, "only mounts can be mounted");
		return;
	}
	bool down = served_state(m) == SERVED_DOWN;
	m->asked = m->asked || down;
	if (registry_mount(m, &rq->reply->err) < 0)
		rq->reply->code = down ? PROTO_FAILED : PROTO_WRONG_STATE;
	else
		await_mount(&rq->reply->await, m);
}

static void put_users(struct request *rq)
{
	struct json_out list = {json_array(), &rq->reply->no_memory};
	rq->reply->in_use = list;
	in_use_put(list, rq->registry);
}

/* True: the mount may be unmounted.  Otherwise fills the reply, or sets `later`. */
static bool look_at_users(struct request *rq, struct served_mount *m)
{
	struct command_reply *reply = rq->reply;
	enum use use = in_use(m);
	reply->later = use == USE_UNKNOWN;
	if (use == USE_SOME) {
		AUTO_FREE char *text = in_use_text(m, false);
		command_fail(reply, PROTO_IN_USE, "is in use: %s", text ? text : "");
		snprintf(reply->remedy, sizeof(reply->remedy), "--force unmounts it nevertheless");
		put_users(rq);
	}
	return use == USE_NONE;
}

static void unmount(struct request *rq, struct served_mount *m, struct ending *dropped)
{
	struct await *await = &rq->reply->await;
	if (m)
		registry_unmount(m, rq->force);
	if (m && m->ending)
		await_unmount(await, m->ending);
	if (dropped && rq->force)
		ending_abandon(dropped);
	if (dropped)
		await_unmount(await, dropped);
	if (!rq->registry->file && registry_up(rq->registry) == 0)
		rq->registry->finished = true; /* nothing could mount it again */
}

void do_unmount(struct request *rq)
{
	struct served_mount *m = rq->target.class ? NULL : rq->target.mount;
	struct ending *dropped = rq->force || !m ? rq->target.dropped : NULL;
	if (!dropped && !m) {
		command_fail(rq->reply, PROTO_WRONG_TARGET, "only mounts can be unmounted");
		return;
	}
	if (!dropped && served_state(m) == SERVED_DOWN) {
		command_fail(rq->reply, PROTO_WRONG_STATE, "is not mounted");
		return;
	}
	bool may_go = rq->force || !m || look_at_users(rq, m);
	if (!rq->reply->later)
		in_use_end(rq->registry);
	if (!may_go)
		return;
	if (m && m->mounting && !rq->force) {
		command_fail(rq->reply, PROTO_WRONG_STATE, "is still being mounted");
		snprintf(rq->reply->remedy, sizeof(rq->reply->remedy),
			 "--force gives up mounting it");
		return;
	}
	unmount(rq, m, dropped);
}

void do_reload(struct request *rq)
{
	struct problems problems = {0};
	struct command_reply *reply = rq->reply;
	if (!has_file(rq))
		return;
	const struct reload_how how = {.force = rq->force, .again = reply->again};
	enum reload_result res = reload(rq->registry, how, &problems, reply);
	if (!is_accepted(rq, res, &problems)) {
		put_users(rq);
		if (reply->long_text && json_array_size(reply->in_use.at))
			reply->code = PROTO_IN_USE;
	}
	if (res != RELOAD_LATER)
		reload_forget_looks(rq->registry);
}
