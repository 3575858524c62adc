/* SPDX-License-Identifier: MIT */
/* The interface between parked.c and parked_look.c. */
#ifndef FS_PARKED_H
#define FS_PARKED_H

#include "fs/mount_internal.h"

/* The request of this number in the table; NULL: there is none.  Call with the table's lock held. */
struct request *parked_find_locked(struct parked_table *t, uint64_t unique);
/* Ends the wait of p, if it still waits, because its caller is dying.  Call with the table's lock held; releases it. */
void parked_cancel_unlock(struct fs_mount *m, struct request *p);
/* True when an interrupt alone ends the wait. */
bool parked_any_signal_ends(const struct fs_mount *m, const struct request *p);

/* True: the caller may have got a signal that the kernel did not report, or reported before the request was in the table.
 * Not for O_DIRECT, which may be asynchronous: then the caller need not wait for this request at all. */
static inline bool parked_is_unsure(const struct request *p)
{
	return p->transport->misses_signals && !p->in_blocks && !p->sure;
}

#endif
