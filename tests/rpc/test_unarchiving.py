"""Archived chats come back with a new message, unless they are muted or their owner keeps them there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.dialogs import ARCHIVE, MAIN
from telesrv.domain.peers import Peer
from telesrv.domain.updates import EventKind
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Server, running
from tests.rpc.worlds import Pair

FOREVER = 2**31 - 1


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def archive(device: Device, other: Device, folder_id: int = ARCHIVE) -> None:
    moved: list[Any] = [types.InputFolderPeer(peer=device.peer(other), folder_id=folder_id)]
    await device.call(functions.folders.EditPeerFolders(folder_peers=moved))


async def folder(device: Device, other: Device) -> int:
    return await device.server.store.dialogs.folder_id(device.user_id, Peer.user(other.user_id))


async def kinds(device: Device, pts: int) -> list[EventKind]:
    found = await device.server.store.updates.difference(device.user_id, pts)
    return [event.kind for event in found.events]


async def mute(device: Device, target: Any, until: int = FOREVER) -> None:
    settings = types.InputPeerNotifySettings(mute_until=until)
    await device.call(functions.account.UpdateNotifySettings(peer=target, settings=settings))


async def keep(device: Device, **switches: bool) -> None:
    settings = types.GlobalPrivacySettings(**switches)
    await device.call(functions.account.SetGlobalPrivacySettings(settings=settings))


async def name_in_filter(device: Device, other: Device) -> None:
    title = types.TextWithEntities(text="work", entities=[])
    shown = types.DialogFilter(
        id=2, title=title, pinned_peers=[], include_peers=[device.peer(other)], exclude_peers=[]
    )
    await device.call(functions.messages.UpdateDialogFilter(id=2, filter=shown))


async def test_an_incoming_message_brings_the_chat_back_and_one_s_own_does_not(server: Server) -> None:
    pair = await Pair.of(server)
    await pair.ada.send(pair.bob)
    await archive(pair.bob, pair.ada)
    await pair.check()
    await pair.bob.send(pair.ada)
    assert await folder(pair.bob, pair.ada) == ARCHIVE
    before = await pair.bob.pts()
    await pair.ada.send(pair.bob, "are you there?")
    assert await folder(pair.bob, pair.ada) == MAIN
    assert await kinds(pair.bob, before) == [EventKind.NEW_MESSAGE, EventKind.FOLDER_PEERS]
    await pair.check()
    await pair.ada.send(pair.bob, "hello?")
    assert (await kinds(pair.bob, before))[2:] == [EventKind.NEW_MESSAGE]
    await pair.check()


async def test_a_pin_of_the_archive_does_not_come_along(server: Server) -> None:
    pair = await Pair.of(server)
    await pair.ada.send(pair.bob)
    await archive(pair.bob, pair.ada)
    named = types.InputDialogPeer(peer=pair.bob.peer(pair.ada))
    await pair.bob.call(functions.messages.ToggleDialogPin(pinned=True, peer=named))
    await pair.check()
    await pair.ada.send(pair.bob)
    assert pair.replicas["bob pushed"].arranged.pins[ARCHIVE] == [pair.ada.user_id]
    await pair.check()
    assert pair.replicas["bob pushed"].arranged.pins == {MAIN: [], ARCHIVE: []}


async def test_a_muted_chat_stays(server: Server) -> None:
    pair = await Pair.of(server)
    await pair.ada.send(pair.bob)
    await archive(pair.bob, pair.ada)
    chat = types.InputNotifyPeer(peer=pair.bob.peer(pair.ada))
    await mute(pair.bob, chat)
    await pair.ada.send(pair.bob)
    assert await folder(pair.bob, pair.ada) == ARCHIVE
    await mute(pair.bob, chat, until=int(server.clock.time()) + 100)
    await pair.ada.send(pair.bob)
    assert await folder(pair.bob, pair.ada) == ARCHIVE
    server.clock.advance(101)
    await pair.ada.send(pair.bob)
    assert await folder(pair.bob, pair.ada) == MAIN
    await pair.check()


async def test_chats_that_are_muted_in_general_stay_but_for_exceptions(server: Server) -> None:
    ada, bob, cid = [await server.account(name) for name in ("Ada", "Bob", "Cid")]
    for other in (ada, cid):
        await other.send(bob)
        await archive(bob, other)
    await mute(bob, types.InputNotifyUsers())
    await mute(bob, types.InputNotifyPeer(peer=bob.peer(cid)), until=0)
    for other in (ada, cid):
        await other.send(bob)
    assert [await folder(bob, other) for other in (ada, cid)] == [ARCHIVE, MAIN]


async def test_the_owner_may_keep_archived_chats_there(server: Server) -> None:
    ada, bob, cid = [await server.account(name) for name in ("Ada", "Bob", "Cid")]
    for other in (ada, cid):
        await other.send(bob)
        await archive(bob, other)
    await name_in_filter(bob, ada)
    await keep(bob, keep_archived_unmuted=True)
    for other in (ada, cid):
        await other.send(bob)
    assert [await folder(bob, other) for other in (ada, cid)] == [ARCHIVE, ARCHIVE]
    await keep(bob, keep_archived_folders=True)
    for other in (ada, cid):
        await other.send(bob)
    assert [await folder(bob, other) for other in (ada, cid)] == [ARCHIVE, MAIN]
    await keep(bob)
    await ada.send(bob)
    assert await folder(bob, ada) == MAIN


async def test_who_is_blocked_brings_nothing_back(server: Server) -> None:
    pair = await Pair.of(server)
    await pair.ada.send(pair.bob)
    await archive(pair.bob, pair.ada)
    await pair.bob.call(functions.contacts.Block(id=pair.bob.peer(pair.ada)))
    await pair.ada.send(pair.bob)
    assert await folder(pair.bob, pair.ada) == ARCHIVE
    await pair.check()


async def test_a_notice_of_the_service_brings_its_chat_back(server: Server) -> None:
    ada = await server.account("Ada")
    send = server.store.messages.send_service
    await send(ada.user_id, "one", (), int(server.clock.time()))
    service = Peer.user(777_000)
    await server.store.folders.edit(ada.user_id, {service: ARCHIVE})
    await send(ada.user_id, "two", (), int(server.clock.time()))
    assert await server.store.dialogs.folder_id(ada.user_id, service) == MAIN


async def test_a_draft_that_ends_and_a_chat_that_comes_back_are_one_transaction(server: Server) -> None:
    pair = await Pair.of(server)
    await pair.ada.send(pair.bob)
    await archive(pair.bob, pair.ada)
    await pair.ada.call(functions.messages.SaveDraft(peer=pair.ada.peer(pair.bob), message="soon"))
    await pair.ada.send(pair.bob, "now", clear_draft=True)
    assert await folder(pair.bob, pair.ada) == MAIN
    await pair.check()


async def test_many_messages_at_once_say_it_once(server: Server) -> None:
    pair = await Pair.of(server)
    await pair.ada.send(pair.bob)
    await archive(pair.bob, pair.ada)
    before = await pair.bob.pts()
    await asyncio.gather(*(pair.ada.send(pair.bob, f"message {number}") for number in range(60)))
    assert (await kinds(pair.bob, before)).count(EventKind.FOLDER_PEERS) == 1
    await pair.check()


async def test_messages_and_moves_at_once_come_to_the_same_for_all(server: Server) -> None:
    pair = await Pair.of(server)
    await pair.ada.send(pair.bob)
    named = types.InputDialogPeer(peer=pair.bob.peer(pair.ada))
    for number in range(12):
        await archive(pair.bob, pair.ada)
        changes = [
            pair.ada.send(pair.bob, f"message {number}"),
            archive(pair.bob, pair.ada, number % 2),
            pair.bob.call(functions.messages.ToggleDialogPin(pinned=number % 3 == 0, peer=named)),
            pair.ada.send(pair.bob, f"another {number}"),
        ]
        await asyncio.gather(*changes)
        await pair.check()
