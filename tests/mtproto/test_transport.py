"""Each transport whole, byte by byte and with more behind it; what must be refused, and when."""

from __future__ import annotations

import itertools
import os
import struct
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telesrv.mtproto.errors import FrameError, RefusedTransport
from telesrv.mtproto.transport import DEFAULT_MAX_FRAME_BYTES, Frame, ServerTransport
from telesrv.tl.errors import ProtocolError
from tests.mtproto.transport_client import ClientTransport

SECRET = bytes(range(16))
KINDS = ("abridged", "intermediate", "padded intermediate", "full")


@dataclass(frozen=True)
class Way:
    kind: str
    obfuscated: bool = False
    secret: bytes = b""
    server_secret: bytes | None = None

    def client(self) -> ClientTransport:
        return ClientTransport(self.kind, obfuscated=self.obfuscated, secret=self.secret, dc_id=-10004)

    def server(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> ServerTransport:
        return ServerTransport(self.server_secret, os.urandom, max_frame_bytes)


WAYS = [
    *(Way(kind, server_secret=secret) for kind in KINDS for secret in (None, SECRET)),
    *(Way(kind, obfuscated=True, server_secret=secret) for kind in KINDS[:3] for secret in (None, SECRET)),
    *(Way(kind, obfuscated=True, secret=SECRET, server_secret=SECRET) for kind in KINDS[:3]),
    Way("padded intermediate", True, SECRET, b"\xdd" + SECRET),
]

every_way = pytest.mark.parametrize("way", WAYS, ids=lambda w: f"{w.kind}-{w.obfuscated}-{len(w.secret)}")


def payload_of(size: int, key_id: int = 7) -> bytes:
    """An encrypted-looking payload: 24 bytes and whole blocks."""
    return struct.pack("<q", key_id) + bytes(i % 251 for i in range(size - 8))


PAYLOADS = [payload_of(24 + 16 * blocks) for blocks in (2, 3, 30, 31, 400)]


@every_way
@pytest.mark.parametrize("step", [1, 3, 10**9])
def test_frames_in_any_slices(way: Way, step: int) -> None:
    client, server = way.client(), way.server()
    pads = itertools.count() if way.kind == "padded intermediate" else itertools.repeat(0)
    stream = client.opening + b"".join(client.pack(p, padding=bytes(next(pads))) for p in PAYLOADS)
    frames = list(
        itertools.chain.from_iterable(
            server.receive_data(stream[i : i + step]) for i in range(0, len(stream), step)
        )
    )
    assert frames == [Frame(p, False) for p in PAYLOADS]
    assert server.buffered_bytes == 0
    assert server.name == ("obfuscated " if way.obfuscated else "") + way.kind
    assert server.dc_id == (-10004 if way.obfuscated else None)
    assert server.is_media is way.obfuscated
    assert server.is_proxied is bool(way.secret)


@every_way
def test_a_started_frame_waits_behind_a_whole_one(way: Way) -> None:
    client, server = way.client(), way.server()
    second = client.opening + client.pack(PAYLOADS[0]) + client.pack(PAYLOADS[1])
    assert server.receive_data(second[:-1]) == [Frame(PAYLOADS[0], False)]
    assert server.buffered_bytes > 0
    assert server.receive_data(second[-1:]) == [Frame(PAYLOADS[1], False)]


@every_way
def test_server_frames_reach_the_client(way: Way) -> None:
    client, server = way.client(), way.server()
    server.receive_data(client.opening + client.pack(PAYLOADS[0]))
    sent = b"".join(server.pack(p) for p in PAYLOADS) + server.pack_error(404)
    received = client.receive(sent)
    for got, expected in zip(received, [*PAYLOADS, struct.pack("<i", -404)], strict=True):
        assert isinstance(got, bytes)
        assert len(got) - len(expected) in (range(4) if "padded" in way.kind else range(1))
        assert got.startswith(expected)
    assert received[-1] == struct.pack("<i", -404)


@pytest.mark.parametrize("kind", KINDS)
def test_every_length_about_the_long_form(kind: str) -> None:
    client, server = ClientTransport(kind), ServerTransport(None, os.urandom)
    payloads = [payload_of(size, key_id=0) for size in range(20, 1100, 4)]
    sent = client.opening + b"".join(map(client.pack, payloads))
    assert [frame.payload for frame in server.receive_data(sent)] == payloads
    received = client.receive(b"".join(map(server.pack, payloads)))
    for got, payload in zip(received, payloads, strict=True):
        assert isinstance(got, bytes)
        assert got[: len(payload)] == payload
        assert len(got) - len(payload) < (4 if kind == "padded intermediate" else 1)


@every_way
def test_quick_acks(way: Way) -> None:
    client, server = way.client(), way.server()
    sent = client.opening + b"".join(client.pack(p, quick_ack=True) for p in PAYLOADS)
    asked = way.kind != "full"
    assert server.receive_data(sent) == [Frame(p, asked) for p in PAYLOADS]
    if asked:
        assert client.receive(server.pack_quick_ack(0x81020304)) == [0x81020304]
    else:
        with pytest.raises(ValueError, match="quick ack"):
            server.pack_quick_ack(0x81020304)


@pytest.mark.parametrize(("kind", "wire"), [("abridged", "81020304"), ("intermediate", "04030281")])
def test_quick_ack_golden(kind: str, wire: str) -> None:
    server = ServerTransport(None, os.urandom)
    server.receive_data(ClientTransport(kind).opening)
    assert server.pack_quick_ack(0x81020304).hex() == wire


@pytest.mark.parametrize("padding", range(16))
def test_padding_of_encrypted_payloads_is_cut_off(padding: int) -> None:
    client, server = ClientTransport("padded intermediate"), ServerTransport(None, os.urandom)
    frames = server.receive_data(client.opening + client.pack(PAYLOADS[0], padding=bytes(padding)))
    assert frames == [Frame(PAYLOADS[0], False)]


def test_padding_of_unencrypted_payloads_is_left() -> None:
    client, server = ClientTransport("padded intermediate"), ServerTransport(None, os.urandom)
    payload = payload_of(61, key_id=0)
    assert server.receive_data(client.opening + client.pack(payload)) == [Frame(payload, False)]


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(b"\xef\x7f" + struct.pack("<I", 25_000_000)[:3], id="abridged"),
        pytest.param(b"\xee" * 4 + struct.pack("<I", 100_000_000), id="intermediate"),
        pytest.param(b"\xdd" * 4 + struct.pack("<I", 100_000_000), id="padded"),
        pytest.param(struct.pack("<II", 100_000_000, 0), id="full"),
        pytest.param(b"\xee" * 4 + struct.pack("<I", DEFAULT_MAX_FRAME_BYTES + 1), id="one byte"),
        pytest.param(b"\xef\x00", id="empty abridged"),
        pytest.param(b"\xef\x80", id="empty abridged with a quick ack"),
        pytest.param(b"\xee" * 4 + bytes(4), id="empty intermediate"),
        pytest.param(struct.pack("<II", 11, 0), id="full below its overhead"),
        pytest.param(struct.pack("<II", 12, 0), id="empty full"),
    ],
)
def test_a_wrong_length_is_refused_from_its_own_bytes(claim: bytes) -> None:
    server = ServerTransport(None, os.urandom)
    assert server.receive_data(claim[:-1]) == []
    with pytest.raises(FrameError):
        server.receive_data(claim[-1:])
    assert server.buffered_bytes == 0
    with pytest.raises(FrameError):  # and for good
        server.receive_data(ClientTransport("abridged").pack(PAYLOADS[0]))


def test_the_largest_frame_passes() -> None:
    way, limit = Way("intermediate"), 4096
    client, server = way.client(), way.server(limit)
    assert server.receive_data(client.opening + client.pack(payload_of(limit)))[0].payload == payload_of(
        limit
    )
    with pytest.raises(FrameError):
        server.receive_data(client.pack(payload_of(limit + 1))[:4])


@pytest.mark.parametrize("at", [4, 8, 20, -1], ids=["seq", "payload", "later", "crc"])
def test_a_damaged_full_frame_is_refused(at: int) -> None:
    client, server = ClientTransport("full"), ServerTransport(None, os.urandom)
    server.receive_data(client.pack(PAYLOADS[0]))
    frame = bytearray(client.pack(PAYLOADS[0]))
    frame[at] ^= 1
    with pytest.raises(FrameError):
        server.receive_data(bytes(frame))


def test_a_repeated_full_frame_is_refused() -> None:
    client, server = ClientTransport("full"), ServerTransport(None, os.urandom)
    frame = client.pack(PAYLOADS[0])
    server.receive_data(frame)
    with pytest.raises(FrameError):
        server.receive_data(frame)


@pytest.mark.parametrize(
    "opening",
    [
        b"GET / HTTP/1.1\r\n",
        b"POST /api HTTP/1.1\r\n",
        b"HEAD / HTTP/1.1\r\n",
        b"OPTIONS / HTTP/1.1\r\n",
        bytes.fromhex("1603010200010001fc0303"),
        bytes.fromhex("160301007c010000780303"),
        bytes.fromhex("16030300ee010000ea0303"),
        bytes(range(1, 65)),  # a header without a tag
        b"SSH-2.0-OpenSSH_9.9\r\n" + bytes(range(1, 65)),
    ],
)
@pytest.mark.parametrize("secret", [None, SECRET])
def test_other_protocols_are_refused(opening: bytes, secret: bytes | None) -> None:
    server = ServerTransport(secret, os.urandom)
    with pytest.raises(RefusedTransport):
        for i in range(len(opening)):
            assert server.receive_data(opening[i : i + 1]) == []
    assert server.buffered_bytes == 0
    assert server.pack_error(404) == b""


def test_a_header_that_begins_like_tls_by_chance_is_accepted() -> None:
    header = bytes.fromhex("1603017755331122") + bytes(range(1, 57))
    client = ClientTransport("intermediate", obfuscated=True, header=header)
    server = ServerTransport(None, os.urandom)
    assert server.receive_data(client.opening + client.pack(PAYLOADS[0])) == [Frame(PAYLOADS[0], False)]


def test_a_wrong_proxy_secret_is_refused() -> None:
    client = ClientTransport("intermediate", obfuscated=True, secret=b"x" * 16)
    for secret in (None, SECRET):
        with pytest.raises(RefusedTransport):
            ServerTransport(secret, os.urandom).receive_data(client.opening)


def test_secrets_of_another_length_are_our_own_error() -> None:
    for secret in (b"", b"x" * 15, b"\xee" + SECRET):
        with pytest.raises(ValueError, match="secret"):
            ServerTransport(secret, os.urandom)


def test_nothing_is_sent_before_the_transport_is_known() -> None:
    server = ServerTransport(None, os.urandom)
    assert server.name is None
    with pytest.raises(RuntimeError):
        server.pack(PAYLOADS[0])


def test_abridged_carries_whole_words_only() -> None:
    server = ServerTransport(None, os.urandom)
    server.receive_data(b"\xef")
    with pytest.raises(ValueError, match="abridged"):
        server.pack(b"x" * 25)


OPENINGS = [way.client().opening for way in WAYS if not way.secret]


@given(st.sampled_from([b"", *OPENINGS]), st.lists(st.binary(max_size=300), max_size=5))
def test_garbage_raises_only_protocol_errors(opening: bytes, chunks: list[bytes]) -> None:
    server = ServerTransport(SECRET, os.urandom, 256)
    try:
        for chunk in (opening, *chunks):
            server.receive_data(chunk)
            assert server.buffered_bytes <= 256 + 64
    except ProtocolError:
        assert server.buffered_bytes == 0
