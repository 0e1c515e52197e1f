"""Pinned chats and their order, one order for each folder.

Guarantees: pins of an owner change one after the other, under the lock of the settings; the order of an event
is the order that stood when it was committed. Chats are deleted without that lock, so that what is arranged
is locked besides.

*Spec: messages.toggleDialogPin; messages.reorderPinnedDialogs*
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from telesrv.clock import Clock
from telesrv.domain.dialogs import MAX_PINNED
from telesrv.domain.errors import DialogMissing, TooManyPinned
from telesrv.domain.origin import NOBODY, Origin
from telesrv.domain.peers import Peer
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.boxes import peer_of
from telesrv.store.dialog_settings import SQL_LOCK_SETTINGS
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.plans import PlanMovedError, until_settled
from telesrv.store.pool import Connection, Pool, Record

# Reads where the pinned chats of an owner stand, and some others.
SQL_PLACES: Final = """
SELECT d.peer_type, d.peer_id, d.folder_id, d.pinned_order FROM dialogs d
WHERE d.owner_user_id = $1 AND (d.peer_type, d.peer_id) IN (
    SELECT p.peer_type, p.peer_id FROM dialogs p WHERE p.owner_user_id = $1 AND p.pinned_order > 0
    UNION ALL
    SELECT q.peer_type, q.peer_id FROM unnest($2::smallint[], $3::bigint[]) AS q(peer_type, peer_id))
ORDER BY d.peer_type, d.peer_id
"""
# Reads the same and locks it; the settings are locked.
SQL_LOCK_PLACES: Final = f"{SQL_PLACES}FOR UPDATE OF d"
# Gives chats their places among the pinned ones; 0 is not pinned.
SQL_SET_PINS: Final = """
UPDATE dialogs d SET pinned_order = q.place
FROM unnest($2::smallint[], $3::bigint[], $4::int[]) AS q(peer_type, peer_id, place)
WHERE d.owner_user_id = $1 AND d.peer_type = q.peer_type AND d.peer_id = q.peer_id
    AND d.pinned_order <> q.place
"""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the pinned chats of an owner stand, and some others: folder_id and pinned_order of each."""

    of: Mapping[Peer, tuple[int, int]]

    def folder(self, peer: Peer) -> int | None:
        """Returns the folder of one of the chats; None when there is no such chat."""
        return self.of[peer][0] if peer in self.of else None

    def pins(self, folder_id: int) -> list[Peer]:
        """Returns the pinned chats of a folder, the highest first."""
        pinned = [
            (-place, peer) for peer, (folder, place) in self.of.items() if folder == folder_id and place
        ]
        return [peer for _, peer in sorted(pinned)]


class DialogPinStore:
    """Changes of pins; the lists are read by `DialogStore`."""

    def __init__(self, pool: Pool, events: EventLog, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._clock = clock

    async def toggle(self, owner: int, peer: Peer, pinned: bool) -> bool:
        """Pins a chat above the others of its folder, or takes the pin off. False when it was so already.

        Raises:
            DialogMissing: there is no such chat.
            TooManyPinned: the folder has as many as it may.

        *Spec: messages.toggleDialogPin*
        """

        async def attempt() -> bool:
            seen = await read_places(self._pool, owner, [peer])
            place = seen.folder(peer)
            if place is None:
                raise DialogMissing
            pins = seen.pins(place)
            if (peer in pins) == pinned:
                return False
            if pinned and len(pins) >= MAX_PINNED[place]:
                raise TooManyPinned

            async def body(connection: Connection, writer: EventWriter) -> bool:
                await lock_places(connection, owner, [peer], seen)
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
                    )
                )
                return True

            return await self._events.transact([owner], body)

        return await until_settled(attempt, "a list of chats")

    async def reorder(
        self,
        owner: int,
        folder_id: int,
        order: Sequence[Peer],
        *,
        force: bool,
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
            seen = await read_places(self._pool, owner, wanted)
            pins = seen.pins(folder_id)
            new = wanted if force else [*wanted, *(peer for peer in pins if peer not in wanted)]
            if len(new) > MAX_PINNED[folder_id]:
                raise TooManyPinned
            if any(seen.folder(peer) != folder_id for peer in wanted):
                raise DialogMissing
            if new == pins:
                return False

            async def body(connection: Connection, writer: EventWriter) -> bool:
                await lock_places(connection, owner, wanted, seen)
                await _set_pins(connection, owner, new, pins)
                writer.add(pinned_event(owner, folder_id, new, int(self._clock.time())))
                return True

            return await self._events.transact([owner], body)

        return await until_settled(attempt, "a list of chats")


def pinned_event(
    owner: int, folder_id: int, order: Sequence[Peer], date: int, origin: Origin = NOBODY
) -> NewEvent:
    """Returns the event that tells the whole order of a folder."""
    return NewEvent(
        owner,
        EventKind.PINNED_DIALOGS,
        date,
        payload={"folder_id": folder_id, "order": [[int(peer.type), peer.id] for peer in order]},
        origin=origin,
    )


async def read_places(reader: Connection | Pool, owner: int, peers: Sequence[Peer]) -> Places:
    """Returns where the pinned chats of an owner stand, and *peers*."""
    return _places(await reader.fetch(SQL_PLACES, owner, *_columns(peers)))


async def lock_places(connection: Connection, owner: int, peers: Sequence[Peer], seen: Places) -> None:
    """Locks the owner's settings, the pinned chats and *peers*, in the order of their keys.

    Raises:
        PlanMovedError: they do not stand as they were *seen*.
    """
    await connection.execute(SQL_LOCK_SETTINGS, owner)
    if _places(await connection.fetch(SQL_LOCK_PLACES, owner, *_columns(peers))) != seen:
        raise PlanMovedError


def _places(rows: Sequence[Record]) -> Places:
    return Places(
        {peer_of(row["peer_type"], row["peer_id"]): (row["folder_id"], row["pinned_order"]) for row in rows}
    )


async def _set_pins(connection: Connection, owner: int, new: Sequence[Peer], old: Sequence[Peer]) -> None:
    """Writes the places of the new pins and takes off those of the old ones that are not among them."""
    places = dict.fromkeys(old, 0) | {peer: len(new) - place for place, peer in enumerate(new)}
    peers = sorted(places)
    await connection.execute(SQL_SET_PINS, owner, *_columns(peers), [places[peer] for peer in peers])


def _columns(peers: Sequence[Peer]) -> tuple[list[int], list[int]]:
    return [int(peer.type) for peer in peers], [peer.id for peer in peers]
