/* SPDX-License-Identifier: MIT */
#include "fs/overhear.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void overhear_begin(struct overhear *o)
{
	int fds[2];
	o->from = o->saved = -1;
	int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	/* not blocking: a helper that stays (auto_unmount) keeps the other end open */
	if (saved < 0 || pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		if (saved >= 0)
			close(saved);
		return;
	}
	dup2(fds[1], STDERR_FILENO); /* the helper inherits this one */
	close(fds[1]);
	o->from = fds[0];
	o->saved = saved;
}

void overhear_end(struct overhear *o, struct error *first)
{
	char text[sizeof(first->text)];
	if (o->from < 0)
		return;
	dup2(o->saved, STDERR_FILENO);
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
