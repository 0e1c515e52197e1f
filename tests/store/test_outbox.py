"""Pushes that are owed: claims, leases, order and failure."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.origin import Origin
from telesrv.domain.updates import OUTBOX_BUCKETS, EventKind, NewEvent, OutboxRow, bucket_of
from telesrv.store import Store, StoreConfig
from telesrv.store.ids import Want
from tests.store.world import (
    ANNA,
    BORIS,
    CLARA,
    DATE,
    add_users,
    claim_all,
    deliver_all,
    log_event,
    send,
    send_many,
)

BUCKET = bucket_of(BORIS)
ALL = range(OUTBOX_BUCKETS)


@pytest.fixture(autouse=True)
async def users(store: Store) -> None:
    await add_users(store, ANNA, BORIS, CLARA)


def pts_of(rows: list[OutboxRow]) -> list[int]:
    return [row.pts for row in rows]


def test_buckets_are_even_and_fixed() -> None:
    counts = [0] * OUTBOX_BUCKETS
    for user_id in range(10_000):
        counts[bucket_of(user_id)] += 1
    assert min(counts) > 100
    assert [bucket_of(user_id) for user_id in (1, 2, 777000, 2**40 - 1)] == [39, 15, 26, 43]


async def test_claims_are_in_order_with_event_and_box(store: Store) -> None:
    await send_many(store, ANNA, BORIS, 10)
    rows = await store.outbox.claim({BUCKET})
    assert pts_of(rows) == list(range(1, 11))
    items = await store.outbox.read(rows)
    assert [item.row for item in items] == rows
    for item in items:
        assert (item.event.kind, item.event.pts) == (EventKind.NEW_MESSAGE, item.row.pts)
        assert item.box is not None
        assert item.box.box_id == item.event.box_id
        assert item.row.attempts == 1
    await store.outbox.done(rows)
    assert await store.outbox.claim({BUCKET}) == []


async def test_leased_rows_are_nobody_elses_until_the_lease_ends(store: Store, clock: FakeClock) -> None:
    await send_many(store, ANNA, BORIS, 3)
    assert len(await store.outbox.claim({BUCKET})) == 3
    assert await store.outbox.claim({BUCKET}) == []
    assert await store.outbox.due(ALL) == {bucket_of(ANNA)}
    clock.advance(store.config.outbox_lease_s + 1)
    assert await store.outbox.due(ALL) == {bucket_of(ANNA), BUCKET}
    rows = await store.outbox.claim({BUCKET})
    assert [(row.pts, row.attempts) for row in rows] == [(1, 2), (2, 2), (3, 2)]


async def test_a_server_that_starts_again_need_not_wait_for_its_leases(
    store: Store, store_config: StoreConfig
) -> None:
    await send_many(store, ANNA, BORIS, 3)
    assert len(await store.outbox.claim({BUCKET})) == 3
    again = await Store.open(store_config)
    try:
        assert await again.outbox.release_leases(1) == 3
        assert pts_of(await again.outbox.claim({BUCKET})) == [1, 2, 3]
    finally:
        await again.close()


async def test_a_process_that_is_new_to_an_account_claims_what_the_others_do(
    store: Store, store_config: StoreConfig
) -> None:
    sent = await send(store, ANNA, BORIS)
    edited = await store.edits.edit(ANNA, sent.box.peer, sent.box.box_id, "edited", (), date=DATE + 1)
    new = await Store.open(store_config)
    try:
        for user_id in (ANNA, BORIS):
            assert new.outbox._marks.unknown({user_id})
            items = await new.outbox.read(await new.outbox.claim({bucket_of(user_id)}))
            assert [item.box and item.box.text for item in items] == ["edited", "edited"]
            assert items[-1].event.kind is EventKind.EDIT_MESSAGE
            assert await new.outbox._marks.walk(user_id) == (items[-1].row.pts, False)
        assert edited.pts == 2
    finally:
        await new.close()


async def test_the_leases_of_one_process_can_be_ended_alone(store: Store, store_config: StoreConfig) -> None:
    await send(store, ANNA, BORIS)
    other = await Store.open(replace(store_config, node=2))
    try:
        assert pts_of(await store.outbox.claim({BUCKET})) == [1]
        assert pts_of(await other.outbox.claim({bucket_of(ANNA)})) == [1]
        assert await store.outbox.release_leases(2) == 1
        assert await store.outbox.due(ALL) == {bucket_of(ANNA)}
        assert await store.outbox.release_leases(2) == 0
        assert await store.outbox.release_leases(1, {bucket_of(CLARA)}) == 0
        assert pts_of(await store.outbox.claim({bucket_of(ANNA)})) == [1]
        assert await store.outbox.release_leases(1) == 2
    finally:
        await other.close()


async def test_claims_of_one_bucket_by_two_processes_take_turns(
    store: Store, store_config: StoreConfig
) -> None:
    other = await Store.open(replace(store_config, node=2))
    try:
        for number in range(1, 7):
            await send(store, ANNA, BORIS)
            claimant = (store, other)[number % 2]
            rows = await claimant.outbox.claim({BUCKET})
            assert pts_of(rows) == [number]
            await claimant.outbox.done(rows)
    finally:
        await other.close()


async def test_a_row_without_its_event_stops_no_other(store: Store) -> None:
    await send(store, ANNA, BORIS)
    orphan = """INSERT INTO dispatch_outbox (bucket, target_user_id, pts, created_at_ms)
        VALUES ($1, $2, 99, 0)"""
    await store.pool.execute(orphan, BUCKET, BORIS)
    assert pts_of(await store.outbox.claim({BUCKET})) == [1]


async def test_an_account_with_leased_rows_is_passed_over(store: Store) -> None:
    await send_many(store, ANNA, BORIS, 3)
    first = await store.outbox.claim({BUCKET}, limit=2)
    assert pts_of(first) == [1, 2]
    assert await store.outbox.claim({BUCKET}) == []
    await store.outbox.done(first)
    assert pts_of(await store.outbox.claim({BUCKET})) == [3]


async def test_concurrent_claimants_share_no_row_and_break_no_order(
    store: Store, store_config: StoreConfig
) -> None:
    receivers = list(range(3_000, 3_020))
    await add_users(store, *receivers)
    await asyncio.gather(*(send(store, ANNA, to) for _ in range(30) for to in receivers))
    others = [await Store.open(replace(store_config, node=node)) for node in (2, 3)]
    delivered: list[OutboxRow] = []

    async def work(worker: Store) -> None:
        idle = 0
        while idle < 3:
            found = 0
            for bucket in await worker.outbox.due(ALL):
                rows = await worker.outbox.claim({bucket}, limit=7)
                delivered.extend(rows)
                await worker.outbox.done(rows)
                found += len(rows)
            idle = 0 if found else idle + 1

    try:
        await asyncio.gather(*(work(worker) for worker in (store, *others)))
    finally:
        for other in others:
            await other.close()
    keys = [(row.target_user_id, row.pts) for row in delivered]
    assert len(keys) == len(set(keys)) == 2 * 30 * 20
    for user_id in (ANNA, *receivers):
        order = [pts for target, pts in keys if target == user_id]
        assert all(one < other for one, other in pairwise(order))
    stats = await store.outbox.stats()
    assert (stats.waiting, stats.leased, stats.failed) == (0, 0, 0)


async def test_accounts_of_a_bucket_take_turns(store: Store) -> None:
    same = [user_id for user_id in range(10_000, 20_000) if bucket_of(user_id) == BUCKET][:3]
    await add_users(store, *same)
    for user_id in same:
        await send_many(store, ANNA, user_id, 6)
    order = []
    for _ in range(9):
        rows = await store.outbox.claim({BUCKET}, limit=2)
        order.append(rows[0].target_user_id)
        await store.outbox.done(rows)
    assert order[:3] == same


async def test_a_claim_goes_on_where_the_one_before_broke_off(store: Store) -> None:
    same = [user_id for user_id in range(10_000, 20_000) if bucket_of(user_id) == BUCKET][:3]
    await add_users(store, *same)
    for user_id in same:
        await send_many(store, ANNA, user_id, 6)
    sizes = []
    while rows := await store.outbox.claim({BUCKET}, limit=10):
        sizes.append(len(rows))
        await store.outbox.done(rows)
    assert sizes == [10, 8]


async def test_a_claim_in_many_buckets_goes_on_where_it_broke_off(store: Store) -> None:
    receivers = list(range(10_000, 10_040))
    await add_users(store, *receivers)
    for user_id in receivers:
        await send_many(store, user_id, user_id + 1 if user_id + 1 in receivers else receivers[0], 3)
    order: list[OutboxRow] = []
    sizes = []
    while rows := await store.outbox.claim(ALL, limit=50):
        sizes.append(len(rows))
        order += rows
        await store.outbox.done(rows)
    assert sizes == [50, 50, 50, 50, 40]
    assert order == sorted(order)
    assert len({(row.target_user_id, row.pts) for row in order}) == 2 * 3 * 40


async def test_of_many_buckets_those_whose_turn_is_lost_come_next(
    store: Store, store_config: StoreConfig
) -> None:
    other = await Store.open(replace(store_config, node=2))
    try:
        await send(store, ANNA, BORIS)
        assert len(await store.outbox.claim(ALL)) == 2
        await send(store, ANNA, BORIS)
        await store.outbox.release_leases(1)
        assert pts_of(await other.outbox.claim({BUCKET})) == [1, 2]
        await store.outbox.wait(0, ALL)
        rows = await store.outbox.claim(ALL)
        assert [(row.target_user_id, row.pts) for row in rows] == [(ANNA, 1), (ANNA, 2)]
        assert await store.outbox.wait(0, ALL) == {BUCKET}
        assert await store.outbox.claim({BUCKET}) == []
        await other.outbox.release_leases(2)
        assert pts_of(await store.outbox.claim(ALL)) == [1, 2]
    finally:
        await other.close()


async def test_a_claim_takes_a_batch_of_each_bucket_and_no_more_than_ten(store: Store) -> None:
    batch = store.config.outbox_batch
    assert [store.outbox.limit(range(count)) for count in (1, 3, 10, 64)] == [
        batch,
        3 * batch,
        10 * batch,
        10 * batch,
    ]


async def test_on_shards_each_statement_has_one_bucket(store_config: StoreConfig) -> None:
    sharded = await Store.open(replace(store_config, partitions=0))
    try:
        assert sharded.outbox.span == 1
        await send(sharded, ANNA, BORIS)
        rows = [*await sharded.outbox.claim({BUCKET}), *await sharded.outbox.claim({bucket_of(ANNA)})]
        await sharded.outbox.done(rows)
        assert await sharded.outbox.due(ALL) == set()
    finally:
        await sharded.close()


async def test_rows_beyond_a_hole_wait_for_it(store: Store, clock: FakeClock) -> None:
    await send(store, ANNA, BORIS)
    await store.ids.take([Want(BORIS, pts=1)])
    await send_many(store, ANNA, BORIS, 2)
    rows = await store.outbox.claim({BUCKET})
    assert pts_of(rows) == [1]
    await store.outbox.done(rows)
    clock.advance(1)
    assert await store.outbox.claim({BUCKET}) == []
    clock.advance(60)
    assert await store.updates.sweep() == 1
    rows = await store.outbox.claim({BUCKET})
    assert pts_of(rows) == [2, 3, 4]
    assert [row.attempts for row in rows] == [1, 1, 1]
    assert (await store.outbox.read(rows))[0].event.kind is EventKind.NOOP


async def test_what_fills_a_hole_comes_before_what_stood_behind_it(store: Store) -> None:
    """Also when that was put back a moment ago, and more has come since."""
    await send(store, ANNA, BORIS)
    grants = await store.ids.take([Want(BORIS, pts=1)])
    await send_many(store, ANNA, BORIS, 2)
    rows = await store.outbox.claim({BUCKET})
    assert pts_of(rows) == [1]
    await store.outbox.done(rows)
    await store.events.fill(list(grants.values()))
    await send(store, ANNA, BORIS)
    assert pts_of(await store.outbox.claim({BUCKET})) == [2, 3, 4, 5]


async def test_a_hole_that_is_filled_while_a_claim_is_under_way_holds_it_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim has not seen that row yet; the log, read after it, shows the event."""
    logged = store.outbox._logged
    for number, later in enumerate((False, True)):
        before = 3 * number + 1
        await send(store, ANNA, BORIS)
        first = await store.outbox.claim({BUCKET})
        assert pts_of(first) == [before]
        await store.outbox.done(first)
        grants = await store.ids.take([Want(BORIS, pts=1)])
        await send(store, ANNA, BORIS)

        async def filled(
            connection: Any, rows: Any, grants: Any = grants, seen: int = later * (before + 2)
        ) -> Any:
            monkeypatch.setattr(store.outbox, "_logged", logged)
            await store.events.fill(list(grants.values()))
            if seen:  # somebody has looked at the log as well
                assert (await store.updates.state(BORIS)).pts == seen
            return await logged(connection, rows)

        monkeypatch.setattr(store.outbox, "_logged", filled)
        assert await store.outbox.claim({BUCKET}) == []
        rows = await store.outbox.claim({BUCKET})
        assert pts_of(rows) == [before + 1, before + 2]
        await store.outbox.done(rows)


@pytest.mark.leaves_holes
async def test_a_full_claim_with_a_hole_in_it_is_followed_by_another(store: Store) -> None:
    await send(store, ANNA, BORIS)
    await store.ids.take([Want(BORIS, pts=1)])
    await send_many(store, ANNA, BORIS, 5)
    await store.outbox.wait(0, ALL)
    assert pts_of(await store.outbox.claim({BUCKET}, limit=3)) == [1]
    assert await store.outbox.wait(0, ALL) == {BUCKET}


async def test_a_mark_that_lags_is_walked(store: Store, store_config: StoreConfig) -> None:
    await send_many(store, ANNA, BORIS, 150)
    await deliver_all(store)
    await send(store, ANNA, BORIS)
    other = await Store.open(store_config)
    try:
        assert pts_of(await other.outbox.claim({BUCKET})) == [151]
    finally:
        await other.close()


async def test_retries_back_off_and_end_as_failed(store: Store, clock: FakeClock) -> None:
    await send(store, ANNA, BORIS)
    attempts = 0
    while (await store.outbox.stats()).failed == 0:
        rows = await store.outbox.claim({BUCKET})
        if not rows:
            clock.advance(1)
            continue
        attempts += 1
        await store.outbox.retry(rows, "no\0 way")
        assert await store.outbox.claim({BUCKET}) == []
    assert attempts == store.config.outbox_attempts
    [failed] = await store.outbox.failed()
    assert (failed.target_user_id, failed.pts, failed.last_error) == (BORIS, 1, "no way")
    assert await store.outbox.claim({BUCKET}) == []
    assert await store.outbox.requeue_failed() == 1
    assert await store.outbox.failed() == []
    [row] = await store.outbox.claim({BUCKET})
    assert (row.attempts, row.pts) == (1, 1)


async def test_a_row_that_backs_off_does_not_stop_later_ones(store: Store) -> None:
    await send(store, ANNA, BORIS)
    rows = await store.outbox.claim({BUCKET})
    await store.outbox.retry(rows, "later")
    await send(store, ANNA, BORIS)
    assert pts_of(await store.outbox.claim({BUCKET})) == [2]


async def test_commits_wake_the_buckets_they_wrote(store: Store) -> None:
    assert await store.outbox.wait(0, ALL) == set()
    waiting = asyncio.create_task(store.outbox.wait(60, ALL))
    await send(store, ANNA, BORIS)
    assert await waiting == {bucket_of(ANNA), BUCKET}
    assert await store.outbox.wait(0, ALL) == set()
    await log_event(store, NewEvent(CLARA, EventKind.CONTACTS_RESET, DATE))
    assert await store.outbox.wait(0, {BUCKET}) == set()
    assert await store.outbox.wait(60, {bucket_of(CLARA)}) == {bucket_of(CLARA)}


async def test_exclusions_reach_the_claimant(store: Store) -> None:
    await log_event(
        store,
        NewEvent(ANNA, EventKind.CONTACTS_RESET, DATE, payload={"user_ids": [1]}, origin=Origin(-5, 2**62)),
    )
    [item] = await claim_all(store)
    assert (item.row.exclude_auth_key_id, item.row.exclude_session_id) == (-5, 2**62)
    assert item.event.payload == {"user_ids": [1]}
    assert item.box is None
