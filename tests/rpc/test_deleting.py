"""Deletes as every device sees them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.peers import Peer
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Server, fresh, running
from tests.rpc.worlds import Pair


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def delete(device: Device, ids: list[int], *, revoke: bool = False) -> Any:
    return await device.call(functions.messages.DeleteMessages(id=ids, revoke=revoke))


async def clear(device: Device, of: Any, max_id: int = 0, **fields: Any) -> Any:
    peer = device.peer(of) if isinstance(of, Device) else of
    return await device.call(functions.messages.DeleteHistory(peer=peer, max_id=max_id, **fields))


async def test_ones_own_copies_go_and_the_others_stay(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    ids = [(await ada.send(bob, f"m{number}")).id for number in range(4)]
    await pair.check()
    answer = await delete(ada, [ids[0], ids[3], ids[3], 0, -5, 2**31 - 1, 10**6])
    assert (answer.pts, answer.pts_count) == (await ada.pts(), 2)
    assert [message.id for message in (await ada.history(bob)).messages] == [ids[2], ids[1]]
    assert len((await bob.history(ada)).messages) == 4
    [dialog] = (await ada.dialogs()).dialogs
    assert dialog.top_message == ids[2]
    await pair.check()
    assert (await delete(ada, [ids[0]])).pts_count == 0
    assert (await delete(ada, ids)).pts_count == 2
    assert (await ada.dialogs()).dialogs == []
    await pair.check()
    await ada.send(bob, "again")
    assert len((await ada.dialogs()).dialogs) == 1
    await pair.check()


async def test_revoked_messages_go_on_both_sides(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    ids = [(await ada.send(bob, f"m{number}")).id for number in range(3)]
    theirs = await bob.send(ada, "theirs")
    await bob.read(ada, theirs.id - 2)
    await pair.check()
    [dialog] = [d for d in (await bob.dialogs()).dialogs if d.peer.user_id == ada.user_id]
    unread = dialog.unread_count
    incoming = (await ada.history(bob)).messages[0].id
    before = await bob.pts()
    answer = await delete(ada, [ids[2], incoming], revoke=True)
    assert (answer.pts, answer.pts_count) == (await ada.pts(), 2)
    assert await bob.pts() == before + 2
    assert [message.message for message in (await bob.history(ada)).messages] == ["m1", "m0"]
    [dialog] = [d for d in (await bob.dialogs()).dialogs if d.peer.user_id == ada.user_id]
    assert dialog.unread_count == unread - (unread > 0)
    await pair.check()


async def test_a_deleted_unread_message_is_not_counted_by_who_never_had_it(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    for number in range(3):
        await ada.send(bob, f"m{number}")
    page = (await bob.history(ada)).messages
    await bob.read(ada, page[2].id)
    sent = (await ada.history(bob)).messages
    await delete(ada, [sent[0].id], revoke=True)
    await ada.send(bob, "later")
    await pair.check()
    assert pair.replicas["bob asked"].unread[ada.user_id] == 2


async def test_a_deleted_unread_message_is_not_counted_by_who_knew_the_count_only(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    ids = [(await ada.send(bob, f"m{number}")).id for number in range(4)]
    pushed, asked = await fresh(bob, [ada]), await fresh(bob, [ada])
    for replica in (pushed, asked):
        replica.messages.clear()  # as a client that has not opened the chat
    await server.pushes(bob.user_id)
    await delete(ada, ids[1:3], revoke=True)
    await delete(bob, [(await bob.history(ada)).messages[0].id])
    pushed.follow_pushes(await server.pushes(bob.user_id), bob, all_sessions=True)
    await asked.catch_up(bob)
    known = await fresh(bob, [ada])
    assert pushed.unread[ada.user_id] == asked.unread[ada.user_id] == known.unread[ada.user_id] == 1


async def test_a_repeated_send_is_the_deleted_message_still(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    sent = await ada.send(bob, "once", random_id=5)
    await delete(ada, [sent.id], revoke=True)
    again = await ada.send(bob, "once", random_id=5)
    assert (again.id, again.pts, again.date) == (sent.id, sent.pts, sent.date)
    assert (await ada.history(bob)).messages == (await bob.history(ada)).messages == []


async def test_who_blocked_the_caller_is_not_reached(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    sent = await ada.send(bob, "seen")
    await server.store.blocks.block(bob.user_id, Peer.user(ada.user_id))
    alone = await ada.send(bob, "unseen")
    for call in (delete(ada, [sent.id], revoke=True), clear(ada, bob, revoke=True)):
        with pytest.raises(Refused, match="403 DELETE_MESSAGES_FORBIDDEN"):
            await call
    assert (await delete(ada, [alone.id], revoke=True)).pts_count == 1
    assert (await delete(ada, [sent.id])).pts_count == 1
    assert len((await bob.history(ada)).messages) == 1
    await pair.check()


async def test_a_chat_is_deleted_or_cleared(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    ids = [(await ada.send(bob, f"m{number}")).id for number in range(5)]
    await pair.check()
    answer = await clear(ada, bob, ids[1], min_date=1, max_date=2)
    assert (answer.pts, answer.pts_count, answer.offset) == (await ada.pts(), 2, 0)
    assert (await clear(ada, bob, just_clear=True)).pts_count == 3
    [dialog] = (await ada.dialogs()).dialogs
    assert (dialog.top_message, dialog.unread_count) == (0, 0)
    assert (await ada.history(bob)).messages == []
    await pair.check()
    answer = await clear(ada, bob)
    assert (answer.pts, answer.pts_count, answer.offset) == (await ada.pts(), 0, 0)
    assert (await ada.dialogs()).dialogs == []
    assert len((await bob.history(ada)).messages) == 5
    await ada.send(bob, "m5")
    await clear(bob, ada, revoke=True)
    assert (await ada.dialogs()).dialogs == []
    await pair.check()
    await ada.send(ada, "note")
    assert (await clear(ada, types.InputPeerSelf(), revoke=True)).pts_count == 1
    await pair.check()


@pytest.mark.parametrize("cleared", [False, True])
async def test_what_was_arranged_of_a_chat_goes_with_it(server: Server, cleared: bool) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    await ada.send(bob)
    if cleared:
        await clear(ada, bob, just_clear=True)
    named = types.InputDialogPeer(peer=ada.peer(bob))
    moved = types.InputFolderPeer(peer=ada.peer(bob), folder_id=1)
    for method in (
        functions.folders.EditPeerFolders(folder_peers=[moved]),
        functions.messages.ToggleDialogPin(peer=named, pinned=True),
        functions.messages.MarkDialogUnread(peer=named, unread=True),
    ):
        assert await ada.call(method)
    await pair.check()
    answer = await clear(ada, bob)
    assert (answer.pts, answer.pts_count, answer.offset) == (await ada.pts(), 1, 0)
    await pair.check()
    await bob.send(ada)
    await pair.check()
    [dialog] = (await ada.dialogs()).dialogs
    assert (dialog.folder_id or 0, dialog.pinned, dialog.unread_mark) == (0, False, False)


async def test_a_long_chat_is_deleted_in_batches(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    for _ in range(11):
        await asyncio.gather(*(ada.send(bob, "text") for _ in range(100)))
    first = await clear(ada, bob, revoke=True)
    assert (first.pts_count, first.offset) == (1000, 1)
    assert len((await bob.history(ada)).messages) == 100
    second = await clear(ada, bob, revoke=True)
    assert (second.pts, second.pts_count, second.offset) == (first.pts + 100, 100, 0)
    assert (await ada.dialogs()).dialogs == []
    await pair.check()


async def test_a_wrong_call_is_refused(server: Server) -> None:
    ada = await server.account()
    before = await ada.pts()
    for method in (functions.messages.DeleteMessages, functions.messages.ReadMessageContents):
        with pytest.raises(Refused, match="400 LIMIT_INVALID"):
            await ada.call(method(id=list(range(10_000))))
        answer = await ada.call(method(id=[]))
        assert (answer.pts, answer.pts_count) == (before, 0)
    for peer in (types.InputPeerEmpty(), types.InputPeerUser(user_id=5, access_hash=1)):
        with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
            await clear(ada, peer)
    assert (await clear(ada, types.InputPeerSelf(), -5)).pts_count == 0
    assert (await clear(ada, ada, 2**31 - 1)).pts_count == 0


async def test_contents_are_seen_once(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    for _ in range(3):
        await ada.send(bob)
    ids = [message.id for message in (await bob.history(ada)).messages]
    await server.store.pool.execute(
        "UPDATE message_boxes SET media_unread = true WHERE owner_user_id = $1 AND box_id = ANY($2::int[])",
        bob.user_id,
        ids[:2],
    )
    await pair.check()
    answer = await bob.call(functions.messages.ReadMessageContents(id=[*ids, -1, 10**6]))
    assert (answer.pts, answer.pts_count) == (await bob.pts(), 2)
    again = await bob.call(functions.messages.ReadMessageContents(id=ids))
    assert (again.pts, again.pts_count) == (answer.pts, 0)
    await pair.check()


async def test_everything_at_once_and_in_any_order(server: Server) -> None:
    pair = await Pair.of(server)
    choose = random.Random(11)
    for turn in range(60):
        actor, other = choose.choice([(pair.ada, pair.bob), (pair.bob, pair.ada)])
        page = (await actor.history(other)).messages
        ids = [message.id for message in page]
        own = [message.id for message in page if message.out]
        match choose.randrange(8):
            case 0 | 1 | 2:
                await actor.send(other, f"text {turn}")
            case 3:
                await actor.read(other, choose.choice(ids) if ids else 0)
            case 4 if own:
                await actor.call(
                    functions.messages.EditMessage(
                        peer=actor.peer(other), id=choose.choice(own), message=f"edited {turn}"
                    )
                )
            case 5 if ids:
                await delete(actor, choose.sample(ids, min(2, len(ids))), revoke=choose.random() < 0.5)
            case 6 if turn % 3 == 0:
                await clear(actor, other, revoke=choose.random() < 0.5, just_clear=choose.random() < 0.5)
            case _:
                there = [message.id for message in (await other.history(actor)).messages]
                both = zip(ids[:2], there[:2], strict=False)
                for mine, theirs in both:
                    await asyncio.gather(
                        delete(actor, [mine], revoke=True),
                        delete(other, [theirs], revoke=True),
                        actor.send(other, "meanwhile"),
                        other.read(actor),
                    )
        if choose.random() < 0.4:
            await pair.check()
    await pair.check()
