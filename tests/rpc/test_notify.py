"""Notification settings: of kinds of chats and of single ones, on every device."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.updates import EventKind
from telesrv.store.notify import MAX_EXCEPTIONS
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Replica, Server, running

DEFAULT = types.NotificationSoundDefault()
EVERYTHING = types.PeerNotifySettings(
    show_previews=True,
    silent=False,
    mute_until=0,
    ios_sound=DEFAULT,
    android_sound=DEFAULT,
    other_sound=DEFAULT,
)


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def get(device: Device, peer: types.TypeInputNotifyPeer) -> Any:
    return await device.call(functions.account.GetNotifySettings(peer=peer))


async def update(device: Device, peer: types.TypeInputNotifyPeer, **fields: Any) -> Any:
    settings = types.InputPeerNotifySettings(**fields)
    return await device.call(functions.account.UpdateNotifySettings(peer=peer, settings=settings))


async def exceptions(device: Device, **fields: Any) -> list[Any]:
    answer = await device.call(functions.account.GetNotifyExceptions(**fields))
    assert {user.id for user in answer.users} == {each.peer.peer.user_id for each in answer.updates}
    return [(each.peer.peer.user_id, each.notify_settings) for each in answer.updates]


async def test_settings_are_kept_and_shown(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    users, chat = types.InputNotifyUsers(), types.InputNotifyPeer(peer=ada.peer(bob))
    assert await get(ada, users) == EVERYTHING
    assert await get(ada, chat) == types.PeerNotifySettings()
    local = types.NotificationSoundLocal(title="bell", data="bell.ogg")
    assert await update(ada, users, show_previews=False, mute_until=-5, sound=local)
    kept = await get(ada, users)
    assert (kept.show_previews, kept.mute_until, kept.ios_sound, kept.silent) == (False, 0, local, None)
    assert await update(ada, chat, mute_until=2**31 - 1)
    assert await get(ada, chat) == types.PeerNotifySettings(mute_until=2**31 - 1)
    shown = await ada.call(
        functions.users.GetFullUser(
            id=types.InputUser(user_id=bob.user_id, access_hash=ada.peer(bob).access_hash)
        )
    )
    assert shown.full_user.notify_settings == await get(ada, chat)
    assert await get(bob, types.InputNotifyPeer(peer=bob.peer(ada))) == types.PeerNotifySettings()


async def test_every_device_has_the_same_settings(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    away = await server.device(ada.user)
    pts = await ada.pts()
    followed, stale = Replica(ada.user_id, pts), Replica(ada.user_id, pts)
    chat = types.InputNotifyPeer(peer=ada.peer(bob))
    peers = [types.InputNotifyUsers(), types.InputNotifyChats(), types.InputNotifyBroadcasts(), chat]
    for peer in peers:
        await update(ada, peer, mute_until=100)
        await update(ada, peer, mute_until=100)
    assert await ada.pts() == pts + 4, "the same again is no change"
    await _same(server, away, followed, stale, [types.PeerNotifySettings(mute_until=100)] * 4)
    await ada.call(functions.account.ResetNotifySettings())
    await ada.call(functions.account.ResetNotifySettings())
    assert await ada.pts() == pts + 5
    await _same(server, away, followed, stale, [EVERYTHING] * 3 + [types.PeerNotifySettings()])
    assert [await get(ada, peer) for peer in peers] == [EVERYTHING] * 3 + [types.PeerNotifySettings()]


async def test_a_reset_of_many_chats_is_told_whole(server: Server) -> None:
    """In events of a bounded size: of the last batch, there is one chat left."""
    ada = await server.account("Ada")
    away, number = await server.device(ada.user), 2 * MAX_EXCEPTIONS + 1
    pts = await ada.pts()
    followed, stale = Replica(ada.user_id, pts), Replica(ada.user_id, pts)
    await server.store.pool.execute(
        "WITH made AS (INSERT INTO users (user_id, phone, first_name, created_at) "
        "SELECT id, '', 'x', 0 FROM generate_series(1, $2::bigint) id RETURNING user_id) "
        "INSERT INTO notify_settings (owner_user_id, scope, peer_type, peer_id, settings) "
        "SELECT $1, 1, 1, user_id, '{\"mute_until\": 100}' FROM made",
        ada.user_id,
        number,
    )
    calls = (ada.call(functions.account.ResetNotifySettings()) for _ in range(3))
    assert await asyncio.gather(*calls) == [True] * 3
    await _same(server, away, followed, stale, [types.PeerNotifySettings()] * number)
    answer = await ada.call(functions.account.GetNotifyExceptions(compare_sound=True))
    assert answer.updates == []
    events = (await server.store.updates.difference(ada.user_id, pts, 100)).events
    told = [
        len((event.payload or {})["reset"]) for event in events if event.kind is EventKind.NOTIFY_SETTINGS
    ]
    assert (sum(told), max(told)) == (number, MAX_EXCEPTIONS)


async def _same(
    server: Server, device: Device, followed: Replica, stale: Replica, expected: list[Any]
) -> None:
    followed.follow_pushes(await server.pushes(device.user_id), device)
    await stale.catch_up(device)
    assert followed.notify == stale.notify
    assert followed.pts == stale.pts == await device.pts()
    assert list(followed.notify.values()) == expected


async def test_exceptions_are_what_differs(server: Server) -> None:
    ada, bob, cid = [await server.account(name) for name in ("Ada", "Bob", "Cid")]
    chats = [types.InputNotifyPeer(peer=ada.peer(other)) for other in (bob, cid)]
    await update(ada, chats[0], mute_until=100)
    await update(ada, chats[1], sound=types.NotificationSoundNone())
    assert [user_id for user_id, _ in await exceptions(ada)] == [bob.user_id]
    both = {user_id for user_id, _ in await exceptions(ada, compare_sound=True)}
    assert both == {bob.user_id, cid.user_id}
    assert len(await exceptions(ada, peer=types.InputNotifyUsers())) == 1
    assert await exceptions(ada, peer=types.InputNotifyChats()) == []
    assert await exceptions(ada, peer=chats[1]) == []
    await update(ada, chats[0])
    assert await exceptions(ada, compare_sound=True, compare_stories=True, peer=chats[0]) == []


async def test_wrong_settings_are_refused(server: Server) -> None:
    ada, bob, eve = [await server.account(name) for name in ("Ada", "Bob", "Eve")]
    pts = await ada.pts()
    notify = types.InputNotifyPeer
    for peer in (
        notify(peer=eve.peer(bob)),
        notify(peer=types.InputPeerEmpty()),
        notify(peer=types.InputPeerUser(user_id=2**63 - 1, access_hash=-1)),
        notify(peer=types.InputPeerUser(user_id=-1, access_hash=0)),
    ):
        with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
            await update(ada, peer, silent=True)
    topic = types.InputNotifyForumTopic(peer=ada.peer(bob), top_msg_id=5)
    with pytest.raises(Refused, match="400 TOPIC_ID_INVALID"):
        await update(ada, topic, silent=True)
    local = types.NotificationSoundLocal
    for sound in (
        types.NotificationSoundRingtone(id=5),
        local(title="a\0", data=""),
        local(title="", data="x" * 513),
    ):
        with pytest.raises(Refused, match="400 SETTINGS_INVALID"):
            await update(ada, types.InputNotifyUsers(), sound=sound)
    assert await ada.pts() == pts


async def test_chats_are_shown_with_their_settings(server: Server) -> None:
    ada, bob, cid = [await server.account(name) for name in ("Ada", "Bob", "Cid")]
    for other in (bob, cid):
        await other.send(ada)
    until = int(server.clock.time()) + 100
    await update(ada, types.InputNotifyPeer(peer=ada.peer(bob)), mute_until=until)
    shown = {dialog.peer.user_id: dialog.notify_settings for dialog in (await ada.dialogs()).dialogs}
    assert shown == {
        bob.user_id: types.PeerNotifySettings(mute_until=until),
        cid.user_id: types.PeerNotifySettings(),
    }
    title = types.TextWithEntities(text="loud", entities=[])
    loud = types.DialogFilter(
        id=2,
        title=title,
        non_contacts=True,
        exclude_muted=True,
        pinned_peers=[],
        include_peers=[],
        exclude_peers=[],
    )
    await ada.call(functions.messages.UpdateDialogFilter(id=2, filter=loud))
    assert [dialog.peer.user_id for dialog in (await ada.dialogs(folder_id=2)).dialogs] == [cid.user_id]
    server.clock.advance(101)
    assert len((await ada.dialogs(folder_id=2)).dialogs) == 2


async def test_what_one_is_told_of_reactions_and_of_contacts_is_kept(server: Server) -> None:
    a = functions.account
    ada, bob = await server.account("Ada"), await server.account("Bob")
    usual = await ada.call(a.GetReactionsNotifySettings())
    assert (usual.sound, usual.show_previews) == (DEFAULT, True)
    assert await ada.call(a.GetContactSignUpNotification()) is False
    before = await ada.pts()
    settings = types.ReactionsNotifySettings(
        messages_notify_from=types.ReactionNotificationsFromAll(),
        poll_votes_notify_from=types.ReactionNotificationsFromContacts(),
        sound=types.NotificationSoundLocal(title="bell", data="bell.ogg"),
        show_previews=False,
    )
    assert await ada.call(a.SetReactionsNotifySettings(settings=settings)) == settings
    assert await ada.call(a.SetContactSignUpNotification(silent=True)) is True
    second = await server.device(ada.user)
    await ada.call(a.ResetNotifySettings())
    for device in (ada, second):
        assert await device.call(a.GetReactionsNotifySettings()) == settings
        assert await device.call(a.GetContactSignUpNotification()) is True
    assert await bob.call(a.GetReactionsNotifySettings()) == usual
    assert await bob.call(a.GetContactSignUpNotification()) is False
    for sound in (types.NotificationSoundRingtone(id=5), types.NotificationSoundLocal(title="\0", data="")):
        wrong = types.ReactionsNotifySettings(sound=sound, show_previews=True)
        with pytest.raises(Refused, match="400 SETTINGS_INVALID"):
            await ada.call(a.SetReactionsNotifySettings(settings=wrong))
    assert await ada.call(a.GetReactionsNotifySettings()) == settings
    assert await ada.pts() == before


async def test_a_reset_does_not_run_after_what_is_set_meanwhile(server: Server) -> None:
    """Else it would not end while another device keeps setting something."""
    ada, ben, cem = [await server.account(name) for name in ("Ada", "Ben", "Cem")]
    chats = [types.InputNotifyPeer(peer=ada.peer(one)) for one in (ben, cem)]
    await update(ada, chats[0], mute_until=100)
    await server.store.pool.execute(f"""
        CREATE SEQUENCE resets;
        CREATE FUNCTION set_another() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('resets') < 4 THEN
                INSERT INTO notify_settings (owner_user_id, scope, peer_type, peer_id, settings)
                VALUES ({ada.user_id}, 1, 1, {cem.user_id}, '{{"mute_until": 200}}');
            END IF;
            RETURN NULL;
        END $$;
        CREATE TRIGGER another_device AFTER DELETE ON notify_settings EXECUTE FUNCTION set_another();
    """)
    assert await ada.call(functions.account.ResetNotifySettings())
    assert [(await get(ada, chat)).mute_until for chat in chats] == [None, 200]
