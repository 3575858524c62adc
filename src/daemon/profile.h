/* SPDX-License-Identifier: MIT */
/* Profiles: files that say how a known storage device behaves, as options of ratefs.
 *
 *	[profile]
 *	title  = what the device is, in a line
 *	source = where the figures are from
 *	date   = of when
 *	sizes  = 1G-16T                           only where a figure depends on the size
 *	[options]
 *	iops   = 3/GiB min 100 max 16000          grows with the size
 *	bps    = 128M up to 170G, 250M            the first that holds for the size
 *	read_latency = 0.5ms^2ms                  any other value as after -o
 *
 * Looked for in $RATEFS_PROFILES if that is set, else in ~/.config/ratefs/profiles,
 * /etc/ratefs/profiles and the directory that came with the program; the first one found counts. */
#ifndef DAEMON_PROFILE_H
#define DAEMON_PROFILE_H

#include <stdio.h>

#include "base/error.h"
#include "daemon/settings.h"

/* Sets what the profile of the settings says and nobody else has set.  Nothing of it counts as given,
 * so that --save and `show` name the profile alone.  0 (also without a profile) or -1 with err. */
int profile_apply(struct settings *s, struct error *err);

/* A line for each profile. */
void profiles_list(FILE *out);
/* What "NAME" or "NAME:SIZE" sets, in words and numbers.  0 or -1 with err. */
int profile_explain(const char *text, FILE *out, struct error *err);

#endif
