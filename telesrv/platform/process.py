"""One child process that is kept alive: started, found ready, restarted when it dies, stopped when asked.

Guarantees: after `start` returned the child answered once; while it is meant to run, a child that dies is
started again, at once at first and then ever more slowly; `stop` returns when it is gone, by the polite
signal or, after the grace time, by SIGKILL. On Linux the child dies with this process, however this process
ends; `stop_leftovers` finds one that did not, before the next start.

Concurrency: all methods belong to one event loop. Lifecycle: `start`, `stop`, each once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog

from telesrv.platform.account import Account
from telesrv.platform.errors import PlatformError

log = structlog.get_logger("telesrv.platform")

LAUNCHER: Final = Path(__file__).with_name("launch.py")

FIRST_BACKOFF_S: Final = 0.1
LONGEST_BACKOFF_S: Final = 10.0
POLL_S: Final = 0.02
GRACE_S: Final = 8.0
"""How long a program has to end by itself."""
LOG_LIMIT_BYTES: Final = 10 * 1024 * 1024
TAIL_LINES: Final = 8

BASE_ENVIRONMENT: Final = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", "PATH": os.defpath}
"""All that a child sees: nothing of the caller's environment, PG* variables and secrets included."""


def launcher(death_signal: signal.Signals, uid: int = -1, gid: int = -1) -> list[str]:
    """What goes before a command so that it gets *death_signal* when this process dies, and runs as *uid*,
    *gid*."""
    return [
        *(sys.executable, "-I", "-S", str(LAUNCHER)),
        *(str(os.getpid()), str(int(death_signal)), str(uid), str(gid)),
    ]


class Child(ABC):
    """A server program in a directory of its own; subclasses say how to run it and whether it is ready."""

    name: str
    """The program's process name, as the kernel shows it."""
    stop_signal: signal.Signals
    """What makes it finish its writes and leave at once."""
    ready_timeout_s = 300.0
    """How long one start may take; long, as recovery after a crash reads the log of all unsaved work."""

    def __init__(self, directory: Path, log_file: Path, account: Account) -> None:
        self.directory = directory
        self.log_file = log_file
        self.account = account
        self.restarts = 0
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """The program and its arguments."""

    def standard_input(self) -> bytes:
        """What the program reads at its start: where secrets go, since arguments are public."""
        return b""

    def before_start(self) -> None:  # noqa: B027 - a hook that may well do nothing
        """Clears what an earlier run left and this one would stumble over; no process of it lives now."""

    @abstractmethod
    async def answers(self) -> bool:
        """Whether the program serves requests; False while it is on its way."""

    @property
    def pid(self) -> int | None:
        """The process id while the child runs."""
        if self._process is None or self._process.returncode is not None:
            return None
        return self._process.pid

    async def start(self) -> None:
        """Starts the child and returns once it answers.

        Raises:
            PlatformError: it died or did not answer in time: the text ends with the last lines of its log. Or
            one of an earlier server does not end.
            OSError: its log cannot be written.
        """
        await self.stop_leftovers()
        try:
            await self._spawn()
            await self._until_ready()
        except BaseException:
            await self._end_process()
            raise
        self._watcher = asyncio.create_task(self._watch(), name=f"watch {self.name}")

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """Ends the child for good, after *grace_s* by SIGKILL; returns when it is gone."""
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
            self._watcher = None
        await self._end_process(grace_s)

    async def stop_leftovers(self) -> None:
        """Ends every process of this program that an earlier server left working in this directory.

        Raises:
            PlatformError: one does not end.
        """
        left = leftovers(self.directory, self.name)
        if not left:
            return
        log.warning("processes that an earlier server left are ended", program=self.name, pids=left)
        for signal_number in (self.stop_signal, signal.SIGKILL):
            for pid in leftovers(self.directory, self.name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal_number)
            deadline = asyncio.get_running_loop().time() + GRACE_S
            while leftovers(self.directory, self.name):
                if asyncio.get_running_loop().time() >= deadline:
                    break
                await asyncio.sleep(POLL_S)
            else:
                return
        raise PlatformError(f"an old {self.name} in {self.directory} does not end; end it by hand: {left}")

    async def _spawn(self) -> None:
        self.before_start()
        text = self.standard_input()
        uid, gid = (self.account.uid, self.account.gid) if self.account.drop else (-1, -1)
        with _open_log(self.log_file) as output:
            self._process = await asyncio.create_subprocess_exec(
                *launcher(self.stop_signal, uid, gid),
                *self.command(),
                stdin=asyncio.subprocess.PIPE if text else asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=BASE_ENVIRONMENT,
                start_new_session=True,
            )
        if text and self._process.stdin is not None:
            self._process.stdin.write(text)
            with contextlib.suppress(ConnectionError):
                await self._process.stdin.drain()
            self._process.stdin.close()

    async def _until_ready(self) -> None:
        assert self._process is not None
        deadline = asyncio.get_running_loop().time() + self.ready_timeout_s
        while not await self.answers():
            if self._process.returncode is not None:
                raise PlatformError(
                    f"{self.name} did not start (status {self._process.returncode}):\n{tail(self.log_file)}"
                )
            if asyncio.get_running_loop().time() >= deadline:
                raise PlatformError(
                    f"{self.name} did not answer in {self.ready_timeout_s:.0f} s:\n{tail(self.log_file)}"
                )
            await asyncio.sleep(POLL_S)

    async def _watch(self) -> None:
        """Starts the child again when it dies: slower while it keeps dying, at once after it ran well."""
        backoff_s = FIRST_BACKOFF_S
        while True:
            assert self._process is not None
            status = await self._process.wait()
            self.restarts += 1
            log.error(
                "an embedded server died; it is started again",
                program=self.name,
                status=status,
                restart_in_s=backoff_s,
            )
            await asyncio.sleep(backoff_s)
            try:
                await self.stop_leftovers()
                await self._spawn()
                await self._until_ready()
            except (PlatformError, OSError) as error:
                log.error("an embedded server did not start", program=self.name, problem=str(error))
                backoff_s = min(backoff_s * 2, LONGEST_BACKOFF_S)
                await self._end_process()
            else:
                log.info("an embedded server is up again", program=self.name, pid=self.pid)
                backoff_s = FIRST_BACKOFF_S

    async def _end_process(self, grace_s: float = GRACE_S) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(self.stop_signal)
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
        except TimeoutError:
            log.warning("an embedded server did not end; it was killed", program=self.name, grace_s=grace_s)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def leftovers(directory: Path, name: str) -> list[int]:
    """Living processes called `name` whose working directory is `directory`; none where there is no /proc.

    Both servers step into their data directory at the start, and so do the processes they make, so that a
    forgotten one is known by where it stands and not by a process id that may be another's by now.
    """
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "comm").read_text().strip() != name:
                continue
            if not directory.samefile(entry / "cwd"):
                continue
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in {"Z", "X"} and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return sorted(found)


def tail(path: Path) -> str:
    """The last lines of a log, for an error text."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 8192))
            return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-TAIL_LINES:])
    except FileNotFoundError:
        return ""


@contextlib.contextmanager
def _open_log(path: Path) -> Iterator[int]:
    """The log for appending; one that has grown past the limit becomes `.1` first, so that two are kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LOG_LIMIT_BYTES:
        path.replace(path.with_name(path.name + ".1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
