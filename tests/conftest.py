"""Fixtures for real servers: one PostgreSQL and one Valkey for the run, a database and key prefix per test.

A database is a clone of a template that the migrations were applied to once. A test that asks for none of
these fixtures starts no server.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import hypothesis
import pytest
import pytest_asyncio
import redis.asyncio

from telesrv.platform import EmbeddedServers, Endpoints, migrate
from telesrv.platform.postgres import UNSAFE_FAST
from tests.support.directories import server_directory

PARTITIONS = 4
"""Partitions in test databases: enough to tell one from all, few enough to clone fast."""

TEMPLATE = "telesrv_template"

MISFITS = """
SELECT * FROM (
    SELECT user_id, pts, pts_count, lag(pts, 1, 0) OVER (PARTITION BY user_id ORDER BY pts) AS before
    FROM user_update_events
) e WHERE pts - pts_count <> before ORDER BY user_id, pts LIMIT 10
"""

# An ordinary run has the same examples each time, so that it fails for what was changed and never by chance;
# `make fuzz` looks for new ones. How long it takes to make them says nothing of the code.
SLOW_IS_NO_FAULT = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile(
    "fuzz", deadline=None, suppress_health_check=SLOW_IS_NO_FAULT, derandomize=False, max_examples=10_000
)
hypothesis.settings.register_profile(
    "default", deadline=None, suppress_health_check=SLOW_IS_NO_FAULT, derandomize=True
)
hypothesis.settings.load_profile("default")


def pytest_configure() -> None:
    """Keep the caller's settings, and a `.env` beside, out of the tests.

    The many processes that tests start keep what they compile, as is usual: a third of a second each.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in [name for name in os.environ if name.startswith("TELESRV_")]:
        del os.environ[name]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def endpoints() -> AsyncIterator[Endpoints]:
    """The run's PostgreSQL and Valkey, in a temporary directory that goes away with them."""
    with server_directory("test") as directory:
        servers = EmbeddedServers(
            directory, postgres_settings=UNSAFE_FAST, redis_settings={"appendonly": "no", "databases": "1"}
        )
        try:
            yield await servers.start()
        finally:
            await servers.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def template_database(endpoints: Endpoints) -> str:
    """The name of a migrated database that tests clone."""
    connection = await asyncpg.connect(database_dsn(endpoints, "postgres"))
    try:
        await connection.execute(f'CREATE DATABASE "{TEMPLATE}"')
    finally:
        await connection.close()
    await migrate(database_dsn(endpoints, TEMPLATE), PARTITIONS)
    return TEMPLATE


@asynccontextmanager
async def cloned_database(endpoints: Endpoints, template: str) -> AsyncIterator[str]:
    """Makes a database like *template*; drops it in the end with whatever is connected to it."""
    name = f"test_{secrets.token_hex(6)}"
    connection = await asyncpg.connect(database_dsn(endpoints, "postgres"))
    try:
        await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
        yield database_dsn(endpoints, name)
        await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await connection.close()


@pytest_asyncio.fixture
async def postgres_dsn(
    endpoints: Endpoints, template_database: str, request: pytest.FixtureRequest
) -> AsyncIterator[str]:
    """A fresh, migrated database of the test's own, whose update logs are without a hole in the end.

    A test that is about holes, or writes logs by hand, is marked ``leaves_holes``.
    """
    async with cloned_database(endpoints, template_database) as dsn:
        yield dsn
        if request.node.get_closest_marker("leaves_holes") is None:
            assert await misfits(dsn) == [], "(user_id, pts, pts_count, the pts before) of the update logs"


@pytest_asyncio.fixture
async def empty_postgres_dsn(endpoints: Endpoints) -> AsyncIterator[str]:
    """A fresh database without any table, for the migrations themselves."""
    name = f"empty_{secrets.token_hex(6)}"
    connection = await asyncpg.connect(database_dsn(endpoints, "postgres"))
    try:
        await connection.execute(f'CREATE DATABASE "{name}"')
        yield database_dsn(endpoints, name)
        await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await connection.close()


@pytest.fixture
def redis_url(endpoints: Endpoints) -> str:
    """The run's Valkey; tests share it, so keys go under `redis_prefix`."""
    return endpoints.redis_url


@pytest_asyncio.fixture
async def redis_prefix(endpoints: Endpoints) -> AsyncIterator[str]:
    """A key prefix of the test's own, such as `t3f9c2a:`; the keys under it are deleted afterwards."""
    prefix = f"t{secrets.token_hex(6)}:"
    yield prefix
    client = redis.asyncio.Redis.from_url(endpoints.redis_url)
    try:
        async for key in client.scan_iter(match=f"{prefix}*", count=1000):
            await client.unlink(key)
    finally:
        await client.aclose()


async def misfits(dsn: str) -> list[tuple[int, int, int, int]]:
    """Returns the events that do not join on to the one before them in the log of their account."""
    connection = await asyncpg.connect(dsn)
    try:
        return [tuple(row) for row in await connection.fetch(MISFITS)]
    finally:
        await connection.close()


def database_dsn(endpoints: Endpoints, name: str) -> str:
    """The DSN of another database of the same server."""
    return endpoints.postgres_dsn.replace("@/telesrv?", f"@/{name}?")
