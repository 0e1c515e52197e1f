"""From an older layer's fields to the newest class: what the reader calls where the two differ.

A field that became required gets an empty value (`defaults`), one that changed its type is converted
(`conversions`), and what an older layer said by another field is carried over by one function per constructor
here.

*Spec: TL Language*
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from telesrv.tl import conversions
from telesrv.tl.schema import Field

# Called with the filled object and the older layer's fields that its class no longer has.
Hook = Callable[[Any, dict[str, Any]], None]


def conversion(old: Field, new: Field) -> Callable[[Any], Any]:
    """Returns the conversion of a field to the type it has now; KeyError, a bug of ours, when there is
    none."""
    return conversions.up(old, new)


STAND_INS: dict[tuple[str, str], str] = {
    ("InputUser", "inputPeerEmpty"): "InputUserEmpty",
    ("InputUser", "inputPeerSelf"): "InputUserSelf",
    ("InputUser", "inputPeerUser"): "InputUser",
    ("InputUser", "inputPeerUserFromMessage"): "InputUserFromMessage",
    ("InputChannel", "inputPeerEmpty"): "InputChannelEmpty",
    ("InputChannel", "inputPeerChannel"): "InputChannel",
    ("InputChannel", "inputPeerChannelFromMessage"): "InputChannelFromMessage",
}
"""Peers that clients send where the schema wants a user or a channel, and the class that is meant: pyrogram
and its kin resolve every chat to a peer and put it wherever a chat is named."""


def stand_in(type_: str, name: str) -> Callable[[Any], Any] | None:
    """Returns what makes a value of *type_* of the constructor *name* of another type; None: it is none."""
    meant = STAND_INS.get((type_, name))
    if meant is None:
        return None
    made = getattr(_types(), meant)
    return lambda peer: made(**{field: getattr(peer, field) for field in peer.__slots__})


def _types() -> Any:
    from telesrv.tl import types  # noqa: PLC0415 - the classes load when the first of them is needed

    return types


def _reply_to(x: Any, g: dict[str, Any]) -> None:
    if g.get("reply_to_msg_id") is not None:
        x.reply_to = _types().InputReplyToMessage(
            reply_to_msg_id=g["reply_to_msg_id"], top_msg_id=g.get("top_msg_id")
        )


def _input_peer(x: Any, g: dict[str, Any]) -> None:
    if g.get("user_id") is not None:
        x.peer = conversions.input_peer(g["user_id"])


def _user_peer(x: Any, g: dict[str, Any]) -> None:
    if "user_id" in g:
        x.peer = _types().PeerUser(user_id=g["user_id"])


def _theme(x: Any, g: dict[str, Any]) -> None:
    if g.get("emoticon") is not None:
        x.theme = _types().ChatTheme(emoticon=g["emoticon"])


def _input_theme(x: Any, g: dict[str, Any]) -> None:
    types, emoticon = _types(), g.get("emoticon")
    if emoticon is not None:
        x.theme = types.InputChatTheme(emoticon=emoticon) if emoticon else types.InputChatThemeEmpty()


def _user_theme(x: Any, g: dict[str, Any]) -> None:
    if g.get("theme_emoticon") is not None:
        x.theme = _types().ChatTheme(emoticon=g["theme_emoticon"])


def _days(x: Any, g: dict[str, Any]) -> None:
    if "months" in g:
        x.days = g["months"] * 30


def _stars(x: Any, g: dict[str, Any]) -> None:
    stars = g.get("stars", g.get("resell_stars"))
    amount = _types().StarsAmount(amount=stars, nanos=0) if isinstance(stars, int) else stars
    if amount is not None:
        if hasattr(x, "amount"):
            x.amount = amount
        elif hasattr(x, "resell_amount"):
            x.resell_amount = amount


def _rarity(x: Any, g: dict[str, Any]) -> None:
    if "rarity_permille" in g:
        x.rarity = _types().StarGiftAttributeRarity(permille=g["rarity_permille"])


def _requested_peers(x: Any, g: dict[str, Any]) -> None:
    if "peer" in g:
        x.peers = [g["peer"]]
    elif "requested_peer" in g:
        x.requested_peers = [g["requested_peer"]]


def _signatures(x: Any, g: dict[str, Any]) -> None:
    x.signatures_enabled = g.get("enabled", False)


def _color(x: Any, g: dict[str, Any]) -> None:
    if g.get("background_emoji_id") is not None:
        x.color = x.color or _types().PeerColor()
        x.color.background_emoji_id = g["background_emoji_id"]


OBJECTS: dict[str, Hook] = {
    **dict.fromkeys(conversions.REPLY_TO, _reply_to),
    **dict.fromkeys(conversions.INPUT_PEER, _input_peer),
    **dict.fromkeys(conversions.PEER, _user_peer),
    "messageActionSetChatTheme": _theme,
    "messages.setChatTheme": _input_theme,
    "userFull": _user_theme,
    "messageActionGiftCode": _days,
    "messageActionGiftPremium": _days,
    "payments.checkedGiftCode": _days,
    "starsTransaction": _stars,
    "payments.updateStarGiftPrice": _stars,
    "starGiftAttributeBackdrop": _rarity,
    "starGiftAttributeModel": _rarity,
    "starGiftAttributePattern": _rarity,
    "messageActionRequestedPeer": _requested_peers,
    "messages.sendBotRequestedPeer": _requested_peers,
    "channels.toggleSignatures": _signatures,
    "account.updateColor": _color,
}
