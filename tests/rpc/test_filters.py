"""Dialog filters: what is kept, what is refused, and which chats are in one."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.dialogs import Dialog
from telesrv.domain.filters import MAX_FILTERS, DialogFilter
from telesrv.domain.peers import Peer
from telesrv.tl import functions, types
from tests.rpc.bad_peers import bad_peers
from tests.rpc.chats import Device, Refused, Server, running
from tests.rpc.test_dialogs import hash_of

f = functions


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


def a_filter(filter_id: int = 2, title: str = "Work", **fields: Any) -> types.DialogFilter:
    peers: dict[str, Any] = {"pinned_peers": [], "include_peers": [], "exclude_peers": []}
    return types.DialogFilter(
        id=filter_id, title=types.TextWithEntities(text=title, entities=[]), **(peers | fields)
    )


async def save(device: Device, filter_: Any, filter_id: int | None = None) -> Any:
    number = filter_.id if filter_id is None else filter_id
    return await device.call(f.messages.UpdateDialogFilter(id=number, filter=filter_))


async def filters(device: Device) -> list[Any]:
    answer = await device.call(f.messages.GetDialogFilters())
    return list(answer.filters)


async def test_a_filter_is_kept_as_it_was_made(server: Server) -> None:
    ada, bob, eve = [await server.account() for _ in range(3)]
    made = a_filter(
        7,
        contacts=True,
        exclude_read=True,
        emoticon="🏠",
        color=3,
        title_noanimate=True,
        pinned_peers=[ada.peer(bob)],
        include_peers=[ada.peer(eve)],
        exclude_peers=[ada.peer(ada)],
    )
    assert await save(ada, made)
    before = await ada.pts()
    assert await save(ada, made)
    assert await ada.pts() == before
    assert await filters(ada) == [types.DialogFilterDefault(), made]
    old = await server.device(ada.user, layer=152)
    dispatcher = server.dispatcher
    get_dialog_filters = (0xF19ED96D).to_bytes(4, "little")
    outcome = await dispatcher.execute(dispatcher.parse(get_dialog_filters), old.caller)
    assert outcome.ok and outcome.body[:4] == (0x1CB5C415).to_bytes(4, "little"), "a bare vector then"
    await ada.call(f.messages.UpdateDialogFilter(id=7))
    await ada.call(f.messages.UpdateDialogFilter(id=7))
    assert await filters(ada) == [types.DialogFilterDefault()]
    assert await ada.pts() == before + 1


async def test_order_and_tags(server: Server) -> None:
    ada = await server.account()
    for number in (5, 3, 9):
        await save(ada, a_filter(number, contacts=True))

    async def order() -> list[int]:
        return [getattr(shown, "id", 0) for shown in await filters(ada)]

    assert await order() == [0, 5, 3, 9]
    await ada.call(f.messages.UpdateDialogFiltersOrder(order=[9, 77, 0, 9, -1, 2**31 - 1]))
    assert await order() == [9, 0, 3, 5]
    await ada.call(f.messages.UpdateDialogFilter(id=3))
    assert await order() == [9, 0, 5]
    await ada.call(f.messages.ToggleDialogFilterTags(enabled=True))
    assert (await ada.call(f.messages.GetDialogFilters())).tags_enabled
    before = await ada.pts()
    await ada.call(f.messages.ToggleDialogFilterTags(enabled=True))
    await ada.call(f.messages.UpdateDialogFiltersOrder(order=[9, 0, 5]))
    assert await ada.pts() == before
    with pytest.raises(Refused, match="400 LIMIT_INVALID"):
        await ada.call(f.messages.UpdateDialogFiltersOrder(order=[2] * 10_000))


async def test_what_the_caller_has_is_not_suggested(server: Server) -> None:
    ada = await server.account()
    suggested = await ada.call(f.messages.GetSuggestedDialogFilters())
    assert [entry.filter.title.text for entry in suggested] == ["Unread", "Personal"]
    personal = suggested[1].filter
    await save(ada, personal, 4)
    [left] = await ada.call(f.messages.GetSuggestedDialogFilters())
    assert left.filter.title.text == "Unread"


async def test_wrong_filters_are_refused_by_name(server: Server) -> None:
    ada, bob, stranger = [await server.account() for _ in range(3)]
    before = await ada.pts()
    chatlist = types.DialogFilterChatlist(
        id=2, title=types.TextWithEntities(text="x", entities=[]), pinned_peers=[], include_peers=[]
    )
    cases: list[tuple[Any, int, str]] = [
        *((a_filter(contacts=True), number, "FILTER_ID_INVALID") for number in (0, 1, 256, -5, -(2**31))),
        (types.DialogFilterDefault(), 2, "FILTER_ID_INVALID"),
        (chatlist, 2, "FILTER_NOT_SUPPORTED"),
        (a_filter(), 2, "FILTER_INCLUDE_EMPTY"),
        (a_filter(exclude_read=True), 2, "FILTER_INCLUDE_EMPTY"),
        (a_filter(title=" \0", contacts=True), 2, "FILTER_TITLE_EMPTY"),
        (a_filter(title="x" * 13, contacts=True), 2, "MESSAGE_TOO_LONG"),
        (a_filter(contacts=True, color=2**31 - 1), 2, "COLOR_INVALID"),
        (a_filter(include_peers=[ada.peer(bob)] * 10_000), 2, "FILTER_INCLUDE_TOO_MUCH"),
        (a_filter(include_peers=[ada.peer(n + 1) for n in range(101)]), 2, "FILTER_INCLUDE_TOO_MUCH"),
    ]
    for filter_, number, error in cases:
        with pytest.raises(Refused, match=f"400 {error}"):
            await save(ada, filter_, number)
    for peer, error in bad_peers(ada, bob, stranger):
        for field in ("pinned_peers", "include_peers", "exclude_peers"):
            with pytest.raises(Refused, match=f"400 {error}"):
                await save(ada, a_filter(contacts=True, **{field: [peer]}))
    assert await ada.pts() == before
    for number in range(MAX_FILTERS):
        await save(ada, a_filter(number + 2, contacts=True))
    with pytest.raises(Refused, match="400 DIALOG_FILTERS_TOO_MUCH"):
        await save(ada, a_filter(200, contacts=True))
    await save(ada, a_filter(2, "Changed", contacts=True))


def in_filter(rules: DialogFilter, dialog: Dialog, *, contact: bool) -> bool:
    """Tells whether a private chat is in the filter; the chat with oneself counts as one with a contact."""
    if dialog.peer in rules.named:
        return True
    if dialog.peer in rules.excluded:
        return False
    if not (rules.contacts if contact or dialog.peer.id == dialog.owner_user_id else rules.non_contacts):
        return False
    read = dialog.unread_count == 0 and not dialog.unread_mark
    return not ((rules.exclude_read and read) or (rules.exclude_archived and dialog.folder_id == 1))


async def test_the_list_of_a_filter_follows_its_rules(server: Server) -> None:
    choose = random.Random(3)
    ada = await server.account()
    others = [await server.account() for _ in range(8)]
    for other in (*others, ada):
        await other.send(ada)
        server.clock.advance(1)
    contacts = set(choose.sample(others, 4))
    for other in contacts:
        peer = ada.peer(other)
        user = types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)
        await ada.call(f.contacts.AddContact(id=user, first_name="x", last_name="", phone=""))
    read = choose.sample(others, 4)
    for other in read:
        await ada.read(other)
    marked = types.InputDialogPeer(peer=ada.peer(read[0]))
    await ada.call(f.messages.MarkDialogUnread(unread=True, peer=marked))
    archived: list[types.TypeInputFolderPeer] = [
        types.InputFolderPeer(peer=ada.peer(other), folder_id=1) for other in choose.sample(others, 3)
    ]
    await ada.call(f.folders.EditPeerFolders(folder_peers=archived))
    every = (await ada.dialogs()).dialogs
    for _ in range(25):
        named = [choose.sample(others, choose.randrange(3)) for _ in range(3)]
        flags = {
            name: choose.random() < 0.5
            for name in ("contacts", "non_contacts", "exclude_read", "exclude_archived")
        }
        made = a_filter(
            pinned_peers=[ada.peer(one) for one in named[0]],
            include_peers=[ada.peer(one) for one in named[1]],
            exclude_peers=[ada.peer(one) for one in named[2]],
            groups=True,
            **flags,
        )
        await save(ada, made)
        pinned, included, excluded = ([Peer.user(one.user_id) for one in some] for some in named)
        rules = DialogFilter(
            2,
            "Work",
            pinned=tuple(pinned),
            included=tuple(included),
            excluded=tuple(excluded),
            groups=True,
            **flags,
        )
        wanted = [
            dialog.peer.user_id
            for dialog in every
            if in_filter(
                rules,
                Dialog(
                    ada.user_id,
                    Peer.user(dialog.peer.user_id),
                    dialog.top_message,
                    0,
                    unread_count=dialog.unread_count,
                    folder_id=dialog.folder_id or 0,
                    unread_mark=dialog.unread_mark,
                ),
                contact=any(other.user_id == dialog.peer.user_id for other in contacts),
            )
        ]
        answer = await ada.dialogs(folder_id=2)
        assert [dialog.peer.user_id for dialog in answer.dialogs] == wanted, made
        page = await ada.dialogs(folder_id=2, limit=2)
        assert getattr(page, "count", len(wanted)) == len(wanted)
        unpinned = await ada.dialogs(folder_id=2, exclude_pinned=True)
        left = [user_id for user_id in wanted if Peer.user(user_id) not in rules.pinned]
        assert [dialog.peer.user_id for dialog in unpinned.dialogs] == left


async def test_the_hash_is_that_of_the_whole_list(server: Server) -> None:
    ada = await server.account()
    others = [await server.account() for _ in range(5)]
    for other in others:
        await other.send(ada)
        server.clock.advance(1)
    known = await hash_of(ada)
    assert await ada.dialogs(hash=known, limit=2) == types.messages.DialogsNotModified(count=5)
    await ada.call(f.messages.SaveDraft(peer=ada.peer(others[0]), message="x"))
    assert len((await ada.dialogs(hash=known, limit=2)).dialogs) == 2


async def test_muted_chats_may_be_left_out(server: Server) -> None:
    ada = await server.account()
    others = [await server.account() for _ in range(3)]
    for other in others:
        await other.send(ada)
    await save(ada, a_filter(non_contacts=True, exclude_muted=True))

    async def mute(whose: types.TypeInputNotifyPeer, until: int) -> None:
        settings = types.InputPeerNotifySettings(mute_until=until)
        await ada.call(f.account.UpdateNotifySettings(peer=whose, settings=settings))

    async def shown() -> set[int]:
        return {dialog.peer.user_id for dialog in (await ada.dialogs(folder_id=2)).dialogs}

    ids = [other.user_id for other in others]
    await mute(types.InputNotifyPeer(peer=ada.peer(others[0])), 2**31 - 1)
    await mute(types.InputNotifyPeer(peer=ada.peer(others[1])), 0)
    assert await shown() == {ids[1], ids[2]}
    settings = {dialog.peer.user_id: dialog.notify_settings for dialog in (await ada.dialogs()).dialogs}
    assert [settings[user_id].mute_until for user_id in ids] == [2**31 - 1, 0, None]
    await mute(types.InputNotifyUsers(), 2**31 - 1)
    assert await shown() == {ids[1]}
    server.clock.set_time(2**31 - 1)
    assert await shown() == set(ids), "until then"


async def test_any_number_of_chats_may_be_muted(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    await bob.send(ada)
    await save(ada, a_filter(non_contacts=True, exclude_muted=True))
    assert len((await ada.dialogs(folder_id=2)).dialogs) == 1
    await server.store.pool.execute(
        "INSERT INTO notify_settings (owner_user_id, scope, peer_type, peer_id, settings) "
        "SELECT $1, 1, 1, id, '{\"mute_until\": 2147483647}' FROM generate_series(1, 3000) id",
        ada.user_id,
    )
    assert len((await ada.dialogs(folder_id=2)).dialogs) == 1
    settings = types.InputPeerNotifySettings(mute_until=2**31 - 1)
    peer = types.InputNotifyPeer(peer=ada.peer(bob))
    await ada.call(f.account.UpdateNotifySettings(peer=peer, settings=settings))
    assert bob.user_id > 3000, "it is behind all the others"
    assert (await ada.dialogs(folder_id=2)).dialogs == []


async def test_a_filter_that_is_not_there_is_no_folder(server: Server) -> None:
    ada = await server.account()
    for folder_id in (2, 255, 256, -1, 2**31 - 1):
        with pytest.raises(Refused, match="400 FOLDER_ID_INVALID"):
            await ada.dialogs(folder_id=folder_id)
