/* SPDX-License-Identifier: MIT */
/* Files that a reload reads: the configuration file and profiles.
 *
 * Reading one may hang (a home directory on NFS), so the serving daemon does it in a task.  A reload that needs files asks for
 * them together, and is repeated when they have been read:
 *
 *	files_begin ─▶ parse: FILE_LATER? ─ no ─▶ files_end
 *	                 └ yes ─▶ files_ask … registry->looked ─▶ parse again ─▶ files_end
 *
 * If a file does not respond for a while, reading it has failed.
 * Locking  none: only for the main thread. */
#ifndef DAEMON_FILES_H
#define DAEMON_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct registry;

enum file_result {
	FILE_READ,   /* *text, to be freed, and *size */
	FILE_ABSENT, /* there is none; with err */
	FILE_FAILED, /* with err */
	FILE_LATER,  /* is not known yet; with err */
};
/* At most INI_SIZE_MAX bytes of a regular file. */
enum file_result files_read(const char *path, char **text, size_t *size, struct error *err);

/* From now on this thread reads no file itself. */
void files_close(void);
bool files_are_closed(void);

/* `again` false: somebody has just asked for the reload, so files that were read earlier are read again. */
void files_begin(bool again);
/* Starts reading the files that were needed since files_begin and are not known.  False: there is none that responds. */
bool files_ask(struct registry *r);
void files_progress(struct registry *r); /* notices a file that does not respond */
void files_end(void);			 /* forgets everything */

#endif
