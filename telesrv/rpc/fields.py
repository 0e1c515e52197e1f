"""Texts of a profile or an address book as a client may set them.

A text is taken as it can be stored and shown: control characters and lone surrogates are gone, blanks at the
ends too, and inner runs of blanks are one.

*Spec: account.updateProfile; contacts.addContact*
"""

from __future__ import annotations

import re
from typing import Final

from telesrv.rpc.errors import bad_request

MAX_NAME: Final = 64
MAX_ABOUT: Final = 70
MAX_QUERY: Final = 256

_BLANKS: Final = re.compile("[\\s\\x00-\\x1f\\x7f\u2028\u2029]+")
_DROPPED: Final = re.compile("[\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Direction controls would turn the text around the name; surrogates cannot be stored."""
_INVISIBLE: Final = re.compile("[\\s\u00ad\u115f\u1160\u180e\u200b-\u200f\u2060-\u2064\u2800\u3164\ufeff]*")


def line(text: str) -> str:
    """Returns *text* as one clean line; empty when nothing of it can be seen."""
    cleaned = _BLANKS.sub(" ", _DROPPED.sub("", text)).strip()
    return "" if _INVISIBLE.fullmatch(cleaned) else cleaned


def name(text: str, error: str, *, required: bool) -> str:
    """Returns *text* as a first or last name.

    Raises:
        RpcError: 400 *error* when it is longer than 64 code points, or empty though required.
    """
    cleaned = line(text)
    if len(cleaned) > MAX_NAME or (required and not cleaned):
        raise bad_request(error)
    return cleaned


def about(text: str) -> str:
    """Returns *text* as the words an account says of itself.

    Raises:
        RpcError: 400 ABOUT_TOO_LONG when it is longer than 70 code points.
    """
    cleaned = line(text)
    if len(cleaned) > MAX_ABOUT:
        raise bad_request("ABOUT_TOO_LONG")
    return cleaned


def query(text: str) -> str:
    """Returns *text* as something to search for, without the @ of a username.

    Raises:
        RpcError: 400 SEARCH_QUERY_EMPTY when nothing is left.
    """
    cleaned = line(text[:MAX_QUERY]).removeprefix("@")
    if not cleaned:
        raise bad_request("SEARCH_QUERY_EMPTY")
    return cleaned
