/* SPDX-License-Identifier: MIT */
/* Shared by the files that implement space_hooks.h: space_hooks.c (names, attributes, df, and what all operations have in
 * common) and space_data.c (open files and their data). */
#ifndef FS_SPACE_HOOKS_INTERNAL_H
#define FS_SPACE_HOOKS_INTERNAL_H

#include "fs/space_hooks.h"

/* The tighter limit of the mount and its tree; 0: none is enforced. */
uint64_t space_bytes_limit(const struct fs *fs);
/* Stats the file and enters the result: 0 or -errno. */
int space_enter_fd(struct space *sp, struct space_slot *s, int fd);
static inline uint64_t space_end_of(const struct space *sp, const struct stat *st)
{
	return space_round_up((uint64_t)st->st_size, sp->block);
}
/* Reserves n.  If that does not fit because a file that was deleted a moment ago is still counted, waits for that.
 * False: it does not fit. */
bool space_reserve_soon(const struct fs *fs, struct space_count *c, uint64_t n, uint64_t limit);
/* While a request waits, its caller is checked so often. */
#define SPACE_LOOK_NS (10 * NSEC_PER_MSEC)
/* True: the caller of the request of this thread has been killed, so the request need not wait any longer.  *look_ns: time of
 * the next check; at first, the start of the wait plus SPACE_LOOK_NS. */
bool space_caller_dies(uint64_t *look_ns, uint64_t now_ns);
/* The operation changes the blocks of its file from now on, until space_end. */
void space_begin_change(struct space_op *op, enum slot_change c);
/* Undoes what a begin has done so far; returns res. */
int space_give_up(struct space_op *op, int res);

#endif
