"""What an operator asks of the update logs: is a pts missing below a committed one?

Guarantees: reads only, in one statement, so that what it sees is of one moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from telesrv.store.pool import Pool

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


class GapStore:
    """Finds gaps."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, user_id: int | None = None) -> tuple[int, list[Gap]]:
        """Returns how many accounts have a log, and every gap in them (or in that of *user_id*).

        Raises:
            Unavailable: PostgreSQL is away.
        """
        users = await self._pool.fetchval(SQL_COUNT_USERS, user_id)
        return users, [Gap(**row) for row in await self._pool.fetch(SQL_FIND_GAPS, user_id)]
