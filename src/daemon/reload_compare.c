/* SPDX-License-Identifier: MIT */
#include "daemon/reload_compare.h"

#include <string.h>

#include "daemon/options.h"

bool option_differs(const struct settings *a, const struct settings *b, const char *option)
{
	return !option_equal(option_find(option), a, b);
}

bool must_remount(const struct settings *a, const struct settings *b)
{
	return option_differs(a, b, "source") || option_differs(a, b, "mountpoint") ||
	       option_differs(a, b, "fs");
}

/* True for text such as "uid:alice": the name may stand for another number now. */
static bool has_names(const char *text)
{
	for (const char *at = text; at && (at = strstr(at, "id:")); at += 3)
		if (!strchr("0123456789", at[3 + strspn(at + 3, " \t")]))
			return true;
	return false;
}

static bool weights_have_names(const struct weights *w)
{
	for (unsigned i = 0; i < w->n; i++)
		if (has_names(w->text[i]))
			return true;
	return false;
}

bool same_options(enum scope_kind scope, const struct settings *a, const struct settings *b)
{
	for (unsigned i = 0; i < n_options; i++)
		if (option_is_in(&options[i], scope) &&
		    (!option_equal(&options[i], a, b) || a->given[i] != b->given[i]))
			return false;
	for (unsigned k = 0; k < LIMIT_KINDS; k++) /* their pool's rates may have changed */
		if (a->limits.limit[k].pool_per_sec != b->limits.limit[k].pool_per_sec)
			return false;
	return !has_names(b->match.text) && !weights_have_names(&b->weights);
}

bool same_mount(const struct settings *a, const struct settings *b)
{
	if (a->n_classes != b->n_classes || !a->section != !b->section ||
	    (a->section && strcmp(a->section, b->section) != 0) || !same_options(SCOPE_MOUNT, a, b))
		return false;
	for (unsigned i = 0; i < a->n_classes; i++)
		if (strcmp(a->class[i].name, b->class[i].name) != 0 ||
		    !same_options(SCOPE_CLASS, &a->class[i], &b -> class[i]))
			return false;
	return true;
}

bool same_weights(const struct weights *a, const struct weights *b)
{
	if (a->n != b->n || weights_have_names(b))
		return false;
	for (unsigned i = 0; i < a->n; i++)
		if (strcmp(a->text[i], b->text[i]) != 0)
			return false;
	return true;
}
