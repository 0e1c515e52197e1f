"""After how long the messages of a chat are deleted by themselves, and deleting them then.

Guarantees: a period holds for both sides of a chat, with one event for each side whose period changed, and a
service message that tells of it, which is the first to have that time; a message keeps the time that it was
sent with. What has expired is deleted in batches of at most 1,000, each one transaction with its event, and
once however many processes look: a copy that is gone is not deleted again.

Concurrency: a chat is looked at by whoever leased its row (SKIP LOCKED, one bucket at a time; `leases.py`).
Every chat with a period is looked at once in that period, at the latest, so a send writes nothing more than
the time in its own row.

*Spec: messages.setHistoryTTL*
"""

# ruff: noqa: S608 - only the condition of `leases.py` is put in
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from telesrv.clock import Clock
from telesrv.domain.actions import Action, ActionKind
from telesrv.domain.dialogs import ARCHIVE
from telesrv.domain.errors import NotModified
from telesrv.domain.messages import MAX_CHANGED, Affected, Changed, SendRequest
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import SERVICE_USER_ID, Peer, PeerType
from telesrv.domain.scheduled import ScheduledMessage
from telesrv.domain.ttl import check_period
from telesrv.domain.updates import OUTBOX_BUCKETS, EventKind, NewEvent, bucket_of
from telesrv.store.archive import ArchiveStore, move_of, put_away
from telesrv.store.deletes import DeleteStore
from telesrv.store.edits import SQL_BLOCKED_BY
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.leases import Leases, free
from telesrv.store.pool import Connection, Pool, Record
from telesrv.store.service_messages import SQL_EXISTS, Told, add_service, reaches

_CHATS: Final = 16
"""How many chats are leased at once."""
_BATCHES: Final = 10
"""How many batches of one chat are deleted before others have their turn."""
_SETTLE_S: Final = 60
"""For so long after a period was changed, messages may still be written that were sent under the old one."""
_DEFAULT_KEPT_S: Final = 60
_DEFAULTS: Final = 100_000

# The periods of some chats of one owner.
SQL_PERIODS: Final = """
SELECT peer_id, period_s FROM history_ttl
WHERE bucket = $1 AND owner_user_id = $2 AND peer_type = $3 AND peer_id = ANY($4::bigint[]) AND period_s > 0
"""
# Sets the periods of some chats; those that have it already are missing from the answer.
SQL_SET: Final = """
INSERT INTO history_ttl AS t (bucket, owner_user_id, peer_type, peer_id, period_s, set_at, due_at)
SELECT bucket, owner_user_id, 1, peer_id, $4, $5, $6
FROM unnest($1::smallint[], $2::bigint[], $3::bigint[]) AS q(bucket, owner_user_id, peer_id)
ON CONFLICT (bucket, owner_user_id, peer_type, peer_id) DO UPDATE
SET period_s = excluded.period_s, set_at = excluded.set_at, due_at = LEAST(t.due_at, excluded.due_at)
WHERE t.period_s <> excluded.period_s
RETURNING owner_user_id
"""
# Finds the buckets that have chats to look at.
SQL_DUE: Final = f"""
SELECT t.bucket FROM history_ttl t
WHERE t.bucket = ANY($1::smallint[]) AND t.due_at <= $2 AND {free("t", "$3")} GROUP BY t.bucket
"""
# Leases chats of a bucket that are to be looked at.
SQL_LEASE: Final = f"""
UPDATE history_ttl t SET leased_until_ms = $4, leased_by = $5
FROM (
    SELECT d.owner_user_id, d.peer_type, d.peer_id FROM history_ttl d
    WHERE d.bucket = $1 AND d.due_at <= $2 AND {free("d", "$3")}
    ORDER BY d.due_at LIMIT $6 FOR UPDATE OF d SKIP LOCKED
) p
WHERE t.bucket = $1 AND t.owner_user_id = p.owner_user_id AND t.peer_type = p.peer_type
    AND t.peer_id = p.peer_id
RETURNING t.owner_user_id, t.peer_type, t.peer_id, t.period_s, t.set_at
"""
# The messages of a chat whose time has come.
SQL_EXPIRED: Final = """
SELECT b.box_id FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3 AND b.expires_at <= $4 AND NOT b.deleted
ORDER BY b.expires_at LIMIT $5
"""
# When the next message of a chat expires.
SQL_NEXT: Final = """
SELECT b.expires_at FROM message_boxes b
WHERE b.owner_user_id = $1 AND b.peer_type = $2 AND b.peer_id = $3 AND b.expires_at IS NOT NULL
    AND NOT b.deleted
ORDER BY b.expires_at LIMIT 1
"""
# Gives a chat back and says when it is to be looked at next; at once, when its period was changed meanwhile.
SQL_AGAIN: Final = """
UPDATE history_ttl SET leased_until_ms = 0, leased_by = NULL,
    due_at = CASE WHEN set_at = $5 THEN $6 ELSE due_at END
WHERE bucket = $1 AND owner_user_id = $2 AND peer_type = $3 AND peer_id = $4
"""
# Forgets a chat whose messages are kept, unless its period was changed meanwhile.
SQL_FORGET: Final = """
DELETE FROM history_ttl
WHERE bucket = $1 AND owner_user_id = $2 AND peer_type = $3 AND peer_id = $4 AND set_at = $5 AND period_s = 0
"""
# The period that new chats of an account begin with.
SQL_DEFAULT: Final = """
SELECT period_s FROM default_history_ttl WHERE owner_user_id = $1
"""
# Sets it.
SQL_SET_DEFAULT: Final = """
INSERT INTO default_history_ttl (owner_user_id, period_s) VALUES ($1, $2)
ON CONFLICT (owner_user_id) DO UPDATE SET period_s = excluded.period_s
"""
# Whether an account has a chat.
SQL_HAS_DIALOG: Final = """
SELECT 1 FROM dialogs WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3
"""


# How many of some messages cannot be sent: they were, or their random_id was used for another.
SQL_USED: Final = """
SELECT count(*) FROM unnest($2::bigint[], $3::bytea[]) AS q(random_id, digest)
JOIN private_messages p ON p.sender_user_id = $1 AND p.random_id = q.random_id
WHERE p.sender_box_id > 0 OR p.digest <> q.digest
"""


class TtlStore:
    """Periods of chats, and what becomes of them."""

    def __init__(
        self, pool: Pool, events: EventLog, deletes: DeleteStore, leases: Leases, clock: Clock
    ) -> None:
        self._pool = pool
        self._events = events
        self._deletes = deletes
        self._leases = leases
        self._archive = ArchiveStore(pool)
        self._clock = clock
        self._defaults: OrderedDict[int, tuple[int, float]] = OrderedDict()

    async def periods(self, owner: int, user_ids: Collection[int]) -> dict[int, int]:
        """Returns the periods in seconds of the owner's private chats that have one, by the other side."""
        return await periods_of(self._pool, owner, user_ids)

    async def set(
        self,
        owner: int,
        peer: Peer,
        period_s: int,
        *,
        date: int,
        by_default: bool = False,
        origin: Origin = NOBODY,
    ) -> Changed:
        """Has new messages of a chat deleted after *period_s*, on both sides; 0: they are kept.

        A side that has blocked the owner keeps its own period. A service message tells each side whose
        period changed, but for one's own saved messages and the chat with the service account. A chat that
        begins with it may do so in the archive, as with a message.

        Args:
            by_default: it is the owner's default, and nobody has set it in this chat.

        Raises:
            PeriodInvalid: it is negative or too long.
            NotModified: it is so already.
            Unavailable: a server is away; a repeat is harmless.

        *Spec: messages.setHistoryTTL*
        """
        check_period(period_s)
        sides = [(owner, peer.id)]
        alone = peer.id in (owner, SERVICE_USER_ID)
        if not alone and await reaches(self._pool, owner, peer.id):
            sides.append((peer.id, owner))
        current = {side: (await self.periods(side[0], [side[1]])).get(side[1], 0) for side in sides}
        changing = sorted(side for side in sides if current[side] != period_s)
        if not changing:
            raise NotModified
        due_at = date + (period_s or _SETTLE_S)
        told = [] if alone else changing
        action = Action(ActionKind.SET_TTL, period_s, owner if by_default else 0)
        arriving = await self._archive.arriving([side for side in told if side[0] != owner])

        async def body(connection: Connection, writer: EventWriter) -> Changed:
            keyed = sorted((bucket_of(side[0]), *side) for side in changing)
            columns = [list(column) for column in zip(*keyed, strict=True)]
            rows = await connection.fetch(SQL_SET, *columns, period_s, date, due_at)
            changed = {row["owner_user_id"] for row in rows}
            affected = Affected(0, 0)
            for side, other in changing:
                if side not in changed:
                    continue
                own = side == owner
                event = writer.add(
                    NewEvent(
                        side,
                        EventKind.HISTORY_TTL,
                        date,
                        Peer.user(other),
                        payload={"period_s": period_s},
                        origin=origin if own else NOBODY,
                    )
                )
                if own:
                    affected = Affected(event.pts, event.pts_count)
            sides = [Told(side, other, ttl_s=period_s) for side, other in told if side in changed]
            if not sides:
                return Changed(affected)
            sent = await add_service(connection, writer, owner, sides, action, date=date, origin=origin)
            new = {side: 1 for side in arriving if side[0] in changed}
            for (side, other), muted in (await put_away(connection, new)).items():
                peer, moved = Peer.user(other), move_of(other, ARCHIVE)
                writer.add(NewEvent(side, EventKind.NOTIFY_SETTINGS, date, peer, payload=muted))
                writer.add(NewEvent(side, EventKind.FOLDER_PEERS, date, payload=moved))
            return Changed(affected, sent)

        users = [side for side, _ in [*changing, *told, *arriving, *arriving]]
        outcome = await self._events.transact(users, body, box_ids=[side for side, _ in told])
        if not outcome.affected.pts_count and (owner, peer.id) in changing:
            raise NotModified
        return outcome

    async def default(self, owner: int) -> int:
        """Returns the period in seconds that chats which the account begins start with; 0: none."""
        return await self._pool.fetchval(SQL_DEFAULT, owner) or 0

    async def set_default(self, owner: int, period_s: int) -> None:
        """Sets the period for chats to come; another process may know of it up to a minute later.

        Raises:
            PeriodInvalid: it is negative or too long.

        *Spec: messages.setDefaultHistoryTTL*
        """
        check_period(period_s)
        await self._pool.execute(SQL_SET_DEFAULT, owner, period_s)
        self._keep(owner, period_s)

    async def begin(
        self, owner: int, peer: Peer, messages: Collection[SendRequest | ScheduledMessage], *, date: int
    ) -> None:
        """Gives a chat that the owner's messages are about to begin the owner's default period, if there is
        one. Nothing happens when none of them will be sent.

        It is a transaction of its own, before theirs. What it writes, a period and a service message on both
        sides, would be the only thing in a batch of sends with ids, events and rows of other kinds, for the
        first message of few chats; every batch would have to look for it. Who dies in between leaves a chat
        whose sides both know its period: to a repeat of the send that is a chat like any other.

        Raises:
            Unavailable: a server is away.
        """
        period_s, until = self._defaults.get(owner, (0, 0.0))
        if until <= self._clock.monotonic():
            period_s = await self.default(owner)
            self._keep(owner, period_s)
        if not period_s or peer.id in (owner, SERVICE_USER_ID):
            return
        if await self._pool.fetchval(SQL_HAS_DIALOG, owner, peer.type, peer.id):
            return
        columns = [message.random_id for message in messages], [message.digest for message in messages]
        if await self._pool.fetchval(SQL_USED, owner, *columns) == len(messages):
            return
        if await self._pool.fetchval(SQL_BLOCKED_BY, owner, peer.type, peer.id):
            return
        if not await self._pool.fetchval(SQL_EXISTS, peer.id):
            return
        with suppress(NotModified):
            await self.set(owner, peer, period_s, date=date, by_default=True)

    async def expire(self) -> int:
        """Deletes what has expired, as far as it comes in one turn; returns how many copies.

        To be called every second or so, by every process.

        Raises:
            Unavailable: a server is away; the next call goes on.
        """
        now = int(self._clock.time())
        gone = 0
        for row in await self._pool.fetch(SQL_DUE, list(range(OUTBOX_BUCKETS)), now, self._leases.now_ms()):
            bucket = row["bucket"]
            async with self._pool.acquire() as connection:
                chats = await connection.fetch(SQL_LEASE, bucket, now, *self._leases.terms(), _CHATS)
            for chat in chats:
                gone += await self._expire_chat(bucket, chat, now)
        return gone

    async def _expire_chat(self, bucket: int, chat: Record, now: int) -> int:
        owner, peer_type, peer_id, period_s, set_at = tuple(chat)
        key = (owner, peer_type, peer_id)
        gone = 0
        due_at = now
        for _ in range(_BATCHES):
            rows = await self._pool.fetch(SQL_EXPIRED, *key, now, MAX_CHANGED)
            if rows:
                counts = await self._deletes.erase({owner: [row["box_id"] for row in rows]}, date=now)
                gone += counts.get(owner, (0, 0))[1]
            if len(rows) < MAX_CHANGED:
                following = await self._pool.fetchval(SQL_NEXT, *key)
                due_at = min(following or now + period_s, now + period_s) if period_s else following or 0
                break
        if due_at == 0 and now - set_at > _SETTLE_S:
            await self._pool.execute(SQL_FORGET, bucket, *key, set_at)
        else:
            await self._pool.execute(SQL_AGAIN, bucket, *key, set_at, due_at or now + _SETTLE_S)
        return gone

    def _keep(self, owner: int, period_s: int) -> None:
        self._defaults[owner] = (period_s, self._clock.monotonic() + _DEFAULT_KEPT_S)
        self._defaults.move_to_end(owner)
        while len(self._defaults) > _DEFAULTS:
            self._defaults.popitem(last=False)


async def periods_of(pool: Pool, owner: int, user_ids: Collection[int]) -> dict[int, int]:
    """Returns the periods in seconds of the owner's private chats that have one, by the other side."""
    if not user_ids:
        return {}
    rows = await pool.fetch(SQL_PERIODS, bucket_of(owner), owner, PeerType.USER, sorted(set(user_ids)))
    return {row["peer_id"]: row["period_s"] for row in rows}
