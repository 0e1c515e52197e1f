"""What a session takes, what it refuses and with which code, and that nothing is executed twice."""

from __future__ import annotations

import gzip
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telesrv import tl
from telesrv.mtproto.crypto import encrypt_message, quick_ack_token
from telesrv.mtproto.errors import DecryptionError
from telesrv.mtproto.messages import GZIP_PACKED, MSG_CONTAINER, Message
from telesrv.mtproto.session import (
    QuickAck,
    Request,
    SessionLimits,
    parse_envelope,
)
from telesrv.tl import mt
from tests.mtproto.session_client import (
    BODY,
    KEY,
    NOW,
    SESSION_ID,
    client_id,
    container,
    envelope,
    open_packet,
    packet,
    salts,
    sent_by,
    session,
    values,
)

PING = tl.write(mt.Ping(ping_id=7))
ACK = tl.write(mt.MsgsAck(msg_ids=[1]))
RESULT = b"\x11\x22\x33\x44 an answer.."
FIRST = client_id()


def bad(msg_id: int, seq_no: int, code: int) -> mt.BadMsgNotification:
    return mt.BadMsgNotification(bad_msg_id=msg_id, bad_msg_seqno=seq_no, error_code=code)


def packed(body: bytes) -> bytes:
    stream = gzip.compress(body)
    return struct.pack("<I", GZIP_PACKED) + tl.write_bytes(stream)


# Packets


def test_a_packet_opens_into_its_parts() -> None:
    opened = parse_envelope(KEY, packet(FIRST, 1, BODY, salt=-3))
    assert (opened.salt, opened.session_id, opened.msg_id, opened.seq_no) == (-3, SESSION_ID, FIRST, 1)
    assert bytes(opened.body) == BODY


def test_one_flipped_bit_anywhere_is_never_answered() -> None:
    good = packet(FIRST, 1, BODY)
    for at in range(8 * len(good)):
        flipped = bytearray(good)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(DecryptionError):
            parse_envelope(KEY, bytes(flipped))


@given(st.binary(max_size=200))
def test_garbage_for_a_packet_is_never_answered(garbage: bytes) -> None:
    for payload in (garbage, KEY.id_bytes + garbage):
        with pytest.raises(DecryptionError):
            parse_envelope(KEY, payload)


@pytest.mark.parametrize(
    ("length", "body", "padding", "allowed"),
    [
        (4, 4, 12, True),
        (4, 4, 1020, True),
        (4, 4, 1036, False),  # more than 1,024 bytes of padding
        (8, 4, 12, False),  # eats into the padding: 8 bytes are left
        (0, 4, 12, False),
        (3, 4, 12, False),
        (5, 4, 12, False),
        (2**31, 4, 12, False),
        (2**32 - 4, 4, 12, False),
    ],
)
def test_length_and_padding_are_checked(length: int, body: int, padding: int, allowed: bool) -> None:
    plaintext = struct.pack("<qqqiI", 0, SESSION_ID, FIRST, 1, length) + bytes(body)
    payload = encrypt_message(KEY, plaintext, from_server=False, padding=bytes(padding))
    if allowed:
        assert len(parse_envelope(KEY, payload).body) == length
    else:
        with pytest.raises(DecryptionError):
            parse_envelope(KEY, payload)


def test_the_first_answer_byte_by_byte() -> None:
    server = session()
    server.receive(envelope(FIRST, 0, PING), NOW)
    (payload,) = server.flush(NOW)
    opened = open_packet(payload)
    assert opened.salt == salts().current(NOW)
    created = struct.pack("<Iqqq", 0x9EC20908, FIRST, 0, opened.salt)
    pong = struct.pack("<Iqq", 0x347773C5, FIRST, 7)
    second = 1_700_000_000 << 32
    assert opened.body == (
        struct.pack("<II", MSG_CONTAINER, 2)
        + struct.pack("<qiI", second | 3, 1, len(created))
        + created
        + struct.pack("<qiI", (second + 4) | 1, 2, len(pong))
        + pong
    )
    assert (opened.msg_id, opened.seq_no) == ((second + 8) | 3, 2)


# The first message


def test_a_new_session_is_announced_once() -> None:
    server = session()
    assert server.receive(envelope(FIRST, 1, BODY), NOW) == [
        Request(FIRST, 1, BODY),
    ]
    created, ack = values(server)
    assert ack == mt.MsgsAck(msg_ids=[FIRST])
    assert created == mt.NewSessionCreated(first_msg_id=FIRST, unique_id=0, server_salt=salts().current(NOW))
    assert server.receive(envelope(FIRST + 4, 3, BODY), NOW) == [Request(FIRST + 4, 3, BODY)]


def test_the_first_msg_id_is_the_lowest_in_a_container() -> None:
    # Clients send again what lies below it: the container's own id would make them repeat all requests.
    server = session()
    body = container(Message(FIRST + 4, 1, BODY), Message(FIRST + 8, 3, BODY))
    server.receive(envelope(FIRST + 12, 4, body), NOW)
    assert values(server)[0].first_msg_id == FIRST + 4


# Codes


@pytest.mark.parametrize(
    ("msg_id", "code"),
    [
        (client_id(NOW - 299.9), 0),
        (client_id(NOW - 300.1), 16),
        (client_id(0), 16),
        (-4, 16),
        (client_id(NOW + 29.9), 0),
        (client_id(NOW + 30.1), 17),
        (2**63 - 4, 17),
        (FIRST + 1, 18),
        (FIRST + 2, 18),
        (FIRST + 3, 18),
    ],
)
def test_msg_id_codes(msg_id: int, code: int) -> None:
    server = session()
    events = server.receive(envelope(msg_id, 1, BODY), NOW)
    if code:
        assert events == []
        (notice,) = sent_by(server)
        assert notice.value == bad(msg_id, 1, code)
        assert notice.msg_id >> 32 == int(NOW)  # by which a client sets its clock
        assert notice.seq_no % 2 == 0
    else:
        assert events[-1] == Request(msg_id, 1, BODY)


@pytest.mark.parametrize(
    ("before", "msg_id", "seq_no", "body", "code"),
    [
        ([(10, 5)], 20, 3, BODY, 32),  # behind a higher one
        ([(10, 5)], 20, 5, BODY, 32),  # an odd one repeated
        ([(10, 5)], 20, 4, PING, 32),
        ([(10, 5)], 20, 6, PING, 0),
        ([(10, 5)], 20, 7, BODY, 0),
        ([(10, 5)], 5, 7, BODY, 33),  # before a lower one
        ([(10, 5)], 5, 5, BODY, 33),
        ([(10, 5)], 5, 3, BODY, 0),  # late, and in order
        ([(10, 5), (30, 9)], 20, 7, BODY, 0),
        ([(10, 5), (30, 9)], 20, 11, BODY, 33),
        ([], 20, 0, BODY, 35),  # a request must be odd
        ([], 20, 2, BODY, 35),
        ([], 20, 1, PING, 0),  # Telethon
        ([], 20, 0, PING, 0),  # pyrogram
        ([], 20, 1, ACK, 0),  # mtcute
        ([], 20, 1, container(Message(FIRST + 40, 1, BODY)), 34),
        ([], 20, 2, container(Message(FIRST + 40, 1, BODY)), 0),
    ],
)
def test_seq_no_codes(
    before: list[tuple[int, int]], msg_id: int, seq_no: int, body: bytes, code: int
) -> None:
    server = session()
    for step, known in before:
        server.receive(envelope(FIRST + 4 * step, known, BODY), NOW)
    server.flush(NOW)
    events = server.receive(envelope(FIRST + 4 * msg_id, seq_no, body), NOW)
    answers = values(server)
    if code:
        assert events == []
        assert bad(FIRST + 4 * msg_id, seq_no, code) in answers
    else:
        assert not any(isinstance(answer, mt.BadMsgNotification) for answer in answers)


def test_a_refused_message_leaves_no_trace() -> None:
    server = session()
    server.receive(envelope(FIRST, 2, BODY), NOW)  # 35
    assert server.receive(envelope(FIRST, 1, BODY), NOW) == [Request(FIRST, 1, BODY)]


@pytest.mark.parametrize(
    "inside",
    [
        [Message(FIRST + 4, 1, container())],  # nested
        [Message(FIRST + 40, 1, BODY)],  # the container's own id
        [Message(FIRST + 44, 1, BODY)],  # above the container's
    ],
)
def test_an_invalid_container_is_refused_whole(inside: list[Message]) -> None:
    server = session()
    body = container(Message(FIRST, 1, BODY), *inside)
    assert server.receive(envelope(FIRST + 40, 2, body), NOW) == []
    assert values(server) == [bad(FIRST + 40, 2, 64)]
    assert server.receive(envelope(FIRST + 48, 2, container(Message(FIRST, 1, BODY))), NOW) == [
        Request(FIRST, 1, BODY)
    ]


def test_a_hundred_mebibyte_claim_is_an_invalid_container() -> None:
    server = session()
    body = struct.pack("<IIqiI", MSG_CONTAINER, 1, FIRST, 1, 100 << 20) + bytes(16)
    assert server.receive(envelope(FIRST + 4, 0, body), NOW) == []
    assert values(server) == [bad(FIRST + 4, 0, 64)]


def test_a_packed_container_is_refused() -> None:
    server = session()
    inner = container(Message(FIRST, 1, BODY))
    assert server.receive(envelope(FIRST + 8, 0, packed(inner)), NOW) == []
    assert values(server) == [bad(FIRST + 8, 0, 64)]


def test_another_container_with_the_same_id_is_refused() -> None:
    server = session()
    server.receive(envelope(FIRST + 40, 2, container(Message(FIRST, 1, BODY))), NOW)
    server.flush(NOW)
    other = container(Message(FIRST + 4, 3, BODY))
    assert server.receive(envelope(FIRST + 40, 4, other), NOW) == []
    assert bad(FIRST + 40, 4, 19) in values(server)


def test_a_container_may_not_take_the_id_of_a_message() -> None:
    server = session()
    server.receive(envelope(FIRST + 40, 1, BODY), NOW)
    server.flush(NOW)
    other = container(Message(FIRST + 4, 1, BODY))
    assert server.receive(envelope(FIRST + 40, 4, other), NOW) == []
    assert bad(FIRST + 40, 4, 19) in values(server)


def test_inside_a_container_each_message_is_judged_alone() -> None:
    server = session()
    body = container(
        Message(FIRST, 1, BODY),
        Message(FIRST + 6, 3, BODY),
        Message(FIRST + 8, 2, BODY),
        Message(FIRST + 12, 3, BODY),
    )
    events = server.receive(envelope(FIRST + 40, 4, body), NOW)
    assert events == [Request(FIRST, 1, BODY), Request(FIRST + 12, 3, BODY)]
    refused = values(server)[1:3]
    assert refused == [bad(FIRST + 6, 3, 18), bad(FIRST + 8, 2, 35)]


def test_an_old_request_is_taken_inside_a_fresh_container() -> None:
    # Telegram Desktop answers 16 by wrapping the request, under its old msg_id.
    server = session()
    old = client_id(NOW - 400)
    server.receive(envelope(old, 1, BODY), NOW)
    assert values(server) == [bad(old, 1, 16)]
    events = server.receive(envelope(FIRST, 2, container(Message(old, 1, BODY))), NOW)
    assert events == [Request(old, 1, BODY)]


def test_what_may_have_been_forgotten_is_never_executed() -> None:
    server = session(SessionLimits(max_received_ids=8))
    for step in range(1, 40):
        msg_id = FIRST + 8 * step
        server.receive(envelope(msg_id, 2 * step + 1, BODY), NOW)
        server.send_result(msg_id, RESULT, NOW)
        ids = [message.msg_id for message in sent_by(server)]
        ack = tl.write(mt.MsgsAck(msg_ids=ids))
        server.receive(envelope(msg_id + 4, 2 * step + 2, ack), NOW)
    late = FIRST + 4
    assert server.receive(envelope(late, 1, BODY), NOW) == []
    assert values(server) == [bad(late, 1, 20)]
    newest = FIRST + 8 * 50
    assert server.receive(envelope(newest, 200, container(Message(late, 1, BODY))), NOW) == []
    assert values(server) == [bad(late, 1, 20)]


def test_the_mark_of_an_earlier_process_holds() -> None:
    first = session()
    captured = packet(FIRST, 1, BODY)
    first.receive(parse_envelope(KEY, captured), NOW)
    second = session(min_msg_id=first.highest_msg_id)
    assert not second.is_fresh(parse_envelope(KEY, captured), NOW)
    assert second.receive(parse_envelope(KEY, captured), NOW) == []
    assert values(second) == [bad(FIRST, 1, 16)]
    wrapped = envelope(FIRST + 8, 2, container(Message(FIRST, 1, BODY), Message(FIRST + 4, 3, BODY)))
    assert second.receive(wrapped, NOW) == [Request(FIRST + 4, 3, BODY)]
    assert bad(FIRST, 1, 20) in values(second)


# Salts


def test_a_wrong_salt_is_answered_by_the_right_one_and_nothing_is_taken() -> None:
    server = session()
    assert server.receive(envelope(FIRST, 1, BODY, salt=0), NOW) == []
    current = salts().current(NOW)
    assert values(server) == [
        mt.BadServerSalt(bad_msg_id=FIRST, bad_msg_seqno=1, error_code=48, new_server_salt=current)
    ]
    assert server.receive(envelope(FIRST, 1, BODY, salt=current), NOW) == [Request(FIRST, 1, BODY)]


def test_a_wrong_salt_comes_before_a_wrong_time() -> None:
    server = session()
    server.receive(envelope(client_id(NOW - 5000), 1, BODY, salt=0), NOW)
    (notice,) = values(server)
    assert notice.error_code == 48


def test_the_salt_of_the_last_period_is_taken_and_the_new_one_given() -> None:
    server = session()
    later = NOW + 1800
    assert server.receive(envelope(client_id(later), 1, BODY, salt=salts().current(NOW)), later)
    (payload,) = server.flush(later)
    assert open_packet(payload).salt == salts().current(later)


# Execution


def test_the_same_packet_twice_is_executed_once_and_answered_again() -> None:
    server = session()
    same = packet(FIRST, 1, BODY)
    assert server.receive(parse_envelope(KEY, same), NOW) == [Request(FIRST, 1, BODY)]
    assert server.receive(parse_envelope(KEY, same), NOW) == []  # while it runs
    assert values(server)[-1] == mt.MsgsAck(msg_ids=[FIRST])
    assert server.send_result(FIRST, RESULT, NOW)
    (answer,) = sent_by(server)
    assert answer.value == (FIRST, RESULT)
    assert server.receive(parse_envelope(KEY, same), NOW) == []
    assert sent_by(server) == [answer]  # the same msg_id, seq_no and body
    assert not server.send_result(FIRST, b"another", NOW)


def test_a_container_twice_is_executed_once_and_answered_again() -> None:
    server = session()
    same = packet(FIRST + 8, 4, container(Message(FIRST, 1, BODY), Message(FIRST + 4, 3, BODY)))
    assert len(server.receive(parse_envelope(KEY, same), NOW)) == 2
    for msg_id in (FIRST, FIRST + 4):
        server.send_result(msg_id, RESULT, NOW)
    answers = [message for message in sent_by(server) if isinstance(message.value, tuple)]
    assert server.receive(parse_envelope(KEY, same), NOW) == []
    assert sent_by(server) == answers


def test_a_request_in_another_container_is_the_same_request() -> None:
    server = session()
    server.receive(envelope(FIRST, 1, BODY), NOW)
    server.send_result(FIRST, RESULT, NOW)
    answer = sent_by(server)[-1]
    body = container(Message(FIRST, 1, BODY), Message(FIRST + 4, 3, BODY))
    assert server.receive(envelope(FIRST + 8, 4, body), NOW) == [Request(FIRST + 4, 3, BODY)]
    assert sent_by(server)[0] == answer


def test_an_acknowledged_answer_is_gone_and_its_request_still_known() -> None:
    server = session()
    server.receive(envelope(FIRST, 1, BODY), NOW)
    server.send_result(FIRST, RESULT, NOW)
    answer = sent_by(server)[-1]
    ack = tl.write(mt.MsgsAck(msg_ids=[answer.msg_id, 12345]))
    assert server.receive(envelope(FIRST + 4, 2, ack), NOW) == []
    assert server.receive(envelope(FIRST, 1, BODY), NOW) == []
    assert values(server, NOW + 1) == [mt.MsgsAck(msg_ids=[FIRST])]


def test_only_a_new_packet_may_move_the_session() -> None:
    server = session()
    first = envelope(FIRST, 1, BODY)
    assert server.is_fresh(first, NOW)
    server.receive(first, NOW)
    assert not server.is_fresh(first, NOW)
    assert not server.is_fresh(envelope(FIRST + 4, 3, BODY, salt=1), NOW)
    assert not server.is_fresh(envelope(client_id(NOW - 400), 3, BODY), NOW)
    assert server.is_fresh(envelope(FIRST + 4, 3, BODY), NOW)


def test_a_packed_request_comes_out_unpacked() -> None:
    server = session()
    body = BODY + bytes(4000)
    assert server.receive(envelope(FIRST, 1, packed(body)), NOW) == [Request(FIRST, 1, body)]


@pytest.mark.parametrize("body", [packed(bytes(16 << 20)), packed(b"ab"), struct.pack("<I", GZIP_PACKED)])
def test_a_bomb_or_a_broken_packing_is_answered_by_an_error(body: bytes) -> None:
    server = session()
    assert server.receive(envelope(FIRST, 1, body), NOW) == []
    req_msg_id, result = values(server)[-1]
    assert req_msg_id == FIRST
    assert tl.read(result) == mt.RpcError(error_code=400, error_message="INPUT_FETCH_ERROR")


def test_too_many_running_requests_are_answered_by_a_wait() -> None:
    server = session(SessionLimits(max_running_requests=1))
    server.receive(envelope(FIRST, 1, BODY), NOW)
    assert server.receive(envelope(FIRST + 4, 3, BODY), NOW) == []
    _, (req_msg_id, result), _ = values(server)
    assert req_msg_id == FIRST + 4
    assert tl.read(result).error_code == 420
    server.send_result(FIRST, RESULT, NOW)
    assert server.running_requests == 0
    assert server.receive(envelope(FIRST + 8, 5, BODY), NOW) == [Request(FIRST + 8, 5, BODY)]


def test_a_quick_ack_only_for_what_was_taken() -> None:
    server = session()
    taken = envelope(FIRST, 1, BODY)
    token = QuickAck(quick_ack_token(KEY, taken.plaintext))
    assert server.receive(taken, NOW, quick_ack=True)[-1] == token
    assert server.receive(envelope(FIRST + 4, 3, BODY), NOW, quick_ack=False) == [Request(FIRST + 4, 3, BODY)]
    assert server.receive(envelope(FIRST + 8, 5, BODY, salt=0), NOW, quick_ack=True) == []
    assert server.receive(envelope(FIRST + 9, 5, BODY), NOW, quick_ack=True) == []
    assert server.receive(envelope(FIRST + 8, 4, BODY), NOW, quick_ack=True) == []


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.binary(max_size=40)), max_size=20))
def test_authentic_garbage_never_breaks_a_session(junk: list[tuple[int, int, bytes]]) -> None:
    server = session()
    for step, seq_no, tail in junk:
        for constructor in (MSG_CONTAINER, GZIP_PACKED, 0xDA69FB52, 0x62D6B459, 0x8CC0D131, 0x12345678):
            body = struct.pack("<I", constructor) + tail + bytes(-len(tail) % 4)
            server.receive(envelope(FIRST + step, seq_no, body), NOW)
            for payload in server.flush(NOW):
                open_packet(payload)
