"""How far each account's log is known to have no hole.

Guarantees: a mark is never ahead of the first hole; it may lag. Events go only when one takes their place
that covers the pts of all of them, so a mark once right stays right, in every process. It is kept in memory
and written now and then, so that nobody walks far.

*Spec: Working with Updates*
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from telesrv.clock import Clock
from telesrv.store.ids import Grant
from telesrv.store.metrics import NO_METRICS, StoreMetrics
from telesrv.store.pool import Pool

_MOST: Final = 100_000
_WRITE_EVERY: Final = 64
_WALK: Final = 1000

# Reads stored marks.
SQL_LOAD: Final = """
SELECT user_id, pts FROM update_marks WHERE user_id = ANY($1::bigint[])
"""
# Moves stored marks forward.
SQL_SAVE: Final = """
INSERT INTO update_marks AS m (user_id, pts)
SELECT user_id, pts FROM unnest($1::bigint[], $2::int[]) AS n(user_id, pts)
ON CONFLICT (user_id) DO UPDATE SET pts = GREATEST(m.pts, excluded.pts)
"""
# Walks one account's log upward from a mark.
SQL_WALK: Final = """
SELECT pts, pts_count FROM user_update_events WHERE user_id = $1 AND pts > $2 ORDER BY pts LIMIT $3
"""
# Walks the logs of some accounts upward, each from its mark.
SQL_WALK_ALL: Final = """
SELECT e.user_id, e.pts, e.pts_count
FROM unnest($1::bigint[], $2::int[]) AS q(user_id, after)
JOIN user_update_events e ON e.user_id = q.user_id AND e.pts > q.after
ORDER BY e.user_id, e.pts
"""


@dataclass(slots=True)
class _Mark:
    pts: int
    stored: int
    moved: int = 0
    """The count of moves when it last moved."""


class Marks:
    """The marks this process knows, and the holes it met."""

    def __init__(self, pool: Pool, clock: Clock, metrics: StoreMetrics = NO_METRICS) -> None:
        self._pool = pool
        self._metrics = metrics
        self._clock = clock
        self._known: OrderedDict[int, _Mark] = OrderedDict()
        self._unsaved: set[int] = set()
        self._holes: dict[tuple[int, int], tuple[int, float]] = {}
        self.moves = 0
        """How often a mark was moved here: what is remembered of it tells which marks moved since."""

    def unknown(self, user_ids: Set[int]) -> bool:
        """Tells whether the mark of one of them is not known here yet."""
        return not self._known.keys() >= user_ids

    def learn(self, user_id: int, pts: int) -> None:
        """Takes in a stored mark."""
        if user_id not in self._known:
            self._known[user_id] = _Mark(pts, pts, self._move() if pts else 0)

    def moved_since(self, moves: int, user_ids: Iterable[int]) -> set[int]:
        """Returns whose marks have moved, or become known, since there were *moves*."""
        return {user_id for user_id in user_ids if self._known[user_id].moved > moves}

    async def load(self, user_ids: Collection[int]) -> dict[int, int]:
        """Returns a sound mark for each user; 0 at worst."""
        missing = [user_id for user_id in user_ids if user_id not in self._known]
        if missing:
            for row in await self._pool.fetch(SQL_LOAD, missing):
                self.learn(row["user_id"], row["pts"])
        marks = {}
        for user_id in user_ids:
            mark = self._known.setdefault(user_id, _Mark(0, 0))
            self._known.move_to_end(user_id)
            marks[user_id] = mark.pts
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return marks

    async def walk(self, user_id: int) -> tuple[int, bool]:
        """Returns the highest contiguous committed pts, and whether more is committed behind a hole."""
        mark = (await self.load([user_id]))[user_id]
        while True:
            rows = await self._pool.fetch(SQL_WALK, user_id, mark, _WALK)
            mark, at_hole = self.follow(user_id, mark, ((row["pts"], row["pts_count"]) for row in rows))
            if at_hole or len(rows) < _WALK:
                return mark, at_hole

    async def walk_all(self, user_ids: Collection[int]) -> dict[int, int]:
        """Returns the highest contiguous committed pts of each account, by one statement."""
        marks = await self.load(user_ids)
        rows = await self._pool.fetch(SQL_WALK_ALL, list(marks), list(marks.values()))
        for user_id, log in groupby(rows, lambda row: row["user_id"]):
            events = ((row["pts"], row["pts_count"]) for row in log)
            marks[user_id], _ = self.follow(user_id, marks[user_id], events)
        return marks

    def follow(self, user_id: int, mark: int, events: Iterable[tuple[int, int]]) -> tuple[int, bool]:
        """Moves the mark along committed (pts, pts_count); returns it and whether a hole stopped it.

        Every hole among them is noted, so that all are filled in the time of one.
        """
        at_hole = False
        reached = mark
        for pts, pts_count in events:
            if pts - pts_count > reached:
                at_hole = True
                if (user_id, reached) not in self._holes:
                    self._holes[user_id, reached] = (pts - pts_count, self._clock.monotonic())
                    self._metrics.hole()
            reached = max(reached, pts)
            if not at_hole:
                mark = reached
        known = self._known.setdefault(user_id, _Mark(mark, 0))
        if mark > known.pts:
            known.pts, known.moved = mark, self._move()
        if known.pts - known.stored >= _WRITE_EVERY:
            self._unsaved.add(user_id)
        return mark, at_hole

    async def save(self) -> None:
        """Writes the marks that have moved far."""
        unsaved, self._unsaved = self._unsaved, set()
        marks = [(user_id, self._known[user_id]) for user_id in sorted(unsaved) if user_id in self._known]
        if marks:
            users, values = [user_id for user_id, _ in marks], [mark.pts for _, mark in marks]
            await self._pool.execute(SQL_SAVE, users, values)
            for (_, mark), value in zip(marks, values, strict=True):
                mark.stored = max(mark.stored, value)

    def overdue_holes(self, older_than_s: float) -> list[Grant]:
        """Returns the holes met longer ago than that, each once, as reservations without a note."""
        before = self._clock.monotonic() - older_than_s
        overdue = [key for key, (_, since) in self._holes.items() if since <= before]
        return [
            Grant(user_id, last_pts := self._holes.pop((user_id, mark))[0], last_pts - mark)
            for user_id, mark in overdue
        ]

    def _move(self) -> int:
        self.moves += 1
        return self.moves
