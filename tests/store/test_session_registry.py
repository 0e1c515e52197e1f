"""The registry of nodes, accounts and sessions: one owner, marks that rise, nothing stale after a loss."""

from __future__ import annotations

import asyncio

from telesrv.clock import FakeClock
from telesrv.store import Store
from telesrv.store.session_registry import ALIVE_S, USER_S, Beat, Claim

KEY, SESSION = -5, 77


async def forget_all(store: Store) -> None:
    """Loses what Redis has of this store."""
    client = store.redis.client
    async for name in client.scan_iter(match=store.redis.key("*"), count=1000):
        await client.unlink(name)


async def test_a_claim_tells_what_was_known(store: Store) -> None:
    registry = store.sessions
    assert await registry.claim(1, KEY, SESSION) == Claim(None, 0)
    assert await registry.mark(1, KEY, SESSION, 400)
    assert await registry.claim(2, KEY, SESSION) == Claim(1, 400)
    assert await registry.claim(2, KEY, SESSION) == Claim(2, 400)
    assert await registry.claim(2, KEY, SESSION + 1) == Claim(None, 0)


async def test_of_those_who_claim_at_once_each_has_one_predecessor(store: Store) -> None:
    registry = store.sessions
    claims = await asyncio.gather(*(registry.claim(node, KEY, SESSION) for node in range(1, 21)))
    owners = [claim.owner for claim in claims]
    (last,) = await registry.owners([(KEY, SESSION)])
    # They form a chain: everybody but the last one is somebody's predecessor, once.
    assert sorted((*(owner or 0 for owner in owners), last or 0)) == list(range(21))


async def test_only_the_owner_marks(store: Store) -> None:
    registry = store.sessions
    await registry.claim(1, KEY, SESSION)
    assert await registry.mark(1, KEY, SESSION, 100)
    await registry.claim(2, KEY, SESSION)
    assert not await registry.mark(1, KEY, SESSION, 200)
    assert await registry.claim(3, KEY, SESSION) == Claim(2, 100)


async def test_what_is_left_is_taken_once(store: Store) -> None:
    registry = store.sessions
    await registry.claim(1, KEY, SESSION)
    assert await registry.leave_state(1, [(KEY, SESSION, 8, b"state")]) == []
    assert await registry.claim(2, KEY, SESSION) == Claim(1, 0, b"state")
    assert await registry.claim(3, KEY, SESSION) == Claim(2, 0)


async def test_nothing_is_left_of_a_session_that_another_has(store: Store) -> None:
    registry = store.sessions
    for session_id in (SESSION, SESSION + 1):
        await registry.claim(1, KEY, session_id)
    await registry.claim(2, KEY, SESSION)
    states = [(KEY, SESSION, 0, b"stale"), (KEY, SESSION + 1, 0, b"state")]
    assert await registry.leave_state(1, states) == [(KEY, SESSION)]
    assert await registry.claim(3, KEY, SESSION) == Claim(2, 0)
    assert await registry.claim(3, KEY, SESSION + 1) == Claim(1, 0, b"state")


async def test_what_is_left_carries_the_mark_also_when_redis_lost_it(store: Store) -> None:
    registry = store.sessions
    await registry.claim(1, KEY, SESSION)
    await forget_all(store)
    assert await registry.leave_state(1, [(KEY, SESSION, 300, b"state")]) == []
    assert await registry.claim(2, KEY, SESSION) == Claim(1, 300, b"state")


async def test_entries_that_were_lost_come_back_and_take_nothing_away(store: Store) -> None:
    registry = store.sessions
    await registry.claim(1, KEY, SESSION)
    await forget_all(store)
    await registry.claim(2, KEY, SESSION)
    await registry.prolong(1, [(KEY, SESSION, 50), (KEY, SESSION + 1, 60)])
    assert await registry.owners([(KEY, SESSION), (KEY, SESSION + 1), (KEY, 5)]) == [2, 1, None]
    assert await registry.claim(3, KEY, SESSION + 1) == Claim(1, 60)


async def test_a_node_lives_while_it_says_so(store: Store, clock: FakeClock) -> None:
    registry = store.sessions
    assert await registry.beat(1, "one") == (Beat.KEPT, set())
    assert await registry.beat(2, "two") == (Beat.LOST, {1})  # a registry is one node's: it was node 1's
    clock.advance(ALIVE_S + 1)
    _, others = await registry.beat(2, "two")
    assert others == set()
    assert not await registry.leave(2, "another")
    assert await registry.leave(2, "two")
    assert (await registry.beat(1, "one"))[1] == set()


async def test_a_node_sees_that_redis_lost_it(store: Store) -> None:
    registry = store.sessions
    await registry.beat(1, "one")
    assert (await registry.beat(1, "one"))[0] is Beat.KEPT
    await forget_all(store)
    assert (await registry.beat(1, "one"))[0] is Beat.LOST
    assert (await registry.beat(1, "one"))[0] is Beat.KEPT


async def test_a_node_sees_that_its_number_is_another_s(store: Store) -> None:
    registry = store.sessions
    await registry.beat(1, "one")
    await store.redis.client.set(store.redis.key("node", 1), "another")
    assert (await registry.beat(1, "one"))[0] is Beat.LOST


async def test_who_holds_sessions_of_an_account(store: Store, clock: FakeClock) -> None:
    registry = store.sessions
    await registry.enter_users(1, [7, 8])
    await registry.enter_users(2, [8])
    assert await registry.nodes_of([7, 8, 9]) == {7: {1}, 8: {1, 2}, 9: set()}
    await registry.leave_users(1, [8])
    assert await registry.nodes_of([7, 8]) == {7: {1}, 8: {2}}
    clock.advance(USER_S + 1)
    assert await registry.nodes_of([7, 8]) == {7: set(), 8: set()}
