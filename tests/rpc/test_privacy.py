"""Privacy rules: who sees what of an account, in whatever answer shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.users import DAY_S
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Replica, Server, running

EVERYBODY, CONTACTS, NOBODY = (
    [rule]
    for rule in (
        types.InputPrivacyValueAllowAll(),
        types.InputPrivacyValueAllowContacts(),
        types.InputPrivacyValueDisallowAll(),
    )
)
STATUS = types.InputPrivacyKeyStatusTimestamp()
PHONE = types.InputPrivacyKeyPhoneNumber()
FOUND = types.InputPrivacyKeyAddedByPhone()


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


def user_of(device: Device, other: Device) -> types.InputUser:
    peer = device.peer(other)
    return types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)


async def set_rules(device: Device, key: types.TypeInputPrivacyKey, rules: list[Any]) -> Any:
    return await device.call(functions.account.SetPrivacy(key=key, rules=rules))


async def seen(device: Device, other: Device) -> types.User:
    [user] = await device.call(functions.users.GetUsers(id=[user_of(device, other)]))
    assert isinstance(user, types.User)
    return user


async def full(device: Device, other: Device) -> types.UserFull:
    answer = await device.call(functions.users.GetFullUser(id=user_of(device, other)))
    assert isinstance(answer.full_user, types.UserFull)
    return answer.full_user


async def add(device: Device, other: Device, name: str = "X") -> None:
    await device.call(
        functions.contacts.AddContact(id=user_of(device, other), first_name=name, last_name="", phone="")
    )


def pushed(server: Server, to: Device) -> list[Any]:
    updates = [update for user_id, update in server.sessions.transient if user_id == to.user_id]
    server.sessions.transient.clear()
    return updates


async def test_rules_are_kept_as_they_were_set(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    default = await ada.call(functions.account.GetPrivacy(key=PHONE))
    assert default.rules == [types.PrivacyValueAllowContacts(), types.PrivacyValueDisallowAll()]
    bobs = user_of(ada, bob)
    rules = [*NOBODY, types.InputPrivacyValueAllowUsers(users=[bobs, types.InputUserSelf()])]
    answer = await set_rules(ada, PHONE, rules)
    assert answer.rules == [
        types.PrivacyValueAllowUsers(users=[bob.user_id]),
        types.PrivacyValueDisallowAll(),
    ]
    assert [user.id for user in answer.users] == [bob.user_id]
    assert await ada.call(functions.account.GetPrivacy(key=PHONE)) == answer


async def test_every_key_can_be_set_and_every_device_learns_of_it(server: Server) -> None:
    ada = await server.account("Ada")
    away = await server.device(ada.user)
    replica = Replica(ada.user_id, await ada.pts())
    stale = Replica(ada.user_id, replica.pts)
    names = [name for name in dir(types) if name.startswith("InputPrivacyKey")]
    keys = [getattr(types, name)() for name in names]
    assert len(keys) == 14
    for key in keys:
        await set_rules(ada, key, CONTACTS)
        before = await ada.pts()
        await set_rules(ada, key, CONTACTS)
        assert await ada.pts() == before, "the same again is no change"
    expected = {
        name.removeprefix("Input"): [types.PrivacyValueAllowContacts(), types.PrivacyValueDisallowAll()]
        for name in names
    }
    del expected["PrivacyKeyPhoneNumber"]
    del expected["PrivacyKeyBirthday"]
    del expected["PrivacyKeyPhoneP2P"]
    replica.follow_pushes(await server.pushes(ada.user_id), away)
    await stale.catch_up(away)
    assert replica.privacy == stale.privacy == expected
    assert replica.pts == stale.pts == await ada.pts()


async def test_wrong_rules_are_refused_and_nothing_is_written(server: Server) -> None:
    ada, bob, eve = [await server.account(name) for name in ("Ada", "Bob", "Eve")]
    before = await ada.pts()
    foreign = user_of(eve, bob)
    named = types.InputPrivacyValueAllowUsers
    wrong: list[list[Any]] = [
        [named(users=[foreign])],
        [named(users=[types.InputUserEmpty()])],
        [named(users=[types.InputUser(user_id=-5, access_hash=0)])],
        [named(users=[types.InputUser(user_id=2**63 - 1, access_hash=0)])],
        [*EVERYBODY, *NOBODY],
        [types.InputPrivacyValueAllowChatParticipants(chats=[5])],
    ]
    for rules in wrong:
        with pytest.raises(Refused, match="400 PRIVACY_VALUE_INVALID"):
            await set_rules(ada, STATUS, rules)
    for rules in ([named(users=[user_of(ada, bob)] * 10_000)], EVERYBODY * 10_000):
        with pytest.raises(Refused, match="400 PRIVACY_TOO_LONG"):
            await set_rules(ada, STATUS, rules)
    assert await ada.pts() == before
    assert (await ada.call(functions.account.GetPrivacy(key=STATUS))).rules == [types.PrivacyValueAllowAll()]


async def test_accounts_that_are_gone_are_left_out(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    named = types.InputPrivacyValueDisallowUsers(users=[user_of(ada, bob)])
    await bob.call(functions.account.DeleteAccount(reason=""))
    answer = await set_rules(ada, STATUS, [named, *EVERYBODY])
    assert answer.rules == [types.PrivacyValueAllowAll()]


async def test_a_status_is_exact_or_rough_by_the_rules_of_both(server: Server) -> None:
    ada, bob, eve = [await server.account(name) for name in ("Ada", "Bob", "Eve")]
    now = int(server.clock.time())
    for device in (ada, bob, eve):
        await device.call(functions.account.UpdateStatus(offline=False))
    exact, rough = types.UserStatusOnline(expires=now + 300), types.UserStatusRecently()
    assert (await seen(bob, ada)).status == exact
    await add(ada, bob)
    await set_rules(ada, STATUS, CONTACTS)
    assert (await seen(bob, ada)).status == exact, "Ada has Bob"
    assert (await seen(eve, ada)).status == rough
    assert (await seen(ada, eve)).status == types.UserStatusRecently(by_me=True), "Ada hides hers from Eve"
    assert (await seen(ada, bob)).status == exact
    assert (await seen(ada, ada)).status == exact
    await ada.call(functions.account.UpdateStatus(offline=True))
    for days, status in (
        (2, types.UserStatusRecently()),
        (5, types.UserStatusLastWeek()),
        (20, types.UserStatusLastMonth()),
        (40, types.UserStatusEmpty()),
    ):
        await server.store.presence.set_offline(ada.user_id, now)
        server.clock.advance(now + days * DAY_S - server.clock.time())
        assert (await seen(eve, ada)).status == status
    assert (await seen(bob, ada)).status == types.UserStatusOffline(was_online=now)


async def test_only_who_may_know_is_told_of_a_status(server: Server) -> None:
    ada, bob, eve = [await server.account(name) for name in ("Ada", "Bob", "Eve")]
    for device in (bob, eve):
        await add(device, ada)
    await add(ada, bob)
    await set_rules(ada, STATUS, CONTACTS)
    server.sessions.transient.clear()
    now = int(server.clock.time())
    await ada.call(functions.account.UpdateStatus(offline=False))
    status = types.UpdateUserStatus(user_id=ada.user_id, status=types.UserStatusOnline(expires=now + 300))
    assert server.sessions.transient == [(bob.user_id, status)]
    server.sessions.transient.clear()
    await set_rules(ada, STATUS, NOBODY)
    rough = types.UpdateUserStatus(user_id=ada.user_id, status=types.UserStatusRecently())
    assert sorted(server.sessions.transient, key=lambda told: told[0]) == [
        (user_id, rough) for user_id in sorted([bob.user_id, eve.user_id])
    ]


async def test_a_chat_of_late_is_told_too(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await ada.send(bob)
    server.sessions.transient.clear()
    await ada.call(functions.account.UpdateStatus(offline=False))
    assert [type(update) for update in pushed(server, bob)] == [types.UpdateUserStatus]


async def test_about_and_birthday_are_shown_by_their_rules(server: Server) -> None:
    ada, bob, eve = [await server.account(name) for name in ("Ada", "Bob", "Eve")]
    await add(ada, bob)
    await ada.call(functions.account.UpdateProfile(about="numbers"))
    await ada.call(functions.account.UpdateBirthday(birthday=types.Birthday(day=10, month=12)))
    await set_rules(ada, types.InputPrivacyKeyAbout(), CONTACTS)
    mine, bobs, eves = [await full(device, ada) for device in (ada, bob, eve)]
    assert (mine.about, bobs.about, eves.about) == ("numbers", "numbers", None)
    birthday = types.Birthday(day=10, month=12)
    assert (mine.birthday, bobs.birthday, eves.birthday) == (birthday, birthday, None)
    await ada.call(functions.contacts.Block(id=ada.peer(bob)))
    blocked = await full(bob, ada)
    assert (blocked.about, blocked.birthday) == (None, None)


async def test_a_phone_number_is_shown_by_its_rules_and_to_whom_it_is_given(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    assert (await seen(bob, ada)).phone is None
    await add(ada, bob)
    assert (await seen(bob, ada)).phone == ada.user.phone
    await ada.send(bob)
    await set_rules(ada, PHONE, NOBODY)
    assert (await seen(bob, ada)).phone is None
    await ada.call(
        functions.contacts.AddContact(
            id=user_of(ada, bob), first_name="B", last_name="", phone="", add_phone_privacy_exception=True
        )
    )
    assert (await seen(bob, ada)).phone == ada.user.phone


async def test_a_number_that_was_given_is_taken_back_with_the_contact(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await set_rules(ada, PHONE, NOBODY)

    async def list_bob(*, share: bool) -> None:
        bobs, name = user_of(ada, bob), {"first_name": "Bob", "last_name": "", "phone": ""}
        await ada.call(functions.contacts.AddContact(id=bobs, add_phone_privacy_exception=share, **name))

    async def offered() -> bool:
        bar = await ada.call(functions.messages.GetPeerSettings(peer=ada.peer(bob)))
        return bool(bar.settings.share_contact)

    await list_bob(share=True)
    assert ((await seen(bob, ada)).phone, await offered()) == (ada.user.phone, False)
    await ada.call(functions.contacts.DeleteContacts(id=[user_of(ada, bob)]))
    assert (await seen(bob, ada)).phone is None
    await list_bob(share=False)
    assert ((await seen(bob, ada)).phone, await offered()) == (None, True)


async def test_who_may_not_be_found_by_phone_is_not(server: Server) -> None:
    ada, bob, eve = [await server.account(name) for name in ("Ada", "Bob", "Eve")]
    await add(ada, bob)
    await set_rules(ada, FOUND, CONTACTS)
    phone = ada.user.phone
    entry = types.InputPhoneContact(client_id=1, phone=phone, first_name="X", last_name="")
    with pytest.raises(Refused, match="400 PHONE_NOT_OCCUPIED"):
        await eve.call(functions.contacts.ResolvePhone(phone=phone))
    answer = await eve.call(functions.contacts.ImportContacts(contacts=[entry]))
    assert (answer.imported, answer.users) == ([], [])
    assert (await bob.call(functions.contacts.ResolvePhone(phone=phone))).peer.user_id == ada.user_id
    assert (await bob.call(functions.contacts.ImportContacts(contacts=[entry]))).imported
    assert (await ada.call(functions.contacts.ResolvePhone(phone=phone))).users[0].self_
    await set_rules(ada, FOUND, NOBODY)
    assert (await bob.call(functions.contacts.ImportContacts(contacts=[entry]))).imported, "he has her"


async def test_who_may_be_named_in_a_forward(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    assert (await full(bob, ada)).private_forward_name is None
    await set_rules(ada, types.InputPrivacyKeyForwards(), NOBODY)
    assert (await full(bob, ada)).private_forward_name == "Ada"
    assert (await full(ada, ada)).private_forward_name is None


async def test_read_dates_go_with_the_status_for_who_hides_them(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await ada.send(bob)
    await bob.read(ada)
    asked = functions.messages.GetOutboxReadDate(peer=ada.peer(bob), msg_id=1)
    assert (await ada.call(asked)).date
    hide = types.GlobalPrivacySettings(hide_read_marks=True, keep_archived_folders=True)
    assert await bob.call(functions.account.SetGlobalPrivacySettings(settings=hide)) == hide
    assert await bob.call(functions.account.GetGlobalPrivacySettings()) == hide
    assert (await ada.call(asked)).date, "only for those who do not see when Bob was here"
    await set_rules(bob, STATUS, NOBODY)
    assert (await full(ada, bob)).read_dates_private
    with pytest.raises(Refused, match="403 USER_PRIVACY_RESTRICTED"):
        await ada.call(asked)
    await ada.call(functions.account.SetGlobalPrivacySettings(settings=hide))
    await set_rules(ada, STATUS, NOBODY)
    with pytest.raises(Refused, match="403 YOUR_PRIVACY_RESTRICTED"):
        await ada.call(asked)


async def test_switches_that_are_not_here_are_refused(server: Server) -> None:
    ada = await server.account("Ada")
    settings = types.GlobalPrivacySettings
    with pytest.raises(Refused, match="403 PREMIUM_ACCOUNT_REQUIRED"):
        await ada.call(
            functions.account.SetGlobalPrivacySettings(
                settings=settings(new_noncontact_peers_require_premium=True)
            )
        )
    assert await ada.call(functions.account.GetGlobalPrivacySettings()) == settings()
