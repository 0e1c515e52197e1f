"""Keyboard buttons: one constructor for each kind up to layer 228, a button with a type from 229 on."""

from __future__ import annotations

from typing import Any

# Old constructor -> (newest button type, the fields that moved into it).
_INLINE = {
    "keyboardButtonUrl": ("InlineButtonTypeUrl", ("url",)),
    "keyboardButtonCallback": ("InlineButtonTypeCallback", ("requires_password", "data")),
    "keyboardButtonSwitchInline": ("InlineButtonTypeSwitchInline", ("same_peer", "query", "peer_types")),
    "keyboardButtonGame": ("InlineButtonTypeGame", ()),
    "keyboardButtonBuy": ("InlineButtonTypeBuy", ()),
    "keyboardButtonUrlAuth": ("InlineButtonTypeUrlAuth", ("fwd_text", "url", "button_id")),
    "keyboardButtonUserProfile": ("InlineButtonTypeUserProfile", ("user_id",)),
    "keyboardButtonWebView": ("InlineButtonTypeWebView", ("url",)),
    "keyboardButtonCopy": ("InlineButtonTypeCopy", ("copy_text",)),
}
_REPLY = {
    "keyboardButtonRequestPhone": ("ButtonTypeRequestPhone", ()),
    "keyboardButtonRequestGeoLocation": ("ButtonTypeRequestGeoLocation", ()),
    "keyboardButtonRequestPoll": ("ButtonTypeRequestPoll", ("quiz",)),
    "keyboardButtonRequestPeer": ("ButtonTypeRequestPeer", ("button_id", "peer_type", "max_quantity")),
    "inputKeyboardButtonRequestPeer": (
        "InputButtonTypeRequestPeer",
        ("name_requested", "username_requested", "photo_requested", "button_id", "peer_type", "max_quantity"),
    ),
    "keyboardButtonSimpleWebView": ("ButtonTypeSimpleWebView", ("url",)),
}
_INLINE_BACK = {new: (old, fields) for old, (new, fields) in _INLINE.items()}
_REPLY_BACK = {new: (old, fields) for old, (new, fields) in _REPLY.items()}
GONE = frozenset({*_INLINE, *_REPLY, "inputKeyboardButtonUrlAuth", "inputKeyboardButtonUserProfile"})


def _types() -> Any:
    from telesrv.tl import types  # noqa: PLC0415 - the classes load when the first of them is needed

    return types


def _class_name(constructor: str) -> str:
    return constructor[:1].upper() + constructor[1:]


def inline_row_up(row: Any) -> Any:
    """Returns an older row of an inline keyboard as the newest layer's; what it has no word for is
    disabled."""
    types = _types()
    made = []
    for button in row.buttons:
        name, fields = _INLINE.get(button.CONSTRUCTOR_NAME, ("InlineButtonTypeDisabled", ()))
        type_ = getattr(types, name)(**{field: getattr(button, field) for field in fields})
        made.append(types.KeyboardInlineButton(style=button.style, text=button.text, type=type_))
    return types.KeyboardInlineButtonRow(buttons=made)


def inline_row_down(row: Any) -> Any:
    """Returns a row of an inline keyboard in the older constructors; a disabled button becomes an empty
    callback."""
    types = _types()
    made = []
    for button in row.buttons:
        name, fields = _INLINE_BACK.get(type(button.type).__name__, ("keyboardButtonCallback", ()))
        values = {field: getattr(button.type, field) for field in fields}
        if name == "keyboardButtonCallback":
            values.setdefault("data", b"")
        made.append(getattr(types, _class_name(name))(style=button.style, text=button.text, **values))
    return types.KeyboardButtonRow(buttons=made)


def up(button: Any) -> Any:
    """Returns a gone constructor of a reply keyboard's button as the newest layer's; unknown kinds send their
    text."""
    types = _types()
    name, fields = _REPLY.get(button.CONSTRUCTOR_NAME, ("ButtonTypeDefault", ()))
    type_ = getattr(types, name)(**{field: getattr(button, field) for field in fields})
    return types.KeyboardButton(style=button.style, text=button.text, type=type_)


def down(button: Any) -> Any:
    """Returns the newest layer's reply keyboard button in its older constructor; itself when it has no own
    one."""
    name, fields = _REPLY_BACK.get(type(button.type).__name__, ("", ()))
    if not name:
        return button
    values = {field: getattr(button.type, field) for field in fields}
    return getattr(_types(), _class_name(name))(style=button.style, text=button.text, **values)
