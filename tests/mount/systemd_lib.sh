# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# A systemd of the test's own, as on a machine that has booted: it is process 1 of a namespace, sees the mounts that exist
# when it begins, and manages cgroups below one of its own.
#
#	systemd_begins || say "no systemd here"
#	in_systemd systemctl list-units
#	systemd_ends

SYSTEMD_INIT='' SYSTEMD_STARTER=''
in_systemd() { nsenter --target="$SYSTEMD_INIT" --mount --pid --cgroup -- "$@"; }

# Units that services depend on unless they say otherwise, and the bus, which systemd-run needs in order to wait.
systemd_units() { # DIRECTORY
	local t
	mkdir -p "$1"
	for t in sysinit basic shutdown umount sockets; do
		printf '[Unit]\nDefaultDependencies=no\n' >"$1/$t.target"
	done
	printf '[Unit]\nDefaultDependencies=no\nWants=dbus.socket dbus.service\n' >"$1/test.target"
	printf '[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/run/dbus/system_bus_socket\n' >"$1/dbus.socket"
	cat >"$1/dbus.service" <<-END
		[Unit]
		DefaultDependencies=no
		Requires=dbus.socket
		[Service]
		Type=notify
		ExecStart=$(command -v dbus-daemon) --config-file=$1/bus.conf --address=systemd: --nofork --nopidfile --systemd-activation
	END
	cat >"$1/bus.conf" <<-'END'
		<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
			"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
		<busconfig>
			<type>system</type>
			<listen>unix:path=/run/dbus/system_bus_socket</listen>
			<auth>EXTERNAL</auth>
			<policy context="default">
				<allow send_destination="*" eavesdrop="true"/>
				<allow eavesdrop="true"/>
				<allow own="*"/>
			</policy>
		</busconfig>
	END
}

# Starts it.  False: there is none here, and $TMP/systemd.log may say why.
systemd_begins() {
	local init=/lib/systemd/systemd units=$TMP/systemd cgroup=$TMP/cgroup
	[ -x $init ] && command -v dbus-daemon >"$TMP/systemd.log" || return
	mkdir -p "$cgroup" "$units"
	mountpoint -q "$cgroup" || mount -t cgroup2 cgroup2 "$cgroup" 2>"$TMP/systemd.log" || return
	mkdir "$cgroup/ratefs-test-$$" 2>"$TMP/systemd.log" || return
	systemd_units "$units"
	# shellcheck disable=SC2016 # for the inner shells
	bash -c 'echo $$ >"$1/ratefs-test-$2/cgroup.procs" && shift 2 &&
		exec unshare --pid --fork --kill-child --mount --mount-proc --propagation private --cgroup bash -c "$@"' \
		sh "$cgroup" $$ 'mount --make-rprivate / && umount -R /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup &&
		exec env -i PATH="$PATH" container=test SYSTEMD_UNIT_PATH="$1" "$2" --unit=test.target --log-target=console --show-status=no' \
		sh "$units" $init >"$TMP/systemd.log" 2>&1 </dev/null &
	SYSTEMD_STARTER=$!
	within 20s systemd_answers
}
systemd_answers() {
	SYSTEMD_INIT=$(pgrep -xf "[^ ]*systemd --unit=test.target .*") &&
		[ "$(in_systemd systemctl is-active dbus.service 2>/dev/null)" = active ]
}
systemd_ends() {
	[ -z "$SYSTEMD_INIT" ] || kill -9 "$SYSTEMD_INIT" # and with it all of its namespace
	[ -z "$SYSTEMD_STARTER" ] || wait "$SYSTEMD_STARTER" 2>/dev/null
	SYSTEMD_INIT='' SYSTEMD_STARTER=''
	within 5s no_systemd_cgroup
}
no_systemd_cgroup() {
	find "$TMP/cgroup/ratefs-test-$$" -depth -type d -exec rmdir {} + 2>/dev/null
	[ ! -e "$TMP/cgroup/ratefs-test-$$" ]
}
systemd_cleanup() {
	local rc=$?
	systemd_ends
	(exit $rc)
	cleanup
}
trap systemd_cleanup EXIT
