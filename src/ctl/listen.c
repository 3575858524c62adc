/* SPDX-License-Identifier: MIT */
#include "ctl/listen.h"

#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static bool is_port(const char *text)
{
	char *end;
	unsigned long port = strtoul(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && port > 0 && port <= 65535;
}

/* Splits "[::1]:80" and "a:80" into the address and the port. */
static bool split(const char *text, char *address, size_t size, const char **port)
{
	const char *colon = strrchr(text, ':');
	if (!colon) {
		snprintf(address, size, "127.0.0.1");
		*port = text;
		return true;
	}
	size_t n = (size_t)(colon - text);
	bool brackets = n >= 2 && text[0] == '[' && colon[-1] == ']';
	if (brackets) {
		text++;
		n -= 2;
	}
	if (n == 0 || n >= size || (!brackets && memchr(text, ':', n)))
		return false;
	memcpy(address, text, n);
	address[n] = '\0';
	*port = colon + 1;
	return true;
}

int listen_parse(const char *text, struct sockaddr_storage *out, struct error *err)
{
	char address[256];
	const char *port;
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *found;
	if (!split(text, address, sizeof(address), &port))
		return error_set(
			err, "'%s' is not ADDRESS:PORT, for example 127.0.0.1:9944 or [::1]:9944",
			text);
	if (!is_port(port))
		return error_set(err, "'%s': the port is not a number from 1 to 65535", text);
	int rc = getaddrinfo(address, port, &hints, &found);
	if (rc)
		return error_set(err, "'%s': %s", text, gai_strerror(rc));
	memset(out, 0, sizeof(*out));
	memcpy(out, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

char *listen_text(const struct sockaddr_storage *a, char buf[LISTEN_TEXT_MAX])
{
	char address[INET6_ADDRSTRLEN + IF_NAMESIZE] = "?", port[8] = "?";
	bool six = a->ss_family == AF_INET6;
	getnameinfo((const struct sockaddr *)a, sizeof(*a), address, sizeof(address), port,
		    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(buf, LISTEN_TEXT_MAX, "%s%s%s:%s", six ? "[" : "", address, six ? "]" : "", port);
	return buf;
}

int listen_open(const struct sockaddr_storage *a, struct error *err)
{
	const int yes = 1;
	bool six = a->ss_family == AF_INET6;
	socklen_t size = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	char where[LISTEN_TEXT_MAX];
	AUTO_FD fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
	    (!six || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes)) == 0) &&
	    bind(fd, (const struct sockaddr *)a, size) == 0 && listen(fd, SOMAXCONN) == 0)
		return take_fd(&fd);
	return error_set(err, "cannot listen on %s: %s", listen_text(a, where), strerror(errno));
}

bool listen_is_local(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET) {
		uint32_t ip = ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr);
		return ip >> 24 == 127;
	}
	return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}
