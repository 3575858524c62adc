/* SPDX-License-Identifier: MIT */
#include "limit/limiter.h"
#include "unit/unit.h"

#define SEC    NSEC_PER_SEC
#define MSEC   NSEC_PER_MSEC
#define BIT(k) (1U << (k))

static struct limit_config per_sec(uint64_t rate)
{
	return (struct limit_config){.enabled = true, .rate_per_sec = rate};
}

START_TEST(every_name_is_the_options_name)
{
	ck_assert_str_eq(limit_kind_name(LIMIT_IOPS), "iops");
	ck_assert_str_eq(limit_kind_name(LIMIT_META_IOPS), "meta_iops");
	ck_assert_str_eq(limit_kind_name(LIMIT_READ_IOPS), "read_iops");
	ck_assert_str_eq(limit_kind_name(LIMIT_WRITE_IOPS), "write_iops");
	ck_assert_str_eq(limit_kind_name(LIMIT_BPS), "bps");
	ck_assert_str_eq(limit_kind_name(LIMIT_READ_BPS), "read_bps");
	ck_assert_str_eq(limit_kind_name(LIMIT_WRITE_BPS), "write_bps");
	ck_assert_str_eq(scope_kind_name(SCOPE_GLOBAL), "global");
	ck_assert_str_eq(scope_kind_name(SCOPE_MOUNT), "mount");
	ck_assert_str_eq(scope_kind_name(SCOPE_FS), "fs");
	ck_assert_str_eq(scope_kind_name(SCOPE_CLASS), "class");
	ck_assert_str_eq(scope_kind_name(SCOPE_KEY), "key");
	ck_assert_str_eq(cost_class_name(COST_META), "meta");
	ck_assert_str_eq(cost_class_name(COST_READDIR), "readdir");
	ck_assert_str_eq(cost_class_name(COST_READ), "read");
	ck_assert_str_eq(cost_class_name(COST_WRITE), "write");
	ck_assert_str_eq(cost_class_name(COST_OPENCLOSE), "openclose");
	ck_assert_str_eq(cost_class_name(COST_COPY), "copy");
}
END_TEST

START_TEST(the_capacity_is_the_window_plus_the_burst_and_at_least_one)
{
	struct limit_config c = per_sec(1000);
	ck_assert_uint_eq(limit_capacity(&c, 0), 100);
	ck_assert_uint_eq(limit_capacity(&c, SEC), 1000);
	c.burst = 7;
	ck_assert_uint_eq(limit_capacity(&c, SEC), 1007);
	c = per_sec(3);
	ck_assert_uint_eq(limit_capacity(&c, 0), 1);
	c = per_sec(BUCKET_RATE_MAX);
	c.burst = UINT64_MAX;
	ck_assert_uint_eq(limit_capacity(&c, 1000 * SEC), BUCKET_CAPACITY_MAX);
}
END_TEST

START_TEST(each_class_is_charged_by_the_limits_of_the_table)
{
	struct limiter l;
	struct limiter_config cfg = {.window_ns = 0};
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		cfg.limit[k] = per_sec(100);
	ck_assert(limiter_init(&l, SCOPE_MOUNT, &cfg, 0));
	ck_assert_uint_eq(limiter_kinds_for(&l, COST_META), BIT(LIMIT_META_IOPS));
	ck_assert_uint_eq(limiter_kinds_for(&l, COST_OPENCLOSE), BIT(LIMIT_META_IOPS));
	ck_assert_uint_eq(limiter_kinds_for(&l, COST_READDIR),
			  BIT(LIMIT_IOPS) | BIT(LIMIT_READ_BPS));
	ck_assert_uint_eq(limiter_kinds_for(&l, COST_READ), BIT(LIMIT_IOPS) | BIT(LIMIT_READ_IOPS) |
								    BIT(LIMIT_BPS) |
								    BIT(LIMIT_READ_BPS));
	ck_assert_uint_eq(limiter_kinds_for(&l, COST_WRITE),
			  BIT(LIMIT_IOPS) | BIT(LIMIT_WRITE_IOPS) | BIT(LIMIT_BPS) |
				  BIT(LIMIT_WRITE_BPS));
	ck_assert_uint_eq(limiter_kinds_for(&l, COST_COPY),
			  (BIT(LIMIT_KINDS) - 1) & ~BIT(LIMIT_META_IOPS));
	ck_assert_uint_eq(limiter_kinds_for(&l, COST_META_READ),
			  BIT(LIMIT_META_IOPS) | BIT(LIMIT_BPS) | BIT(LIMIT_READ_BPS));
	ck_assert_uint_eq(limiter_kinds_for(&l, COST_META_WRITE),
			  BIT(LIMIT_META_IOPS) | BIT(LIMIT_BPS) | BIT(LIMIT_WRITE_BPS));
	cfg.limit[LIMIT_META_IOPS].enabled = false;
	limiter_configure(&l, &cfg, 0);
	ck_assert_uint_eq(limiter_kinds_for(&l, COST_META), BIT(LIMIT_IOPS));
	ck_assert_uint_eq(limiter_kinds_for(&l, COST_META_READ),
			  BIT(LIMIT_IOPS) | BIT(LIMIT_BPS) | BIT(LIMIT_READ_BPS));
	cfg.limit[LIMIT_IOPS].enabled = false;
	limiter_configure(&l, &cfg, 0);
	ck_assert_uint_eq(limiter_kinds_for(&l, COST_META), 0);
	ck_assert_uint_eq(limiter_kinds_for(&l, COST_OPENCLOSE), 0);
	limiter_fini(&l);
}
END_TEST

START_TEST(a_limit_that_stays_keeps_what_was_spent)
{
	struct limiter l;
	struct limiter_config cfg = {.window_ns = SEC};
	cfg.limit[LIMIT_IOPS] = per_sec(10);
	ck_assert(limiter_init(&l, SCOPE_MOUNT, &cfg, 0));
	ck_assert(bucket_try(l.bucket[LIMIT_IOPS][BUCKET_STEADY], 10, 0));
	cfg.limit[LIMIT_IOPS].rate_per_sec = 1000;
	limiter_configure(&l, &cfg, 0);
	ck_assert_int_eq(bucket_level(l.bucket[LIMIT_IOPS][BUCKET_STEADY], 0), 0);
	ck_assert_uint_eq(bucket_capacity(l.bucket[LIMIT_IOPS][BUCKET_STEADY]), 1000);
	ck_assert_int_eq(bucket_level(l.bucket[LIMIT_IOPS][BUCKET_STEADY], 5 * MSEC), 5);
	/* setting the same limits a thousand times creates no tokens either */
	for (int i = 0; i < 1000; i++)
		limiter_configure(&l, &cfg, 5 * MSEC);
	ck_assert_int_eq(bucket_level(l.bucket[LIMIT_IOPS][BUCKET_STEADY], 5 * MSEC), 5);
	limiter_fini(&l);
}
END_TEST

START_TEST(a_limit_that_is_enabled_again_starts_full)
{
	struct limiter l;
	struct limiter_config cfg = {.window_ns = SEC};
	cfg.limit[LIMIT_BPS] = per_sec(1000);
	cfg.limit[LIMIT_BPS].once = 50;
	ck_assert(limiter_init(&l, SCOPE_MOUNT, &cfg, 0));
	bucket_take(l.bucket[LIMIT_BPS][BUCKET_STEADY], 5000, 0);
	cfg.limit[LIMIT_BPS].enabled = false;
	limiter_configure(&l, &cfg, SEC);
	ck_assert_uint_eq(limiter_config_kinds(&l.config), 0);
	cfg.limit[LIMIT_BPS].enabled = true;
	limiter_configure(&l, &cfg, 2 * SEC);
	ck_assert_uint_eq(limiter_config_kinds(&l.config), BIT(LIMIT_BPS));
	ck_assert_int_eq(bucket_level(l.bucket[LIMIT_BPS][BUCKET_STEADY], 2 * SEC), 1050);
	limiter_fini(&l);
}
END_TEST

START_TEST(zero_permits_configured_means_no_bound)
{
	struct limiter l;
	struct limiter_config cfg = {.max_open = 2};
	ck_assert(limiter_init(&l, SCOPE_GLOBAL, &cfg, 0));
	ck_assert_int_eq(permits_look(&l.inflight).limit, PERMITS_UNLIMITED);
	ck_assert_int_eq(permits_look(&l.open).limit, 2);
	cfg.max_inflight = 3;
	cfg.max_open = 0;
	limiter_configure(&l, &cfg, 0);
	ck_assert_int_eq(permits_look(&l.inflight).limit, 3);
	ck_assert_int_eq(permits_look(&l.open).limit, PERMITS_UNLIMITED);
	limiter_fini(&l);
}
END_TEST

START_TEST(a_peak_bounds_how_fast_saved_tokens_are_spent)
{
	struct limiter l;
	struct limiter_config cfg = {.window_ns = 100 * MSEC};
	cfg.limit[LIMIT_BPS] = per_sec(1000);
	cfg.limit[LIMIT_BPS].burst = 100000;
	cfg.limit[LIMIT_BPS].peak_per_sec = 5000;
	ck_assert(limiter_init(&l, SCOPE_MOUNT, &cfg, 0));
	ck_assert_uint_eq(bucket_rate(l.bucket[LIMIT_BPS][BUCKET_PEAK]), 5000);
	ck_assert_uint_eq(bucket_capacity(l.bucket[LIMIT_BPS][BUCKET_PEAK]), 500);
	ck_assert_ptr_null(l.bucket[LIMIT_IOPS][BUCKET_STEADY]);
	cfg.limit[LIMIT_BPS].peak_per_sec = 0;
	limiter_configure(&l, &cfg, SEC);
	ck_assert_uint_eq(bucket_rate(l.bucket[LIMIT_BPS][BUCKET_STEADY]), 1000);
	limiter_fini(&l);
}
END_TEST

UNIT_MAIN("limiter", every_name_is_the_options_name,
	  the_capacity_is_the_window_plus_the_burst_and_at_least_one,
	  each_class_is_charged_by_the_limits_of_the_table, a_limit_that_stays_keeps_what_was_spent,
	  a_limit_that_is_enabled_again_starts_full, zero_permits_configured_means_no_bound,
	  a_peak_bounds_how_fast_saved_tokens_are_spent)
