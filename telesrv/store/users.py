"""What one account may see of others, read in one batch.

*Spec: Peers; Privacy*
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from telesrv.domain.users import Contact, Presence, User, UserView
from telesrv.store.boxes import entities_from_json
from telesrv.store.pool import Pool
from telesrv.store.presence import PresenceStore

# Reads some accounts, deleted ones included.
SQL_USERS: Final = """
SELECT user_id, phone, first_name, last_name, username, about, created_at, last_seen_at, deleted
FROM users WHERE user_id = ANY($1::bigint[])
"""
# Reads one account.
SQL_USER: Final = """
SELECT user_id, phone, first_name, last_name, username, about, created_at, last_seen_at, deleted
FROM users WHERE user_id = $1
"""
# Reads what the viewer knows of some accounts.
SQL_KNOWN: Final = """
SELECT owner_user_id, contact_user_id, listed, listed_by, first_name, last_name, phone, phone_shared,
    phone_shared_by, bar_hidden, note, note_entities
FROM contacts WHERE owner_user_id = $1 AND contact_user_id = ANY($2::bigint[])
"""
# Reads what some accounts know of others.
SQL_KNOWN_PAIRS: Final = """
SELECT c.owner_user_id, c.contact_user_id, c.listed, c.listed_by, c.first_name, c.last_name, c.phone,
    c.phone_shared, c.phone_shared_by, c.bar_hidden, c.note, c.note_entities
FROM unnest($1::bigint[], $2::bigint[]) AS q(owner_user_id, contact_user_id)
JOIN contacts c ON c.owner_user_id = q.owner_user_id AND c.contact_user_id = q.contact_user_id
"""
# Which of some pairs of accounts are blocks, of the second by the first.
SQL_BLOCKED_PAIRS: Final = """
SELECT c.owner_user_id, c.peer_id
FROM unnest($1::bigint[], $2::bigint[]) AS q(owner_user_id, peer_id)
JOIN contact_blocks c ON c.owner_user_id = q.owner_user_id AND c.peer_type = 1 AND c.peer_id = q.peer_id
"""


class UserStore:
    """Reads of accounts; `AccountStore` writes them."""

    def __init__(self, pool: Pool, presence: PresenceStore) -> None:
        self._pool = pool
        self._presence = presence

    async def get(self, user_id: int) -> User | None:
        """Returns the account as stored, deleted or not; None when there never was one."""
        row = await self._pool.fetchrow(SQL_USER, user_id)
        return None if row is None else user_from_row(row)

    async def views(self, viewer_user_id: int, user_ids: Collection[int]) -> dict[int, UserView]:
        """Returns what the viewer sees of each account that exists, in a fixed number of statements.

        A phone number is seen by its owner, by whom the owner shares it with, and by whoever has it in the
        address book; when somebody is online is not shown to those whom they blocked.
        """
        return (await self.views_many({viewer_user_id: user_ids}))[viewer_user_id]

    async def views_many(self, wanted: Mapping[int, Collection[int]]) -> dict[int, dict[int, UserView]]:
        """Returns for each viewer of *wanted* the views of those accounts, as `views`, in the same number of
        statements for all of them together.
        """
        ids = list({user_id for user_ids in wanted.values() for user_id in user_ids})
        if not ids:
            return {viewer: {} for viewer in wanted}
        pairs = sorted(
            {
                (viewer, user_id)
                for viewer, user_ids in wanted.items()
                for user_id in user_ids
                if user_id != viewer
            }
        )
        users = {row["user_id"]: user_from_row(row) for row in await self._pool.fetch(SQL_USERS, ids)}
        known = await self._known(pairs)
        blocks = await self._blocks(pairs)
        presence = await self._presence.known(ids)
        views: dict[int, dict[int, UserView]] = {}
        for viewer, user_ids in wanted.items():
            mine = views[viewer] = {}
            for user_id in dict.fromkeys(user_ids):
                user = users.get(user_id)
                if user is None:
                    continue
                row = known.get((viewer, user_id))
                contact = contact_from_row(row) if row is not None and row["listed"] else None
                seen = presence.get(user_id, Presence(last_seen_at=user.last_seen_at))
                mine[user_id] = UserView(
                    user=user,
                    viewer_user_id=viewer,
                    contact=contact,
                    presence=Presence() if (user_id, viewer) in blocks else seen,
                    phone_visible=bool(user.phone)
                    and (
                        user_id == viewer
                        or (row is not None and row["phone_shared_by"])
                        or (contact is not None and contact.phone == user.phone)
                    ),
                    blocked=(viewer, user_id) in blocks,
                    phone_shared=row is not None and row["phone_shared"],
                    bar_hidden=row is not None and row["bar_hidden"],
                )
        return views

    async def _known(self, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Any]:
        """The rows of `contacts` by owner and other side."""
        if not pairs:
            return {}
        rows = await self._pool.fetch(SQL_KNOWN_PAIRS, *map(list, zip(*pairs, strict=True)))
        return {(row["owner_user_id"], row["contact_user_id"]): row for row in rows}

    async def _blocks(self, pairs: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        """Who blocked whom of *pairs*, either way."""
        if not pairs:
            return set()
        both = sorted({*pairs, *((other, one) for one, other in pairs)})
        rows = await self._pool.fetch(SQL_BLOCKED_PAIRS, *map(list, zip(*both, strict=True)))
        return {(row["owner_user_id"], row["peer_id"]) for row in rows}


def user_from_row(row: Any) -> User:
    """Returns the account of a row of `users`."""
    return User(
        user_id=row["user_id"],
        phone=row["phone"],
        first_name=row["first_name"],
        last_name=row["last_name"],
        username=row["username"],
        about=row["about"],
        created_at=row["created_at"],
        last_seen_at=row["last_seen_at"],
        deleted=row["deleted"],
    )


def contact_from_row(row: Any) -> Contact:
    """Returns the entry of a row of `contacts` whose owner has listed the other side."""
    return Contact(
        owner_user_id=row["owner_user_id"],
        contact_user_id=row["contact_user_id"],
        first_name=row["first_name"],
        last_name=row["last_name"],
        phone=row["phone"],
        mutual=row["listed_by"],
        note=row["note"],
        note_entities=entities_from_json(row["note_entities"]),
    )
