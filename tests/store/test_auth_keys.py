"""Auth keys: never replaced, bound once, read once however many ask."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from telesrv.domain.users import AuthKeyRecord, ClientInfo
from telesrv.store import Store, StoreConfig
from telesrv.store.auth_keys import PURGE_GRACE_S, SQL_GET

PERM = AuthKeyRecord(auth_key_id=-3, data=bytes(range(256)), created_at=100, expires_at=None, dc_id=2)
TEMP = replace(PERM, auth_key_id=4, expires_at=5_000)
CLIENT = ClientInfo(1, "Phone", "13", "1.0", "en-US", "en")


async def test_a_key_is_kept_as_it_was_made(store: Store, store_config: StoreConfig) -> None:
    assert await store.auth_keys.save(PERM)
    assert await store.auth_keys.get(-3) == PERM
    assert await store.auth_keys.get(999) is None
    other = await Store.open(store_config)
    assert await other.auth_keys.get(-3) == PERM
    await other.close()


async def test_a_taken_id_is_refused(store: Store) -> None:
    assert await store.auth_keys.save(PERM)
    assert not await store.auth_keys.save(replace(PERM, data=b"\1" * 256))
    assert await store.auth_keys.get(-3) == PERM


async def test_concurrent_saves_of_one_id_store_one(store: Store) -> None:
    records = [replace(PERM, data=bytes([n]) * 256) for n in range(6)]
    outcomes = await asyncio.gather(*(store.auth_keys.save(record) for record in records))
    assert outcomes.count(True) == 1
    assert await store.auth_keys.get(-3) == records[outcomes.index(True)]


async def test_concurrent_misses_are_one_read(store: Store, store_config: StoreConfig) -> None:
    await store.auth_keys.save(PERM)
    reader = await Store.open(store_config)
    reads: list[str] = []
    fetchrow = reader.pool.fetchrow

    async def counting(sql: str, *args: object) -> object:
        reads.append(sql)
        return await fetchrow(sql, *args)

    reader.pool.fetchrow = counting  # type: ignore[method-assign]
    assert await asyncio.gather(*(reader.auth_keys.get(-3) for _ in range(50))) == [PERM] * 50
    assert await reader.auth_keys.get(-3) == PERM
    assert reads == [SQL_GET]
    await reader.close()


async def test_a_temporary_key_is_bound_to_one_permanent_key(store: Store) -> None:
    await store.auth_keys.save(PERM)
    await store.auth_keys.save(replace(PERM, auth_key_id=-8))
    await store.auth_keys.save(TEMP)
    assert await store.auth_keys.bind(4, -3, 4_000)
    bound = await store.auth_keys.get(4)
    assert bound == replace(TEMP, perm_auth_key_id=-3, expires_at=4_000)
    assert await store.auth_keys.bind(4, -3, 9_000)
    assert await store.auth_keys.get(4) == bound
    assert not await store.auth_keys.bind(4, -8, 4_000)
    assert await store.auth_keys.get(4) == bound


async def test_what_may_not_be_bound(store: Store) -> None:
    await store.auth_keys.save(PERM)
    await store.auth_keys.save(TEMP)
    await store.auth_keys.save(replace(TEMP, auth_key_id=5))
    assert not await store.auth_keys.bind(77, -3, 4_000)
    assert not await store.auth_keys.bind(4, 77, 4_000)
    assert not await store.auth_keys.bind(4, 5, 4_000)
    assert not await store.auth_keys.bind(-3, -3, 4_000)
    assert await store.auth_keys.get(4) == TEMP


async def test_the_layer_is_written_when_it_changes(store: Store) -> None:
    await store.auth_keys.save(PERM)
    await store.auth_keys.set_layer(-3, 158, CLIENT)
    assert await store.auth_keys.get(-3) == replace(PERM, layer=158, client=CLIENT)
    await store.pool.execute("UPDATE auth_keys SET layer = 1")
    await store.auth_keys.set_layer(-3, 158, CLIENT)
    assert await store.pool.fetchval("SELECT layer FROM auth_keys") == 1, "the same again is not written"
    await store.auth_keys.set_layer(-3, 229, CLIENT)
    assert await store.pool.fetchval("SELECT layer FROM auth_keys") == 229
    await store.auth_keys.set_layer(12345, 229, CLIENT)


async def test_a_deleted_key_is_gone(store: Store) -> None:
    await store.auth_keys.save(PERM)
    assert await store.auth_keys.delete(-3)
    assert await store.auth_keys.get(-3) is None
    assert not await store.auth_keys.delete(-3)
    assert await store.auth_keys.save(PERM)


async def test_expired_keys_are_purged_after_a_day(store: Store) -> None:
    await store.auth_keys.save(PERM)
    await store.auth_keys.save(TEMP)
    assert await store.auth_keys.purge_expired(5_000 + PURGE_GRACE_S) == 0
    assert await store.auth_keys.get(4) == TEMP
    assert await store.auth_keys.purge_expired(5_001 + PURGE_GRACE_S) == 1
    assert await store.auth_keys.get(4) is None
    assert await store.auth_keys.get(-3) == PERM
