"""A worker process: everything between the listening socket and the stores, wired together.

Lifecycle: store opened, node number leased, outbox started, listener bound, "ready" written to the
supervisor, with the lease that is to end with this process. SIGTERM: stop accepting, finish the outbox
batch, let running requests end and hand the sessions over, drain the committer. A worker whose node number
was taken by another process ends with `LEASE_LOST_STATUS`. An end that hangs is cut short after `END_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog
import uvloop

from telesrv import metrics
from telesrv.clock import Clock, SystemClock
from telesrv.config import ConfigError, Settings, load_settings
from telesrv.domain.errors import Unavailable
from telesrv.gateway.connection import GatewayContext
from telesrv.gateway.hub import SessionHub
from telesrv.gateway.limits import GatewayLimits
from telesrv.gateway.listener import Listener
from telesrv.gateway.node import Node
from telesrv.logs import configure_logging
from telesrv.mtproto.rsa import load_private_pem
from telesrv.mtproto.session import SessionLimits
from telesrv.outbox.accounts import AccountKeeper
from telesrv.outbox.timers import Timers
from telesrv.outbox.worker import OutboxDispatcher
from telesrv.rpc import Dispatcher, RpcConfig
from telesrv.rpc.pushes import PushBuilder
from telesrv.store import Store, StoreConfig
from telesrv.store.nodes import NodeLease

log = structlog.get_logger(__name__)

READY_FD: Final = "TELESRV_READY_FD"
"""The environment variable that names the descriptor on which the supervisor waits for
"ready NODE HOLDER"."""
LEASE_LOST_STATUS: Final = 75
END_S: Final = 30.0
"""How long the end of a worker may take, also with the stores away: nobody is answered by it any more."""


class Worker:
    """The parts of a worker, started in order and stopped in the reverse."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._stack = contextlib.AsyncExitStack()
        self.lease: NodeLease | None = None
        """The node number, once there is one."""
        self.lease_lost = asyncio.Event()

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
        settings, clock = self._settings, self._clock
        store = await Store.open(store_config(settings, clock))
        self._stack.push_async_callback(store.close)
        lease = self.lease = await store.nodes.acquire()
        store.ids.message_ids.hold(lease)

        limits, session_limits = GatewayLimits(), SessionLimits()
        hub = SessionHub(limits, clock)
        node = Node(
            store,
            hub,
            lease,
            limits=limits,
            session_limits=session_limits,
            clock=clock,
            connections=lambda: listener.connections,
            on_lease_lost=self.lease_lost.set,
        )
        dispatcher = node.dispatcher = Dispatcher(store, rpc_config(settings), clock, node)
        self._stack.push_async_callback(dispatcher.close)
        outbox = OutboxDispatcher(
            store,
            PushBuilder(store),
            hub,
            node,
            workers=settings.outbox_workers,
            interval_s=settings.outbox_interval,
        )
        keeper = AccountKeeper(
            store,
            node,
            clock,
            held=lambda: set(hub.users),
            linked=hub.linked_users,
            elsewhere=node.remote_holders,
            node=lease.node,
        )
        executor = ThreadPoolExecutor(limits.exchange_threads, thread_name_prefix="exchange")
        self._stack.callback(executor.shutdown, wait=False, cancel_futures=True)
        listener = Listener(
            GatewayContext(
                dispatcher=dispatcher,
                hub=hub,
                node=node,
                limits=limits,
                clock=clock,
                rsa_keys=(load_private_pem(settings.rsa_key_path),),
                proxy_secret=_proxy_secret(settings),
                executor=executor,
                computations=asyncio.Semaphore(limits.max_pending_computations),
            )
        )
        await node.start()
        outbox.start()
        keeper.start()
        timers = Timers(store)
        timers.start()
        self._stack.push_async_callback(listener.close)
        self._stack.push_async_callback(node.stop)
        self._stack.push_async_callback(outbox.stop)
        self._stack.push_async_callback(keeper.stop)
        self._stack.push_async_callback(timers.stop)
        self._stack.push_async_callback(listener.stop_accepting)
        await listener.start(settings.listen.host, settings.listen.port)


def store_config(settings: Settings, clock: Clock) -> StoreConfig:
    """Returns what the store needs of the settings, whose DSNs the supervisor has filled in."""
    code, dsn, url = settings.dev_auth_code, settings.postgres_dsn, settings.redis_url
    if dsn is None or url is None:
        raise ConfigError(
            "a worker needs TELESRV_POSTGRES_DSN and TELESRV_REDIS_URL; start `telesrv` instead"
        )
    return StoreConfig(
        postgres_dsn=dsn.get_secret_value(),
        redis_url=url.get_secret_value(),
        clock=clock,
        min_conns=settings.postgres_min_conns,
        max_conns=settings.postgres_max_conns,
        at_once=settings.postgres_at_once,
        partitions=settings.partitions,
        message_rate_limit=settings.message_rate_limit,
        dev_auth_code=None if code is None else code.get_secret_value(),
        outbox_batch=settings.outbox_batch,
        node_lease_s=settings.node_lease,
        outbox_lease_s=settings.outbox_lease_timeout,
        metrics=metrics.StoreCounts(),
    )


def rpc_config(settings: Settings) -> RpcConfig:
    """Returns what the handlers need of the settings."""
    webhook = settings.code_webhook
    return RpcConfig(
        advertise_ip=settings.advertise_ip or settings.listen.reachable_host,
        port=settings.listen.port,
        code_webhook=None if webhook is None else webhook.get_secret_value(),
    )


def _proxy_secret(settings: Settings) -> bytes | None:
    secret = settings.proxy_secret
    return None if secret is None else bytes.fromhex(secret.get_secret_value()[-32:])


def end_within(seconds: float) -> None:
    """Ends this process by then, whatever hangs, and writes where to standard error."""
    faulthandler.dump_traceback_later(seconds, exit=True)


async def serve(settings: Settings) -> int:
    """Runs a worker until SIGTERM; returns its exit status."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    for signum in (signal.SIGINT, signal.SIGHUP):
        # A terminal sends these to the whole process group; what they mean is for the supervisor to say.
        signal.signal(signum, signal.SIG_IGN)
    worker = Worker(settings, SystemClock())
    await worker.start()
    if (descriptor := os.environ.get(READY_FD)) is not None and worker.lease is not None:
        with os.fdopen(int(descriptor), "w") as ready:
            ready.write(f"ready {worker.lease.node} {worker.lease.holder}\n")
    waiting = [loop.create_task(event.wait()) for event in (stop, worker.lease_lost)]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    end_within(END_S)
    await worker.stop()
    return LEASE_LOST_STATUS if worker.lease_lost.is_set() else 0


def main() -> None:
    """Runs one worker for the supervisor."""
    configure_logging(pid=os.getpid())
    try:
        sys.exit(uvloop.run(serve(load_settings())))
    except (ConfigError, Unavailable, OSError, ValueError) as error:
        log.error("a worker could not start", problem=str(error), kind=type(error).__name__)
        sys.exit(1)


if __name__ == "__main__":
    main()
