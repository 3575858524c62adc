/* SPDX-License-Identifier: MIT */
/* What the gate promised, kept beside it: for each bucket a leaky shadow of what was granted, for each set of permits
 * the number held.  Checks itself at every grant. */
#ifndef FUZZ_GATE_MODEL_H
#define FUZZ_GATE_MODEL_H

#include "sched/gate.h"

#define LATENESS_NS (5 * NSEC_PER_MSEC)

struct model;
struct model *model_new(void);
void model_free(struct model *m);

/* Time goes on to now_ns under the rates that were in force. */
void model_time(struct model *m, uint64_t now_ns);
/* A grant of the gate; `forced`: always charged, so no bound applies to it. */
void model_grant(struct model *m, const struct grant *g, bool forced);
/* A debt that was left by forced grants has been paid in part: tokens that nobody else may have. */
void model_paid(struct model *m, const struct chain *ch, const struct cost *paid);
void model_done(struct model *m, const struct grant *g, uint64_t bytes_moved);
/* Call after limits have changed; a limit that was off starts full. */
void model_reconfigured(struct model *m);
/* Nothing waits, nothing runs. */
void model_check_empty(const struct model *m);

#endif
