"""Sending, reading and paging as a client sees them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from telesrv import tl
from telesrv.domain.digests import message_digest
from telesrv.domain.messages import Entity, ReplyTo
from telesrv.domain.peers import SERVICE_USER_ID, Peer
from telesrv.domain.text import FormattedText
from telesrv.rpc.convert.dialogs import list_hash
from telesrv.rpc.handlers.messages import TYPING_PER_MINUTE
from telesrv.tl import functions, types
from tests.rpc.chats import Device, Refused, Server, running
from tests.rpc.worlds import Pair


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def test_a_message_reaches_both_sides(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    entities = [types.MessageEntityBold(offset=2, length=3)]
    sent = await ada.send(bob, "  hey example.com ", entities=entities, silent=True)
    assert isinstance(sent, types.UpdateShortSentMessage)
    shown = [types.MessageEntityBold(offset=0, length=3), types.MessageEntityUrl(offset=4, length=11)]
    assert (sent.out, sent.pts_count, sent.date, sent.entities) == (True, 1, int(server.clock.time()), shown)
    [mine] = (await ada.history(bob)).messages
    [theirs] = (await bob.history(ada)).messages
    assert (mine.id, mine.out, mine.peer_id.user_id) == (sent.id, True, bob.user_id)
    assert (theirs.out, theirs.peer_id.user_id, theirs.from_id.user_id) == (False, ada.user_id, ada.user_id)
    for message in (mine, theirs):
        assert (message.message, message.entities, message.silent) == ("hey example.com", shown, True)
    assert await ada.pts() == sent.pts


@pytest.mark.parametrize("layer", [152, 158, 181, 192, 214])
async def test_an_older_client_has_the_same_chat(server: Server, layer: int) -> None:
    ada, bob = await server.account(), await server.account()
    old = await server.device(ada.user, layer)
    start = await old.pts()
    first = await bob.send(ada, "new")
    [seen] = (await old.history(bob)).messages
    reply = types.InputReplyToMessage(reply_to_msg_id=seen.id)
    await old.send(bob, "old", reply_to=reply, entities=[types.MessageEntityItalic(offset=0, length=1)])
    await old.read(bob)
    [answer, _] = (await bob.history(ada)).messages
    assert (answer.message, answer.reply_to.reply_to_msg_id) == ("old", first.id)
    page, difference = await old.history(bob), await old.difference(start)
    assert [message.message for message in page.messages] == ["old", "new"]
    assert difference.new_messages == page.messages[::-1]
    assert page.messages[0].reply_to == types.MessageReplyHeader(reply_to_msg_id=seen.id)
    assert {user.id for user in page.users} == {ada.user_id, bob.user_id}
    [dialog] = (await old.dialogs(exclude_pinned=True)).dialogs
    assert (dialog.unread_count, dialog.top_message) == (0, page.messages[0].id)


async def test_a_repeat_gets_the_same_answer_and_a_changed_one_none(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    first = await ada.send(bob, "once", random_id=7)
    server.clock.advance(60)
    assert await ada.send(bob, "once", random_id=7) == first
    with pytest.raises(Refused, match="400 RANDOM_ID_DUPLICATE"):
        await ada.send(bob, "twice", random_id=7)
    other_device = await server.device(ada.user)
    with pytest.raises(Refused, match="400 RANDOM_ID_DUPLICATE"):
        await other_device.send(bob, "once", random_id=7)
    assert len((await bob.history(ada)).messages) == 1
    assert await ada.pts() == first.pts


def test_the_digest_covers_all_that_a_send_asks_for() -> None:
    bold, italic = Entity("bold", 0, 1), Entity("italic", 0, 1)
    asked = [
        (key, Peer.user(peer), FormattedText(text, entities), reply)
        for key in (1, 2)
        for peer in (3, 4)
        for text in ("a", "b")
        for entities in ((), (bold,), (italic,), (Entity("textUrl", 0, 1, "x"),))
        for reply in (None, ReplyTo(5), ReplyTo(5, "q"), ReplyTo(5, "q", (bold,)), ReplyTo(5, "q", (), 1))
    ]
    digests = {message_digest(*request) for request in asked}
    assert len(digests) == len(asked)
    assert {len(digest) for digest in digests} == {32}
    assert {message_digest(*request) for request in asked} == digests


async def test_repeats_at_the_same_time_are_one_message(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    answers = await asyncio.gather(*(ada.send(bob, "now", random_id=9) for _ in range(8)))
    assert all(answer == answers[0] for answer in answers)
    assert len((await bob.history(ada)).messages) == 1


async def test_a_reply_names_each_sides_own_id(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    await ada.send(await server.account(), "so that the ids differ")
    first = await ada.send(bob, "to be or not to be")
    [seen] = (await bob.history(ada)).messages
    assert seen.id != first.id
    quote = types.InputReplyToMessage(
        reply_to_msg_id=seen.id, quote_text="not to be", quote_offset=9,
        quote_entities=[types.MessageEntityItalic(offset=0, length=3)],
    )  # fmt: skip
    await bob.send(ada, "that is the question", reply_to=quote)
    header = (await ada.history(bob)).messages[0].reply_to
    assert header == types.MessageReplyHeader(
        reply_to_msg_id=first.id, quote=True, quote_text="not to be", quote_offset=9,
        quote_entities=[types.MessageEntityItalic(offset=0, length=3)],
    )  # fmt: skip
    assert (await bob.history(ada)).messages[0].reply_to.reply_to_msg_id == seen.id


async def test_a_blocked_sender_sees_nothing_of_it(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    await server.store.blocks.block(bob.user_id, Peer.user(ada.user_id))
    before = await bob.pts()
    sent = await ada.send(bob, "hello?")
    assert [message.id for message in (await ada.history(bob)).messages] == [sent.id]
    assert (await bob.history(ada)).messages == []
    assert await bob.pts() == before
    typing = functions.messages.SetTyping(peer=ada.peer(bob), action=types.SendMessageTypingAction())
    assert await ada.call(typing) is True
    assert server.sessions.transient == []


async def test_saved_messages_have_one_copy(server: Server) -> None:
    ada = await server.account()
    short = await ada.send(ada.peer(ada), "note")
    whole = await ada.send(types.InputPeerSelf(), "note")
    assert isinstance(whole, types.Updates)
    named, new = whole.updates
    assert (named.id, new.message.message, new.pts_count) == (new.message.id, "note", 1)
    assert [user.id for user in whole.users] == [ada.user_id]
    page = await ada.history(types.InputPeerSelf())
    assert [message.id for message in page.messages] == [named.id, short.id]
    assert [message.peer_id.user_id for message in page.messages] == [ada.user_id] * 2
    [dialog] = (await ada.dialogs()).dialogs
    assert dialog.unread_count == 0


async def test_typing_is_shown_to_the_peer_only(server: Server) -> None:
    ada, bob = await server.account(), await server.account()

    async def act(to: Any, action: types.TypeSendMessageAction) -> None:
        assert await ada.call(functions.messages.SetTyping(peer=to, action=action)) is True

    await act(ada.peer(bob), types.SendMessageTypingAction())
    await act(types.InputPeerSelf(), types.SendMessageTypingAction())
    await act(ada.peer(SERVICE_USER_ID), types.SendMessageTypingAction())
    await act(ada.peer(bob), types.SendMessageEmojiInteractionSeen(emoticon="x"))
    shown = types.UpdateUserTyping(user_id=ada.user_id, action=types.SendMessageTypingAction())
    assert server.sessions.transient == [(bob.user_id, shown)]


async def test_typing_is_not_shown_between_those_of_whom_one_has_blocked_the_other(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    await ada.call(functions.contacts.Block(id=ada.peer(bob)))
    for device, other in ((ada, bob), (bob, ada)):
        action = types.SendMessageTypingAction()
        assert await device.call(functions.messages.SetTyping(peer=device.peer(other), action=action))
    assert server.sessions.transient == []


LONG_LINKS: list[types.TypeMessageEntity] = [
    types.MessageEntityTextUrl(offset=offset, length=1, url=f"https://{offset}/" + "я" * 1500)
    for offset in range(3)
]
LONG = types.InputReplyToMessage(reply_to_msg_id=1, quote_text="x" * 1025)
SELF = types.InputPeerSelf()
BAD_SENDS: list[tuple[dict[str, Any], str]] = [
    ({"text": ""}, "MESSAGE_EMPTY"),
    ({"text": " \n\u200b"}, "MESSAGE_EMPTY"),
    ({"text": "\x00"}, "MESSAGE_EMPTY"),
    ({"text": "x" * 4097}, "MESSAGE_TOO_LONG"),
    ({"random_id": 0}, "RANDOM_ID_EMPTY"),
    ({"entities": [types.MessageEntityBold(offset=3, length=9)]}, "ENTITY_BOUNDS_INVALID"),
    ({"entities": [types.MessageEntityBold(offset=-1, length=1)]}, "ENTITY_BOUNDS_INVALID"),
    ({"reply_to": types.InputReplyToMessage(reply_to_msg_id=99)}, "REPLY_MESSAGE_ID_INVALID"),
    ({"reply_to": types.InputReplyToMessage(reply_to_msg_id=-1)}, "REPLY_MESSAGE_ID_INVALID"),
    ({"reply_to": types.InputReplyToMessage(reply_to_msg_id=1, todo_item_id=1)}, "REPLY_MESSAGE_ID_INVALID"),
    (
        {"reply_to": types.InputReplyToMessage(reply_to_msg_id=1, reply_to_peer_id=SELF)},
        "REPLY_MESSAGE_ID_INVALID",
    ),
    ({"reply_to": types.InputReplyToMessage(reply_to_msg_id=1, quote_text="not said")}, "QUOTE_TEXT_INVALID"),
    ({"reply_to": LONG}, "QUOTE_TEXT_INVALID"),
    ({"entities": LONG_LINKS}, "ENTITIES_TOO_LONG"),
    (
        {
            "reply_to": types.InputReplyToMessage(
                reply_to_msg_id=1, quote_text="first", quote_entities=LONG_LINKS
            )
        },
        "QUOTE_TEXT_INVALID",
    ),
    (
        {"reply_to": types.InputReplyToMessage(reply_to_msg_id=1, quote_text="fi", quote_offset=4097)},
        "QUOTE_TEXT_INVALID",
    ),
    ({"reply_to": types.InputReplyToMessage(reply_to_msg_id=1, poll_option=b"1")}, "POLL_OPTION_INVALID"),
    (
        {"reply_to": types.InputReplyToMessage(reply_to_msg_id=1, monoforum_peer_id=SELF)},
        "REPLY_TO_MONOFORUM_PEER_INVALID",
    ),
    ({"reply_to": types.InputReplyToMonoForum(monoforum_peer_id=SELF)}, "REPLY_TO_MONOFORUM_PEER_INVALID"),
    ({"reply_to": types.InputReplyToStory(peer=SELF, story_id=1)}, "STORY_ID_INVALID"),
    ({"reply_markup": types.ReplyKeyboardHide()}, "REPLY_MARKUP_INVALID"),
    ({"schedule_date": 1_800_000_000}, "SCHEDULE_DATE_TOO_LATE"),
    ({"schedule_date": -5}, "SCHEDULE_DATE_INVALID"),
    ({"to": SELF, "schedule_date": 0x7FFFFFFE}, "SCHEDULE_STATUS_PRIVATE"),
    ({"quick_reply_shortcut": types.InputQuickReplyShortcutId(shortcut_id=1)}, "SHORTCUT_INVALID"),
    ({"effect": 5}, "EFFECT_ID_INVALID"),
    ({"allow_paid_stars": 5}, "PAYMENT_UNSUPPORTED"),
    ({"suggested_post": types.SuggestedPost()}, "SUGGESTED_POST_PEER_INVALID"),
    ({"send_as": types.InputPeerChat(chat_id=1)}, "SEND_AS_PEER_INVALID"),
    ({"to": types.InputPeerEmpty()}, "PEER_ID_INVALID"),
    ({"to": types.InputPeerUser(user_id=-1, access_hash=0)}, "PEER_ID_INVALID"),
    ({"to": types.InputPeerUser(user_id=2**62, access_hash=1)}, "PEER_ID_INVALID"),
    ({"to": types.InputPeerChat(chat_id=1)}, "CHAT_ID_INVALID"),
    ({"to": types.InputPeerChannel(channel_id=1, access_hash=0)}, "CHANNEL_INVALID"),
]


async def test_a_wrong_send_names_what_is_wrong_and_writes_nothing(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    await ada.send(bob, "first")
    before = await ada.pts(), await bob.pts()
    for changes, error in BAD_SENDS:
        fields = {"to": bob, "text": "text", **changes}
        with pytest.raises(Refused, match=f"400 {error}$"):
            await ada.send(**fields)
    foreign = bob.peer(ada)
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await (await server.account()).send(foreign)
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await ada.send(ada.peer(123_456_789), "nobody there")
    assert (await ada.pts(), await bob.pts()) == before


async def test_a_reply_to_a_message_of_another_chat_is_refused(server: Server) -> None:
    ada, bob, eve = await server.account(), await server.account(), await server.account()
    sent = await ada.send(eve, "elsewhere")
    for quote in (None, "elsewhere"):
        reply = types.InputReplyToMessage(reply_to_msg_id=sent.id, quote_text=quote)
        with pytest.raises(Refused, match="400 REPLY_MESSAGE_ID_INVALID"):
            await ada.send(bob, reply_to=reply)


async def test_what_is_accepted_and_changes_nothing(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    fields: dict[str, Any] = {
        "clear_draft": True, "background": True, "no_webpage": True, "invert_media": True,
        "update_stickersets_order": True, "allow_paid_floodskip": True, "send_as": types.InputPeerSelf(),
        "reply_to": types.InputReplyToMessage(reply_to_msg_id=0), "noforwards": True, "entities": [],
    }  # fmt: skip
    await ada.send(bob, "fine", **fields)
    [message] = (await bob.history(ada)).messages
    assert (message.message, message.reply_to, message.noforwards) == ("fine", None, True)


async def test_a_mention_brings_its_user_along(server: Server) -> None:
    ada, bob, eve = await server.account(), await server.account(), await server.account("Eve")
    known = types.InputUser(user_id=eve.user_id, access_hash=ada.peer(eve).access_hash)
    unknown = types.InputUser(user_id=eve.user_id, access_hash=1)
    mentions: list[types.TypeMessageEntity] = [
        types.InputMessageEntityMentionName(offset=0, length=3, user_id=known),
        types.InputMessageEntityMentionName(offset=4, length=3, user_id=unknown),
    ]
    await ada.send(bob, "Eve eve", entities=mentions)
    page = await bob.history(ada)
    assert page.messages[0].entities == [
        types.MessageEntityMentionName(offset=0, length=3, user_id=eve.user_id)
    ]
    assert {user.id for user in page.users} == {ada.user_id, eve.user_id}
    assert bob.peer(eve).access_hash in {user.access_hash for user in page.users}


async def test_sends_are_limited(postgres_dsn: str, redis_url: str, redis_prefix: str) -> None:
    async with running(postgres_dsn, redis_url, redis_prefix, message_rate_limit=2) as server:
        ada, bob = await server.account(), await server.account()
        await ada.send(bob)
        await ada.send(bob)
        with pytest.raises(Refused, match=r"420 FLOOD_WAIT_\d+$"):
            await ada.send(bob)
        await bob.send(ada)
        server.clock.advance(61)
        await ada.send(bob)


async def test_history_is_paged_to_its_end(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    ids = [(await ada.send(bob, f"m{n}")).id for n in range(7)]
    offset_id, pages = 0, []
    while True:
        page = await ada.history(bob, offset_id=offset_id, limit=3)
        assert page.count == 7
        if not page.messages:
            break
        pages.append([message.id for message in page.messages])
        offset_id = pages[-1][-1]
        assert {user.id for user in page.users} == {ada.user_id, bob.user_id}
    assert pages == [ids[4:][::-1], ids[1:4][::-1], ids[:1]]
    around = await ada.history(bob, offset_id=ids[3], add_offset=-2, limit=3)
    assert [message.id for message in around.messages] == [ids[4], ids[3], ids[2]]
    between = await ada.history(bob, max_id=ids[5], min_id=ids[2])
    assert [message.id for message in between.messages] == [ids[4], ids[3]]
    assert isinstance(await ada.history(bob), types.messages.Messages)
    assert (await ada.history(bob, limit=-5, offset_id=-1, add_offset=10**6, max_id=-1)).messages == []


async def test_history_that_is_known_is_not_sent_again(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    ids = [(await ada.send(bob)).id for _ in range(2)]
    known = list_hash([ids[1], 0, ids[0], 0])
    assert await ada.history(bob, hash=known) == types.messages.MessagesNotModified(count=2)
    await ada.send(bob)
    assert len((await ada.history(bob, hash=known)).messages) == 3


async def test_messages_by_id(server: Server) -> None:
    ada, bob, eve = await server.account(), await server.account(), await server.account()
    first = await ada.send(bob, "first")
    reply = types.InputReplyToMessage(reply_to_msg_id=first.id)
    second = await ada.send(bob, "second", reply_to=reply)
    named: list[types.TypeInputMessage] = [
        types.InputMessageID(id=second.id),
        types.InputMessageID(id=2**31 - 1),
        types.InputMessageID(id=-5),
        types.InputMessageReplyTo(id=second.id),
        types.InputMessageReplyTo(id=first.id),
        types.InputMessagePinned(),
    ]
    answer = await ada.call(functions.messages.GetMessages(id=named))
    assert [getattr(message, "message", None) for message in answer.messages] == [
        "second", None, None, "first", None, None
    ]  # fmt: skip
    assert answer.messages[2] == types.MessageEmpty(id=-5)
    theirs = await eve.call(functions.messages.GetMessages(id=named[:1]))
    assert theirs.messages == [types.MessageEmpty(id=second.id)]
    assert (await ada.call(functions.messages.GetMessages(id=[]))).messages == []
    with pytest.raises(Refused, match="400 LIMIT_INVALID"):
        await ada.call(functions.messages.GetMessages(id=named * 1000))


async def test_reading_moves_forward_only(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    sent = [await ada.send(bob) for _ in range(3)]
    ids = [message.id for message in (await bob.history(ada)).messages][::-1]
    first = await bob.read(ada, ids[1])
    assert (first.pts, first.pts_count) == (await bob.pts(), 1)
    assert (await bob.read(ada, ids[0])).pts_count == 0
    [dialog] = (await bob.dialogs()).dialogs
    assert (dialog.unread_count, dialog.read_inbox_max_id) == (1, ids[1])
    [dialog] = (await ada.dialogs()).dialogs
    assert dialog.read_outbox_max_id == sent[1].id
    assert (await bob.read(ada)).pts_count == 1
    assert (await bob.read(ada)).pts_count == 0
    [dialog] = (await bob.dialogs()).dialogs
    assert (dialog.unread_count, dialog.read_inbox_max_id) == (0, ids[2])
    await ada.send(bob, "later")
    [dialog] = (await bob.dialogs()).dialogs
    assert dialog.unread_count == 1
    assert (await ada.read(ada)).pts_count == 0
    with pytest.raises(Refused, match="400 PEER_ID_INVALID"):
        await bob.call(functions.messages.ReadHistory(peer=types.InputPeerEmpty(), max_id=0))


async def test_the_date_of_a_receipt(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    sent = [await ada.send(bob) for _ in range(3)]

    async def date(asker: Device, other: Device, msg_id: int) -> int:
        answer = await asker.call(functions.messages.GetOutboxReadDate(peer=asker.peer(other), msg_id=msg_id))
        return int(answer.date)

    ids = [message.id for message in (await bob.history(ada)).messages][::-1]
    dates = []
    for number in (1, 0, 2):
        server.clock.advance(100)
        await bob.read(ada, ids[number])
        dates.append(int(server.clock.time()))
        if number == 1:
            with pytest.raises(Refused, match="400 MESSAGE_NOT_READ_YET"):
                await date(ada, bob, sent[2].id)
    assert [await date(ada, bob, message.id) for message in sent] == [dates[0], dates[0], dates[2]]
    for asker, other, msg_id in ((bob, ada, ids[0]), (ada, ada, sent[0].id), (ada, bob, 99), (ada, bob, -1)):
        with pytest.raises(Refused, match="400 MESSAGE_ID_INVALID"):
            await date(asker, other, msg_id)
    config = await ada.call(functions.help.GetAppConfig(hash=0))
    [kept] = [one.value for one in config.config.value if one.key == "pm_read_date_expire_period"]
    server.clock.advance(sent[0].date + kept.value - int(server.clock.time()))
    assert await date(ada, bob, sent[0].id) == dates[0]
    server.clock.advance(1)
    with pytest.raises(Refused, match="400 MESSAGE_TOO_OLD"):
        await date(ada, bob, sent[0].id)


async def test_a_send_with_very_many_entities_keeps_the_first(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    bold: list[types.TypeMessageEntity] = [
        types.MessageEntityBold(offset=2 * n % 4000, length=1) for n in range(10_000)
    ]
    sent = await ada.send(bob, "ab" * 2048, entities=bold)
    assert 0 < len(sent.entities) <= 100
    assert sent.entities == (await bob.history(ada)).messages[0].entities


async def test_a_receipt_names_the_newest_message_of_its_author(server: Server) -> None:
    pair = await Pair.of(server)
    sent = await pair.ada.send(pair.bob, "question")
    await pair.bob.send(pair.ada, "answer")
    await pair.bob.read(pair.ada)
    [dialog] = (await pair.ada.dialogs()).dialogs
    assert dialog.read_outbox_max_id == sent.id
    await pair.check()


async def test_nothing_else_is_unread(server: Server) -> None:
    ada = await server.account()
    answer = await ada.call(functions.messages.ReadMessageContents(id=[1, 2, -3]))
    assert answer == types.messages.AffectedMessages(pts=await ada.pts(), pts_count=0)
    assert await ada.call(functions.messages.ReceivedMessages(max_id=5)) == []


async def test_a_search_for_nothing_is_the_chat(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    await ada.send(bob, "needle")

    async def search(filter: types.TypeMessagesFilter) -> Any:
        return await ada.call(
            functions.messages.Search(
                peer=ada.peer(bob),
                q="",
                filter=filter,
                min_date=0,
                max_date=0,
                offset_id=0,
                add_offset=0,
                limit=10,
                max_id=0,
                min_id=0,
                hash=0,
            )
        )

    assert (await search(types.InputMessagesFilterPinned())).messages == []
    assert (await search(types.InputMessagesFilterPhotoVideo())).messages == []
    assert [message.message for message in (await search(types.InputMessagesFilterEmpty())).messages] == [
        "needle"
    ]


async def test_typing_is_bounded(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    typing = functions.messages.SetTyping(peer=ada.peer(bob), action=types.SendMessageTypingAction())
    for _ in range(TYPING_PER_MINUTE):
        assert await ada.call(typing)
    with pytest.raises(Refused, match="420 FLOOD_WAIT_"):
        await ada.call(typing)
    assert len(server.sessions.transient) == TYPING_PER_MINUTE


async def test_edits_are_bounded_as_sends_are(postgres_dsn: str, redis_url: str, redis_prefix: str) -> None:
    async with running(postgres_dsn, redis_url, redis_prefix, message_rate_limit=2) as server:
        ada = await server.account()
        sent = await ada.call(functions.messages.SendMessage(peer=SELF, message="0", random_id=1))
        for text in ("1", "2"):
            await ada.call(functions.messages.EditMessage(peer=SELF, id=sent.updates[0].id, message=text))
        with pytest.raises(Refused, match=r"420 FLOOD_WAIT_\d+$"):
            await ada.call(functions.messages.EditMessage(peer=SELF, id=sent.updates[0].id, message="3"))


async def test_histories_are_in_one_range(server: Server) -> None:
    ada, bob = await server.account("Ada"), await server.account("Bob")
    for text in ("one", "two"):
        await ada.send(bob, text)
    [whole] = await ada.call(functions.messages.GetSplitRanges())
    assert (whole.min_id, whole.max_id) == (1, 2**31 - 1)
    asked = functions.messages.GetHistory(
        peer=ada.peer(bob), offset_id=0, offset_date=0, add_offset=0, limit=1, max_id=0, min_id=0, hash=0
    )
    wrapped = tl.write(functions.InvokeWithMessagesRange(range=whole, query=asked), ada.caller.layer)
    outcome = await server.dispatcher.execute(server.dispatcher.parse(wrapped), ada.caller)
    answer = tl.read_result(outcome.body, asked.RESULT)
    assert (answer.count, [message.message for message in answer.messages]) == (2, ["two"])
