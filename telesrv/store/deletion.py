"""Accounts that go: at once for themselves, then for everybody who knew them.

Guarantees: after `begin` nobody is logged in to the account, its phone number and username are free, and
every answer shows it as deleted; messages stay with those who have them. Who had it in the address book or
wrote with it is told by a durable event each, in batches that `step` writes; what a dead process left is
found in `account_deletions` at once (`leases.py`) and gone on with, and no batch is written twice. What the
account owned goes at the end (`store/purge.py`).

*Spec: account.deleteAccount; Account deletion*
"""

# ruff: noqa: S608 - only the condition of `leases.py` is put in
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from telesrv.clock import Clock
from telesrv.domain.peers import SERVICE_USER_ID, Peer
from telesrv.domain.updates import EventKind, NewEvent, bucket_of
from telesrv.domain.usernames import username_key
from telesrv.domain.users import DAY_S
from telesrv.store.accounts import (
    SQL_CLEAR_DEVICES,
    SQL_DEAUTHORIZE,
    SQL_FREE_KEYS,
    SQL_LOCK,
    SQL_OTHERS,
    AccountStore,
)
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.leases import Leases, free
from telesrv.store.pool import Connection, Pool
from telesrv.store.profiles import SQL_FREE_PHONE, SQL_FREE_USERNAME
from telesrv.store.redis import Redis

BATCH: Final = 200
"""How many accounts one transaction tells."""
MIN_TTL_DAYS: Final = 30

# Makes an account a deleted one.
SQL_DELETE: Final = """
UPDATE users SET deleted = true, phone = '', first_name = '', last_name = '', username = NULL, about = '',
    birth_day = 0, birth_month = 0, birth_year = 0, flags = 0
WHERE user_id = $1
"""
# Forgets an account's privacy rules.
SQL_FORGET_RULES: Final = """
DELETE FROM privacy_rules WHERE user_id = $1
"""
# Forgets an account's notification settings.
SQL_FORGET_NOTIFY: Final = """
DELETE FROM notify_settings WHERE owner_user_id = $1
"""
# Forgets whom an account blocked.
SQL_FORGET_BLOCKS: Final = """
DELETE FROM contact_blocks WHERE owner_user_id = $1
"""
# Gives up what an account would still send.
SQL_FORGET_SCHEDULED: Final = """
UPDATE scheduled_messages SET state = 2 WHERE bucket = $1 AND owner_user_id = $2 AND state = 0
"""
# Notes that others are to be told, and leases that.
SQL_BEGIN: Final = """
INSERT INTO account_deletions (user_id, created_at, leased_until_ms, leased_by) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING
"""
# Reads how far the telling has come.
SQL_AFTER: Final = """
SELECT after_user_id FROM account_deletions WHERE user_id = $1
"""
# Takes the next batch, unless somebody else has.
SQL_ADVANCE: Final = """
UPDATE account_deletions SET after_user_id = $3 WHERE user_id = $1 AND after_user_id = $2 RETURNING user_id
"""
# Which deletions are not at their end and nobody's, and whether they began before $2.
SQL_LEFT: Final = f"""
SELECT d.user_id, d.created_at <= $2 AS settled FROM account_deletions d
WHERE {free("d", "$1")} ORDER BY d.user_id LIMIT $3
"""
# Who the owner knows or is known by, by rising id.
SQL_KNOWN_AFTER: Final = """
SELECT contact_user_id AS user_id FROM contacts WHERE owner_user_id = $1 AND contact_user_id > $2
ORDER BY contact_user_id LIMIT $3
"""
# Whom the owner has private chats with, by rising id.
SQL_PEERS_AFTER: Final = """
SELECT peer_id AS user_id FROM dialogs WHERE owner_user_id = $1 AND peer_type = 1 AND peer_id > $2
ORDER BY peer_id LIMIT $3
"""
# Locks what some owners know of one account, rows in the order of their key.
SQL_LOCK_KNOWN: Final = """
SELECT owner_user_id, listed FROM contacts WHERE owner_user_id = ANY($1::bigint[]) AND contact_user_id = $2
ORDER BY owner_user_id FOR UPDATE
"""
# Forgets what some owners know of one account.
SQL_FORGET_KNOWN: Final = """
DELETE FROM contacts WHERE owner_user_id = ANY($1::bigint[]) AND contact_user_id = $2
"""
# Forgets what the owner knows of some accounts.
SQL_FORGET_OWN: Final = """
DELETE FROM contacts WHERE owner_user_id = $1 AND contact_user_id = ANY($2::bigint[])
"""
# Accounts that were last seen before $3, from a place in the order of (last_seen_at, user_id).
SQL_IDLE: Final = """
SELECT user_id, last_seen_at, created_at, ttl_days FROM users
WHERE NOT deleted AND (last_seen_at, user_id) > ($1::bigint, $2::bigint) AND last_seen_at < $3
ORDER BY last_seen_at, user_id LIMIT $4
"""
# When the devices of some accounts were last active.
SQL_ACTIVE: Final = """
SELECT user_id, max(active_at) AS active_at FROM authorizations WHERE user_id = ANY($1::bigint[])
GROUP BY user_id
"""


@dataclass(frozen=True, slots=True)
class IdlePage:
    """Accounts that were idle for too long, and where the next page begins; None: that was all."""

    user_ids: tuple[int, ...]
    next: tuple[int, int] | None


class _TakenError(Exception):
    """Another process tells this batch."""


class DeletionStore:
    """Deletes accounts."""

    def __init__(
        self,
        pool: Pool,
        redis: Redis,
        events: EventLog,
        accounts: AccountStore,
        leases: Leases,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._redis = redis
        self._events = events
        self._accounts = accounts
        self._leases = leases
        self._clock = clock

    async def begin(self, user_id: int) -> list[int] | None:
        """Deletes the account for itself; `step` tells the others.

        Returns:
            The auth_key_ids that were logged out; None when there is no such account.
        """
        keys = await self._pool.transact(lambda conn: self._begin(conn, user_id))
        for key in keys or ():
            self._accounts.forget(key)
        return keys

    async def step(self, user_id: int) -> bool:
        """Tells one batch of those who knew a deleted account; returns whether there may be more."""
        after = await self._pool.fetchval(SQL_AFTER, user_id)
        if after is None:
            return False
        contacts = await self._pool.fetch(SQL_KNOWN_AFTER, user_id, after, BATCH)
        peers = await self._pool.fetch(SQL_PEERS_AFTER, user_id, after, BATCH)
        known = sorted({row["user_id"] for row in (*contacts, *peers)})[:BATCH]
        told = [other for other in known if other not in (user_id, SERVICE_USER_ID)]
        if not known:
            return False
        try:
            await self._tell(user_id, after, known[-1], told)
        except _TakenError:
            return True
        return True

    async def left(self, settle_s: int, limit: int = 100) -> dict[int, bool]:
        """Returns deletions that are not at their end and at which nobody is any more, and of each whether it
        began *settle_s* ago."""
        now_ms = self._leases.now_ms()
        rows = await self._pool.fetch(SQL_LEFT, now_ms, now_ms // 1000 - settle_s, limit)
        return {row["user_id"]: row["settled"] for row in rows}

    async def take_turn(self, period_s: int) -> bool:
        """Tells whether it is the caller who looks for idle accounts: one of all processes in each period."""
        client, key = self._redis.client, self._redis.key("accounts:idle")
        return bool(await self._redis.call(lambda: client.set(key, b"1", nx=True, ex=period_s)))

    async def idle(self, place: tuple[int, int] = (-1, 0), limit: int = 500) -> IdlePage:
        """Returns those of a page of accounts that nobody used for as long as they themselves allow.

        Args:
            place: where the page begins, from the last one.
        """
        now = int(self._clock.time())
        rows = await self._pool.fetch(SQL_IDLE, *place, now - MIN_TTL_DAYS * DAY_S, limit)
        if not rows:
            return IdlePage((), None)
        ids = [row["user_id"] for row in rows]
        active = {row["user_id"]: row["active_at"] for row in await self._pool.fetch(SQL_ACTIVE, ids)}
        idle = tuple(
            row["user_id"]
            for row in rows
            if row["user_id"] != SERVICE_USER_ID and _last_used(row, active) < now - row["ttl_days"] * DAY_S
        )
        last = (rows[-1]["last_seen_at"], rows[-1]["user_id"])
        return IdlePage(idle, last if len(rows) == limit else None)

    async def _begin(self, conn: Connection, user_id: int) -> list[int] | None:
        user = await conn.fetchrow(SQL_LOCK, user_id)
        if user is None:
            return None
        await conn.execute(SQL_DELETE, user_id)
        await conn.execute(SQL_FREE_PHONE, user["phone"], user_id)
        if user["username"] is not None:
            await conn.execute(SQL_FREE_USERNAME, username_key(user["username"]), user_id)
        keys = sorted(row["auth_key_id"] for row in await conn.fetch(SQL_OTHERS, user_id, 0))
        await conn.execute(SQL_FREE_KEYS, keys, user_id)
        await conn.execute(SQL_DEAUTHORIZE, user_id, keys)
        await conn.execute(SQL_CLEAR_DEVICES, keys, user_id)
        await conn.execute(SQL_FORGET_BLOCKS, user_id)
        await conn.execute(SQL_FORGET_RULES, user_id)
        await conn.execute(SQL_FORGET_NOTIFY, user_id)
        await conn.execute(SQL_FORGET_SCHEDULED, bucket_of(user_id), user_id)
        now_ms, *lease = self._leases.terms()
        await conn.execute(SQL_BEGIN, user_id, now_ms // 1000, *lease)
        return keys

    async def _tell(self, user_id: int, after: int, last: int, told: Sequence[int]) -> None:
        """Writes one batch: what they know of the account goes, and the event says so."""
        now = int(self._clock.time())

        async def body(conn: Connection, writer: EventWriter) -> None:
            if await conn.fetchval(SQL_ADVANCE, user_id, after, last) is None:
                raise _TakenError
            rows = await conn.fetch(SQL_LOCK_KNOWN, told, user_id)
            listed = {row["owner_user_id"] for row in rows if row["listed"]}
            await conn.execute(SQL_FORGET_KNOWN, told, user_id)
            await conn.execute(SQL_FORGET_OWN, user_id, told)
            for other in told:
                payload = {"listed": other in listed}
                writer.add(
                    NewEvent(other, EventKind.ACCOUNT_DELETED, now, Peer.user(user_id), payload=payload)
                )

        await self._events.transact(told, body)


def _last_used(row: Any, active: dict[int, int]) -> int:
    used: int = max(row["last_seen_at"], row["created_at"], active.get(row["user_id"], 0))
    return used
