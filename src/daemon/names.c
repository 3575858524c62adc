/* SPDX-License-Identifier: MIT */
#include "daemon/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/name_service.h"
#include "daemon/resolver.h"

struct answer {
	enum name_kind kind;
	char *name;
	int64_t id; /* or NAME_SERVICE_NONE, NAME_SERVICE_FAILED, UNKNOWN */
};
#define UNKNOWN (-3)

static struct {
	bool closed;
	int fd; /* of the helper; 0: none */
	struct answer *answers;
	unsigned n;
	bool begun; /* a reload is under way, for which names are looked up */
	bool asked; /* the helper has been asked for `answers` */
	size_t answered_bytes;
} names;

static const char *kind_name(enum name_kind kind)
{
	return kind == NAME_USER ? "user" : "group";
}

static int says(enum name_kind kind, const char *name, int64_t answer, uint64_t *id,
		struct error *err)
{
	if (answer == NAME_SERVICE_NONE)
		return error_set(err, "there is no %s '%s'; use an existing name or a number",
				 kind_name(kind), name);
	if (answer < 0)
		return error_set(err, "%s '%s' cannot be looked up now; give the number",
				 kind_name(kind), name);
	*id = (uint64_t)answer;
	return 0;
}

static void want(enum name_kind kind, const char *name)
{
	struct answer *more = realloc(names.answers, (names.n + 1) * sizeof(*more));
	char *copy = strdup(name);
	if (more)
		names.answers = more;
	if (more && copy)
		names.answers[names.n++] = (struct answer){kind, copy, UNKNOWN};
	else
		free(copy);
}

int names_find(enum name_kind kind, const char *name, uint64_t *id, struct error *err)
{
	if (!names.closed)
		return says(kind, name, name_service_find(kind == NAME_USER ? 'u' : 'g', name), id,
			    err);
	for (unsigned i = 0; i < names.n; i++)
		if (names.answers[i].kind == kind && strcmp(names.answers[i].name, name) == 0)
			return says(kind, name, names.answers[i].id, id, err);
	if (names.begun && !names.asked)
		want(kind, name);
	return says(kind, name, UNKNOWN, id, err);
}

int names_close(bool asks, struct error *err)
{
	int fd = asks ? resolver_start() : 0;
	if (fd < 0)
		return error_set(err, "cannot start the helper that looks up names: %s",
				 strerror(-fd));
	names.fd = fd;
	names.closed = true;
	return 0;
}

int names_fd(void)
{
	return names.fd ? names.fd : -1;
}

static void forget(void)
{
	for (unsigned i = 0; i < names.n; i++)
		free(names.answers[i].name);
	free(names.answers);
	names.answers = NULL;
	names.n = 0;
}

/* Keeps answers that have arrived or that the helper is expected to send. */
void names_begin(void)
{
	names.begun = true;
	if (!names.asked && names_wanted())
		forget();
}

bool names_wanted(void)
{
	for (unsigned i = 0; i < names.n; i++)
		if (names.answers[i].id == UNKNOWN)
			return true;
	return false;
}

static void lose_helper(const char *why)
{
	log_warning("names of users and groups can no longer be looked up: %s", why);
	names_stop();
	names.asked = false;
	for (unsigned i = 0; i < names.n; i++)
		names.answers[i].id = NAME_SERVICE_FAILED;
}

bool names_ask(void)
{
	char *text = NULL;
	size_t size = 0;
	if (names.asked)
		return true;
	FILE *out = names.fd ? open_memstream(&text, &size) : NULL;
	if (!out)
		return false;
	for (unsigned i = 0; i < names.n; i++)
		fprintf(out, "%c%s%c", names.answers[i].kind == NAME_USER ? 'u' : 'g',
			names.answers[i].name, '\0');
	if (fclose(out) == 0) {
		uint32_t head = (uint32_t)size;
		struct iovec iov[2] = {{&head, sizeof(head)}, {text, size}};
		struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
		/* The helper reads immediately; a full socket means that it hangs. */
		ssize_t n = sendmsg(names.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
		names.asked = n == (ssize_t)(sizeof(head) + size);
		names.answered_bytes = 0;
		if (!names.asked)
			lose_helper(n < 0 ? strerror(errno) : "too many of them");
	}
	free(text);
	return names.asked;
}

bool names_receive(void)
{
	int64_t answer;
	for (;;) {
		size_t part = names.answered_bytes % sizeof(answer);
		unsigned i = (unsigned)(names.answered_bytes / sizeof(answer));
		if (names.asked && i == names.n) {
			names.asked = false;
			return true;
		}
		char *to = names.asked ? (char *)&names.answers[i].id + part : (char *)&answer;
		ssize_t n = recv(names.fd, to, sizeof(answer) - part, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n <= 0 || !names.asked) {
			lose_helper(n == 0 ? "its process has ended" : "unexpected reply");
			return true;
		}
		names.answered_bytes += (size_t)n;
	}
}

void names_end(void)
{
	names.begun = false;
	if (!names.asked)
		forget();
}

void names_stop(void)
{
	if (names.fd)
		close(names.fd);
	names.fd = 0;
}
