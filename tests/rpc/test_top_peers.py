"""Whom an account writes to most, and notes on contacts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.top_peers import DECAY_S
from telesrv.rpc.convert.dialogs import list_hash
from telesrv.tl import functions, types
from tests.rpc.bad_peers import bad_peers
from tests.rpc.chats import Device, Refused, Server, running

f = functions


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def top(device: Device, **fields: Any) -> Any:
    arguments: dict[str, Any] = {"correspondents": True, "offset": 0, "limit": 10, "hash": 0}
    return await device.call(f.contacts.GetTopPeers(**(arguments | fields)))


def rated(answer: Any) -> list[int]:
    return [entry.peer.user_id for category in answer.categories for entry in category.peers]


async def test_correspondents_by_use(server: Server) -> None:
    ada, bob, eve, dan = [await server.account() for _ in range(4)]
    for _ in range(3):
        await ada.send(bob)
    server.clock.advance(2 * DECAY_S)
    await ada.send(eve)
    await ada.send(ada)
    await dan.send(ada)
    answer = await top(ada)
    assert rated(answer) == [eve.user_id, bob.user_id]
    [category] = answer.categories
    assert category.count == 2
    assert category.peers[0].rating == 1 > category.peers[1].rating > 0
    assert [user.id for user in answer.users] == [eve.user_id, bob.user_id]
    assert rated(await top(ada, offset=1)) == [bob.user_id]
    assert rated(await top(ada, limit=1)) == [eve.user_id]
    assert rated(await top(ada, offset=-(2**31), limit=2**31 - 1)) == rated(answer)
    assert rated(await top(ada, correspondents=False, groups=True)) == []
    known = list_hash([eve.user_id, bob.user_id])
    assert isinstance(await top(ada, hash=known), types.contacts.TopPeersNotModified)
    with pytest.raises(Refused, match="400 TYPES_EMPTY"):
        await top(ada, correspondents=False)


async def test_a_rating_begins_anew(server: Server) -> None:
    ada, bob, eve = [await server.account() for _ in range(3)]
    for other in (bob, bob, eve):
        await ada.send(other)
    unsaid = [(await ada.send(eve)).id for _ in range(3)]
    assert rated(await top(ada)) == [eve.user_id, bob.user_id]
    await ada.call(f.messages.DeleteMessages(id=unsaid))
    category = types.TopPeerCategoryCorrespondents()
    other_category = types.TopPeerCategoryGroups()
    await ada.call(f.contacts.ResetTopPeerRating(category=other_category, peer=ada.peer(bob)))
    assert rated(await top(ada)) == [bob.user_id, eve.user_id]
    await ada.call(f.contacts.ResetTopPeerRating(category=category, peer=ada.peer(bob)))
    assert rated(await top(ada)) == [eve.user_id]
    await ada.call(f.contacts.ToggleTopPeers(enabled=False))
    assert isinstance(await top(ada), types.contacts.TopPeersDisabled)
    await ada.send(eve)
    await ada.call(f.contacts.ToggleTopPeers(enabled=True))
    await ada.call(f.contacts.ToggleTopPeers(enabled=True))
    assert rated(await top(ada)) == []
    await ada.send(bob)
    assert rated(await top(ada)) == [bob.user_id]
    stranger = await server.account()
    for peer, error in bad_peers(ada, bob, stranger):
        with pytest.raises(Refused, match=f"400 {error}"):
            await ada.call(f.contacts.ResetTopPeerRating(category=category, peer=peer))


def user(device: Device, other: Device) -> types.InputUser:
    peer = device.peer(other)
    return types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)


async def test_a_note_is_shown_to_its_owner_alone(server: Server) -> None:
    ada, bob = await server.account(), await server.account()

    async def note(device: Device, other: Device) -> Any:
        return (await device.call(f.users.GetFullUser(id=user(device, other)))).full_user.note

    text = types.TextWithEntities(
        text=" met at example.com ",
        entities=[types.MessageEntityBold(offset=1, length=3), types.MessageEntityUrl(offset=8, length=11)],
    )
    with pytest.raises(Refused, match="400 CONTACT_ID_INVALID"):
        await ada.call(f.contacts.UpdateContactNote(id=user(ada, bob), note=text))
    await ada.call(
        f.contacts.AddContact(id=user(ada, bob), first_name="B", last_name="", phone="", note=text)
    )
    kept = types.TextWithEntities(
        text="met at example.com", entities=[types.MessageEntityBold(offset=0, length=3)]
    )
    assert (await note(ada, bob), await note(bob, ada)) == (kept, None)
    long = types.TextWithEntities(text="x" * 129, entities=[])
    with pytest.raises(Refused, match="400 MESSAGE_TOO_LONG"):
        await ada.call(f.contacts.UpdateContactNote(id=user(ada, bob), note=long))
    start = await ada.pts()
    other = types.TextWithEntities(text="tall", entities=[])
    assert await ada.call(f.contacts.UpdateContactNote(id=user(ada, bob), note=other))
    [_, changed] = (await ada.difference(start)).other_updates
    assert changed == types.UpdateUser(user_id=bob.user_id)
    assert await note(ada, bob) == other
    nothing = types.TextWithEntities(text=" \0", entities=[])
    assert await ada.call(f.contacts.UpdateContactNote(id=user(ada, bob), note=nothing))
    assert await note(ada, bob) is None
    assert await ada.call(f.contacts.UpdateContactNote(id=user(ada, bob), note=other))
    start = await ada.pts()
    await ada.call(f.contacts.DeleteContacts(id=[user(ada, bob)]))
    assert types.UpdateUser(user_id=bob.user_id) in (await ada.difference(start)).other_updates
    assert await note(ada, bob) is None


async def test_whole_block_lists_and_numbers_are_bounded(server: Server) -> None:
    ada, bob, stranger = [await server.account() for _ in range(3)]
    for method in (
        f.contacts.SetBlocked(id=[ada.peer(bob)] * 10_000, limit=1),
        f.contacts.SetBlocked(id=[], limit=-1),
        f.contacts.DeleteByPhones(phones=["1"] * 10_000),
    ):
        with pytest.raises(Refused, match="400 LIMIT_INVALID"):
            await ada.call(method)
    before = await ada.pts()
    for peer, error in bad_peers(ada, bob, stranger):
        with pytest.raises(Refused, match=f"400 {error}"):
            await ada.call(f.contacts.SetBlocked(id=[ada.peer(bob), peer], limit=10))
    with pytest.raises(Refused, match="400 CONTACT_ID_INVALID"):
        await ada.call(f.contacts.SetBlocked(id=[types.InputPeerSelf()], limit=10))
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await ada.call(f.contacts.SetBlocked(id=[ada.peer(5)], limit=10))
    assert await ada.pts() == before
    assert await ada.call(f.contacts.SetBlocked(id=[ada.peer(bob)], limit=10, my_stories_from=True))
    assert await ada.pts() == before
    assert await ada.call(f.contacts.ResetSaved())
