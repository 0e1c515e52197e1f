"""Forwards as every device sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv.domain.peers import Peer
from telesrv.domain.scheduled import MAX_PER_CHAT
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Server, running
from tests.rpc.test_privacy import NOBODY, set_rules
from tests.rpc.worlds import Pair

AT = 1_700_000_600


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def forward(
    device: Device,
    source: Device,
    target: Any,
    ids: list[int],
    random_ids: list[int] | None = None,
    **fields: Any,
) -> Any:
    peer = device.peer(target) if isinstance(target, Device) else target
    chosen = random_ids if random_ids is not None else [next(device.server.random_ids) for _ in ids]
    return await device.call(
        functions.messages.ForwardMessages(
            from_peer=device.peer(source), to_peer=peer, id=ids, random_id=chosen, **fields
        )
    )


async def test_forwards_keep_their_order_and_their_first_author(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    eve = await server.account("Eve")
    pair.others.append(eve)
    entities: list[types.TypeMessageEntity] = [types.MessageEntityBold(offset=0, length=3)]
    for number in range(3):
        await eve.send(ada, f"one {number}", entities=entities)
    ids = [message.id for message in (await ada.history(eve)).messages][::-1]
    server.clock.advance(50)
    answer = await forward(ada, eve, bob, [ids[2], ids[0], ids[1]], [71, 72, 73], silent=True)
    named = [update for update in answer.updates if isinstance(update, types.UpdateMessageID)]
    sent = [update.message for update in answer.updates if isinstance(update, types.UpdateNewMessage)]
    assert [update.random_id for update in named] == [71, 72, 73]
    assert [message.id for message in sent] == [update.id for update in named]
    assert [message.message for message in sent] == ["one 2", "one 0", "one 1"]
    for message in (*sent, *(await bob.history(ada)).messages):
        assert message.fwd_from == types.MessageFwdHeader(
            from_id=types.PeerUser(user_id=eve.user_id), date=1_700_000_000
        )
        assert (message.silent, message.entities, message.date) == (True, entities, 1_700_000_050)
    assert {user.id for user in answer.users} == {ada.user_id, bob.user_id, eve.user_id}
    assert eve.user_id in {user.id for user in (await bob.history(ada)).users}
    await pair.check()
    [first, *_] = (await bob.history(ada)).messages
    await forward(bob, ada, bob, [first.id])
    [saved, *_] = (await bob.history(bob)).messages
    assert saved.fwd_from.from_id == types.PeerUser(user_id=eve.user_id)
    assert (saved.fwd_from.saved_from_peer, saved.fwd_from.saved_from_msg_id) == (
        types.PeerUser(user_id=ada.user_id),
        first.id,
    )
    await forward(bob, ada, ada, [first.id], drop_author=True)
    [plain, *_] = (await bob.history(ada)).messages
    assert (plain.message, plain.fwd_from) == ("one 1", None)
    await pair.check()


@pytest.mark.parametrize("gone", [False, True])
async def test_an_author_who_hides_or_is_gone_stands_there_by_name(server: Server, gone: bool) -> None:
    pair = await Pair.of(server)
    ada, bob, eve = pair.ada, pair.bob, await server.account("Eve")
    pair.others.append(eve)
    first = await eve.send(ada, "of Eve")
    [received] = (await ada.history(eve)).messages
    if gone:
        await eve.call(functions.account.DeleteAccount(reason=""))
    else:
        await set_rules(eve, types.InputPrivacyKeyForwards(), NOBODY)
    await forward(ada, eve, bob, [received.id])
    [copy, *_] = (await bob.history(ada)).messages
    await forward(bob, ada, ada, [copy.id])
    [again, *_] = (await ada.history(bob)).messages
    shown = types.MessageFwdHeader(date=first.date, from_name="Deleted Account" if gone else "Eve")
    assert (copy.fwd_from, again.fwd_from) == (shown, shown)
    await pair.check()


async def test_a_repeat_is_the_same_messages(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    ids = [(await ada.send(bob, f"m{n}")).id for n in range(2)]
    first = await forward(ada, bob, bob, ids, [81, 82])
    before = await ada.pts(), await bob.pts()
    assert (await forward(ada, bob, bob, ids, [81, 82])).updates == first.updates
    assert (await ada.pts(), await bob.pts()) == before
    await ada.call(functions.messages.DeleteMessages(id=ids))
    again = await forward(ada, bob, bob, ids, [81, 82])
    assert [update.id for update in again.updates[:2]] == [update.id for update in first.updates[:2]]
    with pytest.raises(Refused, match="400 MESSAGE_ID_INVALID"):
        await forward(ada, bob, bob, ids, [83, 84])
    other = [update.id for update in first.updates[:2]]
    with pytest.raises(Refused, match="400 RANDOM_ID_DUPLICATE"):
        await forward(ada, bob, bob, other, [81, 82])
    await pair.check()


@pytest.mark.parametrize("later", [None, AT])
async def test_nothing_is_forwarded_when_one_of_many_cannot_be(server: Server, later: int | None) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    ids = [(await ada.send(bob, f"m{n}")).id for n in range(2)]
    await ada.send(bob, "used", random_id=92)
    await forward(ada, bob, bob, ids[:1], [93], schedule_date=AT)
    before = await ada.pts(), await bob.pts()
    for used in (92, 93):
        with pytest.raises(Refused, match="400 RANDOM_ID_DUPLICATE"):
            await forward(ada, bob, bob, ids, [91, used], schedule_date=later)
    assert (await ada.pts(), await bob.pts()) == before
    await pair.check()


async def test_forwards_for_which_there_is_no_room_do_not_wait(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    sent = await ada.send(bob)
    many = [sent.id] * (MAX_PER_CHAT - 1)
    first = await forward(ada, bob, bob, many, list(range(1_000, 1_000 + len(many))), schedule_date=AT)
    before = await ada.pts()
    with pytest.raises(Refused, match="400 SCHEDULE_TOO_MUCH"):
        await forward(ada, bob, bob, [sent.id] * 2, [91, 92], schedule_date=AT)
    assert await ada.pts() == before
    await pair.check()
    again = await forward(ada, bob, bob, many, list(range(1_000, 1_000 + len(many))), schedule_date=AT)
    assert [update.id for update in again.updates[: len(many)]] == [
        update.id for update in first.updates[: len(many)]
    ]
    await forward(ada, bob, bob, [sent.id], [91], schedule_date=AT)
    await pair.check()


async def test_what_may_not_be_forwarded(server: Server) -> None:
    pair = await Pair.of(server)
    ada, bob = pair.ada, pair.bob
    sent = await ada.send(bob, "text")
    secret = await ada.send(bob, "secret", noforwards=True)
    elsewhere = (await ada.send(ada, "note")).id
    before = await ada.pts(), await bob.pts()
    foreign = types.InputPeerUser(user_id=bob.user_id, access_hash=3)
    reply = types.InputReplyToMessage(reply_to_msg_id=1)
    shortcut = types.InputQuickReplyShortcutId(shortcut_id=1)
    refused: list[tuple[list[int], list[int], dict[str, Any], str]] = [
        ([], [], {}, "400 MESSAGE_IDS_EMPTY"),
        ([sent.id], [1, 2], {}, "400 RANDOM_ID_INVALID"),
        ([sent.id], [0], {}, "400 RANDOM_ID_EMPTY"),
        ([sent.id, sent.id], [991, 991], {}, "400 RANDOM_ID_DUPLICATE"),
        ([sent.id] * 101, list(range(1000, 1101)), {}, "400 LIMIT_INVALID"),
        ([sent.id] * 10_000, list(range(1, 10_001)), {}, "400 LIMIT_INVALID"),
        ([sent.id, secret.id], [992, 993], {}, "400 CHAT_FORWARDS_RESTRICTED"),
        ([sent.id, elsewhere], [992, 993], {}, "400 MESSAGE_ID_INVALID"),
        ([0], [992], {}, "400 MESSAGE_ID_INVALID"),
        ([-1], [992], {}, "400 MESSAGE_ID_INVALID"),
        ([2**31 - 1], [992], {}, "400 MESSAGE_ID_INVALID"),
        (
            [sent.id],
            [992],
            {"target": foreign},
            "400 PEER_ID_INVALID",
        ),
        ([sent.id], [992], {"target": ada.peer(123_456)}, "400 PEER_ID_INVALID"),
        ([sent.id], [992], {"target": types.InputPeerChat(chat_id=1)}, "400 CHAT_ID_INVALID"),
        (
            [sent.id],
            [992],
            {"reply_to": reply},
            "400 REPLY_MESSAGE_ID_INVALID",
        ),
        ([sent.id], [992], {"schedule_date": -1}, "400 SCHEDULE_DATE_INVALID"),
        ([sent.id], [992], {"effect": 1}, "400 EFFECT_ID_INVALID"),
        ([sent.id], [992], {"allow_paid_stars": 1}, "400 PAYMENT_UNSUPPORTED"),
        ([sent.id], [992], {"send_as": types.InputPeerChat(chat_id=1)}, "400 SEND_AS_PEER_INVALID"),
        (
            [sent.id],
            [992],
            {"quick_reply_shortcut": shortcut},
            "400 SHORTCUT_INVALID",
        ),
    ]
    for ids, random_ids, fields, error in refused:
        target = fields.pop("target", bob)
        with pytest.raises(Refused, match=f"{error}$"):
            await forward(ada, bob, target, ids, random_ids, **fields)
    assert (await ada.pts(), await bob.pts()) == before
    await forward(ada, bob, bob, [sent.id], noforwards=True)
    [copy, *_] = (await ada.history(bob)).messages
    with pytest.raises(Refused, match="400 CHAT_FORWARDS_RESTRICTED"):
        await forward(ada, bob, bob, [copy.id])
    with pytest.raises(Refused, match="403 MESSAGE_AUTHOR_REQUIRED"):
        await ada.call(functions.messages.EditMessage(peer=ada.peer(bob), id=copy.id, message="x"))
    await pair.check()


async def test_many_at_once_count_as_one(postgres_dsn: str, redis_url: str, redis_prefix: str) -> None:
    async with running(postgres_dsn, redis_url, redis_prefix, message_rate_limit=3) as server:
        ada, bob = await server.account(), await server.account()
        sent = await ada.send(bob)
        await forward(ada, bob, bob, [sent.id] * 100)
        await forward(ada, bob, bob, [sent.id])
        with pytest.raises(Refused, match="420 FLOOD_WAIT"):
            await forward(ada, bob, bob, [sent.id])
        assert len((await bob.history(ada)).messages) == 100


async def test_nothing_is_forwarded_to_who_blocked_the_caller(server: Server) -> None:

    ada, bob = await server.account(), await server.account()
    sent = await ada.send(ada, "note")
    await server.store.blocks.block(bob.user_id, Peer.user(ada.user_id))
    before = await bob.pts()
    await forward(ada, ada, bob, [sent.id])
    assert len((await ada.history(bob)).messages) == 1
    assert (await bob.history(ada)).messages == []
    assert await bob.pts() == before
