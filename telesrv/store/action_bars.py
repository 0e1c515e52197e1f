"""The bar above a chat, which offers to add, block, or share one's number: the owner's view.

Guarantees: what it offers follows from the owner's rows of `contacts` and blocks and from the owner's privacy
rules; a change that the owner's devices must hear of is in the log in the same transaction, with a snapshot.

*Spec: Action bar*
"""

from __future__ import annotations

from typing import Any, Final

from telesrv.clock import Clock
from telesrv.domain.contacts import action_bar
from telesrv.domain.peers import Peer
from telesrv.domain.privacy import Rules, allows
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.pool import Connection, Pool
from telesrv.store.users import SQL_KNOWN

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


class ActionBarStore:
    """Closes action bars."""

    def __init__(self, pool: Pool, events: EventLog, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._clock = clock

    async def hide(
        self, owner_user_id: int, user_id: int, *, auth_key_id: int = 0, session_id: int = 0
    ) -> bool:
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
                    exclude_auth_key_id=auth_key_id,
                    exclude_session_id=session_id,
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
