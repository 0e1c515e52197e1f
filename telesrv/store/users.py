"""What one account may see of others, read in one batch.

*Spec: Peers; Privacy*
"""

# ruff: noqa: S608 - only column lists of this package are put in
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from telesrv.clock import Clock
from telesrv.domain.peers import SERVICE_USER_ID
from telesrv.domain.privacy import (
    DEFAULTS,
    AccountFlags,
    PrivacyKey,
    Rules,
    allowed_keys,
    allows,
    rules_from_json,
)
from telesrv.domain.snapshots import entities_from_json
from telesrv.domain.users import Birthday, Contact, Presence, User, UserView
from telesrv.store.pool import Connection, Pool, Record
from telesrv.store.presence import PresenceStore

ALL_KEYS: Final = frozenset(PrivacyKey)
NOT_FOR_BLOCKED: Final = ALL_KEYS - {PrivacyKey.FORWARDS, PrivacyKey.ADDED_BY_PHONE}
"""What an account keeps from whom it blocked, whatever its rules."""
STATUS_DEFAULT: Final = DEFAULTS[PrivacyKey.STATUS_TIMESTAMP]
PHONE_DEFAULT: Final = DEFAULTS[PrivacyKey.PHONE_NUMBER]
MAX_AUDIENCE: Final = 1_000
MAX_CHAT_AUDIENCE: Final = 200
MAX_TOLD: Final = 500
"""The most others who get an event of one change: it is one transaction, and each of them waits for its end
with what is pushed meanwhile."""

USER_COLUMNS: Final = """user_id, phone, first_name, last_name, username, about, created_at, last_seen_at,
    deleted, birth_day, birth_month, birth_year, flags, ttl_days"""

# Reads some accounts, deleted ones included.
SQL_USERS: Final = f"""
SELECT {USER_COLUMNS} FROM users WHERE user_id = ANY($1::bigint[])
"""
# Reads one account.
SQL_USER: Final = f"""
SELECT {USER_COLUMNS} FROM users WHERE user_id = $1
"""
# Which of some accounts exist and are not deleted.
SQL_EXISTING: Final = """
SELECT user_id FROM users WHERE user_id = ANY($1::bigint[]) AND NOT deleted
"""
# Reads the privacy rules that some accounts have set.
SQL_RULES: Final = """
SELECT user_id, key, rules FROM privacy_rules WHERE user_id = ANY($1::bigint[])
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
# Who has the owner in the address book, or may have a chat of which the owner has none.
SQL_KNOWN_TO: Final = """
SELECT contact_user_id, listed_by FROM contacts
WHERE owner_user_id = $1 AND (listed_by OR chat_kept) LIMIT $2
"""
# Which of some accounts have a private chat with another.
SQL_WITH_CHAT: Final = """
SELECT d.owner_user_id FROM unnest($1::bigint[]) AS q(owner)
JOIN dialogs d ON d.owner_user_id = q.owner AND d.peer_type = 1 AND d.peer_id = $2
"""
# Who the owner's newest private chats are with.
SQL_NEWEST_PEERS: Final = """
SELECT peer_id FROM dialogs WHERE owner_user_id = $1 AND peer_type = 1
ORDER BY top_date DESC, top_box_id DESC, peer_type DESC, peer_id DESC LIMIT $2
"""


class UserStore:
    """Reads of accounts; `AccountStore` writes them."""

    def __init__(self, pool: Pool, presence: PresenceStore, clock: Clock) -> None:
        self._pool = pool
        self._presence = presence
        self._clock = clock

    async def get(self, user_id: int) -> User | None:
        """Returns the account as stored, deleted or not; None when there never was one."""
        row = await self._pool.fetchrow(SQL_USER, user_id)
        return None if row is None else user_from_row(row)

    async def views(self, viewer_user_id: int, user_ids: Collection[int]) -> dict[int, UserView]:
        """Returns what the viewer sees of each account that exists, in a fixed number of statements.

        All of it goes by the accounts' privacy rules. A phone number is seen besides by whom its owner shares
        it with, and by whoever has it in the address book. Whom they blocked sees neither times nor what else
        is not for everybody. Who hides their own times from an account sees its times roughly.
        """
        return (await self.views_many({viewer_user_id: user_ids}))[viewer_user_id]

    async def seen_by(self, user_id: int, viewer_user_ids: Iterable[int]) -> dict[int, UserView]:
        """Returns what each of many viewers sees of one account, as `views`; whether they exist is not asked.

        Empty when there is no such account.
        """
        found = await self.views_many({viewer: [user_id] for viewer in viewer_user_ids})
        return {viewer: views[user_id] for viewer, views in found.items() if user_id in views}

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
        rules = await self._rules({*wanted, *ids})
        known = await self._known(pairs)
        blocks = await self._blocks(pairs)
        presence = await self._presence.known(ids)
        return {
            viewer: {
                user_id: self._view(
                    users[user_id],
                    viewer,
                    known.get((viewer, user_id)),
                    presence.get(user_id),
                    rules,
                    blocked=(viewer, user_id) in blocks,
                    blocked_by=(user_id, viewer) in blocks,
                )
                for user_id in dict.fromkeys(user_ids)
                if user_id in users
            }
            for viewer, user_ids in wanted.items()
        }

    async def _known(self, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Record]:
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

    async def audience(self, user_id: int, most: int = MAX_AUDIENCE) -> list[int]:
        """Returns who has the account before their eyes: for a chat, the latest first, or by their address
        book, or for a chat that this side has not.

        Bounded: what these are told at once the rest learn when they ask next.
        """
        rows = await self._pool.fetch(SQL_NEWEST_PEERS, user_id, MAX_CHAT_AUDIENCE)
        found = dict.fromkeys(row["peer_id"] for row in rows)
        rows = await self._pool.fetch(SQL_KNOWN_TO, user_id, most)
        found.update(dict.fromkeys(row["contact_user_id"] for row in rows if row["listed_by"]))
        # Whose side alone has a chat, if it has: others must not learn that the account knows of them.
        if unsure := [row["contact_user_id"] for row in rows if row["contact_user_id"] not in found]:
            rows = await self._pool.fetch(SQL_WITH_CHAT, unsure, user_id)
            found.update(dict.fromkeys(row["owner_user_id"] for row in rows))
        return [viewer for viewer in found if viewer not in (user_id, SERVICE_USER_ID)][:most]

    async def to_be_told(self, user_id: int) -> list[int]:
        """Returns the accounts in whose logs a change of this one's profile is written.

        Bounded: the rest have it in the users of the next answer that shows the account, which clients take
        over.
        """
        viewers = await self.audience(user_id, MAX_TOLD)
        existing = await self.existing(viewers)
        return [viewer for viewer in viewers if viewer in existing]

    async def findable(self, viewer_user_id: int, user_ids: Iterable[int]) -> set[int]:
        """Returns those of the accounts that the viewer may find by their phone numbers.

        Whom the viewer has listed is found again: there is nothing new to learn. As much is asked when there
        are none of them: else the time of an answer would tell of those who hide.
        """
        others = {user_id for user_id in user_ids if user_id != viewer_user_id}
        views = await self.views(viewer_user_id, others or {SERVICE_USER_ID})
        return {
            user_id
            for user_id in others & views.keys()
            if not (view := views[user_id]).user.deleted
            and (view.may(PrivacyKey.ADDED_BY_PHONE) or view.contact is not None)
        }

    async def existing(self, user_ids: Collection[int]) -> frozenset[int]:
        """Returns those of the accounts that exist and are not deleted."""
        if not user_ids:
            return frozenset()
        return frozenset(row["user_id"] for row in await self._pool.fetch(SQL_EXISTING, list(user_ids)))

    async def may_be_listed(self, owner_user_id: int, user_ids: Collection[int]) -> bool:
        """Tells whether all are accounts that the owner may have in the address book, or block."""
        if owner_user_id in user_ids or SERVICE_USER_ID in user_ids:
            return False
        return await self.existing(user_ids) == set(user_ids)

    async def _rules(self, user_ids: Collection[int]) -> dict[int, dict[PrivacyKey, Rules]]:
        found: dict[int, dict[PrivacyKey, Rules]] = {}
        for row in await self._pool.fetch(SQL_RULES, list(user_ids)):
            found.setdefault(row["user_id"], {})[PrivacyKey(row["key"])] = rules_from_json(row["rules"])
        return found

    def _view(
        self,
        user: User,
        viewer_user_id: int,
        known: Record | None,
        presence: Presence | None,
        rules: Mapping[int, Mapping[PrivacyKey, Rules]],
        *,
        blocked: bool,
        blocked_by: bool,
    ) -> UserView:
        """Puts together what the viewer sees.

        Args:
            known: the viewer's row of `contacts`.
            rules: of the account and of the viewer.
            blocked: the viewer has blocked the account; *blocked_by*: the reverse.
        """
        user_id, own = user.user_id, user.user_id == viewer_user_id
        contact = contact_from_row(known) if known is not None and known["listed"] else None
        listed_by = known is not None and known["listed_by"]
        mine = rules.get(viewer_user_id, {})
        allowed = ALL_KEYS if own else allowed_keys(rules.get(user_id, {}), viewer_user_id, contact=listed_by)
        if blocked_by:
            allowed -= NOT_FOR_BLOCKED
        seen = presence or Presence(last_seen_at=user.last_seen_at)
        if blocked_by:
            seen = Presence()
        elif PrivacyKey.STATUS_TIMESTAMP not in allowed:
            seen = seen.roughly(int(self._clock.time()), by_viewer=False)
        elif not own and not allows(
            mine.get(PrivacyKey.STATUS_TIMESTAMP, STATUS_DEFAULT), user_id, contact=contact is not None
        ):
            seen = seen.roughly(int(self._clock.time()), by_viewer=True)
        phone_rules = mine.get(PrivacyKey.PHONE_NUMBER, PHONE_DEFAULT)
        shared = known is not None and known["phone_shared"]
        return UserView(
            user=user,
            viewer_user_id=viewer_user_id,
            contact=contact,
            presence=seen,
            phone_visible=bool(user.phone)
            and (
                PrivacyKey.PHONE_NUMBER in allowed
                or (known is not None and known["phone_shared_by"] and not blocked_by)
                or (contact is not None and contact.phone == user.phone)
            ),
            blocked=blocked,
            phone_shared=not own and (shared or allows(phone_rules, user_id, contact=contact is not None)),
            bar_hidden=known is not None and known["bar_hidden"],
            phone_needs_exception=not own and not shared and not allows(phone_rules, user_id, contact=True),
            allowed=allowed,
        )


async def phone_rules(reader: Pool | Connection, user_id: int) -> Rules:
    """Returns who sees the account's phone number by its own rules."""
    for row in await reader.fetch(SQL_RULES, [user_id]):
        if row["key"] == PrivacyKey.PHONE_NUMBER:
            return rules_from_json(row["rules"])
    return PHONE_DEFAULT


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
        birthday=Birthday(row["birth_day"], row["birth_month"], row["birth_year"])
        if row["birth_day"]
        else None,
        flags=AccountFlags(row["flags"]),
        ttl_days=row["ttl_days"],
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
