"""The fixtures keep their word: a database and a key prefix of one's own, and nothing left behind."""

from __future__ import annotations

import asyncpg
import pytest
import redis.asyncio

SEEN: list[str] = []


@pytest.mark.parametrize("turn", [1, 2])
async def test_each_test_has_its_own_database(postgres_dsn: str, turn: int) -> None:
    connection = await asyncpg.connect(postgres_dsn)
    try:
        await connection.execute("CREATE TABLE only_mine (turn int)")
        assert await connection.fetchval("SELECT count(*) FROM schema_settings") == 1
    finally:
        await connection.close()
    assert postgres_dsn not in SEEN
    SEEN.append(postgres_dsn)


async def test_dropped_databases_are_gone(postgres_dsn: str) -> None:
    connection = await asyncpg.connect(postgres_dsn)
    try:
        names = [row["datname"] for row in await connection.fetch("SELECT datname FROM pg_database")]
    finally:
        await connection.close()
    assert len([name for name in names if name.startswith("test_")]) == 1


async def test_the_redis_prefix_is_cleared(redis_url: str, redis_prefix: str) -> None:
    client = redis.asyncio.Redis.from_url(redis_url)
    try:
        assert [key async for key in client.scan_iter(match=f"{redis_prefix}*")] == []
        await client.set(f"{redis_prefix}key", 1)
        assert [key async for key in client.scan_iter(match=f"{redis_prefix}*")] != []
    finally:
        await client.aclose()
