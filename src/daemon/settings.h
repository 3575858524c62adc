/* SPDX-License-Identifier: MIT */
/* The options of one scope (global, an fs, a mount, a class) as parsed values, and the whole
 * configuration of a daemon.  Plain data that owns its strings.  The option table
 * (daemon/options.h) defines which fields a scope uses and how they are written. */
#ifndef DAEMON_SETTINGS_H
#define DAEMON_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "limit/limiter.h"
#include "sched/gate.h"

#define OPTIONS_MAX 192 /* the most rows that the option table can have */

/* Weight rules; the text is kept, so that `show` and --save return what was written. */
struct weights {
	struct weight_rule *rule;
	char **text; /* "uid:alice=4" */
	unsigned n;
	uint32_t own; /* of a class: its share among its siblings; 0 means 1 */
};
#define WEIGHT_MAX 10000

/* Which requests belong to a class; both NULL: only those of its children. */
struct match {
	char *text;
	struct rule *rule;
};

/* FUSE and mount(8) options that are passed on, in order: "ro", "fsname=x". */
struct words {
	char **word;
	unsigned n;
};

struct settings {
	struct limiter_config limits; /* every scope */
	struct limiter_config each; /* mounts and classes: for each key; limits.window_ns applies */

	/* mounts */
	char *name, *fs, *source, *mountpoint; /* an fs has name and source */
	char *section;			       /* in the file: [mount:SECTION] */
	uint64_t max_wait_ns, max_parked, max_parked_bytes, max_keys, mount_weight;
	int64_t attr_timeout_ns, entry_timeout_ns;			/* < 0: by the cache mode */
	unsigned on_full, on_timeout, interrupt, nonblock, fair, cache; /* index of the choice */
	unsigned transport;
	uint64_t size_bytes, inodes; /* mounts and fs: limits of what the tree may hold; 0: none */
	unsigned on_quota;	     /* index of the choice */
	bool dry_run;
	bool source_nofollow;
	bool own_namespace; /* see struct fs_config */
	struct device_config device;
	char *profile; /* NAME[:SIZE] */
	struct weights weights;
	struct words fuse;
	struct settings *class; /* a mount's classes, in the order in which they are tried */
	unsigned n_classes;

	/* classes; they also use those fields of mounts whose options the table allows for them */
	struct match match;
	char *mounts, *parent;
	uint64_t reserve_bps, reserve_iops;

	/* global, fs, mounts, classes: the pool that the scope takes part in;
	 * limits.limit[].pool_per_sec are that pool's rates (pool_config.h) */
	char *pool;

	/* pools */
	char *server, *key, *auth_file, *tls_ca, *tls_cert, *tls_key;
	uint64_t lease_ns, pool_weight;
	unsigned on_lost; /* enum pool_on_lost */

	/* global */
	char *control;
	unsigned on_mount_error, log_level;

	bool given[OPTIONS_MAX];     /* by row of the option table: was set, is not a default */
	unsigned line;		     /* of its section in the configuration file */
	unsigned lines[OPTIONS_MAX]; /* by row: the line in that file where it was set; 0: none */
};

/* Choices, in the order of the option table's words; those of fair, cache and interrupt are in sched/ and fs/. */
enum on_full { ON_FULL_WAIT, ON_FULL_REJECT };
enum on_timeout { ON_TIMEOUT_EAGAIN, ON_TIMEOUT_ETIMEDOUT };
enum on_quota { ON_QUOTA_ENOSPC, ON_QUOTA_EDQUOT };
enum nonblock { NONBLOCK_EAGAIN, NONBLOCK_WAIT };
enum on_mount_error { ON_MOUNT_ERROR_STOP, ON_MOUNT_ERROR_CONTINUE };

void settings_init(struct settings *s); /* all defaults */
void settings_free(struct settings *s);
/* False: out of memory; `to` is then empty. */
bool settings_copy(struct settings *to, const struct settings *from);

/* Appends "name" or "name=value", replacing an earlier one of that name or of `opposite`.  False:
 * out of memory, nothing has changed; the same applies to weights_add. */
bool words_put(struct words *w, const char *text, const char *opposite);
void words_remove(struct words *w, const char *name);
/* The value ("" for a bare word) or NULL. */
const char *words_find(const struct words *w, const char *name);
void words_free(struct words *w);

/* Appends a class with defaults; NULL: out of memory. */
struct settings *settings_add_class(struct settings *mount, const char *name);
/* Moves a class in front of an earlier one. */
void settings_move_class(struct settings *class, struct settings *before);
void settings_remove_class(struct settings *mount, const char *name);
struct settings *settings_find_class(const struct settings *mount, const char *name);

void match_free(struct match *m);

bool weights_add(struct weights *w, const struct weight_rule *rule, const char *text);
/* False: out of memory; `to` is then empty. */
bool weights_copy(struct weights *to, const struct weights *from);
void weights_free(struct weights *w);

struct companion; /* daemon/serve.h */

struct configuration {
	struct settings global;
	struct settings *fs, *mount;
	unsigned n_fs, n_mounts;
	/* classes as they are in the file; each mount has its own copies */
	struct settings *class;
	unsigned n_classes;
	struct settings *pool;
	unsigned n_pools;
	struct weights weights; /* of [weights]: for every mount */
	char *file;		/* NULL: from the command line */
	bool force;		/* mount even where ratefs otherwise refuses to (daemon/path.h) */
	const struct companion *companion; /* NULL: none */
};

void configuration_init(struct configuration *c);
void configuration_free(struct configuration *c);
/* A new fs, mount or class with defaults; NULL: out of memory. */
struct settings *configuration_add_fs(struct configuration *c);
struct settings *configuration_add_mount(struct configuration *c);
struct settings *configuration_add_class(struct configuration *c);
struct settings *configuration_add_pool(struct configuration *c);
struct settings *configuration_find_fs(const struct configuration *c, const char *name);
struct settings *configuration_find_mount(const struct configuration *c, const char *name);

#endif
