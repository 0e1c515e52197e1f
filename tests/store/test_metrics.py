"""What the store tells its metrics, over real servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from telesrv.clock import FakeClock
from telesrv.domain.errors import FloodWait, RandomIdConflict, Unavailable
from telesrv.store import Store, StoreConfig
from telesrv.store.ids import Want
from telesrv.store.metrics import NoMetrics

from .world import ANNA, BORIS, add_users, claim_all, request, send, send_many


class Told(NoMetrics):
    """Adds up what it is told, by call and label."""

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()
        self.batches: list[int] = []
        self.waits = 0

    def message(self, result: str, count: int = 1) -> None:
        self.counts["message", result] += count

    def rate_limited(self, kind: str) -> None:
        self.counts["limited", kind] += 1

    def batch(self, size: int, seconds: float) -> None:
        assert seconds >= 0
        self.batches.append(size)

    def pool_wait(self, seconds: float) -> None:
        assert seconds >= 0
        self.waits += 1

    def away(self, server: str) -> None:
        self.counts["away", server] += 1

    def hole(self) -> None:
        self.counts["hole"] += 1

    def noops(self, count: int) -> None:
        self.counts["noops"] += count

    def outbox_claimed(self, count: int) -> None:
        self.counts["claimed"] += count

    def outbox_delivered(self, count: int) -> None:
        self.counts["delivered"] += count

    def outbox_retried(self, count: int) -> None:
        self.counts["retried"] += count

    def outbox_failed(self, count: int) -> None:
        self.counts["failed"] += count


@pytest.fixture
def told() -> Told:
    return Told()


@pytest_asyncio.fixture
async def store(store_config: StoreConfig, told: Told) -> AsyncIterator[Store]:
    store = await Store.open(replace(store_config, metrics=told, outbox_attempts=2))
    await add_users(store, ANNA, BORIS)
    yield store
    await store.close()


async def test_sends_by_outcome_and_batches(store: Store, told: Told) -> None:
    await send_many(store, ANNA, BORIS, 10)
    assert sum(told.batches) == 10
    assert len(told.batches) < 10
    first = request(ANNA, BORIS)
    await store.messages.send(first)
    await store.messages.send(first)
    with pytest.raises(RandomIdConflict):
        await store.messages.send(replace(first, text="other", digest=b"x" * 32))
    assert told.counts["message", "sent"] == 11
    assert told.counts["message", "repeated"] == 1
    assert told.counts["message", "refused"] == 1
    assert told.waits > 0


async def test_the_outbox(store: Store, told: Told, clock: FakeClock) -> None:
    await send(store, ANNA, BORIS)
    rows = [item.row for item in await claim_all(store)]
    await store.outbox.done(rows[:1])
    await store.outbox.retry(rows[1:], "no")
    clock.advance(60)
    await store.outbox.retry([item.row for item in await claim_all(store)], "no")
    assert [told.counts[name] for name in ("claimed", "delivered", "retried", "failed")] == [3, 1, 1, 1]


async def test_holes_and_noops(store: Store, told: Told, clock: FakeClock) -> None:
    await store.ids.take([Want(BORIS, pts=2)])
    await send(store, ANNA, BORIS)
    await claim_all(store)
    await claim_all(store)
    assert told.counts["hole"] == 1
    clock.advance(store.config.reservation_s + 1)
    assert await store.updates.sweep() == 2
    assert told.counts["noops"] == 2


async def test_limits(store: Store, told: Told) -> None:
    await store.limits.hit("messages:send", ANNA, 1, 60)
    with pytest.raises(FloodWait):
        await store.limits.hit("messages:send", ANNA, 1, 60)
    assert told.counts["limited", "messages:send"] == 1


async def test_a_server_that_is_away(store_config: StoreConfig, told: Told) -> None:
    for server, config in (
        ("PostgreSQL", replace(store_config, postgres_dsn="postgresql://a@127.0.0.1:1/b")),
        ("Redis", replace(store_config, redis_url="redis://127.0.0.1:1")),
    ):
        with pytest.raises(Unavailable):
            await Store.open(replace(config, metrics=told, wait_s=0.1))
        assert told.counts["away", server] == 1
