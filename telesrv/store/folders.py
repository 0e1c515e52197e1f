"""The archive: which of the two peer folders a chat stands in.

*Spec: Folders (Peer folders)*
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from telesrv.clock import Clock
from telesrv.domain.dialogs import ARCHIVE, MAIN
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import Peer
from telesrv.domain.updates import Event, EventKind, NewEvent
from telesrv.store.dialog_pins import lock_places, pinned_event, read_places
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.plans import until_settled
from telesrv.store.pool import Connection, Pool

# Moves chats to folders; a pin does not go along.
SQL_MOVE: Final = """
UPDATE dialogs d SET folder_id = q.folder_id, pinned_order = 0
FROM unnest($2::smallint[], $3::bigint[], $4::smallint[]) AS q(peer_type, peer_id, folder_id)
WHERE d.owner_user_id = $1 AND d.peer_type = q.peer_type AND d.peer_id = q.peer_id
"""


class FolderStore:
    """Moves of chats between the main list and the archive."""

    def __init__(self, pool: Pool, events: EventLog, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._clock = clock

    async def edit(self, owner: int, folders: Mapping[Peer, int], *, origin: Origin = NOBODY) -> list[Event]:
        """Moves chats and returns the events that tell of it; none when all stood where they were wanted.

        Peers without a chat are left out. A chat that was pinned in the folder it leaves is not any more: the
        new order of that folder is told too.

        *Spec: folders.editPeerFolders*
        """
        peers = sorted(folders)

        async def attempt() -> list[Event]:
            seen = await read_places(self._pool, owner, peers)
            moved = [peer for peer in peers if seen.folder(peer) not in (None, folders[peer])]
            pins = {folder_id: seen.pins(folder_id) for folder_id in (MAIN, ARCHIVE)}
            left = {
                folder_id: [peer for peer in order if peer not in moved]
                for folder_id, order in pins.items()
                if not set(order).isdisjoint(moved)
            }
            if not moved:
                return []

            async def body(connection: Connection, writer: EventWriter) -> list[Event]:
                await lock_places(connection, owner, peers, seen)
                await connection.execute(
                    SQL_MOVE,
                    owner,
                    [int(peer.type) for peer in moved],
                    [peer.id for peer in moved],
                    [folders[peer] for peer in moved],
                )
                date = int(self._clock.time())
                listed = [[int(peer.type), peer.id, folders[peer]] for peer in moved]
                events = [
                    writer.add(
                        NewEvent(
                            owner,
                            EventKind.FOLDER_PEERS,
                            date,
                            payload={"peers": listed},
                            origin=origin,
                            pts_count=len(moved),
                        )
                    )
                ]
                for folder_id, order in left.items():
                    new = pinned_event(owner, folder_id, order, date, origin)
                    events.append(writer.add(new))
                return events

            return await self._events.transact([owner] * (len(moved) + len(left)), body)

        if not peers or not set(folders.values()) <= {MAIN, ARCHIVE}:
            return []
        return await until_settled(attempt, "a list of chats")
