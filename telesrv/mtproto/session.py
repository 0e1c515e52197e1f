"""The server's side of one MTProto session, (auth_key_id, session_id), which outlives its TCP connections.

Guarantees:
- A request is given out once, whatever is retransmitted or replayed; a repeated msg_id gets its stored
  answer again.
- Every answer and every update reaches the client at least once, under one msg_id while that is young,
  unless a bound of ``SessionLimits`` made it go: an answer then is an rpc_error, and for updates
  ``lost_updates`` is set.
- A packet that breaks a rule is answered by bad_msg_notification or bad_server_salt and changes nothing
  else.

Concurrency: none; nothing here waits, reads a clock or draws random bytes. Times are Unix times.
Lifecycle: made for the first packet of a session. After ``receive``, ``send_*`` and when ``next_wakeup``
says so, ``flush`` gives the packets to write. Between ``connection_lost`` and ``connection_opened``
everything waits.

How strict it is was set by what clients do:
- Requests have odd seq_nos and containers even ones (35, 34). Other service messages may have either:
  mtcute sends msgs_ack with odd ones, Telethon ping with odd ones, pyrogram ping with even ones.
- The age of a msg_id (16) is checked for the packet, not inside containers: clients wrap a request that
  waited too long into a fresh container under its old msg_id.
- The salt is looked at before the time: clients take the right time from bad_server_salt too, so that one
  answer mends both, while some close their session on 17.
- Answers are sent whole, never announced by msg_detailed_info: Telethon and pyrogram acknowledge the
  message it names without having it.

*Spec: Mobile Protocol: Detailed Description; Service Messages; Service Messages about Messages*
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from telesrv import tl
from telesrv.mtproto import service_ids
from telesrv.mtproto.crypto import AuthKey, quick_ack_token
from telesrv.mtproto.limits import SessionLimits
from telesrv.mtproto.messages import (
    GZIP_PACKED,
    MSG_CONTAINER,
    MalformedMessage,
    Message,
    constructor_id,
    gzip_unpack,
    maybe_gzip,
    parse_container,
)
from telesrv.mtproto.msg_ids import MAX_AGE_S, MAX_AHEAD_S, seconds_of
from telesrv.mtproto.outgoing import SERVICE, UPDATE, Outgoing
from telesrv.mtproto.salts import SaltSchedule
from telesrv.mtproto.session_events import (
    DestroyAuthKey,
    DestroySession,
    Event,
    PingDelayDisconnect,
    QuickAck,
    Request,
)
from telesrv.mtproto.session_handover import Head, dump, load
from telesrv.mtproto.session_packets import Envelope, Packer, parse_envelope
from telesrv.mtproto.session_service import serve
from telesrv.mtproto.session_state import SessionState
from telesrv.tl import mt

__all__ = [
    "DestroyAuthKey",
    "DestroySession",
    "Envelope",
    "Event",
    "PingDelayDisconnect",
    "QuickAck",
    "Request",
    "Session",
    "SessionLimits",
    "parse_envelope",
]

_RPC_ERROR: Final = bytes.fromhex("19ca4421")

_MAX_ACKS_IN_MESSAGE: Final = 4096
"""msgs_ack messages of the server stay below the 8,192 ids that the public limit allows."""


class Session:
    """One session of a client.

    Args:
        auth_key: the key its packets are encrypted with (the temporary one under PFS).
        session_id: signed 64 bits, chosen by the client.
        salts: the server salts of that key.
        random: gives that many random bytes.
        limits: the bounds.
        min_msg_id: msg_ids at or below it are taken for seen before: what an earlier process, which is
            gone with its window, may have executed. What comes after it is new. A packet at or below is
            refused with 16, upon which clients send it anew, or Telegram Desktop in a fresh container;
            there it is refused with 20, upon which TDLib and Telegram Desktop take a new msg_id (16 would
            make Telegram Desktop repeat the old one for ever). Telethon and pyrogram never repeat a msg_id.
    """

    __slots__ = (
        "_announced",
        "_auth_key",
        "_limits",
        "_min_msg_id",
        "_packer",
        "_random",
        "_salts",
        "_state",
        "connected",
        "last_received_at",
        "session_id",
    )

    def __init__(
        self,
        auth_key: AuthKey,
        session_id: int,
        salts: SaltSchedule,
        random: Callable[[int], bytes],
        limits: SessionLimits,
        min_msg_id: int = 0,
    ) -> None:
        self.session_id = session_id
        self.connected = True
        self.last_received_at = 0.0
        self._auth_key = auth_key
        self._salts = salts
        self._random = random
        self._limits = limits
        self._min_msg_id = min_msg_id
        self._announced = False
        self._state = SessionState(session_id, limits, min_msg_id)
        self._packer = Packer(auth_key, session_id, random, limits, self._state.outbound)

    # State for the owner

    @property
    def lost_updates(self) -> bool:
        """True when updates were dropped: tell the client to ask for the difference, then set it to
        False."""
        return self._state.outbound.lost_updates

    @lost_updates.setter
    def lost_updates(self, value: bool) -> None:
        self._state.outbound.lost_updates = value

    @property
    def highest_msg_id(self) -> int:
        """The highest client msg_id that was taken."""
        return self._state.window.highest

    @property
    def running_requests(self) -> int:
        """How many requests were given out and not answered."""
        return self._state.running

    @property
    def unacknowledged(self) -> int:
        """How many messages were sent and await the client's acknowledgement."""
        return self._state.outbound.unacknowledged

    def is_fresh(self, envelope: Envelope, now: float) -> bool:
        """Tells whether the packet is new and not refused: only such a one may move the session.

        A captured packet that somebody replays over a connection of his own must not draw the session's
        answers to that connection.
        """
        return (
            self._salts.is_valid(envelope.salt, now)
            and envelope.msg_id not in self._state.window
            and not self._packet_error(envelope.msg_id, now)
        )

    # Another process

    def export_state(self) -> bytes:
        """Returns everything that another process needs to go on with the session; disconnects it here.

        Nothing may be received or sent here afterwards, or the two would use one msg_id twice. (When nobody
        took the state, ``connection_opened`` goes on.) Wait, within a bound, for running requests to end
        before: what still runs is answered by an error there.

        The size is bounded by the limits: ``max_answer_bytes`` (or some 50 for each of ``max_answers``, when
        errors stand in for them) and ``max_update_bytes`` of bodies, and before compression 13 bytes for
        each remembered message, 8 for each container, 26 for each answer and update. At rest it has some
        hundred bytes.
        """
        if self.connected:
            self.connection_lost(self.last_received_at)
        head = Head(self._auth_key.id, self.session_id, self._min_msg_id, self.last_received_at)
        return dump(head, self._state, self._packer.numbering, announced=self._announced)

    @classmethod
    def import_state(
        cls,
        auth_key: AuthKey,
        data: bytes,
        salts: SaltSchedule,
        random: Callable[[int], bytes],
        limits: SessionLimits,
    ) -> Session:
        """Returns the session that ``export_state`` gave, not connected yet.

        It is the same session for the client: nothing that was executed is executed again, msg_ids and
        seq_nos go on rising, what was not acknowledged is sent again after ``connection_opened``, and there
        is no new_session_created. Requests that still ran at the export are answered by rpc_error 500
        RPC_CALL_FAIL: every client then repeats them under a new msg_id, while silence would make it wait
        for ever. Whether such a one took effect is open, as after any lost answer; random_id tells.

        Raises:
            ValueError: damaged, of another version, or of another key.
        """
        loaded = load(data, auth_key.id, limits)
        session = cls(auth_key, loaded.head.session_id, salts, random, limits, loaded.head.min_msg_id)
        session.connected = False
        session.last_received_at = loaded.head.last_received_at
        session._announced = loaded.announced
        session._state = loaded.state
        session._packer = Packer(auth_key, session.session_id, random, limits, loaded.state.outbound)
        session._packer.numbering = loaded.numbering
        return session

    # Connections

    def connection_opened(self, now: float) -> None:
        """Notes a new connection: what was sent and not acknowledged goes out with the next flush."""
        self.connected = True
        self._state.outbound.requeue_sent()

    def connection_lost(self, now: float) -> None:
        """Notes that nothing can be sent; answers and updates wait, within their bounds, passing ones not."""
        self.connected = False
        self._state.outbound.drop_queued_service()
        self._state.outbound.drop_passing()
        self._state.outbound.bound_updates(connected=False)

    # Inbound

    def receive(self, envelope: Envelope, now: float, *, quick_ack: bool = False) -> list[Event]:
        """Takes one packet of this session; returns what its owner has to do, in order.

        Raises nothing that depends on the peer: what breaks a rule is answered.

        Args:
            envelope: a packet with this session's id.
            now: Unix time.
            quick_ack: the sender asked the transport for a quick acknowledgement.

        *Spec: Service Messages about Messages*
        """
        self.last_received_at = now
        events: list[Event] = []
        msg_id, seq_no = envelope.msg_id, envelope.seq_no
        if not self._salts.is_valid(envelope.salt, now):
            self._state.reply(
                mt.BadServerSalt(
                    bad_msg_id=msg_id,
                    bad_msg_seqno=seq_no,
                    error_code=service_ids.BAD_SERVER_SALT,
                    new_server_salt=self._salts.current(now),
                )
            )
            return events
        error = self._packet_error(msg_id, now)
        if error:
            self._state.refuse(msg_id, seq_no, error)
            return events
        taken: list[int] = []
        message = Message(msg_id, seq_no, envelope.body)
        if constructor_id(envelope.body) == MSG_CONTAINER:
            error = self._take_container(message, now, events, taken)
        else:
            error = self._take_message(message, now, events, taken)
        if error:
            self._state.refuse(msg_id, seq_no, error)
        elif quick_ack:
            events.append(QuickAck(quick_ack_token(self._auth_key, envelope.plaintext)))
        if taken and not self._announced:
            self._announce(min(taken), now)
        return events

    def _packet_error(self, msg_id: int, now: float) -> int:
        """Returns the code that a packet with this msg_id is refused with, or 0.

        Repeats are harmless at any age.
        """
        if msg_id in self._state.window:
            return 0
        if msg_id & 3:
            return service_ids.MSG_ID_NOT_A_CLIENTS
        age_s = now - seconds_of(msg_id)
        if age_s > MAX_AGE_S:
            return service_ids.MSG_ID_TOO_LOW
        if age_s < -MAX_AHEAD_S:
            return service_ids.MSG_ID_TOO_HIGH
        if msg_id <= self._min_msg_id:
            return service_ids.MSG_ID_TOO_LOW
        return service_ids.MSG_ID_UNVERIFIABLE if msg_id <= self._state.window.floor else 0

    def _announce(self, first_msg_id: int, now: float) -> None:
        """Queues new_session_created before everything else.

        ``first_msg_id`` is the lowest id taken, inside a container too: clients send again what lies
        below it.
        """
        self._announced = True
        created = mt.NewSessionCreated(
            first_msg_id=first_msg_id,
            unique_id=int.from_bytes(self._random(8), "little", signed=True),
            server_salt=self._salts.current(now),
        )
        out = Outgoing(tl.write(created), SERVICE, reply=False, content_related=True)
        self._state.outbound.add(out, first=True)

    def _take_container(self, container: Message, now: float, events: list[Event], taken: list[int]) -> int:
        """Takes each message of a container, or none and returns the code that the container is refused
        with."""
        msg_id, seq_no, body = container
        window = self._state.window
        try:
            messages = parse_container(body, self._limits.max_container_messages)
        except MalformedMessage:
            return service_ids.INVALID_CONTAINER
        if any(inner.msg_id >= msg_id for inner in messages):
            return service_ids.INVALID_CONTAINER
        if msg_id in window:
            # The same packet again holds nothing new; another container may not have the same id.
            if not window.is_container(msg_id) or any(inner.msg_id not in window for inner in messages):
                return service_ids.CONTAINER_ID_REPEATED
        elif seq_no & 1:
            return service_ids.SEQ_NO_NOT_EVEN
        else:
            window.add_container(msg_id)
        for inner in messages:
            error = self._take_message(inner, now, events, taken)
            if error:
                self._state.refuse(inner.msg_id, inner.seq_no, error)
        return 0

    def _take_message(self, message: Message, now: float, events: list[Event], taken: list[int]) -> int:
        """Takes one message that is not a container, or returns the code that it is refused with."""
        msg_id, seq_no, body = message
        state = self._state
        if msg_id in state.window:
            self._take_again(message, now, events)
            return 0
        if msg_id & 3:
            return service_ids.MSG_ID_NOT_A_CLIENTS
        if msg_id <= state.window.floor:
            return service_ids.MSG_ID_UNVERIFIABLE
        broken = False
        constructor = constructor_id(body)
        if constructor == GZIP_PACKED:
            try:
                body = gzip_unpack(body, self._limits.max_inflated_bytes)
                constructor = constructor_id(body)
            except MalformedMessage:
                broken = True
            if constructor == MSG_CONTAINER:
                return service_ids.INVALID_CONTAINER
        is_request = constructor not in service_ids.SERVICE
        if is_request and not seq_no & 1:
            return service_ids.SEQ_NO_NOT_ODD
        error = state.window.order_error(msg_id, seq_no)
        if error:
            return error
        entry = state.window.add(msg_id, seq_no, now, is_request=is_request)
        taken.append(msg_id)
        if seq_no & 1 and constructor != service_ids.MSGS_ACK:
            state.acknowledge(msg_id, now)
        if broken:
            state.answer_error(msg_id, entry, 400, "INPUT_FETCH_ERROR")
        elif not is_request:
            serve(state, self._salts, Message(msg_id, seq_no, body), entry, now, events)
        elif state.running >= self._limits.max_running_requests:
            state.answer_error(msg_id, entry, 420, "FLOOD_WAIT_3")
        else:
            state.start(entry)
            events.append(Request(msg_id, seq_no, bytes(body)))
        return 0

    def _take_again(self, message: Message, now: float, events: list[Event]) -> None:
        """Answers a repeated message: by its stored answer, or by an acknowledgement while there is
        none."""
        msg_id, seq_no, body = message
        state = self._state
        entry = state.window.get(msg_id)
        if entry is None:
            return
        if entry.answer is not None:
            state.outbound.requeue(entry.answer)
        elif entry.lost:
            state.answer_error(msg_id, entry, 500, "RPC_CALL_FAIL")
        elif not entry.is_request and constructor_id(body) in service_ids.REPEATABLE:
            serve(state, self._salts, message, entry, now, events)
        elif seq_no & 1:
            state.acknowledge(msg_id, now)

    # Outbound

    def send_result(self, req_msg_id: int, result: bytes, now: float) -> bool:
        """Queues the answer of a request; it is kept until the client acknowledges it.

        Args:
            req_msg_id: the msg_id of a ``Request`` (or ``DestroyAuthKey``) event.
            result: TL of the result, or of the rpc_error.
            now: Unix time.

        Returns False when nobody waits: it is answered already, was dropped, or is not known.

        *Spec: Service Messages, "Response to an RPC query"*
        """
        entry = self._state.window.get(req_msg_id)
        if entry is None or not entry.running:
            return False
        self._state.stop(entry)
        # Telethon does not see an error that is packed.
        if len(result) > self._limits.gzip_above_bytes and not result.startswith(_RPC_ERROR):
            result = maybe_gzip(result)
        self._state.answer(req_msg_id, entry, result)
        return True

    def send_update(self, body: bytes, now: float) -> bool:
        """Queues an update (TL of an Updates); it is kept until the client acknowledges it.

        Returns False when it was not taken: updates were lost, and the client will ask for the difference.
        """
        outbound = self._state.outbound
        if outbound.lost_updates and not self.connected:
            return False
        outbound.add(Outgoing(body, UPDATE, reply=False, content_related=True))
        outbound.bound_updates(connected=self.connected)
        return self.connected or not outbound.lost_updates

    def send_passing(self, body: bytes, now: float) -> None:
        """Queues an update that soon means nothing, such as a typing notice; it is never sent again."""
        if self.connected:
            self._state.outbound.add(Outgoing(body, UPDATE, reply=False, content_related=True, passing=True))
            self._state.outbound.bound_updates(connected=True)

    def drop_updates(self) -> None:
        """Forgets every update that was not acknowledged; they are sent no more."""
        self._state.outbound.drop_updates()
        self._state.outbound.lost_updates = False

    def answer_destroy_session(self, req_msg_id: int, session_id: int, destroyed: bool, now: float) -> None:
        """Queues the answer to a ``DestroySession`` event."""
        answer = mt.DestroySessionOk if destroyed else mt.DestroySessionNone
        self._state.reply(answer(session_id=session_id), req_msg_id)

    def answer_destroy_auth_key(self, req_msg_id: int, destroyed: bool, now: float) -> None:
        """Queues the answer to a ``DestroyAuthKey`` event, which is not wrapped in an rpc_result."""
        answer = mt.DestroyAuthKeyOk() if destroyed else mt.DestroyAuthKeyFail()
        self.send_result(req_msg_id, tl.write(answer), now)

    def flush(self, now: float) -> list[bytes]:
        """Returns the packets to write now, each one transport frame; none while disconnected.

        What is sent again goes first and in packets of its own, ids rising: clients drop the rest of a
        packet when they meet an id that they know or that is below all others.
        """
        state = self._state
        outbound = state.outbound
        if not self.connected or not (len(outbound) or (state.acks and now >= state.acks_due)):
            return []
        again: list[Outgoing] = []
        fresh: list[Outgoing] = []
        for out in outbound.take():
            if not out.msg_id:
                fresh.append(out)
            elif now - seconds_of(out.msg_id) > self._limits.resend_same_id_s:
                outbound.withdraw_id(out)
                fresh.append(out)
            else:
                again.append(out)
        again.sort(key=lambda out: out.msg_id)
        acks = list(state.acks)
        state.acks.clear()
        for start in range(0, len(acks), _MAX_ACKS_IN_MESSAGE):
            ack = mt.MsgsAck(msg_ids=acks[start : start + _MAX_ACKS_IN_MESSAGE])
            fresh.append(Outgoing(tl.write(ack), SERVICE, reply=False, content_related=False))
        salt = self._salts.current(now)
        return self._packer.pack(again, salt, now) + self._packer.pack(fresh, salt, now)

    def next_wakeup(self, now: float) -> float | None:
        """Returns when ``flush`` will have something by itself: now if queued, when acks are due, or
        None."""
        if not self.connected:
            return None
        if len(self._state.outbound):
            return now
        return self._state.acks_due if self._state.acks else None
