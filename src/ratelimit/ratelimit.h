/* SPDX-License-Identifier: MIT */
/* All of libratelimit.  See ratelimit(3). */
#ifndef RATELIMIT_RATELIMIT_H
#define RATELIMIT_RATELIMIT_H

#include <ratelimit/bucket.h>
#include <ratelimit/bulkhead.h>
#include <ratelimit/chain.h>
#include <ratelimit/common.h>
#include <ratelimit/io.h>
#include <ratelimit/permits.h>

#endif
