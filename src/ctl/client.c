/* SPDX-License-Identifier: MIT */
#include "ctl/client.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "ctl/locate.h"
#include "proto/runtime_dir.h"

#define ANSWER_S     60 /* the longest wait for an answer: unmounting may take a while */
#define ANSWER_DEPTH 32 /* generous: a newer daemon may nest deeper */

/* --- finding -------------------------------------------------------------------------------- */

static bool add(const char *path, void *ctx)
{
	struct daemons *d = ctx;
	const struct timeval limit = {.tv_sec = ANSWER_S};
	AUTO_FD fd = runtime_connect(path);
	if (fd < 0) {
		errno = -fd;
		return true;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	struct daemon_ref *more = realloc(d->daemon, (d->n + 1) * sizeof(*more));
	if (!more)
		return false;
	d->daemon = more;
	d->daemon[d->n++] = (struct daemon_ref){.fd = take_fd(&fd), .path = strdup(path)};
	return true;
}

struct by_pid {
	struct daemons *daemons;
	char end[32]; /* how the name of its socket ends */
};

static bool add_if_pid(const char *path, void *ctx)
{
	struct by_pid *by = ctx;
	size_t n = strlen(path), m = strlen(by->end);
	return n < m || strcmp(path + n - m, by->end) != 0 || add(path, by->daemons);
}

static int find_by_path(struct daemons *d, const char *path, struct error *err)
{
	struct stat st;
	if (stat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return error_set(err, "%s: is not the control socket of a ratefs daemon", path);
	add(path, d);
	return d->n ? 0 : error_set(err, "%s: %s", path, strerror(errno));
}

int daemons_find(struct daemons *d, const char *which, struct error *err)
{
	char dir[RUNTIME_DIR_MAX];
	struct by_pid by = {.daemons = d};
	memset(d, 0, sizeof(*d));
	if (which && strchr(which, '/'))
		return find_by_path(d, which, err);
	if (runtime_dir(dir, sizeof(dir), err) < 0)
		return -1;
	if (access(dir, F_OK) == 0 && runtime_dir_check(dir, err) < 0)
		return -1;
	snprintf(by.end, sizeof(by.end), "-%.20s.sock", which ? which : "");
	if (which)
		runtime_each_socket(dir, add_if_pid, &by);
	else
		runtime_each_socket(dir, add, d);
	if (d->n)
		return 0;
	return which ? error_set(err, "no daemon of yours has process id %s (looked in %s)", which,
				 dir)
		     : error_set(err, "you have no running ratefs daemons (looked in %s)", dir);
}

void daemons_free(struct daemons *d)
{
	for (unsigned i = 0; i < d->n; i++) {
		close(d->daemon[i].fd);
		free(d->daemon[i].path);
		free(d->daemon[i].in);
	}
	free(d->daemon);
	memset(d, 0, sizeof(*d));
}

/* --- asking --------------------------------------------------------------------------------- */

json_t *request_new(const char *command, const char *target)
{
	AUTO_FREE char *utf8 = target ? text_utf8(target) : NULL; /* daemons compare this */
	AUTO_JSON *request = target && !utf8 ? NULL : json_object();
	if (!request || json_object_set_new(request, "v", json_integer(PROTO_VERSION)) < 0 ||
	    json_object_set_new(request, "do", json_string(command)) < 0 ||
	    (utf8 && json_object_set_new(request, "target", json_string(utf8)) < 0))
		return NULL;
	return json_incref(request);
}

static enum proto_code lost(struct error *err)
{
	error_set(err, "the daemon does not answer: %s", errno ? strerror(errno) : "it has exited");
	return PROTO_FAILED;
}

static enum proto_code no_memory(struct error *err)
{
	error_set(err, "out of memory");
	return PROTO_NO_MEMORY;
}

static bool send_all(int fd, const char *text, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = send(fd, text + done, size - done, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return false;
		done += n > 0 ? n : 0;
	}
	return true;
}

/* Doubles the buffer if it is full. */
static bool make_room(struct daemon_ref *d)
{
	size_t room = d->in_room ? 2 * d->in_room : 64U << 10;
	if (d->in_len < d->in_room)
		return true;
	errno = EPROTO;
	char *more = room <= 2 * PROTO_ANSWER_MAX ? realloc(d->in, room) : NULL;
	if (!more)
		return false;
	d->in = more;
	d->in_room = room;
	return true;
}

/* Receives until there is a whole line.  Returns its length without the newline, or -1 with errno. */
static ssize_t receive_line(struct daemon_ref *d)
{
	size_t seen = 0;
	for (;;) {
		const char *end =
			seen < d->in_len ? memchr(d->in + seen, '\n', d->in_len - seen) : NULL;
		if (end)
			return end - d->in;
		seen = d->in_len;
		if (!make_room(d))
			return -1;
		errno = 0;
		ssize_t n = recv(d->fd, d->in + d->in_len, d->in_room - d->in_len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		d->in_len += n;
	}
}

static enum proto_code receive(struct daemon_ref *d, json_t **json, struct error *err)
{
	ssize_t n = receive_line(d);
	if (n < 0) {
		d->gone = errno == 0 || errno == ECONNRESET;
		return lost(err);
	}
	*json = proto_parse(d->in, n, ANSWER_DEPTH, err);
	d->in_len -= n + 1;
	memmove(d->in, d->in + n + 1, d->in_len);
	if (*json)
		return PROTO_OK;
	error_prefix(err, "cannot understand the daemon's answer");
	return PROTO_FAILED;
}

char *answer_error(const json_t *answer)
{
	const json_t *error = get_part(answer, "error");
	const char *place = get_text(error, "place"), *text = get_text(error, "text");
	const char *remedy = get_text(error, "remedy");
	bool said = !*place || strncmp(text, place, strlen(place)) == 0;
	char *line = NULL;
	if (!error || asprintf(&line, "%s%s%s%s%s", said ? "" : place, said ? "" : ": ", text,
			       *remedy ? "; " : "", remedy) < 0)
		return NULL;
	return line;
}

/* The result of a call, from its answer. */
static enum proto_code outcome(const json_t *answer, struct error *err)
{
	if (get_true(answer, "ok"))
		return PROTO_OK;
	AUTO_FREE char *line = answer_error(answer);
	error_set(err, "%s", line ? line : "cannot understand the daemon's answer");
	enum proto_code code = proto_code_find(get_text(get_part(answer, "error"), "code"));
	return code == PROTO_OK ? PROTO_FAILED : code;
}

enum proto_code daemon_call(struct daemon_ref *d, json_t *request, json_t **answer,
			    struct error *err)
{
	AUTO_JSON *taken = request;
	size_t size;
	AUTO_FREE char *line = taken ? proto_line(taken, &size) : NULL;
	*answer = NULL;
	if (!line)
		return no_memory(err);
	if (size > PROTO_LINE_MAX) {
		error_set(err, "the request is longer than %u bytes", PROTO_LINE_MAX);
		return PROTO_BAD_REQUEST;
	}
	/* A daemon that closes the connection may have sent an error first: read anyway. */
	if (!send_all(d->fd, line, size) && errno != EPIPE)
		return lost(err);
	enum proto_code code = receive(d, answer, err);
	return code ? code : outcome(*answer, err);
}

enum proto_code daemon_next(struct daemon_ref *d, int ms, json_t **event, struct error *err)
{
	struct pollfd p = {.fd = d->fd, .events = POLLIN};
	*event = NULL;
	if (!d->in_len || !memchr(d->in, '\n', d->in_len)) {
		int n = poll(&p, 1, ms);
		if (n == 0 || (n < 0 && errno == EINTR))
			return PROTO_OK;
	}
	return receive(d, event, err);
}

/* --- targets -------------------------------------------------------------------------------- */

/* Only words with a slash, "." and ".." are paths.  Others are names of targets, even if the working directory
 * has a file of that name. */
static bool is_path(const char *target)
{
	return strchr(target, '/') || strcmp(target, ".") == 0 || strcmp(target, "..") == 0;
}

static unsigned ask_all(struct daemons *d, const char *name, struct daemon_ref **found)
{
	unsigned n = 0;
	for (unsigned i = 0; i < d->n; i++) {
		struct error ignored = ERROR_INIT;
		json_t *answer;
		if (daemon_call(&d->daemon[i], request_new("find", name), &answer, &ignored) ==
		    PROTO_OK) {
			*found = &d->daemon[i];
			n++;
		}
		json_decref(answer);
	}
	return n;
}

/* Asks all daemons for `name`, which it takes over; *found is the daemon that has it, *known its name there. */
static unsigned ask_for(struct daemons *d, char *name, struct daemon_ref **found, char **known)
{
	unsigned n = name ? ask_all(d, name, found) : 0;
	if (n) {
		free(*known);
		*known = name;
	} else {
		free(name);
	}
	return n;
}

enum proto_code daemons_locate(struct daemons *d, const char *target, struct daemon_ref **found,
			       char **name, struct error *err)
{
	AUTO_FREE char *path = locate_path(target);
	unsigned n = ask_for(d, strdup(target), found, name);
	if (n == 0 && path)
		n = ask_for(d, strdup(path), found, name);
	if (n == 0 && path && is_path(target))
		n = ask_for(d, locate_mountpoint(path), found, name);
	if (n == 1)
		return PROTO_OK;
	if (n > 1)
		error_set(
			err,
			"'%s': %u daemons have it; choose one with --daemon=PID (see 'ratefsctl list')",
			target, n);
	else if (is_path(target))
		error_set(err,
			  "'%s': is neither on a mount of your daemons nor a MOUNT/CLASS; see "
			  "'ratefsctl list'",
			  target);
	else
		error_set(
			err,
			"'%s': no daemon has a mount, fs or mountpoint of that name; see 'ratefsctl list'",
			target);
	return PROTO_NO_TARGET;
}
