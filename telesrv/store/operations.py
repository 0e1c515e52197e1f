"""What only operators ask: over all accounts, read now and then, never on a client's way.

Guarantees: reads only, bounded by a limit each; the one thing told to the running processes is published,
and those that are away learn it from PostgreSQL.
"""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from telesrv.domain.updates import bucket_of
from telesrv.domain.users import User
from telesrv.store.pool import Pool
from telesrv.store.redis import Redis
from telesrv.store.users import USER_COLUMNS, user_from_row

CONTROL: Final = "control"
"""The channel every process listens to, under the key prefix."""

# Lists devices of all accounts or of one, or the one of a hash, the most recently active first.
SQL_DEVICES: Final = """
SELECT user_id, auth_key_id, hash, created_at, active_at, ip, api_id, device_model, system_version,
    app_version
FROM authorizations
WHERE ($1::bigint IS NULL OR user_id = $1) AND ($2::bigint IS NULL OR hash = $2)
ORDER BY active_at DESC, user_id, auth_key_id LIMIT $3
"""
# Which layers keys speak.
SQL_LAYERS: Final = """
SELECT auth_key_id, layer FROM auth_keys WHERE auth_key_id = ANY($1::bigint[])
"""
# How far devices have come, by what they asked for last.
SQL_ASKED: Final = """
SELECT user_id, auth_key_id, pts, date FROM update_states WHERE auth_key_id = ANY($1::bigint[])
"""
# Lists accounts by id from above $1, all or those with $2 in a name or the phone number.
SQL_ACCOUNTS: Final = f"""
SELECT {USER_COLUMNS}
FROM users
WHERE user_id > $1 AND ($2 = '' OR phone LIKE '%' || $2 || '%'
    OR lower(coalesce(username, '')) LIKE '%' || $2 || '%'
    OR lower(first_name || ' ' || last_name) LIKE '%' || $2 || '%')
ORDER BY user_id LIMIT $3
"""
# How much one account has: $1 is the account, $2 its bucket of the outbox.
SQL_FOOTPRINT: Final = """
SELECT (SELECT count(*) FROM dialogs WHERE owner_user_id = $1) AS dialogs,
    (SELECT count(*) FROM message_boxes WHERE owner_user_id = $1 AND NOT deleted) AS messages,
    (SELECT coalesce(max(pts), 0) FROM user_update_events WHERE user_id = $1) AS last_pts,
    (SELECT count(*) FROM dispatch_outbox WHERE bucket = $2 AND target_user_id = $1) AS owed_pushes,
    (SELECT count(*) FROM dispatch_outbox_failed WHERE bucket = $2 AND target_user_id = $1) AS failed_pushes
"""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that is logged in, as an operator sees it; times are unix seconds."""

    user_id: int
    auth_key_id: int
    hash: int
    created_at: int
    active_at: int
    ip: str
    api_id: int
    device_model: str
    system_version: str
    app_version: str
    layer: int
    asked_pts: int | None
    """Up to where it had the log of its account when it last asked for updates; it was pushed more since."""
    asked_at: int | None


@dataclass(frozen=True, slots=True)
class Footprint:
    """How much an account has."""

    dialogs: int
    messages: int
    last_pts: int
    """The highest committed one, behind a hole or not."""
    owed_pushes: int
    failed_pushes: int


class OperationsStore:
    """Reads over all accounts."""

    def __init__(self, pool: Pool, redis: Redis) -> None:
        self._pool = pool
        self._redis = redis

    async def devices(
        self, user_id: int | None = None, hash: int | None = None, limit: int = 100
    ) -> list[Device]:
        """Returns the devices logged in, of all accounts or one, the most recently active first.

        Raises:
            Unavailable: PostgreSQL is away.
        """
        rows = await self._pool.fetch(SQL_DEVICES, user_id, hash, limit)
        keys = [row["auth_key_id"] for row in rows]
        layers = {row["auth_key_id"]: row["layer"] for row in await self._pool.fetch(SQL_LAYERS, keys)}
        asked = {
            (row["user_id"], row["auth_key_id"]): (row["pts"], row["date"])
            for row in await self._pool.fetch(SQL_ASKED, keys)
        }
        devices = []
        for row in rows:
            pts, date = asked.get((row["user_id"], row["auth_key_id"]), (None, None))
            layer = layers.get(row["auth_key_id"], 0)
            devices.append(Device(**row, layer=layer, asked_pts=pts, asked_at=date))
        return devices

    async def accounts(self, *, after: int, text: str, limit: int) -> list[User]:
        """Returns accounts by rising id, from above *after*, that have *text* in a name or phone number.

        Raises:
            Unavailable: PostgreSQL is away.
        """
        pattern = text.lower().replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
        rows = await self._pool.fetch(SQL_ACCOUNTS, after, pattern, limit)
        return [user_from_row(row) for row in rows]

    async def footprint(self, user_id: int) -> Footprint:
        """Returns how much the account has.

        Raises:
            Unavailable: PostgreSQL is away.
        """
        row = await self._pool.fetchrow(SQL_FOOTPRINT, user_id, bucket_of(user_id))
        assert row is not None
        return Footprint(**row)

    async def tell_logged_out(self, auth_key_ids: Collection[int]) -> None:
        """Tells the running processes that keys were logged out.

        The log-out itself is in PostgreSQL before. A process drops what it kept of these keys, and their
        sessions get nothing of the account any more.

        Raises:
            Unavailable: Redis is away.
        """
        message = json.dumps({"kind": "log_out", "auth_key_ids": sorted(auth_key_ids)})
        channel = self._redis.key(CONTROL)
        await self._redis.call(lambda: self._redis.client.publish(channel, message))
