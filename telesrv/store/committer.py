"""The group committer: sends wait in a bounded queue and are committed together.

Guarantees: a message is written once and its caller hears of it after the commit; messages of one sender
keep the order of their calls; repeats of one (sender, random_id) follow each other, so that the later ones
find the first. An idle store commits at once, a busy one in batches of what came in during the last commit:
there is no timer.

Concurrency: one task writes one batch at a time. A caller that is cancelled does not undo its message.
Lifecycle: `start`, then `close`, which takes nothing new and writes what waits.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from telesrv.domain.errors import DomainError, Unavailable
from telesrv.domain.messages import SendRequest, SentMessage
from telesrv.domain.peers import SERVICE_USER_ID
from telesrv.store.metrics import NO_METRICS, StoreMetrics
from telesrv.store.send import BatchWriter, Outcome

QUEUE_SIZE: Final = 4096
"""About a second of work for a busy server; who comes later waits outside, bounded."""
BATCH_SIZE: Final = 256
_DRAIN_S: Final = 15


@dataclass(eq=False, slots=True)
class _Item:
    """One send on its way."""

    request: SendRequest
    done: asyncio.Future[SentMessage]
    key: object = field(init=False)

    def __post_init__(self) -> None:
        sender = self.request.sender_user_id
        self.key = self if sender == SERVICE_USER_ID else (sender, self.request.random_id)


class Committer:
    """Owns the queue and the task that empties it."""

    def __init__(self, writer: BatchWriter, wait_s: float, metrics: StoreMetrics = NO_METRICS) -> None:
        self._writer = writer
        self._wait_s = wait_s
        self._metrics = metrics
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(QUEUE_SIZE)
        self._repeats: list[_Item] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        """Begins to take sends."""
        self._task = asyncio.create_task(self._run(), name="committer")

    async def close(self) -> None:
        """Writes what waits, bounded; later sends are `Unavailable`."""
        self._closed = True
        if self._task is None:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._queue.join(), _DRAIN_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._fail_rest()

    async def send(self, request: SendRequest) -> SentMessage:
        """Returns what became of the message, once it is committed.

        Raises:
            DomainError: what refuses it; nothing was written.
            Unavailable: a server stayed away, or the queue stayed full; a repeat finds what was written.
        """
        if self._closed:
            raise Unavailable("the store is closing")
        item = _Item(request, asyncio.get_running_loop().create_future())
        item.done.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(self._wait_s):
                await self._queue.put(item)
            async with asyncio.timeout(4 * self._wait_s):
                return await asyncio.shield(item.done)
        except TimeoutError as error:
            raise Unavailable("too many messages wait") from error

    async def _run(self) -> None:
        while True:
            batch = await self._next_batch()
            try:
                await self._commit(batch)
            finally:
                for _ in batch:
                    self._queue.task_done()

    async def _next_batch(self) -> list[_Item]:
        """Takes what waits; a repeat of a message of this batch is kept for the next."""
        waiting, self._repeats = self._repeats, []
        if not waiting:
            waiting.append(await self._queue.get())
        while len(waiting) < BATCH_SIZE and not self._queue.empty():
            waiting.append(self._queue.get_nowait())
        batch: dict[object, _Item] = {}
        for item in waiting:
            if item.key in batch:
                self._repeats.append(item)
            else:
                batch[item.key] = item
        return list(batch.values())

    async def _commit(self, batch: list[_Item]) -> None:
        """Gives each item its outcome; one that the database cannot take at all fails alone."""
        started = asyncio.get_running_loop().time()
        try:
            outcomes = await self._writer.send([item.request for item in batch])
        except Unavailable as error:
            self._fail(batch, error)
        except Exception as error:
            if len(batch) == 1:
                self._fail(batch, error)
                return
            for item in batch:
                await self._commit([item])
        else:
            self._metrics.batch(len(batch), asyncio.get_running_loop().time() - started)
            for result, count in Counter(map(_result, outcomes)).items():
                self._metrics.message(result, count)
            for item, outcome in zip(batch, outcomes, strict=True):
                if item.done.done():
                    continue
                if isinstance(outcome, DomainError):
                    item.done.set_exception(outcome)
                else:
                    item.done.set_result(outcome)

    def _fail(self, batch: list[_Item], error: Exception) -> None:
        self._metrics.message("failed", len(batch))
        for item in batch:
            if not item.done.done():
                item.done.set_exception(error)

    def _fail_rest(self) -> None:
        rest, self._repeats = self._repeats, []
        while not self._queue.empty():
            rest.append(self._queue.get_nowait())
        self._fail(rest, Unavailable("the store closed"))


def _result(outcome: Outcome) -> str:
    """Returns what is counted for an outcome."""
    if isinstance(outcome, DomainError):
        return "refused"
    return "repeated" if outcome.duplicate else "sent"
