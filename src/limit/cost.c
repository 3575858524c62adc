/* SPDX-License-Identifier: MIT */
#include "limit/cost.h"

const char *cost_class_name(enum cost_class cls)
{
	static const char *const names[COST_CLASSES] = {
		[COST_META] = "meta",	[COST_READDIR] = "readdir",	[COST_READ] = "read",
		[COST_WRITE] = "write", [COST_OPENCLOSE] = "openclose", [COST_COPY] = "copy",
	};
	return names[cls];
}
