"""Where the program reads time: a clock is passed in, so that tests decide what time it is."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What any code that needs the time asks for."""

    def time(self) -> float:
        """Seconds since the Unix epoch; may step when the machine's clock is set."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class FakeClock:
    """A clock that stands still until it is told to move.

    `advance` moves both readings; `set_time` steps the wall clock alone, forward or back, as an administrator
    or a time server would.
    """

    __slots__ = ("_monotonic", "_time")

    def __init__(self, time: float = 1_700_000_000.0, monotonic: float = 1_000.0) -> None:
        self._time = time
        self._monotonic = monotonic

    def time(self) -> float:
        return self._time

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Lets `seconds` pass on both readings; a negative number is an error."""
        if seconds < 0:
            raise ValueError("a clock does not run backwards; use set_time to step the wall clock")
        self._time += seconds
        self._monotonic += seconds

    def set_time(self, time: float) -> None:
        """Steps the wall clock to `time` and leaves the monotonic reading alone."""
        self._time = time
