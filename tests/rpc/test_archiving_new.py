"""Chats that strangers begin go to the archive, muted, of who wants that; nobody else notices anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from telesrv import tl
from telesrv.domain.dialogs import ARCHIVE, MAIN
from telesrv.domain.notify import FOR_EVER
from telesrv.domain.peers import SERVICE_USER_ID, Peer
from telesrv.domain.updates import EventKind
from telesrv.domain.users import ClientInfo
from telesrv.store.archive import SQL_ARRIVING, SQL_MUTE, SQL_PUT_AWAY
from telesrv.store.send import BatchWriter
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Server, fresh, running, same
from tests.rpc.test_unarchiving import archive, folder, keep, kinds, mute
from tests.rpc.worlds import Pair
from tests.store.world import request

f = functions
TOGETHER = """
SELECT count(DISTINCT x) FROM (
    SELECT xmin::text AS x FROM user_update_events WHERE user_id = $1 AND pts > $2
    UNION ALL SELECT xmin::text FROM message_boxes WHERE owner_user_id = $1 AND outgoing = false
    UNION ALL SELECT xmin::text FROM dialogs WHERE owner_user_id = $1 AND folder_id = 1
    UNION ALL SELECT xmin::text FROM notify_settings WHERE owner_user_id = $1
) AS written
"""
PUT_AWAY = [EventKind.NOTIFY_SETTINGS, EventKind.NEW_MESSAGE, EventKind.FOLDER_PEERS]


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def wants_archive(device: Device, **switches: bool) -> None:
    await keep(device, archive_and_mute_new_noncontact_peers=True, **switches)


async def settings_of(device: Device, other: Device) -> types.PeerNotifySettings:
    chat = types.InputNotifyPeer(peer=device.peer(other))
    answer = await device.call(f.account.GetNotifySettings(peer=chat))
    assert isinstance(answer, types.PeerNotifySettings)
    return answer


async def adds(device: Device, other: Device) -> None:
    peer = device.peer(other)
    named = types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)
    await device.call(f.contacts.AddContact(id=named, first_name="Friend", last_name="", phone=""))


async def test_the_switch_is_kept_and_offered(server: Server) -> None:
    ada = await server.account("Ada")
    await wants_archive(ada, keep_archived_folders=True)
    settings = await ada.call(f.account.GetGlobalPrivacySettings())
    assert (settings.archive_and_mute_new_noncontact_peers, settings.keep_archived_folders) == (True, True)
    config = (await ada.call(f.help.GetAppConfig(hash=1))).config
    offered = types.JsonObjectValue(key="autoarchive_setting_available", value=types.JsonBool(value=True))
    assert offered in config.value
    await keep(ada)
    assert await ada.call(f.account.GetGlobalPrivacySettings()) == types.GlobalPrivacySettings()


async def test_a_stranger_s_chat_begins_in_the_archive_and_muted(server: Server) -> None:
    pair = await Pair.of(server)
    await wants_archive(pair.bob)
    before = await pair.bob.pts()
    await pair.ada.send(pair.bob, "you do not know me")
    assert await kinds(pair.bob, before) == PUT_AWAY
    assert await server.store.pool.fetchval(TOGETHER, pair.bob.user_id, before) == 1
    assert await folder(pair.bob, pair.ada) == ARCHIVE
    assert await settings_of(pair.bob, pair.ada) == types.PeerNotifySettings(mute_until=FOR_EVER)
    await pair.check()
    muted = {repr(types.NotifyPeer(peer=types.PeerUser(user_id=pair.ada.user_id))): FOR_EVER}
    for way in ("pushed", "asked"):
        told = pair.replicas[f"bob {way}"].notify
        assert {peer: settings.mute_until for peer, settings in told.items()} == muted
    await pair.ada.send(pair.bob, "hello?")
    assert (await kinds(pair.bob, before))[3:] == [EventKind.NEW_MESSAGE]
    assert await folder(pair.bob, pair.ada) == ARCHIVE
    await pair.check()
    assert await folder(pair.ada, pair.bob) == MAIN


async def test_a_chat_that_is_unmuted_comes_back_with_the_next_message(server: Server) -> None:
    pair = await Pair.of(server)
    await wants_archive(pair.bob)
    await pair.ada.send(pair.bob)
    await mute(pair.bob, types.InputNotifyPeer(peer=pair.bob.peer(pair.ada)), until=0)
    await pair.ada.send(pair.bob)
    assert await folder(pair.bob, pair.ada) == MAIN
    await pair.ada.send(pair.bob)
    assert (await folder(pair.bob, pair.ada), (await settings_of(pair.bob, pair.ada)).mute_until) == (MAIN, 0)
    await pair.check()


async def test_other_chats_stay_where_they_are(server: Server) -> None:
    ada, bob, cid, dan = [await server.account(name) for name in ("Ada", "Bob", "Cid", "Dan")]
    await ada.send(bob, "before the switch")
    await wants_archive(bob)
    await adds(bob, cid)
    await bob.send(dan, "I have begun")
    before = await bob.pts()
    for other in (ada, cid, dan):
        await other.send(bob)
        assert await folder(bob, other) == MAIN
    await bob.send(bob, "a note")
    await server.store.messages.send_service(bob.user_id, "a notice", [], int(server.clock.time()))
    assert await server.store.dialogs.folder_id(bob.user_id, Peer.user(SERVICE_USER_ID)) == MAIN
    assert set(await kinds(bob, before)) == {EventKind.NEW_MESSAGE}
    await keep(bob)
    eve = await server.account("Eve")
    await eve.send(bob)
    assert await folder(bob, eve) == MAIN
    await bob.call(f.contacts.Block(id=bob.peer(eve)))
    await wants_archive(bob)
    before = await bob.pts()
    await eve.send(bob)
    assert await bob.pts() == before


async def test_a_chat_that_was_deleted_begins_anew_and_other_settings_of_it_stay(server: Server) -> None:
    pair = await Pair.of(server)
    chat = types.InputNotifyPeer(peer=pair.bob.peer(pair.ada))
    loud = types.InputPeerNotifySettings(show_previews=False, mute_until=0)
    await pair.bob.call(f.account.UpdateNotifySettings(peer=chat, settings=loud))
    await pair.ada.send(pair.bob)
    await wants_archive(pair.bob)
    peer = pair.bob.peer(pair.ada)
    await pair.bob.call(f.messages.DeleteHistory(peer=peer, max_id=0))
    await pair.ada.send(pair.bob, "again")
    assert await folder(pair.bob, pair.ada) == ARCHIVE
    settings = await settings_of(pair.bob, pair.ada)
    assert (settings.show_previews, settings.mute_until) == (False, FOR_EVER)
    await pair.check()
    await archive(pair.bob, pair.ada, MAIN)
    await pair.bob.call(f.messages.DeleteHistory(peer=peer, max_id=0, just_clear=True))
    await pair.ada.send(pair.bob, "and again")
    assert await folder(pair.bob, pair.ada) == MAIN, "the chat was kept"
    await pair.check()


async def _scheduled(ada: Device, bob: Device) -> None:
    await ada.send(bob, "later", schedule_date=int(ada.server.clock.time()) + 100)
    ada.server.clock.advance(101)
    assert await ada.server.store.due.dispatch() == 1


async def _forwarded(ada: Device, bob: Device) -> None:
    note = await ada.send(ada, "a note")
    to, mine = ada.peer(bob), ada.peer(ada)
    await ada.call(f.messages.ForwardMessages(from_peer=mine, id=[note.id], random_id=[77], to_peer=to))


async def _drafted(ada: Device, bob: Device) -> None:
    await ada.call(f.messages.SaveDraft(peer=ada.peer(bob), message="soon"))
    await ada.send(bob, "now", clear_draft=True)


async def _with_period(ada: Device, bob: Device) -> None:
    await ada.call(f.messages.SetHistoryTTL(peer=ada.peer(bob), period=600))


async def _with_default_period(ada: Device, bob: Device) -> None:
    await ada.call(f.messages.SetDefaultHistoryTTL(period=600))
    await ada.send(bob)


@pytest.mark.parametrize("begin", [_scheduled, _forwarded, _drafted, _with_period, _with_default_period])
async def test_however_a_chat_begins_it_is_put_away(
    server: Server, begin: Callable[[Device, Device], Awaitable[None]]
) -> None:
    pair = await Pair.of(server)
    await wants_archive(pair.bob)
    before = await pair.bob.pts()
    await begin(pair.ada, pair.bob)
    assert await folder(pair.bob, pair.ada) == ARCHIVE
    assert (await settings_of(pair.bob, pair.ada)).mute_until == FOR_EVER
    told = await kinds(pair.bob, before)
    assert (told.count(EventKind.FOLDER_PEERS), told.count(EventKind.NOTIFY_SETTINGS)) == (1, 1)
    assert EventKind.NOOP not in told
    await pair.check()


async def test_many_messages_of_many_strangers_at_once_say_it_once_each(
    server: Server, postgres_dsn: str, redis_url: str, redis_prefix: str
) -> None:
    strangers = [await server.account(f"Stranger {number}") for number in range(4)]
    bob = await server.account("Bob")
    await wants_archive(bob)
    replica = await fresh(bob, [*strangers, bob])
    async with running(postgres_dsn, redis_url, redis_prefix) as second:
        there = [Device(second, one.user, 900 + n, 9_000 + n, tl.LAYER) for n, one in enumerate(strangers)]
        for one in there:
            key = one.caller.auth_key_id
            await second.store.accounts.bind(key, one.user_id, "127.0.0.1", ClientInfo())
        sends: list[Any] = [
            device.send(bob, f"message {number}", random_id=number * 100 + place + 1)
            for number in range(15)
            for place, device in enumerate([*strangers, *there])
        ]
        await asyncio.gather(*sends)
    assert [await folder(bob, other) for other in strangers] == [ARCHIVE] * 4
    pages = [await kinds(bob, 0), await kinds(bob, 100)]
    told = [kind for page in pages for kind in page]
    assert (told.count(EventKind.FOLDER_PEERS), told.count(EventKind.NOTIFY_SETTINGS)) == (4, 4)
    await replica.catch_up(bob)
    same(replica, await fresh(bob, [*strangers, bob]))
    assert (await server.store.gaps.find())[1] == []


async def test_who_becomes_a_contact_while_the_message_is_under_way_is_no_stranger(server: Server) -> None:
    pair, store = await Pair.of(server), server.store
    await wants_archive(pair.bob)
    writer = BatchWriter(store.pool, store.ids, store.events, server.clock, store.config.wait_s)
    prepared = await writer.prepare([request(pair.ada.user_id, pair.bob.user_id)])
    assert prepared.moves
    await adds(pair.bob, pair.ada)
    await writer.write(prepared)
    assert await folder(pair.bob, pair.ada) == MAIN
    assert (await settings_of(pair.bob, pair.ada)).mute_until is None
    await pair.check()
    assert (await store.gaps.find())[1] == []


async def test_beginnings_from_both_sides_at_once_come_to_the_same_for_all(server: Server) -> None:
    pair = await Pair.of(server)
    for device in (pair.ada, pair.bob):
        await wants_archive(device)
    for number in range(8):
        await asyncio.gather(
            pair.ada.send(pair.bob, f"message {number}"),
            pair.bob.send(pair.ada, f"answer {number}"),
            mute(pair.bob, types.InputNotifyPeer(peer=pair.bob.peer(pair.ada)), until=number),
            pair.ada.send(pair.bob, f"another {number}"),
        )
        await pair.check()
        for device, other in ((pair.ada, pair.bob), (pair.bob, pair.ada)):
            await device.call(f.messages.DeleteHistory(peer=device.peer(other), max_id=0))
        await pair.check()


async def test_whoever_has_not_the_switch_pays_no_statement_for_it(
    postgres_dsn: str, redis_url: str, redis_prefix: str
) -> None:
    async with running(postgres_dsn, redis_url, redis_prefix, min_conns=1, max_conns=1) as server:
        ada, bob, cid = [await server.account(name) for name in ("Ada", "Bob", "Cid")]
        await ada.send(ada, "what is read once is read")
        await wants_archive(cid)
        seen: list[str] = []
        async with server.store.pool.acquire() as connection:
            connection.add_query_logger(lambda record: seen.append(record.query))
        for other in (bob, bob, cid):
            seen.clear()
            await ada.send(other)
            archiving = {SQL_ARRIVING, SQL_PUT_AWAY, SQL_MUTE}.intersection(seen)
            assert (len(seen) <= 4, archiving) == (other is bob, archiving if other is cid else set())
        assert archiving
