/* SPDX-License-Identifier: MIT */
/* Text: similar names, bytes that are not UTF-8, amounts for people.
 * Errors   none, except that text_utf8 returns NULL if memory runs out. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/* The number of typing errors (edit distance) between what somebody typed and a known name.
 * Ignores the case of `typed`, and takes its '-' for '_'. */
unsigned text_distance(const char *typed, const char *known);

bool text_is_utf8(const char *text);
/* Makes untrusted text safe to print as one line of a terminal: '?' replaces line breaks, control codes (also those
 * above ASCII, such as U+009B, which begins an escape sequence), characters that change the direction of writing, and bytes
 * that are not valid UTF-8. */
void make_one_line(char *text);
/* A copy, to be freed, with every byte that is not valid UTF-8 replaced by U+FFFD. */
char *text_utf8(const char *text);

/* "10.0M", "1.5s", at most 9 characters; `base` is 1000 or 1024. */
#define TEXT_AMOUNT_MAX 24
char *text_amount(double n, double base, char buf[TEXT_AMOUNT_MAX]);
char *text_ns(uint64_t ns, char buf[TEXT_AMOUNT_MAX]);

#endif
