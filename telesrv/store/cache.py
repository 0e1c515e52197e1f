"""A bounded cache whose concurrent misses of one key share one load.

Guarantees: at most *max_entries* values are kept, the least recently used go first; a key has at most one
load under way; what a load brings that began before `forget` or `put` of its key is neither kept nor given
to those who waited for it, who load anew: after `forget` nobody is given what was true before. A caller that
is cancelled leaves the load to the others. Nothing here outlives the event loop it ran in."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class MergedCache(Generic[K, V]):
    """Values by key, read through *load*; a None is kept only if *keep_none*."""

    __slots__ = ("_keep_none", "_load", "_loading", "_max_entries", "_values")

    def __init__(
        self, load: Callable[[K], Awaitable[V | None]], *, max_entries: int, keep_none: bool = False
    ) -> None:
        self._load = load
        self._max_entries = max_entries
        self._keep_none = keep_none
        self._values: OrderedDict[K, V | None] = OrderedDict()
        self._loading: dict[K, asyncio.Task[bool]] = {}

    def __len__(self) -> int:
        return len(self._values)

    async def get(self, key: K) -> V | None:
        """Returns the value of *key*, loading it when it is not kept; raises what the load raises."""
        while True:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            task = self._loading.get(key)
            if task is None:
                task = asyncio.create_task(self._run(key))
                self._loading[key] = task
                task.add_done_callback(_retrieve)
            if await asyncio.shield(task) and key not in self._values and not self._keep_none:
                return None

    def maybe(self, key: K) -> V | None:
        """Returns the value of *key* if it is kept; never loads."""
        return self._values.get(key)

    def put(self, key: K, value: V | None) -> None:
        """Keeps *value*; a load under way no longer counts."""
        self.forget(key)
        if value is None and not self._keep_none:
            return
        self._values[key] = value
        while len(self._values) > self._max_entries:
            self._values.popitem(last=False)

    def forget(self, key: K) -> None:
        """Drops the value of *key*; a load under way no longer counts."""
        self._values.pop(key, None)
        self._loading.pop(key, None)

    def clear(self) -> None:
        """Drops every value; loads under way no longer count."""
        self._values.clear()
        self._loading.clear()

    async def _run(self, key: K) -> bool:
        """Keeps what it loads; returns whether that is nothing, and nobody said meanwhile that it changed."""
        task = asyncio.current_task()
        try:
            value = await self._load(key)
        except BaseException:
            if self._loading.get(key) is task:
                del self._loading[key]
            raise
        if self._loading.get(key) is not task:
            return False
        self.put(key, value)
        return value is None


def _retrieve(task: asyncio.Task[object]) -> None:
    """Takes the exception of a load whose callers were all cancelled, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()
