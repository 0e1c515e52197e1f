"""A stock Telegram Desktop talks with a Telethon client and misses nothing, not even when its link breaks.

The pictures are kept in `artifacts/tdesktop/`, the client's debug logs beside them when the test fails.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.telethon_peer import CODE, TelethonPeer, trust
from tests.support.directories import server_directory
from tests.support.link import Link
from tests.support.running import RunningServer
from tests.tdesktop.desktop import CHAT, CHAT_LIST, Desktop
from tests.tdesktop.screen import Screen

pytestmark = pytest.mark.tdesktop

ARTIFACTS = Path(__file__).parents[2] / "artifacts/tdesktop"

LINK_HOST = "127.0.0.2"
"""The server advertises this address with its own port, so that the client always comes through the link."""

ALICE, BOB = "15557001", "15557002"


@pytest.fixture
def directory() -> Iterator[Path]:
    with server_directory("tdesktop") as path:
        yield path


@pytest_asyncio.fixture
async def server(directory: Path) -> AsyncIterator[RunningServer]:
    running = RunningServer(directory / "data", TELESRV_ADVERTISE_IP=LINK_HOST)
    await running.start()
    trust(running.public_key)
    yield running
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    shutil.copy(running.log_file, ARTIFACTS)
    assert await running.stop() == 0
    assert "Traceback" not in running.log_text()


@pytest_asyncio.fixture
async def link(server: RunningServer) -> AsyncIterator[Link]:
    async with Link("127.0.0.1", server.port, listen=(LINK_HOST, server.port)) as link:
        yield link


@pytest_asyncio.fixture
async def screen() -> AsyncIterator[Screen]:
    shutil.rmtree(ARTIFACTS, ignore_errors=True)
    screen = Screen(ARTIFACTS)
    await screen.start()
    yield screen
    await screen.stop()


@pytest_asyncio.fixture
async def desktop(
    screen: Screen, link: Link, server: RunningServer, directory: Path
) -> AsyncIterator[Desktop]:
    desktop = Desktop(screen, directory / "desktop")
    desktop.point_at(link.host, link.port, server.public_key)
    await desktop.start()
    yield desktop
    await desktop.stop()
    shutil.copytree(directory / "desktop/DebugLogs", ARTIFACTS / "DebugLogs")


async def receives(peer: TelethonPeer, text: str) -> None:
    """Return once a message from the other side says `text`."""
    messages = peer.mirror.messages
    assert await peer.mirror.wait(lambda: any(m["text"] == text and not m["out"] for m in messages.values()))


async def test_a_conversation(desktop: Desktop, screen: Screen, link: Link, server: RunningServer) -> None:
    alice_elsewhere, bob = TelethonPeer(server.port), TelethonPeer(server.port)
    alice = await alice_elsewhere.log_in(ALICE, "Alice")
    bob_id = await bob.log_in(BOB, "Robert")
    assert await bob.import_contact(ALICE, "Alice") == alice
    assert await alice_elsewhere.import_contact(BOB, "Robert") == bob_id
    await bob.send(alice, "greetings from afar")
    await alice_elsewhere.close()

    await desktop.log_in(ALICE, CODE)
    await screen.wait_for("greetings", CHAT_LIST)
    await screen.picture("chats")
    await screen.click_text("Robert", CHAT_LIST)
    await screen.wait_for("greetings from afar", CHAT)
    await screen.picture("chat")

    await desktop.send("marigold and thistle")
    await receives(bob, "marigold and thistle")
    await screen.wait_for("marigold", CHAT)
    await bob.send(alice, "buttercup in return")
    await screen.wait_for("buttercup", CHAT)
    await screen.picture("both-ways")

    link.cut()
    missed = [f"while away {word}" for word in ("elephant", "crocodile", "nightingale")]
    for text in missed:
        await bob.send(alice, text)
    connections = link.accepted
    link.mend()
    await link.wait_connected(connections + 1)
    for text in missed:
        await screen.wait_for(text, CHAT)
    await screen.picture("nothing-missed")
    await desktop.send("reunited at last")
    await receives(bob, "reunited at last")
    await screen.wait_for("reunited", CHAT)
    await screen.picture("reunited")
    assert desktop.running
    await bob.close()
