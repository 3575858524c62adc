# SPDX-License-Identifier: MIT
"""A bad line for the tests of pools: pool_proxy.py LISTEN_PORT TARGET_PORT DELAY_MS CUT_PERCENT
Delays what passes, each way, and cuts the connection instead of so many per cent of the packets.
With TARGET_PORT 0 it answers rubbish to everything: DELAY_MS 0 a line of HTTP, 1 the beginning of a huge array,
2 a line without an end, 3 the same slowly, 4 always another error, 5 what a script gets from a replica of Redis 6.
It listens at all addresses, or at that of the environment's LISTEN."""
import os
import random
import socket
import sys
import threading
import time

port, target, delay, cut = (int(a) for a in sys.argv[1:5])
REPLICA = (b"-ERR Error running script (call to f_%s): @user_script:265: @user_script: 265: "
           b"-READONLY You can't write against a read only replica.\r\n" % (b"0" * 40))


def pump(source, sink):
    try:
        while data := source.recv(65536):
            if random.randrange(100) < cut:
                break
            time.sleep(delay / 1000)
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def rubbish(client):
    try:
        while client.recv(65536):
            client.sendall((b"HTTP/1.1 400 Bad Request\r\n\r\n", b"*2000000000\r\n", b"+", b"+",
                            b"-ERR %d\r\n" % random.randrange(10**6), REPLICA)[delay])
            while delay in (2, 3):
                client.sendall(b"x" * (65536 if delay == 2 else 1))
                time.sleep(0.1 if delay == 3 else 0)
    except OSError:
        pass


listener = socket.create_server((os.environ.get("LISTEN", "0.0.0.0"), port))
while True:
    client, _ = listener.accept()
    if not target:
        threading.Thread(target=rubbish, args=(client,), daemon=True).start()
        continue
    server = socket.create_connection(("10.77.0.254", target))
    for pair in ((client, server), (server, client)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
