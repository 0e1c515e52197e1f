"""Whom the owner has blocked.

Guarantees: a block or its end, and the action bars that change by it, are in the owner's log in the same
transaction. Who blocked whom is decided where messages are sent, by these rows.

*Spec: Blocking users*
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from telesrv.clock import Clock
from telesrv.domain.contacts import MAX_BLOCKED_PAGE, action_bar
from telesrv.domain.errors import PeerInvalid
from telesrv.domain.peers import Peer, PeerType
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.action_bars import SQL_HIDE_BARS, depends_on_block, shows_phone
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.plans import PlanMovedError, until_settled
from telesrv.store.pool import Connection, Pool
from telesrv.store.users import SQL_KNOWN, UserStore, phone_rules

Blocked: TypeAlias = list[tuple[Peer, int]]
"""Peers, and when each was blocked."""

MAX_TOGETHER: Final = 100
"""How many accounts one transaction blocks: each takes up to two events."""

# Blocks peers; those that are blocked already are missing from the answer.
SQL_BLOCK: Final = """
INSERT INTO contact_blocks (owner_user_id, peer_type, peer_id, created_at)
SELECT owner_user_id, peer_type, peer_id, created_at
FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[])
    AS block(owner_user_id, peer_type, peer_id, created_at)
ORDER BY owner_user_id, peer_type, peer_id
ON CONFLICT DO NOTHING RETURNING peer_id
"""
# Notes that those who are blocked may have chats of which the owner has none: they may write all the same.
SQL_KEEP_CHATS: Final = """
UPDATE contacts SET chat_kept = true
WHERE owner_user_id = $1 AND contact_user_id = ANY($2::bigint[]) AND NOT chat_kept
"""
# Unblocks peers; those that were not blocked are missing from the answer.
SQL_UNBLOCK: Final = """
DELETE FROM contact_blocks WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = ANY($3::bigint[])
RETURNING peer_id
"""
# Whom of a kind the owner has blocked.
SQL_ALL_BLOCKED: Final = """
SELECT peer_id FROM contact_blocks WHERE owner_user_id = $1 AND peer_type = $2 ORDER BY peer_id
"""
# Whether the owner has blocked a peer.
SQL_IS_BLOCKED: Final = """
SELECT 1 FROM contact_blocks WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3
"""
# Reads whom the owner has blocked, the newest first.
SQL_BLOCKED_PAGE: Final = """
SELECT peer_type, peer_id, created_at FROM contact_blocks WHERE owner_user_id = $1
ORDER BY created_at DESC, peer_type, peer_id OFFSET $2 LIMIT $3
"""
# How many the owner has blocked.
SQL_BLOCKED_COUNT: Final = """
SELECT count(*) FROM contact_blocks WHERE owner_user_id = $1
"""


@dataclass(frozen=True, slots=True)
class _Change:
    """One write of blocks, and whose action bars were seen to change by it."""

    owner_user_id: int
    user_ids: Sequence[int]
    blocked: bool
    bars: set[int]


class BlockStore:
    """Blocks and unblocks peers."""

    def __init__(self, pool: Pool, events: EventLog, users: UserStore, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._users = users
        self._clock = clock

    async def block(self, owner_user_id: int, peer: Peer) -> bool:
        """Blocks a peer: nothing it sends reaches the owner. False when it was blocked already.

        Raises:
            PeerInvalid: no such account, or the owner's own.
        """
        if peer.type is not PeerType.USER or not await self._users.may_be_listed(owner_user_id, [peer.id]):
            raise PeerInvalid
        if await self.has(owner_user_id, peer):
            return False
        return await self._set(owner_user_id, [peer.id], True)

    async def unblock(self, owner_user_id: int, peer: Peer) -> bool:
        """Lets a peer's messages through again. False when it was not blocked."""
        if not await self.has(owner_user_id, peer):
            return False
        return await self._set(owner_user_id, [peer.id], False)

    async def set(self, owner_user_id: int, user_ids: Collection[int]) -> None:
        """Blocks exactly these accounts and nobody else; in parts when very many change, each one whole.

        Raises:
            PeerInvalid: one does not exist, or is the owner's own; nothing was changed.
        """
        wanted = sorted(set(user_ids))
        rows = await self._pool.fetch(SQL_ALL_BLOCKED, owner_user_id, PeerType.USER)
        now = [row["peer_id"] for row in rows]
        new = sorted(set(wanted) - set(now))
        if new and not await self._users.may_be_listed(owner_user_id, new):
            raise PeerInvalid
        for changed, blocked in ((sorted(set(now) - set(wanted)), False), (new, True)):
            for start in range(0, len(changed), MAX_TOGETHER):
                part = changed[start : start + MAX_TOGETHER]
                await self._set(owner_user_id, part, blocked)

    async def has(self, owner_user_id: int, peer: Peer) -> bool:
        """Tells whether the owner has blocked *peer*."""
        return await self._pool.fetchval(SQL_IS_BLOCKED, owner_user_id, peer.type, peer.id) is not None

    async def page(self, owner_user_id: int, offset: int, limit: int) -> tuple[Blocked, int]:
        """Returns a page of (peer, when it was blocked), the newest first, and how many there are in all."""
        total = int(await self._pool.fetchval(SQL_BLOCKED_COUNT, owner_user_id))
        rows = await self._pool.fetch(
            SQL_BLOCKED_PAGE, owner_user_id, max(0, offset), max(0, min(limit, MAX_BLOCKED_PAGE))
        )
        return [(Peer(PeerType(row["peer_type"]), row["peer_id"]), row["created_at"]) for row in rows], total

    async def _set(self, owner_user_id: int, user_ids: Sequence[int], blocked: bool) -> bool:
        """Blocks or unblocks accounts, and tells of the action bars that change by it."""

        async def attempt() -> bool:
            rules = await phone_rules(self._pool, owner_user_id)
            known = {
                row["contact_user_id"]: row
                for row in await self._pool.fetch(SQL_KNOWN, owner_user_id, list(user_ids))
            }
            bars = {user_id for user_id in user_ids if depends_on_block(known.get(user_id), rules)}
            change = _Change(owner_user_id, user_ids, blocked, bars)
            users = [owner_user_id] * (len(user_ids) + len(bars))
            return await self._events.transact(users, partial(self._apply, change))

        return await until_settled(attempt, "an address book")

    async def _apply(self, change: _Change, conn: Connection, writer: EventWriter) -> bool:
        now = int(self._clock.time())
        owner, user_ids = change.owner_user_id, sorted(change.user_ids)
        owners = [owner] * len(user_ids)
        # The rows of `contacts` are locked before those of the blocks, as when an entry is written.
        rows = await conn.fetch(SQL_HIDE_BARS, owners, user_ids, [False] * len(user_ids))
        own = {row["contact_user_id"]: row for row in rows}
        rules = await phone_rules(conn, owner)
        if {user_id for user_id in user_ids if depends_on_block(own[user_id], rules)} != change.bars:
            raise PlanMovedError
        if change.blocked:
            await conn.execute(SQL_KEEP_CHATS, owner, user_ids)
            kinds = [int(PeerType.USER)] * len(user_ids)
            done = await conn.fetch(SQL_BLOCK, owners, kinds, user_ids, [now] * len(user_ids))
        else:
            done = await conn.fetch(SQL_UNBLOCK, owner, PeerType.USER, user_ids)
        changed = sorted(row["peer_id"] for row in done)
        for user_id in changed:
            events = [(EventKind.PEER_BLOCKED, {"blocked": change.blocked})]
            if user_id in change.bars:
                row = own[user_id]
                bar = action_bar(
                    listed=row["listed"], phone_shared=shows_phone(row, rules), blocked=change.blocked
                )
                events.append((EventKind.PEER_SETTINGS, bar))
            for kind, payload in events:
                writer.add(NewEvent(owner, kind, now, Peer.user(user_id), payload=payload))
        return bool(changed)
