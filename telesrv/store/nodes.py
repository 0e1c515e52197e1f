"""Node numbers: each process holds one, leased and fenced, while it serves.

Guarantees: no two processes hold one number at a time, whatever stops, hangs or comes back: a holder that
could not renew its lease in time knows so by its own clock before anybody else may take the number, and
makes no message id any more (`NodeLease.valid`). Times of the lease are PostgreSQL's; the holder's own
reckoning is by its monotonic clock.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from typing import Final

from telesrv.clock import Clock
from telesrv.domain.errors import Unavailable
from telesrv.store.pool import Pool

LEASE_S: Final = 15.0
"""How long a number stays taken after its holder was last heard of."""
RENEW_S: Final = 3.0
"""How often a holder renews: four may fail."""
_MARGIN_S: Final = 3.0
"""A holder stops so long before its lease ends: more than a statement and clock drift take."""
_TRIES: Final = 64

# Takes the lowest number that nobody holds; no row when another process took the same at the same time.
SQL_ACQUIRE: Final = """
WITH t AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms)
INSERT INTO nodes (node, holder, host, pid, started_at_ms, expires_at_ms)
SELECT g, $1, $2, $3, t.now_ms, t.now_ms + $4
FROM t CROSS JOIN generate_series(1, 1023) g
WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.node = g AND n.expires_at_ms > t.now_ms)
ORDER BY g LIMIT 1
ON CONFLICT (node) DO UPDATE SET holder = EXCLUDED.holder, host = EXCLUDED.host, pid = EXCLUDED.pid,
    connections = 0, sessions = 0, started_at_ms = EXCLUDED.started_at_ms, expires_at_ms =
    EXCLUDED.expires_at_ms
WHERE nodes.expires_at_ms <= EXCLUDED.started_at_ms
RETURNING node
"""
# Prolongs a lease that nobody took over meanwhile, and notes what the process carries.
SQL_RENEW: Final = """
UPDATE nodes SET connections = $3, sessions = $4,
    expires_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $5
WHERE node = $1 AND holder = $2 RETURNING node
"""
# Gives a number back.
SQL_RELEASE: Final = """
UPDATE nodes SET expires_at_ms = 0, connections = 0, sessions = 0 WHERE node = $1 AND holder = $2
"""
# Lists who serves now; for operators.
SQL_LIST: Final = """
SELECT node, pid, host, connections, sessions, started_at_ms, expires_at_ms FROM nodes
WHERE expires_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint ORDER BY node
"""


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

    def __init__(self, pool: Pool, clock: Clock, node: int, holder: str, valid_until: float) -> None:
        self._pool = pool
        self._clock = clock
        self._holder = holder
        self._valid_until = valid_until
        self.node = node

    @property
    def holder(self) -> str:
        """What tells this lease from every other one of the same number."""
        return self._holder

    def valid(self) -> bool:
        """Tells whether the number is certainly this process's own now."""
        return self._clock.monotonic() < self._valid_until

    async def renew(self, connections: int, sessions: int) -> None:
        """Prolongs the lease and notes what the process carries.

        Raises:
            LeaseLost: another process holds the number.
            Unavailable: PostgreSQL is away; the lease runs on for a while.
        """
        asked_at = self._clock.monotonic()
        row = await self._pool.fetchrow(
            SQL_RENEW, self.node, self._holder, connections, sessions, int(LEASE_S * 1000)
        )
        if row is None:
            raise LeaseLost(f"node {self.node} is held by another process")
        self._valid_until = asked_at + LEASE_S - _MARGIN_S

    async def release(self) -> None:
        """Gives the number back."""
        self._valid_until = 0.0
        await self._pool.execute(SQL_RELEASE, self.node, self._holder)


class NodeStore:
    """Leases numbers and lists their holders."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    async def acquire(self) -> NodeLease:
        """Takes a free number.

        Raises:
            Unavailable: PostgreSQL is away, or all 1,023 numbers are held.
        """
        holder = secrets.token_hex(16)
        for _ in range(_TRIES):
            asked_at = self._clock.monotonic()
            row = await self._pool.fetchrow(
                SQL_ACQUIRE, holder, socket.gethostname()[:255], os.getpid(), int(LEASE_S * 1000)
            )
            if row is not None:
                return NodeLease(self._pool, self._clock, row["node"], holder, asked_at + LEASE_S - _MARGIN_S)
        raise Unavailable("no free node number")

    async def list(self) -> list[NodeInfo]:
        """Returns the processes that serve now, on every machine."""
        return [NodeInfo(**row) for row in await self._pool.fetch(SQL_LIST)]
