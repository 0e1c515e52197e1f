"""Profile, username, presence, and looking at accounts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.updates import EventKind
from telesrv.rpc.handlers.account import STATUS_REPORTS_PER_MINUTE
from telesrv.tl import functions, types
from tests.rpc.devices import Refused, Server, serving


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with serving(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def test_a_profile_changes_and_its_log_says_so(server: Server) -> None:
    ada, _ = await server.account("Ada")
    answer = await ada.call(functions.account.UpdateProfile(first_name="Augusta", about="  numbers\n and "))
    assert answer.first_name == "Augusta"
    full = await ada.call(functions.users.GetFullUser(id=types.InputUserSelf()))
    assert full.full_user.about == "numbers and"
    await ada.call(functions.account.UpdateProfile(last_name="King", about=""))
    full = await ada.call(functions.users.GetFullUser(id=types.InputUserSelf()))
    assert (full.full_user.about, full.users[0].first_name, full.users[0].last_name) == (
        None,
        "Augusta",
        "King",
    )
    difference = await server.store.updates.difference(ada.user_id, 1, 100)
    assert [event.kind for event in difference.events] == [EventKind.USER_CHANGED] * 2


async def test_wrong_profiles_are_refused(server: Server) -> None:
    ada, _ = await server.account("Ada")
    for name in ("", "\u202e", "x" * 65):
        with pytest.raises(Refused, match="400 FIRSTNAME_INVALID"):
            await ada.call(functions.account.UpdateProfile(first_name=name))
    with pytest.raises(Refused, match="400 LASTNAME_INVALID"):
        await ada.call(functions.account.UpdateProfile(last_name="x" * 65))
    with pytest.raises(Refused, match="400 ABOUT_TOO_LONG"):
        await ada.call(functions.account.UpdateProfile(about="x" * 71))
    [me] = await ada.call(functions.users.GetUsers(id=[types.InputUserSelf()]))
    assert me.first_name == "Ada"


async def test_a_username_has_one_owner(server: Server) -> None:
    ada, _ = await server.account()
    bob, _ = await server.account()
    assert await ada.call(functions.account.CheckUsername(username="countess"))
    assert (await ada.call(functions.account.UpdateUsername(username="countess"))).username == "countess"
    assert not await bob.call(functions.account.CheckUsername(username="Countess"))
    with pytest.raises(Refused, match="400 USERNAME_OCCUPIED"):
        await bob.call(functions.account.UpdateUsername(username="COUNTESS"))
    with pytest.raises(Refused, match="400 USERNAME_NOT_MODIFIED"):
        await ada.call(functions.account.UpdateUsername(username="countess"))
    for bad in ("abc", "1abcdef", "ab__cdef", "a" * 33, "null\0null", "ünicode", "Telegram", "support_24"):
        for method in (functions.account.UpdateUsername, functions.account.CheckUsername):
            with pytest.raises(Refused, match="400 USERNAME_INVALID"):
                await ada.call(method(username=bad))
    assert (await ada.call(functions.account.UpdateUsername(username=""))).username is None
    await bob.call(functions.account.UpdateUsername(username="countess"))


async def test_presence_is_kept_and_mutual_contacts_see_it_at_once(server: Server) -> None:
    ada, adas = await server.account("Ada")
    bob, bobs = await server.account("Bob")
    await server.account("Eve")
    for device, phone in ((ada, bobs), (bob, adas)):
        contact = types.InputPhoneContact(client_id=1, phone=phone, first_name="X", last_name="")
        await device.call(functions.contacts.ImportContacts(contacts=[contact]))
    now = int(server.clock.time())
    assert await ada.call(functions.account.UpdateStatus(offline=False))
    pushes = [told for told in server.sessions.told if told[0] == "push"]
    status = types.UserStatusOnline(expires=now + 300)
    assert pushes == [("push", bob.user_id, types.UpdateUserStatus(user_id=ada.user_id, status=status))]
    [shown] = await bob.call(functions.users.GetUsers(id=[await bob.input_user(adas)]))
    assert shown.status == status
    server.clock.advance(30)
    assert await ada.call(functions.account.UpdateStatus(offline=True))
    [shown] = await bob.call(functions.users.GetUsers(id=[await bob.input_user(adas)]))
    assert shown.status == types.UserStatusOffline(was_online=now + 30)
    count = len(server.sessions.told)
    assert await ada.call(functions.account.UpdateStatus(offline=True))
    assert len(server.sessions.told) == count


async def test_who_sends_is_online_and_who_only_reads_is_not(server: Server) -> None:
    ada, adas = await server.account("Ada")
    bob, bobs = await server.account("Bob")
    to_bob, to_ada = await ada.input_user(bobs), await bob.input_user(adas)
    peers = [
        types.InputPeerUser(user_id=one.user_id, access_hash=one.access_hash) for one in (to_bob, to_ada)
    ]

    async def status() -> Any:
        return (await bob.call(functions.users.GetUsers(id=[to_ada])))[0].status

    async def send(device: Any, peer: Any, random_id: int, **fields: Any) -> None:
        method = functions.messages.SendMessage(peer=peer, message="hello", random_id=random_id, **fields)
        await device.call(method)

    await send(bob, peers[1], 1)
    before = await status()
    await ada.call(functions.messages.ReadHistory(peer=peers[0], max_id=0))
    await send(ada, peers[0], 2, schedule_date=int(server.clock.time()) + 100)
    server.clock.advance(101)
    assert await server.store.due.dispatch() == 1
    assert await status() == before == types.UserStatusEmpty()
    server.sessions.told.clear()
    now = int(server.clock.time())
    for random_id in range(3, 6):
        await send(ada, peers[0], random_id)
    online = types.UserStatusOnline(expires=now + 60)
    update = types.UpdateUserStatus(user_id=ada.user_id, status=online)
    assert [told for told in server.sessions.told if told[0] == "push"] == [("push", bob.user_id, update)]
    assert await status() == online
    server.clock.advance(60)
    assert await status() == types.UserStatusOffline(was_online=now + 60)
    forward = functions.messages.ForwardMessages(
        from_peer=peers[0], id=[1], random_id=[6], to_peer=types.InputPeerSelf()
    )
    await ada.call(forward)
    assert await status() == types.UserStatusOnline(expires=now + 120)


async def test_who_is_blocked_does_not_see_the_presence(server: Server) -> None:
    ada, adas = await server.account("Ada")
    bob, bobs = await server.account("Bob")
    for device, phone in ((ada, bobs), (bob, adas)):
        contact = types.InputPhoneContact(client_id=1, phone=phone, first_name="X", last_name="")
        await device.call(functions.contacts.ImportContacts(contacts=[contact]))
    named = await ada.input_user(bobs)
    peer = types.InputPeerUser(user_id=named.user_id, access_hash=named.access_hash)
    await ada.call(functions.contacts.Block(id=peer))
    await ada.call(functions.account.UpdateStatus(offline=False))
    assert not [told for told in server.sessions.told if told[0] == "push"]
    await bob.call(functions.account.UpdateStatus(offline=False))
    assert not [told for told in server.sessions.told if told[0] == "push"], "not of whom they block"


async def test_users_the_caller_cannot_name_are_empty(server: Server) -> None:
    _, adas = await server.account("Ada")
    bob, _ = await server.account("Bob")
    known = await bob.input_user(adas)
    wrong = types.InputUser(user_id=known.user_id, access_hash=known.access_hash ^ 1)
    huge = types.InputUser(user_id=2**63 - 1, access_hash=0)
    asked = [known, wrong, huge, types.InputUserEmpty(), types.InputUserSelf()]
    answer = await bob.call(functions.users.GetUsers(id=asked))
    assert [type(user) for user in answer] == [
        types.User,
        types.UserEmpty,
        types.UserEmpty,
        types.UserEmpty,
        types.User,
    ]
    assert (answer[0].phone, answer[0].self_, answer[4].self_) == (None, False, True)
    with pytest.raises(Refused, match="400 LIMIT_INVALID"):
        await bob.call(functions.users.GetUsers(id=[known] * 10_000))
    for bad in (wrong, huge, types.InputUserEmpty()):
        with pytest.raises(Refused, match="400 USER_ID_INVALID"):
            await bob.call(functions.users.GetFullUser(id=bad))


async def test_everybody_can_name_the_service_account(server: Server) -> None:
    ada, _ = await server.account("Ada")
    asked = [types.InputUser(user_id=777_000, access_hash=hash_) for hash_ in (0, 1)]
    for service in await ada.call(functions.users.GetUsers(id=asked)):
        assert (service.verified, service.phone) == (True, "42777")
        assert service.access_hash not in (0, 1)


async def test_the_action_bar_offers_what_is_not_done_yet(server: Server) -> None:
    ada, _ = await server.account("Ada")
    _, phone = await server.account("Bob")
    bob = await ada.input_user(phone)
    peer = types.InputPeerUser(user_id=bob.user_id, access_hash=bob.access_hash)
    bar = await ada.call(functions.messages.GetPeerSettings(peer=peer))
    assert (bar.settings.add_contact, bar.settings.block_contact) == (True, True)
    mine = await ada.call(functions.messages.GetPeerSettings(peer=types.InputPeerSelf()))
    assert mine.settings == types.PeerSettings()


async def test_notify_settings_of_a_peer_need_a_peer(server: Server) -> None:
    ada, _ = await server.account()
    settings = await ada.call(functions.account.GetNotifySettings(peer=types.InputNotifyUsers()))
    assert settings.mute_until == 0
    bad = types.InputNotifyPeer(peer=types.InputPeerUser(user_id=5, access_hash=6))
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await ada.call(functions.account.GetNotifySettings(peer=bad))


async def test_a_password_can_be_asked_for(server: Server) -> None:
    ada, _ = await server.account()
    password = await ada.call(functions.account.GetPassword())
    assert not password.has_password
    assert (len(password.new_algo.p), password.new_algo.g, len(password.secure_random)) == (256, 3, 256)


async def test_reports_of_presence_are_bounded(server: Server) -> None:
    ada, _ = await server.account("Ada")
    for number in range(STATUS_REPORTS_PER_MINUTE):
        assert await ada.call(functions.account.UpdateStatus(offline=bool(number % 2)))
    with pytest.raises(Refused, match="420 FLOOD_WAIT_"):
        await ada.call(functions.account.UpdateStatus(offline=False))
    server.clock.advance(60)
    assert await ada.call(functions.account.UpdateStatus(offline=False))
