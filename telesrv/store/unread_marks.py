"""Chats that their owner marked as unread by hand. Reading a chat takes the mark off (`receipts`).

*Spec: messages.markDialogUnread*
"""

from __future__ import annotations

from typing import Final

from telesrv.clock import Clock
from telesrv.domain.errors import DialogMissing
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import Peer
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.boxes import peer_of
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.pool import Connection, Pool

MAX_MARKS: Final = 1_000
"""The most marks that one answer lists."""

# Reads the mark of one chat.
SQL_MARK: Final = """
SELECT unread_mark FROM dialogs WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3
"""
# Sets or takes off a mark; nothing comes back when it was so already.
SQL_SET_MARK: Final = """
UPDATE dialogs SET unread_mark = $4
WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3 AND unread_mark <> $4 RETURNING peer_id
"""
# Reads which chats are marked.
SQL_MARKED: Final = """
SELECT peer_type, peer_id FROM dialogs WHERE owner_user_id = $1 AND unread_mark
ORDER BY peer_type, peer_id LIMIT $2
"""


class UnreadMarkStore:
    """The owner's own unread marks."""

    def __init__(self, pool: Pool, events: EventLog, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._clock = clock

    async def mark(self, owner: int, peer: Peer, unread: bool) -> bool:
        """Sets the mark or takes it off. False when it was so already.

        Raises:
            DialogMissing: there is no such chat.
        """
        marked = await self._pool.fetchval(SQL_MARK, owner, peer.type, peer.id)
        if marked is None:
            raise DialogMissing
        if marked == unread:
            return False

        async def body(connection: Connection, writer: EventWriter) -> bool:
            if await connection.fetchval(SQL_SET_MARK, owner, peer.type, peer.id, unread) is None:
                return False
            writer.add(unread_mark_event(owner, peer, unread, int(self._clock.time())))
            return True

        return await self._events.transact([owner], body)

    async def marked(self, owner: int) -> list[Peer]:
        """Returns the chats that are marked, at most 1,000.

        *Spec: messages.getDialogUnreadMarks*
        """
        rows = await self._pool.fetch(SQL_MARKED, owner, MAX_MARKS)
        return [peer_of(row["peer_type"], row["peer_id"]) for row in rows]


def unread_mark_event(owner: int, peer: Peer, unread: bool, date: int, origin: Origin = NOBODY) -> NewEvent:
    """Returns the event that tells of a mark."""
    return NewEvent(
        owner, EventKind.DIALOG_UNREAD_MARK, date, peer, payload={"unread": unread}, origin=origin
    )
