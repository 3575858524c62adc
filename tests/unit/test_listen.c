/* SPDX-License-Identifier: MIT */
#include "ctl/listen.h"
#include "unit/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

static struct sockaddr_storage a;
static struct error err;

START_TEST(addresses_are_those_of_either_family)
{
	ck_assert_int_eq(listen_parse("192.0.2.7:80", &a, &err), 0);
	ck_assert_int_eq(a.ss_family, AF_INET);
	ck_assert_uint_eq(ntohs(((struct sockaddr_in *)&a)->sin_port), 80);
	ck_assert(!listen_is_local(&a));
	ck_assert_int_eq(listen_parse("[::1]:9944", &a, &err), 0);
	ck_assert_int_eq(a.ss_family, AF_INET6);
	ck_assert(listen_is_local(&a));
	ck_assert_int_eq(listen_parse("[::]:9944", &a, &err), 0);
	ck_assert(!listen_is_local(&a));
}
END_TEST

START_TEST(a_port_alone_is_reached_from_this_machine_only)
{
	ck_assert_int_eq(listen_parse("9944", &a, &err), 0);
	ck_assert(listen_is_local(&a));
	ck_assert_int_eq(listen_parse("127.3.2.1:1", &a, &err), 0);
	ck_assert(listen_is_local(&a));
}
END_TEST

START_TEST(an_address_is_written_as_a_url_has_it)
{
	char text[LISTEN_TEXT_MAX];
	ck_assert_int_eq(listen_parse("9944", &a, &err), 0);
	ck_assert_str_eq(listen_text(&a, text), "127.0.0.1:9944");
	ck_assert_int_eq(listen_parse("[0::1]:80", &a, &err), 0);
	ck_assert_str_eq(listen_text(&a, text), "[::1]:80");
}
END_TEST

START_TEST(an_address_in_use_is_named)
{
	struct error e = ERROR_INIT;
	struct sockaddr_in *in = (struct sockaddr_in *)&a;
	socklen_t size = sizeof(*in);
	ck_assert_int_eq(listen_parse("127.0.0.1:1", &a, &err), 0);
	in->sin_port = 0; /* any that is free */
	int fd = listen_open(&a, &e);
	ck_assert_msg(fd >= 0, "%s", e.text);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)in, &size), 0);
	ck_assert_int_eq(listen_open(&a, &e), -1);
	ck_assert_msg(strncmp(e.text, "cannot listen on 127.0.0.1:", 27) == 0 &&
			      strstr(e.text, ": Address already in use"),
		      "%s", e.text);
	close(fd);
}
END_TEST

START_TEST(what_is_no_address_is_refused)
{
	static const char *const bad[] = {"",	     ":80",    "a:b",	"127.0.0.1:", "127.0.0.1:0",
					  "1:65536", "::1:80", "[]:80", "-1",	      "80x"};
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error e = ERROR_INIT;
		ck_assert_msg(listen_parse(bad[i], &a, &e) == -1, "%s", bad[i]);
		ck_assert(error_is_set(&e));
	}
}
END_TEST

UNIT_MAIN("listen", addresses_are_those_of_either_family,
	  a_port_alone_is_reached_from_this_machine_only, an_address_is_written_as_a_url_has_it,
	  an_address_in_use_is_named, what_is_no_address_is_refused)
