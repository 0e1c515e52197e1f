"""Public usernames: what one may look like and when two are the same.

*Spec: Usernames*
"""

from __future__ import annotations

import re
from typing import Final

MIN_LENGTH: Final = 5
MAX_LENGTH: Final = 32

RESERVED: Final = frozenset(
    {
        "admin",
        "administrator",
        "botfather",
        "helpdesk",
        "moderator",
        "official",
        "operator",
        "service",
        "support",
        "system",
        "telegram",
        "telesrv",
    }
)
"""Words by which somebody would pass for who runs the server, alone or beside one another."""
_SPLIT: Final = re.compile(r"[_0-9]+")
_PATTERN: Final = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*")


def is_valid_username(username: str) -> bool:
    """Tells whether an account may take *username*.

    5 to 32 Latin letters, digits and underscores; a letter first, no underscore last, never two in a row.
    """
    return MIN_LENGTH <= len(username) <= MAX_LENGTH and _PATTERN.fullmatch(username) is not None


def username_key(username: str) -> str:
    """Returns what is unique about *username*: without the @ before it and without case."""
    return username.removeprefix("@").lower()


def is_reserved_username(username: str) -> bool:
    """Tells whether nobody may have *username*, since it would pass for the service's own.

    That is one made of nothing but reserved words, figures and underscores: *Telegram*, *support_24*,
    *telegram_support*, *TelegramSupport*; *admiral* and *supporter_of_ada* are not.
    """
    rest = _SPLIT.sub("", username_key(username))
    reachable = {0}
    for end in range(1, len(rest) + 1):
        if any(end - len(word) in reachable and rest.endswith(word, 0, end) for word in RESERVED):
            reachable.add(end)
    return bool(rest) and len(rest) in reachable
