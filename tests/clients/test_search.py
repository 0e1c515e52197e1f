"""Search and lists of chats, as clients that page by rules of their own see them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from telethon import functions, types

from tests.clients.conftest import MakeProcess, MakeTelethon, new_phone

TEXTS = [
    "Привет, мир", "привет ещё раз", "你好吗", "我很好", "nice 👍🏽 and 🎉", "see https://example.com/",
    "plain words", "Ёлка",
]  # fmt: skip
FOUND = {
    "привет": ["привет ещё раз", "Привет, мир"],
    "при": ["привет ещё раз", "Привет, мир"],
    "елка": ["Ёлка"],
    "好": ["我很好", "你好吗"],
    "你好": ["你好吗"],
    "很": ["我很好"],
    "👍": ["nice 👍🏽 and 🎉"],
    "🎉": ["nice 👍🏽 and 🎉"],
    "words plain": ["plain words"],
    "nothing of it": [],
}


async def texts(messages: Any) -> list[str]:
    return [message.message async for message in messages]


async def test_every_script_is_found_by_both_clients(
    telethon: MakeTelethon, pyrogram_like: MakeProcess
) -> None:
    phone = new_phone()
    alice, kurigram = await telethon(), await pyrogram_like("kurigram")
    await alice.log_in(phone, "Alice")
    await kurigram.log_in(phone)
    bob, carol = await telethon(), await telethon()
    for other, name in ((bob, "Bob"), (carol, "Carol")):
        other_phone = new_phone()
        await other.log_in(other_phone, name)
        await alice.import_contact(other_phone, name)
        await kurigram.import_contact(other_phone, name)
    ids = [await alice.send(bob.user_id, text) for text in TEXTS]
    await bob.import_contact(phone, "Alice")
    await bob.send(alice.user_id, "привет от Боба")
    await alice.send(carol.user_id, "привет, Кэрол")
    await alice.client.pin_message(bob.user_id, ids[2])

    client, chat = alice.client, bob.user_id
    assert await kurigram.count(chat) == len(await client.get_messages(chat, limit=None)) > len(TEXTS)
    for query, found in FOUND.items():
        theirs = ["привет от Боба"] if "привет от Боба".startswith(query) else []
        elsewhere = ["привет, Кэрол"] if theirs else []
        assert await texts(alice.messages(chat, search=query)) == theirs + found, query
        assert await kurigram.search(chat, query) == theirs + found, query
        assert await texts(alice.messages(None, search=query)) == elsewhere + theirs + found, query
        assert await kurigram.search_everywhere(query) == elsewhere + theirs + found, query
    own = ["привет ещё раз", "Привет, мир"]
    assert await texts(alice.messages(chat, search="привет", from_user="me")) == own
    assert await kurigram.search(chat, "привет", True) == own
    assert await texts(alice.messages(chat, search="привет", from_user=chat)) == ["привет от Боба"]
    # The client's own method fails before it asks.
    asked = functions.messages.SearchRequest(
        types.InputPeerEmpty(), "", types.InputMessagesFilterEmpty(), None, None, 0, 0, 100, 0, 0, 0,
        from_id=types.InputPeerSelf(),
    )  # fmt: skip
    answer = await client(asked)
    assert [message.message for message in answer.messages] == ["привет, Кэрол", *reversed(TEXTS)]
    pinned = types.InputMessagesFilterPinned
    assert await texts(alice.messages(chat, filter=pinned)) == ["你好吗"]
    assert await kurigram.search(chat, "", False, True) == ["你好吗"]
    assert await texts(alice.messages(None, filter=pinned)) == ["你好吗"]
    for where in (chat, None):
        found = alice.messages(where, filter=types.InputMessagesFilterUrl)
        assert await texts(found) == ["see https://example.com/"]
        photos = alice.messages(where, filter=types.InputMessagesFilterPhotos)
        assert await texts(photos) == []


@pytest.mark.parametrize("number", [100, 230])
async def test_more_than_a_page_is_found_once_and_in_order(
    telethon: MakeTelethon, pyrogram_like: MakeProcess, number: int
) -> None:
    phone = new_phone()
    alice, kurigram = await telethon(), await pyrogram_like("kurigram")
    await alice.log_in(phone, "Alice")
    await kurigram.log_in(phone)
    # Whoever has few messages ends by their ids; here they go on until there is nothing more.
    for _ in range(0, number, 50):
        await asyncio.gather(*(alice.client.send_message("me", "something else") for _ in range(25)))
    for start in range(0, number, 50):
        some = range(start, min(number, start + 50))
        await asyncio.gather(*(alice.client.send_message("me", f"найди {place}") for place in some))
    every = [text for text in await texts(alice.messages("me")) if text != "something else"]
    assert sorted(every) == sorted(f"найди {place}" for place in range(number))
    assert await texts(alice.messages("me", search="найди")) == every
    assert await texts(alice.messages("me", search="найди", reverse=True)) == every[::-1]
    assert await texts(alice.messages(None, search="найди")) == every
    assert await kurigram.search(alice.user_id, "найди") == every  # it pages by add_offset
    assert await kurigram.search_everywhere("найди") == every


async def test_the_archive_is_apart_from_the_main_list(
    telethon: MakeTelethon, pyrogram_like: MakeProcess
) -> None:
    phone = new_phone()
    alice, kurigram = await telethon(), await pyrogram_like("kurigram")
    await alice.log_in(phone, "Alice")
    await kurigram.log_in(phone)
    others = []
    for name in ("Bob", "Carol", "Dave"):
        others.append(await telethon())
        other_phone = new_phone()
        await others[-1].log_in(other_phone, name)
        await alice.import_contact(other_phone, name)
        await alice.send(others[-1].user_id, "hello")
    bob, carol, dave = (other.user_id for other in others)
    await alice.client.edit_folder(carol, 1)

    async def of(**options: Any) -> list[int]:
        dialogs = await alice.client.get_dialogs(**options)
        return [dialog.id for dialog in dialogs if dialog.id != 777000]

    async def seen(from_archive: bool | None) -> list[int]:
        return [user_id for user_id in await kurigram.dialogs(from_archive) if user_id != 777000]

    for archived, listed in ((False, [dave, bob]), (True, [carol]), (None, [dave, carol, bob])):
        assert await of(archived=archived) == listed
        assert await seen(archived) == listed
    assert await of(folder=0, ignore_pinned=True) == [dave, bob]
    assert await of(folder=0, limit=1) == [dave]
