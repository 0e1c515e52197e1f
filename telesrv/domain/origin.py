"""Where a change comes from: the session that made it is not told of it, since its answer says so."""

from __future__ import annotations

from typing import Final, NamedTuple


class Origin(NamedTuple):
    """The session that caused a change, and gets no push of it."""

    auth_key_id: int
    """The permanent key of its device."""
    session_id: int


NOBODY: Final = Origin(0, 0)
"""No session caused it, or the one that did is told like every other."""
