"""Who may work in PostgreSQL now, when more want to than the machine has processors for.

A few statements at once keep all processors busy. More of them share the same processors, each takes longer,
and locks are held longer: with 50 at once two cores were measured to answer a fifth less than with eight.

Guarantees: first come, first served; nobody waits because of others that wait themselves. Who has not ended
after a moment waits for a lock or a slow disk, and its place is given to the next. The queue is as long as
there are calls under way, each of which waits for the time that it was given at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

STUCK_S: Final = 0.1
"""Far longer than a few statements of which each has its processor."""


class Admission:
    """Places for *at_once* borrowers; one event loop's."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._working: dict[int, float] = {}
        """When those began that hold a place, the oldest first."""
        self._last = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._look: asyncio.TimerHandle | None = None

    async def enter(self, timeout_s: float) -> int:
        """Waits for a place and returns what `leave` is to be given.

        Raises:
            TimeoutError: there was none in time.
        """
        if self._free > 0 and not self._waiting:
            return self._take()
        loop = asyncio.get_running_loop()
        place = loop.create_future()
        self._waiting.append(place)
        if self._look is None:
            self._look = loop.call_later(STUCK_S, self._pass_over_stuck)
        try:
            async with asyncio.timeout(timeout_s):
                await place
        except BaseException:
            if place.done() and not place.cancelled():
                self._free += 1
                self._admit()
            raise
        self._free += 1
        return self._take()

    def leave(self, entered: int) -> None:
        """Gives a place back, unless it was given away."""
        if self._working.pop(entered, None) is not None:
            self._free += 1
            self._admit()

    def _take(self) -> int:
        self._free -= 1
        self._last += 1
        self._working[self._last] = asyncio.get_running_loop().time()
        return self._last

    def _admit(self) -> None:
        """Reserves places for those who wait."""
        while self._free > 0 and self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                self._free -= 1
                place.set_result(None)

    def _pass_over_stuck(self) -> None:
        self._look = None
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        before = loop.time() - STUCK_S
        stuck = [entered for entered, began in self._working.items() if began <= before]
        for entered in stuck:
            del self._working[entered]
        self._free += len(stuck)
        self._admit()
        self._look = loop.call_later(STUCK_S, self._pass_over_stuck)
