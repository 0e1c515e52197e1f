"""Address books: the owner's view, and what it makes true for the other side.

Guarantees: both sides' rows of a contact are written in one statement in the order of their key, so that
two accounts that add each other at the same time end as mutual contacts; every change that the owner's
devices, or the other side's, must hear of is in their log in the same transaction.

*Spec: Contacts*
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from telesrv.clock import Clock
from telesrv.domain.contacts import (
    LOOKUPS_PER_DAY,
    MAX_CONTACTS,
    MAX_FOUND,
    MAX_IMPORT,
    action_bar,
)
from telesrv.domain.errors import FloodWait, PeerInvalid, Unavailable
from telesrv.domain.messages import Entity
from telesrv.domain.peers import Peer, PeerType
from telesrv.domain.phones import maybe_phone
from telesrv.domain.snapshots import entities_to_json
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.domain.usernames import username_key
from telesrv.domain.users import Contact, ImportOutcome, PhoneContact, SavedContact
from telesrv.store.action_bars import SQL_BLOCKED_USERS, shows_phone
from telesrv.store.contact_entries import MAX_NAMED, BookChange, Entry, decisive
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.limits import LimitStore
from telesrv.store.pool import Connection, Pool, to_json
from telesrv.store.saved_contacts import SavedContactStore
from telesrv.store.users import SQL_KNOWN, UserStore, contact_from_row, phone_rules

Contacts: TypeAlias = list[Contact]
UserIds: TypeAlias = list[int]

TRIES: Final = 8
DAY_S: Final = 86_400
MAX_LOOKED_AT: Final = 4 * MAX_FOUND
"""How many usernames a search reads to tell contacts from others."""

# Finds the accounts of phone numbers.
SQL_PHONES: Final = """
SELECT phone, user_id FROM phone_numbers WHERE phone = ANY($1::text[])
"""
# How many entries the owner's address book has.
SQL_COUNT: Final = """
SELECT count(*) FROM contacts WHERE owner_user_id = $1 AND listed
"""
# Locks what there is of both sides of entries, rows in the order of their key.
SQL_LOCK_ENTRIES: Final = """
SELECT owner_user_id, contact_user_id, listed, phone_shared, note, note_entities FROM contacts
WHERE (owner_user_id = $1 AND contact_user_id = ANY($2::bigint[]))
    OR (owner_user_id = ANY($2::bigint[]) AND contact_user_id = $1)
ORDER BY owner_user_id, contact_user_id FOR UPDATE
"""
# Writes both sides of new entries, rows in the order of their key.
SQL_LIST: Final = """
INSERT INTO contacts (owner_user_id, contact_user_id, listed, listed_by, first_name, last_name, phone,
    phone_shared, phone_shared_by, note, note_entities)
SELECT owner_user_id, contact_user_id, listed, NOT listed, first_name, last_name, phone,
    listed AND shared, NOT listed AND shared, note, note_entities::jsonb
FROM unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::text[], $5::text[], $6::text[], $7::boolean[],
    $8::text[], $9::text[])
    AS entry(owner_user_id, contact_user_id, listed, first_name, last_name, phone, shared, note,
        note_entities)
ORDER BY owner_user_id, contact_user_id
ON CONFLICT (owner_user_id, contact_user_id) DO UPDATE SET
    listed = contacts.listed OR EXCLUDED.listed,
    listed_by = contacts.listed_by OR EXCLUDED.listed_by,
    first_name = CASE WHEN EXCLUDED.listed THEN EXCLUDED.first_name ELSE contacts.first_name END,
    last_name = CASE WHEN EXCLUDED.listed THEN EXCLUDED.last_name ELSE contacts.last_name END,
    phone = CASE WHEN EXCLUDED.phone <> '' THEN EXCLUDED.phone ELSE contacts.phone END,
    phone_shared = contacts.phone_shared OR EXCLUDED.phone_shared,
    phone_shared_by = contacts.phone_shared_by OR EXCLUDED.phone_shared_by,
    bar_hidden = contacts.bar_hidden AND (contacts.listed OR NOT EXCLUDED.listed),
    note = CASE WHEN EXCLUDED.note <> '' THEN EXCLUDED.note ELSE contacts.note END,
    note_entities = CASE WHEN EXCLUDED.note <> '' THEN EXCLUDED.note_entities ELSE contacts.note_entities END
RETURNING owner_user_id, contact_user_id, listed, phone_shared, bar_hidden
"""
# Takes entries out on both sides, rows in the order of their key; what the owner called them is gone too.
SQL_UNLIST: Final = """
INSERT INTO contacts (owner_user_id, contact_user_id)
SELECT owner_user_id, contact_user_id
FROM unnest($1::bigint[], $2::bigint[]) AS entry(owner_user_id, contact_user_id)
ORDER BY owner_user_id, contact_user_id
ON CONFLICT (owner_user_id, contact_user_id) DO UPDATE SET
    listed = contacts.listed AND contacts.owner_user_id <> $3,
    listed_by = contacts.listed_by AND contacts.owner_user_id = $3,
    first_name = CASE WHEN contacts.owner_user_id = $3 THEN '' ELSE contacts.first_name END,
    last_name = CASE WHEN contacts.owner_user_id = $3 THEN '' ELSE contacts.last_name END,
    phone = CASE WHEN contacts.owner_user_id = $3 THEN '' ELSE contacts.phone END,
    phone_shared = contacts.phone_shared AND contacts.owner_user_id <> $3,
    phone_shared_by = contacts.phone_shared_by AND contacts.owner_user_id = $3,
    bar_hidden = contacts.bar_hidden AND contacts.owner_user_id <> $3,
    note = CASE WHEN contacts.owner_user_id = $3 THEN '' ELSE contacts.note END,
    note_entities = CASE WHEN contacts.owner_user_id <> $3 THEN contacts.note_entities END
RETURNING owner_user_id, contact_user_id, listed, phone_shared, bar_hidden
"""
# Reads the owner's address book.
SQL_BOOK: Final = """
SELECT owner_user_id, contact_user_id, listed_by, first_name, last_name, phone, note, note_entities
FROM contacts WHERE owner_user_id = $1 AND listed ORDER BY contact_user_id
"""
# Finds the owner's entries with a name of which a word begins so, or such a phone number.
SQL_SEARCH_BOOK: Final = """
SELECT contact_user_id FROM contacts
WHERE owner_user_id = $1 AND listed
    AND (strpos(' ' || lower(first_name || ' ' || last_name), ' ' || $2) > 0
        OR ($3 <> '' AND starts_with(phone, $3)))
ORDER BY first_name, last_name, contact_user_id LIMIT $4
"""
# Finds accounts whose username begins so; ~ sorts after everything that a username may hold.
SQL_SEARCH_USERNAMES: Final = """
SELECT user_id FROM usernames WHERE username >= $1 AND username < $1 || '~' ORDER BY username LIMIT $2
"""
# Writes down a note about a contact.
SQL_SET_NOTE: Final = """
UPDATE contacts SET note = $3, note_entities = $4::text::jsonb
WHERE owner_user_id = $1 AND contact_user_id = $2 AND listed RETURNING contact_user_id
"""
# Which of some accounts the owner has listed.
SQL_LISTED: Final = """
SELECT contact_user_id FROM contacts
WHERE owner_user_id = $1 AND listed AND contact_user_id = ANY($2::bigint[])
"""


@dataclass(frozen=True, slots=True)
class Joined:
    """A number that an owner had saved has an account now."""

    user_id: int
    saved: SavedContact
    body: Callable[[Connection, EventWriter], Awaitable[None]]
    """What is written before the contact, in its transaction."""
    messages: int
    """How many messages to the owner that makes."""


class _BookMovedError(Exception):
    """One of the two changed its address book between our look and our lock; look again."""


class ContactStore:
    """Address books, and search among accounts."""

    def __init__(
        self,
        pool: Pool,
        events: EventLog,
        limits: LimitStore,
        users: UserStore,
        saved: SavedContactStore,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._events = events
        self._limits = limits
        self._users = users
        self._saved = saved
        self._clock = clock

    async def import_(
        self,
        owner_user_id: int,
        entries: Sequence[PhoneContact],
    ) -> ImportOutcome:
        """Adds those who have an account; the owner's number becomes visible to them. The other numbers are
        saved, so that the owner is told when they sign up.

        Who has an account is told, but about a bounded number of phone numbers a day, and of nobody whose
        privacy rules keep them from being found by their number.

        Returns:
            Who was added, and the entries that were not looked at: too many at once or in a day, or the
            address book is full.
        """
        retry = [entry.client_id for entry in entries[MAX_IMPORT:]]
        phones = [maybe_phone(entry.phone) for entry in entries[:MAX_IMPORT]]
        asked = sorted({phone for phone in phones if phone is not None})
        if not asked:
            return ImportOutcome((), tuple(retry))
        try:
            await self._limits.hit("contacts:import", owner_user_id, LOOKUPS_PER_DAY, DAY_S, cost=len(asked))
        except FloodWait:
            return ImportOutcome((), tuple(entry.client_id for entry in entries))
        owners = {row["phone"]: row["user_id"] for row in await self._pool.fetch(SQL_PHONES, asked)}
        findable = await self._users.findable(owner_user_id, owners.values())
        room = MAX_CONTACTS - int(await self._pool.fetchval(SQL_COUNT, owner_user_id))
        found: dict[int, Entry] = {}
        imported: list[tuple[int, int]] = []
        unknown: dict[str, tuple[str, str]] = {}
        for phone, (client_id, _, first_name, last_name, note, note_entities) in zip(
            phones, entries, strict=False
        ):
            user_id = None if phone is None else owners.get(phone)
            if phone is None or user_id == owner_user_id:
                continue
            if user_id is None or user_id not in findable:
                unknown[phone] = (first_name, last_name)
                continue
            if user_id not in found and len(found) >= room:
                retry.append(client_id)
                continue
            entities = to_json(entities_to_json(note_entities)) if note else None
            found[user_id] = Entry(user_id, first_name, last_name, phone, False, note, entities)
            imported.append((user_id, client_id))
        if found:
            await self._list(owner_user_id, list(found.values()))
        await self._saved.imported(owner_user_id, unknown, [entry.phone for entry in found.values()])
        return ImportOutcome(tuple(imported), tuple(retry))

    async def maybe_found(self, viewer_user_id: int, phone: str) -> int | None:
        """Returns who has a phone number (digits only), None for whom the viewer may not find by it.

        *Spec: contacts.resolvePhone*
        """
        owners = [row["user_id"] for row in await self._pool.fetch(SQL_PHONES, [phone])]
        found = await self._users.findable(viewer_user_id, owners) | {viewer_user_id}
        return next((user_id for user_id in owners if user_id in found), None)

    async def add(
        self,
        owner_user_id: int,
        user_id: int,
        first_name: str,
        last_name: str,
        share_phone: bool = False,
        *,
        note: str = "",
        note_entities: Sequence[Entity] = (),
    ) -> None:
        """Adds or renames one entry. No number is kept with it: that would tell whether a guess is right.

        Args:
            share_phone: the other side may see the owner's number from now on; False takes nothing back.
            note: what the owner wants to remember; without one the note that is there stays.
        Raises:
            PeerInvalid: no such account, or the owner's own.
        """
        if not await self._users.may_be_listed(owner_user_id, [user_id]):
            raise PeerInvalid
        entities = to_json(entities_to_json(note_entities)) if note else None
        entry = Entry(user_id, first_name, last_name, "", share_phone, note, entities)
        await self._list(owner_user_id, [entry])

    async def join(self, owner_user_id: int, joined: Joined) -> bool:
        """Makes a saved number that has an account now a contact, by the names that it was saved under; by
        those that it has when it is a contact already.

        Returns:
            False, and nothing is written, when the address book is full.
        Raises:
            Whatever *body* raises, with nothing written.
        """
        saved = joined.saved
        entry = Entry(joined.user_id, saved.first_name, saved.last_name, saved.phone, share_phone=False)
        known = (await self._known(owner_user_id, [entry])).get(joined.user_id)
        if known is not None and known["listed"]:
            entry = replace(entry, first_name=known["first_name"], last_name=known["last_name"])
        elif await self._pool.fetchval(SQL_COUNT, owner_user_id) >= MAX_CONTACTS:
            return False
        await self._write(owner_user_id, [entry], True, joined)
        return True

    async def delete(self, owner_user_id: int, user_ids: Collection[int]) -> UserIds:
        """Takes entries out of the address book, which hides the owner's number from them again.

        Returns:
            The accounts that were in it.
        """
        wanted = sorted(set(user_ids))
        rows = await self._pool.fetch(SQL_LISTED, owner_user_id, wanted) if wanted else []
        listed = sorted(row["contact_user_id"] for row in rows)
        if not listed:
            return []
        entries = [Entry(user_id, "", "", "", share_phone=False) for user_id in listed]
        await self._write(owner_user_id, entries, False)
        return listed

    async def list(self, owner_user_id: int) -> Contacts:
        """Returns the address book by user id."""
        return [contact_from_row(row) for row in await self._pool.fetch(SQL_BOOK, owner_user_id)]

    async def search(self, owner_user_id: int, q: str, limit: int) -> tuple[UserIds, UserIds]:
        """Finds accounts: in the address book by a word of the name, a phone number or a username, then
        others by username only.

        Returns:
            user ids of contacts and of others, at most *limit* (and 50) of each; the owner is in neither.
        """
        limit = min(limit, MAX_FOUND)
        words = " ".join(q.replace("\0", "").lower().split())
        if not words or limit <= 0:
            return [], []
        digits = words.removeprefix("+").replace(" ", "")
        phone = digits if digits.isascii() and digits.isdigit() else ""
        rows = await self._pool.fetch(SQL_SEARCH_BOOK, owner_user_id, words, phone, limit)
        mine = dict.fromkeys(row["contact_user_id"] for row in rows)
        name = username_key(words)
        if not (name.isascii() and name.replace("_", "").isalnum()):
            return list(mine), []
        rows = await self._pool.fetch(SQL_SEARCH_USERNAMES, name, MAX_LOOKED_AT)
        by_name = [row["user_id"] for row in rows if row["user_id"] != owner_user_id]
        rows = await self._pool.fetch(SQL_LISTED, owner_user_id, by_name) if by_name else []
        listed = {row["contact_user_id"] for row in rows}
        mine.update(dict.fromkeys(user_id for user_id in by_name if user_id in listed))
        others = [user_id for user_id in by_name if user_id not in listed]
        return list(mine)[:limit], others[:limit]

    async def set_note(
        self,
        owner_user_id: int,
        user_id: int,
        note: str,
        note_entities: Sequence[Entity] = (),
    ) -> None:
        """Writes down what the owner wants to remember of a contact; an empty note is none.

        Raises:
            PeerInvalid: not in the address book.
        """
        entities = to_json(entities_to_json(note_entities)) if note else None
        known = (await self._pool.fetch(SQL_KNOWN, owner_user_id, [user_id]) or [None])[0]
        if known is None or not known["listed"]:
            raise PeerInvalid
        if (known["note"], to_json(known["note_entities"])) == (note, entities):
            return

        async def body(conn: Connection, writer: EventWriter) -> None:
            if await conn.fetchval(SQL_SET_NOTE, owner_user_id, user_id, note, entities) is None:
                return
            writer.add(
                NewEvent(
                    owner_user_id,
                    EventKind.USER_CHANGED,
                    int(self._clock.time()),
                    Peer.user(user_id),
                    payload={},
                )
            )

        await self._events.transact([owner_user_id], body)

    async def _list(self, owner_user_id: int, entries: Sequence[Entry]) -> None:
        """Writes those entries that say something new."""
        known = await self._known(owner_user_id, entries)
        new = [entry for entry in entries if entry.differs(known.get(entry.user_id))]
        if new:
            await self._write(owner_user_id, new, True)

    async def _known(self, owner_user_id: int, entries: Iterable[Entry]) -> dict[int, Any]:
        rows = await self._pool.fetch(SQL_KNOWN, owner_user_id, [entry.user_id for entry in entries])
        return {row["contact_user_id"]: row for row in rows}

    async def _write(
        self,
        owner_user_id: int,
        entries: Sequence[Entry],
        listing: bool,
        joined: Joined | None = None,
    ) -> None:
        """Lists or unlists; the other side hears of it only when a mutual contact begins or ends."""
        messages = [owner_user_id] * (joined.messages if joined else 0)
        for _ in range(TRIES):
            known = await self._known(owner_user_id, entries)
            change = BookChange(owner_user_id, entries, listing, known)

            async def body(conn: Connection, writer: EventWriter, change: BookChange = change) -> None:
                if joined is not None:
                    await joined.body(conn, writer)
                await self._apply(change, conn, writer)

            try:
                await self._events.transact([*change.writers, *messages], body, box_ids=messages)
            except _BookMovedError:
                continue
            return
        raise Unavailable("an address book that kept changing")

    async def _apply(self, change: BookChange, conn: Connection, writer: EventWriter) -> None:
        now = int(self._clock.time())
        owner = change.owner_user_id
        locked = await conn.fetch(SQL_LOCK_ENTRIES, owner, [entry.user_id for entry in change.entries])
        was = {row["contact_user_id"]: decisive(row) for row in locked if row["owner_user_id"] == owner}
        if was != change.was:
            raise _BookMovedError
        if change.listing:
            rows = await conn.fetch(SQL_LIST, *change.columns())
        else:
            rows = await conn.fetch(SQL_UNLIST, *change.columns()[:2], owner)
        listed_by = {row["owner_user_id"] for row in rows if row["owner_user_id"] != owner and row["listed"]}
        if listed_by != change.listed_by:
            raise _BookMovedError
        own = {row["contact_user_id"]: row for row in rows if row["owner_user_id"] == owner}
        blocked = await conn.fetch(SQL_BLOCKED_USERS, owner, PeerType.USER, change.bars)
        blocked_ids = {row["peer_id"] for row in blocked}
        # Read behind the lock: a change of the rules tells of the bars as the entries then are.
        rules = await phone_rules(conn, owner)

        def tell_owner(kind: EventKind, peer: Peer | None, payload: dict[str, Any]) -> None:
            writer.add(NewEvent(owner, kind, now, peer, payload=payload))

        named = [entry.user_id for entry in change.entries[:MAX_NAMED]]
        tell_owner(EventKind.CONTACTS_RESET, None, {"user_ids": named})
        for user_id in change.bars:
            bar = action_bar(
                listed=own[user_id]["listed"],
                phone_shared=shows_phone(own[user_id], rules),
                blocked=user_id in blocked_ids,
                hidden=own[user_id]["bar_hidden"],
            )
            tell_owner(EventKind.PEER_SETTINGS, Peer.user(user_id), bar)
        for user_id in change.noted:
            tell_owner(EventKind.USER_CHANGED, Peer.user(user_id), {})
        for user_id in change.mutual:
            writer.add(NewEvent(user_id, EventKind.CONTACTS_RESET, now, payload={"user_ids": [owner]}))
