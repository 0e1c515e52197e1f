"""Node numbers: each process holds one, leased and fenced, while it serves.

Guarantees: no two processes hold one number at a time, whatever stops, hangs or comes back: a holder that
could not renew its lease in time knows so by its own clock before anybody else may take the number, and
makes no message id any more (`NodeLease.valid`). Times of the lease are PostgreSQL's; the holder's own
reckoning is by its monotonic clock.

A number is also taken for whoever reads an earlier time than its message ids may name already
(`NodeLease.until_ms`): machines' clocks differ, and no id is made twice because of that. Such a process
takes another number.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from dataclasses import dataclass
from typing import Final

import structlog

from telesrv.clock import Clock
from telesrv.domain.errors import Unavailable
from telesrv.store.pool import Pool

log = structlog.get_logger(__name__)

LEASE_S: Final = 15.0
"""How long a number stays taken after its holder was last heard of, unless a setting says otherwise."""
_PARTS: Final = 5
"""A holder renews each fifth of the lease, so that some may fail, and stops a fifth before its end: more
than a statement and clock drift take."""
_LEAST_WAIT_S: Final = 2.0
"""How long a renewal may wait however short the lease is: a busy server needs some of it."""
_TRIES: Final = 64
_CLOCKS_DIFFER_MS: Final = 2_000
"""By how much they may without a word: more than a statement takes."""

# Takes the lowest number that nobody holds and whose ids name only times before $5, the taker's; no row when
# another process took the same at the same time.
SQL_ACQUIRE: Final = """
WITH t AS (SELECT (extract(epoch FROM statement_timestamp()) * 1000)::bigint AS now_ms)
INSERT INTO nodes (node, holder, host, pid, started_at_ms, expires_at_ms, used_until_ms)
SELECT g, $1, $2, $3, t.now_ms, t.now_ms + $4, $5 + $4
FROM t CROSS JOIN generate_series(1, 1023) g
WHERE NOT EXISTS (
    SELECT 1 FROM nodes n WHERE n.node = g AND (n.expires_at_ms > t.now_ms OR n.used_until_ms >= $5))
ORDER BY g LIMIT 1
ON CONFLICT (node) DO UPDATE SET holder = EXCLUDED.holder, host = EXCLUDED.host, pid = EXCLUDED.pid,
    connections = 0, sessions = 0, started_at_ms = EXCLUDED.started_at_ms,
    expires_at_ms = EXCLUDED.expires_at_ms, used_until_ms = EXCLUDED.used_until_ms
WHERE nodes.expires_at_ms <= EXCLUDED.started_at_ms AND nodes.used_until_ms < $5
RETURNING node, started_at_ms
"""
# Prolongs a lease that nobody took over meanwhile, and notes what the process carries.
SQL_RENEW: Final = """
UPDATE nodes SET connections = $3, sessions = $4,
    expires_at_ms = (extract(epoch FROM statement_timestamp()) * 1000)::bigint + $5,
    used_until_ms = greatest(used_until_ms, $6)
WHERE node = $1 AND holder = $2 RETURNING used_until_ms
"""
# Gives a number back, of which it is known ($3) how far it was used, or not (NULL).
SQL_RELEASE: Final = """
UPDATE nodes SET expires_at_ms = 0, connections = 0, sessions = 0, used_until_ms = coalesce($3, used_until_ms)
WHERE node = $1 AND holder = $2
"""
# Lists who serves now; for operators.
SQL_LIST: Final = """
SELECT node, pid, host, connections, sessions, started_at_ms, expires_at_ms FROM nodes
WHERE expires_at_ms > (extract(epoch FROM statement_timestamp()) * 1000)::bigint ORDER BY node
"""


def unix_ms(clock: Clock) -> int:
    """Returns the time of the wall clock, in milliseconds."""
    return int(clock.time() * 1000)


class LeaseLost(Exception):
    """Another process holds the number now: this one must end."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One serving process, as an operator sees it."""

    node: int
    pid: int
    host: str
    connections: int
    sessions: int
    started_at_ms: int
    expires_at_ms: int


class NodeLease:
    """The number this process holds."""

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        node: int,
        holder: str,
        *,
        asked_at: float,
        asked_ms: int,
        lease_s: float,
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._holder = holder
        self._lease_s = lease_s
        self._lease_ms = int(lease_s * 1000)
        self._hold_from(asked_at)
        self.node = node
        self.used_ms = asked_ms
        """The latest time, in unix milliseconds, that a message id may have named until now."""
        self.until_ms = asked_ms + self._lease_ms
        """The latest time that a message id may name before the next renewal."""

    @property
    def holder(self) -> str:
        """What tells this lease from every other one of the same number."""
        return self._holder

    @property
    def renew_s(self) -> float:
        """How often the holder is to renew."""
        return self._lease_s / _PARTS

    def valid(self) -> bool:
        """Tells whether the number is certainly this process's own now."""
        return self._clock.monotonic() < self._valid_until

    async def renew(self, connections: int, sessions: int) -> None:
        """Prolongs the lease and notes what the process carries.

        Raises:
            LeaseLost: another process holds the number.
            Unavailable: PostgreSQL is away, or its connection is silent; the lease runs on for a while, in
                which it can be asked again by another one.
        """
        asked_at, asked_ms = self._clock.monotonic(), unix_ms(self._clock)
        try:
            async with asyncio.timeout(max(self.renew_s, _LEAST_WAIT_S)):
                until_ms = await self._pool.fetchval(
                    SQL_RENEW,
                    *(self.node, self._holder, connections, sessions, self._lease_ms),
                    max(asked_ms, self.used_ms) + self._lease_ms,
                )
        except TimeoutError as error:
            raise Unavailable("PostgreSQL") from error
        if until_ms is None:
            raise LeaseLost(f"node {self.node} is held by another process")
        self.until_ms = until_ms
        self._hold_from(asked_at)

    async def release(self) -> None:
        """Gives the number back."""
        self._valid_until = float("-inf")
        await self._pool.execute(SQL_RELEASE, self.node, self._holder, self.used_ms)

    def _hold_from(self, asked_at: float) -> None:
        self._valid_until = asked_at + self._lease_s * (1 - 1 / _PARTS)


class NodeStore:
    """Leases numbers and lists their holders."""

    def __init__(self, pool: Pool, clock: Clock, lease_s: float = LEASE_S) -> None:
        self._pool = pool
        self._clock = clock
        self._lease_s = lease_s

    async def acquire(self) -> NodeLease:
        """Takes a free number.

        Raises:
            Unavailable: PostgreSQL is away, or all 1,023 numbers are held, or were by clocks ahead of this
                one.
        """
        holder = secrets.token_hex(16)
        for _ in range(_TRIES):
            asked_at, asked_ms = self._clock.monotonic(), unix_ms(self._clock)
            row = await self._pool.fetchrow(
                SQL_ACQUIRE,
                *(holder, socket.gethostname()[:255], os.getpid(), int(self._lease_s * 1000)),
                asked_ms,
            )
            if row is not None:
                if abs(differ_ms := row["started_at_ms"] - asked_ms) > _CLOCKS_DIFFER_MS:
                    log.warning("the clock differs from PostgreSQL's", behind_s=round(differ_ms / 1000, 1))
                return NodeLease(
                    self._pool,
                    self._clock,
                    row["node"],
                    holder,
                    asked_at=asked_at,
                    asked_ms=asked_ms,
                    lease_s=self._lease_s,
                )
        raise Unavailable("a node number that is free, by this machine's clock")

    async def bury(self, node: int, holder: str) -> bool:
        """Ends the lease of a process that is certainly dead; False when another process holds the number.

        Raises:
            Unavailable: PostgreSQL is away; the lease ends by itself.
        """
        status = await self._pool.execute(SQL_RELEASE, node, holder, None)
        return not status.endswith(" 0")

    async def list(self) -> list[NodeInfo]:
        """Returns the processes that serve now, on every machine."""
        return [NodeInfo(**row) for row in await self._pool.fetch(SQL_LIST)]
