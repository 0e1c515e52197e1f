"""The floor: the same batches and the same rows, their arrays made beforehand, sent one after the other.

What the store adds to it is its own work: the queue, the verdicts, the ids, the arrays, the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, NamedTuple

from loadtest.world import SHIFT
from telesrv.clock import SystemClock
from telesrv.domain.messages import SendRequest
from telesrv.domain.peers import Peer
from telesrv.domain.updates import OUTBOX_BUCKETS
from telesrv.store import Store
from telesrv.store.ids import RESERVED, Grant, MessageIds
from telesrv.store.ids import take_columns as id_columns
from telesrv.store.outbox import SQL_CLAIM, SQL_DONE, SQL_LOGGED, SQL_TURNS
from telesrv.store.send import SQL_LOOK_UP, look_up_columns
from telesrv.store.send_rows import SQL_WRITE, Verdict, rows_of, wants_of

_OWED = """
SELECT bucket, target_user_id, pts FROM dispatch_outbox ORDER BY created_at_ms, bucket, target_user_id, pts
"""
_REINSERT = """
INSERT INTO dispatch_outbox
    (bucket, target_user_id, pts, exclude_auth_key_id, exclude_session_id, created_at_ms)
SELECT bucket, target_user_id, pts, 0, 0, 0
FROM unnest($1::smallint[], $2::bigint[], $3::int[]) AS o(bucket, target_user_id, pts)
"""


@dataclass(frozen=True, slots=True)
class SendBatch:
    """The arguments of the three round trips of one batch."""

    look_up: list[Any]
    keys: list[str]
    ids: list[Any]
    write: list[Any]


class _Claim(NamedTuple):
    """The arguments of the three round trips of one batch of the outbox."""

    start: tuple[int, int]
    buckets: list[int]
    users: list[int]
    pts: list[int]


def prepare_sends(batches: Sequence[Sequence[SendRequest]]) -> list[SendBatch]:
    """Makes the arrays of *batches* for the accounts that stand for theirs; their counters are at 0."""
    counters: dict[int, int] = {}
    message_ids = MessageIds(SystemClock(), node=2)
    settled: list[bytes] = []
    prepared = []
    for batch in batches:
        requests = [_shifted(request) for request in batch]
        live = dict.fromkeys(range(len(requests)), Verdict(reaches=True))
        wants = wants_of(requests, live)
        grants: dict[int, Grant] = {}
        for want in wants:
            last = counters[want.user_id] = counters.get(want.user_id, 0) + want.pts
            grants[want.user_id] = Grant(want.user_id, last, want.pts, last, want.box_ids)
        keys, args = id_columns(wants, {}, settled, now_ms=0)
        settled = [grant.note for grant in grants.values()]
        _, columns, *_ = rows_of(requests, live, grants, message_ids, 0)
        prepared.append(SendBatch(look_up_columns(requests), keys, args, columns))
    return prepared


async def run_sends(store: Store, batches: Sequence[SendBatch]) -> float:
    """Returns the seconds that the prepared batches take."""
    started = perf_counter()
    async with store.pool.acquire() as connection:
        for batch in batches:
            await connection.fetch(SQL_LOOK_UP, *batch.look_up)
            await store.redis.script("take_ids", batch.keys, batch.ids)
            await connection.execute(SQL_WRITE, *batch.write)
    seconds = perf_counter() - started
    await store.redis.client.delete(store.redis.key(RESERVED))
    return seconds


async def owed(store: Store) -> list[tuple[int, int, int]]:
    """Returns (bucket, target_user_id, pts) of each push that is owed, in the order in which they were
    written."""
    return [tuple(row) for row in await store.pool.fetch(_OWED)]


async def owe_again(store: Store, rows: Sequence[tuple[int, int, int]]) -> None:
    """Writes rows that `owed` returned, in their order."""
    await store.pool.execute(_REINSERT, *map(list, zip(*rows, strict=True)))


async def run_drain(
    store: Store, rows: Sequence[tuple[int, int, int]], *, workers: int, batch: int
) -> tuple[float, int]:
    """Returns the seconds that claiming and ending *rows* takes, and how many were claimed.

    The batches, of *batch* rows, are those that the store makes of them, in as many workers.
    """
    batches: list[list[_Claim]] = []
    for worker in range(workers):
        own = sorted(row for row in rows if row[0] % workers == worker)
        parts = [own[first : first + batch] for first in range(0, len(own), batch)]
        starts = [(0, 0), *(part[-1][:2] for part in parts[:-1])]
        batches.append(
            [
                _Claim(start, *map(list, zip(*part, strict=True)))
                for start, part in zip(starts, parts, strict=True)
            ]
        )

    async def work(worker: int) -> int:
        claimed = 0
        buckets = sorted(buckets_of(worker, workers, OUTBOX_BUCKETS))
        async with store.pool.acquire() as connection:
            turns = {row["bucket"]: row["turn"] for row in await connection.fetch(SQL_TURNS, buckets)}
            moved = [turns[bucket] for bucket in buckets]
            for start, owning, users, pts in batches[worker]:
                found = await connection.fetch(
                    SQL_CLAIM, buckets, moved, 2**62, 2**62 + 1, *start, len(users), 1
                )
                moved = [turn + 1 for turn in moved]
                claimed += len(found) - len(buckets)
                await connection.fetch(SQL_LOGGED, users, pts)
                await connection.execute(SQL_DONE, owning, users, pts)
        return claimed

    started = perf_counter()
    counts = await asyncio.gather(*map(work, range(workers)))
    return perf_counter() - started, sum(counts)


def _shifted(request: SendRequest) -> SendRequest:
    return replace(
        request,
        sender_user_id=request.sender_user_id + SHIFT,
        peer=Peer.user(request.peer.id + SHIFT),
    )


def buckets_of(worker: int, workers: int, buckets: int) -> frozenset[int]:
    """Returns the buckets of one of several workers."""
    return frozenset(range(worker, buckets, workers))
