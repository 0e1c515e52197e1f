"""Pinned messages as every device sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Server, running
from tests.rpc.worlds import Pair


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def pin(device: Device, of: Any, box_id: int, **fields: Any) -> Any:
    peer = device.peer(of) if isinstance(of, Device) else of
    return await device.call(functions.messages.UpdatePinnedMessage(peer=peer, id=box_id, **fields))


async def pinned(device: Device, of: Device, **fields: Any) -> Any:
    zeros: dict[str, Any] = dict.fromkeys(
        ("min_date", "max_date", "offset_id", "add_offset", "max_id", "min_id", "hash"), 0
    )
    arguments: dict[str, Any] = zeros | {"limit": 100, "q": ""} | fields
    return await device.call(
        functions.messages.Search(peer=device.peer(of), filter=types.InputMessagesFilterPinned(), **arguments)
    )


async def test_a_pin_is_for_both_sides_or_for_one(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    ids = [(await ada.send(bob, f"m{n}")).id for n in range(4)]
    await pair.check()
    answer = await pin(ada, bob, ids[1], silent=True)
    [update, told] = answer.updates
    assert (update.pinned, update.messages) == (True, [ids[1]])
    assert (update.pts, update.pts_count) == (await ada.pts() - 1, 1)
    assert (told.pts, told.message.id) == (await ada.pts(), ids[3] + 1)
    assert [message.message for message in (await pinned(bob, ada)).messages] == ["m1"]
    await pair.check()
    assert len((await pin(ada, bob, ids[3], pm_oneside=True)).updates) == 1
    await pair.check()
    assert [message.id for message in (await pinned(ada, bob)).messages] == [ids[3], ids[1]]
    assert len((await pinned(bob, ada)).messages) == 1
    for device, other, newest in ((ada, bob, ids[3]), (bob, ada, None)):
        peer = device.peer(other)
        profile = types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)
        full = (await device.call(functions.users.GetFullUser(id=profile))).full_user
        assert full.can_pin_message
        assert newest is None or full.pinned_msg_id == newest
    assert len((await pin(ada, bob, ids[1], unpin=True)).updates) == 1
    await pair.check()
    assert (await pinned(bob, ada)).messages == []
    for box_id in ids[:3]:
        await pin(ada, bob, box_id)
    before = await ada.pts()
    done = await ada.call(functions.messages.UnpinAllMessages(peer=ada.peer(bob)))
    assert (done.pts, done.pts_count, done.offset) == (before + 4, 4, 0)
    assert (await ada.call(functions.messages.UnpinAllMessages(peer=ada.peer(bob)))).pts_count == 0
    assert (await pinned(bob, ada)).messages == []
    await pair.check()


async def test_pinned_messages_are_paged(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    ids = []
    for number in range(5):
        ids.append((await ada.send(bob, f"m{number}")).id)
        await pin(ada, bob, ids[-1])
        await ada.send(bob, "between")
    page = await pinned(ada, bob, limit=2)
    assert (page.count, [message.id for message in page.messages]) == (5, [ids[4], ids[3]])
    assert all(message.pinned for message in page.messages)
    page = await pinned(ada, bob, limit=2, offset_id=ids[3])
    assert [message.id for message in page.messages] == [ids[2], ids[1]]
    around = await pinned(ada, bob, limit=3, offset_id=ids[2], add_offset=-2)
    assert [message.id for message in around.messages] == [ids[3], ids[2], ids[1]]
    between = await pinned(ada, bob, max_id=ids[3], min_id=ids[0])
    assert [message.id for message in between.messages] == [ids[2], ids[1]]
    await ada.call(functions.messages.DeleteMessages(id=[ids[4]], revoke=True))
    assert (await pinned(bob, ada, limit=1)).count == 4
    assert (await pinned(ada, bob, limit=-5, offset_id=-1, add_offset=10**6, max_id=-7)).messages == []


async def test_a_wrong_pin_changes_nothing(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    sent = await ada.send(bob)
    note = await ada.send(ada, "note")
    await pin(ada, bob, sent.id)
    before = await ada.pts(), await bob.pts()
    refused: list[tuple[Any, int, dict[str, Any], str]] = [
        (bob, sent.id, {}, "400 CHAT_NOT_MODIFIED"),
        (bob, note.id, {}, "400 MESSAGE_ID_INVALID"),
        (bob, 0, {}, "400 MESSAGE_ID_INVALID"),
        (bob, -1, {}, "400 MESSAGE_ID_INVALID"),
        (bob, 2**31 - 1, {}, "400 MESSAGE_ID_INVALID"),
        (ada, note.id, {"unpin": True}, "400 CHAT_NOT_MODIFIED"),
        (types.InputPeerUser(user_id=bob.user_id, access_hash=5), sent.id, {}, "400 PEER_ID_INVALID"),
        (types.InputPeerEmpty(), sent.id, {}, "400 PEER_ID_INVALID"),
    ]
    for of, box_id, fields, error in refused:
        with pytest.raises(Refused, match=f"{error}$"):
            await pin(ada, of, box_id, **fields)
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await ada.call(functions.messages.UnpinAllMessages(peer=types.InputPeerEmpty()))
    assert (await ada.pts(), await bob.pts()) == before
    await pin(ada, ada, note.id)
    await pair.check()
