"""Telethon's own state machine as the peer: its packets are understood, and it accepts ours."""

from __future__ import annotations

import io
import logging
from collections import defaultdict
from typing import Any

import pytest
from telethon.crypto import AuthKey as TelethonKey
from telethon.network import mtprotostate
from telethon.tl import functions, types
from telethon.tl.core import MessageContainer, RpcResult

from telesrv import tl
from telesrv.mtproto.session import Request, Session, SessionLimits, parse_envelope
from telesrv.tl import mt
from telesrv.tl import types as our_types
from tests.mtproto.session_client import KEY, NOW, salts, zeros


class Clock:
    """Telethon's ``time`` module."""

    @staticmethod
    def time() -> float:
        return NOW


class Peer:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mtprotostate, "time", Clock)
        loggers: Any = defaultdict(lambda: logging.getLogger("telethon"))
        self.state = mtprotostate.MTProtoState(TelethonKey(KEY.data), loggers)
        self.server = Session(KEY, self.state.id, salts(), zeros, SessionLimits())

    def send(self, *queries: tuple[Any, bool]) -> tuple[list[int], list[Any]]:
        """Sends queries in one packet, as Telethon's packer does; returns their msg_ids and our events."""
        buffer = io.BytesIO()
        ids = [
            self.state.write_data_as_message(buffer, bytes(query), content_related)
            for query, content_related in queries
        ]
        if len(queries) > 1:
            body = MessageContainer.CONSTRUCTOR_ID.to_bytes(4, "little") + len(queries).to_bytes(4, "little")
            inner = buffer.getvalue()
            buffer = io.BytesIO()
            self.state.write_data_as_message(buffer, body + inner, content_related=False)
        payload = self.state.encrypt_message_data(buffer.getvalue())
        return ids, self.server.receive(parse_envelope(KEY, payload), NOW)

    def receive(self) -> list[Any]:
        """Returns the objects that Telethon makes of our packets."""
        objects = []
        for payload in self.server.flush(NOW):
            message = self.state.decrypt_message_data(payload)
            assert message is not None
            inner = message.obj.messages if isinstance(message.obj, MessageContainer) else [message]
            objects += [m.obj for m in inner]
        return objects


def test_telethon_as_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(monkeypatch)
    config = functions.help.GetConfigRequest()
    (first,), events = peer.send((config, True))
    assert events == []
    (salt,) = peer.receive()
    assert (salt.bad_msg_id, salt.error_code) == (first, 48)
    peer.state.salt = salt.new_server_salt

    (second, ping), events = peer.send((config, True), (functions.PingRequest(5), True))
    request = next(event for event in events if isinstance(event, Request))
    assert (request.msg_id, request.body) == (second, bytes(config))
    answer = tl.write(our_types.JsonString(value="text " * 1000))
    peer.server.send_result(second, answer, NOW)
    created, pong, result = peer.receive()
    assert isinstance(created, types.NewSessionCreated)
    assert (pong.msg_id, pong.ping_id) == (ping, 5)
    assert isinstance(result, RpcResult)
    assert result.req_msg_id == second
    assert result.body == answer

    (third,), _ = peer.send((config, True))
    peer.server.send_result(third, tl.write(mt.RpcError(error_code=400, error_message="X" * 3000)), NOW)
    (result,) = peer.receive()
    assert result.error.error_message == "X" * 3000

    peer.server.send_update(tl.write(our_types.UpdatesTooLong()), NOW)
    (update,) = peer.receive()
    assert isinstance(update, types.UpdatesTooLong)


def test_telethon_sends_a_large_request_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(monkeypatch)
    peer.state.salt = salts().current(NOW)
    large = functions.help.SaveAppLogRequest([types.InputAppEvent(0.0, "x" * 5000, 0, types.JsonNull())])
    (msg_id,), events = peer.send((large, True))
    assert events[-1] == Request(msg_id, 1, bytes(large))


def test_telethon_with_a_wrong_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(monkeypatch)
    peer.state.salt = salts().current(NOW)
    peer.state.time_offset = 4000
    (msg_id,), events = peer.send((functions.help.GetConfigRequest(), True))
    assert events == []
    (payload,) = peer.server.flush(NOW)
    message = peer.state.decrypt_message_data(payload)
    assert (message.obj.bad_msg_id, message.obj.error_code) == (msg_id, 17)
    peer.state.update_time_offset(message.msg_id)
    _, events = peer.send((functions.help.GetConfigRequest(), True))
    assert isinstance(events[-1], Request)
