/* SPDX-License-Identifier: MIT */
#include "daemon/client.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/locate.h"
#include "daemon/proto.h"
#include "daemon/runtime_dir.h"

#define ANSWER_S 60 /* the longest wait for an answer: unmounting may take a while */

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
	char end[32]; /* of its socket's name */
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

static void forget_error(struct daemon_ref *d)
{
	while (d->n_in_use)
		free(d->in_use[--d->n_in_use].name);
	free(d->in_use);
	free(d->error);
	d->in_use = NULL;
	d->error = NULL;
}

void daemons_free(struct daemons *d)
{
	for (unsigned i = 0; i < d->n; i++) {
		close(d->daemon[i].fd);
		free(d->daemon[i].path);
		forget_error(&d->daemon[i]);
	}
	free(d->daemon);
	memset(d, 0, sizeof(*d));
}

/* --- asking --------------------------------------------------------------------------------- */

static int lost(struct error *err)
{
	error_set(err, "the daemon does not answer: %s", errno ? strerror(errno) : "it has gone");
	return PROTO_FAILED;
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

static bool receive(int fd, char *buf, size_t size)
{
	for (size_t done = 0; done < size;) {
		errno = 0;
		ssize_t n = recv(fd, buf + done, size - done, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += n;
	}
	return true;
}

/* Up to the newline, which is left out. */
static bool receive_line(int fd, char *buf, size_t size)
{
	for (size_t n = 0; n + 1 < size; n++) {
		if (!receive(fd, buf + n, 1))
			return false;
		if (buf[n] == '\n') {
			buf[n] = '\0';
			return true;
		}
	}
	errno = EPROTO;
	return false;
}

static bool send_request(int fd, int n, const char *const *word)
{
	AUTO_FREE char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return false;
	for (int i = 0; i < n; i++) {
		if (i)
			fputc(' ', out);
		proto_put_word(out, word[i]);
	}
	fputc('\n', out);
	return fclose(out) == 0 && send_all(fd, text, size);
}

static int receive_records(int fd, size_t size, struct records *out, struct error *err)
{
	AUTO_FREE char *text = size <= PROTO_REPLY_MAX ? calloc(1, size + 1) : NULL;
	if (!text || !receive(fd, text, size))
		return lost(err);
	if (records_parse(out, text))
		return 0;
	error_set(err, "out of memory");
	return PROTO_FAILED;
}

/* Pairs of words: the name of a mount, its device. */
static void keep_error(struct daemon_ref *d, const char *text, int n, char **word)
{
	d->error = strdup(text);
	d->in_use = calloc((size_t)n / 2 + 1, sizeof(*d->in_use));
	for (int i = 0; d->in_use && i + 1 < n; i += 2) {
		struct mount_ref *m = &d->in_use[d->n_in_use++];
		m->name = strdup(word[i]);
		m->device = strtoull(word[i + 1], NULL, 10);
	}
}

int daemon_ask(struct daemon_ref *d, int n, const char *const *word, struct records *out,
	       struct error *err)
{
	AUTO_FREE char *line = malloc(PROTO_LINE_MAX);
	char *part[PROTO_WORDS_MAX];
	memset(out, 0, sizeof(*out));
	forget_error(d);
	/* a daemon that refuses to listen has answered all the same */
	bool sent = line && (send_request(d->fd, n, word) || errno == EPIPE);
	if (!sent || !receive_line(d->fd, line, PROTO_LINE_MAX))
		return lost(err);
	int parts = proto_split(line, part);
	if (parts == 2 && strcmp(part[0], "ok") == 0)
		return receive_records(d->fd, strtoul(part[1], NULL, 10), out, err);
	if (parts >= 3 && strcmp(part[0], "error") == 0) {
		int code = (int)strtol(part[1], NULL, 10);
		error_set(err, "%s", part[2]);
		keep_error(d, part[2], parts - 3, part + 3);
		return code > 0 ? code : PROTO_FAILED;
	}
	errno = EPROTO;
	return lost(err);
}

/* --- targets -------------------------------------------------------------------------------- */

/* A word is a path when it says so; others are names, and "slwo" is no file of the directory that one
 * happens to be in. */
static bool is_path(const char *target)
{
	return strchr(target, '/') || strcmp(target, ".") == 0 || strcmp(target, "..") == 0;
}

static unsigned ask_all(struct daemons *d, const char *name, struct daemon_ref **found)
{
	const char *const word[] = {"find", name};
	unsigned n = 0;
	for (unsigned i = 0; i < d->n; i++) {
		struct records records;
		struct error ignored = ERROR_INIT;
		if (daemon_ask(&d->daemon[i], 2, word, &records, &ignored) == 0) {
			*found = &d->daemon[i];
			n++;
		}
		records_free(&records);
	}
	return n;
}

/* Asks for `name`, which it takes over; *found and *known say who has it. */
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

int daemons_locate(struct daemons *d, const char *target, struct daemon_ref **found, char **name,
		   struct error *err)
{
	AUTO_FREE char *path = locate_path(target);
	unsigned n = ask_for(d, strdup(target), found, name);
	if (n == 0 && path)
		n = ask_for(d, strdup(path), found, name);
	if (n == 0 && path && is_path(target))
		n = ask_for(d, locate_mountpoint(path), found, name);
	if (n == 1)
		return 0;
	if (n > 1)
		error_set(
			err,
			"'%s': %u daemons have it; choose one with --daemon=PID ('list' names them)",
			target, n);
	else if (is_path(target))
		error_set(err,
			  "'%s': is on no mount of a daemon of yours, and is no MOUNT/CLASS; see "
			  "'ratefsctl list'",
			  target);
	else
		error_set(
			err,
			"'%s': no daemon has a mount, fs or mountpoint of that name; see 'ratefsctl list'",
			target);
	return PROTO_NO_TARGET;
}
