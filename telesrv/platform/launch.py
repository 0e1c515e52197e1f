"""Run as a script: become an unprivileged user, tie one's life to the parent's, become a program.

    python -I -S launch.py PARENT_PID SIGNAL UID GID PROGRAM ARGUMENT...

`UID` or `GID` of -1 keeps the caller's. It stands between `fork` and `exec` in a process of its own because
code that runs there inside a threaded parent may deadlock, and because the user dropped to need not be able
to read this interpreter. On Linux the kernel sends SIGNAL when the parent dies; elsewhere nothing does.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Becomes the program, or leaves with 1 when the parent is already gone."""
    parent, signal_number, uid, gid = (int(argument) for argument in arguments[:4])
    program = arguments[4:]
    if gid >= 0:
        os.setgroups([])
        os.setgid(gid)
    if uid >= 0:
        os.setuid(uid)
    if sys.platform == "linux":
        # After setuid, which clears it; exec keeps it.
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        sys.exit(1)
    os.execv(program[0], program)  # noqa: S606 - no shell on purpose


if __name__ == "__main__":
    main(sys.argv[1:])
