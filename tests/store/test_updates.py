"""The log as clients read it: stale state and the difference give the fresh state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.peers import Peer
from telesrv.domain.updates import DeviceState, EventKind, NewEvent
from telesrv.store import Store, updates
from telesrv.store.ids import Want
from tests.store.world import ANNA, BORIS, CLARA, DATE, add_users, log_event, log_of, send, send_many
from tests.support.waiting import LONGEST_S


@pytest.fixture(autouse=True)
async def users(store: Store) -> None:
    await add_users(store, ANNA, BORIS, CLARA)


async def test_difference_in_pages(store: Store) -> None:
    await send_many(store, ANNA, BORIS, 250)
    first = await store.updates.difference(BORIS, 0)
    assert (len(first.events), first.final, first.state.pts) == (100, False, 100)
    assert first.boxes.keys() == set(range(1, 101))
    last = await store.updates.difference(BORIS, 200)
    assert (len(last.events), last.final, last.state.pts) == (50, True, 250)
    assert last.state.unread_count == 250
    few = await store.updates.difference(BORIS, 10, limit=3)
    assert ([event.pts for event in few.events], few.final) == ([11, 12, 13], False)


async def test_a_page_of_long_texts_is_shorter(store: Store) -> None:
    await asyncio.gather(*(send(store, ANNA, BORIS, "\U0001f600" * 8192) for _ in range(80)))
    page = await store.updates.difference(BORIS, 0)
    assert (len(page.events), page.final, page.state.pts) == (64, False, 64)
    assert len(await log_of(store, BORIS)) == 80


@pytest.mark.parametrize("pts", [-1, -(2**40), 0])
async def test_a_pts_below_the_log_gives_all_of_it(store: Store, pts: int) -> None:
    await send(store, ANNA, BORIS)
    assert len((await store.updates.difference(BORIS, pts)).events) == 1


@pytest.mark.parametrize("pts", [1, 2, 2**31 - 1, 2**40])
async def test_a_pts_at_or_beyond_the_log_gives_the_sound_state(store: Store, pts: int) -> None:
    await send(store, ANNA, BORIS)
    difference = await store.updates.difference(BORIS, pts)
    assert (difference.events, difference.state.pts, difference.final) == ((), 1, True)


async def test_a_deleted_box_is_not_shown(store: Store) -> None:
    await send_many(store, ANNA, BORIS, 2)
    await store.pool.execute(
        "UPDATE message_boxes SET deleted = true WHERE owner_user_id = $1 AND box_id = 1", BORIS
    )
    difference = await store.updates.difference(BORIS, 0)
    assert (len(difference.events), set(difference.boxes)) == (2, {2})


async def test_difference_at_a_hole_waits_for_the_fill(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "HOLE_WAIT_S", LONGEST_S)
    await store.ids.take([Want(BORIS, pts=1)])
    await send(store, ANNA, BORIS)
    waiting = asyncio.create_task(store.updates.difference(BORIS, 0))
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.advance(60)
    assert await store.updates.sweep() == 1
    difference = await waiting
    assert [event.kind for event in difference.events] == [EventKind.NOOP, EventKind.NEW_MESSAGE]


@pytest.mark.leaves_holes
async def test_difference_before_a_hole_gives_what_is_sound_at_once(store: Store) -> None:
    await send(store, ANNA, BORIS)
    await store.ids.take([Want(BORIS, pts=1)])
    await send(store, ANNA, BORIS)
    difference = await store.updates.difference(BORIS, 0)
    assert ([event.pts for event in difference.events], difference.state.pts) == ([1], 1)
    assert difference.final


async def test_an_event_of_several_pts(store: Store) -> None:
    await store.pool.execute(
        "INSERT INTO user_update_events (user_id, pts, pts_count, kind, date) VALUES ($1, 3, 3, 0, 0)", ANNA
    )
    blocked = NewEvent(ANNA, EventKind.PEER_BLOCKED, DATE, Peer.user(BORIS), payload={"blocked": True})
    event = await log_event(store, blocked)
    assert event.pts == 4
    assert [one.pts for one in await log_of(store, ANNA)] == [3, 4]
    assert (await log_of(store, ANNA, 3)) == [event]


@pytest.mark.leaves_holes
async def test_marks_survive_a_restart_and_are_never_ahead(store: Store) -> None:
    await send_many(store, ANNA, BORIS, 100)
    await store.ids.take([Want(BORIS, pts=1)])
    await send(store, ANNA, BORIS)
    assert (await store.updates.state(BORIS)).pts == 100
    await store.updates.sweep()
    assert await store.pool.fetchval("SELECT pts FROM update_marks WHERE user_id = $1", BORIS) == 100
    other = await Store.open(store.config)
    try:
        assert (await other.updates.state(BORIS)).pts == 100
    finally:
        await other.close()


async def test_device_states(store: Store) -> None:
    await store.updates.save_device_state(1, ANNA, DeviceState(5, DATE))
    await store.updates.save_device_state(1, ANNA, DeviceState(7, DATE))
    await store.updates.save_device_state(2, ANNA, DeviceState(3, DATE))
    rows = await store.pool.fetch(
        "SELECT auth_key_id, user_id, pts, date FROM update_states ORDER BY auth_key_id"
    )
    assert [tuple(row) for row in rows] == [(1, ANNA, 7, DATE), (2, ANNA, 3, DATE)]
    assert (await store.updates.state(ANNA)).pts == 0


@dataclass
class Client:
    """What a client knows of its account: texts by id, and the marks of each chat."""

    user_id: int
    pts: int = 0
    texts: dict[int, tuple[int, str]] = field(default_factory=dict)
    read_inbox: dict[int, int] = field(default_factory=dict)
    read_outbox: dict[int, int] = field(default_factory=dict)

    async def catch_up(self, store: Store) -> None:
        final = False
        while not final:
            difference = await store.updates.difference(self.user_id, self.pts)
            for event in difference.events:
                assert event.pts - event.pts_count == self.pts
                self.pts = event.pts
                if event.kind is EventKind.NEW_MESSAGE:
                    box = difference.boxes[event.box_id]
                    self.texts[box.box_id] = (box.peer.id, box.text)
                elif event.kind is EventKind.READ_INBOX and event.peer:
                    assert self.read_inbox.get(event.peer.id, 0) < event.box_id
                    self.read_inbox[event.peer.id] = event.box_id
                elif event.kind is EventKind.READ_OUTBOX and event.peer:
                    assert self.read_outbox.get(event.peer.id, 0) < event.box_id
                    self.read_outbox[event.peer.id] = event.box_id
            assert difference.state.pts == self.pts
            final = difference.final

    @classmethod
    async def fresh(cls, store: Store, user_id: int) -> Client:
        """What a client that asks for everything is told."""
        client = cls(user_id, (await store.updates.state(user_id)).pts)
        for dialog in (await store.dialogs.page(user_id)).dialogs:
            history = await store.messages.history(user_id, dialog.peer)
            client.texts |= {box.box_id: (box.peer.id, box.text) for box in history.boxes}
            if dialog.read_inbox_max_id:
                client.read_inbox[dialog.peer.id] = dialog.read_inbox_max_id
            if dialog.read_outbox_max_id:
                client.read_outbox[dialog.peer.id] = dialog.read_outbox_max_id
            unread = [
                box for box in history.boxes if not box.outgoing and box.box_id > dialog.read_inbox_max_id
            ]
            assert dialog.unread_count == len(unread)
        return client


@pytest.mark.parametrize("seed", range(3))
async def test_stale_state_and_difference_are_the_fresh_state(store: Store, seed: int) -> None:
    random = Random(seed)
    people = (ANNA, BORIS, CLARA)
    clients = [Client(user_id) for user_id in people]
    for step in range(12):
        actions = []
        for _ in range(random.randint(1, 6)):
            one, other = random.choice(people), random.choice(people)
            if random.random() < 0.6:
                actions.append(send(store, one, other, f"step {step}"))
            else:
                actions.append(store.messages.read(one, Peer.user(other), random.randint(0, 20), date=DATE))  # type: ignore[arg-type]
        await asyncio.gather(*actions)
        for client in clients:
            if random.random() < 0.7 or step == 11:
                await client.catch_up(store)
                assert client == await Client.fresh(store, client.user_id)
