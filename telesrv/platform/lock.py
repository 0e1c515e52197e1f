"""One server per data directory: a lock that the kernel gives back when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

from telesrv.platform.errors import PlatformError

LOCK_NAME: Final = "lock"


class DataDirInUse(PlatformError):
    """Another process holds the data directory."""


class DataDirLock:
    """Between `acquire` and `release` no other process holds `directory`.

    The file stays behind on release, as removing it would let two processes lock two files of one name. It
    holds the process id of the holder, so that people can signal it, and nothing after a release: the number
    may be another process's then.
    """

    __slots__ = ("_descriptor", "_path")

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK_NAME
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Takes the lock now or not at all.

        Raises:
            DataDirInUse: another process has it.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise DataDirInUse(
                f"{self._path.parent} is in use by another server (process {holder}); "
                "stop that one, or give this one a directory of its own with TELESRV_DATA_DIR"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Gives the lock back; a lock that is not held is left alone."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None


def is_locked(directory: Path) -> bool:
    """Whether a living process holds `directory` at this moment."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False
