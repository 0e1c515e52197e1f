"""What an account says of itself, its phone number, and its settings.

Guarantees: one phone number has one account and one username one owner, whoever asks at the same time. A
change that others can see is one transaction with an event in the log of the account and in those of a
bounded number of others who have it before their eyes (`UserStore.to_be_told`). The events hold no snapshot:
they are shown by the profile and the privacy rules of the moment, so that the last one shown is true whatever
the order of their pts.

*Spec: account.updateProfile; account.changePhone; account.setAccountTTL; Privacy*
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from telesrv.clock import Clock
from telesrv.domain.errors import PeerInvalid, PhoneOccupied, UsernameNotModified, UsernameOccupied
from telesrv.domain.peers import Peer
from telesrv.domain.privacy import AccountFlags
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.domain.usernames import username_key
from telesrv.domain.users import Birthday, User, UserView
from telesrv.store.accounts import SQL_LOCK, SQL_PHONE, SQL_TAKE_PHONE, SQL_USERNAME
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.pool import Connection, Pool
from telesrv.store.users import UserStore, user_from_row

# Changes the names and the about text of one account.
SQL_SET_PROFILE: Final = """
UPDATE users SET first_name = $2, last_name = $3, about = $4 WHERE user_id = $1
"""
# Changes the username of one account.
SQL_SET_USERNAME: Final = """
UPDATE users SET username = $2 WHERE user_id = $1
"""
# Takes a username; no row comes back when somebody has it.
SQL_TAKE_USERNAME: Final = """
INSERT INTO usernames (username, user_id) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING user_id
"""
# Gives a username back.
SQL_FREE_USERNAME: Final = """
DELETE FROM usernames WHERE username = $1 AND user_id = $2
"""
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

_Changed = Callable[[User], User]
_Write = Callable[[Connection, User, User], Awaitable[None]]


class ProfileStore:
    """Writes of profiles; `UserStore` reads them."""

    def __init__(self, pool: Pool, events: EventLog, users: UserStore, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._users = users
        self._clock = clock

    async def update(
        self,
        user_id: int,
        first_name: str | None = None,
        last_name: str | None = None,
        about: str | None = None,
    ) -> User:
        """Changes what is not None, and tells the account's sessions; the same again changes nothing.

        Raises:
            PeerInvalid: there is no such account.
        """

        def changed(user: User) -> User:
            return replace(
                user,
                first_name=user.first_name if first_name is None else first_name,
                last_name=user.last_name if last_name is None else last_name,
                about=user.about if about is None else about,
            )

        async def write(conn: Connection, old: User, new: User) -> None:
            await conn.execute(SQL_SET_PROFILE, user_id, new.first_name, new.last_name, new.about)

        user, _ = await self._change(user_id, EventKind.USER_CHANGED, changed, write)
        return user

    async def username_free(self, username: str) -> bool:
        """Tells whether nobody has *username*; somebody may take it the next moment."""
        return await self._pool.fetchval(SQL_USERNAME, username_key(username)) is None

    async def set_username(self, user_id: int, username: str | None) -> User:
        """Gives the account *username* (None: none at all), and tells the account's sessions.

        Raises:
            UsernameNotModified: it is the account's username already, in this very case.
            UsernameOccupied: somebody else has it.
            PeerInvalid: there is no such account.
        """
        new_key = None if username is None else username_key(username)

        async def write(conn: Connection, old: User, new: User) -> None:
            old_key = None if old.username is None else username_key(old.username)
            if new_key != old_key:
                if new_key and await conn.fetchval(SQL_TAKE_USERNAME, new_key, user_id) is None:
                    raise UsernameOccupied
                if old_key:
                    await conn.execute(SQL_FREE_USERNAME, old_key, user_id)
            await conn.execute(SQL_SET_USERNAME, user_id, username)

        if new_key is not None:
            holder = await self._pool.fetchval(SQL_USERNAME, new_key)
            if holder is not None and holder != user_id:
                raise UsernameOccupied
        user, changed = await self._change(
            user_id, EventKind.USER_CHANGED, lambda user: replace(user, username=username), write
        )
        if not changed:
            raise UsernameNotModified
        return user

    async def set_birthday(self, user_id: int, birthday: Birthday | None) -> bool:
        """Sets the birthday, None for no longer telling it; False when it was this already.

        Raises:
            PeerInvalid: there is no such account.
        """
        day = birthday or Birthday(0, 0)

        async def write(conn: Connection, old: User, new: User) -> None:
            await conn.execute(SQL_SET_BIRTHDAY, user_id, day.day, day.month, day.year)

        _, changed = await self._change(
            user_id, EventKind.USER_CHANGED, lambda user: replace(user, birthday=birthday), write
        )
        return changed

    async def change_phone(self, user_id: int, phone: str) -> bool:
        """Gives the account another phone number (digits only) and frees the old one. Who sees neither is
        not shown that there was a change.

        Returns:
            False when the number was this already.
        Raises:
            PhoneOccupied: the number has an account; nothing was written.
            PeerInvalid: there is no such account.
        """

        async def write(conn: Connection, old: User, new: User) -> None:
            if await conn.fetchval(SQL_TAKE_PHONE, phone, user_id) is None:
                raise PhoneOccupied
            await conn.execute(SQL_SET_PHONE, user_id, phone)
            await conn.execute(SQL_FREE_PHONE, old.phone, user_id)

        if await self._pool.fetchval(SQL_PHONE, phone) not in (None, user_id):
            raise PhoneOccupied
        _, changed = await self._change(
            user_id,
            EventKind.PHONE_CHANGED,
            lambda user: replace(user, phone=phone),
            write,
            seen=lambda view: view.phone_visible,
        )
        return changed

    async def set_flags(self, user_id: int, flags: AccountFlags) -> None:
        """Sets the switches of the account; TL has no update for them."""
        await self._pool.execute(SQL_SET_FLAGS, user_id, int(flags))

    async def set_ttl(self, user_id: int, days: int) -> None:
        """Sets after how many days without being seen the account is deleted; TL has no update for that."""
        await self._pool.execute(SQL_SET_TTL, user_id, days)

    async def _change(
        self,
        user_id: int,
        kind: EventKind,
        changed: _Changed,
        write: _Write,
        *,
        seen: Callable[[UserView], bool] | None = None,
    ) -> tuple[User, bool]:
        """Returns the account as *changed* makes it, and whether that is another one than before.

        Args:
            write: is given the locked account as it was and as it is to be; not called when it is the same.
            seen: says of another one's view of the account whether what changes is shown in it.
        """
        current = await self._users.get(user_id)
        if current is None or current.deleted:
            raise PeerInvalid
        if changed(current) == current:
            return current, False
        others = await self._users.to_be_told(user_id)
        payloads: dict[int, dict[str, bool]] = {}
        if seen is not None:
            views = await self._users.seen_by(user_id, others)
            payloads = {other: {"seen": seen(view)} for other, view in views.items()}
        peer, date = Peer.user(user_id), int(self._clock.time())

        async def body(conn: Connection, writer: EventWriter) -> tuple[User, bool]:
            row = await conn.fetchrow(SQL_LOCK, user_id)
            if row is None:
                raise PeerInvalid
            old = user_from_row(row)
            new = changed(old)
            if new == old:
                return old, False
            await write(conn, old, new)
            writer.add(NewEvent(user_id, kind, date, peer))
            for other in others:
                writer.add(NewEvent(other, kind, date, peer, payload=payloads.get(other)))
            return new, True

        return await self._events.transact([user_id, *others], body)
