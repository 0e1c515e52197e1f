"""Transport obfuscation: the 64-byte header that opens an obfuscated2 connection, and its two key streams.

    0        8               40         56      60      62     64
    | random | key (32)      | iv (16)  | tag   | dc    | rand |      bytes 56-63 are sent encrypted

The server's key stream comes from bytes 8-55 read backwards. With an MTProto proxy's secret each key is
replaced by SHA-256(key + secret).

*Spec: MTProto transports, "Transport obfuscation"; MTProxy*
"""

from __future__ import annotations

from typing import Final, NamedTuple

from telesrv.mtproto.crypto import CtrStream, sha256

__all__ = ["HEADER_BYTES", "ObfuscatedHeader", "open_header"]

HEADER_BYTES: Final = 64


class ObfuscatedHeader(NamedTuple):
    """What an obfuscation header says, and the streams that go on behind it.

    ``tag`` are the 4 bytes that name the framing; ``dc_id`` is the signed int16, raw: many clients leave
    noise in it, media connections negate it and test ones add 10000.
    """

    tag: bytes
    dc_id: int
    inbound: CtrStream
    outbound: CtrStream


def open_header(header: bytes, secret: bytes) -> ObfuscatedHeader:
    """Returns what the 64 bytes say under ``secret`` (empty for none); only a known tag proves them valid.

    *Spec: MTProto transports, "Transport obfuscation"*
    """
    inbound = _stream(header[8:56], secret)
    outbound = _stream(header[55:7:-1], secret)
    plain = inbound.update(header)
    return ObfuscatedHeader(
        plain[56:60], int.from_bytes(plain[60:62], "little", signed=True), inbound, outbound
    )


def _stream(material: bytes, secret: bytes) -> CtrStream:
    key = material[:32]
    return CtrStream(sha256(key + secret) if secret else key, material[32:])
