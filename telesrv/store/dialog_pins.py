"""Pinned chats and their order, one order for each folder.

Guarantees: pins of an owner change one after the other, under the lock of the settings; the order of an event
is the order that stood when it was committed.

*Spec: messages.toggleDialogPin; messages.reorderPinnedDialogs*
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telesrv.clock import Clock
from telesrv.domain.dialogs import MAX_PINNED
from telesrv.domain.errors import DialogMissing, TooManyPinned
from telesrv.domain.peers import Peer
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.boxes import peer_of
from telesrv.store.dialog_settings import SQL_LOCK_SETTINGS, PlanMovedError, until_settled
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.pool import Connection, Pool

# Reads which chats are pinned in a folder, the highest first.
SQL_PINS: Final = """
SELECT peer_type, peer_id FROM dialogs
WHERE owner_user_id = $1 AND folder_id = $2 AND pinned_order > 0
ORDER BY pinned_order DESC, peer_type, peer_id
"""
# Finds the folders of chats.
SQL_FOLDERS: Final = """
SELECT d.peer_type, d.peer_id, d.folder_id, d.pinned_order
FROM unnest($2::smallint[], $3::bigint[]) AS q(peer_type, peer_id)
JOIN dialogs d ON d.owner_user_id = $1 AND d.peer_type = q.peer_type AND d.peer_id = q.peer_id
"""
# Gives chats their places among the pinned ones; 0 is not pinned.
SQL_SET_PINS: Final = """
UPDATE dialogs d SET pinned_order = q.place
FROM unnest($2::smallint[], $3::bigint[], $4::int[]) AS q(peer_type, peer_id, place)
WHERE d.owner_user_id = $1 AND d.peer_type = q.peer_type AND d.peer_id = q.peer_id
    AND d.pinned_order <> q.place
"""


class DialogPinStore:
    """Changes of pins; the lists are read by `DialogStore`."""

    def __init__(self, pool: Pool, events: EventLog, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._clock = clock

    async def toggle(
        self, owner: int, peer: Peer, pinned: bool, *, auth_key_id: int = 0, session_id: int = 0
    ) -> bool:
        """Pins a chat above the others of its folder, or takes the pin off. False when it was so already.

        Raises:
            DialogMissing: there is no such chat.
            TooManyPinned: the folder has as many as it may.

        *Spec: messages.toggleDialogPin*
        """

        async def attempt() -> bool:
            place = await self._place(None, owner, peer)
            pins = await self._pins(None, owner, place)
            if (peer in pins) == pinned:
                return False
            if pinned and len(pins) >= MAX_PINNED[place]:
                raise TooManyPinned

            async def body(connection: Connection, writer: EventWriter) -> bool:
                await connection.execute(SQL_LOCK_SETTINGS, owner)
                there = (await _folders(connection, owner, [peer])).get(peer)
                if there != place or await self._pins(connection, owner, place) != pins:
                    raise PlanMovedError
                rest = [other for other in pins if other != peer]
                await _set_pins(connection, owner, [peer, *rest] if pinned else rest, pins)
                payload = {"pinned": pinned, "folder_id": place}
                writer.add(
                    NewEvent(
                        owner,
                        EventKind.DIALOG_PINNED,
                        int(self._clock.time()),
                        peer,
                        payload=payload,
                        exclude_auth_key_id=auth_key_id,
                        exclude_session_id=session_id,
                    )
                )
                return True

            return await self._events.transact([owner], body)

        return await until_settled(attempt)

    async def reorder(
        self,
        owner: int,
        folder_id: int,
        order: Sequence[Peer],
        *,
        force: bool,
        auth_key_id: int = 0,
        session_id: int = 0,
    ) -> bool:
        """Puts the pinned chats of a folder in this order, the highest first. False when they were in it.

        Chats of the folder that were not pinned are pinned by it; pinned ones that it does not name lose
        their pins when *force*, else they come last.

        Raises:
            DialogMissing: a chat is not in this folder.
            TooManyPinned: more than the folder may have.

        *Spec: messages.reorderPinnedDialogs*
        """
        wanted = list(dict.fromkeys(order))

        async def attempt() -> bool:
            pins = await self._pins(None, owner, folder_id)
            new = wanted if force else [*wanted, *(peer for peer in pins if peer not in wanted)]
            if len(new) > MAX_PINNED[folder_id]:
                raise TooManyPinned
            folders = await _folders(self._pool, owner, wanted)
            if any(folders.get(peer) != folder_id for peer in wanted):
                raise DialogMissing
            if new == pins:
                return False

            async def body(connection: Connection, writer: EventWriter) -> bool:
                await connection.execute(SQL_LOCK_SETTINGS, owner)
                if (
                    await self._pins(connection, owner, folder_id) != pins
                    or await _folders(connection, owner, wanted) != folders
                ):
                    raise PlanMovedError
                await _set_pins(connection, owner, new, pins)
                writer.add(
                    pinned_event(owner, folder_id, new, int(self._clock.time()), auth_key_id, session_id)
                )
                return True

            return await self._events.transact([owner], body)

        return await until_settled(attempt)

    async def _place(self, connection: Connection | None, owner: int, peer: Peer) -> int:
        folder_id = (await _folders(connection or self._pool, owner, [peer])).get(peer)
        if folder_id is None:
            raise DialogMissing
        return folder_id

    async def _pins(self, connection: Connection | None, owner: int, folder_id: int) -> list[Peer]:
        return await read_pins(connection or self._pool, owner, folder_id)


def pinned_event(
    owner: int, folder_id: int, order: Sequence[Peer], date: int, auth_key_id: int, session_id: int
) -> NewEvent:
    """Returns the event that tells the whole order of a folder."""
    return NewEvent(
        owner,
        EventKind.PINNED_DIALOGS,
        date,
        payload={"folder_id": folder_id, "order": [[int(peer.type), peer.id] for peer in order]},
        exclude_auth_key_id=auth_key_id,
        exclude_session_id=session_id,
    )


async def read_pins(reader: Connection | Pool, owner: int, folder_id: int) -> list[Peer]:
    """Returns the pinned chats of a folder, the highest first."""
    rows = await reader.fetch(SQL_PINS, owner, folder_id)
    return [peer_of(row["peer_type"], row["peer_id"]) for row in rows]


async def _folders(reader: Connection | Pool, owner: int, peers: Sequence[Peer]) -> dict[Peer, int]:
    if not peers:
        return {}
    rows = await reader.fetch(SQL_FOLDERS, owner, *_columns(peers))
    return {peer_of(row["peer_type"], row["peer_id"]): row["folder_id"] for row in rows}


async def _set_pins(connection: Connection, owner: int, new: Sequence[Peer], old: Sequence[Peer]) -> None:
    """Writes the places of the new pins and takes off those of the old ones that are not among them."""
    places = dict.fromkeys(old, 0) | {peer: len(new) - place for place, peer in enumerate(new)}
    peers = sorted(places)
    await connection.execute(SQL_SET_PINS, owner, *_columns(peers), [places[peer] for peer in peers])


def _columns(peers: Sequence[Peer]) -> tuple[list[int], list[int]]:
    return [int(peer.type) for peer in peers], [peer.id for peer in peers]
