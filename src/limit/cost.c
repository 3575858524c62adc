/* SPDX-License-Identifier: MIT */
#include "limit/cost.h"

enum cost_class cost_class_shown(enum cost_class cls)
{
	return cls < COST_CLASSES_SHOWN ? cls : COST_META;
}

const char *cost_class_name(enum cost_class cls)
{
	static const char *const names[COST_CLASSES_SHOWN] = {
		[COST_META] = "meta",	[COST_READDIR] = "readdir",	[COST_READ] = "read",
		[COST_WRITE] = "write", [COST_OPENCLOSE] = "openclose", [COST_COPY] = "copy",
	};
	return names[cost_class_shown(cls)];
}
