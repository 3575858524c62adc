/* SPDX-License-Identifier: MIT */
#include <poll.h>

#include "daemon/names.h"
#include "unit/unit.h"

static int find(const char *name, uint64_t *id, struct error *err)
{
	*err = (struct error)ERROR_INIT;
	return names_find(NAME_USER, name, id, err);
}

START_TEST(a_daemon_that_serves_looks_no_name_up)
{
	struct error err;
	uint64_t id = 77;
	ck_assert_int_eq(find("root", &id, &err), 0);
	ck_assert_uint_eq(id, 0);
	ck_assert_int_eq(names_close(false, &err), 0);
	ck_assert_int_eq(names_fd(), -1);
	ck_assert_int_eq(find("root", &id, &err), -1);
	ck_assert_str_eq(err.text, "user 'root' cannot be looked up now; give the number");
	ck_assert(!names_wanted()); /* only a reload can wait for names */
	names_begin();
	ck_assert_int_eq(find("root", &id, &err), -1);
	ck_assert(names_wanted());
	ck_assert(!names_ask());
	names_begin();
	ck_assert(!names_wanted());
}
END_TEST

/* Waits for the helper's answer, as the event loop does. */
static void receive(void)
{
	struct pollfd fd = {.fd = names_fd(), .events = POLLIN};
	do
		poll(&fd, 1, -1);
	while (!names_receive());
}

START_TEST(the_helper_answers_all_names_that_were_wanted_and_the_next_time_anew)
{
	struct error err = ERROR_INIT;
	uint64_t id = 77;
	ck_assert_int_eq(names_close(true, &err), 0);
	for (int round = 0; round < 2; round++) {
		names_begin();
		ck_assert_int_eq(find("root", &id, &err), -1);
		ck_assert_int_eq(find("no-such-user-here", &id, &err), -1);
		ck_assert(names_wanted() && names_ask());
		ck_assert(names_ask()); /* asking twice does no harm */
		receive();
		names_begin();
		ck_assert_int_eq(find("root", &id, &err), 0);
		ck_assert_uint_eq(id, 0);
		ck_assert_int_eq(find("no-such-user-here", &id, &err), -1);
		ck_assert_str_eq(
			err.text,
			"there is no user 'no-such-user-here'; use an existing name or a number");
		ck_assert(!names_wanted());
		names_end();
	}
	names_stop();
}
END_TEST

UNIT_MAIN("names", a_daemon_that_serves_looks_no_name_up,
	  the_helper_answers_all_names_that_were_wanted_and_the_next_time_anew)
