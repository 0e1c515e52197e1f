"""How each MTProto transport cuts a byte stream into frames; one stateless or near-stateless class each.

``scan`` looks at a buffer and says where the next frame's payload lies, before the payload has arrived, so
that a length that is too large is refused from its own bytes and is never buffered for. ``pack`` is the
other direction. Obfuscation happens below, in ``obfuscation``; these classes see plain bytes.

    abridged              len/4 (1), or 7f len/4 (3); quick ack: top bit of the first byte
    intermediate          len (4); quick ack: top bit of len
    padded intermediate   len (4), payload, 0-15 random bytes counted in len
    full                  len (4, of the whole frame), seq (4, from 0), payload, CRC32 of all before (4)

All integers are little-endian.

*Spec: MTProto transports*
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from telesrv.mtproto.errors import FrameError

__all__ = ["Abridged", "Codec", "Frame", "Full", "Intermediate", "PaddedIntermediate", "Span"]

_QUICK_ACK_BIT: Final = 0x8000_0000
_LONG_ABRIDGED: Final = 0x7F
_FULL_OVERHEAD: Final = 12
_ENCRYPTED_HEADER: Final = 24
_BLOCK: Final = 16

_UINT32 = struct.Struct("<I")
_FULL_HEADER = struct.Struct("<II")


class Frame(NamedTuple):
    """One payload of a transport, without framing; ``quick_ack`` when its sender asks for a token."""

    payload: bytes
    quick_ack: bool


class Span(NamedTuple):
    """Where a frame lies in a buffer: payload from ``start`` to ``stop``, the next frame from ``end``.

    It says what the peer claims: the caller compares ``stop - start`` with its bounds. A full frame that is
    shorter than its own overhead makes it negative.
    """

    start: int
    stop: int
    end: int
    quick_ack: bool


class Codec(Protocol):
    """One framing, seen from the server."""

    name: str

    def scan(self, buffer: bytearray, at: int) -> Span | None:
        """Returns the span of the frame that begins at ``at``, or None until its header is complete."""

    def take(self, buffer: bytearray, span: Span) -> bytes:
        """Returns the payload of a span that has arrived whole.

        Raises:
            FrameError: the frame is damaged.
        """

    def pack(self, payload: bytes) -> bytes:
        """Returns ``payload`` as one frame to the client."""

    def pack_bare(self, payload: bytes) -> bytes:
        """Returns ``payload`` (a transport error) as one frame without padding."""

    def pack_quick_ack(self, token: int) -> bytes:
        """Returns the quick acknowledgement of a token, an unsigned integer with its top bit set."""


class Abridged:
    """The one-byte framing; quick acks travel big-endian, so that their first byte has the top bit set."""

    name = "abridged"

    def scan(self, buffer: bytearray, at: int) -> Span | None:
        first = buffer[at]
        quick_ack = first > _LONG_ABRIDGED
        words, start = first & _LONG_ABRIDGED, at + 1
        if words == _LONG_ABRIDGED:
            start = at + 4
            if len(buffer) < start:
                return None
            words = int.from_bytes(buffer[at + 1 : start], "little")
        stop = start + words * 4
        return Span(start, stop, stop, quick_ack)

    def take(self, buffer: bytearray, span: Span) -> bytes:
        return bytes(memoryview(buffer)[span.start : span.stop])

    def pack(self, payload: bytes) -> bytes:
        words, rest = divmod(len(payload), 4)
        if rest or words >= 1 << 24:
            raise ValueError(f"the abridged transport cannot carry {len(payload)} bytes")
        if words < _LONG_ABRIDGED:
            return bytes((words,)) + payload
        return b"\x7f" + words.to_bytes(3, "little") + payload

    pack_bare = pack

    def pack_quick_ack(self, token: int) -> bytes:
        return struct.pack(">I", token)


class Intermediate:
    """The four-byte framing."""

    name = "intermediate"

    def scan(self, buffer: bytearray, at: int) -> Span | None:
        start = at + 4
        if len(buffer) < start:
            return None
        (size,) = _UINT32.unpack_from(buffer, at)
        stop = start + (size & ~_QUICK_ACK_BIT)
        return Span(start, stop, stop, size >= _QUICK_ACK_BIT)

    def take(self, buffer: bytearray, span: Span) -> bytes:
        return bytes(memoryview(buffer)[span.start : span.stop])

    def pack(self, payload: bytes) -> bytes:
        return _UINT32.pack(len(payload)) + payload

    def pack_bare(self, payload: bytes) -> bytes:
        return _UINT32.pack(len(payload)) + payload

    def pack_quick_ack(self, token: int) -> bytes:
        return _UINT32.pack(token)


class PaddedIntermediate(Intermediate):
    """The four-byte framing with random padding at the end of each frame.

    What we send carries 0 to 3 bytes of padding: several clients find the payload's end by rounding the
    length down to 4. What we receive may carry 0 to 15: behind an encrypted message, which is 24 bytes and
    whole blocks, they are cut off; an unencrypted one states its own length.
    """

    name = "padded intermediate"

    def __init__(self, random: Callable[[int], bytes]) -> None:
        self._random = random

    def take(self, buffer: bytearray, span: Span) -> bytes:
        size = span.stop - span.start
        if size >= _ENCRYPTED_HEADER and any(buffer[span.start : span.start + 8]):
            size -= (size - _ENCRYPTED_HEADER) % _BLOCK
        return bytes(memoryview(buffer)[span.start : span.start + size])

    def pack(self, payload: bytes) -> bytes:
        padding = self._random(self._random(1)[0] & 3)
        return _UINT32.pack(len(payload) + len(padding)) + payload + padding


class Full:
    """The framing with a sequence number and a checksum; it has no quick acks and is never obfuscated."""

    name = "full"

    def __init__(self) -> None:
        self._received = 0
        self._sent = 0

    def scan(self, buffer: bytearray, at: int) -> Span | None:
        start = at + 8
        if len(buffer) < start:
            return None
        size, seq = _FULL_HEADER.unpack_from(buffer, at)
        if seq != self._received:
            raise FrameError(f"full frame {seq} where {self._received} was due")
        return Span(start, at + size - 4, at + size, False)

    def take(self, buffer: bytearray, span: Span) -> bytes:
        frame = bytes(memoryview(buffer)[span.start - 8 : span.stop])
        (checksum,) = _UINT32.unpack_from(buffer, span.stop)
        if zlib.crc32(frame) != checksum:
            raise FrameError("a full frame with a wrong CRC32")
        self._received = (self._received + 1) & 0xFFFF_FFFF
        return frame[8:]

    def pack(self, payload: bytes) -> bytes:
        frame = _FULL_HEADER.pack(len(payload) + _FULL_OVERHEAD, self._sent) + payload
        self._sent = (self._sent + 1) & 0xFFFF_FFFF
        return frame + _UINT32.pack(zlib.crc32(frame))

    pack_bare = pack

    def pack_quick_ack(self, token: int) -> bytes:
        raise ValueError(f"the full transport has no quick ack for {token}")
