"""Dialog filters of accounts, their order, and whether chats are tagged with them.

*Spec: Folders*
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from telesrv.clock import Clock
from telesrv.domain.errors import TooManyFilters
from telesrv.domain.filters import (
    MAX_FILTERS,
    DialogFilter,
    DialogFilters,
    filter_from_json,
    filter_to_json,
    ordered,
)
from telesrv.domain.peers import Peer, PeerType, access_hash
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.dialog_settings import SQL_LOCK_SETTINGS, SQL_SETTINGS
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.pool import Connection, Pool, to_json

# Reads the owner's filters.
SQL_FILTERS: Final = """
SELECT filter_id, filter FROM dialog_filters WHERE owner_user_id = $1 ORDER BY filter_id
"""
# Reads one filter.
SQL_FILTER: Final = """
SELECT filter FROM dialog_filters WHERE owner_user_id = $1 AND filter_id = $2
"""
# Keeps a filter.
SQL_SAVE_FILTER: Final = """
INSERT INTO dialog_filters (owner_user_id, filter_id, filter) VALUES ($1, $2, $3::text::jsonb)
ON CONFLICT (owner_user_id, filter_id) DO UPDATE SET filter = excluded.filter
"""
# Deletes a filter.
SQL_DELETE_FILTER: Final = """
DELETE FROM dialog_filters WHERE owner_user_id = $1 AND filter_id = $2
"""
# Sets the order of filters; the settings are locked.
SQL_SET_ORDER: Final = """
UPDATE dialog_settings SET filter_order = $2 WHERE owner_user_id = $1
"""
# Sets whether chats are tagged; the settings are locked.
SQL_SET_TAGS: Final = """
UPDATE dialog_settings SET filter_tags = $2 WHERE owner_user_id = $1
"""


class FilterStore:
    """Dialog filters. Every change locks the owner's settings first, so they follow each other."""

    def __init__(self, pool: Pool, events: EventLog, clock: Clock, secret: bytes) -> None:
        self._pool = pool
        self._events = events
        self._clock = clock
        self._secret = secret

    async def all(self, owner: int) -> DialogFilters:
        """Returns the owner's filters in their order.

        *Spec: messages.getDialogFilters*
        """
        settings = await self._pool.fetchrow(SQL_SETTINGS, owner)
        rows = await self._pool.fetch(SQL_FILTERS, owner)
        filters = {row["filter_id"]: filter_from_json(row["filter"]) for row in rows}
        order = [] if settings is None else settings["filter_order"]
        return DialogFilters(
            filters, ordered(filters, order), settings is not None and settings["filter_tags"]
        )

    async def get(self, owner: int, filter_id: int) -> DialogFilter | None:
        """Returns one filter, None when there is none of this id."""
        stored = await self._pool.fetchval(SQL_FILTER, owner, filter_id)
        return None if stored is None else filter_from_json(stored)

    async def save(self, owner: int, filter_: DialogFilter) -> bool:
        """Keeps a filter, a new one behind the others. False when it was so already.

        Raises:
            TooManyFilters: the owner has as many as there may be.

        *Spec: messages.updateDialogFilter*
        """
        known = await self.all(owner)
        if known.filters.get(filter_.id) == filter_:
            return False
        if filter_.id not in known.filters and len(known.filters) >= MAX_FILTERS:
            raise TooManyFilters
        snapshot = filter_to_json(filter_)
        payload = {"id": filter_.id, "filter": self._shown(owner, snapshot)}

        async def change(connection: Connection, order: list[int], ids: list[int]) -> bool:
            if filter_.id not in ids:
                if len(ids) >= MAX_FILTERS:
                    raise TooManyFilters
                new = [*ordered(ids, order), filter_.id]
                await connection.execute(SQL_SET_ORDER, owner, new)
            await connection.execute(SQL_SAVE_FILTER, owner, filter_.id, to_json(snapshot))
            return True

        return await self._change(owner, EventKind.DIALOG_FILTER, payload, change)

    async def delete(self, owner: int, filter_id: int) -> bool:
        """Deletes a filter. False when there was none of this id."""
        if await self.get(owner, filter_id) is None:
            return False
        payload = {"id": filter_id, "filter": None}

        async def change(connection: Connection, order: list[int], ids: list[int]) -> bool:
            if filter_id not in ids:
                return False
            await connection.execute(SQL_DELETE_FILTER, owner, filter_id)
            ids.remove(filter_id)
            await connection.execute(SQL_SET_ORDER, owner, list(ordered(ids, order)))
            return True

        return await self._change(owner, EventKind.DIALOG_FILTER, payload, change)

    async def reorder(self, owner: int, wanted: Sequence[int]) -> bool:
        """Puts the filters in this order; those it does not name come last. False when they were in it.

        *Spec: messages.updateDialogFiltersOrder*
        """
        known = await self.all(owner)
        new = ordered(known.filters, wanted)
        if new == known.order:
            return False
        payload: dict[str, Any] = {"order": list(new)}

        async def change(connection: Connection, order: list[int], ids: list[int]) -> bool:
            payload["order"] = list(ordered(ids, wanted))
            if tuple(payload["order"]) == ordered(ids, order):
                return False
            await connection.execute(SQL_SET_ORDER, owner, payload["order"])
            return True

        return await self._change(owner, EventKind.DIALOG_FILTER_ORDER, payload, change)

    async def toggle_tags(self, owner: int, enabled: bool) -> bool:
        """Sets whether chats are tagged with their filters. False when it was so already.

        *Spec: messages.toggleDialogFilterTags*
        """
        if (await self.all(owner)).tags == enabled:
            return False

        async def change(connection: Connection, order: list[int], ids: list[int]) -> bool:
            await connection.execute(SQL_SET_TAGS, owner, enabled)
            return True

        payload = {"tags_enabled": enabled}
        return await self._change(owner, EventKind.DIALOG_FILTERS, payload, change)

    async def _change(
        self,
        owner: int,
        kind: EventKind,
        payload: dict[str, Any],
        change: Any,
    ) -> bool:
        """Runs *change* under the lock with the order and the ids that stand there, and tells of it."""

        async def body(connection: Connection, writer: EventWriter) -> bool:
            settings = await connection.fetchrow(SQL_LOCK_SETTINGS, owner)
            ids = [row["filter_id"] for row in await connection.fetch(SQL_FILTERS, owner)]
            if not await change(connection, settings["filter_order"], ids):
                return False
            writer.add(NewEvent(owner, kind, int(self._clock.time()), payload=payload))
            return True

        return await self._events.transact([owner], body)

    def _shown(self, owner: int, snapshot: dict[str, Any]) -> dict[str, Any]:
        """Returns the snapshot as it stands in an event: with access hashes, as clients name peers."""

        def named(stored: list[list[int]]) -> list[list[int]]:
            return [
                [*pair, access_hash(self._secret, owner, Peer(PeerType(pair[0]), pair[1]))] for pair in stored
            ]

        peers = ("pinned", "included", "excluded")
        return {name: named(value) if name in peers else value for name, value in snapshot.items()}
