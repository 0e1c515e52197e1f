"""The floor: the same batches and the same rows, their arrays made beforehand, sent one after the other.

What the store adds to it is its own work: the queue, the verdicts, the ids, the arrays, the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from time import perf_counter
from typing import Any, NamedTuple

from loadtest.world import SHIFT
from telesrv.clock import SystemClock
from telesrv.domain.messages import SendRequest
from telesrv.domain.peers import Peer
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

    bucket: int
    start: int
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

    The batches are those that the store would make of them, in as many workers.
    """
    batches: list[list[_Claim]] = [[] for _ in range(workers)]
    for bucket, some in groupby(sorted(rows), itemgetter(0)):
        start = 0
        for part in _batched([(user_id, pts) for _, user_id, pts in some], batch):
            users, ptss = map(list, zip(*part, strict=True))
            batches[bucket % workers].append(_Claim(bucket, start, users, ptss))
            start = users[-1]

    async def work(own: Sequence[_Claim]) -> int:
        claimed = 0
        async with store.pool.acquire() as connection:
            turns = {
                row["bucket"]: row["turn"]
                for row in await connection.fetch(SQL_TURNS, sorted({claim.bucket for claim in own}))
            }
            for bucket, start, users, pts in own:
                found = await connection.fetch(
                    SQL_CLAIM, bucket, 2**62, start, 2**63 - 1, 2**62 + 1, len(users), turns[bucket], 1
                )
                turns[bucket] += 1
                claimed += len(found) - 1
                await connection.fetch(SQL_LOGGED, users, pts)
                await connection.execute(SQL_DONE, bucket, users, pts)
        return claimed

    started = perf_counter()
    counts = await asyncio.gather(*map(work, batches))
    return perf_counter() - started, sum(counts)


def _batched(keys: Sequence[tuple[int, int]], size: int) -> Iterator[Sequence[tuple[int, int]]]:
    return (keys[first : first + size] for first in range(0, len(keys), size))


def _shifted(request: SendRequest) -> SendRequest:
    return replace(
        request,
        sender_user_id=request.sender_user_id + SHIFT,
        peer=Peer.user(request.peer.id + SHIFT),
    )


def buckets_of(worker: int, workers: int, buckets: int) -> frozenset[int]:
    """Returns the buckets of one of several workers."""
    return frozenset(range(worker, buckets, workers))
