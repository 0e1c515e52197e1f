"""Privacy rules of accounts: set by their owner, applied by `UserStore`.

Guarantees: the rules of one key change in one transaction with the event by which the account's
devices learn of them; the event itself says what they are. In the same transaction those others are told, a
bounded number of them, who may see from now on what they might not, or the reverse; and the account's own
devices of the action bars that are others by it.

*Spec: Privacy*
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from telesrv.clock import Clock
from telesrv.domain.peers import Peer
from telesrv.domain.privacy import DEFAULTS, PrivacyKey, Rules, allows, rules_from_json, rules_to_json
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.action_bars import ActionBarStore, Bars
from telesrv.store.contacts import SQL_LISTED
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.plans import PlanMovedError, until_settled
from telesrv.store.pool import Connection, Pool
from telesrv.store.users import UserStore

# Reads the rules of one key.
SQL_GET: Final = """
SELECT rules FROM privacy_rules WHERE user_id = $1 AND key = $2
"""
# Sets the rules of one key, unless others stand there than were read; says whether it did.
SQL_SET: Final = """
INSERT INTO privacy_rules AS p (user_id, key, rules) VALUES ($1, $2, $3::jsonb)
ON CONFLICT (user_id, key) DO UPDATE SET rules = excluded.rules WHERE p.rules = $4::jsonb
RETURNING true
"""

KEPT_BY_CLIENTS: Final[Mapping[PrivacyKey, EventKind]] = {
    PrivacyKey.PHONE_NUMBER: EventKind.PHONE_CHANGED,
    PrivacyKey.ABOUT: EventKind.USER_CHANGED,
    PrivacyKey.BIRTHDAY: EventKind.USER_CHANGED,
    PrivacyKey.FORWARDS: EventKind.USER_CHANGED,
    PrivacyKey.VOICE_MESSAGES: EventKind.USER_CHANGED,
}
"""What a client keeps of another account, and the event by which it shows it anew. Presence passes."""


class PrivacyStore:
    """Reads and writes of an account's own rules."""

    def __init__(
        self, pool: Pool, events: EventLog, users: UserStore, action_bars: ActionBarStore, clock: Clock
    ) -> None:
        self._pool = pool
        self._events = events
        self._users = users
        self._action_bars = action_bars
        self._clock = clock

    async def get(self, user_id: int, key: PrivacyKey) -> Rules:
        """Returns the rules that hold for the key: the account's own, or the default."""
        rules = await self._pool.fetchval(SQL_GET, user_id, key)
        return DEFAULTS[key] if rules is None else rules_from_json(rules)

    async def set(self, user_id: int, key: PrivacyKey, rules: Rules) -> bool:
        """Sets the rules, and tells the account's sessions; False when they were these already.

        Args:
            rules: normalized.
        """
        payload = {
            "key": int(key),
            "rules": rules_to_json(rules),
            "user_ids": sorted(frozenset[int]().union(*(rule.user_ids for rule in rules))),
        }
        chats = await self._action_bars.newest(user_id) if key is PrivacyKey.PHONE_NUMBER else []

        async def body(
            conn: Connection, writer: EventWriter, before: Rules, others: list[int], looked: Bars
        ) -> None:
            date = int(self._clock.time())
            bars = await self._action_bars.lock(conn, user_id, chats, before, rules) if chats else {}
            if bars.keys() != looked.keys():
                raise PlanMovedError
            if not await conn.fetchval(SQL_SET, user_id, key, payload["rules"], rules_to_json(before)):
                raise PlanMovedError
            own: list[tuple[EventKind, Peer | None, Mapping[str, Any]]] = [(EventKind.PRIVACY, None, payload)]
            own += [(EventKind.PEER_SETTINGS, Peer.user(other), bar) for other, bar in bars.items()]
            for kind, peer, said in own:
                writer.add(NewEvent(user_id, kind, date, peer, payload=said))
            for other in others:
                writer.add(NewEvent(other, KEPT_BY_CLIENTS[key], date, Peer.user(user_id)))

        async def attempt() -> bool:
            before = await self.get(user_id, key)
            if before == rules:
                return False
            others = await self._concerned(user_id, key, before, rules)
            looked = await self._action_bars.look(user_id, chats, before, rules) if chats else {}
            owners = [user_id] * (1 + len(looked)) + others
            await self._events.transact(owners, partial(body, before=before, others=others, looked=looked))
            return True

        return await until_settled(attempt, "privacy rules or an address book")

    async def _concerned(self, user_id: int, key: PrivacyKey, before: Rules, after: Rules) -> list[int]:
        """Returns who has the account before their eyes and is allowed by one of the rules only."""
        if key not in KEPT_BY_CLIENTS:
            return []
        viewers = await self._users.to_be_told(user_id)
        rows = await self._pool.fetch(SQL_LISTED, user_id, viewers)
        contacts = {row["contact_user_id"] for row in rows}
        return [
            viewer
            for viewer in viewers
            if allows(before, viewer, contact=viewer in contacts)
            != allows(after, viewer, contact=viewer in contacts)
        ]
