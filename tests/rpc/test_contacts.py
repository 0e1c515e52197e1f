"""The address book, search and blocks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.peers import SERVICE_USER_ID, Peer, access_hash
from telesrv.domain.updates import EventKind
from telesrv.rpc.convert.dialogs import list_hash
from telesrv.rpc.handlers.contacts import CHANGES_PER_MINUTE
from telesrv.tl import functions, types
from tests.rpc.devices import Device, Refused, Server, ids, serving


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with serving(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


def entry(client_id: int, phone: str, first_name: str = "Bobby", last_name: str = "") -> Any:
    return types.InputPhoneContact(
        client_id=client_id, phone=phone, first_name=first_name, last_name=last_name
    )


async def add(device: Device, user: types.InputUser, first_name: str, **fields: Any) -> Any:
    arguments = {"last_name": "", "phone": ""} | fields
    return await device.call(functions.contacts.AddContact(id=user, first_name=first_name, **arguments))


async def test_an_import_finds_accounts_and_shows_them_by_the_owners_names(server: Server) -> None:
    ada, _ = await server.account("Ada")
    bob, phone = await server.account("Bob")
    nobody = server.phone()
    answer = await ada.call(
        functions.contacts.ImportContacts(
            contacts=[entry(1, f"+{phone}", "Bobby\0", "B."), entry(2, nobody), entry(3, "no number")]
        )
    )
    assert answer.imported == [types.ImportedContact(user_id=bob.user_id, client_id=1)]
    [user] = answer.users
    assert (user.first_name, user.last_name, user.contact, user.phone) == ("Bobby", "B.", True, phone)
    book = await ada.call(functions.contacts.GetContacts(hash=0))
    assert book.contacts == [types.Contact(user_id=bob.user_id, mutual=False)]
    assert book.saved_count == 1
    assert isinstance(
        await ada.call(functions.contacts.GetContacts(hash=list_hash([1, bob.user_id]))),
        types.contacts.ContactsNotModified,
    )
    [statuses] = await ada.call(functions.contacts.GetStatuses())
    assert statuses.user_id == bob.user_id


@pytest.mark.parametrize("quiet", [False, True])
async def test_who_signs_up_says_whether_address_books_get_a_message(server: Server, quiet: bool) -> None:
    ada, _ = await server.account("Ada")
    phone = server.phone()
    await ada.call(functions.contacts.ImportContacts(contacts=[entry(1, phone)]))
    bob = await server.device()
    await bob.sign_up(phone, "Bob", quiet=quiet)
    assert await server.store.sign_ups.tell_due() == 1
    [user] = (await ada.call(functions.contacts.GetContacts(hash=0))).users
    assert user.first_name == "Bobby"
    [_, *rest] = [event.kind for event in (await server.store.updates.difference(ada.user_id, 0)).events]
    told = [EventKind.CONTACTS_RESET, EventKind.PEER_SETTINGS]
    assert rest == (told if quiet else [EventKind.NEW_MESSAGE, *told])


async def test_a_long_import_is_cut(server: Server) -> None:
    ada, _ = await server.account()
    contacts = [entry(n, "") for n in range(10_000)]
    answer = await ada.call(functions.contacts.ImportContacts(contacts=contacts))
    assert (answer.imported, len(answer.retry_contacts)) == ([], 9_000)


async def test_both_having_each_other_is_mutual(server: Server) -> None:
    ada, adas = await server.account("Ada")
    bob, bobs = await server.account("Bob")
    await ada.call(functions.contacts.ImportContacts(contacts=[entry(1, bobs)]))
    await bob.call(functions.contacts.ImportContacts(contacts=[entry(1, adas)]))
    book = await ada.call(functions.contacts.GetContacts(hash=0))
    assert book.contacts == [types.Contact(user_id=bob.user_id, mutual=True)]
    [user] = book.users
    assert user.mutual_contact


async def test_add_rename_and_delete(server: Server) -> None:
    ada, _ = await server.account("Ada")
    _, phone = await server.account("Bob")
    bob = await ada.input_user(phone)
    answer = await add(ada, bob, "Robert", add_phone_privacy_exception=True)
    assert (ids(answer.users), answer.users[0].first_name) == ([bob.user_id], "Robert")
    [update] = answer.updates
    assert isinstance(update, types.UpdatePeerSettings) and not update.settings.add_contact
    await add(ada, bob, "", last_name="Roberts")
    answer = await ada.call(functions.contacts.DeleteContacts(id=[bob, types.InputUserEmpty()]))
    assert (answer.users[0].first_name, answer.users[0].contact) == ("Bob", False)
    assert (await ada.call(functions.contacts.GetContacts(hash=0))).contacts == []


async def test_wrong_contacts_are_refused(server: Server) -> None:
    ada, _ = await server.account("Ada")
    _, bobs = await server.account("Bob")
    eve, _ = await server.account("Eve")
    bob = await ada.input_user(bobs)
    service = types.InputUser(
        user_id=SERVICE_USER_ID,
        access_hash=access_hash(server.store.secret, ada.user_id, Peer.user(SERVICE_USER_ID)),
    )
    huge = types.InputUser(user_id=2**63 - 1, access_hash=bob.access_hash)
    negative = types.InputUser(user_id=-5, access_hash=-5)
    wrong = types.InputUser(user_id=bob.user_id, access_hash=bob.access_hash ^ 1)
    for user in (types.InputUserSelf(), types.InputUserEmpty(), service, huge, negative, wrong):
        with pytest.raises(Refused, match="400 CONTACT_ID_INVALID"):
            await add(ada, user, "X")
    with pytest.raises(Refused, match="400 CONTACT_ID_INVALID"):
        await add(eve, bob, "X")
    for name in ("", "\u202e \0", "x" * 65):
        with pytest.raises(Refused, match="400 CONTACT_NAME_EMPTY"):
            await add(ada, bob, name)
    with pytest.raises(Refused, match="400 LIMIT_INVALID"):
        await ada.call(functions.contacts.DeleteContacts(id=[bob] * 10_000))


async def test_usernames_are_found_and_resolved(server: Server) -> None:
    ada, _ = await server.account("Ada")
    bob, _ = await server.account("Bob")
    await bob.call(functions.account.UpdateUsername(username="bob_the_builder"))
    found = await ada.call(functions.contacts.Search(q="@bob_the", limit=10))
    assert found.results == [types.PeerUser(user_id=bob.user_id)]
    resolved = await ada.call(functions.contacts.ResolveUsername(username="@BOB_the_builder"))
    assert (resolved.peer, ids(resolved.users)) == (types.PeerUser(user_id=bob.user_id), [bob.user_id])
    assert resolved.users[0].phone is None
    with pytest.raises(Refused, match="400 USERNAME_NOT_OCCUPIED"):
        await ada.call(functions.contacts.ResolveUsername(username="nobody_has_it"))
    for bad in ("", "a", "x" * 33, "with space", "null\0byte", "имя_имя"):
        with pytest.raises(Refused, match="400 USERNAME_INVALID"):
            await ada.call(functions.contacts.ResolveUsername(username=bad))
    for bad in ("", "@", " \0 "):
        with pytest.raises(Refused, match="400 SEARCH_QUERY_EMPTY"):
            await ada.call(functions.contacts.Search(q=bad, limit=10))
    for odd in ("%", "_", "x" * 100_000, "a\0b", "🙂", "'; --"):
        await ada.call(functions.contacts.Search(q=odd, limit=2**31 - 1))


async def test_unknown_phones_are_not_occupied(server: Server) -> None:
    ada, _ = await server.account()
    for phone in (server.phone(), "", "x", "\0"):
        with pytest.raises(Refused, match="400 PHONE_NOT_OCCUPIED"):
            await ada.call(functions.contacts.ResolvePhone(phone=phone))


async def test_block_and_unblock(server: Server) -> None:
    ada, _ = await server.account("Ada")
    _, phone = await server.account("Bob")
    bob = await ada.input_user(phone)
    peer = types.InputPeerUser(user_id=bob.user_id, access_hash=bob.access_hash)
    assert await ada.call(functions.contacts.Block(id=peer))
    assert await ada.call(functions.contacts.Block(id=peer))
    page = await ada.call(functions.contacts.GetBlocked(offset=0, limit=100))
    assert isinstance(page, types.contacts.Blocked)
    assert [blocked.peer_id for blocked in page.blocked] == [types.PeerUser(user_id=bob.user_id)]
    assert ids(page.users) == [bob.user_id]
    full = await ada.call(functions.users.GetFullUser(id=bob))
    assert full.full_user.blocked
    beyond = await ada.call(functions.contacts.GetBlocked(offset=2**31 - 1, limit=-5))
    assert isinstance(beyond, types.contacts.BlockedSlice)
    assert (beyond.count, beyond.blocked) == (1, [])
    assert await ada.call(functions.contacts.Unblock(id=peer))
    assert (await ada.call(functions.contacts.GetBlocked(offset=0, limit=100))).blocked == []


async def test_a_deleted_account_is_shown_as_such_and_cannot_be_added(server: Server) -> None:
    ada, _ = await server.account("Ada")
    _, phone = await server.account("Bob")
    bob = await ada.input_user(phone)
    await server.store.pool.execute("UPDATE users SET deleted = true WHERE user_id = $1", bob.user_id)
    [shown] = await ada.call(functions.users.GetUsers(id=[bob]))
    assert (shown.deleted, shown.first_name, shown.phone) == (True, None, None)
    with pytest.raises(Refused, match="400 CONTACT_ID_INVALID"):
        await add(ada, bob, "X")
    with pytest.raises(Refused, match="400 PHONE_NOT_OCCUPIED"):
        await ada.call(functions.contacts.ResolvePhone(phone=phone))
    peer = types.InputPeerUser(user_id=bob.user_id, access_hash=bob.access_hash)
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await ada.call(functions.contacts.Block(id=peer))


async def test_who_cannot_be_blocked(server: Server) -> None:
    ada, _ = await server.account()
    with pytest.raises(Refused, match="400 CONTACT_ID_INVALID"):
        await ada.call(functions.contacts.Block(id=types.InputPeerSelf()))
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await ada.call(functions.contacts.Block(id=types.InputPeerEmpty()))
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await ada.call(functions.contacts.Block(id=types.InputPeerUser(user_id=5, access_hash=5)))
    with pytest.raises(Refused, match="400 CHAT_ID_INVALID"):
        await ada.call(functions.contacts.Block(id=types.InputPeerChat(chat_id=5)))
    with pytest.raises(Refused, match="400 CHANNEL_INVALID"):
        await ada.call(functions.contacts.Block(id=types.InputPeerChannel(channel_id=5, access_hash=1)))


async def test_changes_that_another_is_told_of_are_bounded(server: Server) -> None:
    ada, adas = await server.account("Ada")
    bob, bobs = await server.account("Bob")
    await bob.call(functions.contacts.ImportContacts(contacts=[entry(1, adas)]))
    there = await ada.input_user(bobs)
    for _ in range(CHANGES_PER_MINUTE // 2):
        await add(ada, there, "Bob")
        await ada.call(functions.contacts.DeleteContacts(id=[there]))
    told = (await server.store.updates.state(bob.user_id)).pts
    with pytest.raises(Refused, match="420 FLOOD_WAIT_"):
        await add(ada, there, "Bob")
    assert (await server.store.updates.state(bob.user_id)).pts == told
