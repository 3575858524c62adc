/* SPDX-License-Identifier: MIT */
/* Faults below the daemon: a table in a shared file, read by the preloaded faults.so, written by faultctl. */
#ifndef HELPERS_FAULTS_H
#define HELPERS_FAULTS_H

#include <stdatomic.h>
#include <stdint.h>

#define FAULT_RULES   8
#define FAULT_FOREVER INT32_MAX

struct fault {
	char call[24];		/* "pread", "openat", "malloc", …; set last, cleared first */
	_Atomic uint32_t armed; /* the rest of the row is valid */
	_Atomic int32_t spared; /* how many calls it lets through before it strikes */
	_Atomic int32_t left;	/* how many more calls it strikes */
	int32_t error;		/* errno, 0: none */
	uint32_t at_most;	/* bytes of a transfer, 0: all */
	uint32_t delay_ms;
	_Atomic uint32_t hang; /* as long as it is set */
	uint32_t after;	       /* strikes when the call has been made: only delay and hang */
	_Atomic uint32_t hits, waiting;
};

struct fault_table {
	struct fault rule[FAULT_RULES];
};

#endif
