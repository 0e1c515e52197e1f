"""One random_id has one outcome, whether its message is sent at once or waits for its time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.errors import DomainError, RandomIdConflict
from telesrv.domain.messages import SendRequest, SentMessage
from telesrv.domain.peers import Peer
from telesrv.domain.scheduled import MAX_PER_CHAT, ScheduleTooMuch
from telesrv.store import Store, StoreConfig
from telesrv.store.scheduled import Scheduled
from tests.store.world import ANNA, BORIS, DATE, add_users, log_of, request

AT = DATE + 600
ROUNDS = 25
CHAT = Peer.user(BORIS)
Call = Callable[[Store, SendRequest], Awaitable[Any]]


@pytest.fixture(autouse=True)
async def users(store: Store) -> None:
    await add_users(store, ANNA, BORIS)


@pytest.fixture
async def other(store_config: StoreConfig, users: None) -> AsyncIterator[Store]:
    """The store as another process has it."""
    other = await Store.open(replace(store_config, node=2))
    yield other
    await other.close()


async def at_once(store: Store, one: SendRequest) -> int:
    sent = await store.messages.send(one)
    return sent.box.box_id


async def later(store: Store, one: SendRequest) -> int:
    return (await store.scheduled.add(one, AT)).message.scheduled_id


async def another_at_once(store: Store, one: SendRequest) -> int:
    return await at_once(store, replace(one, text="another", digest=b"another"))


async def another_later(store: Store, one: SendRequest) -> int:
    return await later(store, replace(one, text="another", digest=b"another"))


async def send_due(store: Store, one: SendRequest) -> int:
    return await store.due.dispatch()


async def send_now(store: Store, one: SendRequest) -> int:
    return len(await store.due.send(ANNA, CHAT, [await waiting_id(store, one)]))


async def edit(store: Store, one: SendRequest) -> int:
    edited = await store.scheduled.edit(
        ANNA,
        CHAT,
        await waiting_id(store, one),
        text="edited",
        entities=(),
        schedule_date=None,
        date=DATE,
    )
    return edited.message.scheduled_id


async def delete(store: Store, one: SendRequest) -> int:
    return len((await store.scheduled.delete(ANNA, CHAT, [await waiting_id(store, one)], date=DATE))[0])


async def waiting_id(store: Store, one: SendRequest) -> int:
    known = await store.scheduled.known(one)
    assert known is not None
    return known.message.scheduled_id


USES: list[Call] = [at_once, later, another_at_once, another_later]
"""What uses a random_id."""
CHANGES: list[Call] = [send_due, send_now, edit, delete]
"""What is done with a message that waits."""


async def written(store: Store, one: SendRequest) -> tuple[int, int, int]:
    """Returns how often a random_id stands among the bodies, among what waits or waited, and in the log."""
    by = (ANNA, one.random_id)
    return (
        await store.pool.fetchval(
            "SELECT count(*) FROM private_messages WHERE sender_user_id = $1 AND random_id = $2", *by
        ),
        await store.pool.fetchval(
            "SELECT count(*) FROM scheduled_messages WHERE owner_user_id = $1 AND random_id = $2", *by
        ),
        await store.pool.fetchval(
            "SELECT count(*) FROM user_update_events WHERE user_id = $1 AND random_id = $2", *by
        ),
    )


async def got(store: Store) -> int:
    return await store.pool.fetchval("SELECT count(*) FROM message_boxes WHERE owner_user_id = $1", BORIS)


@pytest.mark.parametrize("uses", list(combinations_with_replacement(USES, 2)))
async def test_of_two_uses_at_once_one_holds(
    store: Store, other: Store, clock: FakeClock, uses: tuple[Call, Call]
) -> None:
    """In one process and in two; what held then holds when they are repeated and when its time has come."""
    held: list[tuple[SendRequest, list[Any]]] = []
    for turn in range(ROUNDS):
        one = request(ANNA, BORIS)
        stores = (store, (store, other)[turn % 2])
        calls = [use(place, one) for use, place in zip(uses, stores, strict=True)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        alike = uses[0] is uses[1]
        refused = [isinstance(answer, RandomIdConflict) for answer in answers]
        assert sum(refused) == (0 if alike else 1), (turn, answers)
        assert not alike or answers[0] == answers[1]
        winner = uses[refused.index(False)]
        waits = winner in (later, another_later)
        assert await written(store, one) == (1, waits, not waits)
        held.append((one, answers))
    clock.advance(700)
    await asyncio.gather(store.due.dispatch(), other.due.dispatch())
    for one, answers in held:
        again = await asyncio.gather(*(use(other, one) for use in uses), return_exceptions=True)
        for answer, before in zip(again, answers, strict=True):
            assert answer == before or type(answer) is type(before) is RandomIdConflict
        bodies, _, logged = await written(store, one)
        assert (bodies, logged) == (1, 1)
    assert await got(store) == ROUNDS
    assert len({event.pts for event in await log_of(store, ANNA)}) == (await store.updates.state(ANNA)).pts


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("use", USES)
async def test_what_waits_keeps_its_random_id_while_it_is_changed(
    store: Store, other: Store, clock: FakeClock, use: Call, change: Call
) -> None:
    for turn in range(ROUNDS):
        one = request(ANNA, BORIS)
        scheduled = await later(store, one)
        if change is send_due:
            clock.advance(max(0, AT - int(clock.time())))
        before = await got(store)
        answer, changed = await asyncio.gather(
            use((store, other)[turn % 2], one), change(store, one), return_exceptions=True
        )
        if use is later:
            assert answer == scheduled
        else:
            assert isinstance(answer, RandomIdConflict)
        assert not isinstance(changed, BaseException), changed
        sent = change in (send_due, send_now)
        assert await written(store, one) == (1, 1, sent)
        assert await got(store) == before + sent


async def test_every_two_changes_of_what_waits_have_one_order(store: Store, other: Store) -> None:
    """A message is sent at most once, as it was last edited, and not after it was deleted."""
    for first, second in combinations_with_replacement((send_now, edit, delete), 2):
        for _ in range(ROUNDS):
            one = request(ANNA, BORIS)
            await later(store, one)
            before = await got(store)
            answers = await asyncio.gather(first(store, one), second(other, one), return_exceptions=True)
            assert all(isinstance(answer, int | DomainError) for answer in answers), answers
            done = {
                call
                for call, answer in zip((first, second), answers, strict=True)
                if answer and not isinstance(answer, DomainError)
            }
            assert not done >= {send_now, delete}
            assert await got(store) == before + (send_now in done)
            known = await store.scheduled.known(one)
            assert known is not None
            assert known.message.waits == (not done & {send_now, delete})
            if send_now in done:
                body = "SELECT text FROM private_messages ORDER BY sender_box_id DESC LIMIT 1"
                [box, *_] = (await store.messages.history(ANNA, CHAT)).boxes
                assert await store.pool.fetchval(body) == box.text == known.message.text


async def test_a_repeat_of_what_was_sent_or_deleted_says_so(store: Store, clock: FakeClock) -> None:
    sent, gone = request(ANNA, BORIS), request(ANNA, BORIS)
    first = [await store.scheduled.add(one, AT) for one in (sent, gone)]
    await store.scheduled.delete(ANNA, CHAT, [first[1].message.scheduled_id], date=DATE)
    clock.advance(700)
    assert await store.due.dispatch() == 1
    again = [await store.scheduled.add(one, AT + 900) for one in (sent, gone)]
    assert again == [Scheduled(replace(one.message, waits=False), None) for one in first]


async def test_a_message_that_waited_is_one_body_with_its_last_text(store: Store, clock: FakeClock) -> None:
    one = request(ANNA, BORIS)
    await later(store, one)
    await edit(store, one)
    clock.advance(700)
    assert await store.due.dispatch() == 1
    row = await store.pool.fetchrow(
        "SELECT text, date, sender_box_id, recipient_box_id, sender_pts, message_id FROM private_messages"
    )
    [box] = (await store.messages.history(ANNA, CHAT)).boxes
    assert row is not None
    assert tuple(row) == ("edited", AT + 100, box.box_id, box.peer_box_id, box.pts, box.message_id)
    assert isinstance(await store.messages.send(request(ANNA, BORIS)), SentMessage)


async def test_what_is_due_in_a_chat_keeps_its_order_whoever_sends_it(
    store: Store, other: Store, clock: FakeClock
) -> None:
    """Several processes at once; then one that died with the first messages on their way."""
    texts = [f"{number:03}" for number in range(MAX_PER_CHAT)]
    clock.advance(700)
    for _ in range(ROUNDS // 5):
        for text in texts:
            await later(store, request(ANNA, BORIS, text))
        assert await send_all(store, other) == len(texts)
        boxes = (await store.messages.history(ANNA, CHAT)).boxes
        assert [box.text for box in boxes][::-1] == texts
    for text in texts:
        await later(store, request(ANNA, BORIS, text))
    await store.pool.execute(
        "UPDATE scheduled_messages SET leased_until_ms = $1 WHERE state = 0 AND text < '010'",
        int(clock.time() + 10) * 1000,
    )
    assert await send_all(store, other) == 0
    await store.scheduled.add(request(BORIS, ANNA, "mine is not kept back"), AT)
    assert await send_all(store, other) == 1
    clock.advance(10)
    assert await send_all(store, other) == len(texts)
    boxes = (await store.messages.history(ANNA, CHAT)).boxes
    assert [box.text for box in boxes][::-1] == texts


async def test_what_is_sent_now_keeps_the_rest_of_the_chat_back_no_longer_than_that(
    store: Store, clock: FakeClock
) -> None:
    for text in ("first", "second", "third"):
        await later(store, request(ANNA, BORIS, text))
    ids = [one.scheduled_id for one in await store.scheduled.waiting(ANNA, CHAT)]
    clock.advance(700)
    await store.due.send(ANNA, CHAT, [sorted(ids)[1]])
    assert await store.due.dispatch() == 2
    boxes = (await store.messages.history(ANNA, CHAT)).boxes
    assert [box.text for box in boxes][::-1] == ["second", "first", "third"]


async def test_no_more_wait_in_a_chat_than_may_however_many_are_added_at_once(
    store: Store, other: Store
) -> None:
    for number in range(MAX_PER_CHAT - 3):
        await later(store, request(ANNA, BORIS, str(number)))
    outcomes = await asyncio.gather(
        *(later(one, request(ANNA, BORIS, f"late {i}")) for i in range(6) for one in (store, other)),
        *(later(one, request(ANNA, ANNA, f"another chat {i}")) for i in range(2) for one in (store, other)),
        return_exceptions=True,
    )
    refused = [outcome for outcome in outcomes if not isinstance(outcome, int)]
    assert [type(outcome) for outcome in refused] == [ScheduleTooMuch] * 9
    assert len(await store.scheduled.waiting(ANNA, CHAT)) == MAX_PER_CHAT
    assert len(await store.scheduled.waiting(ANNA, Peer.user(ANNA))) == 4


async def send_all(*stores: Store) -> int:
    """Has processes send what is due at the same time, until nothing is; returns how much it was."""

    async def one(store: Store) -> int:
        done = 0
        while sent := await store.due.dispatch():
            done += sent
        return done

    return sum(await asyncio.gather(*map(one, stores)))
