"""Changes of messages as an unmodified Telethon makes them and another device of each side sees them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from telethon import events

from tests.clients.conftest import MakeTelethon, new_phone
from tests.clients.mirror import said
from tests.clients.telethon_peer import TelethonPeer

PINNED = "MessageActionPinMessage"


class Chat:
    """A chat as one device has it from updates alone."""

    def __init__(self, device: TelethonPeer) -> None:
        self.texts: dict[int, str] = {}
        self.pinned: set[int] = set()
        self._changed = asyncio.Condition()
        device.client.add_event_handler(self._on_update, events.Raw())

    async def _on_update(self, update: Any) -> None:
        match type(update).__name__:
            case "UpdateNewMessage" | "UpdateEditMessage" if update.message.peer_id.user_id != 777000:
                self.texts[update.message.id] = said(update.message)
            case "UpdateDeleteMessages":
                for box_id in update.messages:
                    self.texts.pop(box_id, None)
            case "UpdatePinnedMessages":
                change = self.pinned.update if update.pinned else self.pinned.difference_update
                change(update.messages)
        async with self._changed:
            self._changed.notify_all()

    async def comes_to(self, texts: list[str], pins: int = 0) -> bool:
        """Waits until the chat says this, in order, with so many of its messages pinned."""

        def there() -> bool:
            known = [self.texts[box_id] for box_id in sorted(self.texts)]
            return known == texts and len(self.pinned) == pins

        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(there), 60)
            except TimeoutError:
                return False
        return True


async def test_every_device_sees_each_change(telethon: MakeTelethon) -> None:
    alice_phone, bob_phone = new_phone(), new_phone()
    alice_1, alice_2, bob_1, bob_2 = [await telethon() for _ in range(4)]
    alice = await alice_1.log_in(alice_phone, "Alice")
    bob = await bob_1.log_in(bob_phone, "Bob")
    await alice_2.log_in(alice_phone)
    await bob_2.log_in(bob_phone)
    for device in (alice_1, alice_2):
        await device.import_contact(bob_phone, "Bob")
    for device in (bob_1, bob_2):
        await device.import_contact(alice_phone, "Alice")
    listening = [Chat(device) for device in (alice_2, bob_1)]
    away = Chat(bob_2)

    async def all_come_to(texts: list[str], pins: int = 0) -> None:
        for chat in listening:
            assert await chat.comes_to(texts, pins), (chat.texts, chat.pinned)

    client = alice_1.client
    first, second, third = [await client.send_message(bob, f"m{n}") for n in range(3)]
    await all_come_to(["m0", "m1", "m2"])
    assert await away.comes_to(["m0", "m1", "m2"])
    await bob_2.go_away()
    edited = await client.edit_message(bob, second, "edited")
    assert (edited.id, edited.message) == (second.id, "edited")
    await all_come_to(["m0", "edited", "m2"])
    await client.pin_message(bob, second, notify=False)
    await all_come_to(["m0", "edited", "m2", PINNED], 1)
    await client.delete_messages(bob, [first.id], revoke=True)
    await all_come_to(["edited", "m2", PINNED], 1)
    copies = await client.forward_messages(bob, [third.id, second.id], bob)
    assert [copy.message for copy in copies] == ["m2", "edited"]
    assert all(copy.fwd_from.from_id.user_id == alice for copy in copies)
    await all_come_to(["edited", "m2", PINNED, "m2", "edited"], 1)
    at = datetime.now(UTC) + timedelta(seconds=3)
    await client.send_message(bob, "scheduled", schedule=at)
    await all_come_to(["edited", "m2", PINNED, "m2", "edited", "scheduled"], 1)
    await client.unpin_message(bob)
    everything = ["edited", "m2", PINNED, "m2", "edited", "scheduled"]
    await all_come_to(everything)
    await bob_2.come_back()
    assert await away.comes_to(everything), away.texts
    for device, peer in ((alice_1, bob), (alice_2, bob), (bob_1, alice), (bob_2, alice)):
        history = [said(message) async for message in device.messages(peer)]
        assert history[::-1] == everything
    await client.delete_dialog(bob, revoke=True)
    await all_come_to([])
    assert await away.comes_to([])
