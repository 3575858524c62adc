/* SPDX-License-Identifier: MIT */
#include "daemon/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fs/fs.h"

void settings_init(struct settings *s)
{
	memset(s, 0, sizeof(*s));
	s->limits.window_ns = s->each.window_ns = LIMITER_WINDOW_DEFAULT_NS;
	s->max_parked = GATE_MAX_PARKED_DEFAULT;
	s->max_parked_bytes = GATE_MAX_PARKED_BYTES_DEFAULT;
	s->max_keys = GATE_MAX_KEYS_DEFAULT;
	s->mount_weight = 1;
	s->attr_timeout_ns = s->entry_timeout_ns = -1;
	s->fair = FAIR_PROCESS;
	s->cache = CACHE_AUTO;
	s->lease_ns = 500 * NSEC_PER_MSEC;
	s->pool_weight = 1;
	s->on_mount_error = ON_MOUNT_ERROR_STOP;
	s->log_level = LOG_LEVEL_INFO;
}

static void free_all(struct settings *s, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		settings_free(&s[i]);
	free(s);
}

void match_free(struct match *m)
{
	free(m->text);
	rule_free(m->rule);
	memset(m, 0, sizeof(*m));
}

void settings_free(struct settings *s)
{
	free(s->name);
	free(s->fs);
	free(s->source);
	free(s->mountpoint);
	free(s->section);
	free(s->control);
	free(s->pool);
	free(s->server);
	free(s->key);
	free(s->auth_file);
	free(s->tls_ca);
	free(s->tls_cert);
	free(s->tls_key);
	free(s->profile);
	weights_free(&s->weights);
	words_free(&s->fuse);
	free(s->mounts);
	free(s->parent);
	match_free(&s->match);
	free_all(s->class, s->n_classes);
	settings_init(s);
}

static bool copy_text(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from;
}

static bool copy_words(struct words *to, const struct words *from)
{
	memset(to, 0, sizeof(*to));
	for (unsigned i = 0; i < from->n; i++)
		if (!words_put(to, from->word[i], NULL))
			return false;
	return true;
}

static bool copy_match(struct match *to, const struct match *from)
{
	to->rule = from->rule ? rule_copy(from->rule) : NULL;
	return copy_text(&to->text, from->text) && (to->rule || !from->rule);
}

static bool copy_classes(struct settings *to, const struct settings *from)
{
	to->n_classes = 0;
	to->class = from->n_classes ? calloc(from->n_classes, sizeof(*to->class)) : NULL;
	if (from->n_classes && !to->class)
		return false;
	for (; to->n_classes < from->n_classes; to->n_classes++)
		if (!settings_copy(to->class + to->n_classes, from->class + to->n_classes))
			return false;
	return true;
}

bool settings_copy(struct settings *to, const struct settings *from)
{
	*to = *from;
	/* Copy every field that owns memory even after a failure: settings_free must not see a
	 * pointer that still belongs to `from`. */
	bool ok = copy_text(&to->name, from->name);
	ok = copy_text(&to->fs, from->fs) && ok;
	ok = copy_text(&to->source, from->source) && ok;
	ok = copy_text(&to->mountpoint, from->mountpoint) && ok;
	ok = copy_text(&to->section, from->section) && ok;
	ok = copy_text(&to->control, from->control) && ok;
	ok = copy_text(&to->pool, from->pool) && ok;
	ok = copy_text(&to->server, from->server) && ok;
	ok = copy_text(&to->key, from->key) && ok;
	ok = copy_text(&to->auth_file, from->auth_file) && ok;
	ok = copy_text(&to->tls_ca, from->tls_ca) && ok;
	ok = copy_text(&to->tls_cert, from->tls_cert) && ok;
	ok = copy_text(&to->tls_key, from->tls_key) && ok;
	ok = copy_text(&to->mounts, from->mounts) && ok;
	ok = copy_text(&to->parent, from->parent) && ok;
	ok = copy_match(&to->match, &from->match) && ok;
	ok = weights_copy(&to->weights, &from->weights) && ok;
	ok = copy_text(&to->profile, from->profile) && ok;
	ok = copy_words(&to->fuse, &from->fuse) && ok;
	ok = copy_classes(to, from) && ok;
	if (!ok)
		settings_free(to);
	return ok;
}

static size_t name_length(const char *word)
{
	return strcspn(word, "=");
}

static bool has_name(const char *word, const char *name)
{
	size_t n = name_length(name);
	return name_length(word) == n && strncmp(word, name, n) == 0;
}

void words_remove(struct words *w, const char *name)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < w->n; i++) {
		if (has_name(w->word[i], name))
			free(w->word[i]);
		else
			w->word[kept++] = w->word[i];
	}
	w->n = kept;
}

bool words_put(struct words *w, const char *text, const char *opposite)
{
	char *copy = strdup(text);
	char **more = copy ? realloc(w->word, (w->n + 1) * sizeof(*more)) : NULL;
	if (!more) {
		free(copy);
		return false;
	}
	w->word = more;
	words_remove(w, text);
	if (opposite)
		words_remove(w, opposite);
	w->word[w->n++] = copy;
	return true;
}

const char *words_find(const struct words *w, const char *name)
{
	for (unsigned i = 0; i < w->n; i++) {
		const char *word = w->word[i];
		if (has_name(word, name))
			return word[name_length(word)] ? word + name_length(word) + 1 : "";
	}
	return NULL;
}

void words_free(struct words *w)
{
	for (unsigned i = 0; i < w->n; i++)
		free(w->word[i]);
	free(w->word);
	memset(w, 0, sizeof(*w));
}

bool weights_add(struct weights *w, const struct weight_rule *rule, const char *text)
{
	struct weight_rule *rules = realloc(w->rule, (w->n + 1) * sizeof(*rules));
	if (rules)
		w->rule = rules;
	char **texts = realloc(w->text, (w->n + 1) * sizeof(*texts));
	if (texts)
		w->text = texts;
	char *copy = strdup(text), *glob = rule->glob ? strdup(rule->glob) : NULL;
	if (!rules || !texts || !copy || (rule->glob && !glob)) {
		free(copy);
		free(glob);
		return false;
	}
	w->rule[w->n] = *rule;
	w->rule[w->n].glob = glob;
	w->text[w->n++] = copy;
	return true;
}

bool weights_copy(struct weights *to, const struct weights *from)
{
	memset(to, 0, sizeof(*to));
	to->own = from->own;
	for (unsigned i = 0; i < from->n; i++)
		if (!weights_add(to, &from->rule[i], from->text[i])) {
			weights_free(to);
			return false;
		}
	return true;
}

void weights_free(struct weights *w)
{
	for (unsigned i = 0; i < w->n; i++) {
		free(w->text[i]);
		free((char *)w->rule[i].glob);
	}
	free(w->text);
	free(w->rule);
	memset(w, 0, sizeof(*w));
}

void configuration_init(struct configuration *c)
{
	memset(c, 0, sizeof(*c));
	settings_init(&c->global);
}

void configuration_free(struct configuration *c)
{
	free_all(c->fs, c->n_fs);
	free_all(c->mount, c->n_mounts);
	free_all(c->class, c->n_classes);
	free_all(c->pool, c->n_pools);
	settings_free(&c->global);
	weights_free(&c->weights);
	free(c->file);
	configuration_init(c);
}

static struct settings *add(struct settings **array, unsigned *n)
{
	struct settings *more = realloc(*array, (*n + 1) * sizeof(*more));
	if (!more)
		return NULL;
	*array = more;
	settings_init(&more[*n]);
	return &more[(*n)++];
}

struct settings *configuration_add_fs(struct configuration *c)
{
	return add(&c->fs, &c->n_fs);
}

struct settings *configuration_add_mount(struct configuration *c)
{
	return add(&c->mount, &c->n_mounts);
}

struct settings *configuration_add_class(struct configuration *c)
{
	return add(&c->class, &c->n_classes);
}

struct settings *configuration_add_pool(struct configuration *c)
{
	return add(&c->pool, &c->n_pools);
}

struct settings *settings_add_class(struct settings *mount, const char *name)
{
	struct settings *s = add(&mount->class, &mount->n_classes);
	if (s && !(s->name = strdup(name))) {
		mount->n_classes--;
		return NULL;
	}
	return s;
}

void settings_move_class(struct settings *class, struct settings *before)
{
	struct settings moved = *class;
	memmove(before + 1, before, (char *)class - (char *)before);
	*before = moved;
}

void settings_remove_class(struct settings *mount, const char *name)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < mount->n_classes; i++) {
		if (strcmp(mount->class[i].name, name) == 0)
			settings_free(&mount->class[i]);
		else
			mount->class[kept++] = mount->class[i];
	}
	mount->n_classes = kept;
}

static struct settings *find(struct settings *s, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (s[i].name && strcmp(s[i].name, name) == 0)
			return &s[i];
	return NULL;
}

struct settings *configuration_find_fs(const struct configuration *c, const char *name)
{
	return find(c->fs, c->n_fs, name);
}

struct settings *configuration_find_mount(const struct configuration *c, const char *name)
{
	return find(c->mount, c->n_mounts, name);
}

struct settings *settings_find_class(const struct settings *mount, const char *name)
{
	return find(mount->class, mount->n_classes, name);
}
