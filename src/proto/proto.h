/* SPDX-License-Identifier: MIT */
/* The protocol of the control socket, for both sides: JSON lines, described in ratefs-control(7).
 *
 *	request  {"v":1,"do":"set","target":"slow","values":{"write_bps":"50M"}}
 *	answer   {"v":1,"ok":true,...}
 *	         {"v":1,"ok":false,"error":{"code":"bad-value","place":"slow","text":"..."}}
 *
 * One object per line and one answer per request, in order.  Lines are bounded in length and nesting, which
 * bounds the memory and the recursion of the daemon.
 *
 * The library is jansson rather than json-c: it can reject duplicate members, accepts nothing but JSON in valid UTF-8, and
 * takes our allocator, so that a lack of memory is noticed wherever it occurs (proto_init). */
#ifndef PROTO_PROTO_H
#define PROTO_PROTO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define PROTO_VERSION	 1
#define PROTO_LINE_MAX	 (64U << 10) /* of a request */
#define PROTO_DEPTH_MAX	 8	     /* nested objects and arrays */
#define PROTO_ANSWER_MAX (16U << 20)

/* Stable: programs rely on their names. */
enum proto_code {
	PROTO_OK,
	PROTO_BAD_REQUEST,     /* not a JSON object, too long, too deep */
	PROTO_BAD_VERSION,     /* a "v" that is not PROTO_VERSION */
	PROTO_UNKNOWN_COMMAND, /* "do" */
	PROTO_BAD_ARGUMENT,    /* a member is missing, unknown, or of the wrong type */
	PROTO_NO_TARGET,       /* there is no such target */
	PROTO_WRONG_TARGET,    /* the command does not apply to this kind of target */
	PROTO_UNKNOWN_OPTION,
	PROTO_BAD_VALUE,   /* of an option, or options that do not fit together */
	PROTO_NOT_LIVE,	   /* the option cannot be changed while it is mounted */
	PROTO_EXISTS,	   /* the name is already in use */
	PROTO_IN_USE,	   /* the mount is in use: open files, working directories … */
	PROTO_WRONG_STATE, /* not mounted, still being mounted … */
	PROTO_NO_FILE,	   /* the daemon has no configuration file */
	PROTO_BAD_FILE,	   /* the configuration file has errors; nothing was changed */
	PROTO_DENIED,	   /* the daemon belongs to another user */
	PROTO_NO_MEMORY,
	PROTO_FAILED, /* anything else: the text says what */
	PROTO_CODES
};

const char *proto_code_name(enum proto_code code); /* "bad-value" */
enum proto_code proto_code_find(const char *name); /* PROTO_FAILED for codes of a later version */
/* The exit status of a program: 0 done, 1 failed, 2 wrong usage or value, 3 no such target. */
int proto_exit_status(enum proto_code code);

/* Call it before any other JSON function and before a system call filter is installed: it reads the seed of the hash tables.
 * A program that does not call it may misread a line when memory runs out. */
void proto_init(void);

/* The object in a line (without its newline), to be released with json_decref.  NULL with err: it is not an object,
 * has a duplicate member, or is nested deeper than `depth`. */
json_t *proto_parse(const char *line, size_t size, unsigned depth, struct error *err);
/* How JSON is printed: on one line, and with enough digits for a time in microseconds. */
#define PROTO_DUMP_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(16))
/* The line for an object, with its newline, to be freed.  NULL: out of memory. */
char *proto_line(const json_t *object, size_t *size);

static inline void cleanup_json(json_t **json)
{
	json_decref(*json);
}
#define AUTO_JSON __attribute__((cleanup(cleanup_json))) json_t

#endif
