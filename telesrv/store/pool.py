"""The PostgreSQL connections that all sub-stores share.

Guarantees: no call waits longer than it was given; PostgreSQL away is `Unavailable`, never a driver's
error. A read is repeated while the server is away; a transaction is not, since its outcome may be unknown.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias, TypeVar

import asyncpg

from telesrv.domain.errors import Unavailable
from telesrv.store.admission import Admission
from telesrv.store.metrics import NO_METRICS, StoreMetrics

Connection: TypeAlias = Any
"""An asyncpg connection as the pool lends it."""
Record: TypeAlias = Any
"""A row: values by column name."""
T = TypeVar("T")

_AWAY: Final = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # The driver's own confusion: a connection to which a dying server spoke unasked.
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
)
_GIVE_UP_S: Final = 1.0
"""How long the server may take to end a statement that was given up; then its connection is ended instead.
A renewal of the node number waits for it too, and must leave time for the next."""
REPEATABLE: Final = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InternalServerError,
)
"""Rolled back for no fault of the statement (40P01, 40001, XX000): the whole transaction may run again."""
_TRIES: Final = 4
"""How often it does: whoever wins a deadlock is done soon."""


class _WithinDeadline:
    """Repeats an action while the server is away, until the deadline."""

    __slots__ = ("_deadline", "_metrics", "_pause_s")

    def __init__(self, wait_s: float, metrics: StoreMetrics) -> None:
        self._deadline = asyncio.get_running_loop().time() + wait_s
        self._metrics = metrics
        self._pause_s = 0.02

    @property
    def left_s(self) -> float:
        return max(0.01, self._deadline - asyncio.get_running_loop().time())

    async def pause(self, error: BaseException) -> None:
        """Waits a little longer each time.

        Raises:
            Unavailable: the deadline has passed.
        """
        if asyncio.get_running_loop().time() + self._pause_s >= self._deadline:
            self._metrics.away("PostgreSQL")
            raise Unavailable("PostgreSQL") from error
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, 0.5)


class Ended:
    """Counts the connections that ended: a change says that the server may have been restarted meanwhile."""

    __slots__ = ("connections",)

    def __init__(self) -> None:
        self.connections = 0

    def count(self, connection: Connection) -> None:
        """Notes one more."""
        self.connections += 1


class Pool:
    """Lends connections; every wait is bounded.

    *wait_s* bounds the wait for a connection, *command_timeout_s* each statement; *at_once* is how many
    connections work at once, unless some are stuck.
    """

    def __init__(self, pool: Any, wait_s: float, at_once: int, metrics: StoreMetrics = NO_METRICS) -> None:
        self._pool = pool
        self._admission = Admission(at_once)
        self._wait_s = wait_s
        self._metrics = metrics
        self.ended = Ended()

    @classmethod
    async def connect(
        cls,
        dsn: str,
        *,
        min_conns: int = 16,
        max_conns: int = 50,
        at_once: int | None = None,
        wait_s: float = 5.0,
        command_timeout_s: float = 10.0,
        metrics: StoreMetrics = NO_METRICS,
    ) -> Pool:
        """Opens the pool and *min_conns* connections; *at_once* is all of them when not given.

        Raises:
            Unavailable: the server did not answer within *wait_s*.
        """
        deadline = _WithinDeadline(wait_s, metrics)
        ended = Ended()

        async def init(connection: Connection) -> None:
            await _init_connection(connection)
            connection.add_termination_listener(ended.count)

        while True:
            try:
                pool = await asyncpg.create_pool(
                    dsn,
                    min_size=min(min_conns, max_conns),
                    max_size=max_conns,
                    init=init,
                    reset=_reset_connection,
                    command_timeout=command_timeout_s,
                    timeout=wait_s,
                    max_inactive_connection_lifetime=0,
                    server_settings={
                        "jit": "off",
                        "application_name": "telesrv",
                        # a machine that is cut off holds no lock longer than two statements may take:
                        # by itself the server would wait for it for hours
                        "tcp_keepalives_idle": "5",
                        "tcp_keepalives_interval": "5",
                        "tcp_keepalives_count": "3",
                        "tcp_user_timeout": "20000",
                        # planning over all partitions costs more than what it could find out from parameters
                        "plan_cache_mode": "force_generic_plan",
                        # joins start from few keys, whose number a generic plan does not know: it would
                        # rather read tables of some ten thousand rows whole
                        "enable_hashjoin": "off",
                        "enable_mergejoin": "off",
                    },
                )
            except _AWAY as error:
                await deadline.pause(error)
            else:
                made = cls(pool, wait_s, at_once or max_conns, metrics)
                made.ended = ended
                return made

    async def close(self) -> None:
        """Closes every connection; those in use are given a few seconds."""
        try:
            async with asyncio.timeout(5):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        """Lends a connection outside any transaction.

        Raises:
            Unavailable: none was free or the server was away within the wait, or it went away in the block.
        """
        connection, entered = await self._borrow()
        try:
            yield connection
        except _AWAY as error:
            if isinstance(error, ValueError):
                raise  # the driver cannot encode an argument: no server was asked
            _give_up(connection, error)
            self._metrics.away("PostgreSQL")
            raise Unavailable("PostgreSQL") from error
        finally:
            await self._release(connection, entered)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Lends a connection in a READ COMMITTED transaction: commits at the end, rolls back on an exception.

        Raises:
            Unavailable: as `acquire`; when it comes from the block or the COMMIT, the outcome is unknown.
        """
        async with self.acquire() as connection, connection.transaction():
            yield connection

    async def transact(self, body: Callable[[Connection], Awaitable[T]]) -> T:
        """Returns what *body* returns, after the commit; what it raises rolls everything back and is raised.

        It is run again after a deadlock, so it keeps nothing outside.

        Raises:
            Unavailable: as `transaction`.
        """
        for _ in range(_TRIES - 1):
            try:
                async with self.transaction() as connection:
                    return await body(connection)
            except REPEATABLE:
                continue
        async with self.transaction() as connection:
            return await body(connection)

    async def fetch(self, sql: str, *args: object) -> list[Record]:
        """Returns all rows of a read, repeated while PostgreSQL is away.

        Raises:
            Unavailable: still away after the wait.
        """
        return await self._repeat(lambda connection: connection.fetch(sql, *args))

    async def fetchrow(self, sql: str, *args: object) -> Record | None:
        """Returns the first row of a read or None; as `fetch`."""
        return await self._repeat(lambda connection: connection.fetchrow(sql, *args))

    async def fetchval(self, sql: str, *args: object) -> Any:
        """Returns the first value of the first row of a read or None; as `fetch`."""
        return await self._repeat(lambda connection: connection.fetchval(sql, *args))

    async def execute(self, sql: str, *args: object) -> str:
        """Runs one statement in its own transaction, once.

        Raises:
            Unavailable: PostgreSQL is away; when it left during the statement the outcome is unknown.
        """
        async with self.acquire() as connection:
            status: str = await connection.execute(sql, *args)
            return status

    async def _repeat(self, action: Callable[[Connection], Awaitable[T]]) -> T:
        deadline = _WithinDeadline(self._wait_s, self._metrics)
        problem: BaseException
        while True:
            connection, entered = await self._borrow()
            try:
                return await action(connection)
            except _AWAY as error:
                if isinstance(error, ValueError):
                    raise
                _give_up(connection, error)
                problem = error
            finally:
                await self._release(connection, entered)
            await deadline.pause(problem)

    async def _borrow(self) -> tuple[Connection, int]:
        """Returns a connection and what it was admitted as."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        deadline = _WithinDeadline(self._wait_s, self._metrics)
        while True:
            try:
                entered = await self._admission.enter(deadline.left_s)
                try:
                    connection = await self._pool.acquire(timeout=deadline.left_s)
                except BaseException:
                    self._admission.leave(entered)
                    raise
            except _AWAY as error:
                await deadline.pause(error)
            else:
                self._metrics.pool_wait(loop.time() - started)
                return connection, entered

    async def _release(self, connection: Connection, entered: int) -> None:
        try:
            # When this fails the driver has ended the connection: there is nothing left to do with it.
            with suppress(*_AWAY):
                await self._pool.release(connection, timeout=_GIVE_UP_S)
        finally:
            self._admission.leave(entered)


def _give_up(connection: Connection, error: BaseException) -> None:
    """Ends a connection that the driver has lost track of, so that nobody is lent it again."""
    if isinstance(error, asyncpg.InternalClientError):
        connection.terminate()


async def _init_connection(connection: Connection) -> None:
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads, format="text"
    )


async def _reset_connection(connection: Connection) -> None:
    """Leaves nothing of one borrower to the next; as a rule there is nothing, so no round trip."""
    if connection.is_in_transaction():
        await connection.execute("ROLLBACK")


def to_json(value: object) -> str | None:
    """Returns *value* as text for a ``text[]`` that the statement casts to jsonb; None stays None."""
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
