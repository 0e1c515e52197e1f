"""Phone numbers without an account that somebody has in the address book: kept until they sign up.

Guarantees: a number is there for its owner and, by the number, for who looks for its owners, or for neither.
Nobody but the owner is answered from it. A number whose account hides from being found by it is kept like any
other, so that what is kept does not tell that there is an account.

Rows are locked in one order: saved_contacts, saved_phones; within a table by key.

*Spec: Contacts; contacts.importContacts*
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

from telesrv.clock import Clock
from telesrv.domain.contacts import MAX_SAVED
from telesrv.domain.users import SavedContact
from telesrv.store.pool import Connection, Pool

Names: TypeAlias = tuple[str, str]
"""First and last name."""
_RESET_BATCH: Final = 1_000

# Reads which numbers the owner has saved.
SQL_SAVED: Final = """
SELECT phone, first_name, last_name, date FROM saved_contacts WHERE owner_user_id = $1 ORDER BY phone LIMIT $2
"""
# Reads those of some numbers that the owner has saved.
SQL_SAVED_OF: Final = """
SELECT phone, first_name, last_name, date FROM saved_contacts
WHERE owner_user_id = $1 AND phone = ANY($2::text[])
"""
# How many numbers the owner has saved.
SQL_COUNT: Final = """
SELECT count(*) FROM saved_contacts WHERE owner_user_id = $1
"""
# Saves numbers, or gives those that are saved other names.
SQL_SAVE: Final = """
INSERT INTO saved_contacts AS s (owner_user_id, phone, first_name, last_name, date)
SELECT $1, phone, first_name, last_name, $5
FROM unnest($2::text[], $3::text[], $4::text[]) AS q(phone, first_name, last_name)
ORDER BY phone
ON CONFLICT (owner_user_id, phone) DO UPDATE
SET first_name = excluded.first_name, last_name = excluded.last_name
"""
# Notes by the numbers who has saved them.
SQL_NOTE: Final = """
INSERT INTO saved_phones (phone, owner_user_id) SELECT phone, $1 FROM unnest($2::text[]) AS q(phone)
ORDER BY phone
ON CONFLICT (phone, owner_user_id) DO NOTHING
"""
# Forgets numbers.
SQL_FORGET: Final = """
DELETE FROM saved_contacts WHERE owner_user_id = $1 AND phone = ANY($2::text[])
"""
# Forgets by the numbers who had saved them.
SQL_FORGET_NOTES: Final = """
DELETE FROM saved_phones WHERE owner_user_id = $1 AND phone = ANY($2::text[])
"""
# Forgets a number of that name; nothing comes back when it is not there, or has another name by now.
SQL_TAKE: Final = """
DELETE FROM saved_contacts WHERE owner_user_id = $1 AND phone = $2 AND first_name = $3 AND last_name = $4
RETURNING phone
"""


class SavedContactStore:
    """Reads and writes of the numbers that an account has saved."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    async def list(self, owner: int) -> list[SavedContact]:
        """Returns the numbers that the owner has saved, in order.

        *Spec: contacts.getSaved*
        """
        rows = await self._pool.fetch(SQL_SAVED, owner, MAX_SAVED)
        return [SavedContact(*row) for row in rows]

    async def count(self, owner: int) -> int:
        """Returns how many numbers the owner has saved."""
        return int(await self._pool.fetchval(SQL_COUNT, owner))

    async def imported(self, owner: int, unknown: Mapping[str, Names], found: Collection[str]) -> None:
        """Keeps the numbers of an import that have no account, and none that has one.

        About 10,000 are kept of one owner, some more after imports at the same moment: of those beyond, the
        owner will not be told when they sign up.
        """
        asked = [*unknown, *found]
        rows = await self._pool.fetch(SQL_SAVED_OF, owner, asked) if asked else []
        saved = {row["phone"]: (row["first_name"], row["last_name"]) for row in rows}
        new = {phone: names for phone, names in unknown.items() if saved.get(phone) != names}
        if any(phone not in saved for phone in new):
            room = max(0, MAX_SAVED - await self.count(owner))
            beyond = [phone for phone in sorted(new) if phone not in saved][room:]
            new = {phone: names for phone, names in new.items() if phone not in beyond}
        await self._change(owner, new, sorted(saved.keys() & set(found)))

    async def forget(self, owner: int, phones: Collection[str]) -> None:
        """Forgets those of the numbers that the owner has saved."""
        rows = await self._pool.fetch(SQL_SAVED_OF, owner, list(phones)) if phones else []
        await self._change(owner, {}, [row["phone"] for row in rows])

    async def reset(self, owner: int) -> None:
        """Forgets all numbers that the owner has saved.

        *Spec: contacts.resetSaved*
        """
        while rows := await self._pool.fetch(SQL_SAVED, owner, _RESET_BATCH):
            await self._change(owner, {}, [row["phone"] for row in rows])

    async def _change(self, owner: int, new: Mapping[str, Names], gone: Sequence[str]) -> None:
        """Writes and forgets numbers in one transaction."""
        if not new and not gone:
            return
        phones = sorted(new)
        names = [[new[phone][part] for phone in phones] for part in (0, 1)]

        async def body(connection: Connection) -> None:
            await connection.execute(SQL_FORGET, owner, gone)
            await connection.execute(SQL_SAVE, owner, phones, *names, int(self._clock.time()))
            await connection.execute(SQL_FORGET_NOTES, owner, gone)
            await connection.execute(SQL_NOTE, owner, phones)

        await self._pool.transact(body)


async def take(connection: Connection, owner: int, saved: SavedContact) -> bool:
    """Forgets a number in the caller's transaction; False when somebody else has, or it has another name."""
    names = (saved.first_name, saved.last_name)
    if await connection.fetchval(SQL_TAKE, owner, saved.phone, *names) is None:
        return False
    await connection.execute(SQL_FORGET_NOTES, owner, [saved.phone])
    return True


async def drop_some(connection: Connection, owner: int, most: int) -> int:
    """Forgets up to *most* of the numbers that the owner has saved, in the caller's transaction; returns how
    many."""
    phones = [row["phone"] for row in await connection.fetch(SQL_SAVED, owner, most)]
    if phones:
        await connection.execute(SQL_FORGET, owner, phones)
        await connection.execute(SQL_FORGET_NOTES, owner, phones)
    return len(phones)
