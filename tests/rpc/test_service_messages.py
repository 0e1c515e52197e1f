"""Service messages: copies of both sides', like any message, that nobody can edit, forward or pin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.peers import SERVICE_USER_ID, Peer
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Server, running
from tests.rpc.worlds import Pair

f = functions
TOGETHER = """
SELECT count(DISTINCT x) FROM (
    SELECT xmin::text AS x FROM user_update_events WHERE user_id = $1 AND pts > $2
    UNION ALL SELECT xmin::text FROM message_boxes WHERE owner_user_id = $1 AND action IS NOT NULL
) AS written
"""


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def pin(device: Device, of: Device, box_id: int, **fields: Any) -> Any:
    return await device.call(f.messages.UpdatePinnedMessage(peer=device.peer(of), id=box_id, **fields))


async def set_ttl(device: Device, of: Device, period: int = 600) -> Any:
    return await device.call(f.messages.SetHistoryTTL(peer=device.peer(of), period=period))


async def service(device: Device, of: Device) -> list[types.MessageService]:
    """Returns the service messages of a chat, newest first."""
    messages = (await device.history(of)).messages
    return [message for message in messages if isinstance(message, types.MessageService)]


async def test_a_pin_is_told_of_on_both_sides(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    sent = await ada.send(bob, "to be pinned")
    [message] = (await bob.history(ada)).messages
    await bob.read(ada)
    await pair.check()
    before = await ada.pts()
    [_, told] = (await pin(ada, bob, sent.id)).updates
    assert await server.store.pool.fetchval(TOGETHER, ada.user_id, before) == 1
    [mine], [theirs] = await service(ada, bob), await service(bob, ada)
    assert told.message == mine
    for shown, out, about in ((mine, True, sent.id), (theirs, False, message.id)):
        assert isinstance(shown.action, types.MessageActionPinMessage)
        assert (shown.out, shown.silent, shown.reply_to.reply_to_msg_id) == (out, True, about)
        assert shown.from_id == types.PeerUser(user_id=ada.user_id)
    for device, other, unread in ((ada, bob, 0), (bob, ada, 1)):
        page = await device.dialogs()
        [dialog] = [one for one in page.dialogs if one.peer.user_id == other.user_id]
        [top] = await service(device, other)
        assert (dialog.top_message, dialog.unread_count) == (top.id, unread)
        assert top in page.messages
    await pair.check()
    await bob.read(ada)
    await pair.check()


async def test_a_period_is_told_of_on_both_sides_and_by_whom(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    before = await bob.pts()
    [_, _, told] = (await set_ttl(bob, ada)).updates
    assert await server.store.pool.fetchval(TOGETHER, bob.user_id, before) == 1
    [mine], [theirs] = await service(bob, ada), await service(ada, bob)
    assert told.message == mine
    for shown in (mine, theirs):
        assert shown.action == types.MessageActionSetMessagesTTL(period=600)
        assert (shown.from_id.user_id, shown.ttl_period, shown.silent) == (bob.user_id, 600, False)
    await pair.check()
    with pytest.raises(Refused, match="400 CHAT_NOT_MODIFIED"):
        await set_ttl(ada, bob)
    assert len(await service(ada, bob)) == 1


async def test_an_old_client_sees_them_too(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    sent = await ada.send(bob)
    await pin(ada, bob, sent.id)
    await set_ttl(ada, bob)
    old = await server.device(bob.user, layer=152)
    ttl, pinned = await service(old, ada)
    assert (ttl.action.period, type(pinned.action)) == (600, types.MessageActionPinMessage)


async def test_nothing_is_told_of_what_only_one_side_has(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    sent = await ada.send(bob)
    note = await ada.send(ada, "note")
    await pin(ada, bob, sent.id, pm_oneside=True)
    await pin(ada, ada, note.id)
    await set_ttl(ada, ada)
    await ada.call(f.messages.UpdatePinnedMessage(peer=ada.peer(bob), id=sent.id, unpin=True))
    await pair.check()
    await server.store.messages.send_service(ada.user_id, "a notice", [], 1_700_000_000)
    chat = ada.peer(SERVICE_USER_ID)
    [notice] = (await ada.history(chat)).messages
    await ada.call(f.messages.UpdatePinnedMessage(peer=chat, id=notice.id))
    page = await ada.dialogs()
    assert not [message for message in page.messages if isinstance(message, types.MessageService)]
    for device, other in ((ada, bob), (bob, ada), (ada, ada)):
        assert await service(device, other) == []


async def test_who_blocked_the_caller_is_told_nothing(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    sent = await ada.send(bob)
    await server.store.blocks.block(bob.user_id, Peer.user(ada.user_id))
    before = await bob.pts()
    await pin(ada, bob, sent.id)
    await set_ttl(ada, bob)
    assert (len(await service(ada, bob)), await service(bob, ada), await bob.pts()) == (2, [], before)
    await pair.check()


async def test_who_has_lost_the_message_is_told_nothing(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    sent = await ada.send(bob)
    [copy] = (await bob.history(ada)).messages
    await bob.call(f.messages.DeleteMessages(id=[copy.id]))
    await pin(ada, bob, sent.id)
    assert (len(await service(ada, bob)), await service(bob, ada)) == (1, [])
    await pair.check()


async def test_it_is_neither_edited_nor_forwarded_nor_pinned(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    await set_ttl(ada, bob)
    [told] = await service(ada, bob)
    peer = ada.peer(bob)
    before = [await device.pts() for device in (ada, bob)]
    for method in (
        f.messages.EditMessage(peer=peer, id=told.id, message="words"),
        f.messages.GetMessageEditData(peer=peer, id=told.id),
        f.messages.ForwardMessages(from_peer=peer, id=[told.id], random_id=[1], to_peer=ada.peer(ada)),
        f.messages.UpdatePinnedMessage(peer=peer, id=told.id),
    ):
        with pytest.raises(Refused, match="400 MESSAGE_ID_INVALID"):
            await ada.call(method)
    assert [await device.pts() for device in (ada, bob)] == before
    await bob.send(ada, "what for?", reply_to=types.InputReplyToMessage(reply_to_msg_id=told.id + 1))
    await pair.check()


async def test_it_is_deleted_like_any_message(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    sent = await ada.send(bob)
    await pin(ada, bob, sent.id)
    [told] = await service(bob, ada)
    await bob.call(f.messages.DeleteMessages(id=[told.id], revoke=True))
    for device, other in ((ada, bob), (bob, ada)):
        [left] = (await device.history(other)).messages
        assert left.message == "hello"
    await pair.check()


async def test_no_search_finds_it_and_no_rating_counts_it(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    await bob.send(ada, "words")
    await set_ttl(ada, bob)
    fields: dict[str, Any] = dict.fromkeys(
        ("min_date", "max_date", "offset_id", "add_offset", "max_id", "min_id", "hash"), 0
    )

    async def found(q: str, **more: Any) -> list[Any]:
        asked = {"peer": ada.peer(bob), "filter": types.InputMessagesFilterEmpty(), "limit": 100} | more
        return list((await ada.call(f.messages.Search(q=q, **(fields | asked)))).messages)

    assert await found("", from_id=types.InputPeerSelf()) == []
    assert await found("", peer=types.InputPeerEmpty(), from_id=types.InputPeerSelf()) == []
    assert await found("600") == await found("'") == []
    assert [message.message for message in await found("words")] == ["words"]
    top = await ada.call(f.contacts.GetTopPeers(correspondents=True, offset=0, limit=10, hash=0))
    assert not [peer for category in top.categories for peer in category.peers]


async def test_pins_and_messages_at_once_keep_every_log_whole(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    ids = [(await ada.send(bob, f"m{number}")).id for number in range(8)]
    theirs = [message.id for message in (await bob.history(ada)).messages]

    async def quietly(call: Any) -> None:
        try:
            await call
        except Refused as refused:
            assert refused.type == "CHAT_NOT_MODIFIED"  # the other side was faster

    await asyncio.gather(
        *(quietly(pin(ada, bob, box_id)) for box_id in ids),
        *(quietly(pin(bob, ada, box_id)) for box_id in theirs[:4]),
        *(quietly(set_ttl(device, other, 60)) for device, other in ((ada, bob), (bob, ada))),
        *(bob.send(ada, f"b{number}") for number in range(8)),
        *(ada.read(bob) for _ in range(4)),
    )
    await pair.check()
    assert sum(message.unread_count for message in (await ada.dialogs()).dialogs) <= 20
