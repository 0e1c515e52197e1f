"""Privacy, presence, notification settings and the end of an account, as unmodified clients see them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from telethon import events, functions, types

from tests.clients.conftest import MakeProcess, MakeTelethon, new_phone

PATIENCE_S = 60


class Updates:
    """What a device was told, in order."""

    def __init__(self, device: Any) -> None:
        self._seen: list[Any] = []
        self._changed = asyncio.Condition()
        device.client.add_event_handler(self._on_update, events.Raw())

    async def _on_update(self, update: Any) -> None:
        async with self._changed:
            self._seen.append(update)
            self._changed.notify_all()

    async def find(self, wanted: Callable[[Any], bool]) -> Any:
        """Waits for an update and returns it."""

        def found() -> list[Any]:
            return [update for update in self._seen if wanted(update)]

        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(found), PATIENCE_S)
        return found()[0]


def is_privacy(key: type) -> Callable[[Any], bool]:
    return lambda update: isinstance(update, types.UpdatePrivacy) and isinstance(update.key, key)


def is_status(status: type) -> Callable[[Any], bool]:
    return lambda update: isinstance(update, types.UpdateUserStatus) and isinstance(update.status, status)


async def test_settings_reach_the_other_device_and_presence_the_others(telethon: MakeTelethon) -> None:
    alice_phone, bob_phone = new_phone(), new_phone()
    alice_1, alice_2, bob_1 = await telethon(), await telethon(), await telethon()
    alice = await alice_1.log_in(alice_phone, "Alice")
    bob = await bob_1.log_in(bob_phone, "Bob")
    await alice_2.log_in(alice_phone)
    for device in (alice_1, alice_2):
        await device.import_contact(bob_phone, "Bob")
    await bob_1.import_contact(alice_phone, "Alice")
    on_alice_2, on_bob = Updates(alice_2), Updates(bob_1)

    contacts = [types.InputPrivacyValueAllowContacts()]
    rules = [types.PrivacyValueAllowContacts(), types.PrivacyValueDisallowAll()]
    status = types.InputPrivacyKeyStatusTimestamp()
    await alice_1.client(functions.account.SetPrivacyRequest(status, contacts))
    told = await on_alice_2.find(is_privacy(types.PrivacyKeyStatusTimestamp))
    assert told.rules == rules

    chat = types.InputNotifyPeer(await alice_1.client.get_input_entity(bob))
    settings = types.InputPeerNotifySettings(mute_until=2**31 - 1)
    await alice_1.client(functions.account.UpdateNotifySettingsRequest(chat, settings))
    muted = await on_alice_2.find(lambda update: isinstance(update, types.UpdateNotifySettings))
    assert muted.peer.peer == types.PeerUser(bob)
    assert muted.notify_settings.mute_until is not None

    await alice_2.go_away()
    await alice_1.client(functions.account.SetPrivacyRequest(types.InputPrivacyKeyAbout(), contacts))
    await alice_2.come_back()
    assert (await on_alice_2.find(is_privacy(types.PrivacyKeyAbout))).rules == rules

    await alice_1.client(functions.account.UpdateStatusRequest(offline=False))
    assert (await on_bob.find(is_status(types.UserStatusOnline))).user_id == alice
    await alice_1.go_away()
    await alice_2.go_away()
    assert (await on_bob.find(is_status(types.UserStatusOffline))).user_id == alice

    await alice_1.client.connect()
    await alice_1.client(functions.account.DeleteAccountRequest(reason=""))
    await on_bob.find(lambda update: isinstance(update, types.UpdateUser) and update.user_id == alice)
    assert (await bob_1.client.get_entity(types.PeerUser(alice))).deleted
    assert (await bob_1.client(functions.contacts.GetContactsRequest(hash=0))).contacts == []


async def test_clients_that_name_everybody_by_a_peer_look_people_up(
    telethon: MakeTelethon, pyrogram_like: MakeProcess
) -> None:
    phone, bob_phone = new_phone(), new_phone()
    bob_1 = await telethon()
    bob = await bob_1.log_in(bob_phone, "Bob")
    await bob_1.client(functions.account.UpdateProfileRequest(about="builds"))
    kurigram = await pyrogram_like("kurigram")
    alice = await kurigram.log_in(phone, "Alice")
    assert await kurigram.import_contact(bob_phone, "Bobby") == bob
    assert await kurigram.users(["me", bob, f"+{bob_phone.lstrip('+')}"]) == [alice, bob, bob]
    assert await kurigram.about(bob) == "builds"
    await kurigram.delete_contacts([bob])
    await kurigram.add_contact(bob, "Robert")
    assert await kurigram.about("me") is None
