"""The only wiring: settings to running server, and back down in order.

Lifecycle: data directory locked, embedded servers started (unless given by DSN), schema migrated, store
opened, outbox started, listener bound, ``telesrv ready on HOST:PORT`` printed. SIGTERM or SIGINT: stop
accepting, let running requests end, finish the outbox batch, close links, drain the committer, stop the
embedded servers; within ten seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import structlog
import uvloop

from telesrv.clock import Clock, SystemClock
from telesrv.config import ConfigError, Settings, load_settings
from telesrv.gateway.connection import GatewayContext
from telesrv.gateway.hub import SessionHub
from telesrv.gateway.limits import GatewayLimits
from telesrv.gateway.listener import Listener
from telesrv.logs import configure_logging
from telesrv.mtproto.rsa import RSAKey, load_or_generate_rsa_key
from telesrv.mtproto.session import SessionLimits
from telesrv.outbox.worker import OutboxDispatcher
from telesrv.platform import EmbeddedServers, Endpoints, PlatformError, migrate
from telesrv.rpc import Dispatcher, RpcConfig
from telesrv.rpc.pushes import PushBuilder
from telesrv.store import Store, StoreConfig

log = structlog.get_logger(__name__)

_DRAIN_S = 2.5
"""For running requests at shutdown; the rest of the ten seconds belongs to the stores."""


class Server:
    """A running server: the parts, started in order and stopped in the reverse."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._stack = contextlib.AsyncExitStack()
        self.address = ("", 0)

    async def start(self) -> None:
        """Starts everything; on an error what was started is stopped again."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def stop(self) -> None:
        """Stops everything in order."""
        await self._stack.aclose()

    async def _start(self) -> None:
        settings = self._settings
        endpoints = await self._endpoints()
        await migrate(endpoints.postgres_dsn, settings.partitions)
        store = await Store.open(store_config(settings, endpoints, self._clock))
        self._stack.push_async_callback(store.close)

        rsa_key = _rsa_key(settings)
        limits = GatewayLimits()
        hub = SessionHub(limits, self._clock)
        dispatcher = Dispatcher(store, _rpc_config(settings), self._clock, hub)
        self._stack.push_async_callback(dispatcher.close)
        outbox = OutboxDispatcher(
            store,
            PushBuilder(store),
            hub,
            workers=settings.outbox_workers,
            interval_s=settings.outbox_interval,
        )
        executor = ThreadPoolExecutor(limits.exchange_threads, thread_name_prefix="exchange")
        self._stack.callback(executor.shutdown, wait=False, cancel_futures=True)
        listener = Listener(
            GatewayContext(
                dispatcher=dispatcher,
                hub=hub,
                limits=limits,
                session_limits=SessionLimits(),
                clock=self._clock,
                rsa_keys=(rsa_key,),
                secret=store.secret,
                proxy_secret=_proxy_secret(settings),
                executor=executor,
                computations=asyncio.Semaphore(limits.max_pending_computations),
            )
        )
        outbox.start()
        self._stack.push_async_callback(listener.close)
        self._stack.push_async_callback(outbox.stop)
        self._stack.push_async_callback(listener.drain, _DRAIN_S)
        self._stack.push_async_callback(listener.stop_accepting)
        self.address = await listener.start(settings.listen.host, settings.listen.port)

    async def _endpoints(self) -> Endpoints:
        settings = self._settings
        dsn, url = settings.postgres_dsn, settings.redis_url
        if dsn is not None and url is not None:
            return Endpoints(dsn.get_secret_value(), url.get_secret_value())
        servers = EmbeddedServers(settings.data_dir, postgres=dsn is None, redis=url is None)
        embedded = await servers.start()
        self._stack.push_async_callback(servers.stop)
        return Endpoints(
            dsn.get_secret_value() if dsn is not None else embedded.postgres_dsn,
            url.get_secret_value() if url is not None else embedded.redis_url,
        )


def store_config(settings: Settings, endpoints: Endpoints, clock: Clock) -> StoreConfig:
    """Returns what the store needs of the settings."""
    code = settings.dev_auth_code
    return StoreConfig(
        postgres_dsn=endpoints.postgres_dsn,
        redis_url=endpoints.redis_url,
        clock=clock,
        min_conns=settings.postgres_min_conns,
        max_conns=settings.postgres_max_conns,
        partitions=settings.partitions,
        message_rate_limit=settings.message_rate_limit,
        dev_auth_code=None if code is None else code.get_secret_value(),
        outbox_batch=settings.outbox_batch,
        outbox_lease_s=settings.outbox_lease_timeout,
    )


def _rpc_config(settings: Settings) -> RpcConfig:
    webhook = settings.code_webhook
    return RpcConfig(
        advertise_ip=settings.advertise_ip or _reachable(settings.listen.host),
        port=settings.listen.port,
        code_webhook=None if webhook is None else webhook.get_secret_value(),
    )


def _reachable(host: str) -> str:
    """Returns an address clients of this machine can use for a listening host."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}.get(host, host)  # noqa: S104


def _rsa_key(settings: Settings) -> RSAKey:
    path = settings.rsa_key or settings.data_dir / "server_rsa.pem"
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    try:
        key = load_or_generate_rsa_key(path)
    except ValueError as error:
        raise ConfigError(f"TELESRV_RSA_KEY={path}: {error}") from None
    (settings.data_dir / "server_rsa.pub.pem").write_bytes(key.public_pem())
    return key


def _proxy_secret(settings: Settings) -> bytes | None:
    secret = settings.proxy_secret
    return None if secret is None else bytes.fromhex(secret.get_secret_value()[-32:])


async def serve(settings: Settings) -> None:
    """Runs the server until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    server = Server(settings, SystemClock())
    starting = loop.create_task(server.start())
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
    host, port = server.address
    host = f"[{host}]" if ":" in host else host
    print(f"telesrv ready on {host}:{port}", flush=True)
    await stopping
    log.info("stopping")
    await server.stop()


def main() -> None:
    """Runs `telesrv`: exit code 0 after a signal, 2 for a setting that cannot be used, 1 for a failed
    start."""
    configure_logging()
    try:
        settings = load_settings()
        uvloop.run(serve(settings))
    except ConfigError as error:
        sys.exit(_complain(str(error), 2))
    except (PlatformError, OSError) as error:
        sys.exit(_complain(str(error), 1))


def _complain(text: str, code: int) -> int:
    print(f"telesrv: {text}", file=sys.stderr)
    return code
