/* SPDX-License-Identifier: MIT */
#include "daemon/cmdline.h"
#include "unit/unit.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static struct cmdline c;
static struct error err;

static int parse(const char *line)
{
	static char copy[512];
	char *argv[32], *save = NULL;
	int argc = 0;
	snprintf(copy, sizeof(copy), "%s", line);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	argv[argc] = NULL;
	optind = 0; /* makes getopt start from the beginning */
	cmdline_free(&c);
	err.text[0] = '\0';
	return cmdline_parse(&c, argc, argv, &err);
}

static void says(const char *line, const char *text)
{
	ck_assert_int_eq(parse(line), -1);
	ck_assert_str_eq(err.text, text);
}

START_TEST(source_and_mountpoint_become_absolute_and_give_the_names)
{
	ck_assert_msg(parse("ratefs /usr/../tmp /tmp/.") == 0, "%s", err.text);
	const struct settings *m = &c.config.mount[0];
	ck_assert_str_eq(m->source, "/tmp");
	ck_assert_str_eq(m->mountpoint, "/tmp");
	ck_assert_str_eq(m->name, "tmp");
	ck_assert_str_eq(c.config.fs[0].name, "tmp");
	ck_assert_str_eq(c.config.fs[0].source, "/tmp");
	ck_assert(!c.foreground);
}
END_TEST

START_TEST(options_reach_their_scope)
{
	ck_assert_int_eq(parse("ratefs /usr /tmp -o iops=1,fs.iops=2,global.iops=3 -o name=n "
			       "-o mount.bps=4,log_level=debug -f"),
			 0);
	ck_assert_uint_eq(c.config.mount[0].limits.limit[LIMIT_IOPS].rate_per_sec, 1);
	ck_assert_uint_eq(c.config.fs[0].limits.limit[LIMIT_IOPS].rate_per_sec, 2);
	ck_assert_uint_eq(c.config.global.limits.limit[LIMIT_IOPS].rate_per_sec, 3);
	ck_assert_uint_eq(c.config.mount[0].limits.limit[LIMIT_BPS].rate_per_sec, 4);
	ck_assert_str_eq(c.config.mount[0].name, "n");
	ck_assert_str_eq(c.config.fs[0].name, "n");
	ck_assert(c.foreground);
}
END_TEST

START_TEST(a_pool_is_called_what_the_mount_calls_it_or_like_its_key)
{
	static const struct {
		const char *options, *name, *key;
	} rows[] = {
		{"pool=farm", "farm", "ratefs:{farm}"},
		{"global.pool=farm", "farm", "ratefs:{farm}"},
		{"pool=farm,pool.key=k", "farm", "k"},
		{"pool.key=farm", "farm", "farm"},
		{"pool.key=ratefs:{farm}", "farm", "ratefs:{farm}"},
		{"pool.key=a{}b", "a{}b", "a{}b"},
		{"pool.lease=1s", "pool", "ratefs:{pool}"},
	};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char line[256];
		snprintf(line, sizeof(line),
			 "ratefs /usr /tmp -o pool.server=redis://h,pool.bps=1M,%s",
			 rows[i].options);
		ck_assert_msg(parse(line) == 0, "%s: %s", rows[i].options, err.text);
		ck_assert_str_eq(c.config.pool[0].name, rows[i].name);
		ck_assert_str_eq(c.config.pool[0].key, rows[i].key);
		bool global = c.config.global.pool;
		ck_assert_str_eq(global ? c.config.global.pool : c.config.mount[0].pool,
				 rows[i].name);
	}
	says("ratefs /usr /tmp -o pool.server=redis://h,pool.bps=1M,pool=a,global.pool=a",
	     "pool: already takes part in pool 'a' by [global]");
	says("ratefs /usr /tmp -o pool.server=redis://h,pool.bps=1M,pool=a,fs.pool=b",
	     "pool: there is no [pool:b]");
	says("ratefs /usr /tmp -o bps=1M,fs.pool=b",
	     "pool: 'b' needs a server and a limit; give pool.server=ADDRESS and, for example, "
	     "pool.bps=BYTES too");
}
END_TEST

START_TEST(it_can_be_called_by_mount)
{
	ck_assert_int_eq(
		parse("/sbin/mount.fuse.ratefs ratefs#/usr /tmp -n -s -v -t fuse.ratefs -o "
		      "rw,noauto,user,x-foo=bar,dev,suid"),
		0);
	ck_assert_str_eq(c.config.mount[0].source, "/usr");
	ck_assert_int_eq(parse("/sbin/mount.ratefs /usr /tmp -f"), 0);
	ck_assert_int_eq(c.action, CMDLINE_FAKE);
	ck_assert_int_eq(parse("/sbin/mount.ratefs /usr /tmp -o rw,user_id=0,remount,ro"), 0);
	ck_assert_int_eq(c.action, CMDLINE_REMOUNT);
	ck_assert_str_eq(c.config.mount[0].mountpoint, "/tmp");
	ck_assert(!c.remount_ignores);
	ck_assert_int_eq(parse("/sbin/mount.ratefs /usr /tmp -o remount,ro,global.iops=3"), 0);
	ck_assert(c.remount_ignores);
	ck_assert_int_eq(parse("ratefs /usr /tmp -o ro -o remount -o noexec"), 0);
	ck_assert_int_eq(c.action, CMDLINE_REMOUNT);
	ck_assert_str_eq(c.words, "ro,remount,noexec");
	ck_assert_int_eq(parse("/sbin/mount.ratefs /usr /tmp -f -o remount,ro"), 0);
	ck_assert_int_eq(c.action, CMDLINE_FAKE);
	says("ratefs /usr /tmp -o remount,bind,ro",
	     "'bind' is for mount(8): mount -o remount,bind,...");
	says("ratefs /usr /tmp -o remount,wirte_bps=1M",
	     "unknown option 'wirte_bps'; see ratefs --help");
	ck_assert_int_eq(parse("ratefs /usr /dev/fd/7"), 0);
	ck_assert_str_eq(c.config.mount[0].mountpoint, "/dev/fd/7");
}
END_TEST

START_TEST(debug_stays_in_the_foreground)
{
	ck_assert_int_eq(parse("ratefs -d /usr /tmp"), 0);
	ck_assert(c.foreground && c.debug);
}
END_TEST

START_TEST(help_and_version_need_nothing_else)
{
	ck_assert_int_eq(parse("ratefs -h"), 0);
	ck_assert_int_eq(c.action, CMDLINE_HELP);
	ck_assert_int_eq(parse("ratefs --version"), 0);
	ck_assert_int_eq(c.action, CMDLINE_VERSION);
	ck_assert_int_eq(parse("ratefs --dump-options"), 0);
	ck_assert_int_eq(c.action, CMDLINE_DUMP);
}
END_TEST

START_TEST(wrong_usage_is_told_in_a_line)
{
	says("ratefs", "needs SOURCE and MOUNTPOINT, or -c FILE; see ratefs --help");
	says("ratefs /usr", "needs SOURCE and MOUNTPOINT, or -c FILE; see ratefs --help");
	says("ratefs /usr /tmp /var", "unexpected argument '/var'; see ratefs --help");
	says("ratefs -c /etc/x /usr",
	     "unexpected argument '/usr'; with -c FILE, the file says what to mount");
	says("ratefs -c /etc/x -o iops=3",
	     "-o cannot be combined with -c FILE; write the options into the file");
	says("ratefs --check", "--check needs -c FILE");
	says("ratefs -Q", "unknown flag '-Q'; see ratefs --help");
	says("ratefs --nonsense", "unknown flag '--nonsense'; see ratefs --help");
	says("ratefs /usr /tmp -o", "'-o' needs a value; see ratefs --help");
	says("ratefs /usr /tmp -o iosp=3", "unknown option 'iosp'; did you mean 'iops'?");
}
END_TEST

START_TEST(options_without_o_are_told_where_they_go)
{
	says("ratefs /usr /tmp iops=5",
	     "unexpected argument 'iops=5'; options go after -o: -o iops=5");
	says("ratefs /usr /tmp global.iops=5",
	     "unexpected argument 'global.iops=5'; options go after -o: -o global.iops=5");
	says("ratefs /usr /tmp --iops=5",
	     "unknown flag '--iops=5'; options go after -o: -o iops=5");
	says("ratefs /usr /tmp --dry-run",
	     "unknown flag '--dry-run'; options go after -o: -o dry-run");
}
END_TEST

START_TEST(what_would_have_no_effect_is_refused)
{
	says("ratefs /usr /tmp -o iops_burst=10",
	     "iops_burst: has no effect without iops; give iops=OPS too");
	says("ratefs /usr /tmp -o iops=5,global.bps_once=1M",
	     "global: bps_once: has no effect without bps; give bps=BYTES too");
	says("ratefs /usr /tmp -o iops=5,fs.iops_burst=3",
	     "fs: iops_burst: has no effect without iops; give iops=OPS too");
	says("ratefs /usr /tmp -o source=/var",
	     "source: is for configuration files; here SOURCE is the first argument");
	says("ratefs -o source=/var,mountpoint=/tmp",
	     "source: is for configuration files; here SOURCE is the first argument");
	says("ratefs /usr /tmp -o mountpoint=/var",
	     "mountpoint: is for configuration files; here MOUNTPOINT is the second argument");
	says("ratefs /usr /tmp -o fs.source=/var",
	     "source: is for configuration files; here SOURCE is the first argument");
	says("ratefs /usr /tmp -o fs=x",
	     "fs: is for configuration files; here fs.iops and the like "
	     "limit the source");
	says("ratefs /usr /tmp -o options=ro",
	     "options: is for configuration files; here write its options after -o");
	says("ratefs /usr /tmp -o allow_root,allow_other",
	     "allow_root: allow_other already admits root; remove one of them");
	ck_assert_int_eq(parse("ratefs /usr /tmp -o iops_burst=10,iops=5 -o bps_once=3,bps=off"),
			 0);
	ck_assert_int_eq(parse("ratefs /usr /tmp -o iops_burst=0,allow_root,allow_other=no"), 0);
}
END_TEST

START_TEST(force_is_kept)
{
	ck_assert_int_eq(parse("ratefs /usr /tmp"), 0);
	ck_assert(!c.config.force);
	ck_assert_int_eq(parse("ratefs /usr /tmp --force"), 0);
	ck_assert(c.config.force);
}
END_TEST

UNIT_MAIN("cmdline", a_pool_is_called_what_the_mount_calls_it_or_like_its_key,
	  options_without_o_are_told_where_they_go, what_would_have_no_effect_is_refused,
	  force_is_kept, source_and_mountpoint_become_absolute_and_give_the_names,
	  options_reach_their_scope, it_can_be_called_by_mount, debug_stays_in_the_foreground,
	  help_and_version_need_nothing_else, wrong_usage_is_told_in_a_line)
