"""The Redis connections that all sub-stores share, and the Lua scripts beside this file.

Guarantees: no call waits longer than its time-out; Redis away is `Unavailable`, never a driver's error.
Nothing that only Redis knows is needed to keep a promise to a user.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeVar

import hiredis
from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, NoScriptError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from telesrv.domain.errors import Unavailable
from telesrv.store.metrics import NO_METRICS, StoreMetrics

T = TypeVar("T")
_AWAY: Final = (OSError, RedisConnectionError, RedisTimeoutError, BusyLoadingError)


@cache
def _script(name: str) -> tuple[str, str]:
    """Returns the text and SHA-1 of ``lua/<name>.lua``."""
    text = (files("telesrv.store") / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    return text, hashlib.sha1(text.encode()).hexdigest()  # noqa: S324 - how Redis names a script


class _Packing:
    """Writes commands by hiredis: a call for the ids of a full batch has some three thousand parts."""

    def pack_command(self, *args: Any) -> list[bytes]:
        name, *rest = args
        words = name.split() if isinstance(name, str) else [name]
        return [hiredis.pack_command((*words, *rest))]


class Redis:
    """One client for the process; keys carry *prefix*; answers are bytes.

    `client` is the raw client for pipelines; wrap what is awaited on it in `call`: nothing else bounds it.
    """

    def __init__(self, client: Any, prefix: str, wait_s: float, metrics: StoreMetrics = NO_METRICS) -> None:
        self.client = client
        self._metrics = metrics
        self._prefix = prefix
        self._wait_s = wait_s

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        prefix: str = "telesrv:",
        wait_s: float = 5.0,
        max_conns: int = 64,
        metrics: StoreMetrics = NO_METRICS,
    ) -> Redis:
        """Opens the client and asks the server once.

        Raises:
            Unavailable: the server did not answer within *wait_s*.
        """
        pool = aioredis.BlockingConnectionPool.from_url(
            url,
            max_connections=max_conns,
            timeout=wait_s,
            # `call` bounds what is asked. The client would bound each write by `asyncio.wait_for`, in which
            # a cancellation can be lost.
            socket_timeout=None,
            socket_connect_timeout=wait_s,
            retry=Retry(NoBackoff(), 0),
        )
        pool.connection_class = type("Connection", (_Packing, pool.connection_class), {})
        redis = cls(aioredis.Redis(connection_pool=pool), prefix, wait_s, metrics)
        try:
            await redis.call(redis.client.ping)
        except BaseException:
            await redis.close()
            raise
        return redis

    async def close(self) -> None:
        """Closes every connection."""
        await self.client.aclose()
        await self.client.connection_pool.disconnect()

    def key(self, *parts: object) -> str:
        """Returns the key of *parts*, joined by colons, under the prefix."""
        return self._prefix + ":".join(map(str, parts))

    async def call(self, action: Callable[[], Awaitable[T]]) -> T:
        """Returns what *action* gives, repeated while Redis is away: it must bear being run twice.

        An action that has no answer by the end of the wait is cancelled, which ends its connection.

        Raises:
            Unavailable: still away after the wait.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wait_s
        pause_s = 0.02
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await action()
            except _AWAY as error:
                if loop.time() + pause_s >= deadline:
                    self._metrics.away("Redis")
                    raise Unavailable("Redis") from error
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.5)

    async def script(self, name: str, keys: Sequence[str], args: Sequence[Any]) -> Any:
        """Returns what the script ``lua/<name>.lua`` answers; *keys* come without the prefix.

        It is repeated while Redis is away, so it may have run more than once.

        Raises:
            Unavailable: still away after the wait.
        """
        text, digest = _script(name)
        full = [self._prefix + key for key in keys]

        async def action() -> Any:
            try:
                return await self.client.evalsha(digest, len(full), *full, *args)
            except NoScriptError:
                return await self.client.eval(text, len(full), *full, *args)

        return await self.call(action)

    async def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """Returns the value of each key, given without the prefix; None where there is none.

        Raises:
            Unavailable: still away after the wait.
        """
        full = [self._prefix + key for key in keys]

        async def action() -> list[bytes | None]:
            values: list[bytes | None] = await self.client.mget(full)
            return values

        return await self.call(action)
