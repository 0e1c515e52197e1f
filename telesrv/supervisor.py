"""The parent process: the embedded servers, the schema, the health endpoint, and the workers that serve
clients.

Guarantees: `telesrv ready on HOST:PORT` is printed when every worker accepts clients; a worker that dies
is started again, at once at first and then ever more slowly, and the other processes hear of its death at
once; SIGTERM, SIGINT or SIGHUP ends everything in
order within ten seconds; SIGUSR2 replaces the workers one by one, each new one accepting before the old one
hands its sessions over. On Linux the workers die with this process, however it ends. Concurrency: one event
loop; one task watches each worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from telesrv import metrics
from telesrv.clock import SystemClock
from telesrv.config import ConfigError, Settings
from telesrv.domain.errors import Unavailable
from telesrv.health import HealthServer
from telesrv.mtproto.rsa import load_or_generate_rsa_key
from telesrv.platform import EmbeddedServers, Endpoints, PlatformError, connection_limit, launcher, migrate
from telesrv.platform.address import note_address
from telesrv.platform.embedded import make_data_dir
from telesrv.store.burial import bury
from telesrv.store.redis import Redis
from telesrv.worker import READY_FD, rsa_key_path

log = structlog.get_logger(__name__)

_STOP_S: Final = 6.0
"""How long workers have to end by themselves; the embedded servers need the rest of the ten seconds."""
_READY_S: Final = 60.0
_SPARE_CONNECTIONS: Final = 10
"""Connections to PostgreSQL left for operators, health checks and migrations."""
_FEWEST_CONNECTIONS: Final = 2
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


class Supervisor:
    """The parts of the parent process, started in order and stopped in the reverse."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = contextlib.AsyncExitStack()
        self._workers: list[WorkerProcess] = []
        self._replacing = asyncio.Lock()

    async def start(self) -> None:
        """Starts everything; on an error what was started is stopped again.

        Raises:
            ConfigError: a setting cannot be used.
            PlatformError, MigrationError: a part did not start.
        """
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def stop(self) -> None:
        """Stops everything in order."""
        await self._stack.aclose()

    async def replace_workers(self) -> None:
        """Replaces the workers one after another; one whose successor does not start goes on."""
        async with self._replacing:
            for worker in self._workers:
                try:
                    await worker.replace()
                except (PlatformError, OSError) as error:
                    log.error("a worker was not replaced", worker=worker.number, problem=str(error))
                    return
            log.info("workers replaced", count=len(self._workers))

    def _workers_ready(self) -> bool:
        return bool(self._workers) and all(worker.ready for worker in self._workers)

    async def _start(self) -> None:
        settings = self._settings
        _refuse_taken_port(settings)
        make_data_dir(settings.data_dir)
        _provide_rsa_key(settings)
        endpoints = await self._endpoints()
        await migrate(endpoints.postgres_dsn, settings.partitions)
        await _check_redis(endpoints.redis_url)
        directory = metrics.fresh_directory(settings.data_dir)
        connections = await self._connections_each(endpoints.postgres_dsn)
        environment = {
            **os.environ,
            "TELESRV_POSTGRES_DSN": endpoints.postgres_dsn,
            "TELESRV_REDIS_URL": endpoints.redis_url,
            "TELESRV_POSTGRES_MAX_CONNS": str(connections),
            "TELESRV_POSTGRES_MIN_CONNS": str(min(settings.postgres_min_conns, connections)),
            "PROMETHEUS_MULTIPROC_DIR": str(directory),
        }
        if settings.metrics_listen is not None:
            await self._stack.enter_async_context(
                HealthServer(
                    settings.metrics_listen,
                    endpoints.postgres_dsn,
                    endpoints.redis_url,
                    directory,
                    self._workers_ready,
                )
            )
        self._workers = [
            WorkerProcess(number, environment, directory, endpoints)
            for number in range(1, settings.workers + 1)
        ]
        self._stack.push_async_callback(self._stop_workers)
        await asyncio.gather(*(worker.start() for worker in self._workers))
        note_address(settings.data_dir, settings.listen.reachable_host, settings.listen.port)

    async def _stop_workers(self) -> None:
        await asyncio.gather(*(worker.stop() for worker in self._workers))

    async def _connections_each(self, dsn: str) -> int:
        """Returns how many connections each worker may open: as set, or a fair part of what is allowed."""
        settings = self._settings
        share = (await connection_limit(dsn) - _SPARE_CONNECTIONS) // settings.workers
        if share < _FEWEST_CONNECTIONS:
            raise ConfigError(
                f"TELESRV_WORKERS={settings.workers}: PostgreSQL allows too few connections for so many; "
                "raise its max_connections, or start fewer workers"
            )
        if share < settings.postgres_max_conns:
            log.warning(
                "PostgreSQL allows fewer connections than TELESRV_POSTGRES_MAX_CONNS asks for",
                asked=settings.postgres_max_conns,
                each_worker=share,
            )
        return min(settings.postgres_max_conns, share)

    async def _endpoints(self) -> Endpoints:
        settings = self._settings
        dsn, url = settings.postgres_dsn, settings.redis_url
        if dsn is not None and url is not None:
            return Endpoints(dsn.get_secret_value(), url.get_secret_value())
        servers = EmbeddedServers(
            settings.data_dir,
            postgres=dsn is None,
            redis=url is None,
            postgres_settings={
                "max_connections": str(
                    2 * settings.workers * settings.postgres_max_conns + 2 * _SPARE_CONNECTIONS
                )
            },
        )
        embedded = await servers.start()
        self._stack.push_async_callback(servers.stop)
        return Endpoints(
            dsn.get_secret_value() if dsn is not None else embedded.postgres_dsn,
            url.get_secret_value() if url is not None else embedded.redis_url,
        )


def _refuse_taken_port(settings: Settings) -> None:
    """Workers share their port among themselves; without this check they would share it with a stranger.

    Raises:
        ConfigError: somebody listens there, or the address is not this machine's.
    """
    listen = settings.listen
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listen.host, listen.port))
        except OSError as error:
            raise ConfigError(
                f"TELESRV_LISTEN={listen}: {error.strerror or error}; is a server running there already?"
            ) from None


async def _check_redis(url: str) -> None:
    """Returns when Redis answers.

    Raises:
        ConfigError: it does not.
    """
    try:
        redis = await Redis.connect(url)
    except Unavailable:
        raise ConfigError("Redis does not answer; check TELESRV_REDIS_URL, and that it runs") from None
    await redis.close()


def _provide_rsa_key(settings: Settings) -> None:
    """Has the server's key in its place, and its public half where clients are set up from."""
    path = rsa_key_path(settings)
    if settings.rsa_key is not None and not path.exists():
        raise ConfigError(
            f"TELESRV_RSA_KEY={path}: there is no such file, and none is made, as clients trust one key; "
            "correct the path, or leave the setting out to have one made under the data directory"
        )
    try:
        key = load_or_generate_rsa_key(path)
    except ValueError as error:
        raise ConfigError(f"TELESRV_RSA_KEY={path}: {error}") from None
    (settings.data_dir / "server_rsa.pub.pem").write_bytes(key.public_pem())


async def supervise(settings: Settings) -> None:
    """Runs the server until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(signum, stop.set)
    supervisor = Supervisor(settings)
    starting = loop.create_task(supervisor.start())
    stopping = loop.create_task(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return
    try:
        await starting
    except BaseException:
        stopping.cancel()
        raise
    if settings.dev_auth_code is not None:
        log.warning(
            "TELESRV_DEV_AUTH_CODE is set: it logs in to every account; unset it where others can connect"
        )
    replacing: set[asyncio.Task[None]] = set()

    def replace() -> None:
        task = loop.create_task(supervisor.replace_workers())
        replacing.add(task)
        task.add_done_callback(replacing.discard)

    loop.add_signal_handler(signal.SIGUSR2, replace)
    host = f"[{settings.listen.host}]" if ":" in settings.listen.host else settings.listen.host
    print(f"telesrv ready on {host}:{settings.listen.port}", flush=True)
    await stopping
    log.info("stopping")
    for task in replacing:
        task.cancel()
    if replacing:
        await asyncio.wait(replacing)
    await supervisor.stop()
