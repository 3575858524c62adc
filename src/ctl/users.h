/* SPDX-License-Identifier: MIT */
/* Names of users.  Main thread only. */
#ifndef CTL_USERS_H
#define CTL_USERS_H

#include <stdint.h>

/* The name, or the number as text if the user has none.  Each user is looked up only
 * once, because a lookup takes longer than everything else that is done with a key.
 * Valid until the program ends. */
const char *user_name(uint64_t uid);

#endif
