/* SPDX-License-Identifier: MIT */
/* The option table: one row per option defines it for the command line, the configuration file,
 * `ratefsctl set`, `show` and --save, --help, ranges, defaults and the documentation check.
 *
 * Names are not case-sensitive, and '-' may be written for '_'.  A name without a prefix means the mount
 * scope if the option exists there, otherwise the widest scope that has it; the prefixes "global." and
 * "fs." select another scope.
 * Errors are one line: "iops: '10Q': unknown suffix 'Q'". */
#ifndef DAEMON_OPTIONS_H
#define DAEMON_OPTIONS_H

#include <stdio.h>

#include "base/error.h"
#include "daemon/settings.h"

enum option_type {
	OPTION_RATE,	 /* tokens per second of `kind` */
	OPTION_BURST,	 /* tokens of `kind` */
	OPTION_ONCE,	 /* tokens of `kind` */
	OPTION_PEAK,	 /* tokens per second of `kind` */
	OPTION_RESERVE,	 /* uint64_t per second of `kind` */
	OPTION_COUNT,	 /* uint64_t; off is 0 */
	OPTION_BYTES,	 /* uint64_t; off is 0 */
	OPTION_DURATION, /* uint64_t ns; off is 0 */
	OPTION_TIMEOUT,	 /* int64_t ns; auto is -1 */
	OPTION_CHOICE,	 /* unsigned, index into the words of `syntax` */
	OPTION_BOOL,	 /* bool */
	OPTION_LATENCY,	 /* struct latency */
	OPTION_SEEK,	 /* two uint64_t ns: minimum and maximum */
	OPTION_STALL,	 /* two uint64_t ns: length, mean interval */
	OPTION_TEXT,	 /* char * */
	OPTION_WEIGHTS,	 /* struct weights */
	OPTION_MATCH,	 /* struct match */
	OPTION_FLAG,	 /* passed to FUSE as a bare word */
	OPTION_VALUE,	 /* passed to FUSE as name=value */
	OPTION_NOISE,	 /* for mount(8) and fstab; ratefs accepts and ignores it */
	OPTION_LIST,	 /* "a,b=c": options as after -o */
};

struct option_def {
	const char *name;
	enum option_type type;
	unsigned scopes;      /* bit per enum scope_kind */
	bool live;	      /* ratefsctl set can change it */
	enum limit_kind kind; /* RATE, BURST, ONCE, PEAK, RESERVE */
	size_t offset; /* into struct settings; RATE, BURST, ONCE, PEAK: of the limit_config */
	const char *syntax, *def, *help;
	uint64_t min, max;    /* COUNT, BYTES, DURATION: inclusive; 0 means "off" if min is 0 */
	const char *opposite; /* FLAG: the opposite word */
	/* not accepted after -o; the command line has another way to set it, or none */
	bool file_only;
};

extern const struct option_def options[];
extern const unsigned n_options;

/* The row of a name in any spelling, without prefix; NULL: unknown. */
const struct option_def *option_find(const char *name);
/* True: ratefsctl, which finds mounts by name, takes `name` for another kind of target. */
bool is_other_target(const char *name);
static inline bool option_is_in(const struct option_def *o, enum scope_kind scope)
{
	return o->scopes & 1U << scope;
}
/* The widest scope that has this option. */
enum scope_kind option_widest(const struct option_def *o);
/* The rate that a burst, once or peak belongs to. */
const struct option_def *option_rate_of(const struct option_def *o);
/* The most similar name in this scope; NULL: none is similar. */
const char *option_nearest(const char *name, enum scope_kind scope);

/* Removes "global.", "fs." or "mount." from *name and returns the scope that the name means; a name
 * without a prefix follows the rule at the top. */
enum scope_kind option_scope_of(const char **name);

/* Sets one option of a scope; `value` NULL is a bare word ("ro", "dry_run").  `batch` records what
 * this command line, section or `set` has set, so that repeated weights accumulate within it and
 * replace earlier ones; it must start all false. */
int option_set(struct settings *s, enum scope_kind scope, const char *name, const char *value,
	       bool batch[OPTIONS_MAX], struct error *err);

/* Checks an option of this batch against the others of its scope: -1 with err if the option would
 * have no effect.  Call when the batch is complete. */
int option_check(const struct option_def *o, const struct settings *s,
		 const bool batch[OPTIONS_MAX], struct error *err);
/* The same for all options of a batch; stops at the first problem. */
int options_check(const struct settings *s, const bool batch[OPTIONS_MAX], struct error *err);

/* A COUNT, BYTES or DURATION as users write it; buf has UNITS_TEXT_MAX bytes. */
char *option_format_number(const struct option_def *o, uint64_t n, char *buf);
/* Prints the value as a user would write it; nothing for an option without a value. */
void option_print(const struct option_def *o, const struct settings *s, FILE *out);
/* The same, to be freed; NULL: out of memory. */
char *option_text(const struct option_def *o, const struct settings *s);
/* An option is given in `s` if it has been set there, and not if it merely has its default. */
void option_mark_given(const char *name, struct settings *s);
bool option_is_given(const struct option_def *o, const struct settings *s);
bool option_equal(const struct option_def *o, const struct settings *a, const struct settings *b);

/* Splits "a,b=c\,d" in place; *text is NULL at the end. */
char *option_next_word(char **text);
/* Adds one rule: "uid:1000=4", "cgroup:/ci/" followed by two stars and "=1", "comm:rsync=2". */
int weights_parse(struct weights *w, const char *text, struct error *err);

void options_help(FILE *out);
/* name, scopes, type, syntax, default, live|fixed|file only, help: tab-separated, one line each. */
void options_dump(FILE *out);

#endif
