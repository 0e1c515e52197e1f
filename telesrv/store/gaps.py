"""What an operator asks of the update logs: is a pts missing below a committed one, and can it be filled?

Guarantees: `find` reads only, and its gaps are of one moment; `fill` never puts
anything over an event, and a writer that was only slow notices and takes new pts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from telesrv.store.events import EventLog
from telesrv.store.ids import Grant
from telesrv.store.pool import Pool

_AT_ONCE: Final = 500
"""Gaps filled by one transaction."""

# Counts the accounts that have a log; for operators, over all owners.
SQL_COUNT_USERS: Final = """
SELECT count(*) FROM (SELECT user_id FROM user_update_events GROUP BY user_id) u
WHERE $1::bigint IS NULL OR u.user_id = $1
"""
# Finds where an event does not join on to the one before it; for operators, over all owners or one.
SQL_FIND_GAPS: Final = """
SELECT user_id, before + 1 AS from_pts, pts - pts_count AS to_pts
FROM (
    SELECT user_id, pts, pts_count, lag(pts, 1, 0) OVER (PARTITION BY user_id ORDER BY pts) AS before
    FROM user_update_events WHERE $1::bigint IS NULL OR user_id = $1
) e
WHERE pts - pts_count > before ORDER BY user_id, pts
"""


@dataclass(frozen=True, slots=True)
class Gap:
    """The pts from *from_pts* to *to_pts* are missing and a later one is there."""

    user_id: int
    from_pts: int
    to_pts: int

    @property
    def pts_count(self) -> int:
        return self.to_pts - self.from_pts + 1

    def overlaps(self, other: Gap) -> bool:
        """Tells whether the two have a pts of one account in common."""
        return (
            self.user_id == other.user_id and self.from_pts <= other.to_pts and other.from_pts <= self.to_pts
        )


class GapStore:
    """Finds and fills gaps."""

    def __init__(self, pool: Pool, events: EventLog) -> None:
        self._pool = pool
        self._events = events

    async def find(self, user_id: int | None = None) -> tuple[int, list[Gap]]:
        """Returns how many accounts have a log, and every gap in them (or in that of *user_id*).

        Raises:
            Unavailable: PostgreSQL is away.
        """
        users = await self._pool.fetchval(SQL_COUNT_USERS, user_id)
        return users, [Gap(**row) for row in await self._pool.fetch(SQL_FIND_GAPS, user_id)]

    async def fill(self, gaps: Sequence[Gap]) -> int:
        """Puts a noop in place of every pts of *gaps* that is still missing; returns how many.

        Only for gaps that have stood longer than any writer takes: the sweeper fills the others.

        Raises:
            Unavailable: PostgreSQL is away; what was filled before stays.
        """
        filled = 0
        for start in range(0, len(gaps), _AT_ONCE):
            some = gaps[start : start + _AT_ONCE]
            filled += await self._events.fill([Grant(gap.user_id, gap.to_pts, gap.pts_count) for gap in some])
        return filled
