"""Messages that are sent at a time set before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.origin import NOBODY
from telesrv.domain.peers import Peer
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Server, running
from tests.rpc.worlds import Pair


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


AT = 1_700_000_600


async def scheduled(device: Device, of: Device, ids: list[int] | None = None) -> list[Any]:
    peer = device.peer(of)
    if ids is None:
        answer = await device.call(functions.messages.GetScheduledHistory(peer=peer, hash=0))
    else:
        answer = await device.call(functions.messages.GetScheduledMessages(peer=peer, id=ids))
    return list(answer.messages)


async def test_a_message_waits_for_its_time_and_is_sent_once(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    first = await ada.send(bob, "question")
    reply = types.InputReplyToMessage(reply_to_msg_id=first.id)
    answer = await ada.send(
        bob, "for later", schedule_date=AT, random_id=77, silent=True, noforwards=True, reply_to=reply,
        entities=[types.MessageEntityBold(offset=0, length=3)],
    )  # fmt: skip
    [named, shown, carried] = answer.updates
    assert (named.random_id, named.id) == (77, shown.message.id)
    assert carried == types.UpdateDeleteMessages(messages=[], pts=await ada.pts(), pts_count=1)
    assert (shown.message.date, shown.message.message, shown.message.out) == (AT, "for later", True)
    assert (
        await scheduled(ada, bob) == [shown.message] == await scheduled(ada, bob, [shown.message.id, 99, -1])
    )
    assert len((await bob.history(ada)).messages) == 1
    again = await ada.send(
        bob, "for later", schedule_date=AT, random_id=77, silent=True, noforwards=True, reply_to=reply,
        entities=[types.MessageEntityBold(offset=0, length=3)],
    )  # fmt: skip
    assert again.updates == [named, shown]
    with pytest.raises(Refused, match="400 RANDOM_ID_DUPLICATE"):
        await ada.send(bob, "another", schedule_date=AT, random_id=77)
    await pair.check()
    server.clock.advance(599)
    assert await server.store.due.dispatch() == 0
    server.clock.advance(2)
    assert await server.store.due.dispatch() == 1
    assert await server.store.due.dispatch() == 0
    [sent, _] = (await ada.history(bob)).messages
    [got, _] = (await bob.history(ada)).messages
    for message in (sent, got):
        assert (message.message, message.date, message.silent, message.noforwards) == (
            "for later",
            AT + 1,
            True,
            True,
        )
        assert message.from_scheduled
        assert message.entities == [types.MessageEntityBold(offset=0, length=3)]
    assert sent.reply_to.reply_to_msg_id == first.id
    assert await scheduled(ada, bob) == []
    await pair.check()


async def test_several_processes_send_each_message_once_and_in_order(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    for number in range(20):
        await ada.send(bob, f"m{number}", schedule_date=AT + number // 5)
    server.clock.advance(700)
    counts = await asyncio.gather(*(server.store.due.dispatch() for _ in range(4)))
    assert sum(counts) == 20
    texts = [message.message for message in (await bob.history(ada)).messages][::-1]
    assert texts == [f"m{number}" for number in range(20)]
    await pair.check()


async def test_a_sender_that_died_in_between_is_made_up_for(server: Server) -> None:
    """The message was sent and nobody took it off the list; or it was leased and not sent."""
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    await ada.send(bob, "sent", schedule_date=AT)
    await ada.send(bob, "leased", schedule_date=AT)
    await server.store.pool.execute("UPDATE scheduled_messages SET leased_until_ms = $1", (AT + 60) * 1000)
    [leased, waiting] = await server.store.scheduled.waiting(ada.user_id, Peer.user(bob.user_id))
    assert (leased.text, waiting.text) == ("leased", "sent")
    await server.store.due._send(waiting, NOBODY)
    server.clock.advance(630)
    assert await server.store.due.dispatch() == 0
    edit = functions.messages.EditMessage(
        peer=ada.peer(bob), id=leased.scheduled_id, message="x", schedule_date=AT + 500
    )
    with pytest.raises(Refused, match="400 MESSAGE_ID_INVALID"):
        await ada.call(edit)
    gone = await ada.call(
        functions.messages.DeleteScheduledMessages(peer=ada.peer(bob), id=[leased.scheduled_id])
    )
    assert gone.updates == []
    server.clock.advance(60)
    assert await server.store.due.dispatch() == 2
    assert {message.message for message in (await bob.history(ada)).messages} == {"sent", "leased"}
    assert len((await bob.history(ada)).messages) == 2
    await pair.check()


async def test_what_waits_is_edited_moved_sent_at_once_or_deleted(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    ids = [(await ada.send(bob, f"m{n}", schedule_date=AT)).updates[0].id for n in range(4)]
    await pair.check()
    edit = functions.messages.EditMessage(
        peer=ada.peer(bob), id=ids[0], message="edited", schedule_date=AT + 1000
    )
    answer = await ada.call(edit)
    assert (answer.updates[0].message.message, answer.updates[0].message.date) == ("edited", AT + 1000)
    move = functions.messages.EditMessage(peer=ada.peer(bob), id=ids[1], schedule_date=AT + 500)
    assert (await ada.call(move)).updates[0].message.message == "m1"
    await pair.check()
    gone = await ada.call(functions.messages.DeleteScheduledMessages(peer=ada.peer(bob), id=[ids[2], 99, -1]))
    assert gone.updates[0].messages == [ids[2]]
    await pair.check()
    now = await ada.call(functions.messages.SendScheduledMessages(peer=ada.peer(bob), id=[ids[3]]))
    [new, left, carried] = now.updates
    assert (new.message.message, left.messages, left.sent_messages) == ("m3", [ids[3]], [new.message.id])
    assert carried.pts == new.pts + 1 == await ada.pts()
    with pytest.raises(Refused, match="400 MESSAGE_ID_INVALID"):
        await ada.call(functions.messages.SendScheduledMessages(peer=ada.peer(bob), id=[ids[3]]))
    assert [message.id for message in await scheduled(ada, bob)] == [ids[0], ids[1]]
    server.clock.advance(2000)
    assert await server.store.due.dispatch() == 2
    assert [m.message for m in (await bob.history(ada)).messages] == ["edited", "m1", "m3"]
    await pair.check()


async def test_a_time_that_has_passed_is_now(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    sent = await ada.send(bob, "now", schedule_date=1_600_000_000)
    assert isinstance(sent, types.UpdateShortSentMessage)


async def test_a_random_id_is_used_for_now_or_for_later(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    note = (await ada.send(ada, "note")).id

    def forward(**fields: Any) -> functions.messages.ForwardMessages:
        return functions.messages.ForwardMessages(
            from_peer=ada.peer(ada), to_peer=ada.peer(bob), id=[note], **fields
        )

    await ada.send(bob, random_id=901)
    await ada.send(bob, random_id=902, schedule_date=AT)
    await ada.call(forward(random_id=[903]))
    await ada.call(forward(random_id=[904], schedule_date=AT))
    before = await ada.pts()
    for random_id in (902, 903, 904):
        with pytest.raises(Refused, match="400 RANDOM_ID_DUPLICATE"):
            await ada.send(bob, random_id=random_id)
    for random_id in (901, 903, 904):
        with pytest.raises(Refused, match="400 RANDOM_ID_DUPLICATE"):
            await ada.send(bob, random_id=random_id, schedule_date=AT)
    for random_id in (901, 902, 904):
        with pytest.raises(Refused, match="400 RANDOM_ID_DUPLICATE"):
            await ada.call(forward(random_id=[random_id]))
    for random_id in (901, 902, 903):
        with pytest.raises(Refused, match="400 RANDOM_ID_DUPLICATE"):
            await ada.call(forward(random_id=[random_id], schedule_date=AT))
    assert await ada.pts() == before
    server.clock.advance(700)
    assert await server.store.due.dispatch() == 2
    assert len((await bob.history(ada)).messages) == 4


@pytest.mark.parametrize("sent", [False, True])
async def test_a_repeat_when_the_time_has_passed_gets_the_first_answer(server: Server, sent: bool) -> None:
    """Whoever lost the answer asks again, and by then the message would be for now."""
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    notes = [(await ada.send(ada, f"note {n}")).id for n in range(2)]
    forward = functions.messages.ForwardMessages(
        from_peer=ada.peer(ada), to_peer=ada.peer(bob), id=notes, random_id=[78, 79], schedule_date=AT
    )
    first = await ada.send(bob, "later", random_id=77, schedule_date=AT)
    forwarded = await ada.call(forward)
    await ada.call(functions.messages.DeleteMessages(id=notes[:1]))
    server.clock.advance(700)
    if sent:
        assert await server.store.due.dispatch() == 3
    left = types.UpdateDeleteScheduledMessages(
        peer=types.PeerUser(user_id=bob.user_id), messages=[first.updates[0].id]
    )
    again = await ada.send(bob, "later", random_id=77, schedule_date=AT)
    assert again.updates == [*first.updates[:2], *([left] if sent else [])]
    again = await ada.call(forward)
    assert [one for one in again.updates if isinstance(one, types.UpdateMessageID)] == forwarded.updates[:2]
    if not sent:
        assert await server.store.due.dispatch() == 3
    texts = [message.message for message in (await bob.history(ada)).messages]
    assert texts[::-1] == ["later", "note 0", "note 1"]
    await pair.check()


async def test_forwards_wait_too(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    ids = [(await ada.send(bob, f"m{n}")).id for n in range(2)]
    forward = functions.messages.ForwardMessages(
        from_peer=ada.peer(bob), to_peer=ada.peer(bob), id=ids, random_id=[901, 902], schedule_date=AT
    )
    answer = await ada.call(forward)
    assert [update.random_id for update in answer.updates[:2]] == [901, 902]
    await pair.check()
    server.clock.advance(700)
    assert await server.store.due.dispatch() == 2
    [last, *_] = (await bob.history(ada)).messages
    assert (last.message, last.fwd_from.from_id) == ("m1", types.PeerUser(user_id=ada.user_id))
    await pair.check()


async def test_what_cannot_be_sent_leaves_the_list(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    first = await ada.send(bob, "first")
    reply = types.InputReplyToMessage(reply_to_msg_id=first.id)
    await ada.send(bob, "reply", schedule_date=AT, reply_to=reply)
    await ada.call(functions.messages.DeleteMessages(id=[first.id], revoke=True))
    server.clock.advance(700)
    assert await server.store.due.dispatch() == 1
    [message] = (await bob.history(ada)).messages
    assert (message.message, message.reply_to) == ("reply", None)
    await pair.check()
    await ada.send(bob, "too late", schedule_date=AT + 500)
    await server.store.pool.execute("UPDATE users SET deleted = true WHERE user_id = $1", bob.user_id)
    server.clock.advance(700)
    assert await server.store.due.dispatch() == 1
    assert await scheduled(ada, bob) == []


async def test_a_wrong_call_is_refused(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    peer = ada.peer(bob)
    foreign = types.InputPeerUser(user_id=bob.user_id, access_hash=1)
    many = list(range(1, 10_001))
    for method in (
        functions.messages.GetScheduledMessages,
        functions.messages.SendScheduledMessages,
        functions.messages.DeleteScheduledMessages,
    ):
        with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
            await ada.call(method(peer=foreign, id=[1]))
        with pytest.raises(Refused, match="400 LIMIT_INVALID"):
            await ada.call(method(peer=peer, id=many))
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await ada.call(functions.messages.GetScheduledHistory(peer=foreign, hash=0))
    with pytest.raises(Refused, match="400 MESSAGE_ID_INVALID"):
        await ada.call(functions.messages.SendScheduledMessages(peer=peer, id=[1, -1, 2**31 - 1]))
    with pytest.raises(Refused, match="400 REPLY_MESSAGE_ID_INVALID"):
        await ada.send(bob, schedule_date=AT, reply_to=types.InputReplyToMessage(reply_to_msg_id=9))
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await ada.send(ada.peer(123_456), schedule_date=AT)
    for _ in range(100):
        await ada.send(bob, schedule_date=AT)
    with pytest.raises(Refused, match="400 SCHEDULE_TOO_MUCH"):
        await ada.send(bob, schedule_date=AT)


async def test_nothing_is_sent_again_and_again(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    note = (await ada.send(ada, "note")).id
    [_, shown, _] = (await ada.send(bob, "once", schedule_date=AT)).updates
    before = await ada.pts()
    daily: dict[str, Any] = {"schedule_date": AT, "schedule_repeat_period": 86_400}
    peer = ada.peer(bob)
    for method in (
        functions.messages.SendMessage(peer=peer, message="daily", random_id=5, **daily),
        functions.messages.ForwardMessages(
            from_peer=ada.peer(ada), id=[note], random_id=[6], to_peer=peer, **daily
        ),
        functions.messages.EditMessage(peer=peer, id=shown.message.id, message="daily", **daily),
    ):
        with pytest.raises(Refused, match="403 PREMIUM_ACCOUNT_REQUIRED"):
            await ada.call(method)
    assert await ada.pts() == before
    assert await scheduled(ada, bob) == [shown.message]
