"""What a deleted account owned goes for good: its copies of messages, its log, its chats and settings.

Guarantees: a transaction deletes a bounded number of rows of one table, by the key that leads with the owner;
batches of one account follow each other, whoever asks for them, and what a dead process left is gone on with.
The row in `users` stays, since others have messages of the account, and so does everything that is theirs.
Of the log one noop stays, which covers every pts of it: what others do with their chats may still add to it,
and must not find a hole below.

*Spec: account.deleteAccount*
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telesrv.clock import Clock
from telesrv.domain.updates import bucket_of
from telesrv.store.pool import Connection, Pool, Record
from telesrv.store.saved_contacts import drop_some

BATCH: Final = 1_000
"""How many rows one transaction deletes: a few hundredths of a second."""

# Has batches of one account follow each other.
SQL_LOCK_DELETION: Final = """
SELECT user_id FROM account_deletions WHERE user_id = $1 FOR UPDATE
"""
# Notes that nothing is left of an account.
SQL_END: Final = """
DELETE FROM account_deletions WHERE user_id = $1
"""
# Deletes the first rows, by key, that an account owns in a table.
SQL_PURGE: Final = """
WITH batch AS (SELECT {key} FROM {table} WHERE {owned} ORDER BY {key} LIMIT $2)
DELETE FROM {table} WHERE {owned} AND ({key}) <= (SELECT {key} FROM batch ORDER BY {key_desc} LIMIT 1)
"""
# Reads the first events of an account.
SQL_FIRST_EVENTS: Final = """
SELECT pts, pts_count FROM user_update_events WHERE user_id = $1 ORDER BY pts LIMIT $2
"""
# Deletes the events of an account up to one.
SQL_DROP_EVENTS: Final = """
DELETE FROM user_update_events WHERE user_id = $1 AND pts <= $2
"""
# Puts a noop in place of all events up to a pts.
SQL_COVER: Final = """
INSERT INTO user_update_events (user_id, pts, pts_count, kind, date) VALUES ($1, $2, $2, 0, $3)
ON CONFLICT (user_id, pts) DO NOTHING
"""

_PEER: Final = ("peer_type", "peer_id")
OWNED: Final[dict[str, tuple[str, ...]]] = {
    "scheduled_messages": ("bucket", "owner_user_id", "scheduled_id"),
    "online_waits": ("bucket", "user_id", "owner_user_id"),
    "dispatch_outbox": ("bucket", "target_user_id", "pts"),
    "dispatch_outbox_failed": ("bucket", "target_user_id", "pts"),
    "private_messages": ("sender_user_id", "random_id"),
    "message_boxes": ("owner_user_id", "box_id"),
    "search_segments": ("owner_user_id", "segment"),
    "search_marks": ("owner_user_id",),
    "dialogs": ("owner_user_id", *_PEER),
    "dialog_drafts": ("owner_user_id", *_PEER),
    "dialog_filters": ("owner_user_id", "filter_id"),
    "dialog_settings": ("owner_user_id",),
    "top_peer_resets": ("owner_user_id", *_PEER),
    "history_ttl": ("bucket", "owner_user_id", *_PEER),
    "default_history_ttl": ("owner_user_id",),
    "saved_contacts": ("owner_user_id", "phone"),
    "contacts": ("owner_user_id", "contact_user_id"),
    "contact_blocks": ("owner_user_id", *_PEER),
    "notify_settings": ("owner_user_id", "scope", *_PEER),
    "privacy_rules": ("user_id", "key"),
    "update_marks": ("user_id",),
}
"""The tables whose rows an account owns, and their primary keys: a bucket, the owner, and what tells the
owner's rows apart."""
KEPT: Final = {
    "user_update_events": "made one noop",
    "users": "the row says that the account is deleted",
    "phone_numbers": "freed when the account was deleted",
    "usernames": "freed when the account was deleted",
    "auth_keys": "a device may log in to another account",
    "auth_key_users": "logged out when the account was deleted",
    "authorizations": "logged out when the account was deleted",
    "update_states": "logged out when the account was deleted",
    "account_deletions": "says what is still to be done",
    "saved_phones": "goes with saved_contacts",
    "sign_ups": "ends by itself when the account is gone",
}
"""The other tables that name accounts, and why nothing is purged from them."""


def purge_statement(table: str) -> str:
    """Returns what deletes a batch of a table of `OWNED`; $1 is the account, $2 the number, $3 its bucket."""
    bucketed = OWNED[table][0] == "bucket"
    owner, *rest = OWNED[table][bucketed:]
    key = rest or [owner]
    return SQL_PURGE.format(
        table=table,
        owned=f"{owner} = $1" + (" AND bucket = $3" if bucketed else ""),
        key=", ".join(key),
        key_desc=", ".join(f"{name} DESC" for name in key),
    )


_STATEMENTS: Final = {table: purge_statement(table) for table in OWNED}


class PurgeStore:
    """Deletes what deleted accounts owned."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    async def step(self, user_id: int, batch: int = BATCH) -> bool:
        """Deletes a batch of what the account owned; returns whether there may be more.

        To be called when everybody was told of the deletion, and some time after it: what was under way then
        has been written.

        Raises:
            Unavailable: PostgreSQL is away; the next call goes on.
        """
        async with self._pool.transaction() as conn:
            if await conn.fetchval(SQL_LOCK_DELETION, user_id) is None:
                return False
            if await drop_some(conn, user_id, batch):
                return True
            for table in OWNED:
                if await self._delete(conn, table, user_id, batch):
                    return True
            first = await conn.fetch(SQL_FIRST_EVENTS, user_id, batch + 1)
            if len(first) > 1:
                return await self._cover(conn, user_id, first)
            await conn.execute(SQL_END, user_id)
        return False

    async def _cover(self, conn: Connection, user_id: int, first: Sequence[Record]) -> bool:
        """Makes one noop of the first events; False at a hole, which is filled in seconds."""
        reached = covered = 0
        for row in first:
            if row["pts"] - row["pts_count"] > reached:
                break
            reached, covered = row["pts"], covered + 1
        if covered < 2:
            return False
        await conn.execute(SQL_DROP_EVENTS, user_id, reached)
        await conn.execute(SQL_COVER, user_id, reached, int(self._clock.time()))
        return True

    async def _delete(self, conn: Connection, table: str, user_id: int, batch: int) -> int:
        bucket = [bucket_of(user_id)] if OWNED[table][0] == "bucket" else []
        done = await conn.execute(_STATEMENTS[table], user_id, batch, *bucket)
        return int(done.split()[-1])
