"""The cache: bounded, one load at a time, and never older than the last change."""

from __future__ import annotations

import asyncio

import pytest

from telesrv.store.cache import MergedCache


class Source:
    """Loads that end when the test says so."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.values: dict[int, str] = {}
        self.error: Exception | None = None

    async def load(self, key: int) -> str | None:
        self.calls.append(key)
        self.begun.set()
        value = self.values.get(key)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return value


async def test_concurrent_misses_share_a_load() -> None:
    source = Source()
    source.values[1] = "one"
    cache: MergedCache[int, str] = MergedCache(source.load, max_entries=2)
    waiting = [asyncio.create_task(cache.get(1)) for _ in range(3)]
    await source.begun.wait()
    source.gate.set()
    assert await asyncio.gather(*waiting) == ["one"] * 3
    assert await cache.get(1) == "one"
    assert source.calls == [1]


async def test_a_cancelled_caller_leaves_the_load_to_the_others() -> None:
    source = Source()
    source.values[1] = "one"
    cache: MergedCache[int, str] = MergedCache(source.load, max_entries=2)
    first, second = asyncio.create_task(cache.get(1)), asyncio.create_task(cache.get(1))
    await source.begun.wait()
    first.cancel()
    source.gate.set()
    assert await second == "one"
    with pytest.raises(asyncio.CancelledError):
        await first
    assert source.calls == [1]


async def test_a_load_that_began_before_a_change_is_given_to_nobody() -> None:
    source = Source()
    source.values[1] = "old"
    cache: MergedCache[int, str] = MergedCache(source.load, max_entries=2)
    early = asyncio.create_task(cache.get(1))
    await source.begun.wait()
    source.values[1] = "new"
    cache.forget(1)
    source.gate.set()
    assert await early == "new"
    assert await cache.get(1) == "new"


async def test_a_failed_load_is_tried_again() -> None:
    source = Source()
    source.gate.set()
    source.error = OSError()
    cache: MergedCache[int, str] = MergedCache(source.load, max_entries=2)
    with pytest.raises(OSError):
        await cache.get(1)
    source.error, source.values[1] = None, "one"
    assert await cache.get(1) == "one"


async def test_the_least_recently_used_goes_first() -> None:
    source = Source()
    source.gate.set()
    source.values = {1: "one", 2: "two", 3: "three"}
    cache: MergedCache[int, str] = MergedCache(source.load, max_entries=2)
    for key in (1, 2, 1, 3):
        await cache.get(key)
    assert (cache.maybe(1), cache.maybe(2), cache.maybe(3)) == ("one", None, "three")
    assert len(cache) == 2


@pytest.mark.parametrize(("keep_none", "loads"), [(True, 1), (False, 2)])
async def test_absence_is_kept_if_asked(keep_none: bool, loads: int) -> None:
    source = Source()
    source.gate.set()
    cache: MergedCache[int, str] = MergedCache(source.load, max_entries=2, keep_none=keep_none)
    assert await cache.get(1) is None
    assert await cache.get(1) is None
    assert len(source.calls) == loads
