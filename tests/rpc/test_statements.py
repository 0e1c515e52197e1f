"""Answers take a fixed number of statements, whatever the number of messages, chats and users in them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from telesrv.domain.peers import Peer
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Server, running


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix, min_conns=1, max_conns=1) as server:
        yield server


@pytest.fixture
async def statements(server: Server) -> list[str]:
    """Every statement that the store's one connection has run, in order."""
    seen: list[str] = []
    async with server.store.pool.acquire() as connection:
        connection.add_query_logger(lambda record: seen.append(record.query))
    return seen


async def _history(server: Server, device: Device, others: list[Device]) -> Any:
    return await device.history(others[0])


async def _dialogs(server: Server, device: Device, others: list[Device]) -> Any:
    return await device.dialogs()


async def _peer_dialogs(server: Server, device: Device, others: list[Device]) -> Any:
    peers: list[types.TypeInputDialogPeer] = [
        types.InputDialogPeer(peer=device.peer(other)) for other in others
    ]
    return await device.call(functions.messages.GetPeerDialogs(peers=peers))


async def _messages(server: Server, device: Device, others: list[Device]) -> Any:
    named: list[types.TypeInputMessage] = [types.InputMessageID(id=number) for number in range(1, 100)]
    return await device.call(functions.messages.GetMessages(id=named))


async def _difference(server: Server, device: Device, others: list[Device]) -> Any:
    return await device.difference(1)


@pytest.mark.parametrize("ask", [_history, _dialogs, _peer_dialogs, _messages, _difference])
async def test_more_messages_and_users_take_no_more_statements(
    server: Server,
    statements: list[str],
    ask: Callable[[Server, Device, list[Device]], Awaitable[Any]],
) -> None:
    ada = await server.account()
    others = [await server.account()]
    await others[0].send(ada)
    await ask(server, ada, others)
    statements.clear()
    await ask(server, ada, others)
    few = len(statements)
    for _ in range(5):
        others.append(await server.account())
        await others[-1].send(ada)
        await others[0].send(ada)
    await ask(server, ada, others)
    statements.clear()
    await ask(server, ada, others)
    assert 0 < len(statements) == few <= 12


def _reads_of_messages(statements: list[str]) -> list[str]:
    return [statement for statement in statements if "FROM message_boxes" in statement]


async def test_five_hundred_messages_of_a_chat_are_two_reads(server: Server, statements: list[str]) -> None:
    ada, bob = await server.account(), await server.account()
    ids: list[int] = []
    for _ in range(10):
        answers = await asyncio.gather(*(ada.send(bob) for _ in range(50)))
        ids += (answer.id for answer in answers)
    chat = Peer.user(bob.user_id)
    statements.clear()
    found = await server.store.messages.newest(ada.user_id, [chat], 500)
    assert [box.box_id for box in found[chat]] == sorted(ids, reverse=True)
    assert len(statements) == 2
    statements.clear()
    named: list[types.TypeInputMessage] = [types.InputMessageID(id=number) for number in ids[:100]]
    assert len((await ada.call(functions.messages.GetMessages(id=named))).messages) == 100
    assert len(_reads_of_messages(statements)) == 1
    statements.clear()
    assert len((await ada.history(bob)).messages) == 100
    assert len(_reads_of_messages(statements)) == 1


async def test_the_newest_messages_of_many_chats_are_two_reads(server: Server, statements: list[str]) -> None:
    ada = await server.account()
    others = [await server.account() for _ in range(20)]
    for number in range(7):
        for other in others:
            sender, receiver = (ada, other) if number % 2 else (other, ada)
            await sender.send(receiver, f"{number}")
    last = await ada.send(others[0], "deleted")
    await ada.call(functions.messages.DeleteMessages(id=[last.id]))
    stranger = await server.account()
    chats = [Peer.user(other.user_id) for other in (*others, stranger)]
    statements.clear()
    found = await server.store.messages.newest(ada.user_id, [*chats, chats[0]], 5)
    assert len(statements) == 2
    assert list(found) == chats
    assert found[chats[-1]] == ()
    for chat in chats[:-1]:
        assert [box.text for box in found[chat]] == ["6", "5", "4", "3", "2"]
        assert {(box.owner_user_id, box.peer) for box in found[chat]} == {(ada.user_id, chat)}
    assert await server.store.messages.newest(ada.user_id, chats, 0) == {}
    assert await server.store.messages.newest(ada.user_id, [], 5) == {}


async def _edit(device: Device, other: Device) -> None:
    sent = (await device.send(other)).id
    await device.call(functions.messages.EditMessage(peer=device.peer(other), id=sent, message="mended"))


async def _delete(device: Device, other: Device) -> None:
    sent = (await device.send(other)).id
    await device.call(functions.messages.DeleteMessages(id=[sent], revoke=True))


async def _delete_the_chat(device: Device, other: Device) -> None:
    await device.send(other)
    await device.call(functions.messages.DeleteHistory(peer=device.peer(other), max_id=0, revoke=True))


async def _save_a_draft(device: Device, other: Device) -> None:
    sent = (await device.send(other)).id
    await device.call(functions.messages.SaveDraft(peer=device.peer(other), message=f"after {sent}"))


@pytest.mark.parametrize(
    ("change", "number"), [(_edit, 11), (_delete, 8), (_delete_the_chat, 9), (_save_a_draft, 7)]
)
async def test_a_change_takes_few_statements(
    server: Server,
    statements: list[str],
    change: Callable[[Device, Device], Awaitable[None]],
    number: int,
) -> None:
    """BEGIN and COMMIT count; sending does not: that is two."""
    ada, bob = await server.account(), await server.account()
    await ada.send(bob)
    await change(ada, bob)  # what is looked up once is known now
    statements.clear()
    await change(ada, bob)
    assert len(statements) - 2 == number, "\n".join(statements)


async def _arrange(device: Device, other: Device) -> None:
    """Gives a chat everything that a list of chats shows beside its top message."""
    named = other.peer(device)
    allowed = types.InputPrivacyValueAllowUsers(
        users=[types.InputUser(user_id=named.user_id, access_hash=named.access_hash)]
    )
    for key in (types.InputPrivacyKeyStatusTimestamp(), types.InputPrivacyKeyPhoneNumber()):
        rules: list[types.TypeInputPrivacyRule] = [allowed, types.InputPrivacyValueDisallowAll()]
        await other.call(functions.account.SetPrivacy(key=key, rules=rules))
    peer = device.peer(other)
    await device.call(
        functions.contacts.AddContact(
            id=types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash),
            first_name="Known",
            last_name="",
            phone="",
        )
    )
    await device.call(functions.messages.SaveDraft(peer=peer, message="not yet"))
    await device.call(functions.messages.SetHistoryTTL(peer=peer, period=86400))
    settings = types.InputPeerNotifySettings(silent=True)
    notify = types.InputNotifyPeer(peer=peer)
    await device.call(functions.account.UpdateNotifySettings(peer=notify, settings=settings))


async def test_a_list_of_chats_with_all_that_is_known_of_them_takes_no_more_statements(
    server: Server, statements: list[str]
) -> None:
    ada = await server.account()
    counts: list[int] = []
    for number in (1, 2, 17):
        for _ in range(number):
            other = await server.account()
            await other.send(ada)
            await _arrange(ada, other)
        await ada.dialogs()
        statements.clear()
        page = await ada.dialogs()
        counts.append(len(statements))
    assert len(page.dialogs) == len(page.messages) == 20
    assert all(
        dialog.draft and dialog.notify_settings.silent and dialog.ttl_period for dialog in page.dialogs
    )
    assert sum(bool(user.contact and user.phone) for user in page.users) == 20
    assert counts == counts[:1] * 3
    assert counts[0] <= 16


async def test_what_is_asked_does_not_tell_of_numbers_whose_accounts_hide(
    server: Server, statements: list[str]
) -> None:
    """The time of an answer would: a number without an account is looked into as far as one that hides."""
    ada, bob = await server.account(), await server.account()
    blocking = await server.account()
    for hidden in (bob, blocking):
        rules: list[types.TypeInputPrivacyRule] = [types.InputPrivacyValueDisallowAll()]
        await hidden.call(functions.account.SetPrivacy(key=types.InputPrivacyKeyAddedByPhone(), rules=rules))
    await blocking.call(functions.contacts.Block(id=blocking.peer(ada)))
    await ada.pts()  # her own account is known from now on
    asked: list[list[str]] = []
    for phone in ("18880001", bob.user.phone, blocking.user.phone):
        statements.clear()
        for name in ("Once", "Once", "Again"):
            contact = types.InputPhoneContact(client_id=1, phone=phone, first_name=name, last_name="")
            answer = await ada.call(functions.contacts.ImportContacts(contacts=[contact]))
            assert (answer.imported, answer.retry_contacts, answer.users) == ([], [], [])
        with pytest.raises(Refused, match="400 PHONE_NOT_OCCUPIED"):
            await ada.call(functions.contacts.ResolvePhone(phone=phone))
        asked.append(list(statements))
    assert asked[0]
    assert asked[1:] == [asked[0]] * 2
