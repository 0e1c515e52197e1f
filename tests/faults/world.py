"""What can break: a server with several workers, its own PostgreSQL behind a link that can be cut, its own
Valkey."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType

import asyncpg
import redis.asyncio

from telesrv.platform import EmbeddedServers
from telesrv.platform.process import Child
from tests.support.link import Link
from tests.support.running import RunningServer

LONGEST_S = 120.0
"""For a condition that comes about; only a failure reaches it."""

UNSYNCED = {"fsync": "off", "full_page_writes": "off"}
"""Survives the death of every process, not that of the machine."""


class NeverHappened(AssertionError):
    """A condition did not come about."""


async def until(
    what: str,
    condition: Callable[[], bool] | Callable[[], Awaitable[bool]],
    timeout_s: float = LONGEST_S,
    every_s: float = 0.05,
) -> None:
    """Returns once *condition* holds.

    Raises:
        NeverHappened: it did not within a bound that only a failure reaches.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while True:
        holds = condition()
        if not isinstance(holds, bool):
            holds = await holds
        if holds:
            return
        if loop.time() >= deadline:
            raise NeverHappened(f"not within {timeout_s:.0f} s: {what}")
        await asyncio.sleep(every_s)


class World:
    """The server and its stores, each a process of its own; an async context manager."""

    def __init__(
        self,
        directory: Path,
        *,
        workers: int = 2,
        postgres_settings: dict[str, str] | None = None,
        **settings: str,
    ) -> None:
        os.chmod(directory, 0o711)  # the account that PostgreSQL runs as must get in
        self.directory = directory
        self.workers = workers
        self._stores = EmbeddedServers(
            directory / "stores", postgres_settings={"max_connections": "100", **(postgres_settings or {})}
        )
        self._settings = settings
        self._copy: list[tuple[bytes, int, bytes]] = []
        self.postgres_dsn = ""
        """PostgreSQL itself, whatever becomes of the link."""

    async def __aenter__(self) -> World:
        endpoints = await self._stores.start()
        try:
            self.postgres_dsn = endpoints.postgres_dsn
            self.postgres, self.valkey = self._stores.children
            before, _, query = endpoints.postgres_dsn.partition("?host=")
            directory, _, port = query.partition("&port=")
            self.link = Link(f"{directory}/.s.PGSQL.{port}", 0)
            await self.link.__aenter__()
            self.redis = redis.asyncio.Redis.from_url(endpoints.redis_url)
            self.server = RunningServer(
                self.directory / "server",
                TELESRV_WORKERS=str(self.workers),
                TELESRV_POSTGRES_DSN=before.replace("@/", f"@127.0.0.1:{self.link.port}/"),
                TELESRV_POSTGRES_MAX_CONNS="20",
                TELESRV_POSTGRES_MIN_CONNS="4",
                TELESRV_REDIS_URL=endpoints.redis_url,
                **self._settings,
            )
            await self.server.start()
        except BaseException:
            await self._stores.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.link.mend()
        try:
            status = await self.server.stop()
        finally:
            await self.redis.aclose()
            await self.link.__aexit__(None, None, None)
            await self._stores.stop()
        if error is None:
            assert status == 0, self.server.log_text()[-4000:]

    def remove(self) -> None:
        """Deletes everything it wrote."""
        shutil.rmtree(self.directory)

    # How it is

    def worker_pids(self) -> list[int]:
        """Returns the workers that live now."""
        return self.server.worker_pids()

    async def settled(self) -> None:
        """Returns when the server says that it is ready and all its workers live."""

        async def ready() -> bool:
            return len(self.worker_pids()) == self.workers and await self.server.is_ready()

        await until("the server says that it is ready", ready, every_s=0.2)

    async def query(self, sql: str) -> int:
        """Returns one number from PostgreSQL."""
        connection = await asyncpg.connect(self.postgres_dsn)
        try:
            return int(await connection.fetchval(sql))
        finally:
            await connection.close()

    async def admin(self, *arguments: str) -> tuple[int, str]:
        """Returns the exit code and the output of a `telesrv-admin` command."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from telesrv.admin.cli import main; main()", *arguments),
            env=self.server.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode()

    # Valkey's data

    async def copy_valkey(self) -> None:
        """Keeps what Valkey has now, for `restore_valkey`."""
        copy = []
        async for key in self.redis.scan_iter(count=1000):
            value, left_ms = await self.redis.dump(key), await self.redis.pttl(key)
            if value is not None:
                copy.append((key, max(0, left_ms), value))
        self._copy = copy

    async def restore_valkey(self) -> None:
        """Puts the copy in the place of everything that Valkey has, in one step."""
        pipeline = self.redis.pipeline(transaction=True)
        pipeline.flushall()
        for key, left_ms, value in self._copy:
            pipeline.restore(key, left_ms, value)
        await pipeline.execute()

    async def restarted(self, child: Child, restarts: int) -> None:
        """Returns when a store that had been restarted *restarts* times answers after another one."""

        async def answers() -> bool:
            return child.restarts > restarts and child.pid is not None and await child.answers()

        await until(f"{child.name} is back", answers)
