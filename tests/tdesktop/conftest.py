"""A server, a screen, and a stock Telegram Desktop on it that reaches the server through a link.

Pictures, the server's log and the client's debug logs are kept in `artifacts/tdesktop/`, by test.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.telethon_peer import TelethonPeer, trust
from tests.support.directories import server_directory
from tests.support.link import Link
from tests.support.running import RunningServer
from tests.tdesktop.desktop import Desktop
from tests.tdesktop.screen import Screen

LINK_HOST = "127.0.0.2"
"""The server advertises this address with its own port, so that the client always comes through the link."""


@pytest.fixture
def artifacts(request: pytest.FixtureRequest) -> Path:
    path = Path(__file__).parents[2] / "artifacts/tdesktop" / request.node.name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


@pytest.fixture
def directory() -> Iterator[Path]:
    with server_directory("tdesktop") as path:
        yield path


@pytest_asyncio.fixture
async def server(directory: Path, artifacts: Path) -> AsyncIterator[RunningServer]:
    running = RunningServer(directory / "data", TELESRV_ADVERTISE_IP=LINK_HOST)
    await running.start()
    trust(running.public_key)
    yield running
    shutil.copy(running.log_file, artifacts)
    assert await running.stop() == 0
    assert "Traceback" not in running.log_text()


@pytest_asyncio.fixture
async def link(server: RunningServer) -> AsyncIterator[Link]:
    async with Link("127.0.0.1", server.port, listen=(LINK_HOST, server.port)) as link:
        yield link


@pytest_asyncio.fixture
async def screen(artifacts: Path) -> AsyncIterator[Screen]:
    screen = Screen(artifacts)
    await screen.start()
    yield screen
    await screen.stop()


@pytest_asyncio.fixture
async def desktop(
    screen: Screen, link: Link, server: RunningServer, directory: Path, artifacts: Path
) -> AsyncIterator[Desktop]:
    desktop = Desktop(screen, directory / "desktop")
    desktop.point_at(link.host, link.port, server.public_key)
    await desktop.start()
    yield desktop
    await desktop.stop()
    shutil.copytree(directory / "desktop/DebugLogs", artifacts / "DebugLogs")


@pytest_asyncio.fixture
async def others(server: RunningServer) -> AsyncIterator[tuple[TelethonPeer, TelethonPeer]]:
    """Another device of the account that the client will have, and one of the other side."""
    pair = TelethonPeer(server.port), TelethonPeer(server.port)
    yield pair
    for peer in pair:
        await peer.close()
