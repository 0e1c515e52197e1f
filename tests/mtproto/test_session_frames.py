"""The frames inside a packet: containers and gzip_packed, whole, cut, lying and bombing."""

from __future__ import annotations

import contextlib
import gzip
import random
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telesrv import tl
from telesrv.mtproto import messages
from telesrv.mtproto.messages import MalformedMessage, Message
from telesrv.tl import mt
from telesrv.tl.errors import ProtocolError

BODIES = st.binary(min_size=1, max_size=9).map(lambda b: b"\x01\x02\x03\x04" + b + bytes(-len(b) % 4))
MESSAGES = st.lists(st.builds(Message, st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31 - 1), BODIES))


def packed(stream: bytes) -> bytes:
    length = len(stream)
    head = bytes([length]) if length < 254 else b"\xfe" + length.to_bytes(3, "little")
    body = struct.pack("<I", messages.GZIP_PACKED) + head + stream
    return body + bytes(-len(body) % 4)


def test_a_container_is_as_the_public_page_says() -> None:
    one = Message(0x0102030405060708, 3, b"\xaa\xbb\xcc\xdd")
    expected = "dcf8f173 01000000 0807060504030201 03000000 04000000 aabbccdd"
    assert messages.encode_container([one]) == bytes.fromhex(expected)


@given(MESSAGES)
def test_containers_round_trip(inside: list[Message]) -> None:
    assert messages.parse_container(messages.encode_container(inside), 1000) == inside


@given(MESSAGES.filter(bool), st.data())
def test_a_cut_or_lengthened_container_is_refused(inside: list[Message], data: st.DataObject) -> None:
    body = messages.encode_container(inside)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(MalformedMessage):
        messages.parse_container(body[:cut], 1000)
    with pytest.raises(MalformedMessage):
        messages.parse_container(body + bytes(4), 1000)


def head(count: int) -> bytes:
    return struct.pack("<II", messages.MSG_CONTAINER, count)


@pytest.mark.parametrize(
    "body",
    [
        head(1) + struct.pack("<qiI", 4, 1, 100 << 20) + bytes(64),  # a message of 100 MiB
        head(1) + struct.pack("<qiI", 4, 1, 0xFFFFFFFC) + bytes(64),
        head(100 << 20) + bytes(64),  # a hundred million messages
        head(0xFFFFFFFF) + bytes(64),
        head(1) + struct.pack("<qiI", 4, 1, 6) + bytes(6),  # not whole words
        head(1) + struct.pack("<qiI", 4, 1, 0) + bytes(4),  # an empty message
        head(1) + struct.pack("<qiI", 4, 1, 8) + head(0),  # a container inside
        head(11) + (struct.pack("<qiI", 4, 1, 4) + bytes(4)) * 11,  # more than allowed below
    ],
)
def test_a_lying_container_is_refused_before_anything_is_made(body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage):
            messages.parse_container(body, 10)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
@pytest.mark.parametrize("size", [0, 1, 100, 253, 254, 70_000])
def test_gzip_and_zlib_are_understood(compress: object, size: int) -> None:
    data = random.Random(size).randbytes(size)
    stream = compress(data)  # type: ignore[operator]
    assert messages.gzip_unpack(packed(stream), 1 << 20) == data


def test_a_gzip_bomb_stops_at_the_bound() -> None:
    bomb = packed(gzip.compress(bytes(64 << 20), 9))
    assert len(bomb) < 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage, match="beyond"):
            messages.gzip_unpack(bomb, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_exactly_the_bound_is_allowed() -> None:
    assert messages.gzip_unpack(packed(gzip.compress(bytes(100))), 100) == bytes(100)
    with pytest.raises(MalformedMessage):
        messages.gzip_unpack(packed(gzip.compress(bytes(101))), 100)


@pytest.mark.parametrize(
    "body",
    [
        packed(b""),
        packed(b"no gzip at all"),
        packed(gzip.compress(b"cut")[:-1]),
        packed(gzip.compress(b"and") + b"more"),
        packed(gzip.compress(b"right")) + bytes(4),
        struct.pack("<I", messages.GZIP_PACKED),
        struct.pack("<I", messages.GZIP_PACKED) + b"\xff" + bytes(7),
        struct.pack("<I", messages.GZIP_PACKED) + b"\xfe\xff\xff\xff" + bytes(8),
    ],
)
def test_a_broken_gzip_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedMessage):
        messages.gzip_unpack(body, 1 << 20)


def test_a_large_answer_is_packed_when_that_helps() -> None:
    text = b"some text that repeats. " * 1000
    out = messages.maybe_gzip(text)
    assert len(out) < len(text) // 10
    assert len(out) % 4 == 0
    assert messages.gzip_unpack(out, 1 << 20) == text
    noise = random.Random(1).randbytes(20_000)
    assert messages.maybe_gzip(noise) is noise
    short = random.Random(1).randbytes(2000)
    assert messages.maybe_gzip(short) is short


def test_what_we_pack_the_tl_reader_reads() -> None:
    error = mt.RpcError(error_code=400, error_message="A" * 4000)
    assert tl.read(messages.maybe_gzip(tl.write(error))) == error


def test_an_rpc_result_names_its_request() -> None:
    body = messages.encode_rpc_result(-2, b"rest")
    assert body == bytes.fromhex("016d5cf3 feffffffffffffff") + b"rest"


@given(st.binary(max_size=200))
def test_garbage_gives_only_protocol_errors(garbage: bytes) -> None:
    for constructor in (messages.MSG_CONTAINER, messages.GZIP_PACKED):
        body = struct.pack("<I", constructor) + garbage
        for parse in (messages.parse_container, messages.gzip_unpack):
            with contextlib.suppress(ProtocolError):
                parse(body, 1000)
