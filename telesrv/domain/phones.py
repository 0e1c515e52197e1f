"""Phone numbers as the server keeps them: digits only, country code first.

*Spec: User Authorization*
"""

from __future__ import annotations

import re
from typing import Final

MIN_DIGITS: Final = 5
MAX_DIGITS: Final = 15
"""The most digits that E.164 allows."""
MAX_INPUT: Final = 64

_TRUNK: Final = re.compile(r"(?<=\d)\s*\(0\)")
"""The zero that is dialled within a country only: +44 (0)20 7946 0000."""
_SEPARATORS: Final = re.compile(r"[\s\-().\u00a0\u2010-\u2015]+")


def maybe_phone(text: str) -> str | None:
    """Returns the digits of the phone number *text*, or None when it is no number.

    "+1 (555) 010-9999", "1555 0109999" and "0015550109999" are all "15550109999", and "+44 (0)20 7946 0000"
    is "442079460000". Countries are not told apart: 5 to 15 ASCII digits that do not begin with 0 are a
    number.
    """
    if len(text) > MAX_INPUT:
        return None
    digits = _SEPARATORS.sub("", _TRUNK.sub("", text))
    if digits.startswith("+"):
        digits = digits[1:]
    elif digits.startswith("00"):
        digits = digits[2:]
    if not (digits.isascii() and digits.isdigit()) or digits[0] == "0":
        return None
    return digits if MIN_DIGITS <= len(digits) <= MAX_DIGITS else None
