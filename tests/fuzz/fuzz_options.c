/* SPDX-License-Identifier: MIT */
/* Option strings as after -o: nothing is misread, each refusal is one line, and what `show` prints means the same
 * when it is read again. */
#include "daemon/options.h"

#include "base/cleanup.h"
#include "fuzz/fuzz.h"

static const enum scope_kind scopes[] = {SCOPE_MOUNT, SCOPE_GLOBAL, SCOPE_FS, SCOPE_CLASS};

static void set_word(struct settings *s, enum scope_kind scope, char *word, bool *batch)
{
	struct error err = ERROR_INIT;
	char *value = strchr(word, '=');
	if (value)
		*value++ = '\0';
	if (option_set(s, scope, word, value, batch, &err) < 0) {
		MUST(error_is_set(&err));
		MUST(!strchr(err.text, '\n'));
	}
	option_nearest(word, scope);
}

static void read_again(const struct option_def *o, const struct settings *s, enum scope_kind scope)
{
	AUTO_FREE char *text = NULL;
	size_t size;
	struct settings again;
	struct error err = ERROR_INIT;
	bool batch[OPTIONS_MAX] = {false};
	FILE *out = open_memstream(&text, &size);
	MUST(out);
	option_print(o, s, out);
	MUST(fclose(out) == 0);
	if (!size)
		return;
	settings_init(&again);
	MUST(option_set(&again, scope, o->name, text, batch, &err) == 0);
	MUST(option_equal(o, s, &again));
	settings_free(&again);
}

static bool is_value(enum option_type type)
{
	return type != OPTION_FLAG && type != OPTION_NOISE && type != OPTION_LIST;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct settings s, copy;
	bool batch[OPTIONS_MAX] = {false};
	enum scope_kind scope = scopes[input_byte(&in) % 4];
	AUTO_FREE char *text = input_text(&in);
	char *rest = text;
	settings_init(&s);
	while (rest)
		set_word(&s, scope, option_next_word(&rest), batch);
	for (unsigned i = 0; i < n_options; i++)
		if (option_is_in(&options[i], scope) && is_value(options[i].type) &&
		    option_is_given(&options[i], &s))
			read_again(&options[i], &s, scope);
	MUST(settings_copy(&copy, &s));
	for (unsigned i = 0; i < n_options; i++)
		MUST(option_equal(&options[i], &s, &copy));
	settings_free(&copy);
	settings_free(&s);
	return 0;
}
