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

/* How a thread waits for the answer to its request. */
enum caller_wait {
	WAITS_FOR_SIGNALS, /* the kernel reports the next signal */
	/* Only a fatal signal wakes it: it has been woken by another one before.  The kernel has reported that one, or would
	 * have if the daemon had taken the request by then; it will report none that follows.  The signal itself need not
	 * be pending any more: another thread of the process may have handled it. */
	WAITS_FOR_DEATH,
	WAITS_NOT_YET
};

struct caller_look {
	enum caller_state state;
	enum caller_wait wait;
	bool gone;	   /* the thread cannot be examined: it has ended.  It counts as dying */
	bool killed;	   /* its whole process is about to die */
	uint32_t process;  /* 0: could not be found out */
	uint64_t switches; /* how often it has slept; UINT64_MAX: unknown */
};

struct caller_look caller_look(uint32_t tid);

/* The caller of the request that this thread carries out (request_run); 0: none. */
extern _Thread_local uint32_t request_tid;

/* True if the whole process has been killed or is exiting.  `tid` is one of its threads, which may have
 * ended before the others. */
bool process_has_died(uint32_t tid, uint32_t process);

#endif
