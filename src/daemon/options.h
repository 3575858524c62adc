/* SPDX-License-Identifier: MIT */
/* THE option table: one row per option drives the command line, the configuration file, run-time
 * `set`, `show`, --save, --help, ranges, defaults and the documentation check.
 *
 * Names accept '-' for '_'.  An unprefixed name means the mount where the mount has it, else the
 * global scope, else the fs; "global." and "fs." in front name another scope.
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
	OPTION_COUNT,	 /* uint64_t; off is 0 */
	OPTION_BYTES,	 /* uint64_t; off is 0 */
	OPTION_DURATION, /* uint64_t ns; off is 0 */
	OPTION_TIMEOUT,	 /* int64_t ns; auto is -1 */
	OPTION_CHOICE,	 /* unsigned, index into the words of `syntax` */
	OPTION_BOOL,	 /* bool */
	OPTION_TEXT,	 /* char * */
	OPTION_WEIGHTS,	 /* struct weights */
	OPTION_FLAG,	 /* handed to FUSE as a bare word */
	OPTION_VALUE,	 /* handed to FUSE as name=value */
	OPTION_NOISE,	 /* of mount(8) and fstab: accepted, means nothing here */
	OPTION_LIST,	 /* "a,b=c": options like after -o */
};

enum option_scope { OPTION_GLOBAL = 1, OPTION_FS = 2, OPTION_MOUNT = 4 };

struct option_def {
	const char *name;
	enum option_type type;
	unsigned scopes;      /* of enum option_scope */
	bool live;	      /* ratefsctl set can change it */
	enum limit_kind kind; /* RATE, BURST, ONCE */
	size_t offset;	      /* into struct settings */
	const char *syntax, *def, *help;
	uint64_t min, max; /* COUNT, BYTES, DURATION: inclusive; 0 passes as "off" where min is 0 */
	const char *opposite; /* FLAG: the word that undoes it */
};

extern const struct option_def options[];
extern const unsigned n_options;

/* The row of a name in any spelling, without prefix; NULL: unknown. */
const struct option_def *option_find(const char *name);
/* The nearest known name that has one of these scopes, or NULL when nothing is near. */
const char *option_nearest(const char *name, unsigned scopes);
/* How many slips of the finger lie between two names. */
unsigned option_distance(const char *a, const char *b);
const char *option_scope_name(enum option_scope scope);

/* Takes "global." or "fs." off *name and says which scope it means, by the rule above for a bare
 * name.  The scopes are 0 when the name is unknown. */
enum option_scope option_scope_of(const char **name);

/* Sets one option of a scope; `value` NULL is a bare word ("ro", "dry_run").  `batch` remembers
 * what this command line, section or `set` has given, so that a repeated weight adds up there and
 * replaces what was there before; all false at the start. */
int option_set(struct settings *s, enum option_scope scope, const char *name, const char *value,
	       bool batch[OPTIONS_MAX], struct error *err);

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
/* "uid:1000=4", "cgroup:/ci=1": one weight rule. */
int weight_parse(const char *text, struct weight_rule *rule, struct error *err);

void options_help(FILE *out);
/* name, scopes, type, syntax, default, live, help: tab-separated, one line each. */
void options_dump(FILE *out);

#endif
