"""Rows of a table are locked by key: who waits for one holds none behind it, for which others could wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import asyncpg
import pytest

from telesrv.domain.messages import SentMessage
from telesrv.domain.peers import Peer, PeerType
from telesrv.store import Store
from tests.store.world import ANNA, BORIS, CLARA, DATE, add_users, send
from tests.support.waiting import until

LOCK: Final = {
    "message_boxes": "SELECT 1 FROM message_boxes WHERE owner_user_id = $1 FOR UPDATE",
    "dialogs": "SELECT 1 FROM dialogs WHERE owner_user_id = $1 FOR UPDATE",
}
FREE: Final = {name: f"{lock} NOWAIT" for name, lock in LOCK.items()}
WAITING: Final = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
Change = Callable[[Store, SentMessage, SentMessage], Coroutine[Any, Any, None]]


async def read(store: Store, heard: SentMessage, said: SentMessage) -> None:
    await store.messages.read(BORIS, Peer.user(ANNA), 0, date=DATE)


async def edit(store: Store, heard: SentMessage, said: SentMessage) -> None:
    await store.edits.edit(BORIS, Peer.user(ANNA), said.box.box_id, "another", (), date=DATE)


async def revoke(store: Store, heard: SentMessage, said: SentMessage) -> None:
    await store.deletes.delete(BORIS, [said.box.box_id, heard.box.peer_box_id], date=DATE, revoke=True)


async def revoke_all(store: Store, heard: SentMessage, said: SentMessage) -> None:
    await store.deletes.delete_history(BORIS, Peer.user(ANNA), 0, date=DATE, revoke=True)


async def pin(store: Store, heard: SentMessage, said: SentMessage) -> None:
    await store.pinned_messages.pin(BORIS, Peer.user(ANNA), said.box.box_id, True, date=DATE)


async def answer(store: Store, heard: SentMessage, said: SentMessage) -> None:
    await send(store, BORIS, ANNA)


async def set_period(store: Store, heard: SentMessage, said: SentMessage) -> None:
    await store.ttl.set(BORIS, Peer.user(ANNA), 600, date=DATE)


CHANGES: Final[dict[str, tuple[Change, ...]]] = {
    "message_boxes": (edit, revoke, revoke_all, pin),
    "dialogs": (read, revoke, revoke_all, pin, answer, set_period),
}


@pytest.mark.parametrize(
    ("table", "change"),
    [
        pytest.param(table, change, id=f"{table}-{change.__name__}")
        for table, changes in CHANGES.items()
        for change in changes
    ],
)
async def test_the_later_side_is_not_locked_while_the_earlier_is_waited_for(
    store: Store, postgres_dsn: str, table: str, change: Change
) -> None:
    await add_users(store, ANNA, BORIS)
    said, heard = await send(store, BORIS, ANNA), await send(store, ANNA, BORIS)
    for owner, peer in ((ANNA, BORIS), (BORIS, ANNA)):
        await store.unread_marks.mark(owner, Peer.user(peer), True)
    holder, looker = await asyncpg.connect(postgres_dsn), await asyncpg.connect(postgres_dsn)
    try:
        async with holder.transaction():
            assert await holder.fetch(LOCK[table], ANNA)
            changing = asyncio.create_task(change(store, heard, said))
            await until(lambda: looker.fetchval(WAITING), "a wait for the lock")
            assert await looker.fetch(FREE[table], BORIS)  # it raises where one is locked
        await changing
    finally:
        await holder.close()
        await looker.close()


async def test_a_chat_that_begins_while_others_are_put_right_is_not_counted_anew(
    store: Store, postgres_dsn: str
) -> None:
    await add_users(store, ANNA, BORIS, CLARA)
    said = await send(store, ANNA, BORIS)
    holder, sender = await asyncpg.connect(postgres_dsn), await asyncpg.connect(postgres_dsn)
    emptied = [(BORIS, int(PeerType.USER), CLARA)]
    try:
        async with holder.transaction():
            await holder.fetch(LOCK["dialogs"], ANNA)
            erasing = asyncio.create_task(
                store.deletes.erase({ANNA: [said.box.box_id]}, date=DATE, emptied=emptied)
            )
            await until(lambda: sender.fetchval(WAITING), "a wait for the lock")
            await send(store, CLARA, BORIS)
            begun = sender.transaction()
            await begun.start()
            await sender.fetch(LOCK["dialogs"], BORIS)  # as the next message has it
        await erasing
        await begun.rollback()
    finally:
        await holder.close()
        await sender.close()
