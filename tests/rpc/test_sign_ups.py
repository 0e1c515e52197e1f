"""Phone numbers without an account, of address books, and what their owners are told when one signs up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.contacts import MAX_SAVED
from telesrv.domain.peers import Peer
from telesrv.domain.users import User
from telesrv.rpc.convert.dialogs import list_hash
from telesrv.store import Store
from telesrv.store.sign_ups import _PAGE, SETTLE_S
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Server, fresh, running, same

f = functions
NUMBER, OTHER = "17770001", "17770002"
TOGETHER = """
SELECT count(DISTINCT x) FROM (
    SELECT xmin::text AS x FROM user_update_events WHERE user_id = $1 AND pts > $2
    UNION ALL SELECT xmin::text FROM message_boxes WHERE owner_user_id = $1 AND action IS NOT NULL
    UNION ALL SELECT xmin::text FROM contacts WHERE owner_user_id = $1
) AS written
"""
SOME_SAVED = """
INSERT INTO saved_contacts (owner_user_id, phone, first_name, last_name, date)
SELECT $1, (1888000000 + n)::text, 'N', '', 0 FROM generate_series(1, $2::int) n
"""


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def save(device: Device, phone: str = NUMBER, first_name: str = "Bobby", last_name: str = "B") -> Any:
    contact = types.InputPhoneContact(client_id=1, phone=phone, first_name=first_name, last_name=last_name)
    return await device.call(f.contacts.ImportContacts(contacts=[contact]))


async def saved(device: Device) -> dict[str, tuple[str, str]]:
    found = await device.call(f.contacts.GetSaved())
    return {one.phone: (one.first_name, one.last_name) for one in found}


async def join(server: Server, phone: str = NUMBER, **fields: Any) -> Device:
    """Signs up, and has whoever saved the number told."""
    user = await server.store.accounts.sign_up(phone, "Robert", "Stone", **fields)
    await server.store.sign_ups.tell_due()
    return await server.device(user)


async def told(device: Device, of: Device) -> list[Any]:
    """Returns the service messages of a chat."""
    messages = (await device.history(of)).messages
    return [message for message in messages if isinstance(message, types.MessageService)]


async def book(device: Device) -> dict[int, bool]:
    """Returns who is in the address book, and whether that is mutual."""
    found = await device.call(f.contacts.GetContacts(hash=0))
    return {entry.user_id: entry.mutual for entry in found.contacts}


async def sign_ups(store: Store) -> int:
    return int(await store.pool.fetchval("SELECT count(*) FROM sign_ups"))


async def test_numbers_without_an_account_are_saved_for_their_owner_alone(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    await save(ada, first_name="Bobby\0")
    await save(ada, OTHER, "", "Carlson")
    await save(bob, OTHER, "Carl", "")
    assert await saved(ada) == {NUMBER: ("Bobby", "B"), OTHER: ("", "Carlson")}
    assert await saved(bob) == {OTHER: ("Carl", "")}
    await save(ada, OTHER, "Carl", "C")
    contacts = await ada.call(f.contacts.GetContacts(hash=list_hash([0])))
    assert (contacts.saved_count, contacts.contacts) == (2, [])
    same_hash = f.contacts.GetContacts(hash=list_hash([2]))
    assert isinstance(await ada.call(same_hash), types.contacts.ContactsNotModified)
    await ada.call(f.contacts.DeleteByPhones(phones=[NUMBER, "+1 555 0001"]))
    assert await saved(ada) == {OTHER: ("Carl", "C")}
    assert await ada.call(f.contacts.ResetSaved())
    assert (await saved(ada), await saved(bob)) == ({}, {OTHER: ("Carl", "")})
    assert await server.store.pool.fetchval("SELECT count(*) FROM saved_phones") == 1
    await join(server)
    assert await ada.pts() == 1, "it is forgotten"


async def test_a_bounded_number_is_saved(server: Server) -> None:
    ada = await server.account()
    await server.store.pool.execute(SOME_SAVED, ada.user_id, MAX_SAVED - 1)
    contacts = [
        types.InputPhoneContact(client_id=n, phone=phone, first_name="New", last_name="")
        for n, phone in enumerate([NUMBER, OTHER, "1888000001"])
    ]
    assert (await ada.call(f.contacts.ImportContacts(contacts=contacts))).retry_contacts == []
    names = await saved(ada)
    assert (len(names), names["1888000001"]) == (MAX_SAVED, ("New", ""))
    assert len({NUMBER, OTHER} & names.keys()) == 1


async def test_who_saved_the_number_has_a_contact_and_a_message_and_the_new_account_nothing(
    server: Server,
) -> None:
    ada, eve = await server.account("Ada"), await server.account("Eve")
    await save(ada)
    before = await ada.pts()
    followed = [await fresh(ada, [ada, eve]) for _ in range(2)]
    bob = await join(server)
    assert await server.store.pool.fetchval(TOGETHER, ada.user_id, before) == 1
    [message] = await told(ada, bob)
    assert isinstance(message.action, types.MessageActionContactSignUp)
    assert (message.out, message.silent, message.from_id.user_id) == (False, False, bob.user_id)
    page = await ada.dialogs()
    [dialog] = page.dialogs
    assert (dialog.top_message, dialog.unread_count) == (message.id, 1)
    [user] = [one for one in page.users if one.id == bob.user_id]
    assert (user.first_name, user.last_name, user.phone, user.contact) == ("Bobby", "B", NUMBER, True)
    assert (await book(ada), await saved(ada)) == ({bob.user_id: False}, {})
    assert (await bob.pts(), (await bob.dialogs()).dialogs, await book(bob)) == (1, [], {})
    assert (await bob.history(ada)).messages == []
    assert (await eve.pts(), (await eve.dialogs()).dialogs) == (1, [])
    pushed, asked = followed
    pushed.follow_pushes(await server.pushes(ada.user_id), ada)
    await asked.catch_up(ada)
    for replica in followed:
        same(replica, await fresh(ada, [ada, bob, eve]))


async def test_the_message_is_like_any_other(server: Server) -> None:
    ada = await server.account("Ada")
    await save(ada)
    bob = await join(server)
    devices = [ada, bob]
    followed = {device: await fresh(device, devices) for device in devices}
    [message] = await told(ada, bob)
    await ada.read(bob)
    reply = types.InputReplyToMessage(reply_to_msg_id=message.id)
    await ada.send(bob, "welcome", reply_to=reply)
    await bob.send(ada, "how did you know?")
    await bob.read(ada)
    await ada.call(f.messages.DeleteMessages(id=[message.id], revoke=True))
    assert (len((await ada.history(bob)).messages), len((await bob.history(ada)).messages)) == (2, 2)
    for device, replica in followed.items():
        await replica.catch_up(device)
        same(replica, await fresh(device, devices))
    old = await server.device(bob.user, layer=152)
    await save(ada, OTHER)
    carl = await join(server, OTHER)
    assert [type(one.action) for one in await told(await server.device(ada.user, layer=152), carl)] == [
        types.MessageActionContactSignUp
    ]
    assert await told(old, ada) == []


async def test_the_switch_and_the_new_account_may_make_it_quiet(server: Server) -> None:
    ada, eve = await server.account("Ada"), await server.account("Eve")
    await ada.call(f.account.SetContactSignUpNotification(silent=True))
    for device in (ada, eve):
        await save(device)
        await save(device, OTHER)
    bob = await join(server)
    assert [[message.silent for message in await told(device, bob)] for device in (ada, eve)] == [
        [True],
        [False],
    ]
    carl = await join(server, OTHER, quiet=True)
    for device in (ada, eve):
        assert await told(device, carl) == []
        assert await book(device) == {bob.user_id: False, carl.user_id: False}
        assert len((await device.dialogs()).dialogs) == 1


async def test_who_may_not_find_the_account_by_its_number_keeps_the_number(server: Server) -> None:
    ada, eve = await server.account("Ada"), await server.account("Eve")
    await save(ada)
    await save(eve)
    user = await server.store.accounts.sign_up(NUMBER, "Robert")
    bob = await server.device(user)
    named = ada.peer(bob)
    peer = bob.peer(ada)
    allowed = types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)
    rules: list[Any] = [
        types.InputPrivacyValueAllowUsers(users=[allowed]),
        types.InputPrivacyValueDisallowAll(),
    ]
    await bob.call(f.account.SetPrivacy(key=types.InputPrivacyKeyAddedByPhone(), rules=rules))
    await server.store.sign_ups.tell_due()
    assert (await saved(ada), await saved(eve)) == ({}, {NUMBER: ("Bobby", "B")})
    assert (len((await ada.history(named)).messages), await eve.pts()) == (1, 1)
    await save(eve, first_name="Robbie")
    contacts = await eve.call(f.contacts.GetContacts(hash=0))
    assert (contacts.saved_count, contacts.contacts) == (1, []), "as of a number without an account"
    server.clock.advance(SETTLE_S)
    await server.store.sign_ups.tell_due()
    assert (await eve.pts(), await sign_ups(server.store)) == (1, 0)
    await bob.call(f.account.DeleteAccount(reason=""))
    carl = await join(server)
    assert await book(eve) == {carl.user_id: False}


async def test_who_blocked_the_other_by_then_hears_and_is_heard_of_without_a_message(server: Server) -> None:
    ada, eve = await server.account("Ada"), await server.account("Eve")
    await save(ada)
    await save(eve)
    user = await server.store.accounts.sign_up(NUMBER, "Robert")
    bob = await server.device(user)
    await server.store.blocks.block(ada.user_id, Peer.user(bob.user_id))
    await server.store.blocks.block(bob.user_id, Peer.user(eve.user_id))
    await server.store.sign_ups.tell_due()
    for device in (ada, eve):
        assert (await told(device, bob), await book(device)) == ([], {bob.user_id: False})


async def test_a_number_that_has_become_a_contact_before_keeps_the_name_it_has(server: Server) -> None:
    ada = await server.account("Ada")
    await save(ada)
    user = await server.store.accounts.sign_up(NUMBER, "Robert")
    bob = await server.device(user)
    await server.store.contacts.add(ada.user_id, bob.user_id, "Chosen", "Name")
    await server.store.contacts.add(bob.user_id, ada.user_id, "Ada", "")
    await server.store.sign_ups.tell_due()
    [user_] = (await ada.call(f.contacts.GetContacts(hash=0))).users
    assert (user_.first_name, user_.last_name, user_.mutual_contact) == ("Chosen", "Name", True)
    assert len(await told(ada, bob)) == 1
    await save(ada, OTHER)
    carl = await server.device(await server.store.accounts.sign_up(OTHER, "Carl"))
    await save(ada, OTHER)
    await server.store.sign_ups.tell_due()
    assert (await told(ada, carl), await saved(ada)) == ([], {}), "the import has found the account"


async def test_many_owners_are_told_page_by_page_and_each_once(server: Server) -> None:
    store = server.store
    phones = [str(15_990_000 + number) for number in range(_PAGE + 3)]
    users: list[User] = await asyncio.gather(*(store.accounts.sign_up(phone, "Owner") for phone in phones))
    server.clock.advance(SETTLE_S)
    for _ in range(2 * len(phones)):
        await store.sign_ups.tell_due()
    assert await sign_ups(store) == 0
    names = {NUMBER: ("Bobby", "")}
    await asyncio.gather(*(store.saved_contacts.imported(user.user_id, names, []) for user in users))
    bob = await store.accounts.sign_up(NUMBER, "Robert")
    counts = [await store.sign_ups.tell_due() for _ in range(2)]
    assert counts == [_PAGE, 3]
    server.clock.advance(SETTLE_S)
    assert [await store.sign_ups.tell_due() for _ in range(3)] == [0, 0, 0]
    assert await sign_ups(store) == 0
    boxes = await store.pool.fetch("SELECT owner_user_id FROM message_boxes WHERE action IS NOT NULL")
    assert sorted(row[0] for row in boxes) == sorted(user.user_id for user in users)
    assert bob.user_id not in {row[0] for row in boxes}
    assert await store.pool.fetchval("SELECT count(*) FROM saved_phones") == 0


async def test_processes_at_once_tell_once(
    server: Server, postgres_dsn: str, redis_url: str, redis_prefix: str
) -> None:
    owners = [await server.account(name) for name in ("Ada", "Eve", "Fay")]
    for device in owners:
        await save(device)
    async with running(postgres_dsn, redis_url, redis_prefix) as second:
        bob = await server.device(await server.store.accounts.sign_up(NUMBER, "Robert"))
        both = [server.store.sign_ups, second.store.sign_ups]
        for _ in range(3):
            await asyncio.gather(*(store.tell_due() for store in both * 3))
            server.clock.advance(SETTLE_S)
            second.clock.advance(SETTLE_S)
    assert [len(await told(device, bob)) for device in owners] == [1, 1, 1]
    assert await sign_ups(server.store) == 0
    gaps = await server.store.gaps.find()
    assert gaps[1] == []


async def test_what_a_dead_process_left_is_gone_on_with(server: Server) -> None:
    ada = await server.account("Ada")
    await save(ada)
    store = server.store
    bob = await server.device(await store.accounts.sign_up(NUMBER, "Robert"))
    leased_until_ms = int(server.clock.time() + 60) * 1000
    await store.pool.execute("UPDATE sign_ups SET leased_until_ms = $1", leased_until_ms)
    assert (await store.sign_ups.tell_due(), await told(ada, bob)) == (0, [])
    server.clock.advance(60)
    assert (await store.sign_ups.tell_due(), len(await told(ada, bob))) == (1, 1)


async def test_an_import_that_had_not_seen_the_sign_up_is_found_by_the_second_pass(server: Server) -> None:
    ada = await server.account("Ada")
    bob = await join(server)
    await server.store.saved_contacts.imported(ada.user_id, {NUMBER: ("Bobby", "")}, [])
    server.clock.advance(SETTLE_S - 1)
    assert await server.store.sign_ups.tell_due() == 0
    server.clock.advance(1)
    assert await server.store.sign_ups.tell_due() == 1
    assert (len(await told(ada, bob)), await sign_ups(server.store)) == (1, 0)


async def test_an_account_that_has_gone_on_is_told_of_to_nobody(server: Server) -> None:
    ada = await server.account("Ada")
    await save(ada)
    await save(ada, OTHER)
    store = server.store
    bob = await server.device(await store.accounts.sign_up(NUMBER, "Robert"))
    await bob.call(f.account.DeleteAccount(reason=""))
    carl = await store.accounts.sign_up(OTHER, "Carl")
    await store.profiles.change_phone(carl.user_id, "17770009")
    assert await store.sign_ups.tell_due() == 0
    assert (await ada.pts(), await sign_ups(store), len(await saved(ada))) == (1, 1, 2), "Ada's own is left"
