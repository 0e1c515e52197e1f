"""What an account says of itself beside its names, its phone number, and its settings.

Guarantees: one phone number has one account, whoever asks at the same time; what other devices of the
account must hear of is in its log in the same transaction.

*Spec: account.updateBirthday; account.changePhone; account.setAccountTTL; Privacy*
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from telesrv.clock import Clock
from telesrv.domain.errors import PeerInvalid, PhoneOccupied
from telesrv.domain.peers import Peer
from telesrv.domain.privacy import AccountFlags
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.domain.users import Birthday, User
from telesrv.store.accounts import SQL_LOCK, SQL_TAKE_PHONE
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.pool import Connection, Pool
from telesrv.store.users import user_from_row

# Sets the birthday of one account.
SQL_SET_BIRTHDAY: Final = """
UPDATE users SET birth_day = $2, birth_month = $3, birth_year = $4 WHERE user_id = $1
"""
# Sets the switches of one account.
SQL_SET_FLAGS: Final = """
UPDATE users SET flags = $2 WHERE user_id = $1 AND NOT deleted
"""
# Sets after how many days one account is deleted when it is not seen.
SQL_SET_TTL: Final = """
UPDATE users SET ttl_days = $2 WHERE user_id = $1 AND NOT deleted
"""
# Sets the phone number of one account.
SQL_SET_PHONE: Final = """
UPDATE users SET phone = $2 WHERE user_id = $1
"""
# Gives a phone number back.
SQL_FREE_PHONE: Final = """
DELETE FROM phone_numbers WHERE phone = $1 AND user_id = $2
"""

_Change = Callable[[Connection, User], Awaitable[Mapping[str, Any] | None]]


class ProfileStore:
    """Writes of profiles; `UserStore` reads them."""

    def __init__(self, pool: Pool, events: EventLog, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._clock = clock

    async def set_birthday(
        self, user_id: int, birthday: Birthday | None, *, auth_key_id: int = 0, session_id: int = 0
    ) -> bool:
        """Sets the birthday, None for no longer telling it; False when it was this already.

        Raises:
            PeerInvalid: there is no such account.
        """
        day = birthday or Birthday(0, 0)

        async def change(conn: Connection, user: User) -> Mapping[str, Any] | None:
            if user.birthday == birthday:
                return None
            await conn.execute(SQL_SET_BIRTHDAY, user_id, day.day, day.month, day.year)
            return {"birthday": [day.day, day.month, day.year]}

        return await self._change(user_id, EventKind.USER_CHANGED, change, auth_key_id, session_id)

    async def change_phone(
        self, user_id: int, phone: str, *, auth_key_id: int = 0, session_id: int = 0
    ) -> bool:
        """Gives the account another phone number (digits only) and frees the old one.

        Returns:
            False when the number was this already.
        Raises:
            PhoneOccupied: the number has an account; nothing was written.
            PeerInvalid: there is no such account.
        """

        async def change(conn: Connection, user: User) -> Mapping[str, Any] | None:
            if user.phone == phone:
                return None
            if await conn.fetchval(SQL_TAKE_PHONE, phone, user_id) is None:
                raise PhoneOccupied
            await conn.execute(SQL_SET_PHONE, user_id, phone)
            await conn.execute(SQL_FREE_PHONE, user.phone, user_id)
            return {"phone": phone}

        return await self._change(user_id, EventKind.PHONE_CHANGED, change, auth_key_id, session_id)

    async def set_flags(self, user_id: int, flags: AccountFlags) -> None:
        """Sets the switches of the account; TL has no update for them."""
        await self._pool.execute(SQL_SET_FLAGS, user_id, int(flags))

    async def set_ttl(self, user_id: int, days: int) -> None:
        """Sets after how many days without being seen the account is deleted; TL has no update for that."""
        await self._pool.execute(SQL_SET_TTL, user_id, days)

    async def _change(
        self, user_id: int, kind: EventKind, change: _Change, auth_key_id: int, session_id: int
    ) -> bool:
        """Runs *change* on the locked account and logs what it returns; None: nothing changed."""

        async def body(conn: Connection, writer: EventWriter) -> bool:
            # What changes nothing takes no pts: the caller has looked; here two at once are told apart.
            row = await conn.fetchrow(SQL_LOCK, user_id)
            if row is None:
                raise PeerInvalid
            payload = await change(conn, user_from_row(row))
            if payload is None:
                return False
            writer.add(
                NewEvent(
                    user_id,
                    kind,
                    int(self._clock.time()),
                    Peer.user(user_id),
                    payload=payload,
                    exclude_auth_key_id=auth_key_id,
                    exclude_session_id=session_id,
                )
            )
            return True

        return await self._events.transact([user_id], body)
