"""The index of the search: what it takes in, when, and how its statements are run."""

from __future__ import annotations

import asyncio
import re

import pytest

from telesrv.domain.peers import MAX_ID, Peer
from telesrv.domain.search import Found, Query, SearchRequest
from telesrv.store import Store, search
from telesrv.store.ids import Want
from telesrv.store.send import BatchWriter
from telesrv.store.signals import GROWN
from tests.store.test_plans import CHAT, explain, full_store, scans_of
from tests.store.world import ANNA, BORIS, DATE, add_users, request, send, send_many

__all__ = ["full_store"]

FILL = """
INSERT INTO search_segments (owner_user_id, segment, terms)
SELECT owner, segment, E'\\nterm' || segment
FROM generate_series(1, 400) owner, generate_series(1, 100) segment;
INSERT INTO search_marks (owner_user_id, box_id) SELECT owner, 200 FROM generate_series(1, 8000) owner;
"""
ONE_OWNER: dict[str, tuple[str, tuple[object, ...]]] = {
    "chat older": (search.SQL_CHAT_OLDER, (*CHAT, 0, 150, 10)),
    "chat newer": (search.SQL_CHAT_NEWER, (*CHAT, 50, MAX_ID, 10)),
    "older": (search.SQL_OLDER, (7, 0, 150, 10)),
    "newer": (search.SQL_NEWER, (7, 50, MAX_ID, 10)),
    "chat segments": (search.SQL_CHAT_SEGMENTS, (*CHAT, [0, 63], [64, 128])),
    "segments": (search.SQL_SEGMENTS, (7, [0, 63], [64, 128])),
    "having": (search.SQL_HAVING, (7, ["\nterm1"], 0, 50)),
    "next": (search.SQL_NEXT, (7, 10, 300)),
    "archived": (search.SQL_ARCHIVED, (7, 10)),
    "mark": (search.SQL_MARK, (7,)),
}


async def find(store: Store, owner: int, q: str, **fields: object) -> Found:
    fields.setdefault("limit", 10)
    return await store.search.find(SearchRequest(owner=owner, query=Query(q), **fields))  # type: ignore[arg-type]


async def texts(store: Store, owner: int, q: str, **fields: object) -> list[str]:
    return [box.text for box in (await find(store, owner, q, **fields)).boxes]


async def test_plans(full_store: Store) -> None:
    async with full_store.pool.acquire() as connection:
        await connection.execute(FILL)
        await connection.execute("VACUUM ANALYZE search_segments, search_marks")
    for name, (sql, args) in ONE_OWNER.items():
        plan = await explain(full_store, sql, *args)
        scans = scans_of(plan)
        assert scans, name
        assert all(re.match("Index|Bitmap", scan["Node Type"]) for scan in scans), (name, scans)
        for table in {re.sub(r"_p\d+$", "", scan["Relation Name"]) for scan in scans}:
            of_table = {s["Relation Name"] for s in scans if s["Relation Name"].startswith(f"{table}_p")}
            assert len(of_table) == 1, (name, scans)
        if name.endswith(("older", "newer")):
            assert not [node for node in plan if node["Node Type"] == "Sort"], (name, plan)
    for sql, args in ((search.SQL_ADD, ([7], [1], ["x"])), (search.SQL_INDEX, (7, [1], ["x"], 300))):
        plan = await explain(full_store, sql, *args)
        assert not scans_of(plan)
        assert plan[0]["Conflict Resolution"] in ("NOTHING", "UPDATE")


async def test_a_send_writes_nothing_for_the_search(store: Store) -> None:
    await add_users(store, ANNA, BORIS)
    await send_many(store, ANNA, BORIS, GROWN - 1)
    assert await store.search.index_due() == 0
    assert await store.pool.fetchval("SELECT count(*) FROM search_segments") == 0
    await send(store, ANNA, BORIS, "the last one")
    assert [await store.search.index_due() for _ in range(3)] == [GROWN, GROWN, 0]
    for owner in (ANNA, BORIS):
        assert await texts(store, owner, "last") == ["the last one"]
        assert len(await texts(store, owner, "messag")) == 10
        terms = await store.pool.fetch("SELECT terms FROM search_segments WHERE owner_user_id = $1", owner)
        assert max(row["terms"].count("\nmessage") for row in terms) == 1, "a term stands once a segment"


async def test_the_mark_waits_for_messages_under_way(store: Store) -> None:
    await add_users(store, ANNA, BORIS)
    await send(store, ANNA, BORIS, "first word")
    slow = BatchWriter(store.pool, store.ids, store.events, store.config.clock, store.config.wait_s)
    prepared = await slow.prepare([request(ANNA, BORIS, "late word")])
    await send(store, ANNA, BORIS, "third word")
    while await store.search.index(ANNA):
        pass
    await slow.write(prepared)
    assert await texts(store, ANNA, "word") == ["third word", "late word", "first word"]
    assert await store.search.index(ANNA) == 2
    assert await texts(store, ANNA, "word") == ["third word", "late word", "first word"]
    assert await texts(store, ANNA, "lat", peer=Peer.user(BORIS)) == ["late word"]


async def test_indexing_twice_at_once_is_indexing_once(store: Store) -> None:
    await add_users(store, ANNA, BORIS)
    await send_many(store, ANNA, BORIS, 200)
    await asyncio.gather(*(store.search.index(owner) for owner in (ANNA, BORIS) * 4))
    found = await find(store, ANNA, "message", peer=Peer.user(BORIS), limit=100)
    assert (found.total, len(found.boxes), found.inexact, found.more) == (200, 100, False, True)
    assert [box.text for box in found.boxes] == [f"message {n}" for n in range(199, 99, -1)]
    again = await find(store, ANNA, "message", offset_id=found.boxes[-1].box_id, limit=100)
    assert [box.text for box in again.boxes] == [f"message {n}" for n in range(99, -1, -1)]
    assert (again.newer, again.more) == (100, False)


async def test_a_search_looks_at_a_bounded_number_of_messages(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_SCAN", 10)
    monkeypatch.setattr(search, "MAX_ROWS", 60)
    monkeypatch.setattr(search, "COUNT_ROWS", 20)
    await add_users(store, ANNA, BORIS)
    await send_many(store, ANNA, BORIS, 100)
    found = await find(store, ANNA, "mess", limit=5)
    assert len(found.boxes) == 5
    assert found.inexact and found.more and found.total < 40
    missed = await find(store, ANNA, "?", limit=5)
    assert missed.boxes == () and missed.inexact
    while await store.search.index(ANNA):
        pass
    assert (await find(store, ANNA, "nowhere")).inexact is False


async def test_what_is_far_down_is_found_from_further_down(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_WINDOW", 1)
    await add_users(store, ANNA, BORIS)
    await send_many(store, ANNA, BORIS, 300)
    assert await store.search.index(ANNA) == 300
    found = await find(store, ANNA, "message", limit=100)
    assert found.inexact and found.more and len(found.boxes) == 100
    rest = await find(store, ANNA, "message", limit=100, offset_id=150)
    assert [box.box_id for box in rest.boxes[:3]] == [149, 148, 147]
    assert (await find(store, ANNA, "message", limit=1, offset_id=60)).boxes[0].box_id == 59


async def test_a_segment_that_is_edited_for_ever_stays_bounded(store: Store) -> None:
    await add_users(store, ANNA, BORIS)
    sent = await send(store, ANNA, BORIS, "first")
    for number in range(60):
        text = " ".join(f"{number}x{word}" for word in range(600))
        await store.edits.edit(ANNA, Peer.user(BORIS), sent.box.box_id, text, (), date=DATE)
    await store.search.index(ANNA)
    assert await store.pool.fetchval("SELECT max(length(terms)) FROM search_segments") < 200_000
    assert (await find(store, ANNA, "59x7 59x8")).total == 1
    assert (await find(store, ANNA, "58x7")).total == 0


async def test_what_was_never_indexed_is_indexed_by_the_search(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "BATCH", 50)
    monkeypatch.setattr(search, "FEW", 50)
    await add_users(store, ANNA, BORIS)
    await send_many(store, ANNA, BORIS, 120)
    assert await texts(store, ANNA, "message 7", limit=2) == ["message 79", "message 78"]
    assert await store.pool.fetchval("SELECT box_id FROM search_marks WHERE owner_user_id = $1", ANNA) >= 100


async def test_reserved_ids_that_nobody_writes_hold_nothing_up_for_ever(store: Store) -> None:
    await add_users(store, ANNA, BORIS)
    await send(store, ANNA, BORIS, "one")
    grants = await store.ids.take([Want(ANNA, 1, 1)])
    await send(store, ANNA, BORIS, "two")
    assert await store.search.index(ANNA) == 1
    await store.events.abandon(grants.values())
    assert await store.search.index(ANNA) == 1
    assert await texts(store, ANNA, "tw") == ["two"]
