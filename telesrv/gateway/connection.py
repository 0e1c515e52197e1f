"""One TCP link: framing, key exchange, decryption, and the way to the session.

Guarantees: bytes are handled in the order they came; a packet that its key does not
authenticate is never answered, the link is closed; what was received and not handled is bounded (reading
pauses), what was sent and not taken is bounded (the link is closed). Concurrency: one task handles the
frames; writes go out once per turn of the loop.

*Spec: MTProto transports; Creating an Authorization Key; Security Guidelines for Client Developers*
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import structlog

from telesrv.clock import Clock
from telesrv.domain.errors import Unavailable
from telesrv.domain.users import AuthKeyRecord
from telesrv.gateway.hub import SessionHub
from telesrv.gateway.limits import GatewayLimits
from telesrv.gateway.node import Node
from telesrv.gateway.session_actor import SessionActor
from telesrv.mtproto.crypto import AuthKey
from telesrv.mtproto.errors import AUTH_KEY_NOT_FOUND, TransportError
from telesrv.mtproto.exchange import Compute, ExchangeEvent, KeyCreated, Send, ServerExchange
from telesrv.mtproto.rsa import RSAKey
from telesrv.mtproto.session import parse_envelope
from telesrv.mtproto.transport import Frame, ServerTransport
from telesrv.rpc import Dispatcher
from telesrv.tl.errors import ProtocolError

if TYPE_CHECKING:
    from telesrv.gateway.listener import Listener

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GatewayContext:
    """What every connection of a process shares."""

    dispatcher: Dispatcher
    hub: SessionHub
    node: Node
    limits: GatewayLimits
    clock: Clock
    rsa_keys: tuple[RSAKey, ...]
    proxy_secret: bytes | None
    executor: Executor
    computations: asyncio.Semaphore
    """Bounds the key exchanges that wait for a thread."""


class Connection(asyncio.Protocol):
    """The actor of one TCP link."""

    def __init__(self, context: GatewayContext, listener: Listener) -> None:
        self._context = context
        self._listener = listener
        self._framing = ServerTransport(context.proxy_secret, os.urandom)
        self._exchange: ServerExchange | None = None
        self._frames: deque[Frame] = deque()
        self._frames_ready = asyncio.Event()
        self._queued_bytes = 0
        self._reading_paused = False
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._actors: dict[SessionActor, None] = {}
        """The sessions it carries, the newest last."""
        self._keys: dict[int, tuple[AuthKey, AuthKeyRecord]] = {}
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_s = context.limits.idle_timeout_s
        self.authenticated = False
        self.ip = ""

    @property
    def is_media(self) -> bool:
        """Whether the client opened the link for files only (a negative DC id in the obfuscation header)."""
        return self._framing.is_media

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's own class, which does not derive from it
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.ip = peer[0] if peer else ""
        if not self._listener.admit(self):
            transport.abort()
            return
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run())
        self._arm(self._context.limits.handshake_timeout_s)

    def data_received(self, data: bytes) -> None:
        if self._task is None:
            return
        try:
            frames = self._framing.receive_data(data)
        except ProtocolError as error:
            self._refuse(error)
            return
        if self.authenticated:
            self._arm(self._deadline_s)
        if not frames:
            return
        self._frames.extend(frames)
        self._queued_bytes += sum(len(frame.payload) for frame in frames)
        self._frames_ready.set()
        if not self._reading_paused and self._queued_bytes > self._context.limits.inbound_high_bytes:
            self._reading_paused = True
            self._require_transport().pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.forget(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._task is not None:
            self._task.cancel()
            self._task = None
        for actor in self._actors:
            actor.detach_connection(self)
        self._actors.clear()
        self._frames.clear()

    # Link

    def write_payloads(self, payloads: list[bytes]) -> None:
        """Frames the payloads and hands them to the kernel in one write; closes a link that does not read."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.write(b"".join([self._framing.pack(payload) for payload in payloads]))
        if transport.get_write_buffer_size() > self._context.limits.max_outbound_bytes:
            self._listener.slow_readers.tell(ip=self.ip)
            transport.abort()

    def write_quick_ack(self, token: int) -> None:
        """Writes the 31-bit token of a packet that arrived."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._framing.pack_quick_ack(token))

    def close_soon(self) -> None:
        """Closes after what is written has left."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Closes at once."""
        if self._transport is not None:
            self._transport.abort()

    def disconnect_after(self, delay_s: float) -> None:
        """Closes unless the client sends something within *delay_s*, now and after each packet."""
        self._deadline_s = min(max(delay_s, 1.0), self._context.limits.idle_timeout_s)
        self._arm(self._deadline_s)

    def _arm(self, delay_s: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(delay_s, self.abort)

    def _require_transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    # Frames

    async def _run(self) -> None:
        try:
            while True:
                while not self._frames:
                    self._frames_ready.clear()
                    await self._frames_ready.wait()
                if self._require_transport().is_closing():
                    return  # the session that it carried has moved on
                frame = self._frames.popleft()
                self._queued_bytes -= len(frame.payload)
                if self._reading_paused and self._queued_bytes < self._context.limits.inbound_low_bytes:
                    self._reading_paused = False
                    self._require_transport().resume_reading()
                await self._handle_frame(frame)
        except ProtocolError as error:
            self._refuse(error)
        except Unavailable:
            # Nothing is known about the key now: a -404 would make the client throw it away.
            self.abort()
        except Exception:
            log.exception("connection failed", ip=self.ip)
            self.abort()

    def _refuse(self, error: ProtocolError) -> None:
        transport = self._transport
        if transport is None:
            return
        log.debug("protocol error", ip=self.ip, error=str(error), kind=type(error).__name__)
        if isinstance(error, TransportError) and not transport.is_closing():
            transport.write(self._framing.pack_error(error.code))
        self._frames.clear()
        transport.close()

    async def _handle_frame(self, frame: Frame) -> None:
        payload = frame.payload
        if len(payload) < 8:
            raise ProtocolError("a payload shorter than an auth_key_id")
        wire_key_id = int.from_bytes(payload[:8], "little", signed=True)
        if wire_key_id == 0:
            await self._handle_unencrypted(payload)
            return
        known = self._keys.get(wire_key_id)
        if known is None:
            known = await self._find_key(wire_key_id)
        auth_key, record = known
        now = self._context.clock.time()
        if record.expires_at is not None and record.expires_at <= now:
            raise TransportError(AUTH_KEY_NOT_FOUND)
        envelope = parse_envelope(auth_key, payload)
        if not self.authenticated:
            self.authenticated = True
            self._listener.authenticated(self)
            self._arm(self._deadline_s)
        actor = await self._context.node.session(auth_key, record, envelope.session_id, self.ip)
        actor.caller.ip = self.ip
        if actor not in self._actors:
            self._carry(actor)
        await actor.receive(envelope, self, quick_ack=frame.quick_ack)

    def _carry(self, actor: SessionActor) -> None:
        """Takes one more session; the oldest makes room."""
        self._actors[actor] = None
        if len(self._actors) > self._context.limits.max_sessions_per_link:
            oldest = next(iter(self._actors))
            del self._actors[oldest]
            oldest.detach_connection(self)

    async def _find_key(self, wire_key_id: int) -> tuple[AuthKey, AuthKeyRecord]:
        record = await self._context.dispatcher.auth_key(wire_key_id)
        if record is None:
            raise TransportError(AUTH_KEY_NOT_FOUND)
        if len(self._keys) >= 8:
            # A link carries one key, or two around a renewal; more is somebody probing.
            self._keys.clear()
        known = self._keys[wire_key_id] = (AuthKey(record.data), record)
        return known

    # Key exchange

    async def _handle_unencrypted(self, payload: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            exchange = self._exchange = ServerExchange(self._context.rsa_keys, os.urandom)
        events = deque(exchange.receive(payload, self._context.clock.time()))
        while events:
            events.extend(await self._exchange_step(exchange, events.popleft()))

    async def _exchange_step(self, exchange: ServerExchange, event: ExchangeEvent) -> list[ExchangeEvent]:
        context = self._context
        if isinstance(event, Send):
            self.write_payloads([event.payload])
            return []
        if isinstance(event, Compute):
            async with context.computations:
                result = await asyncio.get_running_loop().run_in_executor(context.executor, event.job)
            return exchange.computed(result, context.clock.time())
        assert isinstance(event, KeyCreated)
        now = context.clock.time()
        record = AuthKeyRecord(
            auth_key_id=event.auth_key.id,
            data=event.auth_key.data,
            created_at=int(now),
            expires_at=None if event.expires_in is None else int(now) + event.expires_in,
            dc_id=_served_dc(event.dc_id, self._framing.dc_id),
            first_salt=event.server_salt,
        )
        if await context.dispatcher.save_auth_key(record):
            return exchange.persisted(context.clock.time())
        return exchange.collision(context.clock.time())


def _served_dc(inner_dc_id: int | None, header_dc_id: int | None) -> int:
    """Returns the DC that the client believes it talks to: by its key exchange, else its link, else 2."""
    for given in (inner_dc_id, header_dc_id):
        if given is not None:
            dc_id = abs(given)
            if dc_id > 10_000:
                dc_id -= 10_000  # the test DCs
            if 1 <= dc_id <= 5:
                return dc_id
    return 2
