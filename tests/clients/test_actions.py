"""Whatever one device does is the same on the others: at once, after an absence, and after a fresh login."""

from __future__ import annotations

from typing import Any

from telethon import events, functions, types

from tests.clients.conftest import MakeProcess, MakeTelethon, new_phone
from tests.clients.state import SERVICE_USER_ID, State
from tests.clients.telethon_peer import TelethonPeer

HOUR_S = 3600
PINNED = "MessageActionPinMessage"


async def following(device: TelethonPeer) -> State:
    """Returns what the device learns from now on."""
    state = State()
    state.note_profile(await device.client.get_me())

    async def on_update(update: Any) -> None:
        state.apply(update)
        await state.changed()

    device.client.add_event_handler(on_update, events.Raw())
    return state


async def asked(device: TelethonPeer, user_ids: list[int]) -> dict[str, Any]:
    """Returns what a device is told that has just logged in and asks for everything."""
    client, state = device.client, State()
    await client(functions.contacts.GetContactsRequest(0))
    for dialog in await client.get_dialogs():
        if dialog.id != SERVICE_USER_ID:
            state.note_dialog(dialog.dialog)
    for folder_id in (0, 1):
        answer = await client(functions.messages.GetPinnedDialogsRequest(folder_id))
        chats = [dialog for dialog in answer.dialogs if isinstance(dialog, types.Dialog)]
        state.pins[folder_id] = [dialog.peer.user_id for dialog in chats]
    for user_id in user_ids:
        async for message in device.messages(user_id):
            state.note(message)
        peer = await client.get_input_entity(user_id)
        waiting = await client(functions.messages.GetScheduledHistoryRequest(peer, 0))
        state.scheduled |= {message.id: message.message for message in waiting.messages}
    blocked = await client(functions.contacts.GetBlockedRequest(0, 100))
    state.blocked = {entry.peer_id.user_id for entry in blocked.blocked}
    state.note_profile(await client.get_me())
    return state.snapshot()


async def test_all_devices_end_as_a_fresh_login(telethon: MakeTelethon, pyrogram_like: MakeProcess) -> None:
    phone, first, second = new_phone(), await pyrogram_like("kurigram"), await pyrogram_like("kurigram")
    third = await telethon()
    devices: list[Any] = [first, second, third]
    alice = await first.log_in(phone, "Alice")
    assert [await device.log_in(phone) for device in (second, third)] == [alice, alice]
    others: list[TelethonPeer] = []
    for name in ("Bob", "Carol", "Dave"):
        others.append(await telethon())
        other_phone = new_phone()
        await others[-1].log_in(other_phone, name)
        for device in devices:
            await device.import_contact(other_phone, name)
    bob, carol, dave = user_ids = [other.user_id for other in others]
    away, of_bob = await following(third), await following(others[0])

    texts = [await first.send(bob, f"to Bob {number}") for number in range(4)]
    for user_id in (carol, carol, dave):
        await second.send(user_id, "hello")
    assert await of_bob.knows(4)
    await others[0].import_contact(phone, "Alice")
    of_bob.note(await others[0].client.send_message(alice, "from Bob"))
    assert await first.knows(8)
    assert await second.knows(8)
    assert await away.knows(8)
    await third.go_away()

    answer = next(number for number, known in away.messages.items() if known["text"] == "from Bob")
    await first.edit(bob, texts[1], "edited")
    await second.forward(dave, bob, [texts[2], answer])
    await first.delete(bob, [texts[0]], True)
    await second.delete(bob, [texts[3]], False)
    await first.pin(bob, texts[1])
    await first.pin(bob, texts[2])
    await first.unpin(bob, texts[2])
    await first.delete_history(carol, True)
    await first.pin_dialog(dave)
    await first.pin_dialog(bob)
    await first.archive(dave)
    await second.save_draft(bob, "not yet")
    await first.save_draft(dave, "gone")
    await first.save_draft(dave, "")
    await first.mark_unread(bob)
    await second.block(carol)
    scheduled = [await first.schedule(bob, text, HOUR_S) for text in ("now after all", "later")]
    await first.send_scheduled(bob, scheduled[:1])
    await first.rename("Alicia", "Lid")
    username = f"alice_{phone}"
    await second.take_username(username)

    fresh = await telethon()
    assert await fresh.log_in(phone) == alice
    expected = await asked(fresh, user_ids)
    chats = {
        user_id: [known["text"] for known in expected["messages"].values() if known["peer"] == user_id]
        for user_id in user_ids
    }
    assert chats == {
        bob: ["edited", "to Bob 2", "from Bob", PINNED, PINNED, "now after all"],
        carol: [],
        dave: ["hello", "to Bob 2", "from Bob"],
    }
    assert [n for n, known in expected["messages"].items() if known["pinned"]] == [str(texts[1])]
    assert list(expected["scheduled"].values()) == ["later"]
    assert (expected["pins"], expected["archived"], expected["marks"]) == ([[bob], []], [dave], [bob])
    assert (expected["drafts"], expected["blocked"]) == ({str(bob): "not yet"}, [carol])
    assert expected["profile"] == {"first_name": "Alicia", "last_name": "Lid", "username": username}
    assert [known["first_author"] for known in expected["messages"].values()][-5:-3] == [alice, bob]

    assert await first.comes_to(expected) == expected
    assert await second.comes_to(expected) == expected
    await third.come_back()
    assert await away.comes_to(expected) == expected

    on_bob = await asked(others[0], [alice])
    assert await of_bob.comes_to(on_bob) == on_bob
    assert [known["text"] for known in on_bob["messages"].values()] == [
        "edited", "to Bob 2", "to Bob 3", "from Bob", PINNED, PINNED, "now after all",
    ]  # fmt: skip
