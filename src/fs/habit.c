/* SPDX-License-Identifier: MIT */
#include "fs/habit.h"

/* A slot: thread ID; whether it wants names only; entries omitted and not asked for; entries since
 * the last omitted one. */
struct habit {
	uint32_t tid;
	uint8_t names_only;
	uint8_t unasked;
	uint16_t since;
};

static _Atomic uint64_t *slot_of(struct habits *h, pid_t tid)
{
	return &h->slots[((uint32_t)tid * 2654435761U) >> 24];
}

static struct habit unpack(uint64_t w)
{
	return (struct habit){(uint32_t)w, (uint8_t)(w >> 32 & 1), (uint8_t)(w >> 40),
			      (uint16_t)(w >> 48)};
}

static uint64_t pack(struct habit s)
{
	return s.tid | (uint64_t)s.names_only << 32 | (uint64_t)s.unasked << 40 |
	       (uint64_t)s.since << 48;
}

void habit_begin(struct habits *h, pid_t tid)
{
	_Atomic uint64_t *slot = slot_of(h, tid);
	struct habit s = unpack(atomic_load_explicit(slot, memory_order_relaxed));
	if (s.tid != (uint32_t)tid)
		s = (struct habit){.tid = (uint32_t)tid};
	s.names_only = s.unasked >= HABIT_UNASKED;
	atomic_store_explicit(slot, pack(s), memory_order_relaxed);
}

bool habit_wants_attributes(struct habits *h, pid_t tid)
{
	_Atomic uint64_t *slot = slot_of(h, tid);
	struct habit s = unpack(atomic_load_explicit(slot, memory_order_relaxed));
	if (s.tid != (uint32_t)tid)
		return true;
	if (s.names_only)
		return false;
	bool sample = ++s.since >= HABIT_SAMPLE;
	if (sample) {
		s.since = 0;
		if (s.unasked < HABIT_UNASKED)
			s.unasked++;
	}
	atomic_store_explicit(slot, pack(s), memory_order_relaxed);
	return !sample;
}

void habit_asked(struct habits *h, pid_t tid)
{
	_Atomic uint64_t *slot = slot_of(h, tid);
	struct habit s = unpack(atomic_load_explicit(slot, memory_order_relaxed));
	if (s.tid != (uint32_t)tid || (!s.unasked && !s.names_only))
		return;
	s.unasked = 0;
	s.names_only = 0;
	atomic_store_explicit(slot, pack(s), memory_order_relaxed);
}
