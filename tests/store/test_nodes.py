"""Node numbers: no two processes hold one at a time, and who lost its number knows."""

from __future__ import annotations

import asyncio

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.errors import Unavailable
from telesrv.store import Store
from telesrv.store.nodes import LEASE_S, LeaseLost


async def expire(store: Store, node: int) -> None:
    """Lets the lease run out by PostgreSQL's clock, which a test cannot set."""
    await store.pool.execute("UPDATE nodes SET expires_at_ms = 1 WHERE node = $1", node)


async def test_those_who_come_at_once_get_different_numbers(store: Store) -> None:
    leases = await asyncio.gather(*(store.nodes.acquire() for _ in range(24)))
    assert sorted(lease.node for lease in leases) == list(range(1, 25))
    assert len({lease.holder for lease in leases}) == 24


async def test_a_number_is_free_when_it_was_given_back(store: Store) -> None:
    first, second = await store.nodes.acquire(), await store.nodes.acquire()
    await first.release()
    assert not first.valid()
    assert (await store.nodes.acquire()).node == first.node
    assert second.valid()


async def test_a_number_that_ran_out_has_one_new_holder(store: Store) -> None:
    old = await store.nodes.acquire()
    await expire(store, old.node)
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
    store.ids.message_ids.hold(lease.node, lease.valid)
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
        "INSERT INTO nodes (node, holder, host, pid, started_at_ms, expires_at_ms)"
        " SELECT g, 'x', 'x', 1, 0, 9e15::bigint FROM generate_series(1, 1023) g"
    )
    with pytest.raises(Unavailable):
        await store.nodes.acquire()
