"""How many messages are unread at a place in an account's log, for the events that tell it.

Guarantees: what is told is right for a client that has followed the log up to that event, in whatever order
the transactions around it committed. So it is counted when the event is shown: by then everything before
it in the log is committed, and what is counted is the messages that came before it and still exist. The read
mark is the event's own where it moves one, else the one that stands.

*Spec: Working with Updates*
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from telesrv.domain.peers import PeerType
from telesrv.domain.updates import DELETES, Event, EventKind
from telesrv.store.pool import Pool

# Counts the unread messages of some chats that came before a pts, behind a mark or the one that stands.
SQL_UNREAD_AT: Final = """
SELECT m.i, m.mark, (
    SELECT count(*) FROM message_boxes b
    WHERE b.owner_user_id = m.owner AND b.peer_type = m.peer_type AND b.peer_id = m.peer_id
        AND b.box_id > m.mark AND b.pts < m.pts AND NOT b.deleted AND NOT b.outgoing) AS unread
FROM (
    SELECT q.i, q.owner, q.peer_type, q.peer_id, q.pts,
        CASE WHEN q.moves THEN q.mark ELSE GREATEST(q.mark, coalesce(d.read_inbox_max_id, 0)) END AS mark
    FROM unnest($1::int[], $2::bigint[], $3::smallint[], $4::bigint[], $5::int[], $6::int[], $7::boolean[])
        AS q(i, owner, peer_type, peer_id, mark, pts, moves)
    LEFT JOIN dialogs d ON d.owner_user_id = q.owner AND d.peer_type = q.peer_type AND d.peer_id = q.peer_id
) m
"""


class UnreadStore:
    """Counts for events that are about to be shown."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def counted(self, events: Iterable[Event]) -> dict[tuple[int, int], Event]:
        """Returns those events that tell an unread count, of any accounts, with the right one, by account and
        pts; in one statement, and in none when there is no such event.

        Raises:
            Unavailable: PostgreSQL is away.
        """
        telling = {(event.user_id, event.pts): event for event in events if _tells(event)}
        asked = [(event, chat) for event in telling.values() for chat in _chats(event)]
        if not asked:
            return {}
        rows = await self._pool.fetch(
            SQL_UNREAD_AT,
            list(range(len(asked))),
            [event.user_id for event, _ in asked],
            [chat[0] for _, chat in asked],
            [chat[1] for _, chat in asked],
            [chat[2] for _, chat in asked],
            [event.pts for event, _ in asked],
            [event.kind is EventKind.READ_INBOX for event, _ in asked],
        )
        found: dict[tuple[int, int], list[list[int]]] = {}
        for row in sorted(rows, key=lambda row: row["i"]):
            event, chat = asked[row["i"]]
            found.setdefault((event.user_id, event.pts), []).append([*chat[:2], row["mark"], row["unread"]])
        return {key: _with(telling[key], chats) for key, chats in found.items()}


def _tells(event: Event) -> bool:
    if event.kind in DELETES:
        return bool(event.payload and event.payload.get("unread"))
    return event.kind is EventKind.READ_INBOX


def _chats(event: Event) -> list[tuple[int, int, int]]:
    """Returns the chats that an event tells of: type and id of the peer, and the mark as it stood."""
    if event.kind is EventKind.READ_INBOX:
        peer = event.peer
        return [] if peer is None else [(int(peer.type), peer.id, event.box_id)]
    stored: Iterable[list[int]] = (event.payload or {}).get("unread", ())
    return [(chat[0], chat[1], chat[2]) for chat in stored if chat[0] == PeerType.USER]


def _with(event: Event, chats: list[list[int]]) -> Event:
    payload: dict[str, Any] = dict(event.payload or {})
    if event.kind is EventKind.READ_INBOX:
        [[_, _, mark, unread]] = chats
        return replace(event, box_id=mark, payload=payload | {"still_unread_count": unread})
    return replace(event, payload=payload | {"unread": chats})
