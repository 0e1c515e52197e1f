"""What a session tells its owner: the events of ``Session.receive``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Request:
    """An RPC query to execute, given out exactly once; answer it by ``Session.send_result``.

    ``body`` is raw TL (inflated when it came packed), wrappers such as invokeAfterMsg included: the msg_ids
    they name are those of earlier ``Request`` events of the session. When the client drops the answer
    meanwhile (rpc_drop_answer), a result that is sent goes nowhere.
    """

    msg_id: int
    seq_no: int
    body: bytes


@dataclass(slots=True)
class DestroySession:
    """The client wants another of its sessions forgotten; answer by ``Session.answer_destroy_session``."""

    session_id: int
    req_msg_id: int


@dataclass(slots=True)
class DestroyAuthKey:
    """The client wants its key destroyed; answer by ``Session.answer_destroy_auth_key``."""

    msg_id: int


@dataclass(slots=True)
class PingDelayDisconnect:
    """The connection closes unless the client is heard of within ``delay_s``; the pong is queued already."""

    delay_s: int


@dataclass(slots=True)
class QuickAck:
    """The packet was taken and its sender asked for a quick acknowledgement with this token."""

    token: int


Event = Request | DestroySession | DestroyAuthKey | PingDelayDisconnect | QuickAck
