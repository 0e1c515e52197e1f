"""Messages that wait for their time; `due.py` sends them.

Guarantees: while a message is on its way it can be neither edited nor deleted. Rows stay, so that a repeat of
the call that scheduled it gets the same answer; and from the beginning a message has the row in
`private_messages` that it will be sent by, so that nothing else is ever sent by its random_id, nor it by one
that was used.

*Spec: Scheduled messages*
"""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from telesrv.clock import Clock
from telesrv.domain.errors import (
    MessageInvalid,
    PeerBlocked,
    PeerInvalid,
    RandomIdConflict,
    ReplyInvalid,
    Unavailable,
)
from telesrv.domain.messages import Entity, SendRequest
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import MAX_ID, Peer
from telesrv.domain.scheduled import (
    MAX_PER_CHAT,
    WHEN_ONLINE,
    ScheduledMessage,
    ScheduleTooMuch,
    StatusPrivate,
    scheduled_digest,
)
from telesrv.domain.snapshots import entities_to_json, fwd_to_json, quote_to_json
from telesrv.domain.updates import Event, EventKind, NewEvent, bucket_of
from telesrv.store.boxes import SQL_GET, box_from_row
from telesrv.store.drafts import SQL_DRAFT, end_drafts
from telesrv.store.edits import SQL_BLOCKED_BY
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.leases import free
from telesrv.store.nodes import unix_ms
from telesrv.store.pool import Connection, Pool
from telesrv.store.scheduled_rows import COLUMNS, message_from_row, shown_event
from telesrv.store.service_messages import SQL_EXISTS
from telesrv.store.until_online import UntilOnlineStore, wait_for

_TRIES: Final = 8

# The message that a random_id was used for.
SQL_BY_RANDOM_ID: Final = f"""
SELECT {COLUMNS} FROM scheduled_messages s
WHERE s.bucket = $1 AND s.owner_user_id = $2 AND s.random_id = $3
"""
# What a random_id was used for.
SQL_USED: Final = """
SELECT digest FROM private_messages WHERE sender_user_id = $1 AND random_id = $2
"""
# Keeps a random_id for a message that waits; nothing when it was used. Whoever sends by it finds this row.
SQL_KEEP: Final = """
INSERT INTO private_messages (sender_user_id, random_id, message_id, peer_type, peer_id, date, text, digest,
    sender_box_id, recipient_box_id, sender_pts)
VALUES ($1, $2, 0, $3, $4, $5, '', $6, 0, 0, 0)
ON CONFLICT (sender_user_id, random_id) DO NOTHING
RETURNING 1
"""
# How many messages of a chat wait.
SQL_COUNT: Final = """
SELECT count(*) FROM scheduled_messages s
WHERE s.bucket = $1 AND s.owner_user_id = $2 AND s.peer_type = $3 AND s.peer_id = $4 AND s.state = 0
"""
# Puts a message on the list under the owner's next id; nothing when that was just taken, or too many of the
# chat wait.
SQL_ADD: Final = """
INSERT INTO scheduled_messages (bucket, owner_user_id, scheduled_id, random_id, digest, peer_type, peer_id,
    schedule_date, due_date, text, entities, silent, noforwards, reply_to_box_id, reply_quote, fwd)
SELECT $1, $2, coalesce(max(s.scheduled_id), 0) + 1, $3, $4, $5, $6, $7, $7, $8, $9::jsonb, $10, $11, $12,
    $13::jsonb, $14::jsonb
FROM scheduled_messages s WHERE s.bucket = $1 AND s.owner_user_id = $2
HAVING $15 > (
    SELECT count(*) FROM scheduled_messages w
    WHERE w.bucket = $1 AND w.owner_user_id = $2 AND w.peer_type = $5 AND w.peer_id = $6 AND w.state = 0)
ON CONFLICT DO NOTHING
RETURNING scheduled_id
"""
# The messages of a chat that wait.
SQL_CHAT: Final = f"""
SELECT {COLUMNS} FROM scheduled_messages s
WHERE s.bucket = $1 AND s.owner_user_id = $2 AND s.peer_type = $3 AND s.peer_id = $4 AND s.state = 0
    AND ($5::int[] IS NULL OR s.scheduled_id = ANY($5))
ORDER BY s.schedule_date DESC, s.scheduled_id DESC
"""
# Gives a message that waits another text or time; nothing when it is on its way.
SQL_EDIT: Final = f"""
UPDATE scheduled_messages s SET text = coalesce($6, s.text),
    entities = CASE WHEN $6::text IS NULL THEN s.entities ELSE $7::jsonb END,
    schedule_date = coalesce($8, s.schedule_date), due_date = coalesce($8, s.due_date), edit_date = $9
WHERE s.bucket = $1 AND s.owner_user_id = $2 AND s.peer_type = $3 AND s.peer_id = $4 AND s.scheduled_id = $5
    AND s.state = 0 AND {free("s", "$10")}
RETURNING {COLUMNS}
"""
# Takes messages that are not on their way off the list.
SQL_DELETE: Final = f"""
UPDATE scheduled_messages s SET state = 2
WHERE s.bucket = $1 AND s.owner_user_id = $2 AND s.peer_type = $3 AND s.peer_id = $4
    AND s.scheduled_id = ANY($5::int[]) AND s.state = 0 AND {free("s", "$6")}
RETURNING s.scheduled_id
"""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A message on the list, and what it was logged under; a repeat has no event of its own."""

    message: ScheduledMessage
    event: Event | None


class _TakenError(Exception):
    """The random_id or the next id was taken meanwhile, or the last place in the chat."""


class ScheduledStore:
    """The lists of messages that wait."""

    def __init__(self, pool: Pool, events: EventLog, until_online: UntilOnlineStore, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._until_online = until_online
        self._clock = clock

    async def add(self, request: SendRequest, schedule_date: int) -> Scheduled:
        """Puts a message on the list; the first and every repeated call give the same.

        Args:
            schedule_date: WHEN_ONLINE: it waits until the other side is online.

        Raises:
            RandomIdConflict: the random_id was used for another message.
            PeerInvalid: there is no such account.
            PeerBlocked: the owner has blocked it.
            ReplyInvalid: the message replied to is not in this chat.
            ScheduleTooMuch: too many wait in this chat.
            StatusPrivate: the owner may not see when the other side is online.
            Unavailable: a server is away; a repeat is harmless.

        *Spec: messages.sendMessage*
        """
        owner = request.sender_user_id
        for _ in range(_TRIES):
            known = await self.known(request)
            if known is not None:
                return known
            await self._check(request)
            await self._check_date(owner, request.peer, schedule_date)
            draft_pts = await self._draft(request) if request.clear_draft else None
            try:
                added = await self._events.transact(
                    [owner] if draft_pts is None else [owner, owner],
                    lambda *args, draft_pts=draft_pts: self._add(request, schedule_date, draft_pts, *args),
                )
            except _TakenError:
                continue
            if schedule_date == WHEN_ONLINE:
                await self._until_online.came_already(request.peer.id)
            return added
        raise Unavailable("a list that kept changing")

    async def check_room(self, owner: int, peer: Peer, number: int) -> None:
        """Sees that so many messages more may wait in a chat.

        Raises:
            ScheduleTooMuch: they may not.
        """
        waiting = await self._pool.fetchval(SQL_COUNT, bucket_of(owner), owner, peer.type, peer.id)
        if waiting + number > MAX_PER_CHAT:
            raise ScheduleTooMuch

    async def known(self, request: SendRequest) -> Scheduled | None:
        """Returns what became of the request when it was to be sent later; None when nothing was sent or
        scheduled by its random_id.

        Raises:
            RandomIdConflict: the random_id was used for another message, or for this one without a time.
        """
        owner, random_id = request.sender_user_id, request.random_id
        digest = await self._pool.fetchval(SQL_USED, owner, random_id)
        if digest is None:
            return None
        row = await self._pool.fetchrow(SQL_BY_RANDOM_ID, bucket_of(owner), owner, random_id)
        if row is None or bytes(digest) != scheduled_digest(request.digest):
            raise RandomIdConflict
        return Scheduled(message_from_row(row), None)

    async def waiting(
        self, owner: int, peer: Peer, scheduled_ids: Iterable[int] | None = None
    ) -> list[ScheduledMessage]:
        """Returns the messages of a chat that wait, all or some, the last to be sent first.

        *Spec: messages.getScheduledHistory*
        """
        wanted = None if scheduled_ids is None else usable_ids(scheduled_ids)
        rows = await self._pool.fetch(SQL_CHAT, bucket_of(owner), owner, peer.type, peer.id, wanted)
        return [message_from_row(row) for row in rows]

    async def any_waiting(self, owner: int, peer: Peer) -> bool:
        """Tells whether messages of a chat wait."""
        return bool(await self._pool.fetchval(SQL_COUNT, bucket_of(owner), owner, peer.type, peer.id))

    async def edit(
        self,
        owner: int,
        peer: Peer,
        scheduled_id: int,
        *,
        text: str | None,
        entities: tuple[Entity, ...],
        schedule_date: int | None,
        date: int,
        origin: Origin = NOBODY,
    ) -> Scheduled:
        """Gives a message that waits another text, another time, or both.

        Raises:
            MessageInvalid: there is no such message, or it is on its way.
            StatusPrivate: as `add`.
            Unavailable: a server is away; a repeat is harmless.

        *Spec: messages.editMessage*
        """

        async def body(connection: Connection, writer: EventWriter) -> Scheduled:
            if schedule_date == WHEN_ONLINE:
                await wait_for(connection, owner, peer.id, date)
            row = await connection.fetchrow(
                SQL_EDIT,
                bucket_of(owner),
                owner,
                peer.type,
                peer.id,
                scheduled_id,
                text,
                entities_to_json(entities),
                schedule_date,
                date,
                unix_ms(self._clock),
            )
            if row is None:
                raise MessageInvalid
            message = message_from_row(row)
            return Scheduled(message, writer.add(shown_event(message, date, origin)))

        if not 0 < scheduled_id <= MAX_ID:
            raise MessageInvalid
        if schedule_date is not None:
            await self._check_date(owner, peer, schedule_date)
        edited = await self._events.transact([owner], body)
        if schedule_date == WHEN_ONLINE:
            await self._until_online.came_already(peer.id)
        return edited

    async def delete(
        self,
        owner: int,
        peer: Peer,
        scheduled_ids: Iterable[int],
        *,
        date: int,
        origin: Origin = NOBODY,
    ) -> tuple[Sequence[int], Event | None]:
        """Takes messages off the list, but for those on their way; returns which, and what it was logged as.

        *Spec: messages.deleteScheduledMessages*
        """
        wanted = usable_ids(scheduled_ids)

        async def body(connection: Connection, writer: EventWriter) -> tuple[list[int], Event | None]:
            chat = (bucket_of(owner), owner, peer.type, peer.id)
            rows = await connection.fetch(SQL_DELETE, *chat, wanted, unix_ms(self._clock))
            gone = sorted(row["scheduled_id"] for row in rows)
            if not gone:
                return [], None
            return gone, writer.add(
                NewEvent(owner, EventKind.SCHEDULED_DELETED, date, peer, payload={"ids": gone}, origin=origin)
            )

        waiting = await self.waiting(owner, peer, wanted) if wanted else []
        return await self._events.transact([owner], body) if waiting else ([], None)

    async def _check(self, request: SendRequest) -> None:
        owner, peer = request.sender_user_id, request.peer
        if not await self._pool.fetchval(SQL_EXISTS, peer.id):
            raise PeerInvalid
        if await self._pool.fetchval(SQL_BLOCKED_BY, owner, peer.type, peer.id):
            raise PeerBlocked
        if request.reply_to is not None:
            rows = await self._pool.fetch(SQL_GET, owner, [request.reply_to.box_id])
            if not rows or box_from_row(rows[0]).peer != peer:
                raise ReplyInvalid
        await self.check_room(owner, peer, 1)

    async def _check_date(self, owner: int, peer: Peer, schedule_date: int) -> None:
        if schedule_date == WHEN_ONLINE and not await self._until_online.may_wait(owner, peer.id):
            raise StatusPrivate

    async def _draft(self, request: SendRequest) -> int | None:
        chat = (request.sender_user_id, request.peer.type, request.peer.id)
        row = await self._pool.fetchrow(SQL_DRAFT, *chat)
        return None if row is None else row["pts"]

    async def _add(
        self,
        request: SendRequest,
        schedule_date: int,
        draft_pts: int | None,
        connection: Connection,
        writer: EventWriter,
    ) -> Scheduled:
        owner, peer, reply_to = request.sender_user_id, request.peer, request.reply_to
        if schedule_date == WHEN_ONLINE:
            await wait_for(connection, owner, peer.id, request.date)
        digest = scheduled_digest(request.digest)
        named = (owner, request.random_id, peer.type, peer.id, request.date, digest)
        if await connection.fetchval(SQL_KEEP, *named) is None:
            raise _TakenError
        scheduled_id = await connection.fetchval(
            SQL_ADD,
            bucket_of(owner),
            owner,
            request.random_id,
            digest,
            peer.type,
            peer.id,
            schedule_date,
            request.text,
            entities_to_json(request.entities),
            request.silent,
            request.noforwards,
            reply_to.box_id if reply_to else None,
            quote_to_json(reply_to),
            fwd_to_json(request.fwd),
            MAX_PER_CHAT,
        )
        if scheduled_id is None:
            raise _TakenError
        message = ScheduledMessage(
            owner_user_id=owner,
            scheduled_id=scheduled_id,
            peer=peer,
            random_id=request.random_id,
            digest=digest,
            schedule_date=schedule_date,
            text=request.text,
            entities=request.entities,
            silent=request.silent,
            noforwards=request.noforwards,
            reply_to=reply_to,
            fwd=request.fwd,
        )
        event = writer.add(shown_event(message, request.date, request.origin))
        if draft_pts is not None:
            await end_drafts(connection, writer, owner, [(peer, draft_pts)], request.date)
        return Scheduled(message, event)


def usable_ids(scheduled_ids: Iterable[int]) -> list[int]:
    """Returns those of the ids that a message can have, in their order."""
    return sorted({number for number in scheduled_ids if 0 < number <= MAX_ID})
