"""All that a session remembers, in one place, and the few steps that change several parts of it together.

Invariants: a request is *running* from its event to its answer; an answer hangs on its request
(``Received.answer``) until the client acknowledges it; what is answered is not acknowledged besides.

*Spec: Service Messages about Messages*
"""

from __future__ import annotations

from telesrv import tl
from telesrv.mtproto.limits import SessionLimits
from telesrv.mtproto.messages import encode_rpc_result
from telesrv.mtproto.msg_ids import Received, ReceivedWindow
from telesrv.mtproto.outgoing import ANSWER, SERVICE, Outbound, Outgoing
from telesrv.tl import mt


class SessionState:
    """The received messages, the outgoing ones, and the acknowledgements that are still owed."""

    __slots__ = ("acks", "acks_due", "limits", "outbound", "running", "session_id", "window")

    def __init__(self, session_id: int, limits: SessionLimits, min_msg_id: int) -> None:
        self.session_id = session_id
        self.limits = limits
        self.window = ReceivedWindow(limits.max_received_ids, min_msg_id)
        self.outbound = Outbound(limits)
        self.running = 0
        self.acks: dict[int, None] = {}
        self.acks_due = 0.0

    def acknowledge(self, msg_id: int, now: float) -> None:
        """Owes the client a msgs_ack, which goes out with the next packet or after ``ack_delay_s``."""
        if not self.acks:
            self.acks_due = now + self.limits.ack_delay_s
        self.acks[msg_id] = None

    def reply(self, reply: object, req_msg_id: int = 0) -> None:
        """Queues a service message that needs no acknowledgement; it acknowledges what it answers."""
        self.acks.pop(req_msg_id, None)
        self.outbound.add(Outgoing(tl.write(reply), SERVICE, reply=True, content_related=False))

    def refuse(self, msg_id: int, seq_no: int, error_code: int) -> None:
        """Queues a bad_msg_notification."""
        self.reply(mt.BadMsgNotification(bad_msg_id=msg_id, bad_msg_seqno=seq_no, error_code=error_code))

    def start(self, entry: Received) -> None:
        """Notes that a request was given out."""
        entry.running = True
        self.running += 1

    def stop(self, entry: Received) -> None:
        """Notes that a request runs no more."""
        entry.running = False
        self.running -= 1

    def answer(self, msg_id: int, entry: Received, body: bytes) -> None:
        """Queues the rpc_result of a request and keeps the stored answers within their bounds.

        An answer that goes leaves an rpc_error 500 in its place, which makes clients repeat the request.
        """
        self.acks.pop(msg_id, None)
        entry.answered = True
        entry.lost = False
        outbound = self.outbound
        if entry.bare_answer:
            outbound.add(Outgoing(body, SERVICE, reply=True, content_related=False))
            return
        entry.answer = Outgoing(
            encode_rpc_result(msg_id, body), ANSWER, reply=True, content_related=True, req_msg_id=msg_id
        )
        outbound.add(entry.answer)
        for old in outbound.surplus_answers():
            request = self.window.get(old.req_msg_id)
            if request is not None:
                request.lost = True
            self.finish(old)
        for old in outbound.excess_answers():
            outbound.replace_answer(old, encode_rpc_result(old.req_msg_id, _error(500, "RPC_CALL_FAIL")))

    def answer_error(self, msg_id: int, entry: Received, code: int, message: str) -> None:
        """Queues an rpc_error as the answer of a request."""
        self.answer(msg_id, entry, _error(code, message))

    def finish(self, out: Outgoing) -> None:
        """Forgets an outgoing message: acknowledged, dropped, or in the way of a bound."""
        self.outbound.finish(out)
        entry = self.window.get(out.req_msg_id)
        if entry is not None and entry.answer is out:
            entry.answer = None

    def acked(self, msg_ids: list[int]) -> None:
        """Frees what the client has acknowledged; ids that are not known mean nothing."""
        for msg_id in msg_ids:
            out = self.outbound.sent(msg_id)
            if out is not None:
                self.finish(out)


def _error(code: int, message: str) -> bytes:
    return tl.write(mt.RpcError(error_code=code, error_message=message))
