"""Accounts: one phone one account, one username one owner, and what other devices hear of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from telesrv.clock import FakeClock
from telesrv.domain.errors import PeerInvalid, PhoneOccupied, UsernameNotModified, UsernameOccupied
from telesrv.domain.peers import SERVICE_USER_ID
from telesrv.domain.updates import EventKind
from telesrv.domain.users import Authorization, ClientInfo, User
from telesrv.store import Store

CLIENT = ClientInfo(api_id=4, device_model="Phone", system_version="1", app_version="2", lang_code="en")


async def test_sign_up_makes_one_account(store: Store, clock: FakeClock) -> None:
    made = await store.accounts.sign_up("15550001", "Ann", "Lee")
    assert made == User(made.user_id, "15550001", "Ann", "Lee", created_at=int(clock.time()))
    assert 2**30 <= made.user_id < 2**40
    assert await store.accounts.by_phone("15550001") == made
    assert await store.accounts.by_phone("15550002") is None
    assert await store.users.get(made.user_id) == made
    with pytest.raises(PhoneOccupied):
        await store.accounts.sign_up("15550001", "Bob")
    assert await store.pool.fetchval("SELECT count(*) FROM users") == 2


async def test_two_sign_ups_of_one_phone_make_one_account(store: Store) -> None:
    outcomes = await asyncio.gather(
        *(store.accounts.sign_up("15550001", f"Name {n}") for n in range(8)), return_exceptions=True
    )
    made = [outcome for outcome in outcomes if isinstance(outcome, User)]
    assert len(made) == 1
    assert all(isinstance(outcome, User | PhoneOccupied) for outcome in outcomes)
    assert await store.accounts.by_phone("15550001") == made[0]
    assert await store.pool.fetchval("SELECT count(*) FROM users") == 2
    assert await store.pool.fetchval("SELECT count(*) FROM user_update_events") == 1


async def test_a_new_log_begins_with_one_noop(store: Store) -> None:
    user = await store.accounts.sign_up("15550001", "Ann")
    assert await log(store, user.user_id) == [(1, EventKind.NOOP, None)]
    changed = await store.profiles.update(user.user_id, about="hello")
    assert changed.about == "hello"
    assert [entry[:2] for entry in await log(store, user.user_id)] == [
        (1, EventKind.NOOP),
        (2, EventKind.USER_CHANGED),
    ]


async def test_the_service_account_is_there_and_nobody_logs_in_to_it(store: Store) -> None:
    service = await store.users.get(SERVICE_USER_ID)
    assert service is not None
    assert service.phone == ""
    assert await store.accounts.by_phone("") is None


async def test_a_profile_change_is_told_to_the_sessions(store: Store) -> None:
    user = await store.accounts.sign_up("15550001", "Ann", "Lee")
    changed = await store.profiles.update(user.user_id, first_name="Anna")
    assert (changed.first_name, changed.last_name) == ("Anna", "Lee")
    assert await store.users.get(user.user_id) == changed
    assert (await log(store, user.user_id))[1:] == [(2, EventKind.USER_CHANGED, None)]


async def test_the_same_profile_again_writes_nothing(store: Store) -> None:
    user = await store.accounts.sign_up("15550001", "Ann", "Lee")
    assert await store.profiles.update(user.user_id, "Ann", "Lee", "") == user
    assert len(await log(store, user.user_id)) == 1
    with pytest.raises(PeerInvalid):
        await store.profiles.update(12345, "Ann")


async def test_a_username_has_one_owner_whatever_its_case(store: Store) -> None:
    ann = await store.accounts.sign_up("15550001", "Ann")
    bob = await store.accounts.sign_up("15550002", "Bob")
    assert await store.profiles.username_free("Annie")
    assert (await store.profiles.set_username(ann.user_id, "Annie")).username == "Annie"
    assert not await store.profiles.username_free("ANNIE")
    found = await store.accounts.by_username("@annie")
    assert found is not None
    assert found.user_id == ann.user_id
    with pytest.raises(UsernameOccupied):
        await store.profiles.set_username(bob.user_id, "aNNIE")
    with pytest.raises(UsernameNotModified):
        await store.profiles.set_username(ann.user_id, "Annie")
    assert (await store.profiles.set_username(ann.user_id, "annie")).username == "annie"
    assert (await store.profiles.set_username(ann.user_id, "annie_two")).username == "annie_two"
    assert await store.profiles.username_free("annie")
    assert (await store.profiles.set_username(bob.user_id, "annie")).username == "annie"
    assert (await store.profiles.set_username(ann.user_id, None)).username is None
    assert await store.profiles.username_free("annie_two")
    with pytest.raises(UsernameNotModified):
        await store.profiles.set_username(ann.user_id, None)
    kinds = [kind for _, kind, _ in await log(store, ann.user_id)]
    assert kinds == [EventKind.NOOP] + [EventKind.USER_CHANGED] * 4


async def test_two_takers_of_one_username(store: Store) -> None:
    users = [await store.accounts.sign_up(f"1555000{n}", f"U{n}") for n in range(6)]
    outcomes = await asyncio.gather(
        *(store.profiles.set_username(user.user_id, "popular") for user in users), return_exceptions=True
    )
    winners = [outcome for outcome in outcomes if isinstance(outcome, User)]
    assert len(winners) == 1
    assert sum(isinstance(outcome, UsernameOccupied) for outcome in outcomes) == 5
    for user in users:
        head = await store.pool.fetchval(
            "SELECT max(pts) FROM user_update_events WHERE user_id = $1", user.user_id
        )
        assert len(await log(store, user.user_id)) == head, "a pts that was taken is in the log"
        stored = await store.users.get(user.user_id)
        assert stored is not None
        assert (stored.username == "popular") == (user.user_id == winners[0].user_id)


async def test_swapping_usernames_at_once_leaves_each_name_one_owner(store: Store) -> None:
    ann = await store.accounts.sign_up("15550001", "Ann")
    await store.profiles.set_username(ann.user_id, "first_name")
    await asyncio.gather(
        store.profiles.set_username(ann.user_id, "second_name"),
        store.profiles.set_username(ann.user_id, "third_name"),
    )
    rows = await store.pool.fetch("SELECT username FROM usernames WHERE user_id = $1", ann.user_id)
    stored = await store.users.get(ann.user_id)
    assert stored is not None
    assert [row["username"] for row in rows] == [stored.username]


async def test_a_key_is_logged_in_to_one_account(store: Store, clock: FakeClock) -> None:
    ann = await store.accounts.sign_up("15550001", "Ann")
    bob = await store.accounts.sign_up("15550002", "Bob")
    assert await store.accounts.authorization(-5) is None
    made = await store.accounts.bind(-5, ann.user_id, "10.0.0.1", CLIENT)
    now = int(clock.time())
    assert made == Authorization(-5, ann.user_id, made.hash, now, now, "10.0.0.1", CLIENT)
    assert made.hash != 0
    assert await store.accounts.authorization(-5) == made
    assert await store.accounts.authorizations(ann.user_id) == [made]
    again = await store.accounts.bind(-5, bob.user_id, "10.0.0.2", CLIENT)
    assert await store.accounts.authorization(-5) == again
    assert await store.accounts.authorizations(ann.user_id) == []
    assert await store.accounts.authorizations(bob.user_id) == [again]


async def test_concurrent_log_ins_of_one_key_leave_one(store: Store) -> None:
    users = [(await store.accounts.sign_up(f"1555000{n}", "U")).user_id for n in range(5)]
    await asyncio.gather(*(store.accounts.bind(77, user_id, "", CLIENT) for user_id in users))
    devices = [device for user_id in users for device in await store.accounts.authorizations(user_id)]
    assert devices == [await store.accounts.authorization(77)]


async def test_log_out_forgets_the_device_and_keeps_the_log(store: Store) -> None:
    ann = (await store.accounts.sign_up("15550001", "Ann")).user_id
    made = await store.accounts.bind(5, ann, "", CLIENT)
    await save_state(store, 5, ann)
    assert await store.accounts.log_out(5) == made
    assert await store.accounts.log_out(5) is None
    assert await store.accounts.authorization(5) is None
    assert await store.accounts.authorizations(ann) == []
    assert await states(store) == []
    assert len(await log(store, ann)) == 1


async def test_switching_account_forgets_how_far_the_device_was(store: Store) -> None:
    ann = (await store.accounts.sign_up("15550001", "Ann")).user_id
    bob = (await store.accounts.sign_up("15550002", "Bob")).user_id
    await store.accounts.bind(5, ann, "", CLIENT)
    await save_state(store, 5, ann)
    await store.accounts.bind(5, bob, "", CLIENT)
    assert await states(store) == []


async def test_devices_are_logged_out_by_hash_or_all_but_one(store: Store, clock: FakeClock) -> None:
    ann = (await store.accounts.sign_up("15550001", "Ann")).user_id
    bob = (await store.accounts.sign_up("15550002", "Bob")).user_id
    made = []
    for key in (1, 2, 3):
        made.append(await store.accounts.bind(key, ann, "", CLIENT))
        clock.advance(1)
    other = await store.accounts.bind(4, bob, "", CLIENT)
    assert await store.accounts.authorizations(ann) == made[::-1]
    assert await store.accounts.reset(bob, made[0].hash) == []
    assert await store.accounts.reset(ann, made[0].hash) == [1]
    assert await store.accounts.authorization(1) is None
    assert await store.accounts.reset_others(ann, 3) == [2]
    assert await store.accounts.authorizations(ann) == [made[2]]
    assert await store.accounts.authorization(4) == other


async def test_touch_writes_once_a_minute(store: Store, clock: FakeClock) -> None:
    ann = (await store.accounts.sign_up("15550001", "Ann")).user_id
    await store.accounts.bind(5, ann, "a", CLIENT)
    start = int(clock.time())

    async def active() -> tuple[int, str]:
        (device,) = await store.accounts.authorizations(ann)
        return device.active_at, device.ip

    await store.accounts.touch(5, start + 30, "a", CLIENT)
    assert await active() == (start, "a")
    await store.accounts.touch(5, start + 31, "b", CLIENT)
    assert await active() == (start + 31, "b")
    await store.accounts.touch(5, start + 91, "b", CLIENT)
    assert await active() == (start + 91, "b")
    await store.accounts.touch(6, start + 91, "b", CLIENT)

    newer = replace(CLIENT, app_version="3")
    await store.accounts.touch(5, start + 92, "b", newer)
    assert [device.client for device in await store.accounts.authorizations(ann)] == [newer]


async def test_client_texts_are_stored_whatever_they_hold(store: Store) -> None:
    ann = (await store.accounts.sign_up("15550001", "Ann")).user_id
    odd = ClientInfo(device_model="a\0b\ud800" + "x" * 500)
    made = await store.accounts.bind(5, ann, "", odd)
    assert made.client.device_model.startswith("ab?x")
    assert await store.accounts.authorizations(ann) == [made]


async def log(store: Store, user_id: int) -> list[tuple[int, EventKind, object]]:
    rows = await store.pool.fetch(
        "SELECT pts, kind, payload FROM user_update_events WHERE user_id = $1 ORDER BY pts", user_id
    )
    return [(row["pts"], EventKind(row["kind"]), row["payload"]) for row in rows]


async def save_state(store: Store, auth_key_id: int, user_id: int) -> None:
    await store.pool.execute(
        "INSERT INTO update_states (auth_key_id, user_id, pts, date) VALUES ($1, $2, 1, 1)",
        auth_key_id,
        user_id,
    )


async def states(store: Store) -> list[object]:
    return await store.pool.fetch("SELECT * FROM update_states")
