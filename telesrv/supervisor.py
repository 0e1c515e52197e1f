"""The parent process: the embedded servers, the schema, the health endpoint, and the workers that serve
clients.

Guarantees: `telesrv ready on HOST:PORT` is printed when every worker accepts clients; SIGTERM, SIGINT or
SIGHUP ends everything in order, within a second or two as a rule and ten in any case: workers have six
seconds, embedded servers what is left, after which they are killed; SIGUSR2 replaces the workers one by one.
What holds for each of them says `worker_process`. Concurrency: one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from typing import Final

import structlog

from telesrv import metrics
from telesrv.config import Address, ConfigError, Settings, unknown_settings
from telesrv.domain.errors import Unavailable
from telesrv.health import HealthServer
from telesrv.mtproto.rsa import load_or_generate_rsa_key
from telesrv.platform import (
    EmbeddedServers,
    Endpoints,
    PlatformError,
    connection_limit,
    connections_each,
    migrate,
    pending,
)
from telesrv.platform.address import note_address
from telesrv.platform.connections import FEWEST_CONNECTIONS, SPARE_CONNECTIONS, at_once_each
from telesrv.platform.embedded import make_data_dir
from telesrv.platform.process import GRACE_S
from telesrv.store.redis import Redis
from telesrv.worker_process import WorkerProcess

log = structlog.get_logger(__name__)

_END_S: Final = 9.5
"""How long the end may take in all; who waits for it gives it ten."""


class Supervisor:
    """The parts of the parent process, started in order and stopped in the reverse."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = contextlib.AsyncExitStack()
        self._workers: list[WorkerProcess] = []
        self._replacing = asyncio.Lock()
        self._postgres_dsn = ""
        self._end_by = float("inf")

    async def start(self) -> None:
        """Starts everything; on an error what was started is stopped again.

        Raises:
            ConfigError: a setting cannot be used.
            PlatformError: a part did not start.
            OSError: a file cannot be written, or a port cannot be listened at.
        """
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def stop(self) -> None:
        """Stops everything in order."""
        self._end_by = asyncio.get_running_loop().time() + _END_S
        await self._stack.aclose()

    async def replace_workers(self) -> None:
        """Replaces the workers one after another; one whose successor does not start goes on.

        All go on when the code on disk has a migration that the database lacks.
        """
        async with self._replacing:
            try:
                lacking = await pending(self._postgres_dsn)
            except PlatformError as error:
                log.error("no worker was replaced", problem=str(error))
                return
            if lacking:
                log.error(
                    "no worker was replaced",
                    problem=f"the database lacks {', '.join(lacking)}: stop the server and start it again",
                )
                return
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
        _refuse_taken_port("TELESRV_LISTEN", settings.listen)
        if settings.metrics_listen is not None:
            _refuse_taken_port("TELESRV_METRICS_LISTEN", settings.metrics_listen)
        make_data_dir(settings.data_dir)
        _provide_rsa_key(settings)
        endpoints = await self._endpoints()
        self._postgres_dsn = endpoints.postgres_dsn
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
            "TELESRV_POSTGRES_AT_ONCE": str(
                settings.postgres_at_once
                or (at_once_each(settings.workers) if settings.postgres_dsn is None else connections)
            ),
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

    async def _stop_servers(self, servers: EmbeddedServers) -> None:
        await servers.stop(min(GRACE_S, self._end_by - asyncio.get_running_loop().time()))

    async def _connections_each(self, dsn: str) -> int:
        """Returns how many connections each worker may open: as set, or a fair part of what is allowed."""
        settings = self._settings
        share = connections_each(await connection_limit(dsn), settings.workers)
        if share < FEWEST_CONNECTIONS:
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
                    2 * settings.workers * settings.postgres_max_conns + 2 * SPARE_CONNECTIONS
                )
            },
        )
        embedded = await servers.start()
        self._stack.push_async_callback(self._stop_servers, servers)
        return Endpoints(
            dsn.get_secret_value() if dsn is not None else embedded.postgres_dsn,
            url.get_secret_value() if url is not None else embedded.redis_url,
        )


def _refuse_taken_port(name: str, listen: Address) -> None:
    """Tells before anything is started that nobody can listen at *listen*, the value of the setting *name*.

    Workers share their port among themselves; without this check they would share it with a stranger.

    Raises:
        ConfigError: somebody listens there, or the address is not this machine's.
    """
    try:
        found = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, target = min(found, key=lambda info: info[0] != socket.AF_INET)
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
    except OSError as error:
        advice = {
            errno.EADDRINUSE: f"is a server running there already? Else set another {name}",
            errno.EACCES: "ports below 1024 are root's: set a higher one",
        }.get(error.errno or 0, "write an address of this machine")
        raise ConfigError(f"{name}={listen}: {error.strerror or error}; {advice}") from None


async def _check_redis(url: str) -> None:
    """Returns when Redis answers.

    Raises:
        PlatformError: it does not; or what was named is no address of a Redis.
    """
    try:
        redis = await Redis.connect(url)
    except (Unavailable, ValueError) as error:
        cause = error.__cause__ or error
        why = str(cause) or type(cause).__name__
        raise PlatformError(
            f"Redis cannot be used ({why}); check TELESRV_REDIS_URL, and that it runs"
        ) from None
    await redis.close()


def _provide_rsa_key(settings: Settings) -> None:
    """Has the server's key in its place, and its public half where clients are set up from."""
    path = settings.rsa_key_path
    if settings.rsa_key is not None and not path.exists():
        raise ConfigError(
            f"TELESRV_RSA_KEY={path}: there is no such file, and none is made, as clients trust one key; "
            "correct the path, or leave the setting out to have one made under the data directory"
        )
    name = str(path) if settings.rsa_key is None else f"TELESRV_RSA_KEY={path}"
    try:
        key = load_or_generate_rsa_key(path)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
    except OSError as error:
        raise ConfigError(
            f"{name}: it cannot be read or made ({error.strerror}); "
            "it must be a file of the user who runs this"
        ) from None
    settings.public_key_path.write_bytes(key.public_pem())


def warnings(settings: Settings) -> list[str]:
    """What can be meant, and is told at every start as it may not be: a line each."""
    lines = [f"{name} is no setting and does nothing" for name in unknown_settings()]
    if settings.listen.is_everywhere and settings.advertise_ip is None:
        lines.append(
            f"TELESRV_LISTEN={settings.listen}: clients are told to connect to this machine's loopback; "
            "set TELESRV_ADVERTISE_IP to the address that others reach it by"
        )
    if settings.dev_auth_code is not None:
        lines.append(
            "TELESRV_DEV_AUTH_CODE is set: it logs in to every account; unset it where others can connect"
        )
    return lines


async def supervise(settings: Settings) -> None:
    """Runs the server until SIGTERM, SIGINT or SIGHUP."""
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
    for warning in warnings(settings):
        log.warning(warning)
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
