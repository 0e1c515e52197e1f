"""Clients that break the rules get the right code or a clean close, and cost the server nothing that lasts.

*Spec: Security Guidelines for Client Developers; Service Messages about Messages*
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import random
import struct
import time

import pytest

from telesrv import tl
from telesrv.mtproto.salts import PERIOD_S
from telesrv.tl import functions, mt, types
from tests.gateway.conftest import new_phone
from tests.support.raw_client import WAIT_S, Link, RawClient, container
from tests.support.running import RunningServer

RSS_GROWTH_BYTES = 32 << 20


def rss_bytes(server: RunningServer) -> int:
    """Returns the resident memory of the server's own processes: the supervisor and its workers."""
    assert server.process is not None
    pages = 0
    for pid in (server.process.pid, *server.worker_pids()):
        with open(f"/proc/{pid}/statm") as statm:
            pages += int(statm.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def still_serves(server: RunningServer) -> None:
    """Asserts that a new client gets an answer."""
    client = RawClient(server.port, server.data_dir)
    await client.open()
    config = await client.ask(functions.help.GetConfig())
    assert isinstance(config, types.Config)
    await client.close()


async def expect_bad_msg(client: RawClient, code: int, msg_id: int) -> None:
    notice = await client.wait_for(mt.BadMsgNotification, bad_msg_id=msg_id)
    assert notice.error_code == code


@pytest.mark.parametrize(("age_s", "code"), [(-400, 16), (400, 17)])
async def test_a_msg_id_of_another_time(client: RawClient, age_s: int, code: int) -> None:
    msg_id = client.next_msg_id(at=time.time() + age_s)
    client.send(mt.Ping(ping_id=2), msg_id=msg_id)
    await expect_bad_msg(client, code, msg_id)


async def test_a_msg_id_that_is_not_a_multiple_of_four(client: RawClient) -> None:
    msg_id = client.next_msg_id() + 2
    client.send(mt.Ping(ping_id=2), msg_id=msg_id)
    await expect_bad_msg(client, 18, msg_id)


async def test_a_request_with_an_even_seq_no(client: RawClient) -> None:
    msg_id = client.send(functions.help.GetConfig(), seq_no=client.seq * 2)
    await expect_bad_msg(client, 35, msg_id)


async def test_a_wrong_salt_is_not_executed(client: RawClient) -> None:
    period = None
    while period != time.time() // PERIOD_S:  # once more when another one has begun meanwhile
        period = time.time() // PERIOD_S
        await client.learn_salt()
        msg_id = client.send(mt.Ping(ping_id=77), salt=client.salt ^ 1)
        notice = await client.wait_for(mt.BadServerSalt, bad_msg_id=msg_id)
    assert notice.error_code == 48
    assert notice.new_server_salt == client.salt
    client.send(mt.Ping(ping_id=78))
    pong = await client.wait_for(mt.Pong)
    assert pong.ping_id == 78


async def test_the_same_packet_twice_is_executed_once(client: RawClient) -> None:
    send_code = functions.auth.SendCode(  # each is counted, so a second run would show
        phone_number=new_phone(), api_id=1, api_hash="0" * 32, settings=types.CodeSettings()
    )
    assert client.link is not None
    await client.ask(functions.help.GetConfig())
    msg_id = client.next_msg_id()
    packet = client.packet(tl.write(send_code), msg_id=msg_id)
    client.link.send(packet)
    client.link.send(packet)
    first = await client.result_of(msg_id)
    assert isinstance(first, types.auth.SentCode)
    client.link.send(packet)
    again = await client.result_of(msg_id)
    assert again == first


async def test_a_packet_replayed_over_another_link_draws_nothing_but_its_own_answer(
    client: RawClient, server: RunningServer
) -> None:
    assert client.link is not None
    await client.ask(functions.help.GetConfig())
    packet = client.packet(tl.write(mt.Ping(ping_id=5)))
    client.link.send(packet)
    await client.wait_for(mt.Pong, ping_id=5)
    stranger = await Link.open(server.port)
    stranger.send(packet)
    client.send(mt.Ping(ping_id=6))
    await client.wait_for(mt.Pong, ping_id=6)
    await stranger.close()


@pytest.mark.parametrize("where", ["msg_key", "ciphertext"])
async def test_a_flipped_bit_is_never_answered(client: RawClient, server: RunningServer, where: str) -> None:
    packet = client.packet(tl.write(mt.Ping(ping_id=3)))
    start, end = (8, 24) if where == "msg_key" else (24, len(packet))
    rng = random.Random(7)
    for _ in range(40):
        position = rng.randrange(start * 8, end * 8)
        flipped = bytearray(packet)
        flipped[position // 8] ^= 1 << position % 8
        link = await Link.open(server.port)
        link.send(bytes(flipped))
        assert await link.receive() is None
        await link.close()


@pytest.mark.parametrize("padding", [0, 1, 4, 11, 1040, 4096])
async def test_padding_out_of_bounds_is_never_answered(client: RawClient, padding: int) -> None:
    body = tl.write(mt.Ping(ping_id=3))
    fill = -(32 + len(body) + padding) % 16
    assert client.link is not None
    if 12 <= padding + fill <= 1024:
        padding += 16 * 70
    client.link.send(client.packet(body, padding=padding + fill))
    assert await client.link.receive() is None


@pytest.mark.parametrize("claimed", [0, 3, 5, 1 << 20, 100 << 20, 0xFFFFFFFF])
async def test_a_length_that_does_not_fit_is_never_answered(client: RawClient, claimed: int) -> None:
    assert client.link is not None
    client.link.send(client.packet(tl.write(mt.Ping(ping_id=3)), claimed_bytes=claimed))
    assert await client.link.receive() is None


async def test_containers_that_claim_too_much(client: RawClient) -> None:
    ping = tl.write(mt.Ping(ping_id=4))
    inner = client.next_msg_id()
    for body in (
        struct.pack("<II", 0x73F1F8DC, 0x7FFFFFFF),
        struct.pack("<IIqiI", 0x73F1F8DC, 1, inner, 1, 100 << 20) + ping,
        container([(inner, 1, container([(inner, 1, ping)]))]),
    ):
        msg_id = client.next_msg_id()
        assert client.link is not None
        client.link.send(client.packet(body, msg_id=msg_id, seq_no=client.next_seq_no(content_related=False)))
        await expect_bad_msg(client, 64, msg_id)


async def test_gzip_bombs_are_refused(client: RawClient, server: RunningServer) -> None:
    before = rss_bytes(server)
    bomb = gzip.compress(bytes(200 << 20), 9)
    assert len(bomb) < 1 << 18
    packed = struct.pack("<I", 0x3072CFA1) + b"\xfe" + len(bomb).to_bytes(3, "little") + bomb
    packed += bytes(-len(bomb) % 4)
    for _ in range(5):
        msg_id = client.next_msg_id()
        assert client.link is not None
        client.link.send(client.packet(packed, msg_id=msg_id))
        messages = await client.receive()
        assert messages is None or all(not isinstance(m, mt.Pong) for _, m in messages)
        if messages is None:
            await client.connect()
    await still_serves(server)
    assert rss_bytes(server) - before < RSS_GROWTH_BYTES


@pytest.mark.parametrize(
    "opening",
    [
        b"\xee\xee\xee\xee" + struct.pack("<I", 100 << 20),
        b"\xef\x7f\xff\xff\xff",
        struct.pack("<II", 100 << 20, 0) + bytes(64),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(64),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        random.Random(3).randbytes(256),
    ],
)
async def test_nonsense_at_the_start_is_closed(server: RunningServer, opening: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(opening)
    writer.write_eof()
    async with asyncio.timeout(WAIT_S):
        await reader.read()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    await still_serves(server)


async def test_an_unknown_key_gets_404(server: RunningServer) -> None:
    link = await Link.open(server.port)
    link.send(struct.pack("<q", 123456789) + os.urandom(64))
    answer = await link.receive()
    assert answer == struct.pack("<i", -404)
    assert await link.receive() is None
    await link.close()


async def test_a_thousand_half_open_handshakes(server: RunningServer) -> None:
    await still_serves(server)
    before = rss_bytes(server)
    links = [await Link.open(server.port) for _ in range(1000)]
    for link in links:
        body = tl.write(mt.ReqPqMulti(nonce=os.urandom(16)))
        link.send(struct.pack("<qqi", 0, int(time.time()) << 32, len(body)) + body)
    for link in links:
        assert await link.receive() is not None
    grown = rss_bytes(server) - before
    await still_serves(server)
    for link in links:
        await link.close()
    assert grown < RSS_GROWTH_BYTES, f"{grown >> 20} MiB"


async def test_garbage_in_every_state_leaves_the_server_alone(
    server: RunningServer, client: RawClient
) -> None:
    rng = random.Random(11)
    for _ in range(60):
        link = await Link.open(server.port)
        kind = rng.randrange(3)
        if kind == 0:
            link.send(rng.randbytes(rng.randrange(4, 600) & ~3))
        elif kind == 1:
            link.send(struct.pack("<qqi", 0, int(time.time()) << 32, 64) + rng.randbytes(64))
        else:
            link.send(client.packet(rng.randbytes(rng.randrange(4, 400) & ~3)))
        await link.close()
    await still_serves(server)
