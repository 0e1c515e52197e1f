"""Plans of the statements that arrange dialogs: one owner is one partition, found by an index."""

from __future__ import annotations

import re

import pytest

from telesrv.store import (
    Store,
    dialog_pins,
    dialog_settings,
    dialogs,
    drafts,
    events,
    filters,
    folders,
    top_peers,
    unread_marks,
)
from tests.store.test_plans import explain, scans_of

FILL = """
INSERT INTO dialogs (owner_user_id, peer_type, peer_id, top_box_id, top_date, folder_id, pinned_order,
    unread_mark)
SELECT owner, 1, peer, peer, peer, (peer % 10 = 0)::int, CASE WHEN peer % 50 = 1 THEN peer ELSE 0 END,
    peer % 40 = 3
FROM generate_series(1, 400) owner, generate_series(1, 200) peer;
INSERT INTO contacts (owner_user_id, contact_user_id, listed)
SELECT owner, peer, true FROM generate_series(1, 400) owner, generate_series(1, 200, 2) peer;
INSERT INTO dialog_drafts (owner_user_id, peer_type, peer_id, pts, draft)
SELECT owner, 1, peer, peer, '{}' FROM generate_series(1, 400) owner, generate_series(1, 50) peer;
INSERT INTO top_peer_resets (owner_user_id, peer_type, peer_id, after_box_id)
SELECT owner, 1, peer, 1 FROM generate_series(1, 400) owner, generate_series(1, 50) peer;
INSERT INTO dialog_filters (owner_user_id, filter_id, filter)
SELECT owner, number, '{}' FROM generate_series(1, 2000) owner, generate_series(2, 9) number;
INSERT INTO notify_settings (owner_user_id, scope, peer_type, peer_id, settings)
SELECT owner, 1, 1, peer, '{}' FROM generate_series(1, 400) owner, generate_series(1, 50) peer;
INSERT INTO dialog_settings (owner_user_id) SELECT owner FROM generate_series(1, 8000) owner;
INSERT INTO message_boxes (owner_user_id, box_id, peer_type, peer_id, from_user_id, outgoing, message_id,
    date, text, peer_box_id, pts)
SELECT owner, box, 1, 1 + (owner + box) % 20, owner, box % 2 = 0, box, box, 'text', box, box
FROM generate_series(1, 400) owner, generate_series(1, 100) box;
INSERT INTO user_update_events (user_id, pts, pts_count, kind, date, peer_type, peer_id, box_id)
SELECT owner, pts, 1, 1 + pts % 20, 0, 1, 5, pts
FROM generate_series(1, 400) owner, generate_series(1, 200) pts;
"""

RULES = ([8, 9], [10], True, False, True, True, True, 5)
ONE_OWNER: dict[str, tuple[str, tuple[object, ...]]] = {
    "filter_page": (dialogs.SQL_FILTER_PAGE, (7, 150, 50, 1, 5, *RULES, 20, [9])),
    "filter_total": (dialogs.SQL_FILTER_TOTAL, (7, *RULES)),
    "archive": (dialogs.SQL_ARCHIVE, (7, 1_700_000_000)),
    "pinned": (dialogs.SQL_PINNED, (7, 0)),
    "places": (dialog_pins.SQL_PLACES, (7, [1, 1], [8, 9])),
    "lock_places": (dialog_pins.SQL_LOCK_PLACES, (7, [1, 1], [8, 9])),
    "set_pins": (dialog_pins.SQL_SET_PINS, (7, [1, 1], [8, 9], [2, 1])),
    "move": (folders.SQL_MOVE, (7, [1, 1], [8, 9], [1, 0])),
    "mark": (unread_marks.SQL_MARK, (7, 1, 9)),
    "set_mark": (unread_marks.SQL_SET_MARK, (7, 1, 9, True)),
    "marked": (unread_marks.SQL_MARKED, (7, 100)),
    "draft": (drafts.SQL_DRAFT, (7, 1, 9)),
    "drafts_of": (drafts.SQL_DRAFTS_OF, (7, 1, [8, 9])),
    "all_drafts": (drafts.SQL_ALL_DRAFTS, (7, 100)),
    "clear_drafts": (drafts.SQL_CLEAR_DRAFTS, (7, [1, 1], [8, 9], [1, 2])),
    "filters": (filters.SQL_FILTERS, (7,)),
    "filter": (filters.SQL_FILTER, (7, 2)),
    "delete_filter": (filters.SQL_DELETE_FILTER, (7, 2)),
    "set_order": (filters.SQL_SET_ORDER, (7, [1])),
    "set_tags": (filters.SQL_SET_TAGS, (7, True)),
    "settings": (dialog_settings.SQL_SETTINGS, (7,)),
    "rating": (top_peers.SQL_RATING, (7, 0, 5, 9, 100)),
    "newest_box": (top_peers.SQL_NEWEST_BOX, (7,)),
}
OWN_INDEX = {
    "archive": "dialogs_p.._owner_user_id_top_date_top_box_id_idx|notify_settings_p.._pkey",
    "marked": "dialogs_p.._owner_user_id_peer_type_peer_id_idx",
}
"""Statements that read only the few rows that an index of their own holds."""
INSERTS: dict[str, tuple[str, tuple[object, ...]]] = {
    "lock_settings": (dialog_settings.SQL_LOCK_SETTINGS, (7,)),
    "save_draft": (drafts.SQL_SAVE_DRAFT, (7, 1, 9, 5, "{}")),
    "save_filter": (filters.SQL_SAVE_FILTER, (7, 2, "{}")),
    "reset": (top_peers.SQL_RESET, (7, 1, 9, 5)),
    "toggle": (top_peers.SQL_TOGGLE, (7, True, 5)),
}


@pytest.fixture
async def full_store(store: Store) -> Store:
    """A store with enough rows for the planner to have a reason."""
    async with store.pool.acquire() as connection:
        await connection.execute(FILL)
        await connection.execute("VACUUM ANALYZE")
    return store


async def test_plans(full_store: Store) -> None:
    """One test, since filling the tables costs more than all plans."""
    for name, (sql, args) in ONE_OWNER.items():
        plan = await explain(full_store, sql, *args)
        scans = scans_of(plan)
        assert scans, name
        assert all(re.match("Index|Bitmap", scan["Node Type"]) for scan in scans), (name, scans)
        tables: dict[str, set[str]] = {}
        for scan in scans:
            table, _, partition = scan["Relation Name"].rpartition("_p")
            tables.setdefault(table, set()).add(partition)
        assert all(len(partitions) == 1 for partitions in tables.values()), (name, tables)
        if name in OWN_INDEX:
            used = [node["Index Name"] for node in plan if "Index Name" in node]
            assert used and all(re.match(OWN_INDEX[name], index) for index in used), (name, used)
    for name, (sql, args) in INSERTS.items():
        plan = await explain(full_store, sql, *args)
        assert not scans_of(plan), name
        assert plan[0]["Conflict Resolution"] == "UPDATE", name
    overtaken = await explain(
        full_store, events.SQL_OVERTAKEN, [7, 8], [195, 190], [5, 0], [1 << 13, 7 << 14]
    )
    assert not [scan for scan in scans_of(overtaken) if scan["Node Type"] == "Seq Scan"]
