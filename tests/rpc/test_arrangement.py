"""Every way to arrange the list of chats: each device ends in the same state, told or asked afresh."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.tl import functions, types
from tests.rpc.arranged import same_arranged
from tests.rpc.chats import Device, Refused, Replica, Server, fresh, running, same


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


def dialog_peer(device: Device, other: Device) -> types.InputDialogPeer:
    return types.InputDialogPeer(peer=device.peer(other))


def a_filter(filter_id: int, title: str = "Work", **fields: Any) -> types.DialogFilter:
    empty: dict[str, Any] = {"pinned_peers": [], "include_peers": [], "exclude_peers": []}
    return types.DialogFilter(
        id=filter_id, title=types.TextWithEntities(text=title, entities=[]), **(empty | fields)
    )


def an_action(device: Device, others: list[Device], choose: random.Random) -> Any:
    """Returns a random call that arranges something."""
    other, folder_id = choose.choice(others), choose.randrange(2)
    some = choose.sample(others, choose.randrange(4))
    flag, filter_id = choose.random() < 0.5, choose.randrange(2, 5)
    f = functions
    return choose.choice(
        [
            f.messages.ToggleDialogPin(pinned=flag, peer=dialog_peer(device, other)),
            f.messages.ReorderPinnedDialogs(
                force=flag, folder_id=folder_id, order=[dialog_peer(device, one) for one in some]
            ),
            f.folders.EditPeerFolders(
                folder_peers=[
                    types.InputFolderPeer(peer=device.peer(one), folder_id=folder_id)
                    for one in [other, *some]
                ]
            ),
            f.messages.MarkDialogUnread(unread=flag, peer=dialog_peer(device, other)),
            f.messages.ReadHistory(peer=device.peer(other), max_id=choose.randrange(3)),
            f.messages.SaveDraft(
                peer=device.peer(other),
                message=choose.choice(["", "to be sent ", "later"]),
                entities=[
                    types.InputMessageEntityMentionName(
                        offset=0, length=2, user_id=_input_user(device, choose.choice(others))
                    )
                ]
                if flag
                else None,
            )
            if choose.random() < 0.9
            else f.messages.ClearAllDrafts(),
            f.messages.UpdateDialogFilter(
                id=filter_id,
                filter=a_filter(
                    filter_id,
                    choose.choice(["Work", "Home"]),
                    contacts=flag,
                    include_peers=[device.peer(one) for one in [other, *some]],
                ),
            )
            if choose.random() < 0.8
            else f.messages.UpdateDialogFilter(id=filter_id),
            f.messages.UpdateDialogFiltersOrder(order=choose.sample(range(6), 5)),
            f.messages.ToggleDialogFilterTags(enabled=flag),
            f.messages.HidePeerSettingsBar(peer=device.peer(other)),
            f.contacts.Block(id=device.peer(other)) if flag else f.contacts.Unblock(id=device.peer(other)),
            f.contacts.SetBlocked(id=[device.peer(one) for one in some], limit=10),
            f.contacts.AddContact(
                id=_input_user(device, other),
                first_name=choose.choice("ab"),
                last_name="",
                phone="",
                add_phone_privacy_exception=flag,
            ),
            f.contacts.DeleteContacts(id=[_input_user(device, one) for one in some]),
        ]
    )


def _input_user(device: Device, other: Device) -> types.InputUser:
    peer = device.peer(other)
    return types.InputUser(user_id=peer.user_id, access_hash=peer.access_hash)


async def attempt(device: Device, method: Any) -> None:
    """Calls; what may be refused for what other calls did is refused by its name."""
    try:
        await device.call(method)
    except Refused as error:
        assert error.type in ("PEER_ID_INVALID", "ENTITY_BOUNDS_INVALID"), (method, error.type)


async def world(server: Server) -> tuple[Device, Device, list[Device]]:
    """Returns two devices of an account and those that wrote to it."""
    ada = await server.account()
    others = [await server.account(f"n{n}") for n in range(4)]
    for other in others:
        await other.send(ada, "one")
        await other.send(ada, "two")
    return ada, await server.device(ada.user), others


@pytest.mark.parametrize("seed", range(4))
async def test_following_and_asking_come_to_the_same(server: Server, seed: int) -> None:
    choose = random.Random(seed)
    ada, second, others = await world(server)
    following = {device: await fresh(device, others) for device in (ada, second)}
    away = await fresh(second, others)
    await server.pushes(ada.user_id)
    for step in range(60):
        server.clock.advance(choose.randrange(2))
        device = choose.choice([ada, second])
        await attempt(device, an_action(device, others, choose))
        if step % 10 == 9:
            asked = await fresh(ada, others)
            pushes = await server.pushes(ada.user_id)
            for receiver, replica in following.items():
                replica.follow_pushes(pushes, receiver)
                assert replica.pts == asked.pts
            # what a device did itself and was told in the answer is not pushed to it: only the other follows
            await away.catch_up(second)
            same(away, asked)
    for replica in following.values():
        assert replica.pts == away.pts


async def test_the_other_device_follows_by_pushes_alone(server: Server) -> None:
    choose = random.Random(11)
    ada, second, others = await world(server)
    told = await fresh(second, others)
    await server.pushes(ada.user_id)
    for _ in range(80):
        await attempt(ada, an_action(ada, others, choose))
    told.follow_pushes(await server.pushes(ada.user_id), second)
    same(told, await fresh(second, others))


async def test_what_is_changed_at_once_is_logged_in_the_order_it_was_made(server: Server) -> None:
    choose = random.Random(5)
    ada, second, others = await world(server)
    told = await fresh(second, others)
    for _ in range(6):
        calls = [(device, an_action(device, others, choose)) for device in (ada, second) for _ in range(6)]
        await asyncio.gather(*(attempt(device, method) for device, method in calls))
        await told.catch_up(second)
        asked = await fresh(ada, others)
        assert told.pts == asked.pts
        same_arranged(told.arranged, asked.arranged)


async def test_answers_without_pts_leave_the_caller_nothing_to_ask_for(server: Server) -> None:
    """The calling session gets the events of such calls as well, so its pts has no gap."""
    ada, _, others = await world(server)
    replica = await fresh(ada, others)
    await server.pushes(ada.user_id)
    for method in (
        functions.messages.ToggleDialogPin(pinned=True, peer=dialog_peer(ada, others[0])),
        functions.messages.MarkDialogUnread(unread=True, peer=dialog_peer(ada, others[1])),
        functions.messages.SaveDraft(peer=ada.peer(others[2]), message="later"),
        functions.messages.UpdateDialogFilter(id=2, filter=a_filter(2, contacts=True)),
        functions.messages.HidePeerSettingsBar(peer=ada.peer(others[3])),
    ):
        assert await ada.call(method) is True
    pushes = await server.pushes(ada.user_id)
    assert {push.exclude_session_id for push in pushes} == {0}
    replica.follow_pushes(pushes, ada)
    same(replica, await fresh(ada, others))


async def test_reading_takes_a_manual_mark_off_and_tells_so(server: Server) -> None:
    ada, second, [bob, eve, *_] = await world(server)
    for other in (bob, eve):
        await ada.call(functions.messages.MarkDialogUnread(unread=True, peer=dialog_peer(ada, other)))
    start = await ada.pts()
    replica = Replica(ada.user_id, start)
    answer = await ada.read(bob)
    assert (answer.pts, answer.pts_count) == (start + 2, 2)
    answer = await ada.read(bob)
    assert (answer.pts, answer.pts_count) == (start + 2, 0)
    await ada.call(functions.messages.MarkDialogUnread(unread=True, peer=dialog_peer(ada, bob)))
    answer = await ada.read(bob)
    assert (answer.pts, answer.pts_count) == (start + 4, 1)
    replica.arranged.marks = {bob.user_id, eve.user_id}
    await replica.catch_up(second)
    assert replica.arranged.marks == {eve.user_id}
    assert (replica.pts, replica.unread[bob.user_id]) == (start + 4, 0)
