/* SPDX-License-Identifier: MIT */
/* Members and server of a pool on a fake clock, with a network in between that delays, loses and
 * repeats messages.  The server is the one in memory; tests/mount/pool_script.sh compares pool.lua
 * with it call by call. */
#ifndef UNIT_POOL_WORLD_H
#define UNIT_POOL_WORLD_H

#include "pool/member.h"
#include "pool/server.h"
#include "unit/unit.h"

#define MS		NSEC_PER_MSEC
#define LEASE_MS	500
#define LEASE		(LEASE_MS * MS)
#define MEMBERS		16
#define RANDOM		8 /* members that take part in random schedules */
#define MESSAGES	80
#define LOOKS_PER_LEASE 16 /* as in the daemon */
#define RATE		(1000000 * POOL_MILLI)

extern uint64_t seed; /* of `below` */
uint64_t below(uint64_t n);

struct message {
	uint64_t at_ns; /* 0: free */
	enum { CALL, ANSWER, FAILURE } kind;
	unsigned to;  /* of an answer or a failure: the member … */
	unsigned who; /* … and which life of it: a member may die and join again */
	uint64_t seq; /* of the call */
	union {
		struct pool_call call;
		struct pool_answer answer;
	};
};

struct user { /* of a member's rate */
	struct pool_member m;
	bool alive;
	bool cut;    /* its connection is broken */
	bool paused; /* its host is suspended: it neither calls nor uses anything */
	unsigned life;
	uint64_t wants; /* 1/1000 token per second */
	double used;	/* tokens, in total */
	struct pool_use use;
	struct pool_rates now;
	uint64_t since_ns; /* up to when `used` has been computed */
	uint64_t look_ns;  /* when pool_member_look is called next */
	/* A load of requests in place of `wants`; size 0: none. */
	struct {
		uint64_t size;	   /* tokens of a request */
		uint64_t every_ns; /* one arrives in this interval; 0: two are always there */
		uint64_t next_ns, waits,
			first_ns;    /* the next; how many wait; since when the first */
		uint64_t longest_ns; /* that one has waited */
		double level;	     /* of the bucket */
	} load;
};

struct world {
	uint64_t now_ns;
	int64_t clock_us, drift_ppm; /* of the server's clock, relative to now_ns */
	int64_t served_us;	     /* clock_us at its last call */
	uint64_t rate;		     /* of the pool */
	unsigned mixed; /* members that join have leases of up to this many times LEASE_MS; 0: of 1 */
	struct pool_server server, replica;
	bool doubtful;
	enum pool_on_lost on_lost; /* of members that join */
	struct user user[MEMBERS];
	struct message msg[MESSAGES];
	unsigned lives;
	/* the network */
	unsigned loss, repeat, cut;  /* per cent of messages; `cut`: lost, but the member is told */
	uint64_t least_ns, delay_ns; /* of a message: minimum, and at most this much more */
};

struct world *world_new(unsigned members);
void world_free(struct world *w);
void join(struct world *w, struct user *u, unsigned weight);
/* A load of requests of `size` tokens; see struct user. */
void load(struct world *w, unsigned i, uint64_t size, uint64_t every_ns);
/* The member calls the server now. */
void post_call(struct world *w, unsigned i, bool leave);
int64_t server_us(const struct world *w);
/* Advances the time, and checks the pool's promise: what all members together may use never
 * exceeds its rate.  Dead members use nothing; those without a server use their fallback,
 * which other tests check. */
void step(struct world *w, uint64_t ns);
/* The same in steps of 5 ms. */
void run(struct world *w, uint64_t ns);

/* The sum of all leases, of all rates in force (with fallbacks), and of what was used. */
uint64_t leased_sum(const struct world *w);
uint64_t rates_sum(const struct world *w);
double used_sum(const struct world *w);

#endif
