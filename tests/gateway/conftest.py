"""One running server for clients that misbehave."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.support.raw_client import RawClient
from tests.support.running import RunningServer


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server() -> AsyncIterator[RunningServer]:
    """A server that must survive every test of this folder without a traceback."""
    directory = Path(tempfile.mkdtemp(prefix="telesrv-gateway-"))
    os.chmod(directory, 0o711)  # the account that PostgreSQL runs as must get in
    running = RunningServer(directory / "data")
    await running.start()
    yield running
    assert await running.stop() == 0, running.log_text()[-4000:]
    assert "Traceback" not in running.log_text()
    shutil.rmtree(directory)


@pytest_asyncio.fixture
async def client(server: RunningServer) -> AsyncIterator[RawClient]:
    """A client with a key, a salt and a link."""
    raw = RawClient(server.port, server.data_dir)
    await raw.open()
    yield raw
    await raw.close()
