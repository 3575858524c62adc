/* SPDX-License-Identifier: MIT */
#include "ctl/volume_api.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "base/util.h"

/* Fills the reply, or err.  Returns an HTTP status. */
typedef int call_fn(struct volumes *v, json_t *request, json_t *reply, struct error *err);

static const char *text_of(const json_t *request, const char *key)
{
	const char *text = json_string_value(json_object_get(request, key));
	return text ? text : "";
}

static int activate(struct volumes *v, json_t *request, json_t *reply, struct error *err)
{
	json_object_set_new(reply, "Implements", json_pack("[s]", "VolumeDriver"));
	return 200;
}

static int capabilities(struct volumes *v, json_t *request, json_t *reply, struct error *err)
{
	json_object_set_new(reply, "Capabilities", json_pack("{ss}", "Scope", "local"));
	return 200;
}

/* Engines send null if there are no options. */
static int create(struct volumes *v, json_t *request, json_t *reply, struct error *err)
{
	json_t *options = json_object_get(request, "Opts"), *value;
	json_t *given = json_is_object(options) ? json_incref(options) : json_object();
	const char *key;
	int rc = 200;
	if (options && !json_is_object(options) && !json_is_null(options)) {
		error_set(err, "Opts: must be an object");
		rc = 400;
	}
	json_object_foreach (given, key, value) {
		if (json_is_string(value) || rc != 200)
			continue;
		error_set(err, "Opts: every value must be a string");
		rc = 400;
	}
	if (rc == 200)
		rc = given ? volumes_create(v, text_of(request, "Name"), given, err) : 500;
	json_decref(given);
	return rc;
}

static int remove_volume(struct volumes *v, json_t *request, json_t *reply, struct error *err)
{
	return volumes_remove(v, text_of(request, "Name"), err);
}

static int add_mountpoint(struct volumes *v, json_t *request, json_t *reply, struct error *err)
{
	json_t *volume = volumes_get(v, text_of(request, "Name"), false);
	if (!volume) {
		error_set(err, "no such volume: '%.128s'", text_of(request, "Name"));
		return 404;
	}
	json_object_set(reply, "Mountpoint", json_object_get(volume, "Mountpoint"));
	json_decref(volume);
	return 200;
}

static int mount_volume(struct volumes *v, json_t *request, json_t *reply, struct error *err)
{
	int rc = volumes_mount(v, text_of(request, "Name"), text_of(request, "ID"), err);
	return rc == 200 ? add_mountpoint(v, request, reply, err) : rc;
}

static int unmount_volume(struct volumes *v, json_t *request, json_t *reply, struct error *err)
{
	return volumes_unmount(v, text_of(request, "Name"), text_of(request, "ID"), err);
}

static int get(struct volumes *v, json_t *request, json_t *reply, struct error *err)
{
	json_t *volume = volumes_get(v, text_of(request, "Name"), true);
	if (!volume) {
		error_set(err, "no such volume: '%.128s'", text_of(request, "Name"));
		return 404;
	}
	json_object_set_new(reply, "Volume", volume);
	return 200;
}

static int list(struct volumes *v, json_t *request, json_t *reply, struct error *err)
{
	json_object_set_new(reply, "Volumes", volumes_list(v));
	return 200;
}

static const struct {
	const char *path;
	call_fn *call;
} calls[] = {
	{"/Plugin.Activate", activate},
	{"/VolumeDriver.Capabilities", capabilities},
	{"/VolumeDriver.Create", create},
	{"/VolumeDriver.Get", get},
	{"/VolumeDriver.List", list},
	{"/VolumeDriver.Mount", mount_volume},
	{"/VolumeDriver.Path", add_mountpoint},
	{"/VolumeDriver.Remove", remove_volume},
	{"/VolumeDriver.Unmount", unmount_volume},
};

static call_fn *find_call(const char *path)
{
	for (unsigned i = 0; i < ARRAY_SIZE(calls); i++)
		if (strcmp(calls[i].path, path) == 0)
			return calls[i].call;
	return NULL;
}

/* List, Activate and Capabilities come with an empty body, with null, or with none. */
static json_t *parse(const char *body, size_t size, struct error *err)
{
	json_error_t where;
	while (size && isspace((unsigned char)*body)) {
		body++;
		size--;
	}
	json_t *request =
		size ? json_loadb(body, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where)
		     : json_object();
	if (request && (json_is_object(request) || json_is_null(request)))
		return request;
	error_set(err, "the request is not a JSON object%s%s", request || !size ? "" : ": ",
		  request || !size ? "" : where.text);
	json_decref(request);
	return NULL;
}

/* A text that was cut to its length may end in the middle of a character, which JSON cannot express. */
static json_t *text_new(char *text)
{
	json_t *out = json_string(text);
	for (char *p = text; !out && *p; p++)
		if (!isascii((unsigned char)*p))
			*p = '?';
	return out ? out : json_string(text);
}

char *volume_api_call(struct volumes *v, const char *path, const char *body, size_t size,
		      unsigned *status)
{
	struct error err = ERROR_INIT;
	call_fn *call = find_call(path);
	json_t *reply = json_object(), *request = call ? parse(body, size, &err) : NULL;
	*status = 400;
	if (!call) {
		*status = 404;
		error_set(&err, "unknown call; see ratefs-volume(8)");
	} else if (request) {
		*status = call(v, request, reply, &err);
	}
	make_one_line(err.text);
	if (*status != 200 &&
	    *status != 404) /* engines routinely ask for volumes that do not exist */
		log_info("%s: %s", path, err.text);
	json_object_set_new(reply, "Err", text_new(err.text));
	char *text = json_dumps(reply, JSON_COMPACT);
	json_decref(reply);
	json_decref(request);
	return text;
}
