#!/bin/bash
# SPDX-License-Identifier: MIT
# The systemd units: systemd accepts them, and the daemon does what they rely on.
. "${srcdir:-.}/tests/mount/net_lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires python3

mkdir "$TMP/units"
for unit in ratefs.service ratefs@.service; do
	[ -f "$builddir/conf/$unit" ] || skip "needs conf/$unit: run make"
	sed "s#^ExecStart=[^ ]*#ExecStart=$RATEFS#" "$builddir/conf/$unit" >"$TMP/units/$unit"
done
if [ -x "$builddir/ratefs-volume" ]; then
	sed "s#^ExecStart=[^ ]*#ExecStart=$builddir/ratefs-volume#" "$builddir/conf/ratefs-volume.service" \
		>"$TMP/units/ratefs-volume.service"
	cp "$srcdir/conf/ratefs-volume.socket" "$TMP/units/"
	volume=$TMP/units/ratefs-volume.service
fi
if [ -x "$builddir/ratefs-exporter" ]; then
	sed "s#^ExecStart=[^ ]*#ExecStart=$builddir/ratefs-exporter#" "$builddir/conf/ratefs-exporter.service" \
		>"$TMP/units/ratefs-exporter.service"
	exporter=$TMP/units/ratefs-exporter.service
fi
# Ask systemd only if it can load at least its own units.
if systemd-analyze verify --man=no basic.target >/dev/null 2>&1; then
	said=$(systemd-analyze verify --man=no "$TMP/units/ratefs.service" "$TMP/units/ratefs@test.service" \
		${volume:+"$volume"} ${exporter:+"$exporter"} 2>&1 | grep -F ratefs)
	equal "$said" "" "systemd-analyze verify complains"
else
	say "systemd-analyze is not here, or does not work here: the units are not verified"
fi

# Type=notify: READY=1 when the mounts answer, not before.  ExecReload: SIGHUP.  Stop: SIGTERM.
cat >"$TMP/test.conf" <<EOF
[mount:test]
source = $SRC
mountpoint = $MNT
iops = 100
EOF
python3 - "$RATEFS" "$TMP" "$MNT" >"$TMP/out" 2>&1 <<'EOF' || fail "$(cat "$TMP/out")"
import os, signal, socket, subprocess, sys, time
ratefs, tmp, mnt = sys.argv[1:]
sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sock.bind(tmp + "/notify")
sock.settimeout(10)
env = dict(os.environ, NOTIFY_SOCKET=tmp + "/notify")
daemon = subprocess.Popen([ratefs, "-f", "-c", tmp + "/test.conf"], env=env)
assert sock.recv(100) == b"READY=1", "not ready"
assert os.path.ismount(mnt), "ready, but nothing is mounted"
with open(tmp + "/test.conf", "a") as f:
    f.write("bps = 10M\n")
daemon.send_signal(signal.SIGHUP)
for _ in range(500):
    shown = subprocess.run(["ratefsctl", "show", "test"], capture_output=True, text=True).stdout
    if "bps                10M" in shown:
        break
    time.sleep(0.01)
else:
    raise SystemExit("SIGHUP changed nothing: " + shown)
daemon.send_signal(signal.SIGTERM)
code = daemon.wait(10)
assert code == 0, f"exit code {code}"
assert not os.path.ismount(mnt), "still mounted"
EOF

# The command of the exporter's unit, with the rights of the unit: it needs no capability, and
# serves the metrics.
if [ -n "${exporter-}" ]; then
	requires curl setpriv
	"$RATEFS" -c "$TMP/test.conf" || fail "-c"
	LISTEN=127.0.0.1:19944
	read -ra command < <(sed -n "s#^ExecStart=##p" "$exporter" | sed "s#\${LISTEN}#$LISTEN#")
	setpriv --bounding-set=-all --no-new-privs "${command[@]}" >"$TMP/exporter.log" 2>&1 &
	scraped() { curl -sf "http://$LISTEN/metrics" >"$TMP/metrics"; }
	within 10s scraped || fail "the exporter does not answer: $(cat "$TMP/exporter.log")"
	# A scrape leaves out a daemon that does not answer in time.
	scraped_mount() { scraped && grep -q '^ratefs_.*mount="test"' "$TMP/metrics"; }
	within 20s scraped_mount || fail "no metrics of the mount: $(head -5 "$TMP/metrics")"
	kill %% && wait %% 2>/dev/null
	rc=0
	"${command[0]}" --listen nonsense 2>/dev/null || rc=$?
	equal $rc 2 "exit code of the exporter for a wrong address"
	ok ctl unmount test >/dev/null
fi
# The volume plugin: its socket is the one that the unit names, and a wrong command line ends with
# status 2 as well.
if [ -n "${volume-}" ]; then
	grep -q '^ListenStream=/run/docker/plugins/ratefs.sock' "$TMP/units/ratefs-volume.socket" ||
		fail "the socket is not where Docker looks: $(cat "$TMP/units/ratefs-volume.socket")"
	rc=0
	"$builddir/ratefs-volume" --nonsense 2>/dev/null || rc=$?
	equal $rc 2 "exit code of ratefs-volume for a wrong flag"
fi

# RestartPreventExitStatus=2
echo 'nonsense = 1' >>"$TMP/test.conf"
rc=0
"$RATEFS" -f -c "$TMP/test.conf" 2>/dev/null || rc=$?
equal $rc 2 "exit code for a wrong configuration"
