/* SPDX-License-Identifier: MIT */
/* Parses the values of the options that describe a device. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "daemon/option_parse.h"

static int parse_time(const char *text, uint64_t *ns, struct error *err)
{
	if (*text && strspn(text, "123456789.0") == strlen(text) && strtod(text, NULL) > 0)
		return error_set(err, "'%s': has no unit; write for example %sms or %ss", text,
				 text, text);
	if (units_parse_duration(text, ns, err) < 0)
		return -1;
	if (*ns > LATENCY_MAX_NS)
		return error_set(err, "'%s': must be at most 1h", text);
	return 0;
}

/* "A", or "A" and "B" around one of `marks`, which is stored in *mark (0: none). */
static int parse_times(const char *value, const char *marks, char *mark, uint64_t ns[2],
		       struct error *err)
{
	AUTO_FREE char *copy = strdup(value);
	if (!copy)
		return option_no_memory(err);
	char *at = strpbrk(copy, marks);
	*mark = at ? *at : '\0';
	if (at)
		*at++ = '\0';
	ns[1] = 0;
	return parse_time(copy, &ns[0], err) < 0 || (at && parse_time(at, &ns[1], err) < 0) ? -1
											    : 0;
}

int option_parse_latency(struct latency *l, const char *value, struct error *err)
{
	uint64_t ns[2] = {0, 0};
	char mark = 0;
	if (option_is_off(value)) {
		*l = (struct latency){0};
		return 0;
	}
	if (parse_times(value, "~^", &mark, ns, err) < 0)
		return -1;
	if (mark == '~' && ns[1] > ns[0])
		return error_set(err, "'%s': the part after '~' must not be the larger one", value);
	if (mark == '^' && (!ns[0] || ns[1] <= ns[0]))
		return error_set(err, "'%s': the median must be the smaller one; write MEDIAN^P99",
				 value);
	*l = (struct latency){mark == '~'   ? LATENCY_UNIFORM
			      : mark == '^' ? LATENCY_LOGNORMAL
					    : LATENCY_FIXED,
			      ns[0], ns[1]};
	return 0;
}

int option_parse_seek(uint64_t *out, const char *value, struct error *err)
{
	uint64_t ns[2] = {0, 0};
	char mark = 0;
	if (!option_is_off(value) && parse_times(value, "-", &mark, ns, err) < 0)
		return -1;
	if (!option_is_off(value) && !mark)
		ns[1] = ns[0];
	if (ns[1] < ns[0])
		return error_set(err, "'%s': the minimum must be the smaller one; write MIN-MAX",
				 value);
	out[0] = ns[0];
	out[1] = ns[1];
	return 0;
}

int option_parse_stall(uint64_t *out, const char *value, struct error *err)
{
	uint64_t ns[2] = {0, 0};
	char mark = 0;
	if (!option_is_off(value)) {
		if (parse_times(value, "/", &mark, ns, err) < 0)
			return -1;
		if (!mark || !ns[0])
			return error_set(
				err, "'%s': not a stall; write LENGTH/EVERY, for example 200ms/30s",
				value);
		if (ns[1] < NSEC_PER_MSEC || ns[0] > ns[1])
			return error_set(
				err, "'%s': EVERY must be at least 1ms and not shorter than LENGTH",
				value);
	}
	out[0] = ns[0];
	out[1] = ns[1];
	return 0;
}
