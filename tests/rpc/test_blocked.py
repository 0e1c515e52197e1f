"""Who has blocked somebody writes to them no more, in any way, until they are unblocked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from telesrv.domain.peers import Peer
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Server, running
from tests.rpc.worlds import Pair

f = functions
AT = 1_700_000_600


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def forward(ada: Device, bob: Device, note: int, **fields: Any) -> Any:
    random_id = next(ada.server.random_ids)
    method = f.messages.ForwardMessages(
        from_peer=ada.peer(ada), id=[note], random_id=[random_id], to_peer=ada.peer(bob), **fields
    )
    return await ada.call(method)


Way = Callable[[Device, Device, int], Awaitable[Any]]
WAYS: dict[str, Way] = {
    "send": lambda ada, bob, note: ada.send(bob),
    "silent": lambda ada, bob, note: ada.send(bob, silent=True, clear_draft=True),
    "schedule": lambda ada, bob, note: ada.send(bob, schedule_date=AT),
    "forward": forward,
    "forward later": lambda ada, bob, note: forward(ada, bob, note, schedule_date=AT),
    "forward nameless": lambda ada, bob, note: forward(ada, bob, note, drop_author=True),
}


@pytest.mark.parametrize("way", WAYS)
async def test_who_is_blocked_is_not_written_to(server: Server, way: str) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    note = (await ada.send(ada, "note")).id
    await ada.call(f.contacts.Block(id=ada.peer(bob)))
    before = [await device.pts() for device in (ada, bob)]
    with pytest.raises(Refused, match="400 YOU_BLOCKED_USER"):
        await WAYS[way](ada, bob, note)
    assert [await device.pts() for device in (ada, bob)] == before
    assert (await ada.history(bob)).messages == []
    waiting = await ada.call(f.messages.GetScheduledHistory(peer=ada.peer(bob), hash=0))
    assert waiting.messages == []
    await pair.check()
    await ada.call(f.contacts.Unblock(id=ada.peer(bob)))
    await WAYS[way](ada, bob, note)
    await pair.check()


async def test_a_repeat_of_what_was_sent_before_has_its_answer(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    first = await ada.send(bob, random_id=77)
    await ada.call(f.contacts.Block(id=ada.peer(bob)))
    assert await ada.send(bob, random_id=77) == first


@pytest.mark.parametrize("due", [True, False])
async def test_what_was_scheduled_before_is_dropped_at_its_time(server: Server, due: bool) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    [_, shown, _] = (await ada.send(bob, schedule_date=AT)).updates
    await ada.call(f.contacts.Block(id=ada.peer(bob)))
    await pair.check()
    if due:
        server.clock.advance(601)
        assert await server.store.due.dispatch() == 1
    else:
        method = f.messages.SendScheduledMessages(peer=ada.peer(bob), id=[shown.message.id])
        [gone, _] = (await ada.call(method)).updates
        assert (gone.messages, gone.sent_messages) == ([shown.message.id], None)
    assert (await ada.history(bob)).messages == (await bob.history(ada)).messages == []
    waiting = await ada.call(f.messages.GetScheduledHistory(peer=ada.peer(bob), hash=0))
    assert waiting.messages == []
    await pair.check()


async def test_the_other_side_writes_into_the_void(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    await ada.call(f.contacts.Block(id=ada.peer(bob)))
    await bob.send(ada)
    assert (await ada.history(bob)).messages == []
    assert len((await bob.history(ada)).messages) == 1
    await server.store.blocks.block(bob.user_id, Peer.user(ada.user_id))
    with pytest.raises(Refused, match="400 YOU_BLOCKED_USER"):
        await bob.send(ada)


async def test_saved_messages_and_messages_sent_before_stay(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    sent = await ada.send(bob)
    await ada.call(f.contacts.Block(id=ada.peer(bob)))
    await ada.send(types.InputPeerSelf(), "note")
    edit = f.messages.EditMessage(peer=ada.peer(bob), id=sent.id, message="mended")
    await ada.call(edit)
    assert [message.message for message in (await bob.history(ada)).messages] == ["mended"]


async def test_a_block_ends_with_the_account_that_made_it(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    sent = [await bob.send(ada, f"m{number}") for number in range(2)]
    await ada.call(f.contacts.Block(id=ada.peer(bob)))
    await ada.call(f.account.DeleteAccount(reason=""))
    await bob.call(f.messages.EditMessage(peer=bob.peer(ada), id=sent[0].id, message="mended"))
    await bob.call(f.messages.DeleteMessages(id=[sent[1].id], revoke=True))
    assert [message.message for message in (await bob.history(ada)).messages] == ["mended"]
