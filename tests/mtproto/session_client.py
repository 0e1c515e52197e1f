"""A client's side of a session, without sockets: it numbers, wraps, encrypts, acknowledges and repeats.

It behaves as Telegram Desktop does: requests keep their msg_id when they are sent again, inside a container
with a fresh one; every content-related message is acknowledged; a repeated one is acknowledged and not used.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from telesrv import tl
from telesrv.mtproto.crypto import AuthKey, decrypt_message, encrypt_message
from telesrv.mtproto.limits import SessionLimits
from telesrv.mtproto.messages import (
    GZIP_PACKED,
    MSG_CONTAINER,
    RPC_RESULT,
    Message,
    constructor_id,
    encode_container,
    gzip_unpack,
    parse_container,
)
from telesrv.mtproto.msg_ids import msg_id_at
from telesrv.mtproto.salts import SaltSchedule
from telesrv.mtproto.session import Envelope, Event, Session, parse_envelope
from telesrv.tl import mt

NOW = 1_700_000_000.0
SESSION_ID = -0x1122334455667788
KEY = AuthKey(b"".join(hashlib.sha256(bytes([i])).digest() for i in range(8)))
SECRET = b"a secret that all processes share"
BODY = struct.pack("<I", 0x0BADCAFE)
"""A request body: any constructor that is no service message."""


def zeros(count: int) -> bytes:
    return bytes(count)


def salts() -> SaltSchedule:
    return SaltSchedule(SECRET, KEY.id)


def session(limits: SessionLimits | None = None, min_msg_id: int = 0) -> Session:
    return Session(KEY, SESSION_ID, salts(), zeros, limits or SessionLimits(), min_msg_id)


def client_id(time_s: float = NOW, step: int = 0) -> int:
    """Returns a client msg_id of a time."""
    return msg_id_at(time_s) + 4 * step


def packet(
    msg_id: int,
    seq_no: int,
    body: bytes,
    *,
    salt: int | None = None,
    now: float = NOW,
    session_id: int = SESSION_ID,
) -> bytes:
    """Returns an encrypted packet of the client."""
    salt = salts().current(now) if salt is None else salt
    plaintext = struct.pack("<qqqiI", salt, session_id, msg_id, seq_no, len(body)) + body
    return encrypt_message(KEY, plaintext, from_server=False, padding=bytes(12 + -(len(plaintext) + 12) % 16))


def envelope(msg_id: int, seq_no: int, body: bytes, *, salt: int | None = None, now: float = NOW) -> Envelope:
    return parse_envelope(KEY, packet(msg_id, seq_no, body, salt=salt, now=now))


def container(*messages: Message) -> bytes:
    return encode_container(messages)


@dataclass
class Sent:
    """One message of the server, as it came out of its packet."""

    msg_id: int
    seq_no: int
    body: bytes

    @property
    def value(self) -> Any:
        """The service message, or (req_msg_id, result bytes) of an rpc_result."""
        if constructor_id(self.body) == RPC_RESULT:
            (req_msg_id,) = struct.unpack_from("<q", self.body, 4)
            result = self.body[12:]
            if constructor_id(result) == GZIP_PACKED:
                result = gzip_unpack(result, 1 << 24)
            return req_msg_id, result
        return tl.read(self.body)


@dataclass
class Packet:
    """One decrypted packet of the server."""

    salt: int
    session_id: int
    msg_id: int
    seq_no: int
    body: bytes
    padding: int
    messages: list[Sent] = field(default_factory=list)


def open_packet(payload: bytes) -> Packet:
    """Decrypts a packet of the server and takes it apart."""
    plaintext = decrypt_message(KEY, payload, from_server=True)
    salt, session_id, msg_id, seq_no, length = struct.unpack_from("<qqqiI", plaintext)
    body = plaintext[32 : 32 + length]
    opened = Packet(salt, session_id, msg_id, seq_no, body, len(plaintext) - 32 - length)
    if constructor_id(body) == MSG_CONTAINER:
        inner = parse_container(body, 1020)
        opened.messages = [Sent(m.msg_id, m.seq_no, bytes(m.body)) for m in inner]
    else:
        opened.messages = [Sent(msg_id, seq_no, body)]
    return opened


def sent_by(server: Session, now: float = NOW) -> list[Sent]:
    """Returns every message that the session flushes."""
    return [message for payload in server.flush(now) for message in open_packet(payload).messages]


def values(server: Session, now: float = NOW) -> list[Any]:
    return [message.value for message in sent_by(server, now)]


class Client:
    """One session of a client; times are given."""

    def __init__(self, *, clock_error_s: float = 0.0, salt: int = 0) -> None:
        self.salt = salt
        self.clock_error_s = clock_error_s
        self.results: dict[int, list[bytes]] = {}
        self.updates: list[bytes] = []
        self.errors: list[int] = []
        self.seen: set[int] = set()
        self.waiting: dict[int, Message] = {}
        self.renamed: dict[int, int] = {}
        self._last_id = 0
        self._content = 0
        self._to_send: list[int] = []
        self._acks: list[int] = []
        self._containers: dict[int, list[int]] = {}

    def _next_id(self, now: float) -> int:
        self._last_id = max(client_id(now + self.clock_error_s), self._last_id + 4)
        return self._last_id

    def _seq_no(self, content_related: bool) -> int:
        seq_no = 2 * self._content + content_related
        self._content += content_related
        return seq_no

    def call(self, body: bytes, now: float) -> int:
        """Queues a request; returns its msg_id, which ``renamed`` may lead on from."""
        msg_id = self._next_id(now)
        self.waiting[msg_id] = Message(msg_id, self._seq_no(True), body)
        self._to_send.append(msg_id)
        return msg_id

    def packets(self, now: float) -> list[bytes]:
        """Returns what there is to send: always one container, with the acknowledgements."""
        messages = [self.waiting[msg_id] for msg_id in self._to_send if msg_id in self.waiting]
        inner = [m.msg_id for m in messages]
        self._to_send = []
        if self._acks:
            ack = tl.write(mt.MsgsAck(msg_ids=self._acks))
            messages.append(Message(self._next_id(now), self._seq_no(False), ack))
            self._acks = []
        if not messages:
            return []
        container_id = self._next_id(now)
        self._containers[container_id] = inner
        body = encode_container(messages)
        return [packet(container_id, self._seq_no(False), body, salt=self.salt)]

    def reconnected(self) -> None:
        """Sends everything that was not answered again, under the same msg_ids."""
        self._to_send = list(self.waiting)

    def _rename(self, bad_msg_id: int, now: float) -> None:
        for msg_id in self._containers.pop(bad_msg_id, [bad_msg_id]):
            request = self.waiting.pop(msg_id, None)
            if request is not None:
                self.renamed[msg_id] = self.call(bytes(request.body), now)

    def final_id(self, msg_id: int) -> int:
        while msg_id in self.renamed:
            msg_id = self.renamed[msg_id]
        return msg_id

    def receive(self, payload: bytes, now: float) -> None:
        opened = open_packet(payload)
        assert opened.session_id == SESSION_ID
        assert 12 <= opened.padding <= 1024
        if len(opened.messages) > 1:
            assert opened.seq_no % 2 == 0
            assert opened.msg_id > max(message.msg_id for message in opened.messages)
        assert [m.msg_id for m in opened.messages] == sorted(m.msg_id for m in opened.messages)
        for message in opened.messages:
            self._take(message, opened.msg_id, now)

    def _take(self, message: Sent, packet_id: int, now: float) -> None:
        assert message.msg_id % 4 in (1, 3)
        if message.seq_no % 2:
            self._acks.append(message.msg_id)
            if message.msg_id in self.seen:
                return
            self.seen.add(message.msg_id)
        if constructor_id(message.body) == constructor_id(BODY):
            self.updates.append(message.body)
            return
        value = message.value
        if isinstance(value, tuple):
            assert message.msg_id % 4 == 1
            req_msg_id, result = value
            self.waiting.pop(req_msg_id, None)
            self.results.setdefault(req_msg_id, []).append(result)
        elif isinstance(value, mt.BadServerSalt):
            self.salt = value.new_server_salt
            self._rename(value.bad_msg_id, now)
        elif isinstance(value, mt.BadMsgNotification):
            self.errors.append(value.error_code)
            if value.error_code in (16, 17):
                self.clock_error_s = (packet_id >> 32) - now
                self._last_id = 0
            self._rename(value.bad_msg_id, now)
        elif isinstance(value, mt.NewSessionCreated):
            self.salt = value.server_salt


def exchange(client: Client, server: Session, now: float, answer: Callable[[Event], None]) -> None:
    """Carries everything both have to say, until neither has more."""
    while payloads := client.packets(now):
        for payload in payloads:
            for event in server.receive(parse_envelope(KEY, payload), now):
                answer(event)
        for payload in server.flush(now):
            client.receive(payload, now)
