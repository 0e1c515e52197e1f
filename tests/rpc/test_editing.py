"""Edits as every device sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.messages import EDIT_TIME_S
from telesrv.domain.peers import Peer
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Server, running
from tests.rpc.test_messages import LONG_LINKS
from tests.rpc.worlds import Pair


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def edit(device: Device, to: Any, box_id: int, text: str | None = "edited", **fields: Any) -> Any:
    peer = device.peer(to) if isinstance(to, Device) else to
    return await device.call(functions.messages.EditMessage(peer=peer, id=box_id, message=text, **fields))


async def test_an_edit_reaches_every_copy(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    sent = await ada.send(bob, "frist", random_id=77)
    await ada.send(bob, "second")
    await pair.check()
    server.clock.advance(60)
    entities: list[types.TypeMessageEntity] = [types.MessageEntityBold(offset=1, length=5)]
    answer = await edit(
        ada, bob, sent.id, " first ", entities=entities, media=types.InputMediaWebPage(url="x")
    )
    [update] = answer.updates
    assert (update.pts, update.pts_count) == (await ada.pts(), 1)
    assert (update.message.message, update.message.edit_date) == ("first", int(server.clock.time()))
    assert (update.message.id, update.message.date, update.message.entities[0].length) == (
        sent.id,
        sent.date,
        5,
    )
    assert {user.id for user in answer.users} == {ada.user_id, bob.user_id}
    assert [message.message for message in (await bob.history(ada)).messages] == ["second", "first"]
    await pair.check()
    again = await ada.send(bob, "frist", random_id=77)
    assert (again.id, again.pts, again.date) == (sent.id, sent.pts, sent.date)
    body = await server.store.pool.fetchval(
        "SELECT text FROM private_messages WHERE sender_user_id = $1 AND random_id = 77", ada.user_id
    )
    assert body == "first"
    styled: list[types.TypeMessageEntity] = [types.MessageEntityItalic(offset=0, length=5)]
    await edit(ada, bob, sent.id, "first", entities=styled)
    assert (await bob.history(ada)).messages[1].entities == styled
    await pair.check()


async def test_an_edit_that_changes_nothing_or_is_not_allowed(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    sent = await ada.send(bob, "text")
    [seen] = (await bob.history(ada)).messages
    note = await ada.send(ada, "note")
    elsewhere = await ada.send(await server.account(), "elsewhere")
    before = await ada.pts(), await bob.pts()
    refused: list[tuple[Device, Any, int, dict[str, Any], str]] = [
        (ada, bob, sent.id, {"text": "text"}, "400 MESSAGE_NOT_MODIFIED"),
        (ada, bob, sent.id, {"text": None}, "400 MESSAGE_NOT_MODIFIED"),
        (ada, bob, sent.id, {"text": "\0 \u200b"}, "400 MESSAGE_EMPTY"),
        (ada, bob, sent.id, {"text": "x" * 4097}, "400 MESSAGE_TOO_LONG"),
        (
            ada,
            bob,
            sent.id,
            {"entities": [types.MessageEntityBold(offset=5, length=9)]},
            "400 ENTITY_BOUNDS_INVALID",
        ),
        (ada, bob, sent.id, {"entities": LONG_LINKS}, "400 ENTITIES_TOO_LONG"),
        (bob, ada, seen.id, {}, "403 MESSAGE_AUTHOR_REQUIRED"),
        (ada, bob, 0, {}, "400 MESSAGE_ID_INVALID"),
        (ada, bob, -1, {}, "400 MESSAGE_ID_INVALID"),
        (ada, bob, 2**31 - 1, {}, "400 MESSAGE_ID_INVALID"),
        (ada, bob, elsewhere.id, {}, "400 MESSAGE_ID_INVALID"),
        (ada, bob, note.id, {}, "400 MESSAGE_ID_INVALID"),
        (ada, bob, sent.id, {"media": types.InputMediaDice(emoticon="x")}, "400 MEDIA_INVALID"),
        (ada, bob, sent.id, {"reply_markup": types.ReplyKeyboardHide()}, "400 REPLY_MARKUP_INVALID"),
        (ada, bob, sent.id, {"quick_reply_shortcut_id": 1}, "400 SHORTCUT_INVALID"),
        (ada, types.InputPeerEmpty(), sent.id, {}, "400 PEER_ID_INVALID"),
        (ada, types.InputPeerUser(user_id=bob.user_id, access_hash=1), sent.id, {}, "400 PEER_ID_INVALID"),
        (ada, types.InputPeerChat(chat_id=1), sent.id, {}, "400 CHAT_ID_INVALID"),
    ]
    for device, to, box_id, fields, error in refused:
        with pytest.raises(Refused, match=f"{error}$"):
            await edit(device, to, box_id, **fields)
    assert (await ada.pts(), await bob.pts()) == before
    await server.store.blocks.block(bob.user_id, Peer.user(ada.user_id))
    with pytest.raises(Refused, match="403 EDIT_MESSAGES_FORBIDDEN"):
        await edit(ada, bob, sent.id)
    await server.store.blocks.unblock(bob.user_id, Peer.user(ada.user_id))
    server.clock.advance(EDIT_TIME_S + 1)
    with pytest.raises(Refused, match="400 MESSAGE_EDIT_TIME_EXPIRED"):
        await edit(ada, bob, sent.id)
    await edit(ada, ada, note.id, "a note has no limit")
    assert [message.message for message in (await bob.history(ada)).messages] == ["text"]


async def test_an_edit_of_what_the_other_side_deleted_is_the_authors_alone(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    sent = await ada.send(bob, "text")
    [seen] = (await bob.history(ada)).messages
    await bob.call(functions.messages.DeleteMessages(id=[seen.id]))
    before = await bob.pts()
    await edit(ada, bob, sent.id)
    assert await bob.pts() == before + 1 or await bob.pts() == before
    await pair.check()


async def test_what_may_be_edited_is_told(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    sent = await ada.send(bob)
    [seen] = (await bob.history(ada)).messages

    async def ask(device: Device, other: Device, box_id: int) -> Any:
        return await device.call(functions.messages.GetMessageEditData(peer=device.peer(other), id=box_id))

    assert await ask(ada, bob, sent.id) == types.messages.MessageEditData(caption=False)
    with pytest.raises(Refused, match="403 MESSAGE_AUTHOR_REQUIRED"):
        await ask(bob, ada, seen.id)
    for box_id in (0, -5, 2**31 - 1):
        with pytest.raises(Refused, match="400 MESSAGE_ID_INVALID"):
            await ask(ada, bob, box_id)
