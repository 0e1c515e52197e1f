"""Node numbers: no two processes hold one at a time, and who lost its number knows."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import pytest
import structlog

from telesrv.clock import FakeClock
from telesrv.domain.errors import Unavailable
from telesrv.store import Store
from telesrv.store.ids import MessageIds
from telesrv.store.nodes import LEASE_S, LeaseLost, NodeLease, NodeStore

NOW = 1_800_000_000.0


@pytest.fixture
def clock() -> FakeClock:
    """A clock that message ids can tell the time by."""
    return FakeClock(time=NOW)


async def expire(store: Store, node: int) -> None:
    """Lets the lease run out by PostgreSQL's clock, which a test cannot set."""
    await store.pool.execute("UPDATE nodes SET expires_at_ms = 1 WHERE node = $1", node)


async def test_those_who_come_at_once_get_different_numbers(store: Store) -> None:
    leases = await asyncio.gather(*(store.nodes.acquire() for _ in range(24)))
    assert sorted(lease.node for lease in leases) == list(range(1, 25))
    assert len({lease.holder for lease in leases}) == 24


async def test_a_number_is_free_when_it_was_given_back(store: Store, clock: FakeClock) -> None:
    first, second = await store.nodes.acquire(), await store.nodes.acquire()
    clock.advance(0.001)
    await first.release()
    assert not first.valid()
    assert (await store.nodes.acquire()).node == first.node
    assert second.valid()


async def test_a_number_that_ran_out_has_one_new_holder(store: Store, clock: FakeClock) -> None:
    old = await store.nodes.acquire()
    await expire(store, old.node)
    clock.advance(LEASE_S + 1)
    leases = await asyncio.gather(*(store.nodes.acquire() for _ in range(6)))
    assert sorted(lease.node for lease in leases) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(LeaseLost):
        await old.renew(0, 0)
    # It takes nothing from its successor when it goes.
    await old.release()
    (successor,) = (lease for lease in leases if lease.node == old.node)
    await successor.renew(3, 4)
    listed = {info.node: info for info in await store.nodes.list()}
    assert (listed[old.node].connections, listed[old.node].sessions) == (3, 4)


async def test_a_holder_that_was_late_goes_on_if_nobody_came(store: Store) -> None:
    lease = await store.nodes.acquire()
    await expire(store, lease.node)
    await lease.renew(0, 0)
    assert lease.valid()
    assert (await store.nodes.acquire()).node != lease.node


async def test_a_holder_stops_before_anybody_else_may_begin(store: Store, clock: FakeClock) -> None:
    lease = await store.nodes.acquire()
    store.ids.message_ids.hold(lease)
    first = store.ids.message_ids.next()
    assert first >> 12 & 1023 == lease.node
    clock.advance(LEASE_S / 2)
    store.ids.message_ids.next()
    clock.advance(LEASE_S / 2 - 1)
    assert not lease.valid()
    with pytest.raises(Unavailable):
        store.ids.message_ids.next()
    await lease.renew(0, 0)
    assert store.ids.message_ids.next() > first


async def test_a_renewal_counts_from_when_it_was_asked_for(store: Store, clock: FakeClock) -> None:
    lease = await store.nodes.acquire()
    async with store.pool.transaction() as connection:
        await connection.execute("SELECT 1 FROM nodes WHERE node = $1 FOR UPDATE", lease.node)
        renewal = asyncio.create_task(lease.renew(0, 0))
        await waiting_for_lock(store)
        clock.advance(LEASE_S)
    await renewal
    assert not lease.valid()


async def waiting_for_lock(store: Store) -> None:
    """Returns once a statement waits for a row."""
    while not await store.pool.fetchval(
        "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
        " WHERE NOT l.granted AND a.datname = current_database()"
    ):
        pass


async def test_all_numbers_are_held(store: Store) -> None:
    await store.pool.execute(
        "INSERT INTO nodes (node, holder, host, pid, started_at_ms, expires_at_ms, used_until_ms)"
        " SELECT g, 'x', 'x', 1, 0, 9e15::bigint, 0 FROM generate_series(1, 1023) g"
    )
    with pytest.raises(Unavailable):
        await store.nodes.acquire()


async def test_a_dead_holder_is_buried_and_another_one_is_not(store: Store, clock: FakeClock) -> None:
    old = await store.nodes.acquire()
    assert not await store.nodes.bury(old.node, "another")
    assert len(await store.nodes.list()) == 1
    assert await store.nodes.bury(old.node, old.holder)
    assert await store.nodes.list() == []
    # How far it was used is not known: all times that it may have named must be past.
    assert (await store.nodes.acquire()).node != old.node
    clock.advance(LEASE_S + 1)
    assert (await store.nodes.acquire()).node == old.node
    assert not await store.nodes.bury(old.node, old.holder)


async def test_a_clock_that_differs_is_told_of(store: Store) -> None:
    with structlog.testing.capture_logs() as lines:
        await store.nodes.acquire()
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("the clock differs from PostgreSQL's", "warning")


async def test_a_clock_that_jumps_ahead_is_followed_after_a_renewal(store: Store, clock: FakeClock) -> None:
    lease = await store.nodes.acquire()
    ids = store.ids.message_ids
    ids.hold(lease)
    clock.set_time(NOW + 10_000)
    taken = [ids.next() for _ in range(4096)]
    assert {named_s(one) for one in taken} == {NOW + LEASE_S}
    with pytest.raises(Unavailable):
        ids.next()
    await lease.renew(0, 0)
    taken.append(ids.next())
    assert named_s(taken[-1]) == NOW + 10_000
    assert len(set(taken)) == len(taken)


def named_s(message_id: int) -> float:
    """Returns the time that an id names."""
    return ((message_id >> 22) + MessageIds.EPOCH_MS) / 1000


@dataclass
class Machine:
    """A machine with a clock of its own, and a process on it."""

    clock: FakeClock
    nodes: NodeStore
    ids: MessageIds
    lease: NodeLease | None = None


@pytest.mark.parametrize("seed", range(6))
async def test_no_id_is_made_twice_whatever_the_clocks_say(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    machines = []
    for _ in range(4):
        clock = FakeClock(time=NOW + chance.uniform(-60, 60))
        machines.append(Machine(clock, NodeStore(store.pool, clock), MessageIds(clock, 1)))
    made: list[int] = []
    for _ in range(250):
        machine = chance.choice(machines)
        lease = machine.lease
        if lease is None:
            machine.lease = await machine.nodes.acquire()
            machine.ids.hold(machine.lease)
            continue
        match chance.randrange(8):
            case 0:
                await lease.release()
                machine.lease = None
            case 1:
                await machine.nodes.bury(lease.node, lease.holder)
                machine.lease = None
            case 2:
                machine.clock.set_time(
                    machine.clock.time() + chance.choice([-3600, -20, -0.5, 0.5, 20, 3600])
                )
            case 3:
                machine.clock.advance(chance.uniform(0, LEASE_S / 4))
                await lease.renew(0, 0)
            case _:
                for _ in range(chance.choice([1, 5, 5000])):
                    try:
                        made.append(machine.ids.next())
                    except Unavailable:
                        break
    assert len(made) > 10_000
    assert len(set(made)) == len(made)
    assert min(made) > 0
