/* SPDX-License-Identifier: MIT */
#include <sys/types.h>
#include <unistd.h>

#include "fs/groups.h"
#include "fs/status.h"
#include "unit/unit.h"

#define MANY 65536

/* As the kernel writes it. */
static char *status_with_groups(unsigned n)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	fputs("Name:\tx\nTgid:\t17\nGroups:\t", out);
	for (unsigned i = 0; i < n; i++)
		fprintf(out, "%u ", 4000000000U + i);
	fputs("\nSigCgt:\t00000000000000ff\n", out);
	fclose(out);
	return text;
}

START_TEST(every_one_of_65536_groups_is_read_and_what_comes_behind_them)
{
	AUTO_FREE char *status = status_with_groups(MANY);
	AUTO_FREE gid_t *id = NULL;
	uint64_t caught = 0;
	ck_assert_int_eq(status_groups(status, &id), MANY);
	ck_assert_uint_eq(id[0], 4000000000U);
	ck_assert_uint_eq(id[MANY - 1], 4000000000U + MANY - 1);
	ck_assert(status_number(status, "\nSigCgt:", 16, &caught));
	ck_assert_uint_eq(caught, 0xff);
}
END_TEST

START_TEST(who_is_in_no_group_has_none)
{
	AUTO_FREE char *status = status_with_groups(0);
	AUTO_FREE gid_t *id = NULL;
	ck_assert_int_eq(status_groups(status, &id), 0);
	AUTO_FREE gid_t *none = NULL;
	ck_assert_int_eq(status_groups("Name:\tx\n", &none), 0);
}
END_TEST

START_TEST(a_live_thread_has_a_status_and_one_that_is_gone_has_none)
{
	AUTO_FREE char *own = status_read((uint32_t)getpid());
	uint64_t tgid = 0;
	ck_assert_ptr_nonnull(own);
	ck_assert(status_number(own, "\nTgid:", 10, &tgid));
	ck_assert_uint_eq(tgid, (uint64_t)getpid());
	ck_assert_ptr_null(status_read(0x7ffffff0));
}
END_TEST

START_TEST(groups_of_a_thread_are_those_of_the_kernel_now_and_lately)
{
	gid_t own[1024];
	int n = getgroups(1024, own);
	struct groups now = {0}, lately = {0}, again = {0};
	uint32_t tid = (uint32_t)getpid();
	ck_assert(groups_of(tid, &now));
	ck_assert_int_eq(now.n, n);
	ck_assert(groups_of_lately(tid, 1, 2, &lately) && groups_of_lately(tid, 1, 2, &again));
	ck_assert(groups_equal(&now, &lately));
	ck_assert(groups_equal(&now, &again));
	groups_free(&now);
	groups_free(&lately);
	groups_free(&again);
}
END_TEST

START_TEST(who_cannot_be_seen_has_no_groups)
{
	struct groups g = {0};
	const gid_t old[] = {1, 2, 3};
	ck_assert(groups_copy(&g, old, 3));
	ck_assert(groups_of(0, &g));
	ck_assert_int_eq(g.n, 0);
	ck_assert(groups_copy(&g, old, 3));
	ck_assert(groups_of_lately(0x7ffffff0, 1, 1, &g));
	ck_assert_int_eq(g.n, 0);
	groups_free(&g);
}
END_TEST

UNIT_MAIN("status", every_one_of_65536_groups_is_read_and_what_comes_behind_them,
	  who_is_in_no_group_has_none, a_live_thread_has_a_status_and_one_that_is_gone_has_none,
	  groups_of_a_thread_are_those_of_the_kernel_now_and_lately,
	  who_cannot_be_seen_has_no_groups)
