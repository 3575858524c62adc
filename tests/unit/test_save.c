/* SPDX-License-Identifier: MIT */
#include "ctl/save.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void becomes(const char *text, const char *section, struct save_value v, const char *result)
{
	char *got = save_edit(text, (struct save_section){section, NULL}, &v, 1);
	ck_assert_str_eq(got, result);
	free(got);
}

#define V(key, value) ((struct save_value){key, value})

START_TEST(a_value_is_replaced_and_everything_else_stays)
{
	becomes("# top\n[mount:a]\n  iops   =  5   # five\nbps = 1\n[mount:b]\niops = 6\n",
		"mount:a", V("iops", "70"),
		"# top\n[mount:a]\n  iops   =  70   # five\nbps = 1\n[mount:b]\niops = 6\n");
	becomes("[mount:a]\niops=5\n", "mount:a", V("iops", "off"), "[mount:a]\niops=off\n");
	becomes("[mount:a]\niops = \"5\" ; x\n", "mount:a", V("iops", "6"),
		"[mount:a]\niops = 6 ; x\n");
	becomes("[mount:a]\niops =\n", "mount:a", V("iops", "6"), "[mount:a]\niops =6\n");
}
END_TEST

START_TEST(a_key_keeps_the_spelling_that_it_has)
{
	becomes("[global]\nRead-Bps = 5\n", "global", V("read_bps", "7M"),
		"[global]\nRead-Bps = 7M\n");
}
END_TEST

START_TEST(a_new_key_goes_to_the_end_of_its_section)
{
	becomes("[global]\nbps = 1\n\n# about x\n[mount:x]\n", "global", V("iops", "2"),
		"[global]\nbps = 1\niops = 2\n\n# about x\n[mount:x]\n");
	becomes("[global]\n", "global", V("iops", "2"), "[global]\niops = 2\n");
	becomes("[global]\nbps = 1", "global", V("iops", "2"), "[global]\nbps = 1\niops = 2\n");
}
END_TEST

START_TEST(a_comment_is_not_a_key)
{
	becomes("[global]\n# iops = 1\n;iops = 1\n", "global", V("iops", "2"),
		"[global]\niops = 2\n# iops = 1\n;iops = 1\n");
}
END_TEST

static void put_before(const char *text, const char *result)
{
	struct save_value v = V("bps", "5");
	char *got = save_edit(text, (struct save_section){"class:new", "class:old"}, &v, 1);
	ck_assert_str_eq(got, result);
	free(got);
}

START_TEST(a_new_section_can_be_put_before_another_and_its_comment)
{
	put_before("[class:old]\na = 1\n", "[class:new]\nbps = 5\n\n[class:old]\na = 1\n");
	put_before("[mount:x]\n# of x\n\n# of old\n; too\n[class:old]\n",
		   "[mount:x]\n# of x\n\n[class:new]\nbps = 5\n\n# of old\n; too\n[class:old]\n");
	put_before("[mount:x]\na = 1\n[class:old]",
		   "[mount:x]\na = 1\n[class:new]\nbps = 5\n\n[class:old]");
	put_before("[mount:x]\n", "[mount:x]\n\n[class:new]\nbps = 5\n");
}
END_TEST

START_TEST(a_section_that_is_not_there_is_added)
{
	becomes("[mount:x]\na = 1\n", "global", V("iops", "2"),
		"[mount:x]\na = 1\n\n[global]\niops = 2\n");
	becomes("[mount:x]\na = 1", "global", V("iops", "2"),
		"[mount:x]\na = 1\n\n[global]\niops = 2\n");
}
END_TEST

START_TEST(a_value_that_looks_like_a_comment_is_quoted)
{
	becomes("[mount:x]\n", "mount:x", V("weight", "cgroup:/a#b=1"),
		"[mount:x]\nweight = \"cgroup:/a#b=1\"\n");
	becomes("[mount:x]\nweight = 1\n", "mount:x", V("weight", ""),
		"[mount:x]\nweight = \"\"\n");
}
END_TEST

START_TEST(several_values_are_saved_at_once)
{
	const struct save_value v[] = {{"iops", "1"}, {"bps", "2"}, {"max_open", "3"}};
	char *got = save_edit("[mount:x]\nbps = 9\n", (struct save_section){"mount:x", NULL}, v, 3);
	ck_assert_str_eq(got, "[mount:x]\nbps = 2\niops = 1\nmax_open = 3\n");
	free(got);
}
END_TEST

START_TEST(a_file_is_replaced_with_its_mode_kept)
{
	char path[] = "/tmp/ratefs-save.XXXXXX", text[64] = "";
	const struct save_value v = {"iops", "3"};
	struct error err = ERROR_INIT;
	struct stat st;
	int fd = mkstemp(path);
	ck_assert_int_eq(write(fd, "[global]\niops = 2\n", 18), 18);
	fchmod(fd, 0640);
	close(fd);
	ck_assert_msg(save_file(path, (struct save_section){"global", NULL}, &v, 1, &err) == 0,
		      "%s", err.text);
	FILE *f = fopen(path, "re");
	ck_assert_uint_eq(fread(text, 1, sizeof(text) - 1, f), 18);
	fclose(f);
	ck_assert_str_eq(text, "[global]\niops = 3\n");
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0640);
	unlink(path);
	ck_assert_int_eq(save_file(path, (struct save_section){"global", NULL}, &v, 1, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "No such file"));
}
END_TEST

static void save_often(const char *path, unsigned who)
{
	char key[16], number[16];
	const struct save_value v = {key, number};
	struct error err = ERROR_INIT;
	for (unsigned i = 0; i < 25; i++) {
		snprintf(key, sizeof(key), "k%u_%u", who, i);
		snprintf(number, sizeof(number), "%u", i);
		if (save_file(path, (struct save_section){"global", NULL}, &v, 1, &err) < 0)
			_exit(1);
	}
	_exit(0);
}

START_TEST(what_several_processes_save_concurrently_is_all_there)
{
	char dir[] = "/tmp/ratefs-save.XXXXXX", path[64], text[4096] = "", line[32];
	pid_t child[4];
	int status;
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/conf", dir);
	FILE *f = fopen(path, "we");
	fputs("[global]\n", f);
	fclose(f);
	for (unsigned i = 0; i < 4; i++) {
		child[i] = fork();
		if (child[i] == 0)
			save_often(path, i);
	}
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
		ck_assert_int_eq(status, 0);
	}
	f = fopen(path, "re");
	ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, f), 0);
	fclose(f);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < 25; k++) {
			snprintf(line, sizeof(line), "\nk%u_%u = %u\n", i, k, k);
			ck_assert_msg(strstr(text, line), "missing: %s", line);
		}
	unlink(path);
	rmdir(dir);
}
END_TEST

UNIT_MAIN("save", a_value_is_replaced_and_everything_else_stays,
	  a_key_keeps_the_spelling_that_it_has, a_new_key_goes_to_the_end_of_its_section,
	  a_comment_is_not_a_key, a_section_that_is_not_there_is_added,
	  a_new_section_can_be_put_before_another_and_its_comment,
	  a_value_that_looks_like_a_comment_is_quoted, several_values_are_saved_at_once,
	  a_file_is_replaced_with_its_mode_kept,
	  what_several_processes_save_concurrently_is_all_there)
