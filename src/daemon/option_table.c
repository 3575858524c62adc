/* SPDX-License-Identifier: MIT */
/* The rows, and looking them up.  Adding an option is one row here, its paragraph in the man page,
 * a line in the example configuration and a test. */
#include "daemon/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FIELD(f)	offsetof(struct settings, f)
#define IN_GLOBAL	(1U << SCOPE_GLOBAL)
#define IN_FS		(1U << SCOPE_FS)
#define IN_MOUNT	(1U << SCOPE_MOUNT)
#define IN_CLASS	(1U << SCOPE_CLASS)
#define LIMITED		(IN_GLOBAL | IN_FS | IN_MOUNT | IN_CLASS)
#define MAX_WAIT_MAX_NS (1000 * 3600ULL * NSEC_PER_SEC) /* a thousand hours */

/* A limit is four rows: the rate first. */
#define LIMIT_ROW(n, type, scopes, k, of, syntax, def, help)                                       \
	{                                                                                          \
		n, type, scopes, true, k, FIELD(of.limit[k]), syntax, def, help, 0, 0, NULL, false \
	}
#define LIMIT_ROWS_OF(prefix, n, scopes, k, of, rate, tokens, what)                                \
	LIMIT_ROW(prefix n, OPTION_RATE, scopes, k, of, rate, "off", what),                        \
		LIMIT_ROW(prefix n "_burst", OPTION_BURST, scopes, k, of, tokens, "0",             \
			  "tokens of " prefix n " that may be saved up beyond its window"),        \
		LIMIT_ROW(prefix n "_once", OPTION_ONCE, scopes, k, of, tokens, "0",               \
			  "extra tokens of " prefix n " at the start, that never come back"),      \
		LIMIT_ROW(prefix n "_peak", OPTION_PEAK, scopes, k, of, rate, "off",               \
			  "highest rate at which saved-up tokens of " prefix n " are spent")
#define LIMIT_ROWS(n, k, rate, tokens, what)                                                       \
	LIMIT_ROWS_OF("", n, LIMITED, k, limits, rate, tokens, what)
#define EACH_ROWS(n, k, rate, tokens, what)                                                        \
	LIMIT_ROWS_OF("each.", n, IN_MOUNT | IN_CLASS, k, each, rate, tokens,                      \
		      what ", of each process, user, ... (see fair)")
#define LIMITS(ROWS)                                                                               \
	ROWS("iops", LIMIT_IOPS, "OPS", "COUNT",                                                   \
	     "operations per second; metadata too where there is no meta_iops"),                   \
		ROWS("meta_iops", LIMIT_META_IOPS, "OPS", "COUNT",                                 \
		     "metadata operations and opens per second, instead of iops"),                 \
		ROWS("read_iops", LIMIT_READ_IOPS, "OPS", "COUNT", "reads per second"),            \
		ROWS("write_iops", LIMIT_WRITE_IOPS, "OPS", "COUNT", "writes per second"),         \
		ROWS("bps", LIMIT_BPS, "BYTES", "BYTES",                                           \
		     "bytes per second, read and written together"),                               \
		ROWS("read_bps", LIMIT_READ_BPS, "BYTES", "BYTES", "bytes read per second"),       \
		ROWS("write_bps", LIMIT_WRITE_BPS, "BYTES", "BYTES", "bytes written per second")

#define CHOICE(n, f, scopes, live, words, def, help)                                               \
	{                                                                                          \
		n, OPTION_CHOICE, scopes, live, 0, FIELD(f), words, def, help, 0, 0, NULL, false   \
	}
#define NUMBER(n, type, f, scopes, syntax, def, min, max, help)                                    \
	{                                                                                          \
		n, type, scopes, true, 0, FIELD(f), syntax, def, help, min, max, NULL, false       \
	}
#define TEXT(n, f, scopes, file_only, syntax, def, help)                                           \
	{                                                                                          \
		n, OPTION_TEXT, scopes, false, 0, FIELD(f), syntax, def, help, 0, 0, NULL,         \
			file_only                                                                  \
	}
#define RESERVE(n, k, f, syntax, help)                                                             \
	{                                                                                          \
		n, OPTION_RESERVE, IN_CLASS, true, k, FIELD(f), syntax, "off", help, 0, 0, NULL,   \
			false                                                                      \
	}
#define LATENCY(n, k, help)                                                                        \
	{                                                                                          \
		n, OPTION_LATENCY, IN_MOUNT, true, 0, FIELD(device.latency[k]),                    \
			"TIME[~TIME|^TIME]", "off", help, 0, 0, NULL, false                        \
	}
#define FLAG(n, opposite, help)                                                                    \
	{                                                                                          \
		n, OPTION_FLAG, IN_MOUNT, false, 0, 0, "", "no", help, 0, 0, opposite, false       \
	}
#define VALUE(n, syntax, def, help)                                                                \
	{                                                                                          \
		n, OPTION_VALUE, IN_MOUNT, false, 0, 0, syntax, def, help, 0, 0, NULL, false       \
	}
#define NOISE(n)                                                                                   \
	{                                                                                          \
		n, OPTION_NOISE, IN_MOUNT, false, 0, 0, "", "", "of mount(8): ignored", 0, 0,      \
			NULL, false                                                                \
	}

const struct option_def options[] = {
	LIMITS(LIMIT_ROWS),
	LIMITS(EACH_ROWS), /* together, so that JSON has one object for them */
	NUMBER("window", OPTION_DURATION, limits.window_ns, LIMITED, "TIME", "100ms", NSEC_PER_MSEC,
	       3600 * NSEC_PER_SEC, "how much of a rate may be saved up"),
	NUMBER("max_inflight", OPTION_COUNT, limits.max_inflight, LIMITED, "COUNT", "off", 0,
	       1ULL << 53, "requests at the backing filesystem at once"),
	NUMBER("max_open", OPTION_COUNT, limits.max_open, LIMITED, "COUNT", "off", 0, 1ULL << 53,
	       "open files and directories; more fail with ENFILE"),

	CHOICE("on_full", on_full, IN_MOUNT, true, "wait|reject", "wait",
	       "what happens when max_inflight is reached: wait in turn, or EAGAIN"),
	NUMBER("max_wait", OPTION_DURATION, max_wait_ns, IN_MOUNT | IN_CLASS, "TIME", "off", 0,
	       MAX_WAIT_MAX_NS, "longest wait of a request"),
	CHOICE("on_timeout", on_timeout, IN_MOUNT, true, "eagain|etimedout", "eagain",
	       "the error of a request that has waited for max_wait"),
	NUMBER("max_parked", OPTION_COUNT, max_parked, IN_MOUNT, "COUNT", "65536", 1, 1ULL << 53,
	       "requests that may wait at once; more fail with EAGAIN"),
	NUMBER("max_parked_bytes", OPTION_BYTES, max_parked_bytes, IN_MOUNT, "BYTES", "256M",
	       1 << 20, 1ULL << 53, "memory that waiting requests may hold"),
	CHOICE("interrupt", interrupt, IN_MOUNT, true, "fatal|any", "fatal",
	       "which signals end a wait: those that kill the caller, or any"),
	CHOICE("nonblock", nonblock, IN_MOUNT, true, "eagain|wait", "eagain",
	       "what O_NONBLOCK reads and writes get when tokens are missing"),
	CHOICE("fair", fair, IN_MOUNT | IN_CLASS, true, "none|handle|process|uid|gid|cgroup",
	       "process", "between whom waiting turns are shared"),
	{"weight", OPTION_WEIGHTS, IN_MOUNT | IN_CLASS, true, 0, FIELD(weights),
	 "[N+]KIND:ID=N[+...]", "",
	 "shares, for example uid:1000=4+cgroup:/ci/**=2; others have 1; N: of a class", 0, 0, NULL,
	 false},
	NUMBER("mount_weight", OPTION_COUNT, mount_weight, IN_MOUNT, "COUNT", "1", 1, 10000,
	       "share of this mount against others under the same limit"),
	NUMBER("max_keys", OPTION_COUNT, max_keys, IN_MOUNT | IN_CLASS, "COUNT", "4096", 1, 1 << 20,
	       "processes, users, ... that are told apart while they wait"),
	{"dry_run", OPTION_BOOL, IN_MOUNT, true, 0, FIELD(dry_run), "yes|no", "no",
	 "nothing waits; statistics show what would have waited", 0, 0, NULL, false},

	NUMBER("size", OPTION_BYTES, size_bytes, IN_FS | IN_MOUNT, "BYTES", "off", 0, 1ULL << 60,
	       "what the tree may hold; more fails with ENOSPC"),
	NUMBER("inodes", OPTION_COUNT, inodes, IN_FS | IN_MOUNT, "COUNT", "off", 0, 1ULL << 53,
	       "files and directories that the tree may hold; more fail with ENOSPC"),
	CHOICE("on_quota", on_quota, IN_FS | IN_MOUNT, true, "enospc|edquot", "enospc",
	       "the error of what does not fit into size or inodes"),

	LATENCY("latency", LATENCY_ALL, "what every operation takes in the device"),
	LATENCY("read_latency", LATENCY_READ, "what a read takes, instead of latency"),
	LATENCY("write_latency", LATENCY_WRITE, "what a write takes, instead of latency"),
	LATENCY("meta_latency", LATENCY_META,
		"what metadata operations and opens take, instead of latency"),
	LATENCY("sync_latency", LATENCY_SYNC, "what a sync takes, instead of latency"),
	{"seek", OPTION_SEEK, IN_MOUNT, true, 0, FIELD(device.seek_min_ns), "MIN-MAX", "off",
	 "what a transfer takes that does not continue the one before it", 0, 0, NULL, false},
	NUMBER("rotation", OPTION_DURATION, device.rotation_ns, IN_MOUNT, "TIME", "off", 0,
	       10 * NSEC_PER_SEC,
	       "one revolution of the disk; such a transfer waits for a part of it"),
	NUMBER("queue_depth", OPTION_COUNT, device.queue_depth, IN_MOUNT, "COUNT", "off", 0,
	       DEVICE_QUEUE_MAX, "requests that the device works on at a time"),
	{"stall", OPTION_STALL, IN_MOUNT, true, 0, FIELD(device.stall_ns), "LENGTH/EVERY", "off",
	 "the device stops for LENGTH, on average once in EVERY", 0, 0, NULL, false},
	NUMBER("iops_size", OPTION_BYTES, device.iops_size, IN_MOUNT, "BYTES", "off", 0, 1ULL << 53,
	       "a larger transfer counts as several operations of this size"),
	NUMBER("merge", OPTION_BYTES, device.merge_bytes, IN_MOUNT, "BYTES", "off", 0, 1ULL << 53,
	       "sequential transfers count as one operation up to this size"),
	NUMBER("seed", OPTION_COUNT, device.seed, IN_MOUNT, "COUNT", "off", 0, 1ULL << 53,
	       "makes the device's random times repeatable"),
	TEXT("profile", profile, IN_MOUNT, false, "NAME[:SIZE]", "",
	     "limits and times of a known device; see ratefs --profiles"),

	{"match", OPTION_MATCH, IN_CLASS, true, 0, FIELD(match), "FIELD:VALUE[&...][,...]", "none",
	 "whose requests a class takes; fields are uid, gid, cgroup, comm and op", 0, 0, NULL,
	 false},
	TEXT("mounts", mounts, IN_CLASS, true, "NAME[,...]", "all of the file",
	     "the mounts that have the class"),
	{"parent", OPTION_TEXT, IN_CLASS, true, 0, FIELD(parent), "CLASS|none", "none",
	 "the class that it is a part of", 0, 0, NULL, false},
	RESERVE("reserve.bps", LIMIT_BPS, reserve_bps, "BYTES",
		"bytes per second that a class gets before weights divide the rest"),
	RESERVE("reserve.iops", LIMIT_IOPS, reserve_iops, "OPS",
		"operations per second that a class gets before weights divide the rest"),

	CHOICE("cache", cache, IN_MOUNT, false, "auto|strict|page", "auto",
	       "auto: limited classes uncached; strict: nothing cached; page: page cache"),
	{"attr_timeout", OPTION_TIMEOUT, IN_MOUNT, false, 0, FIELD(attr_timeout_ns), "TIME|auto",
	 "auto", "how long the kernel keeps attributes; auto: 1s, strict: 0", 0, 0, NULL, false},
	{"entry_timeout", OPTION_TIMEOUT, IN_MOUNT, false, 0, FIELD(entry_timeout_ns), "TIME|auto",
	 "auto", "how long the kernel keeps names; auto: 1s, strict: 0", 0, 0, NULL, false},

	TEXT("source", source, IN_FS | IN_MOUNT, true, "DIRECTORY", "",
	     "the tree that is mirrored"),
	TEXT("mountpoint", mountpoint, IN_MOUNT, true, "DIRECTORY", "", "where it appears"),
	TEXT("name", name, IN_MOUNT, false, "NAME", "last part of the mountpoint",
	     "what ratefsctl calls the mount"),
	TEXT("fs", fs, IN_MOUNT, true, "NAME", "",
	     "the [fs:NAME] whose source and limits it shares"),
	{"options", OPTION_LIST, IN_MOUNT, false, 0, 0, "OPTION[,...]", "",
	 "more options, written as after -o", 0, 0, NULL, true},

	TEXT("control", control, IN_GLOBAL, false, "PATH|off", "in the runtime directory",
	     "the control socket"),
	CHOICE("on_mount_error", on_mount_error, IN_GLOBAL, false, "stop|continue", "stop",
	       "at start, when one of several mounts cannot be made"),
	CHOICE("log_level", log_level, IN_GLOBAL, true, "error|warning|info|debug", "info",
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
	FLAG("noatime", "strictatime", "access times are not updated"),
	FLAG("strictatime", "noatime", "every read updates the access time (root only)"),
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
		if ((*a == '-' ? '_' : tolower((unsigned char)*a)) != *b)
			return false;
	return *a == *b;
}

const struct option_def *option_find(const char *name)
{
	for (unsigned i = 0; i < n_options; i++)
		if (same_name(name, options[i].name))
			return &options[i];
	if (strncasecmp(name, "x-", 2) == 0)
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
			char ca = a[i - 1] == '-' ? '_' : (char)tolower((unsigned char)a[i - 1]);
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

const char *option_nearest(const char *name, enum scope_kind scope)
{
	const char *nearest = NULL;
	unsigned best = strlen(name) / 2 < 3 ? strlen(name) / 2 + 1 : 4; /* farther is not near */
	for (unsigned i = 0; i < n_options; i++) {
		unsigned d;
		if (!option_is_in(&options[i], scope) || options[i].type == OPTION_NOISE)
			continue;
		d = option_distance(name, options[i].name);
		if (d < best) {
			best = d;
			nearest = options[i].name;
		}
	}
	return nearest;
}

enum scope_kind option_scope_of(const char **name)
{
	for (enum scope_kind s = SCOPE_GLOBAL; s <= SCOPE_MOUNT; s++) {
		size_t n = strlen(scope_kind_name(s));
		if (strncasecmp(*name, scope_kind_name(s), n) == 0 && (*name)[n] == '.') {
			*name += n + 1;
			return s;
		}
	}
	const struct option_def *o = option_find(*name);
	if (!o || option_is_in(o, SCOPE_MOUNT))
		return SCOPE_MOUNT;
	return option_widest(o);
}

enum scope_kind option_widest(const struct option_def *o)
{
	enum scope_kind s = SCOPE_GLOBAL;
	while (!option_is_in(o, s))
		s++;
	return s;
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
	[OPTION_RATE] = "rate",	       [OPTION_BURST] = "burst",   [OPTION_ONCE] = "once",
	[OPTION_PEAK] = "peak",	       [OPTION_RESERVE] = "rate",  [OPTION_COUNT] = "count",
	[OPTION_BYTES] = "bytes",      [OPTION_DURATION] = "time", [OPTION_TIMEOUT] = "timeout",
	[OPTION_CHOICE] = "choice",    [OPTION_BOOL] = "bool",	   [OPTION_TEXT] = "text",
	[OPTION_WEIGHTS] = "weights",  [OPTION_MATCH] = "match",   [OPTION_FLAG] = "fuse-flag",
	[OPTION_VALUE] = "fuse-value", [OPTION_NOISE] = "ignored", [OPTION_LIST] = "list",
	[OPTION_LATENCY] = "latency",  [OPTION_SEEK] = "seek",	   [OPTION_STALL] = "stall",
};

static void put_scopes(const struct option_def *o, FILE *out)
{
	const char *separator = "";
	for (enum scope_kind s = SCOPE_GLOBAL; s < SCOPE_KINDS; s++) {
		if (!option_is_in(o, s))
			continue;
		fprintf(out, "%s%s", separator, scope_kind_name(s));
		separator = ",";
	}
}

void options_dump(FILE *out)
{
	for (unsigned i = 0; i < n_options; i++) {
		const struct option_def *o = &options[i];
		fprintf(out, "%s\t", o->name);
		put_scopes(o, out);
		fprintf(out, "\t%s\t%s\t%s\t%s\t%s\n", type_name[o->type], o->syntax, o->def,
			o->live	       ? "live"
			: o->file_only ? "file only"
				       : "fixed",
			o->help);
	}
}

/* What is said once for all limits. */
static bool is_limit_extra(const struct option_def *o)
{
	return o->type == OPTION_BURST || o->type == OPTION_ONCE || o->type == OPTION_PEAK ||
	       strncmp(o->name, "each.", 5) == 0;
}

static bool is_of_classes(const struct option_def *o)
{
	return o->scopes == IN_CLASS;
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
	fprintf(out,
		"\nLimits and waiting (LIMIT_burst=N, LIMIT_once=N and LIMIT_peak=N go with each\n"
		"limit; each.LIMIT limits every process, user, ... by itself; global.LIMIT and\n"
		"fs.LIMIT set the other two scopes):\n");
	for (unsigned i = 0; i < n_options; i++)
		if (options[i].type < OPTION_FLAG && !is_limit_extra(&options[i]) &&
		    !is_of_classes(&options[i]))
			help_row(&options[i], out);
	fprintf(out, "\nOnly in [class:NAME] sections, and for ratefsctl class add:\n");
	for (unsigned i = 0; i < n_options; i++)
		if (is_of_classes(&options[i]))
			help_row(&options[i], out);
	fprintf(out, "\nFUSE and mount options:\n");
	for (unsigned i = 0; i < n_options; i++)
		if (options[i].type == OPTION_FLAG || options[i].type == OPTION_VALUE)
			help_row(&options[i], out);
	fprintf(out,
		"  user, nofail, _netdev, x-...   and the other words of fstab are accepted\n");
}
