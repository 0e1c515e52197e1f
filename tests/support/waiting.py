"""Waiting for what comes by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

LONGEST_S = 120.0
"""Only a failure takes so long."""


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
