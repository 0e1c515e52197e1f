"""This process among the others: its number, its sign of life, its sessions and accounts, and what it tells
the rest.

Guarantees:
- A session has one owner. A client that reconnects to another process is handed over with its msg_id window
  and what it did not acknowledge, when the owner lives; when it does not, the session begins anew above the
  mark of what it has executed.
- A push counts as delivered when every living process that holds sessions of the account has taken it.
- What is told to sessions (log-in, log-out, a bound key) reaches those of every process before the call that
  caused it is answered, or within `ALIVE_S` those of a process that hangs: it forgets what it knew when it
  comes back.
- Redis losing its data costs a difference, not a message.

Concurrency: one event loop. Lifecycle: `start` (number, sign of life, bus, greeting), `stop` (hands every
session over).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

import structlog

from telesrv import metrics, tl
from telesrv.clock import Clock
from telesrv.domain.errors import Unavailable
from telesrv.domain.users import AuthKeyRecord
from telesrv.gateway.bus import Bus, Header
from telesrv.gateway.hub import EncodedUpdate, SessionHub
from telesrv.gateway.limits import GatewayLimits
from telesrv.gateway.ownership import Ownership
from telesrv.gateway.session_actor import SessionActor
from telesrv.logs import Seldom
from telesrv.mtproto.crypto import AuthKey
from telesrv.mtproto.session import SessionLimits
from telesrv.rpc import Dispatcher
from telesrv.rpc.pushes import Push
from telesrv.store import Store
from telesrv.store.nodes import LeaseLost, NodeLease
from telesrv.store.session_registry import ALIVE_S, BEAT_S, Beat
from telesrv.tl import types

log = structlog.get_logger(__name__)

_FRESH_S: Final = 2.5 * BEAT_S
"""How old the list of living nodes may be when it decides that nobody else needs a push."""
_ANSWER_S: Final = 2.0
"""How long another process may take to say that it took something."""
_BYE_S: Final = 0.5
"""How long the others have to note that this process leaves."""
_REFRESH_S: Final = 100.0
"""How often entries in the registry are prolonged: a third of how long they last."""


class PushNotTaken(Exception):
    """A process that holds sessions of the account did not say that it took the push."""


class Node:
    """One serving process; also the session control of the RPC handlers."""

    def __init__(
        self,
        store: Store,
        hub: SessionHub,
        lease: NodeLease,
        *,
        limits: GatewayLimits,
        session_limits: SessionLimits,
        clock: Clock,
        connections: Callable[[], int],
        on_lease_lost: Callable[[], None],
    ) -> None:
        self._store = store
        self._hub = hub
        self._lease = lease
        self._clock = clock
        self._connections = connections
        self._on_lease_lost = on_lease_lost
        self._registry = store.sessions
        self._bus = Bus(store.redis, lease.node, on_heard=self._on_heard, on_gap=self._on_gap)
        self._peers: set[int] = set()
        self._trusted: set[int] = set()
        self._trusted_until = float("-inf")
        self._beaten_at = float("-inf")
        self._suspects: dict[int, float] = {}
        self._entered: set[int] = set()
        self._entering = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._releasing: set[asyncio.Task[None]] = set()
        self._lost = False
        self._passed_by = Seldom(log, logging.INFO, "a passing update reached only this node")
        self._unknown = Seldom(log, logging.INFO, "who has sessions elsewhere is not known")
        self._sessions = Ownership(
            self, store, hub, limits=limits, session_limits=session_limits, clock=clock
        )
        self.dispatcher: Dispatcher | None = None
        """Set once it is made: it needs this node as its session control."""

    @property
    def number(self) -> int:
        """The node number."""
        return self._lease.node

    # Lifecycle

    async def start(self) -> None:
        """Joins the others; when it returns, every living one knows of this node.

        Raises:
            Unavailable: Redis is away.
        """
        for kind, handler, inline in (
            ("hello", self._on_hello, False),
            ("bye", self._on_bye, False),
            ("push", self._on_push, True),
            ("transient", self._on_transient, True),
            ("told", self._on_told, False),
            ("handover", self._sessions.on_handover, False),
            ("control:log_out", self._on_control_log_out, False),
            ("control:gone", self._on_control_gone, False),
        ):
            self._bus.on(kind, handler, inline=inline)
        await self._bus.start()
        await self._beat()
        await self._bus.broadcast(self._peers, "hello", {}, timeout_s=_ANSWER_S)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep_beating()), loop.create_task(self._keep_lease())]

    async def stop(self) -> None:
        """Hands every session over to whoever its client comes back to, and leaves."""
        tasks = [*self._tasks, *self._releasing]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        try:
            if not self._lost:
                await self._sessions.leave()
                await self._registry.leave(self.number, self._lease.holder)
                await self._registry.leave_users(self.number, self._entered)
                await self._bus.broadcast(self._peers, "bye", {}, timeout_s=_BYE_S)
            await self._lease.release()
        except Unavailable as error:
            log.warning("sessions could not be handed over; their clients begin new ones", problem=str(error))
        finally:
            await self._bus.stop()

    async def _keep_beating(self) -> None:
        refreshed_at = self._clock.monotonic()
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                await self._beat()
                await self._leave_users()
                now = self._clock.monotonic()
                self._hub.expire_detached(now)
                if now - refreshed_at > _REFRESH_S:
                    refreshed_at = now
                    await self._enter_all()
                    await self._sessions.drop_foreign()
                    await self._store.auth_keys.purge_expired(int(self._clock.time()))
            except Unavailable as error:
                log.warning("this node could not show that it lives", problem=str(error))
            except Exception:
                log.exception("keeping the registry failed; it goes on")

    async def _beat(self) -> None:
        """Shows that this node lives; finds out who else does, and whether it was away for too long
        itself."""
        now = self._clock.monotonic()
        silent_s = now - self._beaten_at
        found, peers = await self._registry.beat(self.number, self._lease.holder)
        if found is Beat.LOST:
            # The others are not entered again yet, and are there.
            self._trusted, self._trusted_until = set(self._peers), now + ALIVE_S
        if now < self._trusted_until:
            peers = peers | self._trusted
        gone, self._peers = self._peers - peers, peers
        self._suspects = {n: until for n, until in self._suspects.items() if until > now and n in peers}
        self._bus.expect_nothing(gone)
        for node in gone:
            self._release_leases(node)
        first = self._beaten_at == float("-inf")
        self._beaten_at = self._clock.monotonic()
        if not first and (found is Beat.LOST or silent_s > ALIVE_S):
            log.warning("this node was away from the others", silent_s=round(silent_s, 1), found=found.value)
            await self._come_back()

    def _release_leases(self, node: int) -> None:
        """Has pushes that a dead process had claimed made by others now; twice, should it only hang."""

        async def release() -> None:
            try:
                count = await self._store.outbox.release_leases(node)
            except Unavailable:
                return  # then they come when the leases end
            log.warning("another process is gone", node=node, pushes=count)

        task = asyncio.get_running_loop().create_task(release())
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def _come_back(self) -> None:
        """Makes good what passed this node by: caches, entries, sessions that have moved on, pushes."""
        self._store.auth_keys.forget_all()
        self._store.accounts.forget_all()
        for actor in self._hub:
            actor.identified = False
        await self._enter_all()
        await self._sessions.drop_foreign()
        self._hub.all_lost_updates()

    def _on_heard(self, node: int) -> None:
        """Trusts a node again that was silent: what it did not answer in time, it answers late."""
        self._suspects.pop(node, None)

    async def _on_gap(self) -> None:
        """Makes good what the bus did not bring while it was away."""
        try:
            await self._come_back()
        except Unavailable as error:
            # It is away again; there will be another gap.
            log.warning("this node could not make good a gap", problem=str(error))

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(self._lease.renew_s)
            connections, sessions = self._connections(), len(self._hub)
            metrics.CONNECTIONS.set(connections)
            metrics.SESSIONS.set(sessions)
            try:
                await self._lease.renew(connections, sessions)
            except LeaseLost as error:
                log.error("this process must end: its node number is another's", problem=str(error))
                self._lost = True
                self._on_lease_lost()
                return
            except Unavailable as error:
                log.warning(
                    "the node number could not be renewed", problem=str(error), valid=self._lease.valid()
                )
            except Exception:
                log.exception("renewing the node number failed; it goes on")

    async def _fresh_peers(self) -> set[int]:
        """Returns the other living nodes, as of now or a moment ago."""
        if self._clock.monotonic() - self._beaten_at > _FRESH_S:
            await self._beat()
        return self._peers

    async def _on_hello(self, header: Header, body: bytes) -> None:
        self._peers.add(header["from"])

    async def _on_bye(self, header: Header, body: bytes) -> None:
        self._peers.discard(header["from"])
        self._trusted.discard(header["from"])
        self._bus.expect_nothing([header["from"]])

    # Accounts

    async def user_entered(self, user_id: int) -> None:
        """Returns when every process knows that this one holds sessions of the account."""
        if user_id in self._entered:
            return
        async with self._entering:
            await self._registry.enter_users(self.number, [user_id])
            self._entered.add(user_id)

    async def _leave_users(self) -> None:
        async with self._entering:
            left = [u for u in self._hub.users_left if not self._hub.has_sessions(u)]
            self._hub.users_left.clear()
            self._entered.difference_update(left)
            if left:
                await self._registry.leave_users(self.number, left)

    async def _enter_all(self) -> None:
        async with self._entering:
            users = self._hub.users
            await self._registry.enter_users(self.number, users)
            self._entered = set(users)

    # Sessions

    async def session(
        self, auth_key: AuthKey, record: AuthKeyRecord, session_id: int, ip: str
    ) -> SessionActor:
        """Returns the session: the one here, one taken over from where it was, or a new one.

        Raises:
            Unavailable: it cannot be known now whether another process has it.
        """
        return await self._sessions.session(auth_key, record, session_id, ip)

    async def mark(self, actor: SessionActor, msg_id: int) -> bool:
        """Notes durably that msg_ids of the session up to *msg_id* may be executed.

        Returns False, and has forgotten the session, when another node owns it: nothing of it may run here.

        Raises:
            Unavailable: Redis is away, or this process may have lost its number.
        """
        return await self._sessions.mark(actor, msg_id)

    async def destroy_session(self, wire_key_id: int, session_id: int) -> bool:
        """Ends a session in whatever process it is; False when there is none.

        Raises:
            Unavailable: it cannot be known now whether another process has it.
        """
        return await self._sessions.destroy(wire_key_id, session_id)

    async def ask_for_session(self, owner: int, header: Header, *, timeout_s: float) -> bytes | None:
        """Returns a session as its owner gives it; None when that is dead, hangs, or has it no more."""
        if owner not in await self._fresh_peers():
            return None
        if owner in self._suspects:
            # When it comes to itself, it lets go of the session.
            await self._bus.send(owner, "handover", header)
            return None
        answer = await self._bus.request(owner, "handover", header, timeout_s=timeout_s)
        if answer is None:
            self._was_silent(owner)
            return None
        return answer[1] or None

    def require_dispatcher(self) -> Dispatcher:
        """The dispatcher, which is there once the process serves."""
        assert self.dispatcher is not None
        return self.dispatcher

    def holds_number(self) -> bool:
        """Tells whether the node number is certainly this process's own now."""
        return self._lease.valid()

    # Pushes

    async def remote_holders(self, user_ids: Sequence[int]) -> dict[int, set[int]]:
        """Returns the other living nodes that hold sessions of each account; empty when this node is alone.

        Raises:
            Unavailable: it cannot be known now.
        """
        peers = await self._fresh_peers()
        if not peers:
            return {}
        found = await self._registry.nodes_of(user_ids)
        return {user_id: nodes & peers for user_id, nodes in found.items() if nodes & peers}

    def push_here(self, user_id: int, pushes: Sequence[Push]) -> None:
        """Puts durable updates into the mailboxes of the account's sessions of this process."""
        for push in pushes:
            self._hub.push(
                user_id,
                EncodedUpdate(push.update),
                exclude_auth_key_id=push.exclude_auth_key_id,
                exclude_session_id=push.exclude_session_id,
            )

    async def push_there(self, node: int, pushes: Sequence[tuple[int, Push]]) -> None:
        """Has another process put durable updates, as (account, push), into its sessions' mailboxes.

        Raises:
            PushNotTaken: it did not say that it did, and is not known to be dead.
            Unavailable: Redis is away.
        """
        if node in self._suspects:
            raise PushNotTaken(f"node {node} hangs")
        bodies = [tl.write(push.update) for _, push in pushes]
        header = {
            "pushes": [
                [user_id, push.exclude_auth_key_id, push.exclude_session_id, len(body)]
                for (user_id, push), body in zip(pushes, bodies, strict=True)
            ]
        }
        if await self._bus.request(node, "push", header, b"".join(bodies), timeout_s=_ANSWER_S) is not None:
            return
        if self._was_silent(node):
            raise PushNotTaken(f"node {node} did not answer")

    async def _on_push(self, header: Header, body: bytes) -> None:
        offset = 0
        for user_id, exclude_auth_key_id, exclude_session_id, size in header["pushes"]:
            self._hub.push(
                user_id,
                EncodedUpdate.of_newest(body[offset : offset + size]),
                exclude_auth_key_id=exclude_auth_key_id,
                exclude_session_id=exclude_session_id,
            )
            offset += size

    def _was_silent(self, node: int) -> bool:
        """Asks a node that was silent nothing more until it is dead for the registry, or has had time to
        recover; False when it is dead already."""
        if node not in self._peers:
            return False
        log.warning("another node did not answer", node=node)
        self._suspects[node] = self._clock.monotonic() + ALIVE_S
        return True

    # Session control

    async def bind_temp_key(self, temp_auth_key_id: int, perm_auth_key_id: int) -> None:
        """Makes the sessions of a temporary key stand for the permanent one, in every process."""
        await self._tell({"what": "bind", "temp": temp_auth_key_id, "perm": perm_auth_key_id})

    async def logged_in(self, auth_key_id: int, user_id: int) -> None:
        """Gives every session of the permanent key, in every process, the account's updates from now on."""
        await self._tell({"what": "logged_in", "auth_key_id": auth_key_id, "user_id": user_id})

    async def log_out(self, auth_key_ids: Iterable[int]) -> None:
        """Takes the account from every session of these permanent keys, in every process."""
        await self._tell({"what": "log_out", "auth_key_ids": list(auth_key_ids)})

    async def noticed(self, auth_key_id: int, user_id: int | None) -> None:
        """Brings the key's sessions of this process in line with the account that it has."""
        self._hub.noticed(auth_key_id, user_id)
        if user_id is not None:
            await self.user_entered(user_id)

    async def forget_key(self, auth_key_id: int) -> None:
        """Closes every session of a destroyed auth key, in every process."""
        await self._tell({"what": "forget_key", "auth_key_id": auth_key_id})

    async def with_sessions(self, user_ids: Collection[int]) -> list[int]:
        """Returns those of the accounts that have sessions here or, as far as Redis tells, elsewhere."""
        remote: dict[int, set[int]] = {}
        try:
            remote = await self.remote_holders(list(user_ids))
        except Unavailable as error:
            self._unknown.tell(problem=str(error))
        return [user_id for user_id in user_ids if user_id in remote or self._hub.has_sessions(user_id)]

    async def push_transient(
        self, user_id: int, update: types.TypeUpdate, exclude: tuple[int, int] | None = None
    ) -> None:
        """Sends an update that is never stored to the account's connected sessions; some may miss it."""
        encoded = EncodedUpdate(types.UpdateShort(update=update, date=int(self._clock.time())))
        self._hub.push_transient(user_id, encoded, exclude)
        try:
            for node in (await self.remote_holders([user_id])).get(user_id, ()):
                header = {"user_id": user_id, "exclude": exclude}
                await self._bus.send(node, "transient", header, encoded.for_layer(tl.LAYER))
        except Unavailable as error:
            self._passed_by.tell(problem=str(error))

    async def _on_transient(self, header: Header, body: bytes) -> None:
        exclude = header["exclude"]
        self._hub.push_transient(
            header["user_id"], EncodedUpdate.of_newest(body), tuple(exclude) if exclude else None
        )

    async def _tell(self, header: dict[str, Any]) -> None:
        """Does something to the sessions here, and has every other process do it."""
        await self._on_told(header, b"")
        peers = await self._fresh_peers()
        silent = peers - await self._bus.broadcast(peers, "told", header, timeout_s=_ANSWER_S)
        for node in silent:
            # It forgets what it knew when it comes back.
            self._was_silent(node)

    async def _on_told(self, header: Header, body: bytes) -> None:
        what = header["what"]
        if what == "bind":
            self._store.auth_keys.forget(header["temp"])
            self._hub.bind_temp_key(header["temp"], header["perm"])
        elif what == "logged_in":
            self._store.accounts.forget(header["auth_key_id"])
            self._hub.noticed(header["auth_key_id"], header["user_id"])
            if self._hub.has_sessions(header["user_id"]):
                await self.user_entered(header["user_id"])
        elif what == "log_out":
            for auth_key_id in header["auth_key_ids"]:
                self._store.accounts.forget(auth_key_id)
            self._hub.log_out(header["auth_key_ids"])
        elif what == "forget_key":
            self._store.auth_keys.forget(header["auth_key_id"])
            self._store.accounts.forget(header["auth_key_id"])
            self._hub.forget_key(header["auth_key_id"])

    async def _on_control_gone(self, header: Header, body: bytes) -> None:
        """Looks who lives: whoever buried a node says that the registry has changed."""
        self._trusted.discard(header["node"])
        if header["node"] in self._peers:
            await self._beat()

    async def _on_control_log_out(self, header: Header, body: bytes) -> None:
        await self._on_told({"what": "log_out", "auth_key_ids": header["auth_key_ids"]}, b"")
