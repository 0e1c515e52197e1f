"""One session: its protocol machine, its running requests, and the link that carries it now.

Guarantees: a request is executed once, however often its packet arrives; requests start in the order they
came; a request that must be ordered (a send, or one wrapped in invokeAfterMsg) ends after the one it
follows. Concurrency: all on the event loop's thread; one task per running request, at most
`GatewayLimits.max_inflight_rpcs`. Lifecycle: made by the first message of the session, detached when its
link drops, forgotten by the hub after `detached_ttl_s`. Requests that run when the link drops are finished;
their answers wait for the client.

*Spec: Mobile Protocol: Detailed Description; Invoking API methods*
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import structlog

from telesrv import tl
from telesrv.clock import Clock
from telesrv.domain.errors import Unavailable
from telesrv.gateway.hub import EncodedUpdate
from telesrv.gateway.limits import GatewayLimits
from telesrv.mtproto.session import (
    DestroyAuthKey,
    DestroySession,
    Envelope,
    PingDelayDisconnect,
    QuickAck,
    Request,
    Session,
)
from telesrv.rpc import Call, Caller, Dispatcher
from telesrv.tl import mt, types

if TYPE_CHECKING:
    from telesrv.gateway.hub import SessionHub
    from telesrv.gateway.node import Node
    from telesrv.mtproto.session import Event

log = structlog.get_logger(__name__)

_UPDATES_TOO_LONG = EncodedUpdate(types.UpdatesTooLong())


class Link(Protocol):
    """What a session needs of the connection that carries it."""

    @property
    def is_media(self) -> bool:
        """Whether the client opened it for files only."""

    def write_payloads(self, payloads: list[bytes]) -> None:
        """Frames and writes; coalesced into one write."""

    def write_quick_ack(self, token: int) -> None:
        """Tells the client that its packet arrived."""

    def close_soon(self) -> None:
        """Closes after what is written has left."""

    def disconnect_after(self, delay_s: float) -> None:
        """Closes unless the client is heard of within *delay_s*."""


class SessionActor:
    """Owns one (auth_key_id, session_id)."""

    __slots__ = (
        "_call_tasks",
        "_clock",
        "_dispatcher",
        "_flush_scheduled",
        "_hub",
        "_last_ordered",
        "_limits",
        "_link",
        "_loop",
        "_marking",
        "_node",
        "_outcomes",
        "_over",
        "_room",
        "_session",
        "_timer",
        "caller",
        "detached_since",
        "identified",
        "indexed_user_id",
        "marked",
        "session_id",
        "takes_updates",
        "wire_key_id",
    )

    def __init__(
        self,
        session: Session,
        caller: Caller,
        *,
        wire_key_id: int,
        dispatcher: Dispatcher,
        hub: SessionHub,
        node: Node,
        limits: GatewayLimits,
        clock: Clock,
    ) -> None:
        self.wire_key_id = wire_key_id
        """The id of the key the packets are encrypted with: temporary under PFS."""
        self.session_id = session.session_id
        self.caller = caller
        self.identified = False
        """Whether `caller.user_id` was looked up since the key was made or bound."""
        self.indexed_user_id: int | None = None
        self.takes_updates = False
        self.detached_since: float | None = clock.monotonic()
        self.marked = 0
        """msg_ids up to this one may be executed: so it is noted where the next process would look."""
        self._session = session
        self._dispatcher = dispatcher
        self._hub = hub
        self._node = node
        self._marking = asyncio.Lock()
        self._limits = limits
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._flush_scheduled = False
        self._over = False
        self._timer: asyncio.TimerHandle | None = None
        self._call_tasks: dict[int, asyncio.Task[bool]] = {}
        self._outcomes: OrderedDict[int, bool] = OrderedDict()
        self._last_ordered: asyncio.Task[bool] | None = None
        self._room = asyncio.Event()
        self._room.set()

    # The link

    def attach_connection(self, link: Link) -> None:
        """Makes *link* the one that carries the session; what was not acknowledged is sent again."""
        if self._link is link:
            return
        self._link = link
        self.detached_since = None
        self._session.connection_opened(self._clock.time())
        if self._session.lost_updates:
            self._session.lost_updates = False
            self.push_too_long()
        self._schedule_flush()

    def detach_connection(self, link: Link | None = None, *, close: bool = False) -> None:
        """Lets go of the link (only if it is still *link*, when given)."""
        if self._link is None or (link is not None and self._link is not link):
            return
        if close:
            self._link.close_soon()
        self._link = None
        self.detached_since = self._clock.monotonic()
        self._session.connection_lost(self._clock.time())
        self._cancel_timer()

    def stop(self) -> None:
        """Ends the session here: nothing is sent, taken or begun any more; what runs is finished.

        It is not cancelled: in the middle of a transaction that would leave holes in the logs of others,
        whose pushes would wait until they are filled.
        """
        self._over = True
        self._link = None
        self._cancel_timer()

    # For the next owner

    def export_state(self) -> bytes:
        """Returns the protocol state of the session, which is over here."""
        return self._session.export_state()

    @property
    def outcomes(self) -> list[tuple[int, bool]]:
        """The latest finished requests, as (msg_id, whether it succeeded), the oldest first."""
        return list(self._outcomes.items())

    def restore_outcomes(self, outcomes: Iterable[tuple[int, bool]]) -> None:
        """Takes over what another process has finished."""
        self._outcomes = OrderedDict((msg_id, ok) for msg_id, ok in outcomes)

    @property
    def running(self) -> list[asyncio.Task[bool]]:
        """The requests under way."""
        return list(self._call_tasks.values())

    # Inbound

    async def receive(self, envelope: Envelope, link: Link, *, quick_ack: bool) -> None:
        """Takes one decrypted packet; waits while too many requests are running.

        Raises:
            ProtocolError: the packet breaks the protocol in a way that has no answer.
        """
        await self._room.wait()
        if self._over:
            # It went elsewhere while the packet waited; the client sends it again there.
            link.close_soon()
            return
        now = self._clock.time()
        # A packet that somebody recorded and replays must not draw the session to his link.
        own = self._link is None or self._link is link or self._session.is_fresh(envelope, now)
        if own:
            self.attach_connection(link)
        else:
            self._flush()
        events = self._session.receive(envelope, now, quick_ack=quick_ack)
        for event in events:
            self._handle(event, link)
        if own:
            self._schedule_flush()
        elif payloads := self._session.flush(now):
            link.write_payloads(payloads)

    def _handle(self, event: Event, link: Link) -> None:
        if isinstance(event, Request):
            self._start(event, link)
        elif isinstance(event, QuickAck):
            link.write_quick_ack(event.token)
        elif isinstance(event, PingDelayDisconnect):
            link.disconnect_after(event.delay_s)
        elif isinstance(event, DestroySession):
            if event.req_msg_id not in self._call_tasks:
                self._spawn(event.req_msg_id, self._destroy_session(event))
        elif isinstance(event, DestroyAuthKey):
            self._spawn(event.msg_id, self._destroy_auth_key(event.msg_id))

    def _start(self, request: Request, link: Link) -> None:
        call = self._dispatcher.parse(request.body)
        call.msg_id = request.msg_id
        if not (call.without_updates or link.is_media):
            self.takes_updates = True
        after = tuple(task for msg_id in call.after if (task := self._call_tasks.get(msg_id)) is not None)
        ordered = call.ordered
        if ordered and self._last_ordered is not None and not self._last_ordered.done():
            after = (*after, self._last_ordered)
        failed = any(self._outcomes.get(msg_id) is False for msg_id in call.after)
        task = self._spawn(request.msg_id, self._execute(request.msg_id, call, after, failed=failed))
        if ordered:
            self._last_ordered = task

    def _spawn(self, msg_id: int, work: asyncio._CoroutineLike[bool]) -> asyncio.Task[bool]:
        task = self._loop.create_task(work)
        self._call_tasks[msg_id] = task
        if len(self._call_tasks) >= self._limits.max_inflight_rpcs:
            self._room.clear()
        task.add_done_callback(lambda done: self._finished(msg_id, done))
        return task

    def _finished(self, msg_id: int, task: asyncio.Task[bool]) -> None:
        self._call_tasks.pop(msg_id, None)
        if len(self._call_tasks) < self._limits.max_inflight_rpcs:
            self._room.set()
        succeeded = False
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                log.error("request task failed", exc_info=error)
            else:
                succeeded = task.result()
        self._outcomes[msg_id] = succeeded
        while len(self._outcomes) > self._limits.remembered_outcomes:
            self._outcomes.popitem(last=False)

    async def _execute(
        self, msg_id: int, call: Call, after: tuple[asyncio.Task[bool], ...], *, failed: bool
    ) -> bool:
        """Runs one request and queues its answer; tells whether it succeeded."""
        if after:
            await asyncio.wait(after)
            failed = failed or any(self._outcomes.get(m) is False for m in call.after)
        if failed:
            error = mt.RpcError(error_code=400, error_message="MSG_WAIT_FAILED")
            self._answer(msg_id, tl.write(error, self.caller.layer))
            return False
        caller = self.caller
        if not self.identified:
            self.identified = await self._dispatcher.identify(caller)
        if not call.repeatable and msg_id > self.marked:
            try:
                if not await self._mark(msg_id):
                    return False
            except Unavailable:
                self._answer(msg_id, self._dispatcher.unavailable())
                return False
        if self._over:
            return False
        outcome = await self._dispatcher.execute(call, caller)
        self._answer(msg_id, outcome.body)
        return outcome.ok

    async def _mark(self, msg_id: int) -> bool:
        """Has it noted that *msg_id* is executed; False when the session is another process's by now."""
        async with self._marking:
            if msg_id > self.marked:
                if not await self._node.mark(self, msg_id):
                    return False
                self.marked = msg_id
        return True

    def _answer(self, msg_id: int, body: bytes) -> None:
        self._session.send_result(msg_id, body, self._clock.time())
        self._schedule_flush()

    async def _destroy_session(self, event: DestroySession) -> bool:
        try:
            destroyed = await self._node.destroy_session(self.wire_key_id, event.session_id)
        except Unavailable:
            return False  # without an answer the client asks again
        self._session.answer_destroy_session(
            event.req_msg_id, event.session_id, destroyed, self._clock.time()
        )
        self._schedule_flush()
        return destroyed

    async def _destroy_auth_key(self, msg_id: int) -> bool:
        try:
            destroyed = await self._dispatcher.destroy_auth_key(self.caller)
        except Unavailable:
            destroyed = False
        self._session.answer_destroy_auth_key(msg_id, destroyed, self._clock.time())
        if destroyed:
            self._flush()
            await self._node.forget_key(self.wire_key_id)
        return destroyed

    # Outbound

    def push(self, body: bytes) -> None:
        """Queues one update; it is sent again until the client acknowledged it."""
        self._session.send_update(body, self._clock.time())
        self._schedule_flush()

    def push_passing(self, body: bytes) -> None:
        """Sends one update over the link that there is now, or not at all."""
        self._session.send_passing(body, self._clock.time())
        self._schedule_flush()

    def push_too_long(self) -> None:
        """Has the client ask for the difference."""
        self.push(_UPDATES_TOO_LONG.for_layer(self.caller.layer))

    def forget_updates(self) -> None:
        """Drops the updates that were not acknowledged: the account they speak of is gone from here."""
        self._session.drop_updates()

    def _schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        link = self._link
        if link is None:
            return
        now = self._clock.time()
        payloads = self._session.flush(now)
        if payloads:
            link.write_payloads(payloads)
        self._cancel_timer()
        wakeup = self._session.next_wakeup(now)
        if wakeup is not None and self._link is not None:
            self._timer = self._loop.call_later(max(0.0, wakeup - now), self._flush)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
