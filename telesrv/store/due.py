"""Sending messages whose time has come, or that are not to wait any longer.

Guarantees: a message is sent once: who leased its row sends it by the random_id that it was scheduled with,
so that one whose sender died in between is found and not repeated; only then is it taken off the list, with
an event that names both its ids.

What is due in a chat is sent in its order, whichever processes send it: it is leased as a whole, by whoever
gets the first of it, so that nothing overtakes what another process has on its way, or died with.

Concurrency: the first messages of chats are leased with SKIP LOCKED, one bucket at a time; a lease whose
holder is gone is taken over (`leases.py`).

*Spec: Scheduled messages*
"""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from telesrv.clock import Clock
from telesrv.domain.errors import DomainError, ReplyInvalid
from telesrv.domain.messages import FROM_SCHEDULED, SendRequest, SentMessage
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import Peer
from telesrv.domain.scheduled import ScheduledMessage
from telesrv.domain.updates import OUTBOX_BUCKETS, Event, EventKind, NewEvent, bucket_of
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.leases import Leases, free
from telesrv.store.messages import MessageStore
from telesrv.store.pool import Connection, Pool, Record
from telesrv.store.scheduled import usable_ids
from telesrv.store.scheduled_rows import COLUMNS, message_from_row
from telesrv.store.ttl import TtlStore

_SENT, _FAILED = 1, 3
_CHATS: Final = 16
"""How many chats of a bucket are leased at once, each with its at most 100 messages: sent long before the
lease ends."""

# Finds the buckets with messages whose time has come.
SQL_DUE: Final = f"""
SELECT s.bucket FROM scheduled_messages s
WHERE s.bucket = ANY($1::smallint[]) AND s.state = 0 AND s.due_date <= $2 AND {free("s", "$3")}
GROUP BY s.bucket
"""
# Leases the messages of some chats of a bucket whose time has come, where none of them is on its way.
SQL_LEASE: Final = f"""
UPDATE scheduled_messages s SET leased_until_ms = $4, leased_by = $5
FROM (
    SELECT d.owner_user_id, d.peer_type, d.peer_id FROM scheduled_messages d
    WHERE d.bucket = $1 AND d.state = 0 AND d.due_date <= $2 AND {free("d", "$3")} AND NOT EXISTS (
        SELECT 1 FROM scheduled_messages e
        WHERE e.bucket = $1 AND e.owner_user_id = d.owner_user_id AND e.peer_type = d.peer_type
            AND e.peer_id = d.peer_id AND e.state = 0
            AND (e.due_date, e.scheduled_id) < (d.due_date, d.scheduled_id))
    ORDER BY d.due_date, d.owner_user_id, d.scheduled_id LIMIT $6 FOR UPDATE OF d SKIP LOCKED
) p
WHERE s.bucket = $1 AND s.owner_user_id = p.owner_user_id AND s.peer_type = p.peer_type
    AND s.peer_id = p.peer_id AND s.state = 0 AND s.due_date <= $2 AND {free("s", "$3")}
RETURNING {COLUMNS}
"""
# Leases messages of a chat, whatever their time.
SQL_LEASE_SOME: Final = f"""
UPDATE scheduled_messages s SET leased_until_ms = $7, leased_by = $8
WHERE s.bucket = $1 AND s.owner_user_id = $2 AND s.peer_type = $3 AND s.peer_id = $4
    AND s.scheduled_id = ANY($5::int[]) AND s.state = 0 AND {free("s", "$6")}
RETURNING {COLUMNS}
"""
# Takes a message off the list that was sent, or cannot be.
SQL_FINISH: Final = """
UPDATE scheduled_messages s SET state = $4, leased_until_ms = 0, leased_by = NULL
WHERE s.bucket = $1 AND s.owner_user_id = $2 AND s.scheduled_id = $3 AND s.state = 0
RETURNING s.scheduled_id
"""


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What became of a message whose time had come."""

    message: ScheduledMessage
    sent: SentMessage | None
    """None: it could not be sent."""
    event: Event | None
    """Of its leaving the list; None when somebody else had finished it."""


class DueStore:
    """Sends what waits."""

    def __init__(
        self,
        pool: Pool,
        events: EventLog,
        messages: MessageStore,
        ttl: TtlStore,
        leases: Leases,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._events = events
        self._messages = messages
        self._ttl = ttl
        self._leases = leases
        self._clock = clock

    async def send(
        self,
        owner: int,
        peer: Peer,
        scheduled_ids: Iterable[int],
        *,
        origin: Origin = NOBODY,
    ) -> Sequence[Dispatched]:
        """Sends messages now instead of at their time; those on their way already are left out.

        *Spec: messages.sendScheduledMessages*
        """
        chat = (bucket_of(owner), owner, peer.type, peer.id)
        rows = await self._pool_lease(SQL_LEASE_SOME, *chat, usable_ids(scheduled_ids), *self._leases.terms())
        leased = sorted(map(message_from_row, rows), key=lambda message: message.scheduled_id)
        return await self._dispatch(leased, origin)

    async def dispatch(self) -> int:
        """Sends the messages whose time has come; returns how many left the list.

        To be called every second or so, by every process.

        Raises:
            Unavailable: a server is away; what was leased comes again after the lease.
        """
        now_ms = self._leases.now_ms()
        now = now_ms // 1000
        done = 0
        for row in await self._pool.fetch(SQL_DUE, list(range(OUTBOX_BUCKETS)), now, now_ms):
            rows = await self._pool_lease(SQL_LEASE, row["bucket"], now, *self._leases.terms(), _CHATS)
            leased = sorted(
                map(message_from_row, rows), key=lambda one: (one.schedule_date, one.scheduled_id)
            )
            done += len(await self._dispatch(leased, NOBODY))
        return done

    async def _pool_lease(self, sql: str, *args: object) -> list[Record]:
        async def lease(connection: Connection) -> list[Record]:
            rows: list[Record] = await connection.fetch(sql, *args)
            return rows

        return await self._pool.transact(lease)

    async def _dispatch(self, leased: Sequence[ScheduledMessage], origin: Origin) -> list[Dispatched]:
        now = int(self._clock.time())
        chats: dict[tuple[int, Peer], list[ScheduledMessage]] = {}
        for message in leased:
            chats.setdefault((message.owner_user_id, message.peer), []).append(message)
        for (owner, peer), messages in chats.items():
            await self._ttl.begin(owner, peer, messages, date=now)
        outcomes = await asyncio.gather(
            *(self._send(message, origin) for message in leased), return_exceptions=True
        )
        dispatched = []
        failed: BaseException | None = None
        for message, outcome in zip(leased, outcomes, strict=True):
            if isinstance(outcome, SentMessage):
                event = await self._finish(message, outcome, origin)
                dispatched.append(Dispatched(message, outcome, event))
            elif isinstance(outcome, DomainError):
                dispatched.append(Dispatched(message, None, await self._finish(message, None, origin)))
            elif isinstance(outcome, BaseException):
                failed = outcome
        if failed is not None:
            raise failed  # its lease runs out, then it is tried again
        return dispatched

    async def _send(self, message: ScheduledMessage, origin: Origin) -> SentMessage:
        request = SendRequest(
            sender_user_id=message.owner_user_id,
            peer=message.peer,
            random_id=message.random_id,
            text=message.text,
            entities=message.entities,
            date=int(self._clock.time()),
            silent=message.silent,
            noforwards=message.noforwards,
            reply_to=message.reply_to,
            origin=origin,
            digest=message.digest,
            fwd=message.fwd,
            flags=FROM_SCHEDULED,
        )
        try:
            return await self._messages.send(request)
        except ReplyInvalid:  # deleted meanwhile
            return await self._messages.send(replace(request, reply_to=None))

    async def _finish(
        self, message: ScheduledMessage, sent: SentMessage | None, origin: Origin
    ) -> Event | None:
        owner = message.owner_user_id

        async def body(connection: Connection, writer: EventWriter) -> Event | None:
            state = _FAILED if sent is None else _SENT
            bucket = bucket_of(owner)
            row = await connection.fetchrow(SQL_FINISH, bucket, owner, message.scheduled_id, state)
            if row is None:
                return None
            payload: dict[str, Any] = {"ids": [message.scheduled_id]}
            if sent is not None:
                payload["sent_ids"] = [sent.box.box_id]
            return writer.add(
                NewEvent(
                    owner,
                    EventKind.SCHEDULED_DELETED,
                    int(self._clock.time()),
                    message.peer,
                    payload=payload,
                    origin=origin,
                )
            )

        return await self._events.transact([owner], body)
