"""Service messages: written in the transaction of what they tell of.

Guarantees: each side that is told has a copy as of any message: in its history, counted as unread, with its
event, and in its list of chats. What is told and the message that tells it are there together or not at all.

Rows are locked in the order of the sends: message_boxes, dialogs, user_update_events, dispatch_outbox; within
a table by owner.

*Spec: Service messages*
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from telesrv.domain.actions import Action
from telesrv.domain.messages import MessageBox, ReplyTo, SentMessage
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import Peer
from telesrv.domain.snapshots import action_to_json
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.events import EventWriter, StaleCounter
from telesrv.store.pool import Connection, Pool, to_json

# Writes the copies of one service message.
SQL_ADD_BOXES: Final = """
INSERT INTO message_boxes (owner_user_id, box_id, peer_type, peer_id, from_user_id, outgoing, message_id,
    date, text, silent, reply_to_box_id, peer_box_id, pts, expires_at, action)
SELECT owner, box_id, 1, peer_id, $6, owner = $6, $7, $8, '', $9, reply_to, peer_box_id, pts, expires_at,
    $10::text::jsonb
FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::int[], $5::int[], $11::int[], $12::int[])
    AS q(owner, box_id, peer_id, peer_box_id, pts, reply_to, expires_at)
ORDER BY owner
ON CONFLICT (owner_user_id, box_id) DO NOTHING
RETURNING owner_user_id
"""
# Puts them on top of their chats; answers with the marks up to which the chats were read.
SQL_ADD_TO_DIALOGS: Final = """
INSERT INTO dialogs AS d
    (owner_user_id, peer_type, peer_id, top_box_id, top_date, unread_count, message_count)
SELECT owner, 1, peer_id, box_id, $4, (owner <> $5)::int, 1
FROM unnest($1::bigint[], $2::bigint[], $3::int[]) AS q(owner, peer_id, box_id)
ORDER BY owner
ON CONFLICT (owner_user_id, peer_type, peer_id) DO UPDATE SET
    top_box_id = GREATEST(d.top_box_id, excluded.top_box_id),
    top_date = CASE WHEN excluded.top_box_id > d.top_box_id THEN excluded.top_date ELSE d.top_date END,
    unread_count = d.unread_count + excluded.unread_count,
    message_count = d.message_count + excluded.message_count
RETURNING owner_user_id, read_inbox_max_id
"""
# Whether there is such an account.
SQL_EXISTS: Final = """
SELECT 1 FROM users WHERE user_id = $1 AND NOT deleted
"""
# Whether what somebody does in a chat reaches the other side: it is there, and has not blocked them.
SQL_REACHES: Final = """
SELECT 1 FROM users u WHERE u.user_id = $1 AND NOT u.deleted AND NOT EXISTS (
    SELECT 1 FROM contact_blocks c WHERE c.owner_user_id = $1 AND c.peer_type = 1 AND c.peer_id = $2)
"""


@dataclass(frozen=True, slots=True)
class Told:
    """A side that gets a copy."""

    owner: int
    other: int
    reply_to: int = 0
    """The message it is about, in the owner's ids; 0: none."""
    ttl_s: int = 0
    """After how long the copy is deleted by itself; 0: never."""


async def reaches(pool: Pool, owner: int, other: int) -> bool:
    """Tells whether what the owner does in the chat with *other* is seen on the other side."""
    return await pool.fetchval(SQL_REACHES, other, owner) is not None


async def add_service(
    connection: Connection,
    writer: EventWriter,
    author: int,
    sides: Sequence[Told],
    action: Action,
    *,
    date: int,
    silent: bool = False,
    origin: Origin = NOBODY,
) -> SentMessage | None:
    """Writes a service message in the caller's transaction, with a pts and a box_id of each side's.

    Args:
        author: who did it.
        sides: of one chat, one or both.
        origin: the author's session, which is not told of it since it knows.
    Returns:
        The author's copy, if the author is told.
    Raises:
        StaleCounter: an id was taken, or lies below what its owner has read; the caller takes new ones.
    """
    sides = sorted(sides, key=lambda side: side.owner)
    box_ids = {side.owner: writer.box_id(side.owner) for side in sides}
    message_id = writer.message_id()
    boxes: list[MessageBox] = []
    for side in sides:
        own = side.owner == author
        peer = Peer.user(side.other)
        event = writer.add(
            NewEvent(
                side.owner,
                EventKind.NEW_MESSAGE,
                date,
                peer,
                box_ids[side.owner],
                origin=origin if own else NOBODY,
            )
        )
        boxes.append(
            MessageBox(
                owner_user_id=side.owner,
                box_id=event.box_id,
                peer=peer,
                from_user_id=author,
                outgoing=own,
                message_id=message_id,
                date=date,
                text="",
                silent=silent,
                reply_to=ReplyTo(side.reply_to) if side.reply_to else None,
                peer_box_id=box_ids.get(side.other, 0) if side.other != side.owner else 0,
                pts=event.pts,
                expires_at=date + side.ttl_s if side.ttl_s else None,
                action=action,
            )
        )
    await _write(connection, author, boxes)
    return next((SentMessage(box, box.pts, 1) for box in boxes if box.outgoing), None)


async def _write(connection: Connection, author: int, boxes: Sequence[MessageBox]) -> None:
    first = boxes[0]
    owners = [box.owner_user_id for box in boxes]
    peers = [box.peer.id for box in boxes]
    box_ids = [box.box_id for box in boxes]
    written = await connection.fetch(
        SQL_ADD_BOXES,
        owners,
        box_ids,
        peers,
        [box.peer_box_id for box in boxes],
        [box.pts for box in boxes],
        author,
        first.message_id,
        first.date,
        first.silent,
        to_json(action_to_json(first.action)),
        [box.reply_to.box_id if box.reply_to else None for box in boxes],
        [box.expires_at for box in boxes],
    )
    if len(written) != len(boxes):
        raise StaleCounter
    rows = await connection.fetch(SQL_ADD_TO_DIALOGS, owners, peers, box_ids, first.date, author)
    read = {row["owner_user_id"]: row["read_inbox_max_id"] for row in rows}
    if any(box.box_id <= read[box.owner_user_id] for box in boxes if not box.outgoing):
        raise StaleCounter
