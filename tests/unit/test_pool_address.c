/* SPDX-License-Identifier: MIT */
/* server= of a pool. */
#include "pool/address.h"

#include <string.h>

#include "unit/unit.h"

static struct pool_address a;
static struct error err;

static bool parses(const char *server)
{
	err = (struct error)ERROR_INIT;
	return pool_address_parse(server, &a, &err) == 0;
}

START_TEST(a_server_of_redis_is_taken_apart)
{
	static const struct {
		const char *server, *host, *port, *db;
		bool tls;
	} good[] = {
		{"redis://h", "h", "6379", "", false},
		{"redis://h.example.net:1/15", "h.example.net", "1", "15", false},
		{"rediss://h_1-2:65535", "h_1-2", "65535", "", true},
		{"redis://10.0.0.1/", "10.0.0.1", "6379", "", false},
		{"redis://[::1]", "::1", "6379", "", false},
		{"redis://[fe80::1%eth0]:7/3", "fe80::1%eth0", "7", "3", false},
	};
	for (unsigned i = 0; i < ARRAY_SIZE(good); i++) {
		ck_assert_msg(parses(good[i].server), "%s: %s", good[i].server, err.text);
		ck_assert_str_eq(a.host, good[i].host);
		ck_assert_str_eq(a.port, good[i].port);
		ck_assert_str_eq(a.db, good[i].db);
		ck_assert_str_eq(a.path, "");
		ck_assert(a.tls == good[i].tls);
	}
}
END_TEST

START_TEST(anything_else_is_refused_and_a_password_is_not_quoted)
{
	static const char *const bad[] = {
		"",
		"h",
		"http://h",
		"REDIS://h",
		"redis:h",
		"redis://",
		"redis:///0",
		"redis://:6379",
		"redis://h:",
		"redis://h:0",
		"redis://h:65536",
		"redis://h:-1",
		"redis://h:+1",
		"redis://h:http",
		"redis://h:6379x",
		"redis://h:99999999",
		"redis://h/x",
		"redis://h/0/1",
		"redis://h/-1",
		"redis://h/999999999999",
		"redis://[::1",
		"redis://[::1]x",
		"redis://[]:6379",
		"redis://::1",
		"redis://h h",
		"redis://h?db=1",
		"redis://h#1",
		"redis://h\n",
		"redis://u:p@h",
		"redis://:secret@h",
		"http://:secret@h",
		"unix:",
		"unix:pool.sock",
	};
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		ck_assert_msg(!parses(bad[i]), "%s", bad[i]);
		ck_assert_ptr_null(strstr(err.text, "secret"));
	}
}
END_TEST

START_TEST(names_and_paths_have_a_longest_length)
{
	char server[POOL_SERVER_MAX + 1];
	memset(server, 'x', sizeof(server));
	memcpy(server, "redis://", 8);
	server[POOL_SERVER_MAX] = '\0';
	ck_assert(!parses(server));
	server[POOL_SERVER_MAX - 1] = '\0';
	ck_assert(parses(server));
	memcpy(server, "unix:/xx", 8);
	server[5 + POOL_SOCKET_MAX] = '\0';
	ck_assert(!parses(server));
	server[5 + POOL_SOCKET_MAX - 1] = '\0';
	ck_assert(parses(server));
	ck_assert_str_eq(a.path, server + 5);
}
END_TEST

UNIT_MAIN("pool_address", a_server_of_redis_is_taken_apart,
	  anything_else_is_refused_and_a_password_is_not_quoted,
	  names_and_paths_have_a_longest_length)
