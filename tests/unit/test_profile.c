/* SPDX-License-Identifier: MIT */
/* The profiles that come with the program, and error messages for bad profiles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/options.h"
#include "daemon/profile.h"
#include "unit/unit.h"

static struct settings s;
static struct error err;

static void use_shipped(void)
{
	const char *top = getenv("srcdir");
	char path[4096];
	snprintf(path, sizeof(path), "%s/conf/profiles", top ? top : ".");
	setenv("RATEFS_PROFILES", path, 1);
}

static int apply(const char *profile)
{
	settings_free(&s);
	err.text[0] = '\0';
	s.profile = strdup(profile);
	return profile_apply(&s, &err);
}

static void applies(const char *profile)
{
	use_shipped();
	ck_assert_msg(apply(profile) == 0, "%s", err.text);
}

static void says(const char *profile, const char *text)
{
	ck_assert_int_eq(apply(profile), -1);
	ck_assert_str_eq(err.text, text);
}

static const struct limit_config *limit(enum limit_kind kind)
{
	return &s.limits.limit[kind];
}

START_TEST(every_profile_that_ships_can_be_applied_at_its_smallest_and_largest_size)
{
	static const char *const all[] = {"aws-gp2:1G",
					  "aws-gp2:16T",
					  "aws-gp3",
					  "aws-io2",
					  "aws-st1:125G",
					  "aws-st1:16T",
					  "aws-sc1:125G",
					  "aws-sc1:16T",
					  "aws-efs:1G",
					  "aws-efs:1000T",
					  "azure-p10",
					  "azure-p15",
					  "azure-p20",
					  "azure-p30",
					  "azure-p80",
					  "azure-s30",
					  "azure-e10",
					  "gcp-pd-standard:10G",
					  "gcp-pd-standard:64T",
					  "gcp-pd-balanced:10G",
					  "gcp-pd-balanced:64T",
					  "gcp-pd-ssd:10G",
					  "gcp-pd-ssd:64T",
					  "hdd-7200",
					  "hdd-5400",
					  "ssd-sata",
					  "nvme",
					  "sd-a1",
					  "sd-a2",
					  "usb2-stick",
					  "emmc",
					  "nfs-1g",
					  "dvd",
					  "floppy"};
	for (unsigned i = 0; i < ARRAY_SIZE(all); i++) {
		applies(all[i]);
		bool model = device_config_models(&s.device);
		for (unsigned k = 0; k < LIMIT_KINDS; k++) {
			const struct limit_config *l = limit(k);
			model |= l->enabled;
			ck_assert_msg(!l->enabled || l->rate_per_sec > 0, "%s", all[i]);
			ck_assert_msg(!l->peak_per_sec || l->peak_per_sec >= l->rate_per_sec,
				      "%s: %s_peak is below the rate", all[i], limit_kind_name(k));
			ck_assert_msg(l->enabled || (!l->burst && !l->peak_per_sec), "%s", all[i]);
		}
		ck_assert_msg(model, "%s sets nothing", all[i]);
		for (unsigned o = 0; o < n_options; o++)
			ck_assert_msg(!s.given[o], "%s: %s counts as given", all[i],
				      options[o].name);
	}
}
END_TEST

START_TEST(a_gp2_volume_has_the_figures_of_its_size)
{
	static const struct {
		const char *name;
		uint64_t iops, burst, peak, bps;
	} row[] = {
		{"aws-gp2:1G", 100, 5400000, 3000, 128ULL << 20},
		{"aws-gp2:100G", 300, 5400000, 3000, 128ULL << 20},
		{"aws-gp2:170G", 510, 5400000, 3000, 128ULL << 20},
		{"aws-gp2:334G", 1002, 5400000, 3000, 250ULL << 20},
		{"aws-gp2:1000G", 3000, 5400000, 3000, 250ULL << 20},
		{"aws-gp2:2T", 6144, 0, 0, 250ULL << 20},
		{"aws-gp2:16T", 16000, 0, 0, 250ULL << 20},
	};
	for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
		applies(row[i].name);
		ck_assert_uint_eq(limit(LIMIT_IOPS)->rate_per_sec, row[i].iops);
		ck_assert_uint_eq(limit(LIMIT_IOPS)->burst, row[i].burst);
		ck_assert_uint_eq(limit(LIMIT_IOPS)->peak_per_sec, row[i].peak);
		ck_assert_uint_eq(limit(LIMIT_BPS)->rate_per_sec, row[i].bps);
		ck_assert_uint_eq(s.device.iops_size, 256 << 10);
	}
}
END_TEST

START_TEST(sums_and_fractions_of_a_size_are_exact)
{
	applies("gcp-pd-balanced:1000G");
	ck_assert_uint_eq(limit(LIMIT_IOPS)->rate_per_sec, 9000);
	applies("gcp-pd-standard:1000G");
	ck_assert_uint_eq(limit(LIMIT_READ_IOPS)->rate_per_sec, 750);
	ck_assert_uint_eq(limit(LIMIT_WRITE_IOPS)->rate_per_sec, 1500);
	ck_assert_uint_eq(limit(LIMIT_BPS)->rate_per_sec, 120ULL << 20);
	applies("aws-st1:2T");
	ck_assert_uint_eq(limit(LIMIT_IOPS)->rate_per_sec, 80);
	ck_assert_uint_eq(limit(LIMIT_IOPS)->burst, 2ULL << 20);
	ck_assert_uint_eq(limit(LIMIT_IOPS)->peak_per_sec, 500);
	applies("aws-efs:500G");
	ck_assert_uint_eq(limit(LIMIT_BPS)->rate_per_sec, 25000 * 1024);
	ck_assert_uint_eq(limit(LIMIT_BPS)->peak_per_sec, 100 << 20);
}
END_TEST

START_TEST(a_disk_has_its_random_iops)
{
	applies("hdd-7200");
	double mean_ms =
		(s.device.seek_min_ns + (s.device.seek_max_ns - s.device.seek_min_ns) * 8 / 15.0 +
		 s.device.rotation_ns / 2.0) /
		1e6;
	ck_assert_double_ge(1000 / mean_ms, 75);
	ck_assert_double_le(1000 / mean_ms, 100);
	ck_assert_uint_eq(s.device.queue_depth, 1);
}
END_TEST

START_TEST(options_beside_a_profile_win)
{
	bool batch[OPTIONS_MAX] = {false};
	use_shipped();
	settings_free(&s);
	ck_assert_int_eq(option_set(&s, SCOPE_MOUNT, "iops", "7", batch, &err), 0);
	ck_assert_int_eq(option_set(&s, SCOPE_MOUNT, "profile", "aws-gp3", batch, &err), 0);
	ck_assert_int_eq(profile_apply(&s, &err), 0);
	ck_assert_uint_eq(limit(LIMIT_IOPS)->rate_per_sec, 7);
	ck_assert_uint_eq(limit(LIMIT_BPS)->rate_per_sec, 125 << 20);
}
END_TEST

START_TEST(what_is_wrong_with_a_name_or_a_size_is_said)
{
	use_shipped();
	says("hdd-720", "profile: unknown profile 'hdd-720'; did you mean 'hdd-7200'?");
	says("gp3", "profile: unknown profile 'gp3'; did you mean 'aws-gp3'?");
	says("xyzzy", "profile: unknown profile 'xyzzy'; ratefs --profiles lists them");
	says("../x", "profile: unknown profile '../x'; ratefs --profiles lists them");
	says("aws-gp2", "profile: 'aws-gp2' depends on the size of the device; write "
			"profile=aws-gp2:SIZE, with a size of 1G-16T");
	says("aws-gp2:17T", "profile: 'aws-gp2:17T': aws-gp2 has sizes of 1G-16T");
	says("nvme:1G", "profile: 'nvme:1G': this profile has no sizes; write profile=nvme");
}
END_TEST

/* Writes a user's own profile to `dir`. */
static void own_profile(const char *dir, const char *text)
{
	char path[200];
	snprintf(path, sizeof(path), "%s/own.ini", dir);
	FILE *out = fopen(path, "w");
	ck_assert_ptr_nonnull(out);
	fputs(text, out);
	fclose(out);
}

START_TEST(what_is_wrong_in_a_file_is_said)
{
	char dir[] = "/tmp/ratefs-profile.XXXXXX", text[400];
	static const struct {
		const char *text, *says;
	} row[] = {
		{"[profile]\ntitle = x\n[options]\niops = 3/MiB\n",
		 "profile own: iops: '3/MiB': rates are per second, not '/MiB'"},
		{"[profile]\ntitle = x\n[options]\niops = 3 + 4/MiB\n",
		 "profile own: iops: '+' needs a number"},
		{"[profile]\ntitle = x\n[options]\niopz = 3\n",
		 "profile own: unknown option 'iopz'; did you mean 'iops'?"},
		{"[profile]\n[options]\niops = 3\n", "profile: %s/own.ini: has no title"},
		{"[profile]\ntitle = x\nsizes = 5\n", "profile: %s/own.ini: sizes: write MIN-MAX"},
		{"[limits]\n", "profile: %s/own.ini:1: unknown section [limits]"},
		{"[profile]\ntitel = x\n", "profile: %s/own.ini:2: unknown key 'titel'"},
		{"[profile]\ntitle\n",
		 "profile: %s/own.ini:2: neither a [section], nor 'key = value', nor a comment"},
	};
	ck_assert_ptr_nonnull(mkdtemp(dir));
	setenv("RATEFS_PROFILES", dir, 1);
	for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
		own_profile(dir, row[i].text);
		const char *at = strstr(row[i].says, "%s");
		if (at)
			snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - row[i].says),
				 row[i].says, dir, at + 2);
		else
			snprintf(text, sizeof(text), "%s", row[i].says);
		says("own", text);
	}
	own_profile(dir, "[profile]\ntitle = x\n[options]\nread_latency = 1ms^9ms\n");
	ck_assert_int_eq(apply("own"), 0);
	ck_assert_int_eq(s.device.latency[LATENCY_READ].shape, LATENCY_LOGNORMAL);
	snprintf(text, sizeof(text), "%s/own.ini", dir);
	unlink(text);
	rmdir(dir);
}
END_TEST

START_TEST(a_profile_of_the_user_comes_before_the_shipped_ones)
{
	char home[] = "/tmp/ratefs-profile.XXXXXX", dir[200], path[220];
	ck_assert_ptr_nonnull(mkdtemp(home));
	snprintf(dir, sizeof(dir), "%s/ratefs", home);
	mkdir(dir, 0700);
	snprintf(dir, sizeof(dir), "%s/ratefs/profiles", home);
	mkdir(dir, 0700);
	unsetenv("RATEFS_PROFILES");
	setenv("XDG_CONFIG_HOME", home, 1);
	own_profile(dir, "[profile]\ntitle = x\n[options]\niops = 5\n");
	ck_assert_msg(apply("own") == 0, "%s", err.text);
	ck_assert_uint_eq(limit(LIMIT_IOPS)->rate_per_sec, 5);
	snprintf(path, sizeof(path), "%s/own.ini", dir);
	unlink(path);
	rmdir(dir);
	snprintf(dir, sizeof(dir), "%s/ratefs", home);
	rmdir(dir);
	rmdir(home);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		every_profile_that_ships_can_be_applied_at_its_smallest_and_largest_size,
		a_gp2_volume_has_the_figures_of_its_size,
		sums_and_fractions_of_a_size_are_exact,
		a_disk_has_its_random_iops,
		options_beside_a_profile_win,
		what_is_wrong_with_a_name_or_a_size_is_said,
		what_is_wrong_in_a_file_is_said,
		a_profile_of_the_user_comes_before_the_shipped_ones};
	settings_init(&s);
	return unit_run("profile", tests, ARRAY_SIZE(tests));
}
