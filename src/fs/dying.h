/* SPDX-License-Identifier: MIT */
/* Whether a caller is about to die, so that its requests need not wait any longer.  Reads /proc. */
#ifndef FS_DYING_H
#define FS_DYING_H

#include <stdbool.h>
#include <stdint.h>

enum caller_state {
	CALLER_CALM,	  /* no signal is pending that is not blocked */
	CALLER_SIGNALLED, /* such a signal is pending, but the thread survives it */
	/* The thread is gone or about to die: SIGKILL is pending, or another signal whose default
	 * action ends the process and which is neither blocked, caught nor ignored. */
	CALLER_DYING
};

/* Sets *process to the thread's process if that can be found out, and *killed to whether the whole
 * process is about to die. */
enum caller_state caller_look(uint32_t tid, uint32_t *process, bool *killed);

/* True if the whole process has been killed or is exiting.  `tid` is one of its threads, which may have
 * ended before the others. */
bool process_has_died(uint32_t tid, uint32_t process);

#endif
