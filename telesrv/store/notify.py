"""Notification settings: the owner's, of kinds of chats and of single ones.

Guarantees: a change is in one transaction with the event by which the account's devices learn of it,
and the event says what the settings are now. Of settings that are for no chats there is no update: devices
ask for them.

*Spec: Push notifications and settings*
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from telesrv.clock import Clock
from telesrv.domain.notify import (
    DEFAULT,
    SCOPE_DEFAULT,
    NotifyScope,
    NotifySettings,
    NotifyTarget,
    ReactionSettings,
    reactions_from_json,
    reactions_to_json,
    settings_from_json,
    settings_to_json,
)
from telesrv.domain.peers import Peer, PeerType
from telesrv.domain.updates import EventKind, NewEvent
from telesrv.store.events import EventLog, EventWriter
from telesrv.store.pool import Connection, Pool

Exceptions: TypeAlias = dict[Peer, NotifySettings]

MAX_EXCEPTIONS: Final = 1_000
"""The most chats that one answer, or one event of a reset, names."""

# Reads the settings of a kind of chats, or of one chat.
SQL_GET: Final = """
SELECT settings FROM notify_settings
WHERE owner_user_id = $1 AND scope = $2 AND peer_type = $3 AND peer_id = $4
"""
# Reads the owner's settings of some chats.
SQL_FOR_PEERS: Final = """
SELECT peer_id, settings FROM notify_settings
WHERE owner_user_id = $1 AND scope = 1 AND peer_type = $2 AND peer_id = ANY($3::bigint[])
"""
# Reads the chats that have settings of their own.
SQL_EXCEPTIONS: Final = """
SELECT peer_type, peer_id, settings FROM notify_settings
WHERE owner_user_id = $1 AND scope = 1 ORDER BY peer_type, peer_id LIMIT $2
"""
# Sets what a kind of chats, or a chat, has.
SQL_SET: Final = """
INSERT INTO notify_settings (owner_user_id, scope, peer_type, peer_id, settings)
VALUES ($1, $2, $3, $4, $5::jsonb)
ON CONFLICT (owner_user_id, scope, peer_type, peer_id) DO UPDATE SET settings = excluded.settings
"""
# Takes away what a kind of chats, or a chat, has; nothing comes back when it has nothing.
SQL_CLEAR: Final = """
DELETE FROM notify_settings WHERE owner_user_id = $1 AND scope = $2 AND peer_type = $3 AND peer_id = $4
RETURNING peer_id
"""
# Takes away some of what the owner has set for chats.
SQL_RESET: Final = """
WITH batch AS (
    SELECT scope, peer_type, peer_id FROM notify_settings WHERE owner_user_id = $1 AND scope <= 4
    ORDER BY scope, peer_type, peer_id LIMIT $2 FOR UPDATE)
DELETE FROM notify_settings n USING batch
WHERE n.owner_user_id = $1 AND n.scope = batch.scope AND n.peer_type = batch.peer_type
    AND n.peer_id = batch.peer_id
RETURNING n.scope, n.peer_type, n.peer_id
"""


class NotifyStore:
    """Reads and writes of an account's notification settings."""

    def __init__(self, pool: Pool, events: EventLog, clock: Clock) -> None:
        self._pool = pool
        self._events = events
        self._clock = clock

    async def get(self, owner: int, target: NotifyTarget) -> NotifySettings:
        """Returns the settings, or the default: of a kind of chats everything, of a chat nothing."""
        found = await self._pool.fetchval(SQL_GET, owner, *_key(target))
        if found is not None:
            return settings_from_json(found)
        return DEFAULT if target.scope is NotifyScope.PEER else SCOPE_DEFAULT

    async def for_peers(self, owner: int, peers: Iterable[Peer]) -> Exceptions:
        """Returns the settings of those of the chats that have some, read at once for each type of peer."""
        found: Exceptions = {}
        wanted: dict[PeerType, list[int]] = {}
        for peer in peers:
            wanted.setdefault(peer.type, []).append(peer.id)
        for type_, ids in wanted.items():
            for row in await self._pool.fetch(SQL_FOR_PEERS, owner, type_, ids):
                found[Peer(type_, row["peer_id"])] = settings_from_json(row["settings"])
        return found

    async def exceptions(self, owner: int) -> Exceptions:
        """Returns the chats that have settings of their own, at most 1,000."""
        rows = await self._pool.fetch(SQL_EXCEPTIONS, owner, MAX_EXCEPTIONS)
        return {
            Peer(PeerType(row["peer_type"]), row["peer_id"]): settings_from_json(row["settings"])
            for row in rows
        }

    async def set(
        self,
        owner: int,
        target: NotifyTarget,
        settings: NotifySettings,
    ) -> bool:
        """Sets the settings, and tells the account's sessions; False when they were these already."""
        if await self.get(owner, target) == settings:
            return False

        async def body(conn: Connection, writer: EventWriter) -> bool:
            if target.scope is NotifyScope.PEER and settings == DEFAULT:
                if await conn.fetchval(SQL_CLEAR, owner, *_key(target)) is None:
                    return False
            else:
                await conn.execute(SQL_SET, owner, *_key(target), settings_to_json(settings))
            payload = {"scope": int(target.scope), "settings": settings_to_json(settings)}
            writer.add(self._event(owner, target.peer, payload))
            return True

        return await self._events.transact([owner], body)

    async def reset(self, owner: int) -> bool:
        """Gives everything its default again, and tells the account's sessions; False when nothing was set.

        It is done and told in transactions of 1,000 chats each. What is set meanwhile may stay.
        """

        async def body(conn: Connection, writer: EventWriter) -> int:
            rows = await conn.fetch(SQL_RESET, owner, MAX_EXCEPTIONS)
            if not rows:
                return 0  # somebody else has
            named = sorted([row["scope"], row["peer_type"], row["peer_id"]] for row in rows)
            users = [
                id_ for scope, type_, id_ in named if scope == NotifyScope.PEER and type_ == PeerType.USER
            ]
            payload = {"reset": named, "user_ids": users}
            writer.add(self._event(owner, None, payload))
            return len(rows)

        changed, full = False, True
        while full and await self._has_any(owner):
            number = await self._events.transact([owner], body)
            changed, full = changed or number > 0, number == MAX_EXCEPTIONS
        return changed

    async def reactions(self, owner: int) -> ReactionSettings:
        """Returns of which reactions the owner is notified.

        *Spec: account.getReactionsNotifySettings*
        """
        found = await self._pool.fetchval(SQL_GET, owner, *_key(NotifyTarget(NotifyScope.REACTIONS)))
        return ReactionSettings() if found is None else reactions_from_json(found)

    async def set_reactions(self, owner: int, settings: ReactionSettings) -> None:
        """Sets of which reactions the owner is notified.

        *Spec: account.setReactionsNotifySettings*
        """
        key = _key(NotifyTarget(NotifyScope.REACTIONS))
        await self._pool.execute(SQL_SET, owner, *key, reactions_to_json(settings))

    async def sign_ups_silent(self, owner: int) -> bool:
        """Tells whether the owner is told of contacts that sign up silently only: by a message in the chat,
        without a notification.

        *Spec: account.getContactSignUpNotification*
        """
        found = await self._pool.fetchval(SQL_GET, owner, *_key(NotifyTarget(NotifyScope.CONTACT_SIGN_UP)))
        return found is not None and bool(found["silent"])

    async def set_sign_ups_silent(self, owner: int, silent: bool) -> None:
        """Sets whether the owner is told of contacts that sign up silently only.

        *Spec: account.setContactSignUpNotification*
        """
        key = _key(NotifyTarget(NotifyScope.CONTACT_SIGN_UP))
        await self._pool.execute(SQL_SET, owner, *key, {"silent": silent})

    async def _has_any(self, owner: int) -> bool:
        if await self._pool.fetch(SQL_EXCEPTIONS, owner, 1):
            return True
        for scope in (NotifyScope.USERS, NotifyScope.CHATS, NotifyScope.BROADCASTS):
            if await self._pool.fetchval(SQL_GET, owner, *_key(NotifyTarget(scope))) is not None:
                return True
        return False

    def _event(self, owner: int, peer: Peer | None, payload: dict[str, Any]) -> NewEvent:
        return NewEvent(owner, EventKind.NOTIFY_SETTINGS, int(self._clock.time()), peer, payload=payload)


def _key(target: NotifyTarget) -> tuple[int, int, int]:
    peer = target.peer
    return int(target.scope), int(peer.type) if peer else 0, peer.id if peer else 0
