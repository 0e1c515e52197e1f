"""One running server for clients that misbehave."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.directories import server_directory
from tests.support.raw_client import RawClient
from tests.support.running import RunningServer

PHONES = itertools.count(15_700_001)


def new_phone() -> str:
    """Returns a phone number that no other test uses."""
    return f"{next(PHONES)}"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server() -> AsyncIterator[RunningServer]:
    """A server that must survive every test of this folder without a traceback."""
    with server_directory("gateway") as directory:
        running = RunningServer(directory / "data")
        await running.start()
        yield running
        assert await running.stop() == 0, running.log_text()[-4000:]
        assert "Traceback" not in running.log_text()


@pytest_asyncio.fixture
async def client(server: RunningServer) -> AsyncIterator[RawClient]:
    """A client with a key, a salt and a link."""
    raw = RawClient(server.port, server.data_dir)
    await raw.open()
    yield raw
    await raw.close()
