"""Which sessions are this process's, how they come here, and how they go elsewhere.

Guarantees:
- A session is in one process at a time. One that moves takes everything along: the msg_id window, the stored
  answers, what was not acknowledged. Requests that run are waited for, within a bound, before it moves.
- A session that moved misses no update: its new owner is entered as a holder of the account before it asks
  for the session, and pushes what is in the log beyond what the former owner had been given.
- What the former owner cannot give (it hangs or is dead) begins anew above the mark of what was executed.

Concurrency: one event loop; one adoption and one departure of a session at a time. Lifecycle: `leave` is the
end: from then on no session is taken.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from telesrv.clock import Clock
from telesrv.domain.errors import Unavailable
from telesrv.domain.updates import Pushed
from telesrv.domain.users import AuthKeyRecord, ClientInfo
from telesrv.gateway.bus import Header
from telesrv.gateway.holders import Holders
from telesrv.gateway.hub import EncodedUpdate, SessionHub
from telesrv.gateway.limits import GatewayLimits
from telesrv.gateway.peers import NodeSilent, Peers
from telesrv.gateway.session_actor import SessionActor
from telesrv.mtproto.crypto import AuthKey
from telesrv.mtproto.salts import SaltSchedule
from telesrv.mtproto.session import Session, SessionLimits
from telesrv.rpc import Caller
from telesrv.rpc.pushes import PushBuilder
from telesrv.store import Store

if TYPE_CHECKING:
    from telesrv.gateway.node import Node

log = structlog.get_logger(__name__)

_HANDOVER_S: Final = 3.0
"""How long the owner of a session may take to hand it over."""
_RUNNING_S: Final = 2.0
"""How long a session that moves waits for its running requests."""
_FETCH_S: Final = 1.0
"""How long a process that leaves waits for those who have asked for its sessions already."""
_FIRST_SALT_S: Final = 1800
"""How long the salt of the key exchange is good: as long as any other."""
_USERS_AT_ONCE: Final = 500

_Name = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Packed:
    """A session on its way, and how far its account's log had been pushed to it."""

    header: dict[str, Any]
    state: bytes

    @classmethod
    def parse(cls, data: bytes) -> _Packed:
        """Returns what `_pack` made.

        Raises:
            ValueError: it is something else.
        """
        size = int.from_bytes(data[:4], "big")
        header = json.loads(data[4 : 4 + size])
        if not isinstance(header, dict):
            raise ValueError("a packed session without a header")
        return cls(header, data[4 + size :])


class Ownership:
    """The sessions of this process as the others see them."""

    def __init__(
        self,
        node: Node,
        peers: Peers,
        holders: Holders,
        store: Store,
        hub: SessionHub,
        *,
        limits: GatewayLimits,
        session_limits: SessionLimits,
        clock: Clock,
    ) -> None:
        self._node = node
        self._peers = peers
        self._holders = holders
        self._store = store
        self._hub = hub
        self._limits = limits
        self._session_limits = session_limits
        self._clock = clock
        self._registry = store.sessions
        self._builder = PushBuilder(store)
        self._adopting: dict[_Name, asyncio.Task[SessionActor]] = {}
        self._departing: dict[_Name, asyncio.Future[None]] = {}
        self._given: set[_Name] = set()
        self._fetched = asyncio.Event()
        self._leaving = False

    # Coming

    async def session(
        self, auth_key: AuthKey, record: AuthKeyRecord, session_id: int, ip: str
    ) -> SessionActor:
        """Returns the session: the one here, one taken over from where it was, or a new one.

        Raises:
            Unavailable: it cannot be known now whether another process has it, or this one is leaving.
        """
        name = (auth_key.id, session_id)
        while (departing := self._departing.get(name)) is not None:
            await asyncio.shield(departing)
        if self._leaving:
            raise Unavailable("a process that ends")
        task = self._adopting.get(name)
        if task is None:
            actor = self._hub.find(*name)
            if actor is not None:
                return actor
            task = asyncio.get_running_loop().create_task(self._adopt(auth_key, record, session_id, ip))
            self._adopting[name] = task
            task.add_done_callback(lambda _: self._adopting.pop(name, None))
        return await asyncio.shield(task)

    async def _adopt(
        self, auth_key: AuthKey, record: AuthKeyRecord, session_id: int, ip: str
    ) -> SessionActor:
        dispatcher = self._node.require_dispatcher()
        # The connection's copy may be from before the key was bound.
        record = await dispatcher.auth_key(auth_key.id) or record
        claim = await self._registry.claim(self._peers.number, auth_key.id, session_id)
        packed = claim.state
        if packed is None and claim.owner not in (None, self._peers.number):
            await self._expect_updates(record)
            packed = await self._ask(claim.owner, auth_key.id, session_id)
        caller = self._caller(auth_key, record, session_id, ip)
        actor = None
        if packed:
            actor = await self._restore(auth_key, record, caller, packed)
        if actor is None:
            salts = self._salts(auth_key, record)
            session = Session(
                auth_key, session_id, salts, os.urandom, self._session_limits, min_msg_id=claim.mark
            )
            actor = self._actor(session, caller, auth_key.id)
            self._hub.add(actor)
        actor.marked = claim.mark
        return actor

    async def _expect_updates(self, record: AuthKeyRecord) -> None:
        """Has pushes of the account come here, before it is asked how far the former owner got them."""
        perm_id = record.perm_auth_key_id
        if perm_id is None and record.expires_at is not None:
            return
        authorization = await self._store.accounts.authorization(perm_id or record.auth_key_id)
        if authorization is not None:
            await self._holders.enter(authorization.user_id)

    async def _ask(self, owner: int | None, auth_key_id: int, session_id: int) -> bytes | None:
        """Returns the session as its owner gives it; None when it is dead, hangs, or has it no more."""
        assert owner is not None
        header = {"auth_key_id": auth_key_id, "session_id": session_id}
        if owner not in await self._peers.living():
            return None
        if self._peers.hangs(owner):
            # When it comes to itself, it lets go of the session.
            await self._peers.bus.send(owner, "handover", header)
            return None
        try:
            answer = await self._peers.ask(owner, "handover", header, timeout_s=_HANDOVER_S)
        except NodeSilent:
            return None
        return None if answer is None else answer[1] or None

    async def _restore(
        self, auth_key: AuthKey, record: AuthKeyRecord, caller: Caller, data: bytes
    ) -> SessionActor | None:
        """Returns the session as its former owner left it, or None when that cannot be read."""
        try:
            packed = _Packed.parse(data)
            header = packed.header
            session = Session.import_state(
                auth_key, packed.state, self._salts(auth_key, record), os.urandom, self._session_limits
            )
            caller.layer = header["layer"]
            caller.client = ClientInfo(**header["client"])
            caller.user_id = header["user_id"]
            actor = self._actor(session, caller, auth_key.id)
            actor.takes_updates = header["takes_updates"]
            actor.restore_outcomes(header["outcomes"])
            pushed, own = header["pushed"], frozenset(header["own"])
        except (ValueError, KeyError, TypeError) as error:
            log.warning("a handed-over session cannot be read", problem=str(error))
            return None
        self._hub.add(actor)
        user_id = caller.user_id
        if user_id is not None:
            # Whose key it is may have changed on the way; then the updates that it brought are forgotten.
            actor.identified = await self._node.require_dispatcher().identify(caller)
            await self._holders.enter(user_id)
        if actor.takes_updates and user_id is not None and caller.user_id == user_id:
            await self._push_missed(actor, user_id, pushed, own)
        return actor

    async def _push_missed(
        self, actor: SessionActor, user_id: int, pushed: int | None, own: frozenset[int]
    ) -> None:
        """Gives the session what was pushed to the account while it was on its way."""
        try:
            items = None if pushed is None else await self._store.updates.missed(user_id, pushed)
            pushes = None if items is None else await self._builder.build(user_id, items)
        except Unavailable:
            pushes = None
        if pushes is None:
            actor.push_too_long()
            return
        for push in pushes:
            if push.pts not in own:
                actor.push(EncodedUpdate(push.update).for_layer(actor.caller.layer))

    def _salts(self, auth_key: AuthKey, record: AuthKeyRecord) -> SaltSchedule:
        return SaltSchedule(
            self._store.secret,
            auth_key.id,
            first_salt=record.first_salt or None,
            first_salt_until=record.created_at + _FIRST_SALT_S,
        )

    def _caller(self, auth_key: AuthKey, record: AuthKeyRecord, session_id: int, ip: str) -> Caller:
        perm_id = record.perm_auth_key_id
        return Caller(
            auth_key_id=perm_id if perm_id is not None else auth_key.id,
            temp_auth_key_id=auth_key.id if record.expires_at is not None else None,
            session_id=session_id,
            layer=record.layer,
            client=record.client,
            ip=ip,
            dc_id=record.dc_id,
        )

    def _actor(self, session: Session, caller: Caller, auth_key_id: int) -> SessionActor:
        return SessionActor(
            session,
            caller,
            wire_key_id=auth_key_id,
            dispatcher=self._node.require_dispatcher(),
            hub=self._hub,
            node=self._node,
            limits=self._limits,
            clock=self._clock,
        )

    # Going

    async def on_handover(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        """Gives a session to the process that has claimed it; empty when it is not here."""
        name = (header["auth_key_id"], header["session_id"])
        adopting = self._adopting.get(name)
        if adopting is not None:
            await asyncio.wait([adopting])
        actor = self._hub.find(*name)
        if actor is None:
            return {}, b""
        if self._leaving:
            await self._quiet([actor])
            (packed,) = await self._pack([actor])
            self._hub.remove(actor)
            self._given.add(name)
            self._fetched.set()
            return {}, packed
        (owner,) = await self._registry.owners([name])
        if owner == self._peers.number or name in self._departing:
            # Whoever asked was slow, or hung: the session has come back since.
            return {}, b""
        departing = self._departing[name] = asyncio.get_running_loop().create_future()
        try:
            actor.detach_connection(close=True)
            await self._quiet([actor])
            (packed,) = await self._pack([actor])
            self._hub.remove(actor)
        finally:
            del self._departing[name]
            departing.set_result(None)
        return {}, packed

    async def destroy(self, auth_key_id: int, session_id: int) -> bool:
        """Ends a session in whatever process it is; False when there is none.

        It is claimed as if its client had come here, and what its owner gives is thrown away. The mark of
        what it has executed stays: no recorded packet of it is executed afterwards.

        Raises:
            Unavailable: it cannot be known now whether another process has it.
        """
        name = (auth_key_id, session_id)
        while (departing := self._departing.get(name)) is not None:
            await asyncio.shield(departing)
        if (adopting := self._adopting.get(name)) is not None:
            await asyncio.wait([adopting])
        if (actor := self._hub.find(*name)) is not None:
            self._drop(actor)
            return True
        if await self._registry.owners([name]) == [None]:
            return False
        claim = await self._registry.claim(self._peers.number, *name)
        if claim.state is not None:
            return True
        return claim.owner != self._peers.number and await self._ask(claim.owner, *name) is not None

    async def leave(self) -> None:
        """Lets every session go to where its client comes back to.

        Raises:
            Unavailable: Redis is away; they begin anew.
        """
        self._leaving = True
        if self._adopting:
            await asyncio.wait(self._adopting.values(), timeout=_FETCH_S)
        for actor in self._hub:
            actor.detach_connection(close=True)
        await self._quiet(list(self._hub))
        actors = list(self._hub)
        states = await self._pack(actors)
        claimed = await self._registry.leave_state(
            self._peers.number,
            [(a.wire_key_id, a.session_id, a.marked, s) for a, s in zip(actors, states, strict=True)],
        )
        try:
            async with asyncio.timeout(_FETCH_S):
                while not self._given.issuperset(claimed):
                    self._fetched.clear()
                    await self._fetched.wait()
        except TimeoutError:
            log.warning("sessions were claimed and not fetched", count=len(claimed))

    async def drop_foreign(self) -> None:
        """Forgets sessions that another node owns by now, and keeps the others entered."""
        actors = [a for a in self._hub if (a.wire_key_id, a.session_id) not in self._departing]
        owners = await self._registry.owners([(a.wire_key_id, a.session_id) for a in actors])
        own = []
        for actor, owner in zip(actors, owners, strict=True):
            if owner is not None and owner != self._peers.number:
                self._drop(actor)
            else:
                own.append((actor.wire_key_id, actor.session_id, actor.marked))
        await self._registry.prolong(self._peers.number, own)

    async def mark(self, actor: SessionActor, msg_id: int) -> bool:
        """Notes durably that msg_ids of the session up to *msg_id* may be executed.

        Returns False, and has forgotten the session, when another node owns it: nothing of it may run here.

        Raises:
            Unavailable: Redis is away, or this process may have lost its number.
        """
        if not self._peers.holds_number():
            raise Unavailable("the node number")
        if await self._registry.mark(self._peers.number, actor.wire_key_id, actor.session_id, msg_id):
            return True
        self._drop(actor)
        return False

    def _drop(self, actor: SessionActor) -> None:
        actor.detach_connection(close=True)
        self._hub.remove(actor)

    async def _quiet(self, actors: list[SessionActor]) -> None:
        """Waits for the running requests of sessions that get no new ones."""
        running = [task for actor in actors for task in actor.running]
        if running:
            await asyncio.wait(running, timeout=_RUNNING_S)

    async def _pack(self, actors: list[SessionActor]) -> list[bytes]:
        """Returns the sessions as bytes for their next owner.

        How far their accounts were pushed is asked first: what comes in meanwhile is in both, never in none.
        """
        users = sorted({a.caller.user_id for a in actors if a.caller.user_id is not None and a.takes_updates})
        pushed: dict[int, Pushed] = {}
        try:
            for start in range(0, len(users), _USERS_AT_ONCE):
                pushed |= await self._store.updates.pushed(users[start : start + _USERS_AT_ONCE])
        except Unavailable as error:
            log.warning("clients of moved sessions ask for the difference", problem=str(error))
        return [_pack(actor, pushed.get(actor.caller.user_id or 0)) for actor in actors]


def _pack(actor: SessionActor, pushed: Pushed | None) -> bytes:
    caller = actor.caller
    client = caller.client
    own = () if pushed is None else pushed.own.get(caller.origin, ())
    header = json.dumps(
        {
            "layer": caller.layer,
            "client": {name: getattr(client, name) for name in client.__slots__},
            "user_id": caller.user_id,
            "takes_updates": actor.takes_updates,
            "outcomes": actor.outcomes,
            "pushed": None if pushed is None else pushed.pts,
            "own": list(own),
        }
    ).encode()
    return len(header).to_bytes(4, "big") + header + actor.export_state()
