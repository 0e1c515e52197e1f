"""A message and the end of the draft that it was are one transaction."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.drafts import Draft
from telesrv.domain.errors import PeerBlocked
from telesrv.domain.peers import Peer
from telesrv.domain.updates import EventKind
from telesrv.store import Store
from telesrv.store.send import BatchWriter
from tests.store.world import ANNA, BORIS, CLARA, DATE, add_users, deliver_all, log_of, request, send

FAIL_ONCE = """
CREATE SEQUENCE failures;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.kind = 13 AND nextval('failures') <= 1 THEN {failure}; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fail BEFORE INSERT ON user_update_events FOR EACH ROW EXECUTE FUNCTION fail();
"""
TOGETHER = """
SELECT count(DISTINCT xmin::text) AS transactions, count(*) AS events FROM user_update_events
WHERE user_id = $1 AND pts > $2
"""
BORIS_PEER, CLARA_PEER = Peer.user(BORIS), Peer.user(CLARA)


@pytest.fixture(autouse=True)
async def users(store: Store) -> None:
    await add_users(store, ANNA, BORIS, CLARA)


async def save(store: Store, peer: Peer, text: str) -> int:
    """Saves Anna's draft; returns its pts."""
    assert await store.drafts.save(ANNA, peer, Draft(text=text, date=DATE))
    return (await log_of(store, ANNA))[-1].pts


def writer_of(store: Store) -> BatchWriter:
    return BatchWriter(store.pool, store.ids, store.events, store.config.clock, store.config.wait_s)


async def kinds(store: Store, after: int) -> list[EventKind]:
    """Returns what Anna's log says, which has no hole."""
    events = await log_of(store, ANNA, after)
    assert [event.pts for event in events] == list(range(after + 1, after + 1 + len(events)))
    return [event.kind for event in events]


async def test_both_are_one_transaction(store: Store) -> None:
    await save(store, CLARA_PEER, "another chat's")
    pts = await save(store, BORIS_PEER, "hello")
    sent = await send(store, ANNA, BORIS, clear_draft=True)
    assert await kinds(store, pts) == [EventKind.NEW_MESSAGE, EventKind.DRAFT]
    row = await store.pool.fetchrow(TOGETHER, ANNA, pts)
    assert row is not None
    assert tuple(row) == (1, 2)
    assert sent.pts == pts + 1
    assert list(await store.drafts.all(ANNA)) == [CLARA_PEER]
    assert [item.event.kind for item in await deliver_all(store) if item.row.target_user_id == ANNA][-2:] == [
        EventKind.NEW_MESSAGE,
        EventKind.DRAFT,
    ]


async def test_a_message_without_a_draft_has_one_event(store: Store) -> None:
    await send(store, ANNA, BORIS, clear_draft=True)
    assert await kinds(store, 0) == [EventKind.NEW_MESSAGE]


@pytest.mark.parametrize(
    "failure",
    ["RAISE EXCEPTION 'again' USING ERRCODE = '40P01'", "PERFORM pg_terminate_backend(pg_backend_pid())"],
)
async def test_neither_is_there_when_the_other_fails(store: Store, clock: FakeClock, failure: str) -> None:
    pts = await save(store, BORIS_PEER, "hello")
    async with store.pool.acquire() as connection:
        await connection.execute(FAIL_ONCE.replace("{failure}", failure))
    sent = await send(store, ANNA, BORIS, clear_draft=True)
    assert not sent.duplicate
    clock.advance(store.config.reservation_s + 1)
    await store.updates.sweep()
    said = [kind for kind in await kinds(store, pts) if kind is not EventKind.NOOP]
    assert said == [EventKind.NEW_MESSAGE, EventKind.DRAFT]
    assert await store.drafts.all(ANNA) == {}


@pytest.mark.parametrize("meanwhile", ["saved", "cleared"])
async def test_a_draft_that_changed_meanwhile_is_left_alone(store: Store, meanwhile: str) -> None:
    await save(store, BORIS_PEER, "hello")
    writer = writer_of(store)
    prepared = await writer.prepare([request(ANNA, BORIS, clear_draft=True)])
    await store.drafts.save(
        ANNA, BORIS_PEER, Draft(text="and then" if meanwhile == "saved" else "", date=DATE)
    )
    await writer.write(prepared)
    said = await kinds(store, 0)
    assert said == [EventKind.DRAFT, EventKind.NEW_MESSAGE, EventKind.NOOP, EventKind.DRAFT]
    left = [draft.text for draft in (await store.drafts.all(ANNA)).values()]
    assert left == (["and then"] if meanwhile == "saved" else [])


async def test_a_draft_ends_once_in_a_batch(store: Store) -> None:
    pts = await save(store, BORIS_PEER, "one")
    await save(store, CLARA_PEER, "two")
    requests = [
        request(ANNA, BORIS, "a", clear_draft=True),
        request(ANNA, BORIS, "b", clear_draft=True),
        request(BORIS, ANNA, "c", clear_draft=True),
        request(ANNA, CLARA, "d", clear_draft=True),
        request(ANNA, CLARA, "e"),
    ]
    writer = writer_of(store)
    await writer.write(await writer.prepare(requests))
    message, draft = EventKind.NEW_MESSAGE, EventKind.DRAFT
    assert await kinds(store, pts + 1) == [message, draft, message, message, message, draft, message]
    assert await store.drafts.all(ANNA) == {}


async def test_a_repeat_ends_no_later_draft(store: Store) -> None:
    await save(store, BORIS_PEER, "hello")
    asked = request(ANNA, BORIS, clear_draft=True)
    first = await store.messages.send(asked)
    await save(store, BORIS_PEER, "and then")
    again = await store.messages.send(asked)
    assert (again.box.box_id, again.duplicate) == (first.box.box_id, True)
    assert list(await store.drafts.all(ANNA)) == [BORIS_PEER]


async def test_what_is_refused_ends_no_draft(store: Store) -> None:
    pts = await save(store, BORIS_PEER, "hello")
    await store.blocks.block(ANNA, BORIS_PEER)
    with pytest.raises(PeerBlocked):
        await send(store, ANNA, BORIS, clear_draft=True)
    assert EventKind.DRAFT not in await kinds(store, pts)
    assert list(await store.drafts.all(ANNA)) == [BORIS_PEER]


async def test_drafts_and_messages_at_once_end_in_the_order_of_the_log(store: Store) -> None:
    asked = request(ANNA, BORIS, clear_draft=True)
    for number in range(20):
        await asyncio.gather(
            store.drafts.save(ANNA, BORIS_PEER, Draft(text=f"draft {number}", date=DATE)),
            send(store, ANNA, BORIS, clear_draft=True),
            store.messages.send(replace(asked, random_id=10_000 + number)),
        )
        said = [event for event in await log_of(store, ANNA) if event.kind is EventKind.DRAFT]
        left = await store.drafts.all(ANNA)
        assert bool(said[-1].payload) == bool(left)
        if said[-1].payload:
            assert left[BORIS_PEER].text == said[-1].payload["text"]
