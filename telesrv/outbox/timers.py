"""What happens by itself at its time: scheduled messages are sent, expired ones deleted, new ones indexed.

Guarantees: each happens once, by whichever process comes first, soon after its time as long as one lives;
the store's leases see to that. Concurrency: one task for each kind, so that neither waits for the other.
Lifecycle: `start`, then `stop`, which lets a turn under way end, for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from telesrv.domain.errors import Unavailable
from telesrv.store import Store

log = structlog.get_logger(__name__)

_INTERVAL_S = 1.0
_STOP_S = 3.0


class Timers:
    """Runs the timed work of one process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Starts the tasks."""
        loop = asyncio.get_running_loop()
        turns = {
            "scheduled": self._store.scheduled.dispatch_due,
            "expiry": self._store.ttl.expire,
            "search": self._store.search.index_due,
        }
        self._tasks = [loop.create_task(self._run(name, turn), name=name) for name, turn in turns.items()]

    async def stop(self) -> None:
        """Lets the turns under way end, and ends the tasks."""
        self._stopping.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_STOP_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _run(self, name: str, turn: Callable[[], Awaitable[int]]) -> None:
        """Takes turns until it is told to stop; a turn that did something is followed by another at once."""
        while not self._stopping.is_set():
            done = 0
            try:
                done = await turn()
            except Unavailable as error:
                log.warning("timed work waits for its store", kind=name, error=str(error))
            except Exception:
                log.exception("timed work failed; it goes on", kind=name)
            if not done:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), _INTERVAL_S)
