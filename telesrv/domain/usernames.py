"""Public usernames: what one may look like and when two are the same.

*Spec: Usernames*
"""

from __future__ import annotations

import re
from typing import Final

MIN_LENGTH: Final = 5
MAX_LENGTH: Final = 32

_PATTERN: Final = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*")


def is_valid_username(username: str) -> bool:
    """Tells whether an account may take *username*.

    5 to 32 Latin letters, digits and underscores; a letter first, no underscore last, never two in a row.
    """
    return MIN_LENGTH <= len(username) <= MAX_LENGTH and _PATTERN.fullmatch(username) is not None


def username_key(username: str) -> str:
    """Returns what is unique about *username*: without the @ before it and without case."""
    return username.removeprefix("@").lower()
