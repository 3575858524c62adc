/* SPDX-License-Identifier: MIT */
/* Names of users.  One thread at a time. */
#ifndef CTL_USERS_H
#define CTL_USERS_H

#include <stdint.h>

/* The name, or the number as text if the user has none, the name is too long to be told from others, or cannot be looked up
 * now.  An answer is kept for a minute, because a lookup takes longer than everything else that is done with a key; a failure
 * for a second.  Valid until the next call for the same user. */
const char *user_name(uint64_t uid);

#endif
