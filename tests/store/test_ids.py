"""Ids never repeat and never leave a hole, whatever Redis forgets and whoever dies."""

from __future__ import annotations

import asyncio

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.peers import Peer
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store import Store
from telesrv.store.events import EventWriter, StaleCounter
from telesrv.store.ids import MessageIds, Want
from telesrv.store.pool import Connection
from tests.store.world import (
    ANNA,
    BORIS,
    CLARA,
    DATE,
    add_users,
    claim_all,
    deliver_all,
    log_event,
    log_of,
    send,
)


@pytest.fixture(autouse=True)
async def users(store: Store) -> None:
    await add_users(store, ANNA, BORIS, CLARA)


async def forget_everything(store: Store) -> None:
    """Empties Redis, as FLUSHALL or a lost disk does."""
    await store.redis.client.flushall()


async def assert_sound(store: Store, *user_ids: int) -> None:
    """Every pts of each log is there once, and every box_id."""
    for user_id in user_ids:
        events = await log_of(store, user_id)
        assert [event.pts for event in events] == list(range(1, len(events) + 1))
        assert (await store.updates.state(user_id)).pts == len(events)
        new = [event.box_id for event in events if event.kind is EventKind.NEW_MESSAGE]
        assert len(new) == len(set(new))
        assert len(await store.messages.get(user_id, new)) == len(new)


async def test_200_sends_to_one_account_at_once(store: Store) -> None:
    senders = list(range(5_000, 5_200))
    await add_users(store, *senders)
    sent = await asyncio.gather(*(send(store, sender, BORIS) for sender in senders))
    assert {one.box.box_id for one in sent} == {1}
    assert sorted(one.box.peer_box_id for one in sent) == list(range(1, 201))
    await assert_sound(store, BORIS)
    assert (await store.updates.state(BORIS)).pts == 200


async def test_redis_may_forget_everything_between_sends(store: Store) -> None:
    for _ in range(3):
        await asyncio.gather(*(send(store, ANNA, BORIS) for _ in range(10)))
        await forget_everything(store)
    await asyncio.gather(
        *(send(store, ANNA, BORIS) for _ in range(50)),
        forget_everything(store),
        *(send(store, CLARA, BORIS) for _ in range(50)),
        forget_everything(store),
        *(store.messages.read(BORIS, Peer.user(ANNA), 0, date=DATE) for _ in range(5)),
    )
    assert len([e for e in await log_of(store, BORIS) if e.kind is EventKind.NEW_MESSAGE]) == 130
    await assert_sound(store, ANNA, BORIS, CLARA)


async def test_redis_may_come_back_with_an_old_copy(store: Store) -> None:
    await asyncio.gather(*(send(store, ANNA, BORIS) for _ in range(5)))
    names = [f"counter:{kind}:{user}" for kind in ("pts", "box_id") for user in (ANNA, BORIS)]
    old = await store.redis.mget(names)
    await asyncio.gather(*(send(store, ANNA, BORIS) for _ in range(7)))
    for name, value in zip(names, old, strict=True):
        assert value is not None
        await store.redis.client.set(store.redis.key(name), value)
    sent = await asyncio.gather(*(send(store, ANNA, BORIS) for _ in range(4)))
    await log_event(store, NewEvent(ANNA, EventKind.USER_CHANGED, DATE))
    assert all(one.box.box_id > 12 for one in sent)
    await assert_sound(store, ANNA, BORIS)


async def test_one_lost_counter_of_two_is_restored(store: Store) -> None:
    await send(store, ANNA, BORIS)
    await store.redis.client.delete(store.redis.key("counter", "box_id", BORIS))
    assert (await send(store, ANNA, BORIS)).box.peer_box_id == 2
    await assert_sound(store, ANNA, BORIS)


async def test_a_dead_writers_pts_is_swept(store: Store, clock: FakeClock) -> None:
    await store.ids.take([Want(BORIS, pts=2, box_ids=1)])
    await send(store, ANNA, BORIS)
    assert (await store.updates.state(BORIS)).pts == 0
    assert [item.row.target_user_id for item in await claim_all(store)] == [ANNA]
    assert await store.updates.sweep() == 0
    clock.advance(store.config.reservation_s + 1)
    assert await store.updates.sweep() == 2
    assert await store.updates.sweep() == 0
    assert [event.kind for event in await log_of(store, BORIS)] == [0, 0, 1]
    assert [item.row.pts for item in await deliver_all(store) if item.row.target_user_id == BORIS] == [
        1,
        2,
        3,
    ]


async def test_a_dead_writers_pts_is_found_without_its_note(store: Store, clock: FakeClock) -> None:
    await store.ids.take([Want(BORIS, pts=3)])
    await send(store, ANNA, BORIS)
    await forget_everything(store)
    clock.advance(60)
    assert await store.updates.sweep() == 0
    assert (await store.updates.state(BORIS)).pts == 0
    clock.advance(2 * store.config.reservation_s + 1)
    assert await store.updates.sweep() == 3
    await assert_sound(store, BORIS)


async def test_a_slow_writer_whose_pts_was_filled_takes_new_ones(store: Store, clock: FakeClock) -> None:
    tries = 0

    async def slow(connection: Connection, writer: EventWriter) -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            clock.advance(60)
            await store.updates.sweep()
        return writer.add(NewEvent(ANNA, EventKind.CONTACTS_RESET, DATE)).pts

    assert await store.events.transact([ANNA, ANNA], slow) == 3
    assert tries == 2
    assert [event.kind for event in await log_of(store, ANNA)] == [0, 0, EventKind.CONTACTS_RESET, 0]


async def test_a_filler_leaves_what_was_written(store: Store, clock: FakeClock) -> None:
    grant = (await store.ids.take([Want(ANNA, pts=1)]))[ANNA]
    async with store.pool.transaction() as connection:
        writer = EventWriter({ANNA: grant}, store.ids.message_ids)
        event = writer.add(NewEvent(ANNA, EventKind.CONTACTS_RESET, DATE))
        await store.events.insert(connection, writer.rows)
    clock.advance(60)
    assert await store.updates.sweep() == 0
    assert await log_of(store, ANNA) == [event]
    with pytest.raises(StaleCounter):
        async with store.pool.transaction() as connection:
            await store.events.insert(connection, writer.rows)


async def test_a_failed_transaction_leaves_noops_and_their_pushes(store: Store) -> None:
    async def fails(connection: Connection, writer: EventWriter) -> None:
        writer.add(NewEvent(ANNA, EventKind.CONTACTS_RESET, DATE))
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await store.events.transact([ANNA, BORIS], fails)
    for user_id in (ANNA, BORIS):
        assert [(event.pts, event.kind) for event in await log_of(store, user_id)] == [(1, EventKind.NOOP)]
    assert {item.row.target_user_id for item in await claim_all(store)} == {ANNA, BORIS}


async def test_what_a_transaction_did_not_use_becomes_noops(store: Store) -> None:
    async def uses_none(connection: Connection, writer: EventWriter) -> str:
        return "done"

    assert await store.events.transact([ANNA], uses_none) == "done"
    assert [event.kind for event in await log_of(store, ANNA)] == [EventKind.NOOP]


async def test_settled_reservations_are_forgotten(store: Store) -> None:
    await asyncio.gather(*(send(store, ANNA, BORIS) for _ in range(10)))
    await store.ids.flush()
    assert await store.redis.client.zcard(store.redis.key("reserved:pts")) == 0


def test_message_ids_rise_and_carry_the_node() -> None:
    clock = FakeClock(time=1_800_000_000.0)
    ids = MessageIds(clock, node=5)
    taken = [ids.next() for _ in range(10_000)]
    clock.set_time(1_799_999_000.0)
    taken += [ids.next() for _ in range(10)]
    clock.set_time(1_800_000_060.0)
    taken.append(ids.next())
    assert taken == sorted(set(taken))
    assert {one >> 12 & 0x3FF for one in taken} == {5}
    assert (taken[-1] >> 22) + MessageIds.EPOCH_MS == 1_800_000_060_000
    assert 0 < taken[-1] < 2**63
    with pytest.raises(ValueError, match="10 bits"):
        MessageIds(clock, node=1024)
