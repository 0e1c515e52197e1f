"""Presence: Redis first, PostgreSQL when Redis has lost it."""

from __future__ import annotations

from telesrv.clock import FakeClock
from telesrv.domain.users import Presence
from telesrv.store import Store
from telesrv.store.presence import ACTIVE_EVERY_S, ACTIVE_S, PERSIST_EVERY_S


async def ann(store: Store) -> int:
    return (await store.accounts.sign_up("15550001", "Ann")).user_id


async def persisted(store: Store, user_id: int) -> int:
    user = await store.users.get(user_id)
    assert user is not None
    return user.last_seen_at


async def lose_redis(store: Store) -> None:
    async for key in store.redis.client.scan_iter(match=store.redis.key("*")):
        await store.redis.client.unlink(key)


async def test_online_until_then_last_seen_then(store: Store, clock: FakeClock) -> None:
    user_id = await ann(store)
    now = int(clock.time())
    assert await store.presence.get([user_id]) == {user_id: Presence()}
    await store.presence.set_online(user_id, now + 60)
    await store.presence.set_online(user_id, now + 30)
    assert await store.presence.get([user_id, user_id, 5]) == {user_id: Presence(online_until=now + 60)}
    clock.advance(60)
    assert await store.presence.get([user_id]) == {user_id: Presence(last_seen_at=now + 60)}


async def test_who_is_active_is_online_for_a_minute_and_noted_seldom(store: Store, clock: FakeClock) -> None:
    user_id = await ann(store)
    start = int(clock.time())
    assert [await store.presence.active(user_id) for _ in range(3)] == [True, False, False]
    assert await store.presence.get([user_id]) == {user_id: Presence(online_until=start + ACTIVE_S)}
    clock.advance(ACTIVE_EVERY_S)
    assert await store.presence.active(user_id)
    clock.advance(ACTIVE_S)
    seen_at = start + ACTIVE_EVERY_S + ACTIVE_S
    assert await store.presence.get([user_id]) == {user_id: Presence(last_seen_at=seen_at)}
    await store.presence.set_online(user_id, seen_at + 300)
    assert not await store.presence.active(user_id), "a client has reported more"
    assert await store.presence.get([user_id]) == {user_id: Presence(online_until=seen_at + 300)}
    await store.presence.set_offline(user_id, seen_at)
    assert await store.presence.active(user_id), "going offline does not last when something is sent"


async def test_going_offline_is_at_once_and_lasts(store: Store, clock: FakeClock) -> None:
    user_id = await ann(store)
    now = int(clock.time())
    await store.presence.set_online(user_id, now + 300)
    clock.advance(10)
    await store.presence.set_offline(user_id, now + 10)
    assert await store.presence.get([user_id]) == {user_id: Presence(last_seen_at=now + 10)}
    await lose_redis(store)
    assert await store.presence.get([user_id]) == {user_id: Presence(last_seen_at=now + 10)}


async def test_being_online_is_persisted_every_five_minutes(store: Store, clock: FakeClock) -> None:
    user_id = await ann(store)
    start = int(clock.time())
    await store.presence.set_online(user_id, start + 60)
    assert await persisted(store, user_id) == start
    clock.advance(PERSIST_EVERY_S - 1)
    await store.presence.set_online(user_id, start + 400)
    assert await persisted(store, user_id) == start
    clock.advance(1)
    await store.presence.set_online(user_id, start + 400)
    assert await persisted(store, user_id) == start + PERSIST_EVERY_S


async def test_last_seen_never_goes_back(store: Store, clock: FakeClock) -> None:
    user_id = await ann(store)
    now = int(clock.time())
    await store.presence.set_offline(user_id, now)
    await store.presence.set_offline(user_id, now - 50)
    assert await persisted(store, user_id) == now


async def test_nobody_asked_for_is_nobody_found(store: Store) -> None:
    assert await store.presence.get([]) == {}
