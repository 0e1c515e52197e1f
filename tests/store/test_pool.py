"""A server that goes away under load is `Unavailable` at worst, whatever the driver makes of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import asyncpg

from telesrv.domain.errors import Unavailable
from telesrv.store.pool import Pool

ROUNDS = 10
TASKS = 16


async def test_connections_that_end_at_any_moment_cost_a_wait_at_most(postgres_dsn: str) -> None:
    pool = await Pool.connect(postgres_dsn, min_conns=8, max_conns=8)
    executioner = await asyncpg.connect(postgres_dsn)
    over = asyncio.Event()
    answers: asyncio.Queue[int] = asyncio.Queue()

    async def read() -> None:
        while not over.is_set():
            answers.put_nowait(await pool.fetchval("SELECT 1"))

    async def write() -> None:
        while not over.is_set():
            with suppress(Unavailable):
                async with pool.transaction() as connection:
                    await connection.execute("SELECT 1")

    try:
        async with asyncio.TaskGroup() as group:
            for work in (read, write):
                for _ in range(TASKS):
                    group.create_task(work())
            for _ in range(ROUNDS):
                await executioner.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                for _ in range(4 * TASKS):
                    assert await answers.get() == 1
            over.set()
    finally:
        await executioner.close()
        await pool.close()
