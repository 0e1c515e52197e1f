"""Work that is done turn by turn, for as long as the process serves.

Guarantees: a turn that fails, by a store that is away or by a bug, is logged and followed by another one
after the pause; nothing but `stop` ends the work. Concurrency: one task for each kind of work, so that none
waits for another. Lifecycle: `begin` for each kind, then `stop`, once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from telesrv.domain.errors import Unavailable

log = structlog.get_logger(__name__)


class Turns:
    """The tasks of some kinds of work."""

    def __init__(self, patience_s: float) -> None:
        """*patience_s* is how long `stop` waits for the turns under way."""
        self._patience_s = patience_s
        self._tasks: list[asyncio.Task[None]] = []
        self.stopping = asyncio.Event()
        """Set when the work is to end; a turn that lasts looks at it."""

    def begin(self, name: str, turn: Callable[[], Awaitable[bool]], pause_s: float) -> None:
        """Starts a kind of work.

        Args:
            name: what the log calls it.
            turn: does what is due; True when there may be more of it, which is then done at once.
            pause_s: how long after any other turn the next one begins.
        """
        self._tasks.append(asyncio.get_running_loop().create_task(self._run(name, turn, pause_s), name=name))

    async def stop(self) -> None:
        """Lets the turns under way end, for a while, and ends the tasks."""
        self.stopping.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._patience_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _run(self, name: str, turn: Callable[[], Awaitable[bool]], pause_s: float) -> None:
        while not self.stopping.is_set():
            more = False
            try:
                more = await turn()
            except Unavailable as error:
                log.warning("work waits for its store", work=name, problem=str(error))
            except Exception:
                log.exception("work failed; it goes on", work=name)
            if not more:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self.stopping.wait()
