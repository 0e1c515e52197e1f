"""The bar above a chat, which offers to add, block, or share one's number: the owner's view.

Guarantees: what it offers follows from the owner's rows of `contacts` and blocks and from the owner's privacy
rules; a change that the owner's devices must hear of is in the log in the same transaction, with a snapshot.

*Spec: Action bar*
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from telesrv.clock import Clock
from telesrv.domain.contacts import action_bar
from telesrv.domain.peers import SERVICE_USER_ID, Peer, PeerType
from telesrv.domain.privacy import Rules, allows
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.pool import Connection, Pool
from telesrv.store.users import SQL_KNOWN, SQL_NEWEST_PEERS, UserStore

Bars: TypeAlias = dict[int, dict[str, bool]]
"""By the account that the chat is with: what the bar offers."""

MAX_BARS: Final = 100
"""Of how many of the newest chats a change of privacy rules tells the bars: clients ask for the bar of a chat
that they open."""

# Closes or opens the action bars of some chats, or only locks what the owner knows of the other sides.
SQL_HIDE_BARS: Final = """
INSERT INTO contacts (owner_user_id, contact_user_id, bar_hidden)
SELECT owner_user_id, contact_user_id, hidden
FROM unnest($1::bigint[], $2::bigint[], $3::boolean[]) AS bar(owner_user_id, contact_user_id, hidden)
ORDER BY owner_user_id, contact_user_id
ON CONFLICT (owner_user_id, contact_user_id) DO UPDATE SET
    bar_hidden = contacts.bar_hidden OR EXCLUDED.bar_hidden
RETURNING contact_user_id, listed, phone_shared, bar_hidden
"""
# Which of some peers the owner has blocked.
SQL_BLOCKED_USERS: Final = """
SELECT peer_id FROM contact_blocks
WHERE owner_user_id = $1 AND peer_type = $2 AND peer_id = ANY($3::bigint[])
"""


class ActionBarStore:
    """Closes action bars, and knows those that privacy rules change."""

    def __init__(self, pool: Pool, events: EventLog, users: UserStore, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._users = users
        self._clock = clock

    async def newest(self, owner_user_id: int) -> list[int]:
        """Returns whom the owner's newest chats with an action bar are with."""
        rows = await self._pool.fetch(SQL_NEWEST_PEERS, owner_user_id, MAX_BARS)
        peers = [row["peer_id"] for row in rows]
        existing = await self._users.existing(peers) - {owner_user_id, SERVICE_USER_ID}
        return sorted(existing.intersection(peers))

    async def look(self, owner_user_id: int, user_ids: Sequence[int], before: Rules, after: Rules) -> Bars:
        """Returns the bars of these chats that are others when the owner's rules for the phone number change.

        What is decided by it is to be looked at again under `lock`.
        """
        rows = await self._pool.fetch(SQL_KNOWN, owner_user_id, user_ids)
        blocked = await self._pool.fetch(SQL_BLOCKED_USERS, owner_user_id, PeerType.USER, user_ids)
        return _changed(rows, blocked, user_ids, before, after)

    async def lock(
        self, conn: Connection, owner_user_id: int, user_ids: Sequence[int], before: Rules, after: Rules
    ) -> Bars:
        """As `look`, with what the owner knows of these accounts locked until the transaction ends."""
        owners = [owner_user_id] * len(user_ids)
        rows = await conn.fetch(SQL_HIDE_BARS, owners, user_ids, [False] * len(user_ids))
        blocked = await conn.fetch(SQL_BLOCKED_USERS, owner_user_id, PeerType.USER, user_ids)
        return _changed(rows, blocked, user_ids, before, after)

    async def hide(self, owner_user_id: int, user_id: int) -> bool:
        """Closes the action bar of a chat, on all devices of the owner. False when it was closed already."""
        rows = await self._pool.fetch(SQL_KNOWN, owner_user_id, [user_id])
        if rows and rows[0]["bar_hidden"]:
            return False

        async def body(conn: Connection, writer: EventWriter) -> bool:
            [row] = await conn.fetch(SQL_HIDE_BARS, [owner_user_id], [user_id], [True])
            writer.add(
                NewEvent(
                    owner_user_id,
                    EventKind.PEER_SETTINGS,
                    int(self._clock.time()),
                    Peer.user(user_id),
                    payload=action_bar(
                        listed=row["listed"], phone_shared=row["phone_shared"], blocked=False, hidden=True
                    ),
                )
            )
            return True

        return await self._events.transact([owner_user_id], body)


def shows_phone(row: Any, rules: Rules) -> bool:
    """Tells whether the owner of the row of `contacts` shows the other side the phone number."""
    shared: bool = row["phone_shared"]
    return shared or allows(rules, row["contact_user_id"], contact=row["listed"])


def depends_on_block(row: Any, rules: Rules) -> bool:
    """Tells whether the action bar of a chat is another one when the other side is blocked."""
    if row is None:
        return True
    return not row["bar_hidden"] and not (row["listed"] and shows_phone(row, rules))


def _changed(
    rows: Sequence[Any], blocked: Sequence[Any], user_ids: Sequence[int], before: Rules, after: Rules
) -> Bars:
    """Returns the bars that are others under other rules for the phone number.

    Args:
        rows: what the owner's rows of `contacts` know of the accounts; some may have none.
        blocked: rows of those that the owner has blocked.
    """
    known = {row["contact_user_id"]: row for row in rows}
    blocked_ids = {row["peer_id"] for row in blocked}

    def bar(user_id: int, rules: Rules) -> tuple[dict[str, bool], bool]:
        row = known.get(user_id)
        listed = row is not None and row["listed"]
        shared = row is not None and row["phone_shared"]
        shown = action_bar(
            listed=listed,
            phone_shared=shared or allows(rules, user_id, contact=listed),
            blocked=user_id in blocked_ids,
            hidden=row is not None and row["bar_hidden"],
        )
        # Adding the other side to the address book would not show it the number: the bar says so.
        return shown, shown["add_contact"] and not shared and not allows(rules, user_id, contact=True)

    changed = [user_id for user_id in user_ids if bar(user_id, before) != bar(user_id, after)]
    return {user_id: bar(user_id, after)[0] for user_id in changed}
