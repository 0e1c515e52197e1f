"""From claimed outbox rows to the updates that the account's sessions get.

Guarantees: one push a row, in the order of the rows; every push is complete, with all users that it shows,
and moves a client's pts by exactly what its event covers. It writes nothing. The store is read once for a
batch of one account, however many rows and users there are.

*Spec: Working with Updates*
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from telesrv.domain.updates import Event, OutboxItem
from telesrv.rpc.convert.updates import UNORDERED, event_user_ids, pushed_updates
from telesrv.rpc.convert.users import user_to_tl
from telesrv.tl import types

if TYPE_CHECKING:
    from telesrv.domain.users import UserView
    from telesrv.store import Store


@dataclass(frozen=True, slots=True)
class Push:
    """What the sessions of one account are owed, but for the one that caused it."""

    pts: int
    exclude_auth_key_id: int
    exclude_session_id: int
    """The session of that key and id gets nothing; both 0: every session gets it."""
    update: types.Updates
    """Written by the gateway, once for each layer among the sessions."""


class PushBuilder:
    """Builds pushes; one serves all workers of a process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def build(self, user_id: int, items: Sequence[OutboxItem]) -> list[Push]:
        """Returns one push for each item, in order.

        Args:
            user_id: the account that all items are for; names and access hashes are as it sees them.
            items: claimed rows, each with its event and, for a new message that still exists, its box.

        Raises:
            Unavailable: the store did not answer; the rows stay claimed until their lease ends.

        *Spec: Working with Updates*
        """
        built = (await self.build_many({user_id: items}))[user_id]
        if isinstance(built, Exception):
            raise built
        return built

    async def build_many(self, owed: Mapping[int, Sequence[OutboxItem]]) -> dict[int, list[Push] | Exception]:
        """Returns for each account of *owed* one push for each item, in order, or why they cannot be made.

        The store is read once for all accounts, in a fixed number of statements.

        Raises:
            Unavailable: as `build`.

        *Spec: Working with Updates*
        """
        built: dict[int, list[Push] | Exception] = {}
        shown: dict[int, list[set[int]]] = {}
        for user_id, items in owed.items():
            try:
                shown[user_id] = [set(event_user_ids(item.event, item.box)) for item in items]
            except Exception as error:
                built[user_id] = error
        told: list[Event] = [item.event for user_id in shown for item in owed[user_id]]
        counted = await self._store.unread.counted(told)
        views = await self._store.users.views_many(
            {user_id: set[int]().union(*sets) for user_id, sets in shown.items()}
        )
        for user_id, sets in shown.items():
            try:
                built[user_id] = self._pushes(owed[user_id], sets, views[user_id], counted)
            except Exception as error:
                built[user_id] = error
        return built

    def _pushes(
        self,
        items: Sequence[OutboxItem],
        shown: Sequence[set[int]],
        views: Mapping[int, UserView],
        counted: Mapping[tuple[int, int], Event],
    ) -> list[Push]:
        users = {shown_id: user_to_tl(view, self._store.secret) for shown_id, view in views.items()}
        return [
            Push(
                pts=item.event.pts,
                exclude_auth_key_id=item.row.exclude_auth_key_id,
                exclude_session_id=item.row.exclude_session_id,
                update=types.Updates(
                    updates=pushed_updates(
                        counted.get((item.event.user_id, item.event.pts), item.event), item.box, views
                    ),
                    users=[users[shown_id] for shown_id in sorted(ids) if shown_id in users],
                    chats=[],
                    date=item.event.date,
                    seq=UNORDERED,
                ),
            )
            for item, ids in zip(items, shown, strict=True)
        ]
