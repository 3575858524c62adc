/* SPDX-License-Identifier: MIT */
#include "ctl/names.h"
#include "daemon/options.h"
#include "daemon/serve_mount.h"
#include "unit/unit.h"

#include <string.h>

static struct settings s;
static bool batch[OPTIONS_MAX];
static struct error err;

static void fresh(void)
{
	settings_free(&s);
	memset(batch, 0, sizeof(batch));
	err.text[0] = '\0';
}

static int set(const char *name, const char *value)
{
	return option_set(&s, SCOPE_MOUNT, name, value, batch, &err);
}

static void is(const char *name, const char *value)
{
	char *text = option_text(option_find(name), &s);
	ck_assert_str_eq(text, value);
	free(text);
}

static void says(const char *name, const char *value, const char *text)
{
	fresh();
	ck_assert_int_eq(set(name, value), -1);
	ck_assert_str_eq(err.text, text);
}

START_TEST(every_row_has_a_help_text_a_scope_and_a_name_of_its_own)
{
	for (unsigned i = 0; i < n_options; i++) {
		ck_assert_str_ne(options[i].help, "");
		ck_assert_uint_ne(options[i].scopes, 0);
		ck_assert_ptr_eq(option_find(options[i].name), &options[i]);
		ck_assert_ptr_null(strchr(options[i].name, '-'));
		ck_assert_ptr_null(strchr(options[i].help, '\t'));
	}
}
END_TEST

START_TEST(the_default_in_the_table_is_the_default_in_force)
{
	fresh();
	for (unsigned i = 0; i < n_options; i++)
		if (options[i].type < OPTION_TEXT)
			is(options[i].name, options[i].def);
}
END_TEST

/* A value for each type of option, in the form in which it is printed. */
static const char *sample(const struct option_def *o)
{
	switch (o->type) {
	case OPTION_RATE:
	case OPTION_BURST:
	case OPTION_ONCE:
	case OPTION_PEAK:
	case OPTION_RESERVE:
		return limit_kind_is_bytes(o->kind) ? "10M" : "250";
	case OPTION_COUNT:
		return "17";
	case OPTION_BYTES:
		return "3M";
	case OPTION_DURATION:
	case OPTION_TIMEOUT:
		return "1.5s";
	case OPTION_BOOL:
		return "yes";
	case OPTION_TEXT:
		return "/some/where";
	case OPTION_WEIGHTS:
		return "uid:1000=4+cgroup:/ci=2";
	case OPTION_MATCH:
		return "uid:7 & op:read, cgroup:/ci/**";
	case OPTION_VALUE:
		return strcmp(o->name, "max_read") == 0 ? "65536" : "word";
	case OPTION_FLAG:
		return "yes";
	default:
		return NULL;
	}
}

START_TEST(every_value_is_printed_as_it_can_be_read_again)
{
	for (unsigned i = 0; i < n_options; i++) {
		const char *value = sample(&options[i]);
		if (!value)
			continue;
		fresh();
		ck_assert_msg(option_set(&s, option_widest(&options[i]), options[i].name, value,
					 batch, &err) == 0,
			      "%s", err.text);
		is(options[i].name, value);
		ck_assert(option_is_given(&options[i], &s));
	}
}
END_TEST

START_TEST(every_choice_can_be_made)
{
	for (unsigned i = 0; i < n_options; i++) {
		char words[128], *save = NULL;
		if (options[i].type != OPTION_CHOICE)
			continue;
		snprintf(words, sizeof(words), "%s", options[i].syntax);
		for (char *w = strtok_r(words, "|", &save); w; w = strtok_r(NULL, "|", &save)) {
			fresh();
			ck_assert_int_eq(option_set(&s, option_widest(&options[i]), options[i].name,
						    w, batch, &err),
					 0);
			is(options[i].name, w);
		}
	}
}
END_TEST

START_TEST(a_dash_is_an_underscore)
{
	fresh();
	ck_assert_int_eq(set("read-bps-burst", "1M"), 0);
	is("read_bps_burst", "1M");
	ck_assert_uint_eq(s.limits.limit[LIMIT_READ_BPS].burst, 1 << 20);
}
END_TEST

START_TEST(case_does_not_matter)
{
	fresh();
	ck_assert_int_eq(set("Read_BPS", "1M"), 0);
	is("read_bps", "1M");
	ck_assert_int_eq(set("Fair", "UID"), 0);
	is("fair", "uid");
	const char *name = "Global.IOPS";
	ck_assert_int_eq(option_scope_of(&name), SCOPE_GLOBAL);
	says("IOSP", "1", "unknown option 'IOSP'; did you mean 'iops'?");
}
END_TEST

START_TEST(zero_and_off_are_unlimited)
{
	fresh();
	ck_assert_int_eq(set("iops", "5"), 0);
	ck_assert(s.limits.limit[LIMIT_IOPS].enabled);
	ck_assert_int_eq(set("iops", "0"), 0);
	ck_assert(!s.limits.limit[LIMIT_IOPS].enabled);
	ck_assert_int_eq(set("bps", "1k"), 0);
	ck_assert_int_eq(set("bps", "off"), 0);
	ck_assert(!s.limits.limit[LIMIT_BPS].enabled);
}
END_TEST

START_TEST(wrong_values_are_named_with_what_would_be_right)
{
	says("iops", "10Q", "iops: '10Q': unknown suffix 'Q'");
	says("read_bps", "10mbit",
	     "read_bps: '10mbit': bits are not accepted; write bytes, for example 1250K");
	says("cache", "fast", "cache: 'fast': must be one of auto|strict|page");
	says("transport", "tcp", "transport: 'tcp': must be one of auto|dev|uring");
	says("dry_run", "maybe", "dry_run: 'maybe': must be yes or no");
	says("window", "1ns", "window: '1ns': must be at least 1ms");
	says("window", "2h", "window: '2h': must be at most 1h");
	says("window", "100", "window: '100': has no unit; write for example 100ms or 100s");
	says("mount_weight", "0", "mount_weight: '0': must be at least 1");
	says("mount_weight", "10001", "mount_weight: '10001': must be at most 10k");
	says("max_parked", "off", "max_parked: 'off': must be at least 1");
	says("bps", "10MB/min", "bps: '10MB/min': rates are per second, not '/min'");
	says("weight", "uid:0=4,uid:1=2",
	     "weight: 'uid:0=4,uid:1=2': ',' does not separate weights; write '+'");
	says("fsname", "", "fsname: is empty; give a value, or leave it out");
	says("context", "", "context: is empty; give a value, or leave it out");
	says("iops", NULL, "iops: needs a value; write iops=OPS");
	says("max_read", "12", "max_read: '12': must be between 4K and 1M");
	says("source", "", "source: is empty; give a value, or leave it out");
	says("name", "global",
	     "name: 'global' has another meaning for ratefsctl; choose another name");
	says("name", "fs:x", "name: 'fs:x' has another meaning for ratefsctl; choose another name");
	says("name", "pool:x",
	     "name: 'pool:x' has another meaning for ratefsctl; choose another name");
	says("latency", "5", "latency: '5': has no unit; write for example 5ms or 5s");
	says("latency", "5ms~6ms",
	     "latency: '5ms~6ms': the part after '~' must not be the larger one");
	says("latency", "5ms^4ms",
	     "latency: '5ms^4ms': the median must be the smaller one; write MEDIAN^P99");
	says("latency", "2h", "latency: '2h': must be at most 1h");
	says("seek", "5ms-4ms",
	     "seek: '5ms-4ms': the minimum must be the smaller one; write MIN-MAX");
	says("stall", "5ms",
	     "stall: '5ms': not a stall; write LENGTH/EVERY, for example 200ms/30s");
	says("stall", "5ms/1ms",
	     "stall: '5ms/1ms': EVERY must be at least 1ms and not shorter than LENGTH");
	says("queue_depth", "5000", "queue_depth: '5000': must be at most 4096");
	says("size", "9999999T", "size: '9999999T': must be at most 1048576T");
	says("inodes", "10000000000000000",
	     "inodes: '10000000000000000': must be at most 9007199254740992");
	says("on_quota", "maybe", "on_quota: 'maybe': must be one of enospc|edquot");
	says("bps", "99999T", "bps: '99999T': too large; the most is 2^53 per second");
}
END_TEST

START_TEST(times_of_a_device_are_printed_as_they_are_written)
{
	static const struct {
		const char *name, *value;
	} row[] = {{"latency", "5ms"},
		   {"read_latency", "5ms~2ms"},
		   {"write_latency", "4ms^20ms"},
		   {"meta_latency", "0s"},
		   {"sync_latency", "off"},
		   {"seek", "800us-15ms"},
		   {"stall", "200ms/30s"},
		   {"stall", "off"},
		   {"seek", "off"},
		   {"rotation", "8330us"},
		   {"iops_size", "256K"},
		   {"merge", "1M"}};
	fresh();
	for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
		ck_assert_msg(set(row[i].name, row[i].value) == 0, "%s", err.text);
		is(row[i].name, row[i].value);
	}
}
END_TEST

START_TEST(an_unknown_option_is_told_with_the_nearest_one)
{
	says("iosp", "1", "unknown option 'iosp'; did you mean 'iops'?");
	says("read-bsp", "1", "unknown option 'read-bsp'; did you mean 'read_bps'?");
	says("max_inflght", "1", "unknown option 'max_inflght'; did you mean 'max_inflight'?");
	says("allow_others", NULL, "unknown option 'allow_others'; did you mean 'allow_other'?");
	says("uid", "1000", "unknown option 'uid'; owners and permissions are those of the source");
	says("uid:1", "2", "unknown option 'uid:1'; join weights with '+': weight=uid:0=4+uid:1=2");
	says("zzzzzzzz", "1", "unknown option 'zzzzzzzz'; see ratefs --help");
	says("", "1", "unknown option ''; see ratefs --help");
}
END_TEST

START_TEST(an_option_of_another_scope_is_refused)
{
	fresh();
	ck_assert_int_eq(option_set(&s, SCOPE_GLOBAL, "fair", "uid", batch, &err), -1);
	ck_assert_str_eq(err.text, "fair: belongs to the mount scope, not to global; set it there");
	ck_assert_int_eq(option_set(&s, SCOPE_MOUNT, "control", "off", batch, &err), -1);
	ck_assert_str_eq(err.text,
			 "control: belongs to the global scope, not to mount; set it there");
	ck_assert_int_eq(option_set(&s, SCOPE_GLOBAL, "control", "x", batch, &err), -1);
	ck_assert_str_eq(err.text, "control: 'x' is neither an absolute path nor off");
}
END_TEST

START_TEST(a_prefix_names_the_scope)
{
	const char *name = "global.iops";
	ck_assert_int_eq(option_scope_of(&name), SCOPE_GLOBAL);
	ck_assert_str_eq(name, "iops");
	name = "fs.iops";
	ck_assert_int_eq(option_scope_of(&name), SCOPE_FS);
	name = "iops";
	ck_assert_int_eq(option_scope_of(&name), SCOPE_MOUNT);
	name = "log_level";
	ck_assert_int_eq(option_scope_of(&name), SCOPE_GLOBAL);
}
END_TEST

START_TEST(weights_add_up_in_one_go_and_replace_what_was_there_before)
{
	fresh();
	ck_assert_int_eq(set("weight", "uid:1=2"), 0);
	ck_assert_int_eq(set("weight", "gid:3=4+process:5=6"), 0);
	is("weight", "uid:1=2+gid:3=4+process:5=6");
	memset(batch, 0, sizeof(batch));
	ck_assert_int_eq(set("weight", "uid:0=9"), 0);
	is("weight", "uid:0=9");
	ck_assert_int_eq(s.weights.rule[0].key.kind, FAIR_UID);
	ck_assert_uint_eq(s.weights.rule[0].weight, 9);
}
END_TEST

START_TEST(weights_that_make_no_sense_are_refused_and_change_nothing)
{
	fresh();
	ck_assert_int_eq(set("weight", "uid:1=2"), 0);
	static const char *const bad[] = {"uid:1",	 "1=2",		 "uid:1=0",
					  "uid:1=10001", "uid:1=x",	 "handle:1=2",
					  "cgroup:ci=2", "process:me=1", "uid:no-such-user-here=1"};
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(set("weight", bad[i]) == -1, "%s", bad[i]);
	is("weight", "uid:1=2");
}
END_TEST

START_TEST(users_in_weights_may_have_names)
{
	fresh();
	ck_assert_int_eq(set("weight", "uid:root=3"), 0);
	ck_assert_uint_eq(s.weights.rule[0].key.id, 0);
	is("weight", "uid:root=3");
}
END_TEST

START_TEST(commas_and_backslashes_can_be_escaped)
{
	char text[] = "a,b=c\\,d,,e=\\\\", *rest = text;
	ck_assert_str_eq(option_next_word(&rest), "a");
	ck_assert_str_eq(option_next_word(&rest), "b=c,d");
	ck_assert_str_eq(option_next_word(&rest), "");
	ck_assert_str_eq(option_next_word(&rest), "e=\\");
	ck_assert_ptr_null(option_next_word(&rest));
}
END_TEST

START_TEST(of_opposite_flags_the_last_one_counts)
{
	fresh();
	set("ro", NULL);
	set("rw", NULL);
	ck_assert_ptr_null(words_find(&s.fuse, "ro"));
	ck_assert_ptr_nonnull(words_find(&s.fuse, "rw"));
	set("suid", "no");
	ck_assert_ptr_nonnull(words_find(&s.fuse, "nosuid"));
}
END_TEST

START_TEST(words_of_fstab_mean_nothing_and_do_no_harm)
{
	fresh();
	static const char *const noise[] = {"defaults", "user",	   "noauto",
					    "nofail",	"_netdev", "x-systemd.automount",
					    "relatime", "comment"};
	for (unsigned i = 0; i < ARRAY_SIZE(noise); i++)
		ck_assert_msg(set(noise[i], NULL) == 0, "%s", noise[i]);
	ck_assert_uint_eq(s.fuse.n, 0);
}
END_TEST

START_TEST(fuse_gets_its_options_escaped_and_with_defaults)
{
	fresh();
	set("ro", NULL);
	char *text = fuse_options_of(&s, "/a,b\\c", &err);
	ck_assert_ptr_nonnull(strstr(text, "ro"));
	ck_assert_ptr_nonnull(strstr(text, "fsname=/a\\,b\\\\c"));
	ck_assert_ptr_nonnull(strstr(text, "subtype=ratefs"));
	free(text);
}
END_TEST

START_TEST(of_several_weights_for_one_key_the_mounts_own_and_the_last_count)
{
	struct settings common;
	struct gate_mount_config cfg;
	struct weight_rule *rules;
	bool others[OPTIONS_MAX] = {0};
	fresh();
	settings_init(&common);
	set("weight", "uid:1=2+uid:2=3+uid:1=4");
	option_set(&common, SCOPE_MOUNT, "weight", "uid:1=9+uid:3=5", others, &err);
	ck_assert(gate_config_of(&s, &common.weights, &cfg, &rules));
	ck_assert_uint_eq(cfg.n_weights, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(rules[i].weight, rules[i].key.id == 1	  ? 4
						   : rules[i].key.id == 2 ? 3
									  : 5);
	free(rules);
	settings_free(&common);
}
END_TEST

START_TEST(a_copy_is_equal_and_its_own)
{
	struct settings copy;
	fresh();
	set("source", "/x");
	set("weight", "uid:1=2");
	set("fsname", "y");
	ck_assert(settings_copy(&copy, &s));
	for (unsigned i = 0; i < n_options; i++)
		ck_assert(option_equal(&options[i], &copy, &s));
	set("source", "/z");
	ck_assert_str_eq(copy.source, "/x");
	ck_assert(!option_equal(option_find("source"), &copy, &s));
	settings_free(&copy);
}
END_TEST

/* Checking the batch must fail with this text. */
static void together(const char *text)
{
	ck_assert_int_eq(options_check(&s, batch, &err), -1);
	ck_assert_str_eq(err.text, text);
}

START_TEST(a_peak_is_at_least_the_rate)
{
	fresh();
	set("bps", "10M");
	set("bps_peak", "9M");
	together("bps_peak: is below the rate of bps; it must be at least that, or off");
	fresh();
	set("bps", "10M");
	set("bps_peak", "10M");
	ck_assert_int_eq(options_check(&s, batch, &err), 0);
	/* later, only the rate is changed */
	memset(batch, 0, sizeof(batch));
	set("bps", "11M");
	together("bps_peak: is below the rate of bps; it must be at least that, or off");
	fresh();
	set("each.iops_peak", "5");
	together("each.iops_peak: has no effect without each.iops; give each.iops=OPS too");
}
END_TEST

START_TEST(limits_of_each_are_not_those_of_the_scope)
{
	fresh();
	ck_assert_int_eq(set("each.bps", "20M"), 0);
	ck_assert_int_eq(set("each.bps-burst", "1M"), 0);
	ck_assert(!s.limits.limit[LIMIT_BPS].enabled);
	ck_assert_uint_eq(s.each.limit[LIMIT_BPS].rate_per_sec, 20 << 20);
	ck_assert_uint_eq(s.each.limit[LIMIT_BPS].burst, 1 << 20);
	is("bps", "off");
	is("each.bps", "20M");
	ck_assert_int_eq(option_set(&s, SCOPE_FS, "each.bps", "1M", batch, &err), -1);
	ck_assert_str_eq(err.text, "each.bps: belongs to the mount scope, not to fs; set it there");
}
END_TEST

START_TEST(weights_may_have_patterns)
{
	struct weights none = {0};
	struct gate_mount_config cfg;
	struct weight_rule *rules;
	fresh();
	ck_assert_int_eq(set("weight", "cgroup:/ci/**=2+comm:make*=3+cgroup:/ci=4+comm:cc=5"), 0);
	is("weight", "cgroup:/ci/**=2+comm:make*=3+cgroup:/ci=4+comm:cc=5");
	ck_assert_str_eq(s.weights.rule[0].glob, "/ci/**");
	ck_assert_int_eq(s.weights.rule[1].key.kind, FAIR_PROCESS);
	ck_assert_ptr_null(s.weights.rule[2].glob);
	ck_assert(gate_config_of(&s, &none, &cfg, &rules));
	ck_assert_uint_eq(cfg.n_weights, 4);
	ck_assert_ptr_null(rules[0].glob); /* then globs, as they were written */
	ck_assert_str_eq(rules[1].glob, "/ci/**");
	ck_assert_str_eq(rules[2].glob, "make*");
	free(rules);
	says("weight", "comm:=3", "weight: 'comm:=3': the name of the program is missing");
	says("weight", "uid:99999999999=2",
	     "weight: '99999999999': out of range; an id is less than 4294967295");
	says("weight", "3",
	     "weight: '3': not the weight of a caller; use mount_weight for the share of a mount");
}
END_TEST

START_TEST(a_class_has_a_match_a_parent_and_a_share)
{
	fresh();
	ck_assert_int_eq(option_set(&s, SCOPE_CLASS, "weight", "3", batch, &err), 0);
	ck_assert_int_eq(option_set(&s, SCOPE_CLASS, "weight", "uid:7=2", batch, &err), 0);
	is("weight", "3+uid:7=2");
	ck_assert_int_eq(option_set(&s, SCOPE_CLASS, "parent", "x", batch, &err), 0);
	is("parent", "x");
	ck_assert_int_eq(option_set(&s, SCOPE_CLASS, "parent", "none", batch, &err), 0);
	ck_assert_ptr_null(s.parent);
	is("parent", "none");
	ck_assert_int_eq(option_set(&s, SCOPE_CLASS, "match", "uid:root", batch, &err), 0);
	is("match", "uid:root");
	ck_assert_int_eq(option_set(&s, SCOPE_CLASS, "match", "uid:", batch, &err), -1);
	is("match", "uid:root");
	ck_assert_int_eq(option_set(&s, SCOPE_CLASS, "match", "none", batch, &err), 0);
	ck_assert_ptr_null(s.match.rule);
	ck_assert_int_eq(set("reserve.bps", "5M"), -1);
	ck_assert_int_eq(option_set(&s, SCOPE_CLASS, "on_full", "wait", batch, &err), -1);
	ck_assert_str_eq(err.text,
			 "on_full: belongs to the mount scope, not to class; set it there");
}
END_TEST

START_TEST(ratefsctl_puts_numbers_for_names)
{
	static const struct {
		const char *from, *to;
	} rows[] = {
		{"weight=uid:root=4+gid:root=2+cgroup:/uid:root=3",
		 "weight=uid:0=4+gid:0=2+cgroup:/uid:root=3"},
		{"match=uid:root & op:read, gid: root,uid:7", "match=uid:0 & op:read, gid:0,uid:7"},
		{"match=cgroup:/a/uid:root", "match=cgroup:/a/uid:root"},
		{"match=uid:", "match=uid:"},
		{"bps=uid:root", "bps=uid:root"},
	};
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		char *text = with_numbers(rows[i].from, &err);
		ck_assert_str_eq(text, rows[i].to);
		free(text);
	}
	ck_assert_ptr_null(with_numbers("match=op:read & gid:no-such-group", &err));
	ck_assert_str_eq(
		err.text,
		"match: there is no group 'no-such-group'; use an existing name or a number");
}
END_TEST

UNIT_MAIN("options", a_peak_is_at_least_the_rate, limits_of_each_are_not_those_of_the_scope,
	  weights_may_have_patterns, a_class_has_a_match_a_parent_and_a_share,
	  ratefsctl_puts_numbers_for_names, every_row_has_a_help_text_a_scope_and_a_name_of_its_own,
	  the_default_in_the_table_is_the_default_in_force,
	  every_value_is_printed_as_it_can_be_read_again, every_choice_can_be_made,
	  a_dash_is_an_underscore, case_does_not_matter, zero_and_off_are_unlimited,
	  wrong_values_are_named_with_what_would_be_right,
	  times_of_a_device_are_printed_as_they_are_written,
	  an_unknown_option_is_told_with_the_nearest_one, an_option_of_another_scope_is_refused,
	  a_prefix_names_the_scope, weights_add_up_in_one_go_and_replace_what_was_there_before,
	  weights_that_make_no_sense_are_refused_and_change_nothing,
	  users_in_weights_may_have_names, commas_and_backslashes_can_be_escaped,
	  of_opposite_flags_the_last_one_counts, words_of_fstab_mean_nothing_and_do_no_harm,
	  fuse_gets_its_options_escaped_and_with_defaults,
	  of_several_weights_for_one_key_the_mounts_own_and_the_last_count,
	  a_copy_is_equal_and_its_own)
