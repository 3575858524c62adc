/* SPDX-License-Identifier: MIT */
#include "daemon/config_file.h"
#include "daemon/options.h"
#include "unit/unit.h"

#include <string.h>

static struct configuration c;
static struct problems p;

static int parse(const char *text)
{
	char *copy = strdup(text);
	problems_free(&p);
	memset(&p, 0, sizeof(p));
	p.file = "f";
	int rc = config_parse(&c, copy, strlen(text), &p);
	free(copy);
	return rc;
}

/* Parsing the text must report exactly these problems, one per line. */
static void says(const char *text, const char *problems)
{
	ck_assert_int_eq(parse(text), -1);
	char *all = problems_text(&p);
	ck_assert_str_eq(all, problems);
	free(all);
}

#define MOUNT "[mount:m]\nsource = /s\nmountpoint = /m\n"

START_TEST(a_good_file_gives_its_values)
{
	ck_assert_int_eq(
		parse("# comment\n[global]\niops = 1k ; all\non_mount_error = continue\n"
		      "[fs:data]\nsource = \"/srv/da ta#1\"\nwrite-bps = 5M\n"
		      "[mount:One]\nfs = data\nmountpoint = /mnt//one/\nfair = uid\nro = yes\n"
		      "options = noexec,fsname=a\\,b,weight=uid:7=2\n"
		      "[weights]\nuid:1000 = 4\ncgroup:/CI = 3\ncgroup:/ci/** = 2\n"),
		0);
	ck_assert_uint_eq(c.global.limits.limit[LIMIT_IOPS].rate_per_sec, 1000);
	ck_assert_uint_eq(c.global.on_mount_error, ON_MOUNT_ERROR_CONTINUE);
	ck_assert_str_eq(c.fs[0].source, "/srv/da ta#1");
	ck_assert_uint_eq(c.fs[0].limits.limit[LIMIT_WRITE_BPS].rate_per_sec, 5 << 20);
	ck_assert_str_eq(c.mount[0].name, "One");
	ck_assert_str_eq(c.mount[0].mountpoint, "/mnt/one");
	ck_assert_uint_eq(c.mount[0].fair, FAIR_UID);
	ck_assert_ptr_nonnull(words_find(&c.mount[0].fuse, "ro"));
	ck_assert_ptr_nonnull(words_find(&c.mount[0].fuse, "noexec"));
	ck_assert_str_eq(words_find(&c.mount[0].fuse, "fsname"), "a,b");
	ck_assert_uint_eq(c.mount[0].weights.n, 1);
	ck_assert_uint_eq(c.weights.n, 3);
	ck_assert_str_eq(c.weights.rule[2].glob, "/ci/**");
	ck_assert_str_eq(c.weights.text[1], "cgroup:/CI=3");
	configuration_free(&c);
}
END_TEST

START_TEST(every_option_of_the_command_line_is_a_key_and_the_other_way_round)
{
	for (unsigned i = 0; i < n_options; i++) {
		const struct option_def *o = &options[i];
		char text[256];
		if (o->type != OPTION_COUNT && o->type != OPTION_RATE && o->type != OPTION_FLAG)
			continue;
		if (!option_is_in(o, SCOPE_MOUNT))
			continue;
		snprintf(text, sizeof(text), MOUNT "%s = %s\n", o->name,
			 o->type == OPTION_FLAG ? "yes" : "3");
		ck_assert_msg(parse(text) == 0, "%s", o->name);
		configuration_free(&c);
	}
}
END_TEST

START_TEST(unknown_sections_and_keys_are_told_with_the_nearest_name)
{
	says("[golbal]\n" MOUNT "[mout:x]\n[what ever]\n",
	     "f:1: [golbal]: unknown section; did you mean [global]?\n"
	     "f:5: [mout:x]: unknown section; did you mean [mount:NAME]?\n"
	     "f:6: [what ever]: unknown section; there are [global], [weights], [fs:NAME], "
	     "[mount:NAME], [class:NAME] and [pool:NAME]");
	says(MOUNT "iosp = 3\n", "f:4: [mount:m] unknown option 'iosp'; did you mean 'iops'?");
	says(MOUNT "[global]\nfair = uid\n",
	     "f:5: [global] fair: belongs to the mount scope, not to global; set it there");
}
END_TEST

START_TEST(a_section_does_not_name_a_mount_like_another_target)
{
	says("[mount:global]\nsource = /a\nmountpoint = /b\n",
	     "f:1: [mount:global] name: 'global' has another meaning for ratefsctl; choose another name");
	says("[mount:pool:x]\nsource = /a\nmountpoint = /b\n",
	     "f:1: [mount:pool:x] name: 'pool:x' has another meaning for ratefsctl; choose another name");
	ck_assert_int_eq(parse("[mount:global]\nsource = /a\nmountpoint = /b\nname = a\n"), 0);
}
END_TEST

START_TEST(what_is_there_twice_is_told)
{
	says(MOUNT "iops = 3\nIOPS = 4\n",
	     "f:5: [mount:m] IOPS: the key occurs twice, first in line 4");
	says(MOUNT "max-open = 3\nmax_open = 4\n",
	     "f:5: [mount:m] max_open: the key occurs twice, first in line 4");
	says(MOUNT "[mount:M]\nsource = /x\nmountpoint = /y\n",
	     "f:4: [mount:M]: the section occurs twice, first in line 1; rename or merge them");
	says(MOUNT "[mount:n]\nsource = /x\nmountpoint = //m/\n",
	     "f:6: [mount:n] mountpoint: '/m' is also that of [mount:m]");
	says(MOUNT "[mount:n]\nsource = /x\nmountpoint = /n\nname = m\n",
	     "f:7: [mount:n] name: 'm' is also the name of [mount:m]");
	says("[mount:a]\nsource = /a\nmountpoint = /a\nname = b\n[mount:b]\nsource = /b\n"
	     "mountpoint = /b\n",
	     "f:5: [mount:b] name: 'b' is also the name of [mount:a]");
}
END_TEST

START_TEST(what_is_missing_is_told)
{
	says("[global]\niops = 5\n", "f: there is no [mount:NAME]: nothing to serve");
	says("[mount:m]\nfs = nope\n", "f:1: [mount:m] mountpoint: is missing\n"
				       "f:2: [mount:m] fs: there is no [fs:nope]");
	says("[mount:m]\nmountpoint = /m\n",
	     "f:1: [mount:m] source: is missing; give fs or source");
	says("[fs:a]\niops = 4\n" MOUNT, "f:1: [fs:a] source: is missing");
	says("[fs:a]\nsource = /a\n" MOUNT "fs = a\n",
	     "f:4: [mount:m] source: give fs or source, not both");
	says("[mount:]\n" MOUNT, "f:1: [mount:]: the name is missing; write [mount:NAME]");
	says("[mount:m]\nsource = s\nmountpoint = m\n",
	     "f:2: [mount:m] source: 's' is not an absolute path\n"
	     "f:3: [mount:m] mountpoint: 'm' is not an absolute path");
}
END_TEST

START_TEST(lines_that_iniparser_would_misread_are_told)
{
	says("iops = 3\n" MOUNT, "f:1: the key is before the first [section]");
	says(MOUNT "[global\niops = 3\n",
	     "f:4: a section must end with ']', with nothing behind it");
	says(MOUNT "[\n", "f:4: a section must end with ']', with nothing behind it");
	says(MOUNT "[]\n", "f:4: the section has no name");
	says(MOUNT "nonsense\n", "f:4: neither a [section], nor 'key = value', nor a comment");
	says(MOUNT "= 3\n", "f:4: there is no key before '='");
	says(MOUNT "iops = 3 \\\n", "f:4: lines cannot be continued with '\\'");
	says(MOUNT "# a command \\\niops = 3Q\n", "f:5: [mount:m] iops: '3Q': unknown suffix 'Q'");
	says(MOUNT "fsname = a#b\n",
	     "f:4: [mount:m] fsname: '#' and ';' begin a comment; put the value in quotes");
	says(MOUNT "fsname = \"a\n", "f:4: [mount:m] fsname: the closing quote is missing");
	says(MOUNT "fsname = \"a\" b\n",
	     "f:4: [mount:m] fsname: something is behind the closing quote");
	says(MOUNT "fsname = \001\n", "f:4: the line has control characters; is this a text file?");
}
END_TEST

START_TEST(all_problems_come_in_one_go_in_the_order_of_the_file)
{
	says("[global]\niops = x\n[fs:a]\nbps = 1Q\n[mount:m]\nbogus line\nfair = no\n",
	     "f:2: [global] iops: 'x': not a number; write for example 200\n"
	     "f:3: [fs:a] source: is missing\n"
	     "f:4: [fs:a] bps: '1Q': unknown suffix 'Q'\n"
	     "f:5: [mount:m] mountpoint: is missing\n"
	     "f:5: [mount:m] source: is missing; give fs or source\n"
	     "f:6: neither a [section], nor 'key = value', nor a comment\n"
	     "f:7: [mount:m] fair: 'no': must be one of none|handle|process|uid|gid|cgroup");
}
END_TEST

START_TEST(a_line_that_is_too_long_does_not_hide_the_others)
{
	static char text[9000];
	memset(text, 'a', 5000);
	strcpy(text + 5000, "\n" MOUNT "iops = 1Q\n");
	says(text, "f:1: the line is longer than 1000 bytes\n"
		   "f:5: [mount:m] iops: '1Q': unknown suffix 'Q'");
}
END_TEST

START_TEST(many_problems_are_counted_and_not_kept)
{
	char *text = malloc(200 * 8 + 1), *all;
	for (int i = 0; i < 200; i++)
		memcpy(text + 8 * i, "garbage\n", 9);
	ck_assert_int_eq(parse(text), -1);
	ck_assert_uint_eq(p.n, 201);
	all = problems_text(&p);
	ck_assert_ptr_nonnull(strstr(all, "f:50: neither"));
	ck_assert_ptr_null(strstr(all, "f:51: neither"));
	ck_assert_ptr_nonnull(strstr(all, "f: 151 more problems"));
	free(all);
	free(text);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_named)
{
	struct configuration none;
	problems_free(&p);
	memset(&p, 0, sizeof(p));
	ck_assert_int_eq(config_load(&none, "/nonexistent/ratefs.conf", &p), -1);
	ck_assert_str_eq(p.line[0], "/nonexistent/ratefs.conf: No such file or directory");
	problems_free(&p);
	memset(&p, 0, sizeof(p));
	ck_assert_int_eq(config_load(&none, "/", &p), -1);
	ck_assert_str_eq(p.line[0], "/: is a directory");
}
END_TEST

START_TEST(a_problem_is_told_with_its_own_line_and_section)
{
	says("[mount:a]\nname = b\nmountpoint = m\nfs = nope\n",
	     "f:3: [mount:a] mountpoint: 'm' is not an absolute path\n"
	     "f:4: [mount:a] fs: there is no [fs:nope]");
	says(MOUNT "[fs:x]\nbps = 5M\nsource = x\n",
	     "f:6: [fs:x] source: 'x' is not an absolute path");
	says(MOUNT "allow_root = yes\nallow_other = yes\nmeta_iops_burst = 5\n",
	     "f:4: [mount:m] allow_root: allow_other already admits root; remove one of them\n"
	     "f:6: [mount:m] meta_iops_burst: has no effect without meta_iops; give "
	     "meta_iops=OPS too");
	says(MOUNT "[global] # all\niops = \"5\n",
	     "f:4: a section must end with ']', with nothing behind it\n"
	     "f:5: [global] iops: the closing quote is missing");
}
END_TEST

START_TEST(all_problems_of_options_are_told)
{
	says(MOUNT "options = iops=5Q, ro, fiar=uid,iops_burst=3,bps_burst=4,options=ro\n",
	     "f:4: [mount:m] options: iops: '5Q': unknown suffix 'Q'\n"
	     "f:4: [mount:m] options: unknown option 'fiar'; did you mean 'fair'?\n"
	     "f:4: [mount:m] options: options: is for configuration files\n"
	     "f:4: [mount:m] bps_burst: has no effect without bps; give bps=BYTES too");
	says(MOUNT "global.iops = 5\n",
	     "f:4: [mount:m] unknown option 'global.iops'; limits of all mounts belong to global: "
	     "[global] in a file, 'ratefsctl set global'");
}
END_TEST

START_TEST(case_of_keys_does_not_matter)
{
	ck_assert_msg(parse("[Global]\nIOPS = 7\n[Mount:m]\nSource = /s\nMountPoint = /m\n") == 0,
		      "%s", p.n ? p.line[0] : "");
	ck_assert_uint_eq(c.global.limits.limit[LIMIT_IOPS].rate_per_sec, 7);
	ck_assert_str_eq(c.mount[0].mountpoint, "/m");
	configuration_free(&c);
}
END_TEST

#define TWO                                                                                        \
	"[mount:a]\nsource = /s\nmountpoint = /a\nbps = 50M\n"                                     \
	"[mount:b]\nsource = /s\nmountpoint = /b\n"

START_TEST(every_mount_has_its_own_classes_in_the_order_of_the_file)
{
	ck_assert_msg(parse(TWO "[class:x]\nmatch = uid:1\nmounts = b\n"
				"[class:y]\nmatch = uid:1, comm:rsync*\nweight = 3+uid:5=2\n"
				"each.bps = 2M\neach.bps_peak = 3M\nfair = uid\nreserve.bps = 10M\n"
				"[class:z]\nmatch=gid:0 & op:read\nparent = y\n") == 0,
		      "%s", p.n ? p.line[0] : "");
	const struct settings *a = &c.mount[0], *b = &c.mount[1];
	ck_assert_uint_eq(a->n_classes, 2);
	ck_assert_uint_eq(b->n_classes, 3);
	ck_assert_str_eq(b->class[0].name, "x");
	ck_assert_str_eq(a->class[0].name, "y");
	ck_assert_str_eq(a->class[1].parent, "y");
	ck_assert_uint_eq(a->class[0].weights.own, 3);
	ck_assert_uint_eq(a->class[0].weights.n, 1);
	ck_assert_uint_eq(a->class[0].each.limit[LIMIT_BPS].rate_per_sec, 2 << 20);
	ck_assert_uint_eq(a->class[0].each.limit[LIMIT_BPS].peak_per_sec, 3 << 20);
	ck_assert_uint_eq(a->class[0].reserve_bps, 10 << 20);
	ck_assert(!a->class[0].limits.limit[LIMIT_BPS].enabled);
	configuration_free(&c);
}
END_TEST

START_TEST(classes_name_their_mounts_by_name_or_by_section)
{
	ck_assert_msg(parse(TWO "name = x\n[mount:x]\nsource = /s\nmountpoint = /x\nname = y\n"
				"[class:of_a]\nmatch = uid:1\nmounts = a\n"
				"[class:of_b]\nmatch = uid:2\nmounts = b\n"
				"[class:of_b_by_name]\nmatch = uid:3\nmounts = x\n") == 0,
		      "%s", p.n ? p.line[0] : "");
	ck_assert_uint_eq(c.mount[0].n_classes, 1);
	ck_assert_uint_eq(c.mount[1].n_classes, 2);
	ck_assert_uint_eq(c.mount[2].n_classes, 0);
	ck_assert_str_eq(c.mount[1].class[0].name, "of_b");
	ck_assert_str_eq(c.mount[1].class[1].name, "of_b_by_name");
	configuration_free(&c);
}
END_TEST

START_TEST(what_is_wrong_with_a_class_is_told_with_its_place)
{
	says(MOUNT "[class:x]\nmatch = uid:no-such-user-here\n"
		   "[class:y]\nmatch = uid:1 & uid:2\nmounts = m, n\n"
		   "[class:z]\niops = 5\n[class:v]\nmatch = uid:3\nmounts = m m\n",
	     "f:5: [class:x] match: there is no user 'no-such-user-here'; use an existing name or a number\n"
	     "f:7: [class:y] match: no request has two of 'uid'; separate alternatives with ','\n"
	     "f:8: [class:y] mounts: there is no [mount:n]; add it, or remove the name here\n"
	     "f:9: [class:z] match: is missing, and the class is not the parent of another; write match=\n"
	     "f:13: [class:v] mounts: there is no [mount:m m]; add it, or remove the name here");
	says(MOUNT "[class:a]\nmatch = uid:1\nparent = b\n[class:b]\nmatch = uid:2\nparent = a\n"
		   "[class:c]\nmatch = uid:3\nparent = nobody\n"
		   "[class:d]\nmatch = uid:4\nparent = d\n[class:e/f]\nmatch = uid:5\n",
	     "f:6: [class:a] parent: the classes are inside each other: 'a' in 'b' in 'a'; give one of them another "
	     "parent, or none\n"
	     "f:12: [class:c] parent: there is no class 'nobody'; add [class:nobody], or correct the name\n"
	     "f:15: [class:d] parent: the classes are inside each other: 'd' in 'd'; give one of them another "
	     "parent, or none\n"
	     "f:16: [class:e/f] 'e/f' cannot be the name of a class; use at most 64 characters, without '/', "
	     "brackets, quotes, '#' and ';', and not 'none'");
	says(MOUNT "match = uid:1\nweight = 3\n",
	     "f:4: [mount:m] match: belongs to a class; use [class:NAME] in a file, or 'ratefsctl class "
	     "add'\n"
	     "f:5: [mount:m] weight: '3': not the weight of a caller; use mount_weight for the share of a mount");
}
END_TEST

START_TEST(a_peak_below_its_rate_is_told_once_at_its_own_line)
{
	says(MOUNT "bps = 10M\nbps_peak = 5M\n",
	     "f:5: [mount:m] bps_peak: is below the rate of bps; it must be at least that, or off");
	says(MOUNT "bps_peak = 5M\nbps = 10M\n",
	     "f:4: [mount:m] bps_peak: is below the rate of bps; it must be at least that, or off");
}
END_TEST

START_TEST(a_class_that_nothing_can_reach_is_told_once_for_all_mounts)
{
	says(TWO "[class:x]\nmatch = uid:1\n[class:y]\nmatch = cgroup:/ci/**\n"
		 "[class:z]\nmatch = uid:1 & op:read, cgroup:/ci/job\n",
	     "f:13: [class:z] match: the class is never used: classes up to 'y', which are tried earlier, take "
	     "all of it; put this class before 'y'");
	says(TWO "[class:x]\nmatch = all\n[class:y]\nmatch = uid:1\n",
	     "f:11: [class:y] match: the class is never used: 'x', which is tried earlier, takes "
	     "all of it; put this class before 'x'");
	says(TWO "[class:x]\nmatch = op:read\n[class:y]\nmatch = op:write|meta|readdir|open\n"
		 "[class:z]\nmatch = uid:1\n",
	     "f:13: [class:z] match: the class is never used: classes up to 'y', which are tried earlier, take "
	     "all of it; put this class before 'y'");
	says(TWO "[class:x]\nmatch = uid:1\nparent = y\n[class:y]\nmatch = uid:2\nmounts = a\n",
	     "f:10: [class:x] parent: there is no class 'y' in mount 'b'; add it there first");
	ck_assert_int_eq(parse(TWO "[class:x]\nmatch = uid:1 & op:read\n"
				   "[class:y]\nmatch = uid:1, uid:2\n"),
			 0);
	configuration_free(&c);
	/* what `ratefsctl class add` saves before the class contains another */
	ck_assert_int_eq(parse(TWO "[class:x]\nmatch = none\nmounts = a\n"), 0);
	configuration_free(&c);
}
END_TEST

START_TEST(reservations_above_what_there_is_are_told)
{
	says(TWO "[class:x]\nmatch = uid:1\nreserve.bps = 30M\n"
		 "[class:y]\nmatch = uid:2\nreserve.bps = 21M\nreserve.iops = 10\niops = 9\n"
		 "[class:z]\nmatch = uid:3\nparent = y\nreserve.iops = 10\n",
	     "f:13: [class:y] reserve.bps: reservations in mount 'a' add up to 51M, above its "
	     "bps=50M; lower one of them, or raise the limit\n"
	     "f:14: [class:y] reserve.iops: is above its own iops=9; lower it, or raise the limit\n"
	     "f:19: [class:z] reserve.iops: reservations in class 'y' add up to 10, above its "
	     "iops=9; lower one of them, or raise the limit");
	/* the sum of all, told where the limit is exceeded */
	says(TWO "[class:x]\nmatch = uid:1\nreserve.bps = 60M\n"
		 "[class:y]\nmatch = uid:2\nreserve.bps = 20M\n",
	     "f:10: [class:x] reserve.bps: reservations in mount 'a' add up to 80M, above its "
	     "bps=50M; lower one of them, or raise the limit");
	says(MOUNT "read_bps = 3M\nwrite_bps = 1M\n[class:x]\nmatch = uid:1\nreserve.bps = 5M\n"
		   "[class:y]\nmatch = uid:2\nread_bps = 1M\nwrite_bps = 2M\nreserve.bps = 4M\n",
	     "f:8: [class:x] reserve.bps: reservations in mount 'm' add up to 9M, above its read_bps and write_bps, "
	     "together 4M; lower one of them, or raise the limit\n"
	     "f:13: [class:y] reserve.bps: is above its own read_bps and write_bps, together 3M; lower it, or raise "
	     "the limit");
	/* metadata operations count towards reserve.iops, too */
	ck_assert_int_eq(parse(MOUNT "iops = 3k\nmeta_iops = 20k\n"
				     "[class:x]\nmatch = op:meta\nreserve.iops = 23k\n"),
			 0);
	configuration_free(&c);
	says(MOUNT "iops = 3k\nmeta_iops = 20k\n[class:x]\nmatch = op:meta\nreserve.iops = 23001\n",
	     "f:8: [class:x] reserve.iops: reservations in mount 'm' add up to 23001, above its iops and meta_iops, "
	     "together 23k; lower one of them, or raise the limit");
	/* a reservation must also fit into the limits of the parent's parent */
	says(TWO
	     "[class:x]\nmatch = none\n[class:y]\nmatch = uid:1\nparent = x\nreserve.bps = 51M\n",
	     "f:8: [class:x] reserve.bps: reservations in mount 'a' add up to 51M, above its "
	     "bps=50M; lower one of them, or raise the limit");
}
END_TEST

START_TEST(reservations_of_all_mounts_together_are_held_against_the_limits_that_they_share)
{
	static const char shared[] =
		"[global]\nbps = 100M\niops = 100\n[fs:f]\nsource = /f\niops = 50\n"
		"[mount:a]\nfs = f\nmountpoint = /a\n"
		"[mount:b]\nfs = f\nmountpoint = /b\n"
		"[mount:c]\nsource = /c\nmountpoint = /c\n"
		"[class:x]\nmatch = uid:1\n";
	char text[600];
	snprintf(text, sizeof(text), "%sreserve.iops = 26\n", shared);
	says(text, "f:18: [class:x] reserve.iops: reservations in fs 'f' add up to 52, above its "
		   "iops=50; lower one of them, or raise the limit");
	snprintf(text, sizeof(text), "%sreserve.bps = 34M\n", shared);
	says(text, "f:18: [class:x] reserve.bps: reservations in global add up to 102M, above its "
		   "bps=100M; lower one of them, or raise the limit");
	snprintf(text, sizeof(text), "%sreserve.bps = 33M\nreserve.iops = 25\n", shared);
	ck_assert_int_eq(parse(text), 0);
	configuration_free(&c);
}
END_TEST

START_TEST(scopes_take_part_in_pools_by_name)
{
	ck_assert_int_eq(
		parse("[pool:farm]\nserver = redis://h:7000/2\nbps = 10M\nwindow = 1s\n"
		      "bps_burst = 1M\nlease = 2s\non_lost = stop\npool_weight = 3\n"
		      "[pool:few]\nserver = rediss://h\nbps = 5M\ntls_ca = /ca\n"
		      "[global]\npool = farm\n[class:c]\nmatch = uid:1\npool = few\n" MOUNT),
		0);
	ck_assert_uint_eq(c.n_pools, 2);
	ck_assert_str_eq(c.pool[0].key, "ratefs:{farm}");
	ck_assert_uint_eq(c.pool[0].lease_ns, 2 * NSEC_PER_SEC);
	ck_assert_uint_eq(c.pool[0].on_lost, 1);
	ck_assert_uint_eq(c.pool[0].pool_weight, 3);
	ck_assert_uint_eq(c.global.limits.limit[LIMIT_BPS].pool_per_sec, 10 << 20);
	ck_assert(!c.global.limits.limit[LIMIT_BPS].enabled);
	ck_assert_uint_eq(c.mount[0].limits.limit[LIMIT_BPS].pool_per_sec, 0);
	ck_assert_uint_eq(c.mount[0].class[0].limits.limit[LIMIT_BPS].pool_per_sec, 5 << 20);
	configuration_free(&c);
}
END_TEST

START_TEST(what_is_wrong_with_a_pool_is_told)
{
	says("[pool:a]\nbps = 1M\n" MOUNT,
	     "f:1: [pool:a] server: is missing; give redis://HOST[:PORT] or unix:/PATH");
	says("[pool:a]\nserver = unix:/p\n" MOUNT,
	     "f:1: [pool:a] has no limit; give bps, iops or another");
	says("[pool:a]\nserver = redis://u@h\nbps = 1M\n" MOUNT,
	     "f:1: [pool:a] server: names and passwords go into the file of auth_file");
	says("[pool:a]\nserver = unix:/p\nbps = 1M\nlease = 10ms\n" MOUNT,
	     "f:4: [pool:a] lease: '10ms': must be at least 50ms");
	says("[pool:a]\nserver = unix:/p\nbps = 1M\npool_weight = 0\n" MOUNT,
	     "f:4: [pool:a] pool_weight: '0': must be at least 1");
	says(MOUNT "pool = b\n", "f:4: [mount:m] pool: there is no [pool:b]");
	says("[pool:a]\nserver = redis://h\nbps = 1M\ntls_ca = /ca\n" MOUNT,
	     "f:1: [pool:a] tls_ca: TLS needs server=rediss://HOST[:PORT]");
	says("[pool:a]\nserver = rediss://h\nbps = 1M\ntls_key = /key\n" MOUNT,
	     "f:1: [pool:a] tls_key: needs tls_cert");
	says(MOUNT "server = redis://h\n",
	     "f:4: [mount:m] server: belongs to a pool; use [pool:NAME] in a file, or -o pool.server");
}
END_TEST

START_TEST(a_scope_does_not_take_part_in_a_pool_twice)
{
#define POOL "[pool:a]\nserver = unix:/p\nbps = 1M\n"
	says(POOL "[global]\npool = a\n" MOUNT "pool = a\n",
	     "f:9: [mount:m] pool: already takes part in pool 'a' by [global]");
	says(POOL MOUNT "pool = a\n[class:c]\nmatch = uid:1\npool = a\n",
	     "f:7: [mount:m] class 'c': pool: already takes part in pool 'a' by [mount:m]");
	says(POOL MOUNT "[class:c]\nmatch = none\npool = a\n"
			"[class:d]\nmatch = uid:1\nparent = c\npool = a\n",
	     "f:4: [mount:m] class 'd': pool: already takes part in pool 'a' by [class:c]");
	ck_assert_int_eq(parse(POOL "[global]\npool = none\n" MOUNT "pool = a\n"), 0);
	configuration_free(&c);
}
END_TEST

UNIT_MAIN("config", a_scope_does_not_take_part_in_a_pool_twice, scopes_take_part_in_pools_by_name,
	  what_is_wrong_with_a_pool_is_told,
	  every_mount_has_its_own_classes_in_the_order_of_the_file,
	  classes_name_their_mounts_by_name_or_by_section,
	  what_is_wrong_with_a_class_is_told_with_its_place,
	  a_peak_below_its_rate_is_told_once_at_its_own_line,
	  a_class_that_nothing_can_reach_is_told_once_for_all_mounts,
	  reservations_above_what_there_is_are_told,
	  reservations_of_all_mounts_together_are_held_against_the_limits_that_they_share,
	  a_problem_is_told_with_its_own_line_and_section, all_problems_of_options_are_told,
	  case_of_keys_does_not_matter, a_good_file_gives_its_values,
	  every_option_of_the_command_line_is_a_key_and_the_other_way_round,
	  unknown_sections_and_keys_are_told_with_the_nearest_name, what_is_there_twice_is_told,
	  a_section_does_not_name_a_mount_like_another_target, what_is_missing_is_told,
	  lines_that_iniparser_would_misread_are_told,
	  all_problems_come_in_one_go_in_the_order_of_the_file,
	  a_line_that_is_too_long_does_not_hide_the_others, many_problems_are_counted_and_not_kept,
	  a_file_that_cannot_be_read_is_named)
