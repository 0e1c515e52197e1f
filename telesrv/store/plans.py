"""Plans that are made before rows are locked: how many pts a change takes has to be known before it begins.

Concurrency: what decides is read without a lock, and again under it; when the two differ the change starts
over, so it is written as an attempt that keeps nothing of the one before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from telesrv.domain.errors import Unavailable

T = TypeVar("T")
_TRIES: Final = 8


class PlanMovedError(Exception):
    """What was read before the lock is not what stands there under it."""


async def until_settled(attempt: Callable[[], Awaitable[T]], what: str) -> T:
    """Returns what *attempt* returns when no other change came between its look and its lock.

    Args:
        what: is being changed, for the error.

    Raises:
        Unavailable: others kept changing the same.
    """
    for _ in range(_TRIES):
        try:
            return await attempt()
        except PlanMovedError:
            continue
    raise Unavailable(f"{what} that kept changing")
