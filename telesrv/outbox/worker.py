"""Dispatch workers: claim owed pushes, hand them to the sessions, delete the rows.

Guarantees: a row is deleted only after every session of the account, in whichever process, has the update in
its mailbox; a push that fails is tried again with backoff and ends in the failed state that an operator sees.
Per account, pushes go out in pts order while nothing fails, and never past a hole in pts. Concurrency:
every bucket belongs to one worker of this process, so no two of them push to one account. Lifecycle:
`start`, then `stop`, which finishes the batch under way.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter

import structlog

from telesrv.domain.errors import Unavailable
from telesrv.domain.updates import OUTBOX_BUCKETS, OutboxRow
from telesrv.gateway.hub import SessionHub
from telesrv.gateway.node import Node
from telesrv.gateway.peers import NodeSilent
from telesrv.outbox.turns import Turns
from telesrv.rpc.pushes import Push, PushBuilder
from telesrv.store import Store

log = structlog.get_logger(__name__)

_RESTART_DELAY_S = 1.0
_SWEEP_INTERVAL_S = 1.0
_STOP_S = 3.0
"""For the batches under way at shutdown."""


class OutboxDispatcher:
    """Runs the workers of one process."""

    def __init__(
        self,
        store: Store,
        builder: PushBuilder,
        hub: SessionHub,
        node: Node,
        *,
        workers: int,
        interval_s: float,
    ) -> None:
        self._store = store
        self._builder = builder
        self._hub = hub
        self._node = node
        self._workers = workers
        self._interval_s = interval_s
        self._turns = Turns(_STOP_S)

    def start(self) -> None:
        """Starts the workers."""
        for index in range(self._workers):
            own = frozenset(range(index, OUTBOX_BUCKETS, self._workers))
            self._turns.begin(f"outbox worker {index}", partial(self._run, own), _RESTART_DELAY_S)
        self._turns.begin("the sweeper", self._sweep, _SWEEP_INTERVAL_S)

    async def stop(self) -> None:
        """Finishes the batches under way and ends the workers."""
        await self._turns.stop()

    async def _run(self, own: frozenset[int]) -> bool:
        """Dispatches some buckets until it is told to stop: one turn, as long as nothing fails."""
        outbox, clock = self._store.outbox, asyncio.get_running_loop()
        interruptions, looked_at = -1, 0.0
        stopping = asyncio.ensure_future(self._turns.stopping.wait())
        try:
            buckets: set[int] = set()
            while not self._turns.stopping.is_set():
                if outbox.interruptions != interruptions:
                    # What is leased to this number now was lost track of: nothing is under way here.
                    interruptions = outbox.interruptions
                    await outbox.release_leases(self._node.number, own)
                    looked_at = 0.0
                # What others commit, end or lose wakes nobody here, however busy these buckets are.
                if clock.time() - looked_at >= self._interval_s:
                    looked_at = clock.time()
                    buckets |= await outbox.due(own)
                # A full batch leaves more behind it; what had less is looked at when it is woken again.
                buckets = await self._dispatch(sorted(buckets))
                if buckets:
                    buckets |= await outbox.wait(0, own)
                    continue
                left_s = max(0.0, looked_at + self._interval_s - clock.time())
                waking = asyncio.ensure_future(outbox.wait(left_s, own))
                await asyncio.wait({waking, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not waking.done():
                    waking.cancel()
                    break
                buckets = waking.result()
        finally:
            stopping.cancel()
        return False

    async def _sweep(self) -> bool:
        """Fills what writers that died have left reserved."""
        filled = await self._store.updates.sweep()
        if filled:
            log.warning("filled pts that a dead writer had reserved", count=filled)
        return False

    async def _dispatch(self, buckets: Sequence[int]) -> set[int]:
        """Pushes one batch of them; returns those that may hold more."""
        span, more = self._store.outbox.span, set[int]()
        for first in range(0, len(buckets), span):
            if await self._dispatch_batch(some := buckets[first : first + span]):
                more.update(some)
        return more

    async def _dispatch_batch(self, buckets: Sequence[int]) -> bool:
        """Pushes one batch; tells whether it was full."""
        rows = await self._store.outbox.claim(buckets)
        if not rows:
            return False
        by_user = {user_id: list(owed) for user_id, owed in groupby(rows, attrgetter("target_user_id"))}
        failed: dict[int, str] = {}
        for part in _parts(by_user, self._store.config.outbox_batch):
            failed |= await self._push(part)
        for user_id, problem in failed.items():
            await self._store.outbox.retry(by_user.pop(user_id), problem)
        done = [row for owed in by_user.values() for row in owed]
        if done:
            await self._store.outbox.done(done)
        return len(rows) >= self._store.outbox.limit(buckets)

    async def _push(self, owed: Mapping[int, Sequence[OutboxRow]]) -> dict[int, str]:
        """Hands the pushes of one batch to every process that holds sessions; returns what failed, by
        account. Of accounts that have no session anywhere nothing more is read."""
        remote = await self._node.remote_holders(list(owed))
        there: defaultdict[int, list[tuple[int, Push]]] = defaultdict(list)
        failed: dict[int, str] = {}
        wanted = [row for u, rows in owed.items() if u in remote or self._hub.has_sessions(u) for row in rows]
        items = await self._store.outbox.read(wanted) if wanted else ()
        shown = {u: list(some) for u, some in groupby(items, attrgetter("row.target_user_id"))}
        for user_id, built in (await self._builder.build_many(shown)).items() if shown else ():
            if isinstance(built, Exception):
                log.error("a push could not be made", user_id=user_id, exc_info=built)
                failed[user_id] = type(built).__name__
                continue
            try:
                self._node.push_here(user_id, built)
            except Exception as error:
                log.exception("a push could not be written", user_id=user_id)
                failed[user_id] = type(error).__name__
                continue
            for node in remote.get(user_id, ()):
                there[node].extend((user_id, push) for push in built)
        outcomes = await asyncio.gather(
            *(self._node.push_there(node, pushes) for node, pushes in there.items()), return_exceptions=True
        )
        for sent, outcome in zip(there.values(), outcomes, strict=True):
            if isinstance(outcome, BaseException):
                if not isinstance(outcome, NodeSilent | Unavailable):
                    raise outcome
                failed.update((user_id, str(outcome)) for user_id, _ in sent)
        return failed


def _parts(owed: Mapping[int, Sequence[OutboxRow]], size: int) -> Iterator[dict[int, Sequence[OutboxRow]]]:
    """Splits what is owed between accounts, into parts of *size* rows or little more."""
    part: dict[int, Sequence[OutboxRow]] = {}
    count = 0
    for user_id, rows in owed.items():
        part[user_id] = rows
        count += len(rows)
        if count >= size:
            yield part
            part, count = {}, 0
    if part:
        yield part
