"""Who is admitted to PostgreSQL: so many at once, in their order, and others while some are stuck."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from telesrv.domain.errors import Unavailable
from telesrv.store import admission
from telesrv.store.admission import Admission
from telesrv.store.pool import Pool

LONG_S = 60.0


async def test_so_many_at_once_in_their_order() -> None:
    places, running, order = Admission(3), set[int](), list[int]()
    most = 0

    async def work(number: int) -> None:
        nonlocal most
        entered = await places.enter(LONG_S)
        order.append(number)
        running.add(number)
        most = max(most, len(running))
        for _ in range(number % 4):
            await asyncio.sleep(0)
        running.remove(number)
        places.leave(entered)

    async with asyncio.TaskGroup() as group:
        for number in range(40):
            group.create_task(work(number))
    assert (order, most) == (list(range(40)), 3)


async def test_who_gives_up_keeps_no_place() -> None:
    places = Admission(1)
    entered = await places.enter(LONG_S)
    with pytest.raises(TimeoutError):
        await places.enter(0.001)
    waiting = [asyncio.create_task(places.enter(LONG_S)) for _ in range(3)]
    await asyncio.sleep(0)  # all three wait
    waiting[0].cancel()
    places.leave(entered)  # to the second ...
    waiting[1].cancel()  # ... which leaves before it knows
    assert await waiting[2] > entered
    results = await asyncio.gather(*waiting[:2], return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    places.leave(waiting[2].result())
    await places.enter(LONG_S)


async def test_the_place_of_who_is_stuck_is_given_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "STUCK_S", 0.001)
    places = Admission(2)
    stuck = [await places.enter(LONG_S) for _ in range(2)]
    others = [await places.enter(LONG_S) for _ in range(2)]
    for entered in stuck:
        places.leave(entered)  # it has none any more
    monkeypatch.setattr(admission, "STUCK_S", LONG_S)
    with pytest.raises(TimeoutError):
        await places.enter(0.001)
    for entered in others:
        places.leave(entered)
    assert await places.enter(LONG_S)


async def test_statements_that_wait_for_a_lock_hold_nobody_up(postgres_dsn: str) -> None:
    pool = await Pool.connect(postgres_dsn, min_conns=1, max_conns=8, at_once=2, command_timeout_s=LONG_S)
    holder = await asyncpg.connect(postgres_dsn)
    try:
        await holder.execute("SELECT pg_advisory_lock(7)")
        blocked = [
            asyncio.create_task(pool.fetchval("SELECT pg_advisory_lock_shared(7) IS NULL")) for _ in range(3)
        ]
        assert [await pool.fetchval("SELECT $1::int", number) for number in range(5)] == list(range(5))
        await holder.execute("SELECT pg_advisory_unlock(7)")
        await asyncio.gather(*blocked)
    finally:
        await holder.close()
        await pool.close()


async def test_a_wait_for_a_turn_ends_in_time(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = await Pool.connect(postgres_dsn, min_conns=1, max_conns=4, at_once=1)
    try:
        async with pool.acquire():
            with monkeypatch.context() as patch, pytest.raises(Unavailable):
                patch.setattr(pool, "_wait_s", 0.01)
                await pool.fetchval("SELECT 1")
        assert await pool.fetchval("SELECT 1") == 1
    finally:
        await pool.close()
