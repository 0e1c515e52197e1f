"""What commits of this process wake: outbox workers, and readers that wait at a hole.

Guarantees: a bucket that was woken is given to exactly one later `wait`; nothing is lost while nobody waits.
It is a shortcut only: whoever waits also looks by itself now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Final

from telesrv.domain.updates import bucket_of

GROWN: Final = 1_024
"""After so many new messages of an account they are indexed for the search."""
_MOST_GROWN: Final = 100_000


class Signals:
    """In-process wake-ups; all calls are on the event loop's thread."""

    def __init__(self) -> None:
        self._woken: set[int] = set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._grown: dict[int, int] = {}
        """How many messages accounts got from this process since they were last taken."""
        self._due: dict[int, None] = {}

    def committed(self, user_ids: Iterable[int]) -> None:
        """Wakes whoever waits for the buckets of *user_ids*."""
        self.wake(bucket_of(user_id) for user_id in user_ids)

    def grew(self, user_id: int, messages: int) -> None:
        """Counts new messages of an account."""
        if len(self._grown) >= _MOST_GROWN:
            self._grown.clear()  # a search finds by itself what is not indexed
            self._due.clear()
        self._grown[user_id] = grown = self._grown.get(user_id, 0) + messages
        if grown >= GROWN:
            self._due[user_id] = None

    def take_grown(self) -> int | None:
        """Returns an account that got `GROWN` messages, and counts it anew; None when there is none."""
        for user_id in self._due:
            del self._due[user_id], self._grown[user_id]
            return user_id
        return None

    def wake(self, buckets: Iterable[int]) -> None:
        """Wakes whoever waits for *buckets*."""
        self._woken.update(buckets)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def wake_later(self, bucket: int, delay_s: float) -> None:
        """Wakes whoever waits for *bucket* after a moment."""
        asyncio.get_running_loop().call_later(delay_s, self.wake, (bucket,))

    async def wait(self, timeout_s: float, buckets: Collection[int]) -> set[int]:
        """Returns those of *buckets* that were woken since they were last returned.

        It returns at once when there are any, else at the first one, else empty after *timeout_s*.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            taken = self._woken.intersection(buckets)
            left_s = deadline - loop.time()
            if taken or left_s <= 0:
                self._woken -= taken
                return taken
            await self.changed(left_s)

    async def changed(self, timeout_s: float) -> None:
        """Returns at the next commit of this process, or after *timeout_s*; takes nothing away."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            pass
        finally:
            self._waiters.discard(waiter)
