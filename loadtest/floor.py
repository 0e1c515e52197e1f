"""The floor: the same batches and the same rows, their arrays made beforehand, sent one after the other.

What the store adds to it is its own work: the queue, the verdicts, the ids, the arrays, the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from loadtest.world import SHIFT
from telesrv.clock import SystemClock
from telesrv.domain.messages import SendRequest
from telesrv.domain.peers import Peer
from telesrv.domain.updates import OutboxRow
from telesrv.store import Store
from telesrv.store.ids import RESERVED, Grant, MessageIds
from telesrv.store.ids import take_columns as id_columns
from telesrv.store.outbox import SQL_CLAIM, SQL_DONE, SQL_EVENTS, SQL_TURNS
from telesrv.store.send import SQL_LOOK_UP, look_up_columns
from telesrv.store.send_rows import SQL_WRITE, Verdict, rows_of, wants_of

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
        _, columns, _ = rows_of(requests, live, grants, message_ids, 0)
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


async def run_drain(
    store: Store, claims: Sequence[Sequence[tuple[int, Sequence[OutboxRow]]]]
) -> tuple[float, int]:
    """Owes the rows of *claims* again; returns the seconds that the same claims and ends take, and how many
    rows were claimed.

    Args:
        claims: for each worker the (bucket, rows) that it claimed, in order.
    """
    rows = sorted(
        (row.bucket, row.target_user_id, row.pts) for one in claims for _, some in one for row in some
    )
    await store.pool.execute(_REINSERT, *map(list, zip(*rows, strict=True)))
    prepared = [
        [(bucket, [row.target_user_id for row in some], [row.pts for row in some]) for bucket, some in one]
        for one in claims
    ]

    async def work(own: Sequence[tuple[int, list[int], list[int]]]) -> int:
        claimed = 0
        async with store.pool.acquire() as connection:
            turns = {
                row["bucket"]: row["turn"]
                for row in await connection.fetch(SQL_TURNS, sorted({bucket for bucket, _, _ in own}))
            }
            for bucket, users, pts in own:
                found = await connection.fetch(
                    SQL_CLAIM, bucket, 2**62, users[0], users[-1] + 1, 2**62 + 1, len(users), turns[bucket], 1
                )
                turns[bucket] += 1
                claimed += len(found) - 1
                await connection.fetch(SQL_EVENTS, users, pts)
                await connection.execute(SQL_DONE, bucket, users, pts)
        return claimed

    started = perf_counter()
    counts = await asyncio.gather(*map(work, prepared))
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
