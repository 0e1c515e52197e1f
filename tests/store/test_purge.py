"""What goes with a deleted account, and what stays with those who knew it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from telesrv.domain.scheduled import WHEN_ONLINE
from telesrv.domain.updates import OUTBOX_BUCKETS, EventKind
from telesrv.outbox.accounts import PURGED_AT_ONCE, SETTLE_S
from telesrv.store import Store
from telesrv.store.purge import KEPT, OWNED, purge_statement
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Server, running, whole_history
from tests.rpc.test_keeper import Links, keeper_of

NAMES_ACCOUNTS = re.compile(r"\b(\w*user_id|auth_key_id)\b")


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


def test_every_table_that_names_accounts_is_purged_or_kept_for_a_reason() -> None:
    migrations = Path(__file__).parents[2] / "migrations"
    tables = {
        name
        for path in migrations.glob("*.sql")
        for name, body in re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", path.read_text("utf-8"), re.DOTALL)
        if NAMES_ACCOUNTS.search(body)
    }
    assert tables == OWNED.keys() | KEPT.keys()


async def test_a_statement_is_by_index_and_in_one_partition(store: Store) -> None:
    for table, (first, *_) in OWNED.items():
        bucket = [5] if first == "bucket" else []
        async with store.pool.transaction() as connection:
            await connection.execute("SET LOCAL enable_seqscan = off")
            rows = await connection.fetch("EXPLAIN " + purge_statement(table), 7, 10, *bucket)
        text = "\n".join(row[0] for row in rows)
        assert "Seq Scan" not in text, (table, text)
        assert len(set(re.findall(rf"\b{table}_p\d\d\b", text))) <= 1, (table, text)


def named(device: Device, other: Device) -> types.InputUser:
    peer = device.peer(other)
    return types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)


async def live(server: Server, ada: Device, others: list[Device]) -> None:
    """Has an account use everything there is."""
    f, t = functions, types
    later = int(server.clock.time()) + 1_000
    for other in others:
        there = ada.peer(other)
        for number in range(4):
            await ada.send(other, f"to you {number}")
            await other.send(ada, f"to Ada {number}")
        await ada.send(other, "later", schedule_date=later)
        await ada.call(f.messages.SaveDraft(peer=there, message="never sent"))
        await ada.call(f.contacts.AddContact(id=named(ada, other), first_name="X", last_name="", phone=""))
        settings = t.InputPeerNotifySettings(silent=True)
        await ada.call(f.account.UpdateNotifySettings(peer=t.InputNotifyPeer(peer=there), settings=settings))
        await ada.call(f.messages.SetHistoryTTL(peer=there, period=86_400))
        unknown = t.InputPhoneContact(
            client_id=1, phone=f"1777{other.user_id}"[:12], first_name="N", last_name=""
        )
        await ada.call(f.contacts.ImportContacts(contacts=[unknown]))
        await ada.call(f.contacts.ResetTopPeerRating(category=t.TopPeerCategoryCorrespondents(), peer=there))
    await ada.call(f.account.UpdateStatus(offline=True))
    for other in others:
        await other.send(ada, "when you come", schedule_date=WHEN_ONLINE)
    await ada.call(f.messages.SetDefaultHistoryTTL(period=86_400))
    await ada.call(f.contacts.Block(id=ada.peer(others[0])))
    rule: list[Any] = [t.InputPrivacyValueAllowAll()]
    await ada.call(f.account.SetPrivacy(key=t.InputPrivacyKeyPhoneNumber(), rules=rule))
    title = t.TextWithEntities(text="mine", entities=[])
    some: list[Any] = [ada.peer(others[0])]
    shown = t.DialogFilter(id=2, title=title, pinned_peers=[], include_peers=some, exclude_peers=[])
    await ada.call(f.messages.UpdateDialogFilter(id=2, filter=shown))
    await server.store.search.index_due()
    await server.store.updates.sweep()
    await server.store.outbox.claim(range(OUTBOX_BUCKETS))


async def rows(store: Store, table: str) -> dict[int, int]:
    """Returns how many rows each account owns in a table."""
    key = OWNED[table]
    owner = key[key[0] == "bucket"]
    counted = await store.pool.fetch(f"SELECT {owner}, count(*) FROM {table} GROUP BY {owner}")
    return {row[0]: row[1] for row in counted}


async def owned(store: Store, user_id: int) -> dict[str, int]:
    """Returns how many rows the account owns, by table; only those in which it has some."""
    found = {table: (await rows(store, table)).get(user_id, 0) for table in OWNED}
    return {table: number for table, number in found.items() if number}


async def events(store: Store, user_id: int) -> list[tuple[int, int, int]]:
    """Returns pts, pts_count and kind of the account's log."""
    found = await store.pool.fetch(
        "SELECT pts, pts_count, kind FROM user_update_events WHERE user_id = $1 ORDER BY pts", user_id
    )
    return [tuple(row) for row in found]


async def unfinished(store: Store) -> list[int]:
    """Returns the deletions that are not at their end."""
    return [row["user_id"] for row in await store.pool.fetch("SELECT user_id FROM account_deletions")]


async def tell_all(store: Store, user_id: int) -> None:
    while await store.deletion.step(user_id):
        pass


async def test_everything_of_it_goes_in_bounded_batches_and_nothing_of_others(server: Server) -> None:
    ada, bob, cid = [await server.account(name) for name in ("Ada", "Bob", "Cid")]
    await live(server, ada, [bob, cid])
    store, gone = server.store, ada.user_id
    lived = await owned(store, gone)
    never = {"dispatch_outbox_failed", "update_marks"}  # a failure, and a long log
    assert lived.keys() | never >= OWNED.keys() - {"search_segments", "search_marks"}, "it used everything"
    await ada.call(functions.account.DeleteAccount(reason=""))
    histories = [await whole_history(device, ada) for device in (bob, cid)]
    before = {table: await rows(store, table) for table in OWNED}
    left = await owned(store, gone)
    log = await events(store, gone)
    assert left["message_boxes"] >= 16
    while await store.purge.step(gone, batch=3):
        now = await owned(store, gone)
        assert 0 <= sum(left.values()) - sum(now.values()) <= 3
        left = now
    assert left == {}
    head = log[-1][0]
    assert await events(store, gone) == [(head, head, EventKind.NOOP)]
    assert await store.gaps.find(gone) == (1, [])
    assert await unfinished(store) == []
    after = {table: await rows(store, table) for table in OWNED}
    for table in OWNED:
        before[table].pop(gone, None)
        assert after[table] == before[table], table
    assert [await whole_history(device, ada) for device in (bob, cid)] == histories
    [shown] = await bob.call(functions.users.GetUsers(id=[named(bob, ada)]))
    assert shown.deleted


async def test_others_may_still_read_delete_and_leave_their_chat_with_it(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await ada.send(bob, "hello")
    await bob.send(ada, "hello back")
    await ada.send(bob, "unread")
    await ada.call(functions.account.DeleteAccount(reason=""))
    while await server.store.purge.step(ada.user_id):
        pass
    assert (await bob.read(ada)).pts_count == 1
    history = await whole_history(bob, ada)
    assert [message.message for message in history] == ["unread", "hello back", "hello"]
    await bob.call(functions.messages.DeleteMessages(id=[history[0].id], revoke=True))
    await bob.call(functions.messages.DeleteHistory(peer=bob.peer(ada), max_id=0, revoke=True))
    assert await whole_history(bob, ada) == []
    await server.pushes(bob.user_id)
    assert await owned(server.store, ada.user_id) == {}, "nothing waits for what is gone"
    assert await server.store.gaps.find(ada.user_id) == (1, [])


async def test_what_it_would_have_sent_later_is_not_sent(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await ada.send(bob, "later", schedule_date=int(server.clock.time()) + 100)
    await ada.call(functions.account.DeleteAccount(reason=""))
    server.clock.advance(1_000)
    assert await server.store.due.dispatch() == 0
    assert await whole_history(bob, ada) == []


@pytest.mark.leaves_holes
async def test_a_hole_in_the_log_is_waited_for(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    for _ in range(4):
        await bob.send(ada)
    await ada.call(functions.account.DeleteAccount(reason=""))
    await server.store.pool.execute("DELETE FROM user_update_events WHERE pts = 3")
    while await server.store.purge.step(ada.user_id):
        pass
    assert await unfinished(server.store) == [ada.user_id], "not at its end"
    _, gaps = await server.store.gaps.find(ada.user_id)
    assert await server.store.gaps.fill(gaps) == 1
    while await server.store.purge.step(ada.user_id):
        pass
    assert await events(server.store, ada.user_id) == [(5, 5, EventKind.NOOP)]
    assert await unfinished(server.store) == []


async def test_several_at_once_leave_nothing(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await live(server, ada, [bob])
    await ada.call(functions.account.DeleteAccount(reason=""))

    async def purge() -> None:
        while await server.store.purge.step(ada.user_id, batch=2):
            pass

    await asyncio.gather(*(purge() for _ in range(4)))
    assert await owned(server.store, ada.user_id) == {}
    assert await unfinished(server.store) == []


async def test_what_a_dead_process_left_is_gone_on_with(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await live(server, ada, [bob])
    store, gone = server.store, ada.user_id
    before = await bob.pts()
    await store.deletion.begin(gone)
    keeper = keeper_of(server, Links())
    await keeper.look()
    assert (await owned(store, gone))["message_boxes"], "what is under way may still be written"
    server.clock.advance(SETTLE_S)
    for _ in range(3):
        await tell_all(store, gone)
    assert await store.purge.step(gone, batch=1)  # and that process dies
    await keeper.look()
    assert len(OWNED) < PURGED_AT_ONCE
    assert await owned(store, gone) == {}
    assert await unfinished(store) == []
    told = (await store.updates.difference(bob.user_id, before)).events
    assert [event.kind for event in told].count(EventKind.ACCOUNT_DELETED) == 1
