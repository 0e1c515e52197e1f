"""Which archived chats a new message brings back to the main list, and which new ones go to the archive.

A chat stays in the archive when it is muted, when its owner keeps archived chats there whatever comes, or
keeps those that a filter names. That is looked up for messages to archived chats only. A new chat goes there,
muted, when its owner wants that of chats that others begin who are not in the address book. That is looked up
for messages to owners with that switch only.

*Spec: Folders (Peer folders); globalPrivacySettings*
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from telesrv.domain.dialogs import ARCHIVE, MAIN
from telesrv.domain.filters import filter_from_json
from telesrv.domain.notify import FOR_EVER, NotifyScope, NotifySettings, settings_from_json, settings_to_json
from telesrv.domain.peers import Peer, PeerType
from telesrv.domain.privacy import AccountFlags
from telesrv.domain.updates import Event, EventKind
from telesrv.store.pool import Connection, Pool, to_json

Chat: TypeAlias = tuple[int, int]
"""The owner, and the account that the chat is with."""
Payload: TypeAlias = dict[str, Any]

# Reads how the owners of some private chats want to be notified of them, and of private chats in general.
SQL_MUTES: Final = """
SELECT n.owner_user_id, n.scope, n.peer_id, n.settings
FROM unnest($1::bigint[], $2::bigint[]) AS q(owner, peer_id)
JOIN notify_settings n ON n.owner_user_id = q.owner
    AND ((n.scope = 1 AND n.peer_type = 1 AND n.peer_id = q.peer_id)
        OR (n.scope = 2 AND n.peer_type = 0 AND n.peer_id = 0))
"""
# Reads the filters of some owners.
SQL_FILTERS: Final = """
SELECT owner_user_id, filter FROM dialog_filters WHERE owner_user_id = ANY($1::bigint[])
"""
# Brings private chats back from the archive, without their pins; those that were not in it are missing.
SQL_BRING_BACK: Final = """
UPDATE dialogs d SET folder_id = 0, pinned_order = 0
FROM unnest($1::bigint[], $2::bigint[]) AS q(owner, peer_id)
WHERE d.owner_user_id = q.owner AND d.peer_type = 1 AND d.peer_id = q.peer_id AND d.folder_id = 1
RETURNING d.owner_user_id, d.peer_id
"""
# Which of some private chats would be new to owners who want such ones in the archive.
SQL_ARRIVING: Final = """
SELECT q.owner, q.peer_id FROM unnest($1::bigint[], $2::bigint[]) AS q(owner, peer_id)
JOIN users u ON u.user_id = q.owner AND u.flags & 8 = 8
LEFT JOIN dialogs d ON d.owner_user_id = q.owner AND d.peer_type = 1 AND d.peer_id = q.peer_id
LEFT JOIN contacts c ON c.owner_user_id = q.owner AND c.contact_user_id = q.peer_id AND c.listed
WHERE d.owner_user_id IS NULL AND c.owner_user_id IS NULL
"""
# Moves private chats to the archive that have no more messages than were written now, and whose other side is
# no contact by now; others are missing.
SQL_PUT_AWAY: Final = """
UPDATE dialogs d SET folder_id = 1
FROM unnest($1::bigint[], $2::bigint[], $3::int[]) AS q(owner, peer_id, messages)
WHERE d.owner_user_id = q.owner AND d.peer_type = 1 AND d.peer_id = q.peer_id AND d.folder_id = 0
    AND d.message_count = q.messages AND NOT EXISTS (
        SELECT 1 FROM contacts c
        WHERE c.owner_user_id = q.owner AND c.contact_user_id = q.peer_id AND c.listed)
RETURNING d.owner_user_id, d.peer_id
"""
# Mutes private chats; answers with the settings that they have then.
SQL_MUTE: Final = """
INSERT INTO notify_settings AS n (owner_user_id, scope, peer_type, peer_id, settings)
SELECT owner, 1, 1, peer_id, $3::text::jsonb FROM unnest($1::bigint[], $2::bigint[]) AS q(owner, peer_id)
ORDER BY owner, peer_id
ON CONFLICT (owner_user_id, scope, peer_type, peer_id) DO UPDATE
SET settings = n.settings || excluded.settings
RETURNING owner_user_id, peer_id, settings
"""


@dataclass(frozen=True, slots=True)
class Return:
    """A chat that comes back from the archive, and the pts that says so."""

    owner: int
    peer_id: int
    pts: int
    date: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """A new chat that goes to the archive, and the pts that say so: of the mute, and of the move.

    The mute stands before the message, so that a client knows it when the message comes.
    """

    owner: int
    peer_id: int
    mute_pts: int
    pts: int
    date: int
    messages: int
    """How many messages of it are written at once: a chat that has more is not new."""


class ArchiveStore:
    """Decides which chats come back, and which new ones are put away."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def leaving(self, archived: Mapping[Chat, AccountFlags], now: int) -> frozenset[Chat]:
        """Returns those of some archived chats that a message of now brings back.

        Args:
            archived: the switches of each chat's owner.
        """
        chats = {chat for chat, flags in archived.items() if AccountFlags.KEEP_ARCHIVED_UNMUTED not in flags}
        if chats:
            chats -= await self._muted(sorted(chats), now)
        by_filter = {chat[0] for chat in chats if AccountFlags.KEEP_ARCHIVED_FOLDERS in archived[chat]}
        if by_filter:
            chats -= await self._named(by_filter)
        return frozenset(chats)

    async def arriving(self, chats: Collection[Chat]) -> frozenset[Chat]:
        """Returns those of some chats that go to the archive when a message begins them now."""
        if not chats:
            return frozenset()
        rows = await self._pool.fetch(SQL_ARRIVING, *map(list, zip(*sorted(chats), strict=True)))
        return frozenset((row["owner"], row["peer_id"]) for row in rows)

    async def _muted(self, chats: list[Chat], now: int) -> set[Chat]:
        rows = await self._pool.fetch(SQL_MUTES, *map(list, zip(*chats, strict=True)))
        until = {
            (row["owner_user_id"], row["peer_id"]): settings_from_json(row["settings"]).mute_until
            for row in rows
        }
        found = set()
        for owner, peer_id in chats:
            own = until.get((owner, peer_id))
            mute_until = until.get((owner, 0)) if own is None else own
            if (mute_until or 0) > now:
                found.add((owner, peer_id))
        return found

    async def _named(self, owners: set[int]) -> set[Chat]:
        """Returns the chats that filters of these owners name."""
        return {
            (row["owner_user_id"], peer.id)
            for row in await self._pool.fetch(SQL_FILTERS, sorted(owners))
            for peer in filter_from_json(row["filter"]).named
            if peer.type is PeerType.USER
        }


async def bring_back(connection: Connection, returns: Sequence[Return]) -> list[Event]:
    """Moves chats to the main list in the caller's transaction, in which their dialogs are locked.

    Returns:
        What tells of it; a noop stands for a chat that was moved meanwhile.
    """
    if not returns:
        return []
    owners, peers = [one.owner for one in returns], [one.peer_id for one in returns]
    moved = {tuple(row) for row in await connection.fetch(SQL_BRING_BACK, owners, peers)}
    return [
        Event(one.owner, one.pts, 1, EventKind.FOLDER_PEERS, one.date, payload=move_of(one.peer_id, MAIN))
        if (one.owner, one.peer_id) in moved
        else Event(one.owner, one.pts, 1, EventKind.NOOP, one.date)
        for one in returns
    ]


async def receive(connection: Connection, arrivals: Sequence[Arrival]) -> list[Event]:
    """Puts new chats away in the caller's transaction, in which their dialogs are locked.

    Returns:
        What tells of it; noops stand for a chat that was not new after all.
    """
    if not arrivals:
        return []
    muted = await put_away(connection, {(one.owner, one.peer_id): one.messages for one in arrivals})
    events: list[Event] = []
    for one in arrivals:
        payload = muted.get((one.owner, one.peer_id))
        if payload is None:
            events += [Event(one.owner, pts, 1, EventKind.NOOP, one.date) for pts in (one.mute_pts, one.pts)]
            continue
        peer, moved = Peer.user(one.peer_id), move_of(one.peer_id, ARCHIVE)
        events += [
            Event(one.owner, one.mute_pts, 1, EventKind.NOTIFY_SETTINGS, one.date, peer, payload=payload),
            Event(one.owner, one.pts, 1, EventKind.FOLDER_PEERS, one.date, payload=moved),
        ]
    return events


async def put_away(connection: Connection, messages: Mapping[Chat, int]) -> dict[Chat, Payload]:
    """Archives and mutes new chats in the caller's transaction.

    Args:
        messages: how many messages of each chat the transaction has written: one with more is not new.
    Returns:
        Of each chat that was put away, what an event tells of its settings.
    """
    if not messages:
        return {}
    chats = sorted(messages)
    owners, peers = [chat[0] for chat in chats], [chat[1] for chat in chats]
    rows = await connection.fetch(SQL_PUT_AWAY, owners, peers, [messages[chat] for chat in chats])
    if not rows:
        return {}
    moved = sorted((row["owner_user_id"], row["peer_id"]) for row in rows)
    mute = to_json(settings_to_json(NotifySettings(mute_until=FOR_EVER)))
    rows = await connection.fetch(SQL_MUTE, *map(list, zip(*moved, strict=True)), mute)
    return {
        (row["owner_user_id"], row["peer_id"]): {
            "scope": int(NotifyScope.PEER),
            "settings": row["settings"],
        }
        for row in rows
    }


def move_of(peer_id: int, folder_id: int) -> Payload:
    """Returns what an event tells of a private chat that is in a folder now."""
    return {"peers": [[int(PeerType.USER), peer_id, folder_id]]}
