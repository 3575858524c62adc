/* SPDX-License-Identifier: MIT */
/* Checks combinations of options: those that would have no effect. */
#include <string.h>

#include "daemon/options.h"

const struct option_def *option_rate_of(const struct option_def *o)
{
	while (o->type != OPTION_RATE)
		o--;
	return o;
}

static const struct limit_config *limit_of(const struct option_def *o, const struct settings *s)
{
	return (const struct limit_config *)((const char *)s + o->offset);
}

static uint64_t value_of(const struct option_def *o, const struct limit_config *l)
{
	return o->type == OPTION_BURST	? l->burst
	       : o->type == OPTION_ONCE ? l->once
					: l->peak_per_sec;
}

/* Refuses a burst, once or peak without its rate, since it would have no effect.  If the rate is
 * explicitly "off", it is accepted and kept for later. */
static int check_extra(const struct option_def *o, const struct settings *s, const bool *batch,
		       struct error *err)
{
	const struct limit_config *l = limit_of(o, s);
	const struct option_def *rate = option_rate_of(o);
	if (l->enabled || batch[rate - options] || value_of(o, l) == 0)
		return 0;
	return error_set(err, "%s: has no effect without %s; give %s=%s too", o->name, rate->name,
			 rate->name, rate->syntax);
}

/* Checks that the peak is not below the rate, whichever of them was set. */
static int check_peak(const struct option_def *o, const struct settings *s, struct error *err)
{
	const struct limit_config *l = limit_of(o, s);
	if (!l->enabled || !l->peak_per_sec || l->peak_per_sec >= l->rate_per_sec)
		return 0;
	const char *rate = option_rate_of(o)->name;
	return error_set(err, "%s_peak: is below the rate of %s; it must be at least that, or off",
			 rate, rate);
}

/* True: the same batch also sets the peak of this rate, and the check of the peak is enough. */
static bool has_peak_in(const struct option_def *rate, const bool *batch)
{
	for (const struct option_def *o = rate + 1; o < options + n_options; o++) {
		if (o->type == OPTION_RATE)
			return false;
		if (o->type == OPTION_PEAK)
			return batch[o - options];
	}
	return false;
}

int option_check(const struct option_def *o, const struct settings *s,
		 const bool batch[OPTIONS_MAX], struct error *err)
{
	if (!batch[o - options])
		return 0;
	if (o->type == OPTION_PEAK || (o->type == OPTION_RATE && !has_peak_in(o, batch)))
		if (check_peak(o, s, err) < 0)
			return -1;
	if (o->type == OPTION_BURST || o->type == OPTION_ONCE || o->type == OPTION_PEAK)
		return check_extra(o, s, batch, err);
	if (strcmp(o->name, "allow_root") == 0 && words_find(&s->fuse, "allow_root") &&
	    words_find(&s->fuse, "allow_other"))
		return error_set(err, "allow_root: allow_other already admits root; "
				      "remove one of them");
	return 0;
}

int options_check(const struct settings *s, const bool batch[OPTIONS_MAX], struct error *err)
{
	for (unsigned i = 0; i < n_options; i++)
		if (option_check(&options[i], s, batch, err) < 0)
			return -1;
	return 0;
}
