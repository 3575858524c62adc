/* SPDX-License-Identifier: MIT */
/* Talks to a program on a terminal of its own, as somebody at a keyboard would.
 *
 *	ptytalk COMMAND [ARG]... -- STEP...
 *
 * A step is ">text" (type it), "<text" (wait until it appears, 10 s), "!text" (it must not have
 * appeared since the last match), "~ms" (wait) or "^" (the terminal goes away).  \r, \n, \e and \xHH are understood.
 * Exit code: that of the command; 99: a step failed, and what the terminal showed is on standard error. */
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEP_MS 10000

static char shown[1 << 20];
static size_t n_shown, matched;
static int terminal;

static long now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* False: the terminal is closed. */
static int listen_for(int ms)
{
	struct pollfd p = {.fd = terminal, .events = POLLIN};
	if (poll(&p, 1, ms) <= 0)
		return 1;
	ssize_t n = read(terminal, shown + n_shown, sizeof(shown) - 1 - n_shown);
	if (n <= 0)
		return 0;
	n_shown += (size_t)n;
	shown[n_shown] = '\0';
	return 1;
}

static size_t unescape(const char *from, char *to)
{
	char *start = to;
	for (; *from; from++) {
		unsigned byte;
		if (*from != '\\') {
			*to++ = *from;
		} else if (from[1] == 'x' && sscanf(from + 2, "%2x", &byte) == 1) {
			*to++ = (char)byte;
			from += 3;
		} else {
			from++;
			*to++ = *from == 'r'   ? '\r'
				: *from == 'n' ? '\n'
				: *from == 'e' ? 27
					       : *from;
		}
	}
	*to = '\0';
	return (size_t)(to - start);
}

static int step(const char *s)
{
	char text[4096];
	size_t n = unescape(s + 1, text);
	long until = now_ms() + (*s == '~' ? atol(text) : STEP_MS);
	if (*s == '>')
		return write(terminal, text, n) == (ssize_t)n;
	if (*s == '^') {
		close(terminal);
		terminal = -1; /* which poll ignores */
		return 1;
	}
	if (*s == '~') {
		while (now_ms() < until)
			if (!listen_for((int)(until - now_ms())))
				return 1;
		return 1;
	}
	if (*s == '!')
		return !strstr(shown + matched, text);
	while (now_ms() < until) {
		const char *found = strstr(shown + matched, text);
		if (found) {
			matched = (size_t)(found - shown) + n;
			return 1;
		}
		if (!listen_for(50))
			break;
	}
	const char *found = strstr(shown + matched, text);
	matched = found ? (size_t)(found - shown) + n : matched;
	return found != NULL;
}

int main(int argc, char **argv)
{
	int at = 1;
	while (at < argc && strcmp(argv[at], "--") != 0)
		at++;
	if (at == argc || at == 1) {
		fprintf(stderr, "usage: ptytalk COMMAND [ARG]... -- STEP...\n");
		return 99;
	}
	argv[at] = NULL;
	pid_t pid = forkpty(&terminal, NULL, NULL, NULL);
	if (pid < 0)
		return 99;
	if (pid == 0) {
		/* A shell ignores them for what it starts in the background. */
		signal(SIGINT, SIG_DFL);
		signal(SIGQUIT, SIG_DFL);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	for (int i = at + 1; i < argc; i++) {
		if (step(argv[i]))
			continue;
		fprintf(stderr, "ptytalk: step '%s' failed; the terminal showed:\n%s\n", argv[i],
			shown);
		kill(pid, SIGKILL);
		return 99;
	}
	int status;
	long until = now_ms() + STEP_MS;
	while (waitpid(pid, &status, WNOHANG) == 0 && now_ms() < until)
		if (!listen_for(20))
			usleep(10000);
	if (now_ms() >= until) {
		fprintf(stderr, "ptytalk: the command does not end; the terminal showed:\n%s\n",
			shown);
		kill(pid, SIGKILL);
		return 99;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
