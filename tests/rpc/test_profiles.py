"""Birthday, lifetime, phone number, and the end of an account."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from telesrv.domain.updates import EventKind
from telesrv.tl import functions, types
from tests.rpc.devices import Device, Refused, Server, serving


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with serving(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def kinds(server: Server, user_id: int, after: int = 1) -> list[EventKind]:
    return [event.kind for event in (await server.store.updates.difference(user_id, after, 100)).events]


def contact(phone: str) -> types.InputPhoneContact:
    return types.InputPhoneContact(client_id=1, phone=phone, first_name="X", last_name="")


async def add(device: Device, phone: str) -> None:
    await device.call(functions.contacts.ImportContacts(contacts=[contact(phone)]))


async def test_birthdays(server: Server) -> None:
    ada, adas = await server.account("Ada")
    bob, bobs = await server.account("Bob")
    await add(bob, adas)
    await add(ada, bobs)
    for birthday in (
        types.Birthday(day=31, month=4),
        types.Birthday(day=0, month=1),
        types.Birthday(day=-1, month=2**31 - 1, year=-(2**31)),
        types.Birthday(day=29, month=2, year=2001),
        types.Birthday(day=1, month=1, year=1899),
        types.Birthday(day=1, month=1, year=2400),
    ):
        with pytest.raises(Refused, match="400 BIRTHDAY_INVALID"):
            await ada.call(functions.account.UpdateBirthday(birthday=birthday))
    today = types.Birthday(day=14, month=11, year=1990)
    for _ in range(2):
        assert await ada.call(functions.account.UpdateBirthday(birthday=today))
    assert (await kinds(server, ada.user_id)).count(EventKind.USER_CHANGED) == 1
    server.clock.advance(1_700_000_000 - server.clock.time())
    answer = await bob.call(functions.contacts.GetBirthdays())
    assert answer.contacts == [types.ContactBirthday(contact_id=ada.user_id, birthday=today)]
    assert [user.id for user in answer.users] == [ada.user_id]
    leap = types.Birthday(day=29, month=2)
    assert await ada.call(functions.account.UpdateBirthday(birthday=leap))
    assert (await bob.call(functions.contacts.GetBirthdays())).contacts == []
    assert await ada.call(functions.account.UpdateBirthday())
    full = await ada.call(functions.users.GetFullUser(id=types.InputUserSelf()))
    assert full.full_user.birthday is None


async def test_the_lifetime_of_an_account(server: Server) -> None:
    ada, _ = await server.account()
    assert await ada.call(functions.account.GetAccountTTL()) == types.AccountDaysTTL(days=365)
    assert await ada.call(functions.account.SetAccountTTL(ttl=types.AccountDaysTTL(days=180)))
    assert await ada.call(functions.account.GetAccountTTL()) == types.AccountDaysTTL(days=180)
    for days in (-1, 0, 29, 731, 2**31 - 1):
        with pytest.raises(Refused, match="400 TTL_DAYS_INVALID"):
            await ada.call(functions.account.SetAccountTTL(ttl=types.AccountDaysTTL(days=days)))


async def change_phone(server: Server, device: Device, phone: str) -> types.User:
    settings = types.CodeSettings()
    sent = await device.call(functions.account.SendChangePhoneCode(phone_number=phone, settings=settings))
    await server.codes.drain()
    assert server.outbox.sent[-1][0] == phone
    user = await device.call(
        functions.account.ChangePhone(
            phone_number=phone,
            phone_code_hash=sent.phone_code_hash,
            phone_code=server.outbox.sent[-1][1],
        )
    )
    assert isinstance(user, types.User)
    return user


async def test_a_number_is_changed_by_who_has_the_new_one(server: Server) -> None:
    ada, old = await server.account("Ada")
    bob, bobs = await server.account("Bob")
    await add(ada, bobs)
    await add(bob, old)
    new = server.phone()
    assert (await change_phone(server, ada, new)).phone == new
    for device in (ada, bob):
        assert (await kinds(server, device.user_id))[-1] is EventKind.PHONE_CHANGED
    again = await server.log_in(new)
    assert again.user_id == ada.user_id
    eve = await server.device()
    await eve.sign_up(old, "Eve")
    assert eve.user_id != ada.user_id


async def test_a_number_is_not_changed_without_its_code(server: Server) -> None:
    ada, adas = await server.account("Ada")
    _, bobs = await server.account("Bob")
    settings = types.CodeSettings()
    send, change = functions.account.SendChangePhoneCode, functions.account.ChangePhone
    for phone in (bobs, adas):
        with pytest.raises(Refused, match="400 PHONE_NUMBER_OCCUPIED"):
            await ada.call(send(phone_number=phone, settings=settings))
    with pytest.raises(Refused, match="400 PHONE_NUMBER_BANNED"):
        await ada.call(send(phone_number="42777", settings=settings))
    for bad in ("", "x", "\0", "1" * 100):
        with pytest.raises(Refused, match="400 PHONE_NUMBER_INVALID"):
            await ada.call(send(phone_number=bad, settings=settings))
    new = server.phone()
    sent = await ada.call(send(phone_number=new, settings=settings))
    for code, hash_, error in (
        ("", sent.phone_code_hash, "PHONE_CODE_EMPTY"),
        ("x", "", "PHONE_CODE_HASH_EMPTY"),
        ("x", sent.phone_code_hash, "PHONE_CODE_INVALID"),
        ("x", "other", "PHONE_CODE_EXPIRED"),
    ):
        with pytest.raises(Refused, match=f"400 {error}"):
            await ada.call(change(phone_number=new, phone_code=code, phone_code_hash=hash_))
    taken = await server.device()
    await taken.sign_up(new, "Tom")
    await server.codes.drain()
    code = next(code for phone, code, _ in server.outbox.sent if phone == new)
    with pytest.raises(Refused, match="400 PHONE_NUMBER_OCCUPIED"):
        await ada.call(change(phone_number=new, phone_code=code, phone_code_hash=sent.phone_code_hash))
    [me] = await ada.call(functions.users.GetUsers(id=[types.InputUserSelf()]))
    assert me.phone == adas


async def test_what_remains_of_a_deleted_account(server: Server) -> None:
    ada, adas = await server.account("Ada")
    bob, _ = await server.account("Bob")
    cid, _ = await server.account("Cid")
    second = await server.log_in(adas)
    await ada.call(functions.account.UpdateUsername(username="lovelace"))
    await add(bob, adas)
    adas_peer = await cid.input_user(adas)
    peer = types.InputPeerUser(user_id=adas_peer.user_id, access_hash=adas_peer.access_hash)
    await cid.call(functions.messages.SendMessage(peer=peer, message="hello", random_id=1))
    gone = ada.user_id
    keys = sorted(device.caller.auth_key_id for device in (ada, second))
    before = {device: (await device.call(functions.updates.GetState())).pts for device in (bob, cid)}
    assert await ada.call(functions.account.DeleteAccount(reason="enough"))
    assert ("out", *keys) in server.sessions.told
    for device in (ada, second):
        with pytest.raises(Refused, match="401 AUTH_KEY_UNREGISTERED"):
            await device.call(functions.updates.GetState())
    with pytest.raises(Refused, match="400 INPUT_USER_DEACTIVATED"):
        await cid.call(functions.messages.SendMessage(peer=peer, message="there?", random_id=2))
    [shown] = await cid.call(functions.users.GetUsers(id=[adas_peer]))
    assert (shown.deleted, shown.first_name, shown.username, shown.phone) == (True, None, None, None)
    history = await cid.call(
        functions.messages.GetHistory(
            peer=peer, offset_id=0, offset_date=0, add_offset=0, limit=10, max_id=0, min_id=0, hash=0
        )
    )
    assert [message.message for message in history.messages] == ["hello"]
    assert (await bob.call(functions.contacts.GetContacts(hash=0))).contacts == []
    for device, listed in ((bob, True), (cid, False)):
        difference = await device.call(functions.updates.GetDifference(pts=before[device], date=0, qts=0))
        assert types.UpdateUser(user_id=gone) in difference.other_updates
        assert (types.UpdateContactsReset() in difference.other_updates) == listed
        assert [user.deleted for user in difference.users] == [True]
        assert difference.state.pts == before[device] + 1
    assert await cid.call(functions.account.CheckUsername(username="lovelace"))
    anew = await server.device()
    await anew.sign_up(adas, "Anew")
    assert anew.user_id != gone
    full = await cid.call(functions.users.GetFullUser(id=adas_peer))
    assert full.full_user.about is None


async def test_the_others_are_told_once_whoever_goes_on(server: Server) -> None:
    ada, adas = await server.account("Ada")
    bob, _ = await server.account("Bob")
    await add(bob, adas)
    before = (await bob.call(functions.updates.GetState())).pts
    store = server.store
    assert await store.deletion.begin(ada.user_id) == [ada.caller.auth_key_id]
    assert await store.deletion.begin(ada.user_id) is None
    assert await store.deletion.left(61) == {}
    server.clock.advance(60)
    assert await store.deletion.left(61) == {ada.user_id: False}
    server.clock.advance(1)
    assert await store.deletion.left(61) == {ada.user_id: True}
    while await store.deletion.step(ada.user_id):
        pass
    assert not await store.deletion.step(ada.user_id)
    assert await kinds(server, bob.user_id, before) == [EventKind.ACCOUNT_DELETED]


async def test_who_was_not_seen_for_longer_than_they_allow_is_found(server: Server) -> None:
    ada, _ = await server.account("Ada")
    bob, _ = await server.account("Bob")
    await bob.call(functions.account.SetAccountTTL(ttl=types.AccountDaysTTL(days=30)))
    server.clock.advance(31 * 86_400)
    page = await server.store.deletion.idle()
    assert page.user_ids == (bob.user_id,)
    await bob.call(functions.updates.GetState())
    assert (await server.store.deletion.idle()).user_ids == ()
    server.clock.advance(365 * 86_400)
    found, place = [], (-1, 0)
    while True:
        page = await server.store.deletion.idle(place, limit=1)
        found += page.user_ids
        if page.next is None:
            break
        place = page.next
    assert sorted(found) == sorted([ada.user_id, bob.user_id])


async def test_a_new_login_is_told_with_its_device_and_address(server: Server) -> None:
    ada, phone = await server.account("Ada")
    before = (await ada.call(functions.updates.GetState())).pts
    device = await server.log_in(phone)
    difference = await ada.call(functions.updates.GetDifference(pts=before, date=0, qts=0))
    texts = [message.message for message in difference.new_messages]
    assert len(texts) == 2, "the code and the login"
    assert texts[-1].startswith("New login. Hello Ada, a new device logged in")
    assert "203.0.113.7" in texts[-1]
    assert difference.new_messages[-1].peer_id == types.PeerUser(user_id=777_000)
    assert device.user_id == ada.user_id
