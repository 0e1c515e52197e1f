"""Whatever the server sends, every layer has bytes for it, and they are that layer's own."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from telesrv.tl import LAYER, functions, read, read_result, types, write, write_result
from telesrv.tl.downgrade import CONTENT
from telesrv.tl.schema import schema, vector_item
from tests.tl.values import build

# The answers of a server of private chats, and what it pushes.
SENT = (
    "Updates",
    "updates.State",
    "updates.Difference",
    "messages.Dialogs",
    "messages.PeerDialogs",
    "messages.Messages",
    "messages.PeerSettings",
    "messages.AffectedMessages",
    "messages.AffectedHistory",
    "messages.AvailableReactions",
    "messages.StickerSet",
    "messages.SearchCounter",
    "messages.Chats",
    "users.UserFull",
    "UserFull",
    "Config",
    "auth.SentCode",
    "auth.Authorization",
    "auth.LoginToken",
    "auth.LoggedOut",
    "auth.ExportedAuthorization",
    "PeerNotifySettings",
    "DialogFilter",
    "contacts.Contacts",
    "contacts.Found",
    "contacts.ResolvedPeer",
    "contacts.Blocked",
    "contacts.TopPeers",
    "contacts.ImportedContacts",
    "account.Authorizations",
    "account.Password",
    "account.PrivacyRules",
    "account.ContentSettings",
    "account.EmojiStatuses",
    "GlobalPrivacySettings",
    "photos.Photos",
    "photos.Photo",
    "upload.File",
    "NearestDc",
    "help.PromoData",
    "help.TermsOfServiceUpdate",
    "help.CountriesList",
    "help.UserInfo",
    "LangPackDifference",
    "AttachMenuBots",
)
# Stars and gifts are none of ours.
NOT_SENT = {"messageActionStarGift", "messageActionStarGiftUnique"}


def reachable() -> set[str]:
    """Every TL type inside an answer."""
    todo, seen = list(SENT), set[str]()
    while todo:
        type_ = todo.pop()
        if type_ in seen:
            continue
        seen.add(type_)
        for variant in schema().types[type_]:
            for field in variant.fields if variant.in_layer(LAYER) else ():
                inner = field.type
                while item := vector_item(inner):
                    inner = item[0]
                if inner in schema().types:
                    todo.append(inner)
    return seen


TYPES = sorted(reachable())


@pytest.mark.parametrize("layer", schema().layers)
def test_every_type_is_written_for_every_layer(layer: int) -> None:
    for type_ in TYPES:
        for variant in schema().types[type_]:
            known = schema().at(variant.kind, variant.name, layer)
            skipped = variant.name in CONTENT or variant.name in NOT_SENT
            if not variant.in_layer(LAYER) or known is None or skipped:
                continue
            for fill in (0.0, 0.5, 1.0):
                value = build(variant, Random(f"{variant.name}{fill}{layer}"), fill=fill)
                if fill and "messageActionStarGift" in repr(value).replace("M", "m"):
                    continue
                data = write(value, layer)
                assert int.from_bytes(data[:4], "little") == known.id
                assert write(read(data), layer) == data, variant


def message(**fields: Any) -> types.Message:
    values: dict[str, Any] = {"id": 1, "peer_id": types.PeerUser(user_id=2), "date": 3, "message": "m"}
    return types.Message(**(values | fields))


def seen_by(value: object, layer: int) -> Any:
    return read(write(value, layer))


def test_entities_that_a_layer_lacks_are_left_out() -> None:
    quote = types.MessageEntityBlockquote(offset=0, length=1, collapsed=True)
    newer = types.MessageEntityFormattedDate(offset=0, length=1, date=1)
    bold = types.MessageEntityBold(offset=0, length=1)
    value = message(entities=[newer, bold, quote])
    old = types.MessageEntityBlockquote(offset=0, length=1)
    assert seen_by(value, 152).entities == [bold, old]
    assert seen_by(value, LAYER) == value


def test_updates_that_a_layer_lacks_are_left_out() -> None:
    authorization = types.UpdateNewAuthorization(hash=1)
    update = types.UpdateNewMessage(message=message(), pts=1, pts_count=1)
    privacy = types.UpdatePrivacy(key=types.PrivacyKeyBirthday(), rules=[])
    value = types.Updates(updates=[authorization, update, privacy], users=[], chats=[], date=1, seq=0)
    assert seen_by(value, 152).updates == [update]
    assert seen_by(value, LAYER) == value
    short = types.UpdateShort(update=privacy, date=5)
    assert seen_by(short, 152) == types.UpdateShort(update=types.UpdateConfig(), date=5)


def test_media_and_actions_that_a_layer_lacks_are_replaced() -> None:
    todo = types.MessageMediaToDo(
        todo=types.TodoList(title=types.TextWithEntities(text="t", entities=[]), list=[])
    )
    assert seen_by(message(media=todo), 192).media == types.MessageMediaUnsupported()
    service = types.MessageService(
        id=1, peer_id=types.PeerUser(user_id=2), date=3, action=types.MessageActionBoostApply(boosts=1)
    )
    assert seen_by(service, 152).action == types.MessageActionEmpty()


def test_a_reply_to_a_story_is_no_reply_before_stories() -> None:
    story = types.MessageReplyStoryHeader(peer=types.PeerUser(user_id=1), story_id=1)
    assert seen_by(message(reply_to=story), 152).reply_to is None
    quote = types.MessageReplyHeader(reply_to_msg_id=4, quote=True, quote_text="q")
    assert seen_by(message(reply_to=quote), 152).reply_to == types.MessageReplyHeader(reply_to_msg_id=4)


def test_types_that_changed() -> None:
    video = types.DocumentAttributeVideo(duration=2.6, w=1, h=1)
    assert seen_by(video, 152).duration == 3.0
    video.duration = float("nan")
    assert seen_by(video, 152).duration == 0.0
    title = types.TextWithEntities(text="t", entities=[types.MessageEntityBold(offset=0, length=1)])
    folder = types.DialogFilter(id=2, title=title, pinned_peers=[], include_peers=[], exclude_peers=[])
    assert seen_by(folder, 192).title == types.TextWithEntities(text="t", entities=[])
    user = types.User(id=1, stories_max_id=types.RecentStory(max_id=5))
    assert seen_by(user, 204) == user
    assert seen_by(user, 158) == types.User(id=1)
    blocked = types.UpdatePeerBlocked(blocked=True, peer_id=types.PeerUser(user_id=1))
    assert seen_by(blocked, 152) == blocked
    quiet = types.UpdatePeerBlocked(peer_id=types.PeerUser(user_id=1))
    assert seen_by(quiet, 152) == quiet


def test_what_older_layers_require() -> None:
    draft = types.DraftMessage(
        message="d", date=1, reply_to=types.InputReplyToMessage(reply_to_msg_id=7, top_msg_id=None)
    )
    assert seen_by(draft, 152) == draft
    theme = types.MessageActionSetChatTheme(theme=types.ChatTheme(emoticon="x"))
    assert seen_by(theme, 158) == theme
    old = schema().at("t", "config", 152)
    assert old is not None
    assert [f.name for f in old.fields if f.name == "pinned_dialogs_count_max"]


def test_keyboards() -> None:
    url = types.KeyboardInlineButton(text="u", type=types.InlineButtonTypeUrl(url="x"))
    inline = types.ReplyInlineMarkup(rows=[types.KeyboardInlineButtonRow(buttons=[url])])
    peer = types.ButtonTypeRequestPeer(button_id=1, peer_type=types.RequestPeerTypeUser(), max_quantity=1)
    plain = types.KeyboardButton(text="p", type=types.ButtonTypeDefault())
    rows = [types.KeyboardButtonRow(buttons=[plain, types.KeyboardButton(text="r", type=peer)])]
    for layer in (192, 224, LAYER):
        assert seen_by(message(reply_markup=inline), layer) == message(reply_markup=inline)
        keyboard = seen_by(types.ReplyKeyboardMarkup(rows=rows), layer)
        assert write(keyboard) == write(types.ReplyKeyboardMarkup(rows=rows))


def test_answers_whose_type_changed() -> None:
    chatlist = types.DialogFilterChatlist(
        id=2, title=types.TextWithEntities(text="t", entities=[]), pinned_peers=[], include_peers=[]
    )
    filters = types.messages.DialogFilters(filters=[types.DialogFilterDefault(), chatlist])
    result = functions.messages.GetDialogFilters.RESULT
    assert read_result(write_result(filters, result, LAYER), result) == filters
    old = read_result(write_result(filters, result, 152), "Vector<DialogFilter>")
    assert [type(f) for f in old] == [types.DialogFilterDefault, types.DialogFilter]
    assert write(filters, 152) == write_result(filters, result, 152)
    config = types.help.AppConfig(hash=1, config=types.JsonObject(value=[]))
    assert read_result(write_result(config, "help.AppConfig", 152), "JSONValue") == config.config
    assert write_result(types.ReportResultReported(), "ReportResult", 152) == write(True)
    dates = [types.ReadParticipantDate(user_id=1, date=2)]
    assert read_result(write_result(dates, "Vector<ReadParticipantDate>", 152), "Vector<long>") == [1]


def test_no_rule_is_an_error() -> None:
    with pytest.raises(TypeError, match="layer 152"):
        write(types.OutboxReadDate(date=1), 152)
