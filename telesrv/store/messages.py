"""Messages as their owners have them: sending, reading back, and the read marks.

Guarantees: a history page is an index seek, whatever was deleted between; read marks only move forward, on
both sides in one transaction.

*Spec: Working with Updates; messages.getHistory; messages.readHistory*
"""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from telesrv.domain.messages import (
    MAX_PAGE,
    Entity,
    HistoryPage,
    MessageBox,
    ReadOutcome,
    ReadRequest,
    SendRequest,
    SentMessage,
)
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import MAX_ID, SERVICE_USER_ID, Peer
from telesrv.store.boxes import COLUMNS, SQL_GET, box_from_row
from telesrv.store.committer import Committer
from telesrv.store.pages import page_around
from telesrv.store.pool import Pool

_MAX_BOX_IDS: Final = 1000

# How many messages a chat has.
SQL_COUNT: Final = """
SELECT message_count FROM dialogs WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3
"""
# Reads a chat downward: boxes below $4 and above $5.
SQL_OLDER: Final = f"""
SELECT {COLUMNS}, ({SQL_COUNT}) AS total FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3 AND b.box_id < $4 AND b.box_id > $5
    AND NOT b.deleted
ORDER BY b.box_id DESC LIMIT $6 OFFSET $7
"""
# Reads a chat upward: boxes below $4 and above $5.
SQL_NEWER: Final = f"""
SELECT {COLUMNS}, ({SQL_COUNT}) AS total FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3 AND b.box_id < $4 AND b.box_id > $5
    AND NOT b.deleted
ORDER BY b.box_id LIMIT $6 OFFSET $7
"""
# Which messages are the newest of some chats of one owner.
SQL_NEWEST_IDS: Final = """
SELECT ARRAY(
    SELECT b.box_id FROM message_boxes b
    WHERE b.owner_user_id = $1 AND b.peer_type = q.peer_type AND b.peer_id = q.peer_id AND NOT b.deleted
    ORDER BY b.box_id DESC LIMIT $4) AS box_ids
FROM unnest($2::smallint[], $3::bigint[]) AS q(peer_type, peer_id)
"""
# The newest box of a chat that is older than a date.
SQL_BEFORE_DATE: Final = """
SELECT box_id FROM message_boxes
WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3 AND date < $4 AND NOT deleted
ORDER BY date DESC, box_id DESC LIMIT 1
"""
# When the other side read a message: the first receipt at or beyond it.
SQL_READ_DATE: Final = """
SELECT date FROM user_update_events
WHERE user_id = $1 AND peer_type = $2 AND peer_id = $3 AND box_id >= $4 AND kind = 3
ORDER BY box_id LIMIT 1
"""


class MessageStore:
    """Messages and read marks."""

    def __init__(
        self,
        pool: Pool,
        sends: Committer[SendRequest, SentMessage],
        reads: Committer[ReadRequest, ReadOutcome],
    ) -> None:
        self._pool = pool
        self._sends = sends
        self._reads = reads

    async def send(self, request: SendRequest) -> SentMessage:
        """Returns the sender's box of the message, after the commit.

        The first and every repeated call with the same (sender, random_id) give the same box_id, pts and
        date. A recipient who blocked the sender gets nothing at all; a message to oneself is one box, never
        unread.

        Raises:
            RandomIdConflict: the random_id was used for another message (another digest).
            PeerInvalid: there is no such account.
            PeerBlocked: the sender has blocked it.
            ReplyInvalid: the message replied to is not in this chat.
            Unavailable: a server stayed away; a repeat finds what was written.
            ValueError: random_id is 0, or the sender is 777000.

        *Spec: messages.sendMessage*
        """
        if request.random_id == 0 or request.sender_user_id == SERVICE_USER_ID:
            raise ValueError("a message has a random_id, and service messages have a call of their own")
        return await self._sends.commit(request.sender_user_id, request)

    async def send_service(
        self, user_id: int, text: str, entities: Sequence[Entity], date: int
    ) -> SentMessage:
        """Returns the receiver's box of a message from 777000, after the commit; 777000 keeps no copy.

        Raises:
            PeerInvalid: there is no such account.
            Unavailable: a server stayed away; the message may have been written.
        """
        return await self._sends.commit(
            SERVICE_USER_ID,
            SendRequest(
                sender_user_id=SERVICE_USER_ID,
                peer=Peer.user(user_id),
                random_id=0,
                text=text,
                date=date,
                entities=tuple(entities),
            ),
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

    async def newest(
        self, owner: int, peers: Iterable[Peer], limit: int
    ) -> dict[Peer, tuple[MessageBox, ...]]:
        """Returns the newest messages of each of the owner's chats, newest first, by two statements
        however many chats or messages those are.

        Args:
            limit: for each chat; cut so that at most 1,000 boxes are read.

        *Spec: messages.getHistory*
        """
        wanted = list(dict.fromkeys(peers))[:_MAX_BOX_IDS]
        if not wanted or limit <= 0:
            return {}
        rows = await self._pool.fetch(
            SQL_NEWEST_IDS,
            owner,
            [peer.type for peer in wanted],
            [peer.id for peer in wanted],
            min(limit, _MAX_BOX_IDS // len(wanted)),
        )
        found: dict[Peer, list[MessageBox]] = {peer: [] for peer in wanted}
        boxes = await self.get(owner, [box_id for row in rows for box_id in row["box_ids"]])
        for box_id in sorted(boxes, reverse=True):
            found[boxes[box_id].peer].append(boxes[box_id])
        return {peer: tuple(newest) for peer, newest in found.items()}

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
        chat = (owner, int(peer.type), peer.id)
        anchor = MAX_ID
        if 0 < offset_id <= MAX_ID:
            anchor = offset_id
        elif 0 < offset_date <= MAX_ID:
            anchor = (await self._pool.fetchval(SQL_BEFORE_DATE, *chat, offset_date) or 0) + 1
        return await page_around(
            self._pool,
            SQL_COUNT,
            SQL_OLDER,
            SQL_NEWER,
            chat,
            anchor,
            add_offset=add_offset,
            limit=limit,
            max_id=max_id,
            min_id=min_id,
        )

    async def read(
        self,
        owner: int,
        peer: Peer,
        max_box_id: int,
        *,
        date: int,
        origin: Origin = NOBODY,
    ) -> ReadOutcome:
        """Returns what reading a chat up to *max_box_id* (all of it when not positive) moved.

        What the owner sent before this call, from this process, is in the chat. Reads are committed in
        batches, as sends are; of several reads of one chat at once the furthest counts for all.
        When the owner's mark moves, the owner's other sessions get the inbox receipt; when the newest
        incoming message now read moves the sender's mark, the sender gets the outbox receipt. All in one
        transaction.

        Raises:
            Unavailable: a server is away; a repeat is harmless.

        *Spec: messages.readHistory*
        """
        await self._sends.settled(owner)
        return await self._reads.commit(owner, ReadRequest(owner, peer, max_box_id, date, origin))

    async def read_date(self, owner: int, peer: Peer, box_id: int) -> int | None:
        """Returns when the other side read the owner's message, None when it has not.

        *Spec: messages.getOutboxReadDate*
        """
        date: int | None = await self._pool.fetchval(SQL_READ_DATE, owner, peer.type, peer.id, box_id)
        return date
