"""One running server for the third-party clients, and devices that end with the test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest_asyncio

from tests.clients.process_peer import ProcessPeer
from tests.clients.telethon_peer import TelethonPeer, trust
from tests.support.directories import server_directory
from tests.support.running import RunningServer

PHONES = itertools.count(15_550_001)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server() -> AsyncIterator[RunningServer]:
    """A server with embedded stores; tests share it and keep apart by their phones."""
    with server_directory("clients") as directory:
        running = RunningServer(directory / "data", TELESRV_PARTITIONS="16")
        await running.start()
        trust(running.public_key)
        yield running
        assert await running.stop() == 0, running.log_text()[-4000:]
        assert "Traceback" not in running.log_text()


def new_phone() -> str:
    """Returns a phone number that no other test uses."""
    return f"{next(PHONES)}"


MakeTelethon = Callable[..., Awaitable[TelethonPeer]]
MakeProcess = Callable[..., Awaitable[ProcessPeer]]


@pytest_asyncio.fixture
async def telethon(server: RunningServer) -> AsyncIterator[MakeTelethon]:
    """Makes Telethon devices."""
    made: list[TelethonPeer] = []

    async def make(**options: Any) -> TelethonPeer:
        peer = TelethonPeer(server.port, **options)
        made.append(peer)
        return peer

    yield make
    for peer in made:
        await peer.close()


@pytest_asyncio.fixture
async def pyrogram_like(server: RunningServer) -> AsyncIterator[MakeProcess]:
    """Makes kurigram and pyrogram devices, each a process of its own."""
    made: list[ProcessPeer] = []

    async def make(environment: str, framing: str = "abridged") -> ProcessPeer:
        peer = ProcessPeer(environment, server.port, server.public_key, framing)
        await peer.start()
        made.append(peer)
        return peer

    yield make
    for peer in made:
        await peer.stop()
