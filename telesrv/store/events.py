"""Writing the update log and the outbox, together and inside the transaction of what they speak of.

Guarantees: every event has its outbox row in the same transaction; every pts that was taken ends as an
event or as a noop, whatever happens to its writer. A reservation is taken by whoever first writes its *last*
pts: a writer that finds it filled rolls back and takes new ids, a filler that finds it written leaves it.

To write events of your own: `EventLog.transact`.

*Spec: Working with Updates*
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from telesrv.clock import Clock
from telesrv.domain.errors import Unavailable
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.updates import LAST_ONE_HOLDS, Event, EventKind, NewEvent, bucket_of
from telesrv.store.ids import Grant, Ids, MessageIds, Want
from telesrv.store.metrics import NO_METRICS, StoreMetrics
from telesrv.store.pool import REPEATABLE, Connection, Pool, to_json
from telesrv.store.signals import Signals

T = TypeVar("T")
_TRIES: Final = 8
_UNDOES: Final = {kind: sum(1 << other for other in undone) for kind, undone in LAST_ONE_HOLDS.items()}
"""The kinds of which events of a kind may undo one, a bit each."""

# Logs events, and owes the push of those with a bucket; the answer lacks those whose pts was there already.
SQL_LOG: Final = """
WITH e AS MATERIALIZED (
    SELECT user_id, pts, pts_count, kind, date, peer_type, peer_id, box_id, random_id,
        payload::jsonb AS payload, exclude_key, exclude_session, bucket
    FROM unnest($1::bigint[], $2::int[], $3::int[], $4::smallint[], $5::int[], $6::smallint[], $7::bigint[],
        $8::int[], $9::bigint[], $10::text[], $11::bigint[], $12::bigint[], $13::smallint[])
        AS q(user_id, pts, pts_count, kind, date, peer_type, peer_id, box_id, random_id, payload, exclude_key,
        exclude_session, bucket)
), event AS (
    INSERT INTO user_update_events
        (user_id, pts, pts_count, kind, date, peer_type, peer_id, box_id, random_id, payload)
    SELECT user_id, pts, pts_count, kind, date, peer_type, peer_id, box_id, random_id, payload
    FROM e ORDER BY user_id, pts
    ON CONFLICT (user_id, pts) DO NOTHING
    RETURNING user_id, pts
), owed AS (
    INSERT INTO dispatch_outbox
        (bucket, target_user_id, pts, exclude_auth_key_id, exclude_session_id, created_at_ms)
    SELECT bucket, user_id, pts, exclude_key, exclude_session, $14
    FROM e WHERE bucket IS NOT NULL ORDER BY bucket, user_id, pts
    ON CONFLICT (bucket, target_user_id, pts) DO NOTHING
)
SELECT user_id, pts FROM event
"""
# Whether one of some events stands before one of the same chat or of none, of a kind whose bit is given.
SQL_OVERTAKEN: Final = """
SELECT 1 FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[]) AS q(user_id, pts, peer_id, kinds)
JOIN user_update_events e ON e.user_id = q.user_id AND e.pts > q.pts
WHERE (1::bigint << e.kind) & q.kinds <> 0
    AND (e.peer_id = q.peer_id OR e.peer_id = 0 OR q.peer_id = 0)
LIMIT 1
"""


class OvertakenError(Exception):
    """A change that was made before has the later pts: following the log would end in the older state."""


class StaleCounter(Exception):
    """An id was taken by an older row: Redis lost data, or a slow writer's reservation was filled."""


class EventWriter:
    """Collects the events of one transaction and gives each its pts, in the order of the calls."""

    def __init__(self, grants: dict[int, Grant], message_ids: MessageIds) -> None:
        self._box_ids = {user_id: iter(grant.all_box_ids) for user_id, grant in grants.items()}
        self._message_ids = message_ids
        self._free = {user_id: list(grant.all_pts) for user_id, grant in grants.items()}
        self.rows: list[tuple[Event, Origin]] = []

    def add(self, new: NewEvent) -> Event:
        """Returns the event as it will be logged when the transaction commits.

        Raises:
            LookupError: more pts of this user than `transact` was told of.
        """
        free = self._free[new.user_id]
        if not 0 < new.pts_count <= len(free):
            raise LookupError(f"{new.pts_count} pts of {new.user_id}, {len(free)} are left")
        pts = free[new.pts_count - 1]
        del free[: new.pts_count]
        event = Event(
            user_id=new.user_id,
            pts=pts,
            pts_count=new.pts_count,
            kind=new.kind,
            date=new.date,
            peer=new.peer,
            box_id=new.box_id,
            random_id=new.random_id,
            payload=new.payload,
        )
        self.rows.append((event, new.origin))
        return event

    def box_id(self, user_id: int) -> int:
        """Returns the next box_id of an account; one that is not used stays unused.

        Raises:
            LookupError: more than `transact` was told of.
        """
        box_id = next(self._box_ids[user_id], 0)
        if not box_id:
            raise LookupError(f"no box_id of {user_id} is left")
        return box_id

    def message_id(self) -> int:
        """Returns a global message id; raises as `MessageIds.next`."""
        return self._message_ids.next()

    def close(self, date: int) -> None:
        """Makes noops of what is left."""
        for user_id, free in self._free.items():
            self.rows += ((Event(user_id, pts, 1, EventKind.NOOP, date), NOBODY) for pts in free)
            free.clear()


class EventLog:
    """Writes events; shared by all sub-stores."""

    def __init__(
        self, pool: Pool, ids: Ids, signals: Signals, clock: Clock, metrics: StoreMetrics = NO_METRICS
    ) -> None:
        self._pool = pool
        self._metrics = metrics
        self._ids = ids
        self._signals = signals
        self._clock = clock

    async def transact(
        self,
        users: Sequence[int],
        body: Callable[[Connection, EventWriter], Awaitable[T]],
        *,
        box_ids: Sequence[int] = (),
    ) -> T:
        """Returns what *body* returns, after the commit of its writes, its events and their outbox rows.

        Args:
            users: the accounts whose logs are written, one entry for each pts that *body* may use.
            body: writes on the connection and calls `EventWriter.add`; it is run again after a deadlock or a
                stale counter, so it keeps nothing outside. What it raises rolls everything back and is
                raised. Its rows are locked by key, in the order of tables: domain tables before events.
                What it changes is locked before its pts are compared with those of later events.
            box_ids: those of *users* for whom it may make messages, one entry for each box_id.
        Raises:
            Unavailable: a server is away; when it left during the COMMIT the outcome is unknown.

        Cancellation leaves either all or nothing written, and reservations that are swept within seconds.
        """
        boxes = Counter(box_ids)
        wants = [Want(user_id, count, boxes[user_id]) for user_id, count in Counter(users).items()]
        stale = False
        for attempt in range(_TRIES):
            grants = await self._ids.take(wants, reseed=stale)
            writer = EventWriter(grants, self._ids.message_ids)
            try:
                async with self._pool.transaction() as connection:
                    result = await body(connection, writer)
                    await self.in_order(connection, [event for event, _ in writer.rows])
                    writer.close(int(self._clock.time()))
                    await self.insert(connection, writer.rows)
            except (StaleCounter, OvertakenError, *REPEATABLE) as error:
                stale = stale or isinstance(error, StaleCounter)
                await self.abandon(grants.values())
                await asyncio.sleep(0.005 * attempt)
            except Unavailable:
                raise  # the reservations stand until a sweep knows what became of them
            except Exception:
                await self.abandon(grants.values())
                raise
            else:
                self.committed(grants)
                return result
        raise Unavailable("a transaction that kept failing")

    async def begin(self, connection: Connection, user_id: int, date: int) -> None:
        """Begins the log of a new account, at pts 1, in the caller's transaction; no push is owed."""
        await self._log(connection, _noops([(user_id, 1)], date), owed=False)

    async def insert(self, connection: Connection, rows: Iterable[tuple[Event, Origin]]) -> None:
        """Writes events and their outbox rows in the caller's transaction.

        Args:
            rows: events, and the session that each is not pushed to, in any order.
        Raises:
            StaleCounter: a pts was taken; the caller rolls back and takes new ones.
        """
        rows = list(rows)
        if len(await self._log(connection, rows)) != len(rows):
            raise StaleCounter

    def committed(self, grants: Mapping[int, Grant]) -> None:
        """Settles reservations, by user, whose events were committed, and wakes who waits for them."""
        self._ids.settle(grants.values())
        self._signals.committed(grants)
        for grant in grants.values():
            if grant.box_ids:
                self._signals.grew(grant.user_id, grant.box_ids)

    async def abandon(self, grants: Iterable[Grant]) -> int:
        """Puts noops in place of the pts of *grants* that are not in the log; returns how many.

        It never raises for a server that is away: what could not be written stays noted and is swept.
        """
        grants = [grant for grant in grants if grant.pts]
        for _ in range(3):
            try:
                filled = await self.fill(grants)
            except REPEATABLE:
                continue
            except Unavailable:
                break
            self._ids.settle(grants)
            return filled
        self._metrics.noops_failed(sum(grant.pts for grant in grants))
        return 0

    async def fill(self, grants: Sequence[Grant]) -> int:
        """Puts noops in place of reservations whose last pts is not in the log; returns how many noops.

        Raises:
            Unavailable: PostgreSQL is away.
        """
        if not grants:
            return 0
        date = int(self._clock.time())
        owned = {(grant.user_id, grant.last_pts): grant for grant in grants}
        async with self._pool.transaction() as connection:
            written = await self._log(connection, _noops(owned, date), owed=False)
            rest = [(key[0], pts) for key in written for pts in owned[key].all_pts[:-1]]
            written += await self._log(connection, _noops(rest, date), owed=False)
            await self._log(connection, _noops(written, date))  # they are there: what is new is the push
        self._signals.committed({user_id for user_id, _ in written})
        self._metrics.noops(len(written))
        return len(written)

    async def in_order(self, connection: Connection, events: Sequence[Event]) -> None:
        """Sees to it that of events that undo each other the later change has the later pts.

        Raises:
            OvertakenError: it has not; the caller rolls back and takes new pts.
        """
        undoing = [event for event in events if event.kind in LAST_ONE_HOLDS]
        if not undoing:
            return
        overtaken = await connection.fetchval(
            SQL_OVERTAKEN,
            [event.user_id for event in undoing],
            [event.pts for event in undoing],
            [event.peer.id if event.peer else 0 for event in undoing],
            [_UNDOES[event.kind] for event in undoing],
        )
        if overtaken is not None:
            raise OvertakenError

    async def _log(
        self, connection: Connection, rows: Sequence[tuple[Event, Origin]], *, owed: bool = True
    ) -> list[tuple[int, int]]:
        """Writes those events whose pts is free, returns which, and owes the push of all."""
        if not rows:
            return []
        events = [event for event, _ in rows]
        written = await connection.fetch(
            SQL_LOG,
            [event.user_id for event in events],
            [event.pts for event in events],
            [event.pts_count for event in events],
            [event.kind for event in events],
            [event.date for event in events],
            [event.peer.type if event.peer else 0 for event in events],
            [event.peer.id if event.peer else 0 for event in events],
            [event.box_id for event in events],
            [event.random_id for event in events],
            [to_json(event.payload) for event in events],
            [origin.auth_key_id for _, origin in rows],
            [origin.session_id for _, origin in rows],
            [bucket_of(event.user_id) if owed else None for event in events],
            int(self._clock.time() * 1000),
        )
        return [(row["user_id"], row["pts"]) for row in written]


def _noops(keys: Iterable[tuple[int, int]], date: int) -> list[tuple[Event, Origin]]:
    return [(Event(user_id, pts, 1, EventKind.NOOP, date), NOBODY) for user_id, pts in keys]
