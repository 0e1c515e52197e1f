"""What a session tells its owner: the events of ``Session.receive``."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Request:
    """An RPC query to execute, given out exactly once; answer it by ``Session.send_result``.

    ``body`` is raw TL (inflated when it came packed), wrappers such as invokeAfterMsg included: the msg_ids
    they name are those of earlier ``Request`` events of the session.
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
class DropAnswer:
    """The client no longer wants the answer to the running request ``req_msg_id`` and gets none.

    ``msg_id`` is the message that asked for it. A result that is sent nevertheless goes nowhere.
    """

    req_msg_id: int
    msg_id: int


@dataclass(slots=True)
class DestroyAuthKey:
    """The client wants its key destroyed; answer by ``Session.answer_destroy_auth_key``."""

    msg_id: int


@dataclass(slots=True)
class PingDelayDisconnect:
    """The connection closes unless the client is heard of within ``delay_s``; the pong is queued already."""

    delay_s: int


@dataclass(slots=True)
class NewSession:
    """The first messages of the session were taken; ``first_msg_id`` is the lowest of them."""

    first_msg_id: int


@dataclass(slots=True)
class Acked:
    """The client has ``count`` more messages of ours; ``tokens`` are those given to ``send_update``."""

    count: int
    size_bytes: int
    tokens: list[object] = field(default_factory=list)


@dataclass(slots=True)
class QuickAck:
    """The packet was taken and its sender asked for a quick acknowledgement with this token."""

    token: int


Event = (
    Request
    | DestroySession
    | DropAnswer
    | DestroyAuthKey
    | PingDelayDisconnect
    | NewSession
    | Acked
    | QuickAck
)
