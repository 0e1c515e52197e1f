"""The pushes that are owed, and who may deliver them.

Guarantees: a row is given to one claimant until its lease ends, and is there until `done`; the rows of one
account come in the order of pts as long as nothing fails, and never from beyond a hole in its log.

Concurrency: any number of workers and processes; claims of one bucket follow each other by a row lock, and an
account some of whose rows are leased is passed over.

*Spec: Working with Updates*
"""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Final

from telesrv.clock import Clock
from telesrv.domain.messages import MessageBox
from telesrv.domain.updates import OUTBOX_BUCKETS, Event, EventKind, OutboxItem, OutboxRow, OutboxStats
from telesrv.store.boxes import SQL_GET_MANY, box_from_row
from telesrv.store.marks import Marks
from telesrv.store.metrics import NO_METRICS, StoreMetrics
from telesrv.store.pool import Pool, Record
from telesrv.store.signals import Signals
from telesrv.store.updates import EVENT_COLUMNS, event_from_row

_HOLE_PAUSE_MS: Final = 50
_BACKOFF_MS: Final = 500
_BACKOFF_MOST_MS: Final = 300_000
_NO_USER: Final = 2**63 - 1
_MAX_ERROR: Final = 500

# Makes claims of one bucket follow each other.
SQL_GATE: Final = """
SELECT bucket FROM outbox_buckets WHERE bucket = $1 FOR UPDATE
"""
# Leases the next rows of a bucket for users from $3 to below $4, passing over users with leased rows.
SQL_CLAIM: Final = """
UPDATE dispatch_outbox o SET leased = true, attempts = o.attempts + 1, available_at_ms = $5
FROM (
    SELECT c.target_user_id, c.pts FROM dispatch_outbox c
    WHERE c.bucket = $1 AND c.available_at_ms <= $2 AND c.target_user_id >= $3 AND c.target_user_id < $4
        AND c.target_user_id NOT IN (
            SELECT f.target_user_id FROM dispatch_outbox f
            WHERE f.bucket = $1 AND f.leased AND f.available_at_ms > $2)
    ORDER BY c.target_user_id, c.pts LIMIT $6 FOR UPDATE SKIP LOCKED
) p
WHERE o.bucket = $1 AND o.target_user_id = p.target_user_id AND o.pts = p.pts
RETURNING o.bucket, o.target_user_id, o.pts, o.exclude_auth_key_id, o.exclude_session_id, o.attempts,
    o.last_error
"""
# Reads the events of claimed rows.
SQL_EVENTS: Final = f"""
SELECT {EVENT_COLUMNS}
FROM unnest($1::bigint[], $2::int[]) AS q(user_id, pts)
JOIN user_update_events e ON e.user_id = q.user_id AND e.pts = q.pts
"""
# Walks the logs of some users, each from its mark to its last claimed pts.
SQL_WALK_MANY: Final = """
SELECT e.user_id, e.pts, e.pts_count
FROM unnest($1::bigint[], $2::int[], $3::int[]) AS q(user_id, after, upto)
JOIN user_update_events e ON e.user_id = q.user_id AND e.pts > q.after AND e.pts <= q.upto
ORDER BY e.user_id, e.pts
"""
# Gives leased rows back as if they had not been claimed.
SQL_PUT_BACK: Final = """
UPDATE dispatch_outbox o SET leased = false, attempts = o.attempts - 1, available_at_ms = $4
FROM unnest($2::bigint[], $3::int[]) AS p(target_user_id, pts)
WHERE o.bucket = $1 AND o.target_user_id = p.target_user_id AND o.pts = p.pts AND o.leased
"""
# Ends all leases of a bucket.
SQL_RELEASE: Final = """
UPDATE dispatch_outbox SET leased = false, available_at_ms = $2 WHERE bucket = $1 AND leased
"""
# Ends rows that were delivered.
SQL_DONE: Final = """
DELETE FROM dispatch_outbox o USING unnest($2::bigint[], $3::int[]) AS p(target_user_id, pts)
WHERE o.bucket = $1 AND o.target_user_id = p.target_user_id AND o.pts = p.pts
"""
# Lets rows be tried again later.
SQL_RETRY: Final = """
UPDATE dispatch_outbox o SET leased = false, available_at_ms = p.available_at_ms, last_error = $5
FROM unnest($2::bigint[], $3::int[], $4::bigint[]) AS p(target_user_id, pts, available_at_ms)
WHERE o.bucket = $1 AND o.target_user_id = p.target_user_id AND o.pts = p.pts
"""
# Moves rows that were tried too often to where an operator finds them.
SQL_FAIL: Final = """
WITH gone AS (
    DELETE FROM dispatch_outbox o USING unnest($2::bigint[], $3::int[]) AS p(target_user_id, pts)
    WHERE o.bucket = $1 AND o.target_user_id = p.target_user_id AND o.pts = p.pts
    RETURNING o.bucket, o.target_user_id, o.pts, o.exclude_auth_key_id, o.exclude_session_id, o.attempts)
INSERT INTO dispatch_outbox_failed
    (bucket, target_user_id, pts, exclude_auth_key_id, exclude_session_id, attempts, failed_at_ms, last_error)
SELECT bucket, target_user_id, pts, exclude_auth_key_id, exclude_session_id, attempts, $4, $5 FROM gone
ON CONFLICT (bucket, target_user_id, pts) DO NOTHING
"""
# Owes the failed pushes of a bucket again.
SQL_REQUEUE: Final = """
WITH gone AS (
    DELETE FROM dispatch_outbox_failed f WHERE f.bucket = $1
    RETURNING f.bucket, f.target_user_id, f.pts, f.exclude_auth_key_id, f.exclude_session_id)
INSERT INTO dispatch_outbox
    (bucket, target_user_id, pts, exclude_auth_key_id, exclude_session_id, created_at_ms)
SELECT bucket, target_user_id, pts, exclude_auth_key_id, exclude_session_id, $2 FROM gone
ON CONFLICT (bucket, target_user_id, pts) DO NOTHING
RETURNING bucket
"""
# Finds the buckets, of some, that have rows to claim.
SQL_DUE: Final = """
SELECT bucket FROM dispatch_outbox
WHERE bucket = ANY($1::smallint[]) AND available_at_ms <= $2 GROUP BY bucket
"""
# Counts what is owed; for operators, over all buckets.
SQL_STATS: Final = """
SELECT count(*) FILTER (WHERE NOT leased) AS waiting, count(*) FILTER (WHERE leased) AS leased,
    coalesce(min(created_at_ms), 0)::bigint AS oldest_ms
FROM dispatch_outbox
"""
# Counts what failed; for operators.
SQL_COUNT_FAILED: Final = """
SELECT count(*) FROM dispatch_outbox_failed
"""
# Lists what failed, latest first; for operators.
SQL_FAILED: Final = """
SELECT bucket, target_user_id, pts, exclude_auth_key_id, exclude_session_id, attempts, last_error
FROM dispatch_outbox_failed ORDER BY failed_at_ms DESC, target_user_id, pts LIMIT $1
"""


class OutboxStore:
    """Claims and outcomes of pushes."""

    def __init__(
        self,
        pool: Pool,
        marks: Marks,
        signals: Signals,
        clock: Clock,
        *,
        batch: int,
        lease_s: float,
        max_attempts: int,
        metrics: StoreMetrics = NO_METRICS,
    ) -> None:
        self._pool = pool
        self._metrics = metrics
        self._marks = marks
        self._signals = signals
        self._clock = clock
        self._batch = batch
        self._lease_s = lease_s
        self._max_attempts = max_attempts
        self._next_user: dict[int, int] = {}

    async def claim(self, bucket: int, limit: int | None = None) -> list[OutboxItem]:
        """Returns the next rows of a bucket, leased, by account and pts, with their events and boxes.

        Accounts take turns from one claim to the next. Rows beyond a hole are put back for a moment.

        Args:
            limit: how many rows at most; the configured batch when None.
        Raises:
            Unavailable: PostgreSQL is away; what was leased comes again after the lease.
        """
        rows = await self._lease(bucket, limit or self._batch)
        if not rows:
            return []
        events = await self._events(rows)
        orphans = [row for row in rows if (row.target_user_id, row.pts) not in events]
        if orphans:  # on shards, half of a transaction is visible for a moment
            await self.retry(orphans, "no such event")
            rows = [row for row in rows if (row.target_user_id, row.pts) in events]
        heads = await self._heads(rows, events)
        beyond = [row for row in rows if row.pts > heads[row.target_user_id]]
        if beyond:
            await self._put_back(bucket, beyond)
        items = [row for row in rows if row.pts <= heads[row.target_user_id]]
        self._metrics.outbox_claimed(len(items))
        boxes = await self._boxes(events[row.target_user_id, row.pts] for row in items)
        return [
            OutboxItem(row, event, boxes.get((event.user_id, event.box_id)))
            for row in items
            for event in (events[row.target_user_id, row.pts],)
        ]

    async def due(self, buckets: Collection[int]) -> set[int]:
        """Returns which of *buckets* have rows to claim now, by one statement.

        Raises:
            Unavailable: PostgreSQL is away.
        """
        return {row["bucket"] for row in await self._pool.fetch(SQL_DUE, sorted(buckets), self._now_ms())}

    async def release_leases(self) -> int:
        """Lets rows be claimed that a process which is gone had leased; returns how many.

        For the start of a server that is alone on its database; beside others it makes them push twice.
        """
        count = 0
        for bucket in range(OUTBOX_BUCKETS):
            status = await self._pool.execute(SQL_RELEASE, bucket, self._now_ms())
            count += int(status.rsplit(" ", 1)[-1])
        self._signals.wake(range(OUTBOX_BUCKETS))
        return count

    async def done(self, rows: Iterable[OutboxRow]) -> None:
        """Ends rows whose push every process that should has accepted.

        Raises:
            Unavailable: PostgreSQL is away; they are claimed again after the lease.
        """
        for bucket, some in _by_bucket(rows):
            await self._pool.execute(SQL_DONE, bucket, *_keys(some))
            self._metrics.outbox_delivered(len(some))

    async def retry(self, rows: Iterable[OutboxRow], error: str) -> None:
        """Lets rows be claimed again, later each time; those tried too often have failed for good.

        Raises:
            Unavailable: PostgreSQL is away; they are claimed again after the lease.
        """
        now_ms = self._now_ms()
        error = error[:_MAX_ERROR].replace("\0", "")
        for bucket, some in _by_bucket(rows):
            again = [row for row in some if row.attempts < self._max_attempts]
            failed = [row for row in some if row.attempts >= self._max_attempts]
            if again:
                delays = [min(_BACKOFF_MS << min(row.attempts, 20), _BACKOFF_MOST_MS) for row in again]
                times = [now_ms + delay for delay in delays]
                await self._pool.execute(SQL_RETRY, bucket, *_keys(again), times, error)
                self._metrics.outbox_retried(len(again))
            if failed:
                await self._pool.execute(SQL_FAIL, bucket, *_keys(failed), now_ms, error)
                self._metrics.outbox_failed(len(failed))

    async def stats(self) -> OutboxStats:
        """Returns how much is owed and failed."""
        row = await self._pool.fetchrow(SQL_STATS)
        failed = await self._pool.fetchval(SQL_COUNT_FAILED)
        assert row is not None
        return OutboxStats(row["waiting"], row["leased"], failed, row["oldest_ms"])

    async def failed(self, limit: int = 100) -> list[OutboxRow]:
        """Returns the pushes that failed for good, latest first."""
        return [OutboxRow(**row) for row in await self._pool.fetch(SQL_FAILED, limit)]

    async def requeue_failed(self) -> int:
        """Owes the failed pushes again; returns how many."""
        now_ms = self._now_ms()
        count = 0
        for bucket in range(OUTBOX_BUCKETS):
            async with self._pool.transaction() as connection:
                count += len(await connection.fetch(SQL_REQUEUE, bucket, now_ms))
        self._signals.wake(range(OUTBOX_BUCKETS))
        return count

    async def wait(self, timeout_s: float, buckets: Collection[int] | None = None) -> set[int]:
        """Returns the buckets, of *buckets* or of all, into which this process has committed since they were
        last returned; empty after *timeout_s*. Commits of other processes are found by looking.
        """
        return await self._signals.wait(timeout_s, buckets)

    async def _lease(self, bucket: int, limit: int) -> list[OutboxRow]:
        now_ms = self._now_ms()
        until_ms = now_ms + int(self._lease_s * 1000)
        start = self._next_user.get(bucket, 0)
        async with self._pool.transaction() as connection:
            await connection.fetchval(SQL_GATE, bucket)
            found = await connection.fetch(SQL_CLAIM, bucket, now_ms, start, _NO_USER, until_ms, limit)
            if len(found) < limit and start:
                found += await connection.fetch(
                    SQL_CLAIM, bucket, now_ms, 0, start, until_ms, limit - len(found)
                )
                start = 0
        rows = sorted((OutboxRow(**row) for row in found), key=lambda row: (row.target_user_id, row.pts))
        last = rows[-1].target_user_id + 1 if rows else 0
        self._next_user[bucket] = last if len(rows) == limit else 0
        return rows

    async def _events(self, rows: Sequence[OutboxRow]) -> dict[tuple[int, int], Event]:
        found = await self._pool.fetch(SQL_EVENTS, *_keys(rows))
        return {(row["user_id"], row["pts"]): event_from_row(row) for row in found}

    async def _heads(self, rows: Sequence[OutboxRow], events: dict[tuple[int, int], Event]) -> dict[int, int]:
        """Returns for each user up to which pts the log has no hole, at least as far as its rows go.

        As a rule the claimed events join on to the mark; only where they do not is the log walked.
        """
        users = {user_id: [row.pts for row in some] for user_id, some in groupby(rows, _target)}
        marks = await self._marks.load(users.keys())
        heads: dict[int, int] = {}
        apart: list[tuple[int, int, int]] = []
        for user_id, all_pts in users.items():
            mark = marks[user_id]
            for pts in all_pts:
                if pts - events[user_id, pts].pts_count <= mark:
                    mark = max(mark, pts)
            heads[user_id] = mark
            if mark < all_pts[-1]:
                apart.append((user_id, mark, all_pts[-1]))
            if mark > marks[user_id]:
                self._marks.follow(user_id, mark, ())
        if apart:
            walked = await self._pool.fetch(SQL_WALK_MANY, *map(list, zip(*apart, strict=True)))
            logs = {user_id: list(log) for user_id, log in groupby(walked, lambda row: row["user_id"])}
            for user_id, mark, _ in apart:
                log = [(row["pts"], row["pts_count"]) for row in logs.get(user_id, ())]
                heads[user_id], _ = self._marks.follow(user_id, mark, log)
        return heads

    async def _put_back(self, bucket: int, rows: Sequence[OutboxRow]) -> None:
        """Lets rows beyond a hole be claimed again soon, and has the bucket looked at then."""
        await self._pool.execute(SQL_PUT_BACK, bucket, *_keys(rows), self._now_ms() + _HOLE_PAUSE_MS)
        self._signals.wake_later(bucket, 1.2 * _HOLE_PAUSE_MS / 1000)

    async def _boxes(self, events: Iterable[Event]) -> dict[tuple[int, int], MessageBox]:
        wanted = [(event.user_id, event.box_id) for event in events if event.kind is EventKind.NEW_MESSAGE]
        if not wanted:
            return {}
        found: list[Record] = await self._pool.fetch(
            SQL_GET_MANY, *map(list, zip(*wanted, strict=True)), False
        )
        return {(row["owner_user_id"], row["box_id"]): box_from_row(row) for row in found}

    def _now_ms(self) -> int:
        return int(self._clock.time() * 1000)


def _target(row: OutboxRow) -> int:
    return row.target_user_id


def _keys(rows: Iterable[OutboxRow]) -> tuple[list[int], list[int]]:
    keys = sorted((row.target_user_id, row.pts) for row in rows)
    return [user_id for user_id, _ in keys], [pts for _, pts in keys]


def _by_bucket(rows: Iterable[OutboxRow]) -> Iterable[tuple[int, list[OutboxRow]]]:
    ordered = sorted(rows, key=lambda row: (row.bucket, row.target_user_id, row.pts))
    return [(bucket, list(some)) for bucket, some in groupby(ordered, lambda row: row.bucket)]
