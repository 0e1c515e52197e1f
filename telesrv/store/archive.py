"""Which archived chats a new message brings back to the main list.

A chat stays in the archive when it is muted, when its owner keeps archived chats there whatever comes, or
keeps those that a filter names. That is looked up for messages to archived chats only.

*Spec: Folders (Peer folders); globalPrivacySettings*
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from telesrv.domain.filters import filter_from_json
from telesrv.domain.notify import settings_from_json
from telesrv.domain.peers import PeerType
from telesrv.domain.privacy import AccountFlags
from telesrv.store.pool import Pool

Chat: TypeAlias = tuple[int, int]
"""The owner, and the account that the chat is with."""

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


class ArchiveStore:
    """Decides which archived chats come back."""

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
