/* SPDX-License-Identifier: MIT */
/* `ratefsctl metrics`: for the textfile collector of node_exporter. */
#include "ctl/collect.h"
#include "ctl/ctl.h"
#include "ctl/metrics.h"
#include "ctl/users.h"

#include "config.h"

#define KEYS_MAX 4096

int run_metrics(struct ctl *c)
{
	const struct collect_options from = {
		.which = c->which,
		.keys = KEYS_MAX,
		.patience_ms = c->daemons.n_silent ? COLLECT_AGAIN_MS : CLIENT_PATIENCE_MS,
	};
	const struct metrics_options o = {
		.version = PACKAGE_VERSION, .users = METRICS_USERS_DEFAULT, .user_name = user_name};
	struct error err = ERROR_INIT;
	struct snapshot *s = collect(&from, &err);
	if (!s)
		return ctl_complain(PROTO_NO_MEMORY, "out of memory");
	metrics_write(s, &o, stdout);
	snapshot_free(s);
	return 0; /* daemons that do not answer are counted in the output */
}
