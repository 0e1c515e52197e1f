"""Drafts, one a chat.

Guarantees: a draft carries the pts of the event that tells of it; what clears it names that pts, so that a
draft that was begun meanwhile stays. A message that ends a draft is written together with its end (`send`,
`scheduled`).

*Spec: Message drafts*
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from telesrv.clock import Clock
from telesrv.domain.drafts import MAX_DRAFTS, Draft, draft_from_json, draft_to_json
from telesrv.domain.peers import Peer
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.boxes import peer_of
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.pool import Connection, Pool, to_json

_PART: Final = 100
"""How many drafts one transaction clears."""

# Reads the draft of one chat.
SQL_DRAFT: Final = """
SELECT pts, draft FROM dialog_drafts WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = $3
"""
# Reads the drafts of some chats.
SQL_DRAFTS_OF: Final = """
SELECT peer_type, peer_id, draft FROM dialog_drafts
WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = ANY($3::bigint[])
"""
# Reads the owner's drafts, the newest first.
SQL_ALL_DRAFTS: Final = """
SELECT peer_type, peer_id, pts, draft FROM dialog_drafts WHERE owner_user_id = $1
ORDER BY pts DESC LIMIT $2
"""
# Keeps a draft in place of the one before.
SQL_SAVE_DRAFT: Final = """
INSERT INTO dialog_drafts (owner_user_id, peer_type, peer_id, pts, draft)
VALUES ($1, $2, $3, $4, $5::text::jsonb)
ON CONFLICT (owner_user_id, peer_type, peer_id) DO UPDATE SET pts = excluded.pts, draft = excluded.draft
"""
# Clears drafts that are still those of these pts; others are missing from the answer.
SQL_CLEAR_DRAFTS: Final = """
DELETE FROM dialog_drafts d
USING unnest($2::smallint[], $3::bigint[], $4::int[]) AS q(peer_type, peer_id, pts)
WHERE d.owner_user_id = $1 AND d.peer_type = q.peer_type AND d.peer_id = q.peer_id AND d.pts = q.pts
RETURNING d.peer_type, d.peer_id
"""


class DraftStore:
    """Drafts of accounts."""

    def __init__(self, pool: Pool, events: EventLog, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._clock = clock

    async def save(self, owner: int, peer: Peer, draft: Draft) -> bool:
        """Keeps a draft; an empty one clears what was there. False when nothing changed.

        *Spec: messages.saveDraft*
        """
        row = await self._pool.fetchrow(SQL_DRAFT, owner, peer.type, peer.id)
        if draft.empty:
            return row is not None and await self.clear(owner, peer, row["pts"])
        if row is not None and draft.same(draft_from_json(row["draft"])):
            return False
        snapshot = draft_to_json(draft)

        async def body(connection: Connection, writer: EventWriter) -> bool:
            event = writer.add(NewEvent(owner, EventKind.DRAFT, draft.date, peer, payload=snapshot))
            await connection.execute(SQL_SAVE_DRAFT, owner, peer.type, peer.id, event.pts, to_json(snapshot))
            return True

        return await self._events.transact([owner], body)

    async def clear(self, owner: int, peer: Peer, version: int) -> bool:
        """Clears a draft. False when it is not there any more, or another one is.

        Args:
            version: the pts of the draft.
        """
        return bool(await self._clear(owner, [(peer, version)]))

    async def clear_all(self, owner: int) -> list[Peer]:
        """Clears all drafts, in parts when there are very many; returns the chats that had one.
        What is drafted meanwhile may stay.

        *Spec: messages.clearAllDrafts*
        """
        cleared: list[Peer] = []
        while rows := await self._pool.fetch(SQL_ALL_DRAFTS, owner, _PART):
            drafts = sorted((peer_of(row["peer_type"], row["peer_id"]), row["pts"]) for row in rows)
            if not (gone := await self._clear(owner, drafts)):
                break
            cleared += gone
        return cleared

    async def all(self, owner: int) -> dict[Peer, Draft]:
        """Returns the owner's drafts, the newest first, at most 1,000.

        *Spec: messages.getAllDrafts*
        """
        rows = await self._pool.fetch(SQL_ALL_DRAFTS, owner, MAX_DRAFTS)
        return {peer_of(row["peer_type"], row["peer_id"]): draft_from_json(row["draft"]) for row in rows}

    async def _clear(self, owner: int, drafts: list[tuple[Peer, int]]) -> list[Peer]:
        async def body(connection: Connection, writer: EventWriter) -> list[Peer]:
            date = int(self._clock.time())
            return await end_drafts(connection, writer, owner, drafts, date)

        return await self._events.transact([owner] * len(drafts), body) if drafts else []


async def end_drafts(
    connection: Connection,
    writer: EventWriter,
    owner: int,
    drafts: Sequence[tuple[Peer, int]],
    date: int,
) -> list[Peer]:
    """Clears drafts, by peer and pts, in the caller's transaction, each with its event.

    Returns:
        The chats whose draft was still that one.
    """
    rows = await connection.fetch(
        SQL_CLEAR_DRAFTS,
        owner,
        [int(peer.type) for peer, _ in drafts],
        [peer.id for peer, _ in drafts],
        [version for _, version in drafts],
    )
    cleared = sorted(peer_of(row["peer_type"], row["peer_id"]) for row in rows)
    for peer in cleared:
        writer.add(NewEvent(owner, EventKind.DRAFT, date, peer, payload={}))
    return cleared


async def drafts_of(pool: Pool, owner: int, peers: Iterable[Peer]) -> dict[Peer, Draft]:
    """Returns the drafts of some chats, in one statement for each kind of peer."""
    by_type: dict[int, list[int]] = {}
    for peer in peers:
        by_type.setdefault(int(peer.type), []).append(peer.id)
    found: dict[Peer, Draft] = {}
    for peer_type, ids in by_type.items():
        for row in await pool.fetch(SQL_DRAFTS_OF, owner, peer_type, ids):
            found[peer_of(peer_type, row["peer_id"])] = draft_from_json(row["draft"])
    return found
