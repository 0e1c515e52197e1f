"""Pinned messages: a flag of each owner's copy, for one side or both.

Guarantees: every owner whose copies changed has one event that names them and covers as many pts; a copy that
stands as asked for already counts for nothing. A pin for both sides is told of in the chat, in the same
transaction.

*Spec: Pinned messages*
"""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from telesrv.domain.actions import Action, ActionKind
from telesrv.domain.errors import MessageInvalid, NotModified
from telesrv.domain.messages import MAX_CHANGED, MAX_PAGE, Affected, Changed, HistoryPage, SentMessage
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import MAX_ID, SERVICE_USER_ID, Peer, PeerType
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.boxes import COLUMNS, SQL_GET, box_from_row
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.marks import Marks
from telesrv.store.pages import page_around
from telesrv.store.pool import Connection, Pool, Record
from telesrv.store.service_messages import Told, add_service, reaches
from telesrv.store.ttl import periods_of

# Pins or unpins copies of messages; those that were so already are missing from the answer.
SQL_PIN: Final = """
UPDATE message_boxes b SET flags = CASE WHEN $3 THEN b.flags | 1 ELSE b.flags & -2 END
FROM unnest($1::bigint[], $2::int[]) AS q(owner, box_id)
WHERE b.owner_user_id = q.owner AND b.box_id = q.box_id AND NOT b.deleted AND (b.flags & 1 = 1) <> $3
RETURNING b.owner_user_id, b.box_id
"""
# The newest pinned messages of a chat.
SQL_ALL: Final = """
SELECT b.box_id, b.peer_box_id FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3 AND b.flags & 1 = 1 AND NOT b.deleted
ORDER BY b.box_id DESC LIMIT $4
"""
# How many messages of a chat are pinned.
SQL_COUNT: Final = """
SELECT count(*) FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3 AND b.flags & 1 = 1 AND NOT b.deleted
"""
# Reads the pinned messages of a chat downward: boxes below $4 and above $5.
SQL_OLDER: Final = f"""
SELECT {COLUMNS}, ({SQL_COUNT}) AS total FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3 AND b.box_id < $4 AND b.box_id > $5
    AND b.flags & 1 = 1 AND NOT b.deleted
ORDER BY b.box_id DESC LIMIT $6 OFFSET $7
"""
# Reads the pinned messages of a chat upward: boxes below $4 and above $5.
SQL_NEWER: Final = f"""
SELECT {COLUMNS}, ({SQL_COUNT}) AS total FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3 AND b.box_id < $4 AND b.box_id > $5
    AND b.flags & 1 = 1 AND NOT b.deleted
ORDER BY b.box_id LIMIT $6 OFFSET $7
"""


class PinnedMessageStore:
    """Pins of messages."""

    def __init__(self, pool: Pool, events: EventLog, marks: Marks) -> None:
        self._pool = pool
        self._events = events
        self._marks = marks

    async def pin(
        self,
        owner: int,
        peer: Peer,
        box_id: int,
        pinned: bool,
        *,
        date: int,
        one_side: bool = False,
        origin: Origin = NOBODY,
    ) -> Changed:
        """Pins or unpins a message, for both sides unless *one_side* or the other side blocked the owner.

        A pin that is not *one_side* is told of by a service message, silently; to the owner also when the
        other side is not reached, who does not learn of that.

        Raises:
            MessageInvalid: there is no such message in this chat, or it is a service message.
            NotModified: the owner's copy stands so already.
            Unavailable: a server is away; a repeat is harmless.

        *Spec: messages.updatePinnedMessage*
        """
        rows = await self._pool.fetch(SQL_GET, owner, [box_id]) if 0 < box_id <= MAX_ID else []
        if not rows or (box := box_from_row(rows[0])).peer != peer or box.action is not None:
            raise MessageInvalid
        if box.pinned == pinned:
            raise NotModified
        both = not one_side and await self._reaches(owner, peer)
        told = pinned and not one_side and peer.id not in (owner, SERVICE_USER_ID)
        changed = await self._set(owner, peer, rows, pinned, both, date, origin, told=told)
        if changed is None:
            raise NotModified
        return changed

    async def unpin_all(self, owner: int, peer: Peer, *, date: int, origin: Origin = NOBODY) -> Affected:
        """Unpins the newest 1,000 pinned messages of a chat, on both sides as `pin` does.

        Returns:
            With *more* when the same call has to be made again.

        *Spec: messages.unpinAllMessages*
        """
        rows = await self._pool.fetch(SQL_ALL, owner, peer.type, peer.id, MAX_CHANGED + 1)
        batch = rows[:MAX_CHANGED]
        changed = None
        if batch:
            both = await self._reaches(owner, peer)
            changed = await self._set(owner, peer, batch, False, both, date, origin)
        affected = changed.affected if changed else Affected((await self._marks.walk(owner))[0], 0)
        return Affected(affected.pts, affected.pts_count, more=len(rows) > MAX_CHANGED)

    async def newest(self, owner: int, peer: Peer) -> int:
        """Returns the newest pinned message of a chat; 0 when there is none."""
        return await self._pool.fetchval(SQL_ALL, owner, peer.type, peer.id, 1) or 0

    async def count(self, owner: int, peer: Peer) -> int:
        """Returns how many messages of a chat are pinned."""
        return int(await self._pool.fetchval(SQL_COUNT, owner, peer.type, peer.id))

    async def page(
        self,
        owner: int,
        peer: Peer,
        *,
        offset_id: int = 0,
        add_offset: int = 0,
        limit: int = MAX_PAGE,
        max_id: int = 0,
        min_id: int = 0,
    ) -> HistoryPage:
        """Returns a page of the pinned messages of a chat, newest first; arguments as of a history page.

        *Spec: messages.search; Offsets*
        """
        return await page_around(
            self._pool,
            SQL_COUNT,
            SQL_OLDER,
            SQL_NEWER,
            (owner, int(peer.type), peer.id),
            offset_id if 0 < offset_id <= MAX_ID else MAX_ID,
            add_offset=add_offset,
            limit=limit,
            max_id=max_id,
            min_id=min_id,
        )

    async def _reaches(self, owner: int, peer: Peer) -> bool:
        if peer.type is not PeerType.USER or peer.id in (owner, SERVICE_USER_ID):
            return False
        return await reaches(self._pool, owner, peer.id)

    async def _set(
        self,
        owner: int,
        peer: Peer,
        rows: Sequence[Record],
        pinned: bool,
        both: bool,
        date: int,
        origin: Origin,
        *,
        told: bool = False,
    ) -> Changed | None:
        keys = [(owner, row["box_id"]) for row in rows]
        if both:
            keys += [(peer.id, row["peer_box_id"]) for row in rows if row["peer_box_id"]]
        keys.sort()
        sides: list[Told] = []
        if told:
            others = {owner: peer.id, peer.id: owner}
            for side, box_id in keys:
                other = others[side]
                ttl_s = (await periods_of(self._pool, side, [other])).get(other, 0)
                sides.append(Told(side, other, reply_to=box_id, ttl_s=ttl_s))

        async def body(connection: Connection, writer: EventWriter) -> Changed | None:
            changed = await connection.fetch(
                SQL_PIN, [key[0] for key in keys], [key[1] for key in keys], pinned
            )
            affected = None
            for side in sorted({row["owner_user_id"] for row in changed}):
                box_ids = sorted(row["box_id"] for row in changed if row["owner_user_id"] == side)
                own = side == owner
                event = writer.add(
                    NewEvent(
                        side,
                        EventKind.PINNED_MESSAGES,
                        date,
                        peer if own else Peer.user(owner),
                        payload={"box_ids": box_ids, "pinned": pinned},
                        origin=origin if own else NOBODY,
                        pts_count=len(box_ids),
                    )
                )
                if own:
                    affected = Affected(event.pts, event.pts_count)
            if affected is None:
                return None
            service = await tell(connection, writer, {row["owner_user_id"] for row in changed})
            return Changed(affected, service)

        async def tell(
            connection: Connection, writer: EventWriter, changed: Collection[int]
        ) -> SentMessage | None:
            reached = [side for side in sides if side.owner in changed]
            if not reached:
                return None
            action = Action(ActionKind.PIN_MESSAGE)
            return await add_service(
                connection, writer, owner, reached, action, date=date, silent=True, origin=origin
            )

        users = [side for side, _ in keys] + [side.owner for side in sides]
        return await self._events.transact(users, body, box_ids=[side.owner for side in sides])
