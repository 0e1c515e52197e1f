"""Read receipts that are committed together."""

from __future__ import annotations

import asyncio

import pytest

from telesrv.domain.peers import Peer
from telesrv.domain.updates import EventKind
from telesrv.store import Store
from tests.store.world import ANNA, BORIS, CLARA, DATE, add_users, log_of, send, send_many


@pytest.fixture(autouse=True)
async def users(store: Store) -> None:
    await add_users(store, ANNA, BORIS, CLARA)


async def test_of_reads_of_one_chat_at_once_the_furthest_counts(store: Store) -> None:
    await send_many(store, ANNA, BORIS, 10)
    await asyncio.gather(
        *(store.messages.read(BORIS, Peer.user(ANNA), up_to, date=DATE) for up_to in (3, 10, 7, 1, 9))
    )
    [dialog] = (await store.dialogs.page(BORIS)).dialogs
    assert (dialog.read_inbox_max_id, dialog.unread_count) == (10, 0)
    inbox = [event for event in await log_of(store, BORIS) if event.kind is EventKind.READ_INBOX]
    assert [event.box_id for event in inbox] == sorted({event.box_id for event in inbox})
    assert inbox[-1].payload == {"still_unread_count": 0}
    outbox = [event for event in await log_of(store, ANNA) if event.kind is EventKind.READ_OUTBOX]
    assert len(outbox) == len(inbox) <= 2


async def test_many_readers_share_a_transaction(store: Store) -> None:
    readers = list(range(5_000, 5_040))
    await add_users(store, *readers)
    await asyncio.gather(*(send(store, ANNA, reader) for reader in readers))
    begun = 0
    transaction = store.pool.transaction

    def counting() -> object:
        nonlocal begun
        begun += 1
        return transaction()

    store.pool.transaction = counting  # type: ignore[method-assign, assignment]
    outcomes = await asyncio.gather(
        *(store.messages.read(reader, Peer.user(ANNA), 0, date=DATE) for reader in readers)
    )
    assert [(outcome.pts, outcome.pts_count) for outcome in outcomes] == [(2, 1)] * len(readers)
    assert begun <= 3
    events = await log_of(store, ANNA)
    assert [event.kind for event in events].count(EventKind.READ_OUTBOX) == len(readers)
    assert [event.pts for event in events] == list(range(1, len(events) + 1))
    assert {dialog.read_outbox_max_id > 0 for dialog in (await store.dialogs.page(ANNA)).dialogs} == {True}


async def test_each_reader_of_a_batch_has_its_own_outcome(store: Store) -> None:
    await send(store, ANNA, BORIS)
    await send(store, ANNA, CLARA)
    await store.messages.read(CLARA, Peer.user(ANNA), 0, date=DATE)
    boris, clara, anna, nobody = await asyncio.gather(
        store.messages.read(BORIS, Peer.user(ANNA), 1, date=DATE),
        store.messages.read(CLARA, Peer.user(ANNA), 1, date=DATE),
        store.messages.read(ANNA, Peer.user(BORIS), 99, date=DATE),
        store.messages.read(ANNA, Peer.user(999), 0, date=DATE),
    )
    assert (boris.pts, boris.pts_count) == (2, 1)
    assert (clara.pts, clara.pts_count) == (2, 0)
    assert anna.pts_count == 1
    assert nobody.pts_count == 0


async def test_a_read_sees_what_its_account_sent_before(store: Store) -> None:
    await send(store, BORIS, ANNA)
    sends = [asyncio.create_task(send(store, ANNA, BORIS, f"message {i}")) for i in range(5)]
    read = asyncio.create_task(store.messages.read(ANNA, Peer.user(BORIS), 0, date=DATE))
    sent = await asyncio.gather(*sends)
    assert (await read).pts > sent[-1].pts
    [dialog] = (await store.dialogs.page(ANNA)).dialogs
    assert dialog.read_inbox_max_id == dialog.top_box_id == sent[-1].box.box_id
