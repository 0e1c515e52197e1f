"""Drafts: kept as typed, shown in dialogs, taken away by the message they became."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from telesrv.tl import functions, types
from tests.rpc.bad_peers import bad_peers
from tests.rpc.chats import Device, Refused, Server, running
from tests.rpc.test_messages import LONG_LINKS

f = functions


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with running(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


async def drafts(device: Device) -> dict[int, types.DraftMessage]:
    answer = await device.call(f.messages.GetAllDrafts())
    assert {update.peer.user_id for update in answer.updates} <= {user.id for user in answer.users}
    return {update.peer.user_id: update.draft for update in answer.updates}


async def test_a_draft_is_kept_as_it_was_left(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    sent = await ada.send(bob)
    text = "  look at example.com, Ada 🙂 "
    reply = types.InputReplyToMessage(
        reply_to_msg_id=sent.id,
        quote_text="hello",
        quote_entities=[types.MessageEntityBold(offset=0, length=5)],
        quote_offset=0,
    )
    media = types.InputMediaWebPage(url="https://example.com/", force_large_media=True)
    entities: list[types.TypeMessageEntity] = [
        types.MessageEntityBold(offset=2, length=4),
        types.InputMessageEntityMentionName(offset=23, length=3, user_id=types.InputUserSelf()),
    ]
    method = f.messages.SaveDraft(
        peer=ada.peer(bob),
        message=text,
        entities=entities,
        reply_to=reply,
        media=media,
        no_webpage=True,
        invert_media=True,
    )
    assert await ada.call(method)
    [draft] = (await drafts(ada)).values()
    assert draft.message == text
    assert draft.entities == [
        types.MessageEntityBold(offset=2, length=4),
        types.MessageEntityMentionName(offset=23, length=3, user_id=ada.user_id),
    ]
    assert (draft.reply_to, draft.no_webpage, draft.invert_media) == (reply, True, True)
    assert (draft.media.url, draft.media.force_large_media) == ("https://example.com/", True)
    [dialog] = (await ada.dialogs()).dialogs
    assert dialog.draft == draft
    before = await ada.pts()
    server.clock.advance(60)
    await ada.call(method)
    assert await ada.pts() == before
    old = await server.device(ada.user, layer=152)
    [dialog] = (await old.dialogs()).dialogs
    assert dialog.draft.message == text


async def test_a_chat_without_messages_has_its_draft_too(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    await ada.call(f.messages.SaveDraft(peer=ada.peer(bob), message="first words"))
    named = types.InputDialogPeer(peer=ada.peer(bob))
    [dialog] = (await ada.call(f.messages.GetPeerDialogs(peers=[named]))).dialogs
    assert (dialog.draft.message, dialog.top_message) == ("first words", 0)
    assert (await ada.dialogs()).dialogs == []


@pytest.mark.parametrize("nothing", ["", " \n ", "\0\0", "\u200b"])
async def test_an_empty_draft_clears_it(server: Server, nothing: str) -> None:
    ada, bob = await server.account(), await server.account()
    before = await ada.pts()
    await ada.call(f.messages.SaveDraft(peer=ada.peer(bob), message=nothing))
    assert await ada.pts() == before
    await ada.call(f.messages.SaveDraft(peer=ada.peer(bob), message="a\0b"))
    assert [draft.message for draft in (await drafts(ada)).values()] == ["a b"]
    await ada.call(f.messages.SaveDraft(peer=ada.peer(bob), message=nothing))
    assert await drafts(ada) == {}
    assert await ada.pts() == before + 2


async def test_what_was_sent_is_no_draft_any_more(server: Server) -> None:
    ada, bob, eve = [await server.account() for _ in range(3)]
    for other in (bob, eve):
        await ada.call(f.messages.SaveDraft(peer=ada.peer(other), message="to be sent"))
    await ada.send(bob, "to be sent")
    assert (await drafts(ada)).keys() == {bob.user_id, eve.user_id}
    first = await ada.send(bob, "to be sent", clear_draft=True, random_id=77)
    assert (await drafts(ada)).keys() == {eve.user_id}
    assert await ada.pts() == first.pts + 1
    # what was begun after it stays, also when the send is repeated
    await ada.call(f.messages.SaveDraft(peer=ada.peer(bob), message="and then"))
    again = await ada.send(bob, "to be sent", clear_draft=True, random_id=77)
    assert again.id == first.id
    assert (await drafts(ada)).keys() == {bob.user_id, eve.user_id}


async def test_what_was_scheduled_is_no_draft_any_more(server: Server) -> None:
    ada, bob = await server.account(), await server.account()
    await ada.call(f.messages.SaveDraft(peer=ada.peer(bob), message="for later"))
    before, at = await ada.pts(), server.clock.time() + 600
    for _ in range(2):
        await ada.send(bob, "for later", clear_draft=True, schedule_date=int(at), random_id=77)
        assert await drafts(ada) == {}
        assert await ada.pts() == before + 2
    difference = await ada.difference(before)
    [_, cleared] = difference.other_updates
    assert isinstance(cleared.draft, types.DraftMessageEmpty)


async def test_all_are_cleared_at_once(server: Server) -> None:
    ada = await server.account()
    others = [await server.account() for _ in range(3)]
    for other in others:
        await ada.call(f.messages.SaveDraft(peer=ada.peer(other), message="x"))
    before = await ada.pts()
    assert await ada.call(f.messages.ClearAllDrafts())
    assert (await drafts(ada), await ada.pts()) == ({}, before + 3)
    difference = await ada.difference(before)
    assert {type(update.draft) for update in difference.other_updates} == {types.DraftMessageEmpty}
    assert await ada.call(f.messages.ClearAllDrafts())
    assert await ada.pts() == before + 3


async def test_very_many_are_cleared_too(server: Server) -> None:
    """More than an answer lists."""
    ada = await server.account()
    await server.store.pool.execute(
        "INSERT INTO dialog_drafts (owner_user_id, peer_type, peer_id, pts, draft) "
        """SELECT $1, 1, id, id, '{"date": 1, "text": "x"}' FROM generate_series(1, 1050) AS id""",
        ada.user_id,
    )
    before = await ada.pts()
    assert len((await ada.call(f.messages.GetAllDrafts())).updates) == 1000
    assert await ada.call(f.messages.ClearAllDrafts())
    assert (await drafts(ada), await ada.pts()) == ({}, before + 1050)


async def test_wrong_drafts_are_refused_by_name(server: Server) -> None:
    ada, bob, stranger = [await server.account() for _ in range(3)]
    before = await ada.pts()
    peer = ada.peer(bob)

    def reply(**fields: object) -> types.InputReplyToMessage:
        return types.InputReplyToMessage(**({"reply_to_msg_id": 1} | fields))  # type: ignore[arg-type]

    cases: list[tuple[dict[str, object], str]] = [
        ({"message": "x" * 4097}, "MESSAGE_TOO_LONG"),
        ({"message": "x" * 100_000}, "MESSAGE_TOO_LONG"),
        ({"entities": [types.MessageEntityBold(offset=0, length=9)]}, "ENTITY_BOUNDS_INVALID"),
        ({"entities": [types.MessageEntityBold(offset=-(2**31), length=1)]}, "ENTITY_BOUNDS_INVALID"),
        ({"message": "text", "entities": LONG_LINKS}, "ENTITIES_TOO_LONG"),
        ({"reply_to": reply(quote_text="text", quote_entities=LONG_LINKS)}, "QUOTE_TEXT_INVALID"),
        ({"effect": 5}, "EFFECT_ID_INVALID"),
        ({"suggested_post": types.SuggestedPost()}, "SUGGESTED_POST_PEER_INVALID"),
        ({"media": types.InputMediaDice(emoticon="🎲")}, "MEDIA_INVALID"),
        ({"media": types.InputMediaWebPage(url="\0")}, "WEBPAGE_URL_INVALID"),
        ({"media": types.InputMediaWebPage(url="x" * 10_000)}, "WEBPAGE_URL_INVALID"),
        ({"reply_to": reply(reply_to_msg_id=-1)}, "REPLY_MESSAGE_ID_INVALID"),
        ({"reply_to": reply(reply_to_peer_id=types.InputPeerSelf())}, "REPLY_MESSAGE_ID_INVALID"),
        ({"reply_to": reply(quote_text="x" * 1025)}, "QUOTE_TEXT_INVALID"),
        ({"reply_to": reply(quote_text="x", quote_offset=-1)}, "QUOTE_TEXT_INVALID"),
        ({"reply_to": types.InputReplyToStory(peer=peer, story_id=1)}, "STORY_ID_INVALID"),
        (
            {"reply_to": types.InputReplyToMonoForum(monoforum_peer_id=peer)},
            "REPLY_TO_MONOFORUM_PEER_INVALID",
        ),
    ]
    for fields, error in cases:
        with pytest.raises(Refused, match=f"400 {error}"):
            await ada.call(f.messages.SaveDraft(**({"peer": peer, "message": "x"} | fields)))  # type: ignore[arg-type]
    for wrong, error in bad_peers(ada, bob, stranger):
        with pytest.raises(Refused, match=f"400 {error}"):
            await ada.call(f.messages.SaveDraft(peer=wrong, message="x"))
    assert (await ada.pts(), await drafts(ada)) == (before, {})
    many: list[types.TypeMessageEntity] = [types.MessageEntityBold(offset=0, length=1)] * 10_000
    await ada.call(f.messages.SaveDraft(peer=peer, message="x", entities=many))
    assert [draft.entities for draft in (await drafts(ada)).values()] == [[many[0]]]
