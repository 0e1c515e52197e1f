"""What others are told of a changed account: durably, as they may see it when it is shown, and boundedly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from telesrv.domain.errors import UsernameOccupied
from telesrv.domain.peers import SERVICE_USER_ID
from telesrv.domain.updates import EventKind
from telesrv.store import users
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Replica, Server, fresh, running, same
from tests.rpc.worlds import Pair

Act: TypeAlias = Callable[[Server, Device], Awaitable[Any]]

EVERYBODY, CONTACTS, NOBODY = (
    types.InputPrivacyValueAllowAll(),
    types.InputPrivacyValueAllowContacts(),
    types.InputPrivacyValueDisallowAll(),
)
NEW_PHONE = "15559999999"


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


def named(device: Device, other: Device) -> types.InputUser:
    peer = device.peer(other)
    return types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)


async def add(device: Device, other: Device, name: str = "X", *, share: bool = False) -> None:
    await device.call(
        functions.contacts.AddContact(
            id=named(device, other),
            first_name=name,
            last_name="",
            phone="",
            add_phone_privacy_exception=share,
        )
    )


async def rename(server: Server, ada: Device) -> None:
    await ada.call(functions.account.UpdateProfile(first_name="Augusta", last_name="King"))


async def take_username(server: Server, ada: Device) -> None:
    await ada.call(functions.account.UpdateUsername(username="lovelace"))


async def say(server: Server, ada: Device) -> None:
    await ada.call(functions.account.UpdateProfile(about="numbers"))


async def tell_birthday(server: Server, ada: Device) -> None:
    await ada.call(functions.account.UpdateBirthday(birthday=types.Birthday(day=10, month=12)))


async def change_phone(server: Server, ada: Device, phone: str = NEW_PHONE) -> None:
    await server.store.profiles.change_phone(ada.user_id, phone)


async def set_phone_rule(device: Device, rule: Any) -> None:
    key = types.InputPrivacyKeyPhoneNumber()
    await device.call(functions.account.SetPrivacy(key=key, rules=[rule]))


CHANGES = (rename, take_username, say, tell_birthday, change_phone)


async def kinds(device: Device, pts: int) -> list[EventKind]:
    found = await device.server.store.updates.difference(device.user_id, pts)
    return [event.kind for event in found.events]


async def updates(device: Device, pts: int) -> list[Any]:
    answer = await device.difference(pts)
    return [] if isinstance(answer, types.updates.DifferenceEmpty) else list(answer.other_updates)


@pytest.mark.parametrize("act", CHANGES, ids=lambda act: act.__name__)
async def test_who_is_away_is_told_once(server: Server, act: Act) -> None:
    ada, bob, cid, eve = [await server.account(name) for name in ("Ada", "Bob", "Cid", "Eve")]
    await ada.send(bob)
    await add(cid, ada)
    devices = (ada, bob, cid, eve)
    before = [await device.pts() for device in devices]
    for _ in range(2):  # the same again changes nothing
        if act is take_username and (await server.store.accounts.by_username("lovelace")) is not None:
            continue
        await act(server, ada)
    told = [await kinds(device, pts) for device, pts in zip(devices, before, strict=True)]
    kind = EventKind.PHONE_CHANGED if act is change_phone else EventKind.USER_CHANGED
    assert told == [[kind], [kind], [kind], []], "Eve has nothing to do with Ada"


@pytest.mark.parametrize("listed", [False, True])
async def test_following_comes_to_what_a_fresh_login_is_told(server: Server, listed: bool) -> None:
    pair = await Pair.of(server)
    if listed:
        await add(pair.bob, pair.ada, "Countess")
        await add(pair.ada, pair.bob)
    else:
        await pair.ada.send(pair.bob)
    await pair.check()
    for act in CHANGES:
        await act(server, pair.ada)
        await pair.check()
    assert pair.replicas["bob asked"].names[pair.ada.user_id] == (
        ("Countess", "", "lovelace") if listed else ("Augusta", "King", "lovelace")
    )
    assert pair.replicas["second asked"].names[pair.ada.user_id] == ("Augusta", "King", "lovelace")
    for way in ("pushed", "asked"):
        assert pair.replicas[f"second {way}"].phones[pair.ada.user_id] == NEW_PHONE
        assert pair.replicas[f"bob {way}"].phones[pair.ada.user_id] == (NEW_PHONE if listed else "")


async def test_it_is_shown_as_it_is_and_may_be_seen_when_it_is_shown(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await ada.send(bob)
    await set_phone_rule(ada, EVERYBODY)
    before = await bob.pts()
    await change_phone(server, ada)
    number = types.UpdateUserPhone(user_id=ada.user_id, phone=NEW_PHONE)
    assert await updates(bob, before) == [number]
    await set_phone_rule(ada, NOBODY)
    unseen = await bob.pts()
    await change_phone(server, ada, "15558888888")
    assert await updates(bob, unseen) == [], "of a number that he does not see"
    hidden = types.UpdateUserPhone(user_id=ada.user_id, phone="")
    assert await updates(bob, before) == [hidden, hidden]
    await ada.call(functions.account.UpdateProfile(first_name="Augusta"))
    await ada.call(functions.account.UpdateProfile(first_name="Adelaide"))
    shown = [update for update in await updates(bob, before) if isinstance(update, types.UpdateUserName)]
    assert [update.first_name for update in shown] == ["Adelaide", "Adelaide"]


async def test_a_rule_is_told_to_those_whose_view_it_changes(server: Server) -> None:
    ada, bob, cid = [await server.account(name) for name in ("Ada", "Bob", "Cid")]
    for device in (bob, cid):
        await ada.send(device)
    await add(ada, bob)
    places = {device.user_id: await device.pts() for device in (bob, cid)}
    await set_phone_rule(ada, EVERYBODY)
    assert await kinds(bob, places[bob.user_id]) == [], "a contact saw it before"
    assert await updates(cid, places[cid.user_id]) == [
        types.UpdateUserPhone(user_id=ada.user_id, phone=ada.user.phone)
    ]
    keys = (types.InputPrivacyKeyAbout(), types.InputPrivacyKeyForwards(), types.InputPrivacyKeyPhoneCall())
    for key in keys:
        await ada.call(functions.account.SetPrivacy(key=key, rules=[CONTACTS]))
    assert await kinds(cid, places[cid.user_id]) == [
        EventKind.PHONE_CHANGED, EventKind.USER_CHANGED, EventKind.USER_CHANGED
    ]  # fmt: skip
    assert await kinds(bob, places[bob.user_id]) == []


async def test_the_action_bars_follow_the_rules_for_the_phone_number(server: Server) -> None:
    pair = await Pair.of(server)
    await pair.ada.send(pair.bob)
    for rule in (NOBODY, EVERYBODY, CONTACTS):
        await set_phone_rule(pair.ada, rule)
        await pair.check()
    await add(pair.ada, pair.bob)
    for rule, offered in ((NOBODY, True), (EVERYBODY, False), (NOBODY, True)):
        await set_phone_rule(pair.ada, rule)
        await pair.check()
        assert pair.replicas["second pushed"].arranged.bars[pair.bob.user_id].share_contact == offered
    await pair.ada.call(functions.contacts.Block(id=pair.ada.peer(pair.bob)))
    await set_phone_rule(pair.ada, EVERYBODY)
    await pair.check()


async def test_rules_and_address_books_that_change_at_once_leave_the_bar_as_it_is(server: Server) -> None:
    pair = await Pair.of(server)
    await pair.ada.send(pair.bob)
    for number in range(6):
        await asyncio.gather(
            set_phone_rule(pair.ada, NOBODY if number % 2 else EVERYBODY),
            add(pair.ada, pair.bob, f"Bob {number}", share=number == 4),
            pair.ada.call(functions.contacts.DeleteContacts(id=[named(pair.ada, pair.bob)])),
        )
        await pair.check()


async def test_those_of_late_are_told_when_there_are_too_many(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "MAX_TOLD", 2)
    ada, *others = [await server.account(f"A{number}") for number in range(6)]
    for other in others[:4]:
        server.clock.advance(1)
        await ada.send(other)
    await add(others[4], ada)
    places = [await other.pts() for other in others]
    await rename(server, ada)
    told = [await kinds(other, pts) for other, pts in zip(others, places, strict=True)]
    assert told == [[], [], [EventKind.USER_CHANGED], [EventKind.USER_CHANGED], []]


async def test_the_other_side_of_a_chat_that_was_left_or_never_came_is_told(server: Server) -> None:
    ada, bob, cid, eve = [await server.account(name) for name in ("Ada", "Bob", "Cid", "Eve")]
    await bob.send(ada)
    await ada.call(functions.messages.DeleteHistory(peer=ada.peer(bob), max_id=0))
    for stranger in (cid, eve):
        await ada.call(functions.contacts.Block(id=ada.peer(stranger)))
    await cid.send(ada, "does not arrive")
    places = [await device.pts() for device in (bob, cid, eve)]
    await rename(server, ada)
    for stranger in (cid, eve):
        await ada.call(functions.contacts.Unblock(id=ada.peer(stranger)))
    await take_username(server, ada)
    told = [await kinds(device, pts) for device, pts in zip((bob, cid, eve), places, strict=True)]
    twice = [EventKind.USER_CHANGED] * 2
    assert told == [twice, twice, []], "Eve does not learn that Ada knows of her"


async def test_nobody_is_told_who_is_gone_or_the_service(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await ada.send(bob)
    await server.store.messages.send_service(ada.user_id, "notice", (), int(server.clock.time()))
    await bob.call(functions.account.DeleteAccount(reason=""))
    heads = "SELECT user_id, max(pts) FROM user_update_events GROUP BY user_id"
    before = dict(await server.store.pool.fetch(heads))
    await rename(server, ada)
    after = dict(await server.store.pool.fetch(heads))
    assert {user_id for user_id in after if after[user_id] != before.get(user_id)} == {ada.user_id}
    assert SERVICE_USER_ID not in after


async def test_a_change_that_fails_leaves_no_hole_and_no_word(server: Server) -> None:
    ada, bob, cid = [await server.account(name) for name in ("Ada", "Bob", "Cid")]
    for device in (ada, bob):
        await device.send(cid)
    replica = Replica(cid.user_id, await cid.pts())
    outcomes = await asyncio.gather(
        *(server.store.profiles.set_username(device.user_id, "popular") for device in (ada, bob)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, UsernameOccupied) for outcome in outcomes) == 1
    told = [kind for kind in await kinds(cid, replica.pts) if kind is not EventKind.NOOP]
    assert told == [EventKind.USER_CHANGED]
    await replica.catch_up(cid)
    head = await server.store.pool.fetchval(
        "SELECT max(pts) FROM user_update_events WHERE user_id = $1", cid.user_id
    )
    assert replica.pts == head


async def test_the_chat_with_a_deleted_account_has_no_action_bar(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await bob.send(ada)
    await bob.call(functions.contacts.Block(id=bob.peer(ada)))
    await ada.call(functions.account.DeleteAccount(reason=""))
    told, asked = await fresh(bob, [ada]), await fresh(bob, [ada])
    await server.pushes(bob.user_id)
    await bob.call(functions.contacts.Unblock(id=bob.peer(ada)))
    told.follow_pushes(await server.pushes(bob.user_id), bob)
    await asked.catch_up(bob)
    known = await fresh(bob, [ada])
    for replica in (told, asked):
        same(replica, known)
    assert known.arranged.bars == {ada.user_id: types.PeerSettings()}


async def test_a_deleted_account_is_told_of_after_its_last_change(server: Server) -> None:
    pair = await Pair.of(server)
    await add(pair.bob, pair.ada, "Countess")
    before = await pair.bob.pts()
    await rename(server, pair.ada)
    await pair.ada.call(functions.account.DeleteAccount(reason=""))
    answer = await pair.bob.difference(before)
    assert {type(update) for update in answer.other_updates} == {types.UpdateUser, types.UpdateContactsReset}
    assert [user.deleted for user in answer.users] == [True]
