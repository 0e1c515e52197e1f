"""Counts of calls: cheap, bounded, and written in batches."""

from __future__ import annotations

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.users import MethodCalls
from telesrv.store import Store, StoreConfig
from telesrv.store import compat as compat_module


async def test_counts_add_up_over_flushes(store: Store, clock: FakeClock) -> None:
    first = int(clock.time())
    for _ in range(3):
        store.compat.record("help.getConfig", 158, "pyrogram")
    store.compat.record("0x12345678", None, "")
    assert await store.compat.table() == []
    await store.compat.flush()
    clock.advance(10)
    store.compat.record("help.getConfig", 158, "pyrogram")
    await store.compat.flush()
    await store.compat.flush()
    assert await store.compat.table() == [
        MethodCalls("help.getConfig", 158, "pyrogram", 4, first + 10),
        MethodCalls("0x12345678", 0, "", 1, first),
    ]
    assert len(await store.compat.table(limit=1)) == 1


async def test_closing_writes_what_is_held(store: Store, store_config: StoreConfig) -> None:
    other = await Store.open(store_config)
    other.compat.record("messages.sendMessage", 229, "telethon")
    await other.close()
    assert [row.count for row in await store.compat.table()] == [1]


async def test_inventive_callers_make_a_bounded_number_of_rows(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compat_module, "MAX_KEYS", 3)
    for n in range(10):
        store.compat.record("m", n, f"client\0\ud800 {n}" + "x" * 200)
    await store.compat.flush()
    for n in range(10):
        store.compat.record("m", n, f"client\0\ud800 {n}" + "x" * 200)
    await store.compat.flush()
    rows = await store.compat.table()
    assert len(rows) == 4
    assert rows[0].method == "other"
    assert rows[0].count == 14
    assert all(len(row.client) <= 64 for row in rows)
