"""What the store tells whoever counts: every call does nothing here.

The program puts an implementation in its place (`StoreConfig.metrics`); tests and tools leave it out. No
call raises, waits or changes what the store does.
"""

from __future__ import annotations

from typing import Final, Protocol


class StoreMetrics(Protocol):
    """The interface; a subclass that adds nothing counts nothing."""

    def message(self, result: str, count: int = 1) -> None:
        """Sends were answered: *result* is sent, repeated, refused or failed."""
        return None

    def rate_limited(self, kind: str) -> None:
        """A request was refused because too many of its *kind* came."""
        return None

    def batch(self, size: int, seconds: float) -> None:
        """The committer wrote *size* messages at once."""
        return None

    def pool_wait(self, seconds: float) -> None:
        """A statement waited so long for a connection to PostgreSQL."""
        return None

    def away(self, server: str) -> None:
        """A request was given up because *server* did not answer."""
        return None

    def hole(self) -> None:
        """A reader met a pts that is not in the log while a later one is."""
        return None

    def noops(self, count: int) -> None:
        """Reserved pts that nobody used were filled."""
        return None

    def noops_failed(self, count: int) -> None:
        """Reserved pts could not be filled; the sweeper is to do it."""
        return None

    def outbox_claimed(self, count: int) -> None:
        """Owed pushes were claimed."""
        return None

    def outbox_delivered(self, count: int) -> None:
        """Pushes were accepted by every process that had to."""
        return None

    def outbox_retried(self, count: int) -> None:
        """Pushes failed and are tried again."""
        return None

    def outbox_failed(self, count: int) -> None:
        """Pushes failed for good."""
        return None


class NoMetrics(StoreMetrics):
    """Counts nothing."""


NO_METRICS: Final = NoMetrics()
