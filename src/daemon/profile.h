/* SPDX-License-Identifier: MIT */
/* Profiles: files that describe a known storage device by options of ratefs.
 *
 *	[profile]
 *	title  = what the device is, in a line
 *	source = where the figures are from
 *	date   = when they were valid
 *	sizes  = 1G-16T                           only if a figure depends on the size
 *	[options]
 *	iops   = 3/GiB min 100 max 16000          grows with the size
 *	bps    = 128M up to 170G, 250M            the first that applies to the size
 *	read_latency = 0.5ms^2ms                  any other value as after -o
 *
 * Searched in $RATEFS_PROFILES if that is set, otherwise in ~/.config/ratefs/profiles,
 * /etc/ratefs/profiles and the directory of the installed profiles; the first one found is used. */
#ifndef DAEMON_PROFILE_H
#define DAEMON_PROFILE_H

#include <stdio.h>

#include "base/error.h"
#include "daemon/settings.h"

/* Remembers where profiles are.  Call it before there are threads: libfuse changes the environment while it mounts.  Without it,
 * the environment is read each time. */
void profiles_init(void);

/* Sets every option that the profile named by s->profile defines and that has not been set
 * otherwise.  These options are not marked as given, so that --save and `show` mention only the
 * profile.  0 (also without a profile), or -1 with err. */
int profile_apply(struct settings *s, struct error *err);

/* Prints a line for each profile. */
void profiles_list(FILE *out);
/* Explains what "NAME" or "NAME:SIZE" sets, in words and numbers.  0, or -1 with err. */
int profile_explain(const char *text, FILE *out, struct error *err);

#endif
