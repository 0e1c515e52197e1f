"""Search as clients see it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.rpc.convert.dialogs import messages_hash
from telesrv.tl import functions, types
from tests.rpc.bad_peers import bad_peers
from tests.rpc.chats import Device, Refused, Server, running

EMPTY = types.InputMessagesFilterEmpty()


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def search(device: Device, of: Any, q: str = "", **fields: Any) -> Any:
    zeros: dict[str, Any] = dict.fromkeys(
        ("min_date", "max_date", "offset_id", "add_offset", "max_id", "min_id", "hash"), 0
    )
    arguments: dict[str, Any] = zeros | {"limit": 100, "filter": EMPTY} | fields
    peer = device.peer(of) if isinstance(of, Device) else of
    return await device.call(functions.messages.Search(peer=peer, q=q, **arguments))


async def search_all(device: Device, q: str = "", **fields: Any) -> Any:
    zeros: dict[str, Any] = dict.fromkeys(("min_date", "max_date", "offset_rate", "offset_id"), 0)
    arguments: dict[str, Any] = zeros | {"limit": 100, "filter": EMPTY} | fields
    arguments.setdefault("offset_peer", types.InputPeerEmpty())
    return await device.call(functions.messages.SearchGlobal(q=q, **arguments))


def texts(answer: Any) -> list[str]:
    return [message.message for message in answer.messages]


async def index(server: Server, *devices: Device) -> None:
    for device in devices:
        while await server.store.search.index(device.user_id):
            pass


@pytest.mark.parametrize("indexed", [False, True])
async def test_words_of_every_script_are_found(server: Server, indexed: bool) -> None:
    ada, bob, eve = await server.account(), await server.account("Bob"), await server.account("Eve")
    for text in ("Hello there", "Всем Привет", "你好吗", "nice 👍🏽", "Un café", "hello again"):
        await ada.send(bob, text)
    await eve.send(ada, "hello from Eve")
    if indexed:
        await index(server, ada, bob, eve)
    for device, other in ((ada, bob), (bob, ada)):
        for q, found in (
            ("hel", ["hello again", "Hello there"]),
            ("there hell", ["Hello there"]),
            ("прив", ["Всем Привет"]),
            ("好", ["你好吗"]),
            ("你好", ["你好吗"]),
            ("👍", ["nice 👍🏽"]),
            ("CAFE", ["Un café"]),
            ("ello", []),
            ("nothing", []),
        ):
            answer = await search(device, other, q)
            assert texts(answer) == found, q
            assert isinstance(answer, types.messages.Messages)
    everywhere = await search_all(ada, "hello")
    assert texts(everywhere) == ["hello from Eve", "hello again", "Hello there"]
    assert {user.id for user in everywhere.users} == {ada.user_id, bob.user_id, eve.user_id}
    assert texts(await search(ada, types.InputPeerEmpty(), "hello")) == texts(everywhere)
    assert texts(await search_all(eve, "hello")) == ["hello from Eve"]


@pytest.mark.parametrize("indexed", [False, True])
async def test_edited_deleted_and_fresh_messages_are_right_at_once(server: Server, indexed: bool) -> None:
    ada, bob = await server.account(), await server.account("Bob")
    first = await ada.send(bob, "green apple")
    second = await ada.send(bob, "green pear")
    if indexed:
        await index(server, ada, bob)
    await ada.call(functions.messages.EditMessage(peer=ada.peer(bob), id=first.id, message="yellow apple"))
    await ada.call(functions.messages.DeleteMessages(id=[second.id], revoke=True))
    fresh = await bob.send(ada, "green melon")
    for device, other in ((ada, bob), (bob, ada)):
        assert texts(await search(device, other, "green")) == ["green melon"]
        assert texts(await search(device, other, "yell")) == ["yellow apple"]
        assert texts(await search(device, other, "apple")) == ["yellow apple"]
    await index(server, ada, bob)
    assert texts(await search(ada, bob, "green")) == ["green melon"]
    assert (await search(bob, ada, "melon")).messages[0].id == fresh.id


async def test_pages_and_bounds(server: Server) -> None:
    ada, bob = await server.account(), await server.account("Bob")
    ids = []
    for number in range(12):
        server.clock.advance(10)
        sender, other = (ada, bob) if number % 3 else (bob, ada)
        sent = await sender.send(other, f"word {number}")
        await ada.send(bob, "between")
        if number == 7:
            await index(server, ada, bob)
        ids.append(sent.id)
    whole = await search(ada, bob, "word")
    numbers = [message.id for message in whole.messages]
    assert texts(whole) == [f"word {number}" for number in reversed(range(12))]
    page = await search(ada, bob, "word", limit=4)
    assert ([m.id for m in page.messages], page.count, page.inexact) == (numbers[:4], 12, False)
    page = await search(ada, bob, "word", limit=4, offset_id=numbers[3])
    assert ([m.id for m in page.messages], page.offset_id_offset) == (numbers[4:8], 4)
    page = await search(ada, bob, "word", limit=4, offset_id=numbers[6], add_offset=-2)
    assert ([m.id for m in page.messages], page.count) == (numbers[5:9], 12)
    page = await search(ada, bob, "word", limit=3, add_offset=2)
    assert [m.id for m in page.messages] == numbers[2:5]
    page = await search(ada, bob, "word", max_id=numbers[2], min_id=numbers[6])
    assert [m.id for m in page.messages] == numbers[3:6]
    dates = [message.date for message in whole.messages]
    page = await search(ada, bob, "word", max_date=dates[2], min_date=dates[6])
    assert [m.id for m in page.messages] == numbers[3:6]
    mine = await search(ada, bob, "word", from_id=types.InputPeerSelf())
    theirs = await search(ada, bob, "", from_id=ada.peer(bob))
    assert {m.id for m in mine.messages} | {m.id for m in theirs.messages} == set(numbers)
    assert all(m.out for m in mine.messages) and not any(m.out for m in theirs.messages)
    found: list[int] = []
    rate = offset = 0
    while (answer := await search_all(ada, "word", limit=5, offset_rate=rate, offset_id=offset)).messages:
        found += [message.id for message in answer.messages]
        rate, offset = answer.next_rate, answer.messages[-1].id
    assert found == numbers
    assert (await search(ada, bob)).messages[0].message == "between"


async def test_all_chats_are_searched_by_author_and_by_kind(server: Server) -> None:
    ada, bob, eve = await server.account(), await server.account("Bob"), await server.account("Eve")
    await ada.send(bob, "to Bob")
    sent = await ada.send(eve, "to Eve, https://example.org")
    await eve.send(ada, "from Eve")
    pin = functions.messages.UpdatePinnedMessage(peer=ada.peer(eve), id=sent.id)
    await ada.call(pin)
    everywhere, pinned = types.InputPeerEmpty(), types.InputMessagesFilterPinned()
    mine = await search(ada, everywhere, "", from_id=types.InputPeerSelf())
    assert texts(mine) == ["to Eve, https://example.org", "to Bob"]
    assert texts(await search(ada, everywhere, "", from_id=ada.peer(eve))) == ["from Eve"]
    assert texts(await search(ada, everywhere, "to", from_id=types.InputPeerSelf())) == texts(mine)
    for q, filter_ in (("", pinned), ("eve", pinned), ("", types.InputMessagesFilterUrl())):
        found = ["to Eve, https://example.org"]
        assert texts(await search(ada, everywhere, q, filter=filter_)) == found
        assert texts(await search_all(ada, q, filter=filter_)) == found
    for q in ("bob", "from"):
        assert texts(await search(ada, everywhere, q, filter=pinned)) == []
        assert texts(await search_all(ada, q, filter=pinned)) == []
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await search(ada, everywhere)


async def test_dates_bound_a_search_of_all_chats(server: Server) -> None:
    ada, bob, eve = await server.account(), await server.account("Bob"), await server.account("Eve")
    dates = []
    for number, to in enumerate((bob, eve, bob)):
        dates.append((await ada.send(to, f"word {number}")).date)
        server.clock.advance(10)
    for _ in range(2):
        for min_date, max_date, found in (
            (dates[0], dates[2], ["word 1"]),
            (dates[0] - 1, dates[2] + 1, ["word 2", "word 1", "word 0"]),
            (dates[1], 0, ["word 2"]),
            (0, dates[1], ["word 0"]),
        ):
            answer = await search_all(ada, "word", min_date=min_date, max_date=max_date)
            assert texts(answer) == found, (min_date, max_date)
        await index(server, ada)


async def test_filters_folders_and_counters(server: Server) -> None:
    ada, bob, eve = await server.account(), await server.account("Bob"), await server.account("Eve")
    await ada.send(bob, "see https://example.org now")
    pinned = await ada.send(bob, "pinned word")
    await eve.send(ada, "word of Eve")
    await ada.call(functions.messages.UpdatePinnedMessage(peer=ada.peer(bob), id=pinned.id))
    peers = [types.InputFolderPeer(peer=ada.peer(eve), folder_id=1)]
    await ada.call(functions.folders.EditPeerFolders(folder_peers=peers))
    url, pins = types.InputMessagesFilterUrl(), types.InputMessagesFilterPinned()
    photos = types.InputMessagesFilterPhotos()
    for _ in range(2):
        assert texts(await search(ada, bob, filter=url)) == ["see https://example.org now"]
        assert texts(await search(ada, bob, "word", filter=url)) == []
        assert texts(await search_all(ada, filter=url)) == ["see https://example.org now"]
        assert texts(await search(ada, bob, filter=pins)) == ["pinned word"]
        assert texts(await search(ada, bob, "wor", filter=pins)) == ["pinned word"]
        assert texts(await search(ada, bob, "see", filter=pins)) == []
        assert texts(await search(ada, bob, "word", filter=photos)) == []
        counters = await ada.call(
            functions.messages.GetSearchCounters(peer=ada.peer(bob), filters=[url, pins, photos, url])
        )
        assert [(counter.count, counter.inexact) for counter in counters] == [
            (1, False), (1, False), (0, False), (1, False),
        ]  # fmt: skip
        assert texts(await search_all(ada, "word", folder_id=0)) == ["pinned word"]
        assert texts(await search_all(ada, "word", folder_id=1)) == ["word of Eve"]
        assert texts(await search_all(ada, "word", users_only=True)) == ["word of Eve", "pinned word"]
        for only in ("broadcasts_only", "groups_only"):
            assert texts(await search_all(ada, "word", **{only: True})) == []
        await index(server, ada)


async def test_the_same_answer_is_not_sent_again(server: Server) -> None:
    ada, bob = await server.account(), await server.account("Bob")
    sent = await ada.send(bob, "word")
    assert isinstance(await search(ada, bob, "word", hash=1), types.messages.Messages)
    boxes = await server.store.messages.get(ada.user_id, [sent.id])
    same = await search(ada, bob, "word", hash=messages_hash(boxes.values()))
    assert isinstance(same, types.messages.MessagesNotModified)
    await ada.call(functions.messages.EditMessage(peer=ada.peer(bob), id=sent.id, message="word!"))
    changed = await search(ada, bob, "word", hash=messages_hash(boxes.values()))
    assert texts(changed) == ["word!"]


async def test_bad_input(server: Server) -> None:
    ada, bob, eve = await server.account(), await server.account("Bob"), await server.account("Eve")
    await ada.send(bob, "word")
    counters = functions.messages.GetSearchCounters
    for peer, error in bad_peers(ada, bob, eve):
        with pytest.raises(Refused, match=f"400 {error}$"):
            await search(ada, peer)
        with pytest.raises(Refused, match=f"400 {error}$"):
            await ada.call(counters(peer=peer, filters=[types.InputMessagesFilterUrl()]))
        if not isinstance(peer, types.InputPeerEmpty):
            with pytest.raises(Refused, match=f"400 {error}$"):
                await search(ada, bob, "word", from_id=peer)
    with pytest.raises(Refused, match="400 SEARCH_QUERY_EMPTY"):
        await search_all(ada, " ")
    with pytest.raises(Refused, match="400 FOLDER_ID_INVALID"):
        await search_all(ada, "word", folder_id=5)
    huge = {"offset_id": 2**31 - 1, "add_offset": -(2**31), "limit": 2**31 - 1, "max_id": 2**31 - 1}
    negative = dict.fromkeys(("offset_id", "limit", "max_id", "min_id", "max_date"), -(2**31))
    negative["add_offset"] = 0
    assert texts(await search(ada, bob, "word", **negative)) == ["word"]
    assert texts(await search(ada, bob, "word", **huge)) == []
    for q in ("\x00", "word\x00", "%", "_", "\\", "'", "(", "[a", "x" * 100_000, "好" * 50_000):
        found = ["word"] if q == "word\x00" else []
        assert texts(await search(ada, bob, q)) == found, q
        assert texts(await search_all(ada, q)) == found, q
    many = await ada.call(counters(peer=ada.peer(bob), filters=[types.InputMessagesFilterUrl()] * 10_000))
    assert len(many) == 32
    assert texts(await search(ada, bob, "word", from_id=ada.peer(eve))) == []
    assert texts(await search(ada, bob, "word", top_msg_id=1)) == []
    assert texts(await search(eve, bob, "word")) == []
