"""What this process does for the others' accounts and they for its: pushes, and control over sessions.

Guarantees:
- A session has one owner. A client that reconnects to another process is handed over with its msg_id window
  and what it did not acknowledge, when the owner lives; when it does not, the session begins anew above the
  mark of what it has executed (`gateway/ownership.py`).
- A push counts as delivered when every living process that holds sessions of the account has taken it.
- What is told to sessions (log-in, log-out, a bound key) reaches those of every process before the call that
  caused it is answered, or within `ALIVE_S` those of a process that hangs: it forgets what it knew when it
  comes back.
- Redis losing its data costs a difference, not a message.

Concurrency: one event loop. Lifecycle: `start` (joins the others), `stop` (hands every session over).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

import structlog

from telesrv import tl
from telesrv.clock import Clock
from telesrv.domain.errors import Unavailable
from telesrv.domain.users import AuthKeyRecord
from telesrv.gateway.bus import Header
from telesrv.gateway.holders import Holders
from telesrv.gateway.hub import EncodedUpdate, SessionHub
from telesrv.gateway.limits import GatewayLimits
from telesrv.gateway.ownership import Ownership
from telesrv.gateway.peers import Peers
from telesrv.gateway.session_actor import SessionActor
from telesrv.logs import Seldom
from telesrv.mtproto.crypto import AuthKey
from telesrv.mtproto.session import SessionLimits
from telesrv.rpc import Dispatcher
from telesrv.rpc.pushes import Push
from telesrv.store import Store
from telesrv.store.nodes import NodeLease
from telesrv.store.session_registry import BEAT_S
from telesrv.tl import types

log = structlog.get_logger(__name__)

_REFRESH_S: Final = 100.0
"""How often entries in the registry are prolonged: a third of how long they last."""


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
        self._clock = clock
        self._peers = Peers(
            store.redis,
            store.sessions,
            lease,
            clock,
            load=lambda: (connections(), len(hub)),
            on_gone=self._release_leases,
            on_away=self._come_back,
            on_lease_lost=on_lease_lost,
        )
        self._holders = Holders(self._peers, store.sessions, hub)
        self._sessions = Ownership(
            self,
            self._peers,
            self._holders,
            store,
            hub,
            limits=limits,
            session_limits=session_limits,
            clock=clock,
        )
        self._keeping: asyncio.Task[None] | None = None
        self._releasing: set[asyncio.Task[None]] = set()
        self._passed_by = Seldom(log, logging.INFO, "a passing update reached only this node")
        self._unknown = Seldom(log, logging.INFO, "who has sessions elsewhere is not known")
        self.dispatcher: Dispatcher | None = None
        """Set once it is made: it needs this node as its session control."""

    @property
    def number(self) -> int:
        """The node number."""
        return self._peers.number

    def require_dispatcher(self) -> Dispatcher:
        """The dispatcher, which is there once the process serves."""
        assert self.dispatcher is not None
        return self.dispatcher

    # Lifecycle

    async def start(self) -> None:
        """Joins the others; when it returns, every living one knows of this node.

        Raises:
            Unavailable: Redis is away.
        """
        bus = self._peers.bus
        bus.on("push", self._on_push, inline=True)
        bus.on("transient", self._on_transient, inline=True)
        bus.on("told", self._on_told)
        bus.on("handover", self._sessions.on_handover)
        bus.on("control:log_out", self._on_control_log_out)
        await self._peers.start()
        self._keeping = asyncio.get_running_loop().create_task(self._keep_entries())

    async def stop(self) -> None:
        """Hands every session over to whoever its client comes back to, and leaves."""
        await self._peers.rest()
        tasks = [*self._releasing, *([self._keeping] if self._keeping is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        try:
            if not self._peers.number_lost:
                await self._sessions.leave()
                await self._holders.leave()
                await self._peers.leave()
        except Unavailable as error:
            log.warning("sessions could not be handed over; their clients begin new ones", problem=str(error))
        finally:
            await self._peers.stop()

    async def _keep_entries(self) -> None:
        """Keeps what the registry says of this process true, and forgets what has ended."""
        refreshed_at = self._clock.monotonic()
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                self._store.presence.forget(await self._holders.drop_left())
                now = self._clock.monotonic()
                self._hub.expire_detached(now)
                if now - refreshed_at > _REFRESH_S:
                    refreshed_at = now
                    await self._holders.enter_all()
                    await self._sessions.drop_foreign()
                    await self._store.auth_keys.purge_expired(int(self._clock.time()))
            except Unavailable as error:
                log.warning("what this node holds could not be entered", problem=str(error))
            except Exception:
                log.exception("keeping the registry failed; it goes on")

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
        self._store.presence.forget_all()
        for actor in self._hub:
            actor.identified = False
        await self._holders.enter_all()
        await self._sessions.drop_foreign()
        self._hub.all_lost_updates()

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

    # Pushes

    async def remote_holders(self, user_ids: Sequence[int]) -> dict[int, set[int]]:
        """Returns the other living nodes that hold sessions of each account; empty when this node is alone.

        Raises:
            Unavailable: it cannot be known now.
        """
        return await self._holders.elsewhere(user_ids)

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
            NodeSilent: it did not say that it did, and is not known to be dead.
            Unavailable: Redis is away.
        """
        bodies = [tl.write(push.update) for _, push in pushes]
        header = {
            "pushes": [
                [user_id, push.exclude_auth_key_id, push.exclude_session_id, len(body)]
                for (user_id, push), body in zip(pushes, bodies, strict=True)
            ]
        }
        await self._peers.ask(node, "push", header, b"".join(bodies))

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
            await self._holders.enter(user_id)

    async def went_offline(self, user_id: int) -> None:
        """Has what the account does next be noted, where else it has sessions: a process in which it had some
        has forgotten it with the last one.
        """
        if nodes := (await self.remote_holders([user_id])).get(user_id):
            await self._peers.tell(nodes, "told", {"what": "offline", "user_id": user_id})

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
                await self._peers.bus.send(node, "transient", header, encoded.for_layer(tl.LAYER))
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
        await self._peers.tell_all("told", header)

    async def _on_told(self, header: Header, body: bytes) -> None:
        what = header["what"]
        if what == "bind":
            self._store.auth_keys.forget(header["temp"])
            self._hub.bind_temp_key(header["temp"], header["perm"])
        elif what == "logged_in":
            self._store.accounts.forget(header["auth_key_id"])
            self._hub.noticed(header["auth_key_id"], header["user_id"])
            if self._hub.has_sessions(header["user_id"]):
                await self._holders.enter(header["user_id"])
        elif what == "log_out":
            for auth_key_id in header["auth_key_ids"]:
                self._store.accounts.forget(auth_key_id)
            self._hub.log_out(header["auth_key_ids"])
        elif what == "offline":
            self._store.presence.forget([header["user_id"]])
        elif what == "forget_key":
            self._store.auth_keys.forget(header["auth_key_id"])
            self._store.accounts.forget(header["auth_key_id"])
            self._hub.forget_key(header["auth_key_id"])

    async def _on_control_log_out(self, header: Header, body: bytes) -> None:
        await self._on_told({"what": "log_out", "auth_key_ids": header["auth_key_ids"]}, b"")
