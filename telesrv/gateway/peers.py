"""The other serving processes: who lives, who hangs, and this one's number and sign of life among them.

Guarantees:
- A node that joins is known to every living one when `start` returns; one that dies is told to
  *on_gone* within `ALIVE_S` and a beat, or twice that when Redis has lost the signs of life.
- A node that was silent for longer than that, or whose sign of life Redis lost, learns it itself and has
  *on_away* make good what passed it by.
- A node that does not answer is asked nothing more until it is heard again, is dead, or has had time to
  recover: one that hangs holds up one question, not all.

Concurrency: one event loop. Lifecycle: `start` (bus, sign of life, greeting), `rest` (no more sign of life),
`leave` (a farewell, so that the others need not wait), `stop`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

import structlog

from telesrv import metrics
from telesrv.clock import Clock
from telesrv.domain.errors import Unavailable
from telesrv.gateway.bus import Bus, Header
from telesrv.store.nodes import LeaseLost, NodeLease
from telesrv.store.redis import Redis
from telesrv.store.session_registry import ALIVE_S, BEAT_S, Beat, SessionRegistry

log = structlog.get_logger(__name__)

_FRESH_S: Final = 2.5 * BEAT_S
"""How old the list of living nodes may be when it decides that nobody else needs a push."""
_ANSWER_S: Final = 2.0
"""How long another process may take to say that it took something."""
_BYE_S: Final = 0.5
"""How long the others have to note that this process leaves."""


class NodeSilent(Exception):
    """A node that is not known to be dead did not answer."""


class Peers:
    """The living nodes but this one, and how to ask them."""

    def __init__(
        self,
        redis: Redis,
        registry: SessionRegistry,
        lease: NodeLease,
        clock: Clock,
        *,
        load: Callable[[], tuple[int, int]],
        on_gone: Callable[[int], None],
        on_away: Callable[[], Coroutine[Any, Any, None]],
        on_lease_lost: Callable[[], None],
    ) -> None:
        """Nothing is opened yet.

        Args:
            redis: the connections of the bus.
            registry: where nodes show that they live.
            lease: this node's number.
            clock: the time.
            load: returns how many connections and sessions this node has.
            on_gone: told of each node that lives no more.
            on_away: told when something may have passed this node by; may raise Unavailable.
            on_lease_lost: told when the number is another's: this process must end.
        """
        self._registry = registry
        self._lease = lease
        self._clock = clock
        self._load = load
        self._on_gone = on_gone
        self._on_away = on_away
        self._on_lease_lost = on_lease_lost
        self.bus = Bus(redis, lease.node, on_heard=self._on_heard, on_gap=self._on_gap)
        """Where kinds of messages get their handlers, before `start`."""
        self._living: set[int] = set()
        self._trusted: set[int] = set()
        self._trusted_until = float("-inf")
        self._beaten_at = float("-inf")
        self._suspects: dict[int, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.number_lost = False
        """Whether the number is another's by now."""

    @property
    def number(self) -> int:
        """This node's number."""
        return self._lease.node

    def holds_number(self) -> bool:
        """Tells whether the number is certainly this process's own now."""
        return self._lease.valid()

    # Lifecycle

    async def start(self) -> None:
        """Joins the others; when it returns, every living one knows of this node.

        Raises:
            Unavailable: Redis is away.
        """
        self.bus.on("hello", self._on_hello)
        self.bus.on("bye", self._on_bye)
        self.bus.on("control:gone", self._on_control_gone)
        await self.bus.start()
        await self._beat()
        await self.bus.broadcast(self._living, "hello", {}, timeout_s=_ANSWER_S)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep_beating()), loop.create_task(self._keep_lease())]

    async def rest(self) -> None:
        """Ends the sign of life and the renewing; the bus stays until `stop`."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def leave(self) -> None:
        """Has the others count this node no more.

        Raises:
            Unavailable: Redis is away; they find out by themselves.
        """
        await self._registry.leave(self.number, self._lease.holder)
        await self.bus.broadcast(self._living, "bye", {}, timeout_s=_BYE_S)

    async def stop(self) -> None:
        """Gives the number back and closes the bus."""
        try:
            await self._lease.release()
        except Unavailable as error:
            log.warning("the node number is free when its lease ends", problem=str(error))
        finally:
            await self.bus.stop()

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                await self._beat()
            except Unavailable as error:
                log.warning("this node could not show that it lives", problem=str(error))
            except Exception:
                log.exception("showing that this node lives failed; it goes on")

    async def _beat(self) -> None:
        """Shows that this node lives; finds out who else does, and whether it was away for too long
        itself."""
        now = self._clock.monotonic()
        silent_s = now - self._beaten_at
        found, living = await self._registry.beat(self.number, self._lease.holder)
        if found is Beat.LOST:
            # The others are not entered again yet, and are there.
            self._trusted, self._trusted_until = set(self._living), now + ALIVE_S
        if now < self._trusted_until:
            living = living | self._trusted
        gone, self._living = self._living - living, living
        self._suspects = {n: until for n, until in self._suspects.items() if until > now and n in living}
        self.bus.expect_nothing(gone)
        for node in gone:
            self._on_gone(node)
        first = self._beaten_at == float("-inf")
        self._beaten_at = self._clock.monotonic()
        if not first and (found is Beat.LOST or silent_s > ALIVE_S):
            log.warning("this node was away from the others", silent_s=round(silent_s, 1), found=found.value)
            await self._on_away()

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(self._lease.renew_s)
            connections, sessions = self._load()
            metrics.CONNECTIONS.set(connections)
            metrics.SESSIONS.set(sessions)
            try:
                await self._lease.renew(connections, sessions)
            except LeaseLost as error:
                log.error("this process must end: its node number is another's", problem=str(error))
                self.number_lost = True
                self._on_lease_lost()
                return
            except Unavailable as error:
                log.warning(
                    "the node number could not be renewed", problem=str(error), valid=self._lease.valid()
                )
            except Exception:
                log.exception("renewing the node number failed; it goes on")

    # Who is there

    async def living(self) -> set[int]:
        """Returns the other living nodes, as of now or a moment ago.

        Raises:
            Unavailable: it cannot be known now.
        """
        if self._clock.monotonic() - self._beaten_at > _FRESH_S:
            await self._beat()
        return self._living

    def _on_heard(self, node: int) -> None:
        """Trusts a node again that was silent: what it did not answer in time, it answers late."""
        self._suspects.pop(node, None)

    async def _on_gap(self) -> None:
        """Makes good what the bus did not bring while it was away."""
        try:
            await self._on_away()
        except Unavailable as error:
            # It is away again; there will be another gap.
            log.warning("this node could not make good a gap", problem=str(error))

    async def _on_hello(self, header: Header, body: bytes) -> None:
        self._living.add(header["from"])

    async def _on_bye(self, header: Header, body: bytes) -> None:
        self._living.discard(header["from"])
        self._trusted.discard(header["from"])
        self.bus.expect_nothing([header["from"]])

    async def _on_control_gone(self, header: Header, body: bytes) -> None:
        """Looks who lives: whoever buried a node says that the registry has changed."""
        self._trusted.discard(header["node"])
        if header["node"] in self._living:
            await self._beat()

    # Asking

    def hangs(self, node: int) -> bool:
        """Tells whether the node lately did not answer, and has not been heard since."""
        return node in self._suspects

    async def ask(
        self, node: int, kind: str, header: Header, body: bytes = b"", *, timeout_s: float = _ANSWER_S
    ) -> tuple[Header, bytes] | None:
        """Returns the answer of a node; None when it is dead.

        Raises:
            NodeSilent: it hangs, or did not answer in time.
            Unavailable: Redis is away.
        """
        if self.hangs(node):
            raise NodeSilent(f"node {node} hangs")
        answer = await self.bus.request(node, kind, header, body, timeout_s=timeout_s)
        if answer is None and self._was_silent(node):
            raise NodeSilent(f"node {node} did not answer")
        return answer

    async def tell_all(self, kind: str, header: Header) -> None:
        """Returns when every living node has handled the message, or hangs: then it forgets what it knew when
        it comes back.

        Raises:
            Unavailable: Redis is away.
        """
        await self.tell(await self.living(), kind, header)

    async def tell(self, nodes: Collection[int], kind: str, header: Header) -> None:
        """Tells some nodes only; as `tell_all`."""
        for node in set(nodes) - await self.bus.broadcast(nodes, kind, header, timeout_s=_ANSWER_S):
            self._was_silent(node)

    def _was_silent(self, node: int) -> bool:
        """Asks a node that was silent nothing more until it is dead for the registry, or has had time to
        recover; False when it is dead already."""
        if node not in self._living:
            return False
        log.warning("another node did not answer", node=node)
        self._suspects[node] = self._clock.monotonic() + ALIVE_S
        return True
