"""Whatever the bytes, reading ends in an object or in a ProtocolError, and within bounds."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from random import Random
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from telesrv.tl import (
    LimitExceeded,
    Limits,
    ProtocolError,
    TLError,
    TrailingBytes,
    Truncated,
    UnknownConstructor,
    functions,
    mt,
    read,
    read_prefix,
    read_result,
    types,
    write,
)
from telesrv.tl.schema import LAYER, schema
from telesrv.tl.writer import write_bytes
from tests.tl.values import build

IDS = sorted(schema().by_id)
VECTOR = bytes.fromhex("15c4b51c")
GZIP_PACKED = bytes.fromhex("a1cf7230")


def sample() -> types.Updates:
    message = types.Message(
        out=True,
        id=5,
        peer_id=types.PeerUser(user_id=7),
        date=1,
        message="hello",
        entities=[types.MessageEntityBold(offset=0, length=5)],
    )
    update = types.UpdateNewMessage(message=message, pts=1, pts_count=1)
    return types.Updates(
        updates=[update], users=[types.User(id=7, first_name="é" * 150)], chats=[], date=1, seq=0
    )


@given(st.sampled_from(IDS), st.binary(max_size=300))
@example(0x3072CFA1, b"\x00\x00\x00\x00")
def test_garbage_after_a_known_id(id_: int, tail: bytes) -> None:
    with suppress(ProtocolError):
        read(id_.to_bytes(4, "little") + tail)


@given(st.binary(max_size=100), st.integers(0, 100))
def test_garbage(data: bytes, offset: int) -> None:
    for attempt in (
        lambda: read(data),
        lambda: read_prefix(data, offset),
        lambda: read_result(data, "Vector<User>"),
    ):
        with suppress(ProtocolError):
            attempt()


@given(st.sampled_from(IDS), st.integers(0, 1 << 32), st.data())
def test_a_damaged_object(id_: int, seed: int, data: st.DataObject) -> None:
    variant = schema().by_id[id_]
    layer = max(variant.first, 152)
    raw = bytearray(write(build(variant, Random(seed), layer), layer))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        read(raw)


@pytest.mark.parametrize("layer", [152, 192, LAYER])
def test_every_truncation(layer: int) -> None:
    data = write(sample(), layer)
    for end in range(len(data)):
        with pytest.raises(TLError):
            read(data[:end])


@given(st.sampled_from(IDS), st.integers(0, 1 << 32))
def test_any_truncation(id_: int, seed: int) -> None:
    variant = schema().by_id[id_]
    layer = max(variant.first, 152)
    data = write(build(variant, Random(seed), layer), layer)
    for end in range(0, len(data), max(1, len(data) // 16)):
        with pytest.raises(TLError):
            read(data[:end])


def test_trailing_bytes() -> None:
    data = write(sample())
    for extra in (b"\0", b"\0\0\0\0", data):
        with pytest.raises(TrailingBytes):
            read(data + extra)
        assert read_prefix(data + extra) == (sample(), len(data))


def test_unknown_ids_are_named() -> None:
    with pytest.raises(UnknownConstructor, match="deadbeef") as caught:
        read(bytes.fromhex("efbeadde"))
    assert caught.value.constructor_id == 0xDEADBEEF


def test_a_type_the_field_cannot_have() -> None:
    message = write(functions.messages.GetPinnedDialogs(folder_id=0))
    with pytest.raises(UnknownConstructor, match="InputPeer"):
        read(write(functions.messages.ReadHistory(peer=types.InputPeerSelf(), max_id=1))[:4] + message)
    wrapped = write(functions.InvokeWithLayer(layer=152, query=functions.help.GetConfig()))
    with pytest.raises(UnknownConstructor, match="!X"):
        read(wrapped[:8] + write(types.PeerUser(user_id=1)))


def test_bool_must_be_one() -> None:
    data = write(functions.account.SetContentSettings(sensitive_enabled=True))
    assert read(data).sensitive_enabled is True
    call = write(functions.account.UpdateStatus(offline=True))
    with pytest.raises(UnknownConstructor, match="Bool"):
        read(call[:4] + b"\0\0\0\0")


def test_text_must_be_utf8() -> None:
    with pytest.raises(TLError, match="UTF-8"):
        read(write(functions.messages.CheckChatInvite(hash=""))[:4] + b"\x03\xff\xfe\xfd")


@pytest.mark.parametrize("count", [-1, 3, 1 << 24, (1 << 31) - 1])
@pytest.mark.parametrize("call", ["ids", "objects", "strings", "salts"])
def test_vector_counts_are_checked_against_the_bytes(call: str, count: int) -> None:
    raw = (count & 0xFFFFFFFF).to_bytes(4, "little")
    data = {
        "ids": write(mt.MsgsAck(msg_ids=[1]))[:4] + VECTOR + raw + bytes(16),
        "objects": write(functions.users.GetUsers(id=[]))[:4] + VECTOR + raw + bytes.fromhex("3fb1c1f7") * 2,
        "strings": write(functions.langpack.GetStrings(lang_pack="", lang_code="", keys=[]))[:-8]
        + VECTOR
        + raw
        + bytes(8),
        "salts": write(mt.FutureSalts(req_msg_id=1, now=1, salts=[]))[:-4] + raw + bytes(11),
    }[call]
    with pytest.raises((LimitExceeded, Truncated)):
        read(data)


def test_vector_limit() -> None:
    limits = Limits(vector_items=10)
    assert len(read(write(mt.MsgsAck(msg_ids=[1] * 10)), limits).msg_ids) == 10
    with pytest.raises(LimitExceeded, match="vector"):
        read(write(mt.MsgsAck(msg_ids=[1] * 11)), limits)


def test_string_limit() -> None:
    limits = Limits(string_bytes=1000)
    part = functions.upload.SaveFilePart(file_id=1, file_part=0, bytes=bytes(1000))
    assert read(write(part), limits) == part
    part.bytes = bytes(1001)
    with pytest.raises(LimitExceeded, match="string"):
        read(write(part), limits)
    with pytest.raises((LimitExceeded, Truncated)):
        read(write(part)[:16] + b"\xfe\xff\xff\xff")


def test_depth_limit() -> None:
    wrap = write(functions.InvokeWithoutUpdates(query=functions.help.GetConfig()))[:4]
    inner = write(functions.help.GetConfig())
    assert read(wrap * 40 + inner)
    for depth in (65, 1000, 100_000):
        with pytest.raises(LimitExceeded, match="deep"):
            read(wrap * depth + inner)
    array = bytes.fromhex("e1f74ff7") + VECTOR + bytes.fromhex("01000000")  # jsonArray of one jsonArray
    with pytest.raises(TLError):
        read(array * 5000)


def pack(data: bytes) -> bytes:
    return GZIP_PACKED + write_bytes(data)


def test_gzip_packed() -> None:
    call = functions.InvokeWithLayer(layer=152, query=functions.help.GetConfig())
    inner = write(call.query)
    for packed in (gzip.compress(inner), zlib.compress(inner)):
        assert read(write(call)[:8] + pack(packed)) == call
        assert read(pack(packed)) == call.query
    nested = pack(gzip.compress(pack(gzip.compress(inner))))
    assert read(nested) == call.query
    with pytest.raises(UnknownConstructor):  # nowhere but where anything may stand
        read(write(functions.users.GetFullUser(id=types.InputUserSelf()))[:4] + pack(gzip.compress(b"")))


def test_gzip_bombs() -> None:
    limits = Limits(inflated_bytes=1 << 20)
    part = functions.upload.SaveFilePart(file_id=1, file_part=0, bytes=bytes(1 << 19))
    assert read(pack(gzip.compress(write(part))), limits) == part
    for bomb in (bytes(1 << 24), write(part) * 3):
        with pytest.raises(LimitExceeded, match="inflates"):
            read(pack(gzip.compress(bomb)), limits)
    # Each layer of packing draws on one budget.
    wrapped = pack(gzip.compress(write(part)))
    for _ in range(3):
        wrapped = pack(gzip.compress(wrapped, 0))
    read(wrapped, Limits(inflated_bytes=1 << 20))
    with pytest.raises(LimitExceeded):
        read(wrapped, Limits(inflated_bytes=1 << 19))


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"not gzip",
        gzip.compress(b"")[:-1],
        gzip.compress(write(types.InputPeerSelf()))[:-3],
        gzip.compress(write(types.InputPeerSelf())) + b"x",
        gzip.compress(write(types.InputPeerSelf())[:2]),
        gzip.compress(write(types.InputPeerSelf()) + b"\0\0\0\0"),
    ],
)
def test_broken_gzip(packed: bytes) -> None:
    with pytest.raises(TLError):
        read(pack(packed))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (types.PeerUser(user_id=cast(Any, "1")), "integer"),
        (types.PeerUser(user_id=1 << 63), "range|large|int"),
        (types.UpdateNewMessage(message=cast(Any, None), pts=1, pts_count=1), "Message"),
        (types.UpdateNewMessage(message=cast(Any, types.PeerUser(user_id=1)), pts=1, pts_count=1), "Message"),
        (functions.messages.CheckChatInvite(hash=cast(Any, b"x")), "encode"),
        (functions.upload.SaveFilePart(file_id=1, file_part=0, bytes=cast(Any, "x")), "bytes|concat"),
        (object(), "object"),
        (None, "NoneType"),
    ],
)
def test_our_own_mistakes_are_type_errors(value: object, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        write(value)
