"""The pushes that are owed, and who may deliver them.

Guarantees: a row is given to one claimant until its lease ends, and is there until `done`; the rows of one
account come in the order of pts as long as nothing fails, and never from beyond a hole in its log.

Concurrency: any number of workers and processes; claims of one bucket follow each other by its turn, and an
account whose first row is leased is passed over. Claims and ends do not wait for the disk: what a crash
of PostgreSQL makes undone is pushed twice, which clients notice by its pts.

*Spec: Working with Updates*
"""

# ruff: noqa: S608 - only column lists of this package are put in

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from telesrv.clock import Clock
from telesrv.domain.messages import MessageBox
from telesrv.domain.updates import OUTBOX_BUCKETS, Event, OutboxItem, OutboxRow, OutboxStats
from telesrv.store.boxes import COLUMNS, box_of
from telesrv.store.marks import Marks
from telesrv.store.metrics import NO_METRICS, StoreMetrics
from telesrv.store.pool import Connection, Pool
from telesrv.store.signals import Signals
from telesrv.store.updates import EVENT_COLUMNS, event_of

_HOLE_PAUSE_MS: Final = 50
_BACKOFF_MS: Final = 500
_BACKOFF_MOST_MS: Final = 300_000
_START: Final = (0, 0)
_MAX_ERROR: Final = 500
_MOST_BATCHES: Final = 10
"""In one claim, all of which is in memory: what a statement costs by itself is little then."""
_TURNS: Final = 4
"""How often a claim is tried against other processes' claims of the same bucket."""
_EVENT_WIDTH: Final = EVENT_COLUMNS.count(",") + 1

# Reads whose turn it is in some buckets.
SQL_TURNS: Final = """
SELECT bucket, turn FROM outbox_buckets WHERE bucket = ANY($1::smallint[])
"""
# Leases the next rows of some buckets, from account $6 of bucket $5 on, passing over accounts whose first row
# is leased. Only of buckets whose turn is still $2: the answer has a row without account for each of these.
SQL_CLAIM: Final = """
WITH turn AS MATERIALIZED (
    UPDATE outbox_buckets o SET turn = o.turn + 1
    FROM (
        SELECT b.bucket FROM unnest($1::smallint[], $2::bigint[]) AS q(bucket, turn)
        JOIN outbox_buckets b ON b.bucket = q.bucket AND b.turn = q.turn
        ORDER BY b.bucket FOR UPDATE OF b
    ) l
    WHERE o.bucket = l.bucket
    RETURNING o.bucket, set_config('synchronous_commit', 'off', true)
), claimed AS (
    UPDATE dispatch_outbox o
    SET leased = true, claimed_by = $8, attempts = o.attempts + 1, available_at_ms = $4
    FROM (
        SELECT c.bucket, c.target_user_id, c.pts FROM dispatch_outbox c
        WHERE c.bucket = ANY($1::smallint[]) AND c.bucket = ANY(ARRAY(SELECT bucket FROM turn))
            AND (c.bucket, c.target_user_id) >= ($5, $6) AND c.available_at_ms <= $3
            AND (
                SELECT NOT f.leased OR f.available_at_ms <= $3 FROM dispatch_outbox f
                WHERE f.bucket = c.bucket AND f.target_user_id = c.target_user_id ORDER BY f.pts LIMIT 1)
        ORDER BY c.bucket, c.target_user_id, c.pts LIMIT $7 FOR UPDATE SKIP LOCKED
    ) p
    WHERE o.bucket = p.bucket AND o.target_user_id = p.target_user_id AND o.pts = p.pts
    RETURNING o.bucket, o.target_user_id, o.pts, o.exclude_auth_key_id, o.exclude_session_id, o.attempts,
        o.last_error
)
SELECT bucket, NULL::bigint AS target_user_id, NULL::int AS pts, NULL::bigint AS exclude_auth_key_id,
    NULL::bigint AS exclude_session_id, NULL::smallint AS attempts, NULL::text AS last_error
FROM turn
UNION ALL
SELECT bucket, target_user_id, pts, exclude_auth_key_id, exclude_session_id, attempts, last_error FROM claimed
"""
# Tells which of the claimed rows have an event, and how many pts it covers.
SQL_LOGGED: Final = """
SELECT e.user_id, e.pts, e.pts_count FROM unnest($1::bigint[], $2::int[]) AS q(user_id, pts)
JOIN user_update_events e ON e.user_id = q.user_id AND e.pts = q.pts
"""
# Tells the same, and the stored marks of the users, for those whose mark is not known yet.
SQL_LOGGED_AND_MARKS: Final = """
SELECT e.user_id, e.pts, e.pts_count, coalesce(m.pts, 0)
FROM unnest($1::bigint[], $2::int[]) AS q(user_id, pts)
JOIN user_update_events e ON e.user_id = q.user_id AND e.pts = q.pts
LEFT JOIN update_marks m ON m.user_id = q.user_id
"""
# Reads the events of claimed rows, and the boxes that they speak of (kinds of `SHOWS_BOX`).
SQL_EVENTS: Final = f"""
SELECT {EVENT_COLUMNS}, {COLUMNS}
FROM unnest($1::bigint[], $2::int[]) AS q(user_id, pts)
JOIN user_update_events e ON e.user_id = q.user_id AND e.pts = q.pts
LEFT JOIN message_boxes b ON b.owner_user_id = e.user_id AND b.box_id = e.box_id AND e.kind IN (1, 8)
    AND NOT b.deleted
"""
# Walks the logs of some users, each from its mark to its last claimed pts.
SQL_WALK_MANY: Final = """
SELECT e.user_id, e.pts, e.pts_count
FROM unnest($1::bigint[], $2::int[], $3::int[]) AS q(user_id, after, upto)
JOIN user_update_events e ON e.user_id = q.user_id AND e.pts > q.after AND e.pts <= q.upto
ORDER BY e.user_id, e.pts
"""
# Lists rows of some accounts below a pts that are under way or could be.
SQL_OWED_BELOW: Final = """
SELECT o.target_user_id, o.pts
FROM unnest($1::smallint[], $2::bigint[], $3::int[]) AS q(bucket, user_id, upto)
JOIN dispatch_outbox o ON o.bucket = q.bucket AND o.target_user_id = q.user_id AND o.pts < q.upto
WHERE o.leased OR o.available_at_ms <= $4
"""
# Gives leased rows back as if they had not been claimed.
SQL_PUT_BACK: Final = """
UPDATE dispatch_outbox o SET leased = false, attempts = o.attempts - 1, available_at_ms = $4
FROM unnest($2::bigint[], $3::int[]) AS p(target_user_id, pts)
WHERE o.bucket = $1 AND o.target_user_id = p.target_user_id AND o.pts = p.pts AND o.leased
"""
# Ends the leases of a process in a bucket.
SQL_RELEASE: Final = """
UPDATE dispatch_outbox SET leased = false, available_at_ms = $2
WHERE bucket = $1 AND leased AND claimed_by = $3
"""
# Ends rows that were delivered.
SQL_DONE: Final = """
DELETE FROM dispatch_outbox o
USING unnest($1::smallint[], $2::bigint[], $3::int[]) AS p(bucket, target_user_id, pts)
WHERE o.bucket = p.bucket AND o.target_user_id = p.target_user_id AND o.pts = p.pts
    AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
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
# Tells for some buckets whether they have rows to claim, by a look at the first.
SQL_DUE: Final = """
SELECT b.bucket,
    EXISTS (SELECT 1 FROM dispatch_outbox o WHERE o.bucket = b.bucket AND o.available_at_ms <= $2) AS is_due
FROM outbox_buckets b WHERE b.bucket = ANY($1::smallint[])
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


async def release_leases(
    pool: Pool, now_ms: int, node: int, buckets: Collection[int] = range(OUTBOX_BUCKETS)
) -> int:
    """Lets rows be claimed that a process had leased; see `OutboxStore.release_leases`."""
    count = 0
    for bucket in buckets:
        status = await pool.execute(SQL_RELEASE, bucket, now_ms, node)
        count += int(status.rsplit(" ", 1)[-1])
    return count


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
        node: Callable[[], int],
        span: int,
        metrics: StoreMetrics = NO_METRICS,
    ) -> None:
        """Nothing happens yet.

        Args:
            node: tells the number of this process, by which its leases are known.
            span: how many buckets one statement may have to do with; 1 where they are on shards.
        """
        self._pool = pool
        self._metrics = metrics
        self._marks = marks
        self._signals = signals
        self._clock = clock
        self._batch = batch
        self._lease_s = lease_s
        self._max_attempts = max_attempts
        self._node = node
        self.span = span
        self._broken_off: dict[int, int] = {}
        """The account with which the next claim of a bucket starts, where the one before was full."""
        self._turns: dict[int, int] = {}

    @property
    def interruptions(self) -> int:
        """Changes when the server may have been restarted, and with it forgotten the latest `done`.

        `done` does not wait for its commit to be on disk. After a crash of the server its rows are there
        again, leased as they were: whoever claimed them calls `release_leases` for its own number.
        """
        return self._pool.ended.connections

    def limit(self, buckets: Collection[int]) -> int:
        """Returns how many rows a claim in *buckets* takes at most: the configured batch for each, of ten."""
        return self._batch * min(len(buckets), _MOST_BATCHES)

    async def claim(self, buckets: Collection[int], limit: int | None = None) -> list[OutboxRow]:
        """Returns the next rows of some buckets, leased, by bucket, account and pts.

        Buckets and accounts take turns from one full claim to the next. Rows beyond a hole are put back for a
        moment.

        Args:
            buckets: at most `span` of them; no other claim of this process is under way in one of them.
            limit: how many rows at most; that of `limit` when None.
        Raises:
            Unavailable: PostgreSQL is away; what was leased comes again after the lease.
        """
        if not buckets:
            return []
        limit = limit or self.limit(buckets)
        start = next(
            ((bucket, self._broken_off.pop(bucket)) for bucket in buckets if bucket in self._broken_off),
            _START,
        )
        moves = self._marks.moves
        async with self._pool.acquire() as connection:
            rows = await self._lease(connection, buckets, start, limit)
            if not rows and start != _START:
                start = _START
                rows = await self._lease(connection, buckets, start, limit)
            if not rows:
                return []
            logged = await self._logged(connection, rows)
        if len(rows) == limit:
            self._broken_off[rows[-1].bucket] = _next_user(rows)
        elif start != _START:
            self._signals.wake(buckets)  # there may be more, before where this one started
        heads = await self._marks.load({row.target_user_id: None for row in rows})
        # A mark that moved meanwhile may be ahead of rows that the claim did not see yet.
        late = self._marks.moved_since(moves, heads)
        claimed: list[OutboxRow] = []
        moved: set[int] = set()
        apart: list[OutboxRow] = []
        orphans: list[OutboxRow] = []
        for row in rows:
            user_id, pts = row.target_user_id, row.pts
            pts_count = logged.get((user_id, pts))
            if pts_count is None:  # on shards, half of a transaction is visible for a moment
                orphans.append(row)
            elif user_id in late:
                apart.append(row)
            elif pts <= heads[user_id]:
                claimed.append(row)
            elif pts - pts_count <= heads[user_id]:
                heads[user_id] = pts
                moved.add(user_id)
                claimed.append(row)
            else:
                apart.append(row)
        for user_id in moved:
            self._marks.follow(user_id, heads[user_id], ())
        if orphans:
            await self.retry(orphans, "no such event")
        if apart:
            claimed = await self._joined(claimed, apart, heads)
        if len(claimed) < len(rows) == limit:
            self._signals.wake(buckets)  # it was full, and does not look so
        self._metrics.outbox_claimed(len(claimed))
        return claimed

    async def read(self, rows: Sequence[OutboxRow]) -> list[OutboxItem]:
        """Returns claimed rows in their order with their events and boxes; those whose event is gone, with
        its account, are left out.

        Raises:
            Unavailable: PostgreSQL is away; the rows come again after the lease.
        """
        found = await self._pool.fetch(SQL_EVENTS, *_columns(rows))
        known = {(values[0], values[1]): tuple(values) for values in found}
        return [OutboxItem(row, *_event_and_box(known[key])) for row in rows if (key := _key(row)) in known]

    async def due(self, buckets: Collection[int]) -> set[int]:
        """Returns which of *buckets* have rows to claim now, by one statement.

        Raises:
            Unavailable: PostgreSQL is away.
        """
        rows = await self._pool.fetch(SQL_DUE, sorted(buckets), self._now_ms())
        return {row["bucket"] for row in rows if row["is_due"]}

    async def release_leases(self, node: int, buckets: Collection[int] = range(OUTBOX_BUCKETS)) -> int:
        """Lets rows be claimed that the process *node*, which is gone, had leased; returns how many.

        Of a process that is not gone it makes pushes come twice, unless nothing of *buckets* is under way
        there.
        """
        count = await release_leases(self._pool, self._now_ms(), node, buckets)
        self._signals.wake(buckets)
        return count

    async def done(self, rows: Iterable[OutboxRow]) -> None:
        """Ends rows whose push every process that should has accepted.

        Raises:
            Unavailable: PostgreSQL is away; they are claimed again after the lease.
        """
        for some in [list(rows)] if self.span > 1 else [some for _, some in _by_bucket(rows)]:
            await self._pool.execute(SQL_DONE, sorted(row.bucket for row in some), *_columns(some))
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
                await self._pool.execute(SQL_RETRY, bucket, *_columns(again), times, error)
                self._signals.wake_later(bucket, min(delays) / 1000)
                self._metrics.outbox_retried(len(again))
            if failed:
                await self._pool.execute(SQL_FAIL, bucket, *_columns(failed), now_ms, error)
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

    async def wait(self, timeout_s: float, buckets: Collection[int]) -> set[int]:
        """Returns those of *buckets* into which this process has committed since they were last returned;
        empty after *timeout_s*. Commits of other processes are found by looking.
        """
        return await self._signals.wait(timeout_s, buckets)

    async def _lease(
        self, connection: Connection, buckets: Collection[int], start: tuple[int, int], limit: int
    ) -> list[OutboxRow]:
        """Leases rows from (bucket, account) *start* on in one statement, and one more for each turn of
        another process.

        What a claim sees is of the moment it begins; the turn proves that nobody has leased rows since, so
        that it does not take an account's later rows while the earlier ones are another's.
        """
        left = sorted(buckets)
        for _ in range(_TURNS):
            if unknown := [bucket for bucket in left if bucket not in self._turns]:
                for row in await connection.fetch(SQL_TURNS, unknown):
                    self._turns[row["bucket"]] = row["turn"]
            turns = {bucket: self._turns.pop(bucket) for bucket in left}
            now_ms = self._now_ms()
            until_ms = now_ms + int(self._lease_s * 1000)
            found = await connection.fetch(
                SQL_CLAIM, left, list(turns.values()), now_ms, until_ms, *start, limit, self._node()
            )
            rows = [OutboxRow._make(row) for row in found if row[1] is not None]
            self._turns.update((row[0], turns[row[0]] + 1) for row in found if row[1] is None)
            left = [bucket for bucket in left if bucket not in self._turns]
            if rows or not left:
                self._signals.wake(left)
                return sorted(rows)
        for bucket in left:
            self._signals.wake_later(bucket, _HOLE_PAUSE_MS / 1000)
        return []

    async def _logged(self, connection: Connection, rows: Sequence[OutboxRow]) -> dict[tuple[int, int], int]:
        """Returns by account and pts, for those of *rows* that have an event, how many pts it covers."""
        users, pts = _columns(rows)
        if not self._marks.unknown(set(users)):
            return {(row[0], row[1]): row[2] for row in await connection.fetch(SQL_LOGGED, users, pts)}
        found = await connection.fetch(SQL_LOGGED_AND_MARKS, users, pts)
        for user_id, mark in {row[0]: row[3] for row in found}.items():
            self._marks.learn(user_id, mark)
        return {(row[0], row[1]): row[2] for row in found}

    async def _joined(
        self, claimed: list[OutboxRow], apart: Sequence[OutboxRow], heads: dict[int, int]
    ) -> list[OutboxRow]:
        """Adds those of *apart* up to which the log has no hole and nothing else is owed, and puts the others
        back: the log is of a later moment than the claim.

        As a rule claimed events join on to the mark; only where they do not is the log walked.
        """
        last = {row.target_user_id: row for row in apart}
        walks = [(user_id, heads[user_id], row.pts) for user_id, row in last.items()]
        walked = await self._pool.fetch(SQL_WALK_MANY, *map(list, zip(*walks, strict=True)))
        logs = {user_id: list(log) for user_id, log in groupby(walked, lambda row: row["user_id"])}
        for user_id, mark, _ in walks:
            log = [(row["pts"], row["pts_count"]) for row in logs.get(user_id, ())]
            heads[user_id], _ = self._marks.follow(user_id, mark, log)
        owed = [list(column) for column in zip(*(row[:3] for row in last.values()), strict=True)]
        here = {_key(row) for row in (*claimed, *apart)}
        for user_id, pts in await self._pool.fetch(SQL_OWED_BELOW, *owed, self._now_ms()):
            if (user_id, pts) not in here:
                heads[user_id] = min(heads[user_id], pts - 1)
        beyond = [row for row in apart if row.pts > heads[row.target_user_id]]
        for bucket, some in _by_bucket(beyond):
            await self._put_back(bucket, some)
        return sorted(claimed + [row for row in apart if row.pts <= heads[row.target_user_id]])

    async def _put_back(self, bucket: int, rows: Sequence[OutboxRow]) -> None:
        """Lets rows beyond a hole be claimed again, together with what fills it, and has the bucket looked at
        soon."""
        await self._pool.execute(SQL_PUT_BACK, bucket, *_columns(rows), self._now_ms())
        self._signals.wake_later(bucket, 1.2 * _HOLE_PAUSE_MS / 1000)

    def _now_ms(self) -> int:
        return int(self._clock.time() * 1000)


def _event_and_box(values: tuple[Any, ...]) -> tuple[Event, MessageBox | None]:
    box = values[_EVENT_WIDTH:]
    return event_of(values[:_EVENT_WIDTH]), None if box[0] is None else box_of(box)


def _next_user(rows: Sequence[OutboxRow]) -> int:
    """Returns where the claim after a full one starts: with the account in which it broke off, unless that
    account had all of it."""
    first, last = rows[0].target_user_id, rows[-1].target_user_id
    return last if first != last else last + 1


_key: Final[Callable[[OutboxRow], tuple[int, int]]] = attrgetter("target_user_id", "pts")


def _columns(rows: Iterable[OutboxRow]) -> tuple[list[int], list[int]]:
    """Returns accounts and pts of rows, in their order."""
    rows = sorted(rows)
    return [row.target_user_id for row in rows], [row.pts for row in rows]


def _by_bucket(rows: Iterable[OutboxRow]) -> Iterable[tuple[int, list[OutboxRow]]]:
    for bucket, some in groupby(sorted(rows), attrgetter("bucket")):
        yield bucket, list(some)
