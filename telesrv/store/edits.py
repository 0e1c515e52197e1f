"""Editing a sent message: the shared body, both owners' copies and both logs in one transaction.

Guarantees: an edit reaches every copy that still exists, and each of their owners has one event for it; an
edit that is refused writes nothing. Of two edits at once the one that commits last stands everywhere.

Rows are locked in the order of the sends: private_messages, message_boxes, search_segments,
user_update_events, dispatch_outbox; within a table by key.

*Spec: messages.editMessage*
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from telesrv.domain.errors import (
    EditForbidden,
    EditTimeExpired,
    MessageInvalid,
    MessageNotModified,
    NotTheAuthor,
)
from telesrv.domain.messages import EDIT_TIME_S, Edited, Entity, MessageBox
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import MAX_ID, SERVICE_USER_ID, Peer, PeerType
from telesrv.domain.snapshots import entities_to_json
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.boxes import SQL_GET, box_from_row
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.pool import Connection, Pool
from telesrv.store.search import add_edited

# Whether one account has blocked another.
SQL_BLOCKED_BY: Final = """
SELECT 1 FROM contact_blocks WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3
"""
# Puts a new text into the shared body, and then into the copies of the message that still exist.
SQL_EDIT: Final = """
WITH body AS (
    UPDATE private_messages SET text = $3, entities = $4::jsonb
    WHERE sender_user_id = $6 AND random_id = $7
    RETURNING random_id
)
UPDATE message_boxes b SET text = $3, entities = $4::jsonb, edit_date = $5
FROM unnest($1::bigint[], $2::int[]) AS q(owner, box_id)
WHERE b.owner_user_id = q.owner AND b.box_id = q.box_id AND NOT b.deleted
    AND (SELECT count(*) FROM body) >= 0
RETURNING b.owner_user_id
"""


class EditStore:
    """Edits of messages that were sent."""

    def __init__(self, pool: Pool, events: EventLog) -> None:
        self._pool = pool
        self._events = events

    async def edit(
        self,
        owner: int,
        peer: Peer,
        box_id: int,
        text: str,
        entities: tuple[Entity, ...],
        *,
        date: int,
        origin: Origin = NOBODY,
    ) -> Edited:
        """Returns the author's box with its new text, after the commit.

        Raises:
            MessageInvalid: there is no such message in this chat, or it is a service message.
            NotTheAuthor: it is somebody else's, or a forward.
            EditForbidden: the other side has blocked the author.
            EditTimeExpired: it is too old.
            MessageNotModified: it has this text already.
            Unavailable: a server is away; a repeat is harmless.

        *Spec: messages.editMessage*
        """
        box = await self._editable(owner, peer, box_id, date)
        if (box.text, box.entities) == (text, entities):
            raise MessageNotModified
        there = peer.id if box.peer_box_id else 0
        sides = sorted([(owner, box_id), (there, box.peer_box_id)] if there else [(owner, box_id)])

        async def body(connection: Connection, writer: EventWriter) -> Edited:
            rows = await connection.fetch(
                SQL_EDIT,
                [side for side, _ in sides],
                [number for _, number in sides],
                text,
                entities_to_json(entities),
                date,
                owner,
                box.random_id,
            )
            written = {row["owner_user_id"] for row in rows}
            if owner not in written:
                raise MessageInvalid
            await add_edited(connection, [key for key in sides if key[0] in written], text, entities)
            event = writer.add(NewEvent(owner, EventKind.EDIT_MESSAGE, date, peer, box_id, origin=origin))
            if there in written:
                writer.add(NewEvent(there, EventKind.EDIT_MESSAGE, date, Peer.user(owner), box.peer_box_id))
            edited = replace(box, text=text, entities=entities, edit_date=date)
            return Edited(edited, event.pts, event.pts_count)

        return await self._events.transact([side for side, _ in sides], body)

    async def _editable(self, owner: int, peer: Peer, box_id: int, date: int) -> MessageBox:
        rows = await self._pool.fetch(SQL_GET, owner, [box_id]) if 0 < box_id <= MAX_ID else []
        if not rows or (box := box_from_row(rows[0])).peer != peer:
            raise MessageInvalid
        if box.action is not None:
            raise MessageInvalid
        if not box.outgoing or box.fwd is not None:
            raise NotTheAuthor
        if peer.id not in (owner, SERVICE_USER_ID):
            if await self._pool.fetchval(SQL_BLOCKED_BY, peer.id, PeerType.USER, owner):
                raise EditForbidden
            if date - box.date > EDIT_TIME_S:
                raise EditTimeExpired
        return box
