/* SPDX-License-Identifier: MIT */
/* The commands that send one request to a daemon and print its answer. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mount_users.h"
#include "base/text.h"
#include "ctl/containers.h"
#include "ctl/ctl.h"
#include "ctl/names.h"
#include "ctl/render.h"
#include "ctl/save.h"

int ctl_complain(enum proto_code code, const char *text)
{
	fprintf(stderr, "ratefsctl: %s\n", text);
	return proto_exit_status(code);
}

int ctl_silent(const struct ctl *c)
{
	for (unsigned i = 0; i < c->daemons.n_silent; i++)
		ctl_complain(PROTO_FAILED, c->daemons.silent[i]);
	return c->daemons.n_silent ? proto_exit_status(PROTO_FAILED) : 0;
}

/* --- requests ------------------------------------------------------------------------------- */

static int no_memory(struct error *err)
{
	return error_set(err, "out of memory");
}

/* "KEY=VALUE".  User and group names become numbers here, because a running daemon must not look them up. */
static int add_value(json_t *values, const char *word, struct error *err)
{
	AUTO_FREE char *numbers = with_numbers(word, err);
	if (!numbers)
		return error_is_set(err) ? -1 : no_memory(err);
	char *eq = strchr(numbers, '=');
	if (!eq)
		return error_set(err, "'%s': write KEY=VALUE", word);
	*eq = '\0';
	if (json_object_get(values, numbers))
		return error_set(err, "'%s': is given twice", numbers);
	if (!text_is_utf8(numbers) || !text_is_utf8(eq + 1))
		return error_set(err, "'%s': is not UTF-8", word);
	return json_object_set_new(values, numbers, json_string(eq + 1)) < 0 ? no_memory(err) : 0;
}

/* Adds the words after the target to the request. */
static int add_words(struct ctl *c, json_t *request, struct error *err)
{
	int at = 1;
	if (strcmp(c->command->does, "class-add") == 0) {
		if (strchr(c->word[at], '='))
			return error_set(err, "the name of the class is missing");
		if (json_object_set_new(request, "class", json_string(c->word[at++])) < 0)
			return error_set(err, "the name of the class is not UTF-8");
	}
	json_t *values = c->n > at ? json_object() : NULL;
	if (c->n > at && json_object_set_new(request, "values", values) < 0)
		return no_memory(err);
	for (; at < c->n; at++)
		if (add_value(values, c->word[at], err) < 0)
			return -1;
	if (c->before && json_object_set_new(request, "before", json_string(c->before)) < 0)
		return error_set(err, "--before: '%s' is not UTF-8", c->before);
	if (c->force && json_object_set_new(request, "force", json_true()) < 0)
		return no_memory(err);
	return 0;
}

/* Lists the processes that use a mount, which therefore was not unmounted, one per line. */
static void name_users(const char *mount, dev_t device, bool many)
{
	struct mount_users u;
	mount_users_find(&u, device);
	for (unsigned i = 0; i < u.n; i++) {
		fprintf(stderr, "  %s%s", many ? mount : "", many ? ": " : "");
		mount_user_print(&u.user[i], stderr);
		fputc('\n', stderr);
	}
	if (u.hidden && !u.n)
		fprintf(stderr, "  %s%s%s\n", many ? mount : "", many ? ": " : "",
			geteuid() == 0 ? "processes that cannot be inspected from here"
				       : "processes of other users, which only root can see");
	mount_users_free(&u);
}

static void explain(enum proto_code code, const json_t *answer, const struct error *err)
{
	AUTO_FREE char *text = answer_error(answer); /* several lines for a reload of a bad file */
	const json_t *in_use = get_part(get_part(answer, "error"), "in_use"), *m;
	size_t i;
	ctl_complain(code, text ? text : err->text);
	json_array_foreach (in_use, i, m)
		name_users(get_text(m, "mount"), get_u64(m, "device"), json_array_size(in_use) > 1);
}

static void put_notes(const json_t *answer)
{
	const json_t *note;
	size_t i;
	json_array_foreach (get_part(answer, "notes"), i, note)
		puts(json_string_value(note));
}

enum proto_code ctl_ask(struct ctl *c, struct daemon_ref *d, const char *target, json_t **answer)
{
	struct error err = ERROR_INIT;
	AUTO_JSON *request = request_new(c->command->does, target);
	*answer = NULL;
	if (request && add_words(c, request, &err) < 0) {
		if (target)
			error_prefix(&err, "%s", target);
		ctl_complain(PROTO_BAD_ARGUMENT, err.text);
		return PROTO_BAD_ARGUMENT;
	}
	enum proto_code code = daemon_call(d, json_incref(request), answer, &err);
	if (code) {
		put_notes(*answer);
		explain(code, *answer, &err);
	}
	return code;
}

/* --- answers -------------------------------------------------------------------------------- */

static int save(const struct ctl *c, const json_t *answer)
{
	const char *scope = get_text(answer, "scope"), *name = get_text(answer, "section"), *key;
	json_t *values = get_part(answer, "values"), *value;
	struct error err = ERROR_INIT;
	AUTO_FREE struct save_value *v = calloc(json_object_size(values) + 1, sizeof(*v));
	AUTO_FREE char *section = NULL, *before = NULL;
	unsigned n = 0;
	bool global = strcmp(scope, "global") == 0;
	if (!v || asprintf(&section, "%s%s%s", scope, global ? "" : ":", global ? "" : name) < 0 ||
	    (c->before && asprintf(&before, "class:%s", c->before) < 0))
		return ctl_complain(PROTO_NO_MEMORY, "changed, but not saved: out of memory");
	json_object_foreach (values, key, value)
		v[n++] = (struct save_value){key, json_string_value(value)};
	const struct save_section where = {section, before};
	if (save_file(get_text(answer, "file"), where, v, n, &err) == 0)
		return 0;
	error_prefix(&err, "changed, but not saved");
	return ctl_complain(PROTO_FAILED, err.text);
}

/* The names of programs may contain control codes above ASCII, which a terminal must not get; escaped, they mean the same. */
void ctl_put_json(const json_t *json)
{
	json_dumpf(json, stdout,
		   PROTO_DUMP_FLAGS | (isatty(STDOUT_FILENO) ? JSON_ENSURE_ASCII : 0));
}

static void put_json(const json_t *json)
{
	ctl_put_json(json);
	putchar('\n');
}

static int present(struct ctl *c, json_t *answer)
{
	render_prepare(answer, !c->json);
	if (c->json) {
		put_json(answer);
	} else {
		if (c->command->render)
			c->command->render(answer, stdout);
		put_notes(answer);
	}
	return c->save ? save(c, answer) : 0;
}

/* What a target is, and the configuration file that it is in; to be released.  NULL: the daemon does not answer. */
static json_t *find(struct daemon_ref *d, const char *target)
{
	struct error err = ERROR_INIT;
	json_t *answer;
	if (daemon_call(d, request_new("find", target), &answer, &err) == PROTO_OK)
		return answer;
	json_decref(answer);
	return NULL;
}

/* 1: the file has a section for the class, 0: it has none, -1 with err. */
static int has_class(const char *file, const char *class, struct error *err)
{
	AUTO_FREE char *section = NULL;
	if (asprintf(&section, "class:%s", class) < 0)
		return error_set(err, "out of memory");
	return save_has_section(file, section, err);
}

/* 0, or -1 with err: the file has no section for a class that one in it must refer to, or whose options are saved. */
static int need_class(const char *file, const char *class, const char *why, struct error *err)
{
	int rc = has_class(file, class, err);
	if (rc == 0)
		rc = error_set(err,
			       "%s has no section [class:%s]%s; add it there, or leave --save out",
			       file, class, why);
	return rc < 0 ? -1 : 0;
}

/* Refuses to save a new class if the file has a class of that name for other mounts: adding to its
 * section would change them. */
static int check_new_section(const struct ctl *c, const char *file, struct error *err)
{
	int rc = has_class(file, c->word[1], err);
	if (rc > 0)
		rc = error_set(err, "%s already has a section [class:%s]: edit it, then reload",
			       file, c->word[1]);
	if (rc == 0 && c->before && (rc = has_class(file, c->before, err)) == 0)
		return error_set(err, "%s has no section [class:%s] to put the new one before",
				 file, c->before);
	return rc < 0 ? -1 : 0;
}

/* The class that contains the one that is set or added, as the words of the command line say; NULL: they do not say, or none. */
static const char *parent_given(const struct ctl *c)
{
	static const char key[] = "parent=";
	const char *parent = NULL;
	for (int i = 1; i < c->n; i++)
		if (strncasecmp(c->word[i], key, strlen(key)) == 0)
			parent = c->word[i] + strlen(key);
	return !parent || !*parent || strcasecmp(parent, "none") == 0 ? NULL : parent;
}

/* A daemon does not start with a file in which a class has no match, or a parent that the file does not have. */
static int check_section(const struct ctl *c, const json_t *found, struct error *err)
{
	const char *file = get_text(found, "file");
	const char *class = strrchr(get_text(found, "name"), '/'), *parent = parent_given(c);
	bool adds = strcmp(c->command->does, "class-add") == 0;
	if (adds && check_new_section(c, file, err) < 0)
		return -1;
	if (!adds && strcmp(get_text(found, "scope"), "class") != 0)
		return 0;
	if (!adds && class && need_class(file, class + 1, "", err) < 0)
		return -1;
	return parent ? need_class(file, parent, " for the parent", err) : 0;
}

static int check_file(struct ctl *c, struct daemon_ref *d, const char *target)
{
	struct error err = ERROR_INIT;
	AUTO_JSON *found = find(d, target);
	if (!*get_text(found, "file"))
		return ctl_complain(
			PROTO_NO_FILE,
			"nothing was changed: the target has no configuration file to save to; leave --save out");
	if (check_section(c, found, &err) == 0)
		return 0;
	error_prefix(&err, "nothing was changed");
	return ctl_complain(PROTO_FAILED, err.text);
}

static int run_once(struct ctl *c, struct daemon_ref *d, const char *target)
{
	json_t *answer;
	int refused = c->save ? check_file(c, d, target) : 0;
	if (refused)
		return refused;
	enum proto_code code = ctl_ask(c, d, target, &answer);
	int rc = code ? proto_exit_status(code) : present(c, answer);
	json_decref(answer);
	return rc;
}

enum proto_code ctl_locate(struct ctl *c, struct daemon_ref **d, char **name)
{
	struct error err = ERROR_INIT;
	enum proto_code code = daemons_locate(&c->daemons, c->word[0], d, name, &err);
	if (code) {
		ctl_complain(code, err.text);
		ctl_silent(c); /* it may be a target of one of these */
	}
	return code;
}

int run_on_target(struct ctl *c)
{
	struct daemon_ref *d = NULL;
	AUTO_FREE char *name = NULL;
	enum proto_code code = ctl_locate(c, &d, &name);
	return code ? proto_exit_status(code) : run_once(c, d, name);
}

/* --- containers ----------------------------------------------------------------------------- */

static bool has_text(const json_t *list, const char *text)
{
	const json_t *one;
	size_t i;
	json_array_foreach (list, i, one) {
		if (strcmp(json_string_value(one), text) == 0)
			return true;
	}
	return false;
}

/* True: the container has it only because it has a copy of the host's tree, for example at /rootfs. */
static bool is_copy(const struct container_mount *m, const json_t *mount)
{
	const char *mountpoint = get_text(mount, "mountpoint");
	return strcmp(m->where, mountpoint) != 0 && container_mount_is_hosts(m, mountpoint);
}

/* Matches mounts in containers with those of the list by their device. */
static void note_container(void *ctx, const struct container_mount *m)
{
	json_t *mount;
	size_t i;
	json_array_foreach (get_part(ctx, "mounts"), i, mount) {
		json_t *list = get_part(mount, "containers");
		if (*m->container && get_u64(mount, "device") == m->device && !is_copy(m, mount) &&
		    !has_text(list, m->container))
			json_array_append_new(list, json_string(m->container));
	}
}

static void add_containers(json_t *answer)
{
	json_t *mount;
	size_t i;
	json_array_foreach (get_part(answer, "mounts"), i, mount) {
		dev_t device;
		if (!mount_device(get_text(mount, "mountpoint"), &device))
			device = 0;
		json_object_set_new(mount, "device", json_integer((json_int_t)device));
		json_object_set_new(mount, "containers", json_array());
	}
	containers_each(note_container, answer);
	json_array_foreach (get_part(answer, "mounts"), i, mount) {
		json_object_del(mount, "device");
	}
}

/* --- several daemons ------------------------------------------------------------------------ */

/* True: a limit is marked as a bottleneck. */
static bool list_one(struct ctl *c, json_t *answer, bool first)
{
	if (!c->command->render) /* not `class list`, whose answer has no mountpoints */
		add_containers(answer);
	render_prepare(answer, !c->json);
	if (c->json) {
		fputs(first ? "{\"daemons\":[" : ",", stdout);
		ctl_put_json(answer);
		return false;
	}
	if (c->command->render) {
		c->command->render(answer, stdout);
		return false;
	}
	if (first)
		render_list_head(stdout);
	return render_list(answer, stdout);
}

int run_list(struct ctl *c)
{
	int rc = 0, listed = 0;
	bool marked = false;
	if (c->n)
		return run_on_target(c);
	rc = ctl_silent(c);
	for (unsigned i = 0; i < c->daemons.n; i++) {
		json_t *answer;
		enum proto_code code = ctl_ask(c, &c->daemons.daemon[i], NULL, &answer);
		if (code)
			rc = proto_exit_status(code);
		else
			marked |= list_one(c, answer, listed++ == 0);
		json_decref(answer);
	}
	if (c->json && listed)
		fputs("]}\n", stdout);
	if (marked)
		render_list_foot(stdout);
	return rc;
}

int run_everywhere(struct ctl *c)
{
	int rc = 0, asked = 0;
	if (c->n)
		return run_on_target(c);
	rc = ctl_silent(c);
	for (unsigned i = 0; i < c->daemons.n; i++) {
		AUTO_JSON *found = find(&c->daemons.daemon[i], "global");
		if (!found ||
		    (strcmp(c->command->does, "reload") == 0 && !*get_text(found, "file")))
			continue;
		int one = run_once(c, &c->daemons.daemon[i], NULL);
		rc = one ? one : rc;
		asked++;
	}
	return asked ? rc : ctl_complain(PROTO_NO_FILE, "no daemon has a configuration file");
}

/* --- all mounts ----------------------------------------------------------------------------- */

/* A mount that stats or watch shows. */
struct view {
	struct daemon_ref *daemon;
	char *name;
};

struct views {
	struct view *view;
	unsigned n;
};

static bool add_view(struct views *all, struct daemon_ref *d, const char *name)
{
	struct view *more = realloc(all->view, (all->n + 1) * sizeof(*more));
	if (!more)
		return false;
	all->view = more;
	more[all->n] = (struct view){d, strdup(name)};
	all->n += more[all->n].name != NULL;
	return true;
}

static void add_mounts(struct views *all, struct daemon_ref *d)
{
	struct error err = ERROR_INIT;
	const json_t *mount;
	json_t *answer;
	size_t i;
	if (daemon_call(d, request_new("list", NULL), &answer, &err) == PROTO_OK)
		json_array_foreach (get_part(answer, "mounts"), i, mount)
			add_view(all, d, get_text(mount, "name"));
	json_decref(answer);
}

static void free_views(struct views *all)
{
	for (unsigned i = 0; i < all->n; i++)
		free(all->view[i].name);
	free(all->view);
}

/* The target, or without one all mounts of all daemons that answer; complains about the others.  0, or the exit status if
 * nothing is left to be shown. */
static int find_views(struct ctl *c, struct views *all)
{
	struct daemon_ref *d = NULL;
	AUTO_FREE char *name = NULL;
	*all = (struct views){0};
	if (c->n) {
		enum proto_code code = ctl_locate(c, &d, &name);
		if (code)
			return proto_exit_status(code);
		add_view(all, d, name);
	} else {
		ctl_silent(c);
	}
	for (unsigned i = 0; !c->n && i < c->daemons.n; i++)
		add_mounts(all, &c->daemons.daemon[i]);
	return all->n ? 0 : ctl_complain(PROTO_NO_TARGET, "there are no mounts");
}

/* The exit status of a command that has shown everything of the daemons that answer. */
static int shown(const struct ctl *c)
{
	return !c->n && c->daemons.n_silent ? proto_exit_status(PROTO_FAILED) : 0;
}

int run_on_mounts(struct ctl *c)
{
	struct views all;
	int rc = find_views(c, &all);
	rc = rc ? rc : shown(c);
	for (unsigned i = 0; i < all.n; i++) {
		if (i && !c->json)
			putchar('\n');
		int one = run_once(c, all.view[i].daemon, all.view[i].name);
		rc = one ? one : rc;
	}
	free_views(&all);
	return rc;
}

static int put_view(struct ctl *c, const struct view *v)
{
	AUTO_JSON *now = NULL;
	enum proto_code code = ctl_ask(c, v->daemon, v->name, &now);
	if (code)
		return proto_exit_status(code);
	render_prepare(now, false);
	put_json(now);
	return 0;
}

/* With --json, prints one object of statistics per mount and second; otherwise runs top. */
int run_watch(struct ctl *c)
{
	struct views all;
	if (!c->json)
		return run_plain_top(c);
	int rc = find_views(c, &all);
	while (rc == 0 && !ferror(stdout)) {
		for (unsigned i = 0; i < all.n && rc == 0; i++)
			rc = put_view(c, &all.view[i]);
		fflush(stdout);
		if (rc == 0)
			sleep(1);
	}
	free_views(&all);
	return rc ? rc : shown(c);
}
