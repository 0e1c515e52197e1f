"""Telling those who have a phone number in their address book that it has signed up.

Guarantees: a sign-up notes in its own transaction that they are to be told; whichever process is alive does
so, one owner a transaction: the saved number becomes a contact with the owner's name for it, and a service
message of the new account stands in the owner's box, both with their events. Each owner is told once, since
the saved number goes in that transaction. The new account has no copy and no chat, and is told nothing. Who
may not find it by its number, by its rules of that moment, keeps the number as it was.

Concurrency: a sign-up is worked on by whoever leased it (`leases.py`), a page of owners at a time. Imports
that were under way during the sign-up are found by a second pass.

*Spec: account.setContactSignUpNotification; messageActionContactSignUp*
"""

# ruff: noqa: S608 - only the condition of `leases.py` is put in
from __future__ import annotations

from typing import Final

from telesrv.clock import Clock
from telesrv.domain.actions import Action, ActionKind
from telesrv.domain.peers import PeerType
from telesrv.domain.privacy import PrivacyKey
from telesrv.domain.users import SavedContact
from telesrv.store.action_bars import SQL_BLOCKED_USERS
from telesrv.store.contacts import ContactStore, Joined
from telesrv.store.events import EventWriter
from telesrv.store.leases import Leases, free
from telesrv.store.notify import NotifyStore
from telesrv.store.pool import Connection, Pool, Record
from telesrv.store.saved_contacts import SQL_SAVED_OF, take
from telesrv.store.service_messages import Told, add_service
from telesrv.store.ttl import periods_of
from telesrv.store.users import UserStore

SETTLE_S: Final = 60
"""For so long after a sign-up, imports may still be written that had not seen it."""
_AT_ONCE: Final = 16
"""How many sign-ups one turn looks at."""
_PAGE: Final = 50
"""How many owners are told under one lease: a second or so."""

# Which sign-ups are to be told of.
SQL_DUE: Final = f"""
SELECT s.user_id FROM sign_ups s WHERE s.due_at <= $1 AND {free("s", "$2")} ORDER BY s.due_at LIMIT $3
"""
# Leases a sign-up, unless somebody else has.
SQL_LEASE: Final = f"""
UPDATE sign_ups s SET leased_until_ms = $4, leased_by = $5
WHERE s.user_id = $1 AND s.due_at <= $2 AND {free("s", "$3")}
RETURNING s.user_id, s.phone, s.quiet, s.after_user_id, s.last_pass, s.created_at
"""
# Gives a sign-up back, and says how far the telling has come and when it goes on; unless somebody else did.
SQL_ADVANCE: Final = """
UPDATE sign_ups SET after_user_id = $4, last_pass = $5, due_at = $6, leased_until_ms = 0, leased_by = NULL
WHERE user_id = $1 AND after_user_id = $2 AND last_pass = $3
"""
# Forgets a sign-up that everybody was told of.
SQL_END: Final = """
DELETE FROM sign_ups WHERE user_id = $1
"""
# Who has saved a phone number, by rising id.
SQL_OWNERS: Final = """
SELECT owner_user_id FROM saved_phones WHERE phone = $1 AND owner_user_id > $2
ORDER BY owner_user_id LIMIT $3
"""


class _TakenError(Exception):
    """Somebody else has told this owner."""


class SignUpStore:
    """Tells address books of new accounts."""

    def __init__(
        self,
        pool: Pool,
        contacts: ContactStore,
        users: UserStore,
        notify: NotifyStore,
        leases: Leases,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._contacts = contacts
        self._users = users
        self._notify = notify
        self._leases = leases
        self._clock = clock

    async def tell_due(self) -> int:
        """Tells a page of owners of each sign-up that is due; returns how many were told.

        To be called every second or so, by every process.

        Raises:
            Unavailable: a server is away; a later call goes on.
        """
        now = int(self._clock.time())
        told = 0
        for due in await self._pool.fetch(SQL_DUE, now, self._leases.now_ms(), _AT_ONCE):
            row = await self._pool.fetchrow(SQL_LEASE, due["user_id"], now, *self._leases.terms())
            if row is not None:
                told += await self._tell_page(row)
        return told

    async def _tell_page(self, row: Record) -> int:
        user_id, phone, last_pass = row["user_id"], row["phone"], row["last_pass"]
        user = await self._users.get(user_id)
        if user is None or user.deleted or user.phone != phone:
            await self._pool.execute(SQL_END, user_id)
            return 0
        found = await self._pool.fetch(SQL_OWNERS, phone, row["after_user_id"], _PAGE)
        owners = [one["owner_user_id"] for one in found]
        told = 0
        if owners:
            views = await self._users.seen_by(user_id, await self._users.existing(owners))
            rows = await self._pool.fetch(SQL_BLOCKED_USERS, user_id, PeerType.USER, owners)
            blocked = {one["peer_id"] for one in rows}
            for owner, view in sorted(views.items()):
                if owner != user_id and view.may(PrivacyKey.ADDED_BY_PHONE):
                    quiet = row["quiet"] or view.blocked or owner in blocked
                    told += await self._tell(owner, user_id, phone, quiet)
        reached, now = (row["after_user_id"], last_pass), int(self._clock.time())
        if len(owners) == _PAGE:
            after, due_at = owners[-1], now
        elif last_pass:
            await self._pool.execute(SQL_END, user_id)
            return told
        else:
            after, last_pass, due_at = 0, True, row["created_at"] + SETTLE_S
        await self._pool.execute(SQL_ADVANCE, user_id, *reached, after, last_pass, due_at)
        return told

    async def _tell(self, owner: int, user_id: int, phone: str, quiet: bool) -> bool:
        """Tells one owner; False when there was nothing to tell, or no room for another contact.

        Args:
            quiet: no message tells of the contact.
        """
        rows = await self._pool.fetch(SQL_SAVED_OF, owner, [phone])
        if not rows:
            return False
        saved = SavedContact(*rows[0])
        silent = await self._notify.sign_ups_silent(owner)
        ttl_s = (await periods_of(self._pool, owner, [user_id])).get(user_id, 0)
        date = int(self._clock.time())

        async def with_message(connection: Connection, writer: EventWriter) -> None:
            if not await take(connection, owner, saved):
                raise _TakenError
            if not quiet:
                sides = [Told(owner, user_id, ttl_s=ttl_s)]
                action = Action(ActionKind.CONTACT_SIGN_UP)
                await add_service(connection, writer, user_id, sides, action, date=date, silent=silent)

        joined = Joined(user_id, saved, with_message, messages=0 if quiet else 1)
        try:
            return await self._contacts.join(owner, joined)
        except _TakenError:
            return False
