"""One place for a worker process: started, found ready, kept alive, replaced, ended.

Guarantees: a worker that dies is started again, at once at first and then ever more slowly, and the other
processes hear of its death at once; one that is replaced hands its sessions over to a successor that accepts
clients already; `stop` returns when the worker is gone, by SIGTERM or, after the grace time, by SIGKILL. On
Linux it dies with this process, however this process ends. Concurrency: one event loop; one task watches.
Lifecycle: `start`, any number of `replace`, `stop`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from telesrv import metrics
from telesrv.clock import SystemClock
from telesrv.domain.errors import Unavailable
from telesrv.platform import Endpoints, PlatformError, launcher
from telesrv.store.burial import bury
from telesrv.worker import READY_FD

log = structlog.get_logger(__name__)

_STOP_S: Final = 6.0
"""How long a worker has to end by itself: the embedded servers need the rest of ten seconds."""
_READY_S: Final = 60.0
_FIRST_BACKOFF_S: Final = 0.1
_LONGEST_BACKOFF_S: Final = 10.0
_BURIAL_S: Final = 5.0
"""How long a dead worker's successor waits for what is cleared away: it takes some hundredths."""
_STEADY_S: Final = 10.0
"""A worker that lived so long is started again at once."""


@dataclass(frozen=True, slots=True)
class _Serving:
    """A worker that accepts clients, and the lease that says which node it is."""

    process: asyncio.subprocess.Process
    node: int
    holder: str


class WorkerProcess:
    """One place for a worker: whoever holds it now, kept alive."""

    def __init__(
        self, number: int, environment: dict[str, str], metrics_directory: Path, endpoints: Endpoints
    ) -> None:
        self.number = number
        self._directory = metrics_directory
        self._environment = environment
        self._endpoints = endpoints
        self._serving: _Serving | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Tells whether a worker accepts clients here."""
        return self._serving is not None and self._serving.process.returncode is None

    async def start(self) -> None:
        """Starts the worker and returns when it accepts clients.

        Raises:
            PlatformError: it ended or did not get ready in time; why is in the log.
        """
        self._serving = await self._spawn()
        self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def replace(self) -> None:
        """Starts a successor, then has the present worker hand over and end.

        Raises:
            PlatformError: the successor did not get ready; the present worker goes on.
        """
        successor = await self._spawn()
        await self._stop_watching()
        old, self._serving = self._serving, successor
        self._watcher = asyncio.get_running_loop().create_task(self._watch())
        if old is not None:
            await _end(old.process)
            await self._clear_away(old)

    async def stop(self) -> None:
        """Ends the worker in order, at last by force."""
        await self._stop_watching()
        ending, self._serving = self._serving, None
        if ending is not None:
            await _end(ending.process)

    async def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
            self._watcher = None

    async def _spawn(self) -> _Serving:
        reader, writer = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *launcher(signal.SIGTERM),
                *(sys.executable, "-m", "telesrv.worker"),
                env={**self._environment, READY_FD: str(writer)},
                pass_fds=[writer],
                stdin=asyncio.subprocess.DEVNULL,
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        try:
            async with asyncio.timeout(_READY_S):
                _, node, holder = (await _read_line(reader)).split()
        except (EOFError, TimeoutError):
            await _end(process)
            raise PlatformError(f"worker {self.number} did not start; its log says why") from None
        except BaseException:
            await _end(process)
            raise
        return _Serving(process, int(node), holder)

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        backoff_s = _FIRST_BACKOFF_S
        while True:
            assert self._serving is not None
            began = loop.time()
            status = await self._serving.process.wait()
            log.error("a worker died; it is started again", worker=self.number, status=status)
            await self._clear_away(self._serving)
            if loop.time() - began > _STEADY_S:
                backoff_s = _FIRST_BACKOFF_S
            while not self.ready:
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, _LONGEST_BACKOFF_S)
                try:
                    self._serving = await self._spawn()
                except (PlatformError, OSError) as error:
                    log.error("a worker could not be started", worker=self.number, problem=str(error))

    async def _clear_away(self, gone: _Serving) -> None:
        """Ends what a process has left, unless it did so itself.

        Whatever goes wrong with that keeps its successor from nothing.
        """
        at = self._endpoints
        try:
            metrics.forget_process(self._directory, gone.process.pid)
            if gone.process.returncode != 0:
                async with asyncio.timeout(_BURIAL_S):
                    await bury(at.postgres_dsn, at.redis_url, SystemClock(), gone.node, gone.holder)
        except (Unavailable, TimeoutError) as error:
            log.warning("others wait for a dead worker until its lease ends", problem=str(error))
        except Exception:
            log.exception("what a worker left could not be cleared away", worker=self.number)


async def _read_line(descriptor: int) -> str:
    """Returns the first line that comes; the descriptor is closed.

    Raises:
        EOFError: the other end closed without one.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        line = await reader.readline()
        if not line:
            raise EOFError
        return line.decode()
    finally:
        transport.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends a worker by SIGTERM, after its time by SIGKILL."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:
            log.warning("a worker did not end in time and is killed", pid=process.pid)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            raise
