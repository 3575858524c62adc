/* SPDX-License-Identifier: MIT */
#include "ctl/volume_daemon.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/util.h"
#include "ctl/client.h"
#include "ctl/volume_run.h"

static char *path_in(const struct volume_setup *s, const char *name)
{
	char *out;
	return asprintf(&out, "%s/%s", s->state_dir, name) < 0 ? NULL : out;
}

int volume_daemon_options(const struct volume_setup *s, struct volume_options *known,
			  struct error *err)
{
	const char *const argv[] = {s->ratefs, "--dump-options", NULL};
	AUTO_FREE char *output = NULL;
	int rc = volume_run(argv, &output, err);
	if (rc < 0)
		return -1;
	if (rc > 0)
		return error_set(err, "%s --dump-options: failed with exit status %d", s->ratefs,
				 rc);
	return volume_options_parse(known, output) ? 0 : error_set(err, "out of memory");
}

/* 0, or -1 with what the program said. */
static int run_ratefs(const char *const *argv, struct error *err)
{
	AUTO_FREE char *output = NULL;
	int rc = volume_run(argv, &output, err);
	if (rc <= 0)
		return rc;
	AUTO_FREE char *text = volume_conf_problems(output);
	return error_set(err, "%s", text && *text ? text : "ratefs failed");
}

static int check(void *ctx, const char *text, struct error *err)
{
	const struct volume_setup *s = ctx;
	AUTO_FREE char *path = path_in(s, "check.conf");
	const char *const argv[] = {s->ratefs, "--check", "-c", path, NULL};
	if (!path)
		return error_set(err, "out of memory");
	if (volume_write_file(path, text, SYNC_NOTHING, err) < 0)
		return -1;
	int rc = run_ratefs(argv, err);
	unlink(path);
	return rc;
}

/* --- the control socket --------------------------------------------------------------------- */

#define TRIES 10

/* Connects, and sends the request once.  *gone: the daemon exited before it answered, or is exiting. */
static int ask_once(const struct volume_setup *s, json_t *request, json_t **answer, bool *gone,
		    struct error *err)
{
	struct daemons d;
	enum proto_code code = daemons_find(&d, s->control, CLIENT_PATIENCE_MS, err);
	*gone = d.dying;
	if (code == PROTO_OK) {
		code = daemon_call(&d.daemon[0], json_incref(request), answer, err);
		*gone = d.daemon[0].gone;
	}
	daemons_free(&d);
	return code == PROTO_NO_TARGET && !*answer ? -1 : (int)code;
}

/* Sends the request and returns the code of the answer, with err; -1: there is no daemon (one that does not
 * answer is an error).  Release *answer with json_decref. */
static int ask(const struct volume_setup *s, json_t *request, json_t **answer, struct error *err)
{
	AUTO_JSON *taken = request;
	bool gone = true;
	int code = -1;
	*answer = NULL;
	/* A daemon that was killed accepts connections until the kernel has closed its sockets, which comes after its memory
	 * and can take seconds. */
	for (int tries = 0; gone && tries < TRIES; tries++)
		code = ask_once(s, taken, answer, &gone, err);
	if (code < 0 || gone)
		return -1;
	/* Leave out the remedy of these errors: users of an engine cannot give --force. */
	const char *text = get_text(get_part(*answer, "error"), "text");
	if ((code == PROTO_IN_USE || code == PROTO_WRONG_STATE) && *text)
		error_set(err, "%s", text);
	make_one_line(err->text);
	return code;
}

/* Reloads only the section of this volume, so that changes by `ratefsctl set` to other volumes remain. */
static int ask_mount(const struct volume_setup *s, const char *name, struct error *err)
{
	AUTO_JSON *answer = NULL;
	json_t *request = request_new("mount", name);
	if (!request || json_object_set_new(request, "read", json_true()) < 0) {
		json_decref(request);
		error_set(err, "out of memory");
		return PROTO_NO_MEMORY;
	}
	return ask(s, request, &answer, err);
}

/* True: the mount is in this state. */
static bool is_in_state(const struct volume_setup *s, const char *name, const char *state)
{
	AUTO_JSON *answer = NULL;
	struct error ignored = ERROR_INIT;
	return ask(s, request_new("show", name), &answer, &ignored) == PROTO_OK &&
	       strcmp(get_text(answer, "state"), state) == 0;
}

/* --- starting ------------------------------------------------------------------------------- */

/* `ratefs -c` returns when its mounts are up.  A source that hangs, or a large tree that is counted first, can delay that
 * without bound, and the plugin serves other volumes meanwhile: a thread waits for the program. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool runs;
	int rc; /* of the last program that ended */
	struct error err;
} starter = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

#define START_S	       2     /* how long a call waits for all mounts */
#define ANSWER_MS      10000 /* the control socket is opened before the first mount */
#define ANSWER_STEP_MS 50

struct command {
	const char *ratefs;
	char *conf;
};

static void *run_daemon(void *ctx)
{
	struct command *c = ctx;
	const char *const argv[] = {c->ratefs, "-c", c->conf, NULL};
	struct error err = ERROR_INIT;
	int rc = run_ratefs(argv, &err);
	pthread_mutex_lock(&starter.lock);
	starter.runs = false;
	starter.rc = rc;
	starter.err = err;
	pthread_cond_broadcast(&starter.ended);
	pthread_mutex_unlock(&starter.lock);
	free(c->conf);
	free(c);
	return NULL;
}

static int begin_locked(const struct volume_setup *s, struct error *err)
{
	pthread_t thread;
	struct command *c = calloc(1, sizeof(*c));
	char *conf = path_in(s, "ratefs.conf");
	starter.runs = c && conf;
	if (starter.runs) {
		*c = (struct command){s->ratefs, conf};
		starter.runs = pthread_create(&thread, NULL, run_daemon, c) == 0;
	}
	if (!starter.runs) {
		free(conf);
		free(c);
		return error_set(err, "cannot start ratefs: out of memory or threads");
	}
	pthread_detach(thread);
	return 0;
}

static void wait_locked(void)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += START_S;
	while (starter.runs && pthread_cond_timedwait(&starter.ended, &starter.lock, &until) == 0)
		;
}

static bool answers(const struct volume_setup *s)
{
	AUTO_JSON *answer = NULL;
	struct error ignored = ERROR_INIT;
	return ask(s, request_new("list", NULL), &answer, &ignored) == PROTO_OK;
}

/* A daemon that has read its file but does not answer yet would be overlooked by the next call. */
static int await_answer(const struct volume_setup *s, struct error *err)
{
	const struct timespec pause = {.tv_nsec = ANSWER_STEP_MS * 1000000L};
	for (int ms = 0; ms < ANSWER_MS; ms += ANSWER_STEP_MS) {
		if (answers(s))
			return 0;
		nanosleep(&pause, NULL);
	}
	return error_set(err, "the ratefs daemon does not answer at %s", s->control);
}

/* 0: a daemon answers; its mounts may still be coming up.  -1 with err. */
static int start(const struct volume_setup *s, struct error *err)
{
	pthread_mutex_lock(&starter.lock);
	if (starter.runs)
		wait_locked(); /* its daemon was killed, or it does not answer yet */
	int rc = starter.runs ? 0 : begin_locked(s, err);
	if (rc == 0)
		wait_locked();
	bool runs = starter.runs;
	if (rc == 0 && !runs && starter.rc != 0) {
		rc = -1;
		*err = starter.err;
	}
	pthread_mutex_unlock(&starter.lock);
	return rc == 0 && runs ? await_answer(s, err) : rc;
}

/* --- mounts --------------------------------------------------------------------------------- */

static int mount_volume(void *ctx, const char *name, struct error *err)
{
	struct error why = ERROR_INIT;
	if (is_in_state(ctx, name, "mounting"))
		return 1;
	int rc = ask_mount(ctx, name, &why);
	if (rc <
	    0) { /* it mounts everything in the file at startup, but keeps running if a mount fails */
		if (start(ctx, err) < 0)
			return -1;
		if (is_in_state(ctx, name, "mounting"))
			return 1;
		rc = ask_mount(ctx, name, &why);
	}
	if (rc == PROTO_OK)
		return 0;
	error_set(err, "%s", why.text);
	return is_in_state(ctx, name, "mounting") ? 1 : -1;
}

/* Unmounts what killed daemons have left at the mountpoint, one layer for each of them. */
static void remove_dead(const struct volume_setup *s, const char *name)
{
	AUTO_FREE char *path = NULL;
	if (asprintf(&path, "%s/mnt/%s", s->state_dir, name) < 0)
		return;
	for (int layers = 0; layers < 16; layers++)
		if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
			return;
}

static int unmount_volume(void *ctx, const char *name, struct error *err)
{
	AUTO_JSON *answer = NULL;
	struct error why = ERROR_INIT;
	int rc = ask(ctx, request_new("unmount", name), &answer, &why);
	/* rc < 0: there is no daemon; PROTO_NO_TARGET: it does not know the mount */
	if (rc <= PROTO_OK || rc == PROTO_NO_TARGET ||
	    (rc == PROTO_WRONG_STATE && is_in_state(ctx, name, "unmounted"))) {
		/* A daemon that was started after another one was killed replaces its mount only if it can mount the volume. */
		remove_dead(ctx, name);
		return 0;
	}
	error_set(err, "%s", why.text);
	return rc == PROTO_IN_USE ? 1 : -1;
}

static bool shows(void *ctx, const char *name, const struct stat *directory)
{
	AUTO_JSON *answer = NULL;
	struct error ignored = ERROR_INIT;
	return ask(ctx, request_new("show", name), &answer, &ignored) == PROTO_OK &&
	       get_u64(answer, "source_device") == directory->st_dev &&
	       get_u64(answer, "source_inode") == directory->st_ino;
}

static json_t *status(void *ctx, const char *name)
{
	AUTO_JSON *answer = NULL;
	struct error ignored = ERROR_INIT;
	if (ask(ctx, request_new("stats", name), &answer, &ignored) != PROTO_OK)
		return NULL;
	static const char *const kept[] = {"mounted", "paused", "limits", "inflight",
					   "open",    "size",	"inodes", "space"};
	json_t *out = json_object();
	json_object_set(out, "waiting", json_object_get(answer, "parked_now"));
	for (unsigned i = 0; i < ARRAY_SIZE(kept); i++)
		if (json_object_get(answer, kept[i]))
			json_object_set(out, kept[i], json_object_get(answer, kept[i]));
	return out;
}

static bool requests(void *ctx, const char *name, uint64_t *n)
{
	AUTO_JSON *answer = NULL;
	struct error ignored = ERROR_INIT;
	const char *key;
	json_t *class;
	int code = ask(ctx, request_new("stats", name), &answer, &ignored);
	*n = 0;
	if (code < 0 || code == PROTO_NO_TARGET || code == PROTO_WRONG_STATE)
		return true; /* no daemon has it mounted */
	json_object_foreach (json_object_get(answer, "classes"), key, class)
		if (strcmp(key, "meta") != 0 && strcmp(key, "readdir") != 0)
			*n += get_u64(class, "ops");
	return code == PROTO_OK;
}

const struct volume_daemon_ops volume_daemon = {
	.mount = mount_volume,
	.unmount = unmount_volume,
	.status = status,
	.requests = requests,
	.shows = shows,
	.check = check,
};
