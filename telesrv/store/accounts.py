"""Accounts and the devices logged in to them.

Guarantees: one phone number has one account, whoever asks at the same time; a key is logged in to one account
at most. Who a key is logged in as is answered from a bounded cache that every change here keeps
true in this process.

*Spec: User Authorization; Working with Updates*
"""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from telesrv.clock import Clock
from telesrv.domain.errors import PeerInvalid, PhoneOccupied
from telesrv.domain.usernames import username_key
from telesrv.domain.users import Authorization, ClientInfo, User
from telesrv.store.auth_keys import cleaned_client, client_columns, client_from_row
from telesrv.store.cache import MergedCache
from telesrv.store.events import EventLog
from telesrv.store.pool import Connection, Pool
from telesrv.store.users import SQL_USER, USER_COLUMNS, user_from_row

CACHED_AUTHORIZATIONS: Final = 100_000
TOUCH_EVERY_S: Final = 60
"""How often the time and address of a device are written at most."""
MIN_USER_ID: Final = 2**30
MAX_USER_ID: Final = 2**40

# Who has a phone number.
SQL_PHONE: Final = """
SELECT user_id FROM phone_numbers WHERE phone = $1
"""
# Takes a phone number; no row comes back when somebody has it.
SQL_TAKE_PHONE: Final = """
INSERT INTO phone_numbers (phone, user_id) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING user_id
"""
# Makes an account; no row comes back when the id is taken.
SQL_SIGN_UP: Final = f"""
INSERT INTO users (user_id, phone, first_name, last_name, created_at)
VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING
RETURNING {USER_COLUMNS}
"""
# Notes that those who have the number of a new account are to be told.
SQL_BEGIN_TELLING: Final = """
INSERT INTO sign_ups (user_id, phone, quiet, created_at, due_at) VALUES ($1, $2, $3, $4, $4)
"""
# Locks one account that still exists.
SQL_LOCK: Final = f"""
SELECT {USER_COLUMNS} FROM users WHERE user_id = $1 AND NOT deleted FOR UPDATE
"""
# Who has a username.
SQL_USERNAME: Final = """
SELECT user_id FROM usernames WHERE username = $1
"""
# Makes the row of a key that is not logged in.
SQL_CLAIM_KEY: Final = """
INSERT INTO auth_key_users (auth_key_id, user_id) VALUES ($1, $2) ON CONFLICT DO NOTHING
"""
# Locks the row of a key.
SQL_LOCK_KEY: Final = """
SELECT user_id FROM auth_key_users WHERE auth_key_id = $1 FOR UPDATE
"""
# Logs a key in to another account.
SQL_MOVE_KEY: Final = """
UPDATE auth_key_users SET user_id = $2 WHERE auth_key_id = $1
"""
# Who a key is logged in as.
SQL_KEY_USER: Final = """
SELECT user_id FROM auth_key_users WHERE auth_key_id = $1
"""
# Logs keys out, if they are logged in to that account.
SQL_FREE_KEYS: Final = """
DELETE FROM auth_key_users WHERE auth_key_id = ANY($1::bigint[]) AND user_id = $2
"""
# Adds a device to the account's list.
SQL_AUTHORIZE: Final = """
INSERT INTO authorizations (user_id, auth_key_id, hash, created_at, active_at, ip,
    api_id, device_model, system_version, app_version, system_lang_code, lang_code)
VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (user_id, auth_key_id) DO UPDATE SET hash = EXCLUDED.hash, created_at = EXCLUDED.created_at,
    active_at = EXCLUDED.active_at, ip = EXCLUDED.ip, api_id = EXCLUDED.api_id,
    device_model = EXCLUDED.device_model, system_version = EXCLUDED.system_version,
    app_version = EXCLUDED.app_version, system_lang_code = EXCLUDED.system_lang_code,
    lang_code = EXCLUDED.lang_code
"""
# Reads one device of an account.
SQL_AUTHORIZATION: Final = """
SELECT user_id, auth_key_id, hash, created_at, active_at, ip,
    api_id, device_model, system_version, app_version, system_lang_code, lang_code
FROM authorizations WHERE user_id = $1 AND auth_key_id = $2
"""
# Reads the devices of an account, the most recently active first.
SQL_AUTHORIZATIONS: Final = """
SELECT user_id, auth_key_id, hash, created_at, active_at, ip,
    api_id, device_model, system_version, app_version, system_lang_code, lang_code
FROM authorizations WHERE user_id = $1 ORDER BY active_at DESC, auth_key_id
"""
# Notes when and from where a device was last active.
SQL_TOUCH: Final = """
UPDATE authorizations SET active_at = GREATEST(active_at, $3), ip = $4, api_id = $5, device_model = $6,
    system_version = $7, app_version = $8, system_lang_code = $9, lang_code = $10
WHERE user_id = $1 AND auth_key_id = $2
"""
# Takes devices off the account's list.
SQL_DEAUTHORIZE: Final = """
DELETE FROM authorizations WHERE user_id = $1 AND auth_key_id = ANY($2::bigint[]) RETURNING auth_key_id
"""
# Finds the device that a client names by its hash.
SQL_BY_HASH: Final = """
SELECT auth_key_id FROM authorizations WHERE user_id = $1 AND hash = $2
"""
# Finds every device of the account but one.
SQL_OTHERS: Final = """
SELECT auth_key_id FROM authorizations WHERE user_id = $1 AND auth_key_id <> $2
"""
# Forgets how far devices have read the account's log.
SQL_CLEAR_DEVICES: Final = """
DELETE FROM update_states WHERE auth_key_id = ANY($1::bigint[]) AND user_id = $2
"""


class AccountStore:
    """Sign-up, log-in, log-out."""

    def __init__(self, pool: Pool, events: EventLog, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._clock = clock
        self._cache: MergedCache[int, Authorization] = MergedCache(
            self._read, max_entries=CACHED_AUTHORIZATIONS, keep_none=True
        )

    async def by_phone(self, phone: str) -> User | None:
        """Returns the account that has *phone* (digits only)."""
        return await self._user(await self._pool.fetchval(SQL_PHONE, phone))

    async def by_username(self, username: str) -> User | None:
        """Returns the account that has *username*, in any case."""
        return await self._user(await self._pool.fetchval(SQL_USERNAME, username_key(username)))

    async def sign_up(self, phone: str, first_name: str, last_name: str = "", *, quiet: bool = False) -> User:
        """Makes the account of *phone*; its log begins with a noop, so that its pts is 1.

        Whoever has saved the number gets the account as a contact soon (`SignUpStore`).

        Args:
            quiet: no message tells them of it.

        Raises:
            PhoneOccupied: the number has an account; nothing was written.
        """
        now = int(self._clock.time())
        if await self._pool.fetchval(SQL_PHONE, phone) is not None:
            raise PhoneOccupied
        while True:
            user_id = MIN_USER_ID + secrets.randbelow(MAX_USER_ID - MIN_USER_ID)
            async with self._pool.transaction() as conn:
                row = await conn.fetchrow(SQL_SIGN_UP, user_id, phone, first_name, last_name, now)
                if row is None:
                    continue
                if await conn.fetchval(SQL_TAKE_PHONE, phone, user_id) is None:
                    raise PhoneOccupied
                await conn.execute(SQL_BEGIN_TELLING, user_id, phone, quiet, now)
                await self._events.begin(conn, user_id, now)
            return user_from_row(row)

    async def bind(self, auth_key_id: int, user_id: int, ip: str, client: ClientInfo) -> Authorization:
        """Logs the key in to the account; it is logged out of any other, whose log it no longer reads.

        Returns:
            The authorization, with a hash of its own even when the key was logged in to the account before.
        Raises:
            PeerInvalid: there is no such account, or it was deleted a moment ago.
        """
        now = int(self._clock.time())
        made = Authorization(
            auth_key_id=auth_key_id,
            user_id=user_id,
            hash=_new_hash(),
            created_at=now,
            active_at=now,
            ip=ip,
            client=cleaned_client(client),
        )

        async def log_in(conn: Connection) -> None:
            if await conn.fetchrow(SQL_LOCK, user_id) is None:
                raise PeerInvalid
            await conn.execute(SQL_CLAIM_KEY, auth_key_id, user_id)
            old_user_id = await conn.fetchval(SQL_LOCK_KEY, auth_key_id)
            if old_user_id != user_id:
                await conn.execute(SQL_DEAUTHORIZE, old_user_id, [auth_key_id])
                await conn.execute(SQL_CLEAR_DEVICES, [auth_key_id], old_user_id)
                await conn.execute(SQL_MOVE_KEY, auth_key_id, user_id)
            await conn.execute(
                SQL_AUTHORIZE, user_id, auth_key_id, made.hash, now, ip, *client_columns(made.client)
            )

        try:
            await self._pool.transact(log_in)
        finally:
            self._cache.forget(auth_key_id)
        return made

    async def authorization(self, auth_key_id: int) -> Authorization | None:
        """Returns who the key is logged in as; None when it is not."""
        return await self._cache.get(auth_key_id)

    async def authorizations(self, user_id: int) -> list[Authorization]:
        """Returns the account's devices, the most recently active first."""
        return [_authorization(row) for row in await self._pool.fetch(SQL_AUTHORIZATIONS, user_id)]

    def forget(self, auth_key_id: int) -> None:
        """Has the key's account read anew: another process has changed it."""
        self._cache.forget(auth_key_id)

    def forget_all(self) -> None:
        """Has every key's account read anew."""
        self._cache.clear()

    async def log_out(self, auth_key_id: int) -> Authorization | None:
        """Logs the key out and forgets how far it had read; returns what it was, None when it was nothing.

        The account's log stays as it is.
        """
        self._cache.forget(auth_key_id)
        was = await self._cache.get(auth_key_id)
        if was is None:
            return None
        removed = await self._remove(was.user_id, [auth_key_id])
        return was if removed else None

    async def reset(self, user_id: int, hash: int) -> list[int]:
        """Logs out the device that a client names by *hash*; returns the auth_key_ids logged out."""
        rows = await self._pool.fetch(SQL_BY_HASH, user_id, hash)
        return await self._remove(user_id, [row["auth_key_id"] for row in rows])

    async def reset_others(self, user_id: int, keep_auth_key_id: int) -> list[int]:
        """Logs out every device of the account but one; returns the auth_key_ids logged out."""
        rows = await self._pool.fetch(SQL_OTHERS, user_id, keep_auth_key_id)
        return await self._remove(user_id, [row["auth_key_id"] for row in rows])

    async def touch(self, auth_key_id: int, now: int, ip: str, client: ClientInfo) -> None:
        """Notes that the device is active and what it says of itself; writes once a minute at most, or when
        its address or its words changed.
        """
        known = await self._cache.get(auth_key_id)
        if known is None:
            return
        client = cleaned_client(client)
        if (known.ip, known.client) == (ip, client) and now < known.active_at + TOUCH_EVERY_S:
            return
        if self._cache.maybe(auth_key_id) is known:
            later = replace(known, active_at=max(now, known.active_at), ip=ip, client=client)
            self._cache.put(auth_key_id, later)
        await self._pool.execute(SQL_TOUCH, known.user_id, auth_key_id, now, ip, *client_columns(client))

    async def _remove(self, user_id: int, auth_key_ids: Sequence[int]) -> list[int]:
        if not auth_key_ids:
            return []
        ids = sorted(auth_key_ids)

        async def remove(conn: Connection) -> list[int]:
            await conn.execute(SQL_FREE_KEYS, ids, user_id)
            rows = await conn.fetch(SQL_DEAUTHORIZE, user_id, ids)
            await conn.execute(SQL_CLEAR_DEVICES, ids, user_id)
            return [row["auth_key_id"] for row in rows]

        try:
            return await self._pool.transact(remove)
        finally:
            for auth_key_id in ids:
                self._cache.forget(auth_key_id)

    async def _user(self, user_id: int | None) -> User | None:
        if user_id is None:
            return None
        row = await self._pool.fetchrow(SQL_USER, user_id)
        return None if row is None or row["deleted"] else user_from_row(row)

    async def _read(self, auth_key_id: int) -> Authorization | None:
        user_id = await self._pool.fetchval(SQL_KEY_USER, auth_key_id)
        if user_id is None:
            return None
        row = await self._pool.fetchrow(SQL_AUTHORIZATION, user_id, auth_key_id)
        return None if row is None else _authorization(row)


def _new_hash() -> int:
    """Returns a random signed 64-bit number that is not 0."""
    return secrets.choice((1, -1)) * (1 + secrets.randbelow(2**63 - 1))


def _authorization(row: Any) -> Authorization:
    return Authorization(
        auth_key_id=row["auth_key_id"],
        user_id=row["user_id"],
        hash=row["hash"],
        created_at=row["created_at"],
        active_at=row["active_at"],
        ip=row["ip"],
        client=client_from_row(row),
    )
