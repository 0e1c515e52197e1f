"""Whether the servers under telesrv can be used now, and what the outbox owes.

Guarantees: every answer comes within the given time, whatever the servers do; questions that come together
share one look; no answer holds an address, a key or a query. Concurrency: one event loop. Each look opens
connections of its own, so that a full pool says nothing about the server.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import asyncpg
from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError

_KEEP_S: Final = 1.0
"""For how long the outcome of a look is given again."""

# A read that must reach a table, and whether writes are taken.
SQL_TOUCH: Final = """
SELECT count(*) AS buckets, pg_is_in_recovery() AS standby FROM outbox_buckets
"""
# What the outbox owes, over all buckets.
SQL_BACKLOG: Final = """
SELECT count(*) FILTER (WHERE NOT leased) AS waiting, count(*) FILTER (WHERE leased) AS leased,
    coalesce(extract(epoch FROM now()) * 1000 - min(created_at_ms), 0)::bigint AS oldest_ms,
    (SELECT count(*) FROM dispatch_outbox_failed) AS failed
FROM dispatch_outbox
"""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the outbox owes."""

    waiting: int
    leased: int
    failed: int
    oldest_s: float
    """Age of the oldest push owed; 0 when none is."""


class Probes:
    """Looks at PostgreSQL and Redis from outside the pools.

    Args:
        postgres_dsn, redis_url: the servers.
        redis_prefix: of the one key that is written.
        timeout_s: how long a look waits for a server.
    """

    def __init__(self, postgres_dsn: str, redis_url: str, *, redis_prefix: str, timeout_s: float) -> None:
        self._dsn = postgres_dsn
        self._redis_url = redis_url
        self._key = f"{redis_prefix}health"
        self._timeout_s = timeout_s
        self._looking = asyncio.Lock()
        self._found: tuple[float, dict[str, str]] | None = None

    async def usable(self) -> dict[str, str]:
        """Returns for "postgres" and "redis" what a look found, at most a second ago: "ok" when it reads and
        takes writes, or in a few words what is wrong."""
        loop = asyncio.get_running_loop()
        async with self._looking:
            if self._found is None or loop.time() - self._found[0] > _KEEP_S:
                postgres, redis = await asyncio.gather(
                    self._judge(self._touch_postgres), self._judge(self._touch_redis)
                )
                self._found = (loop.time(), {"postgres": postgres, "redis": redis})
            return self._found[1]

    async def backlog(self) -> Backlog | None:
        """Returns what the outbox owes; None when PostgreSQL does not say in time."""
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError):
            async with asyncio.timeout(self._timeout_s):
                row = await self._fetch(SQL_BACKLOG)
                return Backlog(row["waiting"], row["leased"], row["failed"], row["oldest_ms"] / 1000)
        return None

    async def _judge(self, touch: Callable[[], Awaitable[str]]) -> str:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await touch()
        except TimeoutError:
            return f"no answer within {self._timeout_s:g} s"
        except (asyncpg.InvalidAuthorizationSpecificationError, AuthenticationError):
            return "refuses the login"
        except asyncpg.UndefinedTableError:
            return "has no schema"
        except (OSError, RedisConnectionError, asyncpg.PostgresConnectionError):
            return "cannot be reached"
        except (asyncpg.PostgresError, asyncpg.InterfaceError, RedisError, ValueError) as error:
            return f"answers with an error ({type(error).__name__})"

    async def _touch_postgres(self) -> str:
        row = await self._fetch(SQL_TOUCH)
        return "is a standby and takes no writes" if row["standby"] else "ok"

    async def _fetch(self, query: str) -> asyncpg.Record:
        """Returns the one row of a query."""
        connection = await asyncpg.connect(self._dsn, timeout=self._timeout_s)
        try:
            return await connection.fetchrow(query)
        finally:
            connection.terminate()

    async def _touch_redis(self) -> str:
        client = aioredis.Redis.from_url(
            self._redis_url,
            socket_timeout=None,
            socket_connect_timeout=self._timeout_s,
            retry=Retry(NoBackoff(), 0),
        )
        try:
            await client.set(self._key, b"1", px=60_000)
        finally:
            await client.aclose()
        return "ok"
