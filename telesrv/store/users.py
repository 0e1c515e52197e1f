"""What one account may see of others, read in one batch.

*Spec: Peers; Privacy*
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from telesrv.domain.peers import PeerType
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
# Which of some accounts the viewer has blocked.
SQL_BLOCKED: Final = """
SELECT peer_id FROM contact_blocks
WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = ANY($3::bigint[])
"""
# Which of some accounts have blocked the viewer.
SQL_BLOCKED_BY: Final = """
SELECT owner_user_id FROM contact_blocks
WHERE owner_user_id = ANY($1::bigint[]) AND peer_type = $2 AND peer_id = $3
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
        ids = list(dict.fromkeys(user_ids))
        if not ids:
            return {}
        others = [user_id for user_id in ids if user_id != viewer_user_id]
        users = [user_from_row(row) for row in await self._pool.fetch(SQL_USERS, ids)]
        known = await self._known(viewer_user_id, others)
        blocked, blocked_by = await self._blocks(viewer_user_id, others)
        presence = await self._presence.known(ids)
        views = {}
        for user in users:
            user_id = user.user_id
            row = known.get(user_id)
            contact = contact_from_row(row) if row is not None and row["listed"] else None
            seen = presence.get(user_id, Presence(last_seen_at=user.last_seen_at))
            views[user_id] = UserView(
                user=user,
                viewer_user_id=viewer_user_id,
                contact=contact,
                presence=Presence() if user_id in blocked_by else seen,
                phone_visible=bool(user.phone)
                and (
                    user_id == viewer_user_id
                    or (row is not None and row["phone_shared_by"])
                    or (contact is not None and contact.phone == user.phone)
                ),
                blocked=user_id in blocked,
                phone_shared=row is not None and row["phone_shared"],
                bar_hidden=row is not None and row["bar_hidden"],
            )
        return views

    async def _known(self, viewer_user_id: int, others: list[int]) -> dict[int, Any]:
        """The viewer's rows of `contacts` by the other side."""
        if not others:
            return {}
        rows = await self._pool.fetch(SQL_KNOWN, viewer_user_id, others)
        return {row["contact_user_id"]: row for row in rows}

    async def _blocks(self, viewer_user_id: int, others: list[int]) -> tuple[set[int], set[int]]:
        """Whom the viewer blocked, and who blocked the viewer."""
        if not others:
            return set(), set()
        blocked = await self._pool.fetch(SQL_BLOCKED, viewer_user_id, PeerType.USER, others)
        blocked_by = await self._pool.fetch(SQL_BLOCKED_BY, others, PeerType.USER, viewer_user_id)
        return {row["peer_id"] for row in blocked}, {row["owner_user_id"] for row in blocked_by}


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
