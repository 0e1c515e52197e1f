"""Auth keys: the keys that clients made with the server, permanent and temporary.

Guarantees: a key id belongs to one key for ever (a collision is refused); a temporary key is bound to one
permanent key and never to another; a read is answered from a bounded cache and concurrent misses of one key
are one read.

*Spec: Creating an Authorization Key; Perfect Forward Secrecy*
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from telesrv.domain.users import AuthKeyRecord, ClientInfo
from telesrv.store.cache import MergedCache
from telesrv.store.pool import Pool

CACHED_KEYS: Final = 100_000
MAX_CLIENT_TEXT: Final = 128
PURGE_BATCH: Final = 1_000
PURGE_GRACE_S: Final = 86_400
"""How long an expired key is still known, so that its owner is told to make a new one."""

# Stores a new key; no row comes back when the id is taken.
SQL_SAVE: Final = """
INSERT INTO auth_keys (auth_key_id, data, created_at, first_salt, expires_at, dc_id, perm_auth_key_id, layer,
    api_id, device_model, system_version, app_version, system_lang_code, lang_code)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT DO NOTHING RETURNING auth_key_id
"""
# Reads one key.
SQL_GET: Final = """
SELECT auth_key_id, data, created_at, first_salt, expires_at, dc_id, perm_auth_key_id, layer,
    api_id, device_model, system_version, app_version, system_lang_code, lang_code
FROM auth_keys WHERE auth_key_id = $1
"""
# Binds a temporary key that is free or bound to the same permanent key already.
SQL_BIND: Final = """
UPDATE auth_keys SET perm_auth_key_id = $2, expires_at = LEAST(expires_at, $3)
WHERE auth_key_id = $1 AND expires_at IS NOT NULL AND COALESCE(perm_auth_key_id, $2) = $2
RETURNING auth_key_id
"""
# Notes the layer and the client that a key speaks for.
SQL_SET_LAYER: Final = """
UPDATE auth_keys SET layer = $2, api_id = $3, device_model = $4, system_version = $5, app_version = $6,
    system_lang_code = $7, lang_code = $8
WHERE auth_key_id = $1
"""
# Forgets one key.
SQL_DELETE: Final = """
DELETE FROM auth_keys WHERE auth_key_id = $1 RETURNING auth_key_id
"""
# Finds temporary keys that expired long ago; the only statement on keys that gives no id.
SQL_EXPIRED: Final = """
SELECT auth_key_id FROM auth_keys WHERE expires_at < $1 ORDER BY expires_at LIMIT $2
"""
# Forgets keys that expired.
SQL_PURGE: Final = """
DELETE FROM auth_keys WHERE auth_key_id = ANY($1::bigint[]) AND expires_at < $2
"""


class AuthKeyStore:
    """The keys and what is known of each."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._cache: MergedCache[int, AuthKeyRecord] = MergedCache(self._read, max_entries=CACHED_KEYS)

    async def save(self, record: AuthKeyRecord) -> bool:
        """Stores a new key; False when its id is taken, and nothing was written."""
        record = replace(record, client=cleaned_client(record.client))
        async with self._pool.acquire() as connection:
            row = await connection.fetchrow(
                SQL_SAVE,
                record.auth_key_id,
                record.data,
                record.created_at,
                record.first_salt,
                record.expires_at,
                record.dc_id,
                record.perm_auth_key_id,
                record.layer,
                *client_columns(record.client),
            )
        if row is None:
            return False
        self._cache.put(record.auth_key_id, record)
        return True

    async def get(self, auth_key_id: int) -> AuthKeyRecord | None:
        """Returns the key; None when there is none. Expired keys are returned until they are purged."""
        return await self._cache.get(auth_key_id)

    def forget(self, auth_key_id: int) -> None:
        """Has the key read anew: another process has changed it."""
        self._cache.forget(auth_key_id)

    def forget_all(self) -> None:
        """Has every key read anew."""
        self._cache.clear()

    async def bind(self, temp_auth_key_id: int, perm_auth_key_id: int, expires_at: int) -> bool:
        """Binds a temporary key to a permanent one; again is harmless.

        Args:
            expires_at: when the binding ends; the key ends then too, if it would not end sooner.
        Returns:
            False, and nothing is written, when the temporary key is unknown, permanent or bound to another
            key, or the permanent one is unknown or temporary.
        """
        perm = await self.get(perm_auth_key_id)
        if perm is None or perm.expires_at is not None:
            return False
        row = await self._pool.fetchrow(SQL_BIND, temp_auth_key_id, perm_auth_key_id, expires_at)
        self._cache.forget(temp_auth_key_id)
        return row is not None

    async def set_layer(self, perm_auth_key_id: int, layer: int, client: ClientInfo) -> None:
        """Notes what the key speaks for; writes only when it is something else than before."""
        client = cleaned_client(client)
        record = await self.get(perm_auth_key_id)
        if record is None or (record.layer == layer and record.client == client):
            return
        await self._pool.execute(SQL_SET_LAYER, perm_auth_key_id, layer, *client_columns(client))
        self._cache.forget(perm_auth_key_id)

    async def delete(self, auth_key_id: int) -> bool:
        """Forgets a key; False when there was none. Its authorization is `accounts.log_out`'s."""
        row = await self._pool.fetchrow(SQL_DELETE, auth_key_id)
        self._cache.forget(auth_key_id)
        return row is not None

    async def purge_expired(self, now: int) -> int:
        """Forgets up to 1,000 temporary keys that expired a day ago or earlier; returns how many."""
        limit = now - PURGE_GRACE_S
        ids = [row["auth_key_id"] for row in await self._pool.fetch(SQL_EXPIRED, limit, PURGE_BATCH)]
        if ids:
            await self._pool.execute(SQL_PURGE, ids, limit)
            for auth_key_id in ids:
                self._cache.forget(auth_key_id)
        return len(ids)

    async def _read(self, auth_key_id: int) -> AuthKeyRecord | None:
        row = await self._pool.fetchrow(SQL_GET, auth_key_id)
        if row is None:
            return None
        return AuthKeyRecord(
            auth_key_id=row["auth_key_id"],
            data=row["data"],
            created_at=row["created_at"],
            first_salt=row["first_salt"],
            expires_at=row["expires_at"],
            dc_id=row["dc_id"],
            perm_auth_key_id=row["perm_auth_key_id"],
            layer=row["layer"],
            client=client_from_row(row),
        )


def client_columns(client: ClientInfo) -> tuple[int, str, str, str, str, str]:
    """Returns the columns of a client in the order in which all statements give them."""
    return (
        client.api_id,
        client.device_model,
        client.system_version,
        client.app_version,
        client.system_lang_code,
        client.lang_code,
    )


def client_from_row(row: Any) -> ClientInfo:
    """Returns the client that a row with those columns speaks of."""
    return ClientInfo(
        api_id=row["api_id"],
        device_model=row["device_model"],
        system_version=row["system_version"],
        app_version=row["app_version"],
        system_lang_code=row["system_lang_code"],
        lang_code=row["lang_code"],
    )


def cleaned_client(client: ClientInfo) -> ClientInfo:
    """Returns what a client says of itself as PostgreSQL can keep it: no NUL, no lone surrogate, not long."""
    return ClientInfo(
        api_id=client.api_id,
        device_model=_text(client.device_model),
        system_version=_text(client.system_version),
        app_version=_text(client.app_version),
        system_lang_code=_text(client.system_lang_code),
        lang_code=_text(client.lang_code),
    )


def _text(value: str) -> str:
    cleaned = value[:MAX_CLIENT_TEXT].replace("\0", "")
    return cleaned.encode("utf-8", "replace").decode("utf-8")
