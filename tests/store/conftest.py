"""A store on real servers, with a clock that stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from telesrv.clock import FakeClock
from telesrv.store import Store, StoreConfig
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def clock() -> FakeClock:
    """The clock that the store reads."""
    return FakeClock()


@pytest.fixture
def store_config(postgres_dsn: str, redis_url: str, redis_prefix: str, clock: FakeClock) -> StoreConfig:
    """The settings of the test's store, for a test that opens another."""
    return StoreConfig(
        postgres_dsn=postgres_dsn,
        redis_url=redis_url,
        redis_prefix=redis_prefix,
        clock=clock,
        min_conns=1,
        max_conns=10,
        wait_s=PATIENCE_S,
    )


@pytest_asyncio.fixture
async def store(store_config: StoreConfig) -> AsyncIterator[Store]:
    """An open store over the test's own database and keys."""
    store = await Store.open(store_config)
    yield store
    await store.close()
