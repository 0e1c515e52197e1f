"""The lock of a data directory, and the process id in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from telesrv.platform.lock import DataDirInUse, DataDirLock, is_locked


def test_the_process_is_named_as_long_as_it_holds_the_lock(tmp_path: Path) -> None:
    lock, other = DataDirLock(tmp_path), DataDirLock(tmp_path)
    file = tmp_path / "lock"
    for _ in range(2):
        lock.acquire()
        assert (is_locked(tmp_path), file.read_text()) == (True, f"{os.getpid()}\n")
        with pytest.raises(DataDirInUse, match=str(os.getpid())):
            other.acquire()
        other.release()
        assert file.read_text() == f"{os.getpid()}\n"
        lock.release()
        lock.release()
        assert (is_locked(tmp_path), file.read_text()) == (False, "")
