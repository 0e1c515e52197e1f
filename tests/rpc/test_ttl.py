"""Messages that are deleted by themselves."""

from __future__ import annotations

import asyncio
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


async def set_ttl(device: Device, of: Any, period: int) -> Any:
    peer = device.peer(of) if isinstance(of, Device) else of
    return await device.call(functions.messages.SetHistoryTTL(peer=peer, period=period))


async def test_messages_of_a_chat_go_after_their_time(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    kept = await ada.send(bob, "kept")
    answer = await set_ttl(ada, bob, 600)
    [changed, carried, told] = answer.updates
    assert changed == types.UpdatePeerHistoryTTL(peer=types.PeerUser(user_id=bob.user_id), ttl_period=600)
    assert carried == types.UpdateDeleteMessages(messages=[], pts=await ada.pts() - 1, pts_count=1)
    assert (told.pts, told.message.out, told.message.silent) == (await ada.pts(), True, False)
    assert told.message.action == types.MessageActionSetMessagesTTL(period=600)
    await pair.check()
    first = await ada.send(bob, "first")
    assert first.ttl_period == 600
    await bob.send(ada, "answer")
    for device, other in ((ada, bob), (bob, ada)):
        periods = [message.ttl_period for message in (await device.history(other)).messages]
        assert periods == [600, 600, 600, None]
    await pair.check()
    pin = functions.messages.UpdatePinnedMessage(peer=ada.peer(bob), id=first.id)
    [_, told] = (await ada.call(pin)).updates
    [notice, *_] = (await bob.history(ada)).messages
    assert (told.message.ttl_period, notice.ttl_period) == (600, 600)
    await pair.check()
    server.clock.advance(300)
    later = await bob.send(ada, "later")
    assert await server.store.ttl.expire() == 0
    server.clock.advance(301)
    assert await server.store.ttl.expire() == 8
    assert await server.store.ttl.expire() == 0
    for device, other in ((ada, bob), (bob, ada)):
        assert [message.message for message in (await device.history(other)).messages] == ["later", "kept"]
    await pair.check()
    [_, _, told] = (await set_ttl(bob, ada, 0)).updates
    assert (told.message.action.period, told.message.ttl_period) == (0, None)
    await ada.send(bob, "kept too")
    server.clock.advance(1000)
    assert await server.store.ttl.expire() == 2
    left = (await ada.history(bob)).messages
    assert [getattr(message, "message", None) for message in left] == ["kept too", None, "kept"]
    assert first.id > kept.id and later.id > 0
    await pair.check()
    server.clock.advance(1000)
    assert await server.store.ttl.expire() == 0
    assert await server.store.pool.fetchval("SELECT count(*) FROM history_ttl") == 0


async def test_two_processes_expire_each_message_once(server: Server) -> None:

    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    await set_ttl(ada, bob, 60)
    for _ in range(5):
        await ada.send(bob)
    server.clock.advance(61)
    before = await ada.pts()
    counts = await asyncio.gather(*(server.store.ttl.expire() for _ in range(4)))
    assert sum(counts) == 12
    assert await ada.pts() == before + 6
    assert (await ada.dialogs()).dialogs == []
    await pair.check()


async def test_a_wrong_period_is_refused(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    for period in (-1, 2**31 - 1, -(2**31)):
        with pytest.raises(Refused, match="400 TTL_PERIOD_INVALID"):
            await set_ttl(ada, bob, period)
        with pytest.raises(Refused, match="400 TTL_PERIOD_INVALID"):
            await ada.call(functions.messages.SetDefaultHistoryTTL(period=period))
    with pytest.raises(Refused, match="400 CHAT_NOT_MODIFIED"):
        await set_ttl(ada, bob, 0)
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await set_ttl(ada, types.InputPeerUser(user_id=bob.user_id, access_hash=1), 60)
    assert await ada.pts() == await bob.pts() == 1


async def test_new_chats_begin_with_the_default(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    assert (await ada.call(functions.messages.GetDefaultHistoryTTL())).period == 0
    assert await ada.call(functions.messages.SetDefaultHistoryTTL(period=86_400)) is True
    assert (await ada.call(functions.messages.GetDefaultHistoryTTL())).period == 86_400
    await ada.send(bob)
    await ada.send(ada, "note")
    [first, told] = (await bob.history(ada)).messages
    assert (first.message, first.ttl_period, told.ttl_period) == ("hello", 86_400, 86_400)
    assert told.action == types.MessageActionSetMessagesTTL(period=86_400, auto_setting_from=ada.user_id)
    assert [message.ttl_period for message in (await ada.history(ada)).messages] == [None]
    await set_ttl(bob, ada, 0)
    await ada.send(bob)
    periods = [message.ttl_period for message in (await bob.history(ada)).messages]
    assert periods == [None, None, 86_400, 86_400]
    await pair.check()


async def test_a_chat_that_a_scheduled_message_begins_has_the_default(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    await ada.call(functions.messages.SetDefaultHistoryTTL(period=86_400))
    await ada.send(bob, "later", schedule_date=int(server.clock.time()) + 60)
    assert (await bob.history(ada)).messages == []
    server.clock.advance(61)
    assert await server.store.due.dispatch() == 1
    [sent, told] = (await bob.history(ada)).messages
    assert (sent.message, sent.ttl_period) == ("later", 86_400)
    assert told.action == types.MessageActionSetMessagesTTL(period=86_400, auto_setting_from=ada.user_id)
    await pair.check()


async def test_a_chat_that_cannot_begin_gets_no_period(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    carol = await server.account()
    await ada.call(functions.messages.SetDefaultHistoryTTL(period=86_400))
    await ada.call(functions.contacts.Block(id=ada.peer(bob)))
    await carol.call(functions.account.DeleteAccount(reason=""))
    for other, error in ((bob, "YOU_BLOCKED_USER"), (carol, "INPUT_USER_DEACTIVATED")):
        with pytest.raises(Refused, match=f"400 {error}"):
            await ada.send(other)
    assert (await ada.dialogs()).dialogs == []
    assert (await bob.history(ada)).messages == []
    await pair.check()


async def test_a_message_that_is_not_sent_begins_no_chat(server: Server) -> None:
    """A repeat, another message by the same random_id, an answer to nothing; a new one begins it."""
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    sent = await ada.send(bob, "sent", random_id=77)
    later = int(server.clock.time()) + 3600
    await ada.send(bob, "later", random_id=78, schedule_date=later)
    note = (await ada.send(ada, "note")).id
    await ada.call(
        functions.messages.DeleteHistory(peer=ada.peer(bob), max_id=0, just_clear=False, revoke=True)
    )
    await ada.call(functions.messages.SetDefaultHistoryTTL(period=86_400))
    forward = functions.messages.ForwardMessages(
        from_peer=ada.peer(ada), to_peer=ada.peer(bob), id=[note], random_id=[77]
    )
    assert (await ada.send(bob, "sent", random_id=77)).id == sent.id
    for refused, error in (
        (ada.send(bob, "another", random_id=77), "RANDOM_ID_DUPLICATE"),
        (ada.send(bob, "another", random_id=78), "RANDOM_ID_DUPLICATE"),
        (ada.call(forward), "RANDOM_ID_DUPLICATE"),
        (
            ada.send(bob, reply_to=types.InputReplyToMessage(reply_to_msg_id=sent.id)),
            "REPLY_MESSAGE_ID_INVALID",
        ),
    ):
        with pytest.raises(Refused, match=f"400 {error}"):
            await refused
    assert (await bob.history(ada)).messages == (await ada.history(bob)).messages == []
    server.clock.advance(3601)
    assert await server.store.due.dispatch() == 1
    [message, told] = (await bob.history(ada)).messages
    assert (message.message, told.action.period) == ("later", 86_400)
    await pair.check()
