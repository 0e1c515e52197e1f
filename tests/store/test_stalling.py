"""A store that falls silent, its connections standing: no call waits for it without end, and none is deaf to
being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import pytest_asyncio

from telesrv.clock import SystemClock
from telesrv.domain.errors import Unavailable
from telesrv.store.nodes import NodeStore
from telesrv.store.pool import Pool
from telesrv.store.redis import Redis
from tests.support.link import Link
from tests.support.waiting import available

WAIT_S = 0.2
"""Short, as most calls here wait it out; what is to be answered is asked until it is."""
STEPS = 60
"""More than a call takes of the event loop's rounds, as a rule."""


@pytest_asyncio.fixture
async def postgres_link(postgres_dsn: str) -> AsyncIterator[Link]:
    (directory,) = parse_qs(urlsplit(postgres_dsn).query)["host"]
    (port,) = parse_qs(urlsplit(postgres_dsn).query).get("port", ["5432"])
    async with Link(f"{directory}/.s.PGSQL.{port}", 0) as link:
        yield link


@pytest_asyncio.fixture
async def pool(postgres_dsn: str, postgres_link: Link) -> AsyncIterator[Pool]:
    dsn = _through(postgres_link, postgres_dsn)
    pool: Pool = await available(
        lambda: Pool.connect(dsn, min_conns=2, max_conns=2, wait_s=WAIT_S, command_timeout_s=WAIT_S)
    )
    yield pool
    await pool.close()


@pytest_asyncio.fixture
async def redis_link(redis_url: str) -> AsyncIterator[Link]:
    async with Link(unquote(urlsplit(redis_url).path), 0) as link:
        yield link


@pytest_asyncio.fixture
async def redis(redis_url: str, redis_link: Link, redis_prefix: str) -> AsyncIterator[Redis]:
    url = f"redis://:{urlsplit(redis_url).password}@127.0.0.1:{redis_link.port}/0"
    redis: Redis = await available(lambda: Redis.connect(url, prefix=redis_prefix, wait_s=WAIT_S))
    yield redis
    await redis.close()


def _through(link: Link, postgres_dsn: str) -> str:
    dsn = urlsplit(postgres_dsn)
    return f"postgresql://{dsn.netloc.rpartition('@')[0]}@127.0.0.1:{link.port}{dsn.path}"


async def _write(pool: Pool) -> None:
    async with pool.transaction() as connection:
        await connection.execute("SELECT 1")


POSTGRES_CALLS: dict[str, Callable[[Pool], Awaitable[object]]] = {
    "read": lambda pool: pool.fetchval("SELECT 1"),
    "statement": lambda pool: pool.execute("SELECT 1"),
    "transaction": _write,
}


async def _pipeline(redis: Redis) -> None:
    async def action() -> None:
        pipeline = redis.client.pipeline(transaction=True)
        pipeline.set(redis.key("a"), b"1")
        pipeline.get(redis.key("a"))
        assert await pipeline.execute() == [True, b"1"]

    await redis.call(action)


REDIS_CALLS: dict[str, Callable[[Redis], Awaitable[object]]] = {
    "command": lambda redis: redis.mget(["a"]),
    "script": lambda redis: redis.script("node_leave", ["node:1", "nodes"], [1, "nobody"]),
    "pipeline": _pipeline,
}


@pytest.mark.parametrize("call", POSTGRES_CALLS.values(), ids=POSTGRES_CALLS)
async def test_a_silent_postgresql_is_away(
    pool: Pool, postgres_link: Link, call: Callable[[Pool], Awaitable[object]]
) -> None:
    await available(lambda: call(pool))
    postgres_link.freeze()
    for _ in range(3):  # by the connections that stood, then by none
        with pytest.raises(Unavailable):
            await call(pool)
    postgres_link.mend()
    await available(lambda: call(pool))


async def test_a_renewal_that_stalls_leaves_time_for_another(postgres_dsn: str, postgres_link: Link) -> None:
    pool = await Pool.connect(_through(postgres_link, postgres_dsn), min_conns=1, max_conns=1)
    try:
        lease = await NodeStore(pool, SystemClock()).acquire()
        postgres_link.freeze()
        with pytest.raises(Unavailable):
            await lease.renew(0, 0)
        assert lease.valid()
        postgres_link.mend()
        await lease.renew(0, 0)
    finally:
        await pool.close()


async def test_postgresql_looks_after_clients_that_are_silent(pool: Pool) -> None:
    # This server's own end is a Unix socket, which has none of these: they show as what was asked for.
    asked_for = "SELECT name, reset_val FROM pg_settings WHERE source = 'client'"
    rows = await available(lambda: pool.fetch(asked_for))
    asked = {row["name"]: int(row["reset_val"]) for row in rows if row["name"].startswith("tcp_")}
    alive = asked["tcp_keepalives_idle"] + asked["tcp_keepalives_count"] * asked["tcp_keepalives_interval"]
    assert alive * 1000 == asked["tcp_user_timeout"] == 20_000


@pytest.mark.parametrize("call", REDIS_CALLS.values(), ids=REDIS_CALLS)
async def test_a_silent_redis_is_away(
    redis: Redis, redis_link: Link, call: Callable[[Redis], Awaitable[object]]
) -> None:
    await available(lambda: call(redis))
    redis_link.freeze()
    for _ in range(3):
        with pytest.raises(Unavailable):
            await call(redis)
    redis_link.mend()
    await available(lambda: call(redis))


async def test_a_silent_store_is_closed(
    pool: Pool, postgres_link: Link, redis: Redis, redis_link: Link
) -> None:
    postgres_link.freeze()
    redis_link.freeze()
    under_way = asyncio.gather(pool.fetchval("SELECT 1"), redis.mget(["a"]), return_exceptions=True)
    await asyncio.sleep(0)
    await pool.close()
    await redis.close()
    assert all(isinstance(error, Unavailable) for error in await under_way)


@pytest.mark.parametrize("call", POSTGRES_CALLS.values(), ids=POSTGRES_CALLS)
async def test_a_call_of_postgresql_can_be_cancelled_at_every_step(
    pool: Pool, call: Callable[[Pool], Awaitable[object]]
) -> None:
    await _cancel_at_every_step(lambda: call(pool))


@pytest.mark.parametrize("call", REDIS_CALLS.values(), ids=REDIS_CALLS)
async def test_a_call_of_redis_can_be_cancelled_at_every_step(
    redis: Redis, call: Callable[[Redis], Awaitable[object]]
) -> None:
    await _cancel_at_every_step(lambda: call(redis))


async def _cancel_at_every_step(call: Callable[[], Awaitable[object]]) -> None:
    for steps in range(STEPS):
        await available(call)  # the first calls may still meet connections that are lost
        task = asyncio.ensure_future(call())
        for _ in range(steps):
            await asyncio.sleep(0)
        if task.cancel():
            await asyncio.wait([task])
            assert task.cancelled(), f"the cancellation after {steps} steps is lost"
