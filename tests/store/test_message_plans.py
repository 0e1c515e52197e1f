"""Plans of the statements that change messages: by an index in the owner's partition, at any size."""

from __future__ import annotations

import re

from telesrv.store import Store, contents, deletes, edits
from tests.store.test_plans import CHAT, CHATS, explain, full_store, scans_of

__all__ = ["full_store"]

KEYS = ([7, 8], [1, 2])
ONE_OWNER: dict[str, tuple[str, tuple[object, ...]]] = {
    "existing": (deletes.SQL_EXISTING, (7, [1, 2])),
    "newest": (deletes.SQL_NEWEST, (*CHAT, 100, 1001)),
    "unseen": (contents.SQL_UNSEEN, (7, [1, 2])),
    "seen": (contents.SQL_SEEN, (7, [1, 2])),
    "edit body": (edits.SQL_EDIT_BODY, (7, 5, "text", None)),
    "edit blocked": (edits.SQL_BLOCKED_BY, CHAT),
}
IN_ORDER = {"newest"}
SEVERAL: dict[str, tuple[str, tuple[object, ...]]] = {
    "twins": (deletes.SQL_TWINS, KEYS),
    "delete": (deletes.SQL_DELETE, KEYS),
    "delete blocked": (deletes.SQL_BLOCKED_BY, ([7, 8], 1, 9)),
    "take off": (deletes.SQL_TAKE_OFF, (*CHATS, [1, 1])),
    "recount": (deletes.SQL_RECOUNT, CHATS),
    "remove": (deletes.SQL_REMOVE, CHATS),
    "edit boxes": (edits.SQL_EDIT_BOXES, (*KEYS, [3, 4], "text", None, 5)),
}


async def test_plans(full_store: Store) -> None:
    """One test, since filling the tables costs more than all plans."""
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
