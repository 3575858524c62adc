/* SPDX-License-Identifier: MIT */
/* The real clock, and the thread that calls gate_step when the gate is due. */
#ifndef SCHED_STEPPER_H
#define SCHED_STEPPER_H

#include "sched/clock.h"

struct gate;
struct stepper;

struct stepper *stepper_new(void); /* NULL: out of memory or of descriptors */
const struct clock *stepper_clock(struct stepper *s);
int stepper_start(struct stepper *s, struct gate *g); /* 0 or -errno */
/* Free it after the workers and the last mount, which read the clock when they end, and before the
 * gate. */
void stepper_free(struct stepper *s);

#endif
