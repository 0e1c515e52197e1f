"""The list of chats as a client pages through it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from telesrv.rpc.convert.dialogs import dialogs_hash
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Server, running

f = functions


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def chats(server: Server, number: int) -> tuple[Device, list[Device]]:
    """Returns a device and those that wrote to it, the last writer first."""
    ada = await server.account()
    others = [await server.account(f"n{n}") for n in range(number)]
    for other in others:
        await other.send(ada, f"from {other.user.first_name}")
        server.clock.advance(1)
    return ada, others[::-1]


async def test_the_whole_list_is_complete(server: Server) -> None:
    ada, others = await chats(server, 3)
    answer = await ada.dialogs()
    assert isinstance(answer, types.messages.Dialogs)
    assert [dialog.peer.user_id for dialog in answer.dialogs] == [other.user_id for other in others]
    assert [message.id for message in answer.messages] == [dialog.top_message for dialog in answer.dialogs]
    assert {user.id for user in answer.users} == {other.user_id for other in others}
    assert [dialog.unread_count for dialog in answer.dialogs] == [1, 1, 1]
    assert (await (await server.account()).dialogs()).dialogs == []


@pytest.mark.parametrize("exclude_pinned", [False, True])
async def test_pages_end_in_an_empty_slice(server: Server, exclude_pinned: bool) -> None:
    ada, others = await chats(server, 5)
    seen: list[int] = []
    answer = await ada.dialogs(limit=2, exclude_pinned=exclude_pinned)
    while answer.dialogs:
        assert isinstance(answer, types.messages.DialogsSlice)
        assert answer.count == 5
        seen += [dialog.peer.user_id for dialog in answer.dialogs]
        last = answer.messages[-1]
        answer = await ada.dialogs(
            offset_date=last.date,
            offset_id=last.id,
            offset_peer=ada.peer(last.peer_id.user_id),
            limit=2,
            exclude_pinned=exclude_pinned,
            folder_id=0,
        )
    assert isinstance(answer, types.messages.DialogsSlice)
    assert seen == [other.user_id for other in others]


async def hash_of(device: Device) -> int:
    """Returns the hash of the device's whole list."""
    store, owner = device.server.store, device.user_id
    page = await store.dialogs.whole(owner)
    peers = [dialog.peer for dialog in page.dialogs]
    notify = await store.notify.for_peers(owner, peers)
    return dialogs_hash(page, notify, await store.ttl.periods(owner, [peer.id for peer in peers]))


def muted(peer: types.TypeInputPeer, until: int) -> Any:
    settings = types.InputPeerNotifySettings(mute_until=until)
    return f.account.UpdateNotifySettings(peer=types.InputNotifyPeer(peer=peer), settings=settings)


def moved(peer: types.TypeInputPeer, folder_id: int) -> Any:
    return f.folders.EditPeerFolders(folder_peers=[types.InputFolderPeer(peer=peer, folder_id=folder_id)])


CHANGES: dict[str, Callable[[types.TypeInputPeer, int], Any]] = {
    "pinned message": lambda peer, box_id: f.messages.UpdatePinnedMessage(
        peer=peer, id=box_id, pm_oneside=True
    ),
    "edited": lambda peer, box_id: f.messages.EditMessage(peer=peer, id=box_id, message="mended"),
    "edited at once": lambda peer, box_id: f.messages.EditMessage(peer=peer, id=box_id, message="again"),
    "draft": lambda peer, _: f.messages.SaveDraft(peer=peer, message="a"),
    "draft at once": lambda peer, _: f.messages.SaveDraft(peer=peer, message="b"),
    "no draft": lambda peer, _: f.messages.SaveDraft(peer=peer, message=""),
    "muted": lambda peer, _: muted(peer, 2**31 - 1),
    "unmuted": lambda peer, _: muted(peer, 0),
    "marked": lambda peer, _: f.messages.MarkDialogUnread(peer=types.InputDialogPeer(peer=peer), unread=True),
    "read": lambda peer, _: f.messages.ReadHistory(peer=peer, max_id=0),
    "pinned": lambda peer, _: f.messages.ToggleDialogPin(peer=types.InputDialogPeer(peer=peer), pinned=True),
    "archived": lambda peer, _: moved(peer, 1),
    "period": lambda peer, _: f.messages.SetHistoryTTL(peer=peer, period=600),
    "deleted": lambda peer, box_id: f.messages.DeleteMessages(id=[box_id]),
}
"""What changes a list of chats, each on top of those before it, all of it within one second."""


async def test_a_list_that_is_known_is_not_sent_again(server: Server) -> None:
    ada, _ = await chats(server, 1)
    note = await ada.send(ada, "note")
    known = await hash_of(ada)
    for name, change in CHANGES.items():
        assert await ada.dialogs(hash=known) == types.messages.DialogsNotModified(count=2), name
        await ada.call(change(types.InputPeerSelf(), note.id))
        assert isinstance(await ada.dialogs(hash=known), types.messages.Dialogs), name
        known = await hash_of(ada)


async def test_nothing_is_pinned_or_archived(server: Server) -> None:
    ada, _ = await chats(server, 1)
    for folder_id in (0, 1):
        answer = await ada.call(functions.messages.GetPinnedDialogs(folder_id=folder_id))
        assert (answer.dialogs, answer.users) == ([], [])
        assert answer.state.pts == await ada.pts()
    assert (await ada.dialogs(folder_id=1)).dialogs == []
    for folder_id in (-1, 2):
        with pytest.raises(Refused, match="400 FOLDER_ID_INVALID"):
            await ada.dialogs(folder_id=folder_id)
        with pytest.raises(Refused, match="400 FOLDER_ID_INVALID"):
            await ada.call(functions.messages.GetPinnedDialogs(folder_id=folder_id))


async def test_chats_by_peer(server: Server) -> None:
    ada, [bob, eve] = await chats(server, 2)
    stranger = await server.account()
    peers: list[types.TypeInputDialogPeer] = [
        types.InputDialogPeer(peer=ada.peer(other)) for other in (eve, stranger, bob, eve)
    ]
    answer = await ada.call(functions.messages.GetPeerDialogs(peers=peers))
    assert [(dialog.peer.user_id, bool(dialog.top_message)) for dialog in answer.dialogs] == [
        (eve.user_id, True),
        (stranger.user_id, False),
        (bob.user_id, True),
    ]
    assert {user.id for user in answer.users} == {other.user_id for other in (bob, eve, stranger)}
    assert (len(answer.messages), answer.state.pts) == (2, await ada.pts())


async def test_wrong_questions(server: Server) -> None:
    ada = await server.account()
    with pytest.raises(Refused, match="400 INPUT_PEERS_EMPTY"):
        await ada.call(functions.messages.GetPeerDialogs(peers=[]))
    myself = types.InputDialogPeer(peer=types.InputPeerSelf())
    with pytest.raises(Refused, match="400 LIMIT_INVALID"):
        await ada.call(functions.messages.GetPeerDialogs(peers=[myself] * 10_000))
    with pytest.raises(Refused, match="400 FOLDER_ID_INVALID"):
        await ada.call(functions.messages.GetPeerDialogs(peers=[types.InputDialogPeerFolder(folder_id=1)]))
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await ada.dialogs(offset_peer=types.InputPeerUser(user_id=5, access_hash=5))
    assert (await ada.dialogs(limit=-1, offset_date=-1, offset_id=-1)).dialogs == []
