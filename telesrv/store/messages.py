"""Messages as their owners have them: sending, reading back, and the read marks.

Guarantees: a history page is an index seek, whatever was deleted between; read marks only move forward, on
both sides in one transaction.

*Spec: Working with Updates; messages.getHistory; messages.readHistory*
"""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telesrv.domain.messages import (
    MAX_PAGE,
    Entity,
    HistoryPage,
    MessageBox,
    ReadOutcome,
    SendRequest,
    SentMessage,
)
from telesrv.domain.peers import MAX_ID, SERVICE_USER_ID, Peer, PeerType
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.boxes import COLUMNS, SQL_GET, box_from_row
from telesrv.store.committer import Committer
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.marks import Marks
from telesrv.store.pool import Connection, Pool, Record

_MAX_ADD_OFFSET: Final = 100
_MAX_BOX_IDS: Final = 1000

# Reads a chat downward: boxes below $4 and above $5.
SQL_OLDER: Final = f"""
SELECT {COLUMNS} FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3 AND b.box_id < $4 AND b.box_id > $5
    AND NOT b.deleted
ORDER BY b.box_id DESC LIMIT $6 OFFSET $7
"""
# Reads a chat upward: boxes below $4 and above $5.
SQL_NEWER: Final = f"""
SELECT {COLUMNS} FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3 AND b.box_id < $4 AND b.box_id > $5
    AND NOT b.deleted
ORDER BY b.box_id LIMIT $6 OFFSET $7
"""
# The newest box of a chat that is older than a date.
SQL_BEFORE_DATE: Final = """
SELECT box_id FROM message_boxes
WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3 AND date < $4 AND NOT deleted
ORDER BY date DESC, box_id DESC LIMIT 1
"""
# How many messages a chat has.
SQL_COUNT: Final = """
SELECT message_count FROM dialogs WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3
"""
# Reads the marks of a chat.
SQL_MARKS: Final = """
SELECT top_box_id, read_inbox_max_id, read_outbox_max_id, unread_mark FROM dialogs
WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3
"""
# Locks one dialog.
SQL_LOCK: Final = """
SELECT read_inbox_max_id, read_outbox_max_id FROM dialogs
WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3 FOR UPDATE
"""
# The newest incoming box of a chat at or below $4 and above $5 that the other side has as well.
SQL_NEWEST_INCOMING: Final = """
SELECT peer_box_id FROM message_boxes
WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3 AND box_id <= $4 AND box_id > $5
    AND NOT deleted AND NOT outgoing AND peer_box_id > 0
ORDER BY box_id DESC LIMIT 1
"""
# Moves the owner's read mark and counts anew what stays unread; the dialog is locked.
SQL_READ_INBOX: Final = """
UPDATE dialogs SET read_inbox_max_id = $4, unread_mark = false,
    unread_count = (
        SELECT count(*) FROM message_boxes b
        WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3 AND b.box_id > $4
            AND NOT b.deleted AND NOT b.outgoing)
WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3
RETURNING unread_count
"""
# Moves the mark of what the other side has read; the dialog is locked.
SQL_READ_OUTBOX: Final = """
UPDATE dialogs SET read_outbox_max_id = $4 WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3
"""
# Clears the owner's own unread mark.
SQL_CLEAR_MARK: Final = """
UPDATE dialogs SET unread_mark = false
WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3 AND unread_mark
"""
# When the other side read a message: the first receipt at or beyond it.
SQL_READ_DATE: Final = """
SELECT date FROM user_update_events
WHERE user_id = $1 AND peer_type = $2 AND peer_id = $3 AND box_id >= $4 AND kind = 3
ORDER BY box_id LIMIT 1
"""


class MessageStore:
    """Messages and read marks."""

    def __init__(self, pool: Pool, events: EventLog, marks: Marks, committer: Committer) -> None:
        self._pool = pool
        self._events = events
        self._marks = marks
        self._committer = committer

    async def send(self, request: SendRequest) -> SentMessage:
        """Returns the sender's box of the message, after the commit.

        The first and every repeated call with the same (sender, random_id) give the same box_id, pts and
        date. A recipient who blocked the sender gets nothing at all; a message to oneself is one box, never
        unread.

        Raises:
            RandomIdConflict: the random_id was used for another message (another digest).
            PeerInvalid: there is no such account.
            ReplyInvalid: the message replied to is not in this chat.
            Unavailable: a server stayed away; a repeat finds what was written.
            ValueError: random_id is 0, or the sender is 777000.

        *Spec: messages.sendMessage*
        """
        if request.random_id == 0 or request.sender_user_id == SERVICE_USER_ID:
            raise ValueError("a message has a random_id, and service messages have a call of their own")
        return await self._committer.send(request)

    async def send_service(
        self, user_id: int, text: str, entities: Sequence[Entity], date: int
    ) -> SentMessage:
        """Returns the receiver's box of a message from 777000, after the commit; 777000 keeps no copy.

        Raises:
            PeerInvalid: there is no such account.
            Unavailable: a server stayed away; the message may have been written.
        """
        return await self._committer.send(
            SendRequest(
                sender_user_id=SERVICE_USER_ID,
                peer=Peer.user(user_id),
                random_id=0,
                text=text,
                date=date,
                entities=tuple(entities),
            )
        )

    async def get(self, owner: int, box_ids: Sequence[int]) -> dict[int, MessageBox]:
        """Returns the owner's boxes that exist, at most 1,000, by box_id.

        *Spec: messages.getMessages*
        """
        wanted = [box_id for box_id in dict.fromkeys(box_ids) if 0 < box_id <= MAX_ID][:_MAX_BOX_IDS]
        if not wanted:
            return {}
        rows = await self._pool.fetch(SQL_GET, owner, wanted)
        return {row["box_id"]: box_from_row(row) for row in rows}

    async def history(
        self,
        owner: int,
        peer: Peer,
        *,
        offset_id: int = 0,
        offset_date: int = 0,
        add_offset: int = 0,
        limit: int = MAX_PAGE,
        max_id: int = 0,
        min_id: int = 0,
    ) -> HistoryPage:
        """Returns a page of a chat, newest first.

        The page begins *add_offset* messages below the first one older than *offset_id*, or without one than
        *offset_date* (above it when negative); 0 means no bound. Clients page on with both, and many
        messages may share a second: the id decides. Of these, ids below *max_id* and above *min_id* count.

        Args:
            add_offset: is cut to -100 to 100.
            limit: is cut to 0 to 100.

        *Spec: messages.getHistory; Offsets*
        """
        limit = max(0, min(limit, MAX_PAGE))
        add_offset = max(-_MAX_ADD_OFFSET, min(add_offset, _MAX_ADD_OFFSET))
        chat = (owner, peer.type, peer.id)
        total = await self._pool.fetchval(SQL_COUNT, *chat) or 0
        if limit == 0 or total == 0:
            return HistoryPage((), total)
        anchor = MAX_ID
        if 0 < offset_id <= MAX_ID:
            anchor = offset_id
        elif 0 < offset_date <= MAX_ID:
            anchor = (await self._pool.fetchval(SQL_BEFORE_DATE, *chat, offset_date) or 0) + 1
        upper = max_id if 0 < max_id <= MAX_ID else MAX_ID
        lower = max(0, min(min_id, MAX_ID))
        rows: list[Record] = []
        if add_offset < 0 and anchor < upper:
            skip = max(0, -add_offset - limit)
            newer = await self._pool.fetch(
                SQL_NEWER, *chat, upper, max(lower, anchor - 1), -add_offset - skip, skip
            )
            rows += reversed(newer)
        below = limit + min(add_offset, 0)
        if below > 0:
            rows += await self._pool.fetch(
                SQL_OLDER, *chat, min(upper, anchor), lower, below, max(add_offset, 0)
            )
        return HistoryPage(tuple(box_from_row(row) for row in rows), total)

    async def read(
        self,
        owner: int,
        peer: Peer,
        max_box_id: int,
        *,
        date: int,
        auth_key_id: int = 0,
        session_id: int = 0,
    ) -> ReadOutcome:
        """Returns what reading a chat up to *max_box_id* (all of it when not positive) moved.

        When the owner's mark moves, the owner's other sessions get the inbox receipt; when the newest
        incoming message now read moves the sender's mark, the sender gets the outbox receipt. All in one
        transaction.

        Raises:
            Unavailable: a server is away; a repeat is harmless.

        *Spec: messages.readHistory*
        """
        chat = (owner, peer.type, peer.id)
        marks = await self._pool.fetchrow(SQL_MARKS, *chat)
        if marks is None:
            return await self._nothing_read(owner)
        top: int = marks["top_box_id"]
        target = min(max_box_id, top) if max_box_id > 0 else top
        if target <= marks["read_inbox_max_id"]:
            if marks["unread_mark"]:
                await self._pool.execute(SQL_CLEAR_MARK, *chat)
            return await self._nothing_read(owner)
        seen = 0
        if peer.type is PeerType.USER and peer.id not in (owner, SERVICE_USER_ID):
            seen = (
                await self._pool.fetchval(SQL_NEWEST_INCOMING, *chat, target, marks["read_inbox_max_id"]) or 0
            )
        receipt = _Receipt(owner, peer, target, seen, date, auth_key_id, session_id)
        pts = await self._events.transact([owner, peer.id] if seen else [owner], receipt.write)
        return ReadOutcome(pts, 1) if pts else await self._nothing_read(owner)

    async def read_date(self, owner: int, peer: Peer, box_id: int) -> int | None:
        """Returns when the other side read the owner's message, None when it has not.

        *Spec: messages.getOutboxReadDate*
        """
        date: int | None = await self._pool.fetchval(SQL_READ_DATE, owner, peer.type, peer.id, box_id)
        return date

    async def _nothing_read(self, owner: int) -> ReadOutcome:
        pts, _ = await self._marks.walk(owner)
        return ReadOutcome(pts, 0)


class _Receipt:
    """One readHistory: the reader's mark up to *target*, the sender's up to *seen* (0: no receipt)."""

    def __init__(
        self, owner: int, peer: Peer, target: int, seen: int, date: int, auth_key_id: int, session_id: int
    ) -> None:
        self._owner = owner
        self._peer = peer
        self._target = target
        self._seen = seen
        self._date = date
        self._exclude = (auth_key_id, session_id)

    async def write(self, connection: Connection, writer: EventWriter) -> int:
        """Moves both marks; returns the reader's pts, 0 when somebody else moved the mark before.

        The two dialogs are locked by key, so that two who read each other do not wait for each other, and
        before anything is counted, so that the count sees every box that was committed.
        """
        here = (self._owner, self._peer.type, self._peer.id)
        there = (self._peer.id, PeerType.USER, self._owner)
        locked = {}
        for key in sorted({here, there} if self._seen else {here}):
            locked[key] = await connection.fetchrow(SQL_LOCK, *key)
        pts = 0
        if locked[here] and locked[here]["read_inbox_max_id"] < self._target:
            unread = await connection.fetchval(SQL_READ_INBOX, *here, self._target)
            pts = writer.add(self._inbox_event(unread)).pts
        if locked.get(there) and locked[there]["read_outbox_max_id"] < self._seen:
            await connection.execute(SQL_READ_OUTBOX, *there, self._seen)
            writer.add(
                NewEvent(self._peer.id, EventKind.READ_OUTBOX, self._date, Peer.user(self._owner), self._seen)
            )
        return pts

    def _inbox_event(self, unread: int) -> NewEvent:
        return NewEvent(
            self._owner,
            EventKind.READ_INBOX,
            self._date,
            self._peer,
            self._target,
            payload={"still_unread_count": unread},
            exclude_auth_key_id=self._exclude[0],
            exclude_session_id=self._exclude[1],
        )
