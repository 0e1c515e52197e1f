"""Sends, history and receipts on real servers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.errors import PeerInvalid, RandomIdConflict, ReplyInvalid, Unavailable
from telesrv.domain.messages import Entity, MessageBox
from telesrv.domain.origin import Origin
from telesrv.domain.peers import SERVICE_USER_ID, Peer
from telesrv.domain.updates import EventKind
from telesrv.store import Store
from telesrv.store.send import BatchWriter
from tests.store.world import (
    ANNA,
    BORIS,
    CLARA,
    DATE,
    add_users,
    claim_all,
    log_of,
    reply,
    request,
    send,
    send_many,
)


@pytest.fixture(autouse=True)
async def users(store: Store) -> None:
    await add_users(store, ANNA, BORIS, CLARA)


async def test_one_message_is_a_cluster_of_nine_rows(store: Store) -> None:
    sent = await send(
        store, ANNA, BORIS, "hi", entities=(Entity("bold", 0, 2),), origin=Origin(5, 6), random_id=77
    )
    assert sent.box == MessageBox(
        owner_user_id=ANNA,
        box_id=1,
        peer=Peer.user(BORIS),
        from_user_id=ANNA,
        outgoing=True,
        message_id=sent.box.message_id,
        date=DATE,
        text="hi",
        entities=(Entity("bold", 0, 2),),
        random_id=77,
        peer_box_id=1,
        pts=1,
    )
    assert (sent.pts, sent.pts_count, sent.duplicate) == (1, 1, False)
    assert (await store.messages.get(ANNA, [1]))[1] == sent.box
    theirs = (await store.messages.get(BORIS, [1]))[1]
    assert theirs == replace(sent.box, owner_user_id=BORIS, peer=Peer.user(ANNA), outgoing=False, random_id=0)
    mine = (await store.dialogs.page(ANNA)).dialogs[0]
    assert (mine.peer, mine.top_box_id, mine.unread_count) == (Peer.user(BORIS), 1, 0)
    hers = (await store.dialogs.page(BORIS)).dialogs[0]
    assert (hers.peer, hers.top_box_id, hers.unread_count, hers.read_inbox_max_id) == (
        Peer.user(ANNA),
        1,
        1,
        0,
    )
    [event] = await log_of(store, ANNA)
    assert (event.kind, event.peer, event.box_id, event.random_id) == (1, Peer.user(BORIS), 1, 77)
    [event] = await log_of(store, BORIS)
    assert (event.kind, event.peer, event.box_id, event.random_id) == (1, Peer.user(ANNA), 1, 0)
    items = {item.row.target_user_id: item for item in await claim_all(store)}
    assert items.keys() == {ANNA, BORIS}
    assert (items[ANNA].row.exclude_auth_key_id, items[ANNA].row.exclude_session_id) == (5, 6)
    assert (items[BORIS].row.exclude_auth_key_id, items[BORIS].row.exclude_session_id) == (0, 0)
    assert items[BORIS].box == theirs


async def test_a_repeat_gives_the_first_answer_and_takes_no_ids(store: Store) -> None:
    first = request(ANNA, BORIS, date=DATE)
    sent = await store.messages.send(first)
    await store.pool.execute(
        "UPDATE message_boxes SET deleted = true, edit_date = 9 WHERE owner_user_id = $1", ANNA
    )
    again = await store.messages.send(replace(first, date=DATE + 60))
    assert (again.box.box_id, again.pts, again.box.date) == (sent.box.box_id, sent.pts, DATE)
    assert again.duplicate
    assert (await send(store, ANNA, BORIS)).box.box_id == 2
    assert [event.pts for event in await log_of(store, ANNA)] == [1, 2]


async def test_repeats_at_once_write_one_message(store: Store) -> None:
    one = request(ANNA, BORIS)
    answers = await asyncio.gather(*(store.messages.send(one) for _ in range(20)))
    assert {(answer.box.box_id, answer.pts) for answer in answers} == {(1, 1)}
    assert sum(not answer.duplicate for answer in answers) == 1
    assert len(await log_of(store, BORIS)) == 1


async def test_a_random_id_used_for_something_else_is_a_conflict(store: Store) -> None:
    first = request(ANNA, BORIS, "one")
    other = replace(first, text="two", digest=b"two")
    outcomes = await asyncio.gather(
        store.messages.send(first), store.messages.send(other), return_exceptions=True
    )
    assert isinstance(outcomes[1], RandomIdConflict)
    with pytest.raises(RandomIdConflict):
        await store.messages.send(other)
    sent = await store.messages.send(replace(first, sender_user_id=CLARA))
    assert not sent.duplicate


async def test_random_id_zero_is_an_error(store: Store) -> None:
    with pytest.raises(ValueError, match="random_id"):
        await send(store, ANNA, BORIS, random_id=0)


async def test_who_is_not_there_cannot_be_written_to(store: Store) -> None:
    await store.pool.execute("UPDATE users SET deleted = true WHERE user_id = $1", CLARA)
    for nobody in (CLARA, 999):
        with pytest.raises(PeerInvalid):
            await send(store, ANNA, nobody)
    assert (await store.updates.state(ANNA)).pts == 0
    assert (await send(store, ANNA, BORIS)).box.box_id == 1


async def test_one_bad_message_does_not_spoil_its_batch(store: Store) -> None:
    outcomes = await asyncio.gather(
        send(store, ANNA, BORIS, "good"),
        send(store, ANNA, 999, "nobody"),
        send(store, ANNA, BORIS, "nul \0 in it"),
        send(store, ANNA, BORIS, "half a pair \ud800", digest=b"x"),
        send(store, ANNA, BORIS, "no such date", date=2**40),
        send(store, ANNA, BORIS, "good too"),
        return_exceptions=True,
    )
    failed = [isinstance(outcome, BaseException) for outcome in outcomes]
    assert failed == [False, True, True, True, True, False]
    assert not any(isinstance(outcome, Unavailable) for outcome in outcomes)
    page = await store.messages.history(ANNA, Peer.user(BORIS))
    assert [box.text for box in page.boxes] == ["good too", "good"]
    events = await log_of(store, ANNA)
    assert [event.pts for event in events] == list(range(1, len(events) + 1))


async def test_a_message_to_oneself_is_one_box_and_never_unread(store: Store) -> None:
    sent = await send(store, ANNA, ANNA)
    assert (sent.box.outgoing, sent.box.peer, sent.box.peer_box_id) == (True, Peer.user(ANNA), 0)
    page = await store.messages.history(ANNA, Peer.user(ANNA))
    assert (page.total, len(page.boxes)) == (1, 1)
    assert (await store.dialogs.page(ANNA)).dialogs[0].unread_count == 0
    assert len(await claim_all(store)) == 1


async def test_who_blocked_the_sender_gets_nothing_at_all(store: Store) -> None:
    await store.pool.execute(
        "INSERT INTO contact_blocks (owner_user_id, peer_type, peer_id, created_at) VALUES ($1, 1, $2, 0)",
        BORIS,
        ANNA,
    )
    sent = await send(store, ANNA, BORIS)
    assert (sent.box.box_id, sent.box.peer_box_id) == (1, 0)
    assert (await store.messages.history(ANNA, Peer.user(BORIS))).total == 1
    assert (await store.updates.state(BORIS)).pts == 0
    assert (await store.dialogs.page(BORIS)).dialogs == ()
    assert [item.row.target_user_id for item in await claim_all(store)] == [ANNA]


async def test_service_messages_are_one_sided_both_ways(store: Store) -> None:
    notice = await store.messages.send_service(ANNA, "code", [Entity("bold", 0, 4)], DATE)
    assert (notice.box.owner_user_id, notice.box.peer, notice.box.outgoing) == (
        ANNA,
        Peer.user(SERVICE_USER_ID),
        False,
    )
    answer = await send(store, ANNA, SERVICE_USER_ID, "thanks", reply_to=reply(notice.box.box_id))
    assert (answer.box.box_id, answer.box.peer_box_id, answer.box.reply_to) == (2, 0, reply(1))
    assert (await store.dialogs.page(ANNA)).dialogs[0].unread_count == 1
    outcome = await store.messages.read(ANNA, Peer.user(SERVICE_USER_ID), 2, date=DATE)
    assert (outcome.pts, outcome.pts_count) == (3, 1)
    assert (await store.updates.state(SERVICE_USER_ID)).pts == 0
    assert (
        await store.pool.fetchval("SELECT count(*) FROM dispatch_outbox WHERE target_user_id = 777000") == 0
    )
    with pytest.raises(PeerInvalid):
        await store.messages.send_service(999, "code", [], DATE)


async def test_a_reply_is_translated_into_each_owners_ids(store: Store) -> None:
    await send(store, CLARA, BORIS)
    first = await send(store, ANNA, BORIS, "question")
    assert first.box.peer_box_id == 2
    quote = reply(2, quote_text="quest", quote_entities=(Entity("italic", 0, 5),), quote_offset=0)
    answer = await send(store, BORIS, ANNA, "answer", reply_to=quote)
    assert answer.box.reply_to == quote
    theirs = (await store.messages.get(ANNA, [answer.box.peer_box_id]))[answer.box.peer_box_id]
    assert theirs.reply_to == replace(quote, box_id=1)
    with pytest.raises(ReplyInvalid):
        await send(store, BORIS, CLARA, reply_to=reply(2))
    with pytest.raises(ReplyInvalid):
        await send(store, BORIS, ANNA, reply_to=reply(99))


async def test_a_senders_messages_keep_their_order(store: Store) -> None:
    sent = await send_many(store, ANNA, BORIS, 50)
    assert [one.box.box_id for one in sent] == list(range(1, 51))
    assert [one.box.peer_box_id for one in sent] == list(range(1, 51))
    page = await store.messages.history(BORIS, Peer.user(ANNA))
    assert [box.text for box in page.boxes] == [f"message {i}" for i in reversed(range(50))]


async def test_reading_moves_both_marks_once(store: Store) -> None:
    sent = await send_many(store, ANNA, BORIS, 3)
    await send(store, BORIS, ANNA)
    outcome = await store.messages.read(BORIS, Peer.user(ANNA), 2, date=DATE + 5, origin=Origin(7, 8))
    assert (outcome.pts, outcome.pts_count) == (5, 1)
    mine = (await store.dialogs.for_peers(BORIS, [Peer.user(ANNA)])).dialogs[0]
    assert (mine.read_inbox_max_id, mine.unread_count) == (2, 1)
    theirs = (await store.dialogs.for_peers(ANNA, [Peer.user(BORIS)])).dialogs[0]
    assert theirs.read_outbox_max_id == sent[1].box.box_id
    receipt = (await log_of(store, BORIS))[-1]
    assert (receipt.kind, receipt.box_id, receipt.payload) == (
        EventKind.READ_INBOX,
        2,
        {"still_unread_count": 1},
    )
    receipt = (await log_of(store, ANNA))[-1]
    assert (receipt.kind, receipt.peer, receipt.box_id, receipt.date) == (
        EventKind.READ_OUTBOX,
        Peer.user(BORIS),
        2,
        DATE + 5,
    )
    rows = {(item.event.kind, item.row.exclude_session_id) for item in await claim_all(store)}
    assert {(EventKind.READ_INBOX, 8), (EventKind.READ_OUTBOX, 0)} <= rows
    assert (await store.messages.read(BORIS, Peer.user(ANNA), 1, date=DATE + 9)).pts_count == 0
    assert (await store.messages.read(BORIS, Peer.user(CLARA), 1, date=DATE + 9)).pts_count == 0
    assert await store.messages.read_date(ANNA, Peer.user(BORIS), 1) == DATE + 5
    assert await store.messages.read_date(ANNA, Peer.user(BORIS), 3) is None


async def test_sending_moves_no_read_mark(store: Store) -> None:
    await send(store, ANNA, BORIS)
    await send(store, BORIS, ANNA)
    for owner, other in ((ANNA, BORIS), (BORIS, ANNA)):
        [dialog] = (await store.dialogs.page(owner)).dialogs
        assert (dialog.read_inbox_max_id, dialog.read_outbox_max_id, dialog.unread_count) == (0, 0, 1)
        assert dialog.peer == Peer.user(other)


async def test_reading_beyond_the_newest_stops_there(store: Store) -> None:
    await send(store, ANNA, BORIS)
    await store.messages.read(BORIS, Peer.user(ANNA), 2**31 - 1, date=DATE)
    await send(store, ANNA, BORIS)
    [dialog] = (await store.dialogs.page(BORIS)).dialogs
    assert (dialog.read_inbox_max_id, dialog.unread_count) == (1, 1)
    await store.messages.read(BORIS, Peer.user(ANNA), 0, date=DATE)
    [dialog] = (await store.dialogs.page(BORIS)).dialogs
    assert (dialog.read_inbox_max_id, dialog.unread_count) == (2, 0)


async def test_two_who_read_each_other_at_once_both_succeed(store: Store) -> None:
    for _ in range(10):
        await asyncio.gather(send(store, ANNA, BORIS), send(store, BORIS, ANNA))
        await asyncio.gather(
            store.messages.read(ANNA, Peer.user(BORIS), 0, date=DATE),
            store.messages.read(BORIS, Peer.user(ANNA), 0, date=DATE),
            store.messages.read(BORIS, Peer.user(ANNA), 0, date=DATE),
        )
    for owner in (ANNA, BORIS):
        assert (await store.dialogs.page(owner)).dialogs[0].unread_count == 0
        events = await log_of(store, owner)
        assert [event.pts for event in events] == list(range(1, len(events) + 1))


async def test_unread_is_exact_while_reads_and_sends_cross(store: Store) -> None:
    async def reads() -> None:
        for _ in range(20):
            await store.messages.read(BORIS, Peer.user(ANNA), 0, date=DATE)

    await asyncio.gather(send_many(store, ANNA, BORIS, 100), send_many(store, ANNA, BORIS, 100), reads())
    [dialog] = (await store.dialogs.page(BORIS)).dialogs
    unread = await store.pool.fetchval(
        "SELECT count(*) FROM message_boxes WHERE owner_user_id = $1 AND NOT outgoing AND box_id > $2",
        BORIS,
        dialog.read_inbox_max_id,
    )
    assert dialog.unread_count == unread


async def test_a_late_box_below_the_read_mark_takes_a_new_id(store: Store) -> None:
    await send(store, ANNA, BORIS)
    await store.pool.execute("UPDATE dialogs SET read_inbox_max_id = 3 WHERE owner_user_id = $1", BORIS)
    sent = await send_many(store, ANNA, BORIS, 4)
    assert min(one.box.peer_box_id for one in sent) > 3
    [dialog] = (await store.dialogs.page(BORIS)).dialogs
    assert dialog.unread_count == 1 + 4
    for owner in (ANNA, BORIS):
        events = await log_of(store, owner)
        assert [event.pts for event in events] == list(range(1, len(events) + 1))
        assert [event.kind for event in events].count(EventKind.NEW_MESSAGE) == 5


async def test_a_message_that_is_written_late_is_not_the_newest_of_its_chat(
    store: Store, clock: FakeClock
) -> None:
    writer = BatchWriter(store.pool, store.ids, store.events, clock, store.config.wait_s)
    late = await writer.prepare([request(ANNA, BORIS, "first", date=DATE)])
    early = await writer.prepare([request(BORIS, ANNA, "second", date=DATE + 1)])
    for prepared in (early, late):
        await writer.write(prepared)
    for owner, other in ((ANNA, BORIS), (BORIS, ANNA)):
        [dialog] = (await store.dialogs.page(owner)).dialogs
        assert (dialog.peer, dialog.top_box_id, dialog.top_date) == (Peer.user(other), 2, DATE + 1)


async def history_ids(store: Store, **page: int) -> list[int]:
    return [box.box_id for box in (await store.messages.history(BORIS, Peer.user(ANNA), **page)).boxes]


async def test_history_pages(store: Store) -> None:
    await send_many(store, ANNA, BORIS, 20)
    await send(store, CLARA, BORIS)
    assert await history_ids(store, limit=3) == [20, 19, 18]
    assert await history_ids(store, limit=3, offset_id=18) == [17, 16, 15]
    assert await history_ids(store, limit=3, offset_id=18, add_offset=2) == [15, 14, 13]
    assert await history_ids(store, limit=4, offset_id=10, add_offset=-2) == [11, 10, 9, 8]
    assert await history_ids(store, limit=3, offset_id=10, add_offset=-3) == [12, 11, 10]
    assert await history_ids(store, limit=2, offset_id=10, add_offset=-5) == [14, 13]
    assert await history_ids(store, limit=5, offset_id=19, add_offset=-5) == [20, 19]
    assert await history_ids(store, max_id=4) == [3, 2, 1]
    assert await history_ids(store, min_id=18) == [20, 19]
    assert await history_ids(store, limit=2, max_id=12, min_id=5) == [11, 10]
    assert await history_ids(store, limit=9, offset_id=8, add_offset=-4, min_id=6, max_id=11) == [10, 9, 8, 7]
    assert await history_ids(store, limit=0) == []
    assert await history_ids(store, limit=1000) == list(range(20, 0, -1))
    assert await history_ids(store, limit=-1, offset_id=-5) == []
    assert await history_ids(store, offset_id=2**40, limit=1) == [20]
    page = await store.messages.history(BORIS, Peer.user(ANNA), limit=1)
    assert page.total == 20


async def test_a_history_page_lies_at_most_a_hundred_messages_off(store: Store) -> None:
    await send_many(store, ANNA, BORIS, 150)
    assert await history_ids(store, add_offset=2**31 - 1, limit=1) == [50]
    assert await history_ids(store, add_offset=-(2**31), offset_id=1) == list(range(100, 0, -1))


async def test_history_by_date(store: Store) -> None:
    for minute in range(10):
        await send(store, ANNA, BORIS, date=DATE + 60 * minute)
    assert await history_ids(store, offset_date=DATE + 240, limit=2) == [4, 3]
    assert await history_ids(store, offset_date=DATE + 240, limit=4, add_offset=-2) == [6, 5, 4, 3]
    assert await history_ids(store, offset_date=DATE) == []
    assert await history_ids(store, offset_date=DATE + 9999, limit=1) == [10]


async def test_history_goes_over_deleted_boxes(store: Store) -> None:
    await send_many(store, ANNA, BORIS, 300)
    await store.pool.execute(
        "UPDATE message_boxes SET deleted = true WHERE owner_user_id = $1 AND box_id BETWEEN 11 AND 290",
        BORIS,
    )
    seen: list[int] = []
    offset = 0
    while page := await history_ids(store, limit=7, offset_id=offset):
        seen += page
        offset = page[-1]
    assert seen == [*range(300, 290, -1), *range(10, 0, -1)]
    assert await store.messages.get(BORIS, [10, 11, 300, 301, 0, -1, 2**40]) == {
        box.box_id: box
        for box in (await store.messages.history(BORIS, Peer.user(ANNA))).boxes
        if box.box_id in (10, 300)
    }
