/* SPDX-License-Identifier: MIT */
/* Messages between the daemon and its helper ratefs-pool, one packet each:
 *	daemon → helper   struct pool_setup once, then struct pool_call whenever one is due
 *	helper → daemon   struct pool_report for each call; now and then another one that lists the members
 * and between helpers that share a pool without a server: struct pool_local_hello when one connects, then struct
 * pool_local_call, answered by a struct pool_answer or, with `list`, by a struct pool_listing.
 * After an upgrade of the package, a daemon may meet a helper of another version.  A helper that does not understand its
 * setup answers with its own POOL_WIRE_VERSION alone, and exits. */
#ifndef POOL_WIRE_H
#define POOL_WIRE_H

#include "pool/pool.h"

#define POOL_WIRE_VERSION 1U /* of all these messages: another one when any of them changes */
#define POOL_HELPER_FD	  3
#define POOL_SERVER_MAX	  256
#define POOL_KEY_MAX	  128
#define POOL_AUTH_MAX	  512
#define POOL_ERROR_MAX	  320
#define POOL_PATH_MAX	  1024

struct pool_setup {
	uint32_t version;
	char name[64];
	char server[POOL_SERVER_MAX]; /* redis://HOST[:PORT][/DB], rediss://…, unix:/PATH */
	char key[POOL_KEY_MAX];
	char auth[POOL_AUTH_MAX]; /* "PASSWORD" or "USER:PASSWORD"; "": none */
	char tls_ca[POOL_PATH_MAX], tls_cert[POOL_PATH_MAX], tls_key[POOL_PATH_MAX]; /* "": none */
	uint32_t lease_ms;
};

/* The members of the pool, for display.  Not available for pools of more than POOL_LISTED, where fetching them would
 * cost the server too much. */
#define POOL_LISTED  64
#define POOL_LIST_MS 2000 /* minimum interval */
struct pool_listing {
	uint32_t n;
	struct pool_listed {
		char who[POOL_WHO_MAX];
		uint32_t weight;
		uint64_t age_us;	       /* of its last call */
		uint64_t charged[POOL_LIMITS]; /* the highest rates that it may use now */
	} member[POOL_LISTED];
};

struct pool_report {
	uint32_t version;
	bool answered; /* false: `error` says why */
	bool listed;   /* repeats an earlier report, with `listing`; false: it is not sent */
	struct pool_answer answer;  /* its seq is always that of the call */
	char error[POOL_ERROR_MAX]; /* one line */
	struct pool_listing listing;
};

struct pool_local_hello {
	uint32_t version;
	uint32_t full; /* 1: the server has as many clients as it can, and closes the connection */
};

struct pool_local_call {
	char key[POOL_KEY_MAX];
	bool list; /* only lists the members; `call` is not used */
	struct pool_call call;
};

/* The receiver of a message does not trust the sender: numbers are in range, and the name of the host ends and is printable. */
bool pool_call_is_sound(const struct pool_call *c);
bool pool_answer_is_sound(const struct pool_answer *a);
/* Without its listing. */
bool pool_report_is_sound(const struct pool_report *r);

#endif
