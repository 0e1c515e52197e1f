"""Service messages: what each is answered with, and what a client finds out about its messages."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from telesrv import tl
from telesrv.mtproto.messages import Message
from telesrv.mtproto.session import (
    DestroyAuthKey,
    DestroySession,
    PingDelayDisconnect,
    Session,
)
from telesrv.tl import mt
from tests.mtproto.session_client import (
    BODY,
    NOW,
    SESSION_ID,
    client_id,
    container,
    envelope,
    salts,
    sent_by,
    session,
    values,
)

FIRST = client_id()
RESULT = b"\x11\x22\x33\x44 an answer.."


class Asker:
    """A session that already had its first message, and a client that numbers rightly."""

    def __init__(self) -> None:
        self.server: Session = session()
        self.content = 0
        self.step = 0
        self.ask(mt.Ping(ping_id=0), odd=False)
        self.answers()
        self.server.drop_updates()

    def send(self, body: bytes, *, odd: bool = True) -> int:
        self.step += 1
        self.msg_id = FIRST + 4 * self.step
        seq_no = 2 * self.content + odd
        self.content += odd
        self.events = self.server.receive(envelope(self.msg_id, seq_no, body), NOW)
        return self.msg_id

    def ask(self, query: object, *, odd: bool = True) -> int:
        return self.send(tl.write(query), odd=odd)

    def answers(self) -> list[Any]:
        return values(self.server)


@pytest.fixture
def asker() -> Asker:
    return Asker()


@pytest.mark.parametrize("odd", [True, False])
def test_ping(asker: Asker, odd: bool) -> None:
    msg_id = asker.ask(mt.Ping(ping_id=-9), odd=odd)
    (pong,) = sent_by(asker.server)
    assert pong.value == mt.Pong(msg_id=msg_id, ping_id=-9)
    assert (pong.msg_id % 4, pong.seq_no % 2) == (1, 0)


@pytest.mark.parametrize("odd", [True, False])
def test_ping_delay_disconnect(asker: Asker, odd: bool) -> None:
    msg_id = asker.ask(mt.PingDelayDisconnect(ping_id=3, disconnect_delay=75), odd=odd)
    assert asker.events == [PingDelayDisconnect(75)]
    assert asker.answers() == [mt.Pong(msg_id=msg_id, ping_id=3)]


@pytest.mark.parametrize("num", [1, 64])
def test_get_future_salts(asker: Asker, num: int) -> None:
    msg_id = asker.ask(mt.GetFutureSalts(num=num))
    (answer,) = asker.answers()
    assert answer == mt.FutureSalts(req_msg_id=msg_id, now=int(NOW), salts=salts().future(NOW, num))


def test_http_wait_is_passed_over(asker: Asker) -> None:
    asker.ask(mt.HttpWait(max_delay=0, wait_after=0, max_wait=25000), odd=False)
    assert asker.events == []
    assert asker.answers() == []


def test_states_of_messages(asker: Asker) -> None:
    running = asker.send(BODY)
    answered = asker.send(BODY)
    asker.server.send_result(answered, RESULT, NOW)
    asker.answers()  # sends the acknowledgement of the running one
    fresh = asker.send(BODY)
    ping = asker.ask(mt.Ping(ping_id=0), odd=False)
    box = FIRST + 4000
    asker.server.receive(
        envelope(box, 100, container(Message(box - 4, 100, tl.write(mt.Ping(ping_id=1))))), NOW
    )
    asker.answers()
    asker.step = 1001
    asker.content = 60
    fresh = asker.send(BODY)
    asked = [running, answered, fresh, ping, box, FIRST + 100 * 4, 5, client_id(NOW + 20)]
    msg_id = asker.ask(mt.MsgsStateReq(msg_ids=asked))
    (answer,) = asker.answers()
    assert answer == mt.MsgsStateInfo(
        req_msg_id=msg_id,
        info=bytes(
            [
                4 | 8 | 32,
                4 | 8 | 32 | 64,
                4 | 32,
                4 | 8 | 16,
                4 | 8 | 16,
                2,
                2,
                3,
            ]
        ),
    )


def test_a_state_acknowledges(asker: Asker) -> None:
    running = asker.send(BODY)
    asker.ask(mt.MsgsStateReq(msg_ids=[running]))
    assert [type(answer) for answer in asker.answers()] == [mt.MsgsStateInfo]
    assert asker.server.next_wakeup(NOW) is None


def test_messages_below_the_mark_are_unknown() -> None:
    server = session(min_msg_id=FIRST)
    server.receive(envelope(FIRST + 4, 1, tl.write(mt.MsgsStateReq(msg_ids=[FIRST - 8, FIRST]))), NOW)
    answer = values(server)[-1]
    assert answer.info == b"\x01\x01"


def test_resend_on_request(asker: Asker) -> None:
    asker.server.send_update(BODY + b"one.", NOW)
    asker.server.send_update(BODY + b"two.", NOW)
    one, two = sent_by(asker.server)
    asker.ask(mt.MsgResendReq(msg_ids=[two.msg_id]), odd=False)
    assert sent_by(asker.server) == [two]
    msg_id = asker.ask(mt.MsgResendReq(msg_ids=[one.msg_id, 99, one.msg_id]), odd=False)
    again, states = sent_by(asker.server)
    assert again == one
    assert states.value == mt.MsgsStateInfo(req_msg_id=msg_id, info=b"\x04\x01\x04")


def test_what_a_client_volunteers_is_believed(asker: Asker) -> None:
    asker.server.send_update(BODY + b"one.", NOW)
    asker.server.send_update(BODY + b"two.", NOW)
    one, two = sent_by(asker.server)
    asker.ask(mt.MsgsAllInfo(msg_ids=[one.msg_id, two.msg_id, 7], info=b"\x04\x02\x04"), odd=False)
    assert sent_by(asker.server) == [two]
    asker.server.connection_opened(NOW)
    assert one not in sent_by(asker.server)


def test_drop_a_running_request(asker: Asker) -> None:
    running = asker.send(BODY)
    drop = asker.ask(mt.RpcDropAnswer(req_msg_id=running))
    assert asker.events == []
    (req_msg_id, result), ack = asker.answers()
    assert (req_msg_id, tl.read(result)) == (drop, mt.RpcAnswerDroppedRunning())
    assert ack == mt.MsgsAck(msg_ids=[running])
    assert not asker.server.send_result(running, RESULT, NOW)
    assert asker.answers() == []
    assert asker.server.running_requests == 0


def test_drop_an_answer(asker: Asker) -> None:
    request = asker.send(BODY)
    asker.server.send_result(request, RESULT, NOW)
    (answer,) = sent_by(asker.server)
    drop = asker.ask(mt.RpcDropAnswer(req_msg_id=request))
    assert asker.events == []
    ((req_msg_id, result),) = asker.answers()
    assert (req_msg_id, tl.read(result)) == (
        drop,
        mt.RpcAnswerDropped(msg_id=answer.msg_id, seq_no=answer.seq_no, bytes=len(answer.body)),
    )
    asker.server.connection_opened(NOW)
    assert answer not in sent_by(asker.server)


@pytest.mark.parametrize("known", [True, False])
def test_drop_what_is_unknown_or_acknowledged(asker: Asker, known: bool) -> None:
    request = 12
    if known:
        request = asker.send(BODY)
        asker.server.send_result(request, RESULT, NOW)
        (answer,) = sent_by(asker.server)
        asker.ask(mt.MsgsAck(msg_ids=[answer.msg_id]), odd=False)
    asker.ask(mt.RpcDropAnswer(req_msg_id=request))
    ((_, result),) = asker.answers()
    assert tl.read(result) == mt.RpcAnswerUnknown()


@pytest.mark.parametrize("destroyed", [True, False])
def test_destroy_another_session(asker: Asker, destroyed: bool) -> None:
    msg_id = asker.ask(mt.DestroySession(session_id=77))
    assert asker.events == [DestroySession(77, msg_id)]
    asker.server.answer_destroy_session(msg_id, 77, destroyed, NOW)
    expected = mt.DestroySessionOk if destroyed else mt.DestroySessionNone
    assert asker.answers() == [expected(session_id=77)]
    # Its answer may have been lost, or never have been made.
    again = envelope(msg_id, 2 * asker.content - 1, tl.write(mt.DestroySession(session_id=77)))
    assert asker.server.receive(again, NOW) == [DestroySession(77, msg_id)]


def test_a_session_does_not_destroy_itself(asker: Asker) -> None:
    asker.ask(mt.DestroySession(session_id=SESSION_ID))
    assert asker.events == []
    assert asker.answers() == [mt.DestroySessionNone(session_id=SESSION_ID)]


@pytest.mark.parametrize("destroyed", [True, False])
def test_destroy_the_auth_key(asker: Asker, destroyed: bool) -> None:
    msg_id = asker.ask(mt.DestroyAuthKey())
    assert asker.events == [DestroyAuthKey(msg_id)]
    asker.server.answer_destroy_auth_key(msg_id, destroyed, NOW)
    assert asker.answers() == [mt.DestroyAuthKeyOk() if destroyed else mt.DestroyAuthKeyFail()]
    assert asker.server.running_requests == 0


@pytest.mark.parametrize(
    "query",
    [
        mt.Ping(ping_id=1),
        mt.PingDelayDisconnect(ping_id=1, disconnect_delay=7),
        mt.GetFutureSalts(num=32),
        mt.MsgsStateReq(msg_ids=[1, 2]),
    ],
)
def test_a_repeated_question_is_answered_again(asker: Asker, query: object) -> None:
    packet = envelope(FIRST + 4000, 7, tl.write(query))
    asker.server.receive(packet, NOW)
    answers = asker.answers()
    asker.server.receive(packet, NOW)
    assert asker.answers() == answers


@pytest.mark.parametrize("odd", [True, False])
def test_a_malformed_service_message_is_answered_if_it_wants_an_answer(asker: Asker, odd: bool) -> None:
    msg_id = asker.send(struct.pack("<III", 0xDA69FB52, 0x1CB5C415, 0xFFFF), odd=odd)
    answers = asker.answers()
    if odd:
        ((req_msg_id, result),) = answers
        assert req_msg_id == msg_id
        assert tl.read(result).error_code == 400
    else:
        assert answers == []


@pytest.mark.parametrize(
    "told",
    [
        mt.MsgsStateInfo(req_msg_id=1, info=b"\x01"),
        mt.MsgDetailedInfo(msg_id=1, answer_msg_id=2, bytes=3, status=0),
        mt.MsgNewDetailedInfo(answer_msg_id=2, bytes=3, status=0),
        mt.BadMsgNotification(bad_msg_id=1, bad_msg_seqno=1, error_code=16),
        mt.BadServerSalt(bad_msg_id=1, bad_msg_seqno=1, error_code=48, new_server_salt=1),
    ],
)
def test_what_nobody_asked_for_is_passed_over(asker: Asker, told: object) -> None:
    asker.ask(told, odd=False)
    assert asker.events == []
    assert asker.answers() == []
