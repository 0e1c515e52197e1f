"""A stock Telegram Desktop talks with a Telethon client and misses nothing, not even when its link breaks."""

from __future__ import annotations

import pytest

from tests.clients.telethon_peer import CODE, TelethonPeer
from tests.support.link import Link
from tests.tdesktop.desktop import CHAT, CHAT_LIST, Desktop
from tests.tdesktop.screen import Screen

pytestmark = pytest.mark.tdesktop

ALICE, BOB = "15557001", "15557002"


async def receives(peer: TelethonPeer, text: str) -> None:
    """Return once a message from the other side says `text`."""
    messages = peer.mirror.messages
    assert await peer.mirror.wait(lambda: any(m["text"] == text and not m["out"] for m in messages.values()))


async def test_a_conversation(
    desktop: Desktop, screen: Screen, link: Link, others: tuple[TelethonPeer, TelethonPeer]
) -> None:
    alice_elsewhere, bob = others
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
