"""Pins, the archive and unread marks: limits, order, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.dialogs import MAX_PINNED
from telesrv.tl import functions, types
from tests.rpc.bad_peers import bad_peers
from tests.rpc.chats import Device, Refused, Server, fresh, running, same

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
        await other.send(ada)
        server.clock.advance(1)
    return ada, others[::-1]


def named(device: Device, other: Device | types.TypeInputPeer) -> types.InputDialogPeer:
    return types.InputDialogPeer(peer=device.peer(other) if isinstance(other, Device) else other)


async def pin(device: Device, other: Device, pinned: bool = True) -> bool:
    return bool(await device.call(f.messages.ToggleDialogPin(pinned=pinned, peer=named(device, other))))


async def pins(device: Device, folder_id: int = 0) -> list[int]:
    answer = await device.call(f.messages.GetPinnedDialogs(folder_id=folder_id))
    return [dialog.peer.user_id for dialog in answer.dialogs if isinstance(dialog, types.Dialog)]


async def move(device: Device, others: list[Device], folder_id: int) -> Any:
    peers: list[types.TypeInputFolderPeer] = [
        types.InputFolderPeer(peer=device.peer(other), folder_id=folder_id) for other in others
    ]
    return await device.call(f.folders.EditPeerFolders(folder_peers=peers))


async def test_the_last_pinned_stands_highest_and_there_is_a_limit(server: Server) -> None:
    ada, others = await chats(server, MAX_PINNED[0] + 1)
    for other in others[:-1]:
        assert await pin(ada, other)
    ids = [other.user_id for other in others]
    assert await pins(ada) == ids[-2::-1]
    before = await ada.pts()
    with pytest.raises(Refused, match="400 PINNED_DIALOGS_TOO_MUCH"):
        await pin(ada, others[-1])
    assert await pin(ada, others[0])
    assert await ada.pts() == before
    assert await pin(ada, others[0], False)
    assert await pin(ada, others[-1])
    assert await pins(ada) == [ids[-1], *ids[-2:0:-1]]
    answer = await ada.dialogs(exclude_pinned=True, folder_id=0)
    assert [dialog.peer.user_id for dialog in answer.dialogs] == ids[:1]


async def test_pins_are_put_in_order(server: Server) -> None:
    ada, others = await chats(server, 4)
    ids = [other.user_id for other in others]
    for other in others[:3]:
        await pin(ada, other)

    async def reorder(order: list[Device], **fields: Any) -> None:
        archive = types.InputDialogPeerFolder(folder_id=1)
        named_order = [archive, *(named(ada, one) for one in order)]
        method = f.messages.ReorderPinnedDialogs(folder_id=0, order=named_order, **fields)
        assert await ada.call(method)

    await reorder([others[0], others[0]])
    assert await pins(ada) == [ids[0], ids[2], ids[1]]
    await reorder([others[3], others[1]], force=True)
    assert await pins(ada) == [ids[3], ids[1]]
    before = await ada.pts()
    await reorder([others[3], others[1]])
    assert await ada.pts() == before
    await reorder([], force=True)
    assert await pins(ada) == []


async def test_the_archive_is_a_list_of_its_own_and_a_pinned_entry(server: Server) -> None:
    ada, [bob, eve, dan] = await chats(server, 3)
    await pin(ada, bob)
    await pin(ada, eve)
    start = await ada.pts()
    answer = await move(ada, [bob, dan], 1)
    moved, order, carrier = answer.updates
    assert isinstance(moved, types.UpdateFolderPeers)
    assert (moved.pts, moved.pts_count, len(moved.folder_peers)) == (start + 2, 2, 2)
    assert order == types.UpdatePinnedDialogs(
        order=[types.DialogPeer(peer=types.PeerUser(user_id=eve.user_id))]
    )
    assert (carrier.messages, carrier.pts) == ([], start + 3)
    assert {user.id for user in answer.users} == {bob.user_id, eve.user_id, dan.user_id}
    assert (await move(ada, [bob, dan], 1)).updates == []

    main = await ada.dialogs(folder_id=0)
    assert isinstance(main, types.messages.Dialogs)
    assert [dialog.peer.user_id for dialog in main.dialogs] == [eve.user_id]
    ways: list[dict[str, Any]] = [
        {},
        {"exclude_pinned": True},
        {"folder_id": 0},
        {"folder_id": 1},
        {"limit": 1},
    ]
    for fields in ways:
        assert {type(dialog) for dialog in (await ada.dialogs(**fields)).dialogs} <= {types.Dialog}
    pinned = await ada.call(f.messages.GetPinnedDialogs(folder_id=0))
    archive, only = pinned.dialogs
    assert isinstance(archive, types.DialogFolder)
    assert archive.pinned
    assert (archive.peer.user_id, archive.unread_unmuted_peers_count, only.peer.user_id) == (
        bob.user_id,
        2,
        eve.user_id,
    )
    assert archive.top_message in {message.id for message in pinned.messages}
    assert (archive.unread_muted_peers_count, archive.unread_unmuted_messages_count) == (0, 2)
    for target, counts in (
        (types.InputNotifyPeer(peer=ada.peer(bob)), (1, 1)),
        (types.InputNotifyUsers(), (2, 0)),
    ):
        mute = types.InputPeerNotifySettings(mute_until=2**31 - 1)
        await ada.call(f.account.UpdateNotifySettings(peer=target, settings=mute))
        archive = (await ada.call(f.messages.GetPinnedDialogs(folder_id=0))).dialogs[0]
        chats_ = archive.unread_muted_peers_count, archive.unread_unmuted_peers_count
        assert (
            chats_ == (archive.unread_muted_messages_count, archive.unread_unmuted_messages_count) == counts
        )
    assert {user.id for user in pinned.users} == {bob.user_id, eve.user_id}
    inside = await ada.dialogs(folder_id=1)
    assert [(dialog.peer.user_id, dialog.folder_id) for dialog in inside.dialogs] == [
        (bob.user_id, 1),
        (dan.user_id, 1),
    ]
    both = await ada.dialogs()
    assert [type(dialog) for dialog in both.dialogs] == [types.Dialog] * 3
    await pin(ada, dan)
    assert (await pins(ada, 0), await pins(ada, 1)) == ([eve.user_id], [dan.user_id])
    await move(ada, [bob, dan], 0)
    assert (await pins(ada, 0), await pins(ada, 1)) == ([eve.user_id], [])
    assert len((await ada.dialogs(folder_id=0)).dialogs) == 3


async def test_what_is_no_chat_cannot_be_arranged(server: Server) -> None:
    ada, [bob] = await chats(server, 1)
    stranger = await server.account()
    before = await ada.pts()
    with pytest.raises(Refused, match="400 PEER_HISTORY_EMPTY"):
        await pin(ada, stranger)
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await ada.call(f.messages.MarkDialogUnread(unread=True, peer=named(ada, stranger)))
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await ada.call(f.messages.ReorderPinnedDialogs(folder_id=1, order=[named(ada, bob)]))
    assert (await move(ada, [stranger], 1)).updates == []
    assert await ada.pts() == before
    assert await pins(ada) == []


async def test_wrong_calls_are_refused_by_name_and_change_nothing(server: Server) -> None:
    ada, [bob] = await chats(server, 1)
    stranger = await server.account()
    before = await ada.pts()
    for peer, error in bad_peers(ada, bob, stranger):
        one = types.InputFolderPeer(peer=peer, folder_id=1)
        for method in (
            f.messages.ToggleDialogPin(pinned=True, peer=named(ada, peer)),
            f.messages.ReorderPinnedDialogs(folder_id=0, order=[named(ada, bob), named(ada, peer)]),
            f.messages.MarkDialogUnread(unread=True, peer=named(ada, peer)),
            f.folders.EditPeerFolders(
                folder_peers=[types.InputFolderPeer(peer=ada.peer(bob), folder_id=1), one]
            ),
            f.messages.HidePeerSettingsBar(peer=peer),
            f.messages.GetPeerSettings(peer=peer),
        ):
            with pytest.raises(Refused, match=f"400 {error}"):
                await ada.call(method)
    folder = types.InputDialogPeerFolder(folder_id=1)
    for method, error in (
        (f.messages.ToggleDialogPin(pinned=True, peer=folder), "FOLDER_ID_INVALID"),
        (f.messages.MarkDialogUnread(unread=True, peer=folder), "FOLDER_ID_INVALID"),
        (
            f.messages.MarkDialogUnread(unread=True, parent_peer=ada.peer(bob), peer=named(ada, bob)),
            "PARENT_PEER_INVALID",
        ),
        (f.messages.GetDialogUnreadMarks(parent_peer=ada.peer(bob)), "PARENT_PEER_INVALID"),
        (f.messages.ReorderPinnedDialogs(folder_id=2, order=[]), "FOLDER_ID_INVALID"),
        (f.messages.ReorderPinnedDialogs(folder_id=-1, order=[]), "FOLDER_ID_INVALID"),
        (
            f.messages.ReorderPinnedDialogs(folder_id=0, order=[named(ada, bob)] * 10_000),
            "PINNED_DIALOGS_TOO_MUCH",
        ),
        (f.folders.EditPeerFolders(folder_peers=[]), "FOLDER_ID_EMPTY"),
        (
            f.folders.EditPeerFolders(
                folder_peers=[types.InputFolderPeer(peer=ada.peer(bob), folder_id=1)] * 10_000
            ),
            "LIMIT_INVALID",
        ),
        (
            f.folders.EditPeerFolders(
                folder_peers=[types.InputFolderPeer(peer=ada.peer(bob), folder_id=-(2**31))]
            ),
            "FOLDER_ID_INVALID",
        ),
    ):
        with pytest.raises(Refused, match=f"400 {error}"):
            await ada.call(method)
    assert await ada.pts() == before


async def test_a_deleted_peers_chat_stays_the_owners_to_arrange(server: Server) -> None:
    ada, [bob] = await chats(server, 1)
    await server.store.pool.execute("UPDATE users SET deleted = true WHERE user_id = $1", bob.user_id)
    await pin(ada, bob)
    await move(ada, [bob], 1)
    await ada.call(f.messages.MarkDialogUnread(unread=True, peer=named(ada, bob)))
    [dialog] = (await ada.dialogs(folder_id=1)).dialogs
    assert (dialog.unread_mark, dialog.pinned) == (True, False)
    answer = await ada.call(f.messages.GetPeerSettings(peer=ada.peer(bob)))
    assert answer.settings == types.PeerSettings()


@pytest.mark.parametrize("archived", [False, True])
async def test_a_chat_that_went_comes_back_as_a_new_one(server: Server, archived: bool) -> None:
    ada, [bob, eve] = await chats(server, 2)
    second = await server.device(ada.user)
    following = {device: await fresh(device, [bob, eve]) for device in (ada, second)}
    await server.pushes(ada.user_id)
    if archived:
        await move(second, [bob], 1)
    await pin(second, bob)
    await second.call(f.messages.MarkDialogUnread(unread=True, peer=named(second, bob)))
    await second.call(f.messages.DeleteHistory(peer=second.peer(bob), max_id=0))
    await bob.send(ada)
    asked = await fresh(ada, [bob, eve])
    assert (asked.arranged.pins, asked.arranged.archived) == ({0: [], 1: []}, set())
    following[ada].follow_pushes(await server.pushes(ada.user_id), ada)
    same(following[ada], asked)
    await following[second].catch_up(second)
    same(following[second], asked)
