/* SPDX-License-Identifier: MIT */
/* THE option table: one row per option drives the command line, the configuration file, run-time
 * `set`, `show`, --save, --help, ranges, defaults and the documentation check.
 *
 * Names accept '-' for '_' and either case.  An unprefixed name means the mount where the mount has it, else the
 * widest scope that has it; "global." and "fs." in front name another scope.
 * Errors are one line: "iops: '10Q': unknown suffix 'Q'". */
#ifndef DAEMON_OPTIONS_H
#define DAEMON_OPTIONS_H

#include <stdio.h>

#include "base/error.h"
#include "daemon/settings.h"

enum option_type {
	OPTION_RATE,	 /* tokens per second; `kind` says of what */
	OPTION_BURST,	 /* tokens of `kind` */
	OPTION_ONCE,	 /* tokens of `kind` */
	OPTION_PEAK,	 /* tokens per second; `kind` says of what */
	OPTION_RESERVE,	 /* uint64_t per second; `kind` says of what */
	OPTION_COUNT,	 /* uint64_t; off is 0 */
	OPTION_BYTES,	 /* uint64_t; off is 0 */
	OPTION_DURATION, /* uint64_t ns; off is 0 */
	OPTION_TIMEOUT,	 /* int64_t ns; auto is -1 */
	OPTION_CHOICE,	 /* unsigned, index into the words of `syntax` */
	OPTION_BOOL,	 /* bool */
	OPTION_LATENCY,	 /* struct latency */
	OPTION_SEEK,	 /* two uint64_t ns: least and most */
	OPTION_STALL,	 /* two uint64_t ns: length, mean time between */
	OPTION_TEXT,	 /* char * */
	OPTION_WEIGHTS,	 /* struct weights */
	OPTION_MATCH,	 /* struct match */
	OPTION_FLAG,	 /* handed to FUSE as a bare word */
	OPTION_VALUE,	 /* handed to FUSE as name=value */
	OPTION_NOISE,	 /* of mount(8) and fstab: accepted, means nothing here */
	OPTION_LIST,	 /* "a,b=c": options like after -o */
};

struct option_def {
	const char *name;
	enum option_type type;
	unsigned scopes;      /* bit per enum scope_kind */
	bool live;	      /* ratefsctl set can change it */
	enum limit_kind kind; /* RATE, BURST, ONCE, PEAK, RESERVE */
	size_t offset; /* into struct settings; RATE, BURST, ONCE, PEAK: of the limit_config */
	const char *syntax, *def, *help;
	uint64_t min, max; /* COUNT, BYTES, DURATION: inclusive; 0 passes as "off" where min is 0 */
	const char *opposite; /* FLAG: the word that undoes it */
	bool file_only; /* not after -o: the command line says it in another way, or not at all */
};

extern const struct option_def options[];
extern const unsigned n_options;

/* The row of a name in any spelling, without prefix; NULL: unknown. */
const struct option_def *option_find(const char *name);
static inline bool option_is_in(const struct option_def *o, enum scope_kind scope)
{
	return o->scopes & 1U << scope;
}
/* The widest scope that has it. */
enum scope_kind option_widest(const struct option_def *o);
/* The rate that a burst, once or peak belongs to. */
const struct option_def *option_rate_of(const struct option_def *o);
/* The nearest known name of this scope, or NULL when nothing is near. */
const char *option_nearest(const char *name, enum scope_kind scope);

/* Takes "global.", "fs." or "mount." off *name and says which scope it means, by the rule above for a bare
 * name. */
enum scope_kind option_scope_of(const char **name);

/* Sets one option of a scope; `value` NULL is a bare word ("ro", "dry_run").  `batch` remembers
 * what this command line, section or `set` has given, so that a repeated weight adds up there and
 * replaces what was there before; all false at the start. */
int option_set(struct settings *s, enum scope_kind scope, const char *name, const char *value,
	       bool batch[OPTIONS_MAX], struct error *err);

/* Does the option, given in this batch, make sense beside the others of its scope?  -1 with err when
 * it would have no effect.  To be called when the batch is complete. */
int option_check(const struct option_def *o, const struct settings *s,
		 const bool batch[OPTIONS_MAX], struct error *err);
/* The same for all of a batch: the first problem. */
int options_check(const struct settings *s, const bool batch[OPTIONS_MAX], struct error *err);

/* A COUNT, BYTES or DURATION as people write it; buf has UNITS_TEXT_MAX bytes. */
char *option_format_number(const struct option_def *o, uint64_t n, char *buf);
/* The value as it would be written; nothing is written for an option without a value. */
void option_print(const struct option_def *o, const struct settings *s, FILE *out);
/* The same, to be freed; NULL: out of memory. */
char *option_text(const struct option_def *o, const struct settings *s);
/* True when the option is set to something here (not when it has its default). */
void option_mark_given(const char *name, struct settings *s);
bool option_is_given(const struct option_def *o, const struct settings *s);
bool option_equal(const struct option_def *o, const struct settings *a, const struct settings *b);

/* Splits "a,b=c\,d" in place; *text is NULL at the end. */
char *option_next_word(char **text);
/* Adds one rule: "uid:1000=4", "cgroup:/ci/" and two stars "=1", "comm:rsync=2". */
int weights_parse(struct weights *w, const char *text, struct error *err);

void options_help(FILE *out);
/* name, scopes, type, syntax, default, live|fixed|file only, help: tab-separated, one line each. */
void options_dump(FILE *out);

#endif
