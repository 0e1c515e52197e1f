"""From the newest classes to what an older layer can say: what the writer calls where the two differ.

Four kinds of rule. RULES and TYPE_RULES replace an object whose constructor the layer does not have (in a
vector or an optional field one without a rule is left out; where one is required, having no rule is an
error). CONTENT names what an object must be able to say: without it the whole object goes. OBJECTS gives the
fields that only the older variant has. RESULTS gives the answers whose type changed.

*Spec: TL Language*
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from telesrv.tl import buttons, conversions
from telesrv.tl.defaults import default
from telesrv.tl.schema import Field

Rule = Callable[[Any], Any]


def conversion(layer: int, new: Field, old: Field) -> Rule:
    """Returns the conversion of a field to the type that `layer` has; KeyError, a bug of ours, when there is
    none."""
    return conversions.down(new, old, layer)


def filled(type_: str, layer: int) -> Rule:
    """Returns a function that gives a value itself, or an empty one of the type for None."""
    make = default(type_, layer)
    return lambda value: make() if value is None else value


def _types() -> Any:
    from telesrv.tl import types  # noqa: PLC0415 - the classes load when the first of them is needed

    return types


def _new(name: str, /, **values: Any) -> Rule:
    """A rule whose answer says no more than the constructor's name."""
    return lambda x: getattr(_types(), name)(**values)


def _empty_chat(x: Any) -> Any:
    return _types().ChatEmpty(id=x.id)


def _chatlist(x: Any) -> Any:
    return _types().DialogFilter(
        id=x.id,
        title=x.title,
        emoticon=x.emoticon,
        color=x.color,
        title_noanimate=x.title_noanimate,
        pinned_peers=x.pinned_peers,
        include_peers=x.include_peers,
        exclude_peers=[],
    )


def _plain_text(x: Any) -> Any:
    """The text inside a newer rich text, when it has one."""
    types, text = _types(), getattr(x, "text", None)
    if isinstance(text, str):
        return types.TextPlain(text=text)
    return text if text is not None else types.TextEmpty()


def _sms_code(x: Any) -> Any:
    return _types().auth.SentCodeTypeSms(length=5)


def _stars_amount(x: Any) -> Any:
    return _types().StarsAmount(amount=x.amount, nanos=0)


def _emoji_status(x: Any) -> Any:
    types = _types()
    if isinstance(x, types.EmojiStatusCollectible):
        return types.EmojiStatus(document_id=x.document_id, until=x.until)
    return types.EmojiStatusEmpty()


# By constructor.
RULES: dict[str, Rule] = {
    "dialogFilterChatlist": _chatlist,
    **dict.fromkeys(buttons.GONE, buttons.up),
}

# By TL type, for a constructor without a rule of its own.
TYPE_RULES: dict[str, Rule] = {
    "Chat": _empty_chat,
    "EmojiStatus": _emoji_status,
    "InputFile": _new("InputFile", id=0, parts=0, name="", md5_checksum=""),
    "InputGroupCall": _new("InputGroupCall", id=0, access_hash=0),
    "InputMedia": _new("InputMediaEmpty"),
    "InputStickerSet": _new("InputStickerSetEmpty"),
    "MessageAction": _new("MessageActionEmpty"),
    "MessageMedia": _new("MessageMediaUnsupported"),
    "MessagesFilter": _new("InputMessagesFilterEmpty"),
    "PageBlock": _new("PageBlockUnsupported"),
    "Reaction": _new("ReactionEmpty"),
    "RichText": _plain_text,
    "StarsAmount": _stars_amount,
    "SendMessageAction": _new("SendMessageTypingAction"),
    "auth.SentCodeType": _sms_code,
}

# In place of an update that cannot be said where one must be (updateShort): a client then asks for its
# config.
REQUIRED_RULES: dict[str, Rule] = {"Update": _new("UpdateConfig")}

# The attribute whose constructor the layer must have, else nothing of the object can be said.
CONTENT = {
    "updatePrivacy": "key",
    "updateNotifySettings": "peer",
    "updateDialogPinned": "peer",
    "updateDialogUnreadMark": "peer",
    "updateSavedDialogPinned": "peer",
    "updateUserTyping": "action",
    "topPeerCategoryPeers": "category",
    "reactionCount": "reaction",
}

# Constructors that every layer has, but older ones with less in them than another of theirs can say.
REWRITES: dict[str, Rule] = {"keyboardButton": buttons.down}


# -- fields that only an older variant has -------------------------------------------------------------------


def _config(x: Any, layer: int) -> dict[str, Any]:
    """Limits that moved to the app config; a zero would forbid what they limit."""
    return {
        "saved_gifs_limit": 200,
        "stickers_faved_limit": 5,
        "pinned_dialogs_count_max": 5,
        "pinned_infolder_count_max": 100,
    }


def _reply_to(x: Any, layer: int) -> dict[str, Any]:
    if isinstance(x.reply_to, _types().InputReplyToMessage):
        return {"reply_to_msg_id": x.reply_to.reply_to_msg_id, "top_msg_id": x.reply_to.top_msg_id}
    return {}


def _user_id(x: Any, layer: int) -> dict[str, Any]:
    return {"user_id": conversions.user_of(x.peer)}


def _input_user(x: Any, layer: int) -> dict[str, Any]:
    return {"user_id": conversions.input_user(x.peer)}


def _theme(x: Any, layer: int) -> dict[str, Any]:
    return {"emoticon": getattr(x.theme, "emoticon", "")}


def _user_theme(x: Any, layer: int) -> dict[str, Any]:
    return {"theme_emoticon": getattr(x.theme, "emoticon", None)}


def _months(x: Any, layer: int) -> dict[str, Any]:
    return {"months": (x.days + 29) // 30}


def _stars(x: Any, layer: int) -> dict[str, Any]:
    amount = x.amount if hasattr(x, "amount") else x.resell_amount
    plain = layer < 196 or not hasattr(x, "amount")
    return {"stars": amount.amount if plain else amount, "resell_stars": amount.amount}


def _rarity(x: Any, layer: int) -> dict[str, Any]:
    return {"rarity_permille": getattr(x.rarity, "permille", 0)}


def _requested_peer(x: Any, layer: int) -> dict[str, Any]:
    if hasattr(x, "peers"):
        return {"peer": x.peers[0] if x.peers else _types().PeerUser(user_id=0)}
    return {"requested_peer": x.requested_peers[0] if x.requested_peers else _types().InputPeerEmpty()}


def _signatures(x: Any, layer: int) -> dict[str, Any]:
    return {"enabled": x.signatures_enabled}


def _color(x: Any, layer: int) -> dict[str, Any]:
    return {"background_emoji_id": getattr(x.color, "background_emoji_id", None)}


OBJECTS: dict[str, Callable[[Any, int], dict[str, Any]]] = {
    "config": _config,
    **dict.fromkeys(conversions.REPLY_TO, _reply_to),
    **dict.fromkeys(conversions.INPUT_PEER, _input_user),
    **dict.fromkeys(conversions.PEER, _user_id),
    "messageActionSetChatTheme": _theme,
    "messages.setChatTheme": _theme,
    "userFull": _user_theme,
    "messageActionGiftCode": _months,
    "messageActionGiftPremium": _months,
    "payments.checkedGiftCode": _months,
    "starsTransaction": _stars,
    "payments.updateStarGiftPrice": _stars,
    "starGiftAttributeBackdrop": _rarity,
    "starGiftAttributeModel": _rarity,
    "starGiftAttributePattern": _rarity,
    "messageActionRequestedPeer": _requested_peer,
    "messages.sendBotRequestedPeer": _requested_peer,
    "channels.toggleSignatures": _signatures,
    "account.updateColor": _color,
}

# -- answers whose type changed: newest RESULT -> (the older one, its value) ---------------------------------


def _app_config(x: Any) -> Any:
    return getattr(x, "config", None) or _types().JsonObject(value=[])


RESULTS: dict[str, tuple[str, Rule]] = {
    "messages.DialogFilters": ("Vector<DialogFilter>", lambda x: x.filters),
    "help.AppConfig": ("JSONValue", _app_config),
    "messages.InvitedUsers": ("Updates", lambda x: x.updates),
    "messages.ChatInviteJoinResult": ("Updates", lambda x: x.updates),
    "messages.WebPage": ("WebPage", lambda x: x.webpage),
    "messages.WebPagePreview": ("MessageMedia", lambda x: x.media),
    "ReportResult": ("Bool", lambda x: True),
    "stories.CanSendStoryCount": ("Bool", lambda x: True),
    "bots.BotInfo": ("Vector<string>", lambda x: [x.name, x.about, x.description]),
    "Vector<ReadParticipantDate>": ("Vector<long>", lambda x: [item.user_id for item in x]),
    "Vector<RecentStory>": ("Vector<int>", lambda x: [item.max_id or 0 for item in x]),
}
