"""What a peer can get wrong. Anything else that is raised while reading is a bug of ours."""

from __future__ import annotations


class ProtocolError(Exception):
    """The peer broke the protocol; root of everything that its bytes can raise."""


class TLError(ProtocolError):
    """The bytes are not what the schema says."""


class UnknownConstructor(TLError):
    """No layer that we know has this id, or none has it where it stood."""

    def __init__(self, constructor_id: int, expected: str = "") -> None:
        where = f" where {expected} is expected" if expected else ""
        super().__init__(f"unknown constructor #{constructor_id:08x}{where}")
        self.constructor_id = constructor_id


class LimitExceeded(TLError):
    """A vector, a string, the depth or the inflated size is above its bound."""


class Truncated(TLError):
    """The bytes end before the object does."""


class TrailingBytes(TLError):
    """Bytes are left after the object."""
