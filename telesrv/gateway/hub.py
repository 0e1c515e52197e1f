"""The session hub: every session of this process, by key and by account.

Guarantees: a push goes only to sessions whose auth key is bound to the account at that moment, that take
updates, and that are not the excluded one. After a log-out nothing of the old account reaches the device:
its queued updates are dropped too. Concurrency: everything runs on the event loop's thread and nothing here
awaits.

*Spec: Working with Updates*
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from telesrv import tl
from telesrv.clock import Clock
from telesrv.gateway.limits import GatewayLimits

if TYPE_CHECKING:
    from telesrv.gateway.session_actor import SessionActor


class EncodedUpdate:
    """One update that is written at most once for each layer."""

    __slots__ = ("_by_layer", "_update")

    def __init__(self, update: object | None, newest: bytes | None = None) -> None:
        self._update = update
        self._by_layer: dict[int, bytes] = {} if newest is None else {tl.LAYER: newest}

    @classmethod
    def of_newest(cls, body: bytes) -> EncodedUpdate:
        """Returns the update that another process wrote in the newest layer."""
        return cls(None, body)

    def for_layer(self, layer: int) -> bytes:
        """Returns the TL bytes for a session of *layer*; 0 is one that has not said it: the newest, as
        answers."""
        layer = tl.supported_layer(layer or tl.LAYER)
        body = self._by_layer.get(layer)
        if body is None:
            if self._update is None:
                self._update = tl.read(self._by_layer[tl.LAYER])
            body = self._by_layer[layer] = tl.write(self._update, layer)
        return body


class SessionHub:
    """Finds sessions."""

    def __init__(self, limits: GatewayLimits, clock: Clock) -> None:
        self._limits = limits
        self.users_left: set[int] = set()
        """Accounts that had sessions here and have none now; whoever tells the other processes empties it."""
        self._clock = clock
        self._sessions: dict[tuple[int, int], SessionActor] = {}
        self._by_key: defaultdict[int, set[SessionActor]] = defaultdict(set)
        self._by_user: defaultdict[int, set[SessionActor]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[SessionActor]:
        return iter(list(self._sessions.values()))

    def find(self, wire_key_id: int, session_id: int) -> SessionActor | None:
        """Returns the session, if it is here."""
        return self._sessions.get((wire_key_id, session_id))

    def add(self, actor: SessionActor) -> None:
        """Takes a session in; the oldest detached ones make room for it."""
        self._make_room(actor.wire_key_id)
        self._sessions[actor.wire_key_id, actor.session_id] = actor
        self._by_key[actor.wire_key_id].add(actor)
        self._by_key[actor.caller.auth_key_id].add(actor)
        self.index_user(actor)

    def remove(self, actor: SessionActor) -> None:
        """Forgets a session and stops what it runs."""
        self._sessions.pop((actor.wire_key_id, actor.session_id), None)
        for key_id in {actor.wire_key_id, actor.caller.auth_key_id}:
            members = self._by_key.get(key_id)
            if members is not None:
                members.discard(actor)
                if not members:
                    del self._by_key[key_id]
        self._unindex_user(actor)
        actor.stop()

    def expire_detached(self, now: float) -> None:
        """Forgets the sessions whose client has been away for too long."""
        for actor in self:
            since = actor.detached_since
            if since is not None and now - since > self._limits.detached_ttl_s:
                self.remove(actor)

    def _make_room(self, wire_key_id: int) -> None:
        detached = [a for a in self._by_key.get(wire_key_id, ()) if a.detached_since is not None]
        while len(detached) >= self._limits.max_detached_per_key:
            oldest = min(detached, key=lambda a: a.detached_since or 0.0)
            detached.remove(oldest)
            self.remove(oldest)
        if len(self._sessions) >= self._limits.max_sessions:
            victim = min(
                (a for a in self._sessions.values() if a.detached_since is not None),
                key=lambda a: a.detached_since or 0.0,
                default=None,
            )
            if victim is not None:
                self.remove(victim)

    # Accounts

    def index_user(self, actor: SessionActor) -> None:
        """Notes under which account the session now stands."""
        self._unindex_user(actor)
        user_id = actor.caller.user_id
        if user_id is not None:
            actor.indexed_user_id = user_id
            self._by_user[user_id].add(actor)

    def _unindex_user(self, actor: SessionActor) -> None:
        user_id = actor.indexed_user_id
        if user_id is None:
            return
        actor.indexed_user_id = None
        members = self._by_user.get(user_id)
        if members is not None:
            members.discard(actor)
            if not members:
                del self._by_user[user_id]
                self.users_left.add(user_id)

    @property
    def users(self) -> list[int]:
        """The accounts that have sessions here."""
        return list(self._by_user)

    def linked_users(self) -> set[int]:
        """Returns the accounts that have an open link here."""
        return {
            user_id
            for user_id, actors in self._by_user.items()
            if any(actor.detached_since is None for actor in actors)
        }

    def bind_temp_key(self, temp_auth_key_id: int, perm_auth_key_id: int) -> None:
        """Makes the sessions of a temporary key stand for the permanent one."""
        for actor in list(self._by_key.get(temp_auth_key_id, ())):
            old = actor.caller.auth_key_id
            if old not in (actor.wire_key_id, perm_auth_key_id):
                self._by_key[old].discard(actor)
            actor.caller.auth_key_id = perm_auth_key_id
            actor.caller.temp_auth_key_id = temp_auth_key_id
            self._by_key[perm_auth_key_id].add(actor)
            # The account of the permanent key is looked up by the session's next request.
            actor.caller.user_id = None
            actor.identified = False
            self._unindex_user(actor)

    def log_out(self, auth_key_ids: Iterable[int]) -> None:
        """Takes the account from every session of these permanent keys, queued updates included."""
        for auth_key_id in auth_key_ids:
            for actor in list(self._by_key.get(auth_key_id, ())):
                actor.forget_updates()
                actor.caller.user_id = None
                self._unindex_user(actor)

    def noticed(self, auth_key_id: int, user_id: int | None) -> None:
        """Brings the sessions of a permanent key in line with the account that it has: from now on they get
        what is pushed to that one, and nothing of another.
        """
        for actor in list(self._by_key.get(auth_key_id, ())):
            if actor.caller.user_id not in (None, user_id):
                actor.forget_updates()
            actor.caller.user_id = user_id
            self.index_user(actor)

    def forget_key(self, auth_key_id: int) -> None:
        """Closes every session of a destroyed auth key, temporary keys bound to it included."""
        for actor in list(self._by_key.get(auth_key_id, ())):
            actor.detach_connection(close=True)
            self.remove(actor)

    # Pushes

    def has_sessions(self, user_id: int) -> bool:
        """Tells whether a push to the account would reach any session here."""
        return user_id in self._by_user

    def push(
        self,
        user_id: int,
        update: EncodedUpdate,
        *,
        exclude_auth_key_id: int = 0,
        exclude_session_id: int = 0,
    ) -> None:
        """Queues a durable update for the account's sessions but the excluded one."""
        for actor in list(self._by_user.get(user_id, ())):
            caller = actor.caller
            if not actor.takes_updates:
                continue
            if caller.auth_key_id == exclude_auth_key_id and actor.session_id == exclude_session_id:
                continue
            actor.push(update.for_layer(caller.layer))

    def push_transient(
        self, user_id: int, update: EncodedUpdate, exclude: tuple[int, int] | None = None
    ) -> None:
        """Sends an update that is never stored, to the connected sessions of the account, once."""
        for actor in list(self._by_user.get(user_id, ())):
            caller = actor.caller
            if actor.detached_since is not None or not actor.takes_updates:
                continue
            if exclude is not None and exclude == (caller.auth_key_id, actor.session_id):
                continue
            actor.push_passing(update.for_layer(caller.layer))

    def all_lost_updates(self) -> None:
        """Has every session ask for the difference: pushes may have passed this process by."""
        for actor in self:
            if actor.takes_updates:
                actor.push_too_long()
