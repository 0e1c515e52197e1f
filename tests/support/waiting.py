"""Waiting for what comes by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from telesrv.domain.errors import Unavailable

LONGEST_S = 120.0
"""Only a failure takes so long."""
PATIENCE_S = 30.0
"""How long a store waits whose servers are there, for a connection that many want on a slow machine."""


async def until(condition: Callable[[], Any] | Callable[[], Awaitable[Any]], what: str) -> Any:
    """Returns what *condition* gives, once that is true."""
    deadline = time.monotonic() + LONGEST_S
    while True:
        value: Any = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.02)


async def available(call: Callable[[], Awaitable[Any]]) -> Any:
    """Returns what *call* gives, made again while a server is away for as long as it waits: as clients do."""

    async def attempt() -> tuple[Any, ...]:
        try:
            return (await call(),)
        except Unavailable:
            return ()

    (answer,) = await until(attempt, "a server to answer")
    return answer
