/* SPDX-License-Identifier: MIT */
/* The model of a device, without a gate: dates, distributions, positions. */
#include <math.h>
#include <stdlib.h>

#include "base/util.h"
#include "sched/device.h"
#include "unit/unit.h"

#define MS  NSEC_PER_MSEC
#define SEC NSEC_PER_SEC
#define KIB 1024ULL
#define MIB (1024ULL * 1024)

static struct device_access reads(uint64_t file, uint64_t offset)
{
	return (struct device_access){DEVICE_READ, file, offset};
}

static struct device *device(const struct device_config *cfg)
{
	struct device *d = device_new(cfg, NULL, 0);
	ck_assert_ptr_nonnull(d);
	return d;
}

START_TEST(a_fixed_latency_is_exact)
{
	struct device_config cfg = {.latency[LATENCY_ALL] = {LATENCY_FIXED, 5 * MS, 0}};
	struct device *d = device(&cfg);
	struct device_access a = {DEVICE_META, 0, 0};
	ck_assert_uint_eq(device_date_ns(d, &a, 0, 100 * MS), 105 * MS);
	device_free(d);
}
END_TEST

START_TEST(an_operation_without_a_latency_of_its_own_has_the_common_one)
{
	struct device_config cfg = {.latency = {[LATENCY_ALL] = {LATENCY_FIXED, 5 * MS, 0},
						[LATENCY_WRITE] = {LATENCY_FIXED, 7 * MS, 0},
						[LATENCY_META] = {LATENCY_FIXED, 0, 0},
						[LATENCY_SYNC] = {LATENCY_FIXED, 20 * MS, 0}}};
	struct device *d = device(&cfg);
	static const struct {
		enum device_op op;
		uint64_t ns;
	} row[] = {{DEVICE_READ, 5 * MS},
		   {DEVICE_WRITE, 7 * MS},
		   {DEVICE_META, 0},
		   {DEVICE_SYNC, 20 * MS},
		   {DEVICE_COPY, 12 * MS}};
	for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
		struct device_access a = {row[i].op, 1, 0};
		ck_assert_uint_eq(device_date_ns(d, &a, 4 * KIB, SEC), SEC + row[i].ns);
	}
	device_free(d);
}
END_TEST

/* --- distributions --- */

#define DRAWS 1000000

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static uint64_t drawn[DRAWS];

static double draw_all(const struct latency *l)
{
	uint64_t state = 42;
	double sum = 0;
	for (unsigned i = 0; i < DRAWS; i++) {
		drawn[i] = latency_draw_ns(l, &state);
		sum += (double)drawn[i];
	}
	qsort(drawn, DRAWS, sizeof(*drawn), by_size);
	return sum / DRAWS;
}

static void check_near(double is, double should)
{
	ck_assert_msg(fabs(is / should - 1) < 0.01, "%.0f instead of %.0f", is, should);
}

START_TEST(a_lognormal_latency_has_its_median_p99_and_mean)
{
	struct latency l = {LATENCY_LOGNORMAL, 4 * MS, 20 * MS};
	double mean = draw_all(&l), sigma = log(5) / 2.3263478740408408;
	check_near((double)drawn[DRAWS / 2], 4e6);
	check_near((double)drawn[DRAWS / 100 * 99], 20e6);
	check_near(mean, 4e6 * exp(sigma * sigma / 2));
}
END_TEST

START_TEST(a_uniform_latency_has_its_bounds_median_p99_and_mean)
{
	struct latency l = {LATENCY_UNIFORM, 5 * MS, 2 * MS};
	double mean = draw_all(&l);
	check_near(mean, 5e6);
	check_near((double)drawn[DRAWS / 2], 5e6);
	check_near((double)drawn[DRAWS / 100 * 99], 3e6 + 0.99 * 4e6);
	ck_assert_uint_ge(drawn[0], 3 * MS);
	ck_assert_uint_le(drawn[DRAWS - 1], 7 * MS);
}
END_TEST

START_TEST(a_seed_repeats_a_run)
{
	struct device_config cfg = {.latency[LATENCY_ALL] = {LATENCY_LOGNORMAL, 4 * MS, 20 * MS},
				    .seek_min_ns = MS,
				    .seek_max_ns = 15 * MS,
				    .rotation_ns = 8 * MS,
				    .stall_ns = 10 * MS,
				    .stall_every_ns = 100 * MS,
				    .seed = 7};
	struct device *d = device(&cfg), *e = device(&cfg);
	cfg.seed = 8;
	struct device *other = device(&cfg);
	unsigned differ = 0;
	for (unsigned i = 0; i < 1000; i++) {
		struct device_access a = reads(i % 7, i * MIB);
		uint64_t at = i * MS, date = device_date_ns(d, &a, 4 * KIB, at);
		ck_assert_uint_eq(date, device_date_ns(e, &a, 4 * KIB, at));
		differ += date != device_date_ns(other, &a, 4 * KIB, at);
	}
	ck_assert_uint_gt(differ, 900);
	device_free(d);
	device_free(e);
	device_free(other);
}
END_TEST

/* --- position --- */

static const struct device_config disk = {
	.seek_min_ns = 800000, .seek_max_ns = 15240000, .rotation_ns = 8333333, .seed = 1};

START_TEST(one_sequential_reader_pays_one_seek)
{
	struct device *d = device(&disk);
	struct device_access a = reads(1, 0);
	ck_assert_uint_gt(device_date_ns(d, &a, 64 * KIB, SEC), SEC);
	for (uint64_t at = 64 * KIB; at < 64 * MIB; at += 64 * KIB) {
		a = reads(1, at);
		ck_assert_uint_eq(device_date_ns(d, &a, 64 * KIB, SEC), SEC);
	}
	device_free(d);
}
END_TEST

START_TEST(readers_that_interleave_pay_for_every_transfer)
{
	struct device *d = device(&disk);
	for (uint64_t at = 0; at < 4 * MIB; at += 64 * KIB) {
		struct device_access a = reads(1, at), b = reads(1, 512 * MIB + at),
				     c = reads(2, at);
		ck_assert_uint_gt(device_date_ns(d, &a, 64 * KIB, SEC), SEC + disk.seek_min_ns);
		ck_assert_uint_gt(device_date_ns(d, &b, 64 * KIB, SEC), SEC + disk.seek_min_ns);
		ck_assert_uint_gt(device_date_ns(d, &c, 64 * KIB, SEC), SEC + disk.seek_min_ns);
	}
	device_free(d);
}
END_TEST

START_TEST(random_access_costs_the_mean_seek_and_half_a_revolution)
{
	struct device *d = device(&disk);
	double sum = 0;
	uint64_t x = 1, longest = 0;
	for (unsigned i = 0; i < 200000; i++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		struct device_access a = reads(1, (x >> 33) % 1000000 * 1000003);
		uint64_t ns = device_date_ns(d, &a, 4 * KIB, SEC) - SEC;
		sum += (double)ns;
		longest = max_u64(longest, ns);
	}
	/* the mean square root of the distance between two random places is 8/15 */
	check_near(sum / 200000, 0.8e6 + 14.44e6 * 8 / 15 + 8333333.0 / 2);
	ck_assert_uint_le(longest, disk.seek_max_ns + disk.rotation_ns);
	device_free(d);
}
END_TEST

START_TEST(metadata_neither_pays_seeks_nor_moves_the_head)
{
	struct device *d = device(&disk);
	struct device_access a = reads(1, 0), meta = {DEVICE_META, 5, 0},
			     sync = {DEVICE_SYNC, 5, 0};
	device_date_ns(d, &a, 64 * KIB, SEC);
	ck_assert_uint_eq(device_date_ns(d, &meta, 0, SEC), SEC);
	ck_assert_uint_eq(device_date_ns(d, &sync, 0, SEC), SEC);
	a = reads(1, 64 * KIB);
	ck_assert_uint_eq(device_date_ns(d, &a, 64 * KIB, SEC), SEC);
	device_free(d);
}
END_TEST

/* --- queue, stalls, merging --- */

START_TEST(a_queue_works_on_as_many_requests_as_it_is_deep)
{
	struct device_config cfg = {.latency[LATENCY_ALL] = {LATENCY_FIXED, 10 * MS, 0},
				    .queue_depth = 3};
	struct device *d = device(&cfg);
	struct device_access a = {DEVICE_META, 0, 0};
	for (unsigned i = 0; i < 30; i++)
		ck_assert_uint_eq(device_date_ns(d, &a, 0, SEC), SEC + (i / 3 + 1) * 10 * MS);
	/* idle slots are not saved up */
	for (unsigned i = 0; i < 6; i++)
		ck_assert_uint_eq(device_date_ns(d, &a, 0, 2 * SEC),
				  2 * SEC + (i / 3 + 1) * 10 * MS);
	device_free(d);
}
END_TEST

START_TEST(a_change_keeps_what_the_queue_has_to_do)
{
	struct device_config cfg = {.latency[LATENCY_ALL] = {LATENCY_FIXED, 10 * MS, 0},
				    .queue_depth = 4};
	struct device *d = device(&cfg);
	struct device_access a = {DEVICE_META, 0, 0};
	for (unsigned i = 0; i < 6; i++)
		device_date_ns(d, &a, 0, SEC); /* two slots until 10 ms, two until 20 ms */
	cfg.queue_depth = 1;
	cfg.latency[LATENCY_ALL].ns = MS;
	struct device *e = device_new(&cfg, d, SEC);
	ck_assert_uint_eq(device_date_ns(e, &a, 0, SEC), SEC + 21 * MS);
	cfg.queue_depth = 2;
	struct device *f = device_new(&cfg, e, SEC);
	ck_assert_uint_eq(device_date_ns(f, &a, 0, SEC), SEC + 1 * MS);
	device_free(d);
	device_free(e);
	device_free(f);
}
END_TEST

START_TEST(stalls_come_as_often_and_last_as_long_as_they_should)
{
	struct device_config cfg = {.stall_ns = 50 * MS, .stall_every_ns = SEC, .seed = 3};
	struct device *d = device(&cfg);
	struct device_access a = {DEVICE_META, 0, 0};
	uint64_t stalled_ns = 0, stalls = 0, longest = 0, last = 0;
	for (uint64_t at = 0; at < 100000 * SEC; at += 5 * MS) {
		uint64_t date = device_date_ns(d, &a, 0, at);
		longest = max_u64(longest, date - at);
		if (date > at) {
			stalled_ns += 5 * MS;
			stalls += date != last;
			last = date;
		}
	}
	ck_assert_uint_le(longest, 50 * MS);
	ck_assert_msg(fabs((double)stalls / (100000 / 1.05) - 1) < 0.02, "%llu stalls",
		      (unsigned long long)stalls);
	ck_assert_msg(fabs((double)stalled_ns / (100000e9 / 1.05 * 0.05) - 1) < 0.02, "%.3f s",
		      (double)stalled_ns / 1e9);
	device_free(d);
}
END_TEST

START_TEST(a_stall_delays_what_the_device_works_on_by_its_length)
{
	struct device_config cfg = {.latency[LATENCY_ALL] = {LATENCY_FIXED, 600 * SEC, 0},
				    .stall_ns = SEC,
				    .stall_every_ns = 100 * SEC,
				    .seed = 3};
	struct device *d = device(&cfg);
	struct device_access a = {DEVICE_META, 0, 0};
	uint64_t late = device_date_ns(d, &a, 0, 0) - 600 * SEC;
	ck_assert_uint_gt(late, 0);
	ck_assert_uint_eq(late % SEC, 0);
	/* looking ahead has changed nothing */
	ck_assert_uint_eq(device_date_ns(d, &a, 0, 0) - 600 * SEC, late);
	device_free(d);
}
END_TEST

START_TEST(a_transfer_counts_by_its_size)
{
	ck_assert_uint_eq(device_ops(0, 256 * KIB), 1);
	ck_assert_uint_eq(device_ops(256 * KIB, 256 * KIB), 1);
	ck_assert_uint_eq(device_ops(256 * KIB + 1, 256 * KIB), 2);
	ck_assert_uint_eq(device_ops(MIB, 256 * KIB), 4);
	ck_assert_uint_eq(device_ops(MIB, 0), 1);
}
END_TEST

START_TEST(sequential_transfers_merge_up_to_the_size)
{
	struct device_config cfg = {.merge_bytes = 256 * KIB, .iops_size = 256 * KIB};
	struct device *d = device(&cfg);
	unsigned ops = 0;
	for (uint64_t at = 0; at < 16 * MIB; at += 64 * KIB) { /* two files, interleaved */
		struct device_access a = reads(1, at), b = reads(2, at);
		ops += device_merged_ops(d, &a, 64 * KIB) + device_merged_ops(d, &b, 64 * KIB);
	}
	ck_assert_uint_eq(ops, 2 * 16 * 4);
	for (uint64_t i = 0; i < 10; i++) { /* not sequential */
		struct device_access a = reads(3, i * MIB);
		ck_assert_uint_eq(device_merged_ops(d, &a, 4 * KIB), 1);
	}
	struct device_access a = reads(4, 0), b = {DEVICE_WRITE, 4, 4 * KIB};
	ck_assert_uint_eq(device_merged_ops(d, &a, 4 * KIB), 1);
	ck_assert_uint_eq(device_merged_ops(d, &b, 4 * KIB),
			  1); /* a write is not merged with a read */
	device_free(d);
}
END_TEST

UNIT_MAIN("device", a_fixed_latency_is_exact,
	  an_operation_without_a_latency_of_its_own_has_the_common_one,
	  a_lognormal_latency_has_its_median_p99_and_mean,
	  a_uniform_latency_has_its_bounds_median_p99_and_mean, a_seed_repeats_a_run,
	  one_sequential_reader_pays_one_seek, readers_that_interleave_pay_for_every_transfer,
	  random_access_costs_the_mean_seek_and_half_a_revolution,
	  metadata_neither_pays_seeks_nor_moves_the_head,
	  a_queue_works_on_as_many_requests_as_it_is_deep, a_change_keeps_what_the_queue_has_to_do,
	  stalls_come_as_often_and_last_as_long_as_they_should,
	  a_stall_delays_what_the_device_works_on_by_its_length, a_transfer_counts_by_its_size,
	  sequential_transfers_merge_up_to_the_size)
