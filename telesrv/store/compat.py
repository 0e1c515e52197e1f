"""Which methods clients call, by layer and client: the evidence behind the compatibility table.

Guarantees: `record` costs a dictionary entry and never waits; a process makes a bounded number of rows,
however inventive its callers (beyond it, calls count under the method ``other``); counts go to PostgreSQL
in one statement every few seconds and at `close`. A crash loses a few seconds of counts and nothing else."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from telesrv.clock import Clock
from telesrv.domain.errors import Unavailable
from telesrv.domain.users import MethodCalls
from telesrv.store.pool import Pool

log = structlog.get_logger(__name__)

MAX_KEYS: Final = 5_000
MAX_NAME: Final = 64
OTHER: Final = ("other", 0, "")
FLUSH_DELAY_S: Final = 5.0

# Adds the counts of a batch, rows in the order of their key.
SQL_ADD: Final = """
INSERT INTO method_calls (method, layer, client, count, last_seen_at)
SELECT method, layer, client, count, $5
FROM unnest($1::text[], $2::int[], $3::text[], $4::bigint[]) AS call(method, layer, client, count)
ORDER BY method, layer, client
ON CONFLICT (method, layer, client)
DO UPDATE SET count = method_calls.count + EXCLUDED.count,
    last_seen_at = GREATEST(method_calls.last_seen_at, EXCLUDED.last_seen_at)
"""
# Reads the table, the most called first.
SQL_TABLE: Final = """
SELECT method, layer, client, count, last_seen_at FROM method_calls
ORDER BY count DESC, method, layer, client LIMIT $1
"""


class CompatStore:
    """Counts of calls."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock
        self._held: dict[tuple[str, int, str], int] = {}
        self._seen: set[tuple[str, int, str]] = set()
        self._flusher: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()

    def record(self, method: str, layer: int | None, client: str) -> None:
        """Counts one call.

        Args:
            method: the TL name, or the constructor id in hexadecimal of a method that nobody knows.
            layer: the caller's layer; None before it said one.
            client: what the client calls itself.
        """
        key = (_name(method), layer or 0, _name(client))
        if key not in self._seen:
            if len(self._seen) >= MAX_KEYS:
                key = OTHER
            self._seen.add(key)
        self._held[key] = self._held.get(key, 0) + 1
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush_later())

    async def flush(self) -> None:
        """Writes the counts held; they stay held when PostgreSQL is away."""
        async with self._flushing:
            if not self._held:
                return
            held, self._held = self._held, {}
            keys = list(held)
            try:
                await self._pool.execute(
                    SQL_ADD,
                    [key[0] for key in keys],
                    [key[1] for key in keys],
                    [key[2] for key in keys],
                    [held[key] for key in keys],
                    int(self._clock.time()),
                )
            except BaseException:
                for key, count in held.items():
                    self._held[key] = self._held.get(key, 0) + count
                raise

    async def table(self, limit: int = 10_000) -> list[MethodCalls]:
        """Returns the counts written so far, the most called first."""
        return [
            MethodCalls(row["method"], row["layer"], row["client"], row["count"], row["last_seen_at"])
            for row in await self._pool.fetch(SQL_TABLE, limit)
        ]

    async def close(self) -> None:
        """Writes what is held and stops; counts that cannot be written are lost."""
        flusher, self._flusher = self._flusher, None
        if flusher is not None:
            flusher.cancel()
            await asyncio.wait([flusher])
        await self._try_flush()

    async def _flush_later(self) -> None:
        await asyncio.sleep(FLUSH_DELAY_S)
        await self._try_flush()

    async def _try_flush(self) -> None:
        try:
            await self.flush()
        except Unavailable as error:
            log.warning("counts of calls could not be written", error=str(error))


def _name(value: str) -> str:
    return value[:MAX_NAME].replace("\0", "").encode("utf-8", "replace").decode("utf-8")
