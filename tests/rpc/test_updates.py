"""Following the updates and asking afresh come to the same."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from itertools import count
from typing import Final

import pytest

from telesrv.domain.peers import Peer
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Replica, Server, fresh, running, same

FEWEST: Final = 20
"""Messages of each of those who send at once, and answers that find some while they do."""
MOST: Final = 1_000


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def test_a_new_account_has_a_state(server: Server) -> None:
    ada = await server.account()
    state = await ada.call(functions.updates.GetState())
    assert (state.pts, state.qts, state.seq, state.unread_count) == (1, 0, 1, 0)
    empty = await ada.difference(state.pts)
    assert isinstance(empty, types.updates.DifferenceEmpty)


async def test_a_stale_state_and_the_difference_are_the_fresh_state(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    replicas = {device.user_id: Replica(device.user_id, await device.pts()) for device in (ada, bob)}
    choose = random.Random(7)
    for _ in range(12):
        sender, receiver = choose.choice([(ada, bob), (bob, ada)])
        match choose.randrange(3):
            case 0:
                await sender.send(receiver, f"text {choose.random()}")
            case 1:
                await receiver.read(sender)
            case _:
                page = (await receiver.history(sender)).messages
                await receiver.read(sender, choose.choice(page).id if page else 1)
        for device, other in ((ada, bob), (bob, ada)):
            replica = replicas[device.user_id]
            await replica.catch_up(device)
            same(replica, await fresh(device, [other]))


async def test_pushes_and_the_fresh_state_are_the_same(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    second = await server.device(ada.user)
    start = await ada.pts()
    await server.pushes(ada.user_id)
    replicas = {device: Replica(device.user_id, start) for device in (ada, second)}
    await ada.send(bob, "one")
    await bob.send(ada, "two")
    await bob.read(ada)
    await second.read(bob)
    await second.send(bob, "three")
    pushes = await server.pushes(ada.user_id)
    assert [push.pts for push in pushes] == list(range(start + 1, start + 6))
    assert all((push.update.seq, push.update.chats) == (0, []) for push in pushes)
    assert pushes[0].exclude_session_id == ada.caller.session_id
    for device, replica in replicas.items():
        replica.follow_pushes(pushes, device)
        assert replica.pts == await device.pts()
    known = await fresh(ada, [bob])
    for replica in replicas.values():
        assert replica.messages.items() <= known.messages.items()
        assert replica.read_outbox[bob.user_id] == known.read_outbox[bob.user_id]
    assert {message.message for message in replicas[ada].messages.values()} == {"two", "three"}
    assert {message.message for message in replicas[second].messages.values()} == {"one", "two"}
    assert await server.pushes(ada.user_id) == []


async def test_a_long_absence_is_made_up_in_slices(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    replica = Replica(bob.user_id, await bob.pts())
    for number in range(25):
        await ada.send(bob, f"m{number}")
    assert await replica.catch_up(bob, pts_limit=10, pts_total_limit=5) == 4
    same(replica, await fresh(bob, [ada]))


async def test_what_comes_after_a_receipt_is_unread_in_the_same_answer(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    replica = Replica(bob.user_id, await bob.pts())
    await ada.send(bob, "read")
    await bob.read(ada)
    for number in range(2):
        await ada.send(bob, f"unread {number}")
    assert await replica.catch_up(bob) == 2
    assert replica.unread == {ada.user_id: 2}


async def test_the_sender_learns_which_of_its_sends_arrived(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    sender, receiver = [Replica(device.user_id, await device.pts()) for device in (ada, bob)]
    sent = await ada.send(bob, random_id=-77)
    await sender.catch_up(ada)
    await receiver.catch_up(bob)
    assert (sender.message_ids, receiver.message_ids) == ({-77: sent.id}, {})


async def test_a_pts_beyond_the_log_or_before_it_is_put_right(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    await ada.send(bob)
    head = await ada.pts()
    ahead = await ada.difference(head + 1000)
    assert isinstance(ahead, types.updates.Difference)
    assert (ahead.state.pts, ahead.new_messages) == (head, [])
    for pts in (0, -5):
        behind = await ada.difference(pts)
        assert (behind.state.pts, len(behind.new_messages)) == (head, 1)
    assert isinstance(await ada.difference(head, pts_limit=-3), types.updates.DifferenceEmpty)


async def test_events_without_a_pts_of_their_own(server: Server) -> None:
    ada, bob = await server.account(), await server.account("Bob")
    second = await server.device(ada.user)
    start = await ada.pts()
    await server.pushes(ada.user_id)
    blocks = server.store.blocks
    await blocks.block(ada.user_id, Peer.user(bob.user_id))
    await blocks.unblock(ada.user_id, Peer.user(bob.user_id))
    await server.store.profiles.set_username(ada.user_id, "ada_lovelace")
    replica, pushed = Replica(ada.user_id, start), []
    for push in await server.pushes(ada.user_id):
        pushed += push.update.updates
        replica.follow_pushes([push], second)
    answer = await ada.difference(start)
    shown = [update for update in pushed if not isinstance(update, types.UpdateDeleteMessages)]
    assert answer.other_updates == shown
    assert replica.pts == answer.state.pts == await ada.pts()
    blocks = [update.blocked for update in shown if isinstance(update, types.UpdatePeerBlocked)]
    assert blocks == [True, False]
    [renamed] = [update for update in shown if isinstance(update, types.UpdateUserName)]
    assert [name.username for name in renamed.usernames] == ["ada_lovelace"]


async def test_how_far_a_device_has_come_is_kept(server: Server) -> None:
    ada, bob = await server.account(), await server.account()

    async def kept() -> int | None:
        pts: int | None = await server.store.pool.fetchval(
            "SELECT pts FROM update_states WHERE auth_key_id = $1 AND user_id = $2",
            ada.caller.auth_key_id,
            ada.user_id,
        )
        return pts

    start = await ada.pts()
    assert await kept() == start
    sent = await ada.send(bob)
    await ada.difference(start)
    assert await kept() == start
    await ada.difference(sent.pts)
    assert await kept() == sent.pts
    await ada.difference(sent.pts + 500)
    assert await kept() == sent.pts


async def test_there_are_no_channels(server: Server) -> None:
    ada = await server.account()
    question = functions.updates.GetChannelDifference(
        channel=types.InputChannel(channel_id=1, access_hash=1),
        filter=types.ChannelMessagesFilterEmpty(),
        pts=1,
        limit=10,
    )
    with pytest.raises(Refused, match="400 CHANNEL_INVALID"):
        await ada.call(question)


async def test_polling_while_many_sends_are_in_flight_misses_nothing(
    server: Server, postgres_dsn: str, redis_url: str, redis_prefix: str
) -> None:
    ada, bob = await server.account(), await server.account()
    devices = [await server.device(ada.user), await server.device(bob.user)]
    start = {device: await device.pts() for device in devices}
    seen: dict[Device, list[int]] = {device: [] for device in devices}
    sending = True
    sent = met = 0

    async def send(sender: Device, receiver: Device) -> None:
        nonlocal sent
        for number in count():
            if number >= FEWEST and met >= FEWEST:
                break
            assert number < MOST, "no message came in while the devices asked"
            await sender.send(receiver, f"{number}")
            sent += 1

    async def poll(device: Device) -> None:
        nonlocal met
        pts = start[device]
        while True:
            last_turn = not sending
            answer = await device.difference(pts)
            if isinstance(answer, types.updates.DifferenceEmpty):
                if last_turn:
                    break
                continue
            met += sending
            seen[device] += [message.id for message in answer.new_messages]
            sliced = isinstance(answer, types.updates.DifferenceSlice)
            state = answer.intermediate_state if sliced else answer.state
            assert state.pts > pts
            pts = state.pts
        assert pts == await device.pts()

    # Bob sends through a process of his own: one process alone commits one batch after the other.
    async with running(postgres_dsn, redis_url, redis_prefix, node=2) as second:
        there = Device(second, bob.user, bob.caller.auth_key_id, bob.caller.session_id, bob.caller.layer)

        async def send_everything() -> None:
            nonlocal sending
            await asyncio.gather(*(send(*pair) for pair in [(ada, bob), (there, ada)] * 8))
            sending = False

        await asyncio.gather(send_everything(), *(poll(device) for device in devices))
    for device, other in zip(devices, (bob, ada), strict=True):
        everything: list[int] = []
        while page := (await device.history(other, offset_id=min(everything, default=0))).messages:
            everything += [message.id for message in page]
        assert len(everything) == sent
        assert sorted(seen[device]) == sorted(everything), "every message once"
