"""Plans of the statements that change messages: by an index in the owner's partition, at any size."""

from __future__ import annotations

import re

from telesrv.domain.updates import bucket_of
from telesrv.store import (
    Store,
    contents,
    deletes,
    due,
    edits,
    forwards,
    pinned_messages,
    scheduled,
    service_messages,
    ttl,
    unread,
    until_online,
)
from tests.store.test_plans import CHAT, CHATS, explain, full_store, scans_of

__all__ = ["full_store"]

FILL = """
UPDATE message_boxes SET flags = 1 WHERE box_id % 40 = 0;
UPDATE message_boxes SET expires_at = date + 100 WHERE box_id % 3 = 0;
INSERT INTO scheduled_messages (bucket, owner_user_id, scheduled_id, random_id, digest, peer_type, peer_id,
    schedule_date, due_date, text, silent, noforwards)
SELECT owner % 64, owner, id, id, '', 1, 1 + id % 20, id, id, 'text', false, false
FROM generate_series(1, 400) owner, generate_series(1, 100) id;
INSERT INTO online_waits (bucket, user_id, owner_user_id, waits_since)
SELECT id % 64, id, owner, 0 FROM generate_series(1, 400) id, generate_series(1, 100) owner;
"""
BUCKET = bucket_of(7)
KEYS = ([7, 8], [1, 2])
ONE_OWNER: dict[str, tuple[str, tuple[object, ...]]] = {
    "existing": (deletes.SQL_EXISTING, (7, [1, 2])),
    "empty": (deletes.SQL_EMPTY, CHAT),
    "newest": (deletes.SQL_NEWEST, (*CHAT, 100, 1001)),
    "unseen": (contents.SQL_UNSEEN, (7, [1, 2])),
    "seen": (contents.SQL_SEEN, (7, [1, 2])),
    "edit blocked": (edits.SQL_BLOCKED_BY, CHAT),
    "digests": (forwards.SQL_DIGESTS, (7, [1, 2])),
    "pinned": (pinned_messages.SQL_ALL, (*CHAT, 10)),
    "pinned count": (pinned_messages.SQL_COUNT, CHAT),
    "pinned older": (pinned_messages.SQL_OLDER, (*CHAT, 150, 0, 10, 0)),
    "pinned newer": (pinned_messages.SQL_NEWER, (*CHAT, 2**31 - 1, 50, 10, 0)),
    "periods": (ttl.SQL_PERIODS, (7, 7, 1, [1, 2])),
    "lease expiring": (ttl.SQL_LEASE, (7, 10, 10, 70, "x", 16)),
    "expired": (ttl.SQL_EXPIRED, (*CHAT, 100, 1000)),
    "next expiring": (ttl.SQL_NEXT, CHAT),
    "expire again": (ttl.SQL_AGAIN, (7, *CHAT, 0, 9)),
    "forget expiry": (ttl.SQL_FORGET, (7, *CHAT, 0)),
    "has dialog": (ttl.SQL_HAS_DIALOG, CHAT),
    "used": (ttl.SQL_USED, (7, [5, 6], [b"", b""])),
    "by random_id": (scheduled.SQL_BY_RANDOM_ID, (BUCKET, 7, 5)),
    "waiting": (scheduled.SQL_CHAT, (BUCKET, *CHAT, None)),
    "waiting count": (scheduled.SQL_COUNT, (BUCKET, *CHAT)),
    "edit waiting": (scheduled.SQL_EDIT, (BUCKET, *CHAT, 5, "text", None, 9, 9, 9)),
    "delete waiting": (scheduled.SQL_DELETE, (BUCKET, *CHAT, [5, 6], 9)),
    "add waiting": (
        scheduled.SQL_ADD,
        (BUCKET, 7, 5, b"", *CHAT[1:], 9, "text", None, False, False, None, None, None, 100),
    ),
    "lease due": (due.SQL_LEASE, (BUCKET, 10, 10, 20, "x", 64)),
    "lease some": (due.SQL_LEASE_SOME, (BUCKET, *CHAT, [5, 6], 10, 20, "x")),
    "who waits": (until_online.SQL_WAITING, (BUCKET, 7, 5, 10)),
    "awaited": (until_online.SQL_AWAITED, (BUCKET, 5, 10)),
    "take waits": (until_online.SQL_TAKE, (BUCKET, 7, [5, 6])),
    "finish": (due.SQL_FINISH, (BUCKET, 7, 5, 1)),
}
IN_ORDER = {
    "who waits",
    "awaited",
    "newest",
    "pinned",
    "pinned older",
    "pinned newer",
    "expired",
    "next expiring",
}
SEVERAL: dict[str, tuple[str, tuple[object, ...]]] = {
    "twins": (deletes.SQL_TWINS, (*KEYS, 9)),
    "delete": (deletes.SQL_DELETE, KEYS),
    "take off": (deletes.SQL_TAKE_OFF, (*CHATS, [1, 1])),
    "recount": (deletes.SQL_RECOUNT, CHATS),
    "remove": (deletes.SQL_REMOVE, CHATS),
    "unread at": (unread.SQL_UNREAD_AT, ([0, 1], *CHATS, [5, 6], [150, 150], [True, False])),
    "reaches": (service_messages.SQL_REACHES, (7, 8)),
    "pin": (pinned_messages.SQL_PIN, (*KEYS, True)),
    "expiring": (ttl.SQL_DUE, ([1, 2], 3, 4)),
    "let go": (until_online.SQL_LET_GO, ([7, 8], [7, 8], 9, 10, 20)),
    "due": (due.SQL_DUE, ([1, 2], 3, 4)),
    "edit": (edits.SQL_EDIT, (*KEYS, "text", None, 5, 7, 5)),
}


async def test_plans(full_store: Store) -> None:
    """One test, since filling the tables costs more than all plans."""
    async with full_store.pool.acquire() as connection:
        await connection.execute(FILL)
        await connection.execute("VACUUM ANALYZE message_boxes, scheduled_messages, online_waits")
    for name, (sql, args) in ONE_OWNER.items():
        plan = await explain(full_store, sql, *args)
        scans = scans_of(plan)
        assert scans, name
        assert all(re.match("Index|Bitmap", scan["Node Type"]) for scan in scans), (name, scans)
        assert len({re.sub(r".*_p", "", scan["Relation Name"]) for scan in scans}) == 1, (name, scans)
        if name in IN_ORDER:
            assert not [node for node in plan if node["Node Type"] == "Sort"], (name, plan)
    for name, (sql, args) in SEVERAL.items():
        scans = scans_of(await explain(full_store, sql, *args))
        assert scans, name
        assert not [scan for scan in scans if scan["Node Type"] == "Seq Scan"], (name, scans)
