/* SPDX-License-Identifier: MIT */
/* Bad manners at the control socket: ctlnoise MANNER SOCKET [N]. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *path;

static int dial(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

/* True when all went out; a peer that hangs up is no surprise here. */
static int say(int fd, const void *text, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = send(fd, (const char *)text + done, size - done, MSG_NOSIGNAL);
		if (n < 0)
			return 0;
		done += (size_t)n;
	}
	return 1;
}

/* The first line of the answer must begin like this. */
static void expect(int fd, const char *begin)
{
	char answer[64] = "";
	size_t n = 0;
	while (n < strlen(begin)) {
		ssize_t got = recv(fd, answer + n, strlen(begin) - n, 0);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	if (strncmp(answer, begin, strlen(begin)) != 0) {
		fprintf(stderr, "the answer is '%s', not '%s'\n", answer, begin);
		exit(1);
	}
}

#define REQUEST(command) "{\"v\":1,\"do\":\"" command "\"}\n"
#define OK		 "{\"v\":1,\"ok\":true"
#define ERROR(code)	 "{\"v\":1,\"ok\":false,\"error\":{\"code\":\"" code "\""

static int say_text(int fd, const char *text)
{
	return say(fd, text, strlen(text));
}

static void garbage(void)
{
	static const char *const lines[] = {"stats %zz %\n", "\"list\"\n", "[]\n", "{\"v\":1,}\n",
					    "{\"v\":1,\"do\":\"list\",\"do\":\"list\"}\n"};
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		int fd = dial();
		say_text(fd, lines[i]);
		expect(fd, ERROR("bad-request"));
		close(fd);
	}
	int fd = dial();
	say_text(fd, REQUEST("frobnicate"));
	expect(fd, ERROR("unknown-command"));
	say_text(fd, REQUEST("list")); /* a command that does not exist is no reason to hang up */
}

static void half(void)
{
	int fd = dial();
	say_text(fd, "{\"v\":1,\"do\":\"li");
	usleep(100000);
	say_text(fd, "st\"}\n");
	expect(fd, OK);
	say_text(fd, "{\"v\":1,\"do\"");
}

static void deep(void)
{
	static char line[60000];
	int fd = dial();
	memset(line, '[', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	say(fd, line, sizeof(line));
	expect(fd, ERROR("bad-request"));
	close(fd);
	fd = dial();
	for (size_t i = 0; i + 6 < sizeof(line); i += 5)
		memcpy(line + i, "{\"a\":", 5);
	say(fd, line, sizeof(line));
	expect(fd, ERROR("bad-request"));
}

static void long_line(void)
{
	static char line[1 << 20];
	int fd = dial();
	memset(line, 'a', sizeof(line));
	say(fd, line, sizeof(line));
	say(fd, "\n", 1);
	/* The rest of the line may make the kernel throw the answer away: hanging up is enough. */
	char c;
	while (recv(fd, &c, 1, 0) > 0)
		;
}

static void nul(void)
{
	static const char line[] = "{\"v\":1,\"do\":\"list\"}\0\n";
	int fd = dial();
	say(fd, line, sizeof(line) - 1);
	expect(fd, ERROR("bad-request"));
}

static void binary(void)
{
	unsigned char bytes[4096];
	int fd = dial();
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 7 + i / 256);
	say(fd, bytes, sizeof(bytes));
}

static void empty(void)
{
	int fd = dial();
	say(fd, "\n", 1);
	expect(fd, ERROR("bad-request"));
	close(dial());
}

static void pipelined(void)
{
	int fd = dial();
	for (int i = 0; i < 500; i++)
		say_text(fd, "{\"v\":1,\"do\":\"find\",\"target\":\"global\"}\n");
	for (int i = 0; i < 500; i++) {
		char c = '\0';
		expect(fd, OK);
		while (c != '\n' && recv(fd, &c, 1, 0) == 1)
			;
		if (c != '\n') {
			fprintf(stderr, "answer %d is missing\n", i);
			exit(1);
		}
	}
}

static void hangup(void)
{
	static const char line[] = REQUEST("stats");
	for (int i = 0; i < 100; i++) {
		int fd = dial();
		say(fd, line, (size_t)i % (sizeof(line) - 1) + 1);
		close(fd);
	}
}

/* All stay connected until the last has asked; those who were dropped for want of room may be. */
static void crowd(int n)
{
	int *fds = calloc((size_t)n, sizeof(*fds)), answered = 0;
	for (int i = 0; i < n; i++)
		fds[i] = dial();
	for (int i = 0; i < n; i++) {
		char ok[sizeof(OK)] = "";
		if (say_text(fds[i], REQUEST("list")) &&
		    recv(fds[i], ok, sizeof(OK) - 1, MSG_WAITALL) == (ssize_t)sizeof(OK) - 1 &&
		    strcmp(ok, OK) == 0)
			answered++;
	}
	if (answered < (n < 200 ? n : 200)) {
		fprintf(stderr, "only %d of %d have an answer\n", answered, n);
		exit(1);
	}
	free(fds);
}

/* Asks and asks and reads nothing; ends when it is thrown out. */
static void deaf(void)
{
	static const char line[] = REQUEST("stats");
	int fd = dial();
	struct pollfd p = {.fd = fd, .events = 0};
	while (send(fd, line, sizeof(line) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) ==
	       (ssize_t)sizeof(line) - 1)
		;
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

static void stuck(void)
{
	int fd = dial();
	char c;
	say_text(fd, "{\"v\":1,\"do\":");
	while (recv(fd, &c, 1, 0) > 0)
		;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*behave)(void);
	} manners[] = {
		{"garbage", garbage}, {"half", half},
		{"deep", deep},	      {"long", long_line},
		{"nul", nul},	      {"binary", binary},
		{"empty", empty},     {"pipelined", pipelined},
		{"hangup", hangup},   {"deaf", deaf},
		{"stuck", stuck},
	};
	if (argc < 3)
		return 2;
	path = argv[2];
	if (strcmp(argv[1], "crowd") == 0) {
		crowd(argc > 3 ? (int)strtol(argv[3], NULL, 10) : 1);
		return 0;
	}
	for (size_t i = 0; i < sizeof(manners) / sizeof(manners[0]); i++)
		if (strcmp(argv[1], manners[i].name) == 0) {
			manners[i].behave();
			return 0;
		}
	return 2;
}
