/* SPDX-License-Identifier: MIT */
#include "ctl/volume_privileges.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the daemon keeps (daemon/privileges.c says why), CAP_SETPCAP to give up the rest, and
 * CAP_SYS_PTRACE to see which mounts containers have (/proc/PID/mountinfo). */
static const unsigned char needed[] = {
	CAP_CHOWN,   CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER,	   CAP_FSETID,
	CAP_SETGID,  CAP_SETUID,       CAP_LINUX_IMMUTABLE, CAP_SYS_ADMIN, CAP_MKNOD,
	CAP_SETFCAP, CAP_SETPCAP,      CAP_SYS_PTRACE,
};

static uint64_t needed_mask(void)
{
	uint64_t mask = 0;
	for (unsigned i = 0; i < sizeof(needed); i++)
		mask |= UINT64_C(1) << needed[i];
	return mask;
}

static int drop_bounding(uint64_t keep)
{
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap) < 0)
			return -1;
	return 0;
}

int volume_privileges_drop(struct error *err)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct have[2];
	uint64_t keep = needed_mask();
	if (syscall(SYS_capget, &head, have) < 0)
		return error_set(err, "capabilities: %s", strerror(errno));
	if (!(have[0].effective & (1U << CAP_SYS_ADMIN)))
		return error_set(err, "must be run by root: it mounts volumes for containers");
	for (int i = 0; i < 2; i++) {
		have[i].permitted &= (uint32_t)(keep >> (32 * i));
		have[i].effective &= have[i].permitted;
		have[i].inheritable = 0;
	}
	if (drop_bounding(keep) < 0 || syscall(SYS_capset, &head, have) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_set(err, "cannot give up capabilities: %s", strerror(errno));
	return 0;
}
