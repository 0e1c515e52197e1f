"""Writing a batch of read receipts: two look-ups, one call for ids, one transaction.

Guarantees: read marks only move forward, on both sides in one transaction; each side whose mark moved has
its event and what is owed in it. Of several reads of one chat in a batch the furthest counts for all, and
only the session that made it is not told. A batch that fails is safe to repeat: what has moved does not move
again.

Rows are locked in the order of the sends: dialogs, user_update_events, dispatch_outbox; within a table by
key, so that one statement locks all dialogs of a batch. It moves the marks before anything is counted: then
the dialogs are locked, and the count, by a later statement, sees every box that was committed under their
locks.

*Spec: messages.readHistory*
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from telesrv.domain.errors import DomainError
from telesrv.domain.messages import ReadOutcome, ReadRequest
from telesrv.domain.peers import SERVICE_USER_ID, Peer, PeerType
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.chats import Chat, chat_columns
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.marks import Marks
from telesrv.store.pool import Connection, Pool
from telesrv.store.unread_marks import unread_mark_event

# Reads the marks of some chats.
SQL_READ_MARKS: Final = """
SELECT q.i, d.top_box_id, d.read_inbox_max_id, d.unread_mark
FROM unnest($1::int[], $2::bigint[], $3::smallint[], $4::bigint[]) AS q(i, owner, peer_type, peer_id)
JOIN dialogs d ON d.owner_user_id = q.owner AND d.peer_type = q.peer_type AND d.peer_id = q.peer_id
"""
# The newest of the other side's boxes among those incoming in some chats above one mark and up to another.
SQL_SEEN: Final = """
SELECT q.i, max(b.peer_box_id) AS seen
FROM unnest($1::int[], $2::bigint[], $3::smallint[], $4::bigint[], $5::int[], $6::int[])
    AS q(i, owner, peer_type, peer_id, above, upto)
JOIN message_boxes b ON b.owner_user_id = q.owner AND b.peer_type = q.peer_type AND b.peer_id = q.peer_id
    AND b.box_id > q.above AND b.box_id <= q.upto
WHERE NOT b.deleted AND NOT b.outgoing AND b.peer_box_id > 0
GROUP BY q.i
"""
# Moves read marks forward and clears the owners' own unread marks, in one pass over the dialogs; those where
# all was so already are missing from the answer.
SQL_MOVE_MARKS: Final = """
UPDATE dialogs d SET read_inbox_max_id = GREATEST(d.read_inbox_max_id, q.inbox),
    read_outbox_max_id = GREATEST(d.read_outbox_max_id, q.outbox),
    unread_mark = d.unread_mark AND NOT q.marked
FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::int[], $5::int[], $6::boolean[])
    AS q(owner, peer_type, peer_id, inbox, outbox, marked)
WHERE d.owner_user_id = q.owner AND d.peer_type = q.peer_type AND d.peer_id = q.peer_id
    AND (d.read_inbox_max_id < q.inbox OR d.read_outbox_max_id < q.outbox OR (q.marked AND d.unread_mark))
RETURNING d.owner_user_id, d.peer_type, d.peer_id,
    q.inbox > 0 AND d.read_inbox_max_id = q.inbox AS inbox_moved,
    q.outbox > 0 AND d.read_outbox_max_id = q.outbox AS outbox_moved, q.marked AS cleared
"""
# Counts anew what stays unread in some chats; their dialogs are locked.
SQL_COUNT_UNREAD: Final = """
UPDATE dialogs d SET unread_count = (
    SELECT count(*) FROM message_boxes b
    WHERE b.owner_user_id = d.owner_user_id AND b.peer_type = d.peer_type AND b.peer_id = d.peer_id
        AND b.box_id > d.read_inbox_max_id AND NOT b.deleted AND NOT b.outgoing)
FROM unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS q(owner, peer_type, peer_id)
WHERE d.owner_user_id = q.owner AND d.peer_type = q.peer_type AND d.peer_id = q.peer_id
RETURNING d.owner_user_id, d.peer_type, d.peer_id, d.unread_count
"""


class ReadWriter:
    """Commits batches of reads; one batch at a time for each instance."""

    def __init__(self, pool: Pool, events: EventLog, marks: Marks) -> None:
        self._pool = pool
        self._events = events
        self._marks = marks

    def key(self, request: ReadRequest) -> Hashable | None:
        """Returns None: reads of one chat may share a batch, they are merged here."""
        del request
        return None

    async def prepare(self, requests: Sequence[ReadRequest]) -> Sequence[ReadRequest]:
        """Returns the batch: nothing is known of marks until the batch before it has committed."""
        return requests

    async def discard(self, prepared: Sequence[ReadRequest]) -> None:
        """Nothing was taken."""

    async def write(
        self, prepared: Sequence[ReadRequest]
    ) -> tuple[Sequence[ReadOutcome | DomainError], bool]:
        """Returns what each request moved, in their order, after the commit.

        Raises:
            Unavailable: a server is away; a repeat is harmless.
        """
        furthest: dict[Chat, ReadRequest] = {}
        for request in prepared:
            chat = _chat(request)
            if chat not in furthest or _reach(request) > _reach(furthest[chat]):
                furthest[chat] = request
        batch = await self._look_up(furthest)
        moved: dict[Chat, ReadOutcome] = {}
        if batch.users:
            moved = await self._events.transact(batch.users, batch.write)
        owners = {request.owner for request in prepared if _chat(request) not in moved}
        heads = {owner: (await self._marks.walk(owner))[0] for owner in sorted(owners)}
        return [
            moved[chat] if chat in moved else ReadOutcome(heads[chat[0]], 0) for chat in map(_chat, prepared)
        ], False

    async def _look_up(self, furthest: dict[Chat, ReadRequest]) -> _Batch:
        """Returns what is to be moved, so far as can be told before the dialogs are locked."""
        chats = sorted(furthest)
        rows = await self._pool.fetch(SQL_READ_MARKS, list(range(len(chats))), *chat_columns(chats))
        batch = _Batch()
        partly: list[tuple[Chat, int, int]] = []
        for row in rows:
            chat = chats[row["i"]]
            request, top, mark = furthest[chat], row["top_box_id"], row["read_inbox_max_id"]
            target = min(request.max_box_id, top) if request.max_box_id > 0 else top
            if target > mark:
                batch.inbox[chat] = (target, request)
                if chat[1] == PeerType.USER and chat[2] not in (chat[0], SERVICE_USER_ID):
                    partly.append((chat, mark, target))
            if row["unread_mark"]:
                batch.marked[chat] = request
        if partly:
            places = list(range(len(partly)))
            above, upto = [mark for _, mark, _ in partly], [target for _, _, target in partly]
            columns = chat_columns([chat for chat, _, _ in partly])
            for row in await self._pool.fetch(SQL_SEEN, places, *columns, above, upto):
                chat = partly[row["i"]][0]
                there = (chat[2], int(PeerType.USER), chat[0])
                batch.outbox[there] = (row["seen"], furthest[chat].date)
        return batch


class _Batch:
    """What a batch moves: the readers' marks in *inbox*, those of whom they read in *outbox*; and in *marked*
    the chats that the readers had marked as unread by hand."""

    def __init__(self) -> None:
        self.marked: dict[Chat, ReadRequest] = {}
        self.inbox: dict[Chat, tuple[int, ReadRequest]] = {}
        self.outbox: dict[Chat, tuple[int, int]] = {}

    @property
    def users(self) -> list[int]:
        """The accounts whose logs are written, one entry for each event."""
        return [chat[0] for chat in (*self.inbox, *self.outbox, *self.marked)]

    async def write(self, connection: Connection, writer: EventWriter) -> dict[Chat, ReadOutcome]:
        """Moves the marks; returns what was moved for the readers by chat, contiguous pts for each.

        A mark that another process moved to the same place, or cleared, between look-up and lock may be told
        once more: the event says what is.
        """
        chats = sorted({*self.inbox, *self.outbox, *self.marked})
        rows = await connection.fetch(
            SQL_MOVE_MARKS,
            *chat_columns(chats),
            [self.inbox[chat][0] if chat in self.inbox else 0 for chat in chats],
            [self.outbox[chat][0] if chat in self.outbox else 0 for chat in chats],
            [chat in self.marked for chat in chats],
        )
        inbox_moved: list[Chat] = sorted(tuple(row)[:3] for row in rows if row["inbox_moved"])
        outbox_moved: list[Chat] = sorted(tuple(row)[:3] for row in rows if row["outbox_moved"])
        cleared: set[Chat] = {tuple(row)[:3] for row in rows if row["cleared"]}
        moved: dict[Chat, ReadOutcome] = {}
        unread: dict[Chat, int] = {}
        if inbox_moved:
            counted = await connection.fetch(SQL_COUNT_UNREAD, *chat_columns(inbox_moved))
            unread = {tuple(row)[:3]: row["unread_count"] for row in counted}
        for chat in sorted({*inbox_moved, *cleared}):
            if chat in unread:
                target, request = self.inbox[chat]
                event = writer.add(
                    NewEvent(
                        request.owner,
                        EventKind.READ_INBOX,
                        request.date,
                        request.peer,
                        target,
                        payload={"still_unread_count": unread[chat]},
                        origin=request.origin,
                    )
                )
                moved[chat] = ReadOutcome(event.pts, 1)
            if chat in cleared:
                request = self.marked[chat]
                event = writer.add(
                    unread_mark_event(request.owner, request.peer, False, request.date, request.origin)
                )
                moved[chat] = ReadOutcome(event.pts, 2 if chat in unread else 1)
        for chat in outbox_moved:
            seen, date = self.outbox[chat]
            writer.add(NewEvent(chat[0], EventKind.READ_OUTBOX, date, Peer.user(chat[2]), seen))
        return moved


def _chat(request: ReadRequest) -> Chat:
    return request.owner, int(request.peer.type), request.peer.id


def _reach(request: ReadRequest) -> float:
    return request.max_box_id if request.max_box_id > 0 else float("inf")
