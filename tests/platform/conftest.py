"""Data directories that the account PostgreSQL runs as can reach, removed after the test."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from telesrv.platform import EmbeddedServers
from tests.support.directories import server_directory


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A directory that does not exist yet, in one of the test's own."""
    with server_directory("data") as parent:
        yield parent / "data"


@pytest.fixture(scope="session")
def first_data_dir() -> Iterator[Path]:
    """A data directory that servers were started in once, and stopped; to be copied only."""
    with server_directory("data") as parent:
        asyncio.run(_start_once(parent / "data"))
        yield parent / "data"


@pytest.fixture
def made_data_dir(first_data_dir: Path, data_dir: Path) -> Path:
    """A copy of a data directory that servers were started in once: a start in it takes no initdb."""
    subprocess.run(["cp", "-a", str(first_data_dir), str(data_dir)], check=True)
    return data_dir


async def _start_once(data_dir: Path) -> None:
    servers = EmbeddedServers(data_dir, postgres_settings={"fsync": "off"})
    await servers.start()
    await servers.stop()
