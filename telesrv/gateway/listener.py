"""The listener: accepts links within bounds and closes them in order.

Lifecycle: `start` binds; `stop_accepting`, then `close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter

import structlog

from telesrv.gateway.connection import Connection, GatewayContext
from telesrv.logs import Seldom

log = structlog.get_logger(__name__)


class Listener:
    """Owns the listening socket and the set of its links."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._connections: set[Connection] = set()
        self._half_open: Counter[str] = Counter()
        self._half_open_total = 0
        self._server: asyncio.Server | None = None
        self._refused = Seldom(log, logging.WARNING, "connection refused: too many")
        self.slow_readers = Seldom(log, logging.INFO, "slow reader disconnected")

    @property
    def connections(self) -> int:
        """How many links are open."""
        return len(self._connections)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Binds and accepts; returns the address bound.

        Raises:
            OSError: the address is taken or not this machine's.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._context, self), host, port, backlog=1024, reuse_port=True
        )
        bound_host, bound_port = self._server.sockets[0].getsockname()[:2]
        return bound_host, bound_port

    async def stop_accepting(self) -> None:
        """Closes the listening socket; open links go on."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Closes every link and forgets every session; unacknowledged updates stay in the durable log."""
        for connection in list(self._connections):
            connection.close_soon()
        await asyncio.sleep(0)
        for connection in list(self._connections):
            connection.abort()
        tasks = [task for actor in self._context.hub for task in actor.running]
        for actor in self._context.hub:
            self._context.hub.remove(actor)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)
        if self._server is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._server.wait_closed()

    # For connections

    def admit(self, connection: Connection) -> bool:
        """Counts a new link; False when a bound is reached."""
        limits = self._context.limits
        if (
            len(self._connections) >= limits.max_connections
            or self._half_open_total >= limits.max_half_open
            or self._half_open[connection.ip] >= limits.max_half_open_per_ip
        ):
            self._refused.tell(ip=connection.ip, open=len(self._connections))
            return False
        self._connections.add(connection)
        self._half_open[connection.ip] += 1
        self._half_open_total += 1
        return True

    def authenticated(self, connection: Connection) -> None:
        """Takes a link off the half-open ones."""
        self._half_open_total -= 1
        self._half_open[connection.ip] -= 1
        if not self._half_open[connection.ip]:
            del self._half_open[connection.ip]

    def forget(self, connection: Connection) -> None:
        """Uncounts a closed link."""
        if connection in self._connections:
            self._connections.discard(connection)
            if not connection.authenticated:
                self.authenticated(connection)
