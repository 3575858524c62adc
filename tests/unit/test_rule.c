/* SPDX-License-Identifier: MIT */
#include "sched/rule.h"

#include <string.h>

#include "unit/unit.h"

static int resolve(enum rule_field field, const char *name, uint32_t *number, struct error *err)
{
	*number = field == RULE_UID ? 1000 : 2000;
	if (strcmp(name, "known") == 0)
		return 0;
	return error_set(err, "there is no %s '%s'", field == RULE_UID ? "user" : "group", name);
}

static bool matches(const char *text, const struct rule_subject *s)
{
	struct error err = ERROR_INIT;
	struct rule *r = rule_parse(text, resolve, &err);
	ck_assert_msg(r != NULL, "%s: %s", text, err.text);
	struct rule *copy = rule_copy(r);
	bool m = rule_matches(copy, s);
	ck_assert_int_eq(m, rule_matches(r, s));
	rule_free(r);
	rule_free(copy);
	return m;
}

static const char *problem(const char *text)
{
	static struct error err;
	err = (struct error)ERROR_INIT;
	ck_assert_ptr_null(rule_parse(text, resolve, &err));
	return err.text;
}

START_TEST(users_groups_and_operations_match_by_number_or_name)
{
	const struct rule_subject s = {.uid = 1000, .gid = 2000, .cls = COST_WRITE};
	ck_assert(matches("uid:1000", &s));
	ck_assert(matches("uid:known", &s));
	ck_assert(!matches("uid:1001", &s));
	ck_assert(matches("gid:known & op:write", &s));
	ck_assert(!matches("gid:known & op:read", &s));
	ck_assert(matches(" uid:5 , gid:2000&op:read|write ", &s));
	ck_assert(!matches("uid:5,uid:6", &s));
}
END_TEST

START_TEST(a_copy_is_a_read_and_a_write)
{
	const struct rule_subject s = {.cls = COST_COPY};
	ck_assert(matches("op:read", &s));
	ck_assert(matches("op:write", &s));
	ck_assert(!matches("op:meta|open|readdir", &s));
}
END_TEST

START_TEST(an_operation_on_extended_attributes_is_a_metadata_operation)
{
	const struct rule_subject get = {.cls = COST_META_READ}, set = {.cls = COST_META_WRITE};
	ck_assert(matches("op:meta", &get));
	ck_assert(matches("op:meta", &set));
	ck_assert(!matches("op:read|write", &get));
}
END_TEST

START_TEST(all_matches_every_request)
{
	for (unsigned cls = 0; cls < COST_CLASSES; cls++) {
		const struct rule_subject unknown = {.cls = cls};
		ck_assert(matches("all", &unknown));
		ck_assert(matches("uid:7, all", &unknown));
		ck_assert(matches("op:read|write|meta|readdir|open", &unknown));
	}
	const struct rule_subject one = {.uid = 1};
	ck_assert(matches("all & uid:1", &one));
	ck_assert(!matches("all & uid:2", &one));
}
END_TEST

START_TEST(a_cgroup_is_a_glob_and_two_stars_are_a_subtree)
{
	const struct rule_subject job = {.cgroup = "/ci/job1/sub"}, ci = {.cgroup = "/ci"},
				  other = {.cgroup = "/cicada"}, unknown = {0};
	ck_assert(matches("cgroup:/ci/**", &job));
	ck_assert(matches("cgroup:/ci/**", &ci));
	ck_assert(!matches("cgroup:/ci/**", &other));
	ck_assert(!matches("cgroup:/ci/*", &job)); /* one component only */
	ck_assert(matches("cgroup:/ci/*/sub", &job));
	ck_assert(matches("cgroup:/*/**", &job));
	ck_assert(matches("cgroup:/**", &other));
	ck_assert(!matches("cgroup:/**", &unknown));
}
END_TEST

/* As /proc/PID/cgroup shows it for a virtual machine of libvirt. */
START_TEST(a_cgroup_whose_name_systemd_has_escaped_is_written_as_it_is)
{
	const struct rule_subject vm = {
		.cgroup = "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt"};
	ck_assert(matches("cgroup:/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt", &vm));
	ck_assert(matches("cgroup:/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/**", &vm));
	ck_assert(matches("cgroup:/machine.slice/machine-qemu\\x2d*/**", &vm));
	ck_assert(!matches("cgroup:/machine.slice/machine-qemu\\x2d2*/**", &vm));
	ck_assert(rule_glob_matches(true, "/machine.slice/machine-qemu\\x2d*/*", vm.cgroup));
}
END_TEST

START_TEST(a_name_is_a_glob)
{
	const struct rule_subject s = {.comm = "rsync-ssl"};
	ck_assert(matches("comm:rsync*", &s));
	ck_assert(!matches("comm:rsync", &s));
	ck_assert(matches("comm:[qr]sync?ssl", &s));
}
END_TEST

START_TEST(a_problem_says_what_is_wrong_and_what_to_write)
{
	ck_assert_ptr_nonnull(strstr(problem("uid:nobody9"), "there is no user 'nobody9'"));
	ck_assert_ptr_nonnull(strstr(problem("gid:x"), "there is no group 'x'"));
	ck_assert_ptr_nonnull(strstr(problem("user:x"), "unknown field 'user'"));
	ck_assert_ptr_nonnull(strstr(problem("x"), "write uid:NAME"));
	ck_assert_ptr_nonnull(strstr(problem("op:append"), "unknown op 'append'"));
	ck_assert_ptr_nonnull(strstr(problem("cgroup:ci"), "starts with '/'"));
	ck_assert_ptr_nonnull(strstr(problem("uid:1 & uid:2"), "no request has two of 'uid'"));
	ck_assert_ptr_nonnull(strstr(problem("op:read & op:meta"), "no request has two of 'op'"));
	ck_assert_ptr_nonnull(strstr(problem("uid:1,,uid:2"), "an alternative is empty"));
	ck_assert_ptr_nonnull(strstr(problem("uid:1, "), "an alternative is empty"));
	ck_assert_ptr_nonnull(strstr(problem(" "), "is empty; write uid:NAME"));
	ck_assert_ptr_nonnull(strstr(problem("uid:1 &"), "a term is empty; remove a '&'"));
	ck_assert_ptr_nonnull(strstr(problem("& uid:1"), "a term is empty; remove a '&'"));
	ck_assert_ptr_nonnull(strstr(problem("op:read|"), "unknown op ''"));
	ck_assert_ptr_nonnull(strstr(problem("comm:a-very-long-program-name"), "15 characters"));
	ck_assert_ptr_nonnull(strstr(problem("uid:99999999999"), "out of range"));
}
END_TEST

static bool impossible(const char *text, const char *why)
{
	struct error err = ERROR_INIT;
	struct rule *r = rule_parse(text, resolve, &err);
	rule_free(r);
	return !r && strstr(err.text, why);
}

static bool possible(const char *text)
{
	struct rule *r = rule_parse(text, resolve, NULL);
	rule_free(r);
	return r;
}

START_TEST(a_match_that_no_request_can_meet_is_refused)
{
	ck_assert(impossible("gid:1 & op:read & gid:2", "no request has two of 'gid'"));
	ck_assert(impossible("op:read|open & op:open|meta & op:read|meta",
			     "no request has two of 'op'"));
	ck_assert(impossible("cgroup:/a & cgroup:/b",
			     "no cgroup matches both '/a' and '/b'; separate"));
	ck_assert(impossible("cgroup:/a/* & cgroup:/b", "no cgroup matches both '/a/*' and '/b'"));
	ck_assert(impossible("cgroup:/a & uid:1 & cgroup:/a/*", "no cgroup matches both"));
	ck_assert(impossible("cgroup:/a/** & cgroup:/b/**", "no cgroup matches both"));
	ck_assert(impossible("cgroup:/a/** & cgroup:/ab*", "no cgroup matches both"));
	ck_assert(impossible("comm:rsync & comm:cp", "no comm matches both 'rsync' and 'cp'"));
	ck_assert(impossible("comm:rs* & comm:cp*", "no comm matches both"));
	ck_assert(impossible("cgroup:/a/", "remove a '/'"));
	ck_assert(impossible("cgroup:/a//b", "remove a '/'"));
	ck_assert(impossible("cgroup:/a/../b", "remove it"));
	ck_assert(impossible("cgroup:/a/.", "remove it"));
	ck_assert(impossible("comm:*-very-long-program", "matches none"));
	ck_assert(possible("op:read & op:write")); /* copy_file_range */
	ck_assert(possible("cgroup:/"));
	ck_assert(possible("cgroup:/a/** & cgroup:/a"));
	ck_assert(possible("cgroup:/a/.b/..c/d./..."));
	ck_assert(possible("cgroup:/a/** & cgroup:/*/b"));
	ck_assert(possible("cgroup:/a/*b & cgroup:/a/b*"));
	ck_assert(possible("comm:rs* & comm:*nc & comm:rsync"));
	ck_assert(possible("comm:*123456789012345"));
	ck_assert(possible("uid:1 & gid:2, uid:2 & gid:2"));
}
END_TEST

static bool covers(const char *a, const char *b)
{
	struct rule *earlier = rule_parse(a, resolve, NULL), *later = rule_parse(b, resolve, NULL);
	bool c = rule_covers(earlier, later);
	rule_free(earlier);
	rule_free(later);
	return c;
}

START_TEST(a_rule_that_an_earlier_one_takes_everything_of_is_seen)
{
	ck_assert(covers("uid:1", "uid:1 & op:read"));
	ck_assert(covers("uid:1,uid:2", "uid:2"));
	ck_assert(covers("op:read|write", "op:write & gid:5"));
	ck_assert(covers("cgroup:/ci/**", "cgroup:/ci/job1"));
	ck_assert(covers("all", "uid:1"));
	ck_assert(covers("op:read|write|meta|readdir|open", "comm:x"));
	ck_assert(covers("cgroup:/**", "uid:1 & op:read"));
	ck_assert(covers("comm:*", "all"));
	ck_assert(covers("cgroup:/ci/*", "cgroup:/ci/job*"));
	ck_assert(covers("cgroup:/ci*", "cgroup:/ci[0-9]"));
	ck_assert(!covers("cgroup:/ci/*", "cgroup:/ci/job*/x"));
	ck_assert(!covers("cgroup:/ci/*", "cgroup:/ci/**/x"));
	ck_assert(!covers("cgroup:/ci/job*", "cgroup:/ci/j*"));
	ck_assert(!covers("cgroup:/ci/*", "cgroup:/*/job"));
	ck_assert(!covers("all & uid:1", "uid:2"));
	ck_assert(!covers("uid:1 & op:read", "uid:1"));
	ck_assert(!covers("uid:1", "uid:1,uid:2"));
	ck_assert(!covers("uid:1", "gid:1"));
	ck_assert(covers("cgroup:/ci/**", "cgroup:/ci/a*/**"));
	ck_assert(covers("cgroup:/ci/**", "cgroup:/ci"));
	ck_assert(covers("cgroup:/a\\x2db*", "cgroup:/a\\x2dbc"));
	ck_assert(covers("cgroup:/a\\x2db/**", "cgroup:/a\\x2db/c*"));
	ck_assert(covers("comm:rs*", "comm:rsync"));
	ck_assert(covers("comm:rs*", "comm:rsy?c & uid:1"));
	ck_assert(!covers("cgroup:/ci/*", "cgroup:/ci/**")); /* /ci itself, and /ci/a/b */
	ck_assert(!covers("cgroup:/ci/**", "cgroup:/ci*"));
	ck_assert(!covers("cgroup:/ci/job1", "cgroup:/ci/**"));
	ck_assert(!covers("comm:rsync", "comm:rs*"));
}
END_TEST

UNIT_MAIN("rule", users_groups_and_operations_match_by_number_or_name, a_copy_is_a_read_and_a_write,
	  an_operation_on_extended_attributes_is_a_metadata_operation, all_matches_every_request,
	  a_cgroup_is_a_glob_and_two_stars_are_a_subtree,
	  a_cgroup_whose_name_systemd_has_escaped_is_written_as_it_is, a_name_is_a_glob,
	  a_problem_says_what_is_wrong_and_what_to_write,
	  a_match_that_no_request_can_meet_is_refused,
	  a_rule_that_an_earlier_one_takes_everything_of_is_seen)
