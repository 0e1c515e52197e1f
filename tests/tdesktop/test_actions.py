"""A stock Telegram Desktop shows what is done on another device of its account and by the other side."""

from __future__ import annotations

import asyncio

import pytest
from telethon import events, functions, types

from tests.clients.telethon_peer import CODE, TelethonPeer
from tests.tdesktop.desktop import CHAT, CHAT_LIST, COMPOSE, HEADER, SEARCH, Desktop
from tests.tdesktop.screen import Screen

pytestmark = pytest.mark.tdesktop

ALICE, BOB = "15557003", "15557004"


async def test_what_is_done_elsewhere_shows(
    desktop: Desktop, screen: Screen, others: tuple[TelethonPeer, TelethonPeer]
) -> None:
    alice_elsewhere, bob = others
    alice = await alice_elsewhere.log_in(ALICE, "Alice")
    bob_id = await bob.log_in(BOB, "Robert")
    await bob.import_contact(ALICE, "Alice")
    await alice_elsewhere.import_contact(BOB, "Robert")
    first = await bob.send(alice, "greetings from afar")
    await desktop.log_in(ALICE, CODE)
    await screen.click_text("Robert", CHAT_LIST)
    await screen.wait_for("greetings from afar", CHAT)

    # The other side edits, deletes, forwards, types, comes and goes.
    await bob.client.edit_message(alice, first, "farewell then")
    await screen.wait_for("farewell then", CHAT)
    await screen.wait_gone("greetings", CHAT)
    doomed = await bob.send(alice, "hippopotamus")
    await screen.wait_for("hippopotamus", CHAT)
    await bob.client.delete_messages(alice, [doomed], revoke=True)
    await screen.wait_gone("hippopotamus", CHAT)
    await bob.client.forward_messages(alice, first, from_peer=alice)
    await screen.wait_for("Forwarded from Robert", CHAT)
    peer = await bob.client.get_input_entity(alice)
    await bob.client(functions.account.UpdateStatusRequest(offline=False))
    await screen.wait_for("online", HEADER)

    async def typing_shows() -> bool:
        # It is shown for some seconds, which may pass before the picture is read.
        await bob.client(functions.messages.SetTypingRequest(peer, types.SendMessageTypingAction()))
        return await screen.find("typing", HEADER) is not None

    await screen.until(typing_shows, "'typing' shows")
    await bob.client(functions.account.UpdateStatusRequest(offline=True))
    await screen.wait_for("last seen", HEADER)
    await screen.picture("the-other-side")

    # Another device of the account writes a draft, sends it, pins, sets a period.
    peer = await alice_elsewhere.client.get_input_entity(bob_id)
    await alice_elsewhere.client(functions.messages.SaveDraftRequest(peer, "remember the milk"))
    await screen.wait_for("remember the milk", COMPOSE)
    await alice_elsewhere.client.send_message(bob_id, "rhinoceros", clear_draft=True)
    await screen.wait_for("rhinoceros", CHAT)
    await screen.wait_for("Write a message", COMPOSE)
    await alice_elsewhere.client.pin_message(bob_id, await newest(alice_elsewhere, bob_id), pm_oneside=True)
    await screen.wait_for("Pinned message")
    await alice_elsewhere.client(functions.messages.SetHistoryTTLRequest(peer, 86_400))
    await screen.wait_for("auto-delete", CHAT)
    await screen.picture("another-device")

    # This device edits and searches.
    edits: asyncio.Queue[str] = asyncio.Queue()

    async def edited(event: events.MessageEdited.Event) -> None:
        await edits.put(event.raw_text)

    bob.client.add_event_handler(edited, events.MessageEdited())
    await desktop.send("marygold")
    await screen.wait_for("marygold", CHAT)
    await screen.key("Up")
    await screen.wait_for("Edit message")
    await screen.key("ctrl+a")
    await screen.type("marigold")
    await screen.key("Return")
    assert await edits.get() == "marigold"
    await screen.click_text("Search", SEARCH)
    await screen.type("rhinoceros")
    await screen.wait_for("Found 1 message", CHAT_LIST)
    await screen.picture("this-device")
    await screen.key("Escape")

    # What is done while it is not running shows after its next start.
    await desktop.stop()
    await bob.client.edit_message(alice, first, "crocodile tears")
    await bob.send(alice, "nightingale")
    folder = [types.InputFolderPeer(peer, 1)]
    await alice_elsewhere.client(functions.folders.EditPeerFoldersRequest(folder))
    await desktop.start()
    await screen.click_text("Archived", CHAT_LIST)
    await screen.click_text("Robert", CHAT_LIST)
    await screen.wait_for("nightingale", CHAT)
    await screen.wait_for("crocodile tears", CHAT)
    await screen.picture("after-a-restart")
    assert desktop.running


async def newest(device: TelethonPeer, user_id: int) -> int:
    """The id of the chat's newest message."""
    (message,) = await device.client.get_messages(user_id, limit=1)
    return int(message.id)
