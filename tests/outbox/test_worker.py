"""What is owed goes out, whoever committed it and however busy the worker is with the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from telesrv.clock import SystemClock
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.gateway.hub import SessionHub
from telesrv.gateway.limits import GatewayLimits
from telesrv.gateway.node import Node
from telesrv.mtproto.limits import SessionLimits
from telesrv.outbox.worker import OutboxDispatcher
from telesrv.rpc.pushes import PushBuilder
from telesrv.store import Store, StoreConfig
from tests.store.world import log_event
from tests.support.waiting import until

BUSY, QUIET = 1_001, 1_002
MOST_COMMITS = 5_000
"""In the time of a few looks, on the slowest machine."""


async def owed(store: Store, user_id: int) -> int:
    count: int = await store.pool.fetchval(
        "SELECT count(*) FROM dispatch_outbox WHERE target_user_id = $1", user_id
    )
    return count


@asynccontextmanager
async def two_processes(
    postgres_dsn: str, redis_url: str, redis_prefix: str
) -> AsyncIterator[tuple[Store, Store]]:
    """The stores of a process whose outbox is dispatched, and of another one."""
    clock = SystemClock()
    config = StoreConfig(
        postgres_dsn=postgres_dsn,
        redis_url=redis_url,
        redis_prefix=redis_prefix,
        clock=clock,
        min_conns=1,
        max_conns=6,
    )
    here, elsewhere = await Store.open(config), await Store.open(config)
    lost = asyncio.Event()
    try:
        await here.pool.execute(
            "INSERT INTO users (user_id, phone, first_name, created_at) "
            "SELECT id, '', 'x', 0 FROM unnest($1::bigint[]) AS u(id)",
            [BUSY, QUIET],
        )
        lease = await here.nodes.acquire()
        for store in (here, elsewhere):
            store.ids.message_ids.hold(lease)
        limits = GatewayLimits()
        hub = SessionHub(limits, clock)
        node = Node(
            here,
            hub,
            lease,
            limits=limits,
            session_limits=SessionLimits(),
            clock=clock,
            connections=lambda: 0,
            on_lease_lost=lost.set,
        )
        outbox = OutboxDispatcher(here, PushBuilder(here), hub, node, workers=1, interval_s=0.05)
        await node.start()
        outbox.start()
        try:
            yield here, elsewhere
        finally:
            await outbox.stop()
            await node.stop()
    finally:
        await elsewhere.close()
        await here.close()


async def changes(store: Store, user_id: int) -> None:
    await log_event(store, NewEvent(user_id, EventKind.CONTACTS_RESET, 1, payload={"user_ids": []}))


async def test_busy_buckets_do_not_keep_others_from_being_looked_at(
    postgres_dsn: str, redis_url: str, redis_prefix: str
) -> None:
    async with two_processes(postgres_dsn, redis_url, redis_prefix) as (here, elsewhere):
        for _ in range(MOST_COMMITS):  # the worker looks when it starts
            await changes(here, BUSY)
            if not await owed(here, BUSY):
                break
        await changes(elsewhere, QUIET)
        for _ in range(MOST_COMMITS):
            await changes(here, BUSY)
            if not await owed(here, QUIET):
                break
        else:
            raise AssertionError("nobody looked")


async def test_what_a_process_does_not_take_is_owed_while_it_may_live(
    postgres_dsn: str, redis_url: str, redis_prefix: str
) -> None:
    async with two_processes(postgres_dsn, redis_url, redis_prefix) as (here, elsewhere):
        silent = await elsewhere.nodes.acquire()
        await elsewhere.sessions.enter_users(silent.node, [QUIET])
        await elsewhere.sessions.beat(silent.node, "the last sign of its life")

        async def why() -> str | None:
            await changes(here, QUIET)  # once more: it hears of the others by its next beat
            sql = "SELECT max(last_error) FROM dispatch_outbox WHERE target_user_id = $1"
            reason: str | None = await here.pool.fetchval(sql, QUIET)
            return reason

        assert f"{silent.node}" in await until(why, "a push that nobody took")

        async def passed_over() -> bool:
            return not await owed(here, QUIET)

        await until(passed_over, "the end of who is silent")
