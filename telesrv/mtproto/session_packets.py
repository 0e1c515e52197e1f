"""Encrypted packets of a session: from bytes to an envelope, and from queued messages to bytes.

    auth_key_id:8  msg_key:16
    encrypted: salt:8  session_id:8  msg_id:8  seq_no:4  length:4  body  padding:12..1024

*Spec: MTProto 2.0, detailed description; Security Guidelines for Client Developers*
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from telesrv.mtproto.crypto import AuthKey, decrypt_message, encrypt_message
from telesrv.mtproto.errors import DecryptionError
from telesrv.mtproto.limits import SessionLimits
from telesrv.mtproto.messages import MESSAGE_HEADER_BYTES, Message, encode_container
from telesrv.mtproto.msg_ids import MsgIdGenerator
from telesrv.mtproto.outgoing import Outbound, Outgoing

MIN_PADDING_BYTES: Final = 12
MAX_PADDING_BYTES: Final = 1024

_HEADER: Final = struct.Struct("<qqqiI")
_BLOCK_BYTES: Final = 16


@dataclass(slots=True)
class Envelope:
    """One decrypted packet of a client: authentic, and not yet checked against its session."""

    salt: int
    session_id: int
    msg_id: int
    seq_no: int
    body: bytes | memoryview
    plaintext: bytes
    """The whole, padding included, of which a quick ack is made."""


def parse_envelope(auth_key: AuthKey, payload: bytes) -> Envelope:
    """Returns the client's packet, only when its msg_key, length and padding are right.

    Args:
        auth_key: the key that the payload names.
        payload: one transport frame: auth_key_id, msg_key, encrypted data.

    Raises:
        DecryptionError: any check failed. It is never answered: the connection is closed.

    *Spec: Security Guidelines for Client Developers, "Checking message length"*
    """
    plaintext = decrypt_message(auth_key, payload, from_server=False)
    if len(plaintext) < _HEADER.size:
        raise DecryptionError("the plaintext is shorter than its header")
    salt, session_id, msg_id, seq_no, length = _HEADER.unpack_from(plaintext)
    padding = len(plaintext) - _HEADER.size - length
    if length < 4 or length % 4 or not MIN_PADDING_BYTES <= padding <= MAX_PADDING_BYTES:
        raise DecryptionError(f"a body of {length} bytes leaves {padding} bytes of padding")
    body = memoryview(plaintext)[_HEADER.size : _HEADER.size + length]
    return Envelope(salt, session_id, msg_id, seq_no, body, plaintext)


class Packer:
    """Gives messages their msg_id and seq_no, puts them into containers and encrypts them.

    Within a packet and from packet to packet msg_ids rise, each container's above those inside it: a client
    throws away a packet when it meets an id below all it has seen.
    """

    __slots__ = ("_auth_key", "_content_sent", "_ids", "_limits", "_outbound", "_random", "_session_id")

    def __init__(
        self,
        auth_key: AuthKey,
        session_id: int,
        random: Callable[[int], bytes],
        limits: SessionLimits,
        outbound: Outbound,
    ) -> None:
        self._auth_key = auth_key
        self._session_id = session_id
        self._random = random
        self._limits = limits
        self._outbound = outbound
        self._ids = MsgIdGenerator()
        self._content_sent = 0

    @property
    def numbering(self) -> tuple[int, int]:
        """The last msg_id that was made and how many content-related messages were numbered."""
        return self._ids.last, self._content_sent

    @numbering.setter
    def numbering(self, value: tuple[int, int]) -> None:
        last_msg_id, self._content_sent = value
        self._ids = MsgIdGenerator(last_msg_id)

    def pack(self, messages: Iterable[Outgoing], salt: int, now: float) -> list[bytes]:
        """Returns the packets of the messages, in their order; content-related ones now await their ack."""
        limits = self._limits
        payloads: list[bytes] = []
        group: list[Message] = []
        group_bytes = 0
        for out in messages:
            size = MESSAGE_HEADER_BYTES + len(out.body)
            if group and (
                group_bytes + size > limits.sent_container_bytes
                or len(group) >= limits.sent_container_messages
            ):
                payloads.append(self._packet(group, salt, now))
                group, group_bytes = [], 0
            if not out.msg_id:
                self._identify(out, now)
            group.append(Message(out.msg_id, out.seq_no, out.body))
            group_bytes += size
        if group:
            payloads.append(self._packet(group, salt, now))
        return payloads

    def _identify(self, out: Outgoing, now: float) -> None:
        out.msg_id = self._next_id(now, reply=out.reply)
        out.seq_no = 2 * self._content_sent
        if out.content_related:
            out.seq_no += 1
            self._content_sent += 1
            self._outbound.note_sent(out)

    def _next_id(self, now: float, *, reply: bool) -> int:
        msg_id = self._ids.next(now, reply=reply)
        while self._outbound.is_taken(msg_id):  # only after the clock was set back
            msg_id = self._ids.next(now, reply=reply)
        return msg_id

    def _packet(self, group: list[Message], salt: int, now: float) -> bytes:
        if len(group) == 1:
            msg_id, seq_no, body = group[0]
        else:
            msg_id = self._next_id(now, reply=False)
            seq_no = 2 * self._content_sent
            body = encode_container(group)
        plaintext = _HEADER.pack(salt, self._session_id, msg_id, seq_no, len(body)) + body
        padding = MIN_PADDING_BYTES + -(len(plaintext) + MIN_PADDING_BYTES) % _BLOCK_BYTES
        return encrypt_message(self._auth_key, plaintext, from_server=True, padding=self._random(padding))
