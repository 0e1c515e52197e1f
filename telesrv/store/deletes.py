"""Deleting messages: softly, by owner, with the dialogs put right in the same transaction.

Guarantees: each owner whose copies went has one event with that owner's ids and a pts_count of how many;
the rows stay. A dialog's top message and counts are those of what is left; a dialog with nothing left goes,
unless it is only cleared, and the event tells what its owner had arranged about it: it is undone. At most
1,000 messages of one owner a call.

Where an unread message goes, the event says how many are unread now: a client that never had the message
could not know.

Rows are locked in the order of the sends: message_boxes, dialogs, user_update_events, dispatch_outbox; within
a table by key. The dialogs are locked before anything of them is counted, by a later statement; one that is
made in between has what was deleted in none of its counts, and is left alone.

*Spec: messages.deleteMessages; messages.deleteHistory*
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from telesrv.domain.errors import DeleteForbidden
from telesrv.domain.messages import MAX_CHANGED, Affected
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import MAX_ID, Peer, PeerType
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.chats import Chat, chat_columns
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.marks import Marks
from telesrv.store.pool import Connection, Pool, Record

Sides: TypeAlias = Mapping[int, Sequence[int]]
"""box_ids by their owner."""

# Which of some messages of one owner exist, and where their twins are.
SQL_EXISTING: Final = """
SELECT b.box_id, b.peer_type, b.peer_id, b.peer_box_id FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.box_id = ANY($2::int[]) AND NOT b.deleted
"""
# The newest messages of a chat up to $4.
SQL_NEWEST: Final = """
SELECT b.box_id, b.peer_type, b.peer_id, b.peer_box_id FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3 AND b.box_id <= $4 AND NOT b.deleted
ORDER BY b.box_id DESC LIMIT $5
"""
# Which of some messages of several owners exist, and whether their owners have blocked $3.
SQL_TWINS: Final = """
SELECT b.owner_user_id, b.box_id, EXISTS (
    SELECT 1 FROM contact_blocks c
    WHERE c.owner_user_id = b.owner_user_id AND c.peer_type = 1 AND c.peer_id = $3) AS blocked
FROM unnest($1::bigint[], $2::int[]) AS q(owner, box_id)
JOIN message_boxes b ON b.owner_user_id = q.owner AND b.box_id = q.box_id
WHERE NOT b.deleted
"""
# Deletes messages; those that were deleted already are missing from the answer.
SQL_DELETE: Final = """
UPDATE message_boxes b SET deleted = true
FROM unnest($1::bigint[], $2::int[]) AS q(owner, box_id)
WHERE b.owner_user_id = q.owner AND b.box_id = q.box_id AND NOT b.deleted
RETURNING b.owner_user_id, b.box_id, b.peer_type, b.peer_id, b.outgoing
"""
# Locks dialogs, takes deleted messages off their counts, and tells which there are.
SQL_TAKE_OFF: Final = """
UPDATE dialogs d SET message_count = d.message_count - q.gone
FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::int[]) AS q(owner, peer_type, peer_id, gone)
WHERE d.owner_user_id = q.owner AND d.peer_type = q.peer_type AND d.peer_id = q.peer_id
RETURNING d.owner_user_id, d.peer_type, d.peer_id
"""
# Counts anew what is unread in some chats, and finds their newest message; their dialogs are locked.
SQL_RECOUNT: Final = """
UPDATE dialogs d SET top_box_id = coalesce(t.box_id, 0), top_date = coalesce(t.date, d.top_date),
    unread_count = (
        SELECT count(*) FROM message_boxes b
        WHERE b.owner_user_id = d.owner_user_id AND b.peer_type = d.peer_type AND b.peer_id = d.peer_id
            AND b.box_id > d.read_inbox_max_id AND NOT b.deleted AND NOT b.outgoing)
FROM (
    SELECT q.owner, q.peer_type, q.peer_id, (
        SELECT max(b.box_id) FROM message_boxes b
        WHERE b.owner_user_id = q.owner AND b.peer_type = q.peer_type AND b.peer_id = q.peer_id
            AND NOT b.deleted) AS top
    FROM unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS q(owner, peer_type, peer_id)
) n LEFT JOIN message_boxes t ON t.owner_user_id = n.owner AND t.box_id = n.top
WHERE d.owner_user_id = n.owner AND d.peer_type = n.peer_type AND d.peer_id = n.peer_id
RETURNING d.owner_user_id, d.peer_type, d.peer_id, d.read_inbox_max_id, d.unread_count, d.top_box_id
"""
# Whether a chat is empty: it was cleared.
SQL_EMPTY: Final = """
SELECT 1 FROM dialogs WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3 AND top_box_id = 0
"""
# Removes dialogs without messages, notes that the other sides may have theirs, and tells what was arranged.
SQL_REMOVE: Final = """
WITH removed AS (
    DELETE FROM dialogs d
    USING unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS q(owner, peer_type, peer_id)
    WHERE d.owner_user_id = q.owner AND d.peer_type = q.peer_type AND d.peer_id = q.peer_id
        AND d.top_box_id = 0
    RETURNING d.owner_user_id, d.peer_type, d.peer_id, d.folder_id, d.pinned_order > 0 AS pinned,
        d.unread_mark
), noted AS (
    INSERT INTO contacts (owner_user_id, contact_user_id, chat_kept)
    SELECT owner_user_id, peer_id, true FROM removed WHERE peer_type = 1 AND peer_id <> owner_user_id
    ORDER BY owner_user_id, peer_id
    ON CONFLICT (owner_user_id, contact_user_id) DO UPDATE SET chat_kept = true
)
SELECT owner_user_id, peer_type, peer_id, folder_id, pinned, unread_mark FROM removed
"""


class DeleteStore:
    """Deletes of messages and of whole chats."""

    def __init__(self, pool: Pool, events: EventLog, marks: Marks) -> None:
        self._pool = pool
        self._events = events
        self._marks = marks

    async def delete(
        self,
        owner: int,
        box_ids: Iterable[int],
        *,
        date: int,
        revoke: bool = False,
        origin: Origin = NOBODY,
    ) -> Affected:
        """Deletes the owner's copies, at most 1,000, and with *revoke* those of the other sides.

        Ids that name nothing are left out.

        Raises:
            DeleteForbidden: with *revoke*, a side that has one of the copies has blocked the owner.
            Unavailable: a server is away; a repeat is harmless.

        *Spec: messages.deleteMessages*
        """
        wanted = [number for number in dict.fromkeys(box_ids) if 0 < number <= MAX_ID][:MAX_CHANGED]
        rows = await self._pool.fetch(SQL_EXISTING, owner, wanted) if wanted else []
        return await self._delete(owner, rows, date, revoke, origin)

    async def delete_history(
        self,
        owner: int,
        peer: Peer,
        max_box_id: int,
        *,
        date: int,
        just_clear: bool = False,
        revoke: bool = False,
        origin: Origin = NOBODY,
    ) -> Affected:
        """Deletes the newest 1,000 messages of a chat up to *max_box_id* (of all when not positive).

        Args:
            just_clear: the dialog stays, empty; without it one that is empty already goes.
            revoke: the other side loses its copies too.
        Returns:
            With *more* when the same call has to be made again.
        Raises:
            DeleteForbidden: with *revoke*, the other side has blocked the owner and has one of the copies.
            Unavailable: a server is away; a repeat is harmless.

        *Spec: messages.deleteHistory*
        """
        upto = max_box_id if 0 < max_box_id <= MAX_ID else MAX_ID
        chat = (owner, int(peer.type), peer.id)
        rows = await self._pool.fetch(SQL_NEWEST, *chat, upto, MAX_CHANGED + 1)
        batch = rows[:MAX_CHANGED]
        emptied = not just_clear and (batch or await self._pool.fetchval(SQL_EMPTY, *chat) is not None)
        affected = await self._delete(
            owner,
            batch,
            date,
            revoke,
            origin,
            keep_dialogs=just_clear,
            emptied=[chat] if emptied else [],
        )
        return Affected(affected.pts, affected.pts_count, more=len(rows) > MAX_CHANGED)

    async def _delete(
        self,
        owner: int,
        rows: Sequence[Record],
        date: int,
        revoke: bool,
        origin: Origin,
        *,
        keep_dialogs: bool = False,
        emptied: Collection[Chat] = (),
    ) -> Affected:
        sides: dict[int, Sequence[int]] = {owner: [row["box_id"] for row in rows]}
        if revoke:
            sides |= await self._twins(owner, rows)
        counts: Mapping[int, tuple[int, int]] = {}
        if rows or emptied:
            counts = await self.erase(
                sides, date=date, keep_dialogs=keep_dialogs, emptied=emptied, origins={owner: origin}
            )
        if owner in counts:
            return Affected(*counts[owner])
        return Affected((await self._marks.walk(owner))[0], 0)

    async def _twins(self, owner: int, rows: Sequence[Record]) -> dict[int, list[int]]:
        """Returns the other sides' copies that exist."""
        keys = sorted(
            (row["peer_id"], row["peer_box_id"])
            for row in rows
            if row["peer_box_id"] and row["peer_type"] == PeerType.USER and row["peer_id"] != owner
        )
        twins: dict[int, list[int]] = {}
        if keys:
            found = await self._pool.fetch(SQL_TWINS, [k[0] for k in keys], [k[1] for k in keys], owner)
            if any(row["blocked"] for row in found):
                raise DeleteForbidden
            for row in found:
                twins.setdefault(row["owner_user_id"], []).append(row["box_id"])
        return twins

    async def erase(
        self,
        sides: Sides,
        *,
        date: int,
        keep_dialogs: bool = False,
        emptied: Collection[Chat] = (),
        origins: Mapping[int, Origin] | None = None,
    ) -> Mapping[int, tuple[int, int]]:
        """Deletes copies of any owners in one transaction; returns the (pts, pts_count) of who is told.

        Args:
            keep_dialogs: dialogs with nothing left stay, empty.
            emptied: chats whose dialogs go if nothing is left, though it may be that nothing was there.
            origins: by account, the session that knows already.
        Raises:
            Unavailable: a server is away; a repeat is harmless.
        """
        keys = sorted((owner, box_id) for owner, box_ids in sides.items() for box_id in box_ids)

        async def body(connection: Connection, writer: EventWriter) -> dict[int, tuple[int, int]]:
            gone = await connection.fetch(SQL_DELETE, [key[0] for key in keys], [key[1] for key in keys])
            unread, removed = await _put_dialogs_right(connection, gone, keep_dialogs, emptied)
            counts = {}
            for owner in sorted({*(row["owner_user_id"] for row in gone), *removed}):
                box_ids = sorted(row["box_id"] for row in gone if row["owner_user_id"] == owner)
                payload: dict[str, Any] = {"box_ids": box_ids}
                if unread.get(owner):
                    payload["unread"] = unread[owner]
                if owner in removed:
                    payload["removed"] = removed[owner]
                event = writer.add(
                    NewEvent(
                        owner,
                        EventKind.CHATS_DELETED if owner in removed else EventKind.DELETE_MESSAGES,
                        date,
                        payload=payload,
                        origin=(origins or {}).get(owner, NOBODY),
                        pts_count=max(1, len(box_ids)),
                    )
                )
                counts[owner] = (event.pts, event.pts_count)
            return counts

        users = [owner for owner, _ in keys]
        users += sorted({chat[0] for chat in emptied}.difference(users))
        return await self._events.transact(users, body)


async def _put_dialogs_right(
    connection: Connection, gone: Sequence[Record], keep_dialogs: bool, emptied: Collection[Chat]
) -> tuple[dict[int, list[list[int]]], dict[int, list[list[Any]]]]:
    """Returns, by owner, the chats in which something unread went: [type, id, read mark, unread count]; and
    those removed that the owner had arranged: [type, id, folder, whether pinned, whether marked unread]."""
    less = Counter(_chat(row) for row in gone)
    chats = sorted({*less, *emptied})
    if not chats:
        return {}, {}
    taken = await connection.fetch(SQL_TAKE_OFF, *chat_columns(chats), [less[chat] for chat in chats])
    locked = sorted(map(_chat, taken))
    counted = {_chat(row): row for row in await connection.fetch(SQL_RECOUNT, *chat_columns(locked))}
    removed: dict[int, list[list[Any]]] = {}
    empty = sorted(chat for chat, row in counted.items() if row["top_box_id"] == 0)
    if empty and not keep_dialogs:
        for row in sorted(await connection.fetch(SQL_REMOVE, *chat_columns(empty)), key=_chat):
            arranged = [row["folder_id"], row["pinned"], row["unread_mark"]]
            if any(arranged):
                removed.setdefault(row["owner_user_id"], []).append([*_chat(row)[1:], *arranged])
    changed = {
        _chat(row)
        for row in gone
        if not row["outgoing"]
        and _chat(row) in counted
        and row["box_id"] > counted[_chat(row)]["read_inbox_max_id"]
    }
    unread: dict[int, list[list[int]]] = {}
    for chat in sorted(changed):
        row = counted[chat]
        unread.setdefault(chat[0], []).append([*chat[1:], row["read_inbox_max_id"], row["unread_count"]])
    return unread, removed


def _chat(row: Record) -> Chat:
    return row["owner_user_id"], row["peer_type"], row["peer_id"]
