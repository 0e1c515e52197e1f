"""Privacy rules of accounts: set by their owner, applied by `UserStore`.

Guarantees: the rules of one key change in one transaction with the event by which the account's other
devices learn of them; the event itself says what they are.

*Spec: Privacy*
"""

from __future__ import annotations

from typing import Final

from telesrv.clock import Clock
from telesrv.domain.privacy import DEFAULTS, PrivacyKey, Rules, rules_from_json, rules_to_json
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.pool import Connection, Pool

# Reads the rules of one key.
SQL_GET: Final = """
SELECT rules FROM privacy_rules WHERE user_id = $1 AND key = $2
"""
# Sets the rules of one key.
SQL_SET: Final = """
INSERT INTO privacy_rules (user_id, key, rules) VALUES ($1, $2, $3::jsonb)
ON CONFLICT (user_id, key) DO UPDATE SET rules = excluded.rules
"""


class PrivacyStore:
    """Reads and writes of an account's own rules."""

    def __init__(self, pool: Pool, events: EventLog, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._clock = clock

    async def get(self, user_id: int, key: PrivacyKey) -> Rules:
        """Returns the rules that hold for the key: the account's own, or the default."""
        rules = await self._pool.fetchval(SQL_GET, user_id, key)
        return DEFAULTS[key] if rules is None else rules_from_json(rules)

    async def set(
        self, user_id: int, key: PrivacyKey, rules: Rules, *, auth_key_id: int = 0, session_id: int = 0
    ) -> bool:
        """Sets the rules, and tells the account's other sessions; False when they were these already.

        Args:
            rules: normalized.
        """
        if await self.get(user_id, key) == rules:
            return False
        payload = {
            "key": int(key),
            "rules": rules_to_json(rules),
            "user_ids": sorted(frozenset[int]().union(*(rule.user_ids for rule in rules))),
        }

        async def body(conn: Connection, writer: EventWriter) -> None:
            await conn.execute(SQL_SET, user_id, key, payload["rules"])
            writer.add(
                NewEvent(
                    user_id,
                    EventKind.PRIVACY,
                    int(self._clock.time()),
                    payload=payload,
                    exclude_auth_key_id=auth_key_id,
                    exclude_session_id=session_id,
                )
            )

        await self._events.transact([user_id], body)
        return True
