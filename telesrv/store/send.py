"""Writing a batch of messages: one look-up, one call for ids, one transaction.

Guarantees: every request of the batch has its own outcome; a message is written with both boxes, both
dialogs, both events and both outbox rows or not at all; a batch that fails for no fault of a request is tried
again whole, beginning with the look-up, so that a COMMIT whose answer was lost is found and not repeated.

Rows are locked in one order: private_messages, message_boxes, dialogs, user_update_events, dispatch_outbox;
within a table by key.

*Spec: Working with Updates*
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from telesrv.domain.errors import DomainError, PeerInvalid, RandomIdConflict, ReplyInvalid, Unavailable
from telesrv.domain.messages import MessageBox, ReplyTo, SendRequest, SentMessage
from telesrv.domain.peers import SERVICE_USER_ID, Peer, PeerType
from telesrv.domain.updates import Event, EventKind
from telesrv.store.boxes import SQL_GET_MANY, box_from_row, entities_to_json, insert_boxes
from telesrv.store.events import EventLog, StaleCounter
from telesrv.store.ids import Grant, Ids, Want
from telesrv.store.pool import REPEATABLE, Connection, Pool, Record, to_json

Outcome = SentMessage | DomainError
_TRIES: Final = 8
_SENT, _EXISTS, _BLOCKED, _REPLIED = 1, 2, 3, 4

# Looks up for a batch: what was sent before, which recipients exist, who is blocked, what is replied to.
SQL_LOOK_UP: Final = """
SELECT 1 AS what, q.i, p.sender_box_id AS box_id, p.sender_pts AS pts, p.date, p.digest
FROM unnest($1::int[], $2::bigint[], $3::bigint[]) AS q(i, sender, random_id)
JOIN private_messages p ON p.sender_user_id = q.sender AND p.random_id = q.random_id
UNION ALL
SELECT 2, q.i, 0, 0, 0, NULL
FROM unnest($1::int[], $4::bigint[]) AS q(i, recipient)
JOIN users u ON u.user_id = q.recipient
WHERE NOT u.deleted
UNION ALL
SELECT 3, q.i, 0, 0, 0, NULL
FROM unnest($1::int[], $2::bigint[], $4::bigint[]) AS q(i, sender, recipient)
JOIN contact_blocks c ON c.owner_user_id = q.recipient AND c.peer_type = 1 AND c.peer_id = q.sender
UNION ALL
SELECT 4, q.i, b.peer_box_id, 0, 0, NULL
FROM unnest($5::int[], $6::bigint[], $7::bigint[], $8::int[]) AS q(i, sender, recipient, reply_to)
JOIN message_boxes b ON b.owner_user_id = q.sender AND b.box_id = q.reply_to
WHERE b.peer_type = 1 AND b.peer_id = q.recipient AND NOT b.deleted
"""
# Writes shared bodies; those whose random_id was taken are missing from the answer.
SQL_INSERT_MESSAGES: Final = """
INSERT INTO private_messages
    (sender_user_id, random_id, message_id, peer_type, peer_id, date, text, entities, digest,
    sender_box_id, recipient_box_id, sender_pts)
SELECT sender_user_id, random_id, message_id, peer_type, peer_id, date, text, entities::jsonb, digest,
    sender_box_id, recipient_box_id, sender_pts
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::int[], $7::text[],
    $8::text[], $9::bytea[], $10::int[], $11::int[], $12::int[])
    AS p(sender_user_id, random_id, message_id, peer_type, peer_id, date, text, entities, digest,
    sender_box_id, recipient_box_id, sender_pts)
ON CONFLICT (sender_user_id, random_id) DO NOTHING
RETURNING sender_user_id, random_id
"""
# Raises the tops of dialogs, made where they are missing, and counts what came in as unread.
SQL_UPSERT_DIALOGS: Final = """
INSERT INTO dialogs AS d
    (owner_user_id, peer_type, peer_id, top_box_id, top_date, unread_count, message_count)
SELECT owner_user_id, peer_type, peer_id, top_box_id, top_date, unread_count, message_count
FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::int[], $5::int[], $6::int[], $7::int[])
    AS n(owner_user_id, peer_type, peer_id, top_box_id, top_date, unread_count, message_count)
ON CONFLICT (owner_user_id, peer_type, peer_id) DO UPDATE SET
    top_box_id = GREATEST(d.top_box_id, excluded.top_box_id),
    top_date = CASE WHEN excluded.top_box_id > d.top_box_id THEN excluded.top_date ELSE d.top_date END,
    unread_count = d.unread_count + excluded.unread_count,
    message_count = d.message_count + excluded.message_count
RETURNING owner_user_id, peer_type, peer_id, read_inbox_max_id
"""
# Takes back what was counted as unread below the read mark; the row is locked by this transaction.
SQL_LESS_UNREAD: Final = """
UPDATE dialogs SET unread_count = unread_count - $4
WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3
"""


class _SentMeanwhile(Exception):
    """Another process sent one of the batch's messages after the look-up."""


@dataclass(slots=True)
class _DialogChange:
    """What the batch does to one dialog."""

    top_box_id: int = 0
    top_date: int = 0
    boxes: int = 0
    incoming: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Plan:
    """One message that is to be written: its boxes, the sender's first."""

    request: SendRequest
    boxes: list[MessageBox]

    @property
    def is_service(self) -> bool:
        return self.request.sender_user_id == SERVICE_USER_ID


class BatchWriter:
    """Sends batches of messages; one batch at a time for each instance."""

    def __init__(self, pool: Pool, ids: Ids, events: EventLog, wait_s: float) -> None:
        self._pool = pool
        self._ids = ids
        self._events = events
        self._wait_s = wait_s

    async def send(self, requests: Sequence[SendRequest]) -> list[Outcome]:
        """Returns what became of each request, in their order, after the commit.

        Args:
            requests: no two with the same sender and random_id; a sender's messages get rising box_ids in
                this order.
        Raises:
            Unavailable: a server stayed away; what was written is found by a repeat.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 2 * self._wait_s
        stale = False
        for attempt in range(_TRIES):
            outcomes, live = await self._judge(requests)
            if not live:
                return [outcomes[i] for i in range(len(requests))]
            grants = await self._ids.take(_wants(requests, live), reseed=stale)
            plans = self._plan(requests, live, grants)
            try:
                async with self._pool.transaction() as connection:
                    await self._write(connection, [plans[i] for i in sorted(plans)])
            except (StaleCounter, _SentMeanwhile, *REPEATABLE) as error:
                stale = stale or isinstance(error, StaleCounter)
                await self._events.abandon(grants.values())
            except Unavailable:
                await self._events.abandon(grants.values())
                if loop.time() >= deadline:
                    raise
            except Exception:
                await self._events.abandon(grants.values())
                raise
            else:
                self._events.committed(grants)
                for i, plan in plans.items():
                    outcomes[i] = SentMessage(plan.boxes[0], plan.boxes[0].pts, 1)
                return [outcomes[i] for i in range(len(requests))]
            await asyncio.sleep(0.005 * attempt)
        raise Unavailable("a batch that kept failing")

    async def _judge(
        self, requests: Sequence[SendRequest]
    ) -> tuple[dict[int, Outcome], dict[int, tuple[bool, int]]]:
        """Returns the outcomes known already, and for the rest whether each reaches the other side and the id
        of its reply target there.
        """
        replies = [(i, request, request.reply_to) for i, request in enumerate(requests) if request.reply_to]
        rows = await self._pool.fetch(
            SQL_LOOK_UP,
            list(range(len(requests))),
            [request.sender_user_id for request in requests],
            [request.random_id for request in requests],
            [request.peer.id for request in requests],
            [i for i, _, _ in replies],
            [request.sender_user_id for _, request, _ in replies],
            [request.peer.id for _, request, _ in replies],
            [reply_to.box_id for _, _, reply_to in replies],
        )
        found: dict[tuple[int, int], Record] = {(row["what"], row["i"]): row for row in rows}
        outcomes: dict[int, Outcome] = {}
        repeated: dict[int, Record] = {}
        live: dict[int, tuple[bool, int]] = {}
        for i, request in enumerate(requests):
            sent, replied = found.get((_SENT, i)), found.get((_REPLIED, i))
            service = request.sender_user_id == SERVICE_USER_ID
            if sent is not None and not service:
                if bytes(sent["digest"]) == request.digest:
                    repeated[i] = sent
                else:
                    outcomes[i] = RandomIdConflict()
            elif request.peer.type is not PeerType.USER or (_EXISTS, i) not in found:
                outcomes[i] = PeerInvalid()
            elif request.reply_to is not None and replied is None:
                outcomes[i] = ReplyInvalid()
            else:
                reaches = service or (
                    request.peer.id not in (SERVICE_USER_ID, request.sender_user_id)
                    and (_BLOCKED, i) not in found
                )
                live[i] = (reaches, replied["box_id"] if replied else 0)
        if repeated:
            outcomes.update(await self._repeated(requests, repeated))
        return outcomes, live

    async def _repeated(
        self, requests: Sequence[SendRequest], repeated: dict[int, Record]
    ) -> dict[int, SentMessage]:
        """Returns the first answers again, from the boxes, which outlive an edit or a delete."""
        rows = await self._pool.fetch(
            SQL_GET_MANY,
            [requests[i].sender_user_id for i in repeated],
            [sent["box_id"] for sent in repeated.values()],
            True,
        )
        boxes = {(row["owner_user_id"], row["box_id"]): box_from_row(row) for row in rows}
        return {
            i: SentMessage(
                replace(boxes[requests[i].sender_user_id, sent["box_id"]], date=sent["date"]),
                sent["pts"],
                1,
                duplicate=True,
            )
            for i, sent in repeated.items()
        }

    def _plan(
        self,
        requests: Sequence[SendRequest],
        live: dict[int, tuple[bool, int]],
        grants: dict[int, Grant],
    ) -> dict[int, _Plan]:
        """Gives every message its boxes; ids rise in the order of the requests."""
        free: dict[int, Iterator[tuple[int, int]]] = {
            user_id: zip(grant.all_box_ids, grant.all_pts, strict=True) for user_id, grant in grants.items()
        }
        plans = {}
        for i in sorted(live):
            request = requests[i]
            reaches, reply_there = live[i]
            here, there = request.sender_user_id, request.peer.id
            box_id, pts = (0, 0) if here == SERVICE_USER_ID else next(free[here])
            peer_box_id, peer_pts = next(free[there]) if reaches else (0, 0)
            own = MessageBox(
                owner_user_id=here,
                box_id=box_id,
                peer=request.peer,
                from_user_id=here,
                outgoing=True,
                message_id=self._ids.message_ids.next(),
                date=request.date,
                text=request.text,
                entities=request.entities,
                silent=request.silent,
                noforwards=request.noforwards,
                reply_to=request.reply_to,
                peer_box_id=peer_box_id,
                pts=pts,
            )
            other = replace(
                own,
                owner_user_id=there,
                box_id=peer_box_id,
                peer=Peer.user(here),
                outgoing=False,
                reply_to=_translated(request.reply_to, reply_there),
                peer_box_id=box_id,
                pts=peer_pts,
            )
            plans[i] = _Plan(request, ([own] if box_id else []) + ([other] if reaches else []))
        return plans

    async def _write(self, connection: Connection, plans: Sequence[_Plan]) -> None:
        await self._write_messages(connection, [plan for plan in plans if not plan.is_service])
        boxes = sorted(
            (box for plan in plans for box in plan.boxes), key=lambda box: (box.owner_user_id, box.box_id)
        )
        if await insert_boxes(connection, boxes) != len(boxes):
            raise StaleCounter
        await self._write_dialogs(connection, boxes)
        await self._events.insert(
            connection, (_event_row(plan.request, box) for plan in plans for box in plan.boxes)
        )

    async def _write_messages(self, connection: Connection, plans: Sequence[_Plan]) -> None:
        if not plans:
            return
        ordered = sorted(plans, key=lambda plan: (plan.request.sender_user_id, plan.request.random_id))
        requests = [plan.request for plan in ordered]
        boxes = [plan.boxes[0] for plan in ordered]
        rows = await connection.fetch(
            SQL_INSERT_MESSAGES,
            [request.sender_user_id for request in requests],
            [request.random_id for request in requests],
            [box.message_id for box in boxes],
            [request.peer.type for request in requests],
            [request.peer.id for request in requests],
            [request.date for request in requests],
            [request.text for request in requests],
            [to_json(entities_to_json(request.entities)) for request in requests],
            [request.digest for request in requests],
            [box.box_id for box in boxes],
            [box.peer_box_id for box in boxes],
            [box.pts for box in boxes],
        )
        if len(rows) != len(ordered):
            raise _SentMeanwhile

    async def _write_dialogs(self, connection: Connection, boxes: Sequence[MessageBox]) -> None:
        """Merges the changes of one dialog into one row, since a statement may touch a row only once."""
        changes: dict[tuple[int, int, int], _DialogChange] = {}
        for box in boxes:
            change = changes.setdefault((box.owner_user_id, box.peer.type, box.peer.id), _DialogChange())
            change.top_box_id, change.top_date = box.box_id, box.date
            change.boxes += 1
            if not box.outgoing:
                change.incoming.append(box.box_id)
        keys = sorted(changes)
        rows = await connection.fetch(
            SQL_UPSERT_DIALOGS,
            *([key[column] for key in keys] for column in range(3)),
            [changes[key].top_box_id for key in keys],
            [changes[key].top_date for key in keys],
            [len(changes[key].incoming) for key in keys],
            [changes[key].boxes for key in keys],
        )
        for row in rows:
            key = (row["owner_user_id"], row["peer_type"], row["peer_id"])
            read = sum(box_id <= row["read_inbox_max_id"] for box_id in changes[key].incoming)
            if read:
                await connection.execute(SQL_LESS_UNREAD, *key, read)


def _wants(requests: Sequence[SendRequest], live: dict[int, tuple[bool, int]]) -> list[Want]:
    wants: dict[int, Want] = {}
    for i, (reaches, _) in live.items():
        users = [requests[i].sender_user_id] if requests[i].sender_user_id != SERVICE_USER_ID else []
        for user_id in [*users, requests[i].peer.id] if reaches else users:
            want = wants.setdefault(user_id, Want(user_id))
            want.pts += 1
            want.box_ids += 1
    return list(wants.values())


def _translated(reply_to: ReplyTo | None, box_id: int) -> ReplyTo | None:
    """Returns the reply in the other side's ids; None when that side has no such message."""
    return None if reply_to is None or not box_id else replace(reply_to, box_id=box_id)


def _event_row(request: SendRequest, box: MessageBox) -> tuple[Event, int, int]:
    event = Event(
        user_id=box.owner_user_id,
        pts=box.pts,
        pts_count=1,
        kind=EventKind.NEW_MESSAGE,
        date=box.date,
        peer=box.peer,
        box_id=box.box_id,
        random_id=request.random_id if box.outgoing else 0,
    )
    return (event, request.auth_key_id, request.session_id) if box.outgoing else (event, 0, 0)
