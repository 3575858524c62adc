/* SPDX-License-Identifier: MIT */
#include "ctl/client.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "ctl/client_internal.h"
#include "ctl/locate.h"

#define ANSWER_DEPTH 32 /* generous: a newer daemon may nest deeper */

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

static enum proto_code lost(struct daemon_ref *d, struct error *err)
{
	if (errno == ETIMEDOUT || errno == EAGAIN)
		d->gone = silent_text(d->fd, d->path, err);
	else
		error_set(err, "%s: the connection to the daemon is lost: %s", d->path,
			  errno ? strerror(errno) : "it has exited");
	return PROTO_FAILED;
}

static enum proto_code no_memory(struct error *err)
{
	error_set(err, "out of memory");
	return PROTO_NO_MEMORY;
}

bool daemon_send(const struct daemon_ref *d, const char *text, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = send(d->fd, text + done, size - done, MSG_NOSIGNAL);
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
	char *more = room <= 2 * PROTO_ANSWER_MAX ? realloc(d->in, room) : NULL;
	if (!more)
		return false;
	d->in = more;
	d->in_room = room;
	return true;
}

/* Takes the first line out of the buffer and parses it. */
static int parse_line(struct daemon_ref *d, size_t n, json_t **json, struct error *err)
{
	*json = proto_parse(d->in, n, ANSWER_DEPTH, err);
	d->in_len -= n + 1;
	memmove(d->in, d->in + n + 1, d->in_len);
	d->in_seen = 0;
	if (*json)
		return 1;
	error_prefix(err, "cannot understand the daemon's answer");
	return -1;
}

int daemon_take(struct daemon_ref *d, json_t **json, struct error *err)
{
	for (;;) {
		const char *end = d->in_seen < d->in_len
					  ? memchr(d->in + d->in_seen, '\n', d->in_len - d->in_seen)
					  : NULL;
		if (end)
			return parse_line(d, (size_t)(end - d->in), json, err);
		d->in_seen = d->in_len;
		errno = EPROTO; /* too long */
		ssize_t n = make_room(d) ? recv(d->fd, d->in + d->in_len, d->in_room - d->in_len,
						MSG_DONTWAIT)
					 : -1;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		errno = n == 0 ? 0 : errno;
		if (n <= 0) {
			d->gone = errno == 0 || errno == ECONNRESET;
			lost(d, err);
			return -1;
		}
		d->in_len += (size_t)n;
	}
}

/* Waits until the daemon has sent something.  False with errno: it has exited, or answers nobody. */
static bool await_input(const struct daemon_ref *d)
{
	struct pollfd p = {.fd = d->fd, .events = POLLIN};
	for (;;) {
		int n = poll(&p, 1, CLIENT_PATIENCE_MS);
		if (n > 0)
			return true;
		if (n < 0 && errno != EINTR)
			return false;
		if (n == 0 && !daemon_is_alive(d->path)) {
			errno = ETIMEDOUT;
			return false;
		}
	}
}

static enum proto_code receive(struct daemon_ref *d, json_t **json, struct error *err)
{
	int rc;
	while ((rc = daemon_take(d, json, err)) == 0)
		if (!await_input(d))
			return lost(d, err);
	return rc < 0 ? PROTO_FAILED : PROTO_OK;
}

/* True: the text begins with the place, as a word: "match: is missing" does not begin with mount "m". */
static bool names_place(const char *text, const char *place)
{
	size_t n = strlen(place);
	return strncmp(text, place, n) == 0 && strchr(" :", text[n]);
}

char *answer_error(const json_t *answer)
{
	const json_t *error = get_part(answer, "error");
	const char *place = get_text(error, "place"), *text = get_text(error, "text");
	const char *remedy = get_text(error, "remedy");
	bool said = !*place || names_place(text, place);
	char *line = NULL;
	if (!error || asprintf(&line, "%s%s%s%s%s", said ? "" : place, said ? "" : ": ", text,
			       *remedy ? "; " : "", remedy) < 0)
		return NULL;
	return line;
}

enum proto_code answer_outcome(const json_t *answer, struct error *err)
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
	if (!daemon_send(d, line, size) && errno != EPIPE && errno != ECONNRESET)
		return lost(d, err);
	enum proto_code code = receive(d, answer, err);
	return code ? code : answer_outcome(*answer, err);
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

/* True: `target` is "slow/x", and there is a target "slow", which has no class x.  A file ./slow/x would be on that mount,
 * but a class that was mistyped must not select the whole mount. */
static bool lacks_class(struct daemons *d, const char *target, struct error *err)
{
	const char *class = strchr(target, '/');
	AUTO_FREE char *mount = class ? strndup(target, (size_t)(class - target)) : NULL;
	struct daemon_ref *ignored;
	if (!mount || !*mount || strcmp(mount, ".") == 0 || strcmp(mount, "..") == 0 || !class[1] ||
	    strchr(class + 1, '/') || !ask_all(d, mount, &ignored))
		return false;
	error_set(err,
		  "'%s' has no class '%s'; see 'ratefsctl class list %s', or write ./%s for a path",
		  mount, class + 1, mount, target);
	return true;
}

enum proto_code daemons_locate(struct daemons *d, const char *target, struct daemon_ref **found,
			       char **name, struct error *err)
{
	AUTO_FREE char *path = locate_path(target);
	unsigned n = ask_for(d, strdup(target), found, name);
	if (n == 0 && path)
		n = ask_for(d, strdup(path), found, name);
	if (n == 0 && lacks_class(d, target, err))
		return PROTO_NO_TARGET;
	if (n == 0 && path && is_path(target))
		n = ask_for(d, locate_mountpoint(path), found, name);
	if (n == 1)
		return PROTO_OK;
	if (n > 1)
		error_set(
			err,
			"'%s': %u daemons have this target; choose one with --daemon=PID (see 'ratefsctl list')",
			target, n);
	else if (is_path(target))
		error_set(err,
			  "'%s': is neither on a mount of your daemons nor a MOUNT/CLASS; see "
			  "'ratefsctl list'",
			  target);
	else
		error_set(
			err,
			"'%s': no daemon has a mount, fs, pool or mountpoint of that name; see 'ratefsctl list'",
			target);
	return PROTO_NO_TARGET;
}
