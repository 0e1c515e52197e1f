"""The group committer: requests wait in a bounded queue and are committed together.

Guarantees: a request is written once and its caller hears of it after the commit; requests of one account
keep the order of their calls; repeats of one key follow each other, so that the later ones find the first. An
idle store commits at once, a busy one in batches of what came in during the last commit: there is no timer.

Concurrency: one batch is written at a time. When enough waits, the next one is prepared (looked up, given its
ids) meanwhile, and written only after the one before it has committed: should that one have to take new ids,
what was prepared behind it is discarded, so that ids rise in the order of the calls. No request of the next
batch has a key of the one under way, so it cannot miss a duplicate. A caller that is cancelled does not undo
its message. Lifecycle: `start`, then `close`, which takes nothing new and writes what waits.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from telesrv.domain.errors import DomainError, Unavailable
from telesrv.store.metrics import NO_METRICS, StoreMetrics

QUEUE_SIZE: Final = 4096
"""About a second of work for a busy server; who comes later waits outside, bounded."""
BATCH_SIZE: Final = 160
"""Half of what a busy server has waiting: one batch is prepared while the other is written."""
AHEAD: Final = 48
"""With fewer waiting the next batch is not prepared ahead: it would be small, and only grows by waiting."""
_DRAIN_S: Final = 15

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")
TakenT = TypeVar("TakenT", contravariant=True)  # noqa: PLC0105
GivenT = TypeVar("GivenT", covariant=True)  # noqa: PLC0105


class Writer(Protocol[TakenT, GivenT]):
    """What a committer commits by."""

    def key(self, request: TakenT) -> Hashable | None:
        """Returns what no two requests of a batch may share; None: nothing."""

    async def prepare(self, requests: Sequence[TakenT]) -> Any:
        """Makes a batch ready to be written; it is written or discarded."""

    async def write(self, prepared: Any) -> tuple[Sequence[GivenT | DomainError], bool]:
        """Returns the outcomes, and whether the ids are other ones than were prepared."""

    async def discard(self, prepared: Any) -> None:
        """Gives up what was prepared."""


@dataclass(eq=False, slots=True)
class _Item(Generic[RequestT, ResultT]):
    """One request on its way."""

    request: RequestT
    owner: int
    key: Hashable
    done: asyncio.Future[ResultT]
    ended: asyncio.Future[None] | None = None
    """For those who wait for its end, whatever became of its caller."""


class Committer(Generic[RequestT, ResultT]):
    """Owns the queue and the task that empties it."""

    def __init__(
        self,
        writer: Writer[RequestT, ResultT],
        wait_s: float,
        metrics: StoreMetrics = NO_METRICS,
        *,
        count: Callable[[Any], str] | None = None,
    ) -> None:
        """Nothing happens yet.

        Args:
            wait_s: how long a caller waits outside a full queue, and four times that for its outcome.
            count: what an outcome is counted as; None: neither outcomes nor batches are counted.
        """
        self._writer = writer
        self._wait_s = wait_s
        self._metrics = metrics
        self._count = count
        self._queue: deque[_Item[RequestT, ResultT]] = deque()
        self._repeats: list[_Item[RequestT, ResultT]] = []
        self._last: dict[int, _Item[RequestT, ResultT]] = {}
        self._under_way: set[Hashable] = set()
        self._writing: asyncio.Task[bool] | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._door = asyncio.Lock()
        self._room = asyncio.Event()
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many requests wait to be written."""
        return len(self._queue) + len(self._repeats)

    def start(self) -> None:
        """Begins to take requests."""
        self._task = asyncio.create_task(self._run(), name="committer")

    async def close(self) -> None:
        """Writes what waits, bounded; later requests are `Unavailable`."""
        self._closed = True
        self._changed.set()
        if self._task is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                await asyncio.shield(self._task)
        tasks = [task for task in (self._task, self._writing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fail([*self._repeats, *self._queue], Unavailable("the store closed"))

    async def commit(self, owner: int, request: RequestT) -> ResultT:
        """Returns what became of the request, once it is committed.

        Raises:
            DomainError: what refuses it; nothing was written.
            Unavailable: a server stayed away, or the queue stayed full; a repeat finds what was written.
        """
        if self._closed:
            raise Unavailable("the store is closing")
        loop = asyncio.get_running_loop()
        key = self._writer.key(request)
        item = _Item(request, owner, key, loop.create_future())
        if item.key is None:
            item.key = item
        if len(self._queue) >= QUEUE_SIZE or self._door.locked():
            await self._wait_outside(item)
        else:
            self._enter(item)
        expiry = loop.call_later(4 * self._wait_s, _expire, item.done)
        try:
            result: ResultT = await item.done
            return result
        finally:
            expiry.cancel()

    async def settled(self, owner: int) -> None:
        """Returns once every request of *owner* that was made before has its outcome, whatever it is, also
        when its caller did not stay for it; or after as long as a caller waits.
        """
        item = self._last.get(owner)
        if item is None:
            return
        if item.ended is None:
            item.ended = asyncio.get_running_loop().create_future()
        await asyncio.wait({item.ended}, timeout=4 * self._wait_s)

    def _enter(self, item: _Item[RequestT, ResultT]) -> None:
        self._queue.append(item)
        self._last[item.owner] = item
        self._changed.set()

    async def _wait_outside(self, item: _Item[RequestT, ResultT]) -> None:
        """Waits for room; who comes first enters first."""
        try:
            async with asyncio.timeout(self._wait_s), self._door:
                while len(self._queue) >= QUEUE_SIZE:
                    self._room.clear()
                    await self._room.wait()
                if self._closed:
                    raise Unavailable("the store is closing")
                self._enter(item)
        except TimeoutError as error:
            raise Unavailable("too many requests wait") from error

    async def _run(self) -> None:
        while batch := await self._next_batch():
            prepared, error = await self._prepare(batch)
            taken_anew = self._writing is not None and await self._writing
            if taken_anew and prepared is not None:
                await self._writer.discard(prepared)
                prepared, error = await self._prepare(batch)
            self._under_way.clear()
            if prepared is not None:
                self._under_way.update(item.key for item in batch)
                self._writing = asyncio.create_task(self._write(batch, prepared))
            elif error is not None:
                await self._one_by_one(batch, error)

    async def _next_batch(self) -> list[_Item[RequestT, ResultT]]:
        """Takes what waits, as soon as it may be prepared; nothing when it closes and nothing is left.

        A repeat of a request of this batch, or of the one under way, is kept for the next.
        """
        while True:
            busy = self._writing is not None and not self._writing.done()
            waiting = self.waiting
            if waiting >= AHEAD or (waiting and not busy):
                if not busy:
                    self._writing = None
                    self._under_way.clear()
                if batch := self._take():
                    return batch
            elif self._closed and not waiting:
                if self._writing is not None:
                    await self._writing
                return []
            self._changed.clear()
            await self._changed.wait()

    def _take(self) -> list[_Item[RequestT, ResultT]]:
        batch: dict[Hashable, _Item[RequestT, ResultT]] = {}
        later: list[_Item[RequestT, ResultT]] = []
        repeats, self._repeats = self._repeats, later
        for item in repeats:
            if item.key in batch or item.key in self._under_way:
                later.append(item)
            else:
                batch[item.key] = item
        queue = self._queue
        while queue and len(batch) < BATCH_SIZE:
            item = queue.popleft()
            if item.key in batch or item.key in self._under_way:
                later.append(item)
            else:
                batch[item.key] = item
        self._room.set()
        return list(batch.values())

    async def _prepare(self, batch: Sequence[_Item[RequestT, ResultT]]) -> tuple[Any, Exception | None]:
        """Returns the batch made ready; or None, and why it is to be written one by one unless it failed."""
        try:
            return await self._writer.prepare([item.request for item in batch]), None
        except Unavailable as error:
            self._fail(batch, error)
            return None, None
        except Exception as error:
            return None, error

    async def _write(self, batch: Sequence[_Item[RequestT, ResultT]], prepared: Any) -> bool:
        """Gives each item its outcome; returns whether ids were taken anew."""
        started = asyncio.get_running_loop().time()
        try:
            outcomes, taken_anew = await self._writer.write(prepared)
        except Unavailable as error:
            self._fail(batch, error)
            return True
        except Exception as error:
            await self._one_by_one(batch, error)
            return True
        else:
            if self._count is not None:
                self._metrics.batch(len(batch), asyncio.get_running_loop().time() - started)
            self._answer(batch, outcomes)
            return taken_anew
        finally:
            self._changed.set()

    async def _one_by_one(self, batch: Sequence[_Item[RequestT, ResultT]], error: Exception) -> None:
        """Has only those fail that the database cannot take at all."""
        if len(batch) == 1:
            self._fail(batch, error)
            return
        for item in batch:
            try:
                outcomes, _ = await self._writer.write(await self._writer.prepare([item.request]))
            except Exception as alone:
                self._fail([item], alone)
            else:
                self._answer([item], outcomes)

    def _answer(
        self, batch: Sequence[_Item[RequestT, ResultT]], outcomes: Sequence[ResultT | DomainError]
    ) -> None:
        if self._count is not None:
            for result, count in Counter(map(self._count, outcomes)).items():
                self._metrics.message(result, count)
        for item, outcome in zip(batch, outcomes, strict=True):
            self._forget(item)
            if item.done.done():
                continue
            if isinstance(outcome, DomainError):
                item.done.set_exception(outcome)
            else:
                item.done.set_result(outcome)

    def _fail(self, batch: Sequence[_Item[RequestT, ResultT]], error: Exception) -> None:
        if self._count is not None:
            self._metrics.message("failed", len(batch))
        for item in batch:
            self._forget(item)
            if not item.done.done():
                item.done.set_exception(error)

    def _forget(self, item: _Item[RequestT, ResultT]) -> None:
        if self._last.get(item.owner) is item:
            del self._last[item.owner]
        if item.ended is not None and not item.ended.done():
            item.ended.set_result(None)


def _expire(done: asyncio.Future[Any]) -> None:
    if not done.done():
        done.set_exception(Unavailable("too many requests wait"))
