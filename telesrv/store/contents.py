"""Marks of messages whose contents the owner has not seen, and clearing them.

Guarantees: exactly the owner's boxes are locked and cleared, with one event that covers as many pts as boxes
it names; what is clear stays as it is, without an event.

*Spec: messages.readMessageContents*
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from telesrv.domain.messages import MAX_CHANGED, Affected
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import MAX_ID
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.marks import Marks
from telesrv.store.pool import Connection, Pool

# Which of some messages have contents that were not seen.
SQL_UNSEEN: Final = """
SELECT b.box_id FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.box_id = ANY($2::int[]) AND NOT b.deleted
    AND (b.media_unread OR b.reaction_unread)
ORDER BY b.box_id
"""
# Notes that contents were seen; those seen already are missing from the answer.
SQL_SEEN: Final = """
UPDATE message_boxes b SET media_unread = false, reaction_unread = false
WHERE b.owner_user_id = $1 AND b.box_id = ANY($2::int[]) AND NOT b.deleted
    AND (b.media_unread OR b.reaction_unread)
RETURNING b.box_id
"""


class ContentStore:
    """Contents of messages as seen or not."""

    def __init__(self, pool: Pool, events: EventLog, marks: Marks) -> None:
        self._pool = pool
        self._events = events
        self._marks = marks

    async def read(
        self, owner: int, box_ids: Iterable[int], *, date: int, origin: Origin = NOBODY
    ) -> Affected:
        """Notes that the owner has seen the contents of messages, at most 1,000.

        Raises:
            Unavailable: a server is away; a repeat is harmless.

        *Spec: messages.readMessageContents*
        """
        wanted = sorted({number for number in box_ids if 0 < number <= MAX_ID})[:MAX_CHANGED]
        rows = await self._pool.fetch(SQL_UNSEEN, owner, wanted) if wanted else []
        unseen = [row["box_id"] for row in rows]

        async def body(connection: Connection, writer: EventWriter) -> Affected | None:
            seen = sorted(row["box_id"] for row in await connection.fetch(SQL_SEEN, owner, unseen))
            if not seen:
                return None
            event = writer.add(
                NewEvent(
                    owner,
                    EventKind.CONTENTS_READ,
                    date,
                    payload={"box_ids": seen},
                    origin=origin,
                    pts_count=len(seen),
                )
            )
            return Affected(event.pts, event.pts_count)

        affected = await self._events.transact([owner] * len(unseen), body) if unseen else None
        return affected or Affected((await self._marks.walk(owner))[0], 0)
