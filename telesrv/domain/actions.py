"""Service messages: what somebody did in a chat, told in it as a message without a text.

*Spec: Service messages*
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ActionKind(IntEnum):
    """What was done; the numbers are stored and never reused."""

    PIN_MESSAGE = 1
    """The message that it replies to was pinned."""
    SET_TTL = 2
    """period_s holds for new messages from now on; 0: they are kept."""
    CONTACT_SIGN_UP = 3
    """The author has signed up with a phone number of the owner's address book."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a service message tells of."""

    kind: ActionKind
    period_s: int = 0
    auto_user_id: int = 0
    """Whose default period it is that holds now; 0: somebody has set it in this chat."""
