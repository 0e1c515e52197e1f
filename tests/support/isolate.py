"""Run a command with no network but the loopback: `python isolate.py PROGRAM ARGUMENT...`

The command gets a network namespace of its own, so that a client under test finds nothing to talk to but the
server under test. Root makes the namespace directly; an ordinary user makes a user namespace around it, which
keeps the user's id. Linux only.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1


def unshare(flags: int) -> None:
    """Leave the namespaces that `flags` name for fresh ones."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")


def isolate() -> None:
    """Leave this process with a loopback interface that is up and with no other."""
    if os.geteuid() == 0:
        unshare(CLONE_NEWNET)
    else:
        uid, gid = os.geteuid(), os.getegid()
        unshare(CLONE_NEWUSER | CLONE_NEWNET)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh", b"lo", 0).ljust(40, b"\0")
        flags = struct.unpack_from("h", fcntl.ioctl(control, SIOCGIFFLAGS, request), 16)[0]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP).ljust(40, b"\0"))


if __name__ == "__main__":
    isolate()
    os.execvp(sys.argv[1], sys.argv[1:])
