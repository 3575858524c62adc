/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>

#include "base/text.h"
#include "base/util.h"
#include "daemon/run.h"
#include "daemon/run_stats.h"

static double seconds_of(uint64_t ns)
{
	return (double)ns / NSEC_PER_SEC;
}

/* The factor by which the command took longer with ratefs; 0: unknown. */
static double slower(const struct run_report *r)
{
	return r->plain && r->plain->wall_ns
		       ? (double)r->result->wall_ns / (double)r->plain->wall_ns
		       : 0;
}

/* --- suggestions ---------------------------------------------------------------------------- */

/* Rounds up to two digits. */
static uint64_t round_up(double n)
{
	uint64_t step = 1, up = (uint64_t)n + ((double)(uint64_t)n < n);
	while (up / step >= 100)
		step *= 10;
	return (up + step - 1) / step * step;
}

static char *bytes_text(double n, char buf[UNITS_TEXT_MAX])
{
	uint64_t unit = 1;
	while (n / (double)unit >= 10240)
		unit *= 1024;
	return units_format_bytes(round_up(n / (double)unit) * unit, buf);
}

/* "iops=120,read_bps=3M": limits that would not have slowed the command down; "" for none. */
static const char *suggestion(const struct run_rates *p, char *buf, size_t size)
{
	char text[UNITS_TEXT_MAX];
	size_t n = 0;
	buf[0] = '\0';
	if (p->iops > 0)
		n += snprintf(buf + n, size - n, ",iops=%s",
			      units_format_count(round_up(p->iops), text));
	if (p->read_bps > 0)
		n += snprintf(buf + n, size - n, ",read_bps=%s", bytes_text(p->read_bps, text));
	if (p->write_bps > 0)
		snprintf(buf + n, size - n, ",write_bps=%s", bytes_text(p->write_bps, text));
	return buf[0] ? buf + 1 : buf;
}

/* --- text ----------------------------------------------------------------------------------- */

static void put_head(const struct run_report *r, FILE *out)
{
	const struct configuration *c = &r->run->config;
	fprintf(out, "ratefs: %s took %.2f s in %s", r->run->command[0],
		seconds_of(r->result->wall_ns), c->mount[0].source);
	for (unsigned i = 1; i < c->n_mounts; i++)
		fprintf(out, ", %s", c->mount[i].source);
	if (slower(r) > 0)
		fprintf(out, "; without ratefs %.2f s: %.1f times as long",
			seconds_of(r->plain->wall_ns), slower(r));
	fputc('\n', out);
}

static void put_classes(const struct run_report *r, FILE *out)
{
	double seconds = seconds_of(r->result->wall_ns);
	bool dry = r->run->dry_run;
	seconds = seconds > 0 ? seconds : 1;
	fprintf(out, "  %-10s %9s %9s %9s %9s %10s %9s %7s\n", "CLASS", "OPS", "BYTES", "OPS/S",
		"BYTES/S", dry ? "WOULD WAIT" : "WAITED", "FOR", "REFUSED");
	for (int i = 0; i < COST_CLASSES_SHOWN; i++) {
		const struct run_class_stats *c = &r->stats->cls[i];
		char t[5][TEXT_AMOUNT_MAX];
		uint64_t waited = dry ? c->would_wait : c->waited;
		if (!c->ops && !waited && !c->refused)
			continue;
		fprintf(out, "  %-10s %9s %9s %9s %9s %10" PRIu64 " %9s %7" PRIu64 "\n",
			cost_class_name(i), text_amount((double)c->ops, 1000, t[0]),
			text_amount((double)c->bytes, 1024, t[1]),
			text_amount((double)c->ops / seconds, 1000, t[2]),
			text_amount((double)c->bytes / seconds, 1024, t[3]), waited,
			text_ns(dry ? c->would_wait_ns : c->wait_ns, t[4]), c->refused);
	}
}

/* Several requests may be in the device concurrently, so their times can add up to more than the
 * command took. */
static void put_device(const struct run_report *r, FILE *out)
{
	const char *profile = r->run->config.mount[0].profile;
	for (int i = 0; i < COST_CLASSES_SHOWN; i++) {
		const struct run_class_stats *c = &r->stats->cls[i];
		char t[2][TEXT_AMOUNT_MAX];
		if (c->device)
			fprintf(out,
				"  device%s%s: %" PRIu64
				" requests (%s) took %s, %s each on average\n",
				profile ? " " : "", profile ? profile : "", c->device,
				cost_class_name(i), text_ns(c->device_ns, t[0]),
				text_ns(c->device_ns / c->device, t[1]));
	}
}

static void put_limits(const struct run_report *r, FILE *out)
{
	for (unsigned i = 0; i < r->stats->n_limits; i++) {
		const struct run_limit_stats *l = &r->stats->limit[i];
		char t[TEXT_AMOUNT_MAX];
		uint64_t ns = min_u64(l->blocking_ns, r->result->wall_ns);
		fprintf(out, "  %s=%s%s%s: ", l->name, l->value, *l->of ? " of " : "", l->of);
		if (r->run->dry_run)
			fprintf(out, "%" PRIu64 " requests would have waited for it\n",
				l->would_wait);
		else if (ns)
			fprintf(out, "requests waited for it for %s, %.0f%% of the time\n",
				text_ns(ns, t), 100.0 * (double)ns / (double)r->result->wall_ns);
		else
			fprintf(out, "no request waited for it\n");
	}
}

void run_report_text(const struct run_report *r, FILE *out)
{
	char text[256];
	put_head(r, out);
	if (!r->stats) {
		fprintf(out, "  no statistics: the ratefs daemon did not answer\n");
		return;
	}
	put_classes(r, out);
	put_limits(r, out);
	put_device(r, out);
	if (r->run->dry_run) {
		const char *s = suggestion(&r->stats->peak, text, sizeof(text));
		if (*s)
			fprintf(out, "  the busiest second needs: -o %s\n", s);
		else
			fprintf(out,
				"  the command did nothing there that a limit could slow down\n");
	} else if (!r->run->limited) {
		fprintf(out, "  nothing was limited, and data may have bypassed the counters: add "
			     "limits (-o iops=100,read_bps=10M), or -o dry_run to see what the "
			     "command needs\n");
	}
}

/* --- JSON ----------------------------------------------------------------------------------- */

static void put_text(const char *text, FILE *out)
{
	fputc('"', out);
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p == '"' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else if (*p < 0x20)
			fprintf(out, "\\u%04x", *p);
		else
			fputc(*p, out);
	}
	fputc('"', out);
}

static void put_end(const struct run_report *r, FILE *out)
{
	int status = r->result->status;
	if (WIFEXITED(status))
		fprintf(out, ",\"exit_code\":%d", WEXITSTATUS(status));
	else
		fprintf(out, ",\"signal\":%d", WTERMSIG(status));
	fprintf(out, ",\"seconds\":%.6f", seconds_of(r->result->wall_ns));
	if (slower(r) > 0)
		fprintf(out, ",\"seconds_without\":%.6f,\"times_as_long\":%.3f",
			seconds_of(r->plain->wall_ns), slower(r));
}

static void put_json_classes(const struct run_stats *s, FILE *out)
{
	fprintf(out, ",\"classes\":{");
	for (int i = 0; i < COST_CLASSES_SHOWN; i++) {
		const struct run_class_stats *c = &s->cls[i];
		fprintf(out,
			"%s\"%s\":{\"ops\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"waited\":%" PRIu64
			",\"wait_ns\":%" PRIu64 ",\"would_wait\":%" PRIu64
			",\"would_wait_ns\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"refused\":%" PRIu64
			",\"device\":%" PRIu64 ",\"device_ns\":%" PRIu64 "}",
			i ? "," : "", cost_class_name(i), c->ops, c->bytes, c->waited, c->wait_ns,
			c->would_wait, c->would_wait_ns, c->failed, c->refused, c->device,
			c->device_ns);
	}
	fputc('}', out);
}

static void put_json_limits(const struct run_stats *s, FILE *out)
{
	fprintf(out, ",\"limits\":[");
	for (unsigned i = 0; i < s->n_limits; i++) {
		const struct run_limit_stats *l = &s->limit[i];
		fprintf(out, "%s{\"name\":\"%s\",\"value\":", i ? "," : "", l->name);
		put_text(l->value, out);
		fprintf(out, ",\"directory\":");
		put_text(l->of, out);
		fprintf(out, ",\"blocking_ns\":%" PRIu64 ",\"would_wait\":%" PRIu64 "}",
			l->blocking_ns, l->would_wait);
	}
	fputc(']', out);
}

static void put_json_peak(const struct run_rates *p, FILE *out)
{
	char text[256];
	fprintf(out,
		",\"peak\":{\"iops\":%.1f,\"read_iops\":%.1f,\"write_iops\":%.1f,\"meta_iops\":%.1f,"
		"\"read_bps\":%.1f,\"write_bps\":%.1f},\"suggested\":",
		p->iops, p->read_iops, p->write_iops, p->meta_iops, p->read_bps, p->write_bps);
	put_text(suggestion(p, text, sizeof(text)), out);
}

void run_report_json(const struct run_report *r, FILE *out)
{
	const struct run *run = r->run;
	fprintf(out, "{\"command\":[");
	for (char **a = run->command; *a; a++) {
		fputs(a == run->command ? "" : ",", out);
		put_text(*a, out);
	}
	fprintf(out, "],\"directories\":[");
	for (unsigned i = 0; i < run->config.n_mounts; i++) {
		fputs(i ? "," : "", out);
		put_text(run->config.mount[i].source, out);
	}
	fputc(']', out);
	put_end(r, out);
	fprintf(out, ",\"dry_run\":%s", run->dry_run ? "true" : "false");
	if (run->config.mount[0].profile) {
		fprintf(out, ",\"profile\":");
		put_text(run->config.mount[0].profile, out);
	}
	if (r->stats) {
		put_json_classes(r->stats, out);
		put_json_limits(r->stats, out);
		if (run->dry_run)
			put_json_peak(&r->stats->peak, out);
	}
	fprintf(out, "}\n");
}
