"""Accounts that go offline, are idle for too long, or whose deletion was left half done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from telesrv.domain.updates import EventKind
from telesrv.outbox.accounts import GRACE_S, IDLE_EVERY_S, SETTLE_S, AccountKeeper
from telesrv.tl import functions, types
from tests.rpc.chats import Server, running


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


class Links:
    """Which accounts are linked to this process and which to others."""

    def __init__(self) -> None:
        self.here: set[int] = set()
        self.held_here: set[int] = set()
        self.elsewhere: dict[int, set[int]] = {}

    async def held(self, user_ids: Sequence[int]) -> dict[int, set[int]]:
        return {user_id: nodes for user_id, nodes in self.elsewhere.items() if user_id in user_ids}


def keeper_of(server: Server, links: Links, node: int = 1) -> AccountKeeper:
    return AccountKeeper(
        server.store,
        server.sessions,
        server.clock,
        held=lambda: links.here | links.held_here,
        linked=lambda: set(links.here),
        elsewhere=links.held,
        node=node,
    )


async def test_who_leaves_without_a_word_is_offline_soon(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await ada.send(bob)
    await ada.call(functions.account.UpdateStatus(offline=False))
    links = Links()
    keeper = keeper_of(server, links)
    links.here = {ada.user_id, bob.user_id}
    await keeper.look()
    server.sessions.transient.clear()
    links.here = {bob.user_id}
    await keeper.look()
    server.clock.advance(GRACE_S / 2)
    links.here = {ada.user_id, bob.user_id}
    await keeper.look()
    server.clock.advance(GRACE_S)
    await keeper.look()
    assert server.sessions.transient == [], "it was back in time"
    links.here = set()
    await keeper.look()
    left_at = int(server.clock.time())
    server.clock.advance(GRACE_S)
    await keeper.look()
    status = types.UserStatusOffline(was_online=left_at)
    assert server.sessions.transient == [
        (bob.user_id, types.UpdateUserStatus(user_id=ada.user_id, status=status))
    ]


async def test_a_session_that_was_hardly_ever_linked_does_not_keep_one_online(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await ada.send(bob)
    await ada.call(functions.account.UpdateStatus(offline=False))
    server.sessions.transient.clear()
    one, two = Links(), Links()
    keepers = [keeper_of(server, one, 1), keeper_of(server, two, 2)]
    one.elsewhere, two.elsewhere = {ada.user_id: {2}}, {ada.user_id: {1}}
    one.held_here = two.held_here = {ada.user_id}
    for seconds in (0, GRACE_S, GRACE_S):
        server.clock.advance(seconds)
        for keeper in keepers:
            await keeper.look()
    assert [user_id for user_id, _ in server.sessions.transient] == [bob.user_id]


async def test_who_is_linked_elsewhere_stays_online_until_gone_there_too(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await ada.send(bob)
    await ada.call(functions.account.UpdateStatus(offline=False))
    one, two = Links(), Links()
    keepers = [keeper_of(server, one, 1), keeper_of(server, two, 2)]
    one.elsewhere, two.elsewhere = {ada.user_id: {2}}, {ada.user_id: {1}}

    async def pass_by(here: bool, there: bool) -> list[tuple[int, object]]:
        one.here, two.here = {ada.user_id} if here else set(), {ada.user_id} if there else set()
        for seconds in (0, GRACE_S):
            server.clock.advance(seconds)
            for keeper in keepers:
                await keeper.look()
        told = list(server.sessions.transient)
        server.sessions.transient.clear()
        return told

    await pass_by(here=True, there=True)
    assert await pass_by(here=False, there=True) == []
    assert await pass_by(here=True, there=True) == []
    assert await pass_by(here=True, there=False) == []
    assert [user_id for user_id, _ in await pass_by(here=False, there=False)] == [bob.user_id]


async def test_a_deletion_that_was_left_goes_on(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await ada.send(bob)
    before = await bob.pts()
    await server.store.deletion.begin(ada.user_id)
    keeper = keeper_of(server, Links())
    await keeper.look()
    assert await bob.pts() == before, "its process may still be at it"
    server.clock.advance(SETTLE_S)
    await keeper.look()
    await keeper.look()
    [event] = (await server.store.updates.difference(bob.user_id, before, 100)).events
    assert event.kind is EventKind.ACCOUNT_DELETED


async def test_a_deletion_goes_on_at_once_when_its_process_has_died(server: Server) -> None:
    """The others are told; what the account owned goes no sooner than ever."""
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await ada.send(bob)
    before, store = await bob.pts(), server.store
    store.ids.message_ids.hold(lease := await store.nodes.acquire())
    await store.deletion.begin(ada.user_id)
    keeper = keeper_of(server, Links())
    await keeper.look()
    assert await bob.pts() == before
    await store.nodes.bury(lease.node, lease.holder)
    await keeper.look()
    await keeper.look()
    [event] = (await store.updates.difference(bob.user_id, before, 100)).events
    assert event.kind is EventKind.ACCOUNT_DELETED
    count = "SELECT count(*) FROM message_boxes WHERE owner_user_id = $1"
    assert await store.pool.fetchval(count, ada.user_id) == 1
    server.clock.advance(SETTLE_S)
    await keeper.look()
    assert await store.pool.fetchval(count, ada.user_id) == 0


async def test_an_account_that_nobody_uses_is_deleted_by_one_process(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await ada.call(functions.account.SetAccountTTL(ttl=types.AccountDaysTTL(days=30)))
    keepers = [keeper_of(server, Links()) for _ in range(2)]
    server.clock.advance(31 * 86_400 + IDLE_EVERY_S)
    for keeper in keepers:
        await keeper.look()
    users = [await server.store.users.get(device.user_id) for device in (ada, bob)]
    assert [user is not None and user.deleted for user in users] == [True, False]
