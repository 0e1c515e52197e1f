"""Messages that wait until the other side is online."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.peers import Peer
from telesrv.domain.scheduled import WHEN_ONLINE
from telesrv.domain.updates import OUTBOX_BUCKETS
from telesrv.outbox.accounts import SETTLE_S
from telesrv.store.until_online import AT_ONCE, PAGE, wait_for
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Server, running
from tests.rpc.test_keeper import Links, keeper_of
from tests.rpc.test_privacy import EVERYBODY, NOBODY, STATUS, set_rules
from tests.rpc.worlds import Pair

AT = 1_700_000_600


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def online(device: Device) -> None:
    await device.call(functions.account.UpdateStatus(offline=False))


async def offline(device: Device) -> None:
    await device.call(functions.account.UpdateStatus(offline=True))


async def wait(device: Device, other: Device, text: str, **fields: Any) -> int:
    """Puts a message on the list until the other side is online; returns its id there."""
    answer = await device.send(other, text, schedule_date=WHEN_ONLINE, **fields)
    [named, shown, *_] = answer.updates
    assert (shown.message.date, shown.message.message) == (WHEN_ONLINE, text)
    assert isinstance(named.id, int)
    return named.id


async def waiting(device: Device, other: Device) -> list[tuple[int, str]]:
    answer = await device.call(functions.messages.GetScheduledHistory(peer=device.peer(other), hash=0))
    return [(message.date, message.message) for message in answer.messages]


async def texts(device: Device, other: Device) -> list[str]:
    return [message.message for message in (await device.history(other)).messages][::-1]


async def waits(server: Server) -> int:
    return int(await server.store.pool.fetchval("SELECT count(*) FROM online_waits"))


async def look_at_all(server: Server) -> int:
    return sum([await server.store.until_online.look() for _ in range(OUTBOX_BUCKETS)])


async def test_who_sends_has_come_too(server: Server) -> None:
    pair = await Pair.of(server)
    await wait(pair.ada, pair.bob, "are you there?")
    server.clock.advance(1)
    assert await server.store.due.dispatch() == 0
    await pair.bob.send(pair.ada, "I am")
    assert await server.store.due.dispatch() == 1
    assert await texts(pair.bob, pair.ada) == ["I am", "are you there?"]
    await pair.check()


async def test_it_is_sent_once_when_the_other_side_comes(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    for text in ("one", "two"):
        await wait(ada, bob, text)
    await ada.send(bob, "at its time", schedule_date=AT)
    assert await waiting(ada, bob) == [
        (WHEN_ONLINE, "two"),
        (WHEN_ONLINE, "one"),
        (AT, "at its time"),
    ]
    await pair.check()
    server.clock.advance(50_000_000)
    assert await server.store.due.dispatch() == 1
    await ada.call(functions.account.UpdateStatus(offline=False))  # it is not Ada who is waited for
    await offline(bob)
    assert await server.store.due.dispatch() == 0
    await online(bob)
    assert len(await waiting(ada, bob)) == 2
    counts = await asyncio.gather(*(server.store.due.dispatch() for _ in range(4)))
    assert sum(counts) == 2
    await online(bob)
    assert await server.store.due.dispatch() == 0
    assert await texts(bob, ada) == ["at its time", "one", "two"]
    assert [message.date for message in (await ada.history(bob)).messages[:2]] == [1_750_000_000] * 2
    assert (await waiting(ada, bob), await waits(server)) == ([], 0)
    await pair.check()


async def test_who_is_online_already_gets_it_at_once(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    await online(bob)
    await wait(ada, bob, "there?")
    note = (await ada.send(ada, "note")).id
    await ada.call(
        functions.messages.ForwardMessages(
            from_peer=ada.peer(ada), to_peer=ada.peer(bob), id=[note], random_id=[909],
            schedule_date=WHEN_ONLINE,
        )
    )  # fmt: skip
    assert await server.store.due.dispatch() == 2
    assert await texts(bob, ada) == ["there?", "note"]
    await pair.check()


async def test_only_who_may_see_the_status_waits_for_it(server: Server) -> None:
    ada, bob, cid = await server.account(), await server.account(), await server.account()
    await set_rules(bob, STATUS, NOBODY)
    timed = (await ada.send(bob, "timed", schedule_date=AT)).updates[0].id
    edit = functions.messages.EditMessage(peer=ada.peer(bob), id=timed, schedule_date=WHEN_ONLINE)
    note = (await ada.send(ada, "note")).id
    forward = functions.messages.ForwardMessages(
        from_peer=ada.peer(ada), to_peer=ada.peer(bob), id=[note], random_id=[909], schedule_date=WHEN_ONLINE
    )
    before = await ada.pts()
    for refused in (
        ada.send(bob, schedule_date=WHEN_ONLINE),
        ada.send(ada, schedule_date=WHEN_ONLINE),
        ada.send(ada.peer(777000), schedule_date=WHEN_ONLINE),
        ada.call(edit),
        ada.call(forward),
    ):
        with pytest.raises(Refused, match="400 SCHEDULE_STATUS_PRIVATE"):
            await refused
    await set_rules(ada, STATUS, NOBODY)  # who hides their own times sees nobody's
    with pytest.raises(Refused, match="400 SCHEDULE_STATUS_PRIVATE"):
        await ada.send(cid, schedule_date=WHEN_ONLINE)
    blocked = types.InputPeerUser(user_id=bob.user_id, access_hash=cid.peer(bob).access_hash)
    await cid.call(functions.contacts.Block(id=blocked))
    with pytest.raises(Refused, match="400 SCHEDULE_STATUS_PRIVATE"):
        await bob.send(cid, schedule_date=WHEN_ONLINE)
    assert await waits(server) == 0
    assert await ada.pts() == before + 1  # of her own rules


async def test_it_goes_on_waiting_while_the_status_is_hidden(server: Server) -> None:
    """When it is sent would tell that the other side is online; the owner may still send it, or let it be."""
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    await wait(ada, bob, "first", random_id=77)
    second = await wait(ada, bob, "second")
    await set_rules(bob, STATUS, NOBODY)
    await online(bob)
    assert await look_at_all(server) == await server.store.due.dispatch() == 0
    assert await wait(ada, bob, "first", random_id=77) == 1  # a repeat has its answer all the same
    await ada.call(functions.messages.SendScheduledMessages(peer=ada.peer(bob), id=[second]))
    assert await texts(bob, ada) == ["second"]
    await set_rules(bob, STATUS, EVERYBODY)
    assert await look_at_all(server) == await server.store.due.dispatch() == 1
    assert await texts(bob, ada) == ["second", "first"]
    await pair.check()


async def test_it_can_be_given_a_time_and_the_other_way_round(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    timed = (await ada.send(bob, "timed", schedule_date=AT)).updates[0].id
    until = await wait(ada, bob, "until")
    for scheduled_id, date in ((timed, WHEN_ONLINE), (until, AT)):
        edit = functions.messages.EditMessage(peer=ada.peer(bob), id=scheduled_id, schedule_date=date)
        assert (await ada.call(edit)).updates[0].message.date == date
    await pair.check()
    server.clock.advance(700)
    assert await server.store.due.dispatch() == 1
    assert await texts(bob, ada) == ["until"]
    await online(bob)
    assert await server.store.due.dispatch() == 1
    assert await texts(bob, ada) == ["until", "timed"]
    gone = await wait(ada, bob, "gone")
    await ada.call(functions.messages.DeleteScheduledMessages(peer=ada.peer(bob), id=[gone]))
    await offline(bob)
    await online(bob)
    assert await server.store.due.dispatch() == 0
    assert await waits(server) == 0
    await pair.check()


async def test_what_a_dead_process_left_is_found_by_another(server: Server) -> None:
    """It learned that somebody is online, and died before it let go what waits for them."""
    ada, bob = await server.account(), await server.account()
    await wait(ada, bob, "hello")
    assert await look_at_all(server) == 0
    await server.store.presence.set_online(bob.user_id, int(server.clock.time()) + 300)
    assert await look_at_all(server) == 1
    assert await server.store.due.dispatch() == 1
    assert await texts(bob, ada) == ["hello"]


async def test_all_who_wait_are_served_whatever_is_hidden_from_others(server: Server) -> None:
    """A bounded number by the call that tells of it, the rest by the looks; who may not see waits on."""
    bob, number = await server.account("Bob"), AT_ONCE * PAGE + 50
    owners = list(range(1, number + 1))
    pool, store = server.store.pool, server.store
    await pool.execute(
        "INSERT INTO users (user_id, phone, first_name, created_at) "
        "SELECT id, '', 'x', 0 FROM unnest($1::bigint[]) AS u(id)",
        owners,
    )
    await pool.execute(
        "INSERT INTO contact_blocks (owner_user_id, peer_type, peer_id, created_at) "
        "SELECT $2, 1, id, 0 FROM unnest($1::bigint[]) AS u(id) WHERE id % 2 = 0",
        owners,
        bob.user_id,
    )
    async with pool.acquire() as connection:
        for owner in owners:
            await wait_for(connection, owner, bob.user_id, 0)
    await online(bob)
    assert await waits(server) == number - AT_ONCE * PAGE // 2
    assert await look_at_all(server) == 25
    assert await waits(server) == number // 2
    assert await store.until_online.never_comes(bob.user_id) == number // 2
    assert await waits(server) == 0


async def test_it_leaves_the_list_of_whom_it_cannot_reach_any_more(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    await wait(ada, bob, "hello")
    await server.store.deletion.begin(bob.user_id)
    server.clock.advance(SETTLE_S + 1)
    await keeper_of(server, Links()).look()
    assert await server.store.due.dispatch() == 1
    assert await server.store.scheduled.waiting(ada.user_id, Peer.user(bob.user_id)) == []
    assert (await server.store.messages.history(ada.user_id, Peer.user(bob.user_id))).total == 0


async def test_coming_and_scheduling_at_once_leave_nothing_behind(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    for _ in range(25):
        await offline(bob)
        await asyncio.gather(
            *(wait(ada, bob, f"m{n}") for n in range(3)), online(bob), server.store.due.dispatch()
        )
        while await server.store.due.dispatch():
            pass
        assert (await waiting(ada, bob), await waits(server)) == ([], 0)
        server.clock.advance(60)
    assert len(await texts(bob, ada)) == 75
