"""The profile page of an account, field by field: each as its viewer has it, and of this chat only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from telesrv.tl import functions, types
from tests.rpc.chats import Device, Server, running

Act: TypeAlias = Callable[[Server, Device, Device], Awaitable[Any]]

LATER_S = 1_000


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


def named(device: Device, other: Device) -> types.InputUser:
    peer = device.peer(other)
    return types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)


async def full(device: Device, other: Device) -> types.UserFull:
    answer = await device.call(functions.users.GetFullUser(id=named(device, other)))
    assert isinstance(answer.full_user, types.UserFull)
    return answer.full_user


async def block(server: Server, ada: Device, bob: Device) -> None:
    await ada.call(functions.contacts.Block(id=ada.peer(bob)))


async def archive(server: Server, ada: Device, bob: Device) -> None:
    await ada.send(bob)
    moved: list[Any] = [types.InputFolderPeer(peer=ada.peer(bob), folder_id=1)]
    await ada.call(functions.folders.EditPeerFolders(folder_peers=moved))


async def limit_lifetime(server: Server, ada: Device, bob: Device) -> None:
    await ada.send(bob)
    await ada.call(functions.messages.SetHistoryTTL(peer=ada.peer(bob), period=86_400))


async def pin(server: Server, ada: Device, bob: Device) -> int:
    sent = await ada.send(bob)
    await ada.call(functions.messages.UpdatePinnedMessage(peer=ada.peer(bob), id=sent.id, silent=True))
    return int(sent.id)


async def schedule(server: Server, ada: Device, bob: Device) -> None:
    await ada.send(bob, "later", schedule_date=int(server.clock.time()) + LATER_S)


async def mute(server: Server, ada: Device, bob: Device) -> None:
    settings = types.InputPeerNotifySettings(silent=True, mute_until=2**31 - 1)
    peer = types.InputNotifyPeer(peer=ada.peer(bob))
    await ada.call(functions.account.UpdateNotifySettings(peer=peer, settings=settings))


async def list_(server: Server, ada: Device, bob: Device, *, note: str | None = None) -> None:
    await ada.call(
        functions.contacts.AddContact(
            id=named(ada, bob),
            first_name="Bobby",
            last_name="",
            phone="",
            note=None if note is None else types.TextWithEntities(text=note, entities=[]),
        )
    )


async def list_with_note(server: Server, ada: Device, bob: Device) -> None:
    await list_(server, ada, bob, note="owes me a book")


async def set_rules(device: Device, key: Any, rule: Any) -> None:
    await device.call(functions.account.SetPrivacy(key=key, rules=[rule]))


async def hide_in_forwards(server: Server, ada: Device, bob: Device) -> None:
    await set_rules(bob, types.InputPrivacyKeyForwards(), types.InputPrivacyValueDisallowAll())


async def refuse_voice(server: Server, ada: Device, bob: Device) -> None:
    await set_rules(bob, types.InputPrivacyKeyVoiceMessages(), types.InputPrivacyValueDisallowAll())


async def hide_reading(server: Server, ada: Device, bob: Device) -> None:
    hide = types.GlobalPrivacySettings(hide_read_marks=True)
    await bob.call(functions.account.SetGlobalPrivacySettings(settings=hide))
    await set_rules(bob, types.InputPrivacyKeyStatusTimestamp(), types.InputPrivacyValueDisallowAll())


async def say(server: Server, ada: Device, bob: Device) -> None:
    await bob.call(functions.account.UpdateProfile(about="builds"))


async def tell_birthday(server: Server, ada: Device, bob: Device) -> None:
    await bob.call(functions.account.UpdateBirthday(birthday=types.Birthday(day=1, month=2)))
    await set_rules(bob, types.InputPrivacyKeyBirthday(), types.InputPrivacyValueAllowAll())


@pytest.mark.parametrize(
    ("act", "field", "before", "after"),
    [
        (block, "blocked", False, True),
        (archive, "folder_id", None, 1),
        (limit_lifetime, "ttl_period", None, 86_400),
        (pin, "pinned_msg_id", None, 1),
        (schedule, "has_scheduled", False, True),
        (list_with_note, "note", None, types.TextWithEntities(text="owes me a book", entities=[])),
        (hide_in_forwards, "private_forward_name", None, "Bob"),
        (refuse_voice, "voice_messages_forbidden", False, True),
        (hide_reading, "read_dates_private", False, True),
        (say, "about", None, "builds"),
        (tell_birthday, "birthday", None, types.Birthday(day=1, month=2)),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
async def test_a_field_is_as_the_viewer_has_it(
    server: Server, act: Act, field: str, before: object, after: object
) -> None:
    ada, bob, cid = [await server.account(name) for name in ("Ada", "Bob", "Cid")]
    assert getattr(await full(ada, bob), field) == before
    await act(server, ada, bob)
    assert getattr(await full(ada, bob), field) == after
    untouched = await full(ada, cid)
    assert getattr(untouched, field) == before, "of another chat"


async def test_the_fields_that_hold_for_every_account(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    shown = await full(ada, bob)
    assert shown.can_pin_message
    assert (shown.common_chats_count, shown.id) == (0, bob.user_id)
    assert (shown.phone_calls_available, shown.phone_calls_private, shown.video_calls_available) == (
        False,
        True,
        False,
    )


async def test_its_settings_are_the_action_bar_of_the_chat(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    for act in (None, list_, block):
        if act is not None:
            await act(server, ada, bob)
        asked = await ada.call(functions.messages.GetPeerSettings(peer=ada.peer(bob)))
        assert (await full(ada, bob)).settings == asked.settings


async def test_its_notify_settings_are_those_of_the_chat(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await mute(server, ada, bob)
    shown = (await full(ada, bob)).notify_settings
    assert isinstance(shown, types.PeerNotifySettings)
    assert (shown.silent, shown.mute_until) == (True, 2**31 - 1)
    asked = types.InputNotifyPeer(peer=ada.peer(bob))
    assert await ada.call(functions.account.GetNotifySettings(peer=asked)) == shown
