/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fs/cgroup.h"
#include "unit/unit.h"

static void parses_to(const char *text, const char *path)
{
	AUTO_FREE char *copy = strdup(text);
	const char *found = cgroup_parse(copy);
	ck_assert_msg(found && strcmp(found, path) == 0, "'%s' became '%s', not '%s'", text,
		      found ? found : "(none)", path);
}

START_TEST(the_unified_hierarchy_names_a_process)
{
	parses_to("0::/system.slice/docker-1.scope\n", "/system.slice/docker-1.scope");
	parses_to("0::/\n", "/");
	ck_assert_str_eq(cgroup_hierarchies("0::/x\n"), "v2");
}
END_TEST

START_TEST(on_v1_systemd_names_a_process_then_any_controller)
{
	parses_to("4:memory:/docker/1\n2:name=systemd:/user.slice\n", "/user.slice");
	parses_to("4:memory:/docker/1\n2:name=systemd:/\n1:cpu,cpuacct:/other\n", "/docker/1");
	parses_to("2:cpu:/\n1:memory:/\n", "/");
	ck_assert_str_eq(cgroup_hierarchies("2:cpu:/\n1:memory:/\n"), "v1");
}
END_TEST

START_TEST(on_hybrid_systems_an_unused_v2_does_not_hide_v1)
{
	parses_to("2:memory:/docker/1\n1:name=systemd:/a\n0::/\n", "/a");
	parses_to("2:memory:/docker/1\n0::/\n", "/docker/1");
	parses_to("2:memory:/all\n1:name=systemd:/\n0::/ci/job1\n", "/ci/job1");
	parses_to("2:memory:/\n0::/\n", "/");
	ck_assert_str_eq(cgroup_hierarchies("2:cpu:/\n0::/\n"),
			 "v1 (systemd's), and v2 for processes in its root");
}
END_TEST

/* As Docker with the cgroupfs driver leaves it on Ubuntu 20.04. */
START_TEST(on_hybrid_systems_containers_are_told_apart_by_v1)
{
	parses_to("12:memory:/docker/1\n2:cpu,cpuacct:/docker/1\n1:name=systemd:/docker/1\n"
		  "0::/system.slice/containerd.service\n",
		  "/docker/1");
	parses_to("1:name=systemd:/docker/2\n0::/system.slice/containerd.service\n", "/docker/2");
	parses_to("5:pids:/user.slice\n1:name=systemd:/user.slice/session-1.scope\n"
		  "0::/user.slice/session-1.scope\n",
		  "/user.slice/session-1.scope");
}
END_TEST

START_TEST(nonsense_names_nobody)
{
	char empty[] = "", bare[] = "0::\n";
	ck_assert_ptr_null(cgroup_parse(empty));
	ck_assert_ptr_null(cgroup_parse(bare));
	ck_assert_str_eq(cgroup_hierarchies(""), "none");
}
END_TEST

UNIT_MAIN("cgroup", the_unified_hierarchy_names_a_process,
	  on_v1_systemd_names_a_process_then_any_controller,
	  on_hybrid_systems_an_unused_v2_does_not_hide_v1,
	  on_hybrid_systems_containers_are_told_apart_by_v1, nonsense_names_nobody)
