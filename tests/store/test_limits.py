"""Rate limits under a clock that stands still."""

from __future__ import annotations

import asyncio

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.errors import FloodWait
from telesrv.store import Store


async def test_a_window_lets_its_limit_pass_and_says_how_long_to_wait(store: Store, clock: FakeClock) -> None:
    for _ in range(3):
        await store.limits.hit("messages:send", 7, 3, 60)
    clock.advance(20)
    with pytest.raises(FloodWait) as refused:
        await store.limits.hit("messages:send", 7, 3, 60)
    assert refused.value.wait_s == 40
    clock.advance(39.5)
    with pytest.raises(FloodWait) as refused:
        await store.limits.hit("messages:send", 7, 3, 60)
    assert refused.value.wait_s == 1
    clock.advance(0.5)
    await store.limits.hit("messages:send", 7, 3, 60)


async def test_keys_and_kinds_are_counted_apart(store: Store, redis_prefix: str) -> None:
    await store.limits.hit("messages:send", 7, 1, 60)
    await store.limits.hit("messages:send", 8, 1, 60)
    await store.limits.hit("search", 7, 1, 60)
    assert await store.redis.client.exists(f"{redis_prefix}ratelimit:messages:send:7") == 1


async def test_what_is_refused_is_not_counted(store: Store) -> None:
    await store.limits.hit("import", 7, 10, 60, cost=8)
    with pytest.raises(FloodWait):
        await store.limits.hit("import", 7, 10, 60, cost=3)
    await store.limits.hit("import", 7, 10, 60, cost=2)


async def test_what_is_given_back_may_be_used_again(store: Store) -> None:
    await store.limits.hit("guess", 7, 1, 60)
    await store.limits.hit("guess", 7, 1, 60, cost=-1)
    await store.limits.hit("guess", 7, 1, 60)
    with pytest.raises(FloodWait):
        await store.limits.hit("guess", 7, 1, 60)


async def test_zero_is_no_limit(store: Store) -> None:
    for _ in range(100):
        await store.limits.hit("messages:send", 7, 0, 60)


async def test_many_at_once_pass_no_more_than_the_limit(store: Store) -> None:
    outcomes = await asyncio.gather(
        *(store.limits.hit("messages:send", 7, 30, 60) for _ in range(80)), return_exceptions=True
    )
    assert outcomes.count(None) == 30
    assert sum(isinstance(outcome, FloodWait) for outcome in outcomes) == 50


async def test_a_clock_set_back_far_does_not_lock_out(store: Store, clock: FakeClock) -> None:
    await store.limits.hit("messages:send", 7, 1, 60)
    clock.set_time(clock.time() - 86_400)
    await store.limits.hit("messages:send", 7, 1, 60)
