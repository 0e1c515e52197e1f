"""Where the servers of tests keep their data."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
MEMORY_NEEDED_BYTES = 2 << 30
"""For the clusters of a run, many times over."""


@contextmanager
def server_directory(name: str) -> Iterator[Path]:
    """Makes a directory, in memory where there is plenty, and removes it in the end.

    In memory a write that waits for the disk costs nothing, and cloning a database is some 20 times faster.
    What is tested is the death of processes, never that of the machine.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"telesrv-{name}-", dir=MEMORY if _is_ample(MEMORY) else None))
    os.chmod(directory, 0o711)  # the account that PostgreSQL runs as must get in
    yield directory
    shutil.rmtree(directory)


def _is_ample(memory: Path) -> bool:
    return os.access(memory, os.W_OK | os.X_OK) and shutil.disk_usage(memory).free > MEMORY_NEEDED_BYTES
