/* SPDX-License-Identifier: MIT */
/* ratefs-volume, with a table of functions in the place of the daemon. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "ctl/containers.h"
#include "ctl/volume_api.h"
#include "ctl/volume_check.h"
#include "ctl/volume_tree.h"
#include "unit/unit.h"

/* --- a fake daemon ---------------------------------------------------------------------------- */

struct fake {
	bool mount_fails, in_use, check_fails, shows_another, silent;
	int pending;	    /* this many calls find the mount still being made */
	bool fails_at_last; /* … and then it fails */
	uint64_t requests;
	unsigned mounts, unmounts, asked;
	char mounted[64]; /* the last one */
	char checked[1000];
};

static int fake_mount(void *ctx, const char *name, struct error *err)
{
	struct fake *f = ctx;
	if (f->mount_fails)
		return error_set(err, "no daemon today");
	if (f->pending && f->pending--) {
		f->mount_fails = f->fails_at_last;
		return 1;
	}
	f->mounts++;
	snprintf(f->mounted, sizeof(f->mounted), "%s", name);
	return 0;
}

static int fake_unmount(void *ctx, const char *name, struct error *err)
{
	struct fake *f = ctx;
	if (f->in_use) {
		error_set(err, "in use by sh (process 1)");
		return 1;
	}
	f->unmounts++;
	return 0;
}

static json_t *fake_status(void *ctx, const char *name)
{
	return json_pack("{si}", "waiting", 3);
}

static bool fake_requests(void *ctx, const char *name, uint64_t *n)
{
	struct fake *f = ctx;
	f->asked++;
	*n = f->silent ? 0 : f->requests;
	return !f->silent;
}

static int fake_check(void *ctx, const char *text, struct error *err)
{
	struct fake *f = ctx;
	snprintf(f->checked, sizeof(f->checked), "%s", text);
	return f->check_fails ? error_set(err, "iops: 'x': not a number") : 0;
}

static bool fake_shows(void *ctx, const char *name, const struct stat *directory)
{
	const struct fake *f = ctx;
	return !f->shows_another;
}

static const struct volume_daemon_ops fake_ops = {fake_mount,	 fake_unmount, fake_status,
						  fake_requests, fake_shows,   fake_check};

/* --- a plugin in a directory of its own ------------------------------------------------------- */

struct world {
	char dir[64], state[80], source[80];
	struct fake fake;
	struct volumes v;
	char *allowed[1];
};

static void open_volumes(struct world *w)
{
	struct error err = ERROR_INIT;
	w->v = (struct volumes){.setup = {.state_dir = w->state,
					  .head = "/nonexistent",
					  .control = "/run/x.sock",
					  .allowed = w->allowed,
					  .n_allowed = 1},
				.daemon = &fake_ops,
				.daemon_ctx = &w->fake};
	ck_assert_msg(volumes_open(&w->v, &err) == 0, "%s", err.text);
	ck_assert_msg(volumes_begin(&w->v, &err) == 0, "%s", err.text);
	ck_assert(volume_options_parse(&w->v.known, "iops\tmount\trate\tOPS\toff\n"
						    "ro\tmount\tfuse-flag\t\tno\n"));
}

static void setup(struct world *w)
{
	log_set_level(LOG_LEVEL_ERROR);
	memset(w, 0, sizeof(*w));
	snprintf(w->dir, sizeof(w->dir), "/tmp/test_volume.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(w->dir));
	snprintf(w->state, sizeof(w->state), "%s/state", w->dir);
	snprintf(w->source, sizeof(w->source), "%s/source", w->dir);
	ck_assert_int_eq(mkdir(w->source, 0755), 0);
	w->allowed[0] = w->source;
	open_volumes(w);
}

static void teardown(struct world *w)
{
	volumes_close(&w->v);
	ck_assert_int_eq(volume_tree_delete(AT_FDCWD, w->dir), 0);
}

/* Calls the plugin and returns the HTTP status; the answer, `last`, lives until the next call. */
static json_t *last;
static unsigned call(struct world *w, const char *path, const char *body)
{
	unsigned status;
	char *text = volume_api_call(&w->v, path, body, strlen(body), &status);
	ck_assert_ptr_nonnull(text);
	json_decref(last);
	last = json_loads(text, 0, NULL);
	free(text);
	ck_assert_ptr_nonnull(last);
	/* status and text must agree */
	ck_assert((status == 200) == (*json_string_value(json_object_get(last, "Err")) == '\0'));
	return status;
}

static const char *said(const char *key)
{
	const char *text = json_string_value(json_object_get(last, key));
	return text ? text : "(nothing)";
}

#define CREATE	"/VolumeDriver.Create"
#define REMOVE	"/VolumeDriver.Remove"
#define MOUNT	"/VolumeDriver.Mount"
#define UNMOUNT "/VolumeDriver.Unmount"
#define GET	"/VolumeDriver.Get"
#define LIST	"/VolumeDriver.List"

static char *conf_of(struct world *w)
{
	char path[100];
	snprintf(path, sizeof(path), "%s/ratefs.conf", w->state);
	char *text = volume_read_file(path);
	return text ? text : strdup("");
}

/* --- names, options, sources ------------------------------------------------------------------ */

START_TEST(a_name_is_one_harmless_word)
{
	static const char *const bad[] = {"",	 ".",	 "..",	"../x", "a/b",	    "-rf",
					  "a b", "a\nb", "[x]", "a]",	"\xc3\xa4", "a\"b",
					  "_x",	 "a:b",	 "a=b", "a%n",	"a\\",	    "\x01"};
	static const char *const good[] = {"a", "0", "box", "Box_1.2-3", "global.x"};
	struct error err = ERROR_INIT;
	char long_name[VOLUME_NAME_MAX + 2];
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(volume_check_name(bad[i], &err) < 0, "'%s' is accepted", bad[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(good); i++)
		ck_assert_int_eq(volume_check_name(good[i], &err), 0);
	memset(long_name, 'a', sizeof(long_name));
	long_name[VOLUME_NAME_MAX + 1] = '\0';
	ck_assert_int_lt(volume_check_name(long_name, &err), 0);
	long_name[VOLUME_NAME_MAX] = '\0';
	ck_assert_int_eq(volume_check_name(long_name, &err), 0);
}
END_TEST

START_TEST(an_option_stays_in_its_line_and_off_what_is_the_drivers)
{
	static const char *const bad[][2] = {
		{"iops", "1\nsource = /etc"},
		{"iops", "1\"\""},
		{"iops", "'"},
		{"iops", "1\\"},
		{"iops", "\x7f"},
		{"i ops", "1"},
		{"a]\n[mount:x", "1"},
		{"", "1"},
		{"mountpoint", "/etc"},
		{"MountPoint", "/etc"},
		{"name", "x"},
		{"fs", "x"},
		{"options", "source=/etc"},
		{"fsname", "x"},
		{"iops=1#", "1"},
	};
	struct error err = ERROR_INIT;
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(volume_check_option(bad[i][0], bad[i][1], &err) < 0,
			      "%s=%s is accepted", bad[i][0], bad[i][1]);
	ck_assert_int_eq(volume_check_option("weight", "uid:0=4+cgroup:/ci/**=2", &err), 0);
	ck_assert_int_eq(volume_check_option("each.write-bps", "1M # x", &err), 0);
}
END_TEST

START_TEST(a_source_lies_below_an_allowed_directory_whatever_links_say)
{
	struct world w;
	char path[200];
	struct error err = ERROR_INIT;
	setup(&w);
	snprintf(path, sizeof(path), "%s/in", w.source);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	AUTO_FREE char *in = volume_check_source(path, w.allowed, 1, &err);
	ck_assert_str_eq(in, path);
	AUTO_FREE char *self = volume_check_source(w.source, w.allowed, 1, &err);
	ck_assert_str_eq(self, w.source);
	ck_assert_ptr_null(volume_check_source("/etc", w.allowed, 1, &err));
	ck_assert_ptr_null(volume_check_source(path, w.allowed, 0, &err));
	ck_assert_ptr_null(volume_check_source("etc", w.allowed, 1, &err));
	snprintf(path, sizeof(path), "%s/../state", w.source);
	ck_assert_ptr_null(volume_check_source(path, w.allowed, 1, &err));
	snprintf(path, sizeof(path), "%s/link", w.source);
	ck_assert_int_eq(symlink("/etc", path), 0);
	ck_assert_ptr_null(volume_check_source(path, w.allowed, 1, &err));
	/* "source-else" is not below "source" */
	snprintf(path, sizeof(path), "%s-else", w.source);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	ck_assert_ptr_null(volume_check_source(path, w.allowed, 1, &err));
	ck_assert(volume_sources_overlap("/a", "/a/b") && volume_sources_overlap("/a/b", "/a"));
	ck_assert(!volume_sources_overlap("/a", "/a") && !volume_sources_overlap("/a", "/ab"));
	teardown(&w);
}
END_TEST

START_TEST(a_source_is_not_nested_in_another_and_is_checked_again_at_mount)
{
	struct world w;
	char path[200], body[400];
	setup(&w);
	snprintf(path, sizeof(path), "%s/sub", w.source);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	snprintf(body, sizeof(body), "{\"Name\":\"a\",\"Opts\":{\"source\":\"%s\"}}", path);
	ck_assert_uint_eq(call(&w, CREATE, body), 200);
	snprintf(body, sizeof(body), "{\"Name\":\"b\",\"Opts\":{\"source\":\"%s\"}}", w.source);
	ck_assert_uint_eq(call(&w, CREATE, body), 400);
	ck_assert_ptr_nonnull(strstr(said("Err"), "overlaps"));
	snprintf(body, sizeof(body),
		 "{\"Name\":\"b\",\"Opts\":{\"source\":\"%s\",\"Source\":\"/etc\"}}", path);
	ck_assert_uint_eq(call(&w, CREATE, body), 400);
	ck_assert_str_eq(said("Err"), "source: is given twice");
	snprintf(body, sizeof(body), "{\"Name\":\"b\",\"Opts\":{\"Source\":\"%s\"}}", path);
	ck_assert_uint_eq(call(&w, CREATE, body), 200); /* shared */
	/* replaced for a moment, while the daemon opened it */
	w.fake.shows_another = true;
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 500);
	ck_assert_ptr_nonnull(strstr(said("Err"), "has been replaced"));
	ck_assert_uint_eq(w.fake.unmounts, 1);
	w.fake.shows_another = false;
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	ck_assert_uint_eq(call(&w, UNMOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	w.fake.mounts = 0;
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert_int_eq(symlink("/etc", path), 0);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 500);
	ck_assert_uint_eq(w.fake.mounts, 0);
	/* a source is not deleted with the volume */
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 200);
	struct stat st;
	ck_assert_int_eq(lstat(path, &st), 0);
	teardown(&w);
}
END_TEST

/* --- the configuration file ------------------------------------------------------------------- */

START_TEST(a_flag_needs_no_value_and_others_do)
{
	struct world w;
	setup(&w);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\",\"Opts\":{\"iops\":\"\"}}"), 400);
	ck_assert_str_eq(said("Err"), "iops: needs a value; write iops=OPS");
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\",\"Opts\":{\"ro\":\"\"}}"), 200);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	AUTO_FREE char *conf = conf_of(&w);
	ck_assert_ptr_nonnull(strstr(conf, "\nro = \"yes\"\n"));
	ck_assert_ptr_nonnull(strstr(conf, "\nnosuid = yes\n"));
	teardown(&w);
}
END_TEST

START_TEST(what_set_save_changed_is_kept_while_others_come_and_when_the_volume_goes)
{
	struct world w;
	setup(&w);
	struct error err = ERROR_INIT;
	char path[100];
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\",\"Opts\":{\"iops\":\"5\"}}"), 200);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"b\"}"), 200);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	AUTO_FREE char *conf = conf_of(&w);
	char *five = strstr(conf, "iops = \"5\"");
	ck_assert_ptr_nonnull(five);
	five[8] = '7';
	snprintf(path, sizeof(path), "%s/ratefs.conf", w.state);
	ck_assert_int_eq(volume_write_file(path, conf, SYNC_DATA, &err), 0);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"b\",\"ID\":\"1\"}"), 200);
	AUTO_FREE char *both = conf_of(&w);
	ck_assert_ptr_nonnull(strstr(both, "iops = \"7\""));
	ck_assert_ptr_nonnull(strstr(both, "[mount:v2]"));
	ck_assert_uint_eq(call(&w, UNMOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	AUTO_FREE char *rest = conf_of(&w);
	ck_assert_ptr_null(strstr(rest, "[mount:v1]"));
	ck_assert_ptr_nonnull(strstr(rest, "[mount:v2]"));
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"2\"}"), 200);
	AUTO_FREE char *again = conf_of(&w);
	ck_assert_ptr_nonnull(strstr(again, "iops = \"7\""));
	teardown(&w);
}
END_TEST

START_TEST(the_control_socket_goes_into_the_administrators_global_section)
{
	AUTO_FREE char *none = volume_conf_head("", "/c");
	ck_assert_str_eq(none, "[global]\ncontrol = \"/c\"\non_mount_error = continue\n\n");
	AUTO_FREE char *some = volume_conf_head("# all\n[ Global ]\nbps = 1M\n", "/c");
	ck_assert_str_eq(some, "# all\n[ Global ]\ncontrol = \"/c\"\non_mount_error = continue\n"
			       "bps = 1M\n\n");
}
END_TEST

static unsigned occurrences(const char *text, const char *part)
{
	unsigned n = 0;
	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

START_TEST(volumes_with_one_source_share_one_fs)
{
	struct world w;
	char body[400], source[100];
	setup(&w);
	snprintf(source, sizeof(source), "source = \"%s\"", w.source);
	for (int i = 0; i < 2; i++) {
		snprintf(body, sizeof(body), "{\"Name\":\"%c\",\"Opts\":{\"source\":\"%s\"}}",
			 'a' + i, w.source);
		ck_assert_uint_eq(call(&w, CREATE, body), 200);
		snprintf(body, sizeof(body), "{\"Name\":\"%c\",\"ID\":\"1\"}", 'a' + i);
		ck_assert_uint_eq(call(&w, MOUNT, body), 200);
	}
	AUTO_FREE char *both = conf_of(&w);
	ck_assert_uint_eq(occurrences(both, "[fs:s"), 1);
	ck_assert_uint_eq(occurrences(both, source), 1);
	ck_assert_uint_eq(occurrences(both, "\nfs = \"s"), 2);
	ck_assert_uint_eq(occurrences(both, "\nsource_nofollow = yes\n"), 2);
	/* --save may have changed it */
	struct error err = ERROR_INIT;
	char path[100];
	AUTO_FREE char *changed = NULL;
	char *at = strstr(both, source);
	ck_assert_int_gt(asprintf(&changed, "%.*siops = \"7\"\n%s", (int)(at - both), both, at), 0);
	snprintf(path, sizeof(path), "%s/ratefs.conf", w.state);
	ck_assert_int_eq(volume_write_file(path, changed, SYNC_DATA, &err), 0);
	ck_assert_uint_eq(call(&w, UNMOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	AUTO_FREE char *one = conf_of(&w);
	ck_assert_uint_eq(occurrences(one, "iops = \"7\""), 1);
	ck_assert_uint_eq(occurrences(one, "[mount:v"), 1);
	ck_assert_uint_eq(call(&w, UNMOUNT, "{\"Name\":\"b\",\"ID\":\"1\"}"), 200);
	AUTO_FREE char *none = conf_of(&w);
	ck_assert_uint_eq(occurrences(none, "[fs:s"), 0);
	teardown(&w);
}
END_TEST

START_TEST(options_are_checked_together_with_what_the_administrator_wrote)
{
	struct world w;
	char path[100];
	struct error err = ERROR_INIT;
	setup(&w);
	snprintf(path, sizeof(path), "%s/volume.conf", w.dir);
	ck_assert_int_eq(volume_write_file(path, "[pool:farm]\nbps = 1G\n", SYNC_DATA, &err), 0);
	w.v.setup.head = path;
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\",\"Opts\":{\"pool\":\"farm\"}}"), 200);
	ck_assert_ptr_nonnull(strstr(w.fake.checked, "[pool:farm]"));
	ck_assert_ptr_nonnull(strstr(w.fake.checked, "pool = \"farm\""));
	w.v.setup.head = "/nonexistent";
	teardown(&w);
}
END_TEST

START_TEST(the_options_of_a_volume_have_an_end)
{
	struct world w;
	char body[8000];
	setup(&w);
	int n = snprintf(body, sizeof(body), "{\"Name\":\"a\",\"Opts\":{");
	for (int i = 0; i < 6; i++)
		n += snprintf(body + n, sizeof(body) - n, "%s\"x%d\":\"%0700d\"", i ? "," : "", i,
			      0);
	snprintf(body + n, sizeof(body) - n, "}}");
	ck_assert_uint_eq(call(&w, CREATE, body), 400);
	ck_assert_str_eq(said("Err"), "the options of a volume are longer than 4096 bytes");
	teardown(&w);
}
END_TEST

START_TEST(problems_are_told_without_the_name_of_a_file)
{
	AUTO_FREE char *text =
		volume_conf_problems("ratefs: /x/check.conf:8: [mount:v1] iops: bad\n"
				     "ratefs: /x/check.conf:9: [mount:v1] unknown "
				     "option 'foo'\n");
	ck_assert_str_eq(text, "iops: bad; unknown option 'foo'");
	AUTO_FREE char *head =
		volume_conf_problems("ratefs: /x/check.conf:2: [global] iops: bad\n");
	ck_assert_str_eq(head, "[global] iops: bad");
}
END_TEST

/* --- calls ------------------------------------------------------------------------------------ */

START_TEST(a_volume_lives_from_create_to_remove)
{
	struct world w;
	char path[200];
	struct stat st;
	setup(&w);
	ck_assert_uint_eq(call(&w, "/Plugin.Activate", ""), 200);
	ck_assert_str_eq(json_string_value(json_array_get(json_object_get(last, "Implements"), 0)),
			 "VolumeDriver");
	ck_assert_uint_eq(call(&w, "/VolumeDriver.Capabilities", "{}"), 200);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\",\"Opts\":{\"iops\":\"5\"}}"), 200);
	ck_assert_uint_eq(call(&w, LIST, ""), 200);
	ck_assert_uint_eq(json_array_size(json_object_get(last, "Volumes")), 1);
	snprintf(path, sizeof(path), "%s/data/a-1", w.state);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	snprintf(path, sizeof(path), "%s/mnt/a", w.state);
	ck_assert_str_eq(said("Mountpoint"), path);
	ck_assert_str_eq(w.fake.mounted, "a");
	ck_assert_uint_eq(call(&w, GET, "{\"Name\":\"a\"}"), 200);
	json_t *status = json_object_get(json_object_get(last, "Volume"), "Status");
	ck_assert_int_eq(json_integer_value(json_object_get(status, "waiting")), 3);
	ck_assert_int_eq(json_integer_value(json_object_get(status, "references")), 1);
	ck_assert_uint_eq(call(&w, UNMOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	ck_assert_uint_eq(w.fake.unmounts, 1);
	ck_assert_uint_eq(call(&w, "/VolumeDriver.Path", "{\"Name\":\"a\"}"), 200);
	ck_assert_str_eq(said("Mountpoint"), "");
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 200);
	ck_assert_uint_eq(call(&w, GET, "{\"Name\":\"a\"}"), 404);
	ck_assert_ptr_nonnull(strstr(said("Err"), "no such volume"));
	snprintf(path, sizeof(path), "%s/data/a-1", w.state);
	ck_assert_int_lt(stat(path, &st), 0);
	teardown(&w);
}
END_TEST

START_TEST(a_volume_is_unmounted_when_the_last_of_its_users_has_gone)
{
	struct world w;
	setup(&w);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\",\"Opts\":null}"), 200);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200); /* once more */
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"2\"}"), 200);
	ck_assert_uint_eq(call(&w, UNMOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	ck_assert_uint_eq(w.fake.unmounts, 0);
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 409);
	ck_assert_str_eq(said("Err"), "volume 'a' is in use by 1 container");
	ck_assert_uint_eq(call(&w, UNMOUNT, "{\"Name\":\"a\",\"ID\":\"9\"}"), 200); /* unknown */
	ck_assert_uint_eq(w.fake.unmounts, 0);
	ck_assert_uint_eq(call(&w, UNMOUNT, "{\"Name\":\"a\",\"ID\":\"2\"}"), 200);
	ck_assert_uint_eq(w.fake.unmounts, 1);
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 200);
	teardown(&w);
}
END_TEST

START_TEST(what_cannot_be_created_leaves_nothing)
{
	struct world w;
	setup(&w);
	w.fake.check_fails = true;
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\",\"Opts\":{\"iops\":\"x\"}}"), 400);
	ck_assert_str_eq(said("Err"), "iops: 'x': not a number");
	w.fake.check_fails = false;
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"../a\"}"), 400);
	ck_assert_uint_eq(call(&w, CREATE, "{}"), 400);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\",\"Opts\":{\"iops\":5}}"), 400);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\",\"Opts\":[]}"), 400);
	ck_assert_uint_eq(call(&w, CREATE, "[]"), 400);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":"), 400);
	ck_assert_uint_eq(call(&w, "/VolumeDriver.Explode", "{}"), 404);
	ck_assert_uint_eq(call(&w, LIST, " \n"), 200);
	ck_assert_uint_eq(json_array_size(json_object_get(last, "Volumes")), 0);
	/* the same volume twice, and one of the same name with other options */
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\",\"Opts\":{\"iops\":\"5\"}}"), 200);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\",\"Opts\":{\"iops\":\"5\"}}"), 200);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\",\"Opts\":{\"iops\":\"6\"}}"), 409);
	teardown(&w);
}
END_TEST

START_TEST(a_failed_mount_leaves_no_reference)
{
	struct world w;
	setup(&w);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	w.fake.mount_fails = true;
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 500);
	ck_assert_str_eq(said("Err"), "no daemon today");
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"\"}"), 400);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"b\",\"ID\":\"1\"}"), 404);
	AUTO_FREE char *conf = conf_of(&w);
	ck_assert_ptr_null(strstr(conf, "[mount:"));
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 200);
	teardown(&w);
}
END_TEST

START_TEST(a_slow_mount_is_waited_for_but_not_for_ever)
{
	struct world w;
	setup(&w);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	w.fake.pending = 1000;
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 500);
	ck_assert_ptr_nonnull(strstr(said("Err"), "still being mounted"));
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 200);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	w.v.setup.mount_wait_s = 100;
	w.fake.pending = 1;
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	ck_assert_uint_eq(w.fake.mounts, 1);
	teardown(&w);
}
END_TEST

/* With Podman, all mounts have the same ID. */
START_TEST(a_slow_mount_that_fails_leaves_no_reference_but_that_of_an_earlier_one)
{
	struct world w;
	setup(&w);
	w.v.setup.mount_wait_s = 100;
	w.fake.fails_at_last = true;
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	w.fake.pending = 1;
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 500);
	ck_assert_str_eq(said("Err"), "no daemon today");
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 200);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	w.fake.mount_fails = false;
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	w.fake.pending = 1;
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 500);
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 409);
	w.fake.mount_fails = false;
	w.v.setup.mount_wait_s = 0;
	w.fake.pending = 1000;
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 500);
	ck_assert_ptr_nonnull(strstr(said("Err"), "still being mounted"));
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 409);
	ck_assert_uint_eq(call(&w, UNMOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 200);
	teardown(&w);
}
END_TEST

START_TEST(a_mount_that_does_not_go_is_tried_again)
{
	struct world w;
	setup(&w);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	w.fake.in_use = true;
	ck_assert_uint_eq(call(&w, UNMOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 409);
	ck_assert_str_eq(said("Err"), "volume 'a': in use by sh (process 1)");
	w.fake.in_use = false;
	volumes_collect(&w.v);
	ck_assert_uint_eq(w.fake.unmounts, 1);
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 200);
	teardown(&w);
}
END_TEST

/* --- restarts --------------------------------------------------------------------------------- */

START_TEST(references_survive_a_restart_and_are_mounted_again)
{
	struct world w;
	setup(&w);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\",\"Opts\":{\"iops\":\"5\"}}"), 200);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"idle\"}"), 200);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	volumes_close(&w.v);
	open_volumes(&w);
	volumes_recover(&w.v);
	ck_assert_uint_eq(w.fake.mounts, 2);
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 409);
	ck_assert_uint_eq(call(&w, UNMOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 200);
	/* ids are not used twice: the data of one volume never appears in another */
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	ck_assert_uint_eq(volume_id(volume_find(w.v.state.root, "a")), 3);
	teardown(&w);
}
END_TEST

START_TEST(a_state_that_cannot_be_read_is_not_replaced)
{
	struct world w;
	char path[100];
	struct error err = ERROR_INIT;
	struct volume_state s;
	setup(&w);
	snprintf(path, sizeof(path), "%s/volumes.json", w.state);
	static const char *const bad[] = {
		"{", "[]", "{\"v\":2,\"next\":1,\"volumes\":{}}",
		"{\"v\":1,\"next\":1,\"volumes\":{\"../x\":{\"id\":1,\"section\":\"\","
		"\"created\":\"\",\"options\":{},\"references\":{}}}}",
		"{\"v\":1,\"next\":1,\"volumes\":{\"x\":{\"id\":1,\"section\":\"\","
		"\"created\":\"\",\"options\":{\"iops\":1},\"references\":{}}}}"};
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		ck_assert_int_eq(volume_write_file(path, bad[i], SYNC_DATA, &err), 0);
		ck_assert_msg(volume_state_load(&s, path, &err) < 0, "%s is accepted", bad[i]);
		AUTO_FREE char *text = volume_read_file(path);
		ck_assert_str_eq(text, bad[i]);
	}
	teardown(&w);
}
END_TEST

START_TEST(a_full_disk_changes_nothing)
{
	struct world w;
	setup(&w);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	char *path = w.v.state.path;
	char nowhere[] = "/nonexistent/volumes.json";
	w.v.state.path = nowhere;
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"b\"}"), 500);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 500);
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 500);
	w.v.state.path = path;
	ck_assert_uint_eq(w.fake.mounts, 0);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"b\"}"),
			  200); /* though its directory exists */
	ck_assert_uint_eq(call(&w, LIST, ""), 200);
	ck_assert_uint_eq(json_array_size(json_object_get(last, "Volumes")), 2);
	teardown(&w);
}
END_TEST

START_TEST(references_without_a_container_are_dropped_at_the_second_look)
{
	struct world w;
	setup(&w);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	w.v.setup.collect_after_s = 1000; /* too young */
	volumes_collect(&w.v);
	volumes_collect(&w.v);
	volumes_collect(&w.v);
	ck_assert_uint_eq(w.fake.unmounts, 0);
	w.v.setup.collect_after_s = 0;
	volumes_collect(&w.v);
	ck_assert_uint_eq(w.fake.unmounts, 0);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"2\"}"), 200); /* resets it */
	volumes_collect(&w.v);
	ck_assert_uint_eq(w.fake.unmounts, 0);
	volumes_collect(&w.v);
	ck_assert_uint_eq(w.fake.unmounts, 1);
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 200);
	teardown(&w);
}
END_TEST

static const char podman[] =
	"{\"Name\":\"a\",\"ID\":"
	"\"2f73349cfc4630255319c6c8dfc1b46a8996ace9d14d8e07563b165915918ec2\"}";

START_TEST(references_that_podman_counts_itself_are_never_dropped)
{
	struct world w;
	setup(&w);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	ck_assert_uint_eq(call(&w, MOUNT, podman), 200);
	for (int i = 0; i < 4; i++)
		volumes_collect(&w.v);
	ck_assert_uint_eq(w.fake.unmounts, 0);
	ck_assert_uint_eq(call(&w, UNMOUNT, podman), 200);
	ck_assert_uint_eq(w.fake.unmounts, 1);
	teardown(&w);
}
END_TEST

START_TEST(a_volume_with_requests_is_not_deserted)
{
	struct world w;
	setup(&w);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	for (int i = 0; i < 4; i++) {
		w.fake.requests++; /* Docker copies the image's files to a new volume */
		volumes_collect(&w.v);
	}
	ck_assert_uint_eq(w.fake.unmounts, 0);
	volumes_collect(&w.v);
	ck_assert_uint_eq(w.fake.unmounts, 1);
	teardown(&w);
}
END_TEST

START_TEST(a_volume_whose_daemon_does_not_answer_is_not_deserted)
{
	struct world w;
	setup(&w);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	w.fake.silent = true;
	for (int i = 0; i < 4; i++)
		volumes_collect(&w.v);
	ck_assert_uint_eq(w.fake.unmounts, 0);
	w.fake.silent = false;
	volumes_collect(&w.v);
	ck_assert_uint_eq(w.fake.unmounts, 0); /* the first search that tells something */
	volumes_collect(&w.v);
	ck_assert_uint_eq(w.fake.unmounts, 1);
	teardown(&w);
}
END_TEST

START_TEST(a_daemon_that_does_not_answer_is_not_asked_about_every_volume)
{
	struct world w;
	setup(&w);
	for (unsigned i = 0; i < 3; i++) {
		char body[64];
		snprintf(body, sizeof(body), "{\"Name\":\"v%u\",\"ID\":\"x\"}", i);
		ck_assert_uint_eq(call(&w, CREATE, body), 200);
		ck_assert_uint_eq(call(&w, MOUNT, body), 200);
	}
	ck_assert_uint_eq(w.fake.mounts, 3);
	w.fake.silent = true;
	w.fake.asked = 0;
	volumes_recover(&w.v);
	volumes_collect(&w.v);
	ck_assert_uint_eq(w.fake.mounts, 3);
	ck_assert_uint_eq(w.fake.asked, 2);
	w.fake.silent = false;
	volumes_recover(&w.v);
	ck_assert_uint_eq(w.fake.mounts, 6);
	teardown(&w);
}
END_TEST

START_TEST(references_are_kept_while_the_volume_cannot_be_unmounted)
{
	struct world w;
	setup(&w);
	log_set_level(LOG_LEVEL_ERROR);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	ck_assert_uint_eq(call(&w, MOUNT, "{\"Name\":\"a\",\"ID\":\"1\"}"), 200);
	w.fake.in_use = true;
	volumes_collect(&w.v);
	volumes_collect(&w.v);
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 409);
	ck_assert_str_eq(said("Err"), "volume 'a' is in use by 1 container");
	w.fake.in_use = false;
	volumes_collect(&w.v);
	ck_assert_uint_eq(w.fake.unmounts, 1);
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 200);
	teardown(&w);
}
END_TEST

START_TEST(references_do_not_survive_a_boot)
{
	struct world w;
	struct error err = ERROR_INIT;
	setup(&w);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	ck_assert_uint_eq(call(&w, MOUNT, podman), 200);
	json_t *copy = volume_state_begin(&w.v.state);
	json_object_set_new(copy, "boot", json_string("another"));
	ck_assert_int_eq(volume_state_commit(&w.v.state, copy, SYNC_DATA, &err), 0);
	volumes_close(&w.v);
	open_volumes(&w);
	w.fake.mounts = 0;
	volumes_recover(&w.v);
	ck_assert_uint_eq(w.fake.mounts, 0);
	AUTO_FREE char *conf = conf_of(&w);
	ck_assert_ptr_null(strstr(conf, "[mount:"));
	ck_assert_uint_eq(call(&w, REMOVE, "{\"Name\":\"a\"}"), 200);
	teardown(&w);
}
END_TEST

START_TEST(a_tree_that_a_killed_plugin_left_is_deleted_and_no_other)
{
	static const char *const names[] = {"data/a-1",	     "data/gone-2",   "data/new-5",
					    "data/plain",    "data/x-",	      "data/b-1",
					    "data/new-4",    "data/full-2",   "data/noted-3",
					    "data/full-2/x", "data/noted-3/x"};
	static const bool stay[] = {true,  false, true,	 true, true, false,
				    false, true,  false, true, false};
	struct world w;
	char path[200];
	struct stat st;
	setup(&w);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"a\"}"), 200);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"b\"}"), 200);
	ck_assert_uint_eq(call(&w, CREATE, "{\"Name\":\"c\"}"), 200);
	for (unsigned i = 1; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", w.state, names[i]);
		ck_assert_int_eq(mkdir(path, 0755), 0);
	}
	ck_assert(volume_note_removed(w.v.state.root, "noted-3"));
	ck_assert(volume_note_removed(w.v.state.root, "a-1"));
	volumes_recover(&w.v);
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", w.state, names[i]);
		ck_assert_msg((stat(path, &st) == 0) == stay[i], "%s", names[i]);
	}
	teardown(&w);
}
END_TEST

START_TEST(an_error_is_told_even_if_its_text_is_cut_in_a_character)
{
	struct world w;
	char body[400], name[200];
	setup(&w);
	memset(name, 'a', 127);
	snprintf(name + 127, sizeof(name) - 127, "\xc3\xbc");
	snprintf(body, sizeof(body), "{\"Name\":\"%s\"}", name);
	ck_assert_uint_eq(call(&w, GET, body), 404);
	ck_assert_ptr_nonnull(strstr(said("Err"), "no such volume: 'aaa"));
	ck_assert_uint_eq(call(&w, REMOVE, body), 404);
	ck_assert_ptr_nonnull(strstr(said("Err"), "no such volume: 'aaa"));
	ck_assert_uint_eq(call(&w, GET, "{\"Name\":\"\xc3\xbc\"}"), 404);
	ck_assert_str_eq(said("Err"), "no such volume: '\xc3\xbc'");
	teardown(&w);
}
END_TEST

/* --- containers and trees --------------------------------------------------------------------- */

#define ID "9b6f18ff0f6d745b101fb65bb9a5e8857c4adda0b32b954ac53b2de901d720c5"

START_TEST(the_id_of_a_container_is_found_in_its_cgroups)
{
	char id[CONTAINER_ID_LEN + 1];
	ck_assert(container_id("0::/system.slice/docker-" ID ".scope\n", id));
	ck_assert_str_eq(id, ID);
	ck_assert(container_id("3:cpu:/\n0::/machine.slice/libpod-" ID ".scope/container\n", id));
	ck_assert(container_id("0::/docker/" ID, id));
	ck_assert(!container_id("0::/user.slice\n", id));
	ck_assert(!container_id("0::/x" ID "0\n", id)); /* one digit too many */
	ck_assert(!container_id("", id));
}
END_TEST

START_TEST(ratefs_mounts_are_found_in_mountinfo)
{
	struct container_mount m = {0};
	char line[] = "36 35 0:57 / /data rw,nosuid shared:1 - fuse.ratefs ratefs-volume:box rw\n";
	char other[] = "36 35 0:57 / /data rw - fuse.sshfs ratefs-volume:box rw\n";
	ck_assert(container_mount_parse(line, &m));
	ck_assert_str_eq(m.where, "/data");
	ck_assert_str_eq(m.source, "ratefs-volume:box");
	ck_assert(!container_mount_parse(other, &m));
	char escaped[] = "36 35 0:57 / /a\\040b\\134c rw - fuse.ratefs x rw\n";
	ck_assert(container_mount_parse(escaped, &m));
	ck_assert_str_eq(m.where, "/a b\\c");
}
END_TEST

START_TEST(a_copy_of_the_hosts_tree_is_not_a_use)
{
	struct container_mount m = {.where = "/rootfs/var/lib/v/mnt/box"};
	ck_assert(container_mount_is_hosts(&m, "/var/lib/v/mnt/box"));
	ck_assert(!container_mount_is_hosts(&m, "/var/lib/v/mnt/bo"));
	m.where = "/var/lib/v/mnt/box";
	ck_assert(container_mount_is_hosts(&m, "/var/lib/v/mnt/box"));
	m.where = "/data";
	ck_assert(!container_mount_is_hosts(&m, "/var/lib/v/mnt/box"));
}
END_TEST

START_TEST(a_tree_is_deleted_however_deep_and_links_are_not_followed)
{
	char dir[] = "/tmp/test_tree.XXXXXX", path[100];
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/keep", dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	AUTO_FD top = open(dir, O_RDONLY | O_DIRECTORY);
	ck_assert_int_eq(mkdirat(top, "tree", 0755), 0);
	int at = openat(top, "tree", O_RDONLY | O_DIRECTORY);
	ck_assert_int_eq(symlinkat(path, at, "link"), 0);
	for (int i = 0; i < 1000; i++) {
		UNIT_REQUIRE(mkdirat(at, "a", 0755) == 0 && mkdirat(at, "b", 0755) == 0);
		int next = openat(at, "a", O_RDONLY | O_DIRECTORY);
		close(at);
		at = next;
	}
	close(at);
	ck_assert_int_eq(volume_tree_delete(top, "tree"), 0);
	ck_assert_int_lt(faccessat(top, "tree", F_OK, 0), 0);
	ck_assert_int_eq(faccessat(top, "keep", F_OK, 0), 0);
	ck_assert_int_eq(volume_tree_delete(AT_FDCWD, dir), 0);
}
END_TEST

static bool make_immutable(int fd, bool on)
{
	int flags;
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return false;
	flags = on ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
	return ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
}

/* The directories are too deep to be deleted where they are, and the lowest cannot be moved.  Only root can make it so, and not
 * on every filesystem. */
START_TEST(deleting_a_tree_ends_even_if_a_directory_cannot_be_moved)
{
	char dir[] = "/tmp/test_tree.XXXXXX";
	ck_assert_ptr_nonnull(mkdtemp(dir));
	AUTO_FD lowest = -1;
	int at = open(dir, O_RDONLY | O_DIRECTORY);
	for (int depth = 1; depth <= 201; depth++) {
		UNIT_REQUIRE(mkdirat(at, "a", 0755) == 0);
		int next = openat(at, "a", O_RDONLY | O_DIRECTORY);
		if (depth == 201)
			lowest = at;
		else
			close(at);
		at = next;
	}
	close(at);
	bool stays = make_immutable(lowest, true);
	ck_assert_int_eq(volume_tree_delete(AT_FDCWD, dir), stays ? -EPERM : 0);
	if (stays) {
		ck_assert(make_immutable(lowest, false));
		ck_assert_int_eq(volume_tree_delete(AT_FDCWD, dir), 0);
	}
}
END_TEST

UNIT_MAIN("volume", a_name_is_one_harmless_word,
	  an_option_stays_in_its_line_and_off_what_is_the_drivers,
	  a_source_lies_below_an_allowed_directory_whatever_links_say,
	  a_source_is_not_nested_in_another_and_is_checked_again_at_mount,
	  a_flag_needs_no_value_and_others_do,
	  what_set_save_changed_is_kept_while_others_come_and_when_the_volume_goes,
	  the_control_socket_goes_into_the_administrators_global_section,
	  volumes_with_one_source_share_one_fs,
	  options_are_checked_together_with_what_the_administrator_wrote,
	  the_options_of_a_volume_have_an_end, problems_are_told_without_the_name_of_a_file,
	  an_error_is_told_even_if_its_text_is_cut_in_a_character,
	  a_volume_lives_from_create_to_remove,
	  a_volume_is_unmounted_when_the_last_of_its_users_has_gone,
	  what_cannot_be_created_leaves_nothing, a_failed_mount_leaves_no_reference,
	  a_slow_mount_is_waited_for_but_not_for_ever,
	  a_slow_mount_that_fails_leaves_no_reference_but_that_of_an_earlier_one,
	  a_mount_that_does_not_go_is_tried_again,
	  references_survive_a_restart_and_are_mounted_again,
	  a_state_that_cannot_be_read_is_not_replaced, a_full_disk_changes_nothing,
	  references_without_a_container_are_dropped_at_the_second_look,
	  references_that_podman_counts_itself_are_never_dropped,
	  a_volume_with_requests_is_not_deserted,
	  a_volume_whose_daemon_does_not_answer_is_not_deserted,
	  a_daemon_that_does_not_answer_is_not_asked_about_every_volume,
	  references_are_kept_while_the_volume_cannot_be_unmounted,
	  references_do_not_survive_a_boot,
	  a_tree_that_a_killed_plugin_left_is_deleted_and_no_other,
	  a_copy_of_the_hosts_tree_is_not_a_use, the_id_of_a_container_is_found_in_its_cgroups,
	  ratefs_mounts_are_found_in_mountinfo,
	  a_tree_is_deleted_however_deep_and_links_are_not_followed,
	  deleting_a_tree_ends_even_if_a_directory_cannot_be_moved)
