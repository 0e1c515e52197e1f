"""The frames inside an encrypted packet: messages, containers, gzip_packed and rpc_result.

Guarantees: a length that a peer claims is checked against the bytes that are there before anything is
allocated for it, and nothing is inflated beyond the caller's bound. Every error is a ``MalformedMessage``.

    message        msg_id:8  seq_no:4  length:4  body:length          (little-endian, length % 4 == 0)
    msg_container  73f1f8dc  count:4   count * message
    rpc_result     f35c6d01  req_msg_id:8  body
    gzip_packed    3072cfa1  TL bytes of a gzip (or zlib) stream

*Spec: Service Messages about Messages*
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from gzip import compress as gzip_compress
from typing import Final, NamedTuple

from telesrv.tl.errors import ProtocolError

MSG_CONTAINER: Final = 0x73F1F8DC
GZIP_PACKED: Final = 0x3072CFA1
RPC_RESULT: Final = 0xF35C6D01

MESSAGE_HEADER_BYTES: Final = 16
CONTAINER_HEADER_BYTES: Final = 8

_MESSAGE_HEADER: Final = struct.Struct("<qiI")
_CONTAINER_HEADER: Final = struct.Struct("<II")
_RPC_RESULT: Final = struct.Struct("<Iq")
_UINT32: Final = struct.Struct("<I")

_LONG_STRING: Final = 254
"""First byte of a TL string whose length follows in three bytes."""

_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_SAMPLE_BYTES: Final = 4096
_WORTH_IT: Final = 0.9
"""A stream is sent compressed only when it is smaller than this part of the original."""


class MalformedMessage(ProtocolError):
    """The frame breaks its own rules; the message that holds it is not executed."""


class Message(NamedTuple):
    """One message as it stands in a packet or a container; the body is raw TL."""

    msg_id: int
    seq_no: int
    body: bytes | memoryview


def constructor_id(body: bytes | memoryview) -> int:
    """Returns the first four bytes of a body as its constructor id.

    Raises:
        MalformedMessage: the body is shorter than four bytes.
    """
    if len(body) < 4:
        raise MalformedMessage(f"a body of {len(body)} bytes has no constructor")
    value: int = _UINT32.unpack_from(body)[0]
    return value


def parse_container(body: bytes | memoryview, max_messages: int) -> list[Message]:
    """Returns the messages of a msg_container; their bodies are views, nothing is copied.

    Args:
        body: the whole container, its constructor included.
        max_messages: more than this many are refused before any is read.

    Raises:
        MalformedMessage: a count or a length does not fit, bytes are left over, or a container is inside.

    *Spec: Service Messages about Messages, "Simple Container"*
    """
    if len(body) < CONTAINER_HEADER_BYTES:
        raise MalformedMessage("a container without its count")
    _, count = _CONTAINER_HEADER.unpack_from(body)
    if count > max_messages or count * (MESSAGE_HEADER_BYTES + 4) > len(body) - CONTAINER_HEADER_BYTES:
        raise MalformedMessage(f"a container of {len(body)} bytes claims {count} messages")
    view = memoryview(body)
    offset = CONTAINER_HEADER_BYTES
    messages = []
    for _ in range(count):
        if offset + MESSAGE_HEADER_BYTES > len(view):
            raise MalformedMessage("a container ends inside a message header")
        msg_id, seq_no, length = _MESSAGE_HEADER.unpack_from(view, offset)
        offset += MESSAGE_HEADER_BYTES
        if length < 4 or length % 4 or length > len(view) - offset:
            raise MalformedMessage(f"a contained message claims {length} bytes")
        inner = view[offset : offset + length]
        if constructor_id(inner) == MSG_CONTAINER:
            raise MalformedMessage("a container inside a container")
        messages.append(Message(msg_id, seq_no, inner))
        offset += length
    if offset != len(view):
        raise MalformedMessage("bytes are left after the last contained message")
    return messages


def encode_container(messages: Sequence[Message]) -> bytes:
    """Returns a msg_container of the messages, in their order."""
    parts: list[bytes | memoryview] = [_CONTAINER_HEADER.pack(MSG_CONTAINER, len(messages))]
    for msg_id, seq_no, body in messages:
        parts.append(_MESSAGE_HEADER.pack(msg_id, seq_no, len(body)))
        parts.append(body)
    return b"".join(parts)


def encode_rpc_result(req_msg_id: int, result: bytes) -> bytes:
    """Returns an rpc_result that answers ``req_msg_id``; ``result`` is its TL, packed or not."""
    return _RPC_RESULT.pack(RPC_RESULT, req_msg_id) + result


def _packed_stream(body: bytes | memoryview) -> memoryview:
    """Returns the stream inside gzip_packed: a TL string that must reach to the end of the body."""
    view = memoryview(body)
    if len(view) < 8:
        raise MalformedMessage("a gzip_packed without content")
    length, start = view[4], 5
    if length == _LONG_STRING:
        length, start = int.from_bytes(view[5:8], "little"), 8
    elif length > _LONG_STRING:
        raise MalformedMessage("a gzip_packed with an impossible string length")
    end = start + length
    if end + (-end) % 4 != len(view):
        raise MalformedMessage(f"a gzip_packed of {len(view)} bytes claims {length}")
    return view[start:end]


def gzip_unpack(body: bytes | memoryview, max_bytes: int) -> bytes:
    """Returns what a gzip_packed holds, gzip or zlib; never inflates beyond ``max_bytes``.

    Args:
        body: the whole gzip_packed, its constructor included.
        max_bytes: bound of the result; one byte more is refused, whatever the stream would go on to.

    Raises:
        MalformedMessage: the stream is broken, incomplete, followed by something, or too large.

    *Spec: Service Messages, "Packed Object"*
    """
    inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        data = inflater.decompress(_packed_stream(body), max_bytes + 1)
    except zlib.error as error:
        raise MalformedMessage(f"a broken gzip_packed: {error}") from None
    if len(data) > max_bytes:
        raise MalformedMessage(f"a gzip_packed inflates beyond {max_bytes} bytes")
    if not inflater.eof or inflater.unused_data:
        raise MalformedMessage("a gzip_packed that does not end with its stream")
    return data


def maybe_gzip(data: bytes) -> bytes:
    """Returns gzip_packed of ``data``, or ``data`` itself when that is not clearly smaller.

    Larger data is judged by a sample from its middle first, so that a file part that is compressed already
    costs microseconds, not milliseconds.
    """
    if len(data) > 2 * _SAMPLE_BYTES:
        middle = len(data) // 2
        sample = data[middle : middle + _SAMPLE_BYTES]
        if len(zlib.compress(sample, 1)) > _WORTH_IT * _SAMPLE_BYTES:
            return data
    stream = gzip_compress(data, compresslevel=5, mtime=0)
    if len(stream) > _WORTH_IT * len(data):
        return data
    length = len(stream)
    head = bytes([length]) if length < _LONG_STRING else bytes([_LONG_STRING]) + length.to_bytes(3, "little")
    packed = _UINT32.pack(GZIP_PACKED) + head + stream
    return packed + bytes(-len(packed) % 4)
