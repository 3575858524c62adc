# SPDX-License-Identifier: MIT
"""Stands in for the other side of ratefs-pool in another version: pool_foreign.py WHAT ARGUMENT...
    daemon HELPER    starts the helper with a setup that it does not understand, and prints its answer as hex
    helper           starts as a helper, answers its setup with a message that no daemon understands, and stays
    server PATH      serves a socket
    clients PATH N   connects N times to a socket, like helpers of this version, and stays
    crowd PATH       connects to a socket whose server has hung, until no further connection is possible, and stays"""
import socket
import struct
import subprocess
import sys
import time

what = sys.argv[1]
if what == "daemon":
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.send(struct.pack("I", 99))
    with subprocess.Popen(["/bin/sh", "-c", 'exec "$0" --helper 3<&0 2>/dev/null', sys.argv[2]], stdin=theirs):
        theirs.close()
        ours.settimeout(20)
        print(ours.recv(65536).hex())
elif what == "helper":
    daemon = socket.socket(fileno=3)
    daemon.recv(65536)
    daemon.send(struct.pack("I", 99))
    time.sleep(60)
elif what == "server":
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(sys.argv[2])
    listener.listen()
    while True:
        client, _ = listener.accept()
        client.send(struct.pack("II", 99, 0))
elif what == "clients":
    connections = []
    for _ in range(int(sys.argv[3])):
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.connect(sys.argv[2])
        one.recv(100)
        connections.append(one)
    print("connected", flush=True)
    time.sleep(600)
elif what == "crowd":
    connections = []
    try:
        while True:
            connections.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            connections[-1].setblocking(False)
            connections[-1].connect(sys.argv[2])
    except BlockingIOError:
        print("full", flush=True)
    time.sleep(600)
