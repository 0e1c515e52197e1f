"""The account-wide log as clients read it, and how far each device has come.

Guarantees: nobody is shown a pts beyond a hole; every pts is in time an event or a noop; stale state and the
difference give the fresh state.

*Spec: Working with Updates*
"""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final

from telesrv.clock import Clock
from telesrv.domain.messages import MAX_PAGE, MessageBox
from telesrv.domain.origin import Origin
from telesrv.domain.peers import MAX_ID
from telesrv.domain.updates import (
    SHOWS_BOX,
    DeviceState,
    Difference,
    Event,
    EventKind,
    OutboxItem,
    OutboxRow,
    Pushed,
    UpdatesState,
    bucket_of,
)
from telesrv.store.boxes import SQL_GET, box_from_row, peer_of
from telesrv.store.dialogs import SQL_UNREAD_TOTAL
from telesrv.store.events import EventLog
from telesrv.store.ids import Ids
from telesrv.store.marks import Marks
from telesrv.store.pool import Pool, Record
from telesrv.store.signals import Signals
from telesrv.store.unread import UnreadStore

HOLE_WAIT_S: Final = 3.0
_LOOK_AGAIN_S: Final = 0.1
_PAGE_TEXT: Final = 512 * 1024
"""Code points of text in one difference, at most; one message always fits."""

_KINDS: Final = {kind.value: kind for kind in EventKind}

EVENT_COLUMNS: Final = """e.user_id, e.pts, e.pts_count, e.kind, e.date, e.peer_type, e.peer_id, e.box_id,
    e.random_id, e.payload"""

# Reads one account's log above $2, up to $3.
SQL_DIFFERENCE: Final = f"""
SELECT {EVENT_COLUMNS} FROM user_update_events e
WHERE e.user_id = $1 AND e.pts > $2 AND e.pts <= $3 ORDER BY e.pts LIMIT $4
"""
# Notes how far a device has come.
SQL_SAVE_DEVICE: Final = """
INSERT INTO update_states (auth_key_id, user_id, pts, date) VALUES ($1, $2, $3, $4)
ON CONFLICT (auth_key_id, user_id) DO UPDATE SET pts = excluded.pts, date = excluded.date
"""
# Reads which pushes are owed to some accounts, by the session that gets none.
SQL_OWED: Final = """
SELECT o.target_user_id, o.exclude_auth_key_id, o.exclude_session_id, array_agg(o.pts) AS owed
FROM unnest($1::smallint[], $2::bigint[]) AS q(bucket, user_id)
JOIN dispatch_outbox o ON o.bucket = q.bucket AND o.target_user_id = q.user_id
GROUP BY o.target_user_id, o.exclude_auth_key_id, o.exclude_session_id
"""


class UpdateStore:
    """Reads of the log, and small events of their own."""

    def __init__(
        self,
        pool: Pool,
        ids: Ids,
        events: EventLog,
        marks: Marks,
        unread: UnreadStore,
        signals: Signals,
        clock: Clock,
        reservation_s: float,
    ) -> None:
        self._pool = pool
        self._ids = ids
        self._events = events
        self._marks = marks
        self._unread = unread
        self._signals = signals
        self._clock = clock
        self._reservation_s = reservation_s

    async def state(self, user_id: int) -> UpdatesState:
        """Returns the highest contiguous committed pts, the time, and how many messages are unread.

        *Spec: updates.getState*
        """
        pts, _ = await self._marks.walk(user_id)
        unread = await self._pool.fetchval(SQL_UNREAD_TOTAL, user_id)
        return UpdatesState(pts, int(self._clock.time()), int(unread))

    async def difference(self, user_id: int, pts: int, limit: int = MAX_PAGE) -> Difference:
        """Returns the contiguous events after *pts*, at most 100, and the boxes of new and edited messages.

        At a hole with committed events behind it and none before it, waits a few seconds for the hole to be
        filled. A *pts* beyond the log gives nothing and the sound state; a negative one counts as 0.

        *Spec: updates.getDifference*
        """
        pts = max(0, min(pts, MAX_ID))
        limit = max(1, min(limit, MAX_PAGE))
        head, at_hole = await self._marks.walk(user_id)
        if at_hole and head <= pts:
            head = await self._wait_at_hole(user_id, pts)
        rows = await self._pool.fetch(SQL_DIFFERENCE, user_id, pts, head, limit) if head > pts else []
        events = [event_from_row(row) for row in rows]
        boxes = await self._boxes(user_id, {event.box_id for event in events if event.kind in SHOWS_BOX})
        events = _fitting(events, boxes)
        counted = await self._unread.counted(events)
        events = [counted.get((user_id, event.pts), event) for event in events]
        if events:
            head_given = events[-1].pts
            shown = {event.box_id for event in events}
            boxes = {box_id: box for box_id, box in boxes.items() if box_id in shown}
        else:
            head_given = head
        unread = await self._pool.fetchval(SQL_UNREAD_TOTAL, user_id)
        state = UpdatesState(head_given, int(self._clock.time()), int(unread))
        return Difference(tuple(events), boxes, state, final=head_given >= head)

    async def pushed(self, user_ids: Collection[int]) -> dict[int, Pushed]:
        """Returns how far each account's log has been pushed to whoever held its sessions.

        Raises:
            Unavailable: PostgreSQL is away.
        """
        if not user_ids:
            return {}
        # In this order: what is in the log now and not owed a moment later was delivered.
        heads = await self._marks.walk_all(user_ids)
        users = sorted(heads)
        owed: dict[int, dict[Origin, list[int]]] = {}
        for row in await self._pool.fetch(SQL_OWED, [bucket_of(user_id) for user_id in users], users):
            origin = Origin(row["exclude_auth_key_id"], row["exclude_session_id"])
            owed.setdefault(row["target_user_id"], {})[origin] = row["owed"]
        return {user_id: Pushed.of(head, owed.get(user_id, {})) for user_id, head in heads.items()}

    async def missed(self, user_id: int, pts: int) -> list[OutboxItem] | None:
        """Returns the contiguous events after *pts*, as if their pushes had been claimed; None: more than
        a page of them.

        Raises:
            Unavailable: PostgreSQL is away.
        """
        head, _ = await self._marks.walk(user_id)
        if head <= pts:
            return []
        events = [
            event_from_row(row)
            for row in await self._pool.fetch(SQL_DIFFERENCE, user_id, pts, head, MAX_PAGE + 1)
        ]
        if len(events) > MAX_PAGE:
            return None
        boxes = await self._boxes(user_id, {e.box_id for e in events if e.kind in SHOWS_BOX})
        bucket = bucket_of(user_id)
        return [
            OutboxItem(OutboxRow(bucket, user_id, event.pts, 0, 0, 0), event, boxes.get(event.box_id))
            for event in events
        ]

    async def save_device_state(self, auth_key_id: int, user_id: int, state: DeviceState) -> None:
        """Notes how far a device has come."""
        await self._pool.execute(SQL_SAVE_DEVICE, auth_key_id, user_id, state.pts, state.date)

    async def sweep(self) -> int:
        """Fills what dead writers left, in the log and behind; returns how many noops that took.

        To be called every second or so, by every process; it takes turns with the writers by the log's key.

        Raises:
            Unavailable: a server is away; the next call goes on.
        """
        await self._ids.flush()
        await self._marks.save()
        overdue = await self._ids.overdue(self._reservation_s)
        filled = await self._events.fill(overdue)
        self._ids.settle(overdue)
        # A hole without a note, since Redis lost it: its writer, if alive, is given more time.
        holes = self._marks.overdue_holes(2 * self._reservation_s)
        filled += await self._events.fill(holes)
        await self._ids.flush()
        return filled

    async def _wait_at_hole(self, user_id: int, pts: int) -> int:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HOLE_WAIT_S
        while True:
            await self._signals.changed(_LOOK_AGAIN_S)
            head, at_hole = await self._marks.walk(user_id)
            if head > pts or not at_hole or loop.time() >= deadline:
                return head

    async def _boxes(self, user_id: int, box_ids: Collection[int]) -> dict[int, MessageBox]:
        if not box_ids:
            return {}
        rows = await self._pool.fetch(SQL_GET, user_id, list(box_ids))
        return {row["box_id"]: box_from_row(row) for row in rows}


def event_from_row(row: Record) -> Event:
    """Returns the event of a row of `EVENT_COLUMNS`."""
    return event_of(tuple(row))


def event_of(values: tuple[Any, ...]) -> Event:
    """Returns the event whose `EVENT_COLUMNS` have *values*."""
    user_id, pts, pts_count, kind, date, peer_type, peer_id, box_id, random_id, payload = values
    peer = peer_of(peer_type, peer_id) if peer_type else None
    return Event(user_id, pts, pts_count, _KINDS[kind], date, peer, box_id, random_id, payload)


def _fitting(events: list[Event], boxes: Mapping[int, MessageBox]) -> list[Event]:
    """Returns the first events whose texts together are not too long for one answer."""
    size = 0
    for count, event in enumerate(events):
        box = boxes.get(event.box_id) if event.kind in SHOWS_BOX else None
        size += len(box.text) if box else 0
        if size > _PAGE_TEXT and count:
            return events[:count]
    return events
