"""Plans of the statements on messages: one owner is one partition, found by an index, at any size."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from telesrv.domain.updates import OUTBOX_BUCKETS, bucket_of
from telesrv.store import (
    Store,
    archive,
    boxes,
    dialogs,
    events,
    ids,
    marks,
    messages,
    outbox,
    receipts,
    send,
    send_rows,
    updates,
)

FILL = """
INSERT INTO users (user_id, phone, first_name, created_at)
SELECT id, '', 'x', 0 FROM generate_series(1, 40000) id;
INSERT INTO message_boxes (owner_user_id, box_id, peer_type, peer_id, from_user_id, outgoing, message_id,
    date, text, peer_box_id, pts)
SELECT owner, box, 1, 1 + (owner + box) % 20, owner, box % 2 = 0, box, box, 'text', box, box
FROM generate_series(1, 400) owner, generate_series(1, 200) box;
INSERT INTO private_messages (sender_user_id, random_id, message_id, peer_type, peer_id, date, text, digest,
    sender_box_id, recipient_box_id, sender_pts)
SELECT sender, random_id, random_id, 1, 5, 0, 'text', '', 1, 1, 1
FROM generate_series(1, 400) sender, generate_series(1, 100) random_id;
INSERT INTO dialogs (owner_user_id, peer_type, peer_id, top_box_id, top_date)
SELECT owner, 1, peer, peer, peer FROM generate_series(1, 400) owner, generate_series(1, 100) peer;
INSERT INTO user_update_events (user_id, pts, pts_count, kind, date, peer_type, peer_id, box_id)
SELECT owner, pts, 1, 1 + pts % 3, 0, 1, 5, pts
FROM generate_series(1, 400) owner, generate_series(1, 200) pts;
INSERT INTO history_ttl (bucket, owner_user_id, peer_type, peer_id, period_s, set_at, due_at)
SELECT owner % 64, owner, 1, peer, 86400, 0, owner
FROM generate_series(1, 400) owner, generate_series(1, 50) peer;
INSERT INTO update_marks (user_id, pts) SELECT owner, 100 FROM generate_series(1, 8000) owner;
INSERT INTO contact_blocks (owner_user_id, peer_type, peer_id, created_at)
SELECT owner, 1, peer, 0 FROM generate_series(1, 400) owner, generate_series(1, 50) peer;
INSERT INTO contacts (owner_user_id, contact_user_id, listed)
SELECT owner, other, true FROM generate_series(1, 400) owner, generate_series(1, 50) other;
INSERT INTO dialog_drafts (owner_user_id, peer_type, peer_id, pts, draft)
SELECT owner, 1, peer, peer, '{}' FROM generate_series(1, 400) owner, generate_series(1, 50) peer;
INSERT INTO dispatch_outbox (bucket, target_user_id, pts, created_at_ms)
SELECT bucket, target, pts, 0
FROM generate_series(0, 63) bucket, generate_series(1, 20) target, generate_series(1, 30) pts;
"""

CHAT = (7, 1, 9)
CHATS = ([7, 8], [1, 1], [9, 10])
ONE_OWNER: dict[str, tuple[str, tuple[object, ...]]] = {
    "get": (boxes.SQL_GET, (7, [1, 2, 3])),
    "newest_ids": (messages.SQL_NEWEST_IDS, (7, [1, 1], [9, 10], 5)),
    "older": (messages.SQL_OLDER, (*CHAT, 150, 0, 10, 0)),
    "newer": (messages.SQL_NEWER, (*CHAT, 2**31 - 1, 50, 10, 0)),
    "before_date": (messages.SQL_BEFORE_DATE, (*CHAT, 100)),
    "count": (messages.SQL_COUNT, CHAT),
    "read_date": (messages.SQL_READ_DATE, (7, 1, 5, 20)),
    "page": (dialogs.SQL_PAGE, (7, 50, 50, 0, 0, None, False, 10)),
    "total": (dialogs.SQL_TOTAL, (7, 0)),
    "pinned": (dialogs.SQL_PINNED, (7, 0)),
    "for_peers": (dialogs.SQL_FOR_PEERS, (7, 1, [8, 9])),
    "date": (dialogs.SQL_DATE, (7, 5)),
    "unread_total": (dialogs.SQL_UNREAD_TOTAL, (7,)),
    "difference": (updates.SQL_DIFFERENCE, (7, 50, 150, 100)),
    "walk": (marks.SQL_WALK, (7, 190, 1000)),
    "put_back": (outbox.SQL_PUT_BACK, (bucket_of(7), [7, 8], [1, 2], 5)),
    "retry": (outbox.SQL_RETRY, (bucket_of(7), [7, 8], [1, 2], [5, 5], "x")),
}
IN_ORDER = {"newest_ids", "older", "newer", "page", "difference", "before_date", "walk", "read_date"}
"""Statements that read a page off an index, without sorting a whole chat or log."""
SEVERAL: dict[str, tuple[str, tuple[object, ...]]] = {
    "look_up": (
        send.SQL_LOOK_UP,
        (
            *([0, 1], [7, 8], [5, 6], [9, 10], [0, 1], [7, 8], [9, 10], [1, 2], [3, 4]),
            *([0, 1], [7, 8], [9, 10]),
        ),
    ),
    "put_away": (archive.SQL_PUT_AWAY, ([7, 8], [9, 10], [1, 1])),
    "end_drafts": (send_rows.SQL_END_DRAFTS, ([7, 8], [1, 1], [9, 10], [5, 5], [6, 6], [0, 0], [3, 4], 0)),
    "get_many": (boxes.SQL_GET_MANY, ([7, 8], [1, 2], False)),
    "highest": (ids.SQL_HIGHEST, (7,)),
    "events": (outbox.SQL_EVENTS, ([7, 8], [1, 2])),
    "logged": (outbox.SQL_LOGGED, ([7, 8], [1, 2])),
    "logged_and_marks": (outbox.SQL_LOGGED_AND_MARKS, ([7, 8], [1, 2])),
    "owed_below": (outbox.SQL_OWED_BELOW, ([bucket_of(7), bucket_of(8)], [7, 8], [5, 5], 10)),
    "due": (outbox.SQL_DUE, (list(range(32)), 10)),
    "walk_many": (outbox.SQL_WALK_MANY, ([7, 8], [195, 190], [200, 200])),
    "walk_all": (marks.SQL_WALK_ALL, ([7, 8], [195, 190])),
    "owed": (updates.SQL_OWED, ([bucket_of(7), bucket_of(8)], [7, 8])),
    "load": (marks.SQL_LOAD, ([7, 8],)),
    "read_marks": (receipts.SQL_READ_MARKS, ([0, 1], *CHATS)),
    "seen": (receipts.SQL_SEEN, ([0, 1], *CHATS, [20, 20], [150, 150])),
    "move_marks": (receipts.SQL_MOVE_MARKS, (*CHATS, [150, 0], [0, 150], [False, True])),
    "count_unread": (receipts.SQL_COUNT_UNREAD, CHATS),
}
INSERTS: dict[str, tuple[str, tuple[object, ...]]] = {
    "events": (events.SQL_LOG, (*([[]] * 13), 0)),
    "marks": (marks.SQL_SAVE, ([], [])),
}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


async def explain(store: Store, sql: str, *args: object) -> list[dict[str, Any]]:
    """Returns the nodes of the plan; statements that write are rolled back unexecuted."""
    async with store.pool.acquire() as connection:
        text = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {sql}", *args)
    return list(nodes(json.loads(text)[0]["Plan"]))


async def run(store: Store, sql: str, *args: object) -> list[dict[str, Any]]:
    """Returns the nodes of the plan that ran; what they did is rolled back."""
    async with store.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        text = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", *args)
        await transaction.rollback()
    return [node for node in nodes(json.loads(text)[0]["Plan"]) if node["Actual Loops"]]


@pytest.fixture
async def full_store(store: Store) -> Store:
    """A store with enough rows for the planner to have a reason."""
    async with store.pool.acquire() as connection:
        await connection.execute(FILL)
        await connection.execute("VACUUM ANALYZE")
    return store


def scans_of(plan: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the nodes that read tables, but for `nodes`, which is small and nobody's own."""
    scans = [node for node in plan if "Relation Name" in node and "Scan" in node["Node Type"]]
    return [scan for scan in scans if scan["Relation Name"] != "nodes"]


async def test_plans(full_store: Store) -> None:
    """One test, since filling the tables costs more than all plans."""
    for name, (sql, args) in ONE_OWNER.items():
        plan = await explain(full_store, sql, *args)
        scans = scans_of(plan)
        assert scans, name
        assert all(re.match("Index|Bitmap", scan["Node Type"]) for scan in scans), (name, scans)
        partitions = {re.sub(r".*_p", "", scan["Relation Name"]) for scan in scans} - {"outbox_buckets"}
        assert len(partitions) == 1, (name, scans)
        if name in IN_ORDER:
            assert not [node for node in plan if node["Node Type"] == "Sort"], (name, plan)
    for name, (sql, args) in SEVERAL.items():
        scans = scans_of(await explain(full_store, sql, *args))
        assert scans, name
        assert not [scan for scan in scans if scan["Node Type"] == "Seq Scan"], (name, scans)
    for name, (sql, args) in INSERTS.items():
        plan = await explain(full_store, sql, *args)
        assert not scans_of(plan), name
        written = [node for node in plan if node["Node Type"] == "ModifyTable"]
        assert written and all(node["Conflict Resolution"] in ("NOTHING", "UPDATE") for node in written), name
    plan = await explain(full_store, send_rows.SQL_WRITE, *([[]] * 26), 0)
    assert not scans_of(plan), "a batch is written without reading a table"
    written = [node["Relation Name"] for node in plan if node["Node Type"] == "ModifyTable"]
    assert len(written) == 5, written
    await claims_read_what_they_take(full_store)


async def claims_read_what_they_take(store: Store) -> None:
    """Of one bucket or of all: no more rows of the outbox are read than are claimed and ended."""
    for buckets in ([bucket_of(7)], range(OUTBOX_BUCKETS)):
        claim = (list(buckets), [0] * len(buckets), 10, 99, 0, 0, 100, 1)
        found = [node for node in await run(store, outbox.SQL_CLAIM, *claim) if is_outbox(node)]
        partitions = {node["Relation Name"] for node in found}
        assert len(partitions) == 1 or len(buckets) > 1
        assert {node["Node Type"] for node in found} == {"Index Scan"}
        for alias in ("c", "f", "o"):
            read = [node for node in found if node["Alias"].split("_")[0] == alias]
            assert 100 <= sum(node["Actual Rows"] * node["Actual Loops"] for node in read) <= 100 + 16, alias
        assert all(node.get("Rows Removed by Filter", 0) == 0 for node in found)
    ended = ([bucket_of(7)] * 2, [7, 8], [1, 2])
    found = [node for node in await run(store, outbox.SQL_DONE, *ended) if is_outbox(node)]
    assert [node["Node Type"] for node in found] == ["Index Scan"]


def is_outbox(node: dict[str, Any]) -> bool:
    return "Scan" in node["Node Type"] and node.get("Relation Name", "").startswith("dispatch_outbox")
