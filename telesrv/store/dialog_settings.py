"""The row that whoever arranges an owner's list of chats locks first, and plans made before that lock.

Concurrency: pins, folders and filters are read before the lock, to know how many pts a change takes, and
again under it; when they differ the change starts over. Rows are locked in this order: contacts,
contact_blocks, dialog_settings, dialogs, dialog_filters, dialog_drafts, then the log. One that goes the
other way is no harm: a dialog that is removed notes its other side in contacts, and who locks those locks no
dialog.

*Spec: Folders*
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from telesrv.domain.errors import Unavailable

T = TypeVar("T")
_TRIES: Final = 8

# Locks the owner's settings, made if need be.
SQL_LOCK_SETTINGS: Final = """
INSERT INTO dialog_settings AS s (owner_user_id) VALUES ($1)
ON CONFLICT (owner_user_id) DO UPDATE SET filter_tags = s.filter_tags
RETURNING filter_order, filter_tags
"""
# Reads the owner's settings; there may be none yet.
SQL_SETTINGS: Final = """
SELECT filter_order, filter_tags, top_peers_off, top_peers_after FROM dialog_settings
WHERE owner_user_id = $1
"""


class PlanMovedError(Exception):
    """What was read before the lock is not what stands there under it."""


async def until_settled(attempt: Callable[[], Awaitable[T]]) -> T:
    """Returns what *attempt* returns when no other change came between its look and its lock.

    Raises:
        Unavailable: others kept changing the same.
    """
    for _ in range(_TRIES):
        try:
            return await attempt()
        except PlanMovedError:
            continue
    raise Unavailable("a list of chats that kept changing")
