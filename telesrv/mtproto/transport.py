"""The server's end of one TCP connection below MTProto messages: bytes in, frames out, and back.

Guarantees: the first bytes decide the transport and nothing else does; what is not a transport is refused
before it is buffered; at most one frame of ``max_frame_bytes`` is ever held; after an error nothing more is
read. No I/O, no clock; randomness is an argument. One object serves one connection, from one thread.

    first bytes                        transport
    ef                                 abridged
    eeeeeeee                           intermediate
    dddddddd                           padded intermediate
    GET_, POST, HEAD, OPTI, TLS        refused
    ........ 00000000                  full (its first seq is 0)
    anything else                      obfuscated2: a 64-byte header, then one of the first three

**Proxy secret.** Where one is set, an obfuscated header is tried with it first and then without it, and
plain transports stay open: one port serves clients that reach the server through a proxy link and those
that know its address. The secret is a way past filters, not an access control.

*Spec: MTProto transports; MTProxy*
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from telesrv.mtproto.crypto import CtrStream
from telesrv.mtproto.errors import FrameError, RefusedTransport
from telesrv.mtproto.obfuscation import HEADER_BYTES, ObfuscatedHeader, open_header
from telesrv.mtproto.transport_frames import Abridged, Codec, Frame, Full, Intermediate, PaddedIntermediate

__all__ = ["DEFAULT_MAX_FRAME_BYTES", "Frame", "ServerTransport"]

# A 512 KiB file part twice over, with room for its envelope, is the largest thing a client sends at once.
DEFAULT_MAX_FRAME_BYTES: Final = (1 << 20) + (64 << 10)

_MIN_FRAME_BYTES: Final = 20  # an unencrypted message with an empty body; an encrypted one is longer
_SECRET_BYTES: Final = 16

_ABRIDGED: Final = 0xEF
_INTERMEDIATE: Final = b"\xee" * 4
_PADDED: Final = b"\xdd" * 4
# Exactly the words an obfuscated header may not begin with; a client's random bytes may be any others.
_FOREIGN: Final = {
    b"GET ": "HTTP",
    b"POST": "HTTP",
    b"HEAD": "HTTP",
    b"OPTI": "HTTP",
    b"\x16\x03\x01\x02": "TLS",
}


class ServerTransport:
    """Turns a client's byte stream into frames and our payloads into bytes, whatever transport it chose.

    ``name`` is None until the transport is known; ``dc_id`` is the raw int16 of the obfuscation header, or
    None on a plain transport; ``is_media`` is True when that is negative; ``is_proxied`` tells whether the
    header was made with the proxy secret.

    Args:
        proxy_secret: 16 bytes, or 17 that begin with dd, or None.
        random: returns that many random bytes.
        max_frame_bytes: the largest frame accepted, framing aside.

    Raises:
        ValueError: the secret has another length.

    *Spec: MTProto transports*
    """

    def __init__(
        self,
        proxy_secret: bytes | None,
        random: Callable[[int], bytes],
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
    ) -> None:
        if proxy_secret is not None and len(proxy_secret) == _SECRET_BYTES + 1 and proxy_secret[0] == 0xDD:
            proxy_secret = proxy_secret[1:]
        if proxy_secret is not None and len(proxy_secret) != _SECRET_BYTES:
            raise ValueError(f"a proxy secret has {_SECRET_BYTES} bytes, or dd and {_SECRET_BYTES}")
        self.dc_id: int | None = None
        self.is_media = False
        self.is_proxied = False
        self._secret = proxy_secret
        self._random = random
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._codec: Codec | None = None
        self._inbound: CtrStream | None = None
        self._outbound: CtrStream | None = None
        self._failure: FrameError | None = None

    @property
    def name(self) -> str | None:
        """The transport's name, "obfuscated ..." where it is, or None while it is unknown."""
        if self._codec is None:
            return None
        return self._codec.name if self._inbound is None else f"obfuscated {self._codec.name}"

    @property
    def buffered_bytes(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._buffer)

    def receive_data(self, data: bytes) -> list[Frame]:
        """Returns the frames that ``data`` completes, in order.

        After an error the connection is lost: frames of the same ``data`` are discarded with it, and every
        further call raises the same error.

        Raises:
            RefusedTransport: the first bytes are of no transport spoken here.
            FrameError: a frame is damaged, empty or too large.
        """
        if self._failure is not None:
            raise self._failure
        try:
            return self._receive(data)
        except FrameError as error:
            self._failure = error
            self._buffer = bytearray()
            raise

    def pack(self, payload: bytes) -> bytes:
        """Returns ``payload`` as one frame, obfuscated where the connection is; frames must go out in order.

        Raises:
            RuntimeError: the client has not chosen a transport yet.
        """
        return self._obfuscate(self._known_codec().pack(payload))

    def pack_quick_ack(self, token: int) -> bytes:
        """Returns the quick acknowledgement of a token: 4 bytes, big-endian on abridged, else little-endian.

        Raises:
            ValueError: the transport is full, which has none; no frame of it ever asks for one.
        """
        return self._obfuscate(self._known_codec().pack_quick_ack(token))

    def pack_error(self, code: int) -> bytes:
        """Returns the transport error ``-code`` as one frame, or nothing while the transport is unknown.

        *Spec: MTProto transports, "Transport errors"*
        """
        if self._codec is None:
            return b""
        return self._obfuscate(self._codec.pack_bare(struct.pack("<i", -code)))

    def _known_codec(self) -> Codec:
        if self._codec is None:
            raise RuntimeError("nothing can be sent before the client chose a transport")
        return self._codec

    def _obfuscate(self, data: bytes) -> bytes:
        return data if self._outbound is None else self._outbound.update(data)

    def _receive(self, data: bytes) -> list[Frame]:
        buffer = self._buffer
        buffer += data if self._inbound is None else self._inbound.update(data)
        if self._codec is None:
            self._codec = self._recognise()
            if self._codec is None:
                return []
        return self._cut(self._codec)

    def _cut(self, codec: Codec) -> list[Frame]:
        """Returns the complete frames at the head of the buffer and removes them."""
        buffer, frames, at = self._buffer, [], 0
        while at < len(buffer):
            span = codec.scan(buffer, at)
            if span is None:
                break
            size = span.stop - span.start
            if not _MIN_FRAME_BYTES <= size <= self._max_frame_bytes:
                raise FrameError(f"a frame of {size} bytes")
            if span.end > len(buffer):
                break
            frames.append(Frame(codec.take(buffer, span), span.quick_ack))
            at = span.end
        del buffer[:at]
        return frames

    def _recognise(self) -> Codec | None:
        """Returns the codec the first bytes ask for, taking its tag or header off the buffer."""
        buffer = self._buffer
        if buffer and buffer[0] == _ABRIDGED:
            del buffer[:1]
            return Abridged()
        if len(buffer) < 4:
            return None
        head = bytes(buffer[:4])
        if head in _FOREIGN:
            raise RefusedTransport(f"the client speaks {_FOREIGN[head]}")
        if head in (_INTERMEDIATE, _PADDED):
            del buffer[:4]
            return self._tagged(head)
        if len(buffer) < 8:
            return None
        if not any(buffer[4:8]):
            return Full()
        if _is_client_hello(buffer):
            raise RefusedTransport("the client speaks TLS")
        if len(buffer) < HEADER_BYTES:
            return None
        return self._deobfuscate()

    def _tagged(self, tag: bytes) -> Codec | None:
        if tag == bytes((_ABRIDGED,)) * 4:
            return Abridged()
        if tag == _INTERMEDIATE:
            return Intermediate()
        if tag == _PADDED:
            return PaddedIntermediate(self._random)
        return None

    def _deobfuscate(self) -> Codec:
        header = bytes(self._buffer[:HEADER_BYTES])
        for secret in (self._secret, b"") if self._secret else (b"",):
            opened = open_header(header, secret or b"")
            codec = self._tagged(opened.tag)
            if codec is not None:
                self._adopt(opened, proxied=bool(secret))
                return codec
        raise RefusedTransport("the first bytes are of no transport")

    def _adopt(self, opened: ObfuscatedHeader, *, proxied: bool) -> None:
        self.dc_id = opened.dc_id
        self.is_media = opened.dc_id < 0
        self.is_proxied = proxied
        self._inbound, self._outbound = opened.inbound, opened.outbound
        self._buffer[:] = opened.inbound.update(bytes(self._buffer[HEADER_BYTES:]))


def _is_client_hello(head: bytearray) -> bool:
    """Tells whether 8 bytes open a TLS handshake; a random header looks so once in 2**38 connections."""
    return head[0] == 0x16 and head[1] == 3 and head[2] <= 4 and head[5] == 1 and head[6] == 0
