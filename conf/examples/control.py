#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Drives a ratefs daemon over its control socket; see ratefs-control(7).

    control.py COMMAND [MEMBER=VALUE...]      control.py set target=slow values='{"iops": 100, "dry_run": true}'
"""
import glob, json, os, socket, sys


def connect(seconds):
    """A connection to the first daemon of this user; an answer may take this many seconds (None: any time)."""
    user = os.environ.get("XDG_RUNTIME_DIR", "/run/user/%d" % os.geteuid()) + "/ratefs"
    where = os.environ.get("RATEFS_RUNTIME_DIR") or ("/run/ratefs" if os.geteuid() == 0 else user)
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(seconds)
    sock.connect(sorted(glob.glob(where + "/*.sock"))[0])
    return sock.makefile("rw", encoding="utf-8", newline="\n")


def call(daemon, **request):
    """One request and its answer; ends the program where the daemon refuses."""
    daemon.write(json.dumps({"v": 1, **request}) + "\n")
    daemon.flush()
    answer = json.loads(daemon.readline())
    if not answer["ok"]:
        sys.exit("{code}: {text}".format(**answer["error"]))
    return answer


def value(text):
    """Numbers, booleans and objects as in JSON; anything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    members = {name: value(text) for name, text in (word.split("=", 1) for word in sys.argv[2:])}
    follows = sys.argv[1] == "subscribe"  # events may be far apart
    daemon = connect(None if follows else 30)
    print(json.dumps(call(daemon, do=sys.argv[1], **members), indent=2))
    for line in daemon if follows else []:
        print(line, end="", flush=True)
