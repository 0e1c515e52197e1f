"""Whatever is set on one device is so on the others: at once, after an absence, and after a fresh login."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from telethon import events, functions, types

from tests.clients.conftest import MakeProcess, MakeTelethon, new_phone
from tests.clients.state import PATIENCE_S
from tests.clients.telethon_peer import TelethonPeer
from tests.clients.test_actions import asked, following

f, t = functions, types
HOUR_S = 3600
KEYS = ("StatusTimestamp", "PhoneNumber", "About", "Birthday", "Forwards")


class Settings:
    """Filters, notification settings, privacy rules, periods and the address book, by updates alone."""

    def __init__(self, device: TelethonPeer | None = None) -> None:
        self.known: dict[str, dict[Any, Any]] = {
            name: {} for name in ("filters", "notify", "privacy", "periods", "contacts")
        }
        self.order: list[int] = [0]
        self._device = device
        self._asking = asyncio.Lock()  # an answer that is overtaken would put back what was before
        self._changed = asyncio.Condition()
        if device is not None:
            device.client.add_event_handler(self._on_update, events.Raw())

    def snapshot(self) -> dict[str, Any]:
        return {**self.known, "order": list(self.order)}

    async def comes_to(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Waits until the settings are *wanted*, or a bound is over; returns what they are then."""
        async with self._changed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait_for(lambda: self.snapshot() == wanted), PATIENCE_S)
        return self.snapshot()

    def note_notify(self, peer: Any, settings: Any) -> None:
        """Keeps what a chat, or a kind of chats, has; nothing set is nothing kept."""
        given = {name: value for name, value in settings.to_dict().items() if value is not None}
        self.known["notify"].pop(str(peer), None)
        if len(given) > 1:
            self.known["notify"][str(peer)] = given

    async def note_contacts(self, device: TelethonPeer) -> None:
        """Reads the address book, as a client does that is told that it changed."""
        async with self._asking:
            book = await device.client(f.contacts.GetContactsRequest(0))
            mutual = {entry.user_id: entry.mutual for entry in book.contacts}
            self.known["contacts"] = {user.id: (user.first_name, mutual[user.id]) for user in book.users}

    async def _on_update(self, update: Any) -> None:
        match update:
            case t.UpdateDialogFilter() if update.filter is None:
                del self.known["filters"][update.id]
                self.order.remove(update.id)
            case t.UpdateDialogFilter():
                if update.id not in self.known["filters"]:
                    self.order.append(update.id)
                self.known["filters"][update.id] = update.filter.to_dict()
            case t.UpdateDialogFilterOrder():
                self.order = list(update.order)
            case t.UpdateNotifySettings():
                self.note_notify(update.peer, update.notify_settings)
            case t.UpdatePrivacy():
                self.known["privacy"][type(update.key).__name__] = [str(rule) for rule in update.rules]
            case t.UpdatePeerHistoryTTL():
                self.known["periods"][update.peer.user_id] = update.ttl_period or 0
            case t.UpdateContactsReset() if self._device is not None:
                await self.note_contacts(self._device)
        async with self._changed:
            self._changed.notify_all()


async def settings_asked(device: TelethonPeer, user_ids: list[int]) -> Settings:
    """Returns what a device is told that asks for everything."""
    client, found = device.client, Settings()
    await found.note_contacts(device)
    answer = await client(f.messages.GetDialogFiltersRequest())
    found.order = [getattr(shown, "id", 0) for shown in answer.filters]
    found.known["filters"] = {
        shown.id: shown.to_dict() for shown in answer.filters if isinstance(shown, t.DialogFilter)
    }
    for key in KEYS:
        rules = await client(f.account.GetPrivacyRequest(getattr(t, f"InputPrivacyKey{key}")()))
        found.known["privacy"][f"PrivacyKey{key}"] = [str(rule) for rule in rules.rules]
    for user_id in user_ids:
        peer = await client.get_input_entity(user_id)
        settings = await client(f.account.GetNotifySettingsRequest(t.InputNotifyPeer(peer)))
        found.note_notify(t.NotifyPeer(t.PeerUser(user_id)), settings)
        full = (await client(f.users.GetFullUserRequest(user_id))).full_user
        found.known["periods"][user_id] = full.ttl_period or 0
    return found


def a_filter(number: int, title: str, peers: list[Any], **flags: bool) -> Any:
    made = t.DialogFilter(number, t.TextWithEntities(title, []), [], peers, [], **flags)
    return f.messages.UpdateDialogFilterRequest(number, made)


async def test_what_is_set_is_set_on_all_devices(telethon: MakeTelethon, pyrogram_like: MakeProcess) -> None:
    phone, first, second = new_phone(), await telethon(), await telethon()
    third, kurigram = await telethon(), await pyrogram_like("kurigram")
    alice = await first.log_in(phone, "Alice")
    assert [await device.log_in(phone) for device in (second, third, kurigram)] == [alice] * 3
    user_ids: list[int] = []
    phones: list[str] = []
    for name in ("Bob", "Carol", "Dave"):
        other = await telethon()
        phones.append(new_phone())
        user_ids.append(await other.log_in(phones[-1], name))
        for device in (first, second, third, kurigram):
            await device.import_contact(phones[-1], name)
    bob, carol, dave = user_ids
    sent = [await first.send(user_id, "hello") for user_id in (bob, bob, carol, dave)]

    listening = [(device, await following(device), Settings(device)) for device in (second, third)]
    for device, state, settings in listening:
        began = await settings_asked(device, user_ids)
        settings.known, settings.order = began.known, began.order
        for user_id in user_ids:
            async for message in device.messages(user_id):
                state.note(message)
    await third.go_away()

    client = first.client
    peers = [await client.get_input_entity(user_id) for user_id in user_ids]
    named = [t.InputDialogPeer(peer) for peer in peers]
    await client(a_filter(2, "Work", peers[:1], contacts=True, exclude_read=True))
    await client(a_filter(3, "Home", peers[1:]))
    await client(a_filter(2, "Office", peers[:2], exclude_muted=True, contacts=True))
    await client(f.messages.UpdateDialogFiltersOrderRequest([3, 0, 2]))
    await client(a_filter(4, "Gone", peers))
    await client(f.messages.UpdateDialogFilterRequest(4))
    for peer, until in ((peers[0], 2**31 - 1), (peers[1], 2**31 - 1), (peers[1], 0)):
        mute = t.InputPeerNotifySettings(mute_until=until, silent=True)
        await client(f.account.UpdateNotifySettingsRequest(t.InputNotifyPeer(peer), mute))
    nobody, friend = t.InputPrivacyValueDisallowAll(), t.InputPrivacyValueAllowUsers([peers[0]])
    for key in KEYS:
        await client(f.account.SetPrivacyRequest(getattr(t, f"InputPrivacyKey{key}")(), [friend, nobody]))
    everybody = [t.InputPrivacyValueAllowAll()]
    await client(f.account.SetPrivacyRequest(t.InputPrivacyKeyAbout(), everybody))
    await client(f.messages.SetHistoryTTLRequest(peers[0], HOUR_S * 24))
    await client(f.messages.SetHistoryTTLRequest(peers[1], HOUR_S * 24))
    await client(f.messages.SetHistoryTTLRequest(peers[1], 0))
    await client(f.contacts.AddContactRequest(peers[0], "Robert", "", ""))
    await kurigram.delete_contacts([carol])
    await client(f.contacts.DeleteByPhonesRequest([phones[2]]))
    await client(f.contacts.SetBlockedRequest([peers[1], peers[2]], 10))
    await client(f.contacts.UnblockRequest(peers[1]))
    for pinned in (named[0], named[2], named[1]):
        await client(f.messages.ToggleDialogPinRequest(pinned, pinned=True))
    await client(f.messages.ReorderPinnedDialogsRequest(0, [named[1], named[0]], force=True))
    await kurigram.archive(dave)
    for unread in (True, False):
        await client(f.messages.MarkDialogUnreadRequest(named[0], unread=unread))
    await kurigram.mark_unread(carol)
    await kurigram.save_draft(bob, "not yet")
    await client(f.messages.ClearAllDraftsRequest())
    await client(f.messages.SaveDraftRequest(peers[2], "still"))
    for message_id in sent[:2]:
        await kurigram.pin(bob, message_id)
    await client(f.messages.UnpinAllMessagesRequest(peers[0]))
    later = int(time.time()) + HOUR_S
    for text in ("edited", "deleted"):
        await client(f.messages.SendMessageRequest(peers[1], text, schedule_date=later))
    waiting = (await client(f.messages.GetScheduledHistoryRequest(peers[1], 0))).messages
    kept, gone = sorted(message.id for message in waiting)
    await client(f.messages.EditMessageRequest(peers[1], kept, message="mended", schedule_date=later + 60))
    await client(f.messages.DeleteScheduledMessagesRequest(peers[1], [gone]))

    fresh = await telethon()
    assert await fresh.log_in(phone) == alice
    expected, set_ = await asked(fresh, user_ids), (await settings_asked(fresh, user_ids)).snapshot()
    assert (expected["pins"], expected["archived"], expected["marks"]) == (
        [[carol, bob], []],
        [dave],
        [carol],
    )
    assert (expected["drafts"], expected["blocked"]) == ({str(dave): "still"}, [dave])
    assert list(expected["scheduled"].values()) == ["mended"]
    assert not any(known["pinned"] for known in expected["messages"].values())
    assert (set_["order"], set_["contacts"]) == ([3, 0, 2], {bob: ("Robert", False)})
    assert set_["periods"] == {bob: HOUR_S * 24, carol: 0, dave: 0}
    assert [shown["mute_until"] is None for shown in set_["notify"].values()] == [False, False]
    for device, state, settings in listening:
        if device is third:
            await third.come_back()
        assert await state.comes_to(expected) == expected
        assert await settings.comes_to(set_) == set_
