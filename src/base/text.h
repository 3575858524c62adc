/* SPDX-License-Identifier: MIT */
/* Text: names that are nearly alike, bytes that are no UTF-8, amounts for people.
 * Errors   none, but NULL from text_utf8 when memory is out. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/* How many slips of the finger lie between what somebody typed and a known name.  Case does not matter,
 * nor '-' for '_'. */
unsigned text_distance(const char *typed, const char *known);

bool text_is_utf8(const char *text);
/* A copy, to be freed, in which every byte that is no UTF-8 has become U+FFFD. */
char *text_utf8(const char *text);

/* "10.0M", "1.5s", at most 9 characters; `base` is 1000 or 1024. */
#define TEXT_AMOUNT_MAX 24
char *text_amount(double n, double base, char buf[TEXT_AMOUNT_MAX]);
char *text_ns(uint64_t ns, char buf[TEXT_AMOUNT_MAX]);

#endif
