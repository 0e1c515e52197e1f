"""Delivery: acknowledgements, repetition over a new connection, bounds, a client that loses connections."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telesrv import tl
from telesrv.mtproto.messages import MSG_CONTAINER, constructor_id
from telesrv.mtproto.session import Event, Request, Session, SessionLimits, parse_envelope
from telesrv.tl import mt
from tests.mtproto.session_client import (
    BODY,
    KEY,
    NOW,
    Client,
    client_id,
    envelope,
    exchange,
    open_packet,
    sent_by,
    session,
    values,
)

FIRST = client_id()
RESULT = b"\x11\x22\x33\x44 an answer.."


def update(number: int) -> bytes:
    return BODY + struct.pack("<I", number)


def started(limits: SessionLimits | None = None) -> Session:
    """Returns a session whose new_session_created was acknowledged."""
    server = session(limits)
    server.receive(envelope(FIRST - 8, 0, tl.write(mt.Ping(ping_id=1))), NOW)
    created = sent_by(server)[0]
    acknowledge(server, [created.msg_id])
    return server


def acknowledge(server: Session, msg_ids: list[int], step: int = -1, now: float = NOW) -> list[Event]:
    return server.receive(
        envelope(client_id(now, step), 0, tl.write(mt.MsgsAck(msg_ids=msg_ids)), now=now), now
    )


# Acknowledgements


def test_an_unanswered_request_is_acknowledged_in_time() -> None:
    server = started()
    server.receive(envelope(FIRST, 1, BODY), NOW)
    assert server.flush(NOW) == []
    due = server.next_wakeup(NOW)
    assert due == NOW + SessionLimits().ack_delay_s
    assert values(server, due) == [mt.MsgsAck(msg_ids=[FIRST])]
    assert server.next_wakeup(due) is None


def test_an_answer_acknowledges_its_request() -> None:
    server = started()
    server.receive(envelope(FIRST, 1, BODY), NOW)
    server.send_result(FIRST, RESULT, NOW)
    assert server.next_wakeup(NOW) == NOW
    assert values(server) == [(FIRST, RESULT)]
    assert server.next_wakeup(NOW) is None


def test_acknowledgements_ride_along() -> None:
    server = started()
    server.receive(envelope(FIRST, 1, BODY), NOW)
    server.receive(envelope(FIRST + 4, 3, BODY), NOW)
    server.send_result(FIRST + 4, RESULT, NOW)
    assert values(server) == [(FIRST + 4, RESULT), mt.MsgsAck(msg_ids=[FIRST])]


def test_what_is_acknowledged_is_awaited_no_more() -> None:
    server = started()
    for number in range(3):
        server.send_update(update(number), NOW)
    ids = [message.msg_id for message in sent_by(server)]
    acknowledge(server, ids[:2], 1)
    assert server.unacknowledged == 1
    acknowledge(server, ids, 2)
    acknowledge(server, ids, 3)
    assert server.unacknowledged == 0


# The form of what is sent


def test_answers_and_pushes_are_content_related_and_rise() -> None:
    server = started()
    server.receive(envelope(FIRST, 1, BODY), NOW)
    server.send_result(FIRST, RESULT, NOW)
    server.send_update(update(1), NOW)
    (payload,) = server.flush(NOW)
    packet = open_packet(payload)
    answer, push = packet.messages
    assert (answer.msg_id % 4, push.msg_id % 4, packet.msg_id % 4) == (1, 3, 3)
    assert answer.msg_id < push.msg_id < packet.msg_id
    assert (answer.seq_no, push.seq_no, packet.seq_no) == (3, 5, 6)


def test_an_error_and_a_large_answer() -> None:
    server = started()
    server.receive(envelope(FIRST, 1, BODY), NOW)
    server.receive(envelope(FIRST + 4, 3, BODY), NOW)
    server.receive(envelope(FIRST + 8, 5, BODY), NOW)
    error = tl.write(mt.RpcError(error_code=400, error_message="PEER_ID_INVALID"))
    server.send_result(FIRST, error, NOW)
    server.send_result(FIRST + 4, RESULT * 1000, NOW)
    noise = random.Random(1).randbytes(4000)
    server.send_result(FIRST + 8, noise, NOW)
    first, packed, plain = sent_by(server)
    assert first.value == (FIRST, error)
    assert packed.value == (FIRST + 4, RESULT * 1000)
    assert plain.value == (FIRST + 8, noise)
    assert len(packed.body) < 1000 < len(plain.body)


def test_containers_have_bounds() -> None:
    server = started()
    for number in range(400):
        server.send_update(update(number) + bytes(400), NOW)
    server.send_update(update(400) + bytes(100_000), NOW)
    server.send_update(update(401), NOW)
    payloads = server.flush(NOW)
    packets = [open_packet(payload) for payload in payloads]
    numbers = [int.from_bytes(m.body[4:8], "little") for p in packets for m in p.messages]
    assert numbers == list(range(402))
    assert all(len(p.body) <= (64 << 10) + 8 or len(p.messages) == 1 for p in packets)
    assert len(packets) == 5
    assert constructor_id(packets[-1].body) != MSG_CONTAINER
    assert [p.msg_id for p in packets] == sorted(p.msg_id for p in packets)


def test_a_container_holds_1020_messages() -> None:
    server = started(SessionLimits(max_updates=2000))
    for number in range(1021):
        server.send_update(update(number), NOW)
    assert [len(open_packet(payload).messages) for payload in server.flush(NOW)] == [1020, 1]


def test_many_acknowledgements_are_split() -> None:
    server = started(SessionLimits(max_received_ids=10_000, max_running_requests=10_000))
    for step in range(5000):
        server.receive(envelope(FIRST + 4 * step, 2 * step + 1, BODY), NOW)
    acks = [value for value in values(server, NOW + 1) if isinstance(value, mt.MsgsAck)]
    assert [len(ack.msg_ids) for ack in acks] == [4096, 904]


# A new connection


def test_what_was_not_acknowledged_is_sent_again_first_and_apart() -> None:
    server = started()
    server.receive(envelope(FIRST, 1, BODY), NOW)
    server.send_update(update(1), NOW)
    server.send_result(FIRST, RESULT, NOW)
    sent = sent_by(server)
    server.connection_lost(NOW)
    assert server.flush(NOW) == []
    assert server.next_wakeup(NOW) is None
    server.send_update(update(2), NOW + 1)
    server.connection_opened(NOW + 2)
    server.receive(envelope(FIRST + 4, 2, tl.write(mt.Ping(ping_id=1)), now=NOW + 2), NOW + 2)
    again, fresh = (open_packet(payload).messages for payload in server.flush(NOW + 2))
    assert again == sent
    assert len(fresh) == 2
    assert fresh[0].body == update(2)
    assert fresh[0].msg_id > sent[-1].msg_id
    assert server.flush(NOW + 3) == []


def test_a_passing_update_is_sent_once_and_never_again() -> None:
    server = started()
    server.send_passing(update(1), NOW)
    server.send_update(update(2), NOW)
    passing, lasting = sent_by(server)
    assert (passing.body, lasting.body) == (update(1), update(2))
    server.send_passing(update(3), NOW)
    server.connection_lost(NOW)
    server.send_passing(update(4), NOW)
    server.connection_opened(NOW)
    assert sent_by(server) == [lasting]
    assert server.unacknowledged == 1
    server.send_passing(update(5), NOW)
    assert [message.body for message in sent_by(server)] == [update(5)]
    server.connection_opened(NOW)  # another link, while the old one still stood
    assert sent_by(server) == [lasting]


def test_a_passing_update_that_was_acknowledged_is_done() -> None:
    server = started()
    server.send_passing(update(1), NOW)
    [sent] = sent_by(server)
    acknowledge(server, [sent.msg_id], 1)
    assert server.unacknowledged == 0


def test_passing_updates_drive_no_lasting_one_out() -> None:
    server = started(SessionLimits(max_updates=3))
    server.send_update(update(0), NOW)
    [lasting] = sent_by(server)
    for number in range(1, 10):
        server.send_passing(update(number), NOW)
        assert [message.body for message in sent_by(server)] == [update(number)]
    assert not server.lost_updates
    server.connection_lost(NOW)
    server.connection_opened(NOW)
    assert sent_by(server) == [lasting]


def test_what_the_first_packet_acknowledges_is_not_sent_again() -> None:
    server = started()
    server.send_update(update(1), NOW)
    server.send_update(update(2), NOW)
    one, two = sent_by(server)
    server.connection_lost(NOW)
    server.connection_opened(NOW)
    acknowledge(server, [one.msg_id], 1)
    assert sent_by(server) == [two]


def test_an_old_message_gets_a_fresh_id() -> None:
    server = started()
    server.send_update(update(1), NOW)
    (old,) = sent_by(server)
    server.connection_lost(NOW)
    server.connection_opened(NOW + 200)
    assert sent_by(server, NOW + 200) == [old]
    server.connection_opened(NOW + 241)
    (new,) = sent_by(server, NOW + 241)
    assert new.body == old.body
    assert new.msg_id >> 32 == int(NOW) + 241
    assert new.seq_no > old.seq_no
    assert server.unacknowledged == 1
    later = NOW + 242
    acknowledge(server, [old.msg_id], 1, later)
    assert server.unacknowledged == 1
    acknowledge(server, [new.msg_id], 2, later)
    assert server.unacknowledged == 0


def test_a_clock_set_back_repeats_no_id() -> None:
    server = started()
    for step in range(3):
        server.send_update(update(step), NOW + 1)
    ids = [m.msg_id for m in sent_by(server, NOW + 1)]
    for step in range(3):
        server.send_update(update(step), NOW + 100)
    ids += [m.msg_id for m in sent_by(server, NOW + 100)]
    for step in range(3):
        server.send_update(update(step), NOW + 1)
    ids += [m.msg_id for m in sent_by(server, NOW + 1)]
    assert len(set(ids)) == 9
    assert server.unacknowledged == 9


def test_pongs_of_a_lost_connection_are_not_sent() -> None:
    server = started()
    server.receive(envelope(FIRST, 0, tl.write(mt.Ping(ping_id=1))), NOW)
    server.connection_lost(NOW)
    server.connection_opened(NOW)
    assert server.flush(NOW) == []


# Bounds


def test_too_many_updates_for_an_absent_client_are_lost_and_said_to_be() -> None:
    server = started(SessionLimits(max_updates=3))
    server.connection_lost(NOW)
    assert all(server.send_update(update(number), NOW) for number in range(3))
    assert not server.lost_updates
    assert not server.send_update(update(3), NOW)
    assert server.lost_updates
    assert not server.send_update(update(4), NOW)
    server.connection_opened(NOW)
    assert server.flush(NOW) == []
    server.lost_updates = False
    assert server.send_update(update(5), NOW)
    assert [m.body for m in sent_by(server)] == [update(5)]


def test_large_updates_are_bounded_by_their_bytes() -> None:
    server = started(SessionLimits(max_update_bytes=1000))
    server.connection_lost(NOW)
    assert server.send_update(update(1) + bytes(600), NOW)
    assert not server.send_update(update(2) + bytes(600), NOW)
    assert server.lost_updates


def test_a_client_that_never_acknowledges_keeps_getting_updates() -> None:
    server = started(SessionLimits(max_updates=3))
    for number in range(10):
        assert server.send_update(update(number), NOW)
        assert [m.body for m in sent_by(server)] == [update(number)]
    assert server.unacknowledged == 3
    assert server.lost_updates  # which counts once it has to come back


def test_updates_of_one_turn_are_not_lost_while_connected() -> None:
    server = started(SessionLimits(max_updates=3))
    for number in range(10):
        server.send_update(update(number), NOW)
    assert [m.body for m in sent_by(server)] == [update(number) for number in range(10)]


def test_dropped_updates_are_gone() -> None:
    server = started()
    server.send_update(update(1), NOW)
    server.flush(NOW)
    server.send_update(update(2), NOW)
    server.drop_updates()
    server.connection_opened(NOW)
    assert server.flush(NOW) == []
    assert server.unacknowledged == 0


def lost_answer(body: bytes) -> Any:
    return tl.read(body) == mt.RpcError(error_code=500, error_message="RPC_CALL_FAIL")


def test_an_answer_that_takes_too_much_room_becomes_an_error() -> None:
    server = started(SessionLimits(max_answer_bytes=3000))
    for step in range(3):
        server.receive(envelope(FIRST + 4 * step, 2 * step + 1, BODY), NOW)
    server.connection_lost(NOW)
    noise = random.Random(1).randbytes(2000)
    for step in range(3):
        server.send_result(FIRST + 4 * step, noise, NOW)
    server.connection_opened(NOW)
    answers = dict(values(server))
    assert lost_answer(answers[FIRST])
    assert lost_answer(answers[FIRST + 4])
    assert answers[FIRST + 8] == noise


def test_a_repeated_request_whose_answer_is_gone_gets_an_error() -> None:
    server = started(SessionLimits(max_answers=2))
    for step in range(3):
        server.receive(envelope(FIRST + 4 * step, 2 * step + 1, BODY), NOW)
        server.send_result(FIRST + 4 * step, RESULT, NOW)
        server.flush(NOW)
    assert server.unacknowledged == 2
    assert server.receive(envelope(FIRST, 1, BODY), NOW) == []
    ((req_msg_id, result),) = values(server)
    assert req_msg_id == FIRST
    assert lost_answer(result)


# Clients


@pytest.mark.parametrize("error_s", [0.0, -1000.0, 1000.0, -1e9, 200.0])
@pytest.mark.parametrize("salt_known", [True, False])
def test_a_client_with_a_wrong_clock_and_salt_recovers(error_s: float, salt_known: bool) -> None:
    server = session()
    client = Client(clock_error_s=error_s, salt=server._salts.current(NOW) if salt_known else 0)
    msg_id = client.call(BODY, NOW)

    def answer(event: Event) -> None:
        if isinstance(event, Request):
            server.send_result(event.msg_id, RESULT, NOW)

    exchange(client, server, NOW, answer)
    assert client.results == {client.final_id(msg_id): [RESULT]}
    assert len(client.errors) <= 1


class World:
    """A client, a server and a connection that breaks; counts what is executed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = NOW
        self.server = session()
        self.client = Client(salt=self.server._salts.current(NOW))
        self.executed: dict[bytes, int] = {}
        self.running: list[int] = []
        self.answers: dict[int, bytes] = {}
        self.calls: list[int] = []
        self.pushed: list[bytes] = []
        self.up = True
        self.wire_in: list[bytes] = []
        self.wire_out: list[bytes] = []

    def call(self) -> None:
        self.calls.append(self.client.call(BODY + struct.pack("<I", len(self.calls)), self.now))

    def push(self) -> None:
        body = update(len(self.pushed))
        self.server.send_update(body, self.now)
        self.pushed.append(body)

    def break_connection(self) -> None:
        """Loses what is under way but for the first packets of each direction."""
        for payload in self.wire_in[: self.random.randint(0, len(self.wire_in))]:
            self.serve(payload)
        for payload in self.wire_out[: self.random.randint(0, len(self.wire_out))]:
            self.client.receive(payload, self.now)
        self.wire_in, self.wire_out = [], []
        self.server.connection_lost(self.now)
        self.up = False

    def connect(self) -> None:
        self.up = True
        self.server.connection_opened(self.now)
        self.client.reconnected()

    def serve(self, payload: bytes) -> None:
        for event in self.server.receive(parse_envelope(KEY, payload), self.now):
            if isinstance(event, Request):
                self.executed[event.body] = self.executed.get(event.body, 0) + 1
                self.running.append(event.msg_id)
                self.answers[event.msg_id] = b"\x11\x22\x33\x44" + event.body

    def finish_one(self) -> None:
        if self.running:
            msg_id = self.running.pop(self.random.randrange(len(self.running)))
            assert self.server.send_result(msg_id, self.answers[msg_id], self.now)

    def carry(self) -> None:
        if self.up:
            self.wire_in += self.client.packets(self.now)
            if self.wire_in:
                self.serve(self.wire_in.pop(0))
            self.wire_out += self.server.flush(self.now)
            if self.wire_out:
                self.client.receive(self.wire_out.pop(0), self.now)

    def settle(self) -> None:
        if self.up:
            self.break_connection()
        self.connect()
        for _ in range(2 * (20 + len(self.calls) + len(self.pushed))):
            self.now += 0.1
            self.finish_one()
            self.carry()


ACTIONS = ("call", "push", "finish_one", "carry", "carry", "carry", "break", "wait")


@given(st.lists(st.sampled_from(ACTIONS), max_size=120), st.integers(0, 2**32))
def test_whatever_breaks_each_request_runs_once_and_everything_arrives(actions: list[str], seed: int) -> None:
    world = World(seed)
    for action in actions:
        world.now += 0.01
        if action == "break":
            if world.up:
                world.break_connection()
            else:
                world.connect()
        elif action == "wait":
            world.now += 30
        else:
            getattr(world, action)()
    world.settle()
    assert world.executed == {BODY + struct.pack("<I", n): 1 for n in range(len(world.calls))}
    for number, msg_id in enumerate(world.calls):
        answers = world.client.results[world.client.final_id(msg_id)]
        assert set(answers) == {b"\x11\x22\x33\x44" + BODY + struct.pack("<I", number)}
    assert set(world.client.updates) == set(world.pushed)
    assert world.server.unacknowledged == 0
    assert world.server.running_requests == 0
    assert not world.server.lost_updates
    if "wait" not in actions:  # nothing grew old, so that no msg_id was replaced
        assert world.client.updates == sorted(set(world.pushed), key=world.pushed.index)
        assert all(len(answers) == 1 for answers in world.client.results.values())
