/* SPDX-License-Identifier: MIT */
/* The option table and look-ups in it.  A new option needs a row here, a paragraph in the man
 * page, a line in the example configuration and a test. */
#include "daemon/options.h"
#include "pool/pool.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

#define FIELD(f)	offsetof(struct settings, f)
#define IN_GLOBAL	(1U << SCOPE_GLOBAL)
#define IN_FS		(1U << SCOPE_FS)
#define IN_MOUNT	(1U << SCOPE_MOUNT)
#define IN_CLASS	(1U << SCOPE_CLASS)
#define IN_POOL		(1U << SCOPE_POOL)
#define LIMITED		(IN_GLOBAL | IN_FS | IN_MOUNT | IN_CLASS)
#define MAX_WAIT_MAX_NS (1000 * 3600ULL * NSEC_PER_SEC) /* a thousand hours */

/* A limit has four rows, the rate first. */
#define LIMIT_ROW(n, type, scopes, k, of, syntax, def, help)                                       \
	{                                                                                          \
		n, type, scopes, true, k, FIELD(of.limit[k]), syntax, def, help, 0, 0, NULL, false \
	}
#define LIMIT_ROWS_OF(prefix, n, scopes, pools, k, of, rate, tokens, what)                         \
	LIMIT_ROW(prefix n, OPTION_RATE, (scopes) | (pools), k, of, rate, "off", what),            \
		LIMIT_ROW(prefix n "_burst", OPTION_BURST, (scopes) | (pools), k, of, tokens, "0", \
			  "tokens of " prefix n                                                    \
			  " that can be saved up in addition to its window"),                      \
		LIMIT_ROW(prefix n "_once", OPTION_ONCE, scopes, k, of, tokens, "0",               \
			  "extra tokens of " prefix n ", available once"),                         \
		LIMIT_ROW(prefix n "_peak", OPTION_PEAK, scopes, k, of, rate, "off",               \
			  "highest rate at which saved-up tokens of " prefix n " can be spent")
#define LIMIT_ROWS(n, k, rate, tokens, what)                                                       \
	LIMIT_ROWS_OF("", n, LIMITED, IN_POOL, k, limits, rate, tokens, what)
#define EACH_ROWS(n, k, rate, tokens, what)                                                        \
	LIMIT_ROWS_OF("each.", n, IN_MOUNT | IN_CLASS, 0, k, each, rate, tokens,                   \
		      what ", for each process, user, ... (see fair)")
#define LIMITS(ROWS)                                                                               \
	ROWS("iops", LIMIT_IOPS, "OPS", "COUNT",                                                   \
	     "operations per second; includes metadata unless meta_iops is set"),                  \
		ROWS("meta_iops", LIMIT_META_IOPS, "OPS", "COUNT",                                 \
		     "metadata operations and opens per second; if set, not charged to iops"),     \
		ROWS("read_iops", LIMIT_READ_IOPS, "OPS", "COUNT", "reads per second"),            \
		ROWS("write_iops", LIMIT_WRITE_IOPS, "OPS", "COUNT", "writes per second"),         \
		ROWS("bps", LIMIT_BPS, "BYTES", "BYTES",                                           \
		     "bytes read and written per second, in total"),                               \
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
#define POOL_TEXT(n, f, syntax, def, help)                                                         \
	{                                                                                          \
		n, OPTION_TEXT, IN_POOL, true, 0, FIELD(f), syntax, def, help, 0, 0, NULL, false   \
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
	LIMITS(EACH_ROWS), /* adjacent rows, so that they form one object in JSON */
	NUMBER("window", OPTION_DURATION, limits.window_ns, LIMITED | IN_POOL, "TIME", "100ms",
	       NSEC_PER_MSEC, 3600 * NSEC_PER_SEC,
	       "how much of each rate can be saved up while unused"),
	NUMBER("max_inflight", OPTION_COUNT, limits.max_inflight, LIMITED, "COUNT", "off", 0,
	       1ULL << 53, "concurrent requests to the source"),
	NUMBER("max_open", OPTION_COUNT, limits.max_open, LIMITED, "COUNT", "off", 0, 1ULL << 53,
	       "open files and directories; further opens fail with ENFILE"),

	{"pool", OPTION_TEXT, LIMITED, true, 0, FIELD(pool), "NAME|none", "none",
	 "the [pool:NAME] whose limits, shared with other hosts, apply here, too", 0, 0, NULL,
	 false},
	POOL_TEXT("server", server, "redis[s]://HOST[:PORT][/DB]|unix:/PATH", "",
		  "what divides the limits of the pool among its members"),
	POOL_TEXT("key", key, "TEXT", "ratefs:{NAME}", "the pool's key on the server"),
	POOL_TEXT("auth_file", auth_file, "FILE", "",
		  "holds PASSWORD or USER:PASSWORD for the server; only its owner may read it"),
	POOL_TEXT("tls_ca", tls_ca, "FILE", "",
		  "certificates that vouch for a rediss:// server, instead of the system's"),
	POOL_TEXT("tls_cert", tls_cert, "FILE", "",
		  "the certificate that is shown to a rediss:// server"),
	POOL_TEXT("tls_key", tls_key, "FILE", "", "its private key, if it is not in the same file"),
	NUMBER("lease", OPTION_DURATION, lease_ns, IN_POOL, "TIME", "500ms",
	       POOL_LEASE_MIN_MS *NSEC_PER_MSEC, POOL_LEASE_MAX_MS *NSEC_PER_MSEC,
	       "how long a share stays valid without another answer from the server"),
	CHOICE("on_lost", on_lost, IN_POOL, true, "share|stop|open", "share",
	       "without a lease: an equal share, nothing, or no limit by the pool"),
	NUMBER("pool_weight", OPTION_COUNT, pool_weight, IN_POOL, "COUNT", "1", 1, POOL_WEIGHT_MAX,
	       "share of this host against the other members of the pool"),

	CHOICE("on_full", on_full, IN_MOUNT, true, "wait|reject", "wait",
	       "when max_inflight is reached: wait, or fail with EAGAIN"),
	NUMBER("max_wait", OPTION_DURATION, max_wait_ns, IN_MOUNT | IN_CLASS, "TIME", "off", 0,
	       MAX_WAIT_MAX_NS, "how long a request may wait"),
	CHOICE("on_timeout", on_timeout, IN_MOUNT, true, "eagain|etimedout", "eagain",
	       "the error after max_wait"),
	NUMBER("max_parked", OPTION_COUNT, max_parked, IN_MOUNT, "COUNT", "65536", 1, 1ULL << 53,
	       "how many requests may wait; further ones fail with EAGAIN"),
	NUMBER("max_parked_bytes", OPTION_BYTES, max_parked_bytes, IN_MOUNT, "BYTES", "256M",
	       1 << 20, 1ULL << 53, "how much memory waiting requests may hold"),
	CHOICE("interrupt", interrupt, IN_MOUNT, true, "fatal|any", "fatal",
	       "which signals end a wait: only those that kill the caller, or all"),
	CHOICE("nonblock", nonblock, IN_MOUNT, true, "eagain|wait", "eagain",
	       "whether O_NONBLOCK reads and writes over a limit fail or wait"),
	CHOICE("fair", fair, IN_MOUNT | IN_CLASS, true, "none|handle|process|uid|gid|cgroup",
	       "process", "who gets fair shares: each open file, process, user, ..."),
	{"weight", OPTION_WEIGHTS, IN_MOUNT | IN_CLASS, true, 0, FIELD(weights),
	 "[N+]KIND:ID=N[+...]", "",
	 "larger shares, for example uid:1000=4+cgroup:/ci/**=2; N: of the class", 0, 0, NULL,
	 false},
	NUMBER("mount_weight", OPTION_COUNT, mount_weight, IN_MOUNT, "COUNT", "1", 1, 10000,
	       "share of this mount among those under the same limit"),
	NUMBER("max_keys", OPTION_COUNT, max_keys, IN_MOUNT | IN_CLASS, "COUNT", "4096", 1, 1 << 20,
	       "how many processes, users, ... are tracked separately"),
	{"dry_run", OPTION_BOOL, IN_MOUNT, true, 0, FIELD(dry_run), "yes|no", "no",
	 "admit everything, and count the requests that would have waited", 0, 0, NULL, false},

	NUMBER("size", OPTION_BYTES, size_bytes, IN_FS | IN_MOUNT, "BYTES", "off", 0, 1ULL << 60,
	       "how much the source may hold; requests that need more fail with ENOSPC"),
	NUMBER("inodes", OPTION_COUNT, inodes, IN_FS | IN_MOUNT, "COUNT", "off", 0, 1ULL << 53,
	       "how many files and directories the source may hold; creating more fails with ENOSPC"),
	CHOICE("on_quota", on_quota, IN_FS | IN_MOUNT, true, "enospc|edquot", "enospc",
	       "the error for requests that exceed size or inodes"),

	LATENCY("latency", LATENCY_ALL, "how long the device takes for each operation"),
	LATENCY("read_latency", LATENCY_READ, "the same for reads, instead of latency"),
	LATENCY("write_latency", LATENCY_WRITE, "the same for writes, instead of latency"),
	LATENCY("meta_latency", LATENCY_META,
		"the same for metadata operations and opens, instead of latency"),
	LATENCY("sync_latency", LATENCY_SYNC, "the same for fsync, instead of latency"),
	{"seek", OPTION_SEEK, IN_MOUNT, true, 0, FIELD(device.seek_min_ns), "MIN-MAX", "off",
	 "seek time of transfers that do not continue the previous one", 0, 0, NULL, false},
	NUMBER("rotation", OPTION_DURATION, device.rotation_ns, IN_MOUNT, "TIME", "off", 0,
	       10 * NSEC_PER_SEC, "one revolution of the disk; seeks wait for a random part of it"),
	NUMBER("queue_depth", OPTION_COUNT, device.queue_depth, IN_MOUNT, "COUNT", "off", 0,
	       DEVICE_QUEUE_MAX, "requests that the device processes concurrently"),
	{"stall", OPTION_STALL, IN_MOUNT, true, 0, FIELD(device.stall_ns), "LENGTH/EVERY", "off",
	 "the device stops for LENGTH, on average once per EVERY", 0, 0, NULL, false},
	NUMBER("iops_size", OPTION_BYTES, device.iops_size, IN_MOUNT, "BYTES", "off", 0, 1ULL << 53,
	       "charge larger transfers as several operations"),
	NUMBER("merge", OPTION_BYTES, device.merge_bytes, IN_MOUNT, "BYTES", "off", 0, 1ULL << 53,
	       "charge sequential transfers as one operation up to this size"),
	NUMBER("seed", OPTION_COUNT, device.seed, IN_MOUNT, "COUNT", "off", 0, 1ULL << 53,
	       "make the device's random latencies repeatable"),
	TEXT("profile", profile, IN_MOUNT, false, "NAME[:SIZE]", "",
	     "limits and latencies of a known device; see ratefs --profiles"),

	{"match", OPTION_MATCH, IN_CLASS, true, 0, FIELD(match), "FIELD:VALUE[&...][,...]", "none",
	 "which requests belong to the class, by uid, gid, cgroup, comm or op", 0, 0, NULL, false},
	TEXT("mounts", mounts, IN_CLASS, true, "NAME[,...]", "all of the file",
	     "the mounts that have the class"),
	{"parent", OPTION_TEXT, IN_CLASS, true, 0, FIELD(parent), "CLASS|none", "none",
	 "the class that contains this one", 0, 0, NULL, false},
	RESERVE("reserve.bps", LIMIT_BPS, reserve_bps, "BYTES",
		"guaranteed minimum of bytes per second"),
	RESERVE("reserve.iops", LIMIT_IOPS, reserve_iops, "OPS",
		"guaranteed minimum of operations per second"),

	CHOICE("cache", cache, IN_MOUNT, false, "auto|strict|page", "auto",
	       "auto: the page cache unless data is limited; strict: no caches; page: the page cache"),
	CHOICE("transport", transport, IN_MOUNT, false, "auto|dev|uring", "auto",
	       "how requests get from the kernel to ratefs; auto: by io_uring for a local source if the kernel has it enabled, else by /dev/fuse"),
	{"attr_timeout", OPTION_TIMEOUT, IN_MOUNT, false, 0, FIELD(attr_timeout_ns), "TIME|auto",
	 "auto", "how long the kernel caches attributes; auto: 1s, or 0 if cache=strict", 0, 0,
	 NULL, false},
	{"entry_timeout", OPTION_TIMEOUT, IN_MOUNT, false, 0, FIELD(entry_timeout_ns), "TIME|auto",
	 "auto", "how long the kernel caches names; auto: 1s, or 0 if cache=strict", 0, 0, NULL,
	 false},

	TEXT("source", source, IN_FS | IN_MOUNT, true, "DIRECTORY", "",
	     "the directory to mount (only in files)"),
	{"source_nofollow", OPTION_BOOL, IN_MOUNT, false, 0, FIELD(source_nofollow), "yes|no", "no",
	 "refuse a source whose path leads through a symbolic link", 0, 0, NULL, true},
	TEXT("mountpoint", mountpoint, IN_MOUNT, true, "DIRECTORY", "",
	     "where to mount it (only in files)"),
	TEXT("name", name, IN_MOUNT, false, "NAME", "last part of the mountpoint",
	     "name of the mount for ratefsctl"),
	TEXT("fs", fs, IN_MOUNT, true, "NAME", "",
	     "the [fs:NAME] section whose source and limits the mount uses (only in files)"),
	{"options", OPTION_LIST, IN_MOUNT, false, 0, 0, "OPTION[,...]", "",
	 "several options, written as after -o", 0, 0, NULL, true},

	TEXT("control", control, IN_GLOBAL, false, "PATH|off", "in the runtime directory",
	     "the control socket"),
	CHOICE("on_mount_error", on_mount_error, IN_GLOBAL, false, "stop|continue", "stop",
	       "what to do at startup if one of several mounts fails"),
	CHOICE("log_level", log_level, IN_GLOBAL, true, "error|warning|info|debug", "info",
	       "least severe messages to log"),

	FLAG("ro", "rw", "read-only"),
	FLAG("rw", "ro", "read and write (default)"),
	FLAG("allow_other", NULL, "other users may use the mount (default for root)"),
	FLAG("allow_root", NULL, "root may use the mount too"),
	FLAG("default_permissions", NULL,
	     "the kernel checks permissions (default with allow_other)"),
	FLAG("auto_unmount", NULL, "unmount when the daemon dies"),
	FLAG("suid", "nosuid",
	     "set-user-ID bits are honoured (default for root if the source honours them)"),
	FLAG("nosuid", "suid", "set-user-ID bits are ignored"),
	FLAG("dev", "nodev",
	     "device files can be opened (default for root if the source allows it)"),
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
	VALUE("defcontext", "LABEL", "", "SELinux label of files without one"),
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
		return option_find("comment"); /* an option of mount(8) for other programs */
	return NULL;
}

const char *option_nearest(const char *name, enum scope_kind scope)
{
	const char *nearest = NULL;
	/* larger distances are not similar */
	unsigned best = strlen(name) / 2 < 3 ? strlen(name) / 2 + 1 : 4;
	for (unsigned i = 0; i < n_options; i++) {
		unsigned d;
		if (!option_is_in(&options[i], scope) || options[i].type == OPTION_NOISE)
			continue;
		d = text_distance(name, options[i].name);
		if (d < best) {
			best = d;
			nearest = options[i].name;
		}
	}
	return nearest;
}

enum scope_kind option_scope_of(const char **name)
{
	for (enum scope_kind s = SCOPE_GLOBAL; s <= SCOPE_POOL; s++) {
		if (s == SCOPE_CLASS || s == SCOPE_KEY)
			continue;
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

/* Options described once for all limits. */
static bool is_limit_extra(const struct option_def *o)
{
	return o->type == OPTION_BURST || o->type == OPTION_ONCE || o->type == OPTION_PEAK ||
	       strncmp(o->name, "each.", 5) == 0;
}

static bool is_of_classes(const struct option_def *o)
{
	return o->scopes == IN_CLASS;
}

static bool is_of_pools(const struct option_def *o)
{
	return o->scopes == IN_POOL;
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
		"\nLimits and waiting (each limit also has LIMIT_burst=N, LIMIT_once=N and LIMIT_peak=N;\n"
		"each.LIMIT limits each process, user, ... separately; global.LIMIT and fs.LIMIT limit\n"
		"all mounts of the daemon, or of the source):\n");
	for (unsigned i = 0; i < n_options; i++)
		if (options[i].type < OPTION_FLAG && !is_limit_extra(&options[i]) &&
		    !is_of_classes(&options[i]) && !is_of_pools(&options[i]))
			help_row(&options[i], out);
	fprintf(out, "\nOnly in [class:NAME] sections, and for ratefsctl class add:\n");
	for (unsigned i = 0; i < n_options; i++)
		if (is_of_classes(&options[i]))
			help_row(&options[i], out);
	fprintf(out,
		"\nIn [pool:NAME] sections, or as pool.NAME; a pool has limits, too (pool.bps=...):\n");
	for (unsigned i = 0; i < n_options; i++)
		if (is_of_pools(&options[i]))
			help_row(&options[i], out);
	fprintf(out, "\nFUSE and mount options:\n");
	for (unsigned i = 0; i < n_options; i++)
		if (options[i].type == OPTION_FLAG || options[i].type == OPTION_VALUE)
			help_row(&options[i], out);
	fprintf(out,
		"  user, nofail, _netdev, x-...   and the other words of fstab are accepted\n");
}
