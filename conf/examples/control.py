#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Drives a ratefs daemon over its control socket; see ratefs-control(7).  Prints each answer and event as a line of JSON.
Talks to the first daemon that it finds; RATEFS_RUNTIME_DIR names the directory of another.
control.py COMMAND [MEMBER=VALUE...]      control.py set target=slow values='{"iops": 100, "write_bps": "5M", "dry_run": true}'"""
import glob, json, os, socket, sys

def value(text):  # numbers, booleans and objects as in JSON; anything else is text
    try:
        return json.loads(text)
    except ValueError:
        return text

run = os.environ.get("XDG_RUNTIME_DIR", "/run/user/%d" % os.geteuid()) if os.geteuid() else "/run"
sockets = sorted(glob.glob(os.environ.get("RATEFS_RUNTIME_DIR", run + "/ratefs") + "/*.sock"))
if not sockets or len(sys.argv) < 2 or not all("=" in word for word in sys.argv[2:]):
    sys.exit(__doc__ if sockets else "you have no running ratefs daemons")
daemon = socket.socket(socket.AF_UNIX)
daemon.settimeout(None if sys.argv[1] == "subscribe" else 30)  # events may be far apart
daemon.connect(sockets[0])
request = {name: value(text) for name, text in (word.split("=", 1) for word in sys.argv[2:])}
daemon.sendall(json.dumps({"v": 1, "do": sys.argv[1], **request}).encode() + b"\n")
for line in daemon.makefile(encoding="utf-8"):
    answer = json.loads(line)
    if not answer.get("ok", True):
        sys.exit("{code}: {text}".format(**answer["error"]))
    print(json.dumps(answer), flush=True)
    if sys.argv[1] != "subscribe":
        sys.exit()
sys.exit("the daemon has closed the connection")
