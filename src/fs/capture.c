/* SPDX-License-Identifier: MIT */
#include "fs/capture.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

void capture_begin(struct capture *o)
{
	int fds[2];
	o->from = o->saved = -1;
	int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	/* Non-blocking, so that a helper that prints nothing causes no wait. */
	if (saved < 0 || pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		if (saved >= 0)
			close(saved);
		return;
	}
	log_set_fd(saved);	     /* what other threads log is not the helper's */
	dup2(fds[1], STDERR_FILENO); /* the helper inherits it */
	close(fds[1]);
	o->from = fds[0];
	o->saved = saved;
}

void capture_end(struct capture *o, struct error *first)
{
	char text[sizeof(first->text)];
	if (o->from < 0)
		return;
	dup2(o->saved, STDERR_FILENO);
	log_set_fd(STDERR_FILENO);
	close(o->saved);
	ssize_t n = read(o->from, text, sizeof(text) - 1);
	close(o->from);
	if (n <= 0)
		return;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (text[0])
		error_set(first, "%s", text);
}
