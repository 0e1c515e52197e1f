"""Writing a batch of messages: one look-up, one call for ids, one statement.

Guarantees: every request of the batch has its own outcome; a message is written with both boxes, both
dialogs, both events and both outbox rows or not at all; a batch that fails for no fault of a request is tried
again whole, beginning with the look-up, so that a COMMIT whose answer was lost is found and not repeated. A
draft that a message ends is gone with the message, in the same transaction, and one that was saved meanwhile
stays: the look-up tells which one there is, and a message without a draft costs nothing more. So it is with a
chat that comes back from the other side's archive, or begins there: the other side's switches stand in a row
that the look-up reads anyway.

*Spec: Working with Updates*
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import asyncpg

from telesrv.clock import Clock
from telesrv.domain.errors import (
    DomainError,
    PeerBlocked,
    PeerInvalid,
    RandomIdConflict,
    ReplyInvalid,
    Unavailable,
)
from telesrv.domain.messages import SendRequest, SentMessage
from telesrv.domain.origin import NOBODY
from telesrv.domain.peers import SERVICE_USER_ID, Peer, PeerType
from telesrv.domain.privacy import AccountFlags
from telesrv.domain.updates import bucket_of
from telesrv.store.archive import ArchiveStore, bring_back, receive
from telesrv.store.boxes import SQL_GET_MANY, box_from_row
from telesrv.store.events import EventLog, OvertakenError, StaleCounter
from telesrv.store.ids import Grant, Ids
from telesrv.store.pool import REPEATABLE, Connection, Pool, Record
from telesrv.store.send_rows import SQL_END_DRAFTS, SQL_WRITE, Moves, Verdict, rows_of, wants_of

Outcome = SentMessage | DomainError
_TRIES: Final = 8
_SENT, _EXISTS, _BLOCKED, _REPLIED, _EXPIRES, _BLOCKS, _DRAFT, _ARCHIVED = range(1, 9)
_ARCHIVES_NEW: Final = int(AccountFlags.ARCHIVE_NEW)
"""The bit alone: an operation on flags takes as long as the rest of the look at a message."""
_REACHES, _STOPS = Verdict(reaches=True), Verdict(reaches=False)

# Looks up for a batch: what was sent before, or waits and has no box yet; which recipients exist,
# who is blocked, what is replied to, where messages expire, who blocks, which drafts end, which recipients
# have the chat in the archive.
SQL_LOOK_UP: Final = """
SELECT 1 AS what, q.i, p.sender_box_id AS box_id, p.sender_pts AS pts, p.date, p.digest
FROM unnest($1::int[], $2::bigint[], $3::bigint[]) AS q(i, sender, random_id)
JOIN private_messages p ON p.sender_user_id = q.sender AND p.random_id = q.random_id
UNION ALL
SELECT 2, q.i, u.flags, 0, 0, NULL
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
UNION ALL
SELECT 5, q.i, t.period_s, 0, 0, NULL
FROM unnest($1::int[], $9::smallint[], $2::bigint[], $4::bigint[]) AS q(i, bucket, sender, recipient)
JOIN history_ttl t ON t.bucket = q.bucket AND t.owner_user_id = q.sender AND t.peer_type = 1
    AND t.peer_id = q.recipient
UNION ALL
SELECT 6, q.i, 0, 0, 0, NULL
FROM unnest($1::int[], $2::bigint[], $4::bigint[]) AS q(i, sender, recipient)
JOIN contact_blocks c ON c.owner_user_id = q.sender AND c.peer_type = 1 AND c.peer_id = q.recipient
UNION ALL
SELECT 7, q.i, 0, d.pts, 0, NULL
FROM unnest($10::int[], $11::bigint[], $12::bigint[]) AS q(i, sender, recipient)
JOIN dialog_drafts d ON d.owner_user_id = q.sender AND d.peer_type = 1 AND d.peer_id = q.recipient
UNION ALL
SELECT 8, q.i, 0, 0, 0, NULL
FROM unnest($1::int[], $2::bigint[], $4::bigint[]) AS q(i, sender, recipient)
JOIN dialogs d ON d.owner_user_id = q.recipient AND d.peer_type = 1 AND d.peer_id = q.sender
WHERE d.folder_id = 1
"""


@dataclass(slots=True)
class PreparedSends:
    """A batch that was looked up and has its ids; it is written, or discarded."""

    requests: Sequence[SendRequest]
    outcomes: dict[int, Outcome]
    """Those known without writing."""
    sent: dict[int, SentMessage]
    """Those that hold once the rows are written."""
    grants: dict[int, Grant]
    columns: list[Any]
    drafts: list[Any]
    """Those that end; empty when none does."""
    moves: Moves
    """The chats that come back from the archive, or begin there."""


class BatchWriter:
    """Sends batches of messages.

    Batches may be written at once; they keep a sender's order only when each is prepared after those before
    it were, and written after they were.
    """

    def __init__(self, pool: Pool, ids: Ids, events: EventLog, clock: Clock, wait_s: float) -> None:
        self._pool = pool
        self._ids = ids
        self._events = events
        self._archive = ArchiveStore(pool)
        self._clock = clock
        self._wait_s = wait_s

    def key(self, request: SendRequest) -> Hashable | None:
        """Returns what no two requests of a batch may share; None: nothing."""
        sender = request.sender_user_id
        return None if sender == SERVICE_USER_ID else (sender, request.random_id)

    async def prepare(self, requests: Sequence[SendRequest], *, reseed: bool = False) -> PreparedSends:
        """Looks the batch up and takes its ids.

        Args:
            requests: no two with the same `key`; a sender's messages get rising box_ids in this order.
            reseed: distrust the counters.
        Raises:
            Unavailable: a server stayed away.
        """
        outcomes, live = await self._judge(requests)
        if not live:
            return PreparedSends(requests, outcomes, {}, {}, [], [], Moves())
        grants = await self._ids.take(wants_of(requests, live), reseed=reseed)
        now_ms = int(self._clock.time() * 1000)
        try:
            sent, columns, drafts, moves = rows_of(requests, live, grants, self._ids.message_ids, now_ms)
        except BaseException:
            await self._events.abandon(grants.values())
            raise
        return PreparedSends(requests, outcomes, sent, grants, columns, drafts, moves)

    async def discard(self, prepared: PreparedSends) -> None:
        """Gives up what was prepared: noops stand for its pts."""
        await self._events.abandon(prepared.grants.values())

    async def write(self, prepared: PreparedSends) -> tuple[list[Outcome], bool]:
        """Returns what became of each request, in their order, after the commit; and whether the ids are
        other ones than were prepared.

        Raises:
            Unavailable: a server stayed away; what was written is found by a repeat.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 2 * self._wait_s
        requests = prepared.requests
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(0.005 * (attempt - 1))
                prepared = await self.prepare(requests, reseed=True)
            try:
                if prepared.drafts or prepared.moves:
                    async with self._pool.transaction() as connection:
                        await connection.execute(SQL_WRITE, *prepared.columns)
                        if prepared.drafts:
                            await connection.execute(SQL_END_DRAFTS, *prepared.drafts)
                        if prepared.moves:
                            await self._move(connection, prepared.moves)
                elif prepared.sent:
                    async with self._pool.acquire() as connection:
                        await connection.execute(SQL_WRITE, *prepared.columns)
            except (asyncpg.DivisionByZeroError, StaleCounter, OvertakenError, *REPEATABLE):
                await self.discard(prepared)
            except Unavailable:
                await self.discard(prepared)
                if loop.time() >= deadline:
                    raise
            except Exception:
                await self.discard(prepared)
                raise
            else:
                self._events.committed(prepared.grants)
                outcomes = prepared.outcomes | prepared.sent
                return [outcomes[i] for i in range(len(requests))], attempt > 0
        raise Unavailable("a batch that kept failing")

    async def _move(self, connection: Connection, moves: Moves) -> None:
        """Moves chats from the archive and to it, and logs it. Their dialogs are locked by the messages that
        were written.
        """
        events = [*await bring_back(connection, moves.back), *await receive(connection, moves.away)]
        await self._events.in_order(connection, events)
        await self._events.insert(connection, [(event, NOBODY) for event in events])

    async def _judge(self, requests: Sequence[SendRequest]) -> tuple[dict[int, Outcome], dict[int, Verdict]]:
        """Returns the outcomes known already, and the verdicts on the rest, both by place."""
        found: dict[tuple[int, int], Record] = {
            (row[0], row[1]): row for row in await self._pool.fetch(SQL_LOOK_UP, *look_up_columns(requests))
        }
        outcomes: dict[int, Outcome] = {}
        repeated: dict[int, Record] = {}
        live: dict[int, Verdict] = {}
        ended: set[tuple[int, Peer]] = set()
        for i, request in enumerate(requests):
            service = request.sender_user_id == SERVICE_USER_ID
            sent, replied = found.get((_SENT, i)), found.get((_REPLIED, i)) if request.reply_to else None
            if sent is not None and bytes(sent["digest"]) != request.digest:
                outcomes[i] = RandomIdConflict()
            elif sent is not None and sent["box_id"]:
                repeated[i] = sent
            elif request.peer.type is not PeerType.USER or (_EXISTS, i) not in found:
                outcomes[i] = PeerInvalid()
            elif (_BLOCKS, i) in found:
                outcomes[i] = PeerBlocked()
            elif request.reply_to is not None and replied is None:
                outcomes[i] = ReplyInvalid()
            else:
                verdict = _REACHES
                if not service and (
                    request.peer.id in (SERVICE_USER_ID, request.sender_user_id) or (_BLOCKED, i) in found
                ):
                    verdict = _STOPS
                expires, draft = found.get((_EXPIRES, i)), found.get((_DRAFT, i))
                if draft is not None:
                    chat = (request.sender_user_id, request.peer)
                    draft = None if chat in ended else draft
                    ended.add(chat)
                if replied or expires or draft:
                    verdict = Verdict(
                        verdict.reaches,
                        replied["box_id"] if replied else 0,
                        expires["box_id"] if expires else 0,
                        draft["pts"] if draft else 0,
                    )
                live[i] = verdict
        if any((_ARCHIVED, i) in found for i in live):
            await self._unarchive(requests, live, found)
        if any(found[_EXISTS, i]["box_id"] & _ARCHIVES_NEW for i in live):
            await self._put_away(requests, live)
        if repeated:
            outcomes.update(await self._repeated(requests, repeated))
        return outcomes, live

    async def _unarchive(
        self,
        requests: Sequence[SendRequest],
        live: dict[int, Verdict],
        found: Mapping[tuple[int, int], Record],
    ) -> None:
        """Notes in the verdicts which messages bring a chat back from the archive, the first one of each."""
        chats = {
            i: (requests[i].peer.id, requests[i].sender_user_id)
            for i, verdict in live.items()
            if verdict.reaches and (_ARCHIVED, i) in found
        }
        flags = {chat: AccountFlags(found[_EXISTS, i]["box_id"]) for i, chat in chats.items()}
        leaving = set(await self._archive.leaving(flags, int(self._clock.time())))
        for i, chat in chats.items():
            if chat in leaving:
                leaving.remove(chat)
                live[i] = replace(live[i], unarchives=True)

    async def _put_away(self, requests: Sequence[SendRequest], live: dict[int, Verdict]) -> None:
        """Notes in the verdicts which messages begin a chat in the archive, the first one of each."""
        chats: dict[tuple[int, int], int] = {}
        for i, verdict in live.items():
            if verdict.reaches and requests[i].sender_user_id != SERVICE_USER_ID:
                chats.setdefault((requests[i].peer.id, requests[i].sender_user_id), i)
        for chat in await self._archive.arriving(chats):
            live[chats[chat]] = replace(live[chats[chat]], arrives=True)

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


def look_up_columns(requests: Sequence[SendRequest]) -> list[list[Any]]:
    """Returns the arguments of `SQL_LOOK_UP`."""
    replies = [(i, request, request.reply_to) for i, request in enumerate(requests) if request.reply_to]
    clearing = [(i, request) for i, request in enumerate(requests) if request.clear_draft]
    return [
        list(range(len(requests))),
        [request.sender_user_id for request in requests],
        [request.random_id for request in requests],
        [request.peer.id for request in requests],
        [i for i, _, _ in replies],
        [request.sender_user_id for _, request, _ in replies],
        [request.peer.id for _, request, _ in replies],
        [reply_to.box_id for _, _, reply_to in replies],
        [bucket_of(request.sender_user_id) for request in requests],
        [i for i, _ in clearing],
        [request.sender_user_id for _, request in clearing],
        [request.peer.id for _, request in clearing],
    ]


def outcome_name(outcome: Outcome) -> str:
    """Returns what an outcome is counted as."""
    if isinstance(outcome, DomainError):
        return "refused"
    return "repeated" if outcome.duplicate else "sent"
