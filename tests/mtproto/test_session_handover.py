"""A session goes on in another process: by its exported state, or by its mark alone after a crash."""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telesrv import tl
from telesrv.mtproto.crypto import AuthKey
from telesrv.mtproto.messages import Message
from telesrv.mtproto.session import (
    DestroyAuthKey,
    Event,
    Request,
    Session,
    SessionLimits,
    parse_envelope,
)
from telesrv.tl import mt
from tests.mtproto.session_client import (
    BODY,
    KEY,
    NOW,
    SESSION_ID,
    Client,
    client_id,
    container,
    envelope,
    exchange,
    open_packet,
    salts,
    sent_by,
    session,
    values,
    zeros,
)
from tests.mtproto.test_session_delivery import ACTIONS, World, started, update

FIRST = client_id()
RESULT = b"\x11\x22\x33\x44 an answer.."
PING = tl.write(mt.Ping(ping_id=7))
FAILED = tl.write(mt.RpcError(error_code=500, error_message="RPC_CALL_FAIL"))
PREFIX_BYTES = 22


def imported(data: bytes, limits: SessionLimits | None = None) -> Session:
    return Session.import_state(KEY, data, salts(), zeros, limits or SessionLimits())


def acknowledge(server: Session, msg_ids: list[int], step: int, seq_no: int = 0) -> list[Event]:
    ack = tl.write(mt.MsgsAck(msg_ids=msg_ids))
    return server.receive(envelope(FIRST + 4 * step, seq_no, ack), NOW)


def moved(server: Session) -> Session:
    """Returns the session as another process has it, connected."""
    taken = imported(server.export_state())
    taken.connection_opened(NOW)
    return taken


# What goes over


def test_everything_that_was_not_acknowledged_goes_out_there() -> None:
    server = started()
    server.receive(envelope(FIRST, 1, BODY), NOW)
    server.receive(envelope(FIRST + 4, 3, BODY), NOW)
    server.send_result(FIRST, RESULT, NOW)
    server.send_update(update(1), NOW)
    sent = [message for message in sent_by(server) if message.seq_no % 2]
    server.send_result(FIRST + 4, RESULT, NOW)
    server.send_update(update(2), NOW)
    other = imported(server.export_state())
    assert not other.connected
    assert other.session_id == SESSION_ID
    assert other.last_received_at == NOW
    assert other.flush(NOW) == []
    other.connection_opened(NOW)
    again, fresh = (open_packet(payload).messages for payload in other.flush(NOW))
    assert again == sent
    assert [message.value for message in fresh[:1]] == [(FIRST + 4, RESULT)]
    assert [message.body for message in fresh[1:]] == [update(2)]
    assert fresh[0].msg_id > again[-1].msg_id
    assert [message.seq_no for message in fresh] == [again[-1].seq_no + 2, again[-1].seq_no + 4]
    acknowledge(other, [m.msg_id for m in again + fresh], 5, 4)
    assert other.unacknowledged == 0


def test_passing_updates_stay_behind() -> None:
    server = started()
    server.send_passing(update(1), NOW)
    server.flush(NOW)
    server.send_passing(update(2), NOW)
    server.send_update(update(3), NOW)
    other = moved(server)
    assert [message.body for message in sent_by(other) if message.seq_no % 2] == [update(3)]


def test_an_exported_session_says_nothing_more() -> None:
    server = started()
    server.send_update(update(1), NOW)
    server.export_state()
    assert not server.connected
    assert server.flush(NOW) == []


def test_when_nobody_took_it_the_session_goes_on() -> None:
    server = started()
    server.send_update(update(1), NOW)
    server.export_state()
    server.connection_opened(NOW)
    assert [message.body for message in sent_by(server)] == [update(1)]


def test_a_repeated_request_gets_its_stored_answer_and_is_not_executed() -> None:
    server = started()
    server.receive(envelope(FIRST, 1, BODY), NOW)
    server.send_result(FIRST, RESULT, NOW)
    (answer,) = sent_by(server)
    other = moved(server)
    assert sent_by(other) == [answer]
    assert other.receive(envelope(FIRST, 1, BODY), NOW) == []
    assert sent_by(other) == [answer]


def test_an_acknowledged_request_stays_known() -> None:
    server = started()
    server.receive(envelope(FIRST, 1, BODY), NOW)
    server.send_result(FIRST, RESULT, NOW)
    (answer,) = sent_by(server)
    acknowledge(server, [answer.msg_id], 1, 2)
    other = moved(server)
    assert other.receive(envelope(FIRST, 1, BODY), NOW) == []
    assert values(other, NOW + 1) == [mt.MsgsAck(msg_ids=[FIRST])]


def test_what_still_runs_is_answered_by_an_error() -> None:
    server = started()
    server.receive(envelope(FIRST, 1, BODY), NOW)
    assert server.running_requests == 1
    other = moved(server)
    assert other.running_requests == 0
    assert not other.send_result(FIRST, RESULT, NOW)
    (answer,) = sent_by(other)
    assert answer.value == (FIRST, FAILED)
    assert other.receive(envelope(FIRST, 1, BODY), NOW) == []
    assert sent_by(other) == [answer]


def test_a_key_that_was_being_destroyed_was_not() -> None:
    server = started()
    destroy = tl.write(mt.DestroyAuthKey())
    assert server.receive(envelope(FIRST, 1, destroy), NOW) == [DestroyAuthKey(FIRST)]
    other = moved(server)
    assert values(other) == [mt.DestroyAuthKeyFail()]


def test_a_lost_answer_stays_lost() -> None:
    server = started(SessionLimits(max_answers=1))
    for step in range(2):
        server.receive(envelope(FIRST + 4 * step, 2 * step + 1, BODY), NOW)
        server.send_result(FIRST + 4 * step, RESULT, NOW)
        server.flush(NOW)
    other = moved(server)
    other.flush(NOW)
    other.receive(envelope(FIRST, 1, BODY), NOW)
    assert values(other) == [(FIRST, FAILED)]


def test_owed_acknowledgements_go_over_and_questions_do_not() -> None:
    server = started()
    server.receive(envelope(FIRST, 0, PING), NOW)
    server.receive(envelope(FIRST + 4, 1, tl.write(mt.MsgsAllInfo(msg_ids=[], info=b""))), NOW)
    other = moved(server)
    assert other.next_wakeup(NOW) == NOW + SessionLimits().ack_delay_s
    assert values(other, NOW + 1) == [mt.MsgsAck(msg_ids=[FIRST + 4])]


def test_a_session_is_announced_once_wherever_it_goes() -> None:
    server = started()
    other = moved(server)
    assert other.receive(envelope(FIRST, 1, BODY), NOW) == [Request(FIRST, 1, BODY)]
    silent = session()
    silent.receive(envelope(FIRST, 1, BODY, salt=5), NOW)  # refused: nothing was taken yet
    other = moved(silent)
    assert other.receive(envelope(FIRST, 1, BODY), NOW) == [Request(FIRST, 1, BODY)]
    assert values(other)[0].first_msg_id == FIRST


def test_an_announcement_that_was_not_acknowledged_is_sent_again_first() -> None:
    server = session()
    server.receive(envelope(FIRST, 1, BODY), NOW)
    server.send_result(FIRST, RESULT, NOW)
    created, answer = values(moved(server))
    assert isinstance(created, mt.NewSessionCreated)
    assert answer == (FIRST, RESULT)


def test_lost_updates_stay_lost() -> None:
    server = started(SessionLimits(max_updates=2))
    for number in range(3):
        server.send_update(update(number), NOW)
    other = imported(server.export_state())
    assert other.lost_updates
    assert not other.send_update(update(3), NOW)
    other.connection_opened(NOW)
    assert other.flush(NOW) == []


def test_the_mark_of_an_earlier_process_goes_over() -> None:
    server = session(min_msg_id=FIRST)
    server.receive(envelope(FIRST + 4, 1, BODY), NOW)
    other = moved(server)
    assert other.highest_msg_id == FIRST + 4
    assert other.receive(envelope(FIRST, 1, BODY), NOW) == []
    assert mt.BadMsgNotification(bad_msg_id=FIRST, bad_msg_seqno=1, error_code=16) in values(other)


# Size


def test_a_session_at_rest_is_small() -> None:
    server = started()
    for step in range(50):
        server.receive(envelope(FIRST + 4 * step, 2 * step + 1, BODY), NOW)
        server.send_result(FIRST + 4 * step, RESULT, NOW)
    acknowledge(server, [message.msg_id for message in sent_by(server)], 100, 100)
    assert len(server.export_state()) < 600


def test_a_full_session_keeps_the_bound() -> None:
    limits = SessionLimits(max_received_ids=100, max_answer_bytes=10_000, max_update_bytes=5_000)
    server = started(limits)
    for step in range(1000):
        server.receive(envelope(FIRST + 4 * step, 2 * step + 1, BODY), NOW)
        server.send_result(FIRST + 4 * step, bytes(100), NOW)
        server.send_update(update(step) + bytes(100), NOW)
        server.flush(NOW)
    server.connection_lost(NOW)
    remembered, messages = 3 * 13 * 1000, 1000 * 26 + 1000 * 50  # errors stand in for answers that had to go
    assert len(server.export_state()) < 10_000 + 5_000 + remembered + messages


# Garbage


def sample() -> bytes:
    server = started()
    server.receive(
        envelope(FIRST + 8, 2, container(Message(FIRST, 1, BODY), Message(FIRST + 4, 3, BODY))), NOW
    )
    server.send_result(FIRST, RESULT, NOW)
    server.send_update(update(1), NOW)
    server.flush(NOW)
    server.send_update(update(2), NOW)
    return server.export_state()


@given(st.binary(min_size=1, max_size=300))
def test_garbage_is_refused(garbage: bytes) -> None:
    for data in (garbage, sample()[:PREFIX_BYTES] + garbage, garbage + sample(), sample() + garbage + b"."):
        with pytest.raises(ValueError, match="exported session"):
            imported(data)


def test_every_flipped_bit_and_every_end_is_refused() -> None:
    good = sample()
    imported(good)
    for at in range(8 * len(good)):
        flipped = bytearray(good)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(ValueError, match="exported session"):
            imported(bytes(flipped))
    for end in range(len(good)):
        with pytest.raises(ValueError, match="exported session"):
            imported(good[:end])


def test_another_version_and_another_key_are_refused() -> None:
    good = sample()
    with pytest.raises(ValueError, match="version 1"):
        imported(good[:4] + struct.pack("<H", 1) + good[6:])
    other = AuthKey(hashlib.sha256(b"another").digest() * 8)
    with pytest.raises(ValueError, match="another key"):
        Session.import_state(other, good, salts(), zeros, SessionLimits())


def sealed(inflated_bytes: int, deflated: bytes, bodies: bytes) -> bytes:
    content = struct.pack("<II", inflated_bytes, len(deflated)) + deflated + bodies
    return sample()[:6] + hashlib.sha256(content).digest()[:16] + content


def opened(data: bytes) -> tuple[bytes, bytes]:
    _, deflated_bytes = struct.unpack_from("<II", data, PREFIX_BYTES)
    at = PREFIX_BYTES + 8
    return zlib.decompress(data[at : at + deflated_bytes]), data[at + deflated_bytes :]


def test_a_bomb_is_refused() -> None:
    _, bodies = opened(sample())
    bomb = zlib.compress(bytes(64 << 20))
    for claim in (64 << 20, 2**32 - 1, 100, 0):
        with pytest.raises(ValueError, match="exported session"):
            imported(sealed(claim, bomb, bodies))


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=8))
def test_what_passes_the_checksum_is_refused_or_a_session(at: int, patch: bytes) -> None:
    meta, bodies = opened(sample())
    at %= len(meta)
    changed = (meta[:at] + patch + meta[at + len(patch) :])[: len(meta)]
    try:
        server = imported(sealed(len(changed), zlib.compress(changed), bodies))
    except ValueError:
        return
    server.connection_opened(NOW)
    server.receive(envelope(FIRST + 400, 101, BODY), NOW)
    server.flush(NOW)
    assert imported(server.export_state()).highest_msg_id == server.highest_msg_id


# The same guarantees, wherever the session is


class MovingWorld(World):
    """Also moves the session from process to process, and looks at every msg_id of the server."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.failed: set[int] = set()
        self.highest = 0
        self.bodies: dict[int, tuple[int, bytes]] = {}

    def move(self) -> None:
        if self.up:
            self.break_connection()
        while self.running and self.random.random() < 0.7:
            self.finish_one()
        self.failed.update(self.running)
        before = self.server
        data = before.export_state()
        self.server = imported(data)
        window, old = self.server._state.window, before._state.window
        assert [i for i, _ in window.entries()] == [i for i, _ in old.entries()]
        assert [e.seq_no for _, e in window.entries()] == [e.seq_no for _, e in old.entries()]
        assert window.containers() == old.containers()
        assert (window.floor, window.highest) == (old.floor, old.highest)
        assert self.server._packer.numbering == before._packer.numbering
        assert self.server.unacknowledged == before.unacknowledged
        if not self.running:
            assert self.server.export_state() == data
        self.running.clear()

    def carry(self) -> None:
        known = len(self.wire_out)
        if self.up:
            self.wire_in += self.client.packets(self.now)
            if self.wire_in:
                self.serve(self.wire_in.pop(0))
            self.wire_out += self.server.flush(self.now)
            for payload in self.wire_out[known:]:
                self.look_at(payload)
            if self.wire_out:
                self.client.receive(self.wire_out.pop(0), self.now)

    def look_at(self, payload: bytes) -> None:
        packet: Any = open_packet(payload)
        for message in packet.messages:
            form = (message.seq_no, message.body)
            if message.msg_id in self.bodies:
                assert self.bodies[message.msg_id] == form
            else:
                assert message.msg_id > self.highest
                self.highest = message.msg_id
            self.bodies[message.msg_id] = form
        self.highest = max(self.highest, packet.msg_id)


@given(st.lists(st.sampled_from((*ACTIONS, "move")), max_size=120), st.integers(0, 2**32))
def test_wherever_it_goes_each_request_runs_once_and_everything_arrives(
    actions: list[str], seed: int
) -> None:
    world = MovingWorld(seed)
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
    for number, call in enumerate(world.calls):
        msg_id = world.client.final_id(call)
        expected = (
            FAILED if msg_id in world.failed else b"\x11\x22\x33\x44" + BODY + struct.pack("<I", number)
        )
        assert set(world.client.results[msg_id]) == {expected}
    assert set(world.client.updates) == set(world.pushed)
    assert world.server.unacknowledged == 0
    assert world.server.running_requests == 0
    assert not world.server.lost_updates
    if "wait" not in actions:  # nothing grew old, so that no msg_id was replaced
        assert world.client.updates == sorted(set(world.pushed), key=world.pushed.index)
        assert all(len(answers) == 1 for answers in world.client.results.values())


# The owner is gone, and only its mark is left


@pytest.mark.parametrize("executed_there", [True, False])
def test_after_a_crash_old_requests_come_under_new_ids_and_new_ones_pass(executed_there: bool) -> None:
    client = Client(salt=salts().current(NOW))
    old = client.call(BODY, NOW)
    (lost,) = client.packets(NOW)
    dead = session()
    dead.receive(parse_envelope(KEY, lost), NOW)
    if executed_there:
        dead.send_result(old, RESULT, NOW)
        dead.flush(NOW)  # on its way when the process died

    server = session(min_msg_id=dead.highest_msg_id)
    executed: list[int] = []

    def answer(event: Event) -> None:
        if isinstance(event, Request):
            executed.append(event.msg_id)
            server.send_result(event.msg_id, RESULT, NOW + 1)

    client.reconnected()
    new = client.call(BODY, NOW + 1)
    exchange(client, server, NOW + 1, answer)
    assert client.errors == [20]
    assert old not in executed
    assert sorted(executed) == [new, client.final_id(old)]
    assert client.results == {new: [RESULT], client.final_id(old): [RESULT]}
    # The packet that the dead process took, captured and replayed, does nothing.
    assert not server.is_fresh(parse_envelope(KEY, lost), NOW + 1)
    assert server.receive(parse_envelope(KEY, lost), NOW + 1) == []


def test_after_a_crash_the_state_of_old_messages_is_unknown() -> None:
    # Upon which TDLib and Telegram Desktop send them anew.
    server = session(min_msg_id=FIRST + 8)
    asked = tl.write(mt.MsgsStateReq(msg_ids=[FIRST, FIRST + 8]))
    server.receive(envelope(FIRST + 12, 1, asked), NOW)
    assert values(server)[-1] == mt.MsgsStateInfo(req_msg_id=FIRST + 12, info=b"\x01\x01")
