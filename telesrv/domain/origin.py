"""Where a change comes from: the session that made it is not told of it, when its answer has the pts.

One rule for all calls: a change whose answer names the pts of its events carries its session as the origin.
One whose answer is a bare True or a user carries none: with every change a pts is taken, and a session that
got neither the answer's nor a push would see a gap with the next message, and ask for the difference.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Origin(NamedTuple):
    """The session that caused a change, and gets no push of it."""

    auth_key_id: int
    """The permanent key of its device."""
    session_id: int


NOBODY: Final = Origin(0, 0)
"""No session caused it, or the answer of the one that did has no pts, so that it is told like every other."""
