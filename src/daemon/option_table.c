/* SPDX-License-Identifier: MIT */
/* The rows, and looking them up.  Adding an option is one row here, its paragraph in the man page,
 * a line in the example configuration and a test. */
#include "daemon/options.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FIELD(f) offsetof(struct settings, f)
#define LIMITED	 (OPTION_GLOBAL | OPTION_FS | OPTION_MOUNT)

/* A limit is three rows. */
#define LIMIT_ROWS(n, k, rate, tokens, what)                                                       \
	{n, OPTION_RATE, LIMITED, true, k, 0, rate, "off", what, 0, 0, NULL},                      \
		{n "_burst",                                                                       \
		 OPTION_BURST,                                                                     \
		 LIMITED,                                                                          \
		 true,                                                                             \
		 k,                                                                                \
		 0,                                                                                \
		 tokens,                                                                           \
		 "0",                                                                              \
		 "tokens of " n " that may be saved up beyond its window",                         \
		 0,                                                                                \
		 0,                                                                                \
		 NULL},                                                                            \
	{                                                                                          \
		n "_once", OPTION_ONCE, LIMITED, true, k, 0, tokens, "0",                          \
			"extra tokens of " n " at the start, that never come back", 0, 0, NULL     \
	}

#define CHOICE(n, f, scopes, live, words, def, help)                                               \
	{                                                                                          \
		n, OPTION_CHOICE, scopes, live, 0, FIELD(f), words, def, help, 0, 0, NULL          \
	}
#define NUMBER(n, type, f, scopes, syntax, def, min, max, help)                                    \
	{                                                                                          \
		n, type, scopes, true, 0, FIELD(f), syntax, def, help, min, max, NULL              \
	}
#define TEXT(n, f, scopes, syntax, def, help)                                                      \
	{                                                                                          \
		n, OPTION_TEXT, scopes, false, 0, FIELD(f), syntax, def, help, 0, 0, NULL          \
	}
#define FLAG(n, opposite, help)                                                                    \
	{                                                                                          \
		n, OPTION_FLAG, OPTION_MOUNT, false, 0, 0, "", "no", help, 0, 0, opposite          \
	}
#define VALUE(n, syntax, def, help)                                                                \
	{                                                                                          \
		n, OPTION_VALUE, OPTION_MOUNT, false, 0, 0, syntax, def, help, 0, 0, NULL          \
	}
#define NOISE(n)                                                                                   \
	{                                                                                          \
		n, OPTION_NOISE, OPTION_MOUNT, false, 0, 0, "", "", "of mount(8): ignored", 0, 0,  \
			NULL                                                                       \
	}

const struct option_def options[] = {
	LIMIT_ROWS("iops", LIMIT_IOPS, "OPS", "COUNT",
		   "operations per second; metadata too where there is no meta_iops"),
	LIMIT_ROWS("meta_iops", LIMIT_META_IOPS, "OPS", "COUNT",
		   "metadata operations and opens per second, instead of iops"),
	LIMIT_ROWS("read_iops", LIMIT_READ_IOPS, "OPS", "COUNT", "reads per second"),
	LIMIT_ROWS("write_iops", LIMIT_WRITE_IOPS, "OPS", "COUNT", "writes per second"),
	LIMIT_ROWS("bps", LIMIT_BPS, "BYTES", "BYTES",
		   "bytes per second, read and written together"),
	LIMIT_ROWS("read_bps", LIMIT_READ_BPS, "BYTES", "BYTES", "bytes read per second"),
	LIMIT_ROWS("write_bps", LIMIT_WRITE_BPS, "BYTES", "BYTES", "bytes written per second"),
	NUMBER("window", OPTION_DURATION, limits.window_ns, LIMITED, "TIME", "100ms", NSEC_PER_MSEC,
	       3600 * NSEC_PER_SEC, "how much of a rate may be saved up"),
	NUMBER("max_inflight", OPTION_COUNT, limits.max_inflight, LIMITED, "COUNT", "off", 0,
	       1ULL << 53, "requests at the backing filesystem at once"),
	NUMBER("max_open", OPTION_COUNT, limits.max_open, LIMITED, "COUNT", "off", 0, 1ULL << 53,
	       "open files and directories; more fail with ENFILE"),

	CHOICE("on_full", on_full, OPTION_MOUNT, true, "wait|reject", "wait",
	       "what happens when max_inflight is reached: wait in turn, or EAGAIN"),
	NUMBER("max_wait", OPTION_DURATION, max_wait_ns, OPTION_MOUNT, "TIME", "off", 0,
	       1000000 * 3600ULL * NSEC_PER_SEC / 1000, "longest wait of a request"),
	CHOICE("on_timeout", on_timeout, OPTION_MOUNT, true, "eagain|etimedout", "eagain",
	       "the error of a request that has waited for max_wait"),
	NUMBER("max_parked", OPTION_COUNT, max_parked, OPTION_MOUNT, "COUNT", "65536", 1,
	       1ULL << 53, "requests that may wait at once; more fail with EAGAIN"),
	NUMBER("max_parked_bytes", OPTION_BYTES, max_parked_bytes, OPTION_MOUNT, "BYTES", "256M",
	       1 << 20, 1ULL << 53, "memory that waiting requests may hold"),
	CHOICE("interrupt", interrupt, OPTION_MOUNT, true, "fatal|any", "fatal",
	       "which signals end a wait: those that kill the caller, or any"),
	CHOICE("nonblock", nonblock, OPTION_MOUNT, true, "eagain|wait", "eagain",
	       "what O_NONBLOCK reads and writes get when tokens are missing"),
	CHOICE("fair", fair, OPTION_MOUNT, true, "none|handle|process|uid|gid|cgroup", "process",
	       "between whom waiting turns are shared"),
	{"weight", OPTION_WEIGHTS, OPTION_MOUNT, true, 0, FIELD(weights), "KIND:ID=N[+...]", "",
	 "shares, for example uid:1000=4+gid:50=2; others have 1", 0, 0, NULL},
	NUMBER("mount_weight", OPTION_COUNT, mount_weight, OPTION_MOUNT, "COUNT", "1", 1, 10000,
	       "share of this mount against others under the same limit"),
	NUMBER("max_keys", OPTION_COUNT, max_keys, OPTION_MOUNT, "COUNT", "4096", 1, 1 << 20,
	       "processes, users, ... that are told apart while they wait"),
	{"dry_run", OPTION_BOOL, OPTION_MOUNT, true, 0, FIELD(dry_run), "yes|no", "no",
	 "nothing waits; statistics show what would have waited", 0, 0, NULL},

	CHOICE("cache", cache, OPTION_MOUNT, false, "auto|strict|page", "auto",
	       "auto: limited classes uncached; strict: nothing cached; page: page cache"),
	{"attr_timeout", OPTION_TIMEOUT, OPTION_MOUNT, false, 0, FIELD(attr_timeout_ns),
	 "TIME|auto", "auto", "how long the kernel keeps attributes; auto: 1s, strict: 0", 0, 0,
	 NULL},
	{"entry_timeout", OPTION_TIMEOUT, OPTION_MOUNT, false, 0, FIELD(entry_timeout_ns),
	 "TIME|auto", "auto", "how long the kernel keeps names; auto: 1s, strict: 0", 0, 0, NULL},

	TEXT("source", source, OPTION_FS | OPTION_MOUNT, "DIRECTORY", "",
	     "the tree that is mirrored"),
	TEXT("mountpoint", mountpoint, OPTION_MOUNT, "DIRECTORY", "", "where it appears"),
	TEXT("name", name, OPTION_MOUNT, "NAME", "last part of the mountpoint",
	     "what ratefsctl calls the mount"),
	TEXT("fs", fs, OPTION_MOUNT, "NAME", "", "the [fs:NAME] whose source and limits it shares"),
	{"options", OPTION_LIST, OPTION_MOUNT, false, 0, 0, "OPTION[,...]", "",
	 "more options, written as after -o", 0, 0, NULL},

	TEXT("control", control, OPTION_GLOBAL, "PATH|off", "in the runtime directory",
	     "the control socket"),
	CHOICE("on_mount_error", on_mount_error, OPTION_GLOBAL, false, "stop|continue", "stop",
	       "at start, when one of several mounts cannot be made"),
	CHOICE("log_level", log_level, OPTION_GLOBAL, true, "error|warning|info|debug", "info",
	       "how much is said in the log"),

	FLAG("ro", "rw", "read-only"),
	FLAG("rw", "ro", "read and write (default)"),
	FLAG("allow_other", NULL, "other users may use the mount (default for root)"),
	FLAG("allow_root", NULL, "root may use the mount too"),
	FLAG("default_permissions", NULL,
	     "the kernel checks permissions (default with allow_other)"),
	FLAG("auto_unmount", NULL, "unmount when the daemon dies"),
	FLAG("suid", "nosuid",
	     "set-user-ID bits work (default for root where the source allows it)"),
	FLAG("nosuid", "suid", "set-user-ID bits are ignored"),
	FLAG("dev", "nodev", "device files work (default for root where the source allows it)"),
	FLAG("nodev", "dev", "device files cannot be opened"),
	FLAG("exec", "noexec", "programs may be run (default)"),
	FLAG("noexec", "exec", "programs cannot be run"),
	FLAG("sync", "async", "synchronous writes"),
	FLAG("async", "sync", "asynchronous writes (default)"),
	FLAG("dirsync", NULL, "synchronous directory changes"),
	FLAG("noatime", NULL, "access times are not updated"),
	FLAG("nodiratime", NULL, "access times of directories are not updated"),
	FLAG("symfollow", "nosymfollow", "symbolic links are followed (default)"),
	FLAG("nosymfollow", "symfollow", "symbolic links are not followed"),
	VALUE("fsname", "TEXT", "the source", "the source as shown by mount and df"),
	VALUE("subtype", "TEXT", "ratefs", "the type as shown by mount: fuse.TEXT"),
	VALUE("max_read", "BYTES", "", "largest read request of the kernel"),
	VALUE("context", "LABEL", "", "SELinux label of everything in the mount"),
	VALUE("fscontext", "LABEL", "", "SELinux label of the filesystem"),
	VALUE("defcontext", "LABEL", "", "SELinux label of what has none"),
	VALUE("rootcontext", "LABEL", "", "SELinux label of the root"),

	NOISE("defaults"),
	NOISE("auto"),
	NOISE("noauto"),
	NOISE("user"),
	NOISE("nouser"),
	NOISE("users"),
	NOISE("owner"),
	NOISE("group"),
	NOISE("nofail"),
	NOISE("_netdev"),
	NOISE("comment"),
	NOISE("atime"),
	NOISE("diratime"),
	NOISE("relatime"),
	NOISE("norelatime"),
	NOISE("strictatime"),
	NOISE("nostrictatime"),
	NOISE("lazytime"),
	NOISE("nolazytime"),
	NOISE("iversion"),
	NOISE("noiversion"),
	NOISE("silent"),
	NOISE("loud"),
	NOISE("mand"),
	NOISE("nomand"),
	NOISE("setuid"),
	NOISE("drop_privileges"),
};
const unsigned n_options = ARRAY_SIZE(options);
_Static_assert(ARRAY_SIZE(options) <= OPTIONS_MAX, "make OPTIONS_MAX larger");

static bool same_name(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if ((*a == '-' ? '_' : *a) != *b)
			return false;
	return *a == *b;
}

const struct option_def *option_find(const char *name)
{
	for (unsigned i = 0; i < n_options; i++)
		if (same_name(name, options[i].name))
			return &options[i];
	if (strncmp(name, "x-", 2) == 0 || strncmp(name, "X-", 2) == 0)
		return option_find("comment"); /* mount(8): for other programs */
	return NULL;
}

/* Edit distance with swaps of neighbours; names are short. */
#define NAME_MAX_NEAR 32
unsigned option_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned d[NAME_MAX_NEAR + 1][NAME_MAX_NEAR + 1];
	if (la > NAME_MAX_NEAR || lb > NAME_MAX_NEAR)
		return NAME_MAX_NEAR;
	for (size_t i = 0; i <= la; i++)
		d[i][0] = i;
	for (size_t j = 0; j <= lb; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= la; i++) {
		for (size_t j = 1; j <= lb; j++) {
			char ca = a[i - 1] == '-' ? '_' : a[i - 1];
			unsigned best = d[i - 1][j - 1] + (ca != b[j - 1]);
			best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
			best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[la][lb];
}

const char *option_nearest(const char *name, unsigned scopes)
{
	const char *nearest = NULL;
	unsigned best = strlen(name) / 2 < 3 ? strlen(name) / 2 + 1 : 4; /* farther is not near */
	for (unsigned i = 0; i < n_options; i++) {
		unsigned d;
		if (!(options[i].scopes & scopes) || options[i].type == OPTION_NOISE)
			continue;
		d = option_distance(name, options[i].name);
		if (d < best) {
			best = d;
			nearest = options[i].name;
		}
	}
	return nearest;
}

const char *option_scope_name(enum option_scope scope)
{
	return scope == OPTION_GLOBAL ? "global" : scope == OPTION_FS ? "fs" : "mount";
}

enum option_scope option_scope_of(const char **name)
{
	static const struct {
		const char *prefix;
		enum option_scope scope;
	} prefixes[] = {{"global.", OPTION_GLOBAL}, {"fs.", OPTION_FS}, {"mount.", OPTION_MOUNT}};
	for (unsigned i = 0; i < ARRAY_SIZE(prefixes); i++) {
		size_t n = strlen(prefixes[i].prefix);
		if (strncmp(*name, prefixes[i].prefix, n) == 0) {
			*name += n;
			return prefixes[i].scope;
		}
	}
	const struct option_def *o = option_find(*name);
	if (!o || o->scopes & OPTION_MOUNT)
		return OPTION_MOUNT;
	return o->scopes & OPTION_GLOBAL ? OPTION_GLOBAL : OPTION_FS;
}

char *option_next_word(char **text)
{
	char *word = *text, *to = word, *from = word;
	if (!word)
		return NULL;
	while (*from && *from != ',') {
		if (*from == '\\' && (from[1] == ',' || from[1] == '\\'))
			from++;
		*to++ = *from++;
	}
	*text = *from ? from + 1 : NULL;
	*to = '\0';
	return word;
}

static const char *const type_name[] = {
	[OPTION_RATE] = "rate",	       [OPTION_BURST] = "burst",     [OPTION_ONCE] = "once",
	[OPTION_COUNT] = "count",      [OPTION_BYTES] = "bytes",     [OPTION_DURATION] = "time",
	[OPTION_TIMEOUT] = "timeout",  [OPTION_CHOICE] = "choice",   [OPTION_BOOL] = "bool",
	[OPTION_TEXT] = "text",	       [OPTION_WEIGHTS] = "weights", [OPTION_FLAG] = "fuse-flag",
	[OPTION_VALUE] = "fuse-value", [OPTION_NOISE] = "ignored",   [OPTION_LIST] = "list",
};

static void put_scopes(unsigned scopes, FILE *out)
{
	const char *separator = "";
	for (unsigned bit = OPTION_GLOBAL; bit <= OPTION_MOUNT; bit <<= 1) {
		if (!(scopes & bit))
			continue;
		fprintf(out, "%s%s", separator, option_scope_name(bit));
		separator = ",";
	}
}

void options_dump(FILE *out)
{
	for (unsigned i = 0; i < n_options; i++) {
		const struct option_def *o = &options[i];
		fprintf(out, "%s\t", o->name);
		put_scopes(o->scopes, out);
		fprintf(out, "\t%s\t%s\t%s\t%s\t%s\n", type_name[o->type], o->syntax, o->def,
			o->live ? "live" : "fixed", o->help);
	}
}

static bool is_limit_extra(const struct option_def *o)
{
	return o->type == OPTION_BURST || o->type == OPTION_ONCE;
}

static void help_row(const struct option_def *o, FILE *out)
{
	char left[64];
	snprintf(left, sizeof(left), "%s%s%s", o->name, *o->syntax ? "=" : "", o->syntax);
	if (strlen(left) > 30)
		fprintf(out, "  %s\n  %-30s %s", left, "", o->help);
	else
		fprintf(out, "  %-30s %s", left, o->help);
	if (*o->def && o->type != OPTION_FLAG)
		fprintf(out, " (%s)", o->def);
	fputc('\n', out);
}

void options_help(FILE *out)
{
	fprintf(out, "\nLimits and waiting (LIMIT_burst=N and LIMIT_once=N go with each limit;\n"
		     "global.LIMIT and fs.LIMIT set the other two scopes):\n");
	for (unsigned i = 0; i < n_options; i++)
		if (options[i].type < OPTION_FLAG && !is_limit_extra(&options[i]))
			help_row(&options[i], out);
	fprintf(out, "\nFUSE and mount options:\n");
	for (unsigned i = 0; i < n_options; i++)
		if (options[i].type == OPTION_FLAG || options[i].type == OPTION_VALUE)
			help_row(&options[i], out);
	fprintf(out,
		"  user, nofail, _netdev, x-...   and the other words of fstab are accepted\n");
}
